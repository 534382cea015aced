"""Do recordings agree? Estimates from each by itself, compared in units of their own errors.

With estimates θ_i and covariances C_i of R recordings and θ̄ = (Σ C_i⁻¹)⁻¹ Σ C_i⁻¹ θ_i, the sum of
(θ_i − θ̄)ᵀ C_i⁻¹ (θ_i − θ̄) is chi-square with (R − 1) n degrees of freedom if all n parameters are the same in all
recordings and the errors are right. Its probability is told as that of a normal deviation: "4.1 sigma".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from spookid.kernels import Array
from spookid.solution import Solution

DISAGREE = 3.0
"""Deviations beyond so many sigma are no accident."""


@dataclass(frozen=True)
class Test:
    """One chi-square test; NaN where fewer than two recordings have an error."""

    statistic: float
    freedom: int
    sigma: float
    """The deviation of a normal variable, to either side, that is as improbable."""

    @property
    def agree(self) -> bool:
        """False if the recordings differ by more than accident."""
        return not self.sigma > DISAGREE


@dataclass(frozen=True)
class ParameterAgreement:
    """One parameter's estimates from each recording."""

    name: str
    unit: str
    estimates: tuple[float, ...]
    std_errs: tuple[float, ...]
    """NaN where unknown."""
    test: Test

    @property
    def spread(self) -> float:
        """Largest deviation from the mean, as a share of the mean; NaN if that is zero."""
        mean = float(np.mean(self.estimates))
        return float(np.max(np.abs(np.array(self.estimates) - mean))) / abs(mean) if mean else math.nan


@dataclass(frozen=True)
class Agreement:
    """Of all parameters, one by one and jointly."""

    recordings: int
    parameters: tuple[ParameterAgreement, ...]
    joint: Test

    @property
    def verdict(self) -> str:
        """In plain words."""
        these = f"These {self.recordings} recordings"
        known = [p for p in self.parameters if math.isfinite(p.test.sigma)]
        if not known:
            return f"{these} cannot be compared: no parameter has a standard error in two of them."
        apart = sorted((p for p in known if not p.test.agree), key=lambda p: -p.test.sigma)
        jointly = f"; jointly {self.joint.sigma:.1f} sigma" if math.isfinite(self.joint.sigma) else ""
        if apart:
            names = ", ".join(f"{p.name}: {p.test.sigma:.1f} sigma" for p in apart)
            return f"{these} do not agree on {names}{jointly}."
        if not self.joint.agree:
            return f"{these} agree on each parameter by itself, but not on all of them{jointly}."
        names = ", ".join(f"{p.name} ({p.test.sigma:.1f} sigma)" for p in known)
        return f"{these} agree on {names}{jointly}."


def agreement(solutions: Sequence[Solution]) -> Agreement:
    """Compare solutions of one problem, each on a recording of its own."""
    first = solutions[0]
    names = [name for name, parameter in first.parameters.items() if not parameter.fixed]
    parameters = []
    for name in names:
        estimates = tuple(s[name].estimate for s in solutions)
        errors = tuple(s[name].std_err for s in solutions)
        parameters.append(ParameterAgreement(name, first[name].unit, estimates, errors, _alone(estimates, errors)))
    return Agreement(len(solutions), tuple(parameters), _jointly(solutions, names))


def _alone(estimates: Sequence[float], errors: Sequence[float]) -> Test:
    known = np.isfinite(errors) & (np.array(errors) > 0)
    if known.sum() < 2:
        return Test(math.nan, 0, math.nan)
    values, weights = np.array(estimates)[known], 1 / np.array(errors)[known] ** 2
    mean = float(weights @ values / weights.sum())
    return _test(float(weights @ (values - mean) ** 2), int(known.sum()) - 1)


def _jointly(solutions: Sequence[Solution], names: Sequence[str]) -> Test:
    """Of the parameters that have an error in every recording."""
    known = [name for name in names if all(np.isfinite(s[name].std_err) and s[name].std_err > 0 for s in solutions)]
    if not known or len(solutions) < 2:
        return Test(math.nan, 0, math.nan)
    scale = np.array([np.mean([s[name].std_err for s in solutions]) for name in known])
    precisions = [np.linalg.pinv(_covariance(s, known) / np.outer(scale, scale), hermitian=True) for s in solutions]
    values = [np.array([s[name].estimate for name in known]) / scale for s in solutions]
    mean = np.linalg.lstsq(sum(precisions), sum(p @ v for p, v in zip(precisions, values, strict=True)), rcond=None)[0]
    statistic = sum(float((v - mean) @ p @ (v - mean)) for p, v in zip(precisions, values, strict=True))
    return _test(statistic, (len(solutions) - 1) * len(known))


def _covariance(solution: Solution, names: Sequence[str]) -> Array:
    rows = [solution.sensitivities.names.index(name) for name in names]
    return solution.sensitivities.covariance[np.ix_(rows, rows)]


def _test(statistic: float, freedom: int) -> Test:
    from scipy import stats  # a third of a second to load, and only this needs it

    logarithm = float(stats.chi2.logsf(statistic, freedom))
    if not math.isfinite(logarithm):  # beyond the range of the tail function
        return Test(statistic, freedom, math.sqrt(max(statistic - freedom, 0.0)))
    return Test(statistic, freedom, max(0.0, float(-special.ndtri_exp(logarithm - math.log(2)))))
