"""Figures that a copy of the process draws are those that it would draw itself, whatever becomes of the copy."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import pytest
from solutions import estimated

from spookid.report import export


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "processors", lambda: 2)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_the_copy_ends_with_what_waits_for_it() -> None:
    with export.drawing() as copy:
        assert copy is not None
        assert len(multiprocessing.active_children()) == 1
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("failing", [False, True])
def test_figures_are_the_same_to_the_last_pixel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool) -> None:
    monkeypatch.setattr(export, "_FIGURES", {"fit.png": ("plots", "fit")})  # one will do
    export.save(estimated(), tmp_path / "here")
    if failing:
        monkeypatch.setattr(export, "load", None)
    with export.drawing() as copy:
        export.save(estimated(), tmp_path / "aside", aside=copy)
    assert (tmp_path / "here/fit.png").read_bytes() == (tmp_path / "aside/fit.png").read_bytes()


def test_figures_may_be_left_out(tmp_path: Path) -> None:
    export.save(estimated(), tmp_path / "numbers", figures=False)
    assert not list((tmp_path / "numbers").glob("*.png"))
    assert "noise" in (tmp_path / "numbers/summary.txt").read_text(encoding="utf-8")


def test_the_summary_is_shown_before_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def drawn(name: str, solution: object) -> bytes:
        shown.append(name)
        return b"a picture"

    monkeypatch.setattr(export, "_drawn", drawn)
    export.save(estimated(), tmp_path / "here", show=shown.append)
    assert shown[0] == (tmp_path / "here/summary.txt").read_text(encoding="utf-8").rstrip("\n")
    assert "fit.png" in shown[1:]
