"""Mechanics: derivatives against differences, hand-made cases, and MuJoCo as an independent oracle."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import (
    Array,
    G,
    chain,
    free_body,
    full_inertia,
    function,
    furuta,
    joint_state,
    mechanics,
    pendulum,
    random_state,
    retract,
    skew_body,
    slope,
)
from scipy.spatial.transform import Rotation

from spookid import GROUND, Body, Hinge, Model, gravity, tilted_gravity
from spookid.mechanics.body import Frame
from spookid.mechanics.model import row_labels

MODELS = {"pendulum": pendulum, "furuta": furuta, "chain": chain, "skew": skew_body}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


# --- derivatives ---


@pytest.mark.parametrize("seed", range(3))
def test_constraint_jacobian_is_the_derivative_of_the_violation(model, seed):
    q, v = random_state(model, np.random.default_rng(seed))
    expected = slope(lambda delta: mechanics(model, retract(model.configuration, q, delta), v).g, len(v), step=1e-3)
    np.testing.assert_allclose(mechanics(model, q, v).G, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_slip_is_the_rate_of_the_angle_on_the_constraint_surface(model, seed):
    rng = np.random.default_rng(seed)
    n = len(model.joints)
    rates = rng.normal(size=n)
    q, v = joint_state(model, rng.uniform(-3, 3, n), rates)
    at = mechanics(model, q, v)
    np.testing.assert_allclose(at.g, 0, atol=1e-15)
    np.testing.assert_allclose(at.G @ v, 0, atol=1e-13)
    np.testing.assert_allclose(at.slip @ v, rates, atol=1e-12)
    turned = slope(lambda t: mechanics(model, retract(model.configuration, q, t[0] * v), v).angle, 1, step=1e-3)
    np.testing.assert_allclose(turned[:, 0], rates, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_slip_and_constraints_leave_no_direction_out(model, seed):
    q, v = joint_state(
        model, np.random.default_rng(seed).uniform(-3, 3, len(model.joints)), np.zeros(len(model.joints))
    )
    at = mechanics(model, q, v)
    assert np.linalg.cond(np.vstack([at.G, at.slip])) < 1e3


# --- conventions by hand ---


def lone_hinge(parent: Frame, child: Frame, rotation: Rotation, omega: Array) -> tuple[float, float]:
    """Angle and slip rate of a hinge between the ground and a body, whichever is the parent."""
    body = parent.body if child.body is GROUND else child.body
    model = Model(bodies=[body], joints=[Hinge("h", parent, child)], gravity=gravity(G))
    q = np.concatenate([np.zeros(3), rotation.as_quat(scalar_first=True)])
    at = mechanics(model, q, np.zeros(6))
    return at.angle[0], (at.slip @ np.concatenate([np.zeros(3), omega]))[0]


@pytest.mark.parametrize("turn", [-3.0, -1.2, 0.0, 0.4, 3.0])
def test_the_angle_grows_with_a_right_handed_turn_of_the_child_about_x(turn):
    body = Body("body", 1, (1, 1, 1))
    about_x = Rotation.from_rotvec([turn, 0, 0])
    rate = np.array([0.7, 0.0, 0.0])
    assert lone_hinge(GROUND.frame(), body.frame(), about_x, rate) == pytest.approx((turn, 0.7), abs=1e-15)
    assert lone_hinge(body.frame(), GROUND.frame(), about_x, rate) == pytest.approx((-turn, -0.7), abs=1e-15)


def test_the_angle_is_zero_where_the_y_axes_agree():
    body = Body("body", 1, (1, 1, 1))
    # The child's y is its own z; a quarter turn about the world's x takes it to -y.
    frame = body.frame(x=(1, 0, 0), y=(0, 0, 1))
    angle, _ = lone_hinge(
        GROUND.frame(x=(1, 0, 0), y=(0, -1, 0)), frame, Rotation.from_rotvec([np.pi / 2, 0, 0]), np.zeros(3)
    )
    assert angle == pytest.approx(0, abs=1e-15)


def test_a_pendulum_swings_up_from_hanging():
    # About the world's y, a positive turn takes a rod that points down to where it points backwards, to -x.
    q, v = joint_state(pendulum(length=0.2), [np.pi / 2], [2.0])
    np.testing.assert_allclose(q[:3], [-0.2, 0, 0], atol=1e-15)
    np.testing.assert_allclose(v[:3], [0, 0, 0.4], atol=1e-14)


def test_violation_by_hand():
    body = Body("body", 1, (1, 1, 1))
    model = Model([body], [Hinge("h", GROUND.frame(at=(1, 2, 3)), body.frame(at=(0, 0, 0.5)))], gravity=gravity(G))
    tilted = Rotation.from_rotvec([0, 0, np.pi / 6])  # x_a · y_b = −sin 30°, x_a · z_b = 0
    q = np.concatenate([[0.1, 0, 0], tilted.as_quat(scalar_first=True)])
    np.testing.assert_allclose(mechanics(model, q, np.zeros(6)).g, [0.9, 2, 2.5, -0.5, 0], atol=1e-15)


def test_masses_and_weights():
    model = Model([Body("a", 2, (1, 2, 3), free=True), Body("b", 5, full_inertia(), free=True)], gravity=gravity(G))
    at = mechanics(model, *random_state(model, np.random.default_rng(0)))
    expected = np.zeros((12, 12))
    expected[np.arange(6), np.arange(6)] = [2, 2, 2, 1, 2, 3]
    expected[6:9, 6:9], expected[9:, 9:] = 5 * np.eye(3), full_inertia()
    np.testing.assert_array_equal(at.M, expected)
    still = mechanics(model, random_state(model, np.random.default_rng(0))[0], np.zeros(12))
    np.testing.assert_allclose(still.f, [0, 0, -2 * G, 0, 0, 0, 0, 0, -5 * G, 0, 0, 0])


def test_gyroscopic_torque():
    model = Model([Body("b", 1, full_inertia(), free=True)], gravity=gravity(0))
    q, v = random_state(model, np.random.default_rng(1))
    expected = -np.cross(v[3:], full_inertia() @ v[3:])
    np.testing.assert_allclose(mechanics(model, q, v).f, [0, 0, 0, *expected], atol=1e-15)
    # Principal moments 1, 2, 3 and ω = (1, 1, 0): ω × Jω = (0, 0, 1).
    model = free_body(inertia=(1, 2, 3))
    np.testing.assert_allclose(mechanics(model, q, np.array([0, 0, 0, 1, 1, 0])).f[3:], [0, 0, -1], atol=1e-15)


def test_gravity_and_its_tilt():
    np.testing.assert_array_equal(ca.DM(gravity(G)).full()[:, 0], [0, 0, -G])
    for a, b in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (-0.2, 0.15)]:
        tilted = ca.DM(tilted_gravity(G, a, b)).full()[:, 0]
        np.testing.assert_allclose(tilted, Rotation.from_rotvec([a, b, 0]).apply([0, 0, -G]), atol=1e-14)
        np.testing.assert_allclose(tilted, [-b * G, a * G, -G], atol=G * (a * a + b * b))
        assert np.linalg.norm(tilted) == pytest.approx(G)


def test_tilts_have_derivatives_at_zero():
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    slopes = ca.Function("slopes", [a, b], [ca.jacobian(tilted_gravity(G, a, b), ca.vertcat(a, b))])
    np.testing.assert_array_equal(slopes(0, 0).full(), [[0, -G], [G, 0], [0, 0]])


def test_rows_have_names():
    assert row_labels(furuta(), "Δp_u")[7:10] == ("Δp_u B.y", "Δp_u B.z", "Δp_u B.rx")
    assert furuta().holding.labels()[4:7] == ("shoulder.xz", "elbow.x", "elbow.y")


# --- MuJoCo ---


def joint_accelerations(model: Model, q: Array, v: Array) -> Array:
    """θ̈ of each hinge from M a − Gᵀl = f, G a = −Ġ v: the rigid mechanism's, without friction."""
    at, bias = mechanics(model, q, v), _bias(model)(q, v, 0.0)[0]
    rows = len(at.G)
    kkt = np.block([[at.M, -at.G.T], [at.G, np.zeros((rows, rows))]])
    a = np.linalg.solve(kkt, np.concatenate([at.f, -bias[:rows]]))[: len(v)]
    return at.slip @ a + bias[rows:]


