"""Whether what leaves a window is as large as the noise says.

What a window knows of parameters, and why it does not know some.

What is known after an update: parameters and the newest state, with their errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.scipy_parts import special
from spookid.results.findings import Finding
from spookid.solvers.fixed_lag import FixedLag
from spookid.statistics.sensitivities import AT_BOUND, NO_DIGITS, UNOBSERVED
from spookid.tables.table import Block, Table, Tabular, uncertain
from spookid.transcription.faults import fault
from spookid.transcription.transcription import Chain, Point, Transcription

_SAMPLES = 100
"""Of measured values in a block, or a few more."""
_BLOCKS = 2
"""Number in a row until one is reported: a changed parameter is found in a shorter time."""
_FALSE = 1e-9
"""Probability of a reported block although the noise is white and as large as it is said to be."""


class ChiSquareTest:
    """Chi-square test of the residuals that left the window, block by block, for a correct model and noise."""

    def __init__(self) -> None:
        self._block, self._lasting = np.zeros(2), np.zeros(2)
        """Squares and measured values of the present block, and of those blocks in a row that were too large."""
        self._begin = self._since = 0.0
        """When they began [s]."""

    def add(self, t: float, square: float, count: int) -> None:
        """Add a step that leaves the window: time [s], sum of squared residuals, and number of measured ones."""
        if not self._block[1]:
            self._begin = t
        self._block += square, count
        if self._block[1] < _SAMPLES:
            return
        squares, counted = self._block.tolist()
        if special.chdtrc(counted, squares) >= _FALSE:
            self._lasting[:] = 0.0
        else:
            self._since = self._since if self._lasting[1] else self._begin
            self._lasting += self._block
        self._block[:] = 0.0

    @property
    def findings(self) -> list[Finding]:
        """Warning about residuals that are too large; empty if they are not."""
        squares, counted = self._lasting.tolist()
        if counted < _BLOCKS * _SAMPLES:
            return []
        ratio = math.sqrt(squares / counted)
        effect = (
            f"Since t = {self._since:.6g} s residuals are {ratio:.2g} times larger than their noise standard "
            "deviations: the model, a parameter or the noise has changed, and the standard errors are too small."
        )
        return [Finding("residuals.grown", (), {"ratio": ratio, "since": self._since}, effect)]

    def array(self) -> Array:
        """All that is remembered, (6,)."""
        return np.array([*self._block, *self._lasting, self._begin, self._since])

    def restore(self, array: Array) -> None:
        """Take what ``array`` gave."""
        self._block, self._lasting = array[:2].copy(), array[2:4].copy()
        self._begin, self._since = array[4:].tolist()


FEW = "too few samples yet"
"""Why nothing is known before there are states."""


def unsettled(core: FixedLag, iterations: int, start: float, step: float) -> str:
    """Reason why an update has not converged; empty if it has. ``iterations``: of the update; ``start``: of step 0 [s];
    ``step``: [s]."""
    if core.converged:
        return ""
    problem, kept, (chain, *_) = core.transcription, core.arrays(), core.transcription.chains
    data = {f.name: contiguous(kept[f"data {f.name}"][: f.count(core.steps)]) for f in problem.factors}
    times = contiguous(start + step * (core.first + np.arange(core.steps)))
    window = problem.with_chains([Chain(chain.name, core.steps, data, {}, chain.choice, times, core.first)])
    found = fault(window, Point((contiguous(core.states),), core.parameters), derivatives=False)
    if not found:
        return f"the estimates did not converge in {iterations} iterations"
    return f"{found}; no estimate continues from there: write it otherwise, or begin anew with bounds that exclude it"


def of_parameters(problem: Transcription, values: Array, covariance: Array) -> tuple[Array, dict[str, str]]:
    """Covariance of the parameters (n_p, n_p), with parameters at a bound fixed, and reasons for missing values.
    ``values``: of the parameters, (n_p,); ``covariance``: of all, regardless of bounds, NaN if unknown."""
    held = (values <= problem.lower) | (values >= problem.upper)
    known = np.isfinite(np.diag(covariance))
    if np.all(np.diag(covariance) > 0) and not np.any(held):
        return covariance, {}
    reasons = {name: UNOBSERVED for name, is_so in zip(problem.names, known, strict=True) if not is_so}
    reasons |= {name: AT_BOUND for name, is_so in zip(problem.names, held, strict=True) if is_so}
    covariance = covariance.copy()
    at, free = np.flatnonzero(held & known), np.flatnonzero(~held & known)
    if len(at):
        across = covariance[np.ix_(free, at)]
        covariance[np.ix_(free, free)] -= across @ np.linalg.pinv(covariance[np.ix_(at, at)]) @ across.T
    lost = ~held & (np.diag(covariance) <= 0)
    reasons |= {name: NO_DIGITS for name, is_so in zip(problem.names, lost, strict=True) if is_so}
    covariance[held | lost] = covariance[:, held | lost] = np.nan
    return covariance, reasons


def inverse(covariance: Array) -> Array:
    """Information matrix (n, n) of a covariance; zero where the covariance is NaN."""
    known = np.flatnonzero(np.isfinite(np.diag(covariance)))
    found, at = np.zeros_like(covariance), np.ix_(known, known)
    sizes = np.sqrt(np.diag(covariance)[known])
    found[at] = np.linalg.pinv(covariance[at] / np.outer(sizes, sizes), hermitian=True) / np.outer(sizes, sizes)
    return found


def carried(slopes: Array, covariance: Array) -> Array:
    """Covariance of quantities with given derivatives; NaN if they depend on unknown quantities."""
    unknown = np.isnan(np.diag(covariance))
    if not np.any(unknown):
        return np.asarray(slopes @ covariance @ slopes.T)
    known = np.where(unknown[:, None] | unknown, 0.0, covariance)
    found = slopes @ known @ slopes.T
    loose = np.any(slopes[:, unknown] != 0.0, axis=1)
    found[loose] = found[:, loose] = np.nan
    return np.asarray(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineEstimate(Tabular):
    """Estimates of a fixed-lag smoother after an update: n_p parameters, n_b bodies, n_s coordinates of joints."""

    t: float
    """Time of the newest step [s]; NaN before there is one."""
    step: int
    """Its number, from 0 on; −1 before there is one."""
    values: Mapping[str, float]
    """Estimates of the parameters, by name; extrapolated to step zero where ``step_errors`` are known."""
    std_errs: Mapping[str, float]
    """Their standard errors for the given noise; NaN where there is a reason."""
    reasons: Mapping[str, str]
    """Reasons for missing standard errors, by name."""
    units: Mapping[str, str]
    """Units of the parameters, by name."""
    covariance: Array
    """Covariance of the parameters, (n_p, n_p); NaN for those without a standard error."""
    step_errors: Mapping[str, float] = field(default_factory=dict)
    """Discretization error of the parameters, by name, which is subtracted from ``values``: that of the initial
    solution; the standard errors consider that it may change with the motion."""
    positions: Mapping[str, float] = field(default_factory=dict)
    """Coordinates of the joints at the newest step, by their labels [rad or m]."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rates of these [rad/s or m/s]."""
    position_errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of the coordinates; NaN where the data do not determine them."""
    rate_errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of the velocities, likewise."""
    variables: Mapping[str, Array] = field(default_factory=dict)
    """Variables of a graph at the newest step, by name."""
    variable_errors: Mapping[str, Array] = field(default_factory=dict)
    """Standard errors in their tangent directions; NaN where the data do not determine them."""
    state_covariance: Array
    """Covariance of the coordinates of joints and their rates, (2 n_s, 2 n_s), or of all variables of a graph in their
    tangent."""
    q: Array = field(default_factory=lambda: np.zeros((0, 7)))
    """Positions and quaternions of the bodies, (n_b, 7) [m]; none of a graph."""
    v: Array = field(default_factory=lambda: np.zeros((0, 6)))
    """Linear and angular velocities of the bodies, (n_b, 6) [m/s, rad/s]; likewise."""
    iterations: int
    """Gauss–Newton steps of this update; 0 if there was nothing to estimate anew."""
    converged: bool
    """True if the last of them was small against the standard errors."""
    reason: str
    """Reason if it has not converged; else empty."""
    findings: tuple[Finding, ...] = ()
    """Warnings: residuals larger than the noise, or a discretization bias in the estimates."""
    stopped: Mapping[str, float] = field(default_factory=dict)
    """Times of the last samples [s] of inputs that have had none for long, and are held: by names of signals."""

    @property
    def notices(self) -> tuple[str, ...]:
        """``findings`` in sentences."""
        return tuple(finding.text for finding in self.findings)

    def __getitem__(self, name: str) -> float:
        """The value of a parameter.

        Raises:
            KeyError: for a name that is none.
        """
        try:
            return self.values[name]
        except KeyError:
            raise KeyError(f"{name!r} is not an estimated parameter; these are {', '.join(self.values)}") from None

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {uncertain(value, self.std_errs[name])}" for name, value in self.values.items())
        return f"<OnlineEstimate at {self.t:.6g} s: {values}>"

    def blocks(self) -> Sequence[Block]:
        """Title, parameters and joints."""
        parameters = [
            (name, uncertain(value, self.std_errs[name]), self.units[name], self.reasons.get(name, ""))
            for name, value in self.values.items()
        ]
        joints = [
            (name, uncertain(value, self.position_errors[name]), uncertain(self.rates[name], self.rate_errors[name]))
            for name, value in self.positions.items()
        ]
        variables = [
            (name, str(i), uncertain(float(value), float(error)))
            for name, values in self.variables.items()
            if len(values) == len(self.variable_errors[name])
            for i, (value, error) in enumerate(zip(values, self.variable_errors[name], strict=True))
        ]
        told = [*filter(None, [self.reason]), *self.notices]
        tables = [
            Table(("parameter", "value", "unit", "reason"), parameters, left=(0, 2, 3)),
            Table(("coordinate", "position", "rate"), joints),
            Table(("variable", "", "value"), variables),
        ]
        return [f"At {self.t:.6g} s", *(table for table in tables if table.rows), *told]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        return [
            {"t": self.t, "parameter": name, "value": value, "std_err": self.std_errs[name], "unit": self.units[name]}
            for name, value in self.values.items()
        ]
