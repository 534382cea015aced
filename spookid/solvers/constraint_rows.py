"""Constraints between parameters as rows of a nonlinear program."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.roles import Hard, Inequality, independent_rows
from spookid.solvers.sparsity_patterns import PlacedFactor
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.parameter_constraints import ParameterConstraints


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
