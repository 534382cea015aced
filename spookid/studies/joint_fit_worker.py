"""What workers do in a joint fit: each recording's states are fitted where it lies, and sums of n_p × n_p travel.

A recording is prepared once: its chain and its initial value of the motion go into a folder that all workers see. A
pass then takes some recordings, one at a time, with parameters and noise standard deviations: states are read, fitted
and written, and what the likelihood sums over recordings is returned. So a worker holds one recording, whatever their
number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from spookid.assembly.assembly import Assembly, assemble, joined
from spookid.assembly.problem import Problem
from spookid.data.recording import SAMPLE, Recording, RecordingFiles
from spookid.estimation.extrapolation import finer
from spookid.estimation.step_errors import step_slopes
from spookid.estimation.suspects import saturated_samples, without, without_suspects
from spookid.files import abandoned, remove, replacing
from spookid.kernels.arrays import Array, Mask
from spookid.solvers import resuming
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics import block_jackknife, variances
from spookid.statistics.condensing import Condensed, linearize
from spookid.statistics.likelihood import States
from spookid.statistics.marginal import Marginal, NoiseSize, Swept
from spookid.statistics.trial import SearchEndedError, Trials
from spookid.studies.job import Source, alone
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Chain, Point, Transcription

Sums = dict[tuple[str, ...], Any]
"""Numbers and arrays of several recordings together, by what they are."""
MARKER = "joint_fit.json"
COARSE = "coarse"
"""Folder of a fit that shows what the step adds."""
"""File that marks a folder of a joint fit, and of which."""
_KEPT = re.compile(r"\d{7}\.(chain|\d+\.npy)|\.\d{7}\.(chain|\d+\.npy)\.\w+-\d+-\w+\.part")
"""Files of recordings."""
_LARGEST = 32
"""Recordings of one piece of work at the most: what a worker that dies costs."""
What = Literal["prepare", "fit", "fisher", "errors"]


@dataclass(frozen=True, eq=False)
class Template:
    """Problem of the first recordings, which serves as template for all other recordings."""

    source: Source
    estimator: str
    step: float
    halved: bool = False
    """True for steps half as long."""

    def assembled(self) -> tuple[Problem, Assembly]:
        """Return the problem and its assembly, which each process computes once."""
        key = self.source.identity(self.estimator, self.step, self.halved)
        if key not in _ready:
            posed, _, _ = self.source.posed
            plain = {"step": self.step, "step_correction": False, "estimator": self.estimator}
            posed = posed.with_(recordings=posed.sample[:SAMPLE], **plain)
            _ready.clear()
            _ready[key] = self.source.problem, assemble(finer(posed) if self.halved else posed)
        return _ready[key]


_ready: dict[str, tuple[Problem, Assembly]] = {}


@dataclass(frozen=True, eq=False)
class Pass:
    """Request to evaluate all recordings at one set of parameter values and noise levels."""

    what: What
    folder: str
    """Where chains and states are."""
    parameters: Array
    sizes: tuple[NoiseSize, ...] = ()
    logs: Array | None = None
    """η, (n_s,)."""
    base: int = 0
    """Number of the states to begin with."""
    version: int = 0
    """Number that the states get."""
    stale: tuple[int, ...] = ()
    """Numbers of states that are not needed any more."""
    gap: float = 0.0
    """As of ``Trials``."""
    block: int = 1
    """Recordings whose scores are summed; 0: each is cut into blocks."""
    biased: bool = False
    """Whether errors are asked for with what the step adds to the estimates."""
    most: float = np.inf
    """As of ``Trials.trial``."""
    settings: LevenbergMarquardt = field(default_factory=LevenbergMarquardt)
    """Of the fit of states."""


def add(total: Sums, more: Mapping[tuple[str, ...], Any]) -> None:
    """Add to each sum."""
    for key, value in more.items():
        total[key] = total[key] + value if key in total else value


def work(template: Template, asked: Pass, first: int, last: int) -> Sums | str:
    """Evaluate the recordings ``first`` up to (not including) ``last``; on failure, returns the reason as text."""
    total: Sums = {}
    with alone:
        problem, assembly = template.assembled()
        for number in range(first, last):
            share = _Share(problem, assembly, asked, number, _place(Path(asked.folder), first))
            try:
                add(total, _ANSWERS[asked.what](share))
            except (NotPositiveDefiniteError, SearchEndedError, np.linalg.LinAlgError) as error:
                return f"recording {share.chain().name!r}: {error}"
    return total


@dataclass(frozen=True, eq=False)
class _Numbers:
    """An array as a file has it, whose reading takes a tenth of NumPy's own formats."""

    kind: str
    shape: tuple[int, ...]
    content: bytearray

    @classmethod
    def of(cls, array: Array | Mask) -> _Numbers:
        """Of an array."""
        return cls(array.dtype.str, array.shape, bytearray(array.tobytes()))

    @property
    def array(self) -> Any:
        """The same again."""
        return np.frombuffer(self.content, self.kind).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A recording that is prepared."""

    name: str
    steps: int
    outliers: int
    data: dict[str, _Numbers]
    missing: dict[str, _Numbers]

    @property
    def chain(self) -> Chain:
        """Its data along the steps."""
        data, missing = ({name: one.array for name, one in all.items()} for all in (self.data, self.missing))
        return Chain(self.name, self.steps, data, missing)


@dataclass(frozen=True, eq=False)
class _Share:
    """One recording of a pass."""

    problem: Problem
    assembly: Assembly
    asked: Pass
    number: int
    folder: Path

    def prepared(self) -> Sums:
        """Store the chain of a recording and its initial values, unless they exist, and return the size of both."""
        if not self._chain.exists():
            self._begin()
        kept = self._kept()
        rows = self.assembly.transcription.with_chains([kept.chain]).rows
        return {("steps",): kept.steps, ("rows",): rows, ("outliers",): kept.outliers}

    def _begin(self) -> None:
        """Read it, and write its chain and its initial value."""
        read, outliers = self._read()
        _, chain, states = joined(self.assembly, read, self.number)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_states(states, self.asked.base)
        data, missing = ({n: _Numbers.of(own) for n, own in all.items()} for all in (chain.data, chain.missing))
        with replacing(self._chain) as part:
            part.write_bytes(msgspec.msgpack.encode(_Kept(chain.name, chain.steps, outliers, data, missing)))

    def _read(self) -> tuple[Recording, int]:
        """Without samples that stand out, and how many these are."""
        several, problem = self.problem.recordings, self.assembly.problem
        read = several.read(self.number) if isinstance(several, RecordingFiles) else several[self.number]
        return without_suspects(problem, without(read, saturated_samples(problem, read)))

    def joined(self, numbered: Transcription) -> Assembly:
        """Problem with this recording alone."""
        sampled, _, _ = joined(self.assembly, self._read()[0], self.number)
        return replace(self.assembly, transcription=numbered, sampled=(sampled,))

    @property
    def _chain(self) -> Path:
        return self.folder / f"{self.number:07d}.chain"

    def _kept(self) -> _Kept:
        return msgspec.msgpack.decode(self._chain.read_bytes(), type=_Kept)

    def chain(self) -> Chain:
        """Its data along the steps."""
        return self._kept().chain

    @property
    def trials(self) -> tuple[Trials, Point]:
        """Return the solver for a recording's states and the last states, or initial states if those were lost."""
        asked, place = self.asked, _states(self.folder, self.number, self.asked.base)
        if not (place.exists() and self._chain.exists()):
            self._begin()
        problem = self.assembly.transcription.with_chains([self.chain()])
        point = Point((np.load(place),), asked.parameters)
        return Trials(problem, asked.sizes, asked.settings, gap=asked.gap), point

    def write(self, states: Array) -> None:
        """Store the new states of a recording; they replace the states of failed steps."""
        self._write_states(states, self.asked.version)
        for version in self.asked.stale:
            with suppress(OSError):
                _states(self.folder, self.number, version).unlink()

    def _write_states(self, states: Array, version: int) -> None:
        with replacing(_states(self.folder, self.number, version)) as part, part.open("wb") as file:
            np.save(file, states)


