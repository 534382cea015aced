"""Logs of every format: what is written by the format's own library comes back, and what is broken is refused."""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import process_time
from typing import Any

import log_files as logs
import numpy as np
import pytest
from log_files import EPOCH, TABLES, Q, T, U

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Problem, ProblemError, Recording

S = T[np.isfinite(Q)]
"""Times of the samples of ``q``."""


def finite(run: Recording, name: str) -> tuple[list[float], list[float]]:
    """Times and values of the samples of a signal."""
    values = run.signal(name)
    return run.t[np.isfinite(values)].round(9).tolist(), values[np.isfinite(values)].tolist()


def csv(folder: Path, text: str) -> Path:
    path = folder / "run.csv"
    path.write_text(text, encoding="utf-8")
    return path


# --- text ---


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("t,q\n0,1.5\n0.1,-2\n", {}),
        ("t;q\n0;1,5\n0,1;-2\n", {}),
        ("t;q\n0;1.5\n0.1;-2\n", {}),
        ("t\tq\n0\t1,5\n0,1\t-2e0\n", {}),
        ("t|q\n0|1.5\n0.1|-2\n", {}),
        ("   t      q\n   0      1.5\n   0.1   -2\n", {}),
        ('t,q\n"0","1,5"\n"0,1","-2,0"\n', {"decimal": ","}),
        ("t:q\n0:1.5\n0.1:-2\n", {"delimiter": ":"}),
        ("q;t;a,b,c,d\n1,5;0;1\n-2;0,1;1\n", {"signals": ["q"]}),
        ("made by: a logger\n\nt\tq\n0\t1.5\n0.1\t-2\n", {"header": 3}),
        ("# made by: a logger\n#\n\nt\tq\n0\t1.5\n0.1\t-2\n", {}),
        ("# t q\n0 1.5\n0.1 -2\n", {}),
        ("#,t,q\n1,0,1.5\n2,0.1,-2\n", {"signals": ["q"]}),
        ("sep=;\nt;q\n0;1,5\n0,1;-2\n", {}),
        ("t,q,\n0,1.5,\n0.1,-2,\n", {}),
        ("t,q\n0,1.5,\n0.1,-2,\n", {}),
        ("t,q\n0,1.5\n0.1,-2\n0.2", {}),
        ("t;note;q\n0;a.b;1,5\n0,1;c;-2\n", {"signals": ["q"]}),
    ],
)
def test_fields_are_divided_by_what_makes_a_time_column(tmp_path, text, options):
    run = Recording.from_csv(csv(tmp_path, text), **options)
    assert (run.t.tolist(), run.signals["q"].tolist()) == ([0, 0.1], [1.5, -2])


def test_units_are_those_of_the_second_line_or_said(tmp_path):
    pytest.importorskip("pint")
    path = csv(tmp_path, "t;q;w;n\nms;[deg];(rpm);\n0;90;30;1,5\n100;180;60;2\n")
    run = Recording.from_csv(path)
    assert run.t.tolist() == [0, 0.1]
    np.testing.assert_allclose(run.signals["q"], [np.pi / 2, np.pi], rtol=1e-15)
    np.testing.assert_allclose(run.signals["w"], [np.pi, 2 * np.pi], rtol=1e-15)
    assert run.signals["n"].tolist() == [1.5, 2]
    said = Recording.from_csv(path, units={"q": "mrad", "t": "s", "n": "N cm"})
    assert said.t.tolist() == [0, 100]
    np.testing.assert_allclose(said.signals["q"], [0.09, 0.18], rtol=1e-15)
    np.testing.assert_allclose(said.signals["n"], [0.015, 0.02], rtol=1e-15)


@pytest.mark.parametrize("unit", ["g", "G"])
def test_a_unit_that_may_be_of_mass_or_acceleration_is_refused(tmp_path, unit):
    pytest.importorskip("pint")
    path = csv(tmp_path, f"t,a\ns,{unit}\n0,1\n1,2\n")
    refused(lambda: Recording.from_csv(path), rf"'a' has the unit '{unit}'; with units= say which .* or 'g_0'", path)
    assert Recording.from_csv(path, units={"a": "g_0"}).signals["a"][0] == 9.80665


@pytest.mark.parametrize("unit", ["9**9**9**9", "2**(10**10)*m", "9⁹⁹⁹⁹⁹⁹⁹⁹⁹*m", "(((10^99)^99)^99)^99", "m" * 100_000])
def test_units_without_bounds_are_refused(tmp_path, unit):
    pytest.importorskip("pint")
    path = csv(tmp_path, f"t,q\ns,{unit}\n0,1\n1,2\n")
    refused(lambda: Recording.from_csv(path), "'q': .* is neither a finite number nor a unit", path)
    path = csv(tmp_path, "t,q\n0,1\n1,2\n")
    refused(lambda: Recording.from_csv(path, units={"q": unit}), "'q' has the unit .* which pint does not", path)


def test_units_of_every_clock_are_converted(tmp_path):
    pytest.importorskip("pint")
    path = csv(tmp_path, "t,q,t_c,x\n0,1,2,10\n1,2,5,20\n,,7,30\n")
    run = Recording.from_csv(path, times={"x": "t_c"}, units={"t": "ms", "t_c": "ms", "x": "mm"})
    assert finite(run, "q")[0] == [0, 0.001]
    np.testing.assert_allclose(finite(run, "x"), [[0.002, 0.005, 0.007], [0.01, 0.02, 0.03]], rtol=1e-12)


