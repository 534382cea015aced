"""Further terms of a fixed-lag smoother: the log-determinant, the linearization point, and the anchor of parameters.

**Log-determinant.** With estimated process noise, −log L contains ½ log det H_xx − Σ log |det D_k| besides half the
cost. H_xx belongs to all states, and D_k is the Jacobian of the process-noise equations of a step in the newest state.
Its differential is Σ ⟨A, dJ⟩ with A = P Jᵀ less D_k⁺, where P is the covariance of neighbouring states for given
parameters. A kernel gives the gradient (``Transcription.contract``), which enters as a linear term of the equations,
and leaves the window with them. ``slopes`` has the contributions of equality constraints and private unknowns.

With noise that keeps its size, the term Σ log |det D_k| takes smaller disturbances than before for larger inertias. It
is therefore scaled by the running mean of the expected squares of the equations that leave, which is 1 for noise of
the size that is kept. Large squares are those of a change, and count as ``_LARGEST``.

**First estimates.** The equations of a bilinear model y = a b u determine one direction of (a, b) at a single point,
but both directions at two points: spurious information would accumulate. All equations that leave the window are
therefore linearized at the first estimates of the parameters. The present estimates replace these if the equations of
the window alone determine all their parameters, and in no direction have more than ``_MOST`` times the information at
the present estimates than at the first ones. The spurious information is then bounded by that factor. For y = a b u the
condition never holds, and the first estimates stay.

**Anchor.** The first few equations have more unknowns than residuals, and fit best at arbitrary parameters. Equations
that leave would be linearized there. A pseudo-observation therefore keeps each direction of the parameters, relative to
their magnitudes, at its initial value with a standard deviation of half the magnitude. Its weight decreases where the
data determine the direction better than its magnitude, and vanishes where they determine it to half the magnitude.
Standard errors do not include the anchor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.precision import NO_INFORMATION
from spookid.solvers.condensation import NullSpaceAndInverse, null_space_and_inverse, rank
from spookid.solvers.fronts import Pivots
from spookid.solvers.lag_memory import Memory, memory_of
from spookid.solvers.lag_window import LagWindow, Placed
from spookid.solvers.rows import LinearizedFactor, Rows
from spookid.solvers.slopes import Determinants, Turns

_MOST = 2.0
_FAR = 0.01
"""Share of a parameter's size by which it must have moved for other estimates to be looked for."""
RENEWALS = 5
"""How often the volume's slopes are found anew while a step goes through the window."""
_HORIZON, _LARGEST = 10, 9.0
"""Windows over which squares of equations are averaged, and the largest that counts as noise."""
_KNOWN = 1e-6
"""Least eigenvalue of an information matrix with diagonal 1 that is not rounding."""


class FirstEstimates:
    """Linearization point of a window's parameters. ``point``: where they are linearized, (n_p,)."""

    def __init__(self, window: LagWindow, point: Array) -> None:
        self.point = point.copy()
        self._window = window
        self._alone = memory_of(window)
        """Remembers nothing."""
        self.waits = 0
        """Updates until other estimates are looked for."""

    def renew(self, parameters: Array) -> None:
        """Move the linearization point to the present values if this is harmless, at most once per window length. The
        window's Jacobians then belong to other parameters."""
        self.waits -= 1
        sizes = np.maximum(np.abs(self.point), self._window.problem.magnitudes)
        if self.waits >= 0 or np.all(np.abs(parameters - self.point) <= _FAR * sizes):
            return
        self.waits = self._window.steps
        before, held = self._information(parameters, self.point)
        after, _ = self._information(parameters, parameters)
        seen = held > 0
        before, after, held = before[np.ix_(seen, seen)], after[np.ix_(seen, seen)], held[seen]
        if not np.all(np.diag(before) > NO_INFORMATION * held) or not np.all(np.isfinite(after)):
            return
        scale = np.sqrt(np.outer(np.diag(before), np.diag(before)))
        known = np.linalg.eigvalsh(before / scale)[0] > _KNOWN if len(held) else False
        if known and np.linalg.eigvalsh((_MOST * before - after) / scale)[0] >= 0:
            self.point = parameters.copy()

    def _information(self, parameters: Array, point: Array) -> tuple[Array, Array]:
        """In the parameters, by the window's rows alone, (n_p, n_p); and of each if states were known, (n_p,)."""
        window, n = self._window, len(parameters)
        self._alone.linearize(parameters, point, window.steps)
        shape = window.steps, (window.reach + 1) * window.manifold.tangent + n
        rows = self._alone.factorize(np.zeros(shape), np.zeros((0, n + 1)))
        soft, held = rows.rows[rows.hard :, :-1], np.zeros(n)
        for placed in window.placed:
            count = placed.standing(window.steps)
            slopes = placed.matrix[:count, -n - 1 : -1].transpose(0, 2, 1)[~placed.absent.values[:count]]
            held += np.sum(slopes**2, axis=0)
        return np.asarray(soft.T @ soft), held


