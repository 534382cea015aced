"""Square-root elimination of unknowns from linear least-squares equations, in order of time.

A front holds equations [A | z] in unknowns x with the cost |A x + z|², equality constraints A x + z = 0, and a linear
term 2 cᵀx. The first unknowns are eliminated: with equality constraints by Gaussian elimination with pivoting, then
with least-squares equations by Householder reflections, which do not square the condition number. The remainder is a
front of the other unknowns.

A column that is zero except for rounding has no pivot: its unknown stays at its value, and its part of the linear term
is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.precision import DEPENDENT, ROUNDING
from spookid.kernels.scipy_parts import lapack
from spookid.solvers.quadratic_program import primal_dual

RANK = 1e-11
"""A column whose part that is orthogonal to those before is below this share of its length is zero."""


@dataclass(frozen=True, eq=False)
class Front:
    """Equations in unknowns (n,), with the right-hand side in the last column."""

    soft: Array
    """(m, n + 1)."""
    hard: Array
    """(h, n + 1)."""
    linear: Array
    """c, (n,)."""


@dataclass(frozen=True, eq=False)
class Pivots:
    """Equations that determine unknowns from later ones, in the order of their elimination."""

    rows: Array
    """(p, n + 1)."""
    places: Integers
    """Which unknown each row gives, (p,)."""
    shifts: Array
    """What the linear term adds to the value of each row, (p,)."""
    hard: int
    """Number of equality constraints, which come first."""
    count: int
    """How many unknowns were to be eliminated."""

    def solve(self, step: Array) -> None:
        """Compute the unknowns that the equations determine, in a step (n,) whose other entries are known."""
        for row, place, shift in zip(self.rows[::-1], self.places[::-1], self.shifts[::-1], strict=True):
            step[place] = 0.0
            step[place] = -(row[:-1] @ step + row[-1] + shift) / row[place]

    def responses(self, known: Array) -> Array:
        """Response of all unknowns to unit noise in the residuals, (n, k + residuals), from the response of the other
        unknowns to noise in other equations, (n, k), 0 elsewhere."""
        whole = np.concatenate([known, np.zeros((len(known), len(self.places) - self.hard))], axis=1)
        for i in reversed(range(len(self.places))):
            row, place = self.rows[i, :-1], self.places[i]
            whole[place] = 0.0
            found = row @ whole
            if i >= self.hard:
                found[known.shape[1] + i - self.hard] += 1.0
            whole[place] = -found / row[place]
        return whole

    @property
    def square(self) -> float:
        """Decrease of the residuals' cost by the step."""
        values = self.rows[self.hard :, -1] + self.shifts[self.hard :]
        return float(values @ values)


def eliminate(front: Front, count: int, states: int, hidden: Mask | None = None) -> tuple[Pivots, Front, Array]:
    """Eliminate the first ``count`` unknowns.

    Args:
        states: how many of the unknowns are states; parameters follow them.
        hidden: True for the private unknowns of each step, (t,): their columns are measured by the longest, for that of
            one that moves nothing is rounding.

    Returns:
        The rows that give them; the front of the others, in which residuals are triangular in the states that are
        left; residuals of the parameters alone, (r, n_p + 1).
    """
    soft, hard, linear = front.soft.copy(), front.hard, front.linear.copy()
    lengths = np.sqrt(np.einsum("ij,ij->j", soft, soft))
    if hidden is not None and np.any(hidden):
        steps = lengths[:states].reshape(-1, len(hidden))
        steps[:, hidden] = np.max(steps[:, hidden], axis=1, keepdims=True)
    taken, places, factors = _hard_pivots(soft, hard, linear, count)
    lengths = np.maximum(lengths, np.sqrt(np.einsum("ij,ij->j", soft, soft)))
    free = [j for j in range(count) if j not in places]
    found = triangularize(soft, free, 0, lengths)
    rows = np.concatenate([taken, soft[: len(found)]])
    shifts = np.zeros(len(rows))
    for i, place in enumerate(found, start=len(taken)):
        shifts[i] = linear[place] / rows[i, place]
        linear -= shifts[i] * rows[i, :-1]
    pivots = Pivots(rows, np.array([*places, *found], dtype=np.int64), shifts, len(taken), count)
    left = soft[len(found) :, count:]
    later = triangularize(left, list(range(states - count)), 0, lengths[count:])
    return pivots, Front(left[: len(later)], factors[:, count:], linear[count:]), left[len(later) :, states - count :]


def settled(front: Front, firm: Array) -> tuple[Front, Array]:
    """Equality constraints of the parameters alone, moved from one front to others, (r, n_p + 1); only independent ones
    are kept."""
    n = firm.shape[1] - 1
    alone = np.max(np.abs(front.hard[:, : -n - 1]), axis=1, initial=0.0) <= DEPENDENT
    if not np.any(alone):
        return front, firm
    whole = np.concatenate([firm, front.hard[alone, -n - 1 :]])
    kept = _hard_pivots(np.zeros((0, n + 1)), whole, np.zeros(n), n)[0]
    return Front(front.soft, front.hard[~alone], front.linear), kept


