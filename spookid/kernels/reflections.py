"""Householder's reflections of sparse matrices that have one pattern: which entries each of them touches.

The columns of T (m, k), m ≥ k, are eliminated in an order that keeps what fills in small: next is the column whose
reflection costs least. For the rows of joints that goes along their tree, with those that close loops last; a
reflection turns the rows of two bodies and one more for each freedom behind them. Reflections need no pivots: any order
is stable as long as the columns are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Integers, Mask
from spookid.kernels.native import Lists, integers
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Reflections:
    """The plan that ``condense.c`` follows."""

    sizes: Integers
    """m, k, number of entries with fill, and of those that a kernel gives."""
    lists: Lists


@dataclass(frozen=True, eq=False)
class _Step:
    """One reflection."""

    column: int
    rows: Integers
    """It turns these; the first becomes a row of R."""
    changed: Integers
    """Columns to come that it changes."""


def reflections(numbers: Integers, residual: Integers) -> Reflections:
    """The plan for a matrix T of a kernel's numbers.

    Args:
        numbers: which of the numbers an entry of T is, −1 for none, (m, k).
        residual: which of them are the residual.
    """
    m, k = numbers.shape
    steps, filled = _eliminated(numbers >= 0)
    entry = np.where(filled, np.cumsum(filled).reshape(m, k) - 1, -1)
    rows, columns = np.nonzero(numbers >= 0)
    pivots = integers([step.rows[0] for step in steps])
    over = [np.flatnonzero(filled[pivots[:j], step.column]) for j, step in enumerate(steps)]
    free = integers(sorted(set(range(m)) - set(pivots)))
    blocks = [entry[np.ix_(step.rows, step.changed)].T.ravel() for step in steps]
    lists = Lists(
        numbers[rows, columns],
        entry[rows, columns],
        residual,
        [step.column for step in steps],
        _starts([len(step.rows) for step in steps]),
        _joined([step.rows for step in steps]),
        _joined([entry[step.rows, step.column] for step in steps]),
        _starts([len(step.changed) for step in steps]),
        _joined(blocks),
        _starts([len(before) for before in over]),
        _joined(over),
        _joined([entry[pivots[before], step.column] for before, step in zip(over, steps, strict=True)]),
        free,
        *_reach(steps, free, m),
        _starts([len(block) for block in blocks])[:-1],
        np.stack([rows, columns], axis=1),
    )
    return Reflections(integers([m, k, np.sum(filled), len(rows)]), lists)


def _eliminated(pattern: Mask) -> tuple[list[_Step], Mask]:
    """The reflections in their order, and the pattern with all that fills in."""
    filled, rest = pattern.copy(), pattern.copy()
    left, steps = list(range(pattern.shape[1])), list[_Step]()
    while left:
        ones = rest[:, left].astype(float)
        shared = ones.T @ ones > 0
        next_one = int(np.argmin(ones.sum(axis=0) * shared.sum(axis=0)))
        changed = integers([left[i] for i in np.flatnonzero(shared[next_one]) if i != next_one])
        column = left.pop(next_one)
        rows = np.flatnonzero(rest[:, column])
        # The row of R is one that few others see, so that what is left stays sparse.
        first = rows[int(np.argmin(rest[rows].sum(axis=1)))]
        ordered = integers([first, *rows[rows != first]])
        rest[np.ix_(rows, changed)] = True
        filled |= rest
        rest[first], rest[:, column] = False, False
        steps.append(_Step(column, ordered, changed))
    return steps, filled


def _reach(steps: Sequence[_Step], free: Integers, m: int) -> tuple[Integers, Integers]:
    """Between which columns of the null space each reflection finds entries, when the last one comes first."""
    low, high = np.full(m, len(free)), np.zeros(m, dtype=np.int64)
    low[free], high[free] = np.arange(len(free)), np.arange(1, len(free) + 1)
    found = np.zeros((2, len(steps)), dtype=np.int64)
    for j, step in reversed(list(enumerate(steps))):
        low[step.rows], high[step.rows] = found[:, j] = low[step.rows].min(), high[step.rows].max()
    return found[0], found[1]


def _starts(counts: Iterable[int]) -> Integers:
    return integers(np.cumsum([0, *counts]))


def _joined(lists: Sequence[NDArray[Any]]) -> Integers:
    return integers(np.concatenate([integers([]), *lists]))
