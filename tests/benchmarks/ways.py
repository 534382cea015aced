"""Does every way to solve a problem end at the same answer? ``python tests/benchmarks/ways.py [PROBLEM ...]``

Each problem is solved with every stepper, form of dry friction and backend that go together, as a user would: from its
guesses, with what it leaves out at its default. Costs compare at one noise: that which the smooth fit has found, or the
given weight. Dry friction that is smooth and dry friction that sticks are two laws; within each, ways are measured by
the best of them.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import json
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spookid import Problem, ProblemError, Solution, Spook, Variational
from spookid.assembly.loading import load_file

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "problems", ROOT.parent / "shared" / "accept" / "problems")
STEPPERS: dict[str, Any] = {"variational": Variational(), "spook": Spook(), "lifted": Spook(multipliers="lifted")}
CLOSE, NEAR = 0.005, 0.5
"""Share of the cost and of a standard error within which two answers are one."""


class Way(NamedTuple):
    """A form of dry friction and who solves it."""

    backend: str
    friction: str

    @property
    def sticks(self) -> bool:
        return self.friction != "smooth"


WAYS = (Way("lm", "smooth"), Way("ipopt", "smooth"), Way("lm", "exact"), Way("ipopt", "mpcc"))


@dataclass(frozen=True)
class Row:
    """One way to solve one problem, and the processor time that it took [s]."""

    problem: str
    stepper: str
    way: Way
    solution: Solution | None
    why: str
    seconds: float

    def distance(self, others: list[Row]) -> tuple[float, float]:
        """Share of the cost and largest share of a standard error, from the best converged row of the same law."""
        same = [r for r in others if r.way.sticks == self.way.sticks and r.converged]
        if self.solution is None or not same:
            return np.nan, np.nan
        best = min((r.solution for r in same if r.solution), key=lambda s: s.cost.total)
        pairs = [(self.solution[name], known) for name, known in best.parameters.items()]
        apart = [abs(mine.estimate - known.estimate) / known.std_err for mine, known in pairs if known.std_err > 0]
        return self.solution.cost.total / best.cost.total - 1, max(apart, default=0.0)

    @property
    def converged(self) -> bool:
        return self.solution is not None and self.solution.status.value == "converged"

    def cells(self, others: list[Row]) -> list[str]:
        cost, apart = self.distance(others)
        smooth = [r.seconds for r in others if r.way == WAYS[1] and r.converged]
        s = self.solution
        known = [s.status.value, str(s.iterations), f"{s.cost.total:.7g}"] if s else [self.why, "", ""]
        return [
            self.problem,
            self.stepper,
            *self.way,
            *known,
            "" if np.isnan(cost) else f"{100 * cost:+.3f}%",
            "" if np.isnan(apart) else f"{apart:.2g}",
            f"{self.seconds:.1f} s",
            f"{self.seconds / smooth[0]:.1f}" if smooth and self.way.friction == "mpcc" else "",
        ]


CROSSED = "problem, stepper, backend, friction, status, found, cost, from the other answer, found there, cost there"
COLUMNS = "problem, stepper, backend, friction, status, iterations, cost, over best, errors off, time, of smooth IPOPT"


def rows(name: str, problem: Problem, stepper: str, ways: list[Way], limit: float, most: int) -> list[Row]:
    """Every way through a problem with one stepper."""
    found: list[Row] = []
    rubs = any(j.rubs for j in problem.model.joints)
    for way in ways:
        if rubs or not way.sticks:
            found.append(row(name, problem, stepper, way, limit, most))
            print(*found[-1].cells(found), sep="  ", file=sys.stderr, flush=True)
    return found


def row(
    name: str, problem: Problem, stepper: str, way: Way, limit: float, most: int, known: Solution | None = None
) -> Row:
    """One way, for so many seconds and iterations at the most, from the guesses or an answer that is ``known``."""
    given: dict[str, Any] = {"stepper": STEPPERS[stepper], "friction": way.friction}
    if not np.isfinite(problem.weight) or problem.dynamics == "estimated":
        given |= {"step_correction": False, "estimator": "noise"}
    began = time.process_time()
    solution, why = None, ""
    try:
        with Deadline(limit):
            solution = problem.with_(**given).solve(backend=way.backend, max_iterations=most, warm_start=known)
    except ProblemError as error:
        why = f"refused: {error}"
    except (ArithmeticError, ValueError, RuntimeError, KeyboardInterrupt) as error:
        why = f"{type(error).__name__}: {error}"
    return Row(name, stepper, way, solution, why, time.process_time() - began)


class Deadline:
    """Interrupts what takes longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def crossed(name: str, problem: Problem, stepper: str, limit: float, most: int) -> list[str]:
    """Cells of both forms of friction that sticks, from the guesses and each from the answer of the other one: two
    costs that stay apart are two minima."""
    ways = [way for way in WAYS if way.sticks]
    alone = {way: row(name, problem, stepper, way, limit, most) for way in ways}
    lines = []
    for way, other in zip(ways, reversed(ways), strict=True):
        known = alone[other].solution
        told = row(name, problem, stepper, way, limit, most, known) if known else alone[other]
        both = [
            [one.solution.status.value, one.solution.detail, f"{one.solution.cost.total:.7g}"]
            if one.solution
            else [one.why, "", ""]
            for one in (alone[way], told)
        ]
        lines.append("| " + " | ".join([name, stepper, *way, *both[0], *both[1]]) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def everything(wanted: list[str]) -> Iterator[tuple[str, Problem]]:
    """All problems whose file and name contain one of the words."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.py")):
            for name, problem in load_file(path).problems.items():
                label = f"{'' if folder == FOLDERS[0] else 'accept/'}{path.stem}::{name}"
                if not wanted or any(word in label for word in wanted):
                    yield label, problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="words that the names of the problems contain; all if none")
    parser.add_argument("--steppers", default="variational,spook,lifted")
    parser.add_argument("--ways", default=",".join(" ".join(way) for way in WAYS))
    parser.add_argument("--dry", action="store_true", help="only problems with dry friction")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one solve at the most")
    parser.add_argument("--iterations", type=int, default=150, help="for one solve at the most")
    parser.add_argument(
        "--crossed", action="store_true", help="both forms of friction that sticks, each from the other"
    )
    parser.add_argument(
        "--kept", type=Path, help="file of the lines made so far, from which an interrupted run goes on"
    )
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = CROSSED if given.crossed else COLUMNS
    lines = ["| " + columns.replace(", ", " | ") + " |", "|---" * (columns.count(",") + 1) + "|"]
    ways = [way for way in WAYS if " ".join(way) in given.ways.split(",")]
    kept: dict[str, list[str]] = {}
    if given.kept and given.kept.exists():
        kept = dict(json.loads(line) for line in given.kept.read_text(encoding="utf-8").splitlines())
    for name, problem in everything(given.problems):
        if given.dry and not any(joint.rubs for joint in problem.model.joints):
            continue
        for stepper in given.steppers.split(","):
            if stepper == "lifted" and problem.dynamics == "estimated":
                continue  # where the noise is estimated multipliers are eliminated
            key = f"{name} {stepper}{' crossed' if given.crossed else ''}"
            if key not in kept:
                if given.crossed:
                    kept[key] = crossed(name, problem, stepper, given.limit, given.iterations)
                else:
                    found = rows(name, problem, stepper, ways, given.limit, given.iterations)
                    kept[key] = ["| " + " | ".join(r.cells(found)) + " |" for r in found]
                if given.kept:
                    with given.kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, kept[key]]) + "\n")
            lines += kept[key]
    print("\n".join(lines))
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
