"""Logs of test benches, of robot learning and of competition robots, each written here as its format is published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import log_files
import numpy as np
import pytest
from log_files import MOTORS, bench, data_record, dataset, wpilog
from robot_files import ARM

from spookid import Parameter, ProblemError, Recording, load_problem
from spookid.__main__ import main

T = 0.1 * np.arange(5)
Q = np.sin(T)
SERVO = """<mujoco><compiler angle="radian"/><worldbody><body name="arm">
<joint name="lift" axis="0 1 0" armature="0.001" damping="0.01" frictionloss="0.02"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.1" size="0.01" mass="0.49"/></body></worldbody>
<actuator><position name="servo" joint="lift" kp="2"/></actuator></mujoco>"""


def refused(path: Path, words: str, **options: Any) -> None:
    with pytest.raises(ProblemError, match=words) as caught:
        Recording.from_file(path, **options)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_records_and_numbers_beside_them(tmp_path: Path) -> None:
    (path := tmp_path / "bench.json").write_text(json.dumps(bench()))
    found = Recording.from_file(path, time="timestamp")
    assert {*found.signals} == {"position", "goal_position", "kp"}
    assert "left out for want of one sample: 'load'" in found.notes[0]
    np.testing.assert_array_equal(found.t, T)
    np.testing.assert_array_equal(found.signal("position"), Q)
    np.testing.assert_array_equal(found.signal("kp"), np.full(5, 100.0))


DOCUMENTS: dict[str, tuple[Any, list[str]]] = {
    "lists": ({"t": list(T), "q": list(Q), "note": "x", "words": ["a"] * 5}, ["q"]),
    "matrix": ({"t": list(T), "q": [[q, 0.0] for q in Q]}, ["q[0]", "q[1]"]),
    "groups": ({"a": {"t": list(T), "q": list(Q)}, "b": {"t": list(T + 1), "q": list(Q)}}, ["a/q", "b/q"]),
    "records": ([{"t": t, "state": {"q": [q, None]}} for t, q in zip(T, Q, strict=True)], ["state/q[0]"]),
    "gaps": ([{"t": t, **({"q": q} if i else {})} for i, (t, q) in enumerate(zip(T, Q, strict=True))], ["q"]),
    "several": ({"a": bench()["entries"], "b": [], "t": 0}, ["a/position", "a/goal_position"]),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_forms_of_documents(tmp_path: Path, kind: str) -> None:
    content, names = DOCUMENTS[kind]
    (path := tmp_path / "log.json").write_text(json.dumps(content))
    found = Recording.from_json(path, time="timestamp" if kind == "several" else "t")
    assert [*found.signals] == names
    own = found.signal(names[0])
    np.testing.assert_allclose(own[np.isfinite(own)][-1], Q[-1])


def test_a_record_in_each_line(tmp_path: Path) -> None:
    lines = [json.dumps({"time": f"2026-01-31T12:00:00.{i}Z", "q": float(q)}) for i, q in enumerate(Q)]
    (path := tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    np.testing.assert_allclose(Recording.from_file(path, time="time").t, T)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON file or is damaged"),
        ('{"t": [0, 1], "q": [0', "is no JSON file or is damaged"),
        ("[" * 100_000, "is no JSON file or is damaged"),
        ('{"clock": [0, 1], "q": [0, 1]}', "has no array 't' of times; it has 'clock', 'q': name one with time="),
        ('{"t": ["a", "b"], "q": [0, 1]}', "array 't' of times holds no numbers"),
        ('[{"t": 0, "q": 1}, {"t": 1, "q": Infinity}]', "'q' is infinite"),
        ("5", "has no array 't' of times"),
        (json.dumps([{f"k{i}": 0} for i in range(4000)]), "declares 16,000,000 numbers"),
    ],
    ids=range(8),
)
def test_documents_that_are_no_logs(tmp_path: Path, text: str, words: str) -> None:
    (path := tmp_path / "log.json").write_text(text)
    refused(path, words)


@pytest.mark.parametrize("version", [2, 3])
def test_an_episode_of_a_dataset(tmp_path: Path, version: int) -> None:
    pytest.importorskip("pint")
    folder = dataset(tmp_path / "so101", version)
    found = Recording.from_file(folder, episode=2, units={"observation.state": "deg", "action/lift.pos": "deg"})
    assert [*found.signals] == [f"{part}/{one}" for part in ("observation.state", "action") for one in MOTORS]
    assert (found.name, found.notes) == ("so101-2", ())
    np.testing.assert_array_equal(found.t, np.arange(40) / 30)
    np.testing.assert_allclose(found.signal("observation.state/lift.pos"), np.radians(20 + np.arange(40)))
    np.testing.assert_allclose(found.signal("action/lift.pos"), np.radians(21 + np.arange(40)))
    np.testing.assert_allclose(found.signal("action/grip.pos"), 91)
    first = Recording.from_lerobot(folder, signals=["action"], name="own")
    assert ([*first.signals], first.name) == ([f"action/{one}" for one in MOTORS], "own")
    assert first.notes == (f"{folder} has 3 episodes; that with the number 0 is read.",)
    refused(folder, "has no episode 7; it has 3, counted from 0: choose with episode=", episode=7)
    refused(folder, "has no column 'effort'", signals=["effort"])
    if version == 3:
        refused(
            next(folder.glob("data/*/*")), "several episodes of a LeRobot dataset; give the dataset's", time="timestamp"
        )


def test_names_of_motors_in_groups_and_none(tmp_path: Path) -> None:
    grouped = dataset(tmp_path / "grouped", 2, {"motors": MOTORS}, 1)
    assert "action/grip.pos" in Recording.from_lerobot(grouped).signals
    plain = dataset(tmp_path / "plain", 3, None, 1)
    assert [*Recording.from_lerobot(plain, signals=["action[1]"]).signals] == ["action[1]"]
    (plain / "meta/info.json").write_text("[")
    refused(plain, "is no LeRobot dataset or is damaged")


def test_entries_of_a_data_log(tmp_path: Path) -> None:
    found = Recording.from_file(path := wpilog(tmp_path / "run.wpilog"))
    names = ["NT:/double", "NT:/float[][0]", "NT:/float[][1]", "NT:/boolean", "NT:/int64"]
    assert sorted(found.signals) == sorted(names)
    chosen = Recording.from_wpilog(path, topics={"NT:/double": "q", "NT:/float[]": "u"}, from_zero=False)
    assert sorted(chosen.signals) == ["q", "u[0]", "u[1]"]
    only = Recording.from_wpilog(path, signals=["NT:/double"])
    np.testing.assert_allclose(only.t, T)
    np.testing.assert_array_equal(only.signal("NT:/double"), Q)
    late = Recording.from_wpilog(path, signals=["NT:/int64"], from_zero=False)
    np.testing.assert_allclose(late.t, 7.00001 + T)
    np.testing.assert_array_equal(late.signal("NT:/int64"), -np.arange(5))
    refused(path, "has no topic 'q'; it has 'NT:/double'", topics=["q"])


def test_data_logs_that_break_off_or_are_none(tmp_path: Path) -> None:
    path = wpilog(tmp_path / "run.wpilog", end=data_record(4, 8_000_000, b"\1" * 9)[:-3])
    assert Recording.from_file(path).notes == ("run.wpilog breaks off in its last record, which is left out.",)
    refused(wpilog(path, end=b"\xff" * 20), "is no WPILib log or is damaged .there is no record at byte")
    refused(wpilog(path, t=[]), "has no topics")
    for content in (b"", b"WPILOG", b"WPILOG\0\2\0\0\0\0", b"\x89PNG\r\n\x1a\n" + bytes(range(256))):
        path.write_bytes(content)
        refused(path, "is no WPILib log or is damaged")


TYPES = {
    "trajectory_msgs/msg/JointTrajectoryPoint": """float64[] positions
