"""The variational step with rates among the unknowns, for constraints on velocities and contacts that push.

Such rows link a step with the next, and the step of ``joint_space`` stands over three. With the rates v of the interval
before t_k as unknowns beside the coordinates x_k of the joints all rows are between two neighbours,

    w = Sᵀp(x_k, (v_k + v_{k+1})/2, (v_{k+1} − v_k)/h, λ_k),
    x_{k+1} = x_k ⊞ h v_{k+1},    A(x_k ⊞ h v_{k+1}/2) v_{k+1} = γ,

the first random or weighted, the others hard. λ_k of the constraints are private unknowns of the step. The rates before
the first step are free but for the constraints, so that the first w says nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.base import DETERMINISTIC, NEEDS_JOINTS, SWITCHED, Scheme
from spookid.stepping.contact_law import ContactStep
from spookid.stepping.impulses import VELOCITY_ROWS, Settings, Window
from spookid.stepping.unknowns import JointScheme, JointStep, hats, middle
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class Leapfrog(JointScheme["_Step"]):
    """Joint coordinates and the rates of the interval before, at each step."""

    refuses: ClassVar[dict[str, str]] = {
        SWITCHED: NEEDS_JOINTS,
        DETERMINISTIC: "rates before the first step are free, and deterministic dynamics would fit them alone",
    }

    def motion(self, model: Model) -> Manifold:
        """The coordinates of the joints, and their rates."""
        space = super().motion(model)
        return Manifold((*space.parts, ("flat", space.tangent))).joined

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Rates at t_k are means of both sides, accelerations their difference."""
        x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x", "x_after"))
        if order == 0:
            still = ca.SX(super().motion(model).tangent, 1)
            return Window({0: x}, self.moving(model, x, still, still, 0))
        moved = middle(self._rates(model, x), self._rates(model, after), settings.step)
        return Window({0: x, 1: after}, self.moving(model, x, *moved, order))

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        return Scheme.first_window(self, model, settings, order)

    def around(
        self, model: Model, settings: Settings, order: int
    ) -> tuple[dict[int, ca.SX], tuple[Motion, Motion, Motion]]:
        """The rates of the interval before t_k lead back to t_{k−1}; the acceleration is that at t_k."""
        h, space = settings.step, super().motion(model)
        x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x", "x_after"))
        sides = self._rates(model, x), self._rates(model, after)
        s, a = middle(*sides, h)
        here = x[: space.ambient]
        places = space.retract(here, -h * sides[0]), here, after[: space.ambient]
        pairs = zip((-1, 0, 1), places, strict=True)
        before, at, behind = (self.moving(model, place, s + i * h * a, a, max(order, 1)) for i, place in pairs)
        return {0: x, 1: after}, (before, at, behind)

    def _rates(self, model: Model, x: ca.SX) -> ca.SX:
        motion, n = self.motion(model), super().motion(model).ambient
        return x[n : motion.ambient]

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Joint coordinates, their differences, and nothing transmitted."""
        space = super().motion(model)
        x, rest = np.hsplit(super().start(model, states, displacements, friction, step), [space.ambient])
        return np.hstack([x, _differences(space, x, step), rest])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Those whose rates are of two steps; None with contacts, whose impulses belong to a step."""
        if model.contacts:
            return None
        space, twice = super().motion(model), unknowns.copy()
        x, n = unknowns[:, : space.ambient], self.motion(model).ambient
        for first in range(2):
            twice[first::2, space.ambient : n] = _differences(space, x[first::2], 2 * step)
        return twice

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Weighted by a hat over [t_{k−1}, t_{k+1}], in the first step over what there is, (N − 1, n_u)."""
        return hats(mean, late)

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """The random rows of each step, how coordinates follow rates, what constraints hold, and the first rates."""
        step = self.step(model, settings)
        impulse = step.impulse(self.dynamics).written_in(step.symbols, step.values)
        held = [step.first(), *step.rolling()] if step.joints.closing else []
        return [*held, step.moved(), *self.closed(step), impulse, *step.law_factors()]

    def symbols(self, model: Model, settings: Settings) -> _Step:
        return _Step(model, settings, self)


class _Step(JointStep):
    """The symbols of one step around t_k, from the unknowns there and at the next step."""

    def __init__(self, model: Model, settings: Settings, scheme: Leapfrog) -> None:
        space, size = JointCoordinates(model).manifold, scheme.manifold(model).ambient
        n, m, extra = space.ambient, scheme.motion(model).ambient, size - scheme.law.unknowns(model)
        touching = scheme.touching(model)
        x, after = (ca.SX.sym(name, size) for name in ("x", "x_after"))
        here = ca.vertcat(x[:n], x[m : extra - touching], after[extra - touching : extra], x[extra:])
        self.v, self.v_next = x[n:m], after[n:m]
        self.x, self.x_next = x[:n], after[:n]
        moved = middle(self.v, self.v_next, settings.step)
        super().__init__(model, settings, scheme, 0, {0: x, 1: after}, here, moved)

    @cached_property
    def contacts(self) -> ContactStep | None:
        if not self.model.contacts:
            return None
        quickening = ca.jtimes(self.motion.v, self.motion.s, self.motion.a)  # S a
        before, behind = (self.motion.v + i * self.settings.step / 2 * quickening for i in (-1, 1))
        q_next = self.joints.configuration(self.x_next)
        return ContactStep(self.model, self.settings, self.law.form, self.q, before, q_next, behind, self.touching)

    def moved(self) -> Factor:
        """(x₊ ⊟ x)/h − v₊."""
        rows = self.joints.manifold.difference(self.x_next, self.x) / self.settings.step - self.v_next
        labels, none = tuple(f"v {name}" for name in self.joints.names), ca.SX.sym("none", 0)
        return Factor("step", Group.STATE, rows, self.variables, none, labels, kind=Kind.HARD)

    def rolling(self) -> list[Factor]:
        """A v₊ − γ at the middle of the step; its data are means of the inputs over it."""
        holding, joints, h = self.model.holding, self.joints, self.settings.step
        fast = [tie for tie in self.model.ties if tie.on_velocities]
        if not fast:
            return []
        between = joints.manifold.retract(self.x, h / 2 * self.v_next)
        there = Recursion(joints, between, self.v_next, ca.SX(self.v_next.numel(), 1))
        q, q_next = (joints.configuration(x) for x in (self.x, self.x_next))
        rows, labels = holding.over_step(Passage(q, q_next, h, there.q, there.v), self.u), holding.labels(fast)
        data = holding.speed_data(self.u)
        return [Factor(VELOCITY_ROWS, Group.STATE, rows, self.variables, data, labels, kind=Kind.HARD)]

    def first(self) -> Factor:
        """What holds the rates before the first step."""
        model, joints = self.model, self.joints
        motion = Recursion(joints, self.x, self.v, ca.SX(self.v.numel(), 1))
        at = model.mechanics(motion.q)
        parting = at.constraint @ motion.v - model.holding.all_speeds(self.u)
        rows = ca.vertcat(*(parting[model.rows_of(thing)] for thing in joints.closing))
        labels = tuple(f"{label} parting" for label in model.holding.labels(joints.closing))
        given = "first state", Group.STATE, rows, {0: self.variables[0]}, model.holding.speed_data(self.u), labels
        return Factor(*given, first_only=True, kind=Kind.HARD)


def _differences(space: Manifold, x: Array, step: float) -> Array:
    """Rates of the interval before each step, those of the first as in the next, (N, ambient) to (N, tangent)."""
    symbols = ca.SX.sym("x", space.ambient), ca.SX.sym("x_next", space.ambient)
    function = ca.Function("rates", list(symbols), [ca.densify(space.difference(*reversed(symbols)) / step)])
    rates = np.asarray(function(x[:-1].T, x[1:].T).full()).T
    return np.vstack([rates[:1], rates])
