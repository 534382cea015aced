"""Where the Jacobian and the Hessian of a nonlinear program can differ from zero, from the patterns of its factors.

Constraints between parameters as rows of a nonlinear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.records import dataclass
from spookid.solvers.roles import Hard, Inequality, Role, independent_rows
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.parameter_constraints import ParameterConstraints


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


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """h = 0 and −g ≥ 0, each over what its terms are at typical sizes, as two factors that see no state."""

    constraints: ParameterConstraints | None
    """None: there are none."""
    scales: Array
    """Parameters are these times their unknowns, (n_p,)."""

    def _parts(self, values: Array) -> list[Array]:
        """Values of all rows, along the last axis, as those of the factors."""
        assert self.constraints is not None
        k = self.constraints.equalities
        scaled = values / self.constraints.scales
        return [part[None] for part in (scaled[..., :k], -scaled[..., k:]) if part.shape[-1]]

    def residuals(self, parameters: Array) -> list[Array]:
        """Of each factor, (1, rows)."""
        return [] if self.constraints is None else self._parts(self.constraints.values(parameters)[0])

    def jacobians(self, parameters: Array) -> list[Array]:
        """Of each factor, transposed, (1, n_p, rows)."""
        if self.constraints is None:
            return []
        return self._parts(self.constraints.values(parameters)[1].T * self.scales[:, None])

    def curvature(self, factor: Factor, parameters: Array, weights: Array) -> Array:
        """Of a factor with weights (1, rows), (1, n_p, n_p)."""
        assert self.constraints is not None
        k, whole = self.constraints.equalities, np.zeros(len(self.constraints.titles))
        whole[slice(0, k) if factor.hard else slice(k, None)] = weights[0] if factor.hard else -weights[0]
        bend = self.constraints.curvature(parameters, whole / self.constraints.scales)
        return (bend * np.outer(self.scales, self.scales))[None]

    def placed(self, parameters: Array, column: int, row: int) -> Sequence[PlacedFactor]:
        """The factors, their unknowns from a column on and their rows from a row on."""
        if self.constraints is None:
            return []
        k, titles, found = self.constraints.equalities, self.constraints.titles, []
        kinds = [kind for kind, own in ((Kind.HARD, titles[:k]), (Kind.INEQUALITY, titles[k:])) if own]
        columns = column + np.arange(len(self.scales))[None]
        for kind, J in zip(kinds, self.jacobians(parameters), strict=True):
            own = titles[:k] if kind is Kind.HARD else titles[k:]
            none = ca.SX(0, 1)
            factor = Factor(f"constraints {kind.value}", Group.PRIOR, none, {}, none, own, first_only=True, kind=kind)
            kept = independent_rows(J) if kind is Kind.HARD else np.ones((1, len(own)), dtype=bool)
            rows = np.where(kept, row + np.cumsum(kept).reshape(kept.shape) - 1, -1)
            row += int(np.sum(kept))
            role = Hard(kept) if kind is Kind.HARD else Inequality(kept)
            dense = np.ones((len(own), len(self.scales)), dtype=bool)
            found.append(PlacedFactor(factor, 0, columns, rows, role, dense))
        return found
