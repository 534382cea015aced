"""A sparse least-squares problem seen as a factor graph: its table and its drawing. Any transcription has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.tables.numbers import counted
from spookid.tables.table import Table
from spookid.tables.tabular import Block, Tabular
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Transcription

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARAMETERS = "parameters"
"""Name of the node that stands for all of them."""


@dataclass(frozen=True)
class Node:
    """One factor, and what it is of."""

    name: str
    rows: int
    hard: bool
    reach: int
    first_only: bool
    edges: tuple[tuple[str, int], ...]
    """Names of variables with their offsets from its step."""
    parameters: bool
    """True if it is of parameters too."""

    @property
    def said(self) -> str:
        """What it is of: names, with + for each step beyond its own."""
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
        """In the order of the problem."""
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
        """Draw the variables of some steps as circles, one below the other, and the factors as squares.

        Args:
            axes: of a figure of about 3 in for each step.
            steps: how many.
        """
        from spookid.graphs.drawing import draw_graph

        draw_graph(axes, list(self.variables), self.factors, steps, self.problem.names)

    def blocks(self) -> Sequence[Block]:
        """Variables, factors and parameters of a step, and how many there are in all."""
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
        """A row for each factor."""
        return [
            {"factor": f.name, "hard": f.hard, "rows": f.rows, "first_only": f.first_only, "of": f.said}
            for f in self.factors
        ]