def test_stamps_with_too_few_digits_are_told(tmp_path):
    with pytest.raises(
        ProblemError, match=r"run\.csv: all 3 lines have the time 1700000000 s; write timestamps with more"
    ):
        Recording.from_csv(csv(tmp_path, "t,a\n1.7e9,1\n1.7e9,2\n1.7e9,3\n"))


def test_stamps_that_repeat_are_said_and_merged(tmp_path):
    run = Recording.from_csv(csv(tmp_path, "t,a,b\n0,1,1\n0.5,2,\n0.5,,7\n0.5,3,\n1,4,4\n1,4,4\n"))
    assert run.t.tolist() == [0, 0.5, 1]
    assert run.signals["a"].tolist() == [1, 3, 4]
    assert run.signals["b"].tolist() == [1, 7, 4]
    (note,) = run.notes
    assert note.endswith(
        "run.csv: 3 lines of 6 repeat a time, first line 4 at 0.5 s; of several samples at one time the last is taken."
    )
    assert note in str(run)
    assert run.between(0, 0.6).notes == run.notes
    rod = Body("rod", mass=1.0, inertia=(1.0, 1.0, 1.0))
    hinge = Hinge("hinge", GROUND.frame(), rod.frame())
    model = Model([rod], [hinge], [Motor(hinge, signal="a", gain=1.0)], gravity=(0.0, 0.0, 0.0))
    long = Recording.from_csv(csv(tmp_path, "t,a,b\n0,1,1\n0.5,2,\n0.5,3,3\n1,4,4\n1.5,4,4\n2,1,1\n2.5,1,1\n"))
    problem = Problem("p", model, [long], [HingeAngle(hinge, signal="b", sigma=0.1)], step=0.5, state_weight=1.0)
    assert long.notes[0] in problem.solve(max_iterations=1).notices


# --- tables ---


