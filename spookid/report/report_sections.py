"""Sections of the report: a Solution in words, tables and pictures, ready to be laid out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from spookid.report import diagnostic_plots, report_plot, summary
from spookid.report.summary import weak_sentences
from spookid.results.result import Estimate, Noise, Solution
from spookid.results.trajectory import Trajectory, misfit, rms
from spookid.results.values import Quantity, SensorOutline
from spookid.results.wording import is_seen, remark, told
from spookid.statistics.weak_directions import WEAK
from spookid.tables.table import HALF_WIDTH, Table, bounds, deviation, number, quantity, superscripts, uncertain

_LEFT, _RIGHT = 8.0, 128.0
"""Ends of the picture of an interval."""
_SAME = 1e-9
"""Numbers that differ by less than this share are drawn as one."""
_MOST_FITS = 8
"""Recordings whose fit is drawn."""
_LONGEST = 40
"""Characters of a formula."""
_BLUE, _ORANGE = (0, 114, 178), (230, 140, 0)


# --- parameters ---


def parameter(estimate: Estimate) -> dict[str, Any]:
    """A row of the table of parameters."""
    reach = HALF_WIDTH * estimate.std_err
    ends = (estimate.estimate - reach, estimate.estimate + reach)
    known = all(map(math.isfinite, ends))
    return {
        "name": estimate.name,
        "value": uncertain(estimate.estimate, estimate.std_err),
        "unit": superscripts(estimate.unit),
        "remark": remark(estimate),
        "interval": f"{_digits(ends[0], reach)} to {_digits(ends[1], reach)}" if known else "",
        "bar": _bar(estimate, ends if known else (estimate.estimate, estimate.estimate)),
        "guess": number(estimate.initial, 6),
        "bounds": bounds(estimate.lower, estimate.upper),
    }


def _digits(value: float, scale: float) -> str:
    """A number with two digits more than its scale needs."""
    if not (value and scale):
        return number(value)
    return number(value, int(np.clip(math.ceil(math.log10(abs(value) / scale)) + 2, 2, 9)))


def _bar(estimate: Estimate, ends: tuple[float, float]) -> dict[str, Any] | None:
    """Places in the picture of an interval; None if there is nothing to place."""
    shown = [estimate.estimate, estimate.initial, *ends]
    if not all(map(math.isfinite, shown)):
        return None
    low, high = min(shown), max(shown)
    if high - low <= _SAME * max(abs(low), abs(high)):
        return None

    def at(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low), 1)

    walls = [edge for edge in (estimate.lower, estimate.upper) if low <= edge <= high]
    return {
        "estimate": at(estimate.estimate),
        "guess": at(estimate.initial),
        "low": at(ends[0]) if ends[0] < ends[1] else None,
        "width": max(round(at(ends[1]) - at(ends[0]), 1), 1.0),
        "walls": [at(edge) for edge in walls],
    }


# --- the mechanism and the data ---


def mechanism(solution: Solution) -> dict[str, Any] | None:
    """Tables of its parts, and a sketch if there is a motion to show it in; None if it is not known."""
    parts = solution.mechanism
    if parts is None:
        return None
    moving = [t for t in solution.trajectories[:1] if np.isfinite(t.q).all(axis=(1, 2)).any()]
    bodies = [(b.name, _coefficients(b.quantities)) for b in parts.bodies]
    hinges = [(h.name, f"{h.parent} and {h.child}", _coefficients(h.quantities)) for h in parts.hinges]
    ties = [(f"{c.name}, {c.kind}", " and ".join(c.ties), _coefficients(c.quantities)) for c in parts.constraints]
    motors = [(m.hinge, m.signal, _coefficients(m.quantities)) for m in parts.motors]
    sensors = [(s.signal, s.title, _sigma(s, solution)) for s in parts.sensors]
    return {
        "pictures": {t.name: report_plot.embedded(report_plot.mechanism(parts, t)) for t in moving},
        "bodies": Table(("body", "coefficients"), bodies),
        "hinges": Table(("joint", "joins", "coefficients"), hinges),
        "constraints": Table(("constraint", "ties", "coefficients"), ties),
        "motors": Table(("motor on", "input", "coefficients"), motors),
        "sensors": Table(("signal", "what it is", "standard deviation"), sensors),
        "gravity": "(" + ", ".join(number(g) for g in parts.gravity) + ")",
    }


def _sigma(sensor: SensorOutline, solution: Solution) -> str:
    """Its standard deviation as it was given, or as it was estimated."""
    if math.isfinite(sensor.sigma):
        return quantity(sensor.sigma, superscripts(sensor.unit))
    known = [n for n in solution.noise if n.kind == "sensor" and sensor.signal in n.names]
    return f"{deviation(known[0].std, superscripts(sensor.unit))}, estimated" if known else "estimated"


def noise(solution: Solution) -> Table:
    """A row for each size of noise that was estimated or given with the parameters."""
    rows = [_noise(size) for size in told(solution.noise)]
    return Table(("noise", "standard deviation", "its error", "density", "resolution"), rows)


def _noise(size: Noise) -> tuple[str, ...]:
    moving, unit = size.kind == "disturbance", superscripts(size.unit)
    name = f"{'disturbance of ' if moving else ''}{', '.join(size.names)}"
    std = deviation(size.std, unit) if is_seen(size) else "none seen"
    error = "given" if size.given else f"± {100 * size.error:.2g} %" if math.isfinite(size.error) else ""
    density = f"{quantity(size.density, unit)}/√Hz" if moving and is_seen(size) else ""
    return name, std, error, density, deviation(size.resolution, unit) if size.resolution > 0 else ""


def _coefficients(quantities: Sequence[Quantity]) -> str:
    return "; ".join(map(_coefficient, quantities))


def _coefficient(q: Quantity) -> str:
    value = quantity(q.value, superscripts(q.unit), 4)
    if not q.formula:
        return f"{q.name} {value}"
    formula = q.formula if len(q.formula) <= _LONGEST else f"{q.formula[: _LONGEST - 3]}..."
    return f"{q.name} = {formula} = {value}"


def data(solution: Solution) -> Table:
    """A row for each recording."""
    rows = []
    for t in solution.trajectories:
        counts = zip(t.signals, t.samples.sum(axis=0), strict=True)
        samples = ", ".join(f"{signal} {count:,.0f}" for signal, count in counts)
        rows.append((t.name, quantity(float(t.t[-1] - t.t[0]), "s", 6), f"{len(t.t):,}", samples))
    return Table(("recording", "duration", "steps", "samples"), rows)


# --- fit and residuals ---


def fits(solution: Solution) -> dict[str, Any]:
    """A picture for each recording, and what is said if they are too many."""
    shown = solution.trajectories[:_MOST_FITS]
    more = len(solution.trajectories) - len(shown)
    return {
        "fits": [{"name": t.name, "picture": report_plot.embedded(report_plot.fit(solution, t), "png")} for t in shown],
        "omitted": f"{more} more recordings are in trajectory.npz." if more else "",
    }


def residuals(solution: Solution) -> Table:
    """A row for each signal of each recording."""
    head = ("signal", "rms", "largest", "mean", "correlation with the next", "samples")
    return Table(head, [_residuals(t, i) for t in solution.trajectories for i in range(len(t.signals))])


def _residuals(trajectory: Trajectory, column: int) -> tuple[str, ...]:
    error, unit = misfit(trajectory, column), superscripts(trajectory.units[column])
    known, name = error[np.isfinite(error)], f"{trajectory.signals[column]}, {trajectory.name}"
    if not known.size:
        return name, "no samples", "", "", "", ""
    sizes = (rms(error), float(np.max(np.abs(known))), float(np.mean(known)))
    next_one = number(report_plot.correlation([error], 1), 2)
    return name, *(quantity(size, unit) for size in sizes), next_one, f"{known.size:,}"


def residual_picture(solution: Solution) -> str:
    """Distribution and autocorrelation; empty if there are no signals."""
    if not solution.trajectories or not solution.trajectories[0].signals:
        return ""
    return report_plot.embedded(report_plot.residuals(solution.trajectories))


def residual_structure(solution: Solution) -> dict[str, str] | None:
    """Residuals against time, rate and value of their signals, and what is said of signals that are too many."""
    picture = diagnostic_plots.residual_figure(solution)
    if picture is None:
        return None
    count, most = len(solution.trajectories[0].signals), diagnostic_plots.MOST_ROWS
    omitted = f" The first {most} of {count} signals." if count > most else ""
    return {"picture": report_plot.embedded(picture, "png"), "omitted": omitted}


def impulses(solution: Solution) -> str:
    """How far the motion is from the mechanics, in a sentence."""
    if solution.holds_dynamics:
        return "The dynamics are hard: the motion obeys the mechanics."
    lacking = np.concatenate([np.zeros(0), *(t.impulse_residual.ravel() for t in solution.trajectories)])
    known = np.abs(lacking[np.isfinite(lacking)])
    if not known.size:
        return "No impulse residuals are known."
    return (
        f"Impulses that the motion lacks to obey the mechanics: rms {number(rms(lacking), 3)}, largest "
        f"{number(float(np.max(known)), 3)} N s or N m s in a step."
    )


# --- what the data know ---


def correlations(solution: Solution) -> dict[str, Any] | None:
    """Names, and rows of texts with their colours; None if fewer than two parameters have standard errors."""
    knowledge = solution.sensitivities
    errors = knowledge.standard_errors
    some = np.flatnonzero(np.isfinite(errors) & (errors > 0))
    if len(some) < 2:
        return None
    names, rows = [knowledge.names[i] for i in some], []
    for name, values in zip(names, knowledge.correlation[np.ix_(some, some)].tolist(), strict=True):
        cells = []
        for value in values:  # white for 0, pale enough at 1 for dark text
            share = 0.6 * min(abs(value), 1.0) if math.isfinite(value) else 0.0
            colour = ", ".join(f"{round(255 + share * (c - 255))}" for c in (_BLUE if value > 0 else _ORANGE))
            cells.append((f"{round(value, 2) + 0.0:.2f}", f"rgb({colour})"))
        rows.append((name, cells))
    return {"names": names, "rows": rows}


def directions(solution: Solution) -> list[dict[str, Any]]:
    """Singular values with bars on a logarithmic scale from 0.1 or the smallest."""
    values = [float(value) for value in solution.sensitivities.singular_values]
    known = [value for value in values if math.isfinite(value) and value > 0]
    if not known:
        return [{"value": number(value, 3), "percent": 0, "weak": True} for value in values]
    low, high = min(0.1, max(min(known), 1e-6)), max(*known, 10.0)

    def percent(value: float) -> int:
        if not (math.isfinite(value) and value > low):
            return 0
        return round(100 * math.log(value / low) / math.log(high / low))

    return [{"value": number(v, 3), "percent": percent(v), "weak": not v > WEAK} for v in values]


# --- how it was found ---


def provenance(solution: Solution, key: str, date: str) -> list[tuple[str, str]]:
    """Where it comes from; sizes, times, settings and versions."""
    facts = [
        ("Folder", f"{key}, written {date}"),
        ("Solver", f"{solution.backend}, {solution.iterations} accepted steps; {solution.detail}"),
        *summary.work(solution),
    ]
    if math.isfinite(solution.complementarity_residual):
        facts.append(("Complementarity", f"largest residual {number(solution.complementarity_residual, 2)}"))
    return facts


SECTIONS: Mapping[str, Callable[[Solution], Any]] = {
    **{one.__name__: one for one in (mechanism, data, residuals, residual_picture, residual_structure, noise)},
    **{one.__name__: one for one in (impulses, correlations, directions)},
    "disturbances": diagnostic_plots.pictured,
    "weak": lambda solution: weak_sentences(solution.sensitivities),
    "convergence": lambda solution: report_plot.embedded(report_plot.convergence(solution)),
}
"""Those that need nothing but a Solution; the page knows them by these names."""
