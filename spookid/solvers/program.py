"""A Transcription as a nonlinear program in flat unknowns z, with sparse exact derivatives.

z holds, step by step and chain by chain, the coordinates δ of the state around the start's (``Manifold.chart``), and
last the parameters over their magnitudes. A rotation has three unknowns and no norm constraint. Residuals and
Jacobians are the transcription's own; the chart's derivative T turns their tangent spaces into coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask, contiguous
from spookid.kernels.kernel import Kernel
from spookid.kernels.precision import ROUNDING
from spookid.solvers.places import Place, hessian_sparsity, jacobian_sparsity, role_of, weighted_curvature
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point, Transcription

V = TypeVar("V")


class Program:
    """Nonlinear program: minimise o(z) subject to lower ≤ c(z) ≤ upper, with exact gradients and Jacobian.

    Args:
        t: a b of relaxed pairs, over their sizes; 0 to hold one member of each pair at zero.
        sizes: of the members of pairs, for each factor of pairs along each chain; None: typical ones.
        held: for each factor of pairs along each chain, True where it is the first member; None: the smaller.
        pins: (k, n_p); |pins (θ − θ_start)/scales|² is added to the objective, for directions of the
            parameters that nothing else determines.
        implied: equality constraints that others imply, as of ``information.implied``; empty: each factor's own.
        exact: True for the Hessian of the Lagrangian; False for Gauss–Newton's, which takes residuals and equality
            constraints as linear.
    """

    def __init__(
        self,
        problem: Transcription,
        start: Point,
        exact: bool,
        t: float = 0.0,
        sizes: Sequence[Array] | None = None,
        held: Sequence[Mask] | None = None,
        pins: Array | None = None,
        implied: Sequence[Mapping[str, Mask]] = (),
    ) -> None:
        self.problem, self.start, self._exact = problem, start, exact
        self._width = problem.manifold.tangent
        self._firsts = np.cumsum([0, *(chain.steps * self._width for chain in problem.chains)])
        self.scales = np.maximum(problem.magnitudes, np.abs(start.parameters))
        """Parameters are these times their unknowns, (n_p,)."""
        self._last: tuple[Array, dict[str, Any]] = np.zeros(0), {}
        """z of the last point that was looked at, and what was found there."""
        x, d = ca.SX.sym("x", problem.manifold.ambient), ca.SX.sym("d", self._width)
        self._chart = Kernel(ca.Function("chart", [x, d], [problem.manifold.chart(x, d)]), 2)
        tangent = problem.manifold.chart_tangent(d)
        self._tangent = Kernel(ca.Function("chart_tangent", [d], [ca.densify(tangent)]), 1)
        self._curvatures: dict[str, Kernel] = {}
        self.pins = np.zeros((0, len(problem.names))) if pins is None else pins
        turned = np.array(ca.DM(tangent.sparsity(), 1).full())
        self.places = self._placed(t, iter(sizes or ()), iter(held or ()), implied, turned)
        self._corner = np.triu_indices(len(problem.names) if len(self.pins) else 0)
        first = int(self._firsts[-1])
        corner = first + self._corner[0], first + self._corner[1]
        self.jacobian_sparsity, self._order = jacobian_sparsity(self.places, self.size)
        """Of ∂c/∂z."""
        self.hessian_sparsity, self._nonzeros = hessian_sparsity(self.places, self.size, exact, corner)
        """Upper triangle."""

    def _once(self, name: str, z: Array, find: Callable[[Array], V]) -> V:
        """What is found at z; a solver asks for several things at one point, several times."""
        if not np.array_equal(self._last[0], z):
            self._last = z.copy(), {}
        known = self._last[1]
        if name not in known:
            known[name] = find(z)
        found: V = known[name]
        return found

    # --- unknowns ---

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return int(self._firsts[-1]) + len(self.problem.names)

    @property
    def origin(self) -> Array:
        """z of the start."""
        return np.concatenate([np.zeros(self._firsts[-1]), self.start.parameters / self.scales])

    @property
    def box(self) -> tuple[Array, Array]:
        """Bounds of z: bounds of the parameters; unknowns that occur in no equation are fixed."""
        free = np.where(self._used[: self._firsts[-1]], np.inf, 0.0)
        lower, upper = (np.asarray(side) / self.scales for side in (self.problem.lower, self.problem.upper))
        return np.concatenate([-free, lower]), np.concatenate([free, upper])

    @cached_property
    def _used(self) -> Mask:
        """True for unknowns that move some factor's residual at the start by more than rounding, (size,).

        Multipliers of a plane mechanism's joints that push out of the plane do not.
        """
        moved = np.zeros(self.size)
        for place, J in zip(self.places, self.jacobians(self.origin), strict=True):
            largest = np.max(np.abs(J), axis=2, initial=0.0)
            seen = largest > ROUNDING * np.max(largest, initial=0.0)
            moved += np.bincount(place.columns.ravel(), seen.ravel(), self.size)
        return np.asarray(moved > 0)

    def point(self, z: Array) -> Point:
        """States and parameters for given unknowns z."""
        return self._once("point", z, self._point)

    def _point(self, z: Array) -> Point:
        states = tuple(
            self._chart([base, delta], [], np.empty_like(base))
            for base, delta in zip(self.start.states, self._deltas(z), strict=True)
        )
        parameters = np.clip(z[self._firsts[-1] :] * self.scales, self.problem.lower, self.problem.upper)
        return Point(states, parameters)

    def _deltas(self, z: Array) -> list[Array]:
        return [
            contiguous(z[first:last].reshape(-1, self._width))
            for first, last in zip(self._firsts[:-1], self._firsts[1:], strict=True)
        ]

    # --- factors ---

    def _placed(
        self,
        t: float,
        sizes: Iterator[Array],
        held: Iterator[Mask],
        implied: Sequence[Mapping[str, Mask]],
        turned: Array,
    ) -> tuple[Place, ...]:
        places: list[Place] = []
        first, residuals = 0, self.problem.residuals(self.start)
        for c in range(len(self.problem.chains)):
            for f, factor in enumerate(self.problem.factors):
                if c and factor.group is Group.PRIOR and not factor.soft:
                    continue  # rows of the parameters alone stand once
                J = self.problem.linearize_factor(factor, self.start, c).matrix[:, :-1]
                own = (next(sizes, None), next(held, None)) if factor.pairs else (None, None)
                role = role_of(factor, residuals[c][f], J, implied[c].get(factor.name) if implied else None, t, *own)
                wanted = (role.lower > -np.inf) | (role.upper < np.inf)
                rows = np.where(wanted, first + np.cumsum(wanted).reshape(wanted.shape) - 1, -1)
                first += int(np.sum(wanted))
                structure = self._filled(self.problem.pattern(factor, c), len(factor.variables), turned)
                places.append(Place(factor, f, c, self._columns(factor, c, len(rows)), rows, role, structure))
        return tuple(places)

    def _filled(self, pattern: Mask, windows: int, block: Array) -> Mask:
        """Pattern of J T."""
        states = windows * self._width
        turned = pattern[:, :states].reshape(len(pattern), windows, self._width).astype(float) @ block > 0
        return np.hstack([turned.reshape(len(pattern), states), pattern[:, states:]])

    def _columns(self, factor: Factor, chain: int, count: int) -> Integers:
        starts = self._firsts[chain] + self._width * np.arange(count)[:, None]
        windows = [starts + self._width * offset + np.arange(self._width) for offset in factor.variables]
        parameters = np.tile(self._firsts[-1] + np.arange(len(self.problem.names)), (count, 1))
        return np.hstack([*windows, parameters])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Of the constraint equations."""
        roles = [place.role for place in self.places]
        return self._stacked([role.lower for role in roles]), self._stacked([role.upper for role in roles])

    def _stacked(self, values: Sequence[Array]) -> Array:
        """Values of all places' rows, those that others imply left out."""
        kept = [value[place.rows >= 0] for place, value in zip(self.places, values, strict=True)]
        return np.concatenate([np.zeros(0), *kept])

    def residuals(self, z: Array) -> list[list[Array]]:
        """As the transcription's."""
        return self._once("residuals", z, lambda z: self.problem.residuals(self.point(z)))

    def _own(self, z: Array) -> list[Array]:
        """Residuals of each place."""
        residuals = self.residuals(z)
        return [residuals[place.chain][place.number] for place in self.places]

    def jacobians(self, z: Array) -> list[Array]:
        """Transposed Jacobian of each factor with respect to its unknowns in z, (count, columns, rows)."""
        return self._once("jacobians", z, self._jacobians)

    def _jacobians(self, z: Array) -> list[Array]:
        point, width = self.point(z), self._width
        turns = [self._tangent([delta], [], np.empty((len(delta), width, width))) for delta in self._deltas(z)]
        blocks = []
        for place in self.places:
            matrix = self.problem.linearize_factor(place.factor, point, place.chain).matrix[:, :-1]
            out, count = np.empty_like(matrix), len(matrix)
            for i, offset in enumerate(place.factor.variables):
                columns = slice(i * width, (i + 1) * width)
                np.matmul(turns[place.chain][offset : offset + count], matrix[:, columns], out=out[:, columns])
            states = len(place.factor.variables) * width
            out[:, states:] = matrix[:, states:] * self.scales[:, None]
            blocks.append(out)
        return blocks

    # --- the program ---

    def objective(self, z: Array) -> float:
        """o(z)."""
        pinned = float(np.sum(self._pinned(z) ** 2))
        soft = (r for place, r in zip(self.places, self._own(z), strict=True) if place.role.soft)
        return pinned + sum(float(np.vdot(r, r)) for r in soft)

    def _pinned(self, z: Array) -> Array:
        first = self._firsts[-1]
        return np.asarray(self.pins @ (z[first:] - self.start.parameters / self.scales))

    def gradient(self, z: Array) -> Array:
        """∂o/∂z, (size,)."""
        total = np.zeros(self.size)
        total[self._firsts[-1] :] = 2 * self.pins.T @ self._pinned(z)
        for place, r, J in zip(self.places, self._own(z), self.jacobians(z), strict=True):
            slopes = place.role.multipliers(r, 1.0, np.zeros(place.rows.shape))
            share = np.matmul(J, slopes[:, :, None])[:, :, 0]
            total += np.bincount(place.columns.ravel(), share.ravel(), self.size)
        return total

    def constraints(self, z: Array) -> Array:
        """c(z)."""
        return self._stacked([place.role.constraints(r) for place, r in zip(self.places, self._own(z), strict=True)])

    def jacobian(self, z: Array) -> Array:
        """Nonzeros of ∂c/∂z."""
        values = [
            place.role.slopes(r, J).transpose(0, 2, 1)[:, place.role.pattern(place.structure)].ravel()
            for place, r, J in zip(self.places, self._own(z), self.jacobians(z), strict=True)
        ]
        return np.concatenate([np.zeros(0), *values])[self._order]

    def pull_back(self, z: Array, multipliers: Array) -> Array:
        """multipliersᵀ ∂c/∂z, (size,)."""
        return self._pulled(z, multipliers, range(len(self.places)))

    def _pulled(self, z: Array, multipliers: Array, places: Iterable[int]) -> Array:
        total, padded = np.zeros(self.size), np.append(multipliers, 0.0)
        own, jacobians = self._own(z), self.jacobians(z)
        for place, r, J in ((self.places[i], own[i], jacobians[i]) for i in places):
            if place.rows.size:
                slopes = place.role.slopes(r, J)
                share = np.matmul(slopes, padded[place.rows][:, :, None])[:, :, 0]
                total += np.bincount(place.columns.ravel(), share.ravel(), self.size)
        return total

    def pull_of_constraints(self, z: Array, multipliers: Array) -> Array:
        """Contribution of constraints between parameters to the gradient, (size,)."""
        own = [i for i, place in enumerate(self.places) if place.factor.group is Group.PRIOR]
        return self._pulled(z, multipliers, own)

    def hessian(self, z: Array, weight: float, multipliers: Array) -> Array:
        """Nonzeros of the upper triangle of ∂²(weight o + multipliersᵀc)/∂z²."""
        values, padded = [], np.append(multipliers, 0.0)  # the last for rows that are not there
        for place, r, J in zip(self.places, self._own(z), self.jacobians(z), strict=True):
            given = padded[place.rows]
            parts = [place.role.curvature(r, J, weight, given)] if place.role.bends else []
            if self._exact:
                parts.append(self._second(place, z, place.role.multipliers(r, weight, given)))
            if parts:
                values.append(np.sum(parts, axis=0)[:, place.hessian].ravel())
        values.append(2 * weight * (self.pins.T @ self.pins)[self._corner])
        return np.bincount(self._nonzeros, np.concatenate(values), self.hessian_sparsity.nnz()).astype(np.float64)

    def _second(self, place: Place, z: Array, weights: Array) -> Array:
        """Σ_i weights_i ∂²r_i/∂columns², (count, columns, columns)."""
        count, n = place.columns.shape
        deltas, chain = self._deltas(z)[place.chain], self.problem.chains[place.chain]
        data = chain.data.get(place.factor.name)
        stepwise = [self.start.states[place.chain][offset : offset + count] for offset in place.factor.variables]
        stepwise += [deltas[offset : offset + count] for offset in place.factor.variables]
        stepwise += [np.zeros((count, 0)) if data is None else data, contiguous(weights)]
        shared = [contiguous(z[self._firsts[-1] :]), self.problem.numbers(place.chain)]
        if place.factor.name not in self._curvatures:
            self._curvatures[place.factor.name] = weighted_curvature(self.problem, place.factor, self.scales)
        return self._curvatures[place.factor.name](stepwise, shared, np.empty((count, n, n)))

    # --- measures ---

    @property
    def paired_rows(self) -> list[Integers]:
        """Constraint equations of each factor with complementarity pairs."""
        return [place.rows for place in self.places if place.factor.pairs]

    @property
    def sizes(self) -> list[Array]:
        """Magnitudes of the members of pairs, for each such factor along each chain."""
        return [place.role.scales for place in self.places if place.factor.pairs]

    def held(
        self, z: Array, multipliers: Array, nothing: float, worth: float, cost: float
    ) -> tuple[list[Mask], list[Mask], int]:
        """Members of pairs to fix next; pairs of which both members are zero, and the number of these whose fixed
        member the objective would release: then the point is not strongly stationary.

        Of a pair whose members are both zero the one that is held is let go if the objective falls by more than
        ``worth`` with its own unit, and the other one is held.

        Args:
            nothing: below this share of its size a member is zero.
            cost: unit of multipliers. A member below the share of it that its own one is counts as zero, too: only the
                barrier keeps it from zero.
        """
        next_held, biactive, wrong = list[Mask](), list[Mask](), 0
        for place, r in zip(self.places, self._own(z), strict=True):
            if place.factor.pairs:
                first = np.hsplit(place.role.upper == 0, 2)[0]
                (a, b), (on_a, on_b) = (np.hsplit(v, 2) for v in (r / place.role.scales, multipliers[place.rows]))
                free, pushed = np.where(first, b, a), np.where(first, -on_b, -on_a)
                both = (free <= nothing) | ((pushed > worth) & (pushed >= free * cost))
                push = np.where(first, on_a, on_b)
                leaves = both & (push > worth)
                next_held.append(first ^ leaves)
                biactive.append(both)
                wrong += int(leaves.sum())
        return next_held, biactive, wrong

    def costs(self, z: Array) -> dict[Group, float]:
        """Of the soft factors."""
        return self.problem.costs(self.residuals(z))

    def lengths(self, z: Array, hard: bool = False) -> Array:
        """Norm of each unknown's column in the Jacobian of the residuals, or of the constraints, (size,)."""
        total = np.zeros(self.size)
        total[self._firsts[-1] :] = np.sum(self.pins**2, axis=0) * (not hard)
        for place, J in zip(self.places, self.jacobians(z), strict=True):
            if place.factor.soft is not hard:
                total += np.bincount(place.columns.ravel(), np.einsum("kcr,kcr->kc", J, J).ravel(), self.size)
        return np.asarray(np.sqrt(total))

    def pairs(self, z: Array) -> float:
        """Largest |min(a, b)| of all pairs, in their own units; NaN if there are none."""
        smaller = [
            np.max(np.abs(np.minimum(*np.hsplit(r, 2))), initial=0.0)
            for place, r in zip(self.places, self._own(z), strict=True)
            if place.factor.pairs
        ]
        return float(max(smaller, default=np.nan))

    def products(self, z: Array) -> float:
        """Mean of |a b| over all pairs, with each member divided by its magnitude."""
        sizes = [
            np.abs(np.prod(np.stack(np.hsplit(r / place.role.scales, 2)), axis=0)).ravel()
            for place, r in zip(self.places, self._own(z), strict=True)
            if place.factor.pairs
        ]
        return float(np.mean(np.concatenate(sizes)))

    def violations(self, z: Array) -> Array:
        """Signed violation of the bounds by each constraint."""
        values, (lower, upper) = self.constraints(z), self.bounds
        return np.asarray(values - np.clip(values, lower, upper))

    def left_out(self, z: Array) -> float:
        """Largest residual of a constraint that was omitted because others imply it."""
        sizes = [
            np.max(np.abs(place.role.constraints(r)[place.rows < 0]), initial=0.0)
            for place, r in zip(self.places, self._own(z), strict=True)
        ]
        return float(max(sizes, default=0.0))
