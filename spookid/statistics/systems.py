"""One chain's states at a linearization: the determinant of their system, solutions, and covariances along the band.

Without hard rows the system is H = JᵀJ. With hard rows A, each of which links a step with the next or stands at the
first one, it is the saddle point

    K = [H + AᵀA  Aᵀ]
        [A        0 ],

whose determinant is that of H on the null space of A times that of AAᵀ, and whose inverse holds the covariances P of the
states and N, how they follow a change of the hard rows. AᵀA changes neither, nor any solution; it makes H definite step
by step where few joints are observed. Multipliers stand behind the later step's unknowns, and blocks of a step and its
multipliers are eliminated in turn. Stiff rows √ρ A in the place of A would square their condition and lose the digits of
ρ P Aᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spookid.factor import Factor
from spookid.kernels import Array
from spookid.solvers.elimination import eliminate
from spookid.solvers.neighbours import neighbours
from spookid.solvers.reduction import Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, assemble

INDEPENDENT = 1e-9
"""Singular values of the first step's hard rows below this share of the largest are zero."""


class System(Protocol):
    """The states of one chain; the parameters, and the residuals behind them, are its border B."""

    corner: Array
    """What is left of the parameters' corner, (n_p + 1, n_p + 1)."""
    response: Array
    """The states' part of K⁻¹B, (N t, n_p + 1)."""

    def logarithm(self) -> float:
        """log |det K|."""

    def solve(self, right: Array) -> Array:
        """The states' part of K⁻¹ right for a right-hand side (N t, m) of the states, perhaps in its place."""

    def spread(self, number: int) -> Array:
        """P Jᵀ of soft rows, N of hard ones, by the number of the factor, (count, columns, rows)."""