float64[] velocities
float64[] accelerations
float64[] effort
builtin_interfaces/Duration time_from_start""",
    "control_msgs/msg/JointTrajectoryControllerState": """std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint reference
trajectory_msgs/JointTrajectoryPoint feedback
trajectory_msgs/JointTrajectoryPoint error""",
}


def controller_states(path: Path) -> Path:
    """MCAP of a trajectory controller; its joints in another order than a robot's file has them."""
    known, mcap = log_files.store(2), log_files.module("mcap.writer")
    for name, text in TYPES.items():
        known.register(log_files.module("rosbags.typesys").get_types_from_msg(text, name))
    kinds = known.types
    state, none = [*TYPES][1], np.zeros(0)
    with path.open("wb") as file:
        writer = mcap.Writer(file)
        writer.start()
        text = known.generate_msgdef(state, ros_version=2)[0]
        channel = writer.register_channel("/arm/state", "cdr", writer.register_schema(state, "ros2msg", text.encode()))
        for i, q in enumerate(Q):
            rest = kinds["builtin_interfaces/msg/Duration"](sec=0, nanosec=0)
            points = [
                kinds["trajectory_msgs/msg/JointTrajectoryPoint"](own, none, none, none, rest)
                for own in (np.array([q + 1, 2.0]), np.array([q, 1.0]), np.array([1.0, 1.0]))
            ]
            stamp = kinds["builtin_interfaces/msg/Time"](sec=10, nanosec=i * 100_000_000)
            header = kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            message = kinds[state](header, ["elbow", "shoulder"], *points)
            writer.add_message(channel, i, bytes(known.serialize_cdr(message, state)), i)
        writer.finish()
    return path


