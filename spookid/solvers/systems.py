"""Linear system of a chain's states at a linearization: determinant, solutions, projected residuals and covariances.

Without equality constraints the system is H = JᵀJ. With equality constraints it is a saddle point. With C the equality
constraints and the random ones of the steps, scaled to one norm, r of variance δ in that scale (0 of equality
constraints), and H of the others,

    K = [H + CᵀγC  Cᵀ ],      γ = 1/(1 + δ),    δ' = δ (1 + δ),
        [C        −δ' ]

which has the same states as H + CᵀC/δ for any γ: equations with variances δ' and 1/γ combine to one with δ. The inverse
contains the covariances P of the states and their response to the residuals (``elimination``). Penalties instead of
equality constraints, or squared equations of small noise, would square the condition number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import DEPENDENT
from spookid.kernels.stages import HardRows
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.elimination import Elimination, assembled, cross_covariances
from spookid.solvers.rows import Columns, LinearizedFactor, Rows
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.factor import Factor, Group

_LENIENT = 1e-14
"""Share of their diagonal that is added for unknowns of which too little is known."""


class System:
    """Linear system of the states of one chain; parameters and residuals form its border B.

    Args:
        terms: the factors.
        lenient: True if no determinant is asked for: states may be not determined, equality constraints stand as they
            are, and random ones beside them as squares, which saves a sixth of the time to condense a Furuta pendulum
            in SPOOK.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(self, terms: Sequence[LinearizedFactor], lenient: bool = False) -> None:
        self._terms = terms
        norm = None if lenient or not any(term.factor.hard for term in terms) else self._norm()
        held = [i for i, t in enumerate(terms) if t.factor.hard or (norm is not None and _is_random(t.factor))]
        self._held = {i: _Held.of(terms[i], norm) for i in held}
        try:
            self._eliminate(0.0)
        except NotPositiveDefiniteError:
            if not lenient:
                raise
            self._eliminate(_LENIENT)

    def _eliminate(self, damping: float) -> None:
        sources = [self._held[i].weighted() if i in self._held else term.source for i, term in enumerate(self._terms)]
        hard, room = [HardRows(h.rows.offsets, h.rows.matrix, h.slack) for h in self._held.values()], Workspace()
        first = self._terms[0]
        equations = assembled(sources, hard, first.steps, first.tangent, first.parameters, room)
        sizes = equations.band[:, 0]
        self.moving = int(np.count_nonzero(sizes))
        """States that move any row."""
        damped = np.where(sizes == 0, 1.0, damping * sizes) if damping else None
        self._elimination = Elimination(equations, damped, hard, room)
        self.corner = equations.corner - self._elimination.corner
        """What is left of the parameters' corner, (n_p + 1, n_p + 1)."""

    @cached_property
    def response(self) -> Array:
        """States' part of K⁻¹B, (N t, n_p + 1)."""
        return self._elimination.responses()[0]

    @cached_property
    def variances(self) -> Array | None:
        """Variances of the states if process-noise equations enter as squares, (N, t), to bound rounding errors; None
        if equations have multipliers."""
        t = self._terms[0].tangent
        return None if self._held else np.array(np.einsum("kii->ki", self._blocks[:, :t, :t]))

    @cached_property
    def _blocks(self) -> Array:
        return self._elimination.covariances()

    @property
    def held(self) -> int:
        """Equality constraints that others do not imply."""
        there = zip(self._held.values(), self._elimination.held(), strict=True)
        return sum(int(rows.sum()) for held, rows in there if held.hard)

    def implied(self) -> dict[str, Mask]:
        """Redundant equality constraints by name of their factor, (count, rows), among the rows of C."""
        pairs = zip(self._held.items(), self._elimination.held(), strict=True)
        return {
            self._terms[i].factor.name: ~there & np.any(held.rows.matrix[:, :-1] != 0, axis=1)
            for (i, held), there in pairs
            if held.hard and held.basis is None and held.rows.complement is None
        }

    def logarithm(self) -> float:
        """log |det K|, with equations that are not scaled."""
        more = zip(self._held.values(), self._elimination.held(), strict=True)
        return self._elimination.logarithm - sum(float(np.sum(there @ h.logarithms)) for h, there in more)

    def solve(self, right: Array) -> Array:
        """States' part of K⁻¹ right, for a right-hand side (N t, m) of the states."""
        return self._elimination.solve(right)[0]

    def condensed(self, again: bool) -> Columns:
        """Border B without the states, (count, n_p + 1, rows) of each factor: (I − J_x J_x⁺) times its columns, and for
        equality constraints the multipliers. ``again``: project twice, so that it is exact to round-off."""
        responses, multipliers = self._elimination.responses()
        steps, forces, found = responses.reshape(*self._shape, -1), iter(self._of_hard(multipliers)), Columns()
        for term in self._terms:
            if term.factor.hard:
                found.append(-next(forces))
                continue
            columns = np.empty((len(term.residual), steps.shape[2], term.residual.shape[1]))
            for here, rows in term.parts():
                columns[here] = rows.matrix[:, term.unknowns :]
            for here, image in term.images(steps):
                columns[here] -= image
            found.append(columns)
        del steps, responses
        if again:
            self.project(found, balanced=True)
        return found

    def project(self, columns: Columns, balanced: bool = False) -> None:
        """Project the states out of residual vectors, which are overwritten; ``balanced`` if equality constraints
        already contain multipliers."""
        right, hard = np.zeros((*self._shape, columns[0].shape[1])), Columns()
        for term, part in zip(self._terms, columns, strict=True):
            if term.factor.hard:
                hard.append(np.zeros_like(part) if balanced else part)
                continue
            for here, rows in term.parts():
                rows.pull(part[here], right[here.start :])
        values = self._of_rows(hard, right.shape[2]) if hard else []
        solved, multipliers = self._elimination.solve(right.reshape(-1, right.shape[2]), values)
        steps = solved.reshape(right.shape)
        forces = iter(self._of_hard([f + v for f, v in zip(multipliers, values, strict=True)] if hard else []))
        for term, part in zip(self._terms, columns, strict=True):
            if term.factor.hard:
                part[:] = -next(forces)
                continue
            for here, image in term.images(steps):
                part[here] -= image

    def cross_covariances(self, number: int) -> Array:
        """Products P Jᵀ for residuals, N for constraints, by the number of the factor, (count, columns, rows)."""
        rows = self._terms[number].rows
        if number in self._held:
            place = list(self._held).index(number)
            return self._held[number].back(self._elimination.along(self._blocks, place, rows.offsets))
        states = rows.matrix[:, : self._terms[number].unknowns]
        return cross_covariances(self._blocks, rows.offsets, states)

    def covariances(self, terms: Sequence[LinearizedFactor]) -> Iterator[tuple[int, slice, Array, Array]]:
        """Jᵀ and P Jᵀ for residuals of some factors, (count, columns, rows), for some steps at a time: with the number
        of the factor and these steps."""
        for start, covariances in self._elimination.covariances_backward():
            here = slice(start, start + len(covariances))
            for number, term in enumerate(terms):
                states = term.at(here).matrix[:, : term.unknowns]
                yield number, here, states, cross_covariances(covariances, term.source.offsets, states)

    def release(self) -> None:
        """Release the covariances, which use the most memory; they are computed again on request."""
        _ = self.variances  # few numbers, often asked for
        self.__dict__.pop("_blocks", None)

    @property
    def _shape(self) -> tuple[int, int]:
        return self._terms[0].steps, self._terms[0].tangent

    def _of_rows(self, hard: Columns, columns: int) -> list[Array]:
        """Values of equality constraints as K has them, 0 in random ones: (count, rows, m)."""
        own = iter(hard)
        return [
            held.forth(next(own)) if held.hard else np.zeros((*held.slack.shape, columns))
            for held in self._held.values()
        ]

    def _of_hard(self, multipliers: Sequence[Array]) -> Columns:
        """Multipliers of equality constraints as these are, (count, m, rows)."""
        pairs = zip(self._held.values(), multipliers, strict=False)
        return [held.back(found.transpose(0, 2, 1)) for held, found in pairs if held.hard]

    def _norm(self) -> float:
        """Of the other rows, to which those that have multipliers are scaled."""
        squares = [np.zeros(1)]
        for term in self._terms:
            if not term.factor.hard and term.factor.group is not Group.STATE:
                sums = sum(np.einsum("kcr,kcr->r", m, m) for m in (p.matrix[:, :-1] for _, p in term.parts()))
                squares.append(sums / term.source.shape[0])
        return float(np.sqrt(np.max(np.concatenate(squares)))) or 1.0


