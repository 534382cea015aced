"""Identifiability of directions, and what linear combinations of parameters are identifiable.

Directions are principal axes of the parameters' covariance, in units of their magnitudes. Rank decisions scale each
parameter by its own information, so that one that is known to nine digits, such as the pitch of a screw, does not hide
the others. Weakly identifiable combinations are described as relative changes of the estimates.

Base parameters regroup the linearly dependent columns of a regressor, from left to right: if a column is a combination
of earlier ones up to rounding, its coefficient is added to theirs (Gautier, IEEE Transactions on Robotics and
Automation 7, 1991).

If masses, inertias, torques and friction are all free, a common factor multiplies the residuals of the equations of
motion and changes nothing else: no unit of force. This is tested at random motions, Σ c_i ∂p/∂θ_i = p, as at a single
motion with poor initial values the residuals are a combination of the columns anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.precision import DEPENDENT, ROUNDING, TINY
from spookid.kernels.scipy_parts import lapack
from spookid.records import dataclass
from spookid.tables.table import Listed
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point, Transcription

RANK = 1e-6
"""A combination is not identifiable if its effect on the residuals is below this share of the effects of its single
parameters: models and arithmetic are not more accurate."""
RESOLVED = 1e-4
"""Share of the squared length of a direction in unidentifiable ones from which its standard error is infinite."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal directions of the free parameters with their singular values."""

    values: Array
    """(n_f,), one over the relative standard error of each direction."""
    vectors: Array
    """Directions in parameters divided by their magnitudes, (n_p, n_f)."""
    unseen: Mask
    """(n_p,)."""
    half: Array
    """Its product with its transpose inverts the information in what is seen, (n_p, seen directions)."""

    @classmethod
    def of(cls, information: Array, scatter: Array, magnitudes: Array, free: FreeDirections) -> Spectrum:
        """Spectrum from information and the covariance of its score, (n_p, n_p) each."""
        basis = free.basis(magnitudes)
        along = magnitudes[:, None] * basis
        turns, widths = _axes(along.T @ information @ along)
        scattered = np.einsum("ij,ik,kj->j", turns, along.T @ scatter @ along, turns)
        values = _values(widths**-2, scattered)
        null, vectors = values < UNSEEN, basis @ turns
        vectors[:, null] = _untangled(vectors[:, null])
        half = magnitudes[:, None] * vectors[:, ~null] * widths[~null]
        return cls(values, vectors, np.sum(vectors[:, null] ** 2, axis=1) > RESOLVED, half)

    def hidden(self, magnitudes: Array, still: Mask) -> tuple[Array, Array]:
        """``hidden`` and ``magnitudes`` of ``Seen``."""
        sizes = np.where(still, 0.0, magnitudes)
        return self.vectors[:, self.values < UNSEEN].T * sizes, sizes

    @property
    def inverse(self) -> Array:
        """Inverse of the information in identifiable directions, 0 elsewhere, (n_p, n_p)."""
        return np.asarray(self.half @ self.half.T)


def invisible(information: Array, scatter: Array, magnitudes: Array) -> Mask:
    """True for parameters that would not be identifiable even if all others were known, (n_p,)."""
    strengths, scattered = (np.diag(matrix) * magnitudes**2 for matrix in (information, scatter))
    return np.asarray(~_acting(strengths) | (_values(strengths, scattered) < UNSEEN))


def _acting(strengths: Array) -> Mask:
    """True for parameters that move the residuals, by their part of the information's diagonal."""
    return np.asarray(strengths > DEPENDENT**2 * strengths.max(initial=0.0))


def _axes(information: Array) -> tuple[Array, Array]:
    """Orthonormal axes of a covariance, (n, n), and standard deviations along them, (n,), infinite where nothing is
    seen, from the information (n, n)."""
    acting = _acting(np.diag(information))
    scale = np.sqrt(np.where(acting, np.diag(information), 1.0))
    shares, turns = np.linalg.eigh(np.where(np.outer(acting, acting), information / np.outer(scale, scale), 0.0))
    seen = shares > RANK**2
    hidden = np.linalg.qr(turns[:, ~seen] / scale[:, None])[0]
    half = turns[:, seen] / scale[:, None] / np.sqrt(shares[seen])
    axes, widths, _ = np.linalg.svd(half - hidden @ (hidden.T @ half), full_matrices=False)
    return np.hstack([axes, hidden]), np.append(widths, np.full(hidden.shape[1], np.inf))


def _values(strengths: Array, scattered: Array) -> Array:
    """Standard deviations by which directions are seen, from vᵀSv and vᵀ Cov(Sv) v."""
    return np.asarray(strengths / np.sqrt(np.maximum(scattered, TINY)))


