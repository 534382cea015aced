"""Block jackknife: recordings cut into stretches, and what each of these blocks says about the parameters.

A chain's states eliminated without the observations of one block, for all its blocks at the price of three.

The steps before a block and those after it are eliminated from either end of the chain, once for all blocks; what
that takes from the equations of the steps between is what the rest of the recording says there, as in the two-filter
smoother (Fraser and Potter, IEEE Transactions on Automatic Control 14, 1969). Only the block itself is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.elimination import eliminate
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import LinearizedFactor, added, products
from spookid.transcription.factor import Group

BLOCKS = 20
"""Stretches that a recording is cut into."""


@dataclass(frozen=True, eq=False)
class JackknifeBlocks:
    """Blocks of all chains, one chain after the other; W in all."""

    edges: tuple[Array, ...]
    """Per chain the first step of each block, and the number of steps at the end."""
    scores: Array
    """T_wᵀ r̂_w, (W, n_p)."""
    information: Array
    """T_wᵀ T_w, (W, n_p, n_p)."""
    gradients: Array
    """Tᵀ r without the observations of each block less Tᵀ r, (W, n_p); NaN if the states are not determined."""
    remaining: Array
    """TᵀT without them, (W, n_p, n_p)."""


def jackknife_blocks(c: Condensed) -> JackknifeBlocks:
    """Cut each chain into blocks and sum what their rows say, those of priors left out."""
    c.release()
    cuts = [_cuts(chain.steps) for chain in c.linearized.problem.chains]
    schur = [schur_complements(terms, edges) for terms, edges in zip(c.linearized.chains, cuts, strict=True)]
    total, changes = sum(whole for whole, _ in schur), np.concatenate([rest - whole for whole, rest in schur])
    sums = [_sums(c, chain, edges) for chain, edges in enumerate(cuts)]
    scores, information = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    edges = tuple(np.array(edges, dtype=np.float64) for edges in cuts)
    return JackknifeBlocks(edges, scores, information, changes[:, :-1, -1], (total + changes)[:, :-1, :-1])


def _cuts(steps: int) -> list[int]:
    """First steps of the blocks of a chain, and the number of its steps."""
    found: list[int] = np.linspace(0, steps, min(BLOCKS, steps) + 1).round().astype(int).tolist()
    return found


def _sums(c: Condensed, chain: int, edges: Sequence[int]) -> tuple[Array, Array]:
    """T_wᵀ r̂_w and T_wᵀ T_w of the blocks of one chain."""
    n, count = c.linearized.parameters, len(edges) - 1
    scores, information = np.zeros((count, n)), np.zeros((count, n, n))
    for term, T, r in zip(c.linearized.chains[chain], c.T[chain], c.residuals[chain], strict=True):
        if term.factor.group is Group.PRIOR:
            continue
        for w, (first, last) in enumerate(pairwise(edges)):
            scores[w] += products(T[first:last], r[first:last])[:, 0]
            information[w] += products(T[first:last], T[first:last])
    return scores, information


_ROUNDING = 256 * float(np.finfo(np.float64).eps)
"""Part of a diagonal entry below which a pivot has no digits."""


@dataclass(frozen=True, eq=False)
class _Taken:
    """What eliminating the steps before one takes from the equations of the others."""

    square: Array
    """From the steps that couple with them, w unknowns, (w, w)."""
    border: Array
    """(w, n_p + 1)."""
    corner: Array
    """(n_p + 1, n_p + 1)."""

    @property
    def backward(self) -> _Taken:
        """The same in opposite order of the unknowns."""
        return replace(self, square=self.square[::-1, ::-1], border=self.border[::-1])


@dataclass(frozen=True, eq=False)
class _Block:
    """Observations to leave out."""

    parts: tuple[tuple[LinearizedFactor, int, int], ...]
    """Factors with their first row and the one behind the last."""
    first: int
    stop: int
    """Steps that stay while all others are eliminated: those that the rows see, and as many as couple at least."""


def schur_complements(terms: Sequence[LinearizedFactor], edges: Sequence[int]) -> tuple[Array, Array]:
    """Schur complements of a chain's states in the corner, gradient and all; NaN where there is none.

    Args:
        edges: first steps of W blocks, and the number of steps.

    Returns:
        That of all rows, (n_p + 1, n_p + 1).
        Those without the observations of each block, (W, n_p + 1, n_p + 1).
    """
    blocks = [_block(terms, *pair) for pair in pairwise(edges)]
    steps, size = terms[0].steps, terms[0].parameters + 1
    equations = added(terms)
    try:
        *before, whole = _taken(equations.copy(), [*(s.first for s in blocks), steps])
        after = _taken(_backward(equations.copy()), [steps - s.stop for s in reversed(blocks)])[::-1]
    except NotPositiveDefiniteError:
        return np.full((size, size), np.nan), np.full((len(blocks), size, size), np.nan)
    without = [_without(equations, *each) for each in zip(blocks, before, after, strict=True)]
    return equations.corner - whole.corner, np.array(without)


def _block(terms: Sequence[LinearizedFactor], first: int, last: int) -> _Block:
    """Of the observations at some steps."""
    parts = []
    for term in (s for s in terms if s.factor.group is Group.OBSERVATION):
        middle = term.factor.reach // 2  # a factor over several steps observes the middle one
        start, stop = max(first - middle, 0), min(max(last - middle, 0), len(term.residual))
        if start < stop:
            parts.append((term, start, stop))
    steps, reach = terms[0].steps, max(max(term.source.offsets) for term in terms)
    begin = min([start for _, start, _ in parts], default=first)
    end = max([stop + max(term.source.offsets) for term, _, stop in parts], default=last)
    end = min(max(end, begin + reach), steps)
    return _Block(tuple(parts), max(min(begin, end - reach), 0), end)


def _taken(equations: NormalEquations, cuts: Sequence[int]) -> list[_Taken]:
    """What eliminating all steps before each of some takes, first ones first; the equations are overwritten."""
    tangent, width = len(equations.band) // equations.steps, equations.band.shape[1]
    elimination = eliminate(equations, 0.0, overwrite=True)
    Y, corner, found = elimination.border, np.zeros_like(equations.corner), []
    for last, cut in pairwise([0, *(tangent * cut for cut in cuts)]):
        corner = corner + Y[last:cut].T @ Y[last:cut]
        first = max(cut - width + tangent, 0)
        L = _below(elimination.columns(slice(first, cut)), width - tangent)
        found.append(_Taken(L @ L.T, L @ Y[first:cut], corner))
    return found


def _below(columns: Array, rows: int) -> Array:
    """Rows of L behind the last of some columns in band storage, (rows, columns)."""
    width, count = columns.shape
    places = count + np.arange(rows)[:, None] - np.arange(count)
    return np.where(places < width, columns[np.minimum(places, width - 1), np.arange(count)], 0.0)


def _backward(equations: NormalEquations) -> NormalEquations:
    """The same with the last unknown first, in the place of the equations."""
    band, border = equations.band, equations.border
    for distance in range(band.shape[1]):
        entries = band[: max(len(band) - distance, 0), distance]
        entries[:] = entries[::-1].copy()
        band[len(entries) :, distance] = 0.0
    border[:] = border[::-1].copy()
    return equations


def _without(whole: NormalEquations, block: _Block, before: _Taken, after: _Taken) -> Array:
    """The Schur complement without the observations of a block."""
    tangent = len(whole.band) // whole.steps
    rest = _between(whole, block.first, block.stop)
    n, w = len(rest.band), len(before.square)
    _subtract(rest, 0, before)
    _subtract(rest, n - w, after.backward)
    for term, start, stop in block.parts:
        part = term.between(start, stop)
        first = (start - block.first) * tangent
        rows = slice(first, first + len(part.band))
        rest.band[rows, : part.band.shape[1]] -= part.band
        rest.border[rows] -= part.border
        np.subtract(rest.corner, part.corner, out=rest.corner)
    unknown, sizes = np.full_like(rest.corner, np.nan), rest.band[:, 0].copy()
    try:
        elimination = eliminate(rest, 0.0, overwrite=True)
    except NotPositiveDefiniteError:
        return unknown
    pivots = elimination.columns(slice(0, n))[0] ** 2
    # What is left of a direction that nothing else shows is rounding, of either sign.
    return unknown if np.any(pivots < _ROUNDING * sizes) else np.asarray(rest.corner - elimination.corner)


def _between(whole: NormalEquations, first: int, stop: int) -> NormalEquations:
    """The equations of some steps alone."""
    tangent, width = len(whole.band) // whole.steps, whole.band.shape[1]
    rows = slice(first * tangent, stop * tangent)
    band, border = whole.band[rows].copy(), whole.border[rows].copy(order="F")
    ahead = np.arange(len(band))[:, None] + np.arange(width)
    band[ahead >= len(band)] = 0.0
    return NormalEquations(band, border, whole.corner.copy(), stop - first)


def _subtract(equations: NormalEquations, first: int, taken: _Taken) -> None:
    """Take from the equations of the unknowns from one on what eliminating their neighbours takes."""
    w = len(taken.square)
    for i in range(w):
        equations.band[first + i, : w - i] -= taken.square[i:, i]
    equations.border[first : first + w] -= taken.border
    np.subtract(equations.corner, taken.corner, out=equations.corner)
