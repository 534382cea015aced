"""The variational step with velocities among the unknowns, for a likelihood with constraints on velocities.

These link a step with the next, and so do the rows of positions alone over three steps; with v of the interval before
t_k as an unknown beside q_k all rows are between two neighbours,

    M (v_{k+1} − v_k) = Gᵀλ + Ḡᵀτ + h (f + f_g)(q_k, (v_k + v_{k+1})/2) + random,
    q_{k+1} = q_k ⊞ h v_{k+1},    g(q_{k+1}) = 0,    A(q_k ⊞ h v_{k+1}/2) v_{k+1} = γ.

The motion is that of ``variational``. The velocity before the first step is free but for its constraints, so that the
first impulse says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.kernels.kernel import Array
from spookid.mechanics.kinematics import central
from spookid.mechanics.model import Model
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Window
from spookid.stepping.one_step import Equations, OneStep, Step
from spookid.stepping.unknowns import hats


@dataclass(frozen=True, repr=False)
class Leapfrog(OneStep):
    """See ``OneStep`` for the unknowns."""

    name = "variational"
    order: ClassVar[int] = 2
    lags: ClassVar[bool] = True
    estimates: bool = True
    law: DryFriction = field(default=DryFriction(), repr=False)

    def equations(self, step: Step) -> Equations:
        """As above."""
        impulse = step.impulse(step.q, (step.v + step.v_next) / 2)
        moved = step.minus(step.q_next, step.q) / step.h - step.v_next
        return Equations(impulse, ca.vertcat(moved, step.violation(step.q_next) / step.h))

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Velocities at t_k are means of both sides, accelerations their difference."""
        size, n, m = self.manifold(model).ambient, model.configuration.ambient, model.state.ambient
        x, after = ca.SX.sym("x", size), ca.SX.sym("x_after", size)
        if order == 0:
            still = ca.SX(m - n, 1)
            return Window({0: x}, Motion(x[:n], still, still))
        v, v_next = x[n:m], after[n:m]
        return Window({0: x, 1: after}, Motion(x[:n], (v + v_next) / 2, (v_next - v) / settings.step))

    def around(
        self, model: Model, settings: Settings, order: int
    ) -> tuple[dict[int, ca.SX], tuple[Motion, Motion, Motion]]:
        """The velocity of the interval before t_k leads back to t_{k−1}; the acceleration is that at t_k."""
        here = self.window(model, settings, max(order, 1))
        q, v, a = here.motion.parts
        x, after = here.variables.values()
        h, n, m = settings.step, model.configuration.ambient, model.state.ambient
        poses = model.configuration.retract(q, -h * x[n:m]), q, after[:n]
        before, at, behind = (Motion(pose, v + i * h * a, a) for i, pose in zip((-1, 0, 1), poses, strict=True))
        return dict(here.variables), (before, at, behind)

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b): v_k is the mean of both sides, extrapolated at the ends."""
        return np.hstack([poses, central(poses, step)])

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs weighted by a hat over [t_{k−1}, t_{k+1}], in the first step over what there is, (N − 1, n_u)."""
        return hats(mean, late)
