"""Robots from URDF files: mechanics as Pinocchio has them, bad files refused in a sentence, and files written back."""

from __future__ import annotations

import json
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from robot_files import ARM

from spookid import GROUND, FullInertia, Gear, LogCholesky, Parameter, ProblemError, Recording, Spherical, robots


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


def test_what_a_file_says(arm: Path) -> None:
    robot = robots.read(arm)
    assert list(robot.bodies) == ["upper", "lower", "finger"]
    assert list(robot.joints) == ["shoulder", "elbow", "slide"]
    shoulder = robot.joints["shoulder"]
    assert (float(shoulder.viscous), float(shoulder.coulomb)) == (0.4, 0.7)
    assert shoulder.parent.body is GROUND
    assert robot.limits["shoulder"].effort == 80
    assert (robot.limits["shoulder"].lower, robot.limits["elbow"].upper) == (-2, np.inf)
    assert float(robot.bodies["lower"].mass) == pytest.approx(1.5)  # with the tool
    assert robot.bodies["upper"].place == f"{arm}:5"
    assert robot.frame("tip").body is robot.bodies["finger"]


def test_joints_that_follow_and_closures_on_top(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace('<dynamics damping="2"/>', '<mimic joint="elbow" multiplier="0.1" offset="0.02"/>'))
    robot = robots.read(path)
    (gear,) = robot.constraints
    assert isinstance(gear, Gear)
    assert (float(gear.ratio), float(gear.offset)) == (0.1, 0.02)
    closing = Spherical("closing", GROUND.frame(at=(0, 0.3, 0.8)), robot.frame("tool", at=(0, 0, 0.1)))
    assert robot.model(joints=[closing]).has_loops
    assert dict(robot.with_(held={"slide": 0.04}).still) == {"slide": 0.04, "elbow": pytest.approx(0.2)}
    assert list(robot.with_(held={"elbow": 0.2}).joints) == ["shoulder"]


