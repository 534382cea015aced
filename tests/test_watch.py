"""spookid watch: rows as they come, estimates and changes as they are shown, logs that grow, ends and goings on."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spookid import Monitor, Recording
from spookid.__main__ import main

SWING = """from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, gravity

J = Parameter("J", 0.02, lower=1e-4, unit="kg m^2")
b = Parameter("b", 2e-3, lower=0, unit="N m s", note="friction of the pivot")
m = Parameter("m", 0.4, lower=0.01, unit="kg", note="payload")
rod = Body("rod", mass=m, inertia=(0.01, J, J))
up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
pivot = Hinge("pivot", up, out, viscous=b)
model = Model([rod], [pivot], [Motor(pivot, "u", 1.0)], gravity=gravity(9.81))
problem = Problem("swing", model, [], [HingeAngle(pivot, signal="theta")], step=0.01)
"""
TRUTH = {"J": 0.01, "b": 0.02, "m": 0.5}
ONSET, END = 7.5, 9.6
"""Of a change, and of the log [s]; it must be told before."""
FIRST = ("--warm-up", "2")
"""Enough where nothing is to be told."""
ROUGHLY = "1.5 s identify the process noise of pivot weakly"
STAMP = r"\d\d:\d\d:\d\d"


def twin(path: Path, change: tuple[str, float] | None = None, seconds: float = END) -> None:
    """A log of a driven rod whose torque is disturbed, its angle with 1 mrad of noise; by Runge and Kutta's method."""
    rng, h = np.random.default_rng(0), 0.01
    t = np.arange(0, seconds, h)
    u = 0.25 * np.sin(2 * np.pi * 0.7 * t) + 0.25 * np.sin(2 * np.pi * 1.9 * t)
    values, driven = dict(TRUTH), (u + 0.02 * rng.standard_normal(len(t))).tolist()
    state, theta = (0.5, 0.0), np.zeros(len(t))

    def slope(q: float, v: float, torque: float) -> tuple[float, float]:
        J, b, m = (values[name] for name in "Jbm")
        return v, (torque - b * v - m * 9.81 * 0.2 * math.sin(q)) / (J + m * 0.2**2)

    for k, torque in enumerate(driven):
        if change is not None and k == round(ONSET / h):
            values[change[0]] = change[1]
        theta[k], slopes = state[0], [(0.0, 0.0)]
        for part in (0.0, h / 2, h / 2, h):
            slopes.append(slope(*(x + part * d for x, d in zip(state, slopes[-1], strict=True)), torque))
        mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(*slopes[1:], strict=True)]
        state = (state[0] + h * mean[0], state[1] + h * mean[1])
    Recording(t, {"theta": theta + 1e-3 * rng.standard_normal(len(t)), "u": u}).to_csv(path, decimals=6)


