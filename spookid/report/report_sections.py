"""Sections of the report: a Result in words, tables and pictures, ready to be laid out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spookid.report import report_plot, residual_plot
from spookid.report.summary import misfit, rms, weak_words
from spookid.report.wording import (
    bounds,
    deviation,
    is_seen,
    number,
    quantity,
    remark,
    seconds,
    superscripts,
    uncertain,
    weight_words,
)
from spookid.results.result import Estimate, Result
from spookid.results.sketch import Quantity, SensorOutline
from spookid.statistics.covariance import WEAK

_HALF_WIDTH = 1.96
"""Of a 95 % interval of the normal distribution, in standard errors."""
_LEFT, _RIGHT = 8.0, 128.0
"""Ends of the picture of an interval."""
_SAME = 1e-9
"""Numbers that differ by less than this share are drawn as one."""
_MOST_FITS = 8
"""Recordings whose fit is drawn."""
_LONGEST = 40
"""Characters of a formula."""
_BLUE, _ORANGE = (0, 114, 178), (230, 140, 0)


@dataclass(frozen=True)
class Table:
    """Cells of text; the first column names the rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


# --- parameters ---


def parameter(estimate: Estimate) -> dict[str, Any]:
    """A row of the table of parameters."""
    reach = _HALF_WIDTH * estimate.std_err
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


def mechanism(solution: Result) -> dict[str, Any] | None:
    """Tables of its parts, and a sketch if there is a motion to show it in; None if it is not known."""
    parts = solution.mechanism
    if parts is None:
        return None
    picture, caption = "", ""
    if solution.trajectories and np.isfinite(solution.trajectories[0].q).all(axis=(1, 2)).any():
        first = solution.trajectories[0]
        picture = report_plot.embedded(report_plot.mechanism(parts, first))
        caption = (
            f"At the start of {first.name}, later positions pale: dots are centres of mass, white triangles joints to "
            "the ground, white circles joints between bodies. Only what lies between is drawn, not the bodies' shapes."
        )
    return {
        "picture": picture,
        "caption": caption,
        "bodies": Table(("body", "coefficients"), [(b.name, _coefficients(b.quantities)) for b in parts.bodies]),
        "hinges": Table(
            ("joint", "joins", "coefficients"),
            [(h.name, f"{h.parent} and {h.child}", _coefficients(h.quantities)) for h in parts.hinges],
        ),
        "motors": Table(
            ("motor on", "input", "coefficients"),
            [(m.hinge, m.signal, _coefficients(m.quantities)) for m in parts.motors],
        ),
        "sensors": Table(
            ("signal", "what it is", "standard deviation"),
            [(s.signal, s.title, _sigma(s, solution)) for s in parts.sensors],
        ),
        "gravity": "(" + ", ".join(number(g) for g in parts.gravity) + ")",
    }


def _sigma(sensor: SensorOutline, solution: Result) -> str:
    """Its standard deviation as it was given, or as it was estimated."""
    if math.isfinite(sensor.sigma):
        return quantity(sensor.sigma, superscripts(sensor.unit))
    known = [n for n in solution.noise if n.kind == "sensor" and sensor.signal in n.names]
    return f"{deviation(known[0].std, superscripts(sensor.unit))}, estimated" if known else "estimated"


def noise(solution: Result) -> Table:
    """A row for each size of noise that was estimated or given with the parameters."""
    rows = []
    for n in solution.noise:
        moving, unit = n.kind == "disturbance", superscripts(n.unit)
        error = "given" if n.given else f"± {100 * n.error:.2g} %" if math.isfinite(n.error) else ""
        rows.append(
            (
                f"{'disturbance of ' if moving else ''}{', '.join(n.names)}",
                deviation(n.std, unit) if is_seen(n) else "none seen",
                error,
                f"{quantity(n.density, unit)}/√Hz" if moving and is_seen(n) else "",
                deviation(n.resolution, unit) if n.resolution > 0 else "",
            )
        )
    return Table(("noise", "standard deviation", "its error", "density", "resolution"), rows)


def _coefficients(quantities: Sequence[Quantity]) -> str:
    return "; ".join(map(_coefficient, quantities))


def _coefficient(q: Quantity) -> str:
    value = quantity(q.value, superscripts(q.unit), 4)
    if not q.formula:
        return f"{q.name} {value}"
    formula = q.formula if len(q.formula) <= _LONGEST else f"{q.formula[: _LONGEST - 3]}..."
    return f"{q.name} = {formula} = {value}"


def data(solution: Result) -> Table:
    """A row for each recording."""
    rows = []
    for t in solution.trajectories:
        counts = [np.count_nonzero(~np.isfinite(t.observed[:, i])) for i in range(len(t.signals))]
        gaps = ", ".join(f"{signal} {count:,}" for signal, count in zip(t.signals, counts, strict=True) if count)
        rows.append(
            (t.name, quantity(float(t.t[-1] - t.t[0]), "s", 6), f"{len(t.t):,}", ", ".join(t.signals), gaps or "none")
        )
    return Table(("recording", "duration", "steps", "signals", "missing samples"), rows)


# --- fit and residuals ---


def fits(solution: Result) -> dict[str, Any]:
    """A picture for each recording, and what is said if they are too many."""
    shown = solution.trajectories[:_MOST_FITS]
    more = len(solution.trajectories) - len(shown)
    return {
        "fits": [{"name": t.name, "picture": report_plot.embedded(report_plot.fit(solution, t), "png")} for t in shown],
        "omitted": f"{more} more recordings are in trajectory.npz." if more else "",
    }


