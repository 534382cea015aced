"""Covariances of neighbouring steps from a banded Cholesky factor, without the rest of the inverse.

With H = LLᵀ in blocks of t unknowns, and P = H⁻¹, the last step first (Takahashi, Fagan and Chin, PICA 1973):

    P_jk = −Σ_i P_ji L_ik L_kk⁻¹,    P_kk = (L_kk L_kkᵀ)⁻¹ − Σ_i (L_ik L_kk⁻¹)ᵀ P_ik,    k < i, j ≤ k + reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.native import Routines, address, routines

_NUMBERS = 150_000
"""Covariances that are held at once, of a few steps or of many."""


def selected_inverse(factor: Array, tangent: int) -> Array:
    """Covariances of each step and the next ones that it couples with, (N, (reach + 1) t, (reach + 1) t); zero beyond
    the last.

    Args:
        factor: L in LAPACK's lower band storage, ((reach + 1) t, N t).
        tangent: t.
    """
    result = np.zeros((factor.shape[1] // tangent + 1, len(factor), len(factor)))
    _fill(factor, tangent, result, routines())
    return result[:-1]


def selected_inverse_backward(
    columns: Callable[[slice], Array], steps: int, tangent: int
) -> Iterator[tuple[int, Array]]:
    """The same of some steps at a time, the last ones first: the number of the first and their covariances, which the
    next ones overwrite.

    Args:
        columns: gives some columns of L.
        steps: N.
    """
    width, by = len(columns(slice(0, tangent))), routines()
    size = min(max(_NUMBERS // width**2, 1), steps)
    buffer = np.zeros((size + 1, width, width))
    for stop in range(steps, 0, -size):
        start = max(stop - size, 0)
        here = buffer[: stop - start + 1]
        here[-1] = buffer[0]
        _fill(columns(slice(start * tangent, stop * tangent)), tangent, here, by)
        yield start, here[:-1]


def _fill(factor: Array, tangent: int, result: Array, by: Routines | None) -> None:
    """Covariances of successive steps, from those of the step behind them, which stand at the end of ``result``."""
    steps, width = len(result) - 1, len(factor)
    if by is not None:
        columns = np.ascontiguousarray(factor.T)
        by.selected_inverse(steps, tangent, width, address(columns), address(result))
        return
    lower = _columns(factor, tangent)
    root = np.linalg.inv(lower[:, :tangent])
    ahead, own = np.matmul(lower[:, tangent:], root), np.matmul(root.transpose(0, 2, 1), root)
    for here, following, G, D in zip(result[-2::-1], result[::-1], ahead[::-1], own[::-1], strict=False):
        known = following[: width - tangent, : width - tangent]
        across = known @ G
        here[tangent:, tangent:] = known
        here[tangent:, :tangent], here[:tangent, tangent:] = -across, -across.T
        square = D + G.T @ across
        here[:tangent, :tangent] = (square + square.T) / 2  # what rounding leaves of the other part would grow


def cross_covariances(covariances: Array, offsets: Sequence[int], states: Array) -> Array:
    """P Jᵀ for transposed Jacobians of the states (count, unknowns, rows), steps in order of offset; P as in
    ``selected_inverse``."""
    unknowns, seen = states.shape[1], covariances[: len(states)]
    if max(offsets) + 1 > len(offsets):
        t = unknowns // len(offsets)
        places = np.concatenate([np.arange(offset * t, (offset + 1) * t) for offset in offsets])
        seen = seen[:, places[:, None], places]
    return np.asarray(np.matmul(seen[:, :unknowns, :unknowns], states))


def _columns(factor: Array, tangent: int) -> Array:
    """Block columns of L, (N, (reach + 1) t, t)."""
    width, unknowns = factor.shape
    columns = np.zeros((unknowns // tangent, width, tangent))
    for i in range(tangent):
        columns[:, i:, i] = factor[: width - i, i::tangent].T
    return columns
