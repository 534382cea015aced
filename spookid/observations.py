"""Sensors: what a measured signal says about the state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import casadi as ca

from spookid.errors import ProblemError, declared_at
from spookid.factor import Factor, Group
from spookid.joints import Hinge
from spookid.manifold import Manifold
from spookid.model import Model


@dataclass(frozen=True, eq=False)
class HingeAngle:
    """The angle of a hinge [rad], measured by an encoder; wrapped or multi-turn, residuals are modulo 2π.

    Raises:
        ProblemError: if ``hinge`` is no hinge or ``sigma`` is not positive.
    """

    hinge: Hinge
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float = 1.0
    """Standard deviation of its noise [rad]; its residual is divided by it."""
    place: str = field(default_factory=declared_at, repr=False)

    period = 2 * math.pi
    """The signal's period [rad]."""

    def __post_init__(self) -> None:
        if not isinstance(self.hinge, Hinge):
            raise ProblemError(f"{self.place}: HingeAngle observes {self.hinge!r}, which is no Hinge")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ProblemError(
                f"{self.place}: HingeAngle of {self.signal!r} has sigma {self.sigma}; it must be positive"
            )

    def predicted(self, model: Model, x: ca.SX) -> ca.SX:
        """The angle in (−π, π] at state ``x``."""
        q = x[: model.configuration.ambient]
        return model.mechanics(q).angle[model.joints.index(self.hinge)]


def observation_factor(model: Model, manifold: Manifold, observations: Sequence[HingeAngle]) -> Factor:
    """All observations of one step: (predicted − measured)/σ, angles the short way round (Δy, equation 3.6).

    The step's data are the measured values followed by a mask, 1 where there is a sample and 0 where it is missing.
    """
    n = len(observations)
    x, data = ca.SX.sym("x", manifold.ambient), ca.SX.sym("y", 2 * n)
    rows = []
    for i, observation in enumerate(observations):
        error = observation.predicted(model, x) - data[i]
        rows.append(data[n + i] * ca.atan2(ca.sin(error), ca.cos(error)) / observation.sigma)
    return Factor(
        "observation",
        Group.OBSERVATION,
        ca.vertcat(*rows),
        {0: x},
        data,
        tuple(f"observation of {observation.signal}" for observation in observations),
    )
