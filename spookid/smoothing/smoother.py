"""Estimates while data come in, and a smoother in a file: arrays, and a document that says what they are of."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from spookid.argument_checks import Checked
from spookid.assembly.assembly import settings_of
from spookid.assembly.constants import numbers
from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.data.logs.tables import read_npz
from spookid.errors import ProblemError, shown
from spookid.files import replacing
from spookid.graphs.graph import Graph
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.results.folders import reading
from spookid.results.result import Solution
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.graph_stream import LONGEST, GraphStream
from spookid.smoothing.initialization import Initialization, check_noise, from_solution, smoothed, without_end
from spookid.smoothing.intake import Intake
from spookid.smoothing.readout import StepCorrection
from spookid.smoothing.stream import Mark, Stream
from spookid.smoothing.waiting import Waiting
from spookid.solvers.fixed_lag import FixedLag
from spookid.solvers.lag_memory import restarted
from spookid.tables.table import counted
from spookid.transcription.transcription import Transcription
from spookid.version import __version__

_SETTLING = 10
"""How often the first window is estimated at the most."""


class FixedLagSmoother(metaclass=Checked):
    """Fixed-lag smoother: estimates of parameters and motion while data arrive, over a window of steps. Earlier steps
    are marginalized.

    The states in the window and the parameters are estimated anew with every step, from all samples in it. Steps that
    leave it are marginalized: their information on the parameters and on the states that follow is kept. Estimates are
    therefore those of all data, and neither time nor memory of an update grow. Noise keeps its initial size, that of
    ``start`` with the part that its parameters have absorbed; ``findings`` report residuals that are larger. ::

        first = problem.with_(recordings=[recording.between(0, 2)])
        smoother = FixedLagSmoother(first, seconds=0.2, start=first.solve())
        estimate = smoother.update(2.005, {"theta": 0.31, "u": 1.5})

    Args:
        problem: a Problem with smooth friction, or a Graph, whose sigmas are its noise and whose samples are at its
            steps: the first update is that of step 0.
        window: steps in the window.
        seconds: its length [s], instead of ``window``.
        start: a Solution of the problem with one recording. The stream continues after it, from its noise,
            friction widths, estimates and states; discretization errors are subtracted from estimates as the problem
            asks (``step_correction``). Without it the stream begins at its first sample, from the initial values, and
            the problem declares all noise. For a graph: the variables of step 0, and Parameters, by name:
            ``{"q": system.assembled(...)}``.
        iterations: limit of Gauss–Newton steps of an update.

    Raises:
        ProblemError: for a window that is too short or has more than 10 000 steps, unknown noise, or features that a
            smoother does not support: friction that sticks, inequalities, ``every``, several recordings.
    """

    def __init__(
        self,
        problem: Problem | Graph,
        window: int | None = None,
        *,
        seconds: float | None = None,
        start: Solution | Mapping[str, Any] | None = None,
        iterations: int = 5,
    ) -> None:
        self._what = problem.what
        self._window = _steps(self._what, problem.step, window, seconds)
        self._iterations = _count(self._what, "iterations", iterations, "a whole number, 1 or more")
        self._stream: Stream | GraphStream | None = None
        self._waiting: Waiting | None = None
        if isinstance(problem, Graph):
            reach = max(factor.reach for factor in problem.endless.factors)
            if self._window <= reach:
                raise ProblemError(
                    f"{self._what}: window is {counted(self._window, 'step')}; a factor connects {reach + 1} "
                    "steps; give at least as many"
                )
            if not isinstance(start, Mapping):
                raise ProblemError(
                    f'{self._what}: start is {shown(start)}; give where the first step begins, start={{"q": ...}}'
                )
            self._stream = GraphStream(problem, self._window, self._iterations, start)
        elif start is not None:
            self._begin(from_solution(smoothed(problem), start, problem.corrects))
        else:
            declared = smoothed(problem)
            check_noise(declared)
            self._waiting = Waiting(declared, self._window, corrects=problem.corrects)

    def update(self, t: float, values: Mapping[str, Any]) -> OnlineEstimate:
        """Add samples of some signals, and update the estimates.

        Samples may come in any order: samples within the window count, older ones are left out and counted in
        ``intake``. NaN and None are no samples. After ten windows (at least 100 steps) without a sample, the states
        begin anew with the next samples.

        Args:
            t: their time [s].
            values: values by the names of the signals of sensors and inputs.

        Raises:
            ProblemError: for an unknown signal, a value or time that is not finite, a second sample of a signal at the
                same time, or a time far ahead of all others; nothing has then been taken.
        """
        if isinstance(self._stream, Stream) and self._stream.is_behind_gap(t, values):
            self._waiting, self._stream = Waiting.behind(self._stream), None
        if self._stream is not None:
            self._stream.take(t, values)
        elif self._waiting is not None and (initial := self._waiting.take(t, values)) is not None:
            self._begin(initial)
        return self.estimate

    @property
    def estimate(self) -> OnlineEstimate:
        """The current estimate."""
        known = self._stream or self._waiting
        assert known is not None
        return known.estimate()

    @property
    def intake(self) -> Intake:
        """Numbers of samples received and left out."""
        known = self._stream or self._waiting
        assert known is not None
        return known.counts

    def released(self) -> tuple[Array, Array]:
        """Return score (n_p,) and information (n_p, n_p) of the parameters from data that left the window since the
        last call, to test if parameters have changed; see ``FixedLag.released``."""
        if self._stream is None:
            n = len(self.estimate.values)
            return np.zeros(n), np.zeros((n, n))
        return self._stream.core.released()

    @property
    def released_until(self) -> float:
        """Time of the oldest step in the window [s], where the data of ``released`` end; NaN before there is one."""
        return math.nan if self._stream is None else self._stream.time(self._stream.core.first)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Bounds of the parameters, (n_p,) each; only for a smoother of a Problem that has states."""
        transcription = self._of_problem.core.transcription
        return transcription.lower, transcription.upper

    def mark(self) -> Mark:
        """Return the present state, from which a smoother of a Problem can restart; None before there are states."""
        return self._of_problem.mark()

    def begun_at(self, mark: Mark, values: Array, gradient: Array, information: Array) -> FixedLagSmoother:
        """Return a smoother that restarts at ``mark`` with other parameters from its oldest step on.

        Args:
            mark: a mark of this smoother.
            values: initial values of the parameters, in the order of ``estimate``, (n_p,).
            gradient: prior of the parameters: slope of the cost there, (n_p,), and
            information: its curvature, (n_p, n_p).
        """
        stream, new = mark.stream, copy(self)
        problem = stream.core.transcription
        values = np.clip(values + stream.correction.amounts, problem.lower, problem.upper)
        arrays = restarted(mark.core, values, gradient, information, mark.walks)
        new._stream = stream.at(FixedLag.resumed(stream.core.transcription, arrays), mark)
        return new

    @property
    def is_of_graph(self) -> bool:
        """True if the smoother estimates the variables of a Graph."""
        return isinstance(self._stream, GraphStream)

    @property
    def _of_problem(self) -> Stream:
        assert isinstance(self._stream, Stream)
        return self._stream

    def save(self, path: str | PathLike[str], also: Mapping[str, Array] | None = None) -> None:
        """Write the state to a file, completely or not at all; ``resume`` reads it. After a gap, until states exist
        again, it is the state before the gap.

        Args:
            also: further arrays, by names, which ``resume`` leaves alone.

        Raises:
            ProblemError: before there are first states, or if the file cannot be written.
        """
        stream = self._stream if self._waiting is None else self._waiting.before
        if stream is None:
            raise ProblemError(f"{self._what} has no states yet that could be saved; give more samples first")
        if isinstance(stream, GraphStream):
            raise ProblemError(f"{self._what} cannot be saved while it is smoothed; smooth a Problem for that")
        write(stream, path, also or {})

    @classmethod
    def resume(cls, problem: Problem, path: str | PathLike[str]) -> Self:
        """Return a smoother that continues where another one was saved, with identical results.

        Args:
            problem: the very problem that it was made with.

        Raises:
            ProblemError: for a file that cannot be read, or is one of another problem or version.
        """
        stream = read(smoothed(problem), path)
        new = cls.__new__(cls)
        new._what, new._stream, new._waiting = problem.what, stream, None
        new._window, new._iterations = stream.core.window, stream.core.iterations
        return new

    def __repr__(self) -> str:
        return f"<FixedLagSmoother of {self._what}: {counted(self._window, 'step')}>"

    def _begin(self, initial: Initialization) -> None:
        counts = Intake() if self._waiting is None else self._waiting.counts
        before = None if self._waiting is None else self._waiting.before
        if before is None:
            stream = Stream.begun(initial, self._window, self._iterations, counts)
        else:
            stream = before.resumed_behind(initial, counts)
        stream.settle(_SETTLING)
        self._waiting, self._stream = None, stream


