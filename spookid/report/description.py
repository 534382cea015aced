"""A declared problem in tables, for notebooks and the page of ``spookid check``."""

from __future__ import annotations

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.channels import Channel
from spookid.studies.assumptions import assumed
from spookid.tables.numbers import bounds, counted, number, quantity, superscripts
from spookid.tables.table import Table
from spookid.tables.tabular import Block


def description(problem: Declaration) -> list[Block]:
    """Title, parameters, recordings and settings; nothing is assembled or solved for it."""
    blocks: list[Block] = [f"{problem.name}: {sizes(problem)}", parts(problem)]
    if problem.parameters:
        blocks.append(parameters(problem))
    if problem.recordings:
        blocks.append(_recordings(problem))
    settings = list(assumed(problem).items())
    return [*blocks, Table(("setting", "value"), settings, left=(0, 1))]


def sizes(problem: Declaration) -> str:
    """How much there is of each part."""
    model = problem.model
    parts = ((len(model.bodies), "body", "bodies"), (len(model.joints), "joint", "joints"))
    counts = [counted(n, one) if n == 1 else f"{n:,} {several}" for n, one, several in parts]
    return ", ".join([*counts, counted(len(problem.free), "free parameter")])


def parts(problem: Declaration) -> Table:
    """A row for each kind of part: how many there are, and their names."""
    model = problem.model
    names = {
        "Bodies": [body.name + (" (free)" if body.free else "") for body in model.bodies],
        "Joints": [f"{j.name} ({j.kind}, {j.parent.body.name} to {j.child.body.name})" for j in model.joints],
        "Constraints": [f"{c.name} ({c.kind})" for c in model.constraints],
        "Motors": [f"{m.signal} on {m.label}" for m in model.motors],
        "Loads": [load.title for load in model.loads],
        "Sensors": [f"{c.signal}: {c.title} (sigma {_sigma(problem, c)})" for c in problem.channels],
    }
    rows = [(kind, f"{len(some)}", ", ".join(some)) for kind, some in names.items() if some]
    return Table(("part", "number", "names"), rows, left=(0, 2))


def _sigma(problem: Declaration, sensor: Channel) -> str:
    if sensor.sigma is None and problem.dynamics == "estimated":
        return "estimated"
    return quantity(1.0 if sensor.sigma is None else sensor.sigma, sensor.unit, 4)


def parameters(problem: Declaration) -> Table:
    """A row for each."""
    free = {parameter.name for parameter in problem.free}
    rows = [
        (name, number(problem.guess[name], 6), unit, bounds(p.lower, p.upper), "" if name in free else "fixed", p.note)
        for name, unit, p in ((p.name, superscripts(p.unit), p) for p in problem.parameters)
    ]
    return Table(("parameter", "guess", "unit", "bounds", "", "note"), rows, left=(0, 2, 3, 4, 5))


def _recordings(problem: Declaration) -> Table:
    rows = []
    for r in problem.recordings:
        signals = ", ".join(f"{name} {np.count_nonzero(np.isfinite(x)):,}" for name, x in r.signals.items())
        rows.append((r.name, quantity(float(r.t[-1] - r.t[0]), "s", 6), signals))
    return Table(("recording", "duration", "samples"), rows, left=(0, 2))
