"""What a user writes of a joint must fit together: its transform leads to where its rows and its position say it is."""

from __future__ import annotations

from typing import Protocol

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, evaluating
from spookid.kernels.kernel import Array
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.moving import MovingFrame
from spookid.parameter import parameters_in, substitute

_THERE = Body("there", mass=1, inertia=(1, 1, 1))
"""Of frame b, whatever body the joint holds."""
_APART = 1e-8
"""Largest violation, and difference of positions, that is rounding."""


class Written(Protocol):
    """What a kind of joint is; see ``Joint``."""

    @property
    def manifold(self) -> Manifold:
        """Of its position."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Of its rows."""

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """On its manifold."""

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Of frame b in frame a."""


def check_joint(joint: Written, what: str) -> None:
    """Refuse a joint whose methods fail, have other sizes than they must, or contradict each other.

    Raises:
        ProblemError: with ``what`` at the beginning.
    """
    size = joint.manifold.ambient
    with evaluating(what):
        violation, position, there = _evaluated(joint)
    for name, found, wanted in (("violation", violation, joint.rows), ("position", position, size)):
        if found.size != wanted:
            raise ProblemError(f"{what}: {name} has {found.size} values; it needs {wanted}")
    if np.max(np.abs(violation), initial=0.0) > _APART:
        raise ProblemError(
            f"{what}: where its transform leads, its violation is {np.max(np.abs(violation)):.3g}, not 0"
        )
    if min(np.max(np.abs(position - sign * there), initial=0.0) for sign in _signs(joint)) > _APART:
        raise ProblemError(f"{what}: its transform of the position {there} leads to the position {position}")


def _evaluated(joint: Written) -> tuple[Array, Array, Array]:
    """Violation and position where the transform of some position leads, and that position."""
    there = np.concatenate([_some(kind, size) for kind, size in joint.manifold.parts] or [np.zeros(0)])
    translation, quaternion = joint.transform(ca.SX(ca.DM(there)))
    axes, origin, still = ca.SX.eye(3), ca.SX(3, 1), ca.SX(3, 1)
    a = MovingFrame.grounded(Frame(GROUND, origin, axes))
    b = MovingFrame(Frame(_THERE, origin, axes), ca.SX(translation), ca.SX(quaternion), still, still)
    found = [ca.densify(ca.vec(ca.SX(part))) for part in (joint.violation(a, b), joint.position(a, b))]
    guesses = {p.name: p.guess for p in parameters_in(found, "the joint")}
    violation, position = (np.atleast_1d(substitute(part, guesses)) if part.numel() else np.zeros(0) for part in found)
    return violation, position, there


def _some(kind: str, size: int) -> Array:
    """A point that is no special one."""
    point = np.linspace(0.4, 0.2, size)
    return point if kind == "flat" else point / np.linalg.norm(point)


def _signs(joint: Written) -> tuple[float, ...]:
    """A quaternion and its negative are one rotation."""
    return (1.0, -1.0) if any(kind == "rotation" for kind, _ in joint.manifold.parts) else (1.0,)
