"""Time-step audit: what the step adds to the estimates, apart from what the noise does.

All fits have the same samples, so that noise hardly parts them: their differences are the step's, and the standard
error says whether they matter. Where ``solve`` takes from its estimates what the step adds, it is these that are
audited: fits at h and h/2 make those of the step h, fits at h/2 and h/4 those of half of it.

What a time-step audit leaves behind: a folder with its numbers, its table and one figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.assembly.problem import Problem
from spookid.estimation import extrapolation
from spookid.estimation.solving import solve
from spookid.report import pictures
from spookid.report.conclusion import assumed
from spookid.report.pictures import BLUE, GREY, RED
from spookid.report.study_page import Answer
from spookid.results.result import Estimate, Solution
from spookid.solvers.status import Status
from spookid.studies.job import Job
from spookid.tables.table import Block, Listed, Table, Tabular, labelled, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


HALVINGS = 2
_FINE = 0.01
"""Where no standard error is known a step is fine if it adds less than 1 % of the value."""
_ORDERS = (1, 2, 3, 4)
_CONVERGED = 0.03
"""Standard errors that two fits may differ by because each ends where its next step promises 1e-4 of −log L."""
_ROUNDING = 1e-9
"""Share of an estimate that is rounding."""
_CLEAR = 5.0
"""Times that, from which on differences may show another order than that of the stepper."""

AuditFit = Callable[[Problem, Solution | None, bool], Solution]
"""Solves a problem, near a solution if there is one, and holds the noise of that one if told to."""


@dataclass(frozen=True)
class Drift(Listed):
    """How one parameter moves when the step is halved twice and the samples stay the same."""

    name: str
    unit: str
    estimates: tuple[float, ...]
    """At h, h/2, h/4."""
    std_err: float
    """What noise leaves open, at h/4; NaN if unknown."""
    order: float
    """Power of the step that the differences follow; NaN if none is seen, or nothing moves."""
    extrapolated: float
    """By Richardson's formula to step 0 with that order; the last estimate if nothing moves; NaN if no order is
    seen. Of what ``solve`` extrapolates the estimate that it gives with half the step."""
    solved: float = math.nan
    """The estimate that ``solve`` gives with the step h, where it takes from it what the step adds; else NaN."""

    @property
    def off(self) -> float:
        """What the step h adds to the estimate that ``solve`` gives; NaN if no order is seen."""
        return (self.solved if math.isfinite(self.solved) else self.estimates[0]) - self.extrapolated

    @property
    def steady(self) -> bool:
        """True if the estimates differ by no more than the ends of fits do."""
        blur = _blur(self.estimates, self.std_err)
        return all(abs(one - other) <= blur for one, other in pairwise(self.estimates))

    @property
    def fine(self) -> bool:
        """True if that, or without an order all differences, are less than a standard error."""
        moved = abs(self.off) if math.isfinite(self.off) else max(self.estimates) - min(self.estimates)
        return moved <= (self.std_err if math.isfinite(self.std_err) else _FINE * abs(self.estimates[-1]))


@dataclass(frozen=True, repr=False)
class Audit(Tabular):
    """Estimates at three steps, compared."""

    problem: str
    steps: tuple[float, ...]
    """h, h/2, h/4 [s]."""
    statuses: tuple[Status, ...]
    drifts: tuple[Drift, ...]
    stepper: str = ""
    """Name of the stepper."""
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""

    def __repr__(self) -> str:
        coarse = ", ".join(d.name for d in self.drifts if not d.fine)
        return (
            f"<Audit of {self.problem!r}, step {self.steps[0]:g} s: {f'too coarse for {coarse}' if coarse else 'fine'}>"
        )

    @property
    def verdict(self) -> str:
        """Whether the step is fine enough, in a sentence or two."""
        failed = [f"{h:g} s" for h, s in zip(self.steps, self.statuses, strict=True) if s is not Status.CONVERGED]
        if failed:
            return f"No verdict: the fit at step {' and '.join(failed)} did not converge."
        coarse = [d for d in self.drifts if not d.fine]
        if not coarse:
            adds = "it adds less than a standard error to each parameter."
            if any(math.isfinite(d.solved) for d in self.drifts):
                adds = "half of it changes no estimate of `solve`, which takes off what steps add, by a standard error."
            return f"The step {self.steps[0]:g} s is fine enough: {adds}"
        known = ", ".join(f"{d.name} ({_amount(d)})" for d in coarse if math.isfinite(d.off))
        if any(math.isfinite(d.solved) for d in coarse):
            names = ", ".join(f"{d.name} ({_amount(d)})" for d in coarse)
            return (
                f"The step {self.steps[0]:g} s is too coarse for {names}, by which half of it changes the estimates of "
                "`solve`; take half of it, and audit again."
            )
        other = "" if self.stepper == "variational" else ", the stepper Variational()"
        told = f"The step {self.steps[0]:g} s is too coarse for {known}; take a smaller one{other} or the extrapolated "
        rest = ", ".join(d.name for d in coarse if not math.isfinite(d.off))
        unknown = f"No order is seen in {rest}: the differences are not the step's alone, and tell no value at step 0."
        return " ".join([*([f"{told}values."] if known else []), *([unknown] if rest else [])])

    def table(self) -> str:
        """The comparison as text: what noise leaves open, and apart from it what the step adds."""
        return str(self)

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each parameter, and the verdict."""
        steps, solved = (f"h = {h:g} s" for h in self.steps), any(math.isfinite(d.solved) for d in self.drifts)
        last = ("solve, h", "step adds", "solve, h/2") if solved else ("step adds", "at step 0")
        table = Table(("parameter", *steps, "std err", "order", *last), [_cells(d, solved) for d in self.drifts])
        return [f"Time-step audit of {self.problem}", table, self.verdict]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        return [self._record(d) for d in self.drifts]

    def _record(self, drift: Drift) -> dict[str, Any]:
        estimates = {f"h = {h:g} s": value for h, value in zip(self.steps, drift.estimates, strict=True)}
        facts = {"std_err": drift.std_err, "order": drift.order, "step_adds": drift.off}
        return {
            "parameter": drift.name,
            "unit": drift.unit,
            **estimates,
            **facts,
            "extrapolated": drift.extrapolated,
            "solved": drift.solved,
            "fine": drift.fine,
        }


