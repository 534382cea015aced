"""Scores of a stream of data, kept in blocks of time: recent ones singly, older ones merged, so that memory is bounded.

A block has the score s and the information I of its data in the parameters. Without a change s = I d + noise, where d
is the distance of the parameters from the reference and the noise has covariance I, independent of that of other
blocks. Blocks are merged in pairs of equal length once there are more than a few of a length (an exponential histogram:
Datar, Gionis, Indyk and Motwani, SIAM J. Comput. 31, 2002), so that n blocks are kept as some 8 log2(n), and any
instant of the past is a boundary within an eighth of its age.

Unmodelled effects make scores scatter by more than I, mostly more for longer blocks, because they are autocorrelated.
``Scatter`` estimates this excess. Data that are split at a change point (``Split``) show which parameter changed there,
and by how much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import NO_INFORMATION, TINY
from spookid.records import dataclass

_PER_LENGTH = 8
"""Blocks of one length that are not merged."""
_ENOUGH = 30
"""Blocks of a length that suffice to estimate their scatter; that of longer blocks is extrapolated."""
_CLIP, _SHARE = 16.0, 0.1
"""Times the mean so far, and share of what the mean is made of, that a single square counts at the most, whichever is
more: an outlier must not blind the test for hours."""
_LEAST = 1e-3
"""Mean square that single blocks of data scatter by at the least."""
_DEVIATIONS = 2.0
"""Standard errors by which a ratio of mean squares may be larger than it was seen to be."""
_LATER = 200
"""Blocks after which a square is learnt from: a change must be found before it is taken for scatter."""
_COLUMNS = ("until", "length", "score", "information", "within", "freedom")
"""Fields of a block."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Score and information on n parameters of the data between two times, at the reference."""

    until: float
    """When it ends [s]; it begins where the one before ends."""
    length: float
    """How many single ones it is made of."""
    score: Array
    """s, (n,)."""
    information: Array
    """I, (n, n)."""
    within: Array
    """Sum of squares, in standard errors, by which the blocks it is made of differ in each parameter, (n,)."""
    freedom: Array
    """Degrees of freedom of ``within``, (n,)."""

    @classmethod
    def single(cls, until: float, score: Array, information: Array) -> Block:
        """Block that was not merged with another."""
        return cls(until, 1.0, score, information, np.zeros(len(score)), np.zeros(len(score)))

    def merged(self, later: Block, distance: Array) -> Block:
        """Merge two blocks; ``distance`` is the best d so far, (n,)."""
        first, second = self.deviation(distance), later.deviation(distance)
        here, there = self.information.diagonal(), later.information.diagonal()
        known = (here > 0) & (there > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = (first / here - second / there) ** 2 * (here * there / (here + there))
        return Block(
            later.until,
            self.length + later.length,
            self.score + later.score,
            self.information + later.information,
            self.within + later.within + np.where(known, square, 0.0),
            self.freedom + later.freedom + known,
        )

    def deviation(self, distance: Array) -> Array:
        """s − I d, (n,)."""
        return np.asarray(self.score - self.information @ distance)


class Scatter:
    """Scatter of the scores about the fitted change, over the information I, for each block length and parameter.

    Of blocks of 1, 2, 4 ... it keeps the mean of (s − I d)²/I, and of how far single blocks scatter within them: both
    are 1 where the model fits, their ratio is where noise is white, whatever its size (a variance ratio: Lo and
    MacKinlay, 1988). A single square counts as 16 times the mean before it at the
    most, or as a tenth of all that is in the mean.
    """

    def __init__(self, parameters: int) -> None:
        self._means = np.ones((0, 2, parameters))
        self._counts = np.zeros((0, parameters))

    def add(self, measured: Array) -> None:
        """Add a block of 2^level single blocks. ``measured``: the level; (s − I d)² over its expectation, (n,); mean
        square of the scatter of its single blocks, likewise, (n,); and 1 for parameters on which it has information,
        else 0, (n,)."""
        level, (square, within, known) = int(measured[0]), measured[1:].reshape(3, -1)
        if level == len(self._means):
            self._means = np.concatenate([self._means, np.ones((1, *self._means.shape[1:]))])
            self._counts = np.concatenate([self._counts, np.zeros((1, self._counts.shape[1]))])
        mean, count = self._means[level], self._counts[level]
        count += known
        most = np.maximum(_CLIP, _SHARE * count) * np.maximum(mean, 1)
        mean += (np.minimum([square, within], most) - mean) * (known / np.maximum(count, 1))

    def at(self, lengths: Array) -> tuple[Array, Array, Array]:
        """How blocks of so many single ones, (K,), are expected to scatter, (K, n) each: mean square over what
        information says, that over what single blocks scatter within them, and degrees of freedom of the first. Beyond
        the lengths that are known scatter grows per doubling as the ratio may do there at the most: what has not been
        seen to be white is not taken for it."""
        shape = len(lengths), self._counts.shape[1]
        square, growths, freedom = np.ones(shape), np.ones(shape), np.zeros(shape)
        places = np.log2(np.maximum(lengths, 1))
        for j, counts in enumerate(self._counts.T):
            known = int(np.count_nonzero(np.logical_and.accumulate(counts >= _ENOUGH)))
            if known:
                squares, within = np.log2(np.maximum(self._means[:known, :, j], _LEAST)).T
                ratios = np.clip(squares - within, 0, 2 * np.arange(known))  # a single block has no others within
                most = ratios[-1] + _DEVIATIONS * np.sqrt(2 / counts[known - 1]) / np.log(2)
                slope = min(most / (known - 1), 1.0) if known > 1 else 1.0  # 1: what lasts for ever
                growth = slope * np.maximum(places - (known - 1), 0)
                for mean, values in ((square, squares), (growths, ratios)):
                    mean[:, j] = np.exp2(np.interp(places, np.arange(known), values) + growth)
                freedom[:, j] = np.interp(places, np.arange(known), counts[:known])
        return square, growths, freedom

    def arrays(self) -> dict[str, Array]:
        """To be saved."""
        return {"scatter_means": self._means, "scatter_counts": self._counts}

    @classmethod
    def resumed(cls, arrays: Mapping[str, Any]) -> Scatter:
        """From what ``arrays`` gave."""
        found = cls(arrays["scatter_counts"].shape[1])
        found._means, found._counts = arrays["scatter_means"].copy(), arrays["scatter_counts"].copy()
        return found


class History:
    """Blocks from old to new. The first block ``base`` contains all data before the oldest remaining boundary.
    ``base``: earlier information."""

    def __init__(self, base: Block, scatter: Scatter | None = None) -> None:
        self.base = base
        self.scatter = scatter or Scatter(len(base.score))
        self._levels: list[list[Block]] = []
        self._total = base.information.copy()
        self._count = 0
        """Single blocks so far."""
        self._measured: deque[Array] = deque()
        """Squares that are too new to be learnt from: count and time at which each was made, and the rest."""

    def add(self, block: Block, distance: Array) -> None:
        """Add the newest block; ``distance`` is the best d so far, (n,)."""
        self._total += block.information
        self._count += 1
        level = 0
        while True:
            self._measure(level, block, distance)
            if level == len(self._levels):
                self._levels.append([])
            blocks = self._levels[level]
            blocks.append(block)
            if len(blocks) <= _PER_LENGTH + 1:
                break
            first, second, *self._levels[level] = blocks
            block, level = first.merged(second, distance), level + 1
        while self._measured and self._measured[0][0] + _LATER <= self._count:
            self.scatter.add(self._measured.popleft()[2:])

    def _measure(self, level: int, block: Block, distance: Array) -> None:
        """Its square over what it is expected to be: d has been found from this block, too."""
        own = block.information.diagonal()
        share = own / np.maximum(self._total.diagonal(), TINY)
        known = ((own > 0) & (share < 0.5)).astype(float)
        square = block.deviation(distance) ** 2 / np.where(known > 0, own * (1 - share), np.inf)
        within = block.within / np.maximum(block.freedom, 1)
        self._measured.append(np.concatenate([[self._count, block.until, level], square, within, known]))

    def __iter__(self) -> Iterator[Block]:
        """From old to new, without the base."""
        for blocks in reversed(self._levels):
            yield from blocks

    def restarted(self, base: Block, onset: float) -> History:
        """History with another base and the blocks after it. The scatter is kept, except what was measured after a
        change point [s]."""
        found = History(base, self.scatter)
        found._levels = [[block for block in blocks if block.until > base.until] for blocks in self._levels]
        for block in found:
            found._total += block.information
        found._count, found._measured = self._count, deque(one for one in self._measured if one[1] <= onset)
        return found

    def arrays(self) -> dict[str, Array]:
        """To be saved: the base first, then the blocks from old to new, with their levels."""
        blocks = [self.base, *self]
        levels = [-1, *(level for level in reversed(range(len(self._levels))) for _ in self._levels[level])]
        stacked = {f"blocks_{name}": np.array([getattr(block, name) for block in blocks]) for name in _COLUMNS}
        more = {"total": self._total, "count": np.array(self._count), "measured": np.array(self._measured)}
        return {"blocks_level": np.array(levels), **more, **stacked, **self.scatter.arrays()}

    @classmethod
    def resumed(cls, arrays: Mapping[str, Any]) -> History:
        """From what ``arrays`` gave."""
        columns = [arrays[f"blocks_{name}"] for name in _COLUMNS]
        base, *blocks = (Block(float(t), float(n), *rest) for t, n, *rest in zip(*columns, strict=True))
        found = cls(base, Scatter.resumed(arrays))
        levels = arrays["blocks_level"][1:]
        found._levels = [[] for _ in range(int(max(levels, default=-1)) + 1)]
        for level, block in zip(levels, blocks, strict=True):
            found._levels[level].append(block)
        found._total, found._count = arrays["total"].copy(), int(arrays["count"])
        found._measured = deque(arrays["measured"])
        return found


_CLEARLY = 6.0
"""Squared z by which a parameter must explain a change better than any other: twenty times as likely (2 log 20)."""
_SURE = 2.0
"""Multiple of the squared threshold from which a change with two equally likely parameters is reported, later."""
_LOST = 1e-8
"""Share of the information in B below which what is left after elimination is rounding."""


def normalized(t: Array, freedom: Array) -> Array:
    """Normal z with the same tail probability as Student's t with so many degrees of freedom; 0 if there are none
    (Wallace, Ann. Math. Statist. 30, 1959, with errors of about 1 % in the far tail)."""
    known = np.maximum(freedom, 1e-9)
    size = (8 * known + 1) / (8 * known + 3) * np.sqrt(known * np.log1p(t**2 / known))
    return np.asarray(np.where(freedom > 0, np.copysign(size, t), 0.0))


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Information of some data on the parameters: score and information matrix."""

    score: Array
    """At the reference, (n,)."""
    information: Array
    """(n, n)."""

    def plus(self, other: Knowledge) -> Knowledge:
        """Of both."""
        return Knowledge(self.score + other.score, self.information + other.information)

    @property
    def root(self) -> Array:
        """Matrix L with L Lᵀ the inverse of the information, zero along directions without information, (n, r)."""
        sizes = np.sqrt(np.maximum(self.information.diagonal(), 0))
        scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        values, vectors = np.linalg.eigh(scale[:, None] * self.information * scale)
        kept = values > NO_INFORMATION * max(float(values[-1]), 1e-300)
        return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def solved(self) -> Array:
        """Best distance from the reference, zero along directions without information, (n,)."""
        root = self.root
        return np.asarray(root @ (root.T @ self.score))

    def change(self, score: Array, information: Array) -> tuple[Array, Array, Mask]:
        """Numerator u and denominator v for each parameter's change where a part of the data begins, from score (...,
        n) and information (..., n, n) of this part; and flags of v above rounding, (..., n)."""
        root, own = self.root, information.diagonal(axis1=-2, axis2=-1)
        left = information @ root
        v = own - np.sum(left**2, axis=-1)
        return score - left @ (root.T @ self.score), v, v > _LOST * own

    def without(self, j: int) -> Knowledge:
        """Information on the other parameters, for any value of the j-th."""
        score, information = self.score, self.information
        ratios = information[:, j] / information[j, j]
        score, information = score - ratios * score[j], information - np.outer(ratios, information[j])
        score[j], information[j], information[:, j] = 0.0, 0.0, 0.0
        return Knowledge(score, information)


@dataclass(frozen=True, eq=False)
class Split:
    """Data split into two parts at a change point."""

    since: float
    """The change point [s]."""
    earlier: Knowledge
    later: Knowledge
    scatter: Array
    """Of past blocks as long as what is later, 1 at the least, (n,)."""
    freedom: Array
    """Degrees of freedom of ``scatter``, (n,)."""
    scatter_earlier: Array
    """Of past blocks as long as what is earlier, as ``scatter``."""
    length: float
    """Blocks of what is later."""

    @cached_property
    def _terms(self) -> tuple[Array, Array, Mask]:
        return self.earlier.plus(self.later).change(self.later.score, self.later.information)

    @cached_property
    def z(self) -> Array:
        """Standardized change of each parameter, (n,), converted from Student's t because the scatter is estimated; 0
        if it cannot be computed."""
        u, v, said = self._terms
        return normalized(np.where(said, u / np.sqrt(np.where(said, v * self.scatter, 1.0)), 0.0), self.freedom)

    @cached_property
    def _gains(self) -> Array:
        """u²/v, twice the gain of the log-likelihood by a change of each parameter, (n,). The scatter of a parameter's
        own scores is not included: it determines how certain a change is, not which parameter changed."""
        u, v, said = self._terms
        return np.divide(u**2, v, out=np.zeros_like(u), where=said)

    @cached_property
    def strongest(self) -> int:
        """Parameter whose change explains the data best."""
        return int(np.argmax(self._gains))

    def is_near(self, i: int) -> bool:
        """True if a change of another parameter explains the data nearly as well, given the larger scatter of both."""
        j = self.strongest
        return bool(float(self._gains[j] - self._gains[i]) < _CLEARLY * max(self.scatter[j], self.scatter[i]))

    def exceeds(self, threshold: float) -> bool:
        """True if something has changed."""
        return bool(np.max(np.abs(self.z)) >= threshold)

    def tells(self, threshold: float) -> bool:
        """True if a parameter has changed, and it is clear which one."""
        square = float(self.z[self.strongest] ** 2)
        alone = sum(map(self.is_near, range(len(self.z)))) == 1
        return square >= threshold**2 if alone else square >= _SURE * threshold**2 and self.length >= _LATER

    def change(self, j: int) -> float:
        """δ of parameter j."""
        return float(self._terms[0][j] / self._terms[1][j])

    def error(self, j: int) -> float:
        """Standard error of δ."""
        return float(np.sqrt(self.scatter[j] / self._terms[1][j]))

    def before(self, j: int) -> tuple[float, float]:
        """Distance of parameter j from the reference before its change, with standard error."""
        both = self.earlier.plus(self.later)
        constant = Knowledge(both.score - self.later.information[:, j] * self.change(j), both.information)
        return float(constant.solved[j]), float(np.sqrt(np.sum(self.earlier.root[j] ** 2) * self.scatter_earlier[j]))

    @property
    def kept(self) -> Knowledge:
        """Earlier information on all parameters except the one that has changed."""
        return self.earlier.without(self.strongest)