def _fit(share: _Share) -> Sums:
    """States fitted, and what the likelihood sums."""
    trials, point = share.trials
    assert share.asked.logs is not None
    states, found = trials.fitted(point, share.asked.logs, share.asked.most, share.asked.gap)
    share.write(states.point.states[0])
    sums: Sums = {("cost",): states.cost, ("least",): states.least, ("excess",): states.excess}
    sums |= {("costs", group.name): value for group, value in states.costs.items()}
    return sums | told(found)


def told(found: Marginal) -> Sums:
    """Sums that one recording contributes to the likelihood and its derivatives."""
    sums: Sums = {(name,): getattr(found, name) for name in ("value", "gradient", "volume", "information")}
    parts: dict[str, Mapping[str, Any]] = {name: getattr(found.sweep(), name) for name in _NAMED}
    parts |= {name: getattr(found, name)() for name in _ASKED}
    parts |= {"ahead": found.ahead(np.eye(len(found.gradient) + 1))}
    for part, values in parts.items():
        sums |= {(part, name): value for name, value in values.items()}
    return sums


_NAMED, _ASKED = ("residual", "following"), ("freedom", "coloured", "strength", "rounding")


def together(sums: Sums, density: bool, fisher: Callable[[], Mapping[tuple[str, str], float]]) -> Marginal:
    """Add the sums of all recordings to the likelihood."""
    parts = {name: {key[1]: v for key, v in sums.items() if key[0] == name} for name in (*_NAMED, *_ASKED, "ahead")}
    swept = Swept(sums["volume",], lambda: (parts["residual"], parts["following"]))
    return Marginal(
        float(sums["value",]),
        sums["gradient",],
        density,
        sums["information",],
        sweep=lambda: swept,
        freedom=lambda: parts["freedom"],
        fisher=fisher,
        coloured=lambda: parts["coloured"],
        strength=lambda: parts["strength"],
        rounding=lambda: parts["rounding"],
        ahead=lambda steps: {name: steps.T @ products @ steps for name, products in parts["ahead"].items()},
    )


