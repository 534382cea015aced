"""What has come of a problem before there are first states, or behind a gap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import listing
from spookid.kernels.precision import AT_STEP
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.smoothing.estimate import FEW, OnlineEstimate
from spookid.smoothing.initialization import Initialization, from_guess
from spookid.smoothing.intake import Intake, checked, refuse_second, signals
from spookid.smoothing.stream import Stream, longest_gap

_FIRST, _LEAST = 20, 2
"""Steps from which the first states are initialized, at the most and at the least."""
_KEPT = 10
"""Times as long as that is kept while a signal does not come."""


class Waiting:
    """Samples that are collected until the first states can be initialized.

    Args:
        problem: as it is smoothed, with all noise declared.
        window: steps of the window, in which the first states have to fit.
        corrects: True if a fit of the problem would take from its estimates what steps of h add.
    """

    def __init__(self, problem: Problem, window: int, *, corrects: bool = False) -> None:
        self._problem, self._steps = problem, max(min(_FIRST, window - 1), _LEAST)
        self._signals, self._corrects = signals(problem), corrects
        self._gap = longest_gap(window) * problem.step
        self._come: dict[float, dict[str, float]] = {}
        """By their times."""
        self._last: dict[str, float] = {}
        """The latest time of each signal that has come."""
        self.before: Stream | None = None
        """What there was before a gap."""
        self.counts = Intake()
        """Of the samples before, and of those left out since."""

    @classmethod
    def behind(cls, stream: Stream) -> Self:
        """Make an object that waits after a gap: parameters and noise are those of the stream before it."""
        values = dict(zip(stream.core.transcription.names, stream.core.parameters.tolist(), strict=True))
        new = cls(stream.problem.with_(initial={**stream.problem.initial, **values}), stream.core.window)
        new.before, new.counts = stream, stream.counts
        return new

    def take(self, t: float, values: Mapping[str, Any]) -> Initialization | None:
        """Add samples; returns the first states as soon as there are enough samples."""
        what = self._problem.what
        time, finite = checked(what, self._signals, t, values)
        known = self._come.get(time, {})
        refuse_second(what, time, (name for name in finite if name in known))
        if self.before is not None and time <= self.before.now:
            late = self.counts.late + len(finite)
            self.counts = replace(self.counts, samples=self.counts.samples + len(finite), late=late)
            return None
        if not finite:
            return None
        latest = max(self._come, default=time)
        if time < latest - self._gap:
            self._leave_out(len(finite))
            return None
        if time > latest + self._gap:  # nothing would tell of the motion between
            self._leave_out(sum(map(len, self._come.values())))
            self._come, self._last = {}, {}
        self._come[time] = {**known, **finite}
        self._last |= {name: max(time, self._last.get(name, time)) for name in finite}
        if self._missing:
            self._forget()
            return None
        begin = self._begin()
        if max(self._come) - begin < self._problem.step * (self._steps - AT_STEP):
            return None
        recording = self._together(begin)
        shown = self._signals.intersection(channel.signal for channel in self._problem.channels)
        return self._initial(recording) if all(np.any(np.isfinite(recording.signal(name))) for name in shown) else None

    @property
    def _missing(self) -> list[str]:
        """Signals that have not come."""
        return sorted(self._signals - self._last.keys())

    def _forget(self) -> None:
        """Samples that are too old to begin with."""
        span = self._problem.step * self._steps
        latest = max(self._last.values())
        if latest - next(iter(self._come)) > 2 * _KEPT * span:
            kept = {t: values for t, values in self._come.items() if t >= latest - _KEPT * span}
            left = sum(map(len, self._come.values())) - sum(map(len, kept.values()))
            self._come = kept
            self._last = {name: t for name, t in self._last.items() if t >= latest - _KEPT * span}
            self._leave_out(left)

    def _leave_out(self, count: int) -> None:
        """Count samples from before the first states."""
        self.counts = replace(self.counts, samples=self.counts.samples + count, early=self.counts.early + count)

    def _begin(self) -> float:
        """From when on all inputs act [s]."""
        first, guess = min(self._come), self._problem.guess
        for one in self._problem.model.inputs:
            stamp = min(t for t, values in self._come.items() if one.signal in values)
            first = max(first, stamp + number(one.delay, guess))
        return first

    def _together(self, begin: float) -> Recording:
        """What has come from a time on, as a recording."""
        times = np.array(sorted(self._come))
        columns = {n: np.array([self._come[t].get(n, np.nan) for t in times.tolist()]) for n in sorted(self._signals)}
        name = "stream" if self.before is None else self.before.recording
        whole = Recording(times, columns, name, several_clocks=True)
        return whole if begin <= times[0] else whole.between(begin, times[-1])

    def _initial(self, recording: Recording) -> Initialization:
        if self.before is None:
            initial = from_guess(self._problem, recording)
            return replace(initial, findings=(_with_steps(self._problem.step),)) if self._corrects else initial
        return from_guess(self._problem, recording, self.before.core.transcription.constants)

    def estimate(self) -> OnlineEstimate:
        """Present estimate: unknown, or the parameters from before a gap."""
        problem, bodies = self._problem, len(self._problem.model.bodies)
        free, labels = problem.free, [freedom.label for freedom in problem.model.freedoms]
        none, n, m = dict.fromkeys(labels, math.nan), len(free), 2 * len(labels)
        missing = self._missing if self._last else []
        reason = f"no sample of signal {listing(missing)} has arrived yet" if missing else FEW
        nothing: dict[str, Any] = {
            "t": math.nan,
            "step": -1,
            "positions": none,
            "rates": none,
            "position_errors": none,
            "rate_errors": none,
            "state_covariance": np.full((m, m), math.nan),
            "q": np.full((bodies, 7), math.nan),
            "v": np.full((bodies, 6), math.nan),
            "iterations": 0,
            "converged": False,
        }
        if self.before is not None:
            gap = f"the states are estimated anew after the gap in the data at {self.before.now:.6g} s, and {reason}"
            return replace(self.before.estimate(), **nothing, reason=gap)
        return OnlineEstimate(
            **nothing,
            values={p.name: problem.guess[p.name] for p in free},
            std_errs={p.name: math.nan for p in free},
            reasons={p.name: reason for p in free},
            units={p.name: p.unit for p in free},
            covariance=np.full((n, n), math.nan),
            reason=reason,
        )


def _with_steps(step: float) -> Finding:
    """That estimates are not those of continuous time."""
    effect = f"Estimates contain the discretization error of the time step {step:g} s, which a fit would remove."
    advice = "Give start=, a solution of the first seconds: it determines this error."
    return Finding("step.uncorrected", (), {"step": step}, effect, advice=advice)
