"""What fits take for unknowns at each step: positions alone, of which velocities are differences, or both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.kernels.arrays import Array
from spookid.mechanics.kinematics import central
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.stepping.base import Scheme
from spookid.stepping.impulses import Settings, Window


class PositionScheme(Scheme):
    """A scheme of positions alone, by default the poses of all bodies."""

    order: ClassVar[int] = 2

    def moving(self, model: Model, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
        """The motion of all bodies.

        Args:
            x: unknowns of one step.
            s, a: rates and accelerations of its coordinates, (n,), of which so many as ``order`` are asked for.
        """
        return Motion(self.configuration(model, x), s, a)

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Rates are means of both sides, accelerations their difference, over three steps."""
        x, motion = self._three(model), self.motion(model)
        if order == 0:
            still = ca.SX(motion.tangent, 1)
            return Window({0: x[1]}, self.moving(model, x[1], still, still, 0))
        moved = middle(*sides(motion, x, settings.step), settings.step)
        return Window(dict(enumerate(x)), self.moving(model, x[1], *moved, order))

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        """The rate at the first step is that of a parabola through three, as in the states of results; no
        accelerations."""
        if order != 1:
            return None if order else self.window(model, settings, 0)
        x, motion = self._three(model), self.motion(model)
        near, far = sides(motion, x, settings.step)
        return Window(dict(enumerate(x)), self.moving(model, x[0], (3 * near - far) / 2, ca.SX(motion.tangent, 1), 1))

    def _three(self, model: Model) -> list[ca.SX]:
        """Symbols of the unknowns at three steps."""
        return [ca.SX.sym(f"x_{i}", self.manifold(model).ambient) for i in range(3)]

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """v_k is the mean of both sides, extrapolated at the ends."""
        return np.hstack([poses, central(poses, step)])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """The unknowns as they are, but for reactions, which solvers fit at every point."""
        return unknowns

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Weighted by a hat over [t_{k−1}, t_{k+1}] at each inner step, (N − 2, n_u)."""
        return hats(mean, late)[1:]


class StateScheme(Scheme):
    """A scheme of poses and velocities of all bodies."""

    backward: ClassVar[bool] = False
    """True if v is that of the interval before, so that (v₊ − v)/h is the acceleration at q."""

    def motion(self, model: Model) -> Manifold:
        """That of the states."""
        return model.state

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Velocities are unknowns; accelerations are their differences."""
        n, m, h = model.configuration.ambient, model.state.ambient, settings.step
        before, x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x_before", "x", "x_after"))
        if order < 2:
            return Window({0: x}, Motion(x[:n], x[n:m], ca.SX(m - n, 1)))
        if self.backward:
            return Window({0: x, 1: after}, Motion(x[:n], x[n:m], (after[n:m] - x[n:m]) / h))
        return Window({0: before, 1: x, 2: after}, Motion(x[:n], x[n:m], (after[n:m] - before[n:m]) / (2 * h)))

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """The first of the unknowns."""
        return unknowns[:, : model.state.ambient]


def sides(motion: Manifold, x: Sequence[ca.SX], step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Rates on both sides of the middle of three steps, (n,) each, whose unknowns x begin with places in ``motion``."""
    before, after = (motion.difference(b, a) / step for a, b in pairwise([one[: motion.ambient] for one in x]))
    return before, after


def middle(before: ca.SX, after: ca.SX, step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Rates and accelerations from the rates on both sides."""
    return (before + after) / 2, (after - before) / step


def hats(mean: Array, late: Array) -> Array:
    """Means weighted by a hat over [t_{k−1}, t_{k+1}], over the half that there is at the first step, (N − 1, n_u).

    Args:
        mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
    """
    return np.vstack([2 * (mean - late)[:1], late[:-1] + (mean - late)[1:]])
