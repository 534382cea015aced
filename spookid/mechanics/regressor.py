"""Forces at the joints as they follow from a motion: linear in masses, first moments, inertias, coefficients of loads.

What moves a body is linear in its π = (m, m c, I about its origin), so that the inverse dynamics of a mechanism are

    w(x, s, a) = Y(x, s, a) π + known,

with the regressor Y (Gautier, Khalil, IEEE Transactions on Robotics and Automation 6, 1990). Loads and motors add
columns of their own: viscous and dry friction, offsets, inertias of rotors. What enters in other ways, such as a
length, and what an input is multiplied by, such as the gain of a motor, is held. With M = ∂w/∂a and the kinetic energy
T = sᵀM s/2, sᵀw is dT/dt + P(x, s), in which no accelerations stand (Gautier, ICRA 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import casadi as ca
import numpy as np

from spookid.mechanics.body import Body
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.inertia import PI, inertia_matrix, six
from spookid.mechanics.joint_coordinates import JointCoordinates, along, impulses_along
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Recursion, Turning, Values, Wrench
from spookid.mechanics.model import Model
from spookid.parameter import Parameter, parameters_in, stacked
from spookid.records import dataclass

Balance: TypeAlias = Literal["forces", "energy"]
"""Of forces at the joints, w = 0; or of energy, dT/dt + P = 0, in which no acceleration stands."""

UNITS = tuple({"m": "kg", "h": "kg m", "I": "kg m^2"}[name[0]] for name in PI)  # of the entries of π


@dataclass(frozen=True, eq=False)
class Quantity:
    """Model quantity, such as a mass or friction coefficient, in which forces are linear."""

    name: str
    """Of a Parameter; or of a body and an entry of its π: mass, h_x = m c_x, I_xx about the body's origin."""
    unit: str
    formula: ca.SX
    """Of Parameters."""
    of: str
    """The body that it belongs to; empty if it is none, or several."""


