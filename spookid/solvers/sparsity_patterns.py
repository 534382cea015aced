"""Where the Jacobian and the Hessian of a nonlinear program can differ from zero, from the patterns of its factors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.records import dataclass
from spookid.solvers.roles import Role
from spookid.transcription.factor import Factor


@dataclass(frozen=True, eq=False)
class PlacedFactor:
    """A factor along a chain."""

    factor: Factor
    chain: int
    columns: Integers
    """Unknowns of each step's window, ascending, (count, columns)."""
    rows: Integers
    """Constraint rows of each step, (count, k); −1 for a row that others imply."""
    role: Role
    structure: Mask
    """Where its Jacobian can differ from zero, (rows, columns)."""


@dataclass(frozen=True, eq=False)
class SparsityPatterns:
    """Of a program whose factors stand at these places."""

    places: tuple[PlacedFactor, ...]
    size: int
    """Number of unknowns."""
    first_parameter: int
    """Among them."""
    pinned: int
    """Number of parameters with a block of their own in the Hessian: all of them or none."""
    exact: bool
    """True for the Hessian of the Lagrangian, False for Gauss–Newton's."""

    @cached_property
    def jacobian(self) -> tuple[ca.Sparsity, Integers]:
        """Sparsity of ∂c/∂z, and where in the places' nonzeros each of its nonzeros is."""
        rows, columns = [], []
        for place in self.places:
            i, j = np.nonzero(place.role.pattern(place.structure))
            rows.append(place.rows[:, i].ravel())
            columns.append(place.columns[:, j].ravel())
        i, j = _joined(rows), _joined(columns)
        order = np.lexsort((i, j))
        order = order[i[order] >= 0]
        kept = sum(int(np.sum(place.rows >= 0)) for place in self.places)
        return _sparsity(kept, self.size, i[order], j[order]), order

    @cached_property
    def hessian(self) -> tuple[ca.Sparsity, Integers]:
        """Sparsity of the upper triangle, and to which of its nonzeros each of the places' goes."""
        keys = []
        for place in self.places:
            if place.role.curvature(*_nothing(place)) is None and not self.exact:
                continue
            i, j = np.nonzero(local_pattern(place))
            keys.append((place.columns[:, j] * self.size + place.columns[:, i]).ravel())
        i, j = self.corner
        keys.append((self.first_parameter + j) * self.size + self.first_parameter + i)
        unique, places = np.unique(_joined(keys), return_inverse=True)
        return _sparsity(self.size, self.size, unique % self.size, unique // self.size), places

    @property
    def corner(self) -> tuple[Integers, Integers]:
        """Rows and columns of the pinned parameters' upper triangle; empty if there are none."""
        return np.triu_indices(self.pinned)


def local_pattern(place: PlacedFactor) -> Mask:
    """Upper triangle of the Hessian of a factor at one step, where it can differ from zero."""
    rows = np.vstack([place.structure, place.role.pattern(place.structure)]).astype(float)
    together = rows.T @ rows > 0
    return np.asarray(np.triu(together))


def _nothing(place: PlacedFactor) -> tuple[Array, Array, float, Array]:
    count, n = place.columns.shape
    rows = len(place.factor.rows)
    return np.ones((count, rows)), np.zeros((count, n, rows)), 0.0, np.zeros(place.rows.shape)


def _joined(parts: Sequence[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _sparsity(rows: int, columns: int, i: Integers, j: Integers) -> ca.Sparsity:
    """From row and column of each nonzero, sorted by column, then row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(j, minlength=columns))])
    return ca.Sparsity(rows, columns, starts.tolist(), i.tolist())