def system(factors: Sequence[Factor], rows: Sequence[Rows], steps: int, tangent: int, parameters: int) -> System:
    """The system of a chain from the rows of its factors.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    equations = assemble(rows, steps, tangent, parameters)
    if not any(factor.hard for factor in factors):
        return SoftSystem(equations, rows, tangent)
    return HardSystem(equations, factors, rows, tangent)


class SoftSystem:
    """By a Cholesky factor."""

    def __init__(self, equations: NormalEquations, rows: Sequence[Rows], tangent: int) -> None:
        self._rows, self._tangent, whole = rows, tangent, equations.corner
        elimination = eliminate(equations, 0.0, overwrite=True)
        self.corner, self.response = whole - elimination.corner, elimination.response
        self._factor, self.solve = elimination.factor, elimination.solve
        self._blocks = neighbours(self._factor, tangent)

    def logarithm(self) -> float:
        return 2 * float(np.sum(np.log(self._factor[0])))

    def spread(self, number: int) -> Array:
        rows, t = self._rows[number], self._tangent
        states = rows.matrix[:, : len(rows.offsets) * t]
        seen = self._blocks[: len(rows.matrix)]
        if max(rows.offsets) + 1 > len(rows.offsets):
            places = np.concatenate([np.arange(o * t, (o + 1) * t) for o in rows.offsets])
            seen = seen[:, places[:, None], places]
        wide = states.shape[1]
        return np.matmul(seen[:, :wide, :wide], states)


class HardSystem:
    """By blocks of a step's unknowns and multipliers, (t + m)."""

    def __init__(
        self, equations: NormalEquations, factors: Sequence[Factor], rows: Sequence[Rows], tangent: int
    ) -> None:
        self._rows, self._factors, self._t, self._steps = rows, factors, tangent, equations.steps
        self._first = {i: independent(rows[i], tangent) for i, f in enumerate(factors) if f.hard and f.first_only}
        """Bases of the first step's rows, by the numbers of their factors."""
        self._linking = [i for i, f in enumerate(factors) if f.hard and not f.first_only]
        self._places = self._placed()
        held = max((place.stop for place in self._places.values()), default=0)
        diagonal, self._across = self._blocks(equations, held)
        self._inverses, self._whole = _eliminated(diagonal, self._across, tangent)
        border = self._bordered(equations, held)
        solved = self._solved(border)
        self.corner = equations.corner - np.tensordot(border, solved, axes=((0, 1), (0, 1)))
        self.response = np.ascontiguousarray(solved[:, :tangent]).reshape(-1, border.shape[2])
        self._covariances, self._ahead = self._swept()

    def logarithm(self) -> float:
        return self._whole

    def solve(self, right: Array) -> Array:
        t, wide = self._t, np.zeros((self._steps, self._inverses.shape[1], right.shape[1]))
        wide[:, :t] = right.reshape(self._steps, t, -1)
        return np.ascontiguousarray(self._solved(wide)[:, :t]).reshape(right.shape)

    def spread(self, number: int) -> Array:
        rows, t, P = self._rows[number], self._t, self._covariances
        if number in self._first:
            return np.asarray(P[:1, :t, self._places[number]] @ self._first[number].T)
        if number in self._places:
            place = self._places[number]
            return np.concatenate([self._ahead[:, :, place], P[1:, :t, place]], axis=1)
        count, J = len(rows.matrix), rows.matrix[:, : len(rows.offsets) * t]
        if rows.offsets == (0,):
            return np.matmul(P[:count, :t, :t], J)
        here, there, cross = J[:, :t], J[:, t:], self._ahead[:, :, :t]
        before = np.matmul(P[:-1, :t, :t], here) + np.matmul(cross, there)
        return np.concatenate(
            [before, np.matmul(cross.transpose(0, 2, 1), here) + np.matmul(P[1:, :t, :t], there)], axis=1
        )

    def _placed(self) -> dict[int, slice]:
        """Where the multipliers of each hard factor stand in a block."""
        places, at = {}, self._t
        for i, basis in self._first.items():
            places[i] = slice(at, at := at + basis.shape[1])
        at = self._t
        for i in self._linking:
            places[i] = slice(at, at := at + self._rows[i].matrix.shape[2])
        return places

    def _blocks(self, equations: NormalEquations, size: int) -> tuple[Array, Array]:
        """Diagonal blocks (N, t + m, t + m), and what couples each with the states before, (N − 1, t + m, t)."""
        t, band = self._t, equations.band.reshape(self._steps, self._t, -1)
        lower = np.zeros((self._steps, max(band.shape[2], 2 * t), t))
        for i in range(t):
            lower[:, i : band.shape[2], i] = band[:, i, : band.shape[2] - i]
        diagonal, across = np.zeros((self._steps, size, size)), np.zeros((self._steps - 1, size, t))
        own, ends = lower[:, :t], np.arange(size)
        diagonal[:, :t, :t] = own + np.tril(own, -1).transpose(0, 2, 1)
        diagonal[:, ends[:t], ends[:t]] += diagonal[:, ends[:t], ends[:t]] == 0  # unknowns that move nothing
        across[:, :t] = lower[:-1, t : 2 * t]
        diagonal[:, ends[t:], ends[t:]] = -1.0  # where no multiplier stands
        for i, place in self._places.items():
            first = i in self._first
            J = self._rows[i].matrix[:, :-1].transpose(0, 2, 1)
            if first:
                J = self._first[i].T @ J
            else:
                across[:, place] = J[:, :, :t]
            at, held = slice(0, 1) if first else slice(1, None), np.arange(place.start, place.stop)
            diagonal[at, held, held] = 0.0
            A = J[:, :, :t] if first else J[:, :, t : 2 * t]
            diagonal[at, place, :t], diagonal[at, :t, place] = A, A.transpose(0, 2, 1)
        return diagonal, across

    def _bordered(self, equations: NormalEquations, size: int) -> Array:
        """The border, (N, t + m, n_p + 1)."""
        columns = equations.border.shape[1]
        border = np.zeros((self._steps, size, columns))
        border[:, : self._t] = equations.border.reshape(self._steps, self._t, -1)
        for i, place in self._places.items():
            part = self._rows[i].matrix[:, -columns:].transpose(0, 2, 1)
            if i in self._first:
                border[:1, place] = self._first[i].T @ part
            else:
                border[1:, place] = part
        return border

    def _solved(self, right: Array) -> Array:
        """K⁻¹ right, (N, t + m, columns)."""
        t, inverses, across = self._t, self._inverses, self._across
        half = np.empty_like(right)
        for k, own in enumerate(right):
            half[k] = inverses[k] @ (own - across[k - 1] @ half[k - 1, :t] if k else own)
        for k in range(len(right) - 2, -1, -1):
            half[k] -= inverses[k, :, :t] @ (across[k].T @ half[k + 1])
        return half

    def _swept(self) -> tuple[Array, Array]:
        """Blocks of K⁻¹: the diagonal ones, (N, t + m, t + m), and those of a step's states with all of the next
        block, (N − 1, t, t + m)."""
        t, blocks = self._t, self._inverses.copy()
        ahead = np.empty((len(blocks) - 1, t, blocks.shape[1]))
        for k in range(len(blocks) - 2, -1, -1):
            moved = self._across[k] @ self._inverses[k, :t]
            seen = blocks[k + 1] @ moved
            ahead[k] = -seen[:, :t].T
            blocks[k] += moved.T @ seen
        return blocks, ahead


def independent(rows: Rows, tangent: int) -> Array:
    """Orthonormal combinations of rows of the first step that do not depend on one another, (rows, combinations)."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :tangent].T, full_matrices=False)
    return np.asarray(left[:, values > INDEPENDENT * values.max(initial=0.0)])


def _eliminated(blocks: Array, across: Array, tangent: int) -> tuple[Array, float]:
    """Inverses of the blocks, each less what eliminating those before leaves of it, and the logarithm of the product of
    their determinants; the blocks are overwritten.

    Raises:
        NotPositiveDefiniteError: if a block is singular, or does not have t positive eigenvalues as far as its
            determinant tells.
    """
    t, size = tangent, blocks.shape[1]
    for k in range(len(blocks)):
        if k:
            blocks[k] -= across[k - 1] @ blocks[k - 1, :t, :t] @ across[k - 1].T
        try:
            blocks[k] = np.linalg.inv(blocks[k])
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(f"no pivot in step {k}") from error
    signs, logarithms = np.linalg.slogdet(blocks)
    if not np.all(signs == (-1.0) ** (size - t)):
        raise NotPositiveDefiniteError("a block of the states is not positive definite")
    return blocks, -float(np.sum(logarithms))
