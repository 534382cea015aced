"""Figures that a copy of the process draws are those that it would draw itself, whatever becomes of the copy."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from solutions import estimated

from spookid.report import aside, export
from spookid.report.aside import drawn_aside


def _whose(name: str) -> bytes:
    return f"{name} by {os.getpid()}".encode()


def _struck(parent: int) -> bytes:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"drawn"


def _failing(parent: int) -> bytes:
    if os.getpid() != parent:
        raise MemoryError
    return b"drawn"


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "processors", lambda: 2)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_a_copy_draws() -> None:
    long = 200_000  # bytes, more than a pipe holds
    with drawn_aside({"a": partial(_whose, "a"), "b": lambda: bytes(long)}, True) as drawn:
        found = drawn()
    assert found["a"] != _whose("a")
    assert found == {"a": found["a"], "b": bytes(long)}


@pytest.mark.parametrize("end", [_struck, _failing])
def test_what_a_copy_does_not_draw_is_drawn_here(end: partial[bytes]) -> None:
    with drawn_aside({"a": partial(end, os.getpid())}, True) as drawn:
        assert drawn() == {"a": b"drawn"}


def test_a_copy_ends_with_what_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    fork = os.fork

    def forked() -> int:
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", forked)
    with pytest.raises(KeyboardInterrupt), drawn_aside({"a": partial(time.sleep, 60)}, True):
        raise KeyboardInterrupt
    (copy,) = copies
    with pytest.raises(ChildProcessError):
        os.waitpid(copy, os.WNOHANG)  # it is no child of this process any more


def test_figures_are_the_same_to_the_last_pixel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_FIGURES", {"fit.png": ("plots", "fit")})  # one will do
    for name in ("here", "aside"):
        export.save(estimated(), tmp_path / name, aside=name == "aside")
    assert (tmp_path / "here/fit.png").read_bytes() == (tmp_path / "aside/fit.png").read_bytes()
