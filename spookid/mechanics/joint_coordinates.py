"""A mechanism in the coordinates of its joints: poses from positions of joints, and impulses carried to the joints.

A spanning tree of joints places every body (``Model.tree``); joints that close loops are *cut*. The coordinates are the
positions of the tree's joints, then the pose of each free body. An impulse residual p of all bodies (6 n_b,) does the
virtual work Sᵀp along unit rates of these coordinates; what the bodies beyond a joint sum up to has a part along its
coordinates and the impulses λ that the joint transmits (Newton–Euler, from the leaves to the root).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.coefficients import acts
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.friction_loads import smooth_sign
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Bound, Efforts
from spookid.mechanics.manifold import Manifold, solved, split
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import stacked
from spookid.records import dataclass


@dataclass(frozen=True)
class Transmitted:
    """Impulses that the joints of the spanning tree transmit, from the leaves to the root."""

    along: ca.SX
    """Sᵀp: along the coordinates of each joint of the tree [N s or N m s], then force (world) and torque (body)
    impulses on what each free body carries [N s, N m s], (n,)."""
    loads: dict[Joint | Constraint, ca.SX]
    """λ of each joint of the tree, (rows,), with p = Gᵀλ but for what acts along the coordinates."""


@dataclass(frozen=True, eq=False)
class JointCoordinates:
    """Joint coordinates of a model's spanning tree and free bodies, with ``n`` velocities."""

    model: Model

    @cached_property
    def tree(self) -> tuple[Joint, ...]:
        """Joints of the spanning tree, in the order in which they place bodies."""
        return tuple(self.model.tree())

    @cached_property
    def cut(self) -> tuple[Joint, ...]:
        """Joints that close loops."""
        return tuple(joint for joint in self.model.joints if joint not in self.tree)

    @cached_property
    def closing(self) -> tuple[Joint | Constraint, ...]:
        """Joints and constraints that need constraint equations: those that close loops."""
        return (*self.cut, *self.model.ties)

    @cached_property
    def roots(self) -> tuple[Body, ...]:
        """Free bodies."""
        return tuple(body for body in self.model.bodies if body.free)

    @cached_property
    def manifold(self) -> Manifold:
        """Positions of the tree's joints, then position and orientation of each free body."""
        parts = [part for joint in self.tree for part in joint.manifold.parts]
        return Manifold((*parts, *((("flat", 3), ("rotation", 4)) * len(self.roots)))).joined

    @cached_property
    def places(self) -> list[int]:
        """Index of each velocity among those of all joints in the model's order, followed by free bodies."""
        of_joints = range(len(self.model.freedoms))
        tree = [place for joint in self.tree for place in of_joints[self.model.freedoms_of(joint)]]
        return [*tree, *range(len(of_joints), len(of_joints) + 6 * len(self.roots))]

    @property
    def cut_places(self) -> list[int]:
        """Index of each coordinate of joints that close loops, in the same order."""
        of_joints = range(len(self.model.freedoms))
        return [place for joint in self.cut for place in of_joints[self.model.freedoms_of(joint)]]

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each velocity, (n,): joint coordinate, or force or torque component on a free body."""
        return tuple(disturbance_names(self.model)[place] for place in self.places)

    def start(self, joint: Joint) -> int:
        """Index of the first velocity of a joint in the spanning tree."""
        return sum(len(other.coordinates) for other in self.tree[: self.tree.index(joint)])

    def coordinates(self, displacements: ca.SX, roots: ca.SX) -> ca.SX:
        """Tree coordinates (ambient,) from displacements of all joints (n_s,) and poses of free bodies (7 n_f,)."""
        parts = []
        for joint in self.tree:
            own = displacements[self.model.freedoms_of(joint), 0]
            parts.append(joint.manifold.retract(joint.manifold.zero, own))
        return stacked([*parts, roots])

    def along(self, poses: Array, displacements: Array) -> Array:
        """Tree coordinates along a motion, (N, ambient), with continuous signs of quaternions."""
        given = ca.SX.sym("displacements", displacements.shape[1]), ca.SX.sym("roots", 7 * len(self.roots))
        convert = ca.Function("coordinates", list(given), [ca.densify(self.coordinates(*given))])
        places = [7 * self.model.bodies.index(body) + i for body in self.roots for i in range(7)]
        found = np.asarray(convert(displacements.T, poses[:, places].T).full()).T
        return self.manifold.continuous(found)

    def posed(self, displacements: ca.SX) -> ca.SX:
        """Configuration q (7 n_b,) from displacements of all joints (n_s,), with free bodies at the origin."""
        at_origin = stacked(ca.SX([0, 0, 0, 1, 0, 0, 0]) for _ in self.roots)
        return self.configuration(self.coordinates(displacements, at_origin))

    def of_tree(self, along: ca.SX) -> ca.SX:
        """Select the impulses along tree coordinates, (n,), from the impulses along all joint coordinates, (n_s,)."""
        acting = stacked(along[self.model.freedoms_of(joint), 0] for joint in self.tree)
        return ca.vertcat(acting, ca.SX(self.manifold.tangent - acting.numel(), 1))

    def configuration(self, x: ca.SX) -> ca.SX:
        """Configuration q (7 n_b,) of all bodies from the tree coordinates (ambient,)."""
        poses = {GROUND: (ca.SX(3, 1), ca.SX([1, 0, 0, 0]))}
        start = sum(joint.manifold.ambient for joint in self.tree)
        for i, body in enumerate(self.roots):
            poses[body] = (x[start + 7 * i : start + 7 * i + 3], x[start + 7 * i + 3 : start + 7 * i + 7])
        at = 0
        for joint, inner, outer in self.order():
            size = joint.manifold.ambient
            away, turn = joint.transform(x[at : at + size, 0])
            if outer is joint.child.body:
                poses[outer] = _beyond(poses[inner], joint.parent, (away, turn), joint.child)
            else:
                back = rotations.conjugate(turn)
                moved = -(rotations.matrix(back) @ away), back
                poses[outer] = _beyond(poses[inner], joint.child, moved, joint.parent)
            at += size
        return ca.vertcat(*(part for body in self.model.bodies for part in poses[body]))

    def transmitted(self, q: ca.SX, impulse: ca.SX) -> Transmitted:
        """Joint impulses that balance p (6 n_b,) at a configuration q that satisfies the tree's joints."""
        poses = {body: self.model.pose(body, q) for body in self.model.bodies}
        axes = {body: rotations.matrix(e) for body, (_, e) in poses.items()}
        force = {body: impulse[6 * i : 6 * i + 3] for i, body in enumerate(self.model.bodies)}
        torque = {b: axes[b] @ impulse[6 * i + 3 : 6 * i + 6] for i, b in enumerate(self.model.bodies)}
        along: dict[Joint, ca.SX] = {}
        loads: dict[Joint | Constraint, ca.SX] = {}
        for joint, inner, outer in reversed(self.order()):
            sides = [self.model.moving(frame, q) for frame in (joint.parent, joint.child)]
            beyond = sides[1] if outer is joint.child.body else sides[0]
            loads[joint], along[joint] = joint.carried(sides[0], sides[1], beyond, force[outer], torque[outer])
            if inner is not GROUND:
                force[inner] += force[outer]
                arm = poses[outer][0] - poses[inner][0]
                torque[inner] += torque[outer] + ca.cross(arm, force[outer])
        free = [part for body in self.roots for part in (force[body], axes[body].T @ torque[body])]
        rows = [*(along[joint] for joint in self.tree), *free]
        return Transmitted(stacked(rows), loads)

    def balanced(self, at: Mechanics, impulse: ca.SX) -> Transmitted:
        """Joint impulses whose sum p = Σ_j (Gᵀλ + Ḡᵀτ)_j, with those of free bodies, is exactly p (6 n_b,) at any
        configuration, even if it violates the tree's joints: ``along`` contains τ instead of Sᵀp."""
        rest, model = impulse, self.model
        along: dict[Joint, ca.SX] = {}
        loads: dict[Joint | Constraint, ca.SX] = {}
        for joint, _, outer in reversed(self.order()):
            start = 6 * model.bodies.index(outer)
            held, slip = at.constraint[model.rows_of(joint), :].T, at.slip[model.freedoms_of(joint), :].T
            own = ca.horzcat(held, slip)[start : start + 6, :]
            found = solved(own, rest[start : start + 6])
            loads[joint], along[joint] = found[: joint.rows], found[joint.rows :]
            rest = rest - held @ loads[joint] - slip @ along[joint]
        starts = (6 * self.model.bodies.index(body) for body in self.roots)
        rows = [*(along[joint] for joint in self.tree), *(rest[i : i + 6] for i in starts)]
        return Transmitted(stacked(rows), loads)

    def ordered(self, loads: Mapping[Joint | Constraint, ca.SX]) -> ca.SX:
        """Multipliers λ of all joints and constraints in the model's order, (n_g,); missing multipliers are 0."""
        names = self.model.holding.names
        return stacked(loads.get(thing, ca.SX(len(rows), 1)) for thing, rows in names.items())

    def closed_by(self, loads: ca.SX, at: Mechanics) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """Multipliers λ of each loop constraint, from the stacked vector, and their impulses on bodies, (6 n_b,)."""
        given = self.apart(loads)
        parts = (at.constraint[self.model.rows_of(thing), :].T @ own for thing, own in given.items())
        return given, sum(parts, ca.SX(self.model.configuration.tangent, 1))

    def apart(self, loads: ca.SX) -> dict[Joint | Constraint, ca.SX]:
        """Multipliers λ of each loop constraint, split from the stacked vector."""
        sizes = [len(self.model.holding.names[thing]) for thing in self.closing]
        return dict(zip(self.closing, split(loads, sizes), strict=True))

    @property
    def closing_rows(self) -> int:
        """How many rows they have."""
        return sum(len(self.model.holding.names[thing]) for thing in self.closing)

    @property
    def private(self) -> int:
        """Additional unknowns of a step with loops: multipliers λ, and process noise along joints that close loops."""
        return self.closing_rows + len(self.cut_places)

    def order(self) -> list[tuple[Joint, Body, Body]]:
        """Joints of the spanning tree, each with its inner and outer body."""
        placed, found = {GROUND, *self.roots}, []
        for joint in self.tree:
            inner, outer = joint.bodies() if joint.parent.body in placed else tuple(reversed(joint.bodies()))
            found.append((joint, inner, outer))
            placed.add(outer)
        return found


