"""Knowledge of an arm's parameters after a fit, and after runs with known payloads: jointly normal changes.

Warnings and notes about a payload that was estimated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.files import regular
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EQUAL
from spookid.kernels.scipy_parts import special
from spookid.mechanics.inertia import PI, symmetric
from spookid.parameter import parameters_in
from spookid.results import folders
from spookid.results.findings import Finding
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.values import Derived
from spookid.solvers.status import Status
from spookid.statistics.prior_regression import FEWEST, Normal, Regression
from spookid.statistics.sensitivities import root_of
from spookid.statistics.whiteness import SURE
from spookid.studies.payload_rows import PayloadRows
from spookid.tables.table import counted, number, superscripts, uncertain

_WIDE = 10.0
"""Standard deviation of the prior in unidentifiable directions of the fit [magnitudes of the parameter]."""


@dataclass(frozen=True, eq=False)
class ArmKnowledge:
    """Estimated deviations of the n_p parameters of an arm from the results of its fit."""

    names: tuple[str, ...]
    estimates: Array
    """Those of the fit, (n_p,)."""
    belief: Normal
    """Their changes."""

    @classmethod
    def of(cls, result: Solution) -> Self:
        """What a fit knows.

        Raises:
            ProblemError: if it has no errors.
        """
        known = result.sensitivities
        if known.seen is None or not np.all(np.isfinite(known.seen.covariance)):
            raise ProblemError(
                f"the results of {result.problem!r} contain no covariance of all parameters, which is needed for the "
                "standard errors of a payload; solve the problem again"
            )
        magnitudes = np.where(known.seen.magnitudes > 0, known.seen.magnitudes, 1.0)
        root = np.hstack([root_of(known.seen.joint, magnitudes), _WIDE * known.seen.hidden.T])
        estimates = np.array([result[name].estimate for name in known.names])
        return cls(known.names, estimates, Normal(np.zeros(len(estimates)), root))

    def tree(self) -> Tree:
        """For a file."""
        return {
            "parameters": list(self.names),
            "fitted": self.estimates,
            "change": self.belief.mean,
            "covariance": self.belief.covariance,
        }

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """What ``Payload.save`` has written.

        Raises:
            ProblemError: if it is no such file.
        """
        with folders.reading(Path(path), "give a file that spookid payload --out has written") as file:
            arm = json.loads(regular(file).read_bytes())["arm"]
            names = tuple(str(name) for name in arm["parameters"])
            n = len(names)
            fitted, mean = (np.array(arm[key], dtype=np.float64).reshape(n) for key in ("fitted", "change"))
            covariance = np.array(arm["covariance"], dtype=np.float64).reshape(n, n)
            if not all(np.all(np.isfinite(part)) for part in (fitted, mean, covariance)):
                raise ValueError("numbers are missing")
        widths = np.sqrt(np.diag(covariance))
        return cls(names, fitted, Normal(mean, root_of(covariance, np.where(widths > 0, widths, 1.0))))

    def check(self, result: Solution) -> None:
        """Raise ProblemError if the calibration was made with another result.

        Raises:
            ProblemError: if it is another.
        """
        own = [result.parameters[name].estimate if name in result.parameters else np.nan for name in self.names]
        if self.names != result.sensitivities.names or not np.allclose(own, self.estimates, rtol=EQUAL, atol=0):
            raise ProblemError(
                f"the calibration was made with other results of {result.problem!r}, with other parameters; calibrate "
                "again with these results"
            )


_MISFIT = 1.5
"""What is left of a balance over what the noise of the fit lets expect, from which something has changed."""
STRANGE = 4.0
"""That from which a run is probably not one of this arm."""
_SURPRISE = 4.0
"""Standard deviations by which a coefficient has changed that has."""
_WELL = 0.03
"""Share of a mass within which it is known well."""
_PASSED = 3 * math.pi / (8 * math.sqrt(2))
"""Noise bandwidth over its cutoff of a second-order Butterworth filter, forward and back."""


def expected(problem: Problem, solution: Solution, found: PayloadRows) -> Array:
    """Rms residuals of each balance that the noise of the fit predicts, (n,) [N m or N]; NaN if unknown."""
    band = math.sqrt(2 * _PASSED * found.cutoff)
    densities = []
    for name, motor in zip(found.names, found.motors, strict=True):
        measured = motor is not None and motor.measured
        kind, own = ("sensor", motor.signal) if motor is not None and measured else ("disturbance", name)
        noise = next((n for n in solution.noise if n.kind == kind and own in n.names), None)
        density = math.nan if noise is None else noise.density  # per √Hz, on both sides of zero
        if noise is not None and noise.kind == "sensor":
            stamps = [finite_samples(recording, own)[0] for recording in problem.recordings]
            density = noise.std * math.sqrt(max((float(np.median(np.diff(t))) for t in stamps), default=math.nan))
        densities.append(density)
    return band * np.array(densities)


def findings_of(
    problem: Problem,
    solution: Solution,
    found: PayloadRows,
    limits: Array,
    fit: Regression,
    quantities: Mapping[str, Derived],
    known_mass: float | None,
) -> Iterator[Finding]:
    """Warnings and notes about a payload.

    Args:
        limits: residuals by the noise of the fit alone, as of ``expected``.
    """
    excess = excesses(fit.sizes, limits)
    yield from _misfit(excess, found)
    if known_mass is None:
        below = -fit.estimates[0] / math.sqrt(fit.covariance[0, 0])
        if below > SURE:
            yield Finding(
                "payload.negative-mass",
                evidence={"std_errors": below},
                effect=f"The estimated mass is negative by {number(below, 2)} standard errors.",
                cause="A sign, a unit or a gain differs from the fit, or the arm carried something when it was fitted "
                "that it does not carry here.",
                advice="Check signs and units of the columns.",
            )
        if not np.nanmax(excess, initial=0.0) > STRANGE:
            yield from _none(fit)
    yield from _changes(problem, solution, fit)
    yield from _impossible(fit, quantities, known_mass)
    mass = quantities["mass"]
    if not mass.reason and mass.from_prior > 0.5 and mass.std_err > _WELL * mass.estimate > 0:
        yield Finding(
            "payload.scale",
            evidence={"share": mass.from_prior},
            effect=f"{100 * mass.from_prior:.0f} % of the variance of the mass comes from the uncertainty of the arm.",
            cause="Gains and masses of the arm may be scaled together.",
            advice="Calibrate with a run with a known mass (known_mass=, --known-mass).",
        )
    if solution.status is not Status.CONVERGED:
        yield Finding(
            "payload.arm",
            effect=(
                f"The fit of the arm did not converge ({solution.status.value}), and the payload depends on this fit."
            ),
            advice="Solve the arm again.",
        )
    if fit.blocks < FEWEST:
        yield Finding(
            "payload.short",
            evidence={"blocks": fit.blocks},
            effect=(
                "The standard errors are inaccurate: the residuals are correlated in time, so that the run has only "
                f"{counted(fit.blocks, 'independent block')}."
            ),
            advice="Take a longer run.",
        )
    if found.left_out > 0:
        yield remarked(f"{number(found.left_out, 3)} s around gaps in the samples are left out.")


def remarked(effect: str) -> Finding:
    """Make a note that requires no action."""
    return Finding("payload.remark", effect=effect)


def excesses(left: Array, limits: Array) -> Array:
    """Ratio of residuals to the noise of the fit, (n,); NaN if that noise is unknown."""
    return np.asarray(np.divide(left, limits, out=np.full(len(limits), np.nan), where=limits > 0))


def _none(fit: Regression) -> Iterator[Finding]:
    """A note if there is no payload, or if the motion does not determine it."""
    first = [i for i in range(4) if np.isfinite(fit.covariance[i, i])]
    if not first:
        yield remarked("The motion determines neither mass nor centre of a payload.")
        return
    errors = np.sqrt(np.diag(fit.covariance))[first]
    if np.all(np.abs(fit.estimates[first]) < special.ndtri(1 - 0.05 / (2 * len(first))) * errors):
        mass = f" (mass {uncertain(fit.estimates[0], errors[0])} kg)" if 0 in first else ""
        yield remarked(f"The estimated payload does not differ from zero by more than its standard error{mass}.")


def _misfit(ratios: Array, found: PayloadRows) -> Iterator[Finding]:
    large = {name: ratio for name, ratio in zip(found.names, ratios.tolist(), strict=True) if ratio > _MISFIT}
    listed = ", ".join(f"{name} ({number(ratio, 2)} times)" for name, ratio in large.items())
    effect = f"Residuals of this run exceed the noise of the fit: {listed}."
    if np.nanmax(ratios, initial=0.0) > STRANGE:
        yield Finding(
            "payload.misfit",
            tuple(large),
            large,
            "The run does not fit the model of the arm, and the payload is not valid: residuals exceed the noise of "
            f"the fit along {listed}.",
            "A column, a sign or a unit differs from the fit, or the payload is on another body.",
            "Compare the columns with those of the log that was fitted, and check --body.",
        )
    elif large:
        cause = "Gains or friction have changed since the fit, or the model misses an effect under load."
        yield Finding(
            "payload.arm",
            tuple(large),
            large,
            effect,
            cause,
            "The standard errors allow for it; calibrate with a run without a load (--known-mass 0).",
        )


def _changes(problem: Problem, solution: Solution, fit: Regression) -> Iterator[Finding]:
    """Coefficients of joints and motors that differ from the fit in this run."""
    model = problem.model
    parts = [e for joint in model.joints for e in joint.expressions()]
    parts += [e for motor in model.motors for e in motor.expressions()]
    names = list(solution.sensitivities.names)
    own = [p for p in parameters_in(parts, problem.place) if p.name in names]
    large = {}
    for p in sorted(own, key=lambda p: -abs(fit.z_scores[names.index(p.name)])):
        place, fitted = names.index(p.name), solution[p.name].estimate
        changed = f"{number(fitted, 3)} {float(fit.found.mean[place]):+.2g} {superscripts(p.unit)}"
        if (errors := abs(fit.z_scores[place])) > _SURPRISE:
            large[p.name] = f"{p.name} {changed} ({errors:.1f} standard errors)"
    if large:
        yield Finding(
            "payload.arm",
            tuple(large),
            effect=f"Parameters of the arm in this run differ from their estimates: {'; '.join(large.values())}.",
            advice="Calibrate with a run without a load (--known-mass 0).",
        )


def _impossible(fit: Regression, quantities: Mapping[str, Derived], known_mass: float | None) -> Iterator[Finding]:
    """A note if no body has this π, or of what the motion does not determine."""
    unseen = [name for name, own in zip(PI, np.diag(fit.covariance).tolist(), strict=True) if math.isnan(own)]
    if known_mass == 0:
        return
    if unseen:
        yield remarked(
            f"The motion does not determine {', '.join(unseen)} of the payload, about the origin of the frame."
        )
        return
    if any(q.reason for q in quantities.values()):
        return
    mass, moment = fit.estimates[0], fit.estimates[1:4]
    inertia = symmetric(fit.estimates[4:])
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    pseudo = np.block([[second, moment[:, None]], [moment[None, :], np.array([[mass]])]])
    if np.linalg.eigvalsh(pseudo).min() < 0:
        yield remarked("No body has exactly this inertia; a possible one is within its standard errors.")
