"""What a fit, and runs with known payloads after it, know of a mechanism: its parameters' changes, jointly normal.

What a user should know of a payload that was found: what does not fit, and what is not determined.
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
from spookid.kernels.scipy_parts import special
from spookid.mechanics.inertia import PI, symmetric
from spookid.parameter import parameters_in
from spookid.results import folders
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.values import Derived
from spookid.solvers.status import Status
from spookid.statistics.prior_regression import FEWEST, Normal, Regression
from spookid.statistics.sensitivities import root_of
from spookid.studies.payload_rows import PayloadRows
from spookid.tables.table import number, superscripts, uncertain

_WIDE = 10.0
"""Magnitudes of a parameter within which it is known, in directions that the fit does not see."""
_SAME = 1e-9
"""Share by which estimates may differ that are the same."""


@dataclass(frozen=True, eq=False)
class ArmKnowledge:
    """Changes of the n_p parameters of a fit, from its estimates."""

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
                f"the results of {result.problem!r} have no errors of all parameters together, on which those of a "
                "payload hang; solve the problem again"
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
        """Refuse a result other than that from which this is.

        Raises:
            ProblemError: if it is another.
        """
        own = [result.parameters[name].estimate if name in result.parameters else np.nan for name in self.names]
        if self.names != result.sensitivities.names or not np.allclose(own, self.estimates, rtol=_SAME, atol=0):
            raise ProblemError(
                f"the calibration is not of these results of {result.problem!r}: its parameters are others; calibrate "
                "with these results"
            )


_MISFIT = 1.5
"""What is left of a balance over what the noise of the fit lets expect, from which on something has changed."""
STRANGE = 4.0
"""That from which on a run is probably not one of this arm."""
NEGATIVE = 3.0
"""Standard errors below zero from which on a mass is that of no body."""
_SURPRISE = 4.0
"""Standard deviations by which a coefficient has changed that has."""
_WELL = 0.03
"""Share of a mass within which it is known well."""
_PASSED = 3 * math.pi / (8 * math.sqrt(2))
"""Noise bandwidth over its cutoff of a second-order Butterworth filter, forward and back."""


def expected(problem: Problem, solution: Solution, found: PayloadRows) -> Array:
    """Root mean square of what the noise of the fit leaves of each balance below the cutoff, (n,) [N m or N]; NaN if
    the fit does not say."""
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


def notices_of(
    problem: Problem,
    solution: Solution,
    found: PayloadRows,
    told: Array,
    fit: Regression,
    quantities: Mapping[str, Derived],
    known_mass: float | None,
) -> tuple[str, ...]:
    """Sentences, what matters most first.

    Args:
        told: as of ``expected``.
    """
    excess = excesses(fit.sizes, told)
    sentences = [*_misfit(excess, found)]
    if known_mass is None:
        fits = not np.nanmax(excess, initial=0.0) > STRANGE
        below = -fit.estimates[0] / math.sqrt(fit.covariance[0, 0])
        if below > NEGATIVE:
            sentences.append(
                f"The mass is negative by {number(below, 2)} of its errors, as that of no body is: a sign, a unit or a "
                "gain is another than in the fit, or the arm carried something when it was fitted that it lacks here."
            )
        sentences += _none(fit) if fits else ()
    sentences += _changes(problem, solution, fit)
    sentences += _impossible(fit, quantities, known_mass)
    mass = quantities["mass"]
    if not mass.reason and mass.from_prior > 0.5 and mass.std_err > _WELL * mass.estimate > 0:
        sentences.append(
            "Most of the error of the mass is the arm's, whose gains and masses may be scaled together: a run with a "
            "payload of known mass tells that scale (known_mass=, --known-mass)."
        )
    if solution.status is not Status.CONVERGED:
        sentences.append(f"The fit of the arm has not converged ({solution.status.value}); so little is known of it.")
    if fit.blocks < FEWEST:
        sentences.append(
            f"What is left is correlated for so long that the run has {fit.blocks} stretches of it at the most: "
            "errors are a guess; take a longer run."
        )
    if found.left_out > 0:
        sentences.append(f"{number(found.left_out, 3)} s around gaps in the samples are left out.")
    return tuple(sentences)


def excesses(left: Array, told: Array) -> Array:
    """What is left of balances over what the noise of the fit lets expect, (n,); NaN if that is not known."""
    return np.asarray(np.divide(left, told, out=np.full(len(told), np.nan), where=told > 0))


def _none(fit: Regression) -> Iterator[str]:
    """That there is no payload, or that the motion does not determine it."""
    first = [i for i in range(4) if np.isfinite(fit.covariance[i, i])]
    if not first:
        yield "The motion does not determine a payload: mass and centre are not in its efforts."
        return
    errors = np.sqrt(np.diag(fit.covariance))[first]
    if np.all(np.abs(fit.estimates[first]) < special.ndtri(1 - 0.05 / (2 * len(first))) * errors):
        mass = f" (mass {uncertain(fit.estimates[0], errors[0])} kg)" if 0 in first else ""
        yield f"There is no payload within the errors{mass}."


def _misfit(ratios: Array, found: PayloadRows) -> Iterator[str]:
    large = [
        f"{name} ({number(ratio, 2)} times)"
        for name, ratio in zip(found.names, ratios.tolist(), strict=True)
        if ratio > _MISFIT
    ]
    if np.nanmax(ratios, initial=0.0) > STRANGE:
        yield (
            "The run does not fit this arm, and the estimates are not to be used: more is left than the noise of the "
            f"fit, of {', '.join(large)}. Are its columns, signs and units those of the fit, and is the payload on "
            "this body?"
        )
    elif large:
        yield (
            f"More is left than the noise of the fit, of {', '.join(large)}: gains or friction may have changed since, "
            "or the model lacks something under load. The errors are from what is left."
        )


def _changes(problem: Problem, solution: Solution, fit: Regression) -> Iterator[str]:
    """Coefficients of joints and motors that this run says to be others."""
    model = problem.model
    parts = [e for joint in model.joints for e in joint.expressions()]
    parts += [e for motor in model.motors for e in motor.expressions()]
    names = list(solution.sensitivities.names)
    own = [p for p in parameters_in(parts, problem.place) if p.name in names]
    large = []
    for p in sorted(own, key=lambda p: -abs(fit.z_scores[names.index(p.name)])):
        place, fitted = names.index(p.name), solution[p.name].estimate
        changed = f"{number(fitted, 3)} {float(fit.found.mean[place]):+.2g} {superscripts(p.unit)}"
        if (errors := abs(fit.z_scores[place])) > _SURPRISE:
            large.append(f"{p.name} {changed} ({errors:.1f} errors)")
    if large:
        yield f"Not as the fit has it along this run: {'; '.join(large)}."


def _impossible(fit: Regression, quantities: Mapping[str, Derived], known_mass: float | None) -> Iterator[str]:
    """That no body has this π, or which of it is not determined."""
    unseen = [name for name, own in zip(PI, np.diag(fit.covariance).tolist(), strict=True) if math.isnan(own)]
    if known_mass == 0:
        return
    if unseen:
        yield f"The motion does not determine {', '.join(unseen)} of the payload, about the frame's origin."
        return
    if any(q.reason for q in quantities.values()):
        return
    mass, moment = fit.estimates[0], fit.estimates[1:4]
    inertia = symmetric(fit.estimates[4:])
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    pseudo = np.block([[second, moment[:, None]], [moment[None, :], np.array([[mass]])]])
    if np.linalg.eigvalsh(pseudo).min() < 0:
        yield "No body has exactly this inertia: it is told no better than its errors; mass and centre are as found."
