"""Factors in a nonlinear program: what each adds to the objective and to the constraint equations, and where
derivatives of these can differ from zero."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.kernel import Kernel
from spookid.records import dataclass
from spookid.solvers.condensation import combinations
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Transcription


@dataclass(frozen=True, eq=False)
class Role:
    """Role of residuals r (count, rows) of a factor, with transposed Jacobians J (count, columns, rows): |r|² in the
    objective, or constraints lower ≤ c(r) ≤ upper.

    Equality constraints and inequalities are c = r. Of pairs (a, b) = r one member each is held at zero and the other
    not negative, c = r over the scales; or they are relaxed, c = a + b − √(a² + b² + 2t) = 0, that is a, b > 0 and a b
    = t (Fischer 1992; Kanzow 1996).
    """

    lower: Array
    """(count, k)."""
    upper: Array
    scales: Array
    """Typical size of each row, (rows,)."""
    soft: bool = False
    t: float = 0.0

    def _members(self, r: Array) -> tuple[Array, Array, Array]:
        """a, b and the root."""
        a, b = np.hsplit(r / self.scales, 2)
        return a, b, np.sqrt(a * a + b * b + 2 * self.t)

    def constraints(self, r: Array) -> Array:
        """c, (count, k)."""
        if not self.t:
            return np.asarray((r / self.scales)[:, : self.lower.shape[1]])
        a, b, root = self._members(r)
        away = a + b > 0  # a + b − root cancels where one of them is large
        return np.where(away, 2 * (a * b - self.t) / np.where(away, a + b + root, 1.0), a + b - root)

    def slopes(self, r: Array, J: Array) -> Array:
        """∂c/∂columns, transposed, (count, columns, k)."""
        if not self.t:
            return np.asarray(J[:, :, : self.lower.shape[1]] / self.scales[: self.lower.shape[1]])
        (a, b, root), (A, B) = self._members(r), np.split(J / self.scales, 2, axis=2)
        return np.asarray((1 - a / root)[:, None] * A + (1 - b / root)[:, None] * B)

    def pattern(self, structure: Mask) -> Mask:
        """Sparsity of ∂c/∂columns, (k, columns), from that of r, (rows, columns)."""
        if not self.t:
            return structure[: self.lower.shape[1]]
        a, b = np.vsplit(structure, 2)
        return np.asarray(a | b)

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """Gradient ∂(weight |r|² + givenᵀc)/∂r, (count, rows), for given of shape (count, k)."""
        if self.soft:
            return 2 * weight * r
        if self.t:
            a, b, root = self._members(r)
            given = np.hstack([given * (1 - a / root), given * (1 - b / root)])
        return np.asarray(given / self.scales)

    @property
    def bends(self) -> bool:
        """True if objective or constraints are nonlinear in r."""
        return self.soft or self.t > 0

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array:
        """Curvature J ∂²(weight |r|² + givenᵀc)/∂r² Jᵀ, (count, columns, columns), if it is not zero."""
        if self.soft:
            return np.asarray(np.matmul(2 * weight * J, J.transpose(0, 2, 1)))
        (a, b, root), (A, B) = self._members(r), np.split(J / self.scales, 2, axis=2)
        share = (given / root**3)[:, None]
        aa, ab, bb = (b * b + 2 * self.t)[:, None], (a * b)[:, None], (a * a + 2 * self.t)[:, None]
        left, right = share * (ab * B - aa * A), share * (ab * A - bb * B)
        return np.asarray(np.matmul(left, A.transpose(0, 2, 1)) + np.matmul(right, B.transpose(0, 2, 1)))


def role_of(
    factor: Factor, r: Array, J: Array, implied: Mask | None, t: float, sizes: Array | None, first: Mask | None
) -> Role:
    """Role of a factor, from its residuals and Jacobians at the start; bounds of redundant constraints are infinite.

    Args:
        implied: True for these rows, (count, rows); None: those that earlier ones of the same step combine to.
        t: a b of relaxed pairs, over their sizes; 0 to hold one member of each.
        sizes: of the members of pairs, (rows,); typical ones if they are None.
        first: which members of pairs are held, (count, rows/2); the smaller ones if they are None.
    """
    (count, rows), ones = r.shape, np.ones(r.shape[1])
    if factor.pairs:
        scales, nothing = _typical(r) if sizes is None else sizes, np.zeros((count, rows // 2))
        if t > 0:
            return Role(nothing, nothing, scales, t=t)
        a, b = np.hsplit(r / scales, 2)
        held = np.asarray(a < b) if first is None else first
        return Role(np.zeros((count, rows)), np.where(np.hstack([held, ~held]), 0.0, np.inf), scales)
    if factor.kind is Kind.INEQUALITY:
        return Role(np.zeros((count, rows)), np.full((count, rows), np.inf), ones)
    if factor.hard:
        free = np.where(combinations(J) if implied is None else implied, np.inf, 0.0)
        return Role(-free, free, ones)
    return Role(np.zeros((count, 0)), np.zeros((count, 0)), ones, soft=True)


def _typical(r: Array) -> Array:
    """Root mean square of all first members and of all second ones, at each row, (rows,); 1 where it is zero: a member
    that is zero throughout, such as a slip that never turns, has the size of those that are not."""
    sizes = np.sqrt([np.mean(half**2) for half in np.hsplit(r, 2)])
    return np.repeat(np.where(sizes > 0, sizes, 1.0), r.shape[1] // 2)


def weighted_curvature(problem: Transcription, factor: Factor, scales: Array) -> Kernel:
    """Hessian of Σ weights_i r_i in the coordinates of each step and the scaled parameters, dense."""
    parameters, constants = problem.shared
    residual = ca.Function("r", [*factor.variables.values(), factor.data, parameters, constants], [factor.residual])
    bases = [ca.SX.sym("base", problem.manifold.ambient) for _ in factor.variables]
    deltas = [ca.SX.sym("delta", problem.manifold.tangent) for _ in factor.variables]
    data, weights = ca.SX.sym("data", factor.data.numel()), ca.SX.sym("weights", len(factor.rows))
    scaled, numbers = ca.SX.sym("theta", parameters.numel()), ca.SX.sym("constants", constants.numel())
    moved = [problem.manifold.chart(x, d) for x, d in zip(bases, deltas, strict=True)]
    value = ca.dot(weights, residual(*moved, data, ca.DM(scales) * scaled, numbers))
    hessian, _ = ca.hessian(value, ca.vertcat(*deltas, scaled))
    inputs = [*bases, *deltas, data, weights, scaled, numbers]
    return Kernel(ca.Function("curvature", inputs, [ca.cse(ca.densify(hessian))]), len(inputs) - 2)


def with_constraint_rows(problem: Transcription) -> Transcription:
    """Problem with constraints between parameters, h = 0 and −g ≥ 0, as two additional factors, each scaled by the
    typical size of its terms."""
    if (known := problem.constraints) is None:
        return problem
    k, none, factors = known.equalities, ca.SX(0, 1), list(problem.factors)
    rows = ca.substitute(ca.vertcat(known.equal, -known.unequal) / known.scales, known.symbols, problem.shared[0])
    for kind, own in ((Kind.HARD, slice(0, k)), (Kind.INEQUALITY, slice(k, None))):
        if titles := known.titles[own]:
            x = ca.SX.sym("x", problem.manifold.ambient)
            name = f"constraints {kind.value}"
            factors.append(Factor(name, Group.PRIOR, rows[own], {0: x}, none, titles, first_only=True, kind=kind))
    bounds = problem.names, problem.lower, problem.upper, problem.magnitudes
    others = *bounds, problem.chains, problem.choice, problem.charts, known
    return Transcription(problem.manifold, factors, problem.shared[0], problem.given, *others)


@dataclass(frozen=True, eq=False)
class Place:
    """A factor along a chain."""

    factor: Factor
    number: int
    """Of the factor in the problem."""
    chain: int
    columns: Integers
    """Unknowns of each step's window, ascending, (count, columns)."""
    rows: Integers
    """Constraint equations of each step, (count, k); −1 for a row that others imply."""
    role: Role
    structure: Mask
    """Where its Jacobian can differ from zero, (rows, columns)."""

    @property
    def hessian(self) -> Mask:
        """Sparsity of the upper triangle of the Hessian at one step."""
        rows = np.vstack([self.structure, self.role.pattern(self.structure)]).astype(float)
        return np.asarray(np.triu(rows.T @ rows > 0))


