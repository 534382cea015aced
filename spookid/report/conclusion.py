"""What a solution comes to, in one sentence, and what it takes for granted.

A declared problem in tables, for notebooks and the page of ``spookid check``.

What a study takes for granted, in words: estimator, stepper, friction and noise of its problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from spookid.assembly.problem import Problem
from spookid.report import summary
from spookid.results.result import Derived, Estimate, Solution
from spookid.results.wording import DYNAMICS, FRICTION, HARD, NO_FRICTION, noise_words, status_words, told, weight_words
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import left_open
from spookid.tables.table import HALF_WIDTH, Block, Table, bounds, counted, deviation, number, quantity, superscripts

_Told: TypeAlias = Estimate | Derived
_MANY = 8
"""Names from which on there are too many for a sentence."""


def conclusion(solution: Solution) -> str:
    """Whether it converged, and which parameters the data determine."""
    begin = f"{solution.problem}: {status_words(solution)}"
    if solution.status is not Status.CONVERGED:
        return f"{begin}; the estimates are where it stopped, and no answer."
    if solution.contradicted:
        return f"{begin}; the data contradict the model, and the estimates are no answer: see the notices."
    misfit = any(finding.doubts for finding in solution.findings)
    doubt = ["the model misses the data, so that estimates and errors mean little: see the notices"] if misfit else []
    return f"{'; '.join([begin, *doubt, *_known(solution)])}."


def _known(solution: Solution) -> list[str]:
    """Which combinations and parameters the data determine, and which not."""
    free = [p for p in solution.parameters.values() if not p.fixed]
    if not free:
        return ["no parameter is free"]
    weak = {name for one in left_open(solution.sensitivities) for name in one.direction}
    bound, prior = [p for p in free if p.at_bound], [p for p in free if p.known_from == "prior"]
    unseen = [p for p in free if p not in [*bound, *prior] and (p.name in weak or math.isnan(p.std_err))]
    if not solution.base_parameters:
        return [*_determined("the data", free, [*bound, *prior, *unseen]), *_open(prior, bound, unseen)]
    # What priors tell of single parameters of inertias is no lack then: combinations are all that motion shows.
    others = [p for p in free if p not in prior]
    single = _determined("they", others, [*bound, *unseen], "other parameter") if others else []
    base, noun = list(solution.base_parameters.values()), "base parameter"
    known, nothing = ([one for one in base if one.known_from == source] for source in ("prior", "nothing"))
    found = [*_determined("the data", base, [*known, *nothing], noun), *_open(known, [], nothing, noun)]
    return [*found, *single, *_open(prior, bound, unseen)]


def _determined(who: str, every: Sequence[_Told], but: Sequence[_Told], noun: str = "parameter") -> list[str]:
    """How many the data determine, all but some, the least certain of them, and which cannot be told from zero."""
    seen = [one for one in every if one not in but]
    count = f"all {counted(len(every), noun)}" if len(every) > 1 else every[0].name
    parts = [f"{who} determine {count if len(seen) == len(every) else f'{len(seen)} of {len(every)} {noun}s'}"]
    sure = [one for one in seen if abs(one.estimate) > HALF_WIDTH * one.std_err]
    if sure:
        worst = max(sure, key=lambda one: one.std_err / abs(one.estimate))
        share = number(100 * worst.std_err / abs(worst.estimate), 2)
        which = f", {'the least certain ' if len(sure) > 1 else ''}{worst.name}" if len(every) > 1 else ""
        parts[0] += f"{which} to ± {share} %"
    zero = [one for one in seen if one not in sure]
    return [*parts, f"{_names(zero, noun)} cannot be told from zero"] if zero else parts


def _open(
    prior: Sequence[_Told], bound: Sequence[_Told], unseen: Sequence[_Told], noun: str = "parameter"
) -> list[str]:
    """Which the data do not determine."""
    told = zip((prior, bound, unseen), ("known from priors", "at a bound", "not determined"), strict=True)
    return [f"{_names(some, noun)} {words}" for some, words in told if some]


def _names(some: Sequence[_Told], noun: str) -> str:
    """All of few, the number of many."""
    if len(some) > _MANY:
        return counted(len(some), noun)
    *others, last = [one.name for one in some]
    return f"{', '.join(others)} and {last}" if others else last


def assumptions(solution: Solution) -> dict[str, str]:
    """Estimator, stepper, friction and noise."""
    sizes = "; ".join(noise_words(noise, solution.step) for noise in told(solution.noise))
    given = "as the weights say, white and normal"
    return {
        "Estimator": summary.dynamics(solution),
        "Stepper": f"{solution.stepper}, step h = {number(solution.step, 6)} s",
        "Friction": FRICTION.get(solution.friction, solution.friction) if solution.sticking else NO_FRICTION,
        "Noise": f"white and normal; {sizes}" if sizes else given,
    }


def description(problem: Problem) -> list[Block]:
    """Title, parameters, recordings and settings; nothing is assembled or solved for it."""
    blocks: list[Block] = [f"{problem.name}: {sizes(problem)}", parts(problem)]
    if problem.parameters:
        blocks.append(parameters(problem))
    if problem.recordings:
        blocks.append(_recordings(problem))
    settings = list(assumed(problem).items())
    return [*blocks, Table(("setting", "value"), settings, left=(0, 1))]


def sizes(problem: Problem) -> str:
    """How much there is of each part."""
    model = problem.model
    parts = ((len(model.bodies), "body", "bodies"), (len(model.joints), "joint", "joints"))
    counts = [counted(n, one) if n == 1 else f"{n:,} {several}" for n, one, several in parts]
    return ", ".join([*counts, counted(len(problem.free), "free parameter")])


def parts(problem: Problem) -> Table:
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


def parameters(problem: Problem) -> Table:
    """A row for each."""
    free = {parameter.name for parameter in problem.free}
    rows = [
        (name, number(problem.guess[name], 6), unit, bounds(p.lower, p.upper), "" if name in free else "fixed", p.note)
        for name, unit, p in ((p.name, superscripts(p.unit), p) for p in problem.parameters)
    ]
    return Table(("parameter", "guess", "unit", "bounds", "", "note"), rows, left=(0, 2, 3, 4, 5))


def _recordings(problem: Problem) -> Table:
    rows = []
    for r in problem.recordings:
        signals = ", ".join(f"{name} {np.count_nonzero(np.isfinite(x)):,}" for name, x in r.signals.items())
        rows.append((r.name, quantity(float(r.t[-1] - r.t[0]), "s", 6), signals))
    return Table(("recording", "duration", "samples"), rows, left=(0, 2))


def assumed(problem: Problem) -> dict[str, str]:
    """Of fits of ``problem``."""
    return {
        "Estimator": _estimator(problem),
        **how_it_moves(problem),
        "Noise": f"{_motion(problem)}; {_sensors(problem)}",
    }


def how_it_moves(problem: Problem) -> dict[str, str]:
    """Of simulations of ``problem``."""
    return {
        "Stepper": f"{problem.stepper.name}, step h = {number(problem.step, 6)} s",
        "Friction": FRICTION[problem.friction] if any(f.rubs for f in problem.model.freedoms) else NO_FRICTION,
    }


def _estimator(problem: Problem) -> str:
    words = DYNAMICS[problem.dynamics]
    if not problem.estimates_noise or problem.estimates_disturbances:
        return words
    return HARD if problem.is_hard else f"{words}, or hard dynamics where the data say that they are better"


def _motion(problem: Problem) -> str:
    if problem.estimates_noise:
        return "random forces on the motion, white and normal, their sizes estimated"
    words = {"hard": "none in the motion", "weight": weight_words("weight", problem.weight)}
    return words[problem.dynamics]


def _sensors(problem: Problem) -> str:
    sizes = [f"{c.signal} {deviation(c.sigma, c.unit)}" for c in problem.channels if c.sigma is not None]
    others = ", ".join(c.signal for c in problem.channels if c.sigma is None)
    if others:
        one = "one unit" if problem.is_weighted else "estimated"
        sizes.append(f"{others} {one}")
    return f"errors of sensors white and normal, their sizes: {', '.join(sizes)}" if sizes else "no sensors"
