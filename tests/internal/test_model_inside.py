"""The inside of what ``test_model`` tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, G, chain, function, furuta, joint_state, mechanics, pendulum, skew_body
from scipy.spatial.transform import Rotation

from spookid import GROUND, Body, Hinge, Model, gravity, tilted_gravity
from spookid.mechanics.body import Frame
from spookid.mechanics.holding import row_labels

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


def test_rows_have_names():
    assert row_labels(furuta().bodies, "Δp_u")[7:10] == ("Δp_u B.y", "Δp_u B.z", "Δp_u B.rx")
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