def _is_random(factor: Factor) -> bool:
    return factor.group is Group.STATE and not factor.first_only


@dataclass(frozen=True, eq=False)
class _Held:
    """How rows of a factor stand in K."""

    hard: bool
    rows: Rows
    """Those of C."""
    basis: Array | None
    """Orthonormal combinations of the factor's rows, (rows, m), that those of C are; None: the rows themselves."""
    scale: Array
    """By which they are multiplied, (m,)."""
    variance: Array
    """δ, (m,)."""

    @classmethod
    def of(cls, term: LinearizedFactor, norm: float | None) -> _Held:
        """System of equality constraints or process-noise equations, scaled to a norm; None: equality constraints
        without scaling."""
        rows, hard = term.rows, term.factor.hard
        if norm is None:
            width = rows.matrix.shape[2]
            return cls(hard, rows, None, np.ones(width), np.zeros(width))
        first = len(rows.matrix) == 1 and len(rows.offsets) == 1
        basis = independent_combinations(rows, term.tangent) if first else None
        matrix = rows.matrix if basis is None else rows.matrix @ basis
        states = matrix[:, : term.unknowns]
        sizes = np.sqrt(np.einsum("kcr,kcr->r", states, states) / len(states))
        scale = norm / np.where(sizes > 0, sizes, norm)
        variance = np.zeros_like(scale) if hard else scale**2
        return cls(hard, replace(rows, matrix=matrix * scale, places=None), basis, scale, variance)

    def weighted(self) -> Rows:
        """Entries as in H + CᵀγC."""
        return self.rows if self.hard else self.rows.scaled(np.sqrt(1 / (1 + self.variance)))

    def forth(self, values: Array) -> Array:
        """Convert values of equality constraints, (count, m, rows), to the form of C, (count, rows, m)."""
        own = values if self.basis is None else values @ self.basis
        return np.asarray((own * self.scale).transpose(0, 2, 1))

    def back(self, found: Array) -> Array:
        """Products P Jᵀ, (count, columns, rows), from those with multipliers in K, (count, columns, m)."""
        scaled = found * (self.scale * np.where(self.variance > 0, 1 + self.variance, 1.0))
        return scaled if self.basis is None else np.asarray(scaled @ self.basis.T)

    @property
    def slack(self) -> Array:
        """Slack δ' of all equations, (count, m)."""
        return np.tile(self.variance * (1 + self.variance), (len(self.rows.matrix), 1))

    @property
    def logarithms(self) -> Array:
        """Contribution of each equation of a step to log |det K|, beyond that of H, without scaling, (m,)."""
        random = self.variance * (1 + self.variance)
        return np.asarray(np.log(np.where(self.variance > 0, random, self.scale**2)))


def independent_combinations(rows: Rows, states: int) -> Array:
    """Orthonormal combinations of the first step's equations that are independent in the first ``states`` unknowns,
    (rows, combinations)."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :states].T, full_matrices=False)
    return np.asarray(left[:, values > DEPENDENT * values.max(initial=0.0)])