@dataclass(frozen=True, eq=False)
class Regressor:
    """Linear relation between the joint forces of a model and its free quantities."""

    model: Model
    free: Sequence[Parameter]

    @cached_property
    def joints(self) -> JointCoordinates:
        """Coordinates of the rows of the regressor: joints of a spanning tree, then free bodies."""
        return JointCoordinates(self.model)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Columns of the regressor: bodies from the ground outwards, then other quantities as declared."""
        return tuple(quantity for _, quantity in self._columns)

    @cached_property
    def _columns(self) -> list[tuple[ca.SX, Quantity]]:
        """Each with its symbol."""
        found: list[tuple[ca.SX, Quantity]] = []
        for body in (*self.joints.roots, *(outer for _, _, outer in self.joints.order())):
            for i, symbol in self._entries.get(body, {}).items():
                quantity = Quantity(f"{body.name} {PI[i]}", UNITS[i], self._pi[body][i], body.name)
                found.append((symbol, quantity))
            found += [(p, Quantity(p.name, p.unit, p, body.name)) for p in self._linear if self._home(p) is body]
        return found + [(p, Quantity(p.name, p.unit, p, "")) for p in self._linear if self._home(p) is None]

    @property
    def held(self) -> tuple[str, ...]:
        """Names of free Parameters that are fixed: those that multiply an input, or in which forces are nonlinear."""
        linear = {p.name for p in self._linear}
        return tuple(p.name for p in self._acting if p.name not in linear)

    @property
    def is_driven(self) -> bool:
        """True if the coefficient of an input is known or has a prior."""
        unknown = stacked(p for p in self.free if p.prior is None)
        slopes = [ca.jacobian(self._forces, u) for u in ca.vertsplit(self._u)]
        return any(slope.nnz() and not ca.depends_on(slope, unknown) for slope in slopes)

    def function(self, balance: Balance = "forces") -> ca.Function:
        """Function of (x, s, a, width, values of ``parameters``, inputs) that gives Y column by column (n n_c,), and
        the force w at zero quantities (n,); for an energy balance its two rows instead of w."""
        rows, columns = self._rows(balance), stacked(symbol for symbol, _ in self._columns)
        found = [ca.densify(part) for part in (ca.vec(ca.jacobian(rows, columns)), rows)]
        nothing = ca.SX.zeros(columns.numel())  # rows are affine in the quantities
        return ca.Function(
            "regressor", [*self._motion, stacked(self.parameters), self._u], ca.substitute(found, [columns], [nothing])
        )

    def in_parameters(self, balance: Balance = "forces") -> tuple[ca.Function, tuple[Parameter, ...]]:
        """Function of (x, s, a, width, inputs, free, others) that returns the equations (n,) and their derivatives in
        all ``free`` values, column by column; ``others`` are known Parameters."""
        formulas = [self._pi[body][i] for body, own in self._entries.items() for i in own]
        rows = ca.substitute(self._rows(balance), self._symbols, stacked(formulas))
        free = stacked(self.free)
        others = parameters_in([rows], "the model", ignore=[*self._motion, self._u, free])
        given = [*self._motion, self._u, free, stacked(others)]
        found = [ca.densify(part) for part in (rows, ca.vec(ca.jacobian(rows, free)))]
        return ca.Function("balance", given, found), others

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters that may occur in the regressor or in loop constraints."""
        expressions = [self._forces, *self._tied]
        return parameters_in(expressions, "the model", ignore=[*self._motion, self._u, self._symbols])

    def numbers(self, values: Values) -> ca.DM:
        """Values of ``parameters``."""
        return ca.DM([values[p.name] for p in self.parameters])

    # --- symbols ---

    @cached_property
    def _motion(self) -> list[ca.SX]:
        space = self.joints.manifold
        sizes = (("x", space.ambient), ("s", space.tangent), ("a", space.tangent), ("w", len(self.model.freedoms)))
        return [ca.SX.sym(name, size) for name, size in sizes]

    @cached_property
    def _u(self) -> ca.SX:
        return ca.SX.sym("u", len(self.model.inputs))

    def _is_known(self, formula: ca.SX) -> bool:
        return not ca.depends_on(formula, stacked(self.free))

    @cached_property
    def _pi(self) -> dict[Body, ca.SX]:
        """π of each body, of one without a ``FullInertia`` about its centre of mass."""
        own = {body: ca.vertcat(body.mass, ca.SX(3, 1), six(body.inertia)) for body in self.model.bodies}
        return own | {body: body.distribution.pi for body in self.model.bodies if body.distribution is not None}

    @cached_property
    def _entries(self) -> dict[Body, dict[int, ca.SX]]:
        """Of the bodies whose π is not linear in free Parameters, a symbol for each entry that depends on these."""
        free, found = stacked(self.free), {}
        for body, pi in self._pi.items():
            if not self._is_known(ca.jacobian(pi, free)):
                unknown = [i for i in range(len(PI)) if not self._is_known(pi[i])]
                found[body] = {i: ca.SX.sym(f"{body.name} {PI[i]}") for i in unknown}
        return found

    @property
    def _symbols(self) -> ca.SX:
        """All of these."""
        return stacked(symbol for own in self._entries.values() for symbol in own.values())

    # --- which Parameters forces are linear in ---

    @cached_property
    def _acting(self) -> tuple[Parameter, ...]:
        """Free Parameters on which forces depend or might, as all of bodies; those in π that has symbols left out."""
        bounds = [joint.some_bound.load for joint in self.model.joints]
        named = parameters_in([*bounds, *self._pi.values()], "the model")
        names = {p.name for p in (*self.parameters, *named)}
        inside = {p.name for p in parameters_in([self._pi[body] for body in self._entries], "the bodies")}
        return tuple(p for p in self.free if p.name in names - inside)

    @cached_property
    def _linear(self) -> tuple[Parameter, ...]:
        """Those in which forces are linear together; of two that are multiplied the one that more depend on goes."""
        anything = ca.veccat(self._forces, *self._pi.values())
        left = [p for p in self._acting if ca.depends_on(anything, p)]
        while left:
            symbols = ca.vertcat(*left)
            slopes = ca.jacobian(self._forces, symbols)
            others = ca.vertcat(symbols, self._u, self._symbols)
            patterns = (ca.jacobian_sparsity(ca.densify(slopes[:, i]), others) for i in range(len(left)))
            # 1 for each symbol on which the slopes with one depend
            counts = np.array([np.any(ca.DM(pattern, 1.0).full(), axis=0) for pattern in patterns], dtype=float)
            with_input = counts[:, len(left) : len(left) + self._u.numel()].any(axis=1)
            trouble = counts[:, : len(left)].sum(axis=0) + counts.sum(axis=1) + counts.size * with_input
            worst = len(left) - 1 - int(np.argmax(trouble[::-1]))
            if not trouble[worst]:
                break
            del left[worst]
        return tuple(left)

    def _home(self, parameter: Parameter) -> Body | None:
        """The one body whose π it stands in."""
        homes = [body for body, pi in self._pi.items() if body not in self._entries and ca.depends_on(pi, parameter)]
        return homes[0] if len(homes) == 1 else None

    # --- forces ---

    @cached_property
    def _recursion(self) -> Recursion:
        return Recursion(self.joints, *self._motion[:3])

    @cached_property
    def _forces(self) -> ca.SX:
        """What the motion takes less what acts, (n,) [N m or N]."""
        motion, model = self._recursion, self.model
        needed = {body: self._needed(body, motion.bodies[body]) for body in model.bodies}
        given = model.pushed(motion.q, motion.v, self._u) if model.loads else ca.SX(model.configuration.tangent, 1)
        acting = self._along
        for joint in self.joints.cut:
            own = model.freedoms_of(joint)
            given += model.mechanics(motion.q).slip[own, :].T @ acting[own, 0]
        net = motion.along(motion.less(needed, given) if given.nnz() else needed)
        return ca.densify(net - self.joints.of_tree(acting))

    def _needed(self, body: Body, turning: Turning) -> Wrench:
        """Force, and torque about the centre of mass, that move a body of its π so."""
        unknown = self._entries.get(body, {})
        pi = ca.vertcat(*(unknown.get(i, entry) for i, entry in enumerate(ca.vertsplit(self._pi[body]))))
        center = ca.SX(3, 1) if body.distribution is None else body.distribution.center_of_mass
        return moved(pi, turning, center)

    def _rows(self, balance: Balance) -> ca.SX:
        """Forces w, (n,), or kinetic energy T [J] and the power P that all else takes [W], (2,)."""
        if balance == "forces":
            return self._forces
        x, s, a, _ = self._motion
        still, moved = (ca.substitute(self._forces, a, other) for other in (0 * a, s))
        kinetic = ca.dot(s, moved - still) / 2  # w is M a and what depends on no acceleration
        along = ca.jtimes(kinetic, x, ca.densify(self.joints.manifold.basis(x) @ s))
        return ca.vertcat(kinetic, ca.dot(s, still) - along)

    @property
    def _along(self) -> ca.SX:
        """What acts along the coordinates of all joints, (n_s,): loads, dry friction of constant bound, motors."""
        model, motion, width = self.model, self._recursion, self._motion[3]
        inputs = model.by_signal(self._u)
        places = stacked(joint.in_range(motion.positions[model.freedoms_of(joint), 0]) for joint in model.joints)
        efforts = gear_efforts(model, motion.q, places, motion.rates, self._u, width)

        def acting(joint: Joint, own: slice) -> ca.SX:
            rate = motion.rates[own, 0]
            moving = places, motion.rates
            return along(model, joint, places[own, 0], rate, inputs, width[own, 0], efforts[own], moving)

        return impulses_along(model, self._u, acting, motion.rates, motion.rate_changes, ca.SX(1))

    # --- loops ---

    def ties(self) -> ca.Function:
        """Function of (x, s, a, width, values) that gives loop and rolling constraints: g (n_p,), J s with the velocity
        constraints (n_t,), J row by row (n, n_t), and J̇ s."""
        return ca.Function("ties", [*self._motion, stacked(self.parameters)], self._tied)

    @property
    def of_contacts(self) -> list[slice]:
        """Indices in ``ties`` of the equations of each bilateral contact."""
        holding = self.model.holding
        before = self._tied[1].numel() - holding.count  # rows of all are counted on from those of the tree's joints
        rows = (holding.rows_of(contact) for contact in holding.contacts)
        return [slice(before + own.start, before + own.stop) for own in rows]

    @cached_property
    def _tied(self) -> list[ca.SX]:
        motion, model, space = self._recursion, self.model, self.joints.manifold
        x, s = self._motion[:2]
        of_joints = [model.joint(joint, motion.q).violation for joint in self.joints.cut]
        tied = (tie for tie in model.ties if not tie.on_velocities)

        def position(joint: Joint) -> ca.SX:
            return motion.positions[model.freedoms_of(joint), 0]

        on_positions = [model.holding.tied(tie, motion.q, position) for tie in tied]
        closed = stacked([*of_joints, *on_positions])
        flow = ca.densify(space.basis(x) @ s)
        rates = ca.vertcat(ca.jtimes(closed, x, flow), model.holding.rates(motion.q, motion.v))
        drift = ca.jtimes(rates, x, flow)
        return [ca.densify(part) for part in (closed, rates, ca.vec(ca.jacobian(rates, s).T), drift)]


def moved(pi: ca.SX, turning: Turning, center: ca.SX) -> Wrench:
    """Force and torque about the centre of mass that accelerate a distribution of mass, linear in π."""
    mass, moment, inertia = pi[0], pi[1:4], inertia_matrix(pi[4:], "inertia")
    omega, pulled = turning.omega, turning.at(-center)
    force = mass * pulled + ca.cross(turning.alpha, moment) + ca.cross(omega, ca.cross(omega, moment))
    torque = inertia @ turning.alpha + ca.cross(omega, inertia @ omega) + ca.cross(moment, pulled)
    return force, torque - ca.cross(center, force)
