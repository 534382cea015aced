"""Directions of parameters by how well the data see them: principal axes of their covariance in units of magnitudes.

What is seen at all is told by the information with each parameter scaled by its own: one that is known to nine digits,
such as the pitch of a screw, says nothing of what is known of another.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.records import dataclass
from spookid.statistics.weak_directions import UNSEEN
from spookid.transcription.free_directions import FreeDirections

RANK = 1e-6
"""Data do not see combinations that move the residuals by less than this share of what their parameters do alone:
models and rounding are not as exact as that, however small the residuals are."""
_NOTHING = 1e-9
"""A parameter is not seen that moves them by less than this share of what the best seen one does: that is rounding."""
_LENGTH = 1e-4
"""A parameter is unseen if so much of its squared length lies in unseen directions: then it has no finite error."""
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The directions in which parameters are free to move."""

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
        """From information and the covariance of its score, (n_p, n_p) each."""
        basis = free.basis(magnitudes)
        along = magnitudes[:, None] * basis
        turns, widths = _axes(along.T @ information @ along)
        scattered = np.einsum("ij,ik,kj->j", turns, along.T @ scatter @ along, turns)
        values = _values(widths**-2, scattered)
        null, vectors = values < UNSEEN, basis @ turns
        vectors[:, null] = _untangled(vectors[:, null])
        half = magnitudes[:, None] * vectors[:, ~null] * widths[~null]
        return cls(values, vectors, np.sum(vectors[:, null] ** 2, axis=1) > _LENGTH, half)

    def hidden(self, magnitudes: Array, still: Mask) -> tuple[Array, Array]:
        """``hidden`` and ``magnitudes`` of ``Seen``."""
        sizes = np.where(still, 0.0, magnitudes)
        return self.vectors[:, self.values < UNSEEN].T * sizes, sizes

    @property
    def inverse(self) -> Array:
        """Of the information in what is seen, 0 elsewhere, (n_p, n_p)."""
        return np.asarray(self.half @ self.half.T)


def invisible(information: Array, scatter: Array, magnitudes: Array) -> Mask:
    """True for parameters that would not be seen even if all others were known, (n_p,)."""
    strengths, scattered = (np.diag(matrix) * magnitudes**2 for matrix in (information, scatter))
    return np.asarray(~_acting(strengths) | (_values(strengths, scattered) < UNSEEN))


def _acting(strengths: Array) -> Mask:
    """True for parameters that move the residuals, by their part of the information's diagonal."""
    return np.asarray(strengths > _NOTHING**2 * strengths.max(initial=0.0))


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
    return np.asarray(strengths / np.sqrt(np.maximum(scattered, _TINY)))


def _untangled(basis: Array) -> Array:
    """A basis of the same space, (n, k), in which parameters that lie in it stand alone."""
    alone = np.flatnonzero(np.sum(basis**2, axis=1) > 1 - _LENGTH)
    single = np.eye(len(basis))[:, alone]
    rest = np.where(np.isin(np.arange(len(basis)), alone)[:, None], 0.0, basis)
    left = np.linalg.svd(rest, full_matrices=False)[0][:, : basis.shape[1] - len(alone)]
    return np.hstack([single, left])
