"""Do recordings agree? Estimates from each by itself, compared in units of their own errors.

With estimates θ_i and covariances C_i of R recordings and θ̄ = (Σ C_i⁻¹)⁻¹ Σ C_i⁻¹ θ_i, the sum of
(θ_i − θ̄)ᵀ C_i⁻¹ (θ_i − θ̄) is chi-square with (R − 1) n degrees of freedom if all n parameters are the same in all
recordings and the errors are right. Its probability is given as that of a normal deviation: "4.1 sigma".

The covariances are those of the standard errors or, if these are far from the same (geometric mean over the
recordings), of the jackknife: where the model is incomplete the residuals are no white noise, and standard errors
that presume it may be thirty times what estimates from one recording or another differ by; nothing would ever disagree.
The jackknife asks whether recordings differ by more than blocks within each of them do. Either may be wrong: both
verdicts are given. A covariance from so few blocks is not exact: the expectation of its inverse is too large by ν/(ν
− n − 1), ν one less than the blocks and n the parameters, and the statistic is divided by that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from spookid.kernels.arrays import Array
from spookid.kernels.precision import NO_INFORMATION
from spookid.results.result import Solution
from spookid.statistics.block_jackknife import BLOCKS
from spookid.statistics.sensitivities import doubted, times
from spookid.statistics.whiteness import SURE
from spookid.tables.table import Block, Listed, Table, Tabular, number, superscripts


@dataclass(frozen=True)
class Test(Listed):
    """Result of a chi-square test; NaN if fewer than two recordings have a standard error."""

    statistic: float
    freedom: int
    sigma: float
    """The deviation of a normal variable, to either side, that is as improbable."""

    @property
    def agree(self) -> bool:
        """False if the recordings differ significantly."""
        return not self.sigma > SURE


@dataclass(frozen=True)
class ParameterAgreement(Listed):
    """Estimates of one parameter from each recording."""

    name: str
    unit: str
    estimates: tuple[float, ...]
    std_errs: tuple[float, ...]
    """Standard errors, or the jackknife's; NaN where unknown."""
    test: Test

    @property
    def spread(self) -> float:
        """Largest deviation of an estimate from the mean, relative to the mean; NaN if the mean is zero."""
        mean = float(np.mean(self.estimates))
        return float(np.max(np.abs(np.array(self.estimates) - mean))) / abs(mean) if mean else math.nan


@dataclass(frozen=True)
class Agreement(Tabular):
    """Agreement of estimates from several recordings, for each parameter and jointly."""

    recordings: int
    parameters: tuple[ParameterAgreement, ...]
    joint: Test
    ratio: float
    """Standard errors over those of the jackknife; NaN if there are none."""
    standard: Agreement | None
    """The same by standard errors; None if these are its errors already."""

    def __repr__(self) -> str:
        return f"<Agreement of {self.recordings} recordings: {number(self.joint.sigma, 2)} sigma>"

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each parameter, and the verdict."""
        rows = [
            (p.name, superscripts(p.unit), *(number(e) for e in p.estimates), number(p.test.sigma, 2))
            for p in self.parameters
        ]
        head = ("parameter", "unit", *(f"recording {i + 1}" for i in range(self.recordings)), "sigma")
        return [f"Agreement of {self.recordings} recordings", Table(head, rows), self.report]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each estimate of a parameter from one recording."""
        return [
            {"parameter": p.name, "recording": i, "estimate": e, "std_err": s, "unit": p.unit, "sigma": p.test.sigma}
            for p in self.parameters
            for i, (e, s) in enumerate(zip(p.estimates, p.std_errs, strict=True))
        ]

    @property
    def verdict(self) -> str:
        """In plain words."""
        these = f"These {self.recordings} recordings"
        known = [p for p in self.parameters if math.isfinite(p.test.sigma)]
        if not known:
            return f"{these} cannot be compared: no parameter has an error in two of them."
        apart = sorted((p for p in known if not p.test.agree), key=lambda p: -p.test.sigma)
        jointly = f"; jointly {self.joint.sigma:.1f} sigma" if math.isfinite(self.joint.sigma) else ""
        if apart:
            names = ", ".join(f"{p.name}: {p.test.sigma:.1f} sigma" for p in apart)
            return f"{these} do not agree on {names}{jointly}."
        if not self.joint.agree:
            return f"{these} agree on each parameter by itself, but not on all of them{jointly}."
        names = ", ".join(f"{p.name} ({p.test.sigma:.1f} sigma)" for p in known)
        return f"{these} agree on {names}{jointly}."

    @property
    def explanation(self) -> str:
        """Explanation of the jackknife errors, with the result for white-noise errors; empty if both are equal."""
        if self.standard is None:
            return ""
        larger = times(self.ratio, "larger", "smaller")
        return (
            "The test compares recordings by block-jackknife errors, from the scatter within each recording. "
            f"With white-noise standard errors, which are {larger}, the result is: "
            f"{self.standard.verdict}"
        )

    @property
    def report(self) -> str:
        """Verdict and explanation."""
        return f"{self.verdict} {self.explanation}".rstrip()


