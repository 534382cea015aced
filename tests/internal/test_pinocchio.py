"""Joint coordinates against Pinocchio: inverse dynamics, torque regressor, energy; chains, trees, a floating base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array

from spookid import GROUND, Body, Hinge, Joint, Model, Motor, Parameter, PointContact, Prismatic, Spherical, Weld
from spookid.mechanics.body import Frame
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import JointSpace

pin = pytest.importorskip("pinocchio")

G = (0.3, -0.2, -9.7)
KINDS = {Hinge: "JointModelRX", Prismatic: "JointModelPX", Spherical: "JointModelSpherical"}
MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Entries of an inertia in Pinocchio's order."""


@dataclass
class Pair:
    """The same mechanism twice: body frames of ours are at the centre of mass, those of Pinocchio at the joint."""

    rng: np.random.Generator
    theirs: Any = field(default_factory=lambda: pin.Model())
    bodies: list[Body] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    centers: list[Any] = field(default_factory=list)

    def link(self, free: bool = False) -> tuple[Body, Any, Any]:
        """A body whose ten inertial parameters π = (m, m c, I about the joint) are Parameters; with its inertia."""
        i = len(self.bodies)
        mass, center = self.rng.uniform(0.5, 2), np.zeros(3) if free else self.rng.uniform(-0.2, 0.2, 3)
        A = self.rng.normal(size=(3, 3))
        about = mass * 0.02 * (A @ A.T / 3 + np.eye(3))
        cross = np.array([[0, -center[2], center[1]], [center[2], 0, -center[0]], [-center[1], center[0], 0]])
        at_joint = about - mass * cross @ cross
        numbers = [mass, *(mass * center), *(at_joint[place] for place in MOMENTS)]
        own = [Parameter(f"pi_{i}_{k}", value) for k, value in enumerate(numbers)]
        self.parameters += own
        m, c = own[0], ca.vertcat(*own[1:4]) / own[0]
        inertia = ca.SX(3, 3)
        for (row, column), value in zip(MOMENTS, own[4:], strict=True):
            inertia[row, column] = inertia[column, row] = value
        if free:  # a free body's coordinates are those of its centre of mass
            c = ca.SX(3, 1)
        body = Body(f"link {i}", mass=m, inertia=inertia + m * ca.skew(c) @ ca.skew(c), free=free)
        self.bodies.append(body)
        self.centers.append(c)
        return body, c, pin.Inertia(mass, center, about)

    def base(self) -> int:
        """A free body."""
        _, _, inertia = self.link(free=True)
        number = self.theirs.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "free")
        self.theirs.appendBodyToJoint(number, inertia, pin.SE3.Identity())
        return int(number)

    def add(self, parent: int, kind: type[Joint]) -> int:
        """A link on another (0: the ground) by a joint."""
        turned = np.linalg.qr(self.rng.normal(size=(3, 3)))[0]
        turned *= np.sign(np.linalg.det(turned))
        at = self.rng.uniform(-0.3, 0.3, 3)
        body, center, inertia = self.link()
        on: Frame = (
            GROUND.frame(at=at, x=turned[:, 0], y=turned[:, 1])
            if parent == 0
            else self.bodies[parent - 1].frame(at=at - self.centers[parent - 1], x=turned[:, 0], y=turned[:, 1])
        )
        self.joints.append(kind(f"joint {len(self.joints)}", on, body.frame(at=-center)))
        number = self.theirs.addJoint(parent, getattr(pin, KINDS[kind])(), pin.SE3(turned, at), body.name)
        self.theirs.appendBodyToJoint(number, inertia, pin.SE3.Identity())
        return int(number)


def chain(rng: np.random.Generator) -> Pair:
    pair, last = Pair(rng), 0
    for _ in range(6):
        last = pair.add(last, Hinge)
    return pair


def tree(rng: np.random.Generator) -> Pair:
    pair = Pair(rng)
    trunk = pair.add(0, Prismatic)
    for _ in range(3):
        pair.add(pair.add(trunk, Hinge), Spherical)
    return pair


