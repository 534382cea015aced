"""Equalities and inequalities between parameters alone.

Every iterate of a solve satisfies them: a step satisfies their linearization, and where it ends the nearest parameters
that satisfy them take its place, so that costs of iterates compare and no merit weighs violations against costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.transcription.least_distance import least_distance, null_space

MET = 1e-12
"""A row is met if it is off by no more than this share of what its terms are at typical sizes of the parameters."""
_NEARLY, _ACTIVE = 1e-10, 1e-9
"""The same where rounding allows no better, and of an inequality that is met with equality."""
_PASSES, _SHORTEST = 50, 1e-4


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """A_eq δ = b_eq and A_in δ ≤ b_in of a step δ of the parameters (n_p,)."""

    A_eq: Array
    """(k_eq, n_p)."""
    b_eq: Array
    """(k_eq,)."""
    A_in: Array
    """(k_in, n_p)."""
    b_in: Array
    """(k_in,), not negative where the present parameters satisfy them."""

    def after(self, moved: Array | float) -> LinearConstraints:
        """Of what is left of a step of which a part is made."""
        if isinstance(moved, float):
            return self
        return LinearConstraints(self.A_eq, self.b_eq - self.A_eq @ moved, self.A_in, self.b_in - self.A_in @ moved)

    def among(self, others: int) -> LinearConstraints:
        """Of a step of the parameters and of so many unknowns behind them."""
        wider = (np.pad(rows, ((0, 0), (0, others))) for rows in (self.A_eq, self.A_in))
        return LinearConstraints(next(wider), self.b_eq, next(wider), self.b_in)


class ParameterConstraints:
    """Rows h(θ) = 0 and g(θ) ≤ 0.

    Args:
        parameters: symbols of the free parameters, (n_p,).
        equal, unequal: h and g, columns.
        titles: what messages call each row, those of h first.
        sizes: typical sizes of the parameters, positive, (n_p,).
        guess: of the parameters, (n_p,).
    """

    def __init__(
        self, parameters: ca.SX, equal: ca.SX, unequal: ca.SX, titles: Sequence[str], sizes: Array, guess: Array
    ) -> None:
        rows = ca.densify(ca.vertcat(equal, unequal))
        self.symbols, self.equal, self.unequal = parameters, equal, unequal
        self.titles, self.equalities = tuple(titles), equal.numel()
        self.sizes = sizes
        slopes = ca.jacobian(rows, parameters)
        self._both = ca.Function("constraints", [parameters], [rows, ca.densify(slopes)])
        weights = ca.SX.sym("weights", rows.numel())
        bend = ca.hessian(ca.dot(weights, rows), parameters)[0]
        self._bend = ca.Function("bend", [parameters, weights], [ca.densify(bend)])
        terms = np.abs(self.values(guess)[1]) @ sizes
        self.scales = np.where(np.isfinite(terms) & (terms > 0), terms, 1.0)
        """What each row's terms add up to at typical sizes, (k,)."""

    def values(self, parameters: Array) -> tuple[Array, Array]:
        """Rows (k,), equalities first, and their slopes (k, n_p)."""
        rows, slopes = self._both(parameters)
        return rows.full()[:, 0], slopes.full()

    def linearized(self, parameters: Array) -> LinearConstraints:
        """What a step from here must satisfy."""
        (rows, slopes), k = self.values(parameters), self.equalities
        return LinearConstraints(slopes[:k], -rows[:k], slopes[k:], -rows[k:])

    def curvature(self, parameters: Array, multipliers: Array) -> Array:
        """Σ of the rows' second derivatives with multipliers (k,), (n_p, n_p)."""
        return np.asarray(self._bend(parameters, multipliers).full())

    def active(self, parameters: Array) -> Mask:
        """True for rows that hold with equality, (k,)."""
        rows = self.values(parameters)[0]
        return np.asarray((np.arange(len(rows)) < self.equalities) | (rows >= -_ACTIVE * self.scales))

    def violations(self, parameters: Array) -> Array:
        """How far each row is from being met, in shares of its terms, (k,); NaN if it is not known."""
        rows = self.values(parameters)[0] / self.scales
        rows[: self.equalities] = np.abs(rows[: self.equalities])
        return np.maximum(rows, 0.0)

    def violation(self, parameters: Array) -> float:
        """Of the row that is farthest from being met."""
        return float(np.max(self.violations(parameters), initial=0.0))

    def restored(self, parameters: Array, lower: Array, upper: Array) -> Array | None:
        """The nearest parameters in their bounds that satisfy all rows, each counted in its size, to first order; None
        if none are found, which of linear rows says that there are none."""
        here, off = parameters, self.violations(parameters)
        for _ in range(_PASSES):
            if np.max(off, initial=0.0) <= MET:
                return here
            if not np.all(np.isfinite(off)):
                return None
            step, share, before = self._nearest(here, lower, upper), 1.0, float(np.linalg.norm(off))
            while share >= _SHORTEST:
                there = np.clip(here + share * step, lower, upper)
                off = self.violations(there)
                if np.linalg.norm(off) < (1 - share / 10) * before:
                    break
                share /= 2
            else:
                return here if self.violation(here) <= _NEARLY else None
            here = there
        return None

    def _nearest(self, parameters: Array, lower: Array, upper: Array) -> Array:
        """The shortest step to where linearized rows are met, or to where equalities come nearest to it."""
        linear, sizes = self.linearized(parameters), self.sizes
        weights = 1 / self.scales[: self.equalities]
        _, rest, inverse = null_space(weights[:, None] * linear.A_eq * sizes)
        first = inverse @ (weights * linear.b_eq)
        unit = np.eye(len(sizes))
        rows = np.vstack([linear.A_in * sizes, unit, -unit])
        ends = np.concatenate([linear.b_in, (upper - parameters) / sizes, (parameters - lower) / sizes])
        along = least_distance(rows @ rest, ends - rows @ first)
        return np.asarray(sizes * (first if along is None else first + rest @ along))

    def part(self, rows: Mask) -> ParameterConstraints:
        """Some of the rows."""
        k, every = self.equalities, ca.vertcat(self.equal, self.unequal)
        first, last = np.flatnonzero(rows[:k]).tolist(), (k + np.flatnonzero(rows[k:])).tolist()
        titles = [self.titles[i] for i in (*first, *last)]
        equal, unequal = (stacked(every[i] for i in places) for places in (first, last))
        made = ParameterConstraints(self.symbols, equal, unequal, titles, self.sizes, self.sizes)
        made.scales = self.scales[[*first, *last]]
        return made