_SHARE = 0.5
"""Of a parameter's size: the error of the observation that holds it; what is known as well is not held at all, and what
is known to its size wholly."""


class Anchor:
    """See the module.

    Args:
        start: where the parameters begin, (n_p,).
        sizes: of the parameters, (n_p,).
    """

    def __init__(self, start: Array, sizes: Array) -> None:
        n = len(start)
        self.start, self._sizes = start.copy(), sizes
        self.slopes = np.zeros((n, n))
        """Of the rows that hold them."""
        self.open = n > 0
        """True until all directions have been known once."""

    def renew(self, rows: Pivots) -> None:
        """Remove terms that all equations, of which the parameters' are given, determine by now."""
        along = rows.rows[rows.hard :, :-1] * self._sizes
        for row in rows.rows[: rows.hard, :-1] * self._sizes:  # what is given exactly needs no hold
            along = np.concatenate([along, row[None] / max(np.linalg.norm(row), 1e-300) / _SHARE**2])
        known, directions = np.linalg.eigh(along.T @ along)
        weights = np.clip((1 - _SHARE**2 * known) / (1 - _SHARE**2), 0.0, 1.0)
        self.slopes = np.sqrt(weights)[:, None] * directions.T / (_SHARE * self._sizes)
        self.open = bool(np.any(weights > 0.0))

    def rows(self, parameters: Array) -> Array:
        """Equations that keep the parameters, with right-hand side in the last column, (n_p, n_p + 1)."""
        return np.column_stack([self.slopes, self.slopes @ (parameters - self.start)])

    def cost(self, parameters: Array) -> float:
        """Of the same."""
        values = self.slopes @ (parameters - self.start)
        return float(values @ values)


def check_volumes(window: LagWindow) -> None:
    """Raise ProblemError if equality constraints connect steps, which is not supported."""
    for placed in window.placed:
        if placed.factor.hard and placed.factor not in window.problem.local and not placed.factor.first_only:
            raise ProblemError(
                f"the constraints {placed.factor.name} connect several time steps, which a fixed-lag smoother does "
                "not support; choose another stepper, or measure torques"
            )


def volume_slopes(window: LagWindow, memory: Memory, point: Array, squares: Mapping[str, Array]) -> Array:
    """Half the gradient in states and parameters, (steps, (reach + 1) t + n_p), by the oldest step of the equations.
    ``memory``: with the factorized window; ``point``: linearization point of the parameters; ``squares``: running means
    by names of factors, (rows,), renewed if the window is full."""
    (steps, reach), t, covariances = (window.steps, window.reach), window.manifold.tangent, memory.covariances()
    columns, surface = np.array(window.problem.visible, dtype=np.int64), None
    local = {placed.factor: placed for placed in window.placed if placed.factor in window.problem.local}
    if local:
        G = np.concatenate([p.matrix[:steps, columns] for p in local.values()], axis=2).transpose(0, 2, 1)
        surface = null_space_and_inverse(G, rank(G))
    turns = Turns(steps, t, columns, None if surface is None else surface.inverse, None)
    slopes = np.zeros((steps, (reach + 1) * t + len(window.names)))
    for placed in window.placed:
        if not placed.factor.hard and (count := placed.count(steps, window.first)):
            weights = _weights(placed, turns, covariances[:count], surface, squares.get(placed.factor.name))
            weights[np.broadcast_to(placed.absent.values[:count, None], weights.shape)] = 0.0
            _contract(placed, weights, window, point, slopes)
    carried = memory.carried_states
    for step in range(min(reach, steps) if local else 0):
        place = step * t + columns
        across = covariances[0][place, : carried.shape[1]] @ carried.T
        turns.products[step] += across @ carried[:, place]
    for factor, weights in turns.surface(local):
        _contract(local[factor], weights, window, point, slopes)
    return slopes


