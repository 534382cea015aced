"""A smoother that says when a parameter has changed, and smooths the last samples once more from there on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from spookid.argument_checks import Checked
from spookid.assembly.problem import Problem
from spookid.data.logs.tables import read_npz
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.results.folders import reading
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.smoother import FixedLagSmoother
from spookid.smoothing.stream import Mark
from spookid.statistics.changes import Change, ChangeDetector
from spookid.statistics.score_history import Knowledge

_OWN, _BLIND = "changes ", "blind until"
"""How the names of its test's arrays begin in the file of its smoother, and that of the time until when an input had
stopped."""


class Monitor(metaclass=Checked):
    """Online estimator that detects changes of parameters while data arrive. ::

        monitor = Monitor(FixedLagSmoother(problem, seconds=0.2, start=solution))
        estimate = monitor.update(2.005, {"theta": 0.31, "u": 1.5})
        for change in monitor.changes:
            print(change.words())

    If steps that leave the window indicate a change, the data since then are smoothed once more, with other parameters
    from there on. A change is reported if these data confirm it. Earlier knowledge of the parameter is then discarded:
    estimates and test continue with the data since the change, and with all data for the others. An update that tests a
    change takes as long as all updates since it. Nothing is reported in the first 230 steps, before the scatter of the
    estimates is known. While an input has stopped, forces are wrong: the data are discarded, and no change is looked
    for there.

    Args:
        smoother: a smoother, whose samples pass through ``update`` from now on.
        false_alarms: expected false alarms per day of data, if the noise is white with the standard deviations of the
            smoother.

    Raises:
        ProblemError: if ``false_alarms`` is not positive, or the smoother is one of a Graph.
    """

    def __init__(self, smoother: FixedLagSmoother, *, false_alarms: float = 1.0) -> None:
        ChangeDetector((), np.zeros(0), 0.0, false_alarms=false_alarms)  # refuses a wrong one at once
        if smoother.is_of_graph:
            raise ProblemError(f"{smoother!r} is one of a graph, whose changes are not tested; watch that of a Problem")
        self.smoother = smoother
        self.changes: list[Change] = []
        """What has been found, in time order."""
        self._false_alarms = false_alarms
        self._detector: ChangeDetector | None = None
        self._until = self._blind = -np.inf
        """Until when data have been tested, and until when an input had stopped [s]."""
        self._reruns = Reruns()
        self._look()

    def update(self, t: float, values: Mapping[str, Any]) -> OnlineEstimate:
        """Add samples; see ``FixedLagSmoother.update``. A change that they reveal is the last of ``changes``."""
        estimate = self.smoother.update(t, values)
        self._reruns.take(t, values)
        return self._look() or estimate

    def _look(self) -> OnlineEstimate | None:
        """Test what has left the window; a new estimate if something has changed."""
        until = self.smoother.released_until
        if not until > self._until:
            return None
        self._until, (slope, information) = until, self.smoother.released()
        estimate = self.smoother.estimate
        values = estimate.values
        at = np.array(list(values.values()))
        if estimate.stopped:
            self._blind = estimate.t
        if self._detector is not None and until <= self._blind:
            return None
        if self._detector is None:
            known = -slope, information
            bounds, rate = self.smoother.bounds, self._false_alarms
            self._detector = ChangeDetector(tuple(values), at, until, *known, bounds=bounds, false_alarms=rate)
            self._detector.rerun = self._since
            return None
        if self._blind > -np.inf:
            self._blind = -np.inf
            return self._begun_anew(until)
        self._reruns.mark(self.smoother)
        change = self._detector.add(until, at, -slope, information)
        if change is None:
            return None
        self.changes.append(change)
        at[self._detector.names.index(change.parameter)] = change.after
        return self._begun_at(at)

    def _begun_anew(self, until: float) -> OnlineEstimate:
        """Forget what was told while an input had stopped, until a time [s]: it is of wrong forces."""
        detector = self._detector
        assert detector is not None
        detector.passed_over(until)
        at = np.clip(detector.reference + Knowledge(*detector.knowledge).solved, *self.smoother.bounds)
        return self._begun_at(at)

    def _begun_at(self, at: Array) -> OnlineEstimate:
        """Continue with what the test knows of the parameters, from these values."""
        assert self._detector is not None
        score, information = self._detector.knowledge
        slope = information @ (at - self._detector.reference) - score
        self.smoother = self._reruns.adopted(self.smoother, at, slope, information)
        return self.smoother.estimate

    def _since(self, onset: float, *known: Array) -> tuple[float, Array, Array, Array] | None:
        return self._reruns.since(onset, self.smoother, *known)

    def save(self, path: str | PathLike[str], also: Mapping[str, Any] | None = None) -> None:
        """Write smoother and test to a file, completely or not at all; ``resume`` reads it. Earlier changes are not in
        the file, and their data cannot be smoothed again.

        Args:
            also: further arrays, by names, which ``resume`` leaves alone.

        Raises:
            ProblemError: before there are first states, or if the file cannot be written.
        """
        arrays = {} if self._detector is None else self._detector.arrays()
        own = {f"{_OWN}{name}": array for name, array in arrays.items()}
        self.smoother.save(path, {**(also or {}), **own, _BLIND: np.array(self._blind)})

    @classmethod
    def resume(cls, problem: Problem, path: str | PathLike[str]) -> Self:
        """Return a monitor that continues where another one was saved.

        Args:
            problem: the very problem that its smoother was made with.

        Raises:
            ProblemError: for a file that cannot be read, or that is of another problem or version, or has no test.
        """
        smoother = FixedLagSmoother.resume(problem, path)
        with reading(Path(path), "begin a new smoother") as file:
            archive = read_npz(file)
            arrays = {n.removeprefix(_OWN): archive[n] for n in archive if n.startswith(_OWN)}
            if not arrays:
                raise ProblemError(f"{path} holds a smoother and no test of changes; read it with FixedLagSmoother")
            detector, blind = ChangeDetector.resumed(tuple(smoother.estimate.values), arrays), float(archive[_BLIND])
        new = cls.__new__(cls)
        new.smoother, new.changes, new._detector = smoother, [], detector
        new._false_alarms, new._until, new._reruns = detector.false_alarms, smoother.released_until, Reruns()
        detector.rerun, new._blind = new._since, blind
        return new


_APART, _LATER = 10, 50
"""Steps between two marks, of the newest and of older ones."""
_NEW, _KEPT = 200, 1000
"""Marks that are so many steps old are thinned, and forgotten."""
_NEAR = 0.5
"""Share of the time since a change point by which the first mark may lie after it to be taken for it."""


class Reruns:
    """Saved states of a smoother, with the samples since then, to repeat the estimation from a change point."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, Mapping[str, Any]]] = []
        self._gone = 0
        """How many samples are no longer kept."""
        self._marks: list[tuple[int, int, Mark]] = []
        """Number of the first sample that each does not know, steps until then, and the mark."""
        self._steps = 0
        self._last: FixedLagSmoother | None = None
        """The last run."""

    def take(self, t: float, values: Mapping[str, Any]) -> None:
        """Store samples that the smoother has received."""
        self._samples.append((t, dict(values)))

    def mark(self, smoother: FixedLagSmoother) -> None:
        """Save the smoother's state from time to time; called when steps have left its window."""
        self._steps += 1
        if self._steps % _APART:
            return
        self._marks.append((self._gone + len(self._samples), self._steps, smoother.mark()))
        self._marks = [
            kept
            for kept in self._marks
            if (age := self._steps - kept[1]) < _NEW or (age < _KEPT and kept[1] % _LATER == 0)
        ]
        drop = self._marks[0][0] - self._gone
        del self._samples[:drop]
        self._gone += drop

    def since(
        self, onset: float, smoother: FixedLagSmoother, values: Array, slope: Array, information: Array
    ) -> tuple[float, Array, Array, Array] | None:
        """Estimate the parameters that change at a change point, from later data.

        Args:
            onset: change point [s]; the last mark before it is taken.
            values: where the parameters begin, (n_p,).
            slope: their prior: slope of the cost there, (n_p,), and
            information: its curvature, (n_p, n_p).

        Returns:
            When the run begins [s], values, and score and information of the data there; None if nothing is kept of
            so long ago.
        """
        kept = self._kept(onset, smoother.released_until)
        if kept is None:
            self._last = None
            return None
        number, _, mark = kept
        self._last = run = smoother.begun_at(mark, values, slope, information)
        for t, samples in self._samples[number - self._gone :]:
            run.update(t, samples)
        slope, information = run.released()
        return mark.until, np.array(list(run.estimate.values.values())), -slope, information

    def _kept(self, onset: float, now: float) -> tuple[int, int, Mark] | None:
        """The last mark before a change point, or the first of all if it is not long after it."""
        before = [kept for kept in self._marks if kept[2].until <= onset]
        after = [kept for kept in self._marks if kept[2].until - onset <= _NEAR * (now - onset)]
        return before[-1] if before else next(iter(after), None)

    def adopted(self, smoother: FixedLagSmoother, values: Array, slope: Array, information: Array) -> FixedLagSmoother:
        """Return the smoother that continues after a change: that of the last rerun, otherwise one with other
        parameters from now on and this prior. Earlier saved states are deleted."""
        here = replace(smoother.mark(), walks=np.zeros((0, 0)))  # forces may have been wrong
        run = smoother.begun_at(here, values, slope, information) if self._last is None else self._last
        self._marks, self._samples, self._gone, self._last = [], [], 0, None
        return run
