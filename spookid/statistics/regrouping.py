"""Base parameters: regrouping of the linearly dependent columns of a regressor.

Columns are processed from left to right. If a column is a combination of earlier ones up to rounding, its coefficient
is added to theirs (Gautier, IEEE Transactions on Robotics and Automation 7, 1991).

The module also tests whether a problem contains a unit of force. If masses, inertias, torques and friction are all
free, a common factor multiplies the residuals of the equations of motion and changes nothing else. This is tested at
random motions, Σ c_i ∂p/∂θ_i = p: at a single motion with poor initial values, the residuals are a combination of the
columns anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.precision import DEPENDENT, ROUNDING
from spookid.records import dataclass
from spookid.statistics.weak_directions import RANK
from spookid.transcription.transcription import Point, Transcription


@dataclass(frozen=True, eq=False)
class Grouping:
    """Columns of a matrix W (rows, n) in three groups; W z = W_kept (z_kept + shares z_joined)."""

    kept: tuple[int, ...]
    """Columns that are independent."""
    joined: tuple[int, ...]
    """Columns that are combinations of these."""
    still: tuple[int, ...]
    """Columns of zeros."""
    shares: Array
    """W_joined = W_kept shares, (kept, joined)."""
    singular_values: Array
    """Of the columns that are kept, each over its length, descending."""

    @property
    def condition(self) -> float:
        """Ratio of largest to smallest value; NaN if there are none."""
        values = self.singular_values
        return float(values[0] / values[-1]) if len(values) else float("nan")

    @property
    def null_space(self) -> Array:
        """Null space of W, as rows (joined + still, n)."""
        count = len(self.kept) + len(self.joined) + len(self.still)
        rows = np.zeros((len(self.joined) + len(self.still), count))
        for row, column in enumerate((*self.joined, *self.still)):
            rows[row, column] = 1.0
        rows[: len(self.joined), list(self.kept)] = -self.shares.T
        return rows


def regrouped(matrix: Array) -> Grouping:
    """Independent columns of a matrix (rows, n), and how the other columns depend on them."""
    square = np.linalg.qr(matrix, mode="r") if len(matrix) > matrix.shape[1] else matrix
    lengths = np.linalg.norm(square, axis=0)
    still = tuple(np.flatnonzero(lengths <= DEPENDENT * np.max(lengths, initial=0.0)).tolist())
    unit = square / np.where(lengths > 0, lengths, 1.0)
    kept: list[int] = []
    span = np.zeros((len(square), 0))
    for column in (i for i in range(matrix.shape[1]) if i not in still):
        left = unit[:, column]
        for _ in range(2):  # once more, for what rounding has left of it
            left = left - span @ (span.T @ left)
        if (length := float(np.linalg.norm(left))) > RANK:
            kept.append(column)
            span = np.column_stack([span, left / length])
    joined = tuple(i for i in range(matrix.shape[1]) if i not in still and i not in kept)
    shares = np.linalg.lstsq(unit[:, kept], unit[:, joined], rcond=None)[0]
    shares = np.where(np.abs(shares) > RANK, shares, 0.0) * lengths[list(joined)] / lengths[kept][:, None]
    values = np.linalg.svd(unit[:, kept], compute_uv=False) if kept else np.zeros(0)
    return Grouping(tuple(kept), joined, still, shares, np.asarray(values))


_SHARE_OF_UNIT = 1e-6
"""Relative residual that smoothing and rounding may leave."""


def common_scale(problem: Transcription, point: Point, names: Collection[str]) -> Array | None:
    """Changes c of the parameters that scale the residuals of some equations of motion and change no others, (n_p,);
    None if none exist. ``names``: of the noise of these equations."""
    columns, lacking = [], []
    shaken = replace(point, states=tuple(map(_shaken, point.states)))
    for c in range(len(problem.chains)):
        for factor in problem.factors:
            matrix, n = problem.linearize_factor(factor, shaken, c).matrix, len(problem.names)
            slopes, residual = matrix[:, -1 - n : -1].transpose(0, 2, 1).reshape(-1, n), matrix[:, -1]
            scaled = np.array([name in names for name in factor.noise] or [False] * residual.shape[1])
            columns.append(slopes)
            lacking.append((residual * scaled if factor.motion else np.zeros_like(residual)).ravel())
    J, p = np.vstack(columns), np.concatenate(lacking)
    known = np.isfinite(J).all(axis=1) & np.isfinite(p)
    J, p = J[known], p[known]
    sizes = np.linalg.norm(J, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    scale = np.linalg.lstsq(J / sizes, p, rcond=ROUNDING)[0] / sizes
    holds = np.any(scale) and np.linalg.norm(J @ scale - p) <= _SHARE_OF_UNIT * np.linalg.norm(p)
    return np.asarray(scale) if holds else None


def without_direction(information: Array, direction: Array) -> Array:
    """Information matrix (n_p, n_p) without information along a direction (n_p,)."""
    along = information @ direction
    size = float(direction @ along)
    return np.asarray(information - np.outer(along, along) / size) if size > 0 else information


def _shaken(states: Array) -> Array:
    """States (N, ambient) with random changes as large as what accelerations do between steps."""
    bends = np.diff(states, 2, axis=0) if len(states) > 2 else np.zeros((1, states.shape[1]))
    sizes = np.sqrt(np.mean(bends**2, axis=0))
    return contiguous(states + sizes * np.random.default_rng(0).standard_normal(states.shape))
