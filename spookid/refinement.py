"""A motion refined until it stands still: steps of h, h/2, h/4 ... extrapolated to steps of no length (Romberg).

Symmetric steps of second order have errors in even powers of their length, so that column j of the table

    T_{i,0} = motion in steps of h/2^i,    T_{i,j} = T_{i,j−1} ⊞ (T_{i,j−1} ⊟ T_{i−1,j−1})/(4^j − 1)

has errors of order 2j + 2 once the steps resolve the motion (Hairer, Lubich, Wanner, Geometric Numerical Integration,
II.4 and V.1; Stoer and Bulirsch, 7.2.14). Where they do not, as in sharp friction, no column is better than the first;
the column that has moved least is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.factor import Constant
from spookid.kernels import Array
from spookid.model import Model
from spookid.simulation import StepFailedError

TOLERANCE = 1e-6
"""By which poses may still move, in metres and radians, when steps are halved."""
MOST = 64
"""Substeps of a step at the most."""
_PROJECTIONS = 2
"""Newton steps back onto the joints' constraints, from which extrapolated poses are off by less than the tolerance."""


@dataclass(frozen=True, eq=False)
class Refined:
    """A motion at the steps of h."""

    states: Array
    """x = (q, v), (N, 13 n_b)."""
    left: float
    """Largest movement of a pose in the last refinement [m, rad]; infinite if only one refinement has a motion."""


def refine(model: Model, constants: Iterable[Constant], march: Callable[[int], Array]) -> Refined:
    """Refine a motion to ``TOLERANCE``, or as far as ``MOST`` substeps go.

    Args:
        constants: a number for every symbol of the model.
        march: the motion in so many substeps of each step, x = (q, v) at the steps, (N, 13 n_b).

    Raises:
        StepFailedError: if the finest steps are not solved, or none are.
    """
    geometry = _Geometry(model, constants)
    above: list[Array] = []
    best: Refined | None = None
    substeps = 1
    while substeps <= MOST:
        try:
            row = [march(substeps)]
        except StepFailedError:
            if 2 * substeps > MOST:
                raise
            row = []
        for j, before in enumerate(above if row else ()):
            row.append(geometry.moved(row[j], geometry.difference(row[j], before) / (4 ** (j + 1) - 1)))
        moves = [geometry.distance(new, before) for new, before in zip(row, above, strict=False)]
        if row:
            column = int(np.argmin(moves)) if moves else 0
            best = Refined(row[column], moves[column] if moves else np.inf)
            if best.left <= TOLERANCE:
                break
        above, substeps = row, 2 * substeps
    assert best is not None
    return Refined(geometry.closed(best.states), best.left)


class _Geometry:
    """Differences of motions, and the way back onto the constraints."""

    def __init__(self, model: Model, constants: Iterable[Constant]) -> None:
        numbers = list(constants)
        symbols, self._numbers = ca.vertcat(*(c.symbol for c in numbers)), ca.DM([c.value for c in numbers])
        manifold = model.state
        self._poses, self._tangent = model.configuration.ambient, model.configuration.tangent
        q, v = ca.SX.sym("q", self._poses), ca.SX.sym("v", self._tangent)
        a, b, delta = ca.vertcat(q, v), ca.SX.sym("b", manifold.ambient), ca.SX.sym("delta", manifold.tangent)
        self._difference = ca.Function("difference", [a, b], [manifold.difference(a, b)])
        self._moved = ca.Function("moved", [a, delta], [manifold.retract(a, delta)])
        G = ca.densify(model.mechanics(q).constraint)
        self._constraint = ca.Function("constraint", [a, symbols], [ca.densify(model.violation(q)), G])

    def difference(self, states: Array, others: Array) -> Array:
        """x ⊟ x', (N, 12 n_b)."""
        return np.asarray(self._difference.map(len(states))(states.T, others.T).full().T)

    def moved(self, states: Array, deltas: Array) -> Array:
        """x ⊞ δ, (N, 13 n_b)."""
        return np.asarray(self._moved.map(len(states))(states.T, deltas.T).full().T)

    def distance(self, states: Array, others: Array) -> float:
        """Largest difference of poses [m, rad]; infinite if either is none."""
        largest = float(np.max(np.abs(self.difference(states, others)[:, : self._tangent]), initial=0.0))
        return largest if np.isfinite(largest) else np.inf

    def closed(self, states: Array) -> Array:
        """The states with joints that hold and velocities along them."""
        n, rows = len(states), self._constraint.numel_out(0)
        if not rows:
            return states
        for _ in range(_PROJECTIONS):
            violation, inverse, _ = self._along(states, n, rows)
            shift = np.zeros((n, self._difference.numel_out(0)))
            shift[:, : self._tangent] = -np.einsum("kij,kj->ki", inverse, violation)
            states = self.moved(states, shift)
        _, inverse, G = self._along(states, n, rows)
        v = states[:, self._poses :]
        v = v - np.einsum("kij,kj->ki", inverse, np.einsum("kij,kj->ki", G, v))
        return np.hstack([states[:, : self._poses], v])

    def _along(self, states: Array, n: int, rows: int) -> tuple[Array, Array, Array]:
        """g (n, rows), the pseudo-inverse of G, (n, 6 n_b, rows), and G (n, rows, 6 n_b)."""
        violation, stacked = self._constraint.map(n)(states.T, self._numbers)
        G = stacked.full().reshape(rows, n, -1).transpose(1, 0, 2)
        return violation.full().T, np.linalg.pinv(G, rcond=1e-8), G
