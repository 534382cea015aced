"""What stands beside the rows of a smoother's window: the volume of all states, and how parameters are held.

**Volume.** Where process noise is estimated, −log L has ½ log det H_xx − Σ log |det D_k| beside half the cost, H_xx of
all states and D_k the Jacobian of a step's random rows in the newest state. With P the covariance of neighbouring
states for given parameters it changes as Σ ⟨A, dJ⟩ does, A = P Jᵀ less D_k⁺, whose gradient a kernel gives
(``Transcription.contract``). It enters as a linear term of the rows that it belongs to, and leaves with them. Hard rows
of one step turn the surface on which its unknowns lie, and private unknowns the residuals that they cannot reach; see
``statistics.slopes`` for what both add.

**First estimates.** Rows of a bilinear model y = a b u know one direction of (a, b) at any one point, but at two points
both: what is not known at all would slowly become known. So all rows that leave are linearized at the first estimates
of the parameters. These may be far off, though. They are given up for the present ones if the window's rows alone
determine all parameters that they hold, and in no direction know more than ``_MOST`` times as much at the present
estimates as at the first ones: what leaves from there on then adds no more than that factor to what would be known of
any direction. For y = a b u this is never so, and the first estimates stay.

**Anchor.** The first few rows are fitted best by parameters anywhere, for they have more unknowns than rows. Rows that
leave were then linearized there for good, and what they tell were wrong for ever. So each direction of the parameters,
in shares of their sizes, is held where it began as by an observation with an error of half that size; less so where all
rows together know it to better than its size, and not at all where they know it to half of it. What is told of errors
is without that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.solvers.condensation import NullSpaceAndInverse, null_space_and_inverse, rank
from spookid.solvers.fronts import Pivots
from spookid.solvers.lag_memory import Memory, memory_of
from spookid.solvers.lag_window import LagWindow, Placed

_MOST = 2.0
_FAR = 0.01
"""Share of a parameter's size by which it must have moved for other estimates to be looked for."""
_ALONE = 1e-10
"""Share of the information in a parameter for known states below which states hide it: the rest is rounding."""
_KNOWN = 1e-6
"""Least eigenvalue of an information matrix with diagonal 1 that is not rounding."""


class FirstEstimates:
    """The point of a window's parameters. ``point``: where they are linearized, (n_p,)."""

    def __init__(self, window: LagWindow, point: Array) -> None:
        self.point = point.copy()
        self._window = window
        self._alone = memory_of(window)
        """Remembers nothing."""
        self.waits = 0
        """Updates until other estimates are looked for."""

    def renew(self, parameters: Array) -> None:
        """Take the present values if that is harmless; once in as many updates as the window has steps at the most.
        The window's Jacobians are those of other parameters afterwards."""
        self.waits -= 1
        sizes = np.maximum(np.abs(self.point), self._window.problem.magnitudes)
        if self.waits >= 0 or np.all(np.abs(parameters - self.point) <= _FAR * sizes):
            return
        self.waits = self._window.steps
        before, held = self._information(parameters, self.point)
        after, _ = self._information(parameters, parameters)
        seen = held > 0
        before, after, held = before[np.ix_(seen, seen)], after[np.ix_(seen, seen)], held[seen]
        if not np.all(np.diag(before) > _ALONE * held) or not np.all(np.isfinite(after)):
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
        """Let go what all rows, of which the parameters' are given, know by now."""
        along = rows.rows[rows.hard :, :-1] * self._sizes
        for row in rows.rows[: rows.hard, :-1] * self._sizes:  # what is given exactly needs no hold
            along = np.concatenate([along, row[None] / max(np.linalg.norm(row), 1e-300) / _SHARE**2])
        known, directions = np.linalg.eigh(along.T @ along)
        weights = np.clip((1 - _SHARE**2 * known) / (1 - _SHARE**2), 0.0, 1.0)
        self.slopes = np.sqrt(weights)[:, None] * directions.T / (_SHARE * self._sizes)
        self.open = bool(np.any(weights > 0.0))

    def rows(self, parameters: Array) -> Array:
        """What holds them, with its value in the last column, (n_p, n_p + 1)."""
        return np.column_stack([self.slopes, self.slopes @ (parameters - self.start)])

    def cost(self, parameters: Array) -> float:
        """Of the same."""
        values = self.slopes @ (parameters - self.start)
        return float(values @ values)


def check_volumes(window: LagWindow) -> None:
    """Refuse what is not there; raises ProblemError if hard rows link steps."""
    for placed in window.placed:
        if placed.factor.hard and placed.factor not in window.problem.local and not placed.factor.first_only:
            raise ProblemError(
                f"the constraints of {placed.factor.name} link steps, and the volume of their states is not known to a "
                "fixed-lag smoother; take another stepper, or measured efforts"
            )


def volume_slopes(window: LagWindow, memory: Memory, point: Array) -> Array:
    """Half the gradient in the states and parameters, (steps, (reach + 1) t + n_p), by the oldest step of the rows.
    ``memory``: with the window factorized; ``point``: where the parameters are linearized."""
    whole = _Volumes(window, memory.covariances())
    for placed in window.placed:
        count = placed.count(window.steps, window.first)
        if not placed.factor.hard and count:
            whole.add(placed, count)
    if window.problem.local:
        whole.turn(memory.carried_states)
    return whole.contracted(point)


