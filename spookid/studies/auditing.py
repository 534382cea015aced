"""Time-step audit: the discretization bias of the estimates, apart from the effect of noise.

All fits use the same samples and nearly the same noise, so that their differences come from the step. The standard
error shows whether they matter. If ``solve`` extrapolates its estimates to step zero, these are audited: those of the
step h against those of half of it, which fits at h/2 and h/4 give.

The folder of an audit holds its numbers, its table and one figure.
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
from spookid.kernels.precision import HALF_DIGITS
from spookid.report import pictures
from spookid.report.pictures import BLUE, GREY, RED
from spookid.report.study_page import Answer
from spookid.results.result import Estimate, Solution
from spookid.solvers.status import Status
from spookid.statistics.search import SETTLED
from spookid.studies.job import Job
from spookid.studies.variants import Chosen, Fit, estimator_line, fitting
from spookid.tables.table import (
    COLUMNS,
    ESTIMATED,
    Block,
    Listed,
    Table,
    Tabular,
    as_text,
    counted,
    estimated,
    labelled,
    number,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_FINE = 0.01
"""Where no standard error is known a step is fine if it adds less than 1 % of the value."""
_CLEAR = 5.0
"""Times that, from which differences may show another order than that of the stepper."""


@dataclass(frozen=True)
class Drift(Listed):
    """Change of one estimate when the time step is halved twice with the same samples."""

    name: str
    unit: str
    estimates: tuple[float, ...]
    """Estimates at h, h/2, h/4."""
    std_err: float
    """Standard error that ``solve`` gives, or at h/4 if a bound holds it there; NaN if unknown."""
    order: float
    """Power of the step that the differences follow; NaN if there is none, or nothing moves."""
    extrapolated: float
    """Richardson extrapolation to step 0 with that order; the last estimate if nothing moves; NaN without an order. If
    ``solve`` extrapolates: its estimate with half the step."""
    solved: float = math.nan
    """The estimate that ``solve`` gives with the step h; NaN with a given `state_weight`, where it is the first one."""

    @property
    def off(self) -> float:
        """Discretization bias of the estimate of ``solve`` with step h; NaN without an order of convergence."""
        return (self.solved if math.isfinite(self.solved) else self.estimates[0]) - self.extrapolated

    @property
    def steady(self) -> bool:
        """True if the estimates differ by no more than the solver's tolerance."""
        blur = _blur(self.estimates, self.std_err)
        return all(abs(one - other) <= blur for one, other in pairwise(self.estimates))

    @property
    def fine(self) -> bool:
        """True if the bias is below a standard error; or all differences, without an order of convergence."""
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
    corrected: bool = False
    """True if ``solve`` extrapolates its estimates to step zero."""

    def __repr__(self) -> str:
        coarse = ", ".join(d.name for d in self.drifts if not d.fine)
        return (
            f"<Audit of {self.problem!r}, step {self.steps[0]:g} s: {f'too coarse for {coarse}' if coarse else 'fine'}>"
        )

    @property
    def verdict(self) -> str:
        """Sentence that states if the time step is small enough."""
        failed = [f"{h:g} s" for h, s in zip(self.steps, self.statuses, strict=True) if s is not Status.CONVERGED]
        if failed:
            return f"no verdict: the fit with step {' and '.join(failed)} did not converge."
        coarse = [d for d in self.drifts if not d.fine]
        if not coarse:
            bias = "the bias of each parameter is less than its standard error."
            if self.corrected:
                bias = "with half the step, no estimate of `solve` changes by a standard error."
            return f"the time step {self.steps[0]:g} s is fine enough: {bias}"
        known = ", ".join(f"{d.name} ({_amount(d)})" for d in coarse if math.isfinite(d.off))
        if self.corrected:
            names = ", ".join(f"{d.name} ({_amount(d)})" for d in coarse)
            return (
                f"the time step {self.steps[0]:g} s is too coarse for {names}. The table shows the changes with half "
                "the step. Halve the step, and audit again."
            )
        other = "" if self.stepper == "variational" else ", the stepper Variational()"
        found = (
            f"the time step {self.steps[0]:g} s is too coarse for {known}; use a smaller step{other} or extrapolated "
            "values."
        )
        rest = ", ".join(d.name for d in coarse if not math.isfinite(d.off))
        unknown = f"Estimates of {rest} show no order of convergence in the step: no extrapolation to step 0."
        return " ".join([*([found] if known else []), *([unknown] if rest else [])])

    def table(self) -> str:
        """The comparison as text."""
        return as_text(self.page(verbose=True))

    def blocks(self) -> Sequence[Block]:
        """Verdict, a table with a row for each parameter, and facts about the fits."""
        return self.page()

    def page(self, verbose: bool = False) -> list[Block]:
        """Return the text that the command prints; ``verbose`` adds the estimates at all three steps."""
        parts = counted(len(self.drifts), "parameter")
        facts = f"{parts}, {self.stepper or 'stepper'}, h = {self.steps[0]:g} s, h/2 and h/4"
        head, rows = ("parameter", *ESTIMATED[:3], "unit", "bias of h", "/ std. error", "order"), []
        for d in self.drifts:
            value = d.solved if math.isfinite(d.solved) else d.estimates[0]
            name, estimate, error, relative, *_ = estimated(d.name, value, d.std_err, d.unit)
            order = "-" if d.steady else f"{d.order:g}" if math.isfinite(d.order) else "none"
            sigmas = f"{abs(d.off) / d.std_err:.2f}" if d.std_err > 0 and math.isfinite(d.off) else ""
            bias = _percent(d) if math.isfinite(d.off) else "-"
            rows.append((name, estimate, error, relative, d.unit, bias, sigmas, order))
        page: list[Block] = [f"{self.problem}: {self.verdict}", Table(head, rows, left=(0, 4))]
        if verbose:
            steps, solved = (f"h = {h:g} s" for h in self.steps), any(math.isfinite(d.solved) for d in self.drifts)
            last = (*["solve, h"] * solved, "bias of h", "solve, h/2" if self.corrected else "at step 0")
            page.append(Table(("parameter", *steps, *last), [_cells(d, solved) for d in self.drifts]))
        return [*page, *estimator_line(self.assumptions), facts]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        return [
            {"parameter": d.name, "unit": d.unit}
            | {f"h = {h:g} s": value for h, value in zip(self.steps, d.estimates, strict=True)}
            | {"std_err": d.std_err, "order": d.order, "step_adds": d.off}
            | {"extrapolated": d.extrapolated, "solved": d.solved, "fine": d.fine}
            for d in self.drifts
        ]


