"""One chain's states at a linearization: the determinant of their system, solutions, and covariances along the band.

Without hard rows the system is H = JᵀJ. With hard rows, each of which links a step with the next or stands at the first
one, it is a saddle point. With C the hard rows and the random ones of the steps, scaled to one norm, r of variance δ in
that scale (0 of hard rows), and H of the others,

    K = [H + CᵀγC  Cᵀ ],      γ = 1/(1 + δ),    δ' = δ (1 + δ),
        [C        −δ' ]

whose states are those of H + CᵀC/δ for any γ: a row with variance δ' and one with 1/γ are one with δ. The inverse holds
the covariances P of the states and how they follow a change of the rows. Multipliers stand behind the later step's
unknowns, and blocks of a step and its multipliers are eliminated in turn, all of them definite in the states thanks to
γ. Stiff rows in the place of hard ones, and random ones whose noise is small, would square the condition instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.elimination import eliminate
from spookid.solvers.rows import Rows
from spookid.solvers.selected_inversion import cross_covariances, selected_inverse
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, normal_equations
from spookid.transcription.factor import Factor, Group

_INDEPENDENT = 1e-9
"""Singular values of the first step's hard rows below this share of the largest are zero."""


class System(Protocol):
    """The states of one chain; the parameters, and the residuals behind them, are its border B."""

    corner: Array
    """What is left of the parameters' corner, (n_p + 1, n_p + 1)."""

    @property
    def response(self) -> Array:
        """The states' part of K⁻¹B, (N t, n_p + 1)."""

    @property
    def variances(self) -> Array | None:
        """Of the states if random rows stand as squares, (N, t), as a bound of the digits that costs; None if rows have
        multipliers."""

    def logarithm(self) -> float:
        """log |det K|."""

    def solve(self, right: Array) -> Array:
        """The states' part of K⁻¹ right for a right-hand side (N t, m) of the states, perhaps in its place."""

    def cross_covariances(self, number: int) -> Array:
        """P Jᵀ of soft rows, N of hard ones, by the number of the factor, (count, columns, rows)."""

    def release(self) -> None:
        """Forget covariances, the larger part of all that is kept; they are made again when asked for."""


