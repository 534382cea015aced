"""How the estimates hang on what they were made from."""

from __future__ import annotations

from spookid.kernels.arrays import Array
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Influence:
    """First-order changes of the estimates with data and settings.

    The last axis is that of the free parameters (n_p); parameters that the data do not determine have NaN, those held
    at a bound 0. Gauss–Newton's approximation: exact where the residuals are small or the model is nearly linear.
    """

    observations: tuple[Array, ...]
    """Per recording ∂θ/∂y [1/unit of the signal], (N, n_o, n_p); 0 where a sample is missing."""
    state_weight: Array
    """∂θ/∂κ, (n_p,); 0 if κ is infinite."""
    step: Array
    """∂θ/∂h [1/s] with the samples as they are, (n_p,): what an error of the recordings' clock does."""
    step_error: Array
    """What steps of h instead of 0 add to the estimates, to leading order (see ``step_errors``), (n_p,); NaN where
    it is not known."""
    fixed_names: tuple[str, ...]
    """Parameters that the user fixed."""
    fixed: Array
    """∂θ/∂(fixed parameter), (n_fixed, n_p); NaN where a fixed parameter stands in the geometry of rigid joints."""
    edges: tuple[Array, ...]
    """Per recording, where its stretches begin and the last one ends [s], (W + 1,)."""
    stretches: tuple[Array, ...]
    """Per recording, how the estimates would change if the samples of a stretch were missing, (W, n_p); NaN if all
    hangs on them."""

    def __repr__(self) -> str:
        stretches = sum(len(one) for one in self.stretches)
        return f"<Influence of {stretches} stretches of recordings on {self.step.size} parameters>"