def disturbance_names(model: Model) -> tuple[str, ...]:
    """Names of the process-noise impulses in a step: joint coordinates, then force and torque on free bodies."""
    free = (f"{body.name} {what}" for body in model.bodies if body.free for what in ("force", "torque"))
    return (*(freedom.label for freedom in model.freedoms), *(name for name in free for _ in range(3)))


def disturbance_units(model: Model) -> tuple[str, ...]:
    """Unit of the force or torque whose impulse is process noise, or of the derivative of an additional state."""
    own = {one.name: one.unit for one in model.hidden}
    free = (unit for body in model.bodies if body.free for unit in ("N", "N m") for _ in range(3))
    return (*(own.get(one.joint.name) or one.coordinate.effort for one in model.freedoms), *free)


_Pose = tuple[ca.SX, ca.SX]  # origin (3,) and unit quaternion (4,)


def _beyond(pose: _Pose, known: Frame, moved: _Pose, new: Frame) -> _Pose:
    """Pose of the body of ``new``, which is moved from the frame ``known`` on a body in ``pose``."""
    position, e = pose
    away, turn = moved
    e_known = rotations.multiply(e, rotations.from_matrix(known.axes))
    e_new = rotations.multiply(rotations.multiply(e_known, turn), rotations.conjugate(rotations.from_matrix(new.axes)))
    at = position + rotations.matrix(e) @ known.at - rotations.matrix(e_new) @ new.at
    return (at + rotations.matrix(e_known) @ away if away.nnz() else at), e_new


