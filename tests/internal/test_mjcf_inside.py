"""The inside of what ``test_mjcf`` tests."""

from __future__ import annotations

from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from robot_files import FOURBAR, MIXED, WELDED
from scipy.integrate import solve_ivp
from test_mjcf import _plain, mujoco, written
from test_robots import unknown
from test_robots_inside import same_as_written

from spookid import Fixed, ProblemError, Spherical, robots
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.robots.comparing import Along, replayed
from spookid.robots.markup import parse
from spookid.robots.parts import Parts
from spookid.robots.urdf import described


def check_against_mujoco(path: Path) -> None:
    """Inverse dynamics with springs, damping and armatures, without constraints."""
    robot, theirs = robots.read(path), mujoco.MjModel.from_xml_path(str(path))
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data, joints = mujoco.MjData(theirs), JointCoordinates(robot.model())
    n = joints.manifold.tangent
    x, s, a = (ca.SX.sym(name, n) for name in "xsa")
    motion = Recursion(joints, x, s, a)
    own = []
    for joint, at in (
        (joint, slice(start := joints.start(joint), start + len(joint.coordinates))) for joint in joints.tree
    ):
        own.append(joint.armature * a[at] - joint.effort(x[at], s[at], {}, ca.SX.ones(len(joint.coordinates))))
    efforts = ca.Function("efforts", [x, s, a], [motion.along(motion.needed) + ca.vertcat(*own)])
    labels = [label for joint in joints.tree for label in joint.labels]
    names = [robot.freedoms[label].name for label in labels]
    # One joint of the file has no name: there is one of each body that has none.
    at = [theirs.jnt_dofadr[_number(theirs, name)] for name in names]
    assert sorted(at) == list(range(theirs.nv))
    for q, v, acceleration in np.random.default_rng(0).uniform(-1, 1, (3, 3, n)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, acceleration
        mujoco.mj_inverse(theirs, data)
        found = np.asarray(efforts(q[at], v[at], acceleration[at])).ravel()
        np.testing.assert_allclose(found, data.qfrc_inverse[at], atol=1e-10)


def _number(model: object, name: str) -> int:
    names = [model.joint(i).name for i in range(model.njnt)]  # type: ignore[attr-defined]
    return names.index(name if name in names else "")


def test_inverse_dynamics_are_those_of_mujoco(tmp_path: Path) -> None:
    check_against_mujoco(written(tmp_path, MIXED))


@pytest.mark.parametrize(("text", "kind"), [(FOURBAR, Spherical), (WELDED, Fixed)])
def test_equalities_close_loops(tmp_path: Path, text: str, kind: type) -> None:
    path = written(tmp_path, text)
    robot, theirs = robots.read(path), mujoco.MjModel.from_xml_path(str(written(tmp_path / "..", _plain(text))))
    pin, model = robot.joints["pin"], robot.model()
    assert isinstance(pin, kind)
    assert model.has_loops
    check_against_mujoco(written(tmp_path, _plain(text)))
    # Where the file has the bodies the loop is closed as far as the file says.
    joints, data = JointCoordinates(model), mujoco.MjData(theirs)
    x = ca.SX.sym("x", joints.manifold.ambient)
    closed = ca.Function("closed", [x], [model.joint(pin, joints.configuration(x)).violation])
    for q in np.random.default_rng(1).uniform(-0.5, 0.5, (3, 3)):
        data.qpos[:] = q
        mujoco.mj_forward(theirs, data)
        gap = data.efc_pos[: pin.rows]
        own = np.asarray(closed([q["abc".index(joint.name)] for joint in joints.tree])).ravel()
        assert np.linalg.norm(own[:3]) == pytest.approx(np.linalg.norm(gap[:3]), abs=1e-12)
    np.testing.assert_allclose(np.asarray(closed(np.zeros(3))).ravel()[3:], 0, atol=1e-12)


@pytest.mark.parametrize("text", [FOURBAR, WELDED, MIXED], ids=["connect", "weld", "mixed"])
def test_the_file_comes_back_with_what_was_found(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    robot, values = unknown(robots.read(path))
    robot.write(tmp_path / "new.xml", values)
    back = robots.read(tmp_path / "new.xml")
    same_as_written(robot, back, values)
    assert [comment in (tmp_path / "new.xml").read_text() for comment in ("<!--",)] == ["<!--" in text]
    check_against_mujoco(written(tmp_path, _plain((tmp_path / "new.xml").read_text())))


def test_replays_are_the_motion_of_the_model(tmp_path: Path) -> None:
    """Two integrators, from a file that includes another one, and from one that is changed."""
    (tmp_path / "part.xml").write_text('<mujoco><default><joint axis="0 1 0" damping="0.05"/></default></mujoco>')
    path = written(
        tmp_path,
        '<mujoco><include file="part.xml"/><worldbody><body name="upper"><joint name="a" armature="0.01"/>'
        '<inertial mass="0.5" pos="0.1 0 0" diaginertia="1e-3 2e-3 2e-3"/><body name="lower" pos="0.2 0 0">'
        '<joint name="b" stiffness="0.3" springref="20"/>'
        '<inertial mass="0.2" pos="0.1 0 0" diaginertia="1e-4 1e-3 1e-3"/>'
        "</body></body></worldbody></mujoco>",
    )
    robot = robots.read(path)
    symbols = [ca.SX.sym(name, 2) for name in "xsa"]
    bodies = Recursion(JointCoordinates(robot.model()), *symbols)
    rest, mass = bodies.along(bodies.needed), ca.jacobian(bodies.along(bodies.needed), symbols[2])
    rest = ca.substitute(rest, symbols[2], 0)
    needed = ca.Function("needed", symbols[:2], [ca.densify(rest), ca.densify(mass) + ca.diag([0.01, 0])])
    t = np.arange(0, 1.2, 0.01)
    did = np.column_stack([np.sin(3 * t), 0.2 * np.cos(5 * t)])

    def rates_of(_: float, state: np.ndarray, effort: np.ndarray) -> np.ndarray:
        q, s = state[:2], state[2:]
        rest, mass = (np.asarray(part.full()) for part in needed(q, s))
        spring = np.array([0, 0.3 * (q[1] - np.radians(20))])
        return np.concatenate([s, np.linalg.solve(mass, effort - 0.05 * s - spring - rest.ravel())])

    states = [np.array([0.5, -0.3, 0, 0])]
    for effort in did[:-1]:
        states.append(solve_ivp(rates_of, (0, 0.01), states[-1], args=(effort,), rtol=1e-8).y[:, -1])
    positions, rates = np.split(np.array(states), 2, axis=1)
    motion = Along(("a", "b"), ("a", "b"), 0.01, t, positions, rates, did, positions)
    assert motion.starts.tolist() == [0]
    expected = np.stack([positions[k + 1 : k + 101] for k in motion.starts])
    np.testing.assert_allclose(replayed(robot, motion, {}), expected, atol=1e-2)
    # MuJoCo's integrator is of first order.
    # As it is with what was found, though no such file is there; and with an armature that a file does not have.
    document = robot.source.document
    lighter = parse(path, document.content.replace(b'armature="0.01"', b'armature="0.002"'))
    changed = Parts(*described(lighter))
    assert np.max(np.abs(replayed(changed, motion, {}) - expected)) > 0.05
    np.testing.assert_allclose(replayed(changed, motion, {"a": {"armature": 0.01}}), expected, atol=1e-2)
    with pytest.raises(ProblemError, match="joint 'pin' is of another kind"):
        replayed(robots.read(written(tmp_path, FOURBAR)), motion, {})