@pytest.mark.parametrize("ending", TABLES)
def test_tables_come_back(tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    TABLES[ending](path)
    run = Recording.from_file(path)
    assert (run.name, run.notes, list(run.signals)) == ("run", (), ["q", "u[0]", "u[1]"])
    np.testing.assert_array_equal(run.t, T)
    np.testing.assert_array_equal(run.signals["q"], Q)
    np.testing.assert_array_equal(run.signals["u[1]"], U[:, 1])
    some = Recording.from_file(path, signals=["u[1]"], name="mine", closed_loop=True)
    assert (some.name, some.closed_loop, list(some.signals)) == ("mine", True, ["u[1]"])
    assert list(Recording.from_file(path, signals="u").signals) == ["u[0]", "u[1]"]


@pytest.mark.parametrize("ending", TABLES)
def test_tables_of_several_clocks(tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    TABLES[ending](path, x=T + 10, t_x=T + 0.05)
    run = Recording.from_file(path, times={"x": "t_x"})
    assert finite(run, "x") == ([0.05, 0.15, 0.25, 0.35, 0.45], (T + 10).tolist())
    assert finite(run, "q") == (S.tolist(), [1, 2, 4, 5])
    assert run.several_clocks


@pytest.mark.parametrize("ending", TABLES)
def test_tables_in_other_units(tmp_path, ending):
    pytest.importorskip("pint")
    path = tmp_path / f"run.{ending}"
    TABLES[ending](path, t=1000 * T, q=np.degrees(Q))
    units = {"t": "ms", "q": "deg", "u": "N cm"}
    run = Recording.from_file(path, units=units)
    np.testing.assert_allclose(run.t, T, rtol=1e-15)
    np.testing.assert_allclose(run.signals["q"], Q, rtol=1e-14)
    np.testing.assert_allclose(run.signals["u[0]"], U[:, 0] / 100, rtol=1e-14)


def test_groups_have_clocks_of_their_own(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as file:
        file["arm/t"], file["arm/q"], file["arm/raw/u"] = T, Q[:, None], U.T
        file["imu/t"], file["imu/w"], file["imu/title"], file["serial"] = T[1:] + 0.01, np.degrees(T[1:]), "text", 7
        file["imu/w"].attrs["units"] = "deg"
        file["cam"] = np.array([(0.0, 5.0), (0.7, 6.0)], dtype=[("t", "f8"), ("x", "f4")])
    pytest.importorskip("pint")
    run = Recording.from_hdf5(path)
    assert list(run.signals) == ["arm/q", "arm/raw/u[0]", "arm/raw/u[1]", "cam/x", "imu/w"]
    assert finite(run, "arm/raw/u[1]") == (T.tolist(), U[:, 1].tolist())
    assert finite(run, "cam/x") == ([0, 0.7], [5, 6])
    np.testing.assert_allclose(finite(run, "imu/w"), [T[1:] + 0.01, T[1:]], rtol=1e-12)


def test_structs_of_matlab(tmp_path):
    path = tmp_path / "run.mat"
    logs.module("scipy.io").savemat(path, {"log": {"time": T, "arm": {"q": Q}, "word": "no"}, "h": 0.1})
    assert list(Recording.from_mat(path, time="time").signals) == ["log.arm.q"]
    logs.write_mat(path, x=T[1:], t_x=T)
    told = r"array 'x' of shape \(4,\) has not one number for each of the 5 times of 't_x'; choose others"
    refused(lambda: Recording.from_mat(path, times={"x": "t_x"}), told, path)


def test_damaged_lengths_in_a_matlab_file(tmp_path):
    """SciPy takes them at their word, and may end the process that reads."""
    io, path = logs.module("scipy.io"), tmp_path / "run.mat"
    cells = np.array([np.arange(3.0), "word"], dtype=object)
    io.savemat(path, {"t": T, "s": {"q": Q, "word": "no"}, "c": cells})
    whole = path.read_bytes()
    assert list(Recording.from_mat(path).signals) == ["s.q"]
    words = [i for i in range(128, len(whole), 4) if whole[i : i + 4] in (b"\x0e\0\0\0", b"\x09\0\0\0", b"\x05\0\0\0")]
    for i in words:
        path.write_bytes(whole[: i + 4] + b"\xff\xff\xff\x7f" + whole[i + 8 :])
        with suppress(ProblemError):  # or it is read in spite of that
            assert list(Recording.from_mat(path).signals) == ["s.q"]
    path.write_bytes(whole[:-9])
    refused(lambda: Recording.from_mat(path), "is no MATLAB file or is damaged", path)


def test_text_as_recorders_of_western_europe_write_it(tmp_path):
    path = tmp_path / "run.csv"
    path.write_bytes("t;Drehwinkel_für_q\nms;°\n0;0,0\n500;90,0\n".encode("cp1252"))
    run = Recording.from_csv(path)
    np.testing.assert_allclose([run.t, run.signals["Drehwinkel_für_q"]], [[0, 0.5], [0, np.pi / 2]])
    assert run.notes == ("run.csv is no UTF-8 text; it is read as Windows-1252 (Latin-1).",)


def test_a_text_that_breaks_off_says_so(tmp_path):
    assert Recording.from_csv(csv(tmp_path, "t,q\n0,1.5\n0.1,-2\n0.2")).notes == (
        "run.csv breaks off in line 4, which is left out.",
    )


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
def test_plain_numbers_are_what_python_reads(tmp_path, mark):
    rng = np.random.default_rng(0)
    rows = [[i / 7, *row] for i, row in enumerate(rng.normal(size=(50, 2)) * 10.0 ** rng.integers(-9, 9, (50, 2)))]
    texts = [mark.join(map(repr, map(float, row))) for row in rows]
    run = Recording.from_csv(csv(tmp_path, "\n".join([mark.join("tab"), *texts])))
    expected = np.array(rows)
    np.testing.assert_array_equal([run.t, run.signals["a"], run.signals["b"]], expected.T)


@pytest.mark.parametrize("word", ["", "nan", "N/A", "#N/A", "null", "None", "-nan(ind)"])
def test_words_for_what_is_missing(tmp_path, word):
    run = Recording.from_csv(csv(tmp_path, f"t,q\n0,1.5\n0.1,{word}\n0.2,2\n"))
    assert np.isnan(run.signals["q"]).tolist() == [False, True, False]


def test_text_in_utf_16(tmp_path):
    path = tmp_path / "run.csv"
    path.write_bytes("t\tq\n0\t1,5\n0,1\t-2\n".encode("utf-16"))
    assert Recording.from_csv(path).signals["q"].tolist() == [1.5, -2]
    path.write_bytes("t\tq\n0\t1,5\n0,1\t-2\n".encode("utf-16-le"))
    refused(lambda: Recording.from_csv(path), "is text neither in UTF-8 or UTF-16 nor in Windows-1252", path)


def test_times_that_are_dates(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time;q\n2026-01-31 12:00:00.25Z;1,5\n2026-01-31 12:00:00.75Z;2,5\n2026-01-31 13:00:01+01:00;3,5\n")
    run = Recording.from_csv(path, time="time")
    assert (run.t.tolist(), run.signals["q"].tolist()) == ([0.0, 0.5, 0.75], [1.5, 2.5, 3.5])
    assert run.notes == (
        "Timestamps of run.csv are dates, converted to seconds since the first date, 2026-01-31 12:00:00.25Z.",
    )
    for last, told in (
        ("2026-02-30 12:00:00Z", "line 4, column 'time': '2026-02-30 12:00:00Z' is no time as 2026"),
        ("2026-01-31 12:00:05", "is the first with, or without, a time zone; give all dates one, or none"),
        ("2026-01-31 11:00:00Z", "line 4"),
    ):
        path.write_text(f"time;q\n2026-01-31 12:00:00Z;1,5\n2026-01-31 12:00:01Z;2,5\n{last};3,5\n")
        refused(lambda: Recording.from_csv(path, time="time"), told, path)


def test_matlab_of_version_7_3(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "run.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["log/t"], file["log/u"] = T[None], U.T
        file["word"] = np.array([[104], [105]], dtype=np.uint16)
        file["word"].attrs["MATLAB_class"] = np.bytes_("char")
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    run = Recording.from_mat(path)
    np.testing.assert_array_equal(run.signals["log.u[1]"], U[:, 1])


@pytest.mark.parametrize("kind", ["column", "index", "zone", "duration"])
def test_dates_count_from_the_first(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    frame = logs.frame(t=None)
    dates = pandas.to_datetime(EPOCH * 10**9 + np.round(1e9 * T).astype(np.int64), utc=kind == "zone")
    dates = dates - dates[0] if kind == "duration" else dates
    frame = frame.set_index(dates) if kind == "index" else frame.assign(t=dates)
    run = Recording.from_dataframe(frame)
    assert (run.name, list(run.signals)) == ("recording", ["q", "u[0]", "u[1]"])
    np.testing.assert_allclose(run.t, T, atol=1e-12)
    if kind != "duration":
        np.testing.assert_allclose(Recording.from_dataframe(frame, from_zero=False).t, EPOCH + T, rtol=1e-15)
    if kind == "zone":
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / "run.parquet")
        np.testing.assert_allclose(Recording.from_parquet(tmp_path / "run.parquet").t, T, atol=1e-12)


def test_columns_of_a_frame_may_lack_values_and_hold_words():
    pandas = pytest.importorskip("pandas")
    frame = logs.frame(u=None).assign(n=pandas.array([1, None, 3, 4, 5], dtype="Int64"), word=list("abcde"))
    run = Recording.from_dataframe(frame, name="mine")
    assert (run.name, list(run.signals)) == ("mine", ["q", "n"])
    np.testing.assert_array_equal(run.signals["n"], [1, np.nan, 3, 4, 5])


# --- messages ---


MESSAGES: dict[str, Callable[..., None]] = {"bag": logs.write_bag, "mcap": logs.write_mcap}


def write_ros1_mcap(path: Path, **changes: Any) -> None:
    logs.write_mcap(path, ros=1, **changes)


def write_mcap_bag(path: Path, **changes: Any) -> None:
    logs.write_bag2(path, storage="MCAP", **changes)


ROS = {"run.bag": logs.write_bag, "run": logs.write_bag2, "two": write_mcap_bag, "run.mcap": logs.write_mcap}


@pytest.mark.parametrize(("name", "write"), [*ROS.items(), ("one.mcap", write_ros1_mcap)])
def test_joint_states_and_inertial_units_are_read_without_being_asked_for(tmp_path, name, write):
    path = tmp_path / name
    write(path)
    run = Recording.from_file(path)
    joints = [f"{what}/{joint}" for what in ("position", "effort") for joint in ("shoulder", "elbow")]
    vectors = [("orientation", "xyzw"), ("angular_velocity", "xyz"), ("linear_acceleration", "xyz")]
    assert {*run.signals} == {*joints, *(f"imu/data/{what}/{axis}" for what, axes in vectors for axis in axes)}
    assert finite(run, "position/elbow") == (S.tolist(), [2, 4, 8, 10])
    assert finite(run, "effort/elbow") == (T.tolist(), U[:, 1].tolist())
    assert finite(run, "imu/data/angular_velocity/z") == (
        T.round(9).tolist() and (T + 0.03).round(9).tolist(),
        T.tolist(),
    )


def test_topics_are_chosen_and_named(tmp_path):
    path = tmp_path / "run.bag"
    logs.write_bag(path, more=["/wanted"])
    run = Recording.from_rosbag(path, topics="/command")
    assert (list(run.signals), run.t[0]) == (["command/data[0]", "command/data[1]"], 0)
    run = Recording.from_rosbag(
        path, topics={"/joint_states": "arm", "/command": ""}, signals=["data", "arm/effort/elbow"]
    )
    assert list(run.signals) == ["arm/effort/elbow", "data[0]", "data[1]"]
    assert list(Recording.from_rosbag(path, signals=["command/data[1]"]).signals) == ["command/data[1]"]
    logged = Recording.from_rosbag(path, topics=["/joint_states"], stamps="log", from_zero=False)
    np.testing.assert_allclose(logged.t, EPOCH + T + 0.005, rtol=0, atol=3e-7)
    with pytest.raises(
        ProblemError, match=r"topic '/wanted' has 'position/shoulder', which .*run.bag topic '/joint_st"
    ):
        Recording.from_rosbag(path)


def test_joints_of_one_topic_may_come_from_several_nodes(tmp_path):
    path = tmp_path / "run.mcap"
    arm, hand = ({"name": [name], "position": [value]} for name, value in (("elbow", 1.0), ("finger", 2.0)))
    logs.write_json(path, [arm, hand, arm, arm, hand])
    run = Recording.from_mcap(path)
    assert finite(run, "position/elbow") == ([0, 0.2, 0.3], [1, 1, 1])
    assert finite(run, "position/finger") == ([0.1, 0.4], [2, 2])
    assert run.several_clocks


def test_messages_in_json(tmp_path):
    path = tmp_path / "run.mcap"
    arm = {"name": ["a", "b"], "position": [1.0, 2.0], "timestamp": {"sec": 3, "nsec": 500_000_000}}
    logs.write_json(path, [arm, {"q": [1, 2], "on": True, "note": "x", "deep": {"x": None, "y": 1.5}}, {"q": [3, 4]}])
    run = Recording.from_mcap(path)
    assert finite(run, "state/q[1]") == ([0, 0.1], [2, 4])
    assert finite(run, "state/deep/y") == ([0], [1.5])
    assert finite(run, "position/b") == ([3.4], [2])
    assert {*run.signals} == {"position/a", "position/b", "state/q[0]", "state/q[1]", "state/on", "state/deep/y"}


def test_messages_of_protocol_buffers(tmp_path):
    writer = logs.module("mcap_protobuf.writer")
    struct = logs.module("google.protobuf.wrappers_pb2")
    path = tmp_path / "run.mcap"
    with path.open("wb") as file, writer.Writer(file) as log:
        for i in range(3):
            log.write_message("/u", struct.DoubleValue(value=i / 2), log_time=i * 10**8, publish_time=0)
    assert finite(Recording.from_mcap(path), "u/value") == ([0, 0.1, 0.2], [0, 0.5, 1])


def test_ulog(tmp_path):
    path = tmp_path / "run.ulg"
    logs.write_ulog(path)
    run = Recording.from_file(path)
    assert list(run.signals) == ["sensor_gyro/x", "sensor_gyro/y", "sensor_gyro_1/x", "sensor_gyro_1/y"]
    assert finite(run, "sensor_gyro_1/x") == ((S + 0.01).round(9).tolist(), [1, 2, 4, 5])
    one = Recording.from_ulog(path, topics={"sensor_gyro_1": "w"}, from_zero=False)
    assert (list(one.signals), one.t[0]) == (["w/x", "w/y"], 12.51)


def test_what_was_never_measured_is_left_out_and_said(tmp_path):
    for path, write in ((tmp_path / "run.mcap", logs.write_mcap), (tmp_path / "run.ulg", logs.write_ulog)):
        write(path, q=Q * np.nan)
        run = Recording.from_file(path)
        assert not {"position/shoulder", "sensor_gyro/x"} & {*run.signals}
        assert re.search("left out for want of one sample: '(position/shoulder|sensor_gyro/x)'", run.notes[0])


# --- what is wrong ---


NAN = np.array([0, 0.1, np.nan, 0.3, 0.4])
BACK = np.array([0, 0.1, 0.05, 0.3, 0.4])
WRONG_TABLES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no time": ({"t": None}, {}, r"has no .*'t'.*it has 'q', 'u.*time="),
    "a sample without a time": ({"t": NAN}, {}, r"(row|line|sample) [24] has no time; remove the \w+ or give it one"),
    "time goes back": (
        {"t": BACK},
        {},
        r"(row|line|sample) [24]: time 0.05 is earlier than 0.1 of the \w+ before; sort",
    ),
    "infinite": ({"q": Q * np.inf}, {}, r"'q'.*(is infinite; write NaN|'inf' is no finite number; leave)"),
    "nothing measured": ({"q": Q * np.nan}, {}, r"recording 'run': signal 'q' has not one finite sample; remove it"),
    "one sample": ({"t": T[:1], "q": Q[:1], "u": None}, {}, r"time.* has (1 sample; at least 2|shape 1; name one)"),
    "no signals": ({"q": None, "u": None}, {}, r"recording 'run': there are no signals; give at least one"),
    "words": (
        {"q": list("abcde")},
        {"signals": ["q"]},
        r"'q'.*('a' is no finite|no array of real|not one number for each)",
    ),
    "unknown signal": ({}, {"signals": ["v"]}, r"has no \w+ 'v'; it has ('t', )?'q', 'u"),
    "unknown clock": ({}, {"times": {"q": "t_q"}}, r"has no \w+ 't_q'(, which times= names)?; it has ('t', )?'q'"),
    "unknown unit": (
        {},
        {"units": {"q": "wibble"}},
        r"'q' has the unit 'wibble', which pint does not know; write it as",
    ),
    "unit of no time": ({}, {"units": {"t": "deg"}}, r"'t': time has the unit 'deg', which is no time; write it"),
    "unit of nothing": ({}, {"units": {"v": "deg"}}, r"has no column 'v', which units= names; it has 't', 'q'"),
    "no dict of units": ({}, {"units": "deg"}, r"units is 'deg'; give a dict of names to names"),
    "unknown option": ({}, {"topic": "q"}, r"has no option 'topic'; it has 'time', 'signals'"),
}


def refused(read: Callable[[], object], told: str, path: Path) -> None:
    """One sentence that names the file and says what it should."""
    with pytest.raises(ProblemError, match=told) as caught:
        read()
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("case", WRONG_TABLES)
def test_wrong_tables_are_refused(tmp_path, ending, case):
    changes, options, told = WRONG_TABLES[case]
    if "units" in options:
        pytest.importorskip("pint")
    path = tmp_path / f"run.{ending}"
    TABLES[ending](path, **changes)
    refused(lambda: Recording.from_file(path, **options), told, path)


@pytest.mark.parametrize("case", [case for case in WRONG_TABLES if case != "unknown option"])
def test_wrong_frames_are_refused(case):
    changes, options, told = WRONG_TABLES[case]
    if "units" in options:
        pytest.importorskip("pint")
    frame = logs.frame(**changes)
    refused(lambda: Recording.from_dataframe(frame, name="run", **options), told, Path("test_logs.py"))


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "another format": lambda whole: b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "cut short": lambda whole: whole[: len(whole) // 3],
    "beginning lost": lambda whole: whole[len(whole) // 3 :],
    "zeros": lambda whole: bytes(len(whole)),
}
FILES = {**{f"run.{ending}": write for ending, write in TABLES.items() if ending != "csv"}, "run.bag": logs.write_bag}
FILES |= {"run.mcap": logs.write_mcap, "one.mcap": write_ros1_mcap, "run.ulg": logs.write_ulog}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("case", BYTES)
def test_damaged_files_are_refused(tmp_path, name, case):
    path = tmp_path / name
    FILES[name](path)
    path.write_bytes(BYTES[case](path.read_bytes()))
    refused(lambda: Recording.from_file(path), r" is no .*(;|: ) ?\w+|has no topics|is damaged; write", path)


@pytest.mark.parametrize("name", ["run.csv", *FILES, "run.db3"])
def test_what_is_no_file_is_refused(tmp_path, name):
    path = tmp_path / name
    for module in ("h5py", "pyarrow", "mcap", "rosbags", "pyulog"):
        pytest.importorskip(module)
    refused(lambda: Recording.from_file(path), r"cannot be read \(No such file or directory\); check the path", path)
    path.mkdir()
    refused(lambda: Recording.from_file(path), r"is no ROS bag: .* metadata\.yaml; write that with", path)


WRONG_MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no topics of ours": (
        {"/joint_states": None, "/imu/data": None},
        {},
        r"no topic of JointState or Imu; it has '/comma",
    ),
    "unknown topic": (
        {},
        {"topics": ["/odom"]},
        r"has no topic '/odom'; it has '/joint_states' \(sensor_msgs/msg/Joint",
    ),
    "unknown signal": ({}, {"signals": ["q"]}, r"has no signal 'q'; it has 'position/shoulder'"),
    "topics of one name": ({"more": ["/b"]}, {}, r"topic '/b' has 'position/shoulder', which .* has too; .*topics="),
    "a name too many": (
        {"names": ["a", "b", "c"]},
        {},
        r"'/joint_states' message 0 has 3 names and 2 of position; leave",
    ),
    "infinite": (
        {"q": Q * np.inf},
        {},
        r"'/joint_states' message 0, column 'position/shoulder' is infinite; write NaN",
    ),
    "nothing measured": (
        {"q": Q * np.nan},
        {"signals": ["position/elbow"]},
        r"'position/elbow' has not one finite sample",
    ),
    "one message": ({"t": T[:1], "/imu/data": None}, {}, r"recording '\w+': time has 1 sample; at least 2"),
    "topics of no kind": ({}, {"topics": 3}, r"topics is 3; give a list of names, or a dict of names to names"),
    "prefix of no kind": ({}, {"topics": {"/command": 3}}, r"topics holds 3 as '/command'; give"),
    "stamps of no kind": ({}, {"stamps": "mine"}, r"stamps is 'mine'; give 'header' or 'log'"),
    "unknown unit": (
        {},
        {"units": {"position/elbow": "wibble"}},
        r"'position/elbow' has the unit 'wibble', which pint",
    ),
    "unknown option": ({}, {"time": "t"}, r"has no option 'time'; it has 'topics', 'signals'"),
}


def every_case_in_one_format() -> Iterator[Any]:
    """And the others of the other formats as a study: what is wrong is found behind all readers."""
    for case, name in itertools.product(WRONG_MESSAGES, ROS):
        sampled = name == "run.mcap" or case == "unknown option"
        yield pytest.param(case, name, marks=() if sampled else pytest.mark.study)


@pytest.mark.parametrize(("case", "name"), list(every_case_in_one_format()))
def test_wrong_messages_are_refused(tmp_path, name, case):
    changes, options, told = WRONG_MESSAGES[case]
    if "units" in options:
        pytest.importorskip("pint")
    path = tmp_path / name
    ROS[name](path, **changes)
    refused(lambda: Recording.from_file(path, **options), told, path)


def test_mcap_of_other_encodings_is_refused(tmp_path):
    path = tmp_path / "run.mcap"
    logs.write_mcap(path, encoding="cbor")
    refused(
        lambda: Recording.from_mcap(path), r"topic '/joint_states' is encoded in 'cbor'; of cdr, ros1, protobuf", path
    )
    logs.write_mcap(path, schema=b"nonsense")
    refused(lambda: Recording.from_mcap(path), r"is no MCAP file or is damaged \(.*mcap recover", path)
    logs.write_json(path, [b"{"])
    refused(lambda: Recording.from_mcap(path), r"is no MCAP file or is damaged \(.*mcap recover", path)
    logs.write_json(path, [{"note": "x"}])
    refused(lambda: Recording.from_mcap(path), r"no message with numbers in '/state'; choose others with topics=", path)


def test_wrong_bags_of_ros_2_are_refused(tmp_path):
    path = tmp_path / "run"
    logs.write_bag2(path)
    for name, content in {"metadata.yaml": "", "run.db3": "no database"}.items():
        (path / name).write_text(content)
        refused(lambda: Recording.from_rosbag(path), r"is no ROS bag or is damaged \(.*ros2 bag reindex", path)
    (path / "metadata.yaml").unlink()
    refused(lambda: Recording.from_rosbag(path / "run.db3"), r"run.db3 is no ROS bag: .*ros2 bag reindex", path)


WRONG_ULOGS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unknown topic": ({}, {"topics": ["imu"]}, r"has no topic 'imu'; it has 'sensor_gyro', 'sensor_gyro_1'"),
    "unknown signal": ({}, {"signals": ["x"]}, r"has no signal 'x'; it has 'sensor_gyro/x'"),
    "no topics": ({"instances": ()}, {}, r"has no topics; record some"),
    "infinite": ({"q": Q * np.inf}, {}, r"topic 'sensor_gyro' message 0, column 'sensor_gyro/x' is infinite; write"),
    "nothing measured": (
        {"q": Q * np.nan},
        {"signals": ["sensor_gyro/x"]},
        r"'sensor_gyro/x' has not one finite sample",
    ),
    "one message": ({"t": T[:1], "instances": (0,)}, {}, r"recording 'run': time has 1 sample; at least 2"),
    "unknown unit": ({}, {"units": {"sensor_gyro/x": "wibble"}}, r"'sensor_gyro/x' has the unit 'wibble', which pint"),
    "unknown option": ({}, {"stamps": "log"}, r"has no option 'stamps'; it has 'topics', 'signals'"),
}


@pytest.mark.parametrize("case", WRONG_ULOGS)
def test_wrong_ulogs_are_refused(tmp_path, case):
    changes, options, told = WRONG_ULOGS[case]
    if "units" in options:
        pytest.importorskip("pint")
    path = tmp_path / "run.ulg"
    logs.write_ulog(path, **changes)
    refused(lambda: Recording.from_file(path, **options), told, path)


@pytest.mark.parametrize("name", ["time", "Timestamp", "time_s", "time [s]"])
def test_a_column_that_says_time_has_the_times_where_t_is_missing(tmp_path, name):
    stamps, q = np.arange(3.0), np.array([1.0, 2.0, 4.0])
    for mark in ",;\t":
        text = mark.join([name, "q"]) + "\n" + "".join(f"{t}{mark}{v}\n" for t, v in zip(stamps, q, strict=True))
        path = csv(tmp_path, text)
        run = Recording.from_csv(path)
        assert list(run.signals) == ["q"]
        np.testing.assert_array_equal(run.t, stamps)
    np.savez(tmp_path / "run.npz", **{name: stamps, "q": q})
    (tmp_path / "run.json").write_text(json.dumps({"arm": {name: [*stamps], "q": [*q]}, "mass": 2.0}))
    runs = [Recording.from_file(tmp_path / "run.npz"), Recording.from_file(tmp_path / "run.json", signals=["arm/q"])]
    for run in runs:
        np.testing.assert_array_equal(run.t, stamps)
        np.testing.assert_array_equal([*run.signals.values()], [q])


WRONG_TEXTS = {
    "t;q\n0;1.234,5\n1;2\n": r"line 2, column 'q': '1.234,5' has a comma, and line 2, .* a point; say with decimal=",
    "t;q\n0;1.5\n0,1;2\n": r"line 3, column 't': '0,1' has a comma, and line 2, column 'q', '1.5' a point; say with",
    't,q\n0,"1,234"\n1,2\n': r"line 2, column 'q': '1,234' is no finite number; leave a missing value empty",
    "t,q\ns,wibbles\n0,1\n1,2\n": r"line 2, column 'q': 'wibbles' is neither a finite number nor a unit that pint",
    "t,q\ndeg,deg\n0,1\n1,2\n": r"'t': time has the unit 'deg', which is no time; write it as in 'ms'",
    "t,q\n12:00:01,1\n12:00:02,2\n": r"line 2, column 't': '12:00:01' is no finite number; read dates with pandas",
    "t q\n0 1 2\n1 2\n": r"line 2 has 3 fields and the header 2; leave missing values empty",
    "x:q\n0:1\n1:2\n": r"line 1 has no time column 't'; it has 'x:q': name one of them with time=",
}


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_wrong_texts_are_refused(tmp_path, text):
    pytest.importorskip("pint")
    path = csv(tmp_path, text)
    refused(lambda: Recording.from_csv(path), WRONG_TEXTS[text], path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"delimiter": ";;"}, "';;'; give one"),
        ({"decimal": "x"}, "'x'; give '.'"),
        ({"header": 0}, "header is 0"),
        ({"header": 9}, "into line 9"),
    ],
)
def test_wrong_forms_are_refused(tmp_path, options, told):
    path = csv(tmp_path, "t,q\n0,1\n1,2\n")
    refused(lambda: Recording.from_csv(path, **options), re.escape(told), path)


