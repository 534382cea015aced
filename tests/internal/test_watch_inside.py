"""The inside of what ``test_watch`` tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mechanisms import Array
from test_watch import here as here
from test_watch import lines
from test_watch import swing as swing

from spookid import Monitor, ProblemError, Recording
from spookid.__main__ import main
from spookid.data.growing import GrowingLog

# --- logs that grow ---


def grown(log: GrowingLog, path: Path, *texts: tuple[str, str]) -> list[tuple[int, float]]:
    """Lines and stamps of the rows of a log to which texts are written one after another."""
    rows, found = iter(log), []
    for mode, text in texts:
        with path.open(mode) as file:
            file.write(text)
        for row in rows:
            found.append((row.line, row.t))
            if row.t % 1 == 0:  # the last of a text
                break
    return found


def test_a_log_that_is_cut_short_or_replaced_goes_on_and_says_so(tmp_path) -> None:
    path, told = tmp_path / "log.csv", []
    log = GrowingLog(str(path), ["a"], follow=True, told=told.append)
    path.write_text("t,a\n0.5,1\n1,2\n1.5,")
    texts = (("a", ""), ("a", "3\n2,4\n"), ("w", "t,a\n3,1\n"))
    assert grown(log, path, *texts) == [(2, 0.5), (3, 1.0), (4, 1.5), (5, 2.0), (2, 3.0)]
    assert told == [f"{path} has been cut short; continuing with its rows from the first"]
    rows = iter(log)
    assert next(rows).t == 3.0
    (tmp_path / "new.csv").write_text("t,a\n4,1\n")
    (tmp_path / "new.csv").replace(path)
    assert next(rows).t == 4.0
    assert told[1:] == [f"{path} has been replaced; continuing with the rows of the new one"]


def test_fields_that_miss_and_quotes_are_read_as_recordings_are(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('\ufeffx,"t",a\n7,0,1\n"8",1,\n,2,3\n\n')
    rows = list(GrowingLog(str(path), ["a", "x"]))
    assert [row.t for row in rows] == [0, 1, 2]
    assert [row.values for row in rows] == [{"x": 7, "a": 1}, {"x": 8}, {"a": 3}]
    whole: dict[str, Array] = dict(Recording.from_csv(path).signals)
    assert np.isnan(whole["a"][1])


# --- wrong input ---


def test_a_disk_that_is_full_for_a_while_does_not_end_a_log(here, capsys, monkeypatch) -> None:
    """It is told once, and what is known at the end is saved."""
    whole, refused = Monitor.save, iter(range(3))

    def save(monitor: Monitor, *arguments: object) -> None:
        if next(refused, None) is not None:
            raise ProblemError("kept.npz cannot be written (No space left on device); choose another place")
        whole(monitor, *arguments)

    monkeypatch.setattr(Monitor, "save", save)
    monkeypatch.setattr("spookid.cli.watching._LOST", 0.0)
    Path("some.csv").write_text("".join(lines("friction.csv")[:165]))
    assert main(["watch", "swing.py", "some.csv", "--warm-up", "1.5", "--save", "kept.npz", "--quiet"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "kept.npz" in line]
    assert len(told) == 1
    assert "or make room" in told[0]
    assert Path("kept.npz").exists()


def test_a_log_that_is_no_text_is_refused(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,a\n0,\xff\n")
    rows = iter(GrowingLog(str(path), ["a"]))
    with pytest.raises(ProblemError, match="line 2 is no UTF-8 text"):
        next(rows)
