"""The wording of statuses, settings and noise that tables, pages and figures share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spookid.results.findings import Finding
from spookid.results.result import Derived, Estimate, Noise, Solution
from spookid.results.values import ConstraintTension
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import AT_BOUND
from spookid.tables.table import counted, deviation, number, quantity, uncertain

_STATUS = {
    Status.CONVERGED: "converged",
    Status.MAX_ITERATIONS: "NOT converged, the iteration limit was reached",
    Status.STALLED: "NOT converged, stalled",
    Status.DIVERGED: "FAILED at the initial values",
    Status.INTERRUPTED: "interrupted",
}
DYNAMICS = {
    "estimated": "estimated (process and measurement noise together with the parameters)",
    "hard": "deterministic dynamics (no process noise, all noise is measurement noise)",
    "weight": "weighted (given weight of the equations of motion against sensor residuals)",
}
"""What each way to weight the equations of motion means."""
HARD = "deterministic dynamics (no process noise, standard errors by a block jackknife)"
"""What they mean if they were chosen by the estimator."""
FRICTION = {
    "smooth": "smooth: dry friction changes its sign over a small range of slip rates, so that a sticking joint creeps",
    "exact": "exact: a sticking joint does not move",
    "mpcc": "mpcc: a sticking joint does not move, formulated by complementarity",
}
"""What each form of dry friction means."""
NO_FRICTION = "no joint has dry friction"
_WHOLLY = 0.99
"""Share of a variance above which it is the prior's alone."""


def verdict(solution: Solution) -> str:
    """Outcome of a solve in one sentence: the first line of summaries and reports."""
    free = [one for one in solution.parameters.values() if not one.fixed]
    converged = solution.status is Status.CONVERGED
    unknown = sum(one.known_from == "nothing" for one in free) if converged else 0
    words = f"{solution.problem}: {_STATUS[solution.status]}"
    if converged and solution.contradicted:
        words += ", but the data contradict the model: the estimates are no answer"
    words += warned(solution.findings)
    verb = "is" if unknown == 1 else "are"
    return f"{words}; {unknown} of {counted(len(free), 'parameter')} {verb} not identifiable" if unknown else words


def warned(findings: Iterable[Finding]) -> str:
    """Number of warnings and errors, preceded by a comma; empty if there are none."""
    count = sum(finding.severity != "note" for finding in findings)
    return f", {counted(count, 'warning')}" if count else ""


def remark(estimate: Estimate) -> str:
    """Remark on an estimate, such as the reason for a missing standard error; usually empty."""
    if estimate.fixed:
        return "fixed"
    side = ""
    if estimate.at_bound:
        side = "at lower bound" if estimate.estimate <= estimate.lower else "at upper bound"
    reason = "" if side and estimate.reason == AT_BOUND else estimate.reason
    return ", ".join(filter(None, [side, reason, origin(estimate)]))


def origin(value: Estimate | Derived) -> str:
    """Remark on an estimate that comes mostly from priors; empty for other estimates."""
    if value.known_from != "prior":
        return ""
    return "from the prior" if value.from_prior > _WHOLLY else "mostly from the prior"


def some_of(names: Sequence[str], every: Sequence[str]) -> str:
    """Short description of some names among all names: ``all``, ``all but I_zz``, or a list."""
    others = [name for name in every if name not in names]
    if len(names) <= 1 or 2 * len(others) >= len(every):
        return ", ".join(names)
    return f"all but {', '.join(others)}" if others else "all"


def weight_words(dynamics: str, weight: float) -> str:
    """Setting of the weight of the equations of motion, as text."""
    fixed = {"estimated": "noise estimated", "hard": "deterministic dynamics"}
    return fixed.get(dynamics) or f"weight κ = {number(weight, 6)}"


def reported(noise: Sequence[Noise]) -> list[Noise]:
    """Noise standard deviations of the declared model."""
    return [one for one in noise if not one.internal]


def noise_words(noise: Noise, step: float) -> str:
    """Noise standard deviation in physical units, as text."""
    names, given = ", ".join(noise.names), " (given)" if noise.given else ""
    if noise.kind != "disturbance":
        size = deviation(noise.std, noise.unit) if is_seen(noise) else "not identified"
        tails = f", Student's t with {number(noise.freedom, 3)} degrees of freedom" if noise.freedom else ""
        late = f", timestamps {quantity(1000 * noise.jitter, 'ms', 3)}" if noise.jitter else ""
        return f"{names} {size}{given}{tails}{late}"
    if not is_seen(noise) or noise.std == 0:
        return f"process noise of {names} {'none' if noise.given else 'not identified'}"
    interval = f"{number(1000 * step, 6)} ms" if step < 0.1 else f"{number(step, 6)} s"
    density = f"{quantity(noise.density, noise.unit)}/√Hz"
    return (
        f"process noise of {names} {quantity(noise.std, noise.unit)} rms over a step of {interval} ({density}){given}"
    )


def is_seen(noise: Noise) -> bool:
    """True if the data determine the noise standard deviation, or it was given."""
    return noise.given or math.isfinite(noise.error)


def tension_words(one: ConstraintTension) -> str:
    """Result of the test of a constraint against the data, as text."""
    if not one.active:
        return f"not active, off by {number(-one.value, 3)}"
    if one.reason:
        return f"holds; {one.reason}"
    off = uncertain(one.freed, one.freed_err)
    return f"active; without the constraint, left - right would be {off}, {number(one.sigmas, 2)} standard errors"
