"""Time-step audit: do the estimates belong to the mechanism, or to the step they were found with?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spookid.problem import Problem
from spookid.solution import Solution
from spookid.solvers.status import Status

HALVINGS = 2
_FINE = 0.01
"""A step is fine if it is off by less than 1 % of the value, or by less than two standard errors."""
_ORDERS = (0.5, 4.0)
"""Orders outside this range are no orders: noise or a parameter that the data do not see."""


@dataclass(frozen=True)
class Drift:
    """How one parameter moves when the step is halved twice."""

    name: str
    unit: str
    estimates: tuple[float, ...]
    """At h, h/2, h/4."""
    std_err: float
    """At h; NaN if unknown."""
    order: float
    """log₂ of the ratio of successive differences; NaN where they show none."""
    extrapolated: float
    """By Richardson's formula to step 0 with that order; the last estimate where there is none."""

    @property
    def off(self) -> float:
        """What the step h adds to the estimate."""
        return self.estimates[0] - self.extrapolated

    @property
    def fine(self) -> bool:
        """True if that is less than 1 % of the value or two standard errors."""
        error = 2 * self.std_err if np.isfinite(self.std_err) else 0.0
        return bool(abs(self.off) <= max(_FINE * abs(self.extrapolated), error))


@dataclass(frozen=True)
class Audit:
    """Estimates at three steps, compared."""

    problem: str
    steps: tuple[float, ...]
    """h, h/2, h/4 [s]."""
    statuses: tuple[Status, ...]
    drifts: tuple[Drift, ...]
    stepper: str = ""
    """Name of the stepper."""

    @property
    def verdict(self) -> str:
        """Whether the step is fine enough, in a sentence."""
        failed = [f"{h:g} s" for h, s in zip(self.steps, self.statuses, strict=True) if s is not Status.CONVERGED]
        if failed:
            return f"No verdict: the fit at step {' and '.join(failed)} did not converge."
        coarse = [d for d in self.drifts if not d.fine]
        if not coarse:
            return f"The step {self.steps[0]:g} s is fine enough: it moves no parameter by 1 % or two standard errors."
        other = "" if self.stepper == "variational" else ", the stepper Variational()"
        worst = ", ".join(f"{d.name} ({_percent(d)})" for d in coarse)
        return (
            f"The step {self.steps[0]:g} s is too coarse for {worst}; take a smaller one{other} "
            "or the extrapolated values."
        )

    def table(self) -> str:
        """The comparison as text."""
        head = ["parameter", *(f"h = {h:g} s" for h in self.steps), "std err", "order", "extrapolated", "off at h"]
        rows = [
            [
                f"{d.name} [{d.unit}]" if d.unit else d.name,
                *(f"{e:.5g}" for e in d.estimates),
                f"{d.std_err:.1g}" if np.isfinite(d.std_err) else "-",
                f"{d.order:.1f}" if np.isfinite(d.order) else "-",
                f"{d.extrapolated:.5g}",
                _percent(d),
            ]
            for d in self.drifts
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]]
        return "\n".join([f"Time-step audit of {self.problem}", "", *lines, "", self.verdict])


def audit(problem: Problem, fit: Callable[[float], Solution] | None = None) -> Audit:
    """Fit ``problem`` at its step h, at h/2 and at h/4.

    Args:
        fit: solves the problem with a step; by default ``problem.solve(step=step)``.
    """
    steps = tuple(problem.step / 2**i for i in range(HALVINGS + 1))
    solutions = [problem.solve(step=step) if fit is None else fit(step) for step in steps]
    first = solutions[0]
    names = [name for name, parameter in first.parameters.items() if not parameter.fixed]
    drifts = tuple(
        drift(name, first[name].unit, tuple(s[name].estimate for s in solutions), first[name].std_err) for name in names
    )
    return Audit(problem.name, steps, tuple(s.status for s in solutions), drifts, problem.stepper.name)


def drift(name: str, unit: str, estimates: tuple[float, ...], std_err: float) -> Drift:
    """Order and extrapolation from estimates at h, h/2, h/4."""
    coarse, middle, fine = estimates
    if middle == fine or (coarse - middle) / (middle - fine) <= 0:
        return Drift(name, unit, estimates, std_err, float("nan"), fine)
    order = float(np.log2((coarse - middle) / (middle - fine)))
    if not _ORDERS[0] <= order <= _ORDERS[1]:
        return Drift(name, unit, estimates, std_err, float("nan"), fine)
    return Drift(name, unit, estimates, std_err, order, fine + (fine - middle) / (2**order - 1))


def _percent(drift: Drift) -> str:
    """What the step adds, in percent of the value, or as it is where the value is near zero."""
    if abs(drift.off) > abs(drift.extrapolated):
        return f"{drift.off:+.2g}"
    return f"{drift.off / drift.extrapolated:+.2%}" if drift.extrapolated else f"{drift.off:+.2g}"
