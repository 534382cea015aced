"""A Solution as one page of plain text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from spookid.results.findings import Finding
from spookid.results.result import Cost, Derived, Estimate, Solution
from spookid.results.trajectory import Trajectory, largest_of_samples, rms_of_samples
from spookid.results.wording import (
    DYNAMICS,
    HARD,
    noise_words,
    origin,
    remark,
    some_of,
    status_words,
    tension_words,
    told,
    weight_words,
)
from spookid.statistics.sensitivities import IMPULSES, Sensitivities, left_open, settled_parameters
from spookid.statistics.weak_directions import UNSEEN, WeakDirection
from spookid.tables.table import Table, TableRow, bounds, counted, number, quantity, seconds, uncertain, wrapped

WIDTH = 100
"""Columns of the page."""
MINIMA = 5
"""Of several starts, minima with an entry of their own in a legend, and starts that a row names."""

_ERRORS_FROM = (
    "Standard errors are linearized, for noise as the residuals show it: one variance for the impulses, one for each "
    "sensor. These are estimates too: ± 1.96 standard errors are Student's interval of 95 %."
)
_ERRORS_FROM_LIKELIHOOD = (
    "Standard errors are linearized, from the marginal likelihood of parameters and noise: ± 1.96 of them is an "
    "interval of 95 %."
)
_ERRORS_WITHIN = "They presume that the parameters at a bound stay there."
_SOURCES = {"data": "from these data", "prior": "from the prior", "given": "given", "nothing": "not at all"}
"""Where numbers of bodies come from, as columns."""
_CELLS = ("estimate", "standard error", "unit", "")
_BASE = "Base parameters (h is mass times centre of mass, I about the body's origin)"
_WEAK_VERDICT = "Until then these estimates mean little."
_WEAK_IF_WHITE = "How hardly the data see what they see is told for white noise, which a notice below doubts."
_STATE_COST = {
    "estimated": "squares of what disturbs the motion over its size",
    "hard": "infinite weight: the motion obeys the mechanics",
    "weight": "κ Σ|Δp|², impulses that the motion lacks to obey the mechanics",
}


def summarize(solution: Solution) -> str:
    """The report of one page: lines of at most 100 columns without a newline at the end."""
    tables = {"Bodies": physical(solution), "Known of bodies": known(solution), _BASE: base_parameters(solution)}
    bodies = [[title, *table.text(WIDTH, "  ").splitlines()] for title, table in tables.items() if table.rows]
    sections = [
        _first(solution.findings),
        _parameters(solution),
        *bodies,
        _constraints(solution),
        _weak(solution.sensitivities, solution.findings),
        _fit(solution.trajectories),
        ["Cost", *_table((), cost(solution).rows, right=(1, 2))],
        _friction(solution),
        _starts(solution),
    ]
    notices = _notices([finding.text for finding in solution.findings if not finding.doubts])
    # Both tell how long all took, what is computed for this page included.
    done = [line for label, text in work(solution) for line in _wrapped(text, f"{label:<10}")]
    headline = _wrapped(f"{solution.problem}: {status_words(solution)}", "")
    headline += ["=" * max(map(len, headline)), *_wrapped(solution.message, "")]
    page = [headline, *sections, done, notices]
    return "\n\n".join("\n".join(section) for section in page if section)


# --- sections, each a list of lines ---


def _parameters(solution: Solution) -> list[str]:
    estimates = list(solution.parameters.values())
    if not estimates:
        return []
    lines = ["Parameters", *parameters(solution).text(WIDTH, "  ").splitlines()]
    if any(math.isfinite(estimate.std_err) for estimate in estimates):
        origin = _ERRORS_FROM_LIKELIHOOD if solution.estimates_noise else _ERRORS_FROM
        conditional = [_ERRORS_WITHIN] if any(estimate.at_bound for estimate in estimates) else []
        lines += _wrapped(" ".join([origin, *conditional, *_raised(solution.sensitivities)]))
    return [*lines, *(_noise(solution) or _residual_noise(solution.sensitivities.noise))]


def parameters(solution: Solution) -> Table:
    """A row for each."""
    rows = [_parameter(estimate) for estimate in solution.parameters.values()]
    head = ("parameter", "estimate", "standard error", "between recordings", "unit", "guess", "bounds", "")
    return Table(head, rows, left=(0, *range(2, len(head))))


def physical(solution: Solution) -> Table:
    """A row for each mass, centre of mass and moment that hangs on parameters."""
    rows = [(one.name, *_cells(one)) for one in solution.physical.values()]
    return Table(("of a body", *_CELLS), rows, left=(0, 2, 3, 4))


def base_parameters(solution: Solution) -> Table:
    """A row for each combination of unknowns of bodies that forces hang on."""
    rows = [(*_cells(one), one.name) for one in solution.base_parameters.values()]
    return Table((*_CELLS, "base parameter"), rows, left=(1, 2, 3, 4))


def _cells(one: Derived) -> TableRow:
    value, _, error = uncertain(one.estimate, one.std_err).partition(" ± ")
    return value, error and f"± {error}", one.unit, one.reason or origin(one)


def constraints(solution: Solution) -> Table:
    """A row for each constraint between parameters: whether it holds them, and how hard the data pull."""
    rows = [(one.name, one.place, tension_words(one)) for one in solution.constraints.values()]
    return Table(("constraint", "declared at", "the data"), rows, left=(0, 1, 2))


def known(solution: Solution) -> Table:
    """A row for each body: what of its mass, centre of mass and moments is known from where."""
    rows = []
    for body in dict.fromkeys(one.body for one in solution.physical.values()):
        own = [one for one in solution.physical.values() if one.body == body]
        names = {one.name.removeprefix(f"{body} "): one.known_from for one in own}
        kinds = ([name for name, source in names.items() if source == wanted] for wanted in _SOURCES)
        rows.append((body, *(some_of(kind, list(names)) for kind in kinds)))
    return Table(("body", *_SOURCES.values()), rows, left=range(len(_SOURCES) + 1))


def _constraints(solution: Solution) -> list[str]:
    table = constraints(solution)
    if not table.rows:
        return []
    lines = ["Constraints between parameters", *table.text(WIDTH, "  ").splitlines()]
    if any(one.active for one in solution.constraints.values()):
        lines += _wrapped("Standard errors presume that those that hold are right.")
    return lines


def _raised(known: Sensitivities) -> list[str]:
    """Which errors are those of the jackknife."""
    if not known.raised:
        return []
    largest = float(np.max(known.inflation))
    return [
        f"Those of {', '.join(known.raised)} are the scatter over stretches of the recordings, up to "
        f"{number(largest, 2)} times what white noise would leave."
    ]


def _noise(solution: Solution) -> list[str]:
    """The sizes of noise that were estimated."""
    if not solution.noise:
        return []
    return _wrapped(f"Noise found: {'; '.join(noise_words(noise, solution.step) for noise in told(solution.noise))}.")


def _residual_noise(noise: Mapping[str, float]) -> list[str]:
    """What the residuals say of the noise, against what the weights say."""
    if not noise:
        return []
    sizes = ", ".join(
        f"impulses {number(size, 3)} /√κ" if name == IMPULSES else f"{name} {number(size, 3)} sigma"
        for name, size in noise.items()
    )
    return _wrapped(f"Noise found: {sizes}.")


def _parameter(estimate: Estimate) -> tuple[str, ...]:
    value, _, error = uncertain(estimate.estimate, estimate.std_err).partition(" ± ")
    return (
        estimate.name,
        value,
        error and f"± {error}",
        f"× {number(estimate.scale, 2)}" if math.isfinite(estimate.scale) else "",
        estimate.unit,
        number(estimate.initial, 6),
        bounds(estimate.lower, estimate.upper),
        remark(estimate),
    )


def weak_words(weak: WeakDirection) -> str:
    """A weak direction and what helps, in words."""
    verb = "do not see" if weak.singular_value < UNSEEN else "hardly see"
    size = "" if weak.singular_value < UNSEEN else f" ({number(weak.singular_value, 2)} sigma for 100 %)"
    if len(weak.direction) == 1:
        return f"The data {verb} {next(iter(weak.direction))}{size}. {weak.advice}".rstrip()
    percents = ((name, 100 * share) for name, share in weak.direction.items())
    changes = ", ".join(f"{n} {p:+.0f} %" if abs(p) >= 1 else f"{n} {p:+.1g} %" for n, p in percents)
    return f"The data {verb} that these change together: {changes}{size}. {weak.advice}".rstrip()


def weak_sentences(known: Sensitivities) -> list[str]:
    """What the data hardly see, and what priors tell of it."""
    return [*map(weak_words, left_open(known)), *filter(None, [settled_words(known)])]


def settled_words(known: Sensitivities) -> str:
    """What is said of the weak directions that priors settle; empty if there are none."""
    names = settled_parameters(known)
    if not names:
        return ""
    return f"What the data hardly see of {', '.join(names)}, their priors tell."


def _weak(known: Sensitivities, findings: Sequence[Finding]) -> list[str]:
    weak, settled = left_open(known), settled_words(known)
    if not weak:
        return ["Weak directions", *_wrapped(settled)] if settled else []
    lines = [line for direction in weak for line in _wrapped(weak_words(direction), "  - ")]
    lines += _wrapped(settled, "  - ") if settled else []
    hardly = sum(direction.singular_value >= UNSEEN for direction in weak)
    doubtful = hardly > 0 and known.agreement > 1 and any(one.code == "errors.white-noise" for one in findings)
    if not doubtful:
        verdict = _WEAK_VERDICT
    else:
        verdict = _WEAK_IF_WHITE if hardly == len(weak) else f"{_WEAK_VERDICT} {_WEAK_IF_WHITE}"
    return ["Weak directions", *lines, *_wrapped(verdict)]


def starts_sentence(result: Solution) -> str:
    """How many starts ended where."""
    settled = [one for one in result.basins if one.outcome == "converged"]
    total, converged = (sum(len(one.starts) for one in some) for some in (result.basins, settled))
    if not settled:
        return f"None of {total} starts converged."
    others = f", the others at {len(settled) - 1} worse minim{'a' if settled[2:] else 'um'}" if settled[1:] else ""
    return f"{converged} of {total} starts converged, {len(settled[0].starts)} of them at the best minimum{others}."


def starts_table(result: Solution) -> Table:
    """A row for each minimum, and for each start that did not converge."""
    rows = []
    for one in result.basins:
        likely = one.log_likelihoods[0]
        shown = ", ".join(map(str, one.starts[:MINIMA])) + (" ..." if len(one.starts) > MINIMA else "")
        cost = number(one.costs[0], 6) if math.isfinite(one.costs[0]) else "-"
        rows.append((str(len(one.starts)), shown, one.outcome, cost, f"{likely:.1f}" if math.isfinite(likely) else "-"))
    return Table(("starts", "which", "end", "cost", "log-likelihood"), rows, left=(1, 2))


def _starts(solution: Solution) -> list[str]:
    """Where several starts ended, and what those that did not converge say."""
    if not solution.basins:
        return []
    lost = [one for one in solution.basins if one.outcome != "converged"]
    said = dict.fromkeys(f"{one.outcome}: {one.message}" for one in lost)
    lines = [
        "Starts",
        *_wrapped(starts_sentence(solution)),
        *starts_table(solution).text(WIDTH, "  ").splitlines(),
    ]
    return [*lines, *(line for text in said for line in _wrapped(text, "  - "))]


def _fit(trajectories: Sequence[Trajectory]) -> list[str]:
    if not trajectories:
        return []
    head = ("signal", "rms", "largest", "samples", f"worst of {len(trajectories)} recordings")
    rows = [_signal(trajectories, column) for column in range(len(trajectories[0].signals))]  # the same for all
    rows += [_effort(trajectories, place) for place in range(len(trajectories[0].efforts or ()))]
    return ["Fit: measured less estimated", *(_table(head, rows) if rows else [])]


def _signal(trajectories: Sequence[Trajectory], column: int) -> tuple[str, ...]:
    unit = trajectories[0].units[column]
    largest = largest_of_samples(trajectories, column)
    return (
        trajectories[0].signals[column],
        quantity(rms_of_samples(trajectories, column), unit),
        quantity(largest, unit) if math.isfinite(largest) else "",
        f"{sum(int(t.samples[:, column].sum()) for t in trajectories):,}",
        _worst(trajectories, column),
    )


def _effort(trajectories: Sequence[Trajectory], place: int) -> tuple[str, ...]:
    """A row of a measured torque or force, which the motion is driven by."""
    fits = [t.efforts[place] for t in trajectories if t.efforts]
    known = [one for one in fits if one.steps]
    steps, unit = sum(one.steps for one in known), fits[0].unit
    if not known:
        return f"{fits[0].signal}, mean of a step", "", "", "0", ""
    rms = math.sqrt(sum(one.steps * one.rms**2 for one in known) / steps)
    sizes = [(t.efforts[place].rms, t.name) for t in trajectories if t.efforts]
    largest = quantity(max(one.largest for one in known), unit)
    return f"{known[0].signal}, mean of a step", quantity(rms, unit), largest, f"{steps:,}", _worst_of(sizes, unit)


def _worst(trajectories: Sequence[Trajectory], column: int) -> str:
    """The recording among several that fits worst, and how badly."""
    sizes = [(rms_of_samples([t], column), t.name) for t in trajectories]
    return _worst_of(sizes, trajectories[0].units[column])


def _worst_of(sizes: Sequence[tuple[float, str]], unit: str) -> str:
    known = [(size, name) for size, name in sizes if math.isfinite(size)]
    size, name = max(known, default=(math.nan, ""))
    return f"{name}: {quantity(size, unit)}" if len(known) > 1 else ""


def cost(solution: Solution) -> Table:
    """What the total is made of; costs over other sizes of noise than those found last are no measure."""
    c, first = solution.cost, solution.history[0].cost if solution.history else solution.cost
    terms = [("state", c.state, _STATE_COST[solution.dynamics]), ("observation", c.observation, "Σ|Δy/σ|²")]
    if c.residual:
        terms.append(("residual", c.residual, "squares of residuals of one's own over their sigma"))
    if c.prior:
        terms.append(("prior", c.prior, "Σ|(θ − mean)/sigma|²"))
    rows = [(name, number(value), _share(value, c), meaning) for name, value, meaning in terms]
    estimated = solution.estimates_noise
    rows.append(("total", number(c.total), "", "" if estimated else f"{number(first.total)} at the initial guess"))
    if estimated and math.isfinite(solution.log_likelihood):
        whose = ", noise estimated" if solution.choice and solution.choice.is_hard else ""
        words = f"of the data, states integrated out{whose}"
        rows.append(("log-likelihood", f"{solution.log_likelihood:.1f}", "", words))
    return Table(("part", "at the solution", "share", "meaning"), rows)


def _share(value: float, cost: Cost) -> str:
    return f"{100 * value / cost.total:.0f} %" if math.isfinite(cost.total) and cost.total > 0 else ""


def _friction(solution: Solution) -> list[str]:
    """Which hinges stick, and how exactly the law of dry friction holds."""
    if not solution.sticking:
        return []
    rows = [(name, f"sticks for {100 * share:.0f} % of the time") for name, share in solution.sticking.items()]
    law = f"Largest distance from the exact law: {number(solution.complementarity_residual, 2)} N s or N m s."
    return ["Dry friction", *_table((), rows), *_wrapped(law)]


def work(solution: Solution) -> list[tuple[str, str]]:
    """Sizes, times, settings and versions, each with a label."""
    size, times = solution.size, solution.timing
    rest = max(times.solve - times.evaluate - times.factorize - times.bend, 0.0)
    bend = f"bend {seconds(times.bend)}, " if times.bend else ""
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
    texts = (sizes, where, settings, dynamics(solution), versions)
    return list(zip(("Size", "Time", "Settings", "Dynamics", "Versions"), texts, strict=True))


def dynamics(solution: Solution) -> str:
    """Which estimator it is, and why."""
    choice = solution.choice
    kind = HARD if choice and choice.is_hard else DYNAMICS[solution.dynamics]
    return f"{kind}: {choice.reason}" if choice else kind


def _first(findings: Sequence[Finding]) -> list[str]:
    """What makes estimates and errors meaningless stands before them."""
    return [line for finding in findings if finding.doubts for line in _wrapped(finding.text, "")]


def _notices(notices: Sequence[str]) -> list[str]:
    return ["Notices", *(line for notice in notices for line in _wrapped(notice, "  - "))] if notices else []


def _wrapped(text: str, label: str = "  ") -> list[str]:
    return wrapped(text, WIDTH, label)


def _table(head: tuple[str, ...], rows: Sequence[TableRow], right: Collection[int] = ()) -> list[str]:
    """Lines of a table, columns not in ``right`` aligned to the left."""
    left = {i for i in range(len(rows[0])) if i not in right}
    return Table(head, rows, left).text(WIDTH, "  ").splitlines()