def audit(problem: Problem, fit: Fit | None = None) -> Audit:
    """Fit ``problem`` as ``solve`` does, and with steps h, h/2 and h/4 for the same estimator, samples and noise.

    The noise is that of h/4: at h it makes up for the step. Parameters that the data do not determine are left out.

    Args:
        fit: a function that fits a problem; default: ``spookid.estimation.solving.solve``.
    """
    fit = fit or fitting()

    def at(level: Problem, near: Solution | None, hold: bool = False) -> Solution:
        return fit(level, near, f"step {number(level.step, 6)} s", hold)

    first = at(problem, None)
    chosen, hold = Chosen.by(first).posed(problem), bool(first.noise)
    levels = [refined(chosen, 2**i) for i in range(3)]
    last = at(levels[-1], first)
    near = first.changed(noise=last.noise) if hold else first
    found = [at(levels[0], near, hold) if chosen.estimates_noise else first, at(levels[1], near, hold), last]
    seen = [e for e in last.parameters.values() if e.at_bound or not (e.fixed or math.isnan(e.std_err))]
    drifts = tuple(_drift(e, tuple(s[e.name] for s in found), first[e.name], chosen) for e in seen)
    statuses = tuple(s.status for s in (first if first.status is not Status.CONVERGED else found[0], *found[1:]))
    steps, words = tuple(level.step for level in levels), Chosen.by(first).assumed(chosen)
    return Audit(problem.name, steps, statuses, drifts, problem.stepper.name, words, chosen.corrects)


def _drift(last: Estimate, found: tuple[Estimate, ...], solved: Estimate, problem: Problem) -> Drift:
    """Of a parameter, by its estimates at h, h/2, h/4."""
    std_err = last.std_err if math.isnan(solved.std_err) else solved.std_err
    told = drift(last.name, last.unit, tuple(e.estimate for e in found), std_err, problem.scheme.order)
    if not problem.estimates_noise:
        return told
    finer = extrapolation.beyond(found[1].estimate, found[2]).estimate if problem.corrects else told.extrapolated
    return replace(told, solved=solved.estimate, extrapolated=finer)