def test_other_endings_are_refused(tmp_path):
    refused(lambda: Recording.from_file(tmp_path / "run.xls"), r"ends in none of \.csv, .*from_csv", Path("run.xls"))


def test_wrong_frames_of_their_own_are_refused():
    frame = logs.frame()
    place = Path("test_logs.py")
    refused(lambda: Recording.from_dataframe([1]), "data frame is a list; give a pandas.DataFrame", place)
    refused(
        lambda: Recording.from_dataframe(frame.assign(**{"q": 1}).rename(columns={"q": 3})),
        "the column name 3 is not text",
        place,
    )
    refused(lambda: Recording.from_dataframe(frame.rename(columns={"q": "t"})), "are named 't'; rename", place)


@pytest.mark.parametrize("module", ["h5py", "pyarrow", "pandas", "mcap.reader", "rosbags.highlevel", "pyulog", "pint"])
def test_a_missing_library_is_named_with_what_installs_it(tmp_path, monkeypatch, module):
    files = {"h5py": "h5", "pyarrow": "parquet", "mcap.reader": "mcap", "rosbags.highlevel": "bag", "pyulog": "ulg"}
    path = csv(tmp_path, "t,q\n0,1\n1,2\n").with_suffix("." + files.get(module, "csv"))
    frame = logs.frame() if module == "pandas" else None
    monkeypatch.setitem(sys.modules, module, None)
    install = "pint" if module == "pint" else r"'spookid\[logs\]'"
    told = f"needs {module.partition('.')[0]}; install it with: pip install {install}$"
    if frame is not None:
        refused(lambda: Recording.from_dataframe(frame), told, Path("test_logs.py"))
    else:
        options: dict[str, Any] = {"units": {"q": "deg"}} if module == "pint" else {}
        refused(lambda: Recording.from_file(path, **options), told, path)


