"""What a user waits for: whole commands and solves, in processor time over the floor of the same run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from benchmarks.machine import floor
from benchmarks.online import four_bar_graph, spent
from benchmarks.problems import ROOT
from benchmarks.table import Row

from spookid import Problem, Spook, load_problem

_TRIES = 3
"""Of everything; the least counts, for other work only adds to it."""


def processors() -> float:
    """Processor time of this process and of those that it has waited for [s]."""
    return sum(os.times()[:4])


def least(work: Callable[[], object], clock: Callable[[], float] = processors) -> tuple[float, float]:
    """The least time of some tries [s], and over the least floor before, between and after them."""
    times, floors = [], [floor()]
    for _ in range(_TRIES):
        began = clock()
        work()
        times.append(clock() - began)
        floors.append(floor())
    return min(times), min(times) / min(floors)


def command(words: list[str], caches: Path, cores: int | None = 1) -> None:
    """A command of spookid's, with its caches in a folder, on one core or on all."""
    few = {0} if cores == 1 and hasattr(os, "sched_setaffinity") else None
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with tempfile.TemporaryDirectory() as folder:
        given = [sys.executable, "-m", "spookid", *words, "--quiet", "--out", str(Path(folder) / "out")]
        subprocess.run(
            given,
            cwd=ROOT,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            preexec_fn=None if few is None else lambda: os.sched_setaffinity(0, few),
        )


def commands() -> Iterator[Row]:
    """Whole commands, the first time and again."""
    plain = ("--no-figures",)
    for name, more, clock, cores, first, again in (
        ("furuta_release.py", plain, processors, 1, 180, 100),
        ("ur10e.py::excitation_12harm_40s", plain, processors, 1, 750, None),
        ("fourbar.py", plain, processors, 1, 360, None),
        ("furuta_release.py", (), time.perf_counter, None, 230, 140),
    ):
        if name.startswith("ur10e") and "SPOOKID_DATA" not in os.environ:
            continue
        words = ["solve", f"problems/{name}", *more]
        label = " ".join(["spookid", *words]) + (", wall time, all cores" if cores is None else "")
        with tempfile.TemporaryDirectory() as folder:
            fresh = (Path(folder) / str(number) for number in range(_TRIES))
            found = least(lambda w=words, f=fresh, c=cores: command(w, next(f), c), clock)
            yield row(label + ", nothing cached", found, first)
            if again is not None:
                found = least(lambda w=words, f=Path(folder) / "0", c=cores: command(w, f, c), clock)
                yield row(label + ", again", found, again)


def solves() -> Iterator[Row]:
    """Whole solves in a process that has solved before."""
    release = load_problem(ROOT / "problems" / "furuta_release.py")
    assert isinstance(release, Problem)
    spook = release.with_(step=0.01, state_weight=100.0, stepper=Spook())
    for problem, what, goal in (
        (release, "problem.solve() of furuta_release in a warm process", 45),
        (spook, "SPOOK, given weight, every sample: problem.solve()", 20),
    ):
        problem.solve()
        yield row(what, least(problem.solve, time.process_time), goal)


def updates() -> Iterator[Row]:
    """An update of the fixed-lag smoother."""
    floors = [floor()]
    times, _ = spent(*four_bar_graph(2.0), time.process_time)
    floors.append(floor())
    middle = float(np.median(times))
    yield row("an update of the four-bar smoother, window 10", (middle, middle / min(floors)), 0.068)


def row(what: str, found: tuple[float, float], goal: float) -> Row:
    seconds, ratio = found
    unit, scale = ("s", 1.0) if seconds > 0.1 else ("ms", 1e3)
    return Row(what, scale * seconds, unit, ratio, f"≤ {goal:g} floors")


def waiting() -> Iterator[Row]:
    """All rows."""
    yield Row("floor: dpbtrf, n = 24 x 1000, 47 subdiagonals, best of seven", 1e3 * floor(), "ms", 1.0)
    yield from solves()
    yield from updates()
    yield from commands()