def agreement(solutions: Sequence[Solution]) -> Agreement:
    """Compare solutions of one problem that were fitted to different recordings, by chi-square tests."""
    ratio = _ratio(solutions)
    usual = _compared(solutions, [s.sensitivities.covariance for s in solutions], ratio, math.inf, None)
    if not doubted(ratio, min(len(s.trajectories[0].t) for s in solutions) / BLOCKS):
        return usual
    sandwiches = [s.sensitivities.covariance_sandwich for s in solutions]
    return _compared(solutions, sandwiches, ratio, BLOCKS - 1, usual)


def _compared(
    solutions: Sequence[Solution],
    covariances: Sequence[Array],
    ratio: float,
    freedom: float,
    standard: Agreement | None,
) -> Agreement:
    """By these errors, whose order of parameters is that of the sensitivities.

    Args:
        freedom: of each covariance.
    """
    first = solutions[0]
    places = {name: place for place, name in enumerate(first.sensitivities.names)}
    every = [np.sqrt(np.diag(covariance)) for covariance in covariances]
    parameters = []
    shared = [name for name in first.parameters if all(name in s.parameters for s in solutions)]
    for name in (name for name in shared if not first[name].fixed):
        estimates = tuple(s[name].estimate for s in solutions)
        errors = tuple(float(of_one[places[name]]) for of_one in every)
        test = _alone(estimates, errors, _shrunk(1, freedom))
        parameters.append(ParameterAgreement(name, first[name].unit, estimates, errors, test))
    joint = _jointly(parameters, [places[p.name] for p in parameters], covariances, freedom)
    return Agreement(len(solutions), tuple(parameters), joint, ratio, standard)


def _shrunk(count: int, freedom: float) -> float:
    """What the inverse covariance of so many parameters is on the average too large by, inverted; 0 if it has none."""
    return 1.0 if math.isinf(freedom) else max(freedom - count - 1, 0.0) / freedom


def _ratio(solutions: Sequence[Solution]) -> float:
    """NaN if not every recording that has errors has both kinds."""
    known = [s.sensitivities for s in solutions if np.any(np.isfinite(s.sensitivities.standard_errors))]
    logarithms = np.log([sensitivities.agreement for sensitivities in known])
    return float(np.exp(np.mean(logarithms))) if known else math.nan


def _alone(estimates: Sequence[float], errors: Sequence[float], shrunk: float) -> Test:
    known = np.isfinite(errors) & (np.array(errors) > 0)
    if known.sum() < 2:
        return Test(math.nan, 0, math.nan)
    values, weights = np.array(estimates)[known], 1 / np.array(errors)[known] ** 2
    mean = float(weights @ values / weights.sum())
    return _test(shrunk * float(weights @ (values - mean) ** 2), int(known.sum()) - 1)


def _jointly(
    parameters: Sequence[ParameterAgreement], places: Sequence[int], covariances: Sequence[Array], freedom: float
) -> Test:
    """Of the parameters that have an error in every recording, if these are not too many for the covariances."""
    known = [i for i, p in enumerate(parameters) if all(0 < error < math.inf for error in p.std_errs)]
    shrunk = _shrunk(len(known), freedom)
    if not known or len(covariances) < 2 or not shrunk:
        return Test(math.nan, 0, math.nan)
    rows = [places[i] for i in known]
    scale = np.array([np.mean(parameters[i].std_errs) for i in known])
    scaled = [covariance[np.ix_(rows, rows)] / np.outer(scale, scale) for covariance in covariances]
    precisions = [np.linalg.pinv(covariance, rcond=NO_INFORMATION, hermitian=True) for covariance in scaled]
    values = list(np.array([parameters[i].estimates for i in known]).T / scale)
    mean = np.linalg.lstsq(sum(precisions), sum(p @ v for p, v in zip(precisions, values, strict=True)), rcond=None)[0]
    statistic = sum(float((v - mean) @ p @ (v - mean)) for p, v in zip(precisions, values, strict=True))
    # Along constraints that hold there are fewer directions than parameters.
    seen = sum(map(_rank, scaled)) - _rank(sum(scaled, np.zeros_like(scaled[0])))
    return _test(shrunk * statistic, seen)


def _rank(covariance: Array) -> int:
    values = np.linalg.eigvalsh(covariance)
    return int(np.sum(values > NO_INFORMATION * values[-1]))


def _test(statistic: float, freedom: int) -> Test:
    from scipy import stats  # a third of a second to load, and only this needs it

    logarithm = float(stats.chi2.logsf(statistic, freedom))
    if not math.isfinite(logarithm):  # beyond the range of the tail function
        return Test(statistic, freedom, math.sqrt(max(statistic - freedom, 0.0)))
    return Test(statistic, freedom, max(0.0, float(-special.ndtri_exp(logarithm - math.log(2)))))
