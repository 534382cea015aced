"""A computation that is interrupted and begun again goes on to the same digits, wherever that was."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanism_twins import slider_crank
from solutions import difference, pendulum_problem, recording
from test_noise_search import spinning

from spookid import Problem, Solution, Status
from spookid.solvers import resuming
from spookid.solvers.resuming import Journal, Place, kept_in
from spookid.solvers.status import Iteration


class Interrupting:
    """A callback that interrupts, and counts."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.calls = at, 0

    def __call__(self, iteration: Iteration) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt


def solved(problem: Problem, folder: Path, at: int = -1, **options: Any) -> tuple[Solution | None, int]:
    """With all places kept in a folder, and how many iterations it was told."""
    callback = Interrupting(at)
    with kept_in(Journal(folder, "it", wait=0.0)), suppress(KeyboardInterrupt):
        return problem.solve(callback=callback, **options), callback.calls
    return None, callback.calls


def apart(one: Solution, other: Solution) -> str:
    """Where two differ, but for times."""
    found = [difference(a, b) for a, b in zip(one.trajectories, other.trajectories, strict=True)]
    names = ("status", "detail", "log_likelihood", "findings", "history", "parameters", "noise")
    return "".join([*found, *(difference(getattr(one, name), getattr(other, name), name) for name in names)])


PROBLEMS = {
    "noise": {},
    "dry friction": {"friction": "exact"},
    "given weights": {"state_weight": 1e4},
    "ipopt": {"state_weight": 1e4},
}


@pytest.mark.parametrize(
    "name", ["noise", "dry friction", "ipopt", pytest.param("given weights", marks=pytest.mark.study)]
)
def test_fits_go_on(tmp_path: Path, name: str) -> None:
    problem = pendulum_problem().with_(recordings=[recording()], **{"state_weight": None, **PROBLEMS[name]})
    options = {"backend": "ipopt"} if name == "ipopt" else {}
    whole, told = solved(problem, tmp_path / "none", **options)
    assert whole is not None
    for at in (told // 2, told) if name == "noise" else (told // 2,):
        folder = tmp_path / str(at)
        first, _ = solved(problem, folder, at, **options)
        assert first is None or first.status is Status.INTERRUPTED
        again, calls = solved(problem, folder, **options)
        assert again is not None
        assert apart(again, whole) == ""
        assert calls <= told
        if name == "noise" and at == told:
            assert calls < told / 2
        last, calls = solved(problem, folder, **options)  # all of it is there
        assert last is not None
        assert (apart(last, whole), calls) == ("", 0)


def test_fits_that_tell_noise_apart_go_on(tmp_path: Path) -> None:
    noise = {"shoulder": 1e-2, "elbow": 1e-3, "angle of shoulder": 1e-3, "angle of elbow": 1e-3}
    problem = spinning(noise, 2, 2.0, "angle of ")
    whole, told = solved(problem, tmp_path / "none")
    assert whole is not None
    assert [one.names for one in whole.noise if one.kind == "disturbance"] == [("shoulder",), ("elbow",)]
    for at in (3, told // 2):
        solved(problem, tmp_path / str(at), at)
        again, _ = solved(problem, tmp_path / str(at))
        assert again is not None
        assert apart(again, whole) == ""


@pytest.mark.study
def test_fits_of_loops_go_on(tmp_path: Path) -> None:
    twin = slider_crank()
    problem = twin.problem(twin.recording(1.0, 0.01, 0))
    whole, told = solved(problem, tmp_path / "none")
    for at in range(1, told + 1, 3):
        solved(problem, tmp_path / str(at), at)
        again, _ = solved(problem, tmp_path / str(at))
        assert whole is not None
        assert again is not None
        assert apart(again, whole) == ""


def test_places_belong_to_what_went_before(tmp_path: Path) -> None:
    names = [Journal(tmp_path, who).name(*facts) for who in "ab" for facts in (("1",), ("2",), ("1", "2"))]
    assert len(set(names)) == 6
    assert Journal(tmp_path, "a").name("1") == names[0]


def test_a_place_is_whole_or_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "new" / "it.place.npz", 0.0)
    assert place.read() is None
    place.keep({"x": np.arange(3)})
    kept = place.read()
    assert kept is not None
    assert kept["x"].tolist() == [0, 1, 2]
    assert place.path is not None
    whole = place.path.read_bytes()
    for content in (b"", whole[:-40], b"nonsense", whole[:60] + b"\0" * 20 + whole[80:]):
        place.path.write_bytes(content)
        assert place.read() is None
    (tmp_path / "new" / "mine.npz").touch()
    resuming.forget(tmp_path / "new")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["mine.npz"]


def test_a_disk_that_refuses_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = Place(tmp_path / "file" / "it.place.npz", 0.0)
    place.keep({"x": np.arange(3)})
    assert place.read() is None
    assert not Place().due
