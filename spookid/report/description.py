"""A declared problem in tables."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.channels import Channel
from spookid.mechanics.model import Model
from spookid.parameter import Parameter
from spookid.studies.assumptions import assumed
from spookid.tables.numbers import bounds, counted, number, quantity, superscripts
from spookid.tables.table import Table
from spookid.tables.tabular import Block


def description(problem: Declaration) -> list[Block]:
    """Title, parameters, recordings and settings; nothing is assembled or solved for it."""
    free = {parameter.name for parameter in problem.free}
    blocks: list[Block] = [f"{problem.name}: {sizes(problem)}", _bodies(problem.model)]
    if problem.model.joints:
        joints = [(j.name, j.kind, f"{j.parent.body.name} and {j.child.body.name}") for j in problem.model.joints]
        blocks.append(Table(("joint", "kind", "joins"), joints, left=(0, 1, 2)))
    if problem.channels:
        sensors = [(c.signal, c.title, _sigma(problem, c)) for c in problem.channels]
        blocks.append(Table(("signal", "what it is", "sigma"), sensors, left=(0, 1, 2)))
    every = problem.parameter_set.every
    if every:
        rows = [_parameter(p, problem.guess[p.name], free) for p in every]
        blocks.append(Table(("parameter", "guess", "unit", "bounds", "", "note"), rows, left=(0, 2, 3, 4, 5)))
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


def _bodies(model: Model) -> Table:
    """What holds each."""
    rows = []
    for body in model.bodies:
        holds = [joint.name for joint in model.joints if body in joint.bodies()]
        rows.append((body.name, ", ".join([*(["free"] if body.free else []), *holds])))
    return Table(("body", "held by"), rows, left=(0, 1))


def _sigma(problem: Declaration, channel: Channel) -> str:
    if channel.sigma is None:
        return "estimated" if problem.dynamics == "estimated" else quantity(1.0, channel.unit)
    return quantity(channel.sigma, channel.unit, 4)


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
