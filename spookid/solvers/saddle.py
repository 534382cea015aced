"""A chain's states eliminated together with hard rows that link steps: a banded saddle-point system.

With H = JᵀJ + α D of the soft rows and hard rows A δ + b = 0, the states' step and the multipliers ν solve

    [H   Aᵀ] [δ]     [g]
    [A  −ε ] [ν] = − [b],

ordered step by step, each step's multipliers behind its unknowns, at a cost that is linear in the number of steps.
Unlike a penalty it does not square the condition of A. The tiny ε lets rows be redundant. Where no row reaches beyond
the next step, steps are eliminated by blocks, several times faster than LAPACK's general band;
there the multiplier of a row that others imply is zero.

Solutions, the determinant and blocks of the inverse of a saddle point whose multipliers stand with the later of two
steps, in blocks of a step's unknowns and multipliers, (t + m), all of them definite in the unknowns:

    K = [H   Cᵀ ]
        [C  −δ ].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.blocks import Places, SaddleBlocks, saddle_blocks
from spookid.kernels.native import integers
from spookid.kernels.scipy_parts import lapack
from spookid.kernels.thread_pool import Workspace
from spookid.solvers.elimination import ForwardSubstitution
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError

_dgbtrf, _dgbtrs = lapack.dgbtrf, lapack.dgbtrs
_REDUNDANT = 1e-30
"""ε: what it leaves of a row, ε ν, must be far below rounding however large the multipliers."""


class Saddle(Protocol):
    """One chain's saddle-point system K, with the parameters as a border B of soft and hard rows."""

    corner: Array
    """What the elimination takes from the parameters' corner, (n_p + 1, n_p + 1)."""

    @property
    def own(self) -> ForwardSubstitution:
        """Of the rows' own gradient and values."""

    def forward(self, gradient: Array, violations: Sequence[Array]) -> ForwardSubstitution:
        """Of another gradient g (N t,) and values b of the hard rows, each (count, rows).

        Its numbers are BᵀK⁻¹(g, b) and (g, b)ᵀK⁻¹(g, b).
        """

    def step(self, forward: ForwardSubstitution, parameters: Array) -> tuple[Array, list[Array]]:
        """The states' step (N t,) and the multipliers of each hard factor, for a step of the parameters."""


def saddle(equations: NormalEquations, hard: Sequence[Rows], damping: Array, workspace: Workspace) -> Saddle:
    """The saddle-point system of a chain.

    Args:
        equations: of the soft factors.
        hard: rows of the hard factors.
        damping: α D, (N t,), and 1 for unknowns that stand in no row.
        workspace: holds the factors; the next saddle point that takes the same makes this one useless.

    Raises:
        NotPositiveDefiniteError: if the system is singular.
    """
    tangent = len(equations.band) // equations.steps
    near = equations.band.shape[1] <= 2 * tangent and max(max(rows.offsets) for rows in hard) <= 1
    if near and (by := saddle_blocks()) is not None:
        return BlockSaddle(equations, hard, damping, by, workspace)
    return BandSaddle(equations, hard, damping)


class BlockSaddle:
    """By blocks; see ``saddle``."""

    def __init__(
        self,
        equations: NormalEquations,
        hard: Sequence[Rows],
        damping: Array,
        by: SaddleBlocks,
        workspace: Workspace,
    ) -> None:
        self._by, self._steps = by, equations.steps
        self._tangent = t = len(equations.band) // self._steps
        matrix, self._places = merged(hard, t, self._steps)
        band = np.ascontiguousarray(equations.band).reshape(self._steps, t, -1)
        places = by.place(self._steps, t, matrix, integers(equations.linked))
        none = np.zeros(places.later.shape)
        self._factor, self.corner, failed = by.factorize(
            places, band, damping, equations.border, matrix, none, workspace
        )
        if failed:
            raise NotPositiveDefiniteError(f"no pivot in step {failed - 1}")

    @property
    def own(self) -> ForwardSubstitution:
        return ForwardSubstitution(None, self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array, violations: Sequence[Array]) -> ForwardSubstitution:
        places = self._factor.places
        right, values = np.zeros((self._steps, places.most)), np.zeros(places.later.shape)
        right[:, : self._tangent] = gradient.reshape(-1, self._tangent)
        for place, given in zip(self._places, violations, strict=True):
            values[place] = given
        right.ravel()[places.where] = values[places.held]
        solved, taken, square = self._by.forward(self._factor, right)
        return ForwardSubstitution(solved, taken[:-1], square)

    def step(self, forward: ForwardSubstitution, parameters: Array) -> tuple[Array, list[Array]]:
        places = self._factor.places
        both = self._by.backward(self._factor, forward.values, np.ascontiguousarray(parameters))
        multipliers = np.zeros(places.later.shape)
        multipliers[places.held] = both.ravel()[places.where]
        return both[:, : self._tangent].ravel(), [multipliers[place] for place in self._places]


