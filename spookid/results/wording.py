"""The wording of statuses, settings and noise that tables, pages and figures share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spookid.results.result import Derived, Estimate, Noise, Solution
from spookid.results.values import ConstraintTension
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import AT_BOUND
from spookid.tables.table import counted, deviation, number, quantity, seconds, uncertain

_STATUS = {
    Status.CONVERGED: "converged in {} and {}",
    Status.MAX_ITERATIONS: "NOT converged: the iteration limit came after {} and {}",
    Status.STALLED: "NOT converged: stalled after {} and {}",
    Status.DIVERGED: "FAILED at the initial guess after {} and {}",
    Status.INTERRUPTED: "interrupted after {} and {}",
}
DYNAMICS = {
    "estimated": "estimated (noise of motion and sensors together with the parameters)",
    "hard": "hard (the motion obeys the mechanics, all noise is the sensors')",
    "weight": "weighted (impulses that the motion lacks against errors of the sensors, as given)",
}
"""What each way to weight the equations of motion means."""
HARD = "hard (all noise is the sensors', errors are from stretches of the recordings)"
"""What hard dynamics mean that were chosen by the estimator."""
FRICTION = {
    "smooth": "smooth: dry friction turns its sign over a small range of slip rates, so that what sticks creeps",
    "exact": "exact: what dry friction holds stands still",
    "mpcc": "mpcc: what dry friction holds stands still, stated as complementarity",
}
"""What each form of dry friction means."""
NO_FRICTION = "no joint has dry friction"
_WHOLLY = 0.99
"""Share of a variance above which it is the prior's alone."""


def remark(estimate: Estimate) -> str:
    """What is special about an estimate, above all why it has no standard error; mostly empty."""
    if estimate.fixed:
        return "fixed"
    side = ""
    if estimate.at_bound:
        side = "at lower bound" if estimate.estimate <= estimate.lower else "at upper bound"
    reason = "" if side and estimate.reason == AT_BOUND else estimate.reason
    return ", ".join(filter(None, [side, reason, origin(estimate)]))


def origin(value: Estimate | Derived) -> str:
    """Of what is mostly known from priors that it is; else empty."""
    if value.known_from != "prior":
        return ""
    return "from the prior" if value.from_prior > _WHOLLY else "mostly from the prior"


def some_of(names: Sequence[str], every: Sequence[str]) -> str:
    """Names among all that there are, in the shorter way: ``all``, ``all but I_zz``, or one by one."""
    others = [name for name in every if name not in names]
    if len(names) <= 1 or 2 * len(others) >= len(every):
        return ", ".join(names)
    return f"all but {', '.join(others)}" if others else "all"


def status_words(solution: Solution) -> str:
    """How it ended, after how many iterations and how long, what was asked of it up to now included."""
    return _STATUS[solution.status].format(counted(solution.iterations, "iteration"), seconds(solution.timing.total))


def weight_words(dynamics: str, weight: float) -> str:
    """Where the weight of the equations of motion comes from, as a setting."""
    fixed = {"estimated": "noise estimated", "hard": "hard dynamics"}
    return fixed.get(dynamics) or f"state weight κ = {number(weight, 6)}"


def told(noise: Sequence[Noise]) -> list[Noise]:
    """Sizes of noise but those of contacts that do not slip."""
    return [one for one in noise if not (one.given and one.std == 0 and one.unit == "m/s")]


def noise_words(noise: Noise, step: float) -> str:
    """A size of noise in physical units."""
    names, given = ", ".join(noise.names), " (given)" if noise.given else ""
    if noise.kind != "disturbance":
        steps = f", its resolution is {deviation(noise.resolution, noise.unit)}" if noise.resolution > 0 else ""
        return f"{names} {deviation(noise.std, noise.unit) if is_seen(noise) else 'none seen'}{given}{steps}"
    if not is_seen(noise) or noise.std == 0:
        return f"disturbance of {names} none{'' if noise.given else ' seen'}"
    interval = f"{number(1000 * step, 6)} ms" if step < 0.1 else f"{number(step, 6)} s"
    density = f"{quantity(noise.density, noise.unit)}/√Hz"
    return f"disturbance of {names} {quantity(noise.std, noise.unit)} rms over a step of {interval} ({density}){given}"


def is_seen(noise: Noise) -> bool:
    """True if the data tell its size, or it was given."""
    return noise.given or math.isfinite(noise.error)


def tension_words(one: ConstraintTension) -> str:
    """How hard the data pull at a constraint."""
    if not one.active:
        return f"not active, off by {number(-one.value, 3)}"
    if one.reason:
        return f"holds; {one.reason}"
    off = uncertain(one.freed, one.freed_err)
    return f"holds, pulled with {number(one.sigmas, 2)} sigma: without it left - right would be {off}"