@cache
def _bias(model: Model) -> Any:
    """Ġ v and the slip rows' rate times v as a function of q, v and t = 0, along q ⊞ t v."""
    q, v, t = ca.SX.sym("q", 7 * len(model.bodies)), ca.SX.sym("v", 6 * len(model.bodies)), ca.SX.sym("t")
    at = model.mechanics(q)
    rates = ca.vertcat(at.constraint, at.slip) @ v
    later = ca.substitute(rates, q, model.configuration.retract(q, t * v))
    return function([ca.jacobian(later, t)], [q, v, t])


def numeric(frame: Frame) -> tuple[Array, Array]:
    """Origin (3,) and axes (3, 3) of a frame."""
    return ca.DM(frame.at).full()[:, 0], ca.DM(frame.axes).full()


def text(values: Any) -> str:
    return " ".join(f"{x:.17g}" for x in values)


def mjcf(model: Model) -> str:
    """The model as MuJoCo's XML.

    MuJoCo's body frame is ours, with its origin at the centre of mass. A body hangs in the body that the joint nearest
    to the ground joins it to. Its pose there at angle zero is that of its frame lying on the other one: rotation
    A_there A_hereᵀ and origin at_there − rotation at_here, A being the frames' axes. Its joint's axis is x of the frame
    on it; where that frame is our hinge's parent, our angle turns the other body, so that the axis is −x.
    """
    nested = {body.name: "" for body in (GROUND, *model.bodies)}
    for joint in reversed(model.tree()):
        placed = {"GROUND"} | {b.name for j in model.tree()[: model.tree().index(joint)] for b in j.bodies()}
        new, old = (joint.child, joint.parent) if joint.parent.body.name in placed else (joint.parent, joint.child)
        (at, axes), (at_old, axes_old) = numeric(new), numeric(old)
        rotation = axes_old @ axes.T
        axis = axes[:, 0] if new is joint.child else -axes[:, 0]
        quaternion = Rotation.from_matrix(rotation).as_quat(scalar_first=True)
        inertia = ca.DM(new.body.inertia).full()
        moments = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
        mass = float(new.body.mass)
        nested[old.body.name] += (
            f'<body name="{new.body.name}" pos="{text(at_old - rotation @ at)}" quat="{text(quaternion)}">'
            f'<joint name="{joint.name}" type="hinge" pos="{text(at)}" axis="{text(axis)}"/>'
            f'<inertial pos="0 0 0" mass="{mass:.17g}" fullinertia="{text(moments)}"/>{nested[new.body.name]}</body>'
        )
    field = text(ca.DM(model.gravity).full()[:, 0])
    return f'<mujoco><option gravity="{field}"/><worldbody>{nested["GROUND"]}</worldbody></mujoco>'