def squeezed(path: Path, method: str) -> None:
    """A small file that declares 160 MB of numbers."""
    columns = {"t": np.zeros(10_000_000), "q": np.zeros(10_000_000)}
    if method == "npz":
        np.savez_compressed(path, **columns)
    elif method == "mat":
        pytest.importorskip("scipy.io").savemat(
            path, {name: np.zeros(60_000_000) for name in columns}, do_compression=True
        )
    elif method == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table(columns), path, compression="zstd")
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name in columns:
                file.create_dataset(name, (10**12,), "f8", chunks=(10**6,))


@pytest.mark.parametrize("method", ["npz", "mat", "parquet", "hdf5"])
def test_what_no_file_of_its_size_holds_is_refused_before_it_is_read(tmp_path, method):
    squeezed(path := tmp_path / f"log.{method.replace('hdf5', 'h5')}", method)
    refused(lambda: Recording.from_file(path), "declares .* numbers", path)


def bomb(path: Path, kind: str) -> None:
    """A log of a few kilobytes, with a message of 160 MB."""
    nothing = np.zeros((5, 5_000_000))
    if kind in ("zstd", "lz4"):
        logs.write_json(path, [b"1" + b" " * nothing.nbytes] * 2, chunk_size=2**30, compression=kind)
    elif kind == "bz2":
        logs.write_bag(path, squeezed=True, **{"/imu/data": None, "/joint_states": None}, u=nothing)
    else:
        logs.write_bag2(path, squeezed=kind.upper(), **{"/imu/data": None, "/joint_states": None}, u=nothing)


