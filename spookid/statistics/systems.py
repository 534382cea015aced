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
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.elimination import cross_covariances, eliminate, selected_inverse
from spookid.solvers.rows import Rows
from spookid.solvers.saddle import merged, saddle_inverse
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
    """By blocks of a step's unknowns and multipliers; rows are of a step, or of it and the next.

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
        self._rows, self._t = rows, tangent
        norm = self._norm(factors)
        held = {i: _Held.of(rows[i], f.hard, tangent, norm) for i, f in enumerate(factors) if _has_multipliers(f)}
        whole, places = merged([h.rows for h in held.values()], tangent, steps)
        self._held = {i: (h, *place) for (i, h), place in zip(held.items(), places, strict=True)}
        weighted = [held[i].weighted() if i in held else own for i, own in enumerate(rows)]
        compliance, stand = np.zeros((steps, whole.shape[2])), np.zeros((steps, whole.shape[2]), dtype=np.bool_)
        for h, at, columns in self._held.values():
            compliance[at, columns], stand[at, columns] = h.variance * (1 + h.variance), True
        equations = normal_equations(weighted, steps, tangent, parameters)
        self._inverse = saddle_inverse(equations, whole, compliance, stand)
        self._whole = self._inverse.logarithm - sum(len(h.rows.matrix) * h.logarithm for h in held.values())
        self.corner = equations.corner - self._inverse.corner
        self.response = np.ascontiguousarray(self._inverse.responses()).reshape(steps * tangent, -1)

    @property
    def variances(self) -> Array | None:
        return None

    def logarithm(self) -> float:
        return self._whole

    def solve(self, right: Array) -> Array:
        solved = self._inverse.solve(right.reshape(-1, self._t, right.shape[1]))
        return np.ascontiguousarray(solved).reshape(right.shape)

    def cross_covariances(self, number: int) -> Array:
        rows, t, (P, ahead) = self._rows[number], self._t, self._blocks
        if number in self._held:
            held, at, columns = self._held[number]
            place = slice(t + columns.start, t + columns.stop)
            parts = [P[at, :, place]] if len(rows.offsets) == 1 else [ahead[:, :, place], P[at, :, place]]
            return held.back(np.concatenate(parts, axis=1))
        count, J = len(rows.matrix), rows.matrix[:, : len(rows.offsets) * t]
        if len(rows.offsets) == 1:
            return np.asarray(np.matmul(P[rows.offsets[0] :][:count, :, :t], J))
        here, there, cross = J[:, :t], J[:, t:], ahead[:, :, :t]
        before = np.matmul(P[:-1, :, :t], here) + np.matmul(cross, there)
        return np.concatenate(
            [before, np.matmul(cross.transpose(0, 2, 1), here) + np.matmul(P[1:, :, :t], there)], axis=1
        )

    def _norm(self, factors: Sequence[Factor]) -> float:
        """Of the other rows, to which those that have multipliers are scaled."""
        others = [
            r.matrix for f, r in zip(factors, self._rows, strict=True) if not f.hard and f.group is not Group.STATE
        ]
        squares = np.concatenate([np.einsum("kcr,kcr->r", m[:, :-1], m[:, :-1]) / len(m) for m in others])
        return float(np.sqrt(np.max(squares, initial=0.0))) or 1.0

    def release(self) -> None:
        self.__dict__.pop("_blocks", None)

    @cached_property
    def _blocks(self) -> tuple[Array, Array]:
        return self._inverse.blocks()


def _has_multipliers(factor: Factor) -> bool:
    return factor.hard or (factor.group is Group.STATE and not factor.first_only)


@dataclass(frozen=True, eq=False)
class _Held:
    """How rows of a factor stand in K."""

    rows: Rows
    """Those of C."""
    basis: Array | None
    """Orthonormal combinations of the factor's rows, (rows, m), that those of C are; None: the rows themselves."""
    scale: Array
    """By which they are multiplied, (m,)."""
    variance: Array
    """δ, (m,)."""

    @classmethod
    def of(cls, rows: Rows, hard: bool, tangent: int, norm: float) -> _Held:
        """Of hard or random rows, to be scaled to a norm."""
        first = len(rows.matrix) == 1 and len(rows.offsets) == 1
        basis = independent_combinations(rows, tangent) if first else None
        matrix = rows.matrix if basis is None else rows.matrix @ basis
        states = matrix[:, : len(rows.offsets) * tangent]
        sizes = np.sqrt(np.einsum("kcr,kcr->r", states, states) / len(states))
        scale = norm / np.where(sizes > 0, sizes, norm)
        variance = np.zeros_like(scale) if hard else scale**2
        return cls(replace(rows, matrix=matrix * scale, places=None), basis, scale, variance)

    def weighted(self) -> Rows:
        """As they stand in H + CᵀγC."""
        return replace(self.rows, matrix=self.rows.matrix * np.sqrt(1 / (1 + self.variance)))

    def back(self, found: Array) -> Array:
        """P Jᵀ, (count, columns, rows), of what the states make of multipliers in K, (count, columns, m)."""
        scaled = found * (self.scale * np.where(self.variance > 0, 1 + self.variance, 1.0))
        return scaled if self.basis is None else np.asarray(scaled @ self.basis.T)

    @property
    def logarithm(self) -> float:
        """What a step's rows add to log |det K|, above that of H with the rows as they are."""
        random = self.variance * (1 + self.variance)
        return float(np.sum(np.log(np.where(self.variance > 0, random, self.scale**2))))


def independent_combinations(rows: Rows, states: int) -> Array:
    """Orthonormal combinations of rows of the first step that do not depend on one another in so many unknowns of the
    ``states``, (rows, combinations)."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :states].T, full_matrices=False)
    return np.asarray(left[:, values > _INDEPENDENT * values.max(initial=0.0)])


def triangular(information: Array) -> Array:
    """R factor of T by an eigendecomposition, so that a singular Schur complement has one too."""
    values, vectors = np.linalg.eigh(information)
    return np.asarray(np.linalg.qr(np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T, mode="r"))