def _steps(what: str, step: float, window: int | None, seconds: float | None) -> int:
    """Of the window."""
    if (window is None) == (seconds is None):
        raise ProblemError(f"{what}: give a smoother either window=, in steps, or seconds=")
    if seconds is None:
        assert window is not None
        given, steps = "window is", _count(what, "window", window, "a whole number of steps, or seconds=")
    elif not 0 < seconds < math.inf:
        raise ProblemError(f"{what}: seconds is {shown(seconds)}; give the length of the window, more than 0 s")
    else:
        given, steps = f"seconds is {shown(seconds)},", max(round(seconds / step), 1)
    if steps > LONGEST:
        raise ProblemError(
            f"{what}: {given} {steps:.6g} steps, which are all estimated anew with each sample; take {LONGEST} or fewer"
        )
    return steps


def _count(what: str, name: str, value: int, wanted: str) -> int:
    """A whole number from 1 on."""
    if value < 1:
        raise ProblemError(f"{what}: {name} is {shown(value)}; give {wanted}")
    return int(value)


_DOCUMENT, _CONSTANTS, _CORE, _STREAM = "document", "constants", "core ", "stream "
"""Names of the arrays, or how they begin."""
_AGAIN = "begin a new smoother"


def write(stream: Stream, path: str | os.PathLike[str], also: Mapping[str, Array]) -> None:
    """Write a stream and further arrays to a file, completely or not at all; raises ProblemError if that fails."""
    transcription = stream.core.transcription
    document = {
        "kind": "fixed-lag smoother",
        "version": __version__,
        "problem": stream.problem.name,
        "fingerprint": _fingerprint(transcription),
        "guesses": dict(stream.problem.initial),
        "observed": [asdict(one) for one in stream.observed],
        "recording": stream.recording,
        "start": stream.start,
        "now": stream.now,
        "step_errors": stream.correction.amounts.tolist(),
        "information": stream.correction.information.tolist(),
        "findings": [asdict(finding) for finding in stream.findings],
        "surprise": stream.residual_test.array().tolist(),
        "intake": asdict(stream.samples.counts),
    }
    arrays: dict[str, Any] = {f"{_CORE}{name}": value for name, value in stream.core.arrays().items()}
    arrays |= {f"{_STREAM}{name}": value for name, value in stream.samples.arrays().items()}
    arrays |= also
    arrays[_CONSTANTS] = transcription.constants
    document["digest"] = _digest(arrays)
    arrays[_DOCUMENT] = np.frombuffer(msgspec.json.encode(document), dtype=np.uint8)
    try:
        with replacing(Path(path)) as part, part.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise ProblemError(f"{path} cannot be written ({error.strerror or error}); choose another place") from None


