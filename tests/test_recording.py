"""Recordings: what comes in is checked, what is written comes back, and every error names its place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spookid import ProblemError, Recording

T = np.array([0.0, 0.1, 0.25, 0.3])
finite = st.floats(-1e140, 1e140, allow_nan=False)


def recording(**signals: object) -> Recording:
    return Recording(t=T, signals=signals or {"a": [1.0, 2.0, 3.0, 4.0]}, name="run")  # type: ignore[arg-type]


def written(folder: Path, text: str, name: str = "run.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# --- construction ---


def test_arrays_are_copied_to_read_only_floats():
    source = np.array([1, 2, 3, 4])
    run = Recording(t=[0, 1, 2, 3], signals={"a": source, "b": [True, False, None, 4]})
    source[0] = 99
    assert run.name == "recording"
    assert (run.t.dtype, run.signals["a"].dtype) == (np.float64, np.float64)
    assert run.signals["a"].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(run.signals["b"], [1, 0, np.nan, 4])
    for array in (run.t, run.signals["a"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(TypeError):
        run.signals["c"] = source  # type: ignore[index]
    with pytest.raises(AttributeError):
        run.name = "other"  # type: ignore[misc]


def test_masked_samples_are_missing():
    run = recording(a=np.ma.masked_array([1.0, 2.0, 3.0, 4.0], mask=[False, True, False, False]))
    np.testing.assert_array_equal(run.signals["a"], [1, np.nan, 3, 4])


def test_recordings_are_told_apart_by_identity():
    first, second = recording(), recording()
    assert first != second
    assert len({first, second, first}) == 2


@pytest.mark.parametrize(
    ("t", "message"),
    [
        ([], "time has 0 samples"),
        ([1.0], "time has 1 sample"),
        ([[0.0, 1.0]], "shape (1, 2)"),
        ([0.0, np.nan, 2.0], "t[1] is nan"),
        ([0.0, 1.0, np.inf], "t[2] is inf"),
        ([0.0, 1.0, 1.0], "t[2] = 1 s does not exceed t[1] = 1 s"),
        ([0.0, 2.0, 1.0], "t[2] = 1 s does not exceed t[1] = 2 s"),
        (["a", "b"], "time is no array of real numbers"),
        ([0, 1j], "time is no array of real numbers"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "time is no array of real numbers"),
    ],
)
def test_bad_time(t, message):
    with pytest.raises(ProblemError, match=re.escape(message)) as caught:
        Recording(t=t, signals={"a": np.zeros(len(t))}, name="run 7")
    assert "recording 'run 7'" in str(caught.value)


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({}, "there are no signals"),
        ({"": T}, "'' is no signal name"),
        ({" a": T}, "' a' is no signal name"),
        ({"ok": T, "a": T[:3]}, "signal 'a' has shape (3,) and the time (4,)"),
        ({"a": 1.0}, "signal 'a' has shape ()"),
        ({"a": [[1, 2], [3]]}, "signal 'a' is no array of real numbers"),
        ({"a": ["1", "2", "3", "4"]}, "signal 'a' is no array of real numbers"),
        ({"a": [0, 1, np.inf, 3]}, "signal 'a' is infinite at sample [2]"),
        ({"a": [0, -np.inf, np.nan, 3]}, "signal 'a' is infinite at sample [1]"),
        ({"a": [np.nan] * 4}, "signal 'a' has not one finite sample"),
    ],
)
def test_bad_signals(signals, message):
    with pytest.raises(ProblemError, match=re.escape(message)) as caught:
        Recording(t=T, signals=signals, name="run")
    assert "recording 'run'" in str(caught.value)


def test_errors_say_where_the_recording_was_made():
    run = recording()
    for make in (lambda: Recording(t=T, signals={}), lambda: run.with_signals(b=[1.0])):
        with pytest.raises(ProblemError, match=r"^test_recording\.py:\d+: recording"):
            make()


def test_simulated_states():
    q, v = np.arange(4 * 2 * 7.0).reshape(4, 2, 7), np.arange(4 * 2 * 6.0).reshape(4, 2, 6)
    run = Recording(t=T, signals={"a": T}, q=q, v=v)
    part = run.with_signals(b=T).between(0.1, 0.3)
    assert part.q is not None
    assert part.v is not None
    np.testing.assert_array_equal(part.q, q[1:3])
    np.testing.assert_array_equal(part.v, v[1:3])
    assert not part.q.flags.writeable


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"q": np.zeros((4, 7))}, "q has shape (4, 7); give it (4, bodies, 7)"),
        ({"q": np.zeros((3, 1, 7))}, "q has shape (3, 1, 7)"),
        ({"v": np.zeros((4, 1, 7))}, "v has shape (4, 1, 7); give it (4, bodies, 6)"),
        ({"v": np.full((4, 1, 6), np.nan)}, "v holds a value that is not finite"),
        ({"q": np.zeros((4, 2, 7)), "v": np.zeros((4, 1, 6))}, "q has poses of 2 bodies, but v has velocities of 1"),
    ],
)
def test_bad_states(states, message):
    with pytest.raises(ProblemError, match=re.escape(message)):
        Recording(t=T, signals={"a": T}, **states)


# --- copies ---


def test_with_signals_replaces_and_adds():
    run = recording(a=T, b=2 * T)
    other = run.with_signals(b=3 * T, c=4 * T)
    assert list(other.signals) == ["a", "b", "c"]
    np.testing.assert_array_equal(other.signals["b"], 3 * T)
    np.testing.assert_array_equal(run.signals["b"], 2 * T)
    assert other.name == "run"


def test_between_is_half_open():
    part = recording(a=T).between(0.1, 0.3)
    assert part.t.tolist() == [0.1, 0.25]
    assert part.signals["a"].tolist() == [0.1, 0.25]
    assert part.name == "run"


def test_between_needs_two_samples():
    with pytest.raises(ProblemError, match=re.escape("'run' has 1 samples with 0.2 s <= t < 0.3 s")):
        recording().between(0.2, 0.3)


def test_between_keeps_what_was_commanded_before():
    run = Recording(T, {"a": [1.0, 2.0, np.nan, 4.0]}, times=None)
    assert run.before == {}
    part = run.between(0.25, 1)
    assert part.before == {"a": (0.1, 2.0)}
    assert part.between(0.25, 0.5).before == part.before
    assert part.with_signals(a=[3.0, 4.0]).before == {}


def test_unknown_signal_lists_those_there_are():
    with pytest.raises(ProblemError, match="'run' has no signal 'c'; its signals are 'a', 'b'"):
        recording(a=T, b=T).signal("c")


# --- CSV ---


def test_files_say_that_a_controller_made_the_inputs(tmp_path):
    np.savez(tmp_path / "run.npz", t=T, a=T)
    recording(a=T).to_csv(tmp_path / "run.csv")
    for read in (Recording.from_csv, Recording.from_npz):
        path = tmp_path / f"run.{read.__name__[-3:]}"
        assert read(path).closed_loop is None
        assert read(path, closed_loop=True).closed_loop is True
        with pytest.raises(ProblemError, match="closed_loop is 'yes'; give True or False, or leave it out"):
            read(path, closed_loop="yes")


@pytest.mark.parametrize("longer", ["table", "clock"])
def test_csv_columns_of_two_clocks_may_be_of_different_lengths(tmp_path, longer):
    rows = {"table": "0,1,0.05,7\n0.1,2,,\n0.2,3,,\n", "clock": "0,1,0.05,7\n0.1,2,0.15,8\n,,0.25,9\n"}[longer]
    path = written(tmp_path, "t,a,t_b,b\n" + rows)
    run = Recording.from_csv(path, times={"b": "t_b"})
    found = {name: values[np.isfinite(values)].tolist() for name, values in run.signals.items()}
    assert found == {"table": {"a": [1, 2, 3], "b": [7]}, "clock": {"a": [1, 2], "b": [7, 8, 9]}}[longer]
    assert run.t.tolist() == {"table": [0, 0.05, 0.1, 0.2], "clock": [0, 0.05, 0.1, 0.15, 0.25]}[longer]


def test_csv_value_without_a_time_of_its_clock_is_refused(tmp_path):
    path = written(tmp_path, "t,a,t_b,b\n0,1,0.05,7\n0.1,2,0.15,8\n,3,0.25,9\n")
    with pytest.raises(ProblemError, match=r"run\.csv line 4 has a value of 'a' and no time; .* with times="):
        Recording.from_csv(path, times={"b": "t_b"})
    with pytest.raises(ProblemError, match=r"run\.csv line 4 has no time; remove the line"):
        Recording.from_csv(path)


def test_csv_columns_are_signals(tmp_path):
    path = written(tmp_path, "t, u ,theta\n0,1.5,\n0.1,,nan\n 0.2 , 2e0 ,-3\n\n  \n")
    run = Recording.from_csv(path)
    assert run.name == "run"
    assert run.t.tolist() == [0, 0.1, 0.2]
    assert list(run.signals) == ["u", "theta"]
    np.testing.assert_array_equal(run.signals["u"], [1.5, np.nan, 2])
    np.testing.assert_array_equal(run.signals["theta"], [np.nan, np.nan, -3])


def test_csv_choice_leaves_other_columns_unread(tmp_path):
    path = written(tmp_path, "note,u,time,w,,\nstart,1,0,x,,\nend,2,1,y,,\n")
    run = Recording.from_csv(path, time="time", signals=iter(["u"]), name="mine")
    assert (run.name, dict(run.signals).keys()) == ("mine", {"u"})
    assert list(Recording.from_csv(path, time="time", signals="u").signals) == ["u"]


def test_csv_with_byte_order_mark_and_carriage_returns(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes(b'\xef\xbb\xbft,"a, b"\r\n0,1\r\n1,2\r\n')
    run = Recording.from_csv(path)
    assert run.signals["a, b"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no header"),
        ("\n\n", "has no header"),
        ("clock,a\n0,1\n1,2\n", "line 1 has no time column 't'; it has 'clock', 'a'"),
        (
            "time,timestamp\n0,1\n1,2\n",
            "line 1 has no time column 't'; it has 'time', 'timestamp': name one of them with",
        ),
        ("time_ms,a\n0,1\n1,2\n", "line 1 has no time column 't'"),
        ("stamp.sec,stamp.nanosec\n0,1\n1,2\n", "line 1 has no time column 't'"),
        ("t,a,a\n0,1,2\n1,2,3\n", "line 1 has 2 columns named 'a'"),
        ("t,t\n0,1\n1,2\n", "line 1 has 2 columns named 't'"),
        ("t,a,\n0,1,\n1,2,3\n", "line 1 has no name for column 3"),
        ("t,a\n0,1\n1,2,3\n", "line 3 has 3 fields and the header 2"),
        ("t,a\n0,1\n\n1,2\n", "line 3 has 0 fields and the header 2"),
        ('t,a\n0,1\n"1\n",2\n2\n', "line 5 has 1 fields"),
        ("t,a\n0,1\n1,two\n", "line 3, column 'a': 'two' is no finite number"),
        ("t,a\n0,1\n1,1_0\n", "line 3, column 'a': '1_0' is no finite number"),
        ("t,a\n0,1\n1,-inf\n", "line 3, column 'a': '-inf' is no finite number"),
        ("t,a\nx,1\n1,2\n", "line 2, column 't': 'x' is no finite number"),
        ("t,a\n0,1\n,2\n", "line 3 has no time"),
        ("t,a\n0,1\n1,2\n0.5,3\n", "line 4: time 0.5 is earlier than 1.0 of the line before; sort the lines by time"),
    ],
)
def test_bad_csv_names_file_and_line(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(ProblemError, match=re.escape(f"{path} {message}")):
        Recording.from_csv(path)


def test_csv_without_rows_or_values(tmp_path):
    with pytest.raises(ProblemError, match="recording 'run': time has 0 samples"):
        Recording.from_csv(written(tmp_path, "t,a\n"))
    with pytest.raises(ProblemError, match="recording 'run': signal 'a' has not one finite sample"):
        Recording.from_csv(written(tmp_path, "t,a\n0,\n1,\n"))
    with pytest.raises(ProblemError, match="recording 'run': there are no signals"):
        Recording.from_csv(written(tmp_path, "t\n0\n1\n"))


def test_unknown_csv_column(tmp_path):
    path = written(tmp_path, "t,a\n0,1\n1,2\n")
    with pytest.raises(ProblemError, match=re.escape(f"{path} line 1 has no column 'b'; it has 't', 'a'")):
        Recording.from_csv(path, signals=["b"])


@pytest.mark.parametrize("read", [Recording.from_csv, Recording.from_npz])
def test_missing_file(tmp_path, read):
    with pytest.raises(ProblemError, match=r"none\.x cannot be read \(No such file"):
        read(tmp_path / "none.x")


def test_csv_that_is_no_text(tmp_path):
    path = tmp_path / "binary.csv"
    path.write_bytes(b"t,a\n\xff\xfe\x00,1\n")
    with pytest.raises(ProblemError, match=r"binary\.csv is text neither in UTF-8 or UTF-16 nor in Windows"):
        Recording.from_csv(path)
    with pytest.raises(ProblemError, match="cannot be read"):
        Recording.from_csv(tmp_path)
    with pytest.raises(ProblemError, match="cannot be read"):
        Recording.from_npz(tmp_path)
    path.write_text('t,a\n0,1\n"' + "x" * 200_000 + '",1\n', encoding="utf-8")
    with pytest.raises(ProblemError, match=r"binary\.csv line 3 is no comma-separated text"):
        Recording.from_csv(path)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(finite, st.none() | finite, finite), min_size=2, unique_by=lambda row: row[0]))
def test_csv_round_trip_is_exact(tmp_path_factory, rows):
    rows = sorted(rows)
    t, a, b = ([row[i] for row in rows] for i in range(3))
    if all(value is None for value in a):
        a[0] = 1.0
    path = tmp_path_factory.mktemp("csv") / "run.csv"
    run = Recording(t=t, signals={"a": a, 'b, "c"': b})
    run.to_csv(path)
    back = Recording.from_csv(path)
    np.testing.assert_array_equal(back.t, run.t)
    assert list(back.signals) == list(run.signals)
    for name in run.signals:
        np.testing.assert_array_equal(back.signals[name], run.signals[name])


def test_csv_with_decimals(tmp_path):
    path = tmp_path / "run.csv"
    run = recording(a=[1.23456, np.nan, -2.0, 1e-9])
    run.to_csv(path, decimals=2, time="time")
    assert path.read_text() == "time,a\n0.00,1.23\n0.10,\n0.25,-2.00\n0.30,0.00\n"
    with pytest.raises(ProblemError, match="'run' has times that 1 decimals make equal"):
        Recording(t=[0.0, 0.01], signals={"a": [1, 2]}, name="run").to_csv(path, decimals=1)
    with pytest.raises(ProblemError, match="'run' has times that 1 decimals make equal"):
        Recording(t=[-0.01, 0.01], signals={"a": [1, 2]}, name="run").to_csv(path, decimals=1)
    with pytest.raises(ProblemError, match="-1 decimals"):
        run.to_csv(path, decimals=-1)
    assert path.read_text().startswith("time,a\n0.00,1.23\n")


def test_writing_replaces_whole_or_not_at_all(tmp_path, monkeypatch):
    path = written(tmp_path, "old")
    recording().to_csv(path)
    assert path.read_text().startswith("t,a\n")
    path.write_text("old")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ProblemError, match=r"run\.csv cannot be written \(No space left"):
        recording().to_csv(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.csv"]


def test_writing_where_it_cannot(tmp_path):
    with pytest.raises(ProblemError, match=r"run\.csv cannot be written \(No such file"):
        recording().to_csv(tmp_path / "none" / "run.csv")
    with pytest.raises(ProblemError, match="'run' has a signal 't' too"):
        recording(t=T).to_csv(tmp_path / "run.csv")


# --- NPZ ---


def test_npz_round_trip(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(
        path, time=T, a=T + 1, n=np.arange(4), q=np.zeros((4, 2)), short=T[:2], words=np.array(list("abcd")), h=0.1
    )
    run = Recording.from_npz(path, time="time")
    assert run.name == "run"
    assert list(run.signals) == ["a", "n"]
    np.testing.assert_array_equal(run.t, T)
    np.testing.assert_array_equal(run.signals["a"], T + 1)
    one = Recording.from_npz(path, time="time", signals=["n"], name="mine")
    assert (one.name, list(one.signals)) == ("mine", ["n"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "times"}, "has no array 'times'; it has 'time', 'a', 'q', 'words'"),
        ({"time": "time", "signals": ["b"]}, "has no array 'b'; it has 'time', 'a', 'q', 'words'"),
        ({"time": "q"}, "array 'q': time has shape (4, 2)"),
        ({"time": "words"}, "array 'words': time is no array of real numbers"),
        ({"time": "time", "signals": ["q"]}, "signal 'q' has shape (4, 2)"),
        ({"time": "time", "signals": ["a", "words"]}, "signal 'words' is no array of real numbers"),
    ],
)
def test_bad_npz_choice(tmp_path, options, message):
    path = tmp_path / "run.npz"
    np.savez(path, time=T, a=T, q=np.zeros((4, 2)), words=np.array(list("abcd")))
    with pytest.raises(ProblemError, match=re.escape(message)) as caught:
        Recording.from_npz(path, **options)
    assert "run" in str(caught.value)


def test_npz_of_objects_is_refused_unless_left_out(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, t=T, a=T, notes=np.array([{"k": 1}], dtype=object))
    with pytest.raises(ProblemError, match=r"run\.npz: array 'notes' holds Python objects"):
        Recording.from_npz(path)
    assert list(Recording.from_npz(path, signals=["a"]).signals) == ["a"]


def test_files_that_are_no_npz(tmp_path):
    path = tmp_path / "run.npz"
    whole = tmp_path / "whole.npz"
    np.savez(whole, t=T, a=T)
    np.save(tmp_path / "one.npy", T)
    contents = [b"", b"t,a\n0,1\n", whole.read_bytes()[:100], (tmp_path / "one.npy").read_bytes()]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ProblemError, match=r"run\.npz: the file is no NumPy archive"):
            Recording.from_npz(path)


def test_damaged_npz(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, t=T, a=T)
    content = path.read_bytes()
    at = content.index(np.float64(0.25).tobytes())
    path.write_bytes(content[:at] + b"\x01" + content[at + 1 :])
    with pytest.raises(ProblemError, match=r"run\.npz: array 't' is damaged"):
        Recording.from_npz(path)
