"""One chain's states at a linearization: the determinant of their system, solutions, and covariances along the band.

Without hard rows the system is H = JᵀJ. With hard rows it is a saddle point. With C the hard rows and the random ones
of the steps, scaled to one norm, r of variance δ in that scale (0 of hard rows), and H of the others,

    K = [H + CᵀγC  Cᵀ ],      γ = 1/(1 + δ),    δ' = δ (1 + δ),
        [C        −δ' ]

whose states are those of H + CᵀC/δ for any γ: a row with variance δ' and one with 1/γ are one with δ. The inverse holds
the covariances P of the states and how they follow a change of the rows (``elimination``). Stiff rows in place of hard
ones, and random ones whose noise is small, would square the condition instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.stages import HardRows
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.elimination import Elimination, assembled, cross_covariances
from spookid.solvers.rows import Rows
from spookid.transcription.factor import Factor, Group

_INDEPENDENT = 1e-9
"""Singular values of the first step's hard rows below this share of the largest are zero."""


class System:
    """The states of one chain, from the rows of its factors; the parameters, and the residuals behind them, are its
    border B.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(
        self, factors: Sequence[Factor], rows: Sequence[Rows], steps: int, tangent: int, parameters: int
    ) -> None:
        self._rows, self._tangent = rows, tangent
        stiff = any(factor.hard for factor in factors)
        norm = self._norm(factors) if stiff else 1.0
        self._held = {
            i: _Held.of(rows[i], f.hard, tangent, norm) for i, f in enumerate(factors) if stiff and _has_multipliers(f)
        }
        weighted = [self._held[i].weighted() if i in self._held else own for i, own in enumerate(rows)]
        hard, room = [HardRows(h.rows.offsets, h.rows.matrix, h.slack) for h in self._held.values()], Workspace()
        equations = assembled(weighted, hard, steps, tangent, parameters, room)
        self._elimination = Elimination(equations, None, hard, room)
        self.corner = equations.corner - self._elimination.corner
        """What is left of the parameters' corner, (n_p + 1, n_p + 1)."""

    @cached_property
    def response(self) -> Array:
        """The states' part of K⁻¹B, (N t, n_p + 1)."""
        return self._elimination.responses()[0]

    @cached_property
    def variances(self) -> Array | None:
        """Of the states if random rows stand as squares, (N, t), as a bound of the digits that costs; None if rows have
        multipliers."""
        t = self._tangent
        return None if self._held else np.array(np.einsum("kii->ki", self._blocks[:, :t, :t]))

    @cached_property
    def _blocks(self) -> Array:
        return self._elimination.covariances()

    def logarithm(self) -> float:
        """log |det K|, with rows as they are."""
        more = zip(self._held.values(), self._elimination.held(), strict=True)
        return self._elimination.logarithm - sum(float(np.sum(there @ h.logarithms)) for h, there in more)

    def solve(self, right: Array) -> Array:
        """The states' part of K⁻¹ right for a right-hand side (N t, m) of the states."""
        return self._elimination.solve(right)[0]

    def cross_covariances(self, number: int) -> Array:
        """P Jᵀ of soft rows, N of hard ones, by the number of the factor, (count, columns, rows)."""
        rows = self._rows[number]
        if number in self._held:
            place = list(self._held).index(number)
            return self._held[number].back(self._elimination.along(self._blocks, place, rows.offsets))
        return cross_covariances(self._blocks, rows.offsets, rows.matrix[:, : len(rows.offsets) * self._tangent])

    def release(self) -> None:
        """Forget covariances, the larger part of all that is kept; they are made again when asked for."""
        _ = self.variances  # few numbers, often asked for
        self.__dict__.pop("_blocks", None)

    def _norm(self, factors: Sequence[Factor]) -> float:
        """Of the other rows, to which those that have multipliers are scaled."""
        others = [
            r.matrix for f, r in zip(factors, self._rows, strict=True) if not f.hard and f.group is not Group.STATE
        ]
        squares = np.concatenate([np.einsum("kcr,kcr->r", m[:, :-1], m[:, :-1]) / len(m) for m in others])
        return float(np.sqrt(np.max(squares, initial=0.0))) or 1.0


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
    def slack(self) -> Array:
        """δ' of all rows, (count, m)."""
        return np.tile(self.variance * (1 + self.variance), (len(self.rows.matrix), 1))

    @property
    def logarithms(self) -> Array:
        """What each row of a step adds to log |det K|, above that of H with the rows as they are, (m,)."""
        random = self.variance * (1 + self.variance)
        return np.asarray(np.log(np.where(self.variance > 0, random, self.scale**2)))


def independent_combinations(rows: Rows, states: int) -> Array:
    """Orthonormal combinations of rows of the first step that do not depend on one another in so many unknowns of the
    ``states``, (rows, combinations)."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :states].T, full_matrices=False)
    return np.asarray(left[:, values > _INDEPENDENT * values.max(initial=0.0)])


def triangular(information: Array) -> Array:
    """R factor of T by an eigendecomposition, so that a singular Schur complement has one too."""
    values, vectors = np.linalg.eigh(information)
    return np.asarray(np.linalg.qr(np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T, mode="r"))
