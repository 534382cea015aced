"""Whatever is given to a constructor or a reader, it makes a thing that can be used, or says what is wrong in one
sentence. By hand: ``python tests/test_fuzz.py 100000 files`` and ``python tests/test_fuzz.py 5000 declarations``, with
``SEED`` in the environment for other cases; what failed is printed with the number that makes it again."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import broken_files
import nonsense
import pytest

import spookid
from spookid import graphs, planar

LONGEST = 10
"""Seconds of processors that one case may take."""
CALLBACKS = {"callback", "progress", "seen"}
"""Functions of the user's that are told something; what they raise is the user's."""
NOT_MADE = {
    *("Bound", "Constraint", "Equations", "Joint", "Load", "OneStep", "PointLoad", "Relation", "Sensor", "Solution"),
    *("State", "Status", "Stepper", "Sweep", "ProblemError", "GROUND", "System", "GraphFactor", "GraphSolution"),
    *("Picture", "Window", "Placement", "PlanarConstraint", "PlanarLoad", "STAGES", "Trace", "Branch"),
    *("Finding", "RobustLoss", "Cost", "Estimate", "Noise", "Trajectory", "StepFailedError", "LevenbergMarquardt"),
}
"""Public names that are bases or answers."""


@contextlib.contextmanager
def refused_in_a_sentence() -> Iterator[None]:
    """Only the package's own error passes, with one line that can be printed; nothing takes longer than it may without
    a word of how long it is going to take."""

    def late(*_: object) -> None:
        raise TimeoutError(f"takes longer than {LONGEST} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            yield
    except TimeoutError:
        if not any("going to take some" in str(warning.message) for warning in told):
            raise
    except spookid.ProblemError as error:
        message = str(error)
        assert message.splitlines() == [message]
        message.encode()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def anything(chance: Random) -> Any:
    """A value that may be wrong."""
    plain: list[Callable[[], Any]] = [
        lambda: nonsense.NONSENSE[chance.randrange(len(nonsense.NONSENSE))],
        lambda: chance.choice((-1, 1)) * 10 ** chance.uniform(-320, 308),
        lambda: chance.randint(-3, 10) * 10 ** chance.choice((0, 1, 5, 25)),
        lambda: "".join(chr(chance.randrange(0x3000)) for _ in range(chance.randrange(6))),
    ]
    several = [lambda: [anything(chance) for _ in range(chance.randrange(5))], lambda: (anything(chance),) * 3]
    return chance.choices([*plain, *several], weights=[6, 1, 1, 1, 1, 1])[0]()


def declared(chance: Random) -> None:
    """A case with wrong arguments, one mostly."""
    make, right, use = nonsense.cases()[chance.choice(sorted(nonsense.cases()))]
    wrong = (
        {chance.choice(sorted(right)): anything(chance) for _ in range(chance.choice((1, 1, 1, 2)))} if right else {}
    )
    own = any(name in CALLBACKS and callable(value) for name, value in wrong.items())
    with contextlib.suppress(Exception) if own else refused_in_a_sentence():  # what users' own functions raise passes
        use(make(**{**right, **wrong}))


def read(chance: Random, folder: Path) -> None:
    kind, content = broken_files.broken(chance)
    with refused_in_a_sentence():
        broken_files.READERS[kind].read(folder, content)


def test_every_public_constructor_is_here():
    public = {*spookid.__all__, *(f"graphs.{n}" for n in graphs.__all__), *(f"planar.{n}" for n in planar.__all__)}
    made = {name for name in public if name.rpartition(".")[2] not in NOT_MADE}
    assert made - set(nonsense.cases()) == set()


@pytest.mark.parametrize("name", sorted(nonsense.cases()))
def test_the_arguments_are_right_before(name):
    make, right, use = nonsense.cases()[name]
    with contextlib.suppress(spookid.ProblemError) if name in nonsense.REFUSED else contextlib.nullcontext():
        use(make(**right))


SAMPLE = [200, pytest.param(5000, marks=pytest.mark.study)]
"""Cases of each kind."""


@pytest.mark.parametrize("count", SAMPLE)
def test_declarations(tmp_path, count):
    assert study(count, "declarations", 0, tmp_path) == 0


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("count", SAMPLE)
def test_files(tmp_path, count):
    assert study(count, "files", 0, tmp_path) == 0


@pytest.mark.parametrize("seed", [50034009, "5 177"])
def test_what_a_long_study_found(tmp_path, seed):
    read(Random(seed), tmp_path)  # a count of samples that is not a number, a topic without timestamps


def study(count: int, kind: str, first: int, folder: Path) -> int:
    """Try so many cases; how many failed."""
    failed, began, longest = 0, time.monotonic(), (0.0, 0)
    for seed in range(first, first + count):
        used, chance = time.process_time(), Random(seed)
        try:
            declared(chance) if kind == "declarations" else read(chance, folder)
        except Exception as error:
            failed += 1
            say(f"{seed}: {type(error).__name__}: {str(error)[:500]!r}")
        longest = max(longest, (time.process_time() - used, seed))
        if (seed + 1 - first) % 1000 == 0:
            so_long = f"the longest {longest[0]:.1f} s of processors ({longest[1]})"
            say(f"{seed + 1 - first} {kind}, {failed} failed, {time.monotonic() - began:.0f} s, {so_long}")
    return failed


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        how_many, which = int(sys.argv[1]), sys.argv[2]
        sys.exit(min(study(how_many, which, int(os.environ.get("SEED", "0")), Path(place)), 100))
