"""What settings of a fit come to: the one place that compares their words."""

from __future__ import annotations

from typing import TYPE_CHECKING


class DynamicsAndFriction:
    """Of whatever has ``dynamics`` ("estimated", "hard" or "weight") and a form of ``friction``."""

    if TYPE_CHECKING:

        @property
        def dynamics(self) -> str: ...

        @property
        def friction(self) -> str: ...

    @property
    def estimates_noise(self) -> bool:
        """True if the sizes of the noise are estimated with the parameters."""
        return self.dynamics == "estimated"

    @property
    def is_weighted(self) -> bool:
        """True if the equations of motion have a given weight."""
        return self.dynamics == "weight"

    @property
    def holds_dynamics(self) -> bool:
        """True if that weight is infinite."""
        return self.dynamics == "hard"

    @property
    def rubs_smoothly(self) -> bool:
        """True if dry friction is a smooth law, so that what sticks creeps."""
        return self.friction == "smooth"

    @property
    def sticks_exactly(self) -> bool:
        """True if what sticks stands still, by a law of equations."""
        return self.friction == "exact"


class Estimator:
    """Of whatever has an ``estimator`` ("noise", "hard" or "auto")."""

    if TYPE_CHECKING:

        @property
        def estimator(self) -> str: ...

    @property
    def is_hard(self) -> bool:
        """True if the motion is taken for undisturbed."""
        return self.estimator == "hard"

    @property
    def chooses_estimator(self) -> bool:
        """True if the data choose between the two."""
        return self.estimator == "auto"