def bound_of(model: Model, joint: Joint, position: ca.SX, before: ca.SX, rates: ca.SX, efforts: Efforts) -> Bound:
    """Bound of a joint's dry friction, for positions, preceding rates, rates and efforts of all joints, (n_s,) each."""
    own = model.freedoms_of(joint)
    bound = joint.bound(position[own, 0], before[own, 0], efforts[own])
    parts = bound.load, bound.constant, bound.load_lean, bound.constant_lean
    return Bound(
        *(None if part is None else model.in_motion(part, (position, rates), efforts.inputs) for part in parts)
    )


def along(
    model: Model,
    joint: Joint,
    position: ca.SX,
    rate: ca.SX,
    inputs: Mapping[str, ca.SX],
    width: ca.SX,
    efforts: Efforts,
    motion: tuple[ca.SX, ca.SX] | None = None,
) -> ca.SX:
    """Efforts along joint coordinates without motors, (n,) [N m or N]: loads, and constant smooth friction; ``motion``
    as in ``Model.in_motion``."""
    bound = joint.bound(position, rate, efforts)
    lean = 0 if bound.constant_lean is None else bound.constant_lean
    dry = smooth_sign(rate, width) * bound.constant + lean
    return model.effort(joint, position, rate, inputs, width, motion) - model.in_motion(dry, motion, inputs)


