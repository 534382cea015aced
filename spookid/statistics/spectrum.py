"""Directions of parameters by how well the data see them: eigenvectors of the information in units of magnitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.kernels.kernel import Array, Mask
from spookid.statistics.weak_directions import UNSEEN
from spookid.transcription.free_directions import FreeDirections

RANK = 1e-6
"""Data do not see what moves the residuals by less than this share of what the best seen direction does: models and
rounding are not as exact as that, however small the residuals are."""
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
        strengths, turns = np.linalg.eigh(along.T @ information @ along)
        scattered = along.T @ scatter @ along
        values = _values(np.clip(strengths, 0.0, None), np.einsum("ij,ik,kj->j", turns, scattered, turns))
        null, vectors = values < UNSEEN, basis @ turns
        vectors[:, null] = _untangled(vectors[:, null])
        half = magnitudes[:, None] * vectors[:, ~null] / np.sqrt(strengths[~null])
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
    diagonals = (np.diag(matrix) * magnitudes**2 for matrix in (information, scatter))
    return np.asarray(_values(*diagonals) < UNSEEN)


def _values(strengths: Array, scattered: Array) -> Array:
    """Standard deviations by which directions are seen, from vᵀSv and vᵀ Cov(Sv) v; 0 below what can be resolved."""
    values = strengths / np.sqrt(np.maximum(scattered, _TINY))
    return np.where(strengths <= RANK**2 * strengths.max(initial=0.0), 0.0, values)


def _untangled(basis: Array) -> Array:
    """A basis of the same space, (n, k), in which parameters that lie in it stand alone."""
    alone = np.flatnonzero(np.sum(basis**2, axis=1) > 1 - _LENGTH)
    single = np.eye(len(basis))[:, alone]
    rest = np.where(np.isin(np.arange(len(basis)), alone)[:, None], 0.0, basis)
    left = np.linalg.svd(rest, full_matrices=False)[0][:, : basis.shape[1] - len(alone)]
    return np.hstack([single, left])