def residuals(solution: Result) -> Table:
    """A row for each signal of each recording."""
    rows = []
    for t in solution.trajectories:
        for i, signal in enumerate(t.signals):
            error, unit = misfit(t, i), superscripts(t.units[i])
            known = error[np.isfinite(error)]
            if not known.size:
                rows.append((f"{signal}, {t.name}", "no samples", "", "", "", ""))
                continue
            rows.append(
                (
                    f"{signal}, {t.name}",
                    quantity(rms(error), unit),
                    quantity(float(np.max(np.abs(known))), unit),
                    quantity(float(np.mean(known)), unit),
                    number(report_plot.correlation([error], 1), 2),
                    f"{known.size:,}",
                )
            )
    return Table(("signal", "rms", "largest", "mean", "correlation with the next", "samples"), rows)


def residual_picture(solution: Result) -> str:
    """Distribution and autocorrelation; empty if there are no signals."""
    if not solution.trajectories or not solution.trajectories[0].signals:
        return ""
    return report_plot.embedded(report_plot.residuals(solution.trajectories))


def residual_structure(solution: Result) -> dict[str, str] | None:
    """Residuals against time, rate and value of their signals, and what is said of signals that are too many."""
    picture = residual_plot.figure(solution)
    if picture is None:
        return None
    count, most = len(solution.trajectories[0].signals), residual_plot.MOST_ROWS
    omitted = f" The first {most} of {count} signals." if count > most else ""
    return {"picture": report_plot.embedded(picture, "png"), "omitted": omitted}


def impulses(solution: Result) -> str:
    """How far the motion is from the mechanics, in a sentence."""
    if solution.dynamics == "hard":
        return "The dynamics are hard: the motion obeys the mechanics."
    lacking = np.concatenate([np.zeros(0), *(t.impulse_residual.ravel() for t in solution.trajectories)])
    known = np.abs(lacking[np.isfinite(lacking)])
    if not known.size:
        return "No impulse residuals are known."
    return (
        f"Impulses that the motion lacks to obey the mechanics: rms {number(rms(lacking), 3)}, largest "
        f"{number(float(np.max(known)), 3)} N s or N m s in a step."
    )


def cost(solution: Result) -> Table:
    """What the total is made of."""
    c, first = solution.cost, solution.history[0].cost if solution.history else solution.cost
    parts = [("state", c.state, first.state), ("observation", c.observation, first.observation)]
    if c.prior or first.prior:
        parts.append(("prior", c.prior, first.prior))
    rows = [(name, number(end), number(begin)) for name, end, begin in (*parts, ("total", c.total, first.total))]
    if solution.dynamics == "estimated":  # over sizes of noise that have changed since
        rows = [(name, end, "") for name, end, _ in rows]
    if math.isfinite(solution.log_likelihood):
        rows.append(("log-likelihood of the data, states integrated out", f"{solution.log_likelihood:.1f}", ""))
    return Table(("part", "at the solution", "at the initial guess"), rows)


# --- what the data know ---


def correlations(solution: Result) -> dict[str, Any] | None:
    """Cells with their colours; None if there are fewer than two parameters with standard errors."""
    knowledge = solution.sensitivities
    some = [
        i
        for i in range(len(knowledge.names))
        if np.isfinite(knowledge.covariance[i, i]) and knowledge.covariance[i, i] > 0
    ]
    if len(some) < 2:
        return None
    matrix = knowledge.correlation[np.ix_(some, some)]
    names = [knowledge.names[i] for i in some]
    return {
        "names": names,
        "rows": [
            {
                "name": name,
                "cells": [{"text": f"{round(value, 2) + 0.0:.2f}", "colour": _colour(float(value))} for value in row],
            }
            for name, row in zip(names, matrix, strict=True)
        ],
    }


def _colour(value: float) -> str:
    """White for 0, pale enough at 1 for dark text."""
    red, green, blue = _BLUE if value > 0 else _ORANGE
    share = 0.6 * min(abs(value), 1.0) if math.isfinite(value) else 0.0
    return "rgb({}, {}, {})".format(*(round(255 + share * (channel - 255)) for channel in (red, green, blue)))


def directions(solution: Result) -> list[dict[str, Any]]:
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


def weak(solution: Result) -> list[str]:
    """Sentences about what the data hardly see."""
    return [weak_words(direction) for direction in solution.sensitivities.weak]


# --- how it was found ---


def convergence(solution: Result) -> str:
    """The picture."""
    return report_plot.embedded(report_plot.convergence(solution))


def provenance(solution: Result, key: str, date: str) -> list[tuple[str, str]]:
    """Settings, sizes, times and versions."""
    size, times = solution.size, solution.timing
    facts = [
        ("Folder", f"{key}, written {date}"),
        ("Solver", f"{solution.backend}, {solution.iterations} accepted steps; {solution.detail}"),
        ("Time stepping", f"{solution.stepper}, step h = {number(solution.step, 6)} s"),
        ("Friction", solution.friction),
        ("Dynamics", weight_words(solution.dynamics, solution.state_weight)),
        (
            "Size",
            f"recordings {size.recordings:,}; steps {size.steps:,}; unknowns of states {size.states:,}; "
            f"parameters {size.parameters:,}; residuals {size.residuals:,}; "
            f"Jacobian nonzeros {size.jacobian_nonzeros:,}",
        ),
        (
            "Time",
            f"build {seconds(times.build)}, compile {seconds(times.compile)}, solve {seconds(times.solve)} (evaluate "
            f"{seconds(times.evaluate)}, factorize {seconds(times.factorize)}), analysis {seconds(times.analysis)}, "
            f"other {seconds(times.other)}",
        ),
        ("Versions", ", ".join(f"{name} {version}" for name, version in solution.versions.items())),
    ]
    if math.isfinite(solution.complementarity_residual):
        facts.append(("Complementarity", f"largest residual {number(solution.complementarity_residual, 2)}"))
    return facts