def refined(problem: Problem, times: int) -> Problem:
    """Return the problem with shorter time steps, the same samples and the same process-noise intensity.

    Impulses of more steps add up to the same motion if the variance of each, one over the weight, is as much smaller.
    """
    every = problem.every and times * problem.every
    finer = problem.with_(step=problem.step / times, every=every, step_correction=False)
    return finer.with_(state_weight=times * problem.weight) if problem.is_weighted else finer


def drift(name: str, unit: str, estimates: tuple[float, ...], std_err: float, expected: int) -> Drift:
    """Order of convergence and extrapolated value, from estimates at steps h, h/2, h/4.

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
    rounding = HALF_DIGITS * max(map(abs, estimates))
    left = 2 * math.sqrt(2 * SETTLED)  # standard errors, of two fits that end where −log L promises so little
    return rounding + (left * std_err if math.isfinite(std_err) else 0.0)


def _order(first: float, second: float, blur: float, expected: int) -> float:
    """The power of the step whose differences over h to h/2 and h/2 to h/4 these are, to a blur; NaN if none."""
    first, second = abs(first), second if first > 0 else -second

    def follows(order: float, slack: float) -> bool:
        low, high = (math.exp2(-order + side) for side in (-slack, slack))
        return low * (first - blur) - blur <= second <= high * (first + blur) + blur

    if follows(expected, 0.5):
        return float(expected)
    if min(first, second) <= _CLEAR * blur:
        return math.nan
    order = float(round(math.log2(first / second)))
    return order if order >= 1 and follows(order, 0.25) else math.nan


def _cells(drift: Drift, solved: bool) -> list[str]:
    """A row of the table, with what ``solve`` gives if that is shown."""
    known = math.isfinite(drift.off)
    return [
        labelled(drift.name, drift.unit),
        *(f"{e:.5g}" for e in drift.estimates),
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
    """The bias of the step in percent of the value, or absolute if the value is near zero."""
    if abs(drift.off) > abs(drift.extrapolated) or not drift.extrapolated:
        return f"{drift.off:+.2g}"
    percent = 100 * drift.off / drift.extrapolated
    return f"{percent:+.2g} %" if abs(percent) >= 0.005 else "0 %"


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``audit`` when run from the command line."""

    def work() -> Answer:
        job.expect(4)
        return answer(audit(job.problem, job.fit), job.label, job.columns)

    return work


def answer(audit: Audit, label: str, columns: int = COLUMNS) -> Answer:
    """Result of the study, with the files ``audit.txt`` and ``audit.png``."""
    facts = ("unit", "estimates", "std_err", "order", "extrapolated", "solved", "off", "fine")
    ends = [pair for pair in zip(audit.steps, audit.statuses, strict=True) if pair[1] is not Status.CONVERGED]
    failed = ", ".join(f"{number(step, 6)} s ({end.value})" for step, end in ends)
    return Answer(
        audit.problem,
        as_text(audit.blocks(), columns),
        f"{audit.problem}: {audit.verdict}",
        [block for block in audit.blocks() if isinstance(block, Table)],
        {
            "steps": audit.steps,
            "statuses": audit.statuses,
            "parameters": {drift.name: {key: getattr(drift, key) for key in facts} for drift in audit.drifts},
            "verdict": audit.verdict,
        },
        audit.assumptions,
        [f"The fit with step {h:g} s did not converge ({end.value})." for h, end in ends],
        {"audit.txt": audit.table(), "audit.png": pictures.drawn(figure, audit)},
        [f"{label} is not converged with the step {failed}"] if failed else [],
    )


def figure(audit: Audit) -> Figure:
    """Draw one panel per parameter: estimate against time step, extrapolated value at 0, and standard error."""
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
        middle, half = (low + high) / 2, max((high - low) / 2, _FINE * abs(drift.estimates[-1]))
        panel.set_ylim(middle - half, middle + half)
    pictures.round_ticks(panel.yaxis, 4)
