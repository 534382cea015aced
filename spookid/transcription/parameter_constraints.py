"""Equalities and inequalities between parameters, directions that these leave, and steps along curves.

Every iterate of a solve satisfies them: a step satisfies their linearization, and where it ends the nearest parameters
that satisfy them take its place, so that costs of iterates compare and no merit weighs violations against costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import DEPENDENT, ROUNDING
from spookid.kernels.scipy_parts import nnls
from spookid.parameter import stacked
from spookid.records import dataclass


def null_space(rows: Array) -> tuple[Array, Array, Array]:
    """Orthonormal bases of row space and null space of equally weighted rows (k, n), and pseudo-inverse (n, k)."""
    lengths = np.linalg.norm(rows, axis=1)
    units = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0)
    if not len(rows):
        return np.zeros((rows.shape[1], 0)), np.eye(rows.shape[1]), np.zeros(rows.shape[::-1])
    U, s, V = np.linalg.svd(units[:, None] * rows)
    rank = int(np.sum(s > DEPENDENT * np.max(s, initial=0.0))) if np.max(s, initial=0.0) > 0 else 0
    inverse = V[:rank].T / s[:rank] @ U[:, :rank].T * units
    return V[:rank].T, V[rank:].T, inverse


def least_distance(rows: Array, values: Array) -> Array | None:
    """Solve argmin |x| subject to rows x ≤ values, (n,), by Lawson and Hanson's reduction to non-negative least squares
    (Solving Least Squares Problems, 1974, chapter 23); None if infeasible."""
    lengths = np.linalg.norm(rows, axis=1)
    largest = np.max(np.abs(values[np.isfinite(values)]), initial=0.0)
    empty = lengths <= np.finfo(float).eps * np.max(lengths, initial=0.0)
    if np.any(values[empty] < -DEPENDENT * largest):
        return None
    kept = ~empty & np.isfinite(values)
    C, d = -rows[kept] / lengths[kept, None], -values[kept] / lengths[kept]
    farthest = np.max(d, initial=0.0)
    if farthest <= 0:
        return np.zeros(rows.shape[1])
    weights, distance = nnls(np.vstack([C.T, d / farthest]), np.append(np.zeros(C.shape[1]), 1.0))
    if distance <= DEPENDENT:
        return None
    active = weights > 0
    nearest = C.T @ weights * (farthest / distance**2)
    # Where the active rows alone put it is the same to more digits.
    polished = np.linalg.lstsq(C[active], d[active], rcond=DEPENDENT)[0]
    better = np.max(d - C @ polished) <= max(np.max(d - C @ nearest), ROUNDING * farthest)
    return np.asarray(polished if better else nearest)


@dataclass(frozen=True, eq=False)
class Chart:
    """Nonlinear coordinates y = φ(θ) of some parameters θ, in which residuals are more nearly linear.

    A step δ leads to φ⁻¹(φ(θ) + Dφ δ), which is θ + δ to first order: Gauss–Newton steps at the bottom of a curved
    valley then follow it.
    """

    places: NDArray[np.intp]  # of the parameters among those of the transcription, -1 of those that are fixed, (k,)
    values: Array  # of those that are fixed; any of the others, (k,)
    ahead: Callable[[Array, Array], Array]  # φ(θ) + Dφ δ
    inverse: Callable[[Array, Array], Array | None]  # φ⁻¹(y) nearest to given coordinates; None if there is none

    def moved(self, parameters: Array, straight: Array) -> Array:
        """Parameters (n_p,) after a step that is straight in the chart's coordinates and points to ``straight``;
        ``straight`` itself if it has no such coordinates, or if a fixed parameter would have to change."""
        free = self.places >= 0
        start, end = self.values.copy(), self.values.copy()
        start[free], end[free] = parameters[self.places[free]], straight[self.places[free]]
        if np.array_equal(start, end) or not np.all(np.isfinite(end)):
            return straight
        found = self.inverse(self.ahead(start, end - start), end)
        if found is None or np.any(np.abs(found - start)[~free] > ROUNDING * (1 + np.abs(start[~free]))):
            return straight
        result = straight.copy()
        result[self.places[free]] = found[free]
        return result


@dataclass(frozen=True, eq=False)
class FreeDirections:
    """Free directions of the parameters within bounds and constraints, to first order."""

    held: Mask  # True for those that do not move by themselves, (n_p,)
    normals: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Slopes of constraints that hold with equality, (k, n_p)."""

    @property
    def tied(self) -> bool:
        """True if constraints hold."""
        return len(self.normals) > 0

    @property
    def unbounded(self) -> FreeDirections:
        """The free directions without bounds."""
        return FreeDirections(np.zeros_like(self.held), self.normals)

    @property
    def linked(self) -> Mask:
        """True for parameters that occur in active constraints, (n_p,)."""
        return np.asarray(np.any(self.normals != 0, axis=0)) if self.tied else np.zeros_like(self.held)

    def basis(self, sizes: Array) -> Array:
        """Orthonormal basis of the free directions, for parameters divided by their magnitudes, (n_p, f)."""
        free = np.flatnonzero(~self.held)
        own = np.eye(len(self.held))[:, free]
        return own @ null_space(self.normals[:, free] * sizes[free])[1] if self.tied else own

    def settled(self, sizes: Array) -> Mask:
        """True for parameters that constraints determine, although no bound fixes them, (n_p,)."""
        if not self.tied:
            return np.zeros_like(self.held)
        left = np.linalg.norm(self.basis(sizes), axis=1)
        return np.asarray(~self.held & (left < DEPENDENT))

    def without(self, row: int) -> FreeDirections:
        """With one constraint less."""
        return FreeDirections(self.held, np.delete(self.normals, row, axis=0))


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """Linear constraints A_eq δ = b_eq and A_in δ ≤ b_in on a step δ of the parameters (n_p,)."""

    A_eq: Array
    """(k_eq, n_p)."""
    b_eq: Array
    """(k_eq,)."""
    A_in: Array
    """(k_in, n_p)."""
    b_in: Array
    """(k_in,), not negative where the present parameters satisfy them."""

    def after(self, moved: Array | float) -> LinearConstraints:
        """Constraints on the rest of a step, after a part of the step was made."""
        if isinstance(moved, float):
            return self
        return LinearConstraints(self.A_eq, self.b_eq - self.A_eq @ moved, self.A_in, self.b_in - self.A_in @ moved)

    def among(self, others: int) -> LinearConstraints:
        """The same constraints if other unknowns follow the parameters in the step."""
        wider = (np.pad(rows, ((0, 0), (0, others))) for rows in (self.A_eq, self.A_in))
        return LinearConstraints(next(wider), self.b_eq, next(wider), self.b_in)


