"""What settings of a fit come to: the one place that compares their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

AUTO: Literal["auto"] = "auto"
"""As `state_weight` the same as None: the noise is estimated."""
BACKENDS = ("lm", "riccati", "ipopt")
FRICTIONS = ("smooth", "exact", "mpcc")
CHOICES = {"friction": FRICTIONS, "estimator": (AUTO, "noise", "hard")}
"""Settings that are words, and those that they may be."""
Dynamics = Literal["estimated", "hard", "weight"]
"""How the equations of motion are weighted: by estimated noise, as deterministic dynamics, or by a given number."""
DYNAMICS: tuple[Dynamics, ...] = get_args(Dynamics)


class DynamicsAndFriction:
    """Mixin of classes with the attribute ``dynamics`` ("estimated", "hard" or "weight") and a form of ``friction``."""

    if TYPE_CHECKING:

        @property
        def dynamics(self) -> str: ...

        @property
        def friction(self) -> str: ...

    @property
    def estimates_noise(self) -> bool:
        """True if noise standard deviations are estimated with the parameters."""
        return self.dynamics == "estimated"

    @property
    def is_weighted(self) -> bool:
        """True if the weight of the equations of motion is given."""
        return self.dynamics == "weight"

    @property
    def holds_dynamics(self) -> bool:
        """True if the given weight of the equations of motion is infinite (deterministic dynamics)."""
        return self.dynamics == "hard"

    @property
    def rubs_smoothly(self) -> bool:
        """True if dry friction is a smooth function of the velocity, so that sticking joints creep."""
        return self.friction == "smooth"

    @property
    def sticks_exactly(self) -> bool:
        """True if sticking joints are exactly at rest, computed with an active set."""
        return self.friction == "exact"

    @property
    def sticks_in_pairs(self) -> bool:
        """True if dry friction is formulated by complementarity conditions."""
        return self.friction == "mpcc"


class Estimator:
    """Mixin of classes with the attribute ``estimator`` ("noise", "hard" or "auto")."""

    if TYPE_CHECKING:

        @property
        def estimator(self) -> str: ...

    @property
    def is_hard(self) -> bool:
        """True for deterministic dynamics, without process noise."""
        return self.estimator == "hard"

    @property
    def chooses_estimator(self) -> bool:
        """True if the estimator is chosen from the data."""
        return self.estimator == AUTO
