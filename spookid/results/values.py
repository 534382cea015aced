"""What estimates say of other numbers: sizes of noise, values of expressions, and physical quantities of bodies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from spookid.records import dataclass
from spookid.statistics.combinations import LEADS
from spookid.tables.tabular import Listed

Source = Literal["data", "prior", "given", "bound", "nothing"]
"""Where a number comes from: mostly from the data, mostly from what was known beforehand, it was given, it is where its
bound is, or nothing tells it."""


def source(std_err: float, from_prior: float) -> Source:
    """Of a number that was estimated."""
    if math.isnan(std_err):
        return "nothing"
    return "prior" if from_prior > LEADS else "data"


@dataclass(frozen=True)
class Value(Listed):
    """An expression of parameters at the solution."""

    estimate: float
    """Its value."""
    std_err: float
    """Linearized, as of a parameter; NaN if the data do not see the expression, whatever they see of what is in it."""
    reason: str = ""
    """Why ``std_err`` is NaN; empty if it is a number."""
    from_prior: float = math.nan
    """Share of its variance for white noise that is the uncertainty of priors; NaN if unknown."""


@dataclass(frozen=True)
class Noise(Listed):
    """One size of noise that was estimated, or given, together with the parameters."""

    kind: str
    """"disturbance" of the motion, or "sensor"."""
    names: tuple[str, ...]
    """Hinges and free bodies whose disturbance it is, or the sensor's signal."""
    std: float
    """Standard deviation: of a disturbance the random force or torque, in root mean square over a step; of a sensor
    that of a sample, in its signal's unit."""
    unit: str
    density: float
    """Of a disturbance per √Hz, which no step changes; NaN for a sensor."""
    error: float
    """Standard error of its logarithm; NaN if it was given or is not seen."""
    resolution: float = 0.0
    """Least step between the values of a sensor, 0 if they come in no steps."""
    given: bool = False
    score: float = 0.0
    """Of a size that was given: slope of the log-likelihood in its logarithm in standard errors, positive where the
    data show more noise; 0 of others."""


@dataclass(frozen=True)
class Choice(Listed):
    """Which of two estimators an answer is, and why; see ``spookid.estimation.estimator_choice``."""

    estimator: str
    """"noise": what disturbs the motion was estimated; "hard": it was taken for none, errors are from stretches."""
    reason: str
    """In a few words."""
    differing: Mapping[str, float] = field(default_factory=dict)
    """Parameters on which both differ by more than accident, and by how many sigma."""


@dataclass(frozen=True)
class Outlier(Listed):
    """A sample that is plainly wrong; see ``spookid.estimation.outliers``."""

    recording: str
    signal: str
    t: float
    """Its stamp [s]."""
    value: float
    """What was measured, in the signal's unit."""
    predicted: float
    """What the estimated motion makes of it, on the turn that is nearest."""
    sigmas: float
    """How far off it is, in standard deviations of the others; NaN if these have none."""
    left_out: bool
    """True if the fit did without it; False if a robust loss took its weight."""


@dataclass(frozen=True)
class Basin(Listed):
    """A minimum where several starts ended, or a start that did not converge; see ``spookid.studies.starting``."""

    outcome: str
    """A status in a word, or "failed"."""
    starts: tuple[int, ...]
    """Their numbers, the best first; 0 is the problem's own guess."""
    costs: tuple[float, ...]
    """Of each."""
    log_likelihoods: tuple[float, ...]
    """Likewise; NaN with a given state weight."""
    parameters: Mapping[str, float]
    """Estimates of the best of them."""
    message: str
    """How that one ended, and what to do about it."""


@dataclass(frozen=True)
class EffortFit(Listed):
    """How far a measured torque or force of one recording is from what drives the estimated motion, both in mean over a
    step, or half of one where steps of half the length have been fitted, too, to tell what the step adds."""

    signal: str
    unit: str
    """Of the effort."""
    rms: float
    """NaN if nothing was measured."""
    largest: float
    steps: int
    """How many have a mean."""


@dataclass(frozen=True)
class Derived:
    """What estimates mean, such as the mass of a body that is declared by other coordinates, or a joint's friction."""

    name: str
    estimate: float
    """In ``unit``."""
    std_err: float
    """By the delta method, if parameters at a bound stay there; NaN if the data do not see it."""
    reason: str
    """Why ``std_err`` is NaN; empty if it is a number."""
    unit: str
    body: str = ""
    """Whose it is: a body, or a coordinate of a joint."""
    from_prior: float = math.nan
    """Share of its variance for white noise that is the uncertainty of priors, from 0 to 1; NaN if unknown."""
    slopes: Mapping[str, float] = field(default_factory=dict)
    """How it follows the estimated parameters, by their names."""

    @property
    def known_from(self) -> Source:
        """ "data", "prior" or "nothing"; "given" if it hangs on fixed parameters only."""
        return "given" if self.std_err == 0 else source(self.std_err, self.from_prior)


@dataclass(frozen=True)
class ConstraintTension(Listed):
    """A row of a constraint between parameters, left side less right side, and how hard the data pull at it."""

    name: str
    kind: str
    """"equality", or "inequality": not positive."""
    value: float
    """Of the row at the solution, in its own unit."""
    active: bool
    """True if it holds the estimates: an equality, or an inequality met with equality."""
    multiplier: float
    """λ of the Lagrangian ½ cost + λ row, or −log L + λ row; 0 of one that is not active."""
    freed: float
    """What the row would be if it alone were let go, to first order; NaN if it is not active, or unknown."""
    freed_err: float
    """Its standard error; NaN likewise."""
    reason: str = ""
    """Why there is none."""
    place: str = ""
    """``file.py:line`` of its declaration."""

    also = ("sigmas",)

    @property
    def sigmas(self) -> float:
        """``freed`` in standard errors: above 3 the data contradict the constraint."""
        return abs(self.freed) / self.freed_err
