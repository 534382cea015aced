"""``spookid new`` and ``spookid export``: from a robot's file and a log to a problem file, and back into the file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import log_files
import numpy as np
import pytest
from robot_files import ARM, FOURBAR
from solution_pages import agree

from spookid import JointPosition, Motor, Parameter, Problem, ProblemError, Recording, load, load_problem, robots
from spookid.__main__ import main

TRUTH = {
    "shoulder": {"viscous": 0.5, "coulomb": 0.6, "armature": 0.1},
    "elbow": {"viscous": 0.3, "coulomb": 0.2, "armature": 0.05},
}
GAINS = {"shoulder": 4.0, "elbow": 1.5}


def test_units_in_the_names_of_columns_are_declared(tmp_path: Path) -> None:
    pytest.importorskip("pint")
    t = np.linspace(0, 2, 201)
    columns = ["time_ms", "shoulder (deg)", "elbow [rad]", "shoulder [N m]", "elbow [mA]"]
    table = np.column_stack([1e3 * t, 57.3 * np.sin(t), np.cos(t), np.sin(t), np.cos(t)])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=",".join(columns))
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.urdf"), str(tmp_path / "log.csv"), "--out", str(out)]) == 0
    assert 'units={"time_ms": "ms", "shoulder (deg)": "deg"}' in out.read_text(encoding="utf-8")
    (recording,) = load_problem(str(out)).recordings
    np.testing.assert_allclose(recording.t, t, atol=1e-12)
    np.testing.assert_allclose(recording.signal("shoulder (deg)"), np.sin(t), rtol=1e-4)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            "pos_0 pos_1 tau_0 tau_1",
            "by number: pos_0 (position of shoulder), pos_1 (position of elbow), tau_0 (torque of",
        ),
        ("joint1/position joint2/position joint1/effort joint2/effort", "joint1/position (position of shoulder)"),
        ("1 2 tau1 tau2", "1 (position of shoulder), 2 (position of elbow), tau1 (torque of shoulder)"),
        ("A1 A2 M1 M2", "no position of any joint of 'arm'; it has t, A1, A2, M1, M2: name columns after the joints"),
        ("motor1 motor2 joint1 joint2", "no position of any joint of 'arm'"),
        ("shoulder/position elbow/position shoulder/effort elbow/effort", ""),
    ],
)
def test_columns_without_names_of_joints_are_told_or_refused(
    columns: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    robot, log, out = (str(tmp_path / name) for name in ("arm.urdf", "log.csv", "arm.py"))
    t = np.linspace(0, 2, 201)
    table = np.column_stack([t, np.sin(t), np.cos(t), np.sin(t), np.cos(t)])
    np.savetxt(log, table, delimiter=",", header=",".join(["t", *columns.split()]), comments="")
    assert main(["new", robot, log, "--out", out]) == (2 if "no position" in words else 0)
    told = capsys.readouterr().err
    assert words in told
    assert ("assigned by number" in told) is ("of shoulder)" in words)


def test_what_a_log_lacks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    robot, log, out = (str(tmp_path / name) for name in ("arm.urdf", "log.csv", "arm.py"))
    t = np.linspace(0, 2, 201)
    table = np.column_stack([t, np.sin(t), np.cos(t), np.sin(t), 0 * t])
    table[1::2, 1] = np.nan  # of a sensor that is slower
    np.savetxt(log, table, delimiter=",", header="t,shoulder,elbow,shoulder_effort,elbow_effort", comments="")
    assert main(["new", robot, log, "--out", out]) == 0
    assert "elbow_effort is 0 throughout: if that was not measured" in capsys.readouterr().err
    header = "secs,nsecs,shoulder,elbow,shoulder_effort"
    np.savetxt(log, table[::100], delimiter=",", header=header, comments="")
    assert main(["new", robot, log, "--out", f"{out}_2.py"]) == 2
    assert "has its times in two columns, 'secs' and 'nsecs'; write both into one" in capsys.readouterr().err


def test_topics_of_several_robots_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    robot, log, out = (str(tmp_path / name) for name in ("arm.urdf", "log.mcap", "arm.py"))
    log_files.write_mcap(tmp_path / "log.mcap", names=["shoulder", "elbow"], q=1 + log_files.T, more=["/other"])
    assert main(["new", robot, log, "--out", out]) == 2
    assert "choose one with topics= (of commands --topics)" in capsys.readouterr().err
    assert main(["new", robot, log, "--topics", "/joint_states", "--out", out]) == 0
    text = Path(out).read_text(encoding="utf-8")
    assert 'from_mcap(LOG, topics=["/joint_states"], signals=signals)' in text
    assert "--topics /joint_states" in text
    assert main(["new", robot, "--topics", "/joint_states", "--out", f"{out}_2.py"]) == 2
    assert "--topics /joint_states: topics are those of a log; give LOG, too" in capsys.readouterr().err


def logged(folder: Path) -> None:
    """Three seconds of the arm with other friction than its file has, as positions and currents."""
    robot = robots.read(folder / "arm.urdf", held={"slide": 0.0}).with_(joints=TRUTH)
    t, rng = np.arange(0, 3, 0.01), np.random.default_rng(0)
    motors = [Motor(robot.joints[name], f"{name}_current", gain=gain, hold="linear") for name, gain in GAINS.items()]
    sensors = [JointPosition(robot.joints[name], f"{name}_pos") for name in GAINS]
    signals = {f"{name}_current": np.sin(2 * np.pi * (0.9 + 0.7 * i) * t + i) * 2 for i, name in enumerate(GAINS)}
    start = {f"{name}_pos": np.zeros(len(t)) for name in GAINS}
    log = Recording(t, {**signals, **start})
    problem = Problem("truth", model=robot.model(motors=motors), recordings=[log], observations=sensors, step=0.01)
    moved = problem.simulate(substeps=2, initial={"shoulder": 3.0, "elbow": 0.0})
    noisy = {name: moved.signals[name] + 1e-5 * rng.normal(size=len(moved.t)) for name in start}
    noisy |= {name: values[: len(moved.t)] + 1e-3 * rng.normal(size=len(moved.t)) for name, values in signals.items()}
    Recording(moved.t, noisy | {"shoulder_vel": np.zeros(len(moved.t))}).to_csv(folder / "log.csv")


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the arm, its log, its problem and what was found."""
    folder = tmp_path_factory.mktemp("arm")
    (folder / "arm.urdf").write_text(ARM)
    logged(folder)
    assert (
        main(["new", *(str(folder / name) for name in ("arm.urdf", "log.csv")), "--out", str(folder / "arm.py")]) == 0
    )
    assert main(["solve", str(folder / "arm.py"), "--out", str(folder / "res"), "--quiet"]) == 0
    return folder


