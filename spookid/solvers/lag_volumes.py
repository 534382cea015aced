"""What the volume of all states adds to the slope of a likelihood, along a smoother's window.

Where disturbances are estimated, −log L has ½ log det H_xx − Σ log |det D_k| beside half the cost, H_xx of all states
and D_k the Jacobian of a step's random rows in the newest state. With P the covariance of neighbouring states for given
parameters it changes as Σ ⟨A, dJ⟩ does, A = P Jᵀ less D_k⁺, whose gradient a kernel gives (``Transcription.contract``).
It enters as a linear term of the rows that it belongs to, and leaves with them.

Hard rows of one step turn the surface on which its unknowns lie, and private unknowns the residuals that they cannot
reach; see ``statistics.slopes`` for what both add.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.solvers.condensation import NullSpaceAndInverse, null_space_and_inverse, rank
from spookid.solvers.lag_memory import Memory
from spookid.solvers.lag_window import LagWindow, Placed


def check_volumes(window: LagWindow) -> None:
    """Refuse what is not there.

    Raises:
        ProblemError: if hard rows link steps.
    """
    for placed in window.placed:
        if placed.factor.hard and placed.factor not in window.problem.local and not placed.factor.first_only:
            raise ProblemError(
                f"the hard rows of {placed.factor.name} link steps, and the volume of their states is not known to a "
                "fixed-lag smoother; take another stepper, or measured efforts"
            )


def volume_slopes(window: LagWindow, memory: Memory, point: Array) -> Array:
    """Half the gradient in the states and parameters, (steps, (reach + 1) t + n_p), by the oldest step of the rows.

    Args:
        memory: with the window factorized.
        point: where the parameters are linearized.
    """
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
