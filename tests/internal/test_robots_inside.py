"""The inside of what ``test_robots`` tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
import pytest
from robot_files import ARM
from test_robots import arm as arm
from test_robots import unknown

from spookid import Fixed, ProblemError, robots
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.parameter import substitute
from spookid.results.values import Derived, MotorOutline, Quantity
from spookid.robots.comparing import _lacking

OTHERS = ("panda_description/urdf/panda.urdf", "ur_description/urdf/ur5_robot.urdf", "z1_description/urdf/z1.urdf")
OTHERS += ("talos_data/robots/talos_full_v2.urdf", "bolt_description/robots/bolt.urdf")


def same_as_written(robot: robots.Robot, back: robots.Robot, values: dict[str, float]) -> None:
    for name, body in robot.bodies.items():
        pi, found = body.distribution.pi, back.bodies[name].distribution.pi  # type: ignore[union-attr]
        np.testing.assert_allclose(ca.DM(found).full().ravel(), substitute(pi, values), rtol=1e-12, atol=1e-12)
    for name in (name for name, joint in robot.joints.items() if len(joint.coordinates) == 1):
        for what in ("viscous", "coulomb", "armature", "stiffness", "rest"):
            wanted = substitute(ca.densify(getattr(robot.joints[name], what)), values)
            assert ca.DM(getattr(back.joints[name], what)).full().ravel() == pytest.approx(wanted, rel=1e-14)


def efforts(robot: robots.Robot, x: Any, s: Any, a: Any) -> np.ndarray:
    """What the bodies take along the joints of the tree, without loads."""
    joints = JointCoordinates(robot.model())
    symbols = [ca.SX.sym(name, len(value)) for name, value in (("x", x), ("s", s), ("a", a))]
    motion = Recursion(joints, *symbols)
    return np.asarray(ca.Function("efforts", symbols, [motion.along(motion.needed)])(x, s, a)).ravel()


def check_against_pinocchio(path: Path) -> None:
    pin = pytest.importorskip("pinocchio")
    robot, theirs = robots.read(path), pin.buildModelFromUrdf(str(path))
    names = [joint.name for joint in JointCoordinates(robot.model()).tree]
    own = [theirs.joints[theirs.getJointId(name)] for name in names]
    q, v, a = np.random.default_rng(0).uniform(-1, 1, (3, theirs.nv))
    moved = np.zeros(theirs.nq)
    for joint in theirs.joints[1:]:
        at = q[joint.idx_v]
        moved[joint.idx_q : joint.idx_q + joint.nq] = [at] if joint.nq == 1 else [np.cos(at), np.sin(at)]
    expected = pin.rnea(theirs, theirs.createData(), moved, v, a)
    at = [joint.idx_v for joint in own]
    assert len(at) == theirs.nv
    np.testing.assert_allclose(efforts(robot, q[at], v[at], a[at]), expected[at], atol=1e-9)


def test_inverse_dynamics_are_those_of_pinocchio(arm: Path) -> None:
    check_against_pinocchio(arm)


@pytest.mark.parametrize("name", OTHERS)
def test_robots_that_others_wrote(name: str) -> None:
    pin = pytest.importorskip("pinocchio")
    path = Path(pin.__file__).parents[4] / "share/example-robot-data/robots" / name
    if not path.is_file():
        pytest.skip("needs the package example-robot-data")
    check_against_pinocchio(path)


def test_links_may_stay_apart_and_joints_be_held(arm: Path) -> None:
    apart = robots.read(arm, merge=False)
    assert list(apart.bodies) == ["upper", "lower", "tool", "finger"]
    assert isinstance(apart.joints["flange"], Fixed)
    held = robots.read(arm, held={"elbow": 0.6})
    assert list(held.joints) == ["shoulder", "slide"]
    whole, part = robots.read(arm), np.array([0.3, 0.1])
    still = efforts(held, part, [0.0, 0.0], [1.0, 0.5])
    moving = efforts(whole, [0.3, 0.6, 0.1], [0.0] * 3, [1.0, 0.0, 0.5])
    np.testing.assert_allclose(still, moving[[0, 2]], atol=1e-12)
    assert [body.free for body in robots.read(arm, held={}).with_(held={"slide": 0.0}).bodies.values()] == [False] * 2
    with pytest.raises(ProblemError, match="no hinge or slider 'flange' to fix, only elbow, shoulder, slide"):
        robots.read(arm, held={"flange": 0.0})


def test_macros_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xacro")
    monkeypatch.setattr("spookid.robots.urdf._PATIENCE", 1.0)
    path = tmp_path / "arm.xacro"
    head = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="'
    for text, message in (("${9**9**9}", "is not expanded by xacro within 1 s"), ("${nothing}", "cannot be expanded")):
        path.write_text(f'{head}{text}"/></robot>')
        with pytest.raises(ProblemError, match=message):
            robots.read(path)


# --- back into the file ---


def test_the_file_comes_back_with_what_was_found(arm: Path, tmp_path: Path) -> None:
    robot, values = unknown(robots.read(arm))
    out = tmp_path / "new.urdf"
    beside = robot.write(out, values)
    same_as_written(robot, robots.read(out), values)
    replaced = re.compile(rb"\s*<inertial>.*?</inertial>|\s*<dynamics[^>]*/>", re.DOTALL)
    before, after = (replaced.sub(b"", path.read_bytes()) for path in (arm, out))
    assert after == before
    assert b'rpy="0.3 -0.2 0.5"' in out.read_bytes()
    assert b"<!-- An arm; this comment stays. -->" in out.read_bytes()
    assert b"<inertia ixx='" in out.read_bytes()  # quotes as they were
    told = json.loads(beside.read_text())
    assert told["robot"] == {"name": "arm", "file": "arm.urdf", "format": "URDF"}
    with pytest.raises(ProblemError, match="is the robot's own file, which is kept"):
        robot.write(arm, values)
    with pytest.raises(ProblemError, match="has a Parameter 'upper_alpha' without a value"):
        robot.write(out, {})


def test_a_motors_inertia_counts_once(tmp_path: Path) -> None:
    """What results call a joint's armature has the inertia of its motors in it, if that depends on parameters."""
    (tmp_path / "arm.urdf").write_text(ARM)
    robot = robots.read(tmp_path / "arm.urdf")
    motors = (MotorOutline("elbow", "i", (Quantity("shaft inertia", "J", 0.1, "kg m^2"),)),)
    armature = Derived("elbow armature", 0.1, 0.01, "", "kg m^2", "elbow")
    mechanism = SimpleNamespace(motors=motors)
    found = _lacking(robot, SimpleNamespace(joints={"elbow armature": armature}, mechanism=mechanism))
    assert found == {"elbow": {"armature": 0.1}}
    given = _lacking(robot, SimpleNamespace(joints={}, mechanism=mechanism))
    assert given == {"elbow": {"armature": 0.1 + float(robot.joints["elbow"].armature)}}
