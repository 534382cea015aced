"""Joint coordinates against Pinocchio: inverse dynamics, torque regressor, energy; chains, trees, a floating base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array

from spookid import GROUND, Body, Hinge, Joint, Model, Parameter, Prismatic, Spherical
from spookid.mechanics.body import Frame
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.recursion import Recursion

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