def test_from_a_file_and_a_log_to_the_file(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot, log, out = str(solved / "arm.urdf"), str(solved / "log.csv"), str(tmp_path / "arm.py")
    assert main(["new", robot, log, "--out", out]) == 0
    told = capsys.readouterr()
    assert "3 joints, 2 positions, 2 of them with a current" in told.out
    assert "no column for joints slide: the problem file fixes these at 0" in told.err
    assert "not used: shoulder_vel (a rate)" in told.err
    problem = load_problem(out)
    guesses = {p.name: p.guess for p in problem.parameters}
    for name, gain in GAINS.items():
        assert guesses[f"{name}_gain"] == pytest.approx(gain, rel=0.3)
    solution = load(solved / "res")
    for name, own in TRUTH.items():
        one = solution.joints[f"{name} viscous"]
        assert abs(one.estimate - own["viscous"]) < 4 * one.std_err + 0.02 * own["viscous"]
        assert one.slopes == {f"{name}_viscous": 1.0}

    new = tmp_path / "new.urdf"
    command = ["export", str(solved / "res"), "--to", robot, "--out", str(new)]
    assert main(command) == 2
    assert "joint 'slide' of robot 'arm' is fixed in the results" in capsys.readouterr().err
    for change, more, words in (
        ("", ("elbow=0",), "joint 'elbow' of robot 'arm' is fixed but moves in the results"),
        ("0 0.05 0.4", (), "joint 'elbow' of robot 'arm' is 0.1 m away from its place on body 'upper' in the results"),
        ('<axis xyz="1 0 0"/>', (), "joint 'elbow' of robot 'arm' has another axis than in the results"),
        ('rpy="0 0.4 0"', (), "joint 'elbow' of robot 'arm' has another"),
    ):
        other = tmp_path / "other.urdf"
        changed = {"0 0.05 0.4": "0 0.05 0.5", '<axis xyz="1 0 0"/>': '<axis xyz="-1 0 0"/>', 'rpy="0 0.4 0"': ""}
        other.write_text(ARM.replace(change, changed[change]) if change else ARM)
        assert main(["export", command[1], "--to", str(other), *command[4:], "--hold", "slide=0", *more]) == 2
        assert words in capsys.readouterr().err
        assert not new.exists()
    assert main([*command[:-1], str(tmp_path), "--hold", "slide=0"]) == 2
    assert "is there already and is no earlier export" in capsys.readouterr().err
    assert main([*command[:-1], ".", "--hold", "slide=0"]) == 2
    assert main([*command, "--hold", "slide=0"]) == 0
    back = robots.read(new, held={"slide": 0.0})
    assert float(back.joints["elbow"].viscous) == solution["elbow_viscous"].estimate
    assert float(back.bodies["lower"].mass) == pytest.approx(solution.physical["lower mass"].estimate, rel=1e-12)

    beside = json.loads((tmp_path / "new.urdf.json").read_text())
    assert beside["result"]["problem"] == "arm"
    assert beside["quantities"]["elbow viscous"]["in_file"]
    assert not beside["quantities"]["elbow armature"]["in_file"]
    names, matrix = beside["covariance"]["names"], np.array(beside["covariance"]["matrix"], dtype=float)
    errors = [beside["quantities"][name]["std_err"] for name in names]
    known = [i for i, error in enumerate(errors) if error]
    np.testing.assert_allclose(np.sqrt(np.diag(matrix))[known], np.array(errors, dtype=float)[known], rtol=1e-9)


@pytest.mark.study
def test_a_report_compares_the_file_before_and_after(
    solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco")
    solution, robot = load(solved / "res"), robots.read(solved / "arm.urdf", held={"slide": 0.0})
    (trajectory,) = solution.trajectories
    assert trajectory.drive is not None
    current = Recording.from_csv(solved / "log.csv", time="t").signals["shoulder_current"][: 2 * len(trajectory.t) - 1]
    means = (current[:-2:2] + 2 * current[1:-1:2] + current[2::2]) / 4  # of steps of two samples
    expected = solution["shoulder_gain"].estimate * means + solution["shoulder_offset"].estimate
    # What a step adds to the gain is taken from the estimate alone.
    np.testing.assert_allclose(trajectory.drive[:-1, 0], expected, atol=2e-3 * np.max(np.abs(expected)))
    assert np.isnan(trajectory.drive[-1]).all()

    compared = robot.compare(solution)
    assert [version.name for version in compared.versions] == [
        "the file as it was",
        "the new file",
        "the new file with armatures",
    ]
    before, _, after = compared.versions
    spread = np.std(compared.measured, axis=0)
    assert np.all(compared.torque_errors(after) < 0.02 * spread)
    assert np.all(compared.torque_errors(before) > 0.05 * spread)
    # MuJoCo has its own integrator, and is driven by currents with noise.
    assert np.all(compared.replay_errors(after) < 0.01)
    assert np.all(compared.replay_errors(before) > 0.1)
    assert compared.windows.shape == (2, 50)
    assert "armatures" in compared.to_dataframe()["file"].iloc[-1]

    page = solved / "res" / "report.html"
    assert main(["report", str(solved / "res")]) == 0
    assert "Replays in MuJoCo: 2 windows of 1 s" in page.read_text()
    other = tmp_path / "other.urdf"
    other.write_text(ARM)
    assert main(["report", str(solved / "res"), "--robot", str(other)]) == 0
    other.write_text(ARM.replace("2.0", "2.1"))
    assert main(["report", str(solved / "res"), "--robot", str(other)]) == 2
    assert "the file has changed since the problem was solved" in capsys.readouterr().err
    assert main(["report", str(solved / "res"), "--robot", str(tmp_path / "no.urdf")]) == 2
    assert "the file does not exist; spookid report --robot FILE gives" in capsys.readouterr().err


def test_what_is_written_replaces_earlier_exports_alone(
    solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def export(robot: object, out: object) -> str:
        told = ["export", str(solved / "res"), "--to", str(robot), "--out", str(out), "--hold", "slide=0"]
        assert main(told) == (0 if out == fine else 2)
        return capsys.readouterr().err

    fine = tmp_path / "made" / "fine.urdf"
    for _ in range(2):
        assert export(solved / "arm.urdf", fine) == ""
    link, hard, other = (tmp_path / f"{name}.urdf" for name in ("link", "hard", "other"))
    link.symlink_to(solved / "arm.urdf")
    hard.hardlink_to(solved / "arm.urdf")
    other.write_text('<robot name="o"><link name="a"/></robot>')
    (tmp_path / "n.urdf.json").mkdir()
    for out in (solved / "res" / "solution.json", solved / "log.csv", hard, other, tmp_path):
        assert f"{out} is there already and is no earlier export; remove it" in export(solved / "arm.urdf", out)
    assert "n.urdf.json is there already" in export(solved / "arm.urdf", tmp_path / "n.urdf")
    assert not (tmp_path / "n.urdf").exists()
    assert "is the robot's own file, which is kept" in export(solved / "arm.urdf", link)
    assert "choose another folder" in export(solved / "arm.urdf", solved / "log.csv" / "x.urdf")
    refused = {tmp_path: "is a folder", "/dev/zero": "is a device", solved / "res" / "solution.json": "is no XML"}
    for robot, words in refused.items():
        assert words in export(robot, tmp_path / "new.urdf")
    other.write_text(ARM.replace("slide", "slip").replace("elbow", "knee"))
    assert "has no hinge or slider 'slide' to fix" in export(other, tmp_path / "new.urdf")
    assert not (tmp_path / "new.urdf").exists()


def test_what_includes_others_is_written_where_they_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    shape = '<geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>'
    tip = f'<body name="tip" pos="0 0 -0.3"><joint name="b" axis="0 1 0"/>{shape}</body>'
    (tmp_path / "tip.xml").write_text(f"<mujocoinclude>{tip}</mujocoinclude>")
    top = f'<body name="top"><joint name="a" axis="0 1 0"/>{shape}<include file="tip.xml"/></body>'
    (tmp_path / "arm.xml").write_text(f"<mujoco><worldbody>{top}</worldbody></mujoco>")
    robot = robots.read(tmp_path / "arm.xml")
    own, others = (robot.with_(joints={name: {"viscous": Parameter("b", 0.1)}}) for name in "ab")
    own.write(tmp_path / "new.xml", {"b": 0.2})
    assert robots.read(tmp_path / "new.xml").joints["a"].viscous == 0.2
    with pytest.raises(ProblemError, match=r"would not find 'tip.xml', which .*arm\.xml includes"):
        own.write(tmp_path / "elsewhere" / "new.xml", {"b": 0.2})
    with pytest.raises(ProblemError, match="joint 'b' is in no element of this file's own, as after <include>"):
        others.write(tmp_path / "other.xml", {"b": 0.2})
    assert not {"elsewhere", "other.xml"} & {one.name for one in tmp_path.iterdir()}


def test_replays_without_mujoco_say_how_to_get_it(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    compared = robots.read(solved / "arm.urdf", held={"slide": 0.0}).compare(load(solved / "res"))
    assert len(compared.versions[0].replays) == 0
    assert len(compared.versions[0].torques) > 0
    assert "no replays, for replays need MuJoCo: pip install 'spookid[robots]'." in str(compared)


def test_what_cannot_be_begun_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "log.csv").write_text("t,a,b\n0,1,2\n1,2,3\n")
    robot, log, out = (str(tmp_path / name) for name in ("arm.urdf", "log.csv", "arm.py"))
    assert main(["new", robot, log, "--out", out]) == 2
    assert (
        "has no position of any joint of 'arm'; it has t, a, b: name columns after the joints"
        in capsys.readouterr().err
    )
    assert main(["new", robot, str(tmp_path / "no.csv"), "--out", out]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["new", robot, "--out", out]) == 0
    assert "no log yet" in capsys.readouterr().out
    assert main(["check", out]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "give recordings= with the signals shoulder_tau, elbow_tau, slide_tau, shoulder_q," in told
    assert main(["solve", out, "--out", str(tmp_path / "res")]) == 2
    assert "needs recordings and observations to be solved; give it recordings=[...]" in capsys.readouterr().err
    assert len(load_problem(out).with_().model.joints) == 3
    assert main(["new", robot, "--out", out]) == 2
    assert "is there already" in capsys.readouterr().err


def test_gains_of_a_data_sheet(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot, log, out = str(solved / "arm.urdf"), str(solved / "log.csv"), tmp_path / "arm.py"
    assert main(["new", robot, log, "--gain", "shoulder=5", "--out", str(out)]) == 0
    (known,) = [p for p in load_problem(out).parameters if p.name == "shoulder_gain"]
    (other,) = [p for p in load_problem(out).parameters if p.name == "elbow_gain"]
    assert (known.guess, known.prior, other.prior) == (5.0, (5.0, 0.5), None)
    assert "with no prior:\n# elbow." in out.read_text()
    # Friction is guessed with the gain that is known: a quarter more effort is left for it.
    frictions = [
        next(p.guess for p in load_problem(path).parameters if p.name == "shoulder_coulomb")
        for path in (out, solved / "arm.py")
    ]
    assert frictions[0] > frictions[1]
    none = "no column is a current or voltage of joint 'slide'"
    wrong = {"slide=1": none, "elbow=0": "does nothing", "slide=-1": "write gain=-1.0 in the Motor of the file"}
    for gain, words in wrong.items():
        assert main(["new", robot, log, "--gain", gain, "--out", str(tmp_path / "no.py")]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_gain_that_the_log_does_not_tell_is_like_the_others(solved: Path, tmp_path: Path) -> None:
    run, rng = Recording.from_csv(solved / "log.csv"), np.random.default_rng(1)
    Recording(run.t, run.signals | {"elbow_current": rng.normal(size=len(run.t))}).to_csv(tmp_path / "log.csv")
    out = tmp_path / "arm.py"
    assert main(["new", str(solved / "arm.urdf"), str(tmp_path / "log.csv"), "--out", str(out)]) == 0
    gains = {p.name: p for p in load_problem(str(out)).parameters if p.name.endswith("_gain")}
    usual = gains["shoulder_gain"].guess
    assert usual == pytest.approx(GAINS["shoulder"], rel=0.3)
    assert gains["shoulder_gain"].prior is None
    assert gains["elbow_gain"].prior == pytest.approx((usual, 0.2 * usual), rel=0.01)
    assert "The log identifies weakly the gain of elbow," in out.read_text(encoding="utf-8")


def test_units_that_the_log_does_not_say(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Recording.from_csv(solved / "log.csv")
    columns = {name: np.rad2deg(values) if name == "elbow_pos" else values for name, values in run.signals.items()}
    Recording(1e3 * run.t, columns).to_csv(tmp_path / "log.csv", time="time")
    new = ["new", str(solved / "arm.urdf"), str(tmp_path / "log.csv"), "--out"]
    assert main([*new, str(tmp_path / "odd.py")]) == 0
    assert "is column 'time' in ms? Then give --units time=ms" in capsys.readouterr().err
    units = ["--units", "time=ms", "elbow_pos=deg"]
    assert main([*new, str(tmp_path / "arm.py"), *units, "shoulder_vel=deg/s"]) == 0
    assert "in ms?" not in capsys.readouterr().err
    read = load_problem(str(tmp_path / "arm.py")).recordings[0]
    np.testing.assert_allclose(read.t, run.t, atol=1e-9)
    np.testing.assert_allclose(read.signals["elbow_pos"], run.signals["elbow_pos"], atol=1e-9)
    assert main([*new, str(tmp_path / "no.py"), "--units", "elbow=deg"]) == 2
    assert "has no column 'elbow', which --units names" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*new, str(tmp_path / "no.py"), "--units", "deg"])
    assert "'deg' is not COLUMN=UNIT, such as t=ms" in capsys.readouterr().err
    assert main([*new[:2], "--out", str(tmp_path / "no.py"), *units]) == 2
    assert "units are those of a log" in capsys.readouterr().err


def test_inertias_that_no_body_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 'ixx="0.02"' in ARM
    (tmp_path / "arm.urdf").write_text(ARM.replace('ixx="0.02"', 'ixx="9"'))
    command = ["new", str(tmp_path / "arm.urdf"), "--out", str(tmp_path / "arm.py")]
    assert main(command) == 2
    assert "mend=True (option --mend of commands)" in " ".join(capsys.readouterr().err.split())
    assert main([*command, "--mend"]) == 0
    assert "mend=True" in (tmp_path / "arm.py").read_text()
    assert load_problem(str(tmp_path / "arm.py")).model.bodies


def test_names_of_others_are_no_code(tmp_path: Path) -> None:
    """A name with quotes in it stands in the file as text."""
    evil = 'x"); raise SystemExit("evil'
    (tmp_path / "arm.urdf").write_text(ARM.replace('"elbow"', f"'{evil}'").replace('name="arm"', 'name=\'"""+1/0\''))
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.urdf"), "--out", str(out)]) == 0
    assert evil in [joint.name for joint in load_problem(out).model.joints]


def test_names_that_are_alike_or_of_another_script(tmp_path: Path) -> None:
    text = ARM.replace('"upper"', '"low-er"').replace('"lower"', '"low_er"').replace("'lower'", "'low_er'")
    text = (
        text.replace('"elbow"', '"\U0001f4aa"').replace('"slide"', '"shoul-der"').replace('"shoulder"', '"shoul_der"')
    )
    (tmp_path / "arm.urdf").write_text(text, encoding="utf-8")
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.urdf"), "--out", str(out)]) == 0
    names = [p.name for p in load_problem(out).parameters]
    assert {"low_er_alpha", "low_er_2_alpha", "shoul_der_viscous", "shoul_der_2_viscous"} <= set(names)
    assert "\U0001f4aa" in [joint.name for joint in load_problem(out).model.joints]


def test_a_loop_of_which_one_joint_is_seen(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "bar.xml").write_text(FOURBAR)
    (tmp_path / "log.csv").write_text("t,a\n" + "\n".join(f"{k / 100},{0.001 * k}" for k in range(50)))
    assert main(["new", str(tmp_path / "bar.xml"), str(tmp_path / "log.csv"), "--out", str(tmp_path / "bar.py")]) == 0
    problem = load_problem(tmp_path / "bar.py")
    assert [joint.name for joint in problem.model.joints] == ["a", "b", "c", "pin"]
    # Of a planar four-bar one motion of one freedom tells: whatever stands across the plane has no part in it.
    found = problem.base_parameters()
    assert {"crank h_y", "crank I_xx", "coupler h_y", "rocker I_xz"} <= set(found.unseen)
    known = " ".join(one.name for one in found.combinations)
    assert all(f"{body} {entry}" in known for body in ("crank", "coupler", "rocker") for entry in ("h_x", "I_yy"))


def test_controls_of_the_files_motors_drive_its_joints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mujoco")
    actuators = '<motor joint="a" name="a_drive" gear="12.345"/><motor joint="b"/><position joint="c" name="servo"/>'
    robot, log, out = tmp_path / "bar.xml", tmp_path / "log.csv", tmp_path / "bar.py"
    robot.write_text(FOURBAR.replace("</mujoco>", f"<actuator>{actuators}</actuator></mujoco>"))
    rows = (f"{k / 100},{np.sin(k / 10)},{k % 3},{0.001 * k},{0.01 * k}" for k in range(50))
    log.write_text("t,a_drive,b_motor,a,servo\n" + "\n".join(rows))
    assert main(["new", str(robot), str(log), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "1 positions, 2 of them with a control, 1 of them with commands of a servo" in told.out
    assert [(s.joint.name, s.command) for s in load_problem(out).model.servos] == [("c", "servo")]
    motors = load_problem(out).model.motors
    driven = [(m.joint.name, m.signal, float(m.gain), m.measured) for m in motors]
    assert driven == [("a", "a_drive", 12.345, False), ("b", "b_motor", 1.0, False)]


@pytest.mark.parametrize("ending", [".tsv", ".npz", ".parquet"])
def test_logs_of_other_formats(tmp_path: Path, ending: str) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    t, log = np.arange(0, 1, 0.01), tmp_path / f"log{ending}"
    columns = {"t": t, "elbow_pos": np.sin(t), "shoulder_pos": 0.1 * np.cos(t)}
    if ending == ".tsv":
        np.savetxt(log, np.column_stack([*columns.values()]), header="\t".join(columns), comments="", delimiter="\t")
    elif ending == ".npz":
        np.savez(log, **columns)  # type: ignore[arg-type]
    else:
        pytest.importorskip("pyarrow")
        pytest.importorskip("pandas").DataFrame(columns).to_parquet(log)
    assert main(["new", str(tmp_path / "arm.urdf"), str(log), "--out", str(tmp_path / "arm.py")]) == 0
    (recording,) = load_problem(tmp_path / "arm.py").recordings
    assert sorted(recording.signals) == ["elbow_pos", "shoulder_pos"]
    np.testing.assert_allclose(recording.t, t)


def test_results_of_another_mechanism(tmp_path: Path) -> None:
    from solutions import solution

    (tmp_path / "arm.urdf").write_text(ARM)
    with pytest.raises(ProblemError, match="and robot 'arm' have no names in common: the results have"):
        robots.read(tmp_path / "arm.urdf").write(tmp_path / "new.urdf", solution())


def test_pages_of_a_robot_agree(solved: Path, tmp_path: Path) -> None:
    """Masses, centres, moments, friction and gains, too."""
    shutil.copytree(solved / "res", tmp_path / "res")
    agree(tmp_path / "res")


def test_torques_of_a_log_are_predicted(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solution, problem = load(solved / "res"), load_problem(solved / "arm.py")
    out, log = tmp_path / "efforts.csv", solved / "log.csv"
    capsys.readouterr()
    assert main(["predict", str(solved / "res"), str(log), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    expected = problem.inverse_dynamics(solution)
    assert f"low-passed at {expected.cutoff:g} Hz" in text
    for label, error in zip(expected.motors, expected.errors, strict=True):
        row = next(line for line in text.splitlines() if line.strip().startswith(label)).split()
        assert float(row[7]) == pytest.approx(error, rel=5e-3)
    rows = np.genfromtxt(out, delimiter=",", skip_header=1)
    np.testing.assert_allclose(rows[:, 1 : 1 + len(expected.motors)], expected.efforts, rtol=1e-9)
    compared = robots.read(solved / "arm.urdf", held={"slide": 0.0}).compare(solution)
    assert compared.cutoff == expected.cutoff
    np.testing.assert_allclose(compared.torque_errors(compared.versions[-1]), expected.errors, rtol=0.25)
    exactly = robots.read(solved / "arm.urdf", held={"slide": 0.0}).compare(solution, problem=problem)
    assert exactly.cutoff == expected.cutoff
    np.testing.assert_allclose(exactly.torque_errors(exactly.versions[-1]), expected.errors, rtol=1e-6)
    bare = tmp_path / "bare.csv"
    header, *lines = log.read_text().splitlines()
    kept = [i for i, name in enumerate(header.split(",")) if "current" not in name]
    bare.write_text("\n".join(",".join(line.split(",")[i] for i in kept) for line in (header, *lines)))
    assert main(["predict", str(solved / "res"), str(bare)]) == 0
    assert "these are predicted, and not compared" in capsys.readouterr().err
    assert main(["predict", str(solved / "res"), str(log), "--out", "efforts.txt"]) == 2


def test_a_log_is_predicted_in_the_units_of_the_problem_file(
    solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns of the same names in degrees; unless others are given."""
    text, log = (solved / "arm.py").read_text(), Recording.from_csv(solved / "log.csv")
    units = {"shoulder_pos": "deg", "elbow_pos": "deg"}
    assert text.count("signals=signals)") == 1
    shutil.copy(solved / "arm.urdf", tmp_path)
    problem = tmp_path / "arm.py"
    problem.write_text(text.replace("signals=signals)", f"signals=signals, units={units})"))
    log.with_signals(**{name: np.rad2deg(log.signal(name)) for name in units}).to_csv(tmp_path / "log.csv")
    assert load_problem(problem).recordings[0].units == units
    expected = load_problem(solved / "arm.py").inverse_dynamics(load(solved / "res"))
    words = ["predict", str(solved / "res"), str(tmp_path / "log.csv"), "--problem", str(problem)]
    out = tmp_path / "efforts.csv"
    assert main([*words, "--out", str(out)]) == 0
    assert "shoulder_pos=deg elbow_pos=deg; if others hold" in " ".join(capsys.readouterr().err.split())
    rows = np.genfromtxt(out, delimiter=",", skip_header=1)
    np.testing.assert_allclose(rows[:, 1 : 1 + len(expected.motors)], expected.efforts, rtol=1e-6)
    assert main([*words[:2], str(solved / "log.csv"), *words[3:], "--units", *(f"{name}=rad" for name in units)]) == 0
    told = capsys.readouterr()
    assert "if others hold" not in told.err
    assert f"{expected.errors[0]:.3g}" in told.out


SERVOS = """<mujoco model="arm"><worldbody><body name="upper">
  <joint name="j1" axis="0 1 0" damping="0.1"/><inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
  <body name="lower" pos="0 0 -0.2">
    <joint name="j2" axis="0 1 0" damping="0.1"/><inertial pos="0 0 -0.1" mass="0.4" diaginertia="1e-3 1e-3 1e-3"/>
  </body></body></worldbody>
  <actuator><position name="a1" joint="j1" kp="20" kv="1.5" forcerange="-4 4" delay="0.01" nsample="8"
   timeconst="0.02"/>
  <velocity name="a2" joint="j2" kv="2"/></actuator></mujoco>"""


def columns_of_two_joints(path: Path, header: str, *more: np.ndarray) -> Path:
    """A log of two angles, and other columns before them."""
    t = np.arange(0, 3, 0.01)
    table = [*more, np.sin(3 * t), np.cos(2 * t), np.sin(3 * t + 0.1), np.cos(2 * t + 0.1)]
    np.savetxt(path, np.column_stack(table), delimiter=",", header=header, comments="")
    return path


@pytest.mark.parametrize("commands", ["a1,a2", "j1_goal,j2_goal"])
def test_servos_of_the_file_follow_commands_of_the_log(tmp_path: Path, commands: str) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text(SERVOS, encoding="utf-8")
    t = np.arange(0, 3, 0.01)
    log = columns_of_two_joints(tmp_path / "log.csv", f"t,q1,q2,{commands}", t)
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.xml"), str(log), "--out", str(out)]) == 0
    problem = load_problem(out)
    first, second = problem.model.servos
    assert [s.command for s in (first, second)] == commands.split(",")
    assert (first.mode, second.mode) == ("position", "velocity")
    assert float(first.limit) == 4
    assert (problem.guess["j1_kp"], problem.guess["j1_kd"], problem.guess["j2_kp"]) == (20, 1.5, 2)
    assert (problem.guess["delay"], problem.guess["j1_lag"]) == (0.01, 0.02)
    assert {"j1_armature", "j2_armature"} <= set(problem.guess)
    assert main(["check", str(out)]) == 0


def test_commands_of_a_urdf_are_those_of_servos(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    t = np.arange(0, 3, 0.01)
    log = columns_of_two_joints(tmp_path / "log.csv", "t,shoulder,elbow,shoulder_goal,elbow_cmd", t)
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.urdf"), str(log), "--out", str(out)]) == 0
    assert [servo.command for servo in load_problem(out).model.servos] == ["shoulder_goal", "elbow_cmd"]


def test_a_log_without_times_needs_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    robot, names = str(tmp_path / "arm.urdf"), "shoulder,elbow,shoulder_effort,elbow_effort"
    count = np.arange(300.0)
    for header, more in ((names, ()), (f",{names}", (count,)), (f"Unnamed: 0,{names}", (count,))):
        log, out = columns_of_two_joints(tmp_path / "log.csv", header, *more), tmp_path / f"arm_{len(header)}.py"
        assert main(["new", robot, str(log), "--out", str(out)]) == 2
        told = capsys.readouterr().err
        assert "has no column of times" in told
        assert ("counts rows" in told) is bool(more)
        assert "say --rate HZ" in told
        assert main(["new", robot, str(log), "--rate", "100", "--out", str(out)]) == 0
        (recording,) = load_problem(out).recordings
        np.testing.assert_allclose(recording.t, count / 100, atol=1e-12)
        capsys.readouterr()


def test_an_index_without_a_name_is_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    names, t = "shoulder,elbow,shoulder_effort,elbow_effort", np.arange(0, 3, 0.01)
    for header, more in ((f",{names}", (t,)), (f",t,{names}", (np.arange(300), t))):
        log, out = columns_of_two_joints(tmp_path / "log.csv", header, *more), tmp_path / f"arm_{len(header)}.py"
        assert main(["new", str(tmp_path / "arm.urdf"), str(log), "--out", str(out)]) == 0
        np.testing.assert_allclose(load_problem(out).recordings[0].t, t, atol=1e-12)


def test_a_joint_with_a_torque_and_no_position_is_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM, encoding="utf-8")
    log = columns_of_two_joints(
        tmp_path / "log.csv", "t,elbow,speed,shoulder_effort,elbow_effort", np.arange(0, 3, 0.01)
    )
    out = tmp_path / "arm.py"
    assert main(["new", str(tmp_path / "arm.urdf"), str(log), "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert "no column for joints shoulder, slide: the problem file fixes these at 0" in told
    assert "(torque, force or command of joint shoulder; no column has the position of this joint)" in told
    assert [motor.joint.name for motor in load_problem(out).model.motors] == ["elbow"]


def test_a_rate_is_of_text_alone(tmp_path: Path) -> None:
    log = columns_of_two_joints(tmp_path / "log.csv", "a,b,c,d")
    assert Recording.from_csv(log, rate=50).t[-1] == pytest.approx(299 / 50)
    assert list(Recording.from_csv(log, rate=50).signals) == ["a", "b", "c", "d"]
    (tmp_path / "units.csv").write_text("a,b\ndeg,m\n180,1\n90,2\n0,3\n", encoding="utf-8")
    read = Recording.from_csv(tmp_path / "units.csv", rate=10)
    np.testing.assert_allclose(read.t, [0, 0.1, 0.2])
    np.testing.assert_allclose(read.signal("a"), [np.pi, np.pi / 2, 0])
    with pytest.raises(ProblemError, match="has a column 'a'; leave rate out"):
        Recording.from_csv(log, time="a", rate=50)
    with pytest.raises(ProblemError, match="rate is -1"):
        Recording.from_csv(log, rate=-1)