def system(factors: Sequence[Factor], rows: Sequence[Rows], steps: int, tangent: int, parameters: int) -> System:
    """The system of a chain from the rows of its factors.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    if not any(factor.hard for factor in factors):
        return SoftSystem(normal_equations(rows, steps, tangent, parameters), rows, tangent)
    return HardSystem(factors, rows, steps, tangent, parameters)


class SoftSystem:
    """By a Cholesky factor."""

    def __init__(self, equations: NormalEquations, rows: Sequence[Rows], tangent: int) -> None:
        self._rows, self._tangent, whole = rows, tangent, equations.corner
        self._elimination = eliminate(equations, 0.0, overwrite=True)
        self.corner, self.solve = whole - self._elimination.corner, self._elimination.solve

    @cached_property
    def response(self) -> Array:
        return self._elimination.responses()

    @cached_property
    def variances(self) -> Array | None:
        t = self._tangent
        return np.array(np.einsum("kii->ki", self._blocks[:, :t, :t]))

    @cached_property
    def _blocks(self) -> Array:
        return selected_inverse(self._elimination.columns(slice(None)), self._tangent)

    def logarithm(self) -> float:
        return 2 * float(np.sum(np.log(self._elimination.columns(slice(None))[0])))

    def release(self) -> None:
        _ = self.variances  # few numbers, often asked for
        self.__dict__.pop("_blocks", None)

    def cross_covariances(self, number: int) -> Array:
        rows = self._rows[number]
        return cross_covariances(self._blocks, rows.offsets, rows.matrix[:, : len(rows.offsets) * self._tangent])


class HardSystem:
    """By blocks of a step's unknowns and multipliers, (t + m); rows are of a step, or of it and the next.

    Raises:
        NotPositiveDefiniteError: as ``system``, and for rows that reach farther, which the blocks would leave out.
    """

    def __init__(
        self, factors: Sequence[Factor], rows: Sequence[Rows], steps: int, tangent: int, parameters: int
    ) -> None:
        for factor, own in zip(factors, rows, strict=True):
            if len(own.offsets) > 1 and tuple(own.offsets) != (0, 1):
                raise NotPositiveDefiniteError(
                    f"{factor.name} spans steps {', '.join(map(str, own.offsets))}; beside hard rows only neighbours do"
                )
        self._rows, self._t, self._steps = rows, tangent, steps
        self._held = self._scaled(factors)
        weighted = [self._weighted(i) for i in range(len(rows))]
        equations = normal_equations(weighted, steps, tangent, parameters)
        size = max((held.place.stop for held in self._held.values()), default=tangent)
        blocks, self._across = self._blocks(equations, size)
        self._inverses, logarithm = _eliminated(blocks, self._across, tangent)
        self._whole = logarithm - sum(len(rows[i].matrix) * held.logarithm for i, held in self._held.items())
        border = self._bordered(equations, size)
        solved = self._solved(border)
        self.corner = equations.corner - np.tensordot(border, solved, axes=((0, 1), (0, 1)))
        self._response = np.ascontiguousarray(solved[:, :tangent]).reshape(-1, border.shape[2])

    @property
    def response(self) -> Array:
        return self._response

    @property
    def variances(self) -> Array | None:
        return None

    def logarithm(self) -> float:
        return self._whole

    def solve(self, right: Array) -> Array:
        t, wide = self._t, np.zeros((self._steps, self._inverses.shape[1], right.shape[1]))
        wide[:, :t] = right.reshape(self._steps, t, -1)
        return np.ascontiguousarray(self._solved(wide)[:, :t]).reshape(right.shape)

    def cross_covariances(self, number: int) -> Array:
        rows, t, (P, ahead) = self._rows[number], self._t, self._blocks_of_inverse
        if (held := self._held.get(number)) is not None:
            if held.first:
                return np.asarray(P[:1, :t, held.place] @ held.back)
            return np.concatenate([ahead[:, :, held.place], P[1:, :t, held.place]], axis=1) @ held.back
        count, J = len(rows.matrix), rows.matrix[:, : len(rows.offsets) * t]
        if len(rows.offsets) == 1:
            return np.asarray(np.matmul(P[rows.offsets[0] :][:count, :t, :t], J))
        here, there, cross = J[:, :t], J[:, t:], ahead[:, :, :t]
        before = np.matmul(P[:-1, :t, :t], here) + np.matmul(cross, there)
        return np.concatenate(
            [before, np.matmul(cross.transpose(0, 2, 1), here) + np.matmul(P[1:, :t, :t], there)], axis=1
        )

    def _scaled(self, factors: Sequence[Factor]) -> dict[int, _Held]:
        """Rows that have multipliers, by the numbers of their factors."""
        t = self._t
        others = [
            r.matrix for f, r in zip(factors, self._rows, strict=True) if not f.hard and f.group is not Group.STATE
        ]
        squares = np.concatenate([np.einsum("kcr,kcr->r", m[:, :-1], m[:, :-1]) / len(m) for m in others])
        norm = float(np.sqrt(np.max(squares, initial=0.0))) or 1.0
        held: dict[int, _Held] = {}
        stops = {True: t, False: t}
        for i, (factor, rows) in enumerate(zip(factors, self._rows, strict=True)):
            if factor.hard or (factor.group is Group.STATE and not factor.first_only):
                first = factor.first_only
                held[i] = _Held.of(rows, factor.hard, first, t, norm, stops[first])
                stops[first] = held[i].place.stop
        return held

    def _weighted(self, number: int) -> Rows:
        """The rows of a factor as they stand in H + CᵀγC."""
        rows, held = self._rows[number], self._held.get(number)
        if held is None:
            return rows
        return replace(rows, matrix=rows.matrix @ (held.onto * np.sqrt(1 / (1 + held.variance))), places=None)

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
        for i, held in self._held.items():
            J = (self._rows[i].matrix[:, : (2 - held.first) * t] @ held.onto).transpose(0, 2, 1)
            at, place, own = held.steps, held.place, J[:, :, -t:]
            diagonal[at, ends[place], ends[place]] = -held.variance * (1 + held.variance)
            diagonal[at, place, :t], diagonal[at, :t, place] = own, own.transpose(0, 2, 1)
            if not held.first:
                across[:, place] = J[:, :, :t]
        return diagonal, across

    def _bordered(self, equations: NormalEquations, size: int) -> Array:
        """The border, (N, t + m, n_p + 1)."""
        columns = equations.border.shape[1]
        border = np.zeros((self._steps, size, columns))
        border[:, : self._t] = equations.border.reshape(self._steps, self._t, -1)
        for i, held in self._held.items():
            border[held.steps, held.place] = (self._rows[i].matrix[:, -columns:] @ held.onto).transpose(0, 2, 1)
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

    def release(self) -> None:
        self.__dict__.pop("_blocks_of_inverse", None)

    @cached_property
    def _blocks_of_inverse(self) -> tuple[Array, Array]:
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


@dataclass(frozen=True, eq=False)
class _Held:
    """How rows of a factor stand in K."""

    first: bool
    """True if they stand at the first step only."""
    place: slice
    """Of their multipliers in a block."""
    onto: Array
    """From the factor's rows to those of C, (rows, m)."""
    variance: Array
    """δ, (m,)."""

    @classmethod
    def of(cls, rows: Rows, hard: bool, first: bool, tangent: int, norm: float, start: int) -> _Held:
        """Of hard or random rows, to be scaled to a norm; their multipliers stand from ``start`` on."""
        basis = independent_combinations(rows, tangent) if first else np.eye(rows.matrix.shape[2])
        states = rows.matrix[:, : len(rows.offsets) * tangent] @ basis
        sizes = np.sqrt(np.einsum("kcr,kcr->r", states, states) / len(states))
        scale = norm / np.where(sizes > 0, sizes, norm)
        variance = np.zeros_like(scale) if hard else scale**2
        return cls(first, slice(start, start + len(scale)), basis * scale, variance)

    @property
    def steps(self) -> slice:
        """In whose blocks the multipliers stand."""
        return slice(0, 1) if self.first else slice(1, None)

    @property
    def back(self) -> Array:
        """From what the states make of multipliers in K to P Jᵀ, (m, rows)."""
        random = self.variance > 0
        return (self.onto * np.where(random, 1 + self.variance, 1.0)).T

    @property
    def logarithm(self) -> float:
        """What a step's rows add to log |det K|, above that of H with the rows as they are."""
        sizes = np.sum(self.onto**2, axis=0)
        random = self.variance * (1 + self.variance)
        return float(np.sum(np.log(np.where(self.variance > 0, random, sizes))))


def independent_combinations(rows: Rows, states: int) -> Array:
    """Orthonormal combinations of rows of the first step that do not depend on one another in so many unknowns of the
    ``states``, (rows, combinations)."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :states].T, full_matrices=False)
    return np.asarray(left[:, values > _INDEPENDENT * values.max(initial=0.0)])


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


def triangular(information: Array) -> Array:
    """R factor of T by an eigendecomposition, so that a singular Schur complement has one too."""
    values, vectors = np.linalg.eigh(information)
    return np.asarray(np.linalg.qr(np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T, mode="r"))