def _weights(
    placed: Placed, turns: Turns, covariances: Array, surface: NullSpaceAndInverse | None, squares: Array | None
) -> Array:
    """A of a soft factor, with the ``covariances`` of the states that its rows see."""
    factor, tangent, matrix = placed.factor, placed.tangent, placed.matrix[: len(covariances)]
    visible, complement, inverse = turns.visible(factor), None, None
    # Their columns stand in order of the offsets, of which some may be left out.
    columns = np.array(placed.offsets).repeat(len(visible) // len(placed.offsets)) * tangent + visible % tangent
    outer = np.matmul(covariances[:, columns[:, None], columns], matrix[:, visible])
    if factor.private is not None:
        reached = matrix[:, turns.private(factor)]
        split = null_space_and_inverse(reached, rank(reached))
        complement, inverse = split.null, split.inverse.transpose(0, 2, 1)
        outer = np.matmul(np.matmul(outer, complement), complement.transpose(0, 2, 1))
    if factor.density:
        assert squares is not None
        excess = _excess(placed, matrix[:, visible], outer, complement, squares)
        newest = visible[-(len(visible) // len(placed.offsets)) :]
        part = matrix[:, newest] if complement is None else np.matmul(matrix[:, newest], complement)
        if surface is not None:
            basis = surface.null[factor.reach : factor.reach + len(part)]
            part = np.matmul(basis.transpose(0, 2, 1), part)
        term = LinearizedFactor(factor, Rows((0,), part, complement), len(part), part.shape[1])
        normal = Determinants([term]).slopes[0]
        normal = normal if surface is None else np.matmul(basis, normal)
        normal = normal if complement is None else np.matmul(normal, complement.transpose(0, 2, 1))
        outer[:, -len(newest) :] -= normal * squares
        squares += excess / (_HORIZON * RENEWALS)
    return turns.lifted(factor, matrix, outer, inverse)


def _excess(placed: Placed, matrix: Array, outer: Array, complement: Array | None, squares: Array) -> Array:
    """Expected squares of the equations that leave next, less their running means, (rows,)."""
    count = placed.leaving // RENEWALS
    present, residual, seen = ~placed.absent.values[:count], placed.residual[:count], outer[:count]
    if not present.any():
        return np.zeros_like(squares)
    if complement is None:
        expected = residual**2 + np.sum(matrix[:count] * seen, axis=1)
    else:  # what is left of the rows has no order
        residual, across = (np.matmul(a, complement[:count]) for a in (residual[:, None], matrix[:count]))
        total = residual[:, 0] ** 2 + np.sum(across * np.matmul(seen, complement[:count]), axis=1)
        expected = np.broadcast_to(total.mean(axis=1)[:, None], present.shape)
    off = np.where(present, np.minimum(expected, _LARGEST) - squares, 0.0)
    return np.asarray(off.sum(axis=0) / np.maximum(present.sum(axis=0), 1))


def _contract(placed: Placed, weights: Array, window: LagWindow, point: Array, slopes: Array) -> None:
    """Add the gradient of Σ ⟨A, J⟩ of one factor."""
    t, count, kernel = placed.tangent, len(weights), window.kernels.contraction(placed.factor)
    states = [window.linearized[offset : offset + count] for offset in placed.offsets]
    stepwise = [*states, placed.data.values[:count], contiguous(weights).reshape(count, -1)]
    shape = count, len(placed.offsets) * t + len(window.names)
    found = kernel(stepwise, [point, window.numbers], np.empty(shape))
    for i, offset in enumerate(placed.offsets):
        slopes[:count, offset * t : (offset + 1) * t] += found[:, i * t : (i + 1) * t]
    slopes[:count, (window.reach + 1) * t :] += found[:, len(placed.offsets) * t :]
