"""Checkpoints of a computation in a folder: an interrupted computation continues from there to the same digits.

A deterministic computation is resumed by running it once more. Its searches read their results or checkpoints from the
folder instead of repeating the work. The key of a checkpoint contains everything before it, so that no checkpoint of
another computation is read. Short searches are not stored, but repeated.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from spookid.files import abandoned, remove, replacing
from spookid.kernels.arrays import Array
from spookid.solvers.status import Callback, Iteration, Outcome, Status, Timing
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point, Transcription

SUFFIX = ".place.npz"
"""Of files of places."""
WAIT = 1.0
"""Time between two writings of a place, and that of work that is not worth one [s]."""


@dataclass(eq=False)
class Place:
    """Checkpoint file of one search."""

    path: Path | None = None
    """None keeps nothing."""
    wait: float = WAIT
    _written: float = field(default_factory=time.perf_counter)

    def read(self) -> dict[str, Array] | None:
        """Read the latest checkpoint; None if none is complete."""
        if self.path is not None:
            with suppress(Exception), np.load(self.path, allow_pickle=False) as kept:  # of a damaged file, anything
                return dict(kept)
        return None

    @property
    def due(self) -> bool:
        """True if enough work would be lost without a checkpoint."""
        return self.path is not None and time.perf_counter() - self._written >= self.wait

    def keep(self, arrays: Mapping[str, Any]) -> None:
        """Write a checkpoint in place of the earlier one; disk errors are ignored."""
        if self.path is None:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as part, part.open("wb") as file:
                np.savez(file, **arrays)
        self._written = time.perf_counter()


class Journal:
    """Checkpoints of one computation in a folder.

    Args:
        identity: all that the computation follows from.
        wait: as of ``Place``.
    """

    def __init__(self, folder: Path, identity: str, wait: float = WAIT) -> None:
        self.folder, self._wait = folder, wait
        self._chain = hashlib.sha256(identity.encode())

    def name(self, *facts: str | bytes) -> str:
        """Name of the next checkpoint, for a search with these facts."""
        for fact in facts:
            self._chain.update(fact.encode() if isinstance(fact, str) else fact)
        return self._chain.hexdigest()[:32]

    def place(self, *facts: str | bytes) -> Place:
        """The next place."""
        return Place(self.folder / (self.name(*facts) + SUFFIX), self._wait)


def forget(folder: Path) -> None:
    """Delete all checkpoints in a folder, and nothing else."""
    for kept in folder.glob("*" + SUFFIX):
        for one in (kept, *abandoned(kept, "part")):
            remove(one)
    with suppress(OSError):  # of one that holds something else
        folder.rmdir()


_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)


@contextmanager
def kept_in(journal: Journal | None) -> Iterator[None]:
    """Context in which searches write checkpoints to a folder."""
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)


def next_place(*facts: str | bytes) -> Place:
    """Checkpoint of a search with these facts; without a journal, it stores nothing."""
    journal = _journal.get()
    return Place() if journal is None else journal.place(*facts)


class Solver(Protocol):
    """A method for all unknowns."""

    name: ClassVar[str]

    def solve(self, transcription: Transcription, start: Point, callback: Callback | None = None) -> Outcome:
        """From a start."""


def solved(solver: Solver, problem: Transcription, start: Point, callback: Callback | None) -> Outcome:
    """Result of a solver, stored after its end."""
    place = next_place(solver.name, *facts_of(problem, start))
    if (kept := place.read()) is not None:
        return outcome_of(kept)
    outcome = solver.solve(problem, start, callback)
    if outcome.status is not Status.INTERRUPTED and place.due:
        place.keep(outcome_arrays(outcome))
    return outcome


def facts_of(problem: Transcription, start: Point) -> Iterator[bytes]:
    """Numbers on which a search depends."""
    for values in (problem.constants, start.parameters, *start.states):
        yield np.ascontiguousarray(values).tobytes()


# --- as arrays ---


def point_arrays(point: Point, name: str = "point") -> dict[str, Array]:
    """A point, which ``point_of`` reads."""
    found = {f"{name} state {i}": states for i, states in enumerate(point.states)}
    for i, codes in enumerate(point.codes):
        found |= {f"{name} code {i} {factor}": code for factor, code in codes.items()}
    return {**found, f"{name} parameters": point.parameters}


def point_of(arrays: Mapping[str, Array], name: str = "point") -> Point:
    """From ``point_arrays``."""
    count = sum(key.startswith(f"{name} state ") for key in arrays)
    codes: list[dict[str, Array]] = [{} for _ in range(count)]
    for key, values in arrays.items():
        if key.startswith(f"{name} code "):
            chain, factor = key.removeprefix(f"{name} code ").split(" ", 1)
            codes[int(chain)][factor] = values
    states = tuple(arrays[f"{name} state {i}"] for i in range(count))
    return Point(states, arrays[f"{name} parameters"], tuple(codes) if any(codes) else ())


def history_arrays(history: list[Iteration] | tuple[Iteration, ...]) -> dict[str, Array]:
    """Iterations, which ``history_of`` reads."""
    rows = [[i.damping, i.step_norm, *(i.costs[group] for group in Group)] for i in history]
    return {"history": np.array(rows), "path": np.array([i.parameters for i in history])}


def history_of(arrays: Mapping[str, Array]) -> list[Iteration]:
    """From ``history_arrays``."""
    rows = zip(arrays["history"].tolist(), arrays["path"], strict=True)
    return [
        Iteration(i, dict(zip(Group, costs, strict=True)), damping, length, there)
        for i, ((damping, length, *costs), there) in enumerate(rows)
    ]


def outcome_arrays(outcome: Outcome) -> dict[str, Array]:
    """An outcome, which ``outcome_of`` reads."""
    facts = [outcome.status.value, outcome.detail, asdict(outcome.timing), outcome.redundant, outcome.complementarity]
    return {"facts": np.array(json.dumps(facts)), **point_arrays(outcome.point), **history_arrays(outcome.history)}


def outcome_of(arrays: Mapping[str, Array]) -> Outcome:
    """From ``outcome_arrays``."""
    status, detail, timing, redundant, complementarity = json.loads(str(arrays["facts"]))
    found = point_of(arrays), tuple(history_of(arrays)), Timing(**timing), redundant, complementarity
    return Outcome(Status(status), detail, *found)
