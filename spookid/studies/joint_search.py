"""The search for the maximum of the likelihood over recordings that lie elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.kernels.arrays import Array
from spookid.kernels.precision import TINY
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.resuming import Place
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.marginal import Marginal
from spookid.statistics.search import Search
from spookid.statistics.trial import FittedStates
from spookid.studies.joint_fit_worker import Pass, Sums, Template, add, blocks, together, work
from spookid.studies.worker_pool import WorkerPool
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point

SETTLED = LevenbergMarquardt.decrease_tolerance
"""Promise of a step, of half the logarithm of |r|² times the freedom, below which a fit with given weights ends."""


@dataclass(frozen=True, eq=False)
class Everyone:
    """All recordings of a joint fit, with the workers that evaluate them."""

    template: Template
    assembly: Assembly
    """Of the first recordings."""
    folder: Path
    count: int
    pool: WorkerPool

    def ask(self, asked: Pass) -> Sums:
        """Evaluate all recordings, and return their sums in the order of the recordings.

        Raises:
            NotPositiveDefiniteError: if one has no answer.
        """
        total, failed = Sums(), ""
        for found in self.pool.map(partial(work, self.template, asked), blocks(self.count)):
            if isinstance(found, str):
                failed = failed or found
            else:
                add(total, found)
        if failed:
            raise NotPositiveDefiniteError(failed)
        return total


@dataclass(frozen=True, eq=False)
class Elsewhere(Point):
    """Point of a joint fit: its parameters are in this process, its states in the workers."""

    version: int = 0
    """Number of these."""


@dataclass(frozen=True, eq=False)
class JointStates:
    """Best states of all recordings; the workers store them."""

    point: Elsewhere
    sums: Sums
    redundant: int

    @property
    def cost(self) -> float:
        """|r|²."""
        return float(self.sums["cost",])

    @property
    def least(self) -> float:
        """Predicted cost |r|² after a linear step of the states."""
        return float(self.sums["least",])

    @property
    def excess(self) -> int:
        """Number of measured residuals minus the degrees of freedom of the states."""
        return int(self.sums["excess",])

    @property
    def costs(self) -> dict[Group, float]:
        """Sum of squared residuals for each group of factors."""
        return {group: float(self.sums["costs", group.name]) for group in Group}

    def projected_point(self, point: Point) -> Point:
        """The same point: the workers project its states."""
        return point

    def stepped(self, parameters: Array | None = None, logs: Mapping[str, float] | None = None) -> Point:
        """Point with other parameters; workers update its states accordingly."""
        step = 0.0 if parameters is None else parameters
        return replace(self.point, parameters=self.point.parameters + step)


@dataclass(eq=False)
class JointSearch(Search):
    """Likelihood search whose states are stored by workers. With a given ``state_weight``, there are no log-sigmas, and
    the objective |r|² is scaled to a log-likelihood: half its logarithm times the degrees of freedom."""

    everyone: Everyone = field(kw_only=True)
    freedom: int = field(kw_only=True)
    """Rows less states."""
    redundant: int = field(kw_only=True, default=0)
    versions: int = field(kw_only=True, default=0)
    """Of the states, so far."""
    _written: list[int] = field(init=False, default_factory=list)
    """Those on disk."""

    def pass_of(self, what: Any, point: Point, logs: Array, **more: Any) -> Pass:
        """Request to evaluate all recordings at one set of parameter values and noise levels."""
        base = cast(Elsewhere, point).version
        folder, sizes = str(self.everyone.folder), self.sizes
        asked = Pass(what, folder, point.parameters, sizes, logs, base, gap=self.gap, settings=self.inner)
        return replace(asked, **more)

    def fitted(self, start: Point, logs: Array, most: float, gap: float) -> tuple[FittedStates, Marginal]:
        """States of a trial point and their likelihood."""
        self.versions += 1
        stale = tuple(number for number in self._written if number != cast(Elsewhere, start).version)
        asked = self.pass_of("fit", start, logs, version=self.versions, stale=stale, most=most, gap=gap)
        sums = self.everyone.ask(asked)
        self._written = [cast(Elsewhere, start).version, self.versions]
        return self._of(Elsewhere((), start.parameters, version=self.versions), logs, sums)

    def _of(self, point: Elsewhere, logs: Array, sums: Sums) -> tuple[JointStates, Marginal]:
        states = JointStates(point, sums, self.redundant)
        found = together(sums, self.problem.has_density, partial(self._information, point, logs))
        if self.sizes:
            return states, found
        least = max(found.value, TINY)
        unit = self.freedom / least
        slope, information = unit * found.gradient, unit * found.information
        value = self.freedom * float(np.log(least))
        return states, replace(found, value=value, gradient=slope, information=information)

    def _information(self, point: Elsewhere, logs: Array) -> Mapping[tuple[str, str], float]:
        sums = self.everyone.ask(self.pass_of("fisher", point, logs))
        return {(one, other): value for (_, one, other), value in sums.items()}

    def end_beyond(self, step: Array, promised: float) -> None:
        """Never extrapolates beyond the last step, because states in the workers could not follow."""

    def next_place(self, start: Point, logs: Array) -> Place:
        """Write a checkpoint before every step, because states of failed steps are not stored."""
        place = super().next_place(start, logs)
        place.wait = 0.0
        return place

    def states_arrays(self) -> dict[str, Array]:
        """Sums for the best states, and the number under which workers stored these states."""
        states = cast(JointStates, self.best.states)
        text = json.dumps([states.point.version, self.versions, [list(key) for key in states.sums]])
        sums = {f"sum {i}": np.asarray(value) for i, value in enumerate(states.sums.values())}
        return {**sums, "states": np.array(text), "parameters": states.point.parameters}

    def states_of(self, kept: Mapping[str, Array]) -> tuple[FittedStates, Marginal]:
        """From ``states_arrays``."""
        version, self.versions, keys = json.loads(str(kept["states"]))
        sums: Sums = {tuple(key): kept[f"sum {i}"][()] for i, key in enumerate(keys)}
        return self._of(Elsewhere((), kept["parameters"], version=version), kept["logs"], sums)
