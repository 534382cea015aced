"""Detection of parameter changes in a stream of scores, by a generalized likelihood-ratio test.

Blocks of data b have scores s_b and information I_b in the parameters at a reference. Let A be all blocks before a
change point and B all blocks after it. If only parameter j changes, by δ at the change point,

    s_A = I_A d + noise,    s_B = I_B (d + δ e_j) + noise,

where d, the distance of the parameters from the reference, is unknown. With I = I_A + I_B, s = s_A + s_B and d
eliminated, δ has the score and the information

    u = (s_B − I_B I⁻¹ s)_j,    v = (I_B − I_B I⁻¹ I_B)_jj,    δ = u/v ± 1/√v,    z = u/√v,

z is standard normal without a change, for any reference and any prior information, because v contains the uncertainty
of all parameters. The test statistic is the largest z over all stored change points and all parameters (Basseville and
Nikiforov, Detection of Abrupt Changes, 1993, section 2.4.3).

**Threshold.** With ``false_alarms`` a day, an evaluation after time Δ may raise false_alarms · Δ/day. It tests each
change point and parameter on both sides, with the sum of all probabilities as bound (Bonferroni). Neighbouring tests
are strongly correlated, so that there are far fewer false alarms than stated if the noise is white with the fitted
variance.

**Model error.** Unmodelled effects make scores scatter by more than I, permanently. The variance of z is multiplied by

    max(1, scatter of past blocks as long as B, scatter of single blocks of B about their mean · growth),

where growth is the ratio of the scatter of past blocks as long as B to that of single blocks
(``score_history.Scatter``). Outliers, or a sensor that becomes noisier, are therefore no change of a parameter. A
change point needs 20 blocks after it. The scatter of past blocks is itself an estimate: z is converted from Student's
t, with as many degrees of freedom as there are past blocks of that length. Few changes are therefore reported early,
and none in the first 230 blocks.

**Memory.** After a change, the states of the filter depend on the old parameters for a while, which biases the scores.
Once z exceeds the threshold, the data since the change point are therefore filtered again (``rerun``), with free states
and changed parameters, and replace s_B and I_B. The change point is the likeliest of those whose z exceeds the
threshold; of it and earlier ones the latest that still exceeds it is taken. A change is reported if two such
evaluations, the second after 0.4 times the time since the change point, find the same parameter unambiguously. The
likelihood names the parameter, without the scatter: where the model is wrong in one parameter, z of this one is
smallest, and others would be named for its changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.statistics.score_history import Block, History, Knowledge, Split, normalized
from spookid.statistics.whiteness import SURE
from spookid.tables.table import quantity, uncertain

DAY = timedelta(days=1).total_seconds()
_LEAST = 20
"""Fewest blocks after a change point."""
_EVERY = 10
"""Blocks between two evaluations."""
_PATIENCE = 0.4
"""Waiting time before a change point is evaluated again, relative to the time since it."""
Rerun: TypeAlias = Callable[[float, Array, Array, Array], tuple[float, Array, Array, Array] | None]


@dataclass(frozen=True)
class Change:
    """A parameter that has changed."""

    parameter: str
    since: float
    """Change point [s], by the log's timestamps."""
    told: float
    """Timestamp of the data that showed it [s]."""
    before: float
    """Value before, in the parameter's unit."""
    after: float
    """Value since, likewise; within its bounds."""
    change: float
    """``after`` less ``before``."""
    error: float
    """Standard error of ``change``, with the scatter of model errors."""
    share: float
    """``change`` over the size of ``before``; NaN where ``before`` is less than three standard errors from zero."""
    share_error: float
    """Standard error of ``share``."""
    z: float
    """Standard errors by which it is seen; the threshold is some 6."""
    others: tuple[str, ...] = ()
    """Parameters whose change would explain the data nearly as well: less than twenty times less likely."""

    def words(self, name: str = "", unit: str = "", clock: Callable[[float], str] = "{:.6g} s".format) -> str:
        """Description of a change in one line, such as ``friction of elbow +12.1 ± 2.9 % since 14:02``.

        Args:
            name: what the parameter is called, by default its name.
            unit: of the parameter.
            clock: format of a timestamp.
        """
        if np.isfinite(self.share):
            size = f"{_signed(100 * self.share, 100 * self.share_error)} %"
        else:
            size = f"{_signed(self.change, self.error)} {unit}".rstrip()
            size += f" (it was {quantity(self.before, unit)})"
        others = f"; or, nearly as likely, {' or '.join(self.others)}" if self.others else ""
        return f"{name or self.parameter} {size} since {clock(self.since)}{others}"


