"""A sparse least-squares problem as a factor graph: its table, its drawing, and what a solve found."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.status import Status
from spookid.statistics.whiteness import OFF
from spookid.tables.table import Block, Table, Tabular, counted, number, uncertain
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Transcription

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PARAMETERS = "parameters"  # name of the node that stands for all of them


_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1a1a1a", "#8c6d31", "#7b4173", "#909090"
)  # fmt: skip
"""The first seven of Okabe and Ito: colour-blind people can distinguish them."""
_BLACK = "#1a1a1a"


@dataclass(frozen=True)
class Node:
    """One factor, with the variables that it connects."""

    name: str
    rows: int
    hard: bool
    reach: int
    first_only: bool
    edges: tuple[tuple[str, int], ...]  # names of variables with their offsets from its step
    parameters: bool  # True if it is of parameters too

    @property
    def said(self) -> str:
        """Names of the connected variables; a + marks each step after the factor's own step."""
        of = [name + "+" * offset for name, offset in self.edges]
        return ", ".join([*of, PARAMETERS] if self.parameters else of)


@dataclass(frozen=True, eq=False)
class Picture(Tabular):
    """A bipartite graph of variables and factors, the same at each step."""

    title: str
    problem: Transcription
    variables: Mapping[str, Sequence[int]]
    """Tangent columns of a step by the name of their node."""

    @cached_property
    def factors(self) -> tuple[Node, ...]:
        """The factors, in the order of the problem."""
        return tuple(self._node(factor) for factor in self.problem.factors)

    def _node(self, factor: Factor) -> Node:
        seen = np.any(self.problem.pattern(factor, 0), axis=0)
        width, edges = self.problem.manifold.tangent, []
        for i, offset in enumerate(factor.variables):
            own = seen[i * width : (i + 1) * width]
            edges += [(name, offset) for name, columns in self.variables.items() if np.any(own[list(columns)])]
        parameters = bool(np.any(seen[len(factor.variables) * width :]))
        where = factor.first_only or factor.group is Group.PRIOR
        return Node(factor.name, len(factor.rows), not factor.soft, factor.reach, where, tuple(edges), parameters)

    def draw(self, axes: Axes, steps: int = 3) -> None:
        """Draw the graph of some steps: variables as circles, one below the other, and factors as squares.

        Args:
            axes: axes of a figure, about 3 in for each step.
            steps: how many.
        """
        across, down = 3.0, 1.3  # from a step to the next, and from a variable to the one below it
        rows = {name: -down * i for i, name in enumerate(self.variables)}
        above, taken = (across * (steps - 1) / 2, down), Counter[tuple[float, float]]()
        for k in range(steps):
            for name, y in rows.items():
                axes.scatter(across * k, y, s=760, facecolor="white", edgecolor=_BLACK, zorder=2)
                axes.text(across * k, y, rf"$\mathit{{{name}}}_{{{k}}}$", ha="center", va="center", zorder=4)
        for i, factor in enumerate(self.factors):
            colour, places = _COLOURS[i % len(_COLOURS)], []
            for k in range(1 if factor.first_only else steps - factor.reach):
                ends = [(across * (k + offset), rows[name]) for name, offset in factor.edges]
                x, y = np.mean(ends or [above], axis=0).tolist()
                taken[x, y] += 1  # between its variables or beside them, below others that are there
                at = x + (0 if factor.reach else across / 4), y - down / 3 * (taken[x, y] - 1)
                for end in ends:
                    axes.plot(*zip(at, end, strict=True), linewidth=0.9, zorder=1, color=colour)
                if factor.parameters:
                    axes.plot(*zip(at, above, strict=True), linewidth=0.9, zorder=1, color="gray", linestyle=":")
                places.append(at)
            if places:
                edge, width = (_BLACK, 2.2) if factor.hard else ("white", 0.8)
                look: dict[str, Any] = {"edgecolors": edge, "linewidths": width, "marker": "s", "s": 80, "zorder": 3}
                label = f"{factor.name}{' (hard)' * factor.hard}"
                axes.scatter(*zip(*places, strict=True), color=colour, label=label, **look)
        if parameters := self.problem.names:
            box = {"facecolor": "#e4e4e4", "edgecolor": _BLACK, "boxstyle": "round,pad=0.4"}
            text = textwrap.fill(", ".join(parameters))
            axes.text(*above, text, ha="center", va="bottom", fontsize=9, bbox=box, zorder=4, parse_math=False)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.1)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False, fontsize=8)

    def blocks(self) -> Sequence[Block]:
        """Tables of variables, factors and parameters of a step with their sizes."""
        chains = self.problem.chains
        steps = sum(chain.steps for chain in chains)
        counts = [sum(f.count(chain.steps) for chain in chains) for f in self.problem.factors]
        rows = [
            (f.name, "hard" if f.hard else "soft", f"{f.rows:,}", f"{count:,}" if steps else "", f.said)
            for f, count in zip(self.factors, counts, strict=True)
        ]
        sizes = [(name, f"{len(columns):,}") for name, columns in self.variables.items()]
        free = f", {counted(len(self.problem.names), 'parameter')}" if self.problem.names else ""
        said = f"{self.title}: {counted(self.problem.manifold.tangent, 'unknown')} a step{free}"
        if steps:
            said += f"; over {counted(steps, 'step')} {self.problem.unknowns:,} unknowns and {self.problem.rows:,} rows"
        return [
            said,
            Table(("variable", "unknowns"), sizes, left=(0,)),
            Table(("factor", "", "rows", "times", "of"), rows, left=(0, 1, 4)),
            *([f"parameters: {', '.join(self.problem.names)}"] if self.problem.names else []),
        ]

    def records(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"factor": f.name, "hard": f.hard, "rows": f.rows, "first_only": f.first_only, "of": f.said}
            for f in self.factors
        ]