def floating(rng: np.random.Generator) -> Pair:
    pair = Pair(rng)
    base = pair.base()
    for _ in range(2):
        pair.add(pair.add(base, Hinge), Hinge)
    return pair


@pytest.mark.parametrize("make", [chain, tree, floating])
def test_inverse_dynamics_regressor_and_energy(make: Any) -> None:
    rng = np.random.default_rng(3)
    pair = make(rng)
    model = Model(pair.bodies, pair.joints, gravity=G)
    joints = JointCoordinates(model)
    space = joints.manifold
    x, s, a = ca.SX.sym("x", space.ambient), *(ca.SX.sym(n, space.tangent) for n in "sa")
    motion, parameters = Recursion(joints, x, s, a), ca.vertcat(*pair.parameters)
    along = motion.along(motion.needed)
    kinetic = ca.dot(motion.v, model.inertia() @ motion.v) / 2
    heights = (model.pose(body, motion.q)[0] for body in model.bodies)
    potential = -sum(body.mass * ca.dot(model.gravity, r) for body, r in zip(model.bodies, heights, strict=True))
    ours = ca.Function("ours", [x, s, a, parameters], [along, ca.jacobian(along, parameters), kinetic, potential])

    theirs, data = pair.theirs, pair.theirs.createData()
    theirs.gravity.linear = np.array(G)
    for _ in range(3):
        where, rates, pulls = space.normed(rng.normal(size=space.ambient)), *rng.normal(size=(2, space.tangent))
        values = [p.guess for p in pair.parameters]
        found, regressor, T, U = (part.full() for part in ours(where, rates, pulls, values))
        q, v, acceleration, order, rotation = _theirs(pair, joints, where, rates, pulls)
        expected = pin.rnea(theirs, data, q, v, acceleration)
        torques = pin.computeJointTorqueRegressor(theirs, data, q, v, acceleration)
        np.testing.assert_allclose(rotation.T @ found.ravel(), expected[order], atol=1e-10)
        kept = [k for k in range(len(values)) if not (model.bodies[k // 10].free and 1 <= k % 10 <= 3)]
        np.testing.assert_allclose(rotation.T @ regressor[:, kept], torques[order][:, kept], atol=1e-10)
        assert T.item() == pytest.approx(pin.computeKineticEnergy(theirs, data, q, v), abs=1e-10)
        assert U.item() == pytest.approx(pin.computePotentialEnergy(theirs, data, q), abs=1e-10)


def _theirs(
    pair: Pair, joints: JointCoordinates, x: Array, s: Array, a: Array
) -> tuple[Array, Array, Array, list[int], Array]:
    """q, v and their acceleration, where each of our rates stands there, and how ours are turned against theirs."""
    q, v, acceleration = pin.neutral(pair.theirs), np.zeros(pair.theirs.nv), np.zeros(pair.theirs.nv)
    order, turned, at, rate = [], np.eye(len(s)), 0, 0
    things = [*(joint.child.body for joint in joints.tree), *joints.roots]
    for body in things:
        place = pair.bodies.index(body) + 1
        one, flat = pair.theirs.joints[place], 3 * body.free
        size, width = one.nv, one.nq
        own = x[at : at + width].copy()
        if width != size:  # a quaternion, scalar last
            own[flat:] = np.roll(own[flat:], -1)
        v_own, a_own = s[rate : rate + size].copy(), a[rate : rate + size].copy()
        if body.free:
            R = pin.Quaternion(own[3:]).toRotationMatrix()
            v_own[:3], a_own[:3] = R.T @ v_own[:3], R.T @ a_own[:3] - np.cross(s[rate + 3 : rate + 6], R.T @ v_own[:3])
            turned[rate : rate + 3, rate : rate + 3] = R
        q[one.idx_q : one.idx_q + width], v[one.idx_v : one.idx_v + size] = own, v_own
        acceleration[one.idx_v : one.idx_v + size] = a_own
        order += range(one.idx_v, one.idx_v + size)
        at, rate = at + width, rate + size
    return q, v, acceleration, order, turned


@pytest.mark.parametrize("kind", [PointContact, Weld])
def test_forward_dynamics_with_contacts(kind: type[PointContact | Weld]) -> None:
    """Accelerations and contact forces of a floating base on two feet, by the rows of a step that fits take."""
    rng = np.random.default_rng(5)
    pair = Pair(rng)
    feet = [pair.add(pair.add(pair.add(pair.base(), Hinge), Hinge), Hinge)]
    feet.append(pair.add(pair.add(pair.add(1, Hinge), Hinge), Hinge))
    feet = feet if kind is PointContact else feet[:1]
    at = 0.1 * rng.normal(size=(len(feet), 3))
    frames = [pair.bodies[foot - 1].frame(at=p - pair.centers[foot - 1]) for foot, p in zip(feet, at, strict=True)]
    contacts = [kind(f"foot {i}", frame, level="acceleration") for i, frame in enumerate(frames)]
    motors = [Motor(joint, f"u{i}") for i, joint in enumerate(pair.joints)]
    model = Model(pair.bodies, pair.joints, motors, constraints=contacts, gravity=G)
    joints, scheme, settings = JointCoordinates(model), JointSpace(), Settings.of(model)
    space, rows = joints.manifold, model.rows - 5 * len(pair.joints)
    x, s = space.normed(rng.normal(size=space.ambient)), rng.normal(size=space.tangent)
    u = 3 * rng.normal(size=len(motors))
    factor = next(factor for factor in scheme.factors(model, settings) if factor.motion)
    assert factor.through is not None
    whole, n = factor.through.symbols, space.ambient
    unknowns = ca.vertcat(whole[n : n + rows], whole[n + rows + space.tangent :][: space.tangent])
    ones = ca.vertcat(settings.step, settings.disturbance, settings.slips, *settings.torques.values())
    given = ca.vertcat(whole[:n], whole[n + rows :][: space.tangent], factor.data, ones, *pair.parameters)
    holding = np.append(np.ones(len(contacts)), np.zeros(len(contacts)))
    numbers = [x, s, u, holding, np.ones(ones.numel()), [p.guess for p in pair.parameters]]
    equations = [factor.through.residual, ca.jacobian(factor.through.residual, unknowns)]
    function = ca.Function("rows", [unknowns, given], equations)
    J = function(0, np.concatenate(numbers))[1].full()[-rows:, rows:]
    numbers[1] = s = s - np.linalg.pinv(J) @ (J @ s)  # feet that do not move
    residual, matrix = function(0, np.concatenate(numbers))
    found = np.linalg.solve(matrix.full(), -residual.full()[:, 0])

    theirs, data = pair.theirs, pair.theirs.createData()
    theirs.gravity.linear = np.array(G)
    q, v, acceleration, order, turned = _theirs(pair, joints, x, s, found[rows:])
    torque = np.zeros(theirs.nv)
    torque[order[: len(motors)]] = turned[: len(motors), : len(motors)].T @ u
    pin.computeJointJacobians(theirs, data, q)
    contact = pin.ContactType.CONTACT_3D if kind is PointContact else pin.ContactType.CONTACT_6D
    held, forces = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for foot, p in zip(feet, at, strict=True):
        held.append(pin.RigidConstraintModel(contact, theirs, foot, pin.SE3(np.eye(3), p), pin.LOCAL_WORLD_ALIGNED))
        forces.append(held[len(held) - 1].createData())
    pin.initConstraintDynamics(theirs, data, held, forces)
    expected = pin.constraintDynamics(theirs, data, q, v, torque, held, forces)
    np.testing.assert_allclose(acceleration, expected, atol=1e-8)
    told = [np.concatenate([f.contact_force.linear, f.contact_force.angular])[: rows // len(feet)] for f in forces]
    np.testing.assert_allclose(found[:rows], np.concatenate(told), atol=1e-8)
