"""Robots from MJCF files: the same mechanics as MuJoCo's, loops that close, and files written back."""

from __future__ import annotations

from pathlib import Path

import pytest
from robot_files import FOURBAR, MIXED
from test_robots import unknown

from spookid import Gear, ProblemError, Universal, robots

mujoco = pytest.importorskip("mujoco")


def written(folder: Path, text: str) -> Path:
    path = folder / "robot.xml"
    path.write_text(text)
    return path


def test_joints_on_one_body_are_one(tmp_path: Path) -> None:
    robot = robots.read(written(tmp_path, MIXED))
    assert [type(joint).__name__ for joint in robot.joints.values()] == [
        "Hinge",
        "Prismatic",
        "Universal",
        "Cylindrical",
        "Planar",
    ]
    assert isinstance(robot.joints["u1 and u2"], Universal)
    assert robot.description.gravity == (0.3, -0.2, -9.7)
    assert float(robot.bodies["crossed"].mass) > 0.7  # with what is fixed to it
    three = MIXED.replace(
        '<joint name="u2" axis="0 0 1" ref="-15"/>', '<joint name="u2" axis="0 0 1"/><joint name="u3"/>'
    )
    with pytest.raises(
        ProblemError, match=r"robot.xml:\d+: body 'crossed' has joints u1 and u2 and u3 \(hinge, hinge, hi"
    ):
        robots.read(written(tmp_path, three))


def _plain(text: str) -> str:
    """Without what only a file has that is never opened."""
    return text.replace('<geom type="mesh" mesh="m"/>', "").replace(
        '<asset><mesh name="m" file="nowhere.stl"/></asset>', ""
    )


def test_joints_that_follow_and_joints_that_are_held(tmp_path: Path) -> None:
    equality = '<joint joint1="a" joint2="c" polycoef="0.1 2 0 0 0"/>'
    (gear,) = robots.read(written(tmp_path, FOURBAR.replace("<equality>", f"<equality>{equality}"))).constraints
    assert isinstance(gear, Gear)
    assert (gear.joint_a.name, float(gear.ratio), float(gear.offset)) == ("c", 2.0, 0.1)
    bent = equality.replace("0.1 2 0", "0.1 2 3")
    with pytest.raises(ProblemError, match="which is not linear"):
        robots.read(written(tmp_path, FOURBAR.replace("<equality>", f"<equality>{bent}")))
    locked = equality.replace('joint2="c"', "")
    assert "a" not in robots.read(written(tmp_path, FOURBAR.replace("<equality>", f"<equality>{locked}"))).joints


def test_what_would_change_masses_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, _plain(FOURBAR).replace('angle="degree"', 'angle="degree" settotalmass="3"'))
    robot, values = unknown(robots.read(path))
    with pytest.raises(ProblemError, match="the compiler option settotalmass changes masses; remove the option"):
        robot.write(tmp_path / "new.xml", values)


def test_bad_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    bad = FOURBAR.replace('joint name="a"', 'joint name="a" kind="x"')
    with pytest.raises(ProblemError, match=r"robot.xml: MuJoCo refuses it \(.*\); correct it") as told:
        robots.read(written(tmp_path, bad))
    assert "\n" not in str(told.value)


def test_motors_of_the_file(tmp_path: Path) -> None:
    actuators = '<motor joint="a" name="drive" gear="50"/><motor joint="b"/><position joint="c" kp="3"/>'
    path = written(tmp_path, FOURBAR.replace("</mujoco>", f"<actuator>{actuators}</actuator></mujoco>"))
    robot = robots.read(path)
    assert [(m.joint.name, m.signal, float(m.gain)) for m in robot.motors()] == [
        ("a", "drive", 50),
        ("b", "b_motor", 1),
    ]
    assert robot.notices == (
        "c_servo follow position or velocity commands and are not read as motors; declare each as a Servo.",
    )
    without = (
        path.read_text().replace('<geom type="mesh" mesh="m"/>', "").replace('<mesh name="m" file="nowhere.stl"/>', "")
    )
    model = mujoco.MjModel.from_xml_string(without)
    data = mujoco.MjData(model)
    data.ctrl[:2] = 2.0, 3.0
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[:2].tolist() == [float(m.gain) * u for m, u in zip(robot.motors(), (2, 3), strict=True)]
    assert robot.model(motors=robot.motors()).signals == ("drive", "b_motor")


BAR = '<body name="bar"><joint name="a"/>{}<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'


def test_files_of_other_folders_are_read_for_those_who_trust(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "part.xml").write_text('<mujoco><option gravity="0 0 -3"/></mujoco>')
    (other / "box.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n")
    (own / "link.xml").symlink_to(other / "part.xml")
    (own / "inner.xml").write_text('<mujoco><include file="../other/part.xml"/></mujoco>')
    mesh = '<compiler meshdir="../other"/><asset><mesh name="m" file="box.obj"/></asset>'
    included = [
        f'<include file="{name}"/>' for name in ("../other/part.xml", other / "part.xml", "link.xml", "inner.xml")
    ]
    for head in (*included, mesh):
        shape = '<geom type="mesh" mesh="m"/>' if head == mesh else ""
        body = BAR.replace("<inertial", "<x").format(shape) if shape else BAR.format("")
        body = body.replace('<x pos="0 0 0" mass="1" diaginertia="1 1 1"/>', "")
        path = written(own, f"<mujoco>{head}<worldbody>{body}</worldbody></mujoco>")
        with pytest.raises(ProblemError, match=r"^\S+: it reads \S+, outside of the robot's own folder; .* --trust$"):
            robots.read(path)
        assert list(robots.read(path, trust=True).joints) == ["a"]


@pytest.mark.parametrize("head", ['<model name="m" file="robot.xml"/>', '<model name="m" file="twin.xml"/>'])
def test_models_that_are_attached_to_themselves(tmp_path: Path, head: str) -> None:
    """At which MuJoCo ends the process."""
    attached = '<attach model="m" body="bar" prefix="p"/>'
    text = f"<mujoco><asset>{head}</asset><worldbody>{BAR.format(attached)}</worldbody></mujoco>"
    (tmp_path / "twin.xml").write_text(text)
    with pytest.raises(ProblemError, match=r"xml' is attached to itself; take it out$"):
        robots.read(written(tmp_path, text))


def test_included_files_make_no_more_parts_than_others(tmp_path: Path) -> None:
    made = f'<replicate count="5000">{BAR.format("")}</replicate>'
    (tmp_path / "many.xml").write_text(f"<mujocoinclude>{made}</mujocoinclude>")
    text = '<mujoco><worldbody><replicate count="5000"><include file="many.xml"/></replicate></worldbody></mujoco>'
    with pytest.raises(ProblemError, match=r"many.xml:1: <replicate> makes 2.5e\+07 parts of itself; give fewer$"):
        robots.read(written(tmp_path, text))