def test_a_macro_file_is_expanded(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.urdf.xacro"
    macro = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="3"/>'
    path.write_text(ARM.replace('<robot name="arm">', macro).replace('value="2.0"', 'value="${m - 1}"'))
    assert float(robots.read(path).bodies["upper"].mass) == 2.0


@pytest.mark.parametrize(
    "mass",
    [
        "${xacro.load_yaml('FOLDER/mass.yaml')['m']}",
        "${xacro.load_yaml('../mass.yaml')['m']}",
        "${xacro.load_yaml('link.yaml')['m']}",
        "$(env MASS_OF_A_TEST)",
    ],
)
def test_macros_see_their_own_folder_alone_unless_they_are_trusted(tmp_path: Path, monkeypatch, mass: str) -> None:
    pytest.importorskip("xacro")
    monkeypatch.setenv("MASS_OF_A_TEST", "3")
    (tmp_path / "own").mkdir()
    (tmp_path / "mass.yaml").write_text("m: 3")
    (tmp_path / "own" / "mass.yaml").write_text("m: 3")
    (tmp_path / "own" / "link.yaml").symlink_to("../mass.yaml")
    path = tmp_path / "own" / "arm.xacro"
    macro = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">'
    text = ARM.replace('<robot name="arm">', macro)
    path.write_text(text.replace('value="2.0"', f'value="{mass.replace("FOLDER", str(tmp_path))}"'))
    with pytest.raises(ProblemError, match="let it read other folders and the environment with --trust"):
        robots.read(path)
    trusted = robots.read(path, trust=True)
    assert float(trusted.bodies["upper"].mass) == 3.0
    assert trusted.model().robot.trust
    path.write_text(text.replace('value="2.0"', "value=\"${xacro.load_yaml('mass.yaml')['m']}\""))
    assert float(robots.read(path).bodies["upper"].mass) == 3.0


def test_a_macro_file_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.xacro"
    path.write_text(ARM)
    with pytest.raises(ProblemError, match="is the robot's own file, which is kept"):
        robots.read(path).write(path, {})


def test_joints_that_move_no_mass(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    end = '<joint name="end" type="fixed">'
    path.write_text(ARM.replace(end, '<joint name="end" type="continuous">'))
    robot = robots.read(path)
    assert robot.notices == ("All links that joints end move are massless: these joints are fixed at 0.",)
    assert list(robot.joints) == ["shoulder", "elbow", "slide"]
    # A joint that leads one with mass is part of the motion.
    leads = ARM.replace(end, '<joint name="end" type="continuous">').replace(
        '<axis xyz="1 0 0"/>', '<axis xyz="1 0 0"/><mimic joint="end"/>'
    )
    path.write_text(leads)
    with pytest.raises(ProblemError, match="link 'tip' moves on joint 'end' and has no mass"):
        _ = robots.read(path).bodies


def test_joints_that_follow_in_a_circle(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    text = ARM.replace('<axis xyz="1 0 0"/>', '<axis xyz="1 0 0"/><mimic joint="slide" multiplier="2"/>')
    path.write_text(text.replace('<dynamics damping="2"/>', '<mimic joint="elbow" multiplier="3"/>'))
    with pytest.raises(ProblemError, match="joint 'elbow' follows 'slide', and that it in the end"):
        robots.read(path)


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><robot name="x">&b;</robot>'
FETCH = '<!DOCTYPE r SYSTEM "http://example.com/r.dtd"><robot name="x"/>'
HOSTILE = {
    "empty": ("  \n", "is empty; give a robot's description"),
    "no XML": ("link: base", r"arm.urdf:1: is no XML \(.*\); correct that line"),
    "cut off": (ARM[:900], "is no XML"),
    "an entity bomb": (BOMB, r"arm.urdf:1: it has a document type declaration <!DOCTYPE r .*; remove it"),
    "an entity elsewhere": (FETCH, "document type declaration"),
    "another file": ("<html/>", "its root is <html>; give a URDF"),
    "deep": ("<robot>" + "<a>" * 2000 + "</a>" * 2000 + "</robot>", "more than 500 elements are inside each other"),
    "many": ("<robot>" + "<a/>" * 600_000 + "</robot>", "it has more than 500,000 elements"),
    "digits of another script": (ARM.replace("2.0", "\u0662"), "has value='\u0662'; give one finite number"),
    "a number too large": (ARM.replace("2.0", "1e200"), "give one finite number of at most 1e"),
    "no links": ('<robot name="x"/>', "has no <link>; give a complete description"),
    "a missing link": (ARM.replace('<link name="base"/>', ""), r"urdf:\d+: joint 'shoulder' joins link 'base', which"),
    "two roots": (ARM.replace('<link name="base"/>', '<link name="base"/><link name="b2"/>'), "a robot has one root"),
    "a circle": (
        ARM.replace('<parent link="base"/>', '<parent link="tool"/>'),
        r"joint '\w+' closes a circle of links",
    ),
    "two parents": (ARM.replace('<child link="tip"/>', '<child link="tool"/>'), "is the second to carry link 'tool'"),
    "a joint to itself": (
        ARM.replace('<child link="tip"/>', '<child link="finger"/>'),
        "joins link 'finger' to itself",
    ),
    "no mass": (ARM.replace('value="0.05"', 'value="0"').replace("2e-5", "0").replace("1e-5", "0"), "and has no mass"),
    "a negative mass": (ARM.replace('value="2.0"', 'value="-2.0"'), r"urdf:8: link 'upper' has mass -2 kg"),
    "no number": (ARM.replace('value="2.0"', 'value="heavy"'), "<mass> has value='heavy'; give one finite number"),
    "infinity": (ARM.replace('value="2.0"', 'value="inf"'), "give one finite number"),
    "an impossible inertia": (
        ARM.replace('ixx="0.02"', 'ixx="0.2"'),
        r"urdf:5: link 'upper': principal moments .*mend",
    ),
    "an unknown type": (ARM.replace('"prismatic"', '"screw"'), "has type 'screw'; use one of revolute, continuous"),
    "no axis": (
        ARM.replace('xyz="1 0 0"', 'xyz="0 0 0"'),
        "joint 'elbow' has an axis of length zero; give a direction",
    ),
    "a short axis": (ARM.replace('xyz="1 0 0"', 'xyz="1 0"'), "<axis> has xyz='1 0'; give 3 finite numbers"),
    "two of a name": (ARM.replace('name="elbow"', 'name="slide"'), "has the name of the one in .*; rename it"),
    "no parent": (
        ARM.replace('<parent link="base"/>', ""),
        "joint 'shoulder' has no <parent>; give it one with a link",
    ),
    "negative damping": (ARM.replace('damping="2"', 'damping="-2"'), "has damping -2; it must not be negative"),
    "following nobody": (ARM.replace('<dynamics damping="2"/>', '<mimic joint="x"/>'), "follows 'x', which the file"),
    "UTF-16": (ARM.encode("utf-16"), "is UTF-16; save it in UTF-8"),
    "another encoding": (ARM.replace("UTF-8", "ISO-8859-1"), "its encoding is ISO-8859-1; save it in UTF-8"),
    "no text": (b"\x00\x01\x02\xff", "is no XML"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_bad_files_are_refused_in_a_sentence(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "arm.urdf"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ProblemError, match=message) as told:
        robots.read(path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_there_and_inertias_that_are_mended(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"cannot be read \(No such file or directory\); check the path"):
        robots.read(tmp_path / "arm.urdf")
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace('ixx="0.02"', 'ixx="0.2"'))
    assert np.linalg.eigvalsh(ca.DM(robots.read(path, mend=True).bodies["upper"].inertia).full())[0] > 0


def test_names_that_a_robot_does_not_have(arm: Path) -> None:
    robot = robots.read(arm)
    for change, message in (
        ({"inertias": {"wrist": None}}, "robot 'arm' has no body 'wrist'; its bodies are upper, lower, finger"),
        ({"joints": {"wrist": {}}}, "has no joint 'wrist'; its joints are shoulder, elbow, slide"),
        ({"joints": {"elbow": 1.0}}, "joint 'elbow' is given 1.0; give a dict of arguments"),
        ({"joints": {"elbow": {"viscosity": 1.0}}}, "viscosity"),
    ):
        with pytest.raises(ProblemError, match=message):
            robot.with_(**change)
    with pytest.raises(ProblemError, match="has no link 'wrist'"):
        robot.frame("wrist")


# --- back into the file ---


def unknown(robot: robots.Robot) -> tuple[robots.Robot, dict[str, float]]:
    """All inertias and frictions as Parameters, and values for them."""
    rng = np.random.default_rng(4)
    names = {joint: ("viscous", "coulomb") for joint in robot.joints if len(robot.joints[joint].coordinates) == 1}
    inertias = {name: LogCholesky(name, body.distribution) for name, body in robot.bodies.items()}  # type: ignore[arg-type]
    joints = {name: {what: Parameter(f"{name}_{what}", 1.0) for what in own} for name, own in names.items()}
    values = {p.name: p.guess + rng.uniform(-0.02, 0.02) for one in inertias.values() for p in one.coordinates}
    values |= {p.name: rng.uniform(0.5, 1) for own in joints.values() for p in own.values()}
    return robot.with_(inertias=inertias, joints=joints), values


def test_nothing_found_leaves_every_byte(arm: Path, tmp_path: Path) -> None:
    robots.read(arm).write(tmp_path / "same.urdf", {})
    assert (tmp_path / "same.urdf").read_bytes() == arm.read_bytes()


def test_a_part_that_the_whole_cannot_hold_has_no_mass(arm: Path, tmp_path: Path) -> None:
    """A tool of 0.3 kg is more than what was found of the arm with it."""
    robot = robots.read(arm).with_(inertias={"lower": FullInertia(Parameter("m", 1.0), inertia=(3e-3, 4e-3, 2e-3))})
    robot.write(tmp_path / "new.urdf", {"m": 0.2})
    back = robots.read(tmp_path / "new.urdf")
    assert float(back.bodies["lower"].mass) == pytest.approx(0.2)
    assert back.description.links["tool"].inertial is None


def test_what_rounding_leaves_of_zero_is_zero(arm: Path, tmp_path: Path) -> None:
    tiny = FullInertia(Parameter("m", 1.0), (1e-45, 0, 0.1), inertia=(3e-3, 4e-3, 2e-3, 1e-21, 0, 1e-12))
    beside = robots.read(arm).with_(inertias={"finger": tiny}).write(tmp_path / "new.urdf", {"m": 0.2})
    own = json.loads(beside.read_text())["links"]["finger"]
    assert (own["center_of_mass"], own["inertia"][0][1]) == ([0.0, 0.0, 0.0], 0.0)


# --- a joint's armature ---


def test_an_armature_is_what_a_motor_feels(arm: Path) -> None:
    from spookid import Motor, Problem

    t = np.arange(0, 0.5, 0.01)
    log = Recording(t, {"u": np.sin(9 * t)})
    ends = []
    for own, shaft in ((0.3, 0.0), (0.0, 0.3)):
        robot = robots.read(arm).with_(joints={"elbow": {"armature": own}}, held={"slide": 0.0})
        motor = Motor(robot.joints["elbow"], "u", 5.0, shaft_inertia=shaft)
        problem = Problem("swing", model=robot.model(motors=[motor]), recordings=[log], step=0.01)
        ends.append(problem.simulate().q[-1])  # type: ignore[index]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        '<robot name="arm"><link name="base"/><link name="rod"/><joint name="piv&#10;ot" type="fixed"/></robot>',
        '<mujoco><worldbody><body name="rod"><joint name="piv&#10;ot"/></body></worldbody></mujoco>',
    ],
)
def test_a_name_with_a_line_break_is_refused_where_it_is(tmp_path, text):
    path = tmp_path / "arm.xml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=r"arm\.xml:1: <joint> has the name 'piv.*ot'; give a text in one line"):
        robots.read(path)