class ParameterConstraints:
    """Nonlinear constraints h(θ) = 0 and g(θ) ≤ 0 on the parameters θ.

    Args:
        parameters: symbols of the free parameters, (n_p,).
        equal, unequal: h and g, columns.
        titles: what messages call each row, those of h first.
        sizes: typical sizes of the parameters, positive, (n_p,).
        guess: initial values of the parameters, (n_p,).
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
        """Values of the constraints (k,), equalities first, and their gradients (k, n_p)."""
        rows, slopes = self._both(parameters)
        return rows.full()[:, 0], slopes.full()

    def linearized(self, parameters: Array) -> LinearConstraints:
        """Linearized constraints on a step from the current parameters."""
        (rows, slopes), k = self.values(parameters), self.equalities
        return LinearConstraints(slopes[:k], -rows[:k], slopes[k:], -rows[k:])

    def curvature(self, parameters: Array, multipliers: Array) -> Array:
        """Sum of the constraints' second derivatives times multipliers (k,), (n_p, n_p)."""
        return np.asarray(self._bend(parameters, multipliers).full())

    def active(self, parameters: Array) -> Mask:
        """True for active constraints, (k,)."""
        rows = self.values(parameters)[0]
        return np.asarray((np.arange(len(rows)) < self.equalities) | (rows >= -DEPENDENT * self.scales))

    def violations(self, parameters: Array) -> Array:
        """Violation of each constraint relative to its terms, (k,); NaN if unknown."""
        rows = self.values(parameters)[0] / self.scales
        rows[: self.equalities] = np.abs(rows[: self.equalities])
        return np.maximum(rows, 0.0)

    def violation(self, parameters: Array) -> float:
        """Largest violation of a constraint."""
        return float(np.max(self.violations(parameters), initial=0.0))

    def restored(self, parameters: Array, lower: Array, upper: Array) -> Array | None:
        """Nearest parameters that satisfy bounds and, to first order, all constraints; None if none are found."""
        here, off = parameters, self.violations(parameters)
        while np.max(off, initial=0.0) > ROUNDING and np.all(np.isfinite(off)):
            step, share, before = self._nearest(here, lower, upper), 1.0, float(np.linalg.norm(off))
            while True:
                there = np.clip(here + share * step, lower, upper)
                off = self.violations(there)
                if np.linalg.norm(off) < (1 - share / 10) * before:
                    break
                if share**2 < np.finfo(float).eps:  # as near as rounding allows, or nowhere near
                    return here if self.violation(here) <= np.sqrt(ROUNDING * DEPENDENT) else None
                share /= 2
            here = there
        return here if np.all(np.isfinite(off)) else None

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