def merged(hard: Sequence[Rows], tangent: int, steps: int) -> tuple[Array, list[tuple[slice, slice]]]:
    """Transposed Jacobians of all hard factors, (N, 2 t + n_p + 1, rows), the k-th of steps k − 1 and k; and where the
    rows of each factor are, steps and rows. Those of the first step alone stand where others begin at the second."""
    places, used = [], [0, 0]
    for rows in hard:
        count, last = len(rows.matrix), max(rows.offsets)
        touched = [i for i, there in enumerate((last == 0, last + count > 1)) if there]
        start = max(used[i] for i in touched)
        stop = start + rows.matrix.shape[2]
        used = [stop if i in touched else used[i] for i in (0, 1)]
        places.append((slice(last, last + count), slice(start, stop)))
    behind = hard[0].matrix.shape[1] - tangent * len(hard[0].offsets)
    whole = np.zeros((steps, 2 * tangent + behind, max(used)))
    for rows, (at, columns) in zip(hard, places, strict=True):
        for i, offset in enumerate(rows.offsets):
            start = (1 + offset - max(rows.offsets)) * tangent
            whole[at, start : start + tangent, columns] = rows.matrix[:, i * tangent : (i + 1) * tangent]
        whole[at, 2 * tangent :, columns] = rows.matrix[:, len(rows.offsets) * tangent :]
    return whole, places


