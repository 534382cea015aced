"""What a solution takes for granted, in words.

A declared problem in tables, for notebooks and the page of ``spookid check``.

What a study takes for granted, in words: estimator, stepper, friction and noise of its problem.
"""

from __future__ import annotations

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.report import details
from spookid.results.result import Solution
from spookid.results.wording import DYNAMICS, FRICTION, HARD, NO_FRICTION, noise_words, reported, weight_words
from spookid.tables.table import Block, Table, bounds, counted, deviation, number, quantity, superscripts


def assumptions(solution: Solution) -> dict[str, str]:
    """Estimator, stepper, friction and noise."""
    sizes = "; ".join(noise_words(noise, solution.step) for noise in reported(solution.noise))
    given = "as the weights say, white and normal"
    return {
        "Estimator": details.dynamics(solution),
        "Stepper": f"{solution.stepper}, step h = {number(solution.step, 6)} s",
        "Friction": FRICTION.get(solution.friction, solution.friction) if solution.sticking else NO_FRICTION,
        "Noise": f"white and normal; {sizes}" if sizes else given,
    }


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
    model, estimated = problem.model, problem.estimates_noise
    given = ((c, quantity(1.0 if c.sigma is None else c.sigma, c.unit, 4)) for c in problem.channels)
    sigmas = [(c, "estimated" if c.sigma is None and estimated else sigma) for c, sigma in given]
    names = {
        "Bodies": [body.name + (" (free)" if body.free else "") for body in model.bodies],
        "Joints": [f"{j.name} ({j.kind}, {j.parent.body.name} to {j.child.body.name})" for j in model.joints],
        "Constraints": [f"{c.name} ({c.kind})" for c in model.constraints],
        "Motors": [f"{m.signal} on {m.label}" for m in model.motors],
        "Loads": [load.title for load in model.loads],
        "Sensors": [f"{c.signal}: {c.title} (sigma {sigma})" for c, sigma in sigmas],
    }
    rows = [(kind, f"{len(some)}", ", ".join(some)) for kind, some in names.items() if some]
    return Table(("part", "number", "names"), rows, left=(0, 2))


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


def assumed(problem: Declaration) -> dict[str, str]:
    """Of fits of ``problem``."""
    return {
        "Estimator": _estimator(problem),
        **how_it_moves(problem),
        "Noise": f"{_motion(problem)}; {_sensors(problem)}",
    }


def how_it_moves(problem: Declaration) -> dict[str, str]:
    """Of simulations of ``problem``."""
    return {
        "Stepper": f"{problem.stepper.name}, step h = {number(problem.step, 6)} s",
        "Friction": FRICTION[problem.friction] if any(f.rubs for f in problem.model.freedoms) else NO_FRICTION,
    }


def _estimator(problem: Declaration) -> str:
    words = DYNAMICS[problem.dynamics]
    if not problem.estimates_noise or problem.estimator == "noise":
        return words
    return HARD if problem.is_hard else f"{words}, or hard dynamics where the data say that they are better"


def _motion(problem: Declaration) -> str:
    if problem.estimates_noise:
        return "random forces on the motion, white and normal, their sizes estimated"
    words = {"hard": "none in the motion", "weight": weight_words("weight", problem.weight)}
    return words[problem.dynamics]


def _sensors(problem: Declaration) -> str:
    sizes = [f"{c.signal} {deviation(c.sigma, c.unit)}" for c in problem.channels if c.sigma is not None]
    others = ", ".join(c.signal for c in problem.channels if c.sigma is None)
    if others:
        one = "one unit" if problem.is_weighted else "estimated"
        sizes.append(f"{others} {one}")
    return f"errors of sensors white and normal, their sizes: {', '.join(sizes)}" if sizes else "no sensors"