@dataclass(eq=False)
class _Volumes:
    """Weights A of each factor, and of local hard rows."""

    window: LagWindow
    covariances: Array
    """Of the states of neighbouring steps, (steps, w, w)."""

    def __post_init__(self) -> None:
        window, t = self.window, self.window.manifold.tangent
        self.visible = np.array(window.problem.visible, dtype=np.int64)
        self.weights: dict[str, Array] = {}
        self.products = np.zeros((window.steps, t, t))
        """Σ A J by step, which local hard rows turn."""
        self.surface: NullSpaceAndInverse | None = None
        local = [p for p in window.placed if p.factor in window.problem.local]
        if local:
            rows = np.concatenate([p.matrix[: window.steps, self.visible] for p in local], axis=2).transpose(0, 2, 1)
            self.surface = null_space_and_inverse(rows, rank(rows))

    def add(self, placed: Placed, count: int) -> None:
        """A of a soft factor."""
        factor, t = placed.factor, self.window.manifold.tangent
        columns = np.concatenate([offset * t + self.visible for offset in placed.offsets])
        mine = np.concatenate([i * t + self.visible for i in range(len(placed.offsets))])
        own = placed.matrix[:count, mine]
        weights = np.matmul(self.covariances[:count, columns[:, None], columns], own)
        private = self._private(placed, count)
        if private is not None:
            weights = np.matmul(np.matmul(weights, private.null), private.null.transpose(0, 2, 1))
        if factor.density:
            weights[:, -len(self.visible) :] -= self._normal(placed, count, private)
        whole = np.zeros((count, len(placed.offsets) * t, placed.rows))
        whole[:, mine] = weights
        if private is not None and factor.private is not None:
            place = placed.offsets.index(factor.private[0]) * t + np.array(factor.private[1])
            along = np.matmul(own.transpose(0, 2, 1), weights)
            whole[:, place] = -np.matmul(private.inverse.transpose(0, 2, 1), along)
        whole[np.broadcast_to(placed.absent.values[:count, None], whole.shape)] = 0.0
        self.weights[factor.name] = whole
        if self.surface is not None:
            for i, offset in enumerate(placed.offsets):
                part = slice(i * t, (i + 1) * t)
                visible = mine[i * len(self.visible) : (i + 1) * len(self.visible)]
                product = np.matmul(whole[:, visible], placed.matrix[:count, visible].transpose(0, 2, 1))
                place = part.start - i * t + self.visible
                self.products[offset : offset + count, place[:, None], place] += product

    def _private(self, placed: Placed, count: int) -> NullSpaceAndInverse | None:
        """Residuals that private unknowns cannot reach, and P⁺, transposed."""
        if placed.factor.private is None:
            return None
        offset, private = placed.factor.private
        place = placed.offsets.index(offset) * self.window.manifold.tangent + np.array(private)
        columns = placed.matrix[:count, place]
        return null_space_and_inverse(columns, rank(columns))

    def _normal(self, placed: Placed, count: int, private: NullSpaceAndInverse | None) -> Array:
        """D⁺ in the newest state's visible columns, (count, columns, rows)."""
        t, last = self.window.manifold.tangent, len(placed.offsets) - 1
        part = placed.matrix[:count, last * t + self.visible]
        taken = np.eye(placed.rows)[:, list(placed.factor.density)] if private is None else private.null
        D = np.matmul(part, taken)
        if self.surface is not None:
            basis = self.surface.null[placed.factor.reach : placed.factor.reach + count]
            D = np.matmul(basis.transpose(0, 2, 1), D)
        elif private is None and D.shape[1] > D.shape[2]:  # other joints' efforts are measured
            own = np.array(placed.factor.density)
            normal = np.zeros_like(part)
            normal[:, own[:, None], own] = np.linalg.pinv(D[:, own]).transpose(0, 2, 1)
            return normal
        inverse = np.linalg.pinv(D).transpose(0, 2, 1)
        if self.surface is not None:
            inverse = np.matmul(basis, inverse)
        return np.asarray(np.matmul(inverse, np.swapaxes(taken, -1, -2)))

    def turn(self, carried: Array) -> None:
        """Weights of the local hard rows: −(Σ A J) G⁺."""
        assert self.surface is not None
        window, t = self.window, self.window.manifold.tangent
        outer = self.covariances[0][: carried.shape[1], : carried.shape[1]] @ carried.T @ carried
        for step in range(min(window.reach, window.steps)):
            part = slice(step * t, (step + 1) * t)
            self.products[step] += outer[part, part]
        visible = self.products[:, self.visible[:, None], self.visible]
        weights, first = -np.matmul(visible, self.surface.inverse), 0
        for placed in window.placed:
            if placed.factor in window.problem.local:
                whole = np.zeros((window.steps, t, placed.rows))
                whole[:, self.visible] = weights[:, :, first : first + placed.rows]
                self.weights[placed.factor.name] = whole
                first += placed.rows

    def contracted(self, point: Array) -> Array:
        """The gradient of Σ ⟨A, J⟩."""
        window, t, n = self.window, self.window.manifold.tangent, len(self.window.names)
        slopes = np.zeros((window.steps, (window.reach + 1) * t + n))
        for placed in window.placed:
            weights = self.weights.get(placed.factor.name)
            if weights is None:
                continue
            found = self._contracted(placed, weights, point)
            for i, offset in enumerate(placed.offsets):
                slopes[: len(found), offset * t : (offset + 1) * t] += found[:, i * t : (i + 1) * t]
            slopes[: len(found), (window.reach + 1) * t :] += found[:, len(placed.offsets) * t :]
        return slopes

    def _contracted(self, placed: Placed, weights: Array, point: Array) -> Array:
        window, count = self.window, len(weights)
        kernel = window.kernels.contraction(placed.factor)
        states = [window.linearized[offset : offset + count] for offset in placed.offsets]
        stepwise = [*states, placed.data.values[:count], contiguous(weights).reshape(count, -1)]
        out = np.empty((count, len(placed.offsets) * window.manifold.tangent + len(window.names)))
        return kernel(stepwise, [point, window.numbers], out)
