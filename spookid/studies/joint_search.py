"""The search for the maximum of the likelihood over recordings that lie elsewhere, and what is kept of it on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.declaration import Declaration
from spookid.files import replacing
from spookid.kernels.kernel import Array
from spookid.solvers.status import Iteration, Outcome
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.marginal import Marginal
from spookid.statistics.search import Search
from spookid.statistics.trial import FittedStates, Trial
from spookid.studies.crew import Crew
from spookid.studies.shares import FIT, Pass, Source, Sums, add, blocks, together, work, work_here
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point

SETTLED = 1e-10
"""Promise of a step, of half the logarithm of |r|² times the freedom, below which a fit with given weights ends."""


@dataclass(frozen=True, eq=False)
class Everyone:
    """All recordings, and who works on them."""

    problem: Declaration
    assembly: Assembly
    """Of the first recordings."""
    source: Source
    folder: Path
    count: int
    crew: Crew

    def ask(self, asked: Pass) -> Sums:
        """Sums over all recordings, in their order.

        Raises:
            NotPositiveDefiniteError: if one has no answer.
        """
        here = partial(work_here, self.problem, self.assembly) if self.crew.alone else partial(work, self.source)
        total, failed = Sums(), ""
        for found in self.crew.map(partial(here, asked), blocks(self.count)):
            if isinstance(found, str):
                failed = failed or found
            else:
                add(total, found)
        if failed:
            raise NotPositiveDefiniteError(failed)
        return total


@dataclass(frozen=True, eq=False)
class Place(Point):
    """Parameters, and states that lie elsewhere."""

    version: int = 0
    """Number of these."""


@dataclass(frozen=True, eq=False)
class JointStates:
    """The best states of all recordings, which lie elsewhere."""

    point: Place
    sums: Sums
    redundant: int

    @property
    def cost(self) -> float:
        """|r|²."""
        return float(self.sums["cost",])

    @property
    def excess(self) -> int:
        """Rows of data less the states that hard rows leave free."""
        return int(self.sums["excess",])

    @property
    def costs(self) -> dict[Group, float]:
        """Σ r² of each group of factors."""
        return {group: float(self.sums["costs", group.name]) for group in Group}

    def moved(self, parameters: Array | None = None, logs: Mapping[str, float] | None = None) -> Point:
        """Other parameters; states follow where they lie."""
        step = 0.0 if parameters is None else parameters
        return replace(self.point, parameters=self.point.parameters + step)


@dataclass(eq=False)
class JointSearch(Search):
    """A search whose states lie elsewhere. With given weights it has no sizes, and seeks the least |r|²: as half the
    logarithm of it, times the freedom, so that its unit is that of a likelihood."""

    everyone: Everyone = field(kw_only=True)
    freedom: int = field(kw_only=True)
    """Rows less states."""
    redundant: int = field(kw_only=True, default=0)
    versions: int = field(kw_only=True, default=0)
    """Of the states, so far."""
    _written: list[int] = field(init=False, default_factory=list)
    """Those on disk."""

    def pass_of(self, what: Any, point: Point, logs: Array, **more: Any) -> Pass:
        """What is asked of all recordings at a point."""
        base = cast(Place, point).version
        folder, sizes = str(self.everyone.folder), self.sizes
        asked = Pass(what, folder, point.parameters, sizes, logs, base, gap=self.gap, settings=self.inner)
        return replace(asked, **more)

    def fitted(self, start: Point, logs: Array, most: float) -> tuple[FittedStates, Marginal]:
        """The states of a trial, and what they tell."""
        self.versions += 1
        stale = tuple(number for number in self._written if number != cast(Place, start).version)
        sums = self.everyone.ask(self.pass_of("fit", start, logs, version=self.versions, stale=stale, most=most))
        self._written = [cast(Place, start).version, self.versions]
        return self._of(Place((), start.parameters, version=self.versions), logs, sums)

    def _of(self, point: Place, logs: Array, sums: Sums) -> tuple[JointStates, Marginal]:
        states = JointStates(point, sums, self.redundant)
        found = together(sums, self.problem.has_density, partial(self._information, point, logs))
        if self.sizes:
            return states, found
        least = max(found.value, np.finfo(float).tiny)
        unit = self.freedom / least
        slope, information = unit * found.gradient, unit * found.information
        value = self.freedom * float(np.log(least))
        return states, replace(found, value=value, gradient=slope, information=information)

    def _information(self, point: Place, logs: Array) -> Mapping[tuple[str, str], float]:
        sums = self.everyone.ask(self.pass_of("fisher", point, logs))
        return {(one, other): value for (_, one, other), value in sums.items()}

    # --- kept on disk ---

    @property
    def _kept(self) -> Path:
        return self.everyone.folder / FIT

    def turn(self, damping: float, correction: Array) -> None:
        """Keep all that the next steps follow from, so that a fit that is begun anew goes on from here."""
        best, arrays = self.best, dict[str, Any]()
        sums = cast(JointStates, best.states).sums
        arrays |= {f"sum {i}": value for i, value in enumerate(sums.values())}
        arrays |= {"parameters": best.point.parameters, "logs": best.logs, "floors": self.floors}
        if (informed := best.__dict__.get("informed", best.earlier)) is not None:
            arrays |= {"informed logs": informed[0], "informed": informed[1]}
        arrays["history"] = np.array([[i.damping, i.step_norm, *i.costs.values()] for i in self.history])
        arrays["path"] = np.array([i.parameters for i in self.history])
        version = cast(Place, best.point).version
        text = json.dumps([version, self.versions, damping, [list(key) for key in sums]])
        with replacing(self._kept) as part, part.open("wb") as file:
            np.savez(file, state=np.array(text), correction=correction, **arrays)

    def gone_on(self, **settled: float) -> Outcome | None:
        """The search from where it was kept to its end; None if nothing is kept. Arguments are as of ``run``."""
        if not self._kept.exists():
            return None
        with np.load(self._kept) as kept:
            version, self.versions, damping, keys = json.loads(str(kept["state"]))
            sums: Sums = {tuple(key): kept[f"sum {i}"][()] for i, key in enumerate(keys)}
            logs, self.floors = kept["logs"], kept["floors"]
            informed = (kept["informed logs"], kept["informed"]) if "informed" in kept.files else None
            states, found = self._of(Place((), kept["parameters"], version=version), logs, sums)
            self.best = Trial(self.sizes, logs, states, found, *self.by_sizes(found), informed)
            rows = zip(kept["history"].tolist(), kept["path"], strict=True)
            self.history = [
                Iteration(i, dict(zip(Group, costs, strict=True)), own, length, there)
                for i, ((own, length, *costs), there) in enumerate(rows)
            ]
            correction = kept["correction"]
        return self.carried_on(damping=damping, correction=correction, **settled)
