"""A factor graph's samples, step by step, and its window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spookid.errors import ProblemError
from spookid.graphs.graph import Graph
from spookid.graphs.solution import LEFT_BRANCH
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import AT_STEP
from spookid.results.findings import Finding
from spookid.smoothing.estimate import FEW, OnlineEstimate, of_parameters, unsettled
from spookid.smoothing.intake import Intake, checked, refuse_second
from spookid.solvers.fixed_lag import FixedLag
from spookid.tables.table import number

LONGEST = 10_000
"""Steps of a window, and by which time may leap ahead in one."""


class GraphStream:
    """Window that moves along a graph by one step per update. ``start``: initial variables of the first step, and
    Parameters, by name."""

    def __init__(self, graph: Graph, window: int, iterations: int, start: Mapping[str, Any]) -> None:
        self.graph, transcription = graph, graph.endless
        point = graph.beginning(start)
        self.core = FixedLag(transcription, window, parameters=point.parameters, iterations=iterations)
        self._state = point.states[0][0]
        self._side = self._side_of(self._state)
        self._left: float | None = None
        """When a motion has passed a position in which independent coordinates do not determine the others [s]."""
        self._taking = [factor for factor in graph.factors if factor.data.numel()]
        self._values: dict[int, dict[str, float]] = {}
        """Samples of each step that is kept."""
        self._start = 0.0
        """Time of step 0 [s]."""
        self.counts, self.iterations = Intake(), 0

    def time(self, step: int) -> float:
        """Of a step [s]."""
        return self._start + step * self.graph.step

    @property
    def newest(self) -> int:
        """Number of the newest step; −1 before the first step."""
        return self.core.first + self.core.steps - 1

    def take(self, t: object, values: object) -> None:
        """Add samples of one step, and update the estimates; see ``FixedLagSmoother.update``."""
        what = self.graph.what
        time, finite = checked(what, frozenset(self.graph.signals), t, values)
        if self.newest < 0:
            self._start = time
        at = (time - self._start) / self.graph.step
        step = round(at)
        if abs(at - step) > AT_STEP:
            raise ProblemError(
                f"{what}: {time:.12g} s lies between two steps of {self.graph.step:g} s from {self._start:.12g} s on; "
                "a graph's samples are at its steps"
            )
        if step - self.newest > LONGEST:
            raise ProblemError(
                f"{what}: time leaps to {time:.12g} s, {step - self.newest} steps; give timestamps in seconds of one "
                "clock, or begin a new smoother there"
            )
        known = self._values.get(step, {})
        refuse_second(what, time, (name for name in finite if name in known))
        self._put(step, {**known, **finite}, len(finite))

    def _put(self, step: int, values: dict[str, float], count: int) -> None:
        late = step < self.core.first
        steps: dict[int, dict[str, float]] = {k: {} for k in range(self.newest + 1, step)} | (
            {} if late else {step: values}
        )
        rows = {k: self._rows(own) for k, own in steps.items()}  # refused before anything is taken
        counts = self.counts
        self.counts = replace(counts, samples=counts.samples + count, late=counts.late + late * count)
        self.iterations, renewed = 0, step <= self.newest and not late
        self._values |= steps
        for factor in self._taking:
            if renewed and step + factor.reach <= self.newest:
                self.core.set_data(factor.name, step, *rows[step][factor.name])
        while self.newest < step:
            self._append()
            self.iterations += self.core.solve()
        if renewed:
            self.iterations += self.core.solve()
        # The oldest step of the window is the best known one.
        if self._left is None and self._side_of(self.core.states[0]) != self._side:
            self._left = self.time(self.core.first)

    def _side_of(self, state: Array) -> list[float]:
        """See ``Graph.sides``."""
        own = self.graph.variables
        q = state[own.coordinates("q")] if "q" in own.names else np.zeros(0)
        return self.graph.sides(q[None], self.core.parameters).tolist() if len(q) else []

    def _rows(self, values: Mapping[str, float]) -> dict[str, tuple[Array, Mask]]:
        return {factor.name: self.graph.row(factor.name, values) for factor in self._taking}

    def _append(self) -> None:
        newest = self.core.append(self._state if self.newest < 0 else None)
        for factor in self._taking:
            if newest >= factor.reach and not (factor.first_only and newest > factor.reach):
                first = newest - factor.reach
                self.core.set_data(factor.name, first, *self.graph.row(factor.name, self._values[first]))
        for step in [k for k in self._values if k < self.core.first]:
            del self._values[step]

    def estimate(self) -> OnlineEstimate:
        """What is known now."""
        core, names = self.core, self.core.transcription.names
        t, steps = core.transcription.manifold.tangent, min(core.steps, 1)
        covariance = core.covariance(steps) if steps else np.full((t + len(names),) * 2, np.nan)
        own, reasons = of_parameters(core.transcription, core.parameters, covariance[t:, t:])
        variables = self.graph.variables
        errors, state = np.sqrt(np.diag(covariance)[:t]), core.states[-1] if steps else self._state
        return OnlineEstimate(
            t=self.time(self.newest) if steps else math.nan,
            step=self.newest,
            values=dict(zip(names, core.parameters.tolist(), strict=True)),
            std_errs=dict(zip(names, np.sqrt(np.diag(own)).tolist(), strict=True)),
            reasons=reasons,
            units={p.name: p.unit for p in self.graph.parameters},
            covariance=own,
            variables={name: state[variables.coordinates(name)] for name in variables.names},
            variable_errors={name: errors[variables.columns(name)] for name in variables.names},
            state_covariance=covariance[:t, :t],
            iterations=self.iterations,
            converged=core.converged,
            findings=() if self._left is None else (_left_branch(self._left),),
            reason=unsettled(core, self.iterations, self.time(0), self.graph.step) if steps else FEW,
        )


def _left_branch(t: float) -> Finding:
    effect = LEFT_BRANCH.format("left", number(t))
    return Finding("constraints.left-branch", evidence={"since": t}, effect=effect)