def audit(problem: Problem, fit: AuditFit | None = None) -> Audit:
    """Fit ``problem`` at its step h, at h/2 and at h/4, with the samples at the steps of h and one noise.

    The noise is that of h/4: at h it makes up for the step. Parameters that the data do not determine are left out.

    Args:
        fit: by default ``spookid.estimation.solving.solve`` with its own solver.
    """
    levels = [refined(problem, 2**i) for i in range(HALVINGS + 1)]
    solutions = _fits(levels, fit or (lambda one, near, hold: solve(one, warm_start=near, hold=hold)))
    last = solutions[-1]
    seen = [e for e in last.parameters.values() if e.at_bound or not (e.fixed or math.isnan(e.std_err))]
    drifts = tuple(_drift(e, tuple(s[e.name] for s in solutions), problem) for e in seen)
    statuses = tuple(s.status for s in solutions)
    steps = tuple(level.step for level in levels)
    return Audit(problem.name, steps, statuses, drifts, problem.stepper.name, assumed(levels[0]))


def _drift(last: Estimate, found: tuple[Estimate, ...], problem: Problem) -> Drift:
    """Of a parameter, by its estimates at h, h/2, h/4, the last of which has the standard error."""
    told = drift(last.name, last.unit, tuple(e.estimate for e in found), last.std_err, problem.scheme.order)
    if not problem.corrects:
        return told
    solved, finer = (extrapolation.beyond(coarse.estimate, fine).estimate for coarse, fine in pairwise(found))
    return replace(told, solved=solved, extrapolated=finer)


