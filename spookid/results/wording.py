"""The wording of numbers, units and statuses that tables, pages and figures share."""

from __future__ import annotations

import math
import re

from spookid.results.result import Estimate, Noise, Result
from spookid.solvers.status import Status
from spookid.statistics.covariance import AT_BOUND

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
HALF_WIDTH = 1.96
"""Of a 95 % interval of the normal distribution, in standard errors."""
_MOST_DECIMALS = 7
_MOST_DIGITS = 9


def number(value: float, digits: int = 4) -> str:
    """``value`` with the given significant digits; a zero has no sign."""
    return f"{value + 0.0:.{digits}g}"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """``value`` with its unit, which may be empty."""
    return f"{number(value, digits)} {unit}".rstrip()


def superscripts(unit: str) -> str:
    """``kg m^2`` as kg m²."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"(?:\^|\*\*)(-?\d+)", lambda match: match[1].translate(raised), unit)


def labelled(name: str, unit: str) -> str:
    """A name with its unit in brackets, for an axis; without brackets if the unit is empty."""
    return f"{name} [{superscripts(unit)}]" if unit else name


def uncertain(value: float, error: float) -> str:
    """``value ± error``, both rounded to two significant digits of the error; ``value`` alone if it has none."""
    if not (math.isfinite(value) and math.isfinite(error)):
        return number(value)
    if error == 0:
        return f"{number(value, 6)} ± 0"
    last = _exponent(error, 1) - 1
    first = max(_exponent(value, 15), last + 1) if value else last + 1
    if first - last >= _MOST_DIGITS:
        return f"{number(value, _MOST_DIGITS)} ± {error:.1e}"
    if last >= -_MOST_DECIMALS and first < _MOST_DECIMALS:
        return f"{_rounded(value, -last)} ± {_rounded(error, -last)}"
    scale = 10.0**first
    return f"({_rounded(value / scale, first - last)} ± {_rounded(error / scale, first - last)})e{first}"


def _exponent(value: float, digits: int) -> int:
    """Power of ten of the first digit, once rounded."""
    return int(f"{abs(value):.{digits}e}".partition("e")[2])


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"


def bounds(lower: float, upper: float) -> str:
    """The interval in words; empty if it is infinite."""
    if math.isinf(lower) and math.isinf(upper):
        return ""
    if math.isinf(upper):
        return f"≥ {number(lower, 6)}"
    if math.isinf(lower):
        return f"≤ {number(upper, 6)}"
    return f"[{number(lower, 6)}, {number(upper, 6)}]"


def remark(estimate: Estimate) -> str:
    """What is special about an estimate, above all why it has no standard error; mostly empty."""
    if estimate.fixed:
        return "fixed"
    side = ""
    if estimate.at_bound:
        side = "at lower bound" if estimate.estimate <= estimate.lower else "at upper bound"
    reason = "" if side and estimate.reason == AT_BOUND else estimate.reason
    return ", ".join(filter(None, [side, reason]))


def status_words(solution: Result) -> str:
    """How it ended, after how many iterations and how long, what was asked of it up to now included."""
    return _STATUS[solution.status].format(counted(solution.iterations, "iteration"), seconds(solution.timing.total))


def seconds(time: float) -> str:
    """A duration [s] with two significant digits, or whole seconds if it is long."""
    if 0 < time < 0.0995:
        return f"{number(1000 * time, 2)} ms"
    return f"{number(time, 2)} s" if time < 9.95 else f"{time:.0f} s"


def weight_words(dynamics: str, weight: float) -> str:
    """Where the weight of the equations of motion comes from, as a setting."""
    fixed = {"estimated": "noise estimated", "hard": "hard dynamics"}
    return fixed.get(dynamics) or f"state weight κ = {number(weight, 6)}"


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


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


def deviation(value: float, unit: str) -> str:
    """A standard deviation with its unit, of small angles in mrad."""
    return quantity(1000 * value, "mrad") if unit == "rad" and value < 0.1 else quantity(value, unit)