def _signed(value: float, error: float) -> str:
    text = uncertain(value, error)
    return text if value < 0 else text.replace("(", "(+", 1) if text.startswith("(") else f"+{text}"


class ChangeDetector:
    """Detector of parameter changes, which processes the blocks of a stream one after another.

    After a change the test continues with the changed value as reference: earlier information about that parameter is
    dropped, and that about the others is kept.

    Args:
        names: of the parameters, n.
        reference: values about which scores are summed, (n,); those of a fit.
        start: time of the beginning of the first block [s].
        rerun: takes a change point, values and what is known there of the parameters before it (slope of the cost,
            (n,), and curvature, (n, n)), and gives a change point near by, values, and score and information there of
            the data since then for parameters that have changed at that change point; None if it has them no more.
            Scores of a filter that did not know of the change remember for a while what was before; these do not.
        score: at the reference, of what was known before, (n,).
        information: likewise, (n, n).
        bounds: least and largest values of the parameters, each (n,): an effect that only a value far outside explains
            is not reported as a change.
        false_alarms: at the most, a day of data.

    Raises:
        ProblemError: if ``false_alarms`` is not positive.
    """

    def __init__(
        self,
        names: Sequence[str],
        reference: Array,
        start: float,
        score: Array | None = None,
        information: Array | None = None,
        *,
        bounds: tuple[Array, Array] | None = None,
        false_alarms: float = 1.0,
        rerun: Rerun | None = None,
    ) -> None:
        self.names, self.rerun = tuple(names), rerun
        self.reference = np.array(reference, dtype=float)
        given: object = false_alarms
        if not (isinstance(given, Real) and 0 < float(given) < math.inf):
            raise ProblemError(
                f"false_alarms is {shown(false_alarms)}; give an expected number of false alarms per day, such as 1"
            )
        self.false_alarms = float(false_alarms)
        n = len(self.names)
        self._lower, self._upper = np.outer([-np.inf, np.inf], np.ones(n)) if bounds is None else np.array(bounds)
        known = np.zeros(n) if score is None else score, np.zeros((n, n)) if information is None else information
        self._history = History(Block.single(float(start), *known))
        self._distance = np.zeros(n)
        self._last, self._shortest, self._new = float(start), np.inf, 0
        self._again = -np.inf
        """Time before which no change point is evaluated again [s]."""
        self._candidate = -1
        """Which parameter the last look has found to have changed, if any."""

    def add(self, until: float, at: Array, score: Array, information: Array) -> Change | None:
        """The next block.

        Args:
            until: time at which its data end [s].
            at: parameters where the score was taken, (n,).
            score: gradient of the logarithm of the likelihood in the parameters, (n,).
            information: its expected negative slope, (n, n).

        Returns:
            A change, once, when it is found.
        """
        score = score + information @ (at - self.reference)
        self._history.add(Block.single(until, score, information), self._distance)
        self._shortest, self._last = min(self._shortest, until - self._last), float(until)
        self._new += 1
        if self._new < _EVERY:
            return None
        elapsed, self._shortest, self._new = self._new * self._shortest, np.inf, 0  # a gap in the log is no data
        return self._evaluated(elapsed)

    @property
    def knowledge(self) -> tuple[Array, Array]:
        """Score at the reference, (n,), and information, (n, n), of all present data on the parameters; for a changed
        parameter, of data since its change point."""
        blocks = [self._history.base, *self._history]
        return np.sum([b.score for b in blocks], axis=0), np.sum([b.information for b in blocks], axis=0)

    def passed_over(self, until: float) -> None:
        """Skip the data until a given time, before which no change point is searched."""
        known = Knowledge(*self.knowledge)
        self._last = float(until)
        self._restart(self._last, known, self._last)

    def _evaluated(self, elapsed: float) -> Change | None:
        onsets = _Onsets(self._history, self._distance)
        self._distance = onsets.distance
        z = np.abs(onsets.standardized)
        tests = np.count_nonzero(z)
        if not tests:
            return None
        threshold = -float(special.ndtri(min(self.false_alarms * elapsed / DAY / (2 * tests), 0.5)))
        if np.max(z) < threshold or self._last < self._again:
            return None
        k = int(np.argmax(np.max(np.where(z < threshold, 0.0, onsets.gains), axis=1)))
        split = onsets.split(k)
        exact = self._reruns(onsets, k, threshold)
        if not self._is_told(split if exact is None else exact, threshold, exact is None):
            self._again = self._last + _PATIENCE * (self._last - split.since)
            return None
        self._candidate = -1
        if exact is None:
            self._restart(split.since, split.kept, split.since)
            return self._change(split)
        exact = self._rerun(exact, exact.kept.plus(exact.later), exact.kept) or exact
        self._restart(self._last, exact.kept.plus(exact.later), exact.since)
        return self._change(exact)

    def _restart(self, until: float, known: Knowledge, onset: float) -> None:
        """Go on with what is known until a time, and the blocks since; what was measured after a change point is
        dropped."""
        self._history = self._history.restarted(Block.single(until, known.score, known.information), onset)
        score, information = self.knowledge
        self._distance = Knowledge(score, information).solved

    def _reruns(self, onsets: _Onsets, k: int, threshold: float) -> Split | None:
        """The latest change point that shows a change by data that are smoothed once more, of this one and earlier
        ones: what a filter remembers makes a change point seem later than it was. None if none can be smoothed once
        more."""
        exact = None
        for back in (0.0, 0.5, 1.0):  # shares of the time since, by which it may have been earlier
            since = onsets.since[k] - back * (self._last - onsets.since[k])
            split = onsets.split(max(int(np.searchsorted(onsets.since, since, "right")) - 1, 0))
            exact = self._rerun(split, split.earlier, split.earlier) or exact
            if exact is not None and exact.exceeds(threshold):
                return exact
        return exact

    def _is_told(self, split: Split, threshold: float, at_once: bool) -> bool:
        """True if there is a change, and, unless it is to be told at once, the look before has found the same one."""
        j = split.strongest
        after, margin = self.reference[j] + split.before(j)[0] + split.change(j), SURE * split.error(j)
        possible = self._lower[j] - margin <= after <= self._upper[j] + margin  # the bounds, or may be for its error
        tells = possible and split.tells(threshold)
        before, self._candidate = self._candidate, split.strongest if tells else -1
        return self._candidate >= 0 and (at_once or before == self._candidate)

    def _rerun(self, split: Split, best: Knowledge, known: Knowledge) -> Split | None:
        """With what data after the change point tell exactly of changed parameters that begin where ``best`` puts them,
        of which ``known`` is known beforehand."""
        if self.rerun is None:
            return None
        distance = best.solved
        slope = known.information @ distance - known.score
        found = self.rerun(split.since, self.reference + distance, slope, known.information)
        if found is None:
            return None
        since, at, score, information = found
        later = Knowledge(score + information @ (at - self.reference), information)
        return replace(split, since=since, later=later)

    def _change(self, split: Split) -> Change:
        j = split.strongest
        change, error = split.change(j), split.error(j)
        before, known = split.before(j)
        before += float(self.reference[j])
        after = min(max(before + change, float(self._lower[j])), float(self._upper[j]))
        size = abs(before) if abs(before) > SURE * known else math.nan
        return Change(
            self.names[j],
            split.since,
            self._last,
            before,
            after,
            after - before,
            error,
            (after - before) / size,
            error / size,
            abs(float(split.z[j])),
            tuple(name for i, name in enumerate(self.names) if i != j and split.is_near(i)),
        )

    def arrays(self) -> dict[str, Array]:
        """Arrays to save; ``resumed`` continues from them, with the names, to the same digits."""
        numbers = np.array([self.false_alarms, self._last, self._shortest, self._again, self._candidate, self._new])
        return {
            "reference": self.reference,
            "distance": self._distance,
            "bounds": np.array([self._lower, self._upper]),
            "numbers": numbers,
            **self._history.arrays(),
        }

    @classmethod
    def resumed(cls, names: Sequence[str], arrays: Mapping[str, Any]) -> ChangeDetector:
        """From what ``arrays`` gave."""
        false_alarms, last, shortest, again, candidate, new = map(float, arrays["numbers"])
        found = cls(names, arrays["reference"], last, bounds=tuple(arrays["bounds"]), false_alarms=false_alarms)
        found._history, found._distance = History.resumed(arrays), arrays["distance"].copy()
        found._shortest, found._again, found._candidate, found._new = shortest, again, int(candidate), int(new)
        return found