def _hard_pivots(soft: Array, hard: Array, linear: Array, count: int) -> tuple[Array, list[int], Array]:
    """Equality constraints that give some of the first unknowns, and which; and the rows that are left. All rows lose
    them."""
    taken, places, hard = [], list[int](), hard.copy()
    while hard.size and count:
        size = np.abs(hard[:, :count])
        i, place = divmod(int(np.argmax(size)), count)
        if size[i, place] <= DEPENDENT:
            hard[:, :count] = 0.0
            break
        row = hard[i].copy()
        hard = np.delete(hard, i, axis=0)
        for others in (hard, soft):
            others -= np.outer(others[:, place] / row[place], row)
            others[:, place] = 0.0
        linear -= linear[place] / row[place] * row[:-1]
        taken.append(row)
        places.append(place)
    kept = np.max(np.abs(hard[:, :-1]), axis=1, initial=0.0) > DEPENDENT
    return np.array(taken).reshape(-1, soft.shape[1]), places, hard[kept]


def triangularize(rows: Array, columns: list[int], first: int, lengths: Array) -> list[int]:
    """Reflect rows (m, n + 1) from the ``first`` on, in place, to echelon form in given columns, in this order; returns
    the columns with a pivot."""
    found = list[int]()
    for j in columns:
        i = first + len(found)
        if i >= len(rows):
            break
        column = rows[i:, j]
        length = float(np.sqrt(column @ column))
        if not length > RANK * lengths[j]:
            rows[i:, j] = 0.0
            continue
        v = column.copy()
        v[0] += length if v[0] >= 0 else -length
        rows[i:] -= np.outer(v / (length * abs(v[0])), v @ rows[i:])
        rows[i + 1 :, j] = 0.0
        found.append(j)
    return found


def bounded_solution(pivots: Pivots, step: Array, lower: Array, upper: Array) -> Array:
    """Unknowns (n,) with least cost, lower ≤ δ ≤ upper with bounds that contain 0; undetermined unknowns stay 0.
    ``step``: the solution without bounds."""
    if np.all((step >= lower) & (step <= upper)):
        return step
    soft = pivots.rows[pivots.hard :]

    def held(ends: Array, at: Mask) -> tuple[Array, Array]:
        rows, free = pivots.rows.copy(), np.flatnonzero(~at)
        rows[:, -1] += pivots.shifts + rows[:, :-1] @ ends
        rows = rows[:, [*free, -1]]
        front = Front(rows[pivots.hard :], rows[: pivots.hard], np.zeros(len(free)))
        step, inner = ends.copy(), np.zeros(len(free))
        eliminate(front, len(free), len(free))[0].solve(inner)
        step[free] = inner
        return step, soft[:, :-1].T @ (soft[:, :-1] @ step + soft[:, -1] + pivots.shifts[pivots.hard :])

    return np.clip(primal_dual(step, lower, upper, held)[0], lower, upper)


def joint_covariance(pivots: Sequence[Pivots], border: Pivots, tangent: int) -> Array:
    """Of the newest states, the oldest first, and the parameters; NaN where they are not determined. ``pivots``: of the
    elimination of each of these states, rows of its unknowns and of those that follow; ``border``: of the elimination
    of the parameters; ``tangent``: unknowns of a state."""
    n, states = border.count, len(pivots) * tangent
    rows, places, soft = [np.zeros((0, states + n))], list[int](), list[int]()
    for first, found in zip(range(0, states, tangent), pivots, strict=True):
        block = np.zeros((len(found.rows), states + n))
        inside = min(found.rows.shape[1] - 1 - n, states - first)  # what is behind the newest state is not there
        block[:, first : first + inside] = found.rows[:, :inside]
        block[:, states:] = found.rows[:, found.rows.shape[1] - 1 - n : -1]
        soft += range(len(places) + found.hard, len(places) + len(block))
        rows.append(block)
        places += (first + found.places).tolist()
    soft += range(len(places) + border.hard, len(places) + len(border.rows))
    rows.append(np.hstack([np.zeros((len(border.rows), states)), border.rows[:, :-1]]))
    places += (states + border.places).tolist()
    return _of_rows(np.concatenate(rows), places, soft)


@lru_cache(maxsize=8)
def _upper(count: int) -> Mask:
    return np.triu(np.ones((count, count), dtype=np.bool_))


def _of_rows(rows: Array, places: list[int], soft: list[int]) -> Array:
    """Of unknowns that rows give, each by those that stand later among ``places``, with unit noise in the soft ones."""
    size = rows.shape[1]
    covariance = np.full((size, size), np.nan)
    if not places:
        return covariance
    inverse = np.where(_upper(len(places)), lapack.dtrtri(rows[:, places])[0], 0.0)
    if places == list(range(size)):
        responses = inverse[:, soft]
        return np.asarray(responses @ responses.T)
    loose = [i for i in range(size) if i not in set(places)]
    known = np.ones(len(places), dtype=np.bool_)
    if loose:
        largest = np.max(np.abs(rows), axis=1, keepdims=True)
        beside = np.where(np.abs(rows[:, loose]) > ROUNDING * largest, rows[:, loose], 0.0)
        follows, terms = inverse @ beside, np.abs(inverse) @ np.abs(beside)
        known = ~np.any(np.abs(follows) > DEPENDENT * terms, axis=1)
    responses, at = inverse[known][:, soft], np.array(places)[known]
    covariance[np.ix_(at, at)] = responses @ responses.T
    return covariance