@pytest.mark.parametrize("build", [pendulum, furuta, skew_body, chain])
def test_mujoco_agrees_on_poses_and_accelerations(build):
    mujoco = pytest.importorskip("mujoco")
    model = build()
    other = mujoco.MjModel.from_xml_string(mjcf(model))
    data = mujoco.MjData(other)
    address = [other.joint(joint.name).qposadr[0] for joint in model.joints]
    rng = np.random.default_rng(5)
    for _ in range(10):
        angles, rates = rng.uniform(-3, 3, len(address)), rng.normal(scale=3, size=len(address))
        data.qpos[address], data.qvel[address] = angles, rates
        mujoco.mj_forward(other, data)
        q, v = joint_state(model, angles, rates)
        poses = q.reshape(-1, 7)
        for body, pose in zip(model.bodies, poses, strict=True):
            np.testing.assert_allclose(pose[:3], data.body(body.name).xpos, atol=1e-13)
            turned = Rotation.from_quat(pose[3:], scalar_first=True).as_matrix()
            np.testing.assert_allclose(turned.ravel(), data.body(body.name).xmat, atol=1e-13)
        expected = data.qacc[address]
        ours = joint_accelerations(model, q, v)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_mujoco_moves_under_tilted_gravity_alike():
    mujoco = pytest.importorskip("mujoco")
    model = furuta(acceleration=tilted_gravity(G, 0.1, -0.05))
    other = mujoco.MjModel.from_xml_string(mjcf(model))
    data = mujoco.MjData(other)
    data.qpos[:], data.qvel[:] = [0.3, 2.0], [1.0, -2.0]
    mujoco.mj_forward(other, data)
    np.testing.assert_allclose(
        joint_accelerations(model, *joint_state(model, [0.3, 2.0], [1.0, -2.0])), data.qacc, rtol=1e-9
    )