@pytest.mark.parametrize("kind", ["zstd", "lz4", "bz2", "file", "message", "storage"])
def test_what_measurements_do_not_compress_to_is_not_unpacked(tmp_path, kind):
    path = tmp_path / {"zstd": "log.mcap", "lz4": "log.mcap", "bz2": "log.bag"}.get(kind, "log")
    bomb(path, kind)
    read = Recording.from_mcap if path.suffix == ".mcap" else Recording.from_rosbag
    refused(
        lambda: read(path, topics=["/state" if path.suffix == ".mcap" else "/command"]), "unpacks to more than", path
    )


def test_a_view_instead_of_a_table_is_refused(tmp_path):
    """Its rows may have no end."""
    logs.write_bag2(path := tmp_path / "bag")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"
    with closing(sqlite3.connect(next(path.glob("*.db3")))) as database, database:
        database.execute("DROP TABLE message_definitions")
        database.execute(f"CREATE VIEW message_definitions AS {endless}")
    refused(lambda: Recording.from_rosbag(path), "has a view 'message_definitions' instead of a table", path)


def test_a_text_that_memory_does_not_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("spookid.data.logs.text.available", lambda: 100.0)
    refused(
        lambda: Recording.from_csv(csv(tmp_path, "t,q\n0,1\n1,2\n")), "12 bytes, more than memory", tmp_path / "run.csv"
    )


