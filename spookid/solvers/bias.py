"""How far a fit of states and parameters together lies off, to first order in the noise of the impulses.

Estimates minimize Σ r² over the states x and the parameters θ. The likelihood of θ integrates the states out. For
residuals of variance 1, by Laplace's method,

    log p(y | θ) = −½ Σ r² + Σ_k log|B_k| − ½ log det(J_xᵀJ_x)    at the best x(θ),    B_k = ∂r_k/∂x_{k+1},

where the second term normalizes the density of a step. The mean of its whole gradient is zero at the true θ, and at the
estimates that of the first term is; so with S = TᵀT they lie off by −S⁻¹ times the gradient of the other two,

    Σ_k tr(B_k⁻¹ dB_k/dθ) − tr(P J_xᵀ dJ_x/dθ),    P = (J_xᵀJ_x)⁻¹,    d/dθ along x(θ),

and by s² times as much if all noise has s² times the variance that the weights say. If the groups of rows have
variances s_g² whose ratios are others, that of the impulses stands in the place of s² and

    −Σ_g (s_g² − s²) tr(J_x⁺ I_g (I − J_x J_x⁺) dJ_x/dθ),    J_x⁺ I_g (I − J_x J_x⁺) = P J_gᵀ − P J_gᵀJ_g P J_xᵀ,

is added: a state weight that is too small has states follow the sensors' noise. All traces are in proportion to the
number of steps, as S is: the bias does not fade in longer records, but standard errors do. Left out is what the
curvature of r in x adds to log det: less than a hundredth of a standard error in noisy pendulums, single and Furuta's.

Private unknowns and local hard rows need no care: the reduction eliminates them, and what that does to the volumes of
both terms is the same. Derivatives of J are differences of exact Jacobians along x(θ), that of P is one along weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spookid.factor import Group
from spookid.kernels import Array
from spookid.solvers.contraction import Columns, Contraction, Strip
from spookid.solvers.reduction import Reduction
from spookid.transcription import Point

_STEP = 1e-6
"""Change of a parameter for a difference, relative to its magnitude: rounding and curvature matter alike."""


@dataclass(frozen=True, eq=False)
class Pull:
    """The mean of half the gradient of Σ r² along x(θ) at the true parameters, (n_p,)."""

    mean: Array
    per_variance: Array
    """Its part for noise of variance 1 in all rows."""


def pull(c: Contraction, point: Point, variance: float, excess: Mapping[str, Array]) -> Pull | None:
    """What noise does to the estimates at the ``point`` of a contraction: they are off by −S⁻¹ times its mean.

    Parameters that are held, or that nothing shows, are left at zero. All are zero if only initial states are fitted
    along with the parameters, as the equations of motion hold exactly. None if it is not known: where hard rows link
    steps otherwise, where rows of noise do not determine the next step, or where rounding is in the way.

    Args:
        variance: of the impulses, s².
        excess: name of a factor to s_g² − s² of its rows, (rows,); absent: 0.
    """
    here = c.linear
    transitions = [s for s in here.chains[0] if _is_transition(s)]
    if not transitions or not here.parameters:
        return Pull(np.zeros(here.parameters), np.zeros(here.parameters))
    reduction = Reduction(here.problem, point)
    if reduction.coupled or any(s.rows.matrix.shape[2] != s.tangent for s in transitions) or c.spread is None:
        return None
    try:
        uneven = c.uneven(c.spread, excess)
        if uneven is None:
            return None
        even = [
            [_weights(s, W) for s, W in zip(*chain, strict=True)] for chain in zip(here.chains, c.spread, strict=True)
        ]
        per_variance, rest = _differences(c, point, reduction, [even, uneven])
    except np.linalg.LinAlgError:
        return None
    return Pull(variance * per_variance - rest, per_variance)


def _differences(
    c: Contraction, point: Point, reduction: Reduction, weights: Sequence[Sequence[Columns]]
) -> Sequence[Array]:
    """Σ W dJ_x/dθ for each of some weights W per chain and factor, (n_p,)."""
    here = c.linear
    paths = [-c.fitted(i, [_slopes(s, here.parameters) for s in strips]) for i, strips in enumerate(here.chains)]
    start, sums = _Place(reduction, point), np.zeros((len(weights), here.parameters))
    sizes = _STEP * np.maximum(np.abs(point.parameters), here.problem.magnitudes)
    for p in np.flatnonzero(np.diag(c.inverse)).tolist():
        size = float(sizes[p])
        ahead = start.moved([size * path[:, :, p] for path in paths], p, size)
        for i, strips in enumerate(here.chains):
            for j, s in enumerate(strips):
                change = (start.seen(ahead, i, j, s) - s.states) / size
                sums[:, p] += [float(np.vdot(W[i][j], change)) for W in weights]
    return list(sums)


def _is_transition(strip: Strip) -> bool:
    """True if its rows are the noise that leads from one step to the next."""
    return strip.factor.group is Group.STATE and not strip.factor.hard and not strip.factor.first_only


def _slopes(strip: Strip, parameters: int) -> Array:
    """∂r/∂θ, (count, n_p, rows)."""
    return strip.rows.matrix[:, -parameters - 1 : -1]


def _weights(strip: Strip, spread: Array) -> Array:
    """B⁻¹ − P J_xᵀ, transposed as the strip's matrix: Σ dJᵢⱼ times these is what it has of the traces."""
    if strip.factor.group is not Group.STATE:
        return -spread
    weights, t = -spread, strip.tangent
    inverse = np.linalg.inv if _is_transition(strip) else np.linalg.pinv
    weights[:, -t:] += inverse(strip.states[:, -t:]).transpose(0, 2, 1)
    return weights


class _Place:
    """A point with local hard rows and private unknowns restored, linearized."""

    def __init__(self, reduction: Reduction, point: Point) -> None:
        self._reduction, self._point = reduction, point
        reduced = [reduction.reduce(point, i) for i in range(len(point.states))]
        self._rows = [rows for rows, _ in reduced]
        self._bases = [basis for _, basis in reduced]

    def moved(self, steps: Sequence[Array], parameter: int, change: float) -> _Place:
        """With the states (per chain (N, tangent)) and one parameter moved, across bounds if need be."""
        problem, parameters = self._reduction.problem, self._point.parameters.copy()
        parameters[parameter] += change
        full = [self._reduction.expand(step, basis) for step, basis in zip(steps, self._bases, strict=True)]
        states = tuple(problem.moved(x, step) for x, step in zip(self._point.states, full, strict=True))
        return _Place(self._reduction, self._reduction.restore(Point(states, parameters, self._point.codes)))

    def seen(self, other: _Place, chain: int, number: int, strip: Strip) -> Array:
        """J_x of another place in the rows of ``strip`` and the unknowns of this place, (count, unknowns, rows).

        Bases there may be turned against those here as an eigenvalue decomposition pleases; they are turned back.
        """
        rows, t = other._rows[chain][number], strip.tangent
        J, (old, new) = rows.matrix[:, : len(rows.offsets) * t], (self._bases[chain], other._bases[chain])
        if strip.rows.complement is not None:
            there = strip.rows.complement
            J = np.matmul(J, there if rows.complement is None else np.matmul(rows.complement.transpose(0, 2, 1), there))
        if old is None or new is None:
            return J
        turn, parts = np.matmul(old.transpose(0, 2, 1), new), []
        for i, offset in enumerate(rows.offsets):
            parts.append(np.matmul(turn[offset : offset + len(J)], J[:, i * t : (i + 1) * t]))
        return np.concatenate(parts, axis=1)