def read(problem: Problem, path: str | os.PathLike[str]) -> Stream:
    """Read a stream from a file that ``write`` made; raises ProblemError if it is unreadable, or from another problem
    or version."""
    with reading(Path(path), _AGAIN) as file:
        arrays: dict[str, Array] = read_npz(file)
        document = msgspec.json.decode(arrays[_DOCUMENT].tobytes(), type=dict[str, Any])
        for what, own in (("version", __version__), ("problem", problem.name)):
            if document[what] != own:
                raise ProblemError(f"{path} is of {what} {document[what]!r}, and this is {own!r}; {_AGAIN}")
        if document["digest"] != _digest({name: array for name, array in arrays.items() if name != _DOCUMENT}):
            raise ValueError("the content of the file has changed")
        problem = problem.with_(initial=document["guesses"])
        observed = msgspec.convert(document["observed"], tuple[Observed, ...])
        settings = settings_of(problem)
        known = numbers(problem, settings, np.zeros(len(problem.model.freedoms)))
        transcription = without_end(problem, settings, known, observed)
        if document["fingerprint"] != _fingerprint(transcription):
            raise ProblemError(
                f"{path} is of another model or settings than problem {problem.name!r} has now; {_AGAIN}"
            )
        transcription = transcription.with_numbers(arrays[_CONSTANTS])
        core = FixedLag.resumed(transcription, _part(arrays, _CORE))
        amounts, information = np.array(document["step_errors"]), np.array(document["information"])
        correction = StepCorrection(amounts, information.reshape(len(amounts), -1))
        findings = msgspec.convert(document["findings"], tuple[Finding, ...])
        begun = document["recording"], document["start"]
        stream = Stream(problem, settings, core, observed, *begun, correction, findings)
        stream.residual_test.restore(np.array(document["surprise"]))
        counts = Intake(**document["intake"])
        stream.samples.restore(_part(arrays, _STREAM), counts, core.first, stream.newest)
        stream.now = document["now"]
    return stream


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _digest(arrays: Mapping[str, Array]) -> str:
    """Of all numbers: a smoother continues from nothing that was changed on the way."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _fingerprint(transcription: Transcription) -> str:
    """Of the factors and the parameters with their bounds."""
    parts = [*transcription.kernels.expressions, repr(transcription.names).encode()]
    parts += [transcription.lower.tobytes(), transcription.upper.tobytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