def test_arrays_that_are_no_signals_are_left_unread(tmp_path):
    path = tmp_path / "log.npz"
    np.savez_compressed(path, t=[0.0, 1.0], q=[1.0, 2.0], pixels=np.zeros((20_000_000, 1)))
    assert list(Recording.from_npz(path).signals) == ["q"]
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["t"], file["q"] = [0.0, 1.0], [1.0, 2.0]
        file.create_dataset("pixels", (2, 10**12), "f8", chunks=(2, 1000))
    assert list(Recording.from_hdf5(tmp_path / "log.h5", signals=["q"]).signals) == ["q"]


@pytest.mark.parametrize(
    "ending", ["csv", "npz", "mat", "parquet", "h5", "mcap", "bag", "db3", "ulg", "json", "wpilog"]
)
def test_pipes_and_devices_are_refused(tmp_path, ending):
    path, zeros = tmp_path / f"pipe.{ending}", tmp_path / f"zeros.{ending}"
    getattr(os, "mkfifo", lambda _: pytest.skip("has no pipes"))(path)
    zeros.symlink_to("/dev/zero")
    for one in (path, zeros):
        refused(
            lambda one=one: Recording.from_file(one),
            "but a pipe or a device|needs .*; install it",
            one,
        )


def test_fifty_thousand_columns_are_read_in_seconds(tmp_path):
    """Not in the square of the time that a hundredth of them takes."""
    used = []
    for count in (500, 50_000):
        text = f"t,{','.join(f'c{i}' for i in range(count))}\n" + "".join(f"{i}{',1' * count}\n" for i in range(2))
        path, began = csv(tmp_path, text), process_time()
        Recording.from_csv(path)
        used.append(process_time() - began)
    assert used[1] < 1000 * used[0]  # 100 times it is, and was 10 000


