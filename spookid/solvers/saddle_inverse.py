"""Solutions, the determinant and blocks of the inverse of a saddle point whose multipliers stand with the later of two
steps, in blocks of a step's unknowns and multipliers, (t + m), all of them definite in the unknowns:

    K = [H   Cᵀ ]
        [C  −δ ].
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.blocks import Places, SaddleBlocks, saddle_blocks
from spookid.kernels.native import integers
from spookid.kernels.workspace import Workspace
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError


class SaddleInverse(Protocol):
    """K with a border B of the parameters and the gradient."""

    corner: Array
    """BᵀK⁻¹B, (n_p + 1, n_p + 1)."""
    logarithm: float
    """log |det K|."""

    def responses(self) -> Array:
        """The states' part of K⁻¹B, (N, t, n_p + 1)."""

    def solve(self, right: Array) -> Array:
        """The states' part of K⁻¹ right for a right-hand side of the states, both (N, t, columns)."""

    def blocks(self) -> tuple[Array, Array]:
        """Blocks of K⁻¹: those of each step's states with all of its block, (N, t, t + m), and those with all of the
        next one's, (N − 1, t, t + m)."""


def saddle_inverse(equations: NormalEquations, hard: Array, compliance: Array, held: Mask) -> SaddleInverse:
    """K of a chain, in C or by NumPy.

    Args:
        equations: of H, which couples neighbours at most.
        hard: transposed Jacobians, (N, 2 t + n_p + 1, m), of which the k-th are of steps k − 1 and k.
        compliance: δ, (N, m).
        held: True where there is a row, (N, m); the first of each step.

    Raises:
        NotPositiveDefiniteError: if a block is singular, or does not have t positive eigenvalues as far as its
            determinant tells.
    """
    by = saddle_blocks()
    found = (
        ByElimination(equations, hard, compliance, held, by) if by else ByInverses(equations, hard, compliance, held)
    )
    return found


class ByElimination:
    """In C; see ``saddle_inverse``."""

    def __init__(
        self, equations: NormalEquations, hard: Array, compliance: Array, held: Mask, by: SaddleBlocks
    ) -> None:
        steps, self._by = len(hard), by
        self._tangent = t = len(equations.band) // steps
        slots = np.broadcast_to(t + np.arange(held.shape[1]), held.shape)
        rows = integers(t + held.sum(axis=1))
        later = integers(np.where(held, 1, -1))
        places = Places.of(later, integers(slots), rows, integers(equations.linked), t, hard.shape[1])
        band, unmoved = equations.band.reshape(steps, t, -1), (equations.band[:, 0] == 0).astype(np.float64)
        self._factor, self.corner, failed = by.factorize(
            places, band, unmoved, equations.border, hard, compliance, Workspace()
        )
        if failed:
            raise NotPositiveDefiniteError(f"no pivot in step {failed - 1}")
        self.logarithm = _logarithm(*self._factor.determinants(), held)

    def responses(self) -> Array:
        return self._by.responses(self._factor)[:, : self._tangent]

    def solve(self, right: Array) -> Array:
        whole = np.zeros((len(right), self._factor.places.most, right.shape[2]))
        whole[:, : self._tangent] = right
        return self._by.solve(self._factor, whole)[:, : self._tangent]

    def blocks(self) -> tuple[Array, Array]:
        return self._by.inverse(self._factor)


class ByInverses:
    """In NumPy, step by step."""

    def __init__(self, equations: NormalEquations, hard: Array, compliance: Array, held: Mask) -> None:
        steps, m = held.shape
        self._tangent = t = len(equations.band) // steps
        band, size, ends = equations.band.reshape(steps, t, -1), t + m, np.arange(t + m)
        lower = np.zeros((steps, max(band.shape[2], 2 * t), t))
        for i in range(t):
            lower[:, i : band.shape[2], i] = band[:, i, : band.shape[2] - i]
        diagonal, self._across = np.zeros((steps, size, size)), np.zeros((steps - 1, size, t))
        diagonal[:, :t, :t] = lower[:, :t] + np.tril(lower[:, :t], -1).transpose(0, 2, 1)
        diagonal[:, ends[:t], ends[:t]] += diagonal[:, ends[:t], ends[:t]] == 0  # unknowns that move nothing
        diagonal[:, :t, t:], diagonal[:, t:, :t] = hard[:, t : 2 * t], hard[:, t : 2 * t].transpose(0, 2, 1)
        diagonal[:, ends[t:], ends[t:]] = np.where(held, -compliance, -1.0)
        self._across[:, :t], self._across[:, t:] = lower[:-1, t : 2 * t], hard[1:, :t].transpose(0, 2, 1)
        border = np.concatenate([equations.border.reshape(steps, t, -1), hard[:, 2 * t :].transpose(0, 2, 1)], axis=1)
        self._inverses, self.logarithm = self._eliminated(diagonal)
        self._response = self._solved(border)
        self.corner = np.tensordot(border, self._response, axes=((0, 1), (0, 1)))

    def responses(self) -> Array:
        return self._response[:, : self._tangent]

    def solve(self, right: Array) -> Array:
        more = self._inverses.shape[1] - self._tangent
        return self._solved(np.pad(right, ((0, 0), (0, more), (0, 0))))[:, : self._tangent]

    def _eliminated(self, blocks: Array) -> tuple[Array, float]:
        """Inverses of the blocks, each less what eliminating those before leaves of it, in their place; log |det K|."""
        t = self._tangent
        for k in range(len(blocks)):
            if k:
                blocks[k] -= self._across[k - 1] @ blocks[k - 1, :t, :t] @ self._across[k - 1].T
            try:
                blocks[k] = np.linalg.inv(blocks[k])
            except np.linalg.LinAlgError as error:
                raise NotPositiveDefiniteError(f"no pivot in step {k}") from error
        signs, logarithms = np.linalg.slogdet(blocks)
        return blocks, _logarithm(signs, -logarithms, np.ones((1, blocks.shape[1] - t), dtype=np.bool_))

    def _solved(self, right: Array) -> Array:
        """K⁻¹ right, (N, t + m, columns)."""
        t, inverses, across = self._tangent, self._inverses, self._across
        half = np.empty_like(right)
        for k, own in enumerate(right):
            half[k] = inverses[k] @ (own - across[k - 1] @ half[k - 1, :t] if k else own)
        for k in range(len(right) - 2, -1, -1):
            half[k] -= inverses[k, :, :t] @ (across[k].T @ half[k + 1])
        return half

    def blocks(self) -> tuple[Array, Array]:
        t, blocks = self._tangent, self._inverses.copy()
        ahead = np.empty((len(blocks) - 1, t, blocks.shape[1]))
        for k in range(len(blocks) - 2, -1, -1):
            moved = self._across[k] @ self._inverses[k, :t]
            seen = blocks[k + 1] @ moved
            ahead[k] = -seen[:, :t].T
            blocks[k] += moved.T @ seen
        return blocks[:, :t], ahead


def _logarithm(signs: Array, logarithms: Array, held: Mask) -> float:
    """log |det K| of the determinants of blocks with so many multipliers."""
    if not np.all(signs == (-1.0) ** held.sum(axis=1)):
        raise NotPositiveDefiniteError("a block of the states is not positive definite")
    return float(np.sum(logarithms))
