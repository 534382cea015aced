"""Whether another piece of complementarity pairs is better than the one where a solver ended, by linear programs.

Pairs 0 ≤ a ⟂ b ≥ 0 with both members at zero are each on two pieces, a = 0 and b = 0. A point is B-stationary if on
no piece a step that all other rows allow lowers the cost to first order. The program in which both members of these
pairs may grow contains all pieces: if it gains nothing the point is strongly stationary, and so B-stationary (Scheel
and Scholtes, Mathematics of Operations Research 25, 2000). Else a pair of which both grow is split into its two pieces,
until none is left (Luo, Pang and Ralph, Mathematical Programs with Equilibrium Constraints, 1996).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.records import dataclass
from spookid.solvers.program import Program

_OPEN = -1
"""Of a pair of which both members may grow, instead of the member that is held, 0 or 1."""
_ZERO = 1e-6
"""Steps, and distances to bounds, that count as none; linear programs are solved to a tenth of it."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces around a point z of a program with complementarity pairs; each piece fixes one member of each pair."""

    program: Program
    z: Array
    cost: float
    both: list[Mask]
    """Of each factor of pairs, which have both members at zero."""

    def better(self, gain: float) -> list[Mask] | None:
        """Member of each pair to fix on a better piece, True for the first; None if no piece gains more than ``gain``,
        a sum of cosines with the residual, beyond the present one.

        Raises:
            ArithmeticError: if a linear program has no solution, or there are more of them than members of pairs.
        """
        here, pairs = self._solved(self._held)[0], self._pairs
        pieces, left = [np.full(len(pairs), _OPEN)], 2 * len(pairs) + 1
        while pieces:
            if not left:
                raise ArithmeticError
            piece, left = pieces.pop(), left - 1
            value, moved = self._solved(piece)
            if value >= here - gain:
                continue
            moves = moved[pairs]
            growing = np.where(piece == _OPEN, moves.min(axis=1), 0.0)
            pair = int(np.argmax(growing))
            if growing[pair] <= _ZERO:
                return self._masks(np.where(piece == _OPEN, moves.argmin(axis=1), piece))
            for member in (0, 1):
                split = piece.copy()
                split[pair] = member
                pieces.append(split)
        return None

    @property
    def _of_pairs(self) -> list[tuple[Integers, Mask]]:
        """Of each factor of pairs the rows of both members (count, pairs, 2), and True where the first is held."""
        found = []
        for place in self.program.places:
            if place.factor.pairs:
                rows = np.stack(np.hsplit(place.rows, 2), axis=2)
                found.append((rows, np.hsplit(place.role.upper == 0, 2)[0]))
        return found

    @cached_property
    def _pairs(self) -> Integers:
        """Rows of both members of pairs with both at zero, (pairs, 2)."""
        return np.vstack([rows[both] for (rows, _), both in zip(self._of_pairs, self.both, strict=True)])

    @cached_property
    def _held(self) -> Integers:
        """Which of them is held here, (pairs,)."""
        first = [first[both] for (_, first), both in zip(self._of_pairs, self.both, strict=True)]
        return np.where(np.concatenate(first), 0, 1)

    def _masks(self, held: Integers) -> list[Mask]:
        found, start = list[Mask](), 0
        for (_, first), both in zip(self._of_pairs, self.both, strict=True):
            mask, count = first.copy(), int(both.sum())
            mask[both] = held[start : start + count] == 0
            found.append(mask)
            start += count
        return found

    @cached_property
    def _linear(self) -> tuple[Array, Any, Array, Array]:
        """Cosines of the gradient, rows of unit size, and bounds of steps, in unknowns that their columns' lengths
        scale."""
        from scipy.sparse import csc_matrix, diags_array

        program, z, pattern = self.program, self.z, self.program.jacobian_sparsity
        soft, hard = program.lengths(z), program.lengths(z, hard=True)
        lengths = np.where(soft > _ZERO**2 * soft.max(), soft, np.where(hard > 0, hard, 1.0))
        given = program.jacobian(z), np.array(pattern.row()), np.array(pattern.colind())
        matrix = csc_matrix(given, shape=pattern.shape) @ diags_array(1 / lengths)
        largest = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), _ZERO**2)
        lower, upper = program.box
        below = np.where(z - lower <= _ZERO, 0.0, -1.0)
        above = np.where(upper - z <= _ZERO, 0.0, 1.0)
        cosines = program.gradient(z) / (2 * np.sqrt(self.cost) * lengths)
        return cosines, (diags_array(1 / largest) @ matrix).tocsr(), below, above

    def _solved(self, piece: Integers) -> tuple[float, Array]:
        """Least sum of cosines along steps of at most one on a piece, and how each row moves, (rows,)."""
        from scipy.optimize import linprog

        cosines, rows, below, above = self._linear
        values, (lower, upper) = self.program.constraints(self.z), self.program.bounds
        low, high = values - lower <= _ZERO, upper - values <= _ZERO
        for members, first in self._of_pairs:  # what is not held is free
            high[members] = low[members] = np.stack([first, ~first], axis=2)
        high[self._pairs] = piece[:, None] == np.arange(2)
        low[self._pairs] = True
        fixed = low & high
        signs, some = np.where(low, -1.0, 1.0)[low ^ high], low ^ high
        found = linprog(
            cosines,
            A_eq=rows[fixed],
            b_eq=np.zeros(int(fixed.sum())),
            A_ub=rows[some].multiply(signs[:, None]) if some.any() else None,
            b_ub=np.zeros(len(signs)) if some.any() else None,
            bounds=np.column_stack([below, above]),
        )
        if found.status:
            raise ArithmeticError
        return float(found.fun), np.asarray(rows @ found.x)


def judged(here: Pieces, gain: float, fell: bool) -> tuple[list[Mask] | None, str]:
    """Members to fix next on a better piece, or None and the type of stationary point.

    Args:
        fell: False if the last piece that seemed better was not.
    """
    zero, pairs = (sum(int(count(both)) for both in here.both) for count in (np.sum, np.size))
    said = "B-stationary"
    if zero:
        try:
            held = here.better(gain) if fell else None
            if held is not None:
                return held, ""
        except ArithmeticError:
            fell = False
        said = said if fell else "strongly stationary for the active set found"
    return None, f"{said}; {zero} of {pairs} pairs are zero on both sides"
