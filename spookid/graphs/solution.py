"""What a graph's solve found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.graphs.picture import draw_costs
from spookid.kernels.arrays import Array
from spookid.solvers.status import Status
from spookid.tables.table import Table, counted, number, uncertain
from spookid.tables.tabular import Block, Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEFT_BRANCH = (
    "the motion {} its branch at t = {} s, where the independent coordinates do not tell how the loops go on; choose "
    "others, or dependent coordinates"
)
_CHANCE = 5.0
"""Standard deviations of a sum of squares that are no chance."""


@dataclass(frozen=True, eq=False)
class GraphSolution(Tabular):
    """Variables along time, parameters, and what they cost."""

    t: Array
    """Of the steps, from 0 on, (N,) [s]."""
    values: Mapping[str, Array]
    """Of each variable, by its name, (N, its coordinates)."""
    parameters: Mapping[str, float]
    """Estimates by name."""
    standard_errors: Mapping[str, float]
    """Of the estimates, with the sigmas of the factors as they are; NaN where there is a reason."""
    reasons: Mapping[str, str]
    """Why a parameter has no standard error."""
    status: Status
    detail: str
    """Which test ended the iteration."""
    iterations: int
    """Of all stages together."""
    costs: Mapping[str, Array]
    """Of each soft factor, by its name, what it adds to the cost at each step at which it stands, (count,)."""
    branch: Array
    """Where independent coordinates are integrated or given, on which side of a position in which they do not determine
    the others each step is, 1 or −1, (N,); else empty."""
    excess: int = 0
    """Degrees of freedom: how many rows there are more than unknowns."""
    seconds: float = field(default=float("nan"))
    """Wall time of the solver [s]."""

    def __getitem__(self, variable: str) -> Array:
        """Values of a variable, (N, its coordinates)."""
        return self.values[variable]

    @property
    def converged(self) -> bool:
        """True if it is a minimum."""
        return self.status is Status.CONVERGED

    @property
    def cost(self) -> float:
        """Sum of the squares of all errors over their sigmas."""
        return float(sum(np.sum(values) for values in self.costs.values()))

    @property
    def left_branch(self) -> float | None:
        """When the motion first passes a position in which the independent coordinates do not say where it goes on [s];
        None if it never does."""
        passed = np.flatnonzero(self.branch != self.branch[0]) if len(self.branch) else np.zeros(0, dtype=np.intp)
        return float(self.t[passed[0]]) if len(passed) else None

    @property
    def misfit(self) -> float:
        """How many times larger errors are than their sigmas say, about 1 where these are right: the root of the cost
        over the degrees of freedom; NaN if there are none."""
        return float(np.sqrt(self.cost / self.excess)) if self.excess > 0 else float("nan")

    def draw_costs(self, axes: Axes) -> None:
        """Draw the cost of each factor over time."""
        draw_costs(axes, self.t, self.costs)

    def blocks(self) -> Sequence[Block]:
        """How it ended, the cost by factor, and the parameters."""
        rows = [
            (name, f"{len(v):,}", number(float(v.sum())), number(float(v.max(initial=0))))
            for name, v in self.costs.items()
        ]
        found: list[Block] = [
            f"{self.status.value} after {counted(self.iterations, 'iteration')}: {self.detail}",
            Table(("factor", "steps", "cost", "largest"), rows, left=(0,)),
        ]
        if self.parameters:
            told = [
                (n, uncertain(v, self.standard_errors[n]), self.reasons.get(n, "")) for n, v in self.parameters.items()
            ]
            found.append(Table(("parameter", "estimate", "why no error"), told, left=(0, 2)))
        if self.excess > 0 and self.cost > self.excess + _CHANCE * np.sqrt(2 * self.excess):
            found.append(
                f"errors are {number(self.misfit, 3)} times as large as their sigmas say: the model or the sigmas are "
                "wrong, and standard errors are too small"
            )
        if not self.converged:
            found.append(self.status.advice)
        if self.left_branch is not None:
            found.append(LEFT_BRANCH.format("leaves", number(self.left_branch)))
        return found

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each parameter."""
        return [
            {"parameter": name, "estimate": value, "std_err": self.standard_errors[name]}
            for name, value in self.parameters.items()
        ]