class BandSaddle:
    """By LAPACK's general band; see ``saddle``."""

    def __init__(self, equations: NormalEquations, hard: Sequence[Rows], damping: Array) -> None:
        self._steps = equations.steps
        self._tangent = tangent = len(equations.band) // self._steps
        sizes = [rows.matrix.shape[2] for rows in hard]
        self._places = [slice(tangent + sum(sizes[:i]), tangent + sum(sizes[: i + 1])) for i in range(len(sizes))]
        """Where in a step's block the multipliers of each hard factor stand."""
        self._size = tangent + sum(sizes)
        reach = max(equations.band.shape[1] // tangent - 1, *(max(rows.offsets) for rows in hard))
        lower = np.zeros((self._steps, reach + 1, self._size, self._size))
        border = np.zeros((self._steps, self._size, equations.border.shape[1]))
        self._add_soft(lower, border, equations)
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
        self._border = border.reshape(self._steps * self._size, -1)
        self._response = self._solved(self._border)
        self.corner = np.asarray(self._border.T @ self._response)

    @property
    def own(self) -> ForwardSubstitution:
        return ForwardSubstitution(self._response[:, -1], self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array, violations: Sequence[Array]) -> ForwardSubstitution:
        right = np.zeros((self._steps, self._size))
        right[:, : self._tangent] = gradient.reshape(-1, self._tangent)
        for place, values in zip(self._places, violations, strict=True):
            right[: len(values), place] = values
        solved = self._solved(right.reshape(-1, 1))[:, 0]
        return ForwardSubstitution(solved, self._border[:, :-1].T @ solved, float(right.ravel() @ solved))

    def step(self, forward: ForwardSubstitution, parameters: Array) -> tuple[Array, list[Array]]:
        assert forward.values is not None
        both = -(forward.values + self._response[:, :-1] @ parameters).reshape(self._steps, self._size)
        return both[:, : self._tangent].ravel(), [both[:, place] for place in self._places]

    def _solved(self, right: Array) -> Array:
        return np.asarray(_dgbtrs(self._factors, self._bandwidth, self._bandwidth, right, self._exchanges)[0])

    def _add_soft(self, lower: Array, border: Array, equations: NormalEquations) -> None:
        """JᵀJ and its border; lower[k, d] is the block of rows in step k + d and columns in step k."""
        t = self._tangent
        band = equations.band.reshape(self._steps, t, -1)
        for i in range(t):
            column = np.zeros((self._steps, band.shape[2]))
            column[:, i:] = band[:, i, : band.shape[2] - i]
            lower[:, : band.shape[2] // t, :t, i] += column.reshape(self._steps, -1, t)
            lower[:, 0, i, i + 1 : t] += column[:, i + 1 : t]
        border[:, :t] = equations.border.reshape(self._steps, t, -1)

    def _add_hard(self, lower: Array, border: Array, rows: Rows, place: slice) -> None:
        """A and its border; the multipliers of rows that reach over several steps stand in the first of them."""
        t, count, corner = self._tangent, len(rows.matrix), len(rows.offsets) * self._tangent
        for i, offset in enumerate(rows.offsets):
            block = rows.matrix[:, i * t : (i + 1) * t]
            lower[:count, offset, :t, place] = block
            if offset == 0:
                lower[:count, 0, place, :t] = block.transpose(0, 2, 1)
        border[:count, place] = rows.matrix[:, corner:].transpose(0, 2, 1)
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


class SaddleInverse(Protocol):
    """K with a border B of the parameters and the gradient."""

    corner: Array
    """BᵀK⁻¹B, (n_p + 1, n_p + 1)."""
    logarithm: float
    """log |det K|."""

    def responses(self) -> Array:
        """The states' part of K⁻¹B, (N, t, n_p + 1)."""

    def solve(self, right: Array) -> Array:
        """The states' part of K⁻¹ right for a right-hand side of the states, both (N, t, columns)."""

    def blocks(self) -> tuple[Array, Array]:
        """Blocks of K⁻¹: those of each step's states with all of its block, (N, t, t + m), and those with all of the
        next one's, (N − 1, t, t + m)."""


def saddle_inverse(equations: NormalEquations, hard: Array, compliance: Array, held: Mask) -> SaddleInverse:
    """K of a chain, in C or by NumPy.

    Args:
        equations: of H, which couples neighbours at most.
        hard: transposed Jacobians, (N, 2 t + n_p + 1, m), of which the k-th are of steps k − 1 and k.
        compliance: δ, (N, m).
        held: True where there is a row, (N, m); the first of each step.

    Raises:
        NotPositiveDefiniteError: if a block is singular, or does not have t positive eigenvalues as far as its
            determinant tells.
    """
    by = saddle_blocks()
    found = (
        ByElimination(equations, hard, compliance, held, by) if by else ByInverses(equations, hard, compliance, held)
    )
    return found


class ByElimination:
    """In C; see ``saddle_inverse``."""

    def __init__(
        self, equations: NormalEquations, hard: Array, compliance: Array, held: Mask, by: SaddleBlocks
    ) -> None:
        steps, self._by = len(hard), by
        self._tangent = t = len(equations.band) // steps
        slots = np.broadcast_to(t + np.arange(held.shape[1]), held.shape)
        rows = integers(t + held.sum(axis=1))
        later = integers(np.where(held, 1, -1))
        places = Places.of(later, integers(slots), rows, integers(equations.linked), t, hard.shape[1])
        band, unmoved = equations.band.reshape(steps, t, -1), (equations.band[:, 0] == 0).astype(np.float64)
        self._factor, self.corner, failed = by.factorize(
            places, band, unmoved, equations.border, hard, compliance, Workspace()
        )
        if failed:
            raise NotPositiveDefiniteError(f"no pivot in step {failed - 1}")
        self.logarithm = _logarithm(*self._factor.determinants(), held)

    def responses(self) -> Array:
        return self._by.responses(self._factor)[:, : self._tangent]

    def solve(self, right: Array) -> Array:
        whole = np.zeros((len(right), self._factor.places.most, right.shape[2]))
        whole[:, : self._tangent] = right
        return self._by.solve(self._factor, whole)[:, : self._tangent]

    def blocks(self) -> tuple[Array, Array]:
        return self._by.inverse(self._factor)


class ByInverses:
    """In NumPy, step by step."""

    def __init__(self, equations: NormalEquations, hard: Array, compliance: Array, held: Mask) -> None:
        steps, m = held.shape
        self._tangent = t = len(equations.band) // steps
        band, size, ends = equations.band.reshape(steps, t, -1), t + m, np.arange(t + m)
        lower = np.zeros((steps, max(band.shape[2], 2 * t), t))
        for i in range(t):
            lower[:, i : band.shape[2], i] = band[:, i, : band.shape[2] - i]
        diagonal, self._across = np.zeros((steps, size, size)), np.zeros((steps - 1, size, t))
        diagonal[:, :t, :t] = lower[:, :t] + np.tril(lower[:, :t], -1).transpose(0, 2, 1)
        diagonal[:, ends[:t], ends[:t]] += diagonal[:, ends[:t], ends[:t]] == 0  # unknowns that move nothing
        diagonal[:, :t, t:], diagonal[:, t:, :t] = hard[:, t : 2 * t], hard[:, t : 2 * t].transpose(0, 2, 1)
        diagonal[:, ends[t:], ends[t:]] = np.where(held, -compliance, -1.0)
        self._across[:, :t], self._across[:, t:] = lower[:-1, t : 2 * t], hard[1:, :t].transpose(0, 2, 1)
        border = np.concatenate([equations.border.reshape(steps, t, -1), hard[:, 2 * t :].transpose(0, 2, 1)], axis=1)
        self._inverses, self.logarithm = self._eliminated(diagonal)
        self._response = self._solved(border)
        self.corner = np.tensordot(border, self._response, axes=((0, 1), (0, 1)))

    def responses(self) -> Array:
        return self._response[:, : self._tangent]

    def solve(self, right: Array) -> Array:
        more = self._inverses.shape[1] - self._tangent
        return self._solved(np.pad(right, ((0, 0), (0, more), (0, 0))))[:, : self._tangent]

    def _eliminated(self, blocks: Array) -> tuple[Array, float]:
        """Inverses of the blocks, each less what eliminating those before leaves of it, in their place; log |det K|."""
        t = self._tangent
        for k in range(len(blocks)):
            if k:
                blocks[k] -= self._across[k - 1] @ blocks[k - 1, :t, :t] @ self._across[k - 1].T
            try:
                blocks[k] = np.linalg.inv(blocks[k])
            except np.linalg.LinAlgError as error:
                raise NotPositiveDefiniteError(f"no pivot in step {k}") from error
        signs, logarithms = np.linalg.slogdet(blocks)
        return blocks, _logarithm(signs, -logarithms, np.ones((1, blocks.shape[1] - t), dtype=np.bool_))

    def _solved(self, right: Array) -> Array:
        """K⁻¹ right, (N, t + m, columns)."""
        t, inverses, across = self._tangent, self._inverses, self._across
        half = np.empty_like(right)
        for k, own in enumerate(right):
            half[k] = inverses[k] @ (own - across[k - 1] @ half[k - 1, :t] if k else own)
        for k in range(len(right) - 2, -1, -1):
            half[k] -= inverses[k, :, :t] @ (across[k].T @ half[k + 1])
        return half

    def blocks(self) -> tuple[Array, Array]:
        t, blocks = self._tangent, self._inverses.copy()
        ahead = np.empty((len(blocks) - 1, t, blocks.shape[1]))
        for k in range(len(blocks) - 2, -1, -1):
            moved = self._across[k] @ self._inverses[k, :t]
            seen = blocks[k + 1] @ moved
            ahead[k] = -seen[:, :t].T
            blocks[k] += moved.T @ seen
        return blocks[:, :t], ahead


def _logarithm(signs: Array, logarithms: Array, held: Mask) -> float:
    """log |det K| of the determinants of blocks with so many multipliers."""
    if not np.all(signs == (-1.0) ** held.sum(axis=1)):
        raise NotPositiveDefiniteError("a block of the states is not positive definite")
    return float(np.sum(logarithms))