LEFT_BRANCH = (
    "the motion {} its branch at t = {} s, where the independent coordinates do not determine the assembly; "
    "choose others, or dependent coordinates"
)


@dataclass(frozen=True, eq=False)
class GraphSolution(Tabular):
    """The solution of a graph: variables along time, parameters, and cost."""

    t: Array
    """Times of the steps, from 0 on, (N,) [s]."""
    values: Mapping[str, Array]
    """Values of each variable, by its name, (N, its coordinates)."""
    parameters: Mapping[str, float]
    """Estimates by name."""
    standard_errors: Mapping[str, float]
    """Standard errors of the estimates, for the given sigmas of the factors; NaN where there is a reason."""
    reasons: Mapping[str, str]
    """Why a parameter has no standard error."""
    status: Status
    detail: str
    """Test that ended the iteration."""
    iterations: int
    """Iterations of all stages together."""
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
        """True if the solve converged to a minimum."""
        return self.status is Status.CONVERGED

    @property
    def cost(self) -> float:
        """Sum of squares of all residuals divided by their sigmas."""
        return float(sum(np.sum(values) for values in self.costs.values()))

    @property
    def left_branch(self) -> float | None:
        """Time [s] when the motion first passes a position where the independent coordinates do not determine the
        branch; None if it never does."""
        passed = np.flatnonzero(self.branch != self.branch[0]) if len(self.branch) else np.zeros(0, dtype=np.intp)
        return float(self.t[passed[0]]) if len(passed) else None

    @property
    def misfit(self) -> float:
        """Rms ratio of residuals to their sigmas, corrected for the degrees of freedom; about 1 if the sigmas are
        correct."""
        return float(np.sqrt(self.cost / self.excess)) if self.excess > 0 else float("nan")

    def draw_costs(self, axes: Axes) -> None:
        """Draw the cost of each factor over time."""
        for i, (name, values) in enumerate(self.costs.items()):
            shown = np.where(values > 0, values, np.nan)
            marker, line = ("o", "") if len(values) == 1 else ("", "-")
            colour = _COLOURS[i % len(_COLOURS)]
            axes.plot(
                self.t[: len(values)], shown, label=name, color=colour, marker=marker, linestyle=line, linewidth=1.2
            )
        axes.set_yscale("log")
        axes.set_xlabel("time [s]")
        axes.set_ylabel("cost at each step")
        axes.legend(fontsize=8, frameon=False)

    def blocks(self) -> Sequence[Block]:
        """Status, cost by factor, and parameters as tables."""
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
        if self.excess > 0 and self.cost > self.excess + OFF * np.sqrt(2 * self.excess):
            found.append(
                f"residuals are {number(self.misfit, 3)} times as large as their standard deviations sigma: the model "
                "or the sigmas are wrong, and standard errors are too small"
            )
        if not self.converged:
            found.append(self.status.advice)
        if self.left_branch is not None:
            found.append(LEFT_BRANCH.format("leaves", number(self.left_branch)))
        return found

    def records(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"parameter": name, "estimate": value, "std_err": self.standard_errors[name]}
            for name, value in self.parameters.items()
        ]