def impulses_along(
    model: Model, u: ca.SX, acting: Callable[[Joint, slice], ca.SX], rates: ca.SX, changes: ca.SX, step: ca.SX
) -> ca.SX:
    """Impulses of loads, armatures and motors along each joint coordinate over a step, (n_s,)."""
    inputs, found = model.by_signal(u), list[ca.SX]()
    for joint in model.joints:
        own = model.freedoms_of(joint)
        along = acting(joint, own)
        if acts(joint.armature):
            along -= joint.armature * changes[own, 0]
        found += [along[i] for i in range(len(joint.coordinates))]
    for motor in model.motors:
        place = model.freedoms_of(motor.joint).start + motor.coordinate
        found[place] += motor.impulse(step, inputs[motor.signal], rates[place], changes[place])
    return stacked(found)


def energy(model: Model, q: ca.SX, v: ca.SX, rates: ca.SX) -> ca.SX:
    """Kinetic energy and potential energy of gravity [J] as functions of the poses q of all bodies."""
    total = kinetic_energy(model, v, rates)
    for i, body in enumerate(model.bodies):
        total -= body.mass * ca.dot(model.gravity, q[7 * i : 7 * i + 3])
    return total


def kinetic_energy(model: Model, v: ca.SX, rates: ca.SX) -> ca.SX:
    """Of bodies and rotors [J]."""
    total = ca.dot(v, model.inertia() @ v) / 2
    for joint in (joint for joint in model.joints if acts(joint.armature)):
        total += joint.armature * ca.sumsqr(rates[model.freedoms_of(joint), 0]) / 2
    for motor in model.motors:
        total += motor.inertia * rates[model.freedoms_of(motor.joint).start + motor.coordinate] ** 2 / 2
    return total


@dataclass(frozen=True, eq=False)
class Projection:
    """Projection of forces onto the coordinates of the spanning tree, without reactions of loop constraints."""

    model: Model

    @cached_property
    def ingredients(self) -> tuple[ca.SX, ca.SX]:
        """Configuration symbol (7 n_b,), and stacked column by column: mass matrix of bodies and armatures, G of all
        constraint equations and Ḡ of all coordinates, (·, 6 n_b) each."""
        q, model = ca.SX.sym("q", self.model.configuration.ambient), self.model
        at, own = model.mechanics(q), ca.SX.zeros(len(model.freedoms))
        for joint in model.joints:
            own[model.freedoms_of(joint)] += joint.armature
        for motor in model.motors:
            own[model.freedoms_of(motor.joint).start + motor.coordinate] += motor.inertia
        mass = at.mass + at.slip.T @ ca.diag(own) @ at.slip
        return q, ca.vec(ca.vertcat(mass, at.constraint, at.slip))

    def matrices(self, values: Array, bearing: Array | None = None) -> Array:
        """Matrices Nᵀ[I, B] at each step, (N, n, n + n_c). B converts forces along joints that close loops to
        equivalent forces along the n coordinates of the tree and free bodies."""
        joints, model = JointCoordinates(self.model), self.model
        width, rows, n = model.configuration.tangent, model.rows, len(joints.places)
        stacked = values.reshape(len(values), width, -1).transpose(0, 2, 1)
        M, G, slips = np.split(stacked, [width, width + rows], axis=1)
        held = [row for joint in joints.tree for row in _range(model.rows_of(joint))]
        closing = [row for thing in joints.closing for row in _range(model.rows_of(thing))]
        tree = [place for place in joints.places if place < len(model.freedoms)]
        free = [6 * model.bodies.index(body) + i for body in joints.roots for i in range(6)]
        own = np.broadcast_to(np.eye(width)[free], (len(M), len(free), width))
        S = np.linalg.inv(np.concatenate([G[:, held], slips[:, tree], own], axis=1))[:, :, width - n :]
        L = np.linalg.cholesky(S.transpose(0, 2, 1) @ M @ S)
        J = G[:, closing] @ S
        if bearing is not None:
            for i, contact in enumerate(model.holding.contacts):
                places = [closing.index(row) for row in _range(model.rows_of(contact))]
                J[:, places] *= bearing[:, i, None, None]
        _, sizes, bases = np.linalg.svd(
            np.linalg.solve(L, J.transpose(0, 2, 1)).transpose(0, 2, 1), full_matrices=False
        )
        bases = bases * (sizes > HALF_DIGITS * sizes.max(axis=1, keepdims=True, initial=0.0))[:, :, None]
        along = np.linalg.solve(L, np.broadcast_to(np.eye(n), L.shape))
        projector = L @ (along - bases.transpose(0, 2, 1) @ (bases @ along))
        return np.asarray(
            np.concatenate([projector, projector @ (slips[:, joints.cut_places] @ S).transpose(0, 2, 1)], 2)
        )


def _range(rows: slice) -> range:
    return range(rows.start, rows.stop)