def test_controller_states_are_named_by_their_joints(tmp_path: Path) -> None:
    found = Recording.from_file(path := controller_states(tmp_path / "run.mcap"))
    np.testing.assert_allclose(found.t, T)
    np.testing.assert_allclose(found.signal("arm/state/feedback/positions/elbow"), Q)
    np.testing.assert_allclose(found.signal("arm/state/reference/positions/elbow"), Q + 1)
    old = "arm/state/feedback/positions[1]"
    np.testing.assert_allclose(Recording.from_file(path, signals=[old]).signal(old), 1)


def scaffolded(folder: Path, robot: str, log: Path, *more: str) -> Any:
    (folder / "robot.xml").write_text(robot)
    out = folder / "made.py"
    assert main(["new", str(folder / "robot.xml"), str(log), "--out", str(out), *more]) == 0
    return load_problem(str(out))


def test_a_bench_log_becomes_a_problem_with_a_servo(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (path := tmp_path / "bench.json").write_text(json.dumps(bench()))
    problem = scaffolded(tmp_path, SERVO, path)
    (servo,) = problem.model.servos
    assert (servo.command, problem.channels[0].signal) == ("goal_position", "position")
    assert 'from_json(LOG, time="timestamp", signals=signals)' in (tmp_path / "made.py").read_text()
    assert {"lift_kp", "lift_armature", "lift_coulomb", "delay"} <= {p.name for p in problem.parameters}
    assert all(isinstance(p, Parameter) for p in problem.parameters)
    assert main(["check", str(tmp_path / "made.py")]) == 0


@pytest.mark.parametrize(
    ("header", "pairs"),
    [
        ("__time,/j/header/stamp/nanosec,/j/{0}/position,/j/{1}/position", {}),
        ("time,desired.positions[0],desired.positions[1],actual.positions[0],actual.positions[1]", {"commands": 1}),
        ("%time,field.position0,field.position1,field.effort0,field.effort1", {"efforts": 3}),
        ("Timestamp,/Arm/{0}/position,/Arm/{1}/position,/Arm/{0}/busVolts,/Arm/{1}/appliedVolts", {"efforts": 4}),
    ],
    ids=["PlotJuggler", "controller", "rostopic", "AdvantageScope"],
)
def test_columns_of_exports_are_matched(tmp_path: Path, header: str, pairs: dict[str, int]) -> None:
    names = header.format("shoulder", "elbow").split(",")
    t = 0.01 * np.arange(300)
    table = np.column_stack([t, *(np.sin(t + i) for i in range(1, len(names)))])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=",".join(names), comments="")
    (tmp_path / "arm.urdf").write_text(ARM)
    out = tmp_path / "made.py"
    assert main(["new", str(tmp_path / "arm.urdf"), str(tmp_path / "log.csv"), "--out", str(out)]) == 0
    problem = load_problem(str(out))
    servos = [servo.command for servo in problem.model.servos]
    assert servos == (names[1:3] if "commands" in pairs else [])
    assert [motor.signal for motor in problem.model.motors] == names[pairs.get("efforts", len(names)) :]
    measured = names[3:] if "commands" in pairs else [name for name in names if "position" in name]
    assert [channel.signal for channel in problem.channels] == measured


def test_a_dataset_becomes_a_problem_with_a_servo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("pint")
    folder = dataset(tmp_path / "so101", 3)
    problem = scaffolded(tmp_path, SERVO, folder, "--units", "observation.state=deg", "action=deg")
    assert [one.command for one in problem.model.servos] == ["action/lift.pos"]
    assert "3 episodes; that with the number 0 is read" in capsys.readouterr().err
    np.testing.assert_allclose(problem.recordings[0].signal("action/lift.pos"), np.radians(1 + np.arange(40)))
    file = next(dataset(tmp_path / "other", 2).glob("data/*/*.parquet"))
    (tmp_path / "made.py").unlink()
    problem = scaffolded(tmp_path, SERVO, file, "--units", "observation.state=deg", "action=deg")
    assert [one.command for one in problem.model.servos] == ["action[0]"]
