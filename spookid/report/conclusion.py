"""What a solution, or a problem before it is solved, has and takes for granted: settings, residuals, costs, times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from spookid.assembly.declared import measured_channels
from spookid.assembly.problem import Problem
from spookid.parameter import parameters_in
from spookid.results.result import Cost, Derived, Solution
from spookid.results.trajectory import largest_of_samples, rms_of_samples
from spookid.results.wording import (
    DYNAMICS,
    FRICTION,
    HARD,
    NO_FRICTION,
    is_seen,
    noise_words,
    origin,
    reported,
    some_of,
    weight_words,
)
from spookid.tables.table import (
    COLUMNS,
    ESTIMATED,
    Block,
    Table,
    TableRow,
    bounds,
    counted,
    deviation,
    estimated,
    number,
    quantity,
    seconds,
    superscripts,
    wrapped,
)

Section: TypeAlias = tuple[str, list[Block]]
"""A heading, which may be empty, and what is below it."""
_SOURCES = {"data": "from these data", "prior": "from the prior", "given": "given", "nothing": "not at all"}
"""Where numbers of bodies come from, as columns."""
_STATE_COST = {
    "estimated": "process noise over its standard deviation",
    "hard": "deterministic dynamics: none",
    "weight": "κ Σ|Δp|², impulses by which the motion violates the mechanics",
}


def details(solution: Solution) -> list[Section]:
    """Return the tables that are printed with ``--verbose`` and shown in the report."""
    combined = "base parameters (h is mass times centre of mass, I is about the body's origin)"
    sections: list[tuple[str, Sequence[Block]]] = [
        ("bodies", [derived(solution.physical), known(solution)] if solution.physical else []),
        (combined, [derived(solution.base_parameters)] if solution.base_parameters else []),
        ("noise", [noise(solution)] if solution.noise else []),
        ("residuals", [residuals(solution)] if solution.trajectories else []),
        ("cost", [cost(solution)]),
        ("dry friction", _friction(solution)),
        ("starts", _starts(solution)),
        ("work", ["\n".join(wrapped(text, COLUMNS, f"  {label.ljust(8)}  ")) for label, text in work(solution)]),
    ]
    return [(title, list(blocks)) for title, blocks in sections if blocks]


def noise(solution: Solution) -> Table:
    """Table of noise standard deviations, estimated or given with the parameters."""
    rows = []
    for one in reported(solution.noise):
        moving, unit = one.kind == "disturbance", superscripts(one.unit)
        error = "given" if one.given else f"± {100 * one.error:.2g} %" if math.isfinite(one.error) else ""
        std = deviation(one.std, unit) if is_seen(one) else "not identified"
        density = f"{quantity(one.density, unit)}/√Hz" if moving and is_seen(one) else ""
        resolution = deviation(one.resolution, unit) if one.resolution > 0 else ""
        name = f"{'process noise of ' if moving else ''}{', '.join(one.names)}"
        rows.append((name, std, error, density, resolution))
    return Table(("noise", "standard deviation", "its error", "density", "resolution"), rows, left=range(5))


def residuals(solution: Solution) -> Table:
    """Table of residuals for each signal, and for each measured effort that drives the motion."""
    motions, internal = solution.trajectories, {name for one in solution.noise if one.internal for name in one.names}
    rows = []
    for i, (signal, unit) in enumerate(zip(motions[0].signals, motions[0].units, strict=True)):
        count = f"{sum(int(t.samples[:, i].sum()) for t in motions):,}"
        sizes = [(rms_of_samples([t], i), t.name) for t in motions]
        rows.append((signal, *_sizes(rms_of_samples(motions, i), largest_of_samples(motions, i), unit), count, sizes))
    for place, one in enumerate(motions[0].efforts or ()):
        fits = [(t.efforts[place], t.name) for t in motions if t.efforts]
        steps = sum(fit.steps for fit, _ in fits)
        total = math.sqrt(sum(f.steps * f.rms**2 for f, _ in fits if f.steps) / steps) if steps else math.nan
        largest = max((f.largest for f, _ in fits if f.steps), default=math.nan)
        sizes = [(fit.rms, name) for fit, name in fits]
        rows.append((f"{one.signal}, mean of a step", *_sizes(total, largest, one.unit), f"{steps:,}", sizes))
    units = [*motions[0].units, *(one.unit for one in motions[0].efforts or ())]
    several = f"worst of {len(motions)} recordings" if len(motions) > 1 else ""
    head = ("signal", "rms", "largest", "samples", several)
    every = zip(rows, units, strict=True)
    shown = [(*row[:-1], _worst(row[-1], unit)) for row, unit in every if row[0] not in internal]
    return Table(head, shown, left=range(5))


def _sizes(rms: float, largest: float, unit: str) -> tuple[str, str]:
    return tuple(deviation(size, unit) if math.isfinite(size) else "" for size in (rms, largest))  # type: ignore[return-value]


def _worst(sizes: Sequence[tuple[float, str]], unit: str) -> str:
    """The recording among several that fits worst, and how badly."""
    seen = [(size, name) for size, name in sizes if math.isfinite(size)]
    size, name = max(seen, default=(math.nan, ""))
    return f"{name}: {deviation(size, unit)}" if len(seen) > 1 else ""


def cost(solution: Solution) -> Table:
    """Table of the parts of the cost; costs for other noise than the final one are not comparable."""
    c, first = solution.cost, solution.history[0].cost if solution.history else solution.cost
    terms = [("state", c.state, _STATE_COST[solution.dynamics]), ("observation", c.observation, "Σ|Δy/σ|²")]
    if c.residual:
        terms.append(("residual", c.residual, "user's residuals over their sigma"))
    if c.prior:
        terms.append(("prior", c.prior, "Σ|(θ − mean)/sigma|²"))
    rows = [(name, number(value), _share(value, c), meaning) for name, value, meaning in terms]
    noisy = solution.estimates_noise
    rows.append(("total", number(c.total), "", "" if noisy else f"{number(first.total)} at the initial values"))
    if noisy and math.isfinite(solution.log_likelihood):
        whose = ", noise estimated" if solution.choice and solution.choice.is_hard else ""
        rows.append(("log-likelihood", f"{solution.log_likelihood:.1f}", "", f"marginal, of the data{whose}"))
    return Table(("part", "at the solution", "share", "meaning"), rows, left=(0, 3))


def _share(value: float, cost: Cost) -> str:
    return f"{100 * value / cost.total:.0f} %" if math.isfinite(cost.total) and cost.total > 0 else ""


def _friction(solution: Solution) -> list[Block]:
    """Which hinges stick, and how exactly the law of dry friction holds."""
    if not solution.sticking:
        return []
    rows = [(name, f"{100 * share:.0f} %") for name, share in solution.sticking.items()]
    law = f"Largest deviation from the exact friction law: {number(solution.complementarity_residual, 2)} N s or N m s."
    return [Table(("joint", "sticks, share of the time"), rows, left=(0,)), law]


def starts_sentence(result: Solution) -> str:
    """How many starts ended where."""
    settled = [one for one in result.basins if one.outcome == "converged"]
    total, converged = (sum(len(one.starts) for one in some) for some in (result.basins, settled))
    if not settled:
        return f"None of {total} starts converged."
    others = f", the others at {len(settled) - 1} worse minim{'a' if settled[2:] else 'um'}" if settled[1:] else ""
    return f"{converged} of {total} starts converged, {len(settled[0].starts)} of them at the best minimum{others}."


def _starts(solution: Solution) -> list[Block]:
    """Where several starts ended, and the messages of those that did not converge."""
    if not solution.basins:
        return []
    rows: list[TableRow] = []
    for one in solution.basins:
        likely, which = one.log_likelihoods[0], ", ".join(map(str, one.starts[:5]))
        ends = [number(x, 6) if math.isfinite(x) else "-" for x in (one.costs[0],)]
        ends.append(f"{likely:.1f}" if math.isfinite(likely) else "-")
        rows.append((str(len(one.starts)), which + " ..." * (len(one.starts) > 5), one.outcome, *ends))
    said = dict.fromkeys(f"{one.outcome}: {one.message}" for one in solution.basins if one.outcome != "converged")
    table = Table(("starts", "which", "end", "cost", "log-likelihood"), rows, left=(1, 2))
    return [starts_sentence(solution), table, *said]


def work(solution: Solution) -> list[tuple[str, str]]:
    """Sizes, times, settings and versions of a solve, each with a label."""
    size, times = solution.size, solution.timing
    rest = max(times.solve - times.evaluate - times.factorize - times.bend, 0.0)
    bend = f"second derivatives {seconds(times.bend)}, " if times.bend else ""
    sizes = (
        f"{counted(size.recordings, 'recording')}, {counted(size.steps, 'step')}, "
        f"{counted(size.states + size.parameters, 'unknown')} ({size.states:,} of states, {size.parameters:,} of "
        f"parameters), {counted(size.residuals, 'residual')}, {counted(size.jacobian_nonzeros, 'Jacobian nonzero')}"
    )
    where = (
        f"build {seconds(times.build)}, compile {seconds(times.compile)}, solve {seconds(times.solve)} "
        f"(evaluate {seconds(times.evaluate)}, factorize {seconds(times.factorize)}, {bend}rest {seconds(rest)}), "
        f"analysis {seconds(times.analysis)}, other {seconds(times.other)}"
    )
    settings = (
        f"backend {solution.backend}, stepper {solution.stepper}, friction {solution.friction}, "
        f"step h = {number(solution.step, 6)} s, {weight_words(solution.dynamics, solution.state_weight)}"
    )
    versions = ", ".join(f"{name} {version}" for name, version in solution.versions.items())
    texts = (solution.message, sizes, where, settings, dynamics(solution), versions)
    return list(zip(("End", "Size", "Time", "Settings", "Dynamics", "Versions"), texts, strict=True))


def dynamics(solution: Solution) -> str:
    """Name of the estimator and the reason for its choice."""
    choice = solution.choice
    kind = HARD if choice and choice.is_hard else DYNAMICS[solution.dynamics]
    return f"{kind}: {choice.reason}" if choice else kind


def derived(values: Mapping[str, Derived]) -> Table:
    """Table of physical quantities of bodies and joints, and combinations of them."""
    rows = [(*estimated(v.name, v.estimate, v.std_err, v.unit), v.reason or origin(v)) for v in values.values()]
    return Table(("", *ESTIMATED, ""), rows, left=(0, 5, 6))


def known(solution: Solution) -> Table:
    """Table of the source of information on mass, centre of mass and moments of each body."""
    rows = []
    for body in dict.fromkeys(one.body for one in solution.physical.values()):
        own = [one for one in solution.physical.values() if one.body == body]
        names = {one.name.removeprefix(f"{body} "): one.known_from for one in own}
        kinds = ([name for name, source in names.items() if source == wanted] for wanted in _SOURCES)
        rows.append((body, *(some_of(kind, list(names)) for kind in kinds)))
    return Table(("body", *_SOURCES.values()), rows, left=range(len(_SOURCES) + 1))


# --- what is taken for granted, and problems before they are solved ---


def assumptions(solution: Solution) -> dict[str, str]:
    """Estimator, stepper, friction and noise."""
    sizes = "; ".join(noise_words(noise, solution.step) for noise in reported(solution.noise))
    given = "as the weights say, white and normal"
    return {
        "Estimator": dynamics(solution),
        "Stepper": f"{solution.stepper}, step h = {number(solution.step, 6)} s",
        "Friction": FRICTION.get(solution.friction, solution.friction) if solution.sticking else NO_FRICTION,
        "Noise": f"white and normal; {sizes}" if sizes else given,
    }


def description(problem: Problem) -> list[Block]:
    """Title, parameters, recordings and settings of a problem, without a solve."""
    blocks: list[Block] = [f"{problem.name}: {sizes(problem)}", parts(problem)]
    if problem.parameters:
        blocks.append(parameters(problem))
    if problem.recordings:
        blocks.append(_recordings(problem))
    settings = list(assumed(problem).items())
    return [*blocks, Table(("setting", "value"), settings, left=(0, 1))]


def sizes(problem: Problem) -> str:
    """Number of each kind of part in the problem."""
    model = problem.model
    parts = ((len(model.bodies), "body", "bodies"), (len(model.joints), "joint", "joints"))
    counts = [counted(n, one) if n == 1 else f"{n:,} {several}" for n, one, several in parts]
    return ", ".join([*counts, counted(len(problem.free), "free parameter")])


def parts(problem: Problem) -> Table:
    """Table of each kind of part with number and names."""
    model, estimated = problem.model, problem.estimates_noise
    given = ((c, quantity(1.0 if c.sigma is None else c.sigma, c.unit, 4)) for c in measured_channels(problem))
    sigmas = [(c, "estimated" if c.sigma is None and estimated else sigma) for c, sigma in given]
    names = {
        "Bodies": [body.name + (" (free)" if body.free else "") for body in model.bodies],
        "Joints": [f"{j.name} ({j.kind}, {j.parent.body.name} to {j.child.body.name})" for j in model.joints],
        "Constraints": [f"{c.name} ({c.kind})" for c in model.constraints],
        "Motors": [f"{m.signal} on {m.label}" for m in model.motors]
        + [f"{s.command} on {s.label} (servo)" for s in model.servos],
        "Loads": [load.title for load in model.loads],
        "Sensors": [f"{c.signal}: {c.title} (sigma {sigma})" for c, sigma in sigmas],
    }
    rows = [(kind, f"{len(some)}", ", ".join(some)) for kind, some in names.items() if some]
    return Table(("part", "number", "names"), rows, left=(0, 2))


def inertia_coordinates(problem: Problem) -> frozenset[str]:
    """Names of inertia coordinates, such as log-Cholesky parameters, which few users read."""
    pi = [body.distribution.pi for body in problem.model.bodies if body.distribution is not None]
    return frozenset(p.name for p in parameters_in(pi, "inertias"))


def parameters(problem: Problem) -> Table:
    """A row for each."""
    free = {parameter.name for parameter in problem.free}
    rows = [
        (name, number(problem.guess[name], 6), unit, bounds(p.lower, p.upper), "" if name in free else "fixed", p.note)
        for name, unit, p in ((p.name, superscripts(p.unit), p) for p in problem.parameters)
    ]
    return Table(("parameter", "initial", "unit", "bounds", "", "note"), rows, left=(0, 2, 3, 4, 5))


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
    if not problem.estimates_noise or problem.estimator == "noise":
        return words
    return HARD if problem.is_hard else f"{words}, or deterministic dynamics where they have the better likelihood"


def _motion(problem: Problem) -> str:
    if problem.estimates_noise:
        return "random forces on the motion, white and normal, their sizes estimated"
    words = {"hard": "none in the motion", "weight": weight_words("weight", problem.weight)}
    return words[problem.dynamics]


def _sensors(problem: Problem) -> str:
    sizes = [f"{c.signal} {deviation(c.sigma, c.unit)}" for c in measured_channels(problem) if c.sigma is not None]
    others = ", ".join(c.signal for c in measured_channels(problem) if c.sigma is None)
    if others:
        one = "one unit" if problem.is_weighted else "estimated"
        sizes.append(f"{others} {one}")
    kind = "white" if any(c.is_adjusted for c in problem.channels) else "white and normal"
    return f"measurement noise is {kind}, standard deviations: {', '.join(sizes)}" if sizes else "no sensors"