def _untangled(basis: Array) -> Array:
    """A basis of the same space, (n, k), in which parameters that lie in it stand alone."""
    alone = np.flatnonzero(np.sum(basis**2, axis=1) > 1 - RESOLVED)
    single = np.eye(len(basis))[:, alone]
    rest = np.where(np.isin(np.arange(len(basis)), alone)[:, None], 0.0, basis)
    left = np.linalg.svd(rest, full_matrices=False)[0][:, : basis.shape[1] - len(alone)]
    return np.hstack([single, left])


WEAK = 1.0
"""A direction is weak if changing the parameters by all of their magnitude along it moves the residuals by less than
this many standard deviations: a relative standard error of more than 100 %."""
UNSEEN = 0.01
"""Below this many it is not identifiable: a relative standard error of more than 10 000 %."""
SMALL_SHARE = 0.1
"""Components of a direction below this share of the largest are left out of its description."""


@dataclass(frozen=True)
class WeakDirection(Listed):
    """A weakly identifiable combination of parameters."""

    singular_value: float
    """Standard deviations by which relative changes of that direction and of length one would be seen."""
    direction: Mapping[str, float]
    """Changes of the parameters in units of their estimates, the largest 1; of estimates that are zero within what
    their own errors were if all others were known, in units of the initial value, or of 1 if that is zero, too."""
    advice: str = ""
    """Remedy."""


def references(estimates: Array, magnitudes: Array, information: Array, scatter: Array) -> Array:
    """Reference values for relative changes, with signs, (n_p,). ``magnitudes``: of the parameters, positive, (n_p,);
    ``information``: TᵀT, (n_p, n_p); ``scatter``: Tᵀ Cov(r) T, (n_p, n_p)."""
    strengths, scattered = np.diag(information), np.diag(scatter)
    alone = np.full(len(estimates), np.inf)  # errors if all others were known
    np.divide(np.sqrt(np.maximum(scattered, 0.0)), strengths, out=alone, where=strengths > 0)
    return np.asarray(np.where(np.abs(estimates) > alone, estimates, np.copysign(magnitudes, estimates)))


def describe(singular: float, vector: Array, ratios: Array, names: Sequence[str]) -> WeakDirection:
    """Describe a weakly identifiable direction. ``singular``: its singular value, in standard deviations; ``vector``:
    of length one, in scaled parameters, (n,); ``ratios``: magnitudes over references, (n,)."""
    changes = vector * ratios
    shares = changes / changes[np.argmax(np.abs(changes))]
    # What is large in either measure belongs to it: references may be far from the magnitudes.
    large = np.maximum(np.abs(shares), np.abs(vector) / np.abs(vector).max()) >= SMALL_SHARE
    order = [i for i in np.argsort(-np.abs(shares).round(6), kind="stable").tolist() if large[i]]
    return WeakDirection(singular / float(np.linalg.norm(changes)), {names[i]: float(shares[i]) for i in order})


def in_units(weak: WeakDirection, before: Mapping[str, float], after: Mapping[str, float]) -> WeakDirection:
    """Same direction for other reference values. ``before, after``: references of the parameters by name."""
    shares = {name: share * before[name] / after[name] for name, share in weak.direction.items()}
    lengths = [float(np.linalg.norm(list(one.values()))) for one in (weak.direction, shares)]
    largest = max(shares.values(), key=abs)
    told = {name: share / largest for name, share in sorted(shares.items(), key=lambda pair: -abs(pair[1]))}
    return WeakDirection(weak.singular_value * lengths[0] / lengths[1], told, weak.advice)


def pivots(directions: Array) -> list[int]:
    """For k directions (k, n), the k components that, once known, determine all of them, the largest first."""
    order = lapack.dgeqp3(directions)[1] - 1  # counted from 1
    found: list[int] = order[: len(directions)].tolist()
    return found


def weak_by_errors(
    names: Sequence[str], covariance: Array, magnitudes: Array, references: Array
) -> tuple[WeakDirection, ...]:
    """Weakly identifiable directions by the standard errors, the worst first. ``covariance``: NaN for parameters
    without an error, (n_p, n_p)."""
    known = np.flatnonzero(np.isfinite(np.diag(covariance)))
    scaled = covariance[np.ix_(known, known)] / np.outer(magnitudes[known], magnitudes[known])
    variances, vectors = np.linalg.eigh(scaled)
    seen, ratios = [names[i] for i in known.tolist()], (magnitudes / references)[known]
    return tuple(
        describe(float(1 / np.sqrt(variances[i])), vectors[:, i], ratios, seen)
        for i in np.argsort(-variances).tolist()
        if variances[i] > WEAK**-2
    )


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
    holds = np.any(scale) and np.linalg.norm(J @ scale - p) <= RANK * np.linalg.norm(p)
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