class _Onsets:
    """All change points that are kept, K, with sums over the blocks after each."""

    def __init__(self, history: History, distance: Array) -> None:
        self._base, self._blocks, self._scatter = history.base, list(history), history.scatter
        blocks = self._blocks
        self.since = np.array([self._base.until, *(b.until for b in blocks[:-1])])
        """[s], (K,)."""
        self._lengths = _after([b.length for b in blocks])
        scores, informations = np.array([b.score for b in blocks]), np.array([b.information for b in blocks])
        self._score, self._information = _after(scores), _after(informations)
        self._total = Knowledge(self._base.score, self._base.information).plus(
            Knowledge(self._score[0], self._information[0])
        )
        self.distance = self._total.solved
        """Best d without a change, (n,)."""
        self._within = self._scatter_within(scores - informations @ distance, informations)
        self._u, self._v, said = self._total.change(self._score, self._information)
        self._tested = said & (self._lengths[:, None] >= _LEAST)

    def _scatter_within(self, score: Array, information: Array) -> Array:
        """How far single blocks after each change point scatter about their mean, over what information says, (K,
        n)."""
        own = information.diagonal(axis1=1, axis2=2)
        squares = np.divide(score**2, own, out=np.zeros_like(own), where=own > 0)
        squares = _after(squares + [b.within for b in self._blocks])
        freedom = _after([b.freedom for b in self._blocks] + (own > 0)) - 1
        own, score = _after(own), _after(score)
        squares -= np.divide(score**2, own, out=np.zeros_like(own), where=own > 0)
        return np.divide(squares, freedom, out=np.ones_like(squares), where=freedom > 0)

    @property
    def standardized(self) -> Array:
        """Standardized change z of each parameter at each change point, (K, n); 0 if it cannot be computed."""
        square, growth, freedom = self._scatter.at(self._lengths)
        scatter = np.maximum(np.maximum(square, growth * self._within), 1)
        variance = np.where(self._tested, self._v * scatter, 1.0)
        return normalized(np.where(self._tested, self._u / np.sqrt(variance), 0.0), freedom)

    @property
    def gains(self) -> Array:
        """Twice the log-likelihood gain for a change of each parameter at each change point, (K, n)."""
        return np.divide(self._u**2, self._v, out=np.zeros_like(self._u), where=self._tested)

    def split(self, k: int) -> Split:
        """At one change point."""
        later = Knowledge(self._score[k], self._information[k])
        earlier = Knowledge(self._total.score - later.score, self._total.information - later.information)
        lengths = np.array([self._lengths[k], sum(b.length for b in self._blocks[:k])])
        square, _, freedom = self._scatter.at(lengths)
        scatter = np.maximum(square, 1)
        return Split(float(self.since[k]), earlier, later, scatter[0], freedom[0], scatter[1], float(lengths[0]))


def _after(values: Any) -> Array:
    """Sums from each to the last, (K, ...)."""
    return np.cumsum(np.asarray(values, dtype=float)[::-1], axis=0)[::-1]
