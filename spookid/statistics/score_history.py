"""Scores of a stream of data, kept in blocks of time: recent ones singly, older ones merged, so that memory is bounded.

A block has the score s and the information I of its data in the parameters. Without a change s = I d + noise, where d is
the distance of the parameters from the reference and the noise has covariance I, independent of that of other blocks.
Blocks are merged in pairs of equal length once there are more than a few of a length (an exponential histogram: Datar,
Gionis, Indyk and Motwani, SIAM J. Comput. 31, 2002), so that n blocks are kept as some 8 log2(n), and any instant of the
past is a boundary within an eighth of its age.

What a model lacks makes scores scatter by more than I says, and mostly the more the longer the blocks are, because it
lasts. ``Scatter`` tells by how much, for each parameter and each length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spookid.kernels.kernel import Array

_PER_LENGTH = 8
"""Blocks of one length that are not merged."""
_ENOUGH = 8
"""Blocks of a length from which on their scatter is told from them; of longer ones it is extrapolated."""
_CLIP = 16.0
"""Times the scatter so far that a single square counts at the most: an outlier must not blind the test for hours."""
_COLUMNS = ("until", "length", "score", "information", "within", "freedom")
"""Fields of a block."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What data between two instants say of n parameters, at the reference."""

    until: float
    """When it ends [s]; it begins where the one before ends."""
    length: float
    """How many single ones it is made of."""
    score: Array
    """s, (n,)."""
    information: Array
    """I, (n, n)."""
    within: Array
    """Sum of squares by which the blocks that were merged into it differ in each parameter, in standard errors, (n,)."""
    freedom: Array
    """Degrees of freedom of ``within``, (n,)."""

    @classmethod
    def single(cls, until: float, score: Array, information: Array) -> Block:
        """One that nothing has been merged into."""
        return cls(until, 1.0, score, information, np.zeros(len(score)), np.zeros(len(score)))

    def merged(self, later: Block, distance: Array) -> Block:
        """Both as one; ``distance`` is the best d so far, (n,)."""
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
    """How far scores of blocks of 1, 2, 4 ... lie from what the parameters explain, over what I says: the mean of
    (s − I d)²/I for each length and parameter, each square at most 16 times the mean before it."""

    def __init__(self, parameters: int) -> None:
        self._means = np.ones((0, parameters))
        self._counts = np.zeros((0, parameters))

    def add(self, level: int, square: Array, known: Array) -> None:
        """A block of 2^level single ones.

        Args:
            square: (s − I d)² over its expectation, (n,).
            known: which parameters the block tells something of, (n,).
        """
        if level == len(self._means):
            self._means = np.vstack([self._means, np.ones(len(square))])
            self._counts = np.vstack([self._counts, np.zeros(len(square))])
        mean, count = self._means[level], self._counts[level]
        count += known
        # The first counts as the second: a mean of nothing is 1, as of data that the model fits.
        mean += np.where(known, (np.minimum(square, _CLIP * np.maximum(mean, 1)) - mean) / (count + 1), 0.0)

    def at(self, lengths: Array) -> Array:
        """Of blocks of so many single ones, (K,) to (K, n), 1 at the least; of lengths that are not known yet with the
        growth per doubling that the known ones have."""
        lengths = np.asarray(lengths, dtype=float)
        found = np.ones((len(lengths), self._means.shape[1]))
        places = np.log2(np.maximum(lengths, 1))
        for j, (means, counts) in enumerate(zip(self._means.T, self._counts.T, strict=True)):
            known = int(np.count_nonzero(np.logical_and.accumulate(counts >= _ENOUGH)))
            if known:
                means = np.log2(means[:known])
                growth = np.clip((means[-1] - means[0]) / (known - 1), 0, 2) if known > 1 else 0.0
                beyond = np.maximum(places - (known - 1), 0)
                found[:, j] = np.exp2(np.interp(places, np.arange(known), means) + growth * beyond)
        return np.maximum(found, 1)

    @property
    def single(self) -> Array:
        """Of single blocks, (n,), 1 at the least."""
        return np.asarray(self.at(np.ones(1))[0])

    def arrays(self) -> dict[str, Array]:
        """To be saved."""
        return {"scatter_means": self._means, "scatter_counts": self._counts}

    @classmethod
    def resumed(cls, arrays: Mapping[str, Any]) -> Scatter:
        """From what ``arrays`` gave."""
        found = cls(arrays["scatter_means"].shape[1])
        found._means, found._counts = arrays["scatter_means"].copy(), arrays["scatter_counts"].copy()
        return found


class History:
    """Blocks from old to new. The first, ``base``, is all that lies before the oldest boundary that is kept.

    Args:
        base: what was known before the first block.
    """

    def __init__(self, base: Block, scatter: Scatter | None = None) -> None:
        self.base = base
        self.scatter = scatter or Scatter(len(base.score))
        self._levels: list[list[Block]] = []
        self._total = base.information.copy()

    def add(self, block: Block, distance: Array) -> None:
        """The newest block; ``distance`` is the best d so far, (n,)."""
        self._total += block.information
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append([])
            blocks = self._levels[level]
            blocks.append(block)
            if len(blocks) <= _PER_LENGTH + 1:
                return
            first, second, *self._levels[level] = blocks
            for one in (first, second):
                self._learn(level, one, distance)
            block, level = first.merged(second, distance), level + 1

    def _learn(self, level: int, block: Block, distance: Array) -> None:
        """Its square over what it is expected to be: d has been found from this block, too."""
        own, whole = block.information.diagonal(), self._total.diagonal()
        known = (own > 0) & (own < 0.5 * whole)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = block.deviation(distance) ** 2 / (own * (1 - own / whole))
        self.scatter.add(level, np.where(known, square, 0.0), known)

    def __iter__(self) -> Iterator[Block]:
        """From old to new, without the base."""
        for blocks in reversed(self._levels):
            yield from blocks

    def restarted(self, base: Block, after: float) -> History:
        """With another base, and of the blocks those that begin at ``after`` [s] or later; the scatter stays known."""
        found = History(base, self.scatter)
        found._levels = [[block for block in blocks if block.until > after] for blocks in self._levels]
        for block in found:
            found._total += block.information
        return found

    def arrays(self) -> dict[str, Array]:
        """To be saved: the base first, then the blocks from old to new, with their levels."""
        blocks = [self.base, *self]
        levels = [-1, *(level for level in reversed(range(len(self._levels))) for _ in self._levels[level])]
        stacked = {f"blocks_{name}": np.array([getattr(block, name) for block in blocks]) for name in _COLUMNS}
        return {"blocks_level": np.array(levels), "total": self._total, **stacked, **self.scatter.arrays()}

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
        found._total = arrays["total"].copy()
        return found
