"""Directions in which parameters can move: not those at a bound, and along the constraints that hold."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.records import dataclass
from spookid.transcription.least_distance import null_space

_SETTLED = 1e-9
"""Length of what is left of a parameter's own direction below which nothing is."""


@dataclass(frozen=True, eq=False)
class FreeDirections:
    """What parameters may do to first order."""

    held: Mask
    """True for those that do not move by themselves, (n_p,)."""
    normals: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Slopes of constraints that hold with equality, (k, n_p)."""

    @property
    def tied(self) -> bool:
        """True if constraints hold."""
        return len(self.normals) > 0

    @property
    def unbounded(self) -> FreeDirections:
        """As if there were no bounds."""
        return FreeDirections(np.zeros_like(self.held), self.normals)

    @property
    def linked(self) -> Mask:
        """True for parameters in constraints that hold, (n_p,)."""
        return np.asarray(np.any(self.normals != 0, axis=0)) if self.tied else np.zeros_like(self.held)

    def basis(self, sizes: Array) -> Array:
        """Orthonormal basis of the directions, of parameters over their sizes, (n_p, f); without constraints those of
        the parameters that are not held."""
        free = np.flatnonzero(~self.held)
        own = np.eye(len(self.held))[:, free]
        return own @ null_space(self.normals[:, free] * sizes[free])[1] if self.tied else own

    def settled(self, sizes: Array) -> Mask:
        """True for parameters that are not held and that constraints leave nowhere to go, (n_p,)."""
        if not self.tied:
            return np.zeros_like(self.held)
        left = np.linalg.norm(self.basis(sizes), axis=1)
        return np.asarray(~self.held & (left < _SETTLED))

    def without(self, row: int) -> FreeDirections:
        """With one constraint less."""
        return FreeDirections(self.held, np.delete(self.normals, row, axis=0))