def refined(problem: Problem, times: int) -> Problem:
    """With steps that many times shorter, observed where the problem is, under the same random forces.

    Impulses of more steps add up to the same motion if the variance of each, one over the weight, is as much smaller.
    """
    # One estimator at all steps: that of the noise, unless hard dynamics are asked for.
    estimator = "noise" if problem.chooses_estimator else problem.estimator
    every = problem.every and times * problem.every
    finer = problem.with_(step=problem.step / times, every=every, step_correction=False, estimator=estimator)
    return finer.with_(state_weight=times * problem.weight) if problem.is_weighted else finer


def _fits(levels: list[Problem], fit: AuditFit) -> list[Solution]:
    """A solution at each step, all from the states of the first; those but the last with the noise of the last."""
    first = fit(levels[0], None, False)
    last = fit(levels[-1], first, False)
    if not first.noise:
        return [first, *(fit(level, first, False) for level in levels[1:-1]), last]
    near = first.changed(noise=last.noise)
    return [*(fit(level, near, True) for level in levels[:-1]), last]


def drift(name: str, unit: str, estimates: tuple[float, ...], std_err: float, expected: int) -> Drift:
    """Order and extrapolation from estimates at h, h/2, h/4.

    Args:
        expected: order of the stepper; another one must show clearly.
    """
    coarse, middle, fine = estimates
    blur = _blur(estimates, std_err)
    if abs(coarse - middle) <= blur and abs(middle - fine) <= blur:
        return Drift(name, unit, estimates, std_err, math.nan, fine)
    order = _order(coarse - middle, middle - fine, blur, expected)
    extrapolated = fine + (fine - middle) / (2**order - 1)  # NaN without an order
    return Drift(name, unit, estimates, std_err, order, extrapolated)


def _blur(estimates: Sequence[float], std_err: float) -> float:
    """What two fits may differ by because of where they end."""
    return _CONVERGED * (std_err if math.isfinite(std_err) else 0.0) + _ROUNDING * max(map(abs, estimates))


def _order(first: float, second: float, blur: float, expected: int) -> float:
    """The power of the step whose differences over h to h/2 and h/2 to h/4 these are, to a blur; NaN if none."""
    first, second = abs(first), second if first > 0 else -second

    def follows(order: int, slack: float) -> bool:
        low, high = (math.exp2(-order + side) for side in (-slack, slack))
        return low * (first - blur) - blur <= second <= high * (first + blur) + blur

    if follows(expected, 0.5):
        return float(expected)
    clear = min(first, second) > _CLEAR * blur
    return next((float(order) for order in _ORDERS if clear and follows(order, 0.25)), math.nan)


def _cells(drift: Drift, solved: bool) -> list[str]:
    """A row of the table, with what ``solve`` gives if that is told."""
    known = math.isfinite(drift.off)
    return [
        f"{drift.name} [{drift.unit}]" if drift.unit else drift.name,
        *(f"{e:.5g}" for e in drift.estimates),
        f"{drift.std_err:.1g}" if math.isfinite(drift.std_err) else "-",
        "-" if drift.steady else f"{drift.order:g}" if math.isfinite(drift.order) else "none seen",
        *([f"{drift.solved:.5g}"] if solved else []),
        _percent(drift) if known else "-",
        f"{drift.extrapolated:.5g}" if known else "-",
    ]


def _amount(drift: Drift) -> str:
    """What the step adds, and how many standard errors that is if there is one."""
    if not drift.std_err > 0:
        return _percent(drift)
    errors = abs(drift.off) / drift.std_err
    return f"{_percent(drift)}, {errors:.{0 if errors > 10 else 1}f} standard errors"


def _percent(drift: Drift) -> str:
    """What the step adds, in percent of the value, or as it is where the value is near zero."""
    if abs(drift.off) > abs(drift.extrapolated):
        return f"{drift.off:+.2g}"
    return f"{drift.off / drift.extrapolated:+.2%}" if drift.extrapolated else f"{drift.off:+.2g}"


_ENTRY = ("unit", "estimates", "std_err", "order", "extrapolated", "solved", "off", "fine")
_LEAST = 0.01
"""Half the range of a vertical axis at least, as a share of the value."""


