"""The last samples of a smoother, smoothed once more from an onset on with parameters that are others there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spookid.kernels.kernel import Array
from spookid.smoothing.smoother import FixedLagSmoother
from spookid.smoothing.stream import Mark

_APART, _LATER = 10, 50
"""Steps between two marks, of the newest and of older ones."""
_NEW, _KEPT = 200, 1000
"""Marks that are so many steps old are thinned, and forgotten."""
_NEAR = 0.5
"""Share of the time since an onset by which the first mark may lie after it to be taken for it."""


class Reruns:
    """Marks of a smoother, and the samples since."""

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
        """Keep samples that the smoother has taken."""
        self._samples.append((t, dict(values)))

    def mark(self, smoother: FixedLagSmoother) -> None:
        """Keep what the smoother remembers, now and then; called when steps have left its window."""
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
        """What data since an onset tell of parameters that are others from there on.

        Args:
            onset: [s]; the last mark before it is taken.
            values: where the parameters begin, (n_p,).
            slope: what is known of them beforehand: slope of the cost there, (n_p,), and
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
        """The last mark before an onset, or the first of all if it is not long after it."""
        before = [kept for kept in self._marks if kept[2].until <= onset]
        after = [kept for kept in self._marks if kept[2].until - onset <= _NEAR * (now - onset)]
        return before[-1] if before else next(iter(after), None)

    def adopted(self, smoother: FixedLagSmoother, values: Array, slope: Array, information: Array) -> FixedLagSmoother:
        """The smoother that goes on after a change: the last run, or if there was none, one with other parameters from
        now on, of which this is known. Marks of before are forgotten."""
        run = smoother.begun_at(smoother.mark(), values, slope, information) if self._last is None else self._last
        self._marks, self._samples, self._gone, self._last = [], [], 0, None
        return run
