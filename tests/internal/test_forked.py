"""Figures that a copy of the process draws are those that it would draw itself, whatever becomes of the copy."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from solutions import estimated

from spookid.report import export, forked
from spookid.report.forked import copied


def _nothing() -> None:
    """There is nothing to get ready."""


def _whose(what: bytes) -> list[bytes]:
    return [what, str(os.getpid()).encode(), bytes(200_000)]  # more than a pipe holds


def _struck(_: bytes) -> list[bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    return [b"drawn"]


def _failing(_: bytes) -> list[bytes]:
    raise MemoryError


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "processors", lambda: 2)


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")


@linux
def test_a_copy_works_on_one_question_after_the_other() -> None:
    with copied(_nothing, _whose) as copy:
        assert copy is not None
        copy.ask(b"left unheard")
        copy.ask(b"a")
        what, who, long = copy.answers()
        assert (what, long) == (b"a", bytes(200_000))
        assert who != str(os.getpid()).encode()
        copy.ask(b"")
        assert copy.answers() == [b"", who, long]


@linux
@pytest.mark.parametrize("end", [_struck, _failing])
def test_a_copy_that_fails_does_not_answer(end: Callable[[bytes], list[bytes]]) -> None:
    with copied(_nothing, end) as copy:
        assert copy is not None
        for _ in range(2):
            copy.ask(b"a")
            assert copy.answers() == []


@linux
def test_a_copy_ends_with_what_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    fork = os.fork

    def forked() -> int:
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", forked)
    with pytest.raises(KeyboardInterrupt), copied(partial(time.sleep, 60), _whose):
        raise KeyboardInterrupt
    (copy,) = copies
    with pytest.raises(ChildProcessError):
        os.waitpid(copy, os.WNOHANG)  # it is no child of this process any more


@pytest.mark.parametrize("failing", [False, True])
def test_figures_are_the_same_to_the_last_pixel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool) -> None:
    monkeypatch.setattr(export, "_FIGURES", {"fit.png": ("plots", "fit")})  # one will do
    export.save(estimated(), tmp_path / "here")
    if failing:
        monkeypatch.setattr(export, "_ready", partial(_failing, b""))
    with export.drawing() as copy:
        export.save(estimated(), tmp_path / "aside", aside=copy)
    assert (tmp_path / "here/fit.png").read_bytes() == (tmp_path / "aside/fit.png").read_bytes()


def test_figures_may_be_left_out(tmp_path: Path) -> None:
    export.save(estimated(), tmp_path / "numbers", figures=False)
    assert not list((tmp_path / "numbers").glob("*.png"))
    assert "Cost" in (tmp_path / "numbers/summary.txt").read_text(encoding="utf-8")


def test_the_summary_is_shown_before_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def drawn(name: str, solution: object) -> bytes:
        shown.append(name)
        return b"a picture"

    monkeypatch.setattr(export, "_drawn", drawn)
    export.save(estimated(), tmp_path / "here", show=shown.append)
    assert shown[0] == (tmp_path / "here/summary.txt").read_text(encoding="utf-8").rstrip("\n")
    assert "fit.png" in shown[1:]