def begin(job: Job) -> Callable[[], Answer]:
    """The study ``audit`` of a command."""

    def work() -> Answer:
        def fit(problem: Problem, near: Solution | None, hold: bool) -> Solution:
            return job.fit(problem, near, f"step {number(problem.step, 6)} s", hold)

        return answer(audit(job.problem, fit), job.label)

    return work


def answer(audit: Audit, label: str) -> Answer:
    """With the files ``audit.txt`` and ``audit.png``."""
    ends = [pair for pair in zip(audit.steps, audit.statuses, strict=True) if pair[1] is not Status.CONVERGED]
    failed = ", ".join(f"{number(step, 6)} s ({end.value})" for step, end in ends)
    return Answer(
        audit.problem,
        audit.table(),
        audit.verdict,
        audit.blocks()[1:2],
        {
            "steps": audit.steps,
            "statuses": audit.statuses,
            "parameters": {drift.name: {key: getattr(drift, key) for key in _ENTRY} for drift in audit.drifts},
            "verdict": audit.verdict,
        },
        audit.assumptions,
        [f"The fit at step {h:g} s ended as {end.value}." for h, end in ends],
        {"audit.txt": audit.table(), "audit.png": pictures.drawn(figure, audit)},
        [f"{label} is not converged with the step {failed}"] if failed else [],
    )


def figure(audit: Audit) -> Figure:
    """A panel a parameter: estimates against the step, the extrapolated value at 0, and what noise leaves open."""
    count = len(audit.drifts)
    result, panels = pictures.panels(count, 4, (3.4, 2.6), f"Time-step audit of {audit.problem}")
    for panel, drift in zip(panels, audit.drifts, strict=False):
        _draw(panel, audit.steps, drift)
    if not count:
        pictures.apart(panels[0], "No parameter is free.")
    for panel in panels[max(count - 4, 0) : count]:
        panel.set_xlabel("step [s]", fontsize=9)
    handles = [
        pictures.entry("estimate, step fine enough", BLUE, "o"),
        pictures.entry("estimate, the step shows", RED, "o"),
        pictures.entry("standard error, of noise alone", GREY, "|", markersize=12),
        pictures.entry("extrapolated to 0", "black", "D", markerfacecolor="white"),
    ]
    pictures.legend(result, handles, 2)
    return result


def _draw(panel: Axes, steps: tuple[float, ...], drift: Drift) -> None:
    colour = BLUE if drift.fine else RED
    known = math.isfinite(drift.order)
    if known:
        way = np.linspace(0.0, steps[0], 100)
        panel.plot(
            way,
            drift.extrapolated + (drift.estimates[0] - drift.extrapolated) * (way / steps[0]) ** drift.order,
            ":",
            color=colour,
        )
    if math.isfinite(drift.std_err):
        panel.errorbar(steps[-1], drift.estimates[-1], drift.std_err, fmt="none", ecolor=GREY, capsize=4)
    panel.plot(steps, drift.estimates, "o", color=colour, markersize=5)
    panel.plot(0.0, drift.extrapolated, "D", color=colour, markersize=6, mfc="white", clip_on=False, zorder=3)
    panel.set_title(labelled(drift.name, drift.unit), fontsize=10, loc="left", parse_math=False)
    order = f"order {drift.order:g}" if known else "steady" if drift.steady else "no order seen"
    panel.set_title(order, fontsize=8, loc="right", color=GREY)
    panel.set_xlim(-0.06 * steps[0], 1.08 * steps[0])
    panel.set_xticks([0.0, *sorted(steps)], ["0", *(number(step) for step in sorted(steps))])
    panel.grid(alpha=0.3)
    panel.margins(y=0.15)
    low, high = panel.get_ylim()
    if math.isfinite(drift.estimates[-1]):  # what moves by less than two per cent looks as flat as it is
        middle, half = (low + high) / 2, max((high - low) / 2, _LEAST * abs(drift.estimates[-1]))
        panel.set_ylim(middle - half, middle + half)
    pictures.round_ticks(panel.yaxis, 4)
