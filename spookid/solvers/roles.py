"""What a factor does in a nonlinear program: a share of the objective, equality rows, or pairs with one member held.

Each role sees one factor's residuals r (count, rows) and transposed Jacobians J (count, columns, rows) along a chain.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.kernel import Kernel
from spookid.records import dataclass
from spookid.transcription.factor import Factor, Kind
from spookid.transcription.transcription import Transcription


class Role:
    """How a factor's residuals enter; rows of constraints, as far as nothing else is said."""

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the constraint rows, each (count, k)."""
        raise NotImplementedError

    def objective(self, r: Array) -> float:
        """o(r), summed."""
        return 0.0

    def constraints(self, r: Array) -> Array:
        """c(r), (count, k)."""
        return r

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """∂c/∂columns, transposed, (count, columns, k)."""
        return J

    def pattern(self, structure: Mask) -> Mask:
        """Where ∂c/∂columns can differ from zero, (k, columns), from that of r, (rows, columns)."""
        return structure

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """∂(weight o + givenᵀc)/∂r, (count, rows), given of shape (count, k)."""
        return given

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array | None:
        """J ∂²(weight o + givenᵀc)/∂r² Jᵀ, (count, columns, columns); None if it is zero."""
        return None


@dataclass(frozen=True, eq=False)
class Soft(Role):
    """|r|² in the objective."""

    count: int

    def bounds(self) -> tuple[Array, Array]:
        """No rows."""
        return np.zeros((self.count, 0)), np.zeros((self.count, 0))

    def objective(self, r: Array) -> float:
        """Sum of squares."""
        return float(np.vdot(r, r))

    def constraints(self, r: Array) -> Array:
        """None."""
        return r[:, :0]

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """None."""
        return J[:, :, :0]

    def pattern(self, structure: Mask) -> Mask:
        """No rows."""
        return structure[:0]

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """2 r."""
        return 2 * weight * r

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array:
        """Gauss–Newton's 2 J Jᵀ."""
        return np.asarray(np.matmul(2 * weight * J, J.transpose(0, 2, 1)))


@dataclass(frozen=True, eq=False)
class Hard(Role):
    """r = 0, without the rows that others imply."""

    kept: Mask
    """False for rows that others imply, (count, rows)."""

    def bounds(self) -> tuple[Array, Array]:
        """Zero; a row that others imply is unbounded, and no row of the program."""
        free = np.where(self.kept, 0.0, np.inf)
        return -free, free


@dataclass(frozen=True, eq=False)
class Inequality(Hard):
    """r ≥ 0."""

    def bounds(self) -> tuple[Array, Array]:
        """Above zero."""
        return np.zeros(self.kept.shape), np.full(self.kept.shape, np.inf)