def _fisher(share: _Share) -> Sums:
    """Information of the sizes."""
    trials, point = share.trials
    assert share.asked.logs is not None
    held = trials.problem.with_numbers(trials.numbers(share.asked.logs)).held_at(point.parameters)
    found = trials.told(States(ReducedProblem(held, point), point), share.asked.logs)
    return {("fisher", *pair): value for pair, value in found.fisher().items()}


def _errors(share: _Share) -> Sums:
    """What standard errors are made of: TᵀT, that of priors, the products with sizes, the scores of the recording or of
    its blocks; and what the step adds."""
    trials, point = share.trials
    asked = share.asked
    assert asked.logs is not None
    problem = trials.problem.with_numbers(trials.numbers(asked.logs))
    # What a step of the parameters takes away is not that of one recording.
    c = Condensed(linearize(problem, point), FreeDirections(np.ones(len(problem.names), dtype=np.bool_)))
    C, R = variances.size_products(c, [s.names for s in asked.sizes if s.given is None and s.kind == "disturbance"])
    found: Sums = {("information",): c.information, ("prior",): variances.prior(c), ("C",): C, ("R",): R}
    if asked.biased:
        found["missed",] = step_slopes(share.joined(problem), point, c, 0)
    steps = problem.chains[0].steps
    edges = [0, steps] if asked.block else block_jackknife.cuts_of(steps)
    for i, (score, own) in enumerate(zip(*block_jackknife.block_sums(c, 0, edges), strict=True)):
        block = f"{share.number // asked.block}" if asked.block else f"{share.number} {i}"
        found |= {("score", block): score, ("own", block): own}
    return found


_ANSWERS: Mapping[str, Callable[[_Share], Sums]] = {
    "prepare": _Share.prepared,
    "fit": _fit,
    "fisher": _fisher,
    "errors": _errors,
}


def _place(folder: Path, first: int) -> Path:
    """Of the recordings of one piece of work."""
    return folder / f"{first:07d}"


def forget(folder: Path) -> None:
    """Remove the files that a joint fit stored in a folder, and no others."""
    if (folder / COARSE).is_dir():
        forget(folder / COARSE)
    for kept in (folder / MARKER, *abandoned(folder / MARKER, "part")):
        remove(kept)
    for place in folder.glob("[0-9]" * 7):
        for kept in place.iterdir() if place.is_dir() else ():
            if _KEPT.fullmatch(kept.name):
                remove(kept)
        with suppress(OSError):  # of one that holds something else
            place.rmdir()
    resuming.forget(folder)


def states_of(folder: Path, count: int, some: int, version: int) -> tuple[Array, ...]:
    """States of the first recordings."""
    places = ((_place(folder, first), n) for first, last in blocks(count) for n in range(first, min(last, some)))
    return tuple(np.load(_states(place, number, version)) for place, number in places)


def _states(place: Path, number: int, version: int) -> Path:
    return place / f"{number:07d}.{version}.npy"


def blocks(count: int) -> Sequence[tuple[int, int]]:
    """Split the recordings into blocks, independently of the number of workers."""
    size = max(min(_LARGEST, count // _LARGEST), 1)
    return [(first, min(first + size, count)) for first in range(0, count, size)]
