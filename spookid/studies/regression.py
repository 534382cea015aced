"""Regression on inverse dynamics or energy, as robots are mostly identified: a yardstick for fits.

Positions are low-passed and differentiated, and what is left of the equations of motion is explained by least squares,
weighted by what a first pass leaves of each row (Gautier, Khalil, 1990; Gautier, ICRA 1997). It takes the filtered
motion for the true one: noise of positions biases its estimates, which no standard error here shows.

What a regression leaves behind: a folder with its numbers and its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.regressor import Balance
from spookid.report.export import load
from spookid.report.study_page import Answer
from spookid.results.result import Solution
from spookid.results.values import Value
from spookid.solvers.status import Status
from spookid.studies.job import Job
from spookid.studies.regression_rows import Balances, FilterName, Rows
from spookid.studies.regression_unknowns import errors, in_base, in_declared
from spookid.tables.table import Block, Table, Tabular, counted, superscripts, uncertain
from spookid.tables.table import number as written

Method: TypeAlias = Literal["inverse-dynamics", "energy"]
Unknowns: TypeAlias = Literal["base", "declared"]

_BALANCES: dict[str, Balance] = {"inverse-dynamics": "forces", "energy": "energy"}
"""By the names of methods."""


@dataclass(frozen=True, eq=False)
class Regression(Tabular):
    """Estimates of a regression and, on request, of a fit for comparison."""

    problem: str
    """Its name."""
    recordings: tuple[str, ...]
    method: Method
    filter: FilterName
    cutoff: float
    """Cutoff of the filter [Hz]."""
    unknowns: Unknowns
    names: tuple[str, ...]
    """Names of base parameters or of declared ones, (n,)."""
    units: tuple[str, ...]
    formulas: tuple[ca.SX, ...]
    """Expressions of Parameters: ``solution(formula)`` is the estimate of a fit."""
    estimates: Array
    """(n,)."""
    std_errs: Array
    """Of rows that are correlated over two periods of the cutoff (Newey, West, 1987); NaN where nothing is known, or at
    a bound, (n,)."""
    rows: tuple[str, ...]
    """Coordinates whose efforts are balanced, or the energy, (m,)."""
    errors: Array
    """Rms residual of each, of every sample [N m or N, or J over half a period of the cutoff]."""
    held: tuple[str, ...]
    """Free Parameters that are held at their initial values."""
    condition: float
    """Condition number of the columns, each over its length."""
    coefficients: Array
    """Coefficients of all quantities of the regressor, or of all free Parameters."""
    fit: tuple[Value, ...] = ()
    """Estimates of a solution for comparison, (n,); none without a solution."""

    @property
    def apart(self) -> Array:
        """Difference of regression and fit divided by the root of the sum of both variances, (n,). Both use the same
        data, so that the ratio is usually below one; NaN without an error."""
        if not self.fit:
            return np.full(len(self.names), np.nan)
        other = np.array([[one.estimate, one.std_err] for one in self.fit]).reshape(-1, 2)
        return np.asarray((self.estimates - other[:, 0]) / np.hypot(self.std_errs, other[:, 1]))

    def beside(self, solution: Solution) -> Regression:
        """Return the same regression with the estimates of a fit for comparison.

        Raises:
            ProblemError: if the solution does not know a parameter.
        """
        return replace(self, fit=tuple(solution(formula) for formula in self.formulas))

    def errors_on(self, problem: Problem) -> Array:
        """Root mean square residuals of these estimates on other recordings with the same filter, (m,).

        Args:
            problem: of the same model, with those recordings.

        Raises:
            ProblemError: if the problem has other unknowns, or as ``regress``.
        """
        balances = Balances(problem, _BALANCES[self.method], self.filter, self.cutoff)
        regressor, at = balances.regressor, self.coefficients
        if len(regressor.quantities if self.unknowns == "base" else regressor.free) != len(at):
            raise ProblemError(
                f"{problem.what} has other unknowns than {self.problem!r}; give the problem that was regressed"
            )
        if self.unknowns == "declared":
            return errors(balances.in_parameters(at, every=True))
        return errors([Rows(left + slopes @ at, slopes) for left, slopes in balances.linear(every=True)])

    def blocks(self) -> Sequence[Block]:
        """Title, estimates beside those of the fit, residuals of each equation, and remarks."""
        rows, kind = [], "base parameter" if self.unknowns == "base" else "parameter"
        for i, name in enumerate(self.names):
            own = uncertain(float(self.estimates[i]), float(self.std_errs[i]))
            fit = uncertain(self.fit[i].estimate, self.fit[i].std_err) if self.fit else ""
            apart = f"{self.apart[i]:+.1f}" if math.isfinite(self.apart[i]) else ""
            rows.append((own, fit, apart, superscripts(self.units[i]), name))
        heads = ("regression", "fit", "apart, standard errors", "unit", kind)
        errors = [(written(e, 3), row) for e, row in zip(self.errors, self.rows, strict=True)]
        left = Table(("left, rms", "of"), errors, left=(1,))
        how = "Savitzky–Golay" if self.filter == "savgol" else "Butterworth"
        what = "inverse dynamics" if self.method == "inverse-dynamics" else "energy"
        title = (
            f"Regression of {self.problem} by {what}: {counted(len(self.names), kind)}, {how} filter with cutoff "
            f"{self.cutoff:g} Hz, condition number {written(self.condition, 3)}."
        )
        remarks = ["Noise of positions and rates biases a regression; its standard errors include effort noise only."]
        remarks += [f"Held at their initial values: {', '.join(self.held)}."] if self.held else []
        return [title, Table(heads, rows, left=(3, 4)), left, *remarks]

    def records(self) -> Sequence[dict[str, Any]]:
        """One row per parameter; values of the fit are NaN without a fit."""
        fits = self.fit or [Value(math.nan, math.nan)] * len(self.names)
        return [
            {"parameter": name, "estimate": float(self.estimates[i]), "std_err": float(self.std_errs[i])}
            | {"unit": self.units[i], "fit": fits[i].estimate, "fit_std_err": fits[i].std_err}
            | {"apart": float(self.apart[i])}
            for i, name in enumerate(self.names)
        ]

    def __repr__(self) -> str:
        return f"<Regression of {self.problem!r}: {len(self.names)} by {self.method}>"


@checked
def regress(
    problem: Problem,
    solution: Solution | None = None,
    *,
    method: Method = "inverse-dynamics",
    filter: FilterName = "butterworth",
    unknowns: Unknowns = "base",
    cutoff: float | None = None,
    estimator: str | None = None,
) -> Regression:
    """Estimate parameters by least squares on filtered derivatives, along all recordings of the problem.

    Every coordinate needs a ``JointPosition``; its effort is that of its motors, none if there is no motor.

    Args:
        solution: a solution of the problem, to compare with.
        method: ``"inverse-dynamics"``, a row for each coordinate; ``"energy"``, one row: work of motors, less what
            kinetic energy has gained and all else has taken, which needs no accelerations.
        filter: ``"butterworth"`` of second order, forward and back, or ``"savgol"``, polynomials of fourth order over a
            window of the same cutoff (Savitzky, Golay).
        unknowns: ``"base"``: combinations that forces are linear in (``problem.base_parameters``), without bounds and
            priors, so that masses may come out negative; ``"declared"``: the problem's Parameters with their bounds and
            priors, by nonlinear least squares: physical inertias, gains, friction laws that no number is linear in.
        cutoff: cutoff of the filter [Hz]; default: the problem's own.
        estimator: None, because least squares have no process noise.

    Raises:
        ProblemError: for an estimator, loops, constraints, free bodies, friction that depends on loads; a coordinate
            whose position is not measured; recordings that are too short for the filter; efforts that are all unknown.
    """
    if estimator is not None:
        raise ProblemError(f"{problem.place}: regress: least squares have no estimator {estimator!r}; leave it out")
    cutoff = problem.cutoff if cutoff is None else cutoff
    if not 0 < cutoff < math.inf:
        raise ProblemError(f"{problem.place}: regress: cutoff is {shown(cutoff)}; give a positive frequency in Hz")
    balances = Balances(problem, _BALANCES[method], filter, float(cutoff))
    found = (in_base if unknowns == "base" else in_declared)(balances)
    names = tuple(recording.name for recording in problem.recordings)
    result = Regression(problem.name, names, method, filter, float(cutoff), unknowns, **found)
    return result if solution is None else result.beside(solution)


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``regress`` when run from the command line."""
    beside = None if job.source is None else load(job.source)
    choice = {name: getattr(job.arguments, name) for name in ("method", "filter", "unknowns")}

    def work() -> Answer:
        found = regress(job.problem, **choice)
        solution = job.fit(job.problem) if beside is None and not job.arguments.alone else beside
        if solution is None:
            return answer(found)
        lacking = f"{job.label}: the fit beside it is not converged ({solution.status.value})"
        return answer(found.beside(solution), *([] if solution.status is Status.CONVERGED else [lacking]))

    return work


def answer(found: Regression, *complaints: str) -> Answer:
    """With the file ``regression.txt``."""
    title, *blocks = found.blocks()
    names = ("recordings", "method", "filter", "cutoff", "unknowns", "condition", "held")
    facts = {name: getattr(found, name) for name in names}
    left = dict(zip(found.rows, found.errors.tolist(), strict=True))
    return Answer(
        found.problem,
        str(found),
        str(title),
        blocks,
        {**facts, "parameters": found.records(), "left": left},
        files={"regression.txt": f"{found}\n"},
        complaints=complaints,
    )
