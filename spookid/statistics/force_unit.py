"""Whether a problem knows any unit of force: masses, inertias, torques and friction that are all free may be multiplied
by one number, which multiplies what the equations of motion lack and changes nothing else.

What a fit lacks at one motion does not tell: at a poor guess it comes of wrong parameters, and is a combination of
their columns. A common scale holds at any motion, Σ c_i ∂p/∂θ_i = p, so it is looked for at one that no mechanism has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point, Transcription

_ROUNDING = 1e-6
"""Share of what is lacking that smoothing and rounding may leave."""
_LEAST = 1e-12
"""Singular values of the columns below this share of the largest are zero."""


def common_scale(problem: Transcription, point: Point, names: Collection[str]) -> Array | None:
    """c, the changes of the parameters that multiply the residuals of some rows of the motion and change no others,
    (n_p,); None if there are none.

    Args:
        names: of the noise of these rows.
    """
    columns, lacking = [], []
    shaken = replace(point, states=tuple(map(_shaken, point.states)))
    for c in range(len(problem.chains)):
        for factor in problem.factors:
            slopes, residual = _rows(problem, factor, shaken, c)
            scaled = np.array([name in names for name in factor.noise] or [False] * residual.shape[1])
            columns.append(slopes)
            lacking.append((residual * scaled if factor.motion else np.zeros_like(residual)).ravel())
    J, p = np.vstack(columns), np.concatenate(lacking)
    known = np.isfinite(J).all(axis=1) & np.isfinite(p)
    J, p = J[known], p[known]
    sizes = np.linalg.norm(J, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    scale = np.linalg.lstsq(J / sizes, p, rcond=_LEAST)[0] / sizes
    holds = np.any(scale) and np.linalg.norm(J @ scale - p) <= _ROUNDING * np.linalg.norm(p)
    return np.asarray(scale) if holds else None


def without_direction(information: Array, direction: Array) -> Array:
    """Information (n_p, n_p) of which none lies along a direction (n_p,)."""
    along = information @ direction
    size = float(direction @ along)
    return np.asarray(information - np.outer(along, along) / size) if size > 0 else information


def _rows(problem: Transcription, factor: Factor, point: Point, chain: int) -> tuple[Array, Array]:
    """Slopes in the parameters, (count · rows, n_p), and residuals, (count, rows)."""
    matrix, n = problem.linearize_factor(factor, point, chain).matrix, len(problem.names)
    slopes = matrix[:, -1 - n : -1, :].transpose(0, 2, 1).reshape(-1, n)
    return slopes, matrix[:, -1, :]


def _shaken(states: Array) -> Array:
    """States (N, ambient) with random changes as large as what accelerations do between steps."""
    bends = np.diff(states, 2, axis=0) if len(states) > 2 else np.zeros((1, states.shape[1]))
    sizes = np.sqrt(np.mean(bends**2, axis=0))
    return contiguous(states + sizes * np.random.default_rng(0).standard_normal(states.shape))