@dataclass(frozen=True, eq=False)
class Relaxed(Role):
    """(a, b) = r with a + b − √(a² + b² + 2t) = 0, that is a, b > 0 and a b = t (Fischer 1992; Kanzow 1996)."""

    scales: Array
    """Typical size of each row, (rows,)."""
    count: int
    t: float

    def _scaled(self, r: Array) -> tuple[Array, Array, Array]:
        """a, b and the root."""
        a, b = np.hsplit(r / self.scales, 2)
        return a, b, np.sqrt(a * a + b * b + 2 * self.t)

    def bounds(self) -> tuple[Array, Array]:
        """Zero."""
        zero = np.zeros((self.count, len(self.scales) // 2))
        return zero, zero

    def constraints(self, r: Array) -> Array:
        """One of every pair."""
        a, b, root = self._scaled(r)
        # a + b − root cancels where one of them is large.
        away = a + b > 0
        return np.where(away, 2 * (a * b - self.t) / np.where(away, a + b + root, 1.0), a + b - root)

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """By the chain rule."""
        (a, b, root), (A, B) = self._scaled(r), np.split(J / self.scales, 2, axis=2)
        return np.asarray((1 - a / root)[:, None] * A + (1 - b / root)[:, None] * B)

    def pattern(self, structure: Mask) -> Mask:
        """Of both members."""
        a, b = np.vsplit(structure, 2)
        return np.asarray(a | b)

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """By the chain rule."""
        a, b, root = self._scaled(r)
        return np.hstack([given * (1 - a / root), given * (1 - b / root)]) / self.scales

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array:
        """That of the root, a and b taken as linear."""
        (a, b, root), (A, B) = self._scaled(r), np.split(J / self.scales, 2, axis=2)
        share = (given / root**3)[:, None]
        aa, ab, bb = (b * b + 2 * self.t)[:, None], (a * b)[:, None], (a * a + 2 * self.t)[:, None]
        left, right = share * (ab * B - aa * A), share * (ab * A - bb * B)
        return np.asarray(np.matmul(left, A.transpose(0, 2, 1)) + np.matmul(right, B.transpose(0, 2, 1)))


@dataclass(frozen=True, eq=False)
class Pairs(Role):
    """(a, b) = r with one member of each pair held at zero and the other not negative."""

    scales: Array
    """Typical size of each row, (rows,)."""
    first: Mask
    """True where it is a that is held, (count, rows/2)."""

    def bounds(self) -> tuple[Array, Array]:
        """Zero, and above zero for who is not held."""
        upper = np.where(np.hstack([self.first, ~self.first]), 0.0, np.inf)
        return np.zeros_like(upper), upper

    def constraints(self, r: Array) -> Array:
        """a and b over their sizes."""
        return r / self.scales

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """Those of a and b."""
        return J / self.scales

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """As given."""
        return given / self.scales


def role_of(factor: Factor, r: Array, J: Array, t: float, sizes: Array | None, first: Mask | None) -> Role:
    """The role of a factor, given its residuals and Jacobians at the start.

    Args:
        t: a b of relaxed pairs, over their sizes; 0 to hold one member of each.
        sizes: of the members of pairs, (rows,); typical ones if they are None.
        first: which members of pairs are held, (count, rows/2); the smaller ones if they are None.
    """
    if factor.pairs:
        scales = typical(r) if sizes is None else sizes
        if t > 0:
            return Relaxed(scales, len(r), t)
        a, b = np.hsplit(r / scales, 2)
        return Pairs(scales, np.asarray(a < b) if first is None else first)
    if factor.kind is Kind.INEQUALITY:
        return Inequality(np.ones(r.shape, dtype=bool))
    if factor.hard:
        return Hard(independent_rows(J))
    return Soft(len(r))


def typical(r: Array) -> Array:
    """Root mean square of all first members and of all second ones, at each row, (rows,); 1 where it is zero.

    A member that is zero throughout, such as a slip that never turns, so has the size of those that are not.
    """
    sizes = np.sqrt([np.mean(half**2) for half in np.hsplit(r, 2)])
    return np.repeat(np.where(sizes > 0, sizes, 1.0), r.shape[1] // 2)


_REDUNDANT = 1e-8
"""A row whose part that is orthogonal to the others is below this share of the longest says nothing new."""


def independent_rows(J: Array) -> Mask:
    """A largest set of independent rows of every step, (count, rows), from transposed Jacobians (count, columns, rows).

    Gram–Schmidt with the longest remaining row first, all steps at once; a row that is zero at every step is kept.
    """
    rest = J.copy()
    count, _, rows = J.shape
    squares = np.einsum("kcr,kcr->kr", J, J)
    longest = np.max(squares, axis=1, initial=0.0)
    kept: Mask = np.broadcast_to(np.all(squares == 0, axis=0), squares.shape).copy()
    steps = np.arange(count)
    for _ in range(rows):
        squares = np.where(kept, -1.0, np.einsum("kcr,kcr->kr", rest, rest))
        pick = np.argmax(squares, axis=1)
        new = squares[steps, pick] > _REDUNDANT**2 * longest
        if not np.any(new):
            break
        kept[steps[new], pick[new]] = True
        direction = rest[steps, :, pick] / np.sqrt(np.where(new, squares[steps, pick], 1.0))[:, None]
        direction[~new] = 0.0
        for _ in range(2):  # once more against rounding
            rest -= direction[:, :, None] * np.einsum("kc,kcr->kr", direction, rest)[:, None]
    return kept


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
