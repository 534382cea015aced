"""The variational step in the coordinates of the joints, for a likelihood: what is random is a row a degree of freedom.

The step is that of ``variational``, M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g), g = 0 at every k, with poses that are placed
from joint coordinates, so that hinges of the tree hold identically and their λ follow from the impulses that they
carry. What is left is the virtual work of the residual p along unit rates,

    w = Sᵀp,    n rows in N m s (N s for the translation of free bodies),

random with a standard deviation of s √h, where s is a disturbance in N m/√Hz. It is a density of the new state, unless
the torque at a joint is measured: then its row is an error of that measurement.

Hinges that close a loop hold by hard rows; their λ, and the random impulse along their axis, are private unknowns of
the step, so that the covariance of the rows that remain is Σ_j s_j² a_j a_jᵀ over all hinges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import ROWS
from spookid.mechanics.kinematics import central
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, StepFunction, along_axes
from spookid.transcription.factor import Factor, Group, Kind, measured_noise

_CUT = ROWS + 1
"""Private unknowns of a hinge that closes a loop: λ, and the random impulse along its axis."""


@dataclass(frozen=True)
class JointSpace:
    """Joint coordinates at each step as unknowns."""

    name = "variational"
    order: ClassVar[int] = 2
    law: DryFriction = field(default=DryFriction(), repr=False)

    def manifold(self, model: Model) -> Manifold:
        """The unknowns of a step: joint coordinates, what cut hinges transmit, and those of the friction law."""
        joints = JointCoordinates(model)
        flat = _CUT * len(joints.cut) + self.law.unknowns(model)
        return Manifold((*joints.manifold.parts, *((("flat", flat),) if flat else ())))

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return JointCoordinates(model).configuration(x)

    def window(self, model: Model, settings: Settings, rates: bool) -> tuple[dict[int, ca.SX], ca.SX, ca.SX]:
        """The unknowns that a state at one step is made of, by offset, and that state's q and v; as ``Variational``."""
        ambient = self.manifold(model).ambient
        here = ca.SX.sym("x", ambient)
        q = self.configuration(model, here)
        if not rates:
            return {0: here}, q, ca.SX(model.configuration.tangent, 1)
        before, after = ca.SX.sym("x_before", ambient), ca.SX.sym("x_after", ambient)
        q_before, q_after = self.configuration(model, before), self.configuration(model, after)
        sides = [model.configuration.difference(a, b) for a, b in ((q, q_before), (q_after, q))]
        return {0: before, 1: here, 2: after}, q, (sides[0] + sides[1]) / (2 * settings.step)

    def start(self, model: Model, states: Array, angles: Array, friction: Array) -> Array:
        """Unknowns (N, ambient) from states x = (q, v), (N, 13 n_b), unwrapped angles of all hinges, (N, n_j), and the
        unknowns of the friction law, (N, n)."""
        joints = JointCoordinates(model)
        tree = angles[:, [model.joints.index(joint) for joint in joints.tree]]
        poses = [states[:, 7 * i : 7 * i + 7] for i in (model.bodies.index(body) for body in joints.roots)]
        cut = np.zeros((len(states), _CUT * len(joints.cut)))
        return np.hstack([tree, *poses, cut, friction])

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b), from poses q: v_k is the mean of both sides, extrapolated at the ends."""
        return np.hstack([poses, central(poses, step)])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns of which every other one belongs to the same motion in steps of 2h."""
        return unknowns

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 2, n_u): the inputs weighted by a hat over [t_{k−1}, t_{k+1}].

        Args:
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """
        return late[:-1] + (mean - late)[1:]

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of each inner step, and those that close loops at every step."""
        step = _step(model, settings, self.law)
        joints = step.joints
        first = joints.manifold.tangent
        measured = {motor.hinge.name: motor.signal for motor in model.motors if motor.measured}
        whitened, noise, density = [], [], []
        for row, name in enumerate(joints.names):
            sensor = measured.get(name)
            scale = (
                settings.disturbance[joints.places[row]] if sensor is None else settings.step * settings.torques[sensor]
            )
            whitened.append(step.residual[row] / scale)
            noise.append(name if sensor is None else measured_noise(sensor))
            density += [] if sensor else [row]
        for i, joint in enumerate(joints.cut):
            whitened.append(step.random[i] / settings.disturbance[model.joints.index(joint)])
            noise.append(joint.name)
        factors = [
            Factor(
                "impulse",
                Group.STATE,
                ca.vertcat(ca.SX(0, 1), *whitened),
                step.variables,
                step.u,
                tuple(f"Δp {name}" for name in noise),
                private=(1, range(first, first + _CUT * len(joints.cut))) if joints.cut else None,
                noise=tuple(noise),
                density=tuple(density),
            )
        ]
        if joints.cut:
            rows = tuple(f"{joint.name}.{axis}" for joint in joints.cut for axis in ("x", "y", "z", "xy", "xz"))
            relations = [model.hinge(joint, step.q, ca.SX(6 * len(model.bodies), 1)) for joint in joints.cut]
            closed = ca.vertcat(*(relation.violation for relation in relations))
            none = ca.SX.sym("none", 0)
            factors.append(Factor("joints", Group.STATE, closed, {0: step.here}, none, rows, kind=Kind.HARD))
        return factors + self.law.factors(model, settings, step.slips, step.extra, step.variables)

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step at t_k, (5 n_j,), from the impulses that its hinges transmit."""
        step = _step(model, settings, self.law)
        return StepFunction(step.variables, step.u, step.multipliers)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """What ``DryFriction.along`` gives of every hinge in the step around t_k, (4 n_j,)."""
        step = _step(model, settings, self.law)
        value = self.law.along(model, settings, step.slips, step.multipliers, step.extra)
        return StepFunction(step.variables, step.u, value)


@lru_cache(maxsize=4)
def _step(model: Model, settings: Settings, law: DryFriction) -> _Step:
    """Kept, for a fit needs it several times, and building expressions takes longer than an iteration."""
    return _Step(model, settings, law, JointSpace(law).manifold(model))


class _Step:
    """The symbols of one step around t_k, from the unknowns at three steps."""

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints = JointCoordinates(model)
        before, self.here, after = (ca.SX.sym(name, manifold.ambient) for name in ("x_before", "x", "x_after"))
        self.variables = {0: before, 1: self.here, 2: after}
        self.u = ca.SX.sym("u", len(model.signals))
        h, n, cut = settings.step, self.joints.manifold.ambient, len(self.joints.cut)
        _, private, self.extra = ca.vertsplit(self.here, [0, n, n + _CUT * cut, manifold.ambient])
        self._loads, self.random = private[: ROWS * cut], private[ROWS * cut :]
        q_before, self.q, q_after = (self.joints.configuration(x) for x in (before, self.here, after))
        self.v = model.configuration.difference(self.q, q_before) / h
        self.v_next = model.configuration.difference(q_after, self.q) / h
        self.slips = self._slips()

    def _slips(self) -> Slips:
        """Slip rates at the midpoint velocity, all rows Ḡ at q_k."""

        def rates(v: ca.SX) -> ca.SX:
            return ca.vertcat(ca.SX(0, 1), *(self.model.hinge(joint, self.q, v).slip for joint in self.model.joints))

        middle = rates((self.v + self.v_next) / 2)
        sides = rates(self.v), rates(self.v_next)
        return Slips(now=middle, end=sides[1], before=middle, change=rates(self.v_next - self.v), rubbing=sides)

    @cached_property
    def _along_with(self) -> tuple[ca.SX, ca.SX]:
        """Impulses along the axes of all hinges, and λ of all hinges."""
        given = {joint.name: self._loads[ROWS * i : ROWS * (i + 1)] for i, joint in enumerate(self.joints.cut)}
        free = self.joints.transmitted(self.q, self._transmitted_by_cut(self._along(self._ordered(given))))
        multipliers = self._ordered({**given, **free.loads})
        return self._along(multipliers), multipliers

    @property
    def multipliers(self) -> ca.SX:
        """λ of all hinges, (5 n_j,)."""
        return self._along_with[1]

    @cached_property
    def residual(self) -> ca.SX:
        """w = Sᵀp, (n,)."""
        along = self._along_with[0]
        net = self.joints.transmitted(self.q, self._transmitted_by_cut(along)).along
        tree = [along[self.model.joints.index(joint)] for joint in self.joints.tree]
        return net - ca.vertcat(ca.SX(0, 1), *tree, ca.SX(net.numel() - len(tree), 1))

    def _ordered(self, loads: dict[str, ca.SX]) -> ca.SX:
        parts = (loads.get(joint.name, ca.SX(ROWS, 1)) for joint in self.model.joints)
        return ca.vertcat(ca.SX(0, 1), *parts)

    def _along(self, multipliers: ca.SX) -> ca.SX:
        friction = self.law.impulses(self.model, self.settings, self.slips, multipliers, self.extra)
        angles = [self.model.hinge(joint, self.q, 0 * self.v).angle for joint in self.model.joints]
        return along_axes(self.model, self.settings, ca.vertcat(ca.SX(0, 1), *angles), self.slips, friction, self.u)

    def _transmitted_by_cut(self, along: ca.SX) -> ca.SX:
        """M (v₊ − v) − h (f + f_g) less what cut hinges do to the bodies, (6 n_b,)."""
        model = self.model
        mass, force = model.inertia(), model.weight()
        gyroscopic = Mechanics.gyroscopic_of(mass, (self.v + self.v_next) / 2)
        impulse = mass @ (self.v_next - self.v) - self.settings.step * (force + gyroscopic)
        if self.joints.cut:
            q = ca.SX.sym("q", model.configuration.ambient)
            at = model.mechanics(q)
            for i, joint in enumerate(self.joints.cut):
                j = model.joints.index(joint)
                G, row = ca.substitute([at.constraint[ROWS * j : ROWS * (j + 1), :], at.slip[j, :]], [q], [self.q])
                axial = along[j] + self.random[i]
                impulse -= G.T @ self._loads[ROWS * i : ROWS * (i + 1)] + row.T @ axial
        return impulse
