"""The measured releases of ``pendulum_free_swing.py``, fitted as by Marklund, Servin and Larson with a given κ.

The rod weighs 12 g, so that its impulses are small and κ must be large. With 1e8, the state errors still absorb part
of the dry friction. With 1e4, the fit follows the measurement noise. As in the paper, only samples at the steps
count.
"""

from pathlib import Path

from spookid import Spook, load_problem

releases = Path(__file__).with_name("pendulum_free_swing.py")
problems = {
    name: load_problem(f"{releases}::{name}").with_(name=f"paper_{name}", state_weight=1e10, stepper=Spook(), every=1)
    for name in ("01_dry", "02_dry", "03_dry")
}
