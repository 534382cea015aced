"""Estimates while data come in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from os import PathLike
from typing import Any, Self

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.errors import ProblemError, shown
from spookid.kernels.kernel import Array
from spookid.results.result import Result
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.intake import Intake, checked, signals
from spookid.smoothing.opening import Opening, check_noise, from_guess, from_solution, smoothed
from spookid.smoothing.saving import read, write
from spookid.smoothing.stream import Mark, Stream
from spookid.solvers.fixed_lag import FixedLag
from spookid.solvers.lag_restart import restarted
from spookid.tables.numbers import counted

_SETTLING = 10
"""How often the first window is estimated at the most."""
_FEW = "too few samples yet"
_FIRST = 20
"""Steps from which the first states are guessed where no solution is given."""


class FixedLagSmoother:
    """Parameters and motion while data come in: a window of steps, and what has left it as information.

    The states in the window and the parameters are estimated anew with every step, from all samples in it. Steps that
    leave it are marginalized: what they tell of the parameters and of the states that follow is kept, so that estimates
    are those of all data, and neither time nor memory of an update grow. Noise keeps the size that it has in the
    beginning. ::

        first = problem.with_(recordings=[recording.between(0, 2)])
        smoother = FixedLagSmoother(first, seconds=0.2, start=first.solve())
        estimate = smoother.update(2.005, {"theta": 0.31, "u": 1.5})

    Args:
        problem: a Problem, with smooth friction.
        window: steps in the window.
        seconds: its length [s], in the place of ``window``.
        start: a Solution of the problem, which has one recording: the stream goes on behind it, and its noise, widths
            of friction, estimates and states are those to begin with. Without it the stream begins at its first sample,
            from the guesses, and the problem declares all noise.
        iterations: Gauss–Newton steps of an update at the most.

    Raises:
        ProblemError: for a window that is too short, noise whose size nobody says, or what a smoother cannot do:
            friction that sticks, inequalities, ``every``, several recordings.
    """

    def __init__(
        self,
        problem: Declaration,
        window: int | None = None,
        *,
        seconds: float | None = None,
        start: Result | None = None,
        iterations: int = 5,
    ) -> None:
        self._window, self._iterations = _steps(problem, window, seconds), iterations
        self._declared = smoothed(problem)
        self._waiting: list[tuple[float, dict[str, float]]] = []
        """What has come before there are first states."""
        self._stream: Stream | None = None
        if start is None:
            check_noise(self._declared)
        else:
            self._begin(from_solution(self._declared, start))

    def update(self, t: float, values: Mapping[str, Any]) -> OnlineEstimate:
        """Take samples of some signals, and estimate what they tell.

        Samples may come in any order: those of a step in the window count as if they had come in time, older ones are
        left out and counted in ``intake``. NaN and None are no samples.

        Args:
            t: their time [s].
            values: by the names of the signals, sensors' and inputs'.

        Raises:
            ProblemError: for an unknown signal, a value or time that is not finite, a second sample of a signal at the
                same time, or a time far ahead of all others; nothing has then been taken.
        """
        if self._stream is None:
            return self._gather(t, values)
        self._stream.take(t, values)
        return self._stream.estimate()

    @property
    def estimate(self) -> OnlineEstimate:
        """What is known now."""
        return self._unknown() if self._stream is None else self._stream.estimate()

    @property
    def intake(self) -> Intake:
        """How many samples have come, and how many of them were left out."""
        return Intake() if self._stream is None else self._stream.samples.counts

    def released(self) -> tuple[Array, Array]:
        """What has left the window since this was asked last: score (n_p,) and information (n_p, n_p) of its rows in
        the parameters, for a test whether these have changed; see ``FixedLag.released``."""
        n = len(self._declared.free)
        return (np.zeros(n), np.zeros((n, n))) if self._stream is None else self._stream.core.released()

    @property
    def released_until(self) -> float:
        """Time of the oldest step in the window [s], where what ``released`` tells ends; NaN before there is one."""
        return math.nan if self._stream is None else self._stream.time(self._stream.core.first)

    def mark(self) -> Mark:
        """What is remembered now; a smoother can begin anew there.

        Raises:
            ProblemError: before there are first states.
        """
        if self._stream is None:
            raise ProblemError(f"{self._what} has no states yet that could be kept; give more samples first")
        stream = self._stream
        arrays = stream.core.arrays(), stream.samples.arrays()
        return Mark(self.released_until, *arrays, stream.samples.counts, stream.now)

    def begun_at(self, mark: Mark, values: Array, gradient: Array, information: Array) -> FixedLagSmoother:
        """A smoother whose parameters are others from the oldest step in the window of ``mark`` on.

        Args:
            mark: of this smoother.
            values: where the parameters begin, (n_p,).
            gradient: what is known of them beforehand: slope of the cost there, (n_p,), and
            information: its curvature, (n_p, n_p).
        """
        assert self._stream is not None
        new = copy(self)
        arrays = restarted(mark.core, values, gradient, information)
        new._stream = self._stream.at(FixedLag.resumed(self._stream.core.transcription, arrays), mark)
        return new

    def save(self, path: str | PathLike[str], also: Mapping[str, Array] | None = None) -> None:
        """Write all that is remembered to a file, whole or not at all; ``resume`` reads it.

        Args:
            also: further arrays, by names, which ``resume`` leaves alone.

        Raises:
            ProblemError: before there are first states, or if the file cannot be written.
        """
        if self._stream is None:
            raise ProblemError(f"{self._what} has no states yet that could be saved; give more samples first")
        write(self._stream, path, also or {})

    @classmethod
    def resume(cls, problem: Declaration, path: str | PathLike[str]) -> Self:
        """A smoother that goes on where one was saved, with the same digits.

        Args:
            problem: the very problem that it was made with.

        Raises:
            ProblemError: for a file that cannot be read, or is one of another problem or version.
        """
        stream = read(smoothed(problem), path)
        new = cls.__new__(cls)
        new._window, new._iterations = stream.core.window, stream.core.iterations
        new._declared, new._waiting, new._stream = stream.problem, [], stream
        return new

    def __repr__(self) -> str:
        steps = f"{counted(self._window, 'step')} of {self._declared.step:g} s"
        return f"<FixedLagSmoother of {self._declared.name!r}: {steps}>"

    # --- before there are states ---

    @property
    def _what(self) -> str:
        return f"{self._declared.place}: Problem {self._declared.name!r}"

    def _begin(self, opening: Opening) -> None:
        self._stream = Stream.begun(opening, self._window, self._iterations)
        self._stream.settle(_SETTLING)

    def _gather(self, t: float, values: Mapping[str, Any]) -> OnlineEstimate:
        """Keep samples until first states can be guessed from them."""
        self._waiting.append(checked(self._what, signals(self._declared), t, values))
        recording = _together(self._waiting, signals(self._declared))
        if recording is None or recording.t[-1] - recording.t[0] < self._declared.step * min(_FIRST, self._window - 1):
            return self._unknown()
        self._begin(from_guess(self._declared, recording))
        self._waiting.clear()
        return self.estimate

    def _unknown(self) -> OnlineEstimate:
        """Before there are states."""
        problem, bodies = self._declared, len(self._declared.model.bodies)
        free, labels = problem.free, [freedom.label for freedom in problem.model.freedoms]
        none, n, m = dict.fromkeys(labels, math.nan), len(free), 2 * len(labels)
        return OnlineEstimate(
            t=math.nan,
            step=-1,
            values={p.name: problem.guess[p.name] for p in free},
            std_errs={p.name: math.nan for p in free},
            reasons={p.name: _FEW for p in free},
            units={p.name: p.unit for p in free},
            covariance=np.full((n, n), math.nan),
            positions=none,
            rates=none,
            position_errors=none,
            rate_errors=none,
            state_covariance=np.full((m, m), math.nan),
            q=np.full((bodies, 7), math.nan),
            v=np.full((bodies, 6), math.nan),
            iterations=0,
            converged=False,
            reason=_FEW,
        )


def _together(waiting: list[tuple[float, dict[str, float]]], names: frozenset[str]) -> Recording | None:
    """What has come as a recording; None if a signal has not, or all has at one time."""
    times = sorted({t for t, values in waiting if values})
    columns = {name: np.full(len(times), np.nan) for name in sorted(names)}
    for t, values in waiting:
        for name, value in values.items():
            columns[name][times.index(t)] = value
    if len(times) < 2 or not all(np.any(np.isfinite(column)) for column in columns.values()):
        return None
    return Recording(np.array(times), columns, "stream", several_clocks=True)


def _steps(problem: Declaration, window: object, seconds: object) -> int:
    """Of the window."""
    what = f"{problem.place}: Problem {problem.name!r}"
    if (window is None) == (seconds is None):
        raise ProblemError(f"{what}: give a smoother either window=, in steps, or seconds=")
    if seconds is not None:
        if not (isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0):
            raise ProblemError(f"{what}: seconds is {shown(seconds)}; give the length of the window, more than 0 s")
        return max(round(float(seconds) / problem.step), 1)
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ProblemError(f"{what}: window is {shown(window)}; give a whole number of steps, or seconds=")
    return window
