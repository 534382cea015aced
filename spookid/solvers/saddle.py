"""A chain's states eliminated together with hard rows that link steps: a banded saddle-point system.

With H = JᵀJ + α D of the soft rows and hard rows A δ + b = 0, the states' step and the multipliers ν solve

    [H   Aᵀ] [δ]     [g]
    [A  −ε ] [ν] = − [b],

ordered step by step, each step's multipliers behind its unknowns: a banded matrix, factorized with row exchanges, at a
cost that is linear in the number of steps. Unlike a penalty it does not square the condition of A. The tiny ε lets
rows be redundant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import get_lapack_funcs

from spookid.kernels import Array
from spookid.solvers.elimination import Half
from spookid.solvers.reduction import Rows
from spookid.solvers.structured import NotPositiveDefiniteError

_dgbtrf, _dgbtrs = get_lapack_funcs(("gbtrf", "gbtrs"), dtype=np.float64)
_REDUNDANT = 1e-30
"""ε: what it leaves of a row, ε ν, must be far below rounding however large the multipliers."""


class Saddle:
    """Factors of one chain's saddle-point system with N steps of t unknowns, and the parameters as a border.

    Args:
        soft, hard: rows of the soft and of the hard factors.
        damping: α D, (N t,), and 1 for unknowns that stand in no row.
        tangent: t.

    Raises:
        NotPositiveDefiniteError: if the system is singular.
    """

    def __init__(self, soft: Sequence[Rows], hard: Sequence[Rows], damping: Array, tangent: int) -> None:
        self._tangent, self._steps = tangent, len(damping) // tangent
        sizes = [rows.matrix.shape[2] for rows in hard]
        self._places = [slice(tangent + sum(sizes[:i]), tangent + sum(sizes[: i + 1])) for i in range(len(sizes))]
        """Where in a step's block the multipliers of each hard factor stand."""
        self._size = tangent + sum(sizes)
        reach = max(max(rows.offsets) for rows in (*soft, *hard))
        parameters = hard[0].matrix.shape[1] - 1 - tangent * len(hard[0].offsets)
        lower = np.zeros((self._steps, reach + 1, self._size, self._size))
        border = np.zeros((self._steps, self._size, parameters))
        for rows in soft:
            self._add_soft(lower, border, rows)
        for rows, place in zip(hard, self._places, strict=True):
            self._add_hard(lower, border, rows, place)
        states = np.arange(tangent)
        lower[:, 0, states, states] += damping.reshape(-1, tangent)
        self._bandwidth = (reach + 1) * self._size - 1
        self._factors, self._exchanges, info = _dgbtrf(
            _banded(lower, self._bandwidth), self._bandwidth, self._bandwidth, overwrite_ab=1
        )
        if info != 0:
            raise NotPositiveDefiniteError(f"zero pivot {info}")
        self._border = border.reshape(self._steps * self._size, parameters)
        self._response = self._solved(self._border)
        self.taken = np.asarray(self._border.T @ self._response)
        """What the elimination takes from the parameters' corner, (n_p, n_p)."""

    def half(self, gradient: Array, violations: Sequence[Array]) -> Half:
        """For the states' gradient g (N t,) and the hard rows' values b, each (count, rows), with y = K⁻¹(g, b)."""
        right = np.zeros((self._steps, self._size))
        right[:, : self._tangent] = gradient.reshape(-1, self._tangent)
        for place, values in zip(self._places, violations, strict=True):
            right[: len(values), place] = values
        solved = self._solved(right.reshape(-1, 1))[:, 0]
        return Half(solved, self._border.T @ solved, float(right.ravel() @ solved))

    def step(self, half: Half, parameters: Array) -> tuple[Array, list[Array]]:
        """The states' step (N t,) and the multipliers of each hard factor, (N, rows), for a step of the parameters."""
        assert half.values is not None
        both = -(half.values + self._response @ parameters).reshape(self._steps, self._size)
        return both[:, : self._tangent].ravel(), [both[:, place] for place in self._places]

    def _solved(self, right: Array) -> Array:
        if not right.shape[1]:
            return np.zeros(right.shape)
        return np.asarray(_dgbtrs(self._factors, self._bandwidth, self._bandwidth, right, self._exchanges)[0])

    def _add_soft(self, lower: Array, border: Array, rows: Rows) -> None:
        """JᵀJ and its border; lower[k, d] is the block of rows in step k + d and columns in step k."""
        t, products = self._tangent, np.matmul(rows.matrix[:, :-1], rows.matrix[:, :-1].transpose(0, 2, 1))
        count = len(products)
        for i, early in enumerate(rows.offsets):
            border[early : early + count, :t] += products[:, i * t : (i + 1) * t, len(rows.offsets) * t :]
            for j, late in enumerate(rows.offsets[i:], start=i):
                block = products[:, j * t : (j + 1) * t, i * t : (i + 1) * t]
                lower[early : early + count, late - early, :t, :t] += block

    def _add_hard(self, lower: Array, border: Array, rows: Rows, place: slice) -> None:
        """A and its border; the multipliers of rows that reach over several steps stand in the first of them."""
        t, count, corner = self._tangent, len(rows.matrix), len(rows.offsets) * self._tangent
        for i, offset in enumerate(rows.offsets):
            block = rows.matrix[:, i * t : (i + 1) * t]
            lower[:count, offset, :t, place] = block
            if offset == 0:
                lower[:count, 0, place, :t] = block.transpose(0, 2, 1)
        border[:count, place] = rows.matrix[:, corner:-1].transpose(0, 2, 1)
        ends = np.arange(place.start, place.stop)
        absent = ~np.any(rows.matrix[:, :-1] != 0, axis=1)
        lower[:count, 0, ends, ends] = np.where(absent, -1.0, -_REDUNDANT)
        lower[count:, 0, ends, ends] = -1.0


def _banded(lower: Array, bandwidth: int) -> Array:
    """LAPACK's general band, with room for row exchanges, from the lower blocks of a symmetric matrix."""
    steps, blocks, size, _ = lower.shape
    columns = np.zeros((steps, size, 3 * bandwidth + 1))
    for column in range(size):
        diagonal = 2 * bandwidth - column
        for d in range(blocks):
            below, above = diagonal + d * size, diagonal - d * size
            columns[: steps - d, column, below : below + size] = lower[: steps - d, d, :, column]
            if d:
                columns[d:, column, above : above + size] = lower[: steps - d, d, column, :]
    return columns.reshape(steps * size, -1).T
