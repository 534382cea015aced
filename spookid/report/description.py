"""A declared problem in tables, for notebooks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.parameter import Parameter
from spookid.studies.assumptions import assumed
from spookid.tables.numbers import bounds, counted, number, quantity, superscripts
from spookid.tables.table import Table
from spookid.tables.tabular import Block


def description(problem: Declaration) -> list[Block]:
    """Title, parameters, recordings and settings; nothing is assembled or solved for it."""
    model, free = problem.model, {parameter.name for parameter in problem.free}
    parts = ((len(model.bodies), "body", "bodies"), (len(model.joints), "joint", "joints"))
    sizes = ", ".join(counted(n, one) if n == 1 else f"{n:,} {several}" for n, one, several in parts)
    blocks: list[Block] = [f"{problem.name}: {sizes}, {counted(len(free), 'free parameter')}"]
    every = problem.parameter_set.every
    if every:
        rows = [_parameter(p, problem.guess[p.name], free) for p in every]
        blocks.append(Table(("parameter", "guess", "unit", "bounds", "", "note"), rows, left=(0, 2, 3, 4, 5)))
    if problem.recordings:
        blocks.append(_recordings(problem))
    settings = list(assumed(problem).items())
    return [*blocks, Table(("setting", "value"), settings, left=(0, 1))]


def _parameter(parameter: Parameter, guess: float, free: Collection[str]) -> tuple[str, ...]:
    fixed = "" if parameter.name in free else "fixed"
    interval = bounds(parameter.lower, parameter.upper)
    return parameter.name, number(guess, 6), superscripts(parameter.unit), interval, fixed, parameter.note


def _recordings(problem: Declaration) -> Table:
    rows = []
    for r in problem.recordings:
        signals = ", ".join(f"{name} {np.count_nonzero(np.isfinite(x)):,}" for name, x in r.signals.items())
        rows.append((r.name, quantity(float(r.t[-1] - r.t[0]), "s", 6), signals))
    return Table(("recording", "duration", "samples"), rows, left=(0, 2))
