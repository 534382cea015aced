"""The measured releases of ``pendulum_free_swing.py`` as Marklund, Servin and Larson would fit them: a state weight κ.

The rod weighs 12 g, so its impulses are small and the weight must be large: with 1e8 part of the dry friction still
hides in the state errors, with 1e4 the fit follows the noise. Samples are those at the steps, as theirs are.
"""

from pathlib import Path

from spookid import Spook, load_problem

releases = Path(__file__).with_name("pendulum_free_swing.py")
problems = {
    name: load_problem(f"{releases}::{name}").with_(name=f"paper_{name}", state_weight=1e10, stepper=Spook(), every=1)
    for name in ("01_dry", "02_dry", "03_dry")
}