@pytest.fixture(scope="session")
def swing(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("swing")
    (folder / "swing.py").write_text(SWING)
    twin(folder / "friction.csv", ("b", 0.04))
    twin(folder / "payload.csv", ("m", 0.6))
    return folder


@pytest.fixture
def here(swing, tmp_path, monkeypatch) -> Path:
    """An empty working directory with the problem and a log."""
    monkeypatch.chdir(tmp_path)
    for name in ("swing.py", "friction.csv", "payload.csv"):
        (tmp_path / name).write_bytes((swing / name).read_bytes())
    return tmp_path


def lines(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines(keepends=True)


def wrong(capsys, *arguments: str) -> str:
    """The message of wrong input."""
    assert main(["watch", "swing.py", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spookid: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("spookid: error: ").rstrip("\n")


# --- what is shown ---


@pytest.mark.study
def test_a_step_in_friction_is_told_within_two_seconds(swing, capsys) -> None:
    assert main(["watch", str(swing / "swing.py"), str(swing / "friction.csv")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, *rest = out.partition("\n\n")[0].splitlines()
    assert out.partition("\n\n")[2].startswith("swing: watched until 9.59 s, 1 change\n")
    assert head.split() == ["time", "J", "[kg", "m²]", "b", "[N", "m", "s]", "m", "[kg]"]
    (told,) = [line for line in rest if "CHANGED" in line]
    found = re.fullmatch(r"(\S+) s  CHANGED  b \(friction of the pivot\) \+(\S+) ± (\S+) % since (\S+) s", told)
    assert found is not None
    assert ONSET < float(found[1]) < ONSET + 2
    assert abs(float(found[4]) - ONSET) < 0.5
    assert abs(float(found[2]) - 100) < 3.5 * float(found[3])
    estimates = [line for line in rest if line != told]
    assert [line.split()[0] for line in estimates] == ["5.00", "6.00", "7.00", "8.00", "9.00"]
    assert len({line.rindex("±") for line in estimates}) == 1  # values stand below each other
    for value, last in zip((0.01, 0.04, 0.5), re.findall(r"(\S+) ± (\S+)", estimates[-1]), strict=True):
        assert abs(float(last[0]) - value) < 4 * float(last[1])


@pytest.mark.study
def test_a_step_in_payload_by_standard_input_is_told_with_clock_times(here, capsys, monkeypatch) -> None:
    header, *rows = lines("payload.csv")
    text = header + "".join(f"{1.7e9 + float(row.split(',', 1)[0]):.2f},{row.split(',', 1)[1]}" for row in rows)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["watch", "swing.py", "-", "--quiet"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{STAMP}  CHANGED  m \(payload\) \+\S+ ± \S+ % since {STAMP}", line)


def screen(text: str) -> list[str]:
    """What stands on a terminal that understands the two sequences that are written."""
    kept = [""]
    row = 0
    for part in re.split(r"(\x1b\[\d*[A-Z]|\r?\n)", text):
        if part.endswith("F") and part.startswith("\x1b"):
            row -= int(part[2:-1])
        elif part == "\x1b[J":
            del kept[row:]
            kept.append("")
        elif part.endswith("\n"):
            row += 1
            kept += [""] * (row + 1 - len(kept))
        else:
            kept[row] += part
    return kept


# --- logs that grow ---


def test_a_log_that_grows_in_pieces_is_followed_until_it_is_interrupted_and_resumed(here, capsys, monkeypatch) -> None:
    text = Path("friction.csv").read_text()
    cut = text.index("\n7.4") + 8  # in the middle of a row
    growing = Path("growing.csv")
    growing.write_text(text[:1000])
    last = threading.Event()

    def write() -> None:
        with growing.open("a") as log:
            for piece in (text[1000:3000], text[3000:cut]):
                log.write(piece)
                log.flush()
                time.sleep(0.05)
        last.wait(60)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    seen = Monitor.update

    def update(self, t, values):
        if t > 7.385:
            last.set()
        return seen(self, t, values)

    monkeypatch.setattr(Monitor, "update", update)
    writer = threading.Thread(target=write)
    writer.start()
    assert main(["watch", "swing.py", "growing.csv", "--follow", "--save", "kept.npz"]) == 130
    writer.join()
    out, err = capsys.readouterr()
    estimates, _, page = out.partition("\n\n")
    assert [line.split()[0] for line in estimates.splitlines()[1:]] == ["5.00", "6.00", "7.00"]
    assert page.startswith("swing: watched until ")
    count = text[:cut].count("\n") - 1
    assert err == f"spookid: interrupted after {count} rows; to continue, give --resume kept.npz\n"
    # The same log to its end, on a terminal: what was seen is passed over, one table is rewritten below what is told.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["watch", "swing.py", "friction.csv", "--resume", "kept.npz"]) == 0
    shown = screen(capsys.readouterr().out)
    assert "CHANGED  b (friction of the pivot)" in shown[0]
    assert shown[1] == "swing: watched until 9.59 s, 1 change"
    assert [line.split()[0] for line in shown[2:] if line[:1].strip()] == ["parameter", "J", "b", "m", "960"]
    assert any(line.endswith("kg      payload") for line in shown)


@pytest.mark.study
def test_going_on_gives_the_digits_of_one_run(here, capsys) -> None:
    header, *rows = lines("friction.csv")
    Path("first.csv").write_text(header + "".join(rows[:230]))
    Path("second.csv").write_text(header + "".join(rows[230:260]))
    Path("both.csv").write_text(header + "".join(rows[:260]))
    ends = []
    for log, options in (
        ("both", ["--save", "both.npz"]),
        ("first", ["--save", "first.npz"]),
        ("second", ["--resume", "first.npz", "--save", "second.npz"]),
    ):
        assert main(["watch", "swing.py", f"{log}.csv", *FIRST, *options]) == 0
        ends.append(capsys.readouterr().out)
    assert ends[2].splitlines()[1].split()[0] == "2.29"
    with np.load("both.npz") as both, np.load("second.npz") as second:
        assert both["core parameters"].tolist() == second["core parameters"].tolist()
        assert both["changes distance"].tolist() == second["changes distance"].tolist()


# --- rows that are no use ---


@pytest.mark.study
def test_repeated_late_and_blind_rows_and_a_pause_are_told_and_the_log_goes_on(here, capsys) -> None:
    header, *rows = lines("friction.csv")
    twice = rows[:2] + rows[1:210] + rows[209:215]
    blind = [row.rsplit(",", 1)[0] + ",\n" for row in rows[215:225]]
    late = rows[100:110]
    Path("log.csv").write_text(header + "".join(twice + blind + rows[225:230] + late + rows[230:240] + rows[300:310]))
    Path("clean.csv").write_text(header + "".join(rows[:215] + rows[225:240] + rows[300:310]))
    for name in ("log", "clean"):
        assert main(["watch", "swing.py", f"{name}.csv", *FIRST, "--save", f"{name}.npz", "--quiet"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert all(line.startswith("spookid: ") for line in err)
    told = [line.removeprefix("spookid: ") for line in err]
    assert (
        told[0]
        == "log.csv line 4: the row has the same time 0.01 s as an earlier row; the first sample of each signal is used"
    )
    assert told[1].startswith("log.csv line 219: 'u' is missing, which all rows of the first seconds have; ")
    assert told[2].startswith("log.csv line 234: the timestamp is 1.29 s earlier than the timestamp of a previous row")
    assert told[3].startswith("log.csv line 254: 0.61 s without a row of use; ")
    ends = ["2 rows repeat the time of another", "10 rows have no sample of an input", "10 rows came too late"]
    assert [line.removeprefix("log.csv: ") for line in told[4:7]] == ends
    with np.load("log.npz") as log, np.load("clean.npz") as clean:
        assert log["core parameters"].tolist() == clean["core parameters"].tolist()


@pytest.mark.study
def test_a_pause_of_ten_minutes_does_not_end_a_log(here, capsys) -> None:
    header, *rows = lines("friction.csv")
    later = [f"{float(row.split(',', 1)[0]) + 600:.2f},{row.split(',', 1)[1]}" for row in rows[230:290]]
    Path("pause.csv").write_text(header + "".join(rows[:230] + later))
    assert main(["watch", "swing.py", "pause.csv", *FIRST]) == 0
    out, err = capsys.readouterr()
    assert err == "spookid: pause.csv line 232: 600 s without a row of use; the parameters stay as they were\n"
    assert "CHANGED" not in out
    last = out.partition("\n\n")[0].splitlines()[-1]
    assert abs(float(re.findall(r"(\S+) ± (\S+)", last)[2][0]) - 0.5) < 0.02


# --- wrong input ---


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0.5,abc,0", "bad.csv line 12, column 'theta': 'abc' is no finite number; leave a missing value empty"),
        ("0.5,1", "bad.csv line 12 has 2 fields and the header 3; leave missing values empty"),
        (",1,2", "bad.csv line 12 has no time; remove the line or give it one"),
    ],
)
def test_a_bad_row_is_named(here, capsys, row, message) -> None:
    Path("bad.csv").write_text("".join(lines("friction.csv")[:11]) + row + "\n")
    assert wrong(capsys, "bad.csv", "--quiet") == message


def test_units_convert_a_text_and_a_file_of_arrays_alike(here, capsys) -> None:
    log = Recording.from_csv(here / "friction.csv").between(0, 3)
    shown = []
    for name, units in (("si", ()), ("deg", ("--units", "theta=deg", "t=ms"))):
        factor = (np.degrees(1), 1e3) if units else (1.0, 1.0)
        other = Recording(factor[1] * log.t, {**log.signals, "theta": factor[0] * log.signals["theta"]})
        other.to_csv(here / f"{name}.csv")
        np.savez(here / f"{name}.npz", t=other.t, **other.signals)
        for kind in ("csv", "npz"):
            assert main(["watch", "swing.py", f"{name}.{kind}", *FIRST, *units]) == 0
            shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1
    assert "no column 'speed' is read" in wrong(capsys, "si.csv", "--units", "speed=deg")


def test_what_was_known_before_a_bad_row_is_kept(here, capsys) -> None:
    Path("bad.csv").write_text("".join(lines("friction.csv")[:212]) + "2.11,1\n")
    assert main(["watch", "swing.py", "bad.csv", "--warm-up", "1.5", "--save", "kept.npz", "--quiet"]) == 2
    roughly, error = capsys.readouterr().err.splitlines()
    assert roughly.startswith(f"spookid: {ROUGHLY}")
    assert "bad.csv line 213 has 2 fields" in error
    assert Path("kept.npz").exists()


def test_wrong_input_is_refused_in_one_sentence(here, capsys) -> None:
    header, *rows = lines("friction.csv")
    Path("short.csv").write_text(header + "".join(rows[:50]))
    Path("blind.csv").write_text("t,u\n0,1\n")
    Path("empty.csv").write_text("")
    assert "short.csv ends after 0.49 s, and the first 5 s are fitted" in wrong(capsys, "short.csv")
    assert wrong(capsys, "blind.csv") == "blind.csv line 1 has no column 'theta'; it has 't', 'u'"
    assert "has no header" in wrong(capsys, "empty.csv")
    assert "nothing.csv cannot be read" in wrong(capsys, "nothing.csv")
    assert "has no time column 'stamp'" in wrong(capsys, "friction.csv", "--time", "stamp")
    saved = "swing.py is damaged (the file is no NumPy archive); begin without --resume"
    assert wrong(capsys, "friction.csv", "--resume", "swing.py") == saved
    at = "swing.py/kept.npz cannot be made because"
    assert wrong(capsys, "friction.csv", "--save", "swing.py/kept.npz").startswith(at)
    arguments = ["watch", "swing.py", "friction.csv", "--every", "0"]
    with pytest.raises(SystemExit):
        main(arguments)
    assert "'0' is no number above 0" in capsys.readouterr().err
    Path("two.py").write_text(SWING + 'problems = {"one": problem, "two": problem.with_(name="again")}\ndel problem\n')
    assert main(["watch", "two.py", "friction.csv"]) == 2
    assert "holds several problems (one, two); pick one, two.py::one" in capsys.readouterr().err


@pytest.mark.study
def test_no_alarm_in_an_hour_without_a_change(swing, tmp_path, capsys) -> None:
    """Twelve minutes of a processor."""
    twin(tmp_path / "hour.csv", seconds=3600.0)
    assert main(["watch", str(swing / "swing.py"), str(tmp_path / "hour.csv"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.study
def test_samples_that_are_left_out_are_told_on_a_pipe(here, capsys) -> None:
    header, *rows = lines("friction.csv")
    numbers = [tuple(map(float, row.split(","))) for row in rows]
    closer = []
    for one, other in pairwise(numbers[200:750]):
        shares = (0.0, 0.2, 0.4, 0.6, 0.8)
        closer += [",".join(f"{a + s * (b - a):.6f}" for a, b in zip(one, other, strict=True)) + "\n" for s in shares]
    Path("closer.csv").write_text(header + "".join(rows[:200] + closer))
    assert main(["watch", "swing.py", "closer.csv", *FIRST, "--quiet"]) == 0
    err = capsys.readouterr().err
    assert err.count("more samples come between two steps than there is room for, and are left out") == 1