def test_numbers_of_other_files_are_refused(tmp_path):
    """As is a dataset that virtually is one of another file."""
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(np.arange(3.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["q"] = np.arange(3.0)
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "q", (3,))
    for name, put in {
        "external": lambda file: file.create_dataset("q", (3,), "f8", external=[(tmp_path / "secret", 0, 24)]),
        "virtual": lambda file: file.create_virtual_dataset("q", layout),
    }.items():
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file["t"] = np.arange(3.0)
            put(file)
        refused(lambda path=path: Recording.from_hdf5(path), "'q' takes its numbers from other files; copy them", path)


@pytest.mark.parametrize(("name", "unit"), [("angle [deg]", "deg"), ("angle (deg)", "deg"), ("w [rpm]", "rpm")])
def test_a_name_that_says_another_unit_than_it_is_read_in_is_warned_of(tmp_path, name, unit):
    file = tmp_path / "bar.csv"
    file.write_text(f"t,{name}\n0,1\n1,2\n2,3\n")
    with pytest.warns(UserWarning, match=f"units=.*'{unit}'"):
        assert Recording.from_csv(file).signal(name)[0] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recording.from_csv(file, units={name: unit})
        Recording.from_csv(file, units={name: ""})
        for plain in ("q[0]", "angle [rad]", "force (left)", "u [1]"):
            file.write_text(f"t,{plain}\n0,1\n1,2\n2,3\n")
            Recording.from_csv(file)