def jacobian_sparsity(places: Sequence[Place], size: int) -> tuple[ca.Sparsity, Integers]:
    """Sparsity of ∂c/∂z, for z of that size, and the index of each of its nonzeros among those of the places."""
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for place in places:
        i, j = np.nonzero(place.role.pattern(place.structure))
        rows.append(place.rows[:, i].ravel())
        columns.append(place.columns[:, j].ravel())
    i, j = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((i, j))
    order = order[i[order] >= 0]
    kept = sum(int(np.sum(place.rows >= 0)) for place in places)
    return _sparsity(kept, size, i[order], j[order]), order


def hessian_sparsity(
    places: Sequence[Place], size: int, exact: bool, corner: tuple[Integers, Integers]
) -> tuple[ca.Sparsity, Integers]:
    """Sparsity of the Hessian's upper triangle, and the target index of each nonzero of the places and of a corner.
    ``exact``: True for the Hessian of the Lagrangian, False for Gauss–Newton's; ``corner``: rows and columns of further
    nonzeros."""
    keys = []
    for place in places:
        if place.role.bends or exact:
            i, j = np.nonzero(place.hessian)
            keys.append((place.columns[:, j] * size + place.columns[:, i]).ravel())
    unique, at = np.unique(np.concatenate([*keys, corner[1] * size + corner[0]]), return_inverse=True)
    return _sparsity(size, size, unique % size, unique // size), at


def _sparsity(rows: int, columns: int, i: Integers, j: Integers) -> ca.Sparsity:
    """From row and column of each nonzero, sorted by column, then row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(j, minlength=columns))])
    return ca.Sparsity(rows, columns, starts.tolist(), i.tolist())
