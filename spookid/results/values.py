"""What estimates say of other numbers: noise standard deviations, values of expressions, physical quantities of bodies,
forces beside those of the model. A mechanism as words and numbers, as a result folder keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

import numpy as np

from spookid.kernels.arrays import Array
from spookid.mechanics.body import RobotFile
from spookid.records import dataclass
from spookid.results.settings import Estimator
from spookid.results.trajectory import rms
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import LEADS
from spookid.tables.table import Block, Listed, Table, Tabular, by_rows, counted, quantity, superscripts

Source = Literal["data", "prior", "given", "bound", "nothing"]
"""Main source of a number: the data, the prior, given, at its bound, or nothing (not identifiable)."""


def source(std_err: float, from_prior: float) -> Source:
    """Main source of information on an estimated number: data, prior or nothing."""
    if math.isnan(std_err):
        return "nothing"
    return "prior" if from_prior > LEADS else "data"


@dataclass(frozen=True)
class Value(Listed):
    """Value of an expression of parameters at the solution, with its standard error."""

    estimate: float
    """Its value."""
    std_err: float
    """Linearized, as of a parameter; NaN if the data do not determine the expression."""
    reason: str = ""
    """Reason if ``std_err`` is NaN; else empty."""
    from_prior: float = math.nan
    """Share of its variance for white noise that is the uncertainty of priors; NaN if unknown."""


@dataclass(frozen=True)
class Noise(Listed):
    """Noise standard deviation, either estimated with the parameters or given."""

    kind: str
    """"``"disturbance"`` (process noise) or ``"sensor"`` (measurement noise)."""
    names: tuple[str, ...]
    """Hinges and free bodies with this process noise, or the signal of the sensor."""
    std: float
    """Standard deviation: of process noise the random force or torque, in root mean square over a step; of a sensor
    that of a sample, or, if its noise is correlated, the part that the sample before does not predict."""
    unit: str
    density: float
    """Spectral density of process noise per √Hz, independent of the step; NaN for a sensor."""
    error: float
    """Standard error of its logarithm; NaN if it was given or is not identifiable."""
    resolution: float = 0.0
    """Least step between the values of a sensor, 0 if they come in no steps."""
    given: bool = False
    score: float = 0.0
    """Slope of the log-likelihood in the logarithm of given noise [standard errors]: if positive, data show more."""
    jitter: float = 0.0
    """Standard deviation of the timestamps of a sensor [s]; it adds to ``std``."""
    freedom: float = 0.0
    """Degrees of freedom of the Student's t-distribution that ``std`` is the scale of; 0: the noise is normal."""
    likely: float = 1.0
    """Root mean square of process noise over ``std`` if parameters, which absorb a part of it, are integrated out."""
    internal: bool = False
    """True for filters, integrals and contacts without noise, and for the zeros of additional states: not listed."""


@dataclass(frozen=True)
class FrictionWidth(Listed):
    """Estimated width of smooth dry friction: the slip rate over which the friction changes its sign."""

    width: float
    """In ``unit``."""
    std_err: float
    """Its standard error, which is in those of all parameters."""
    unit: str
    """rad/s or m/s."""
    resolved: bool
    """False if the standard error of its logarithm from the data is above one, or if it is at its lower bound."""


@dataclass(frozen=True)
class Choice(Listed, Estimator):
    """Chosen estimator and the reason; see ``spookid.estimation.estimator_choice``."""

    estimator: str
    """"``"noise"``: process noise was estimated; ``"hard"``: deterministic dynamics, errors by a block jackknife."""
    reason: str
    """Reason in a few words."""
    differing: Mapping[str, float] = field(default_factory=dict)
    """Parameters on which both differ by more than accident, and by how many sigma."""
    correlation_times: Mapping[str, float] = field(default_factory=dict)
    """Of sensors whose noise was found to be correlated in time and is taken so, by signal [s]."""


@dataclass(frozen=True)
class Outlier(Listed):
    """An outlying sample; see ``spookid.estimation.outliers``."""

    recording: str
    signal: str
    t: float
    """Its timestamp [s]."""
    value: float
    """Measured value, in the signal's unit."""
    predicted: float
    """Predicted value, on the nearest turn."""
    sigmas: float
    """Residual in standard deviations of the others; NaN if these have none."""
    left_out: bool
    """True if the fit did without it; False if a robust loss took its weight."""


@dataclass(frozen=True)
class Basin(Listed):
    """Minimum that several starts reached, or a start that did not converge; see ``spookid.studies.starting``."""

    outcome: str
    """A status in a word, or "failed"."""
    starts: tuple[int, ...]
    """Numbers of the starts, the best first; start 0 has the problem's own initial values."""
    costs: tuple[float, ...]
    """Cost of each start."""
    log_likelihoods: tuple[float, ...]
    """Likewise; NaN with a given `state_weight`."""
    parameters: Mapping[str, float]
    """Estimates of the best of them."""
    message: str
    """End of the best start, and a remedy."""


@dataclass(frozen=True)
class Derived:
    """Physical quantity that is computed from the estimates, such as the mass of a body with inertia coordinates."""

    name: str
    estimate: float
    """Estimate in ``unit``."""
    std_err: float
    """Standard error by the delta method, if parameters at a bound stay there; NaN if not identifiable."""
    reason: str
    """Reason if ``std_err`` is NaN; else empty."""
    unit: str
    body: str = ""
    """Body or coordinate of a joint that it belongs to."""
    from_prior: float = math.nan
    """Share of its variance for white noise that is the uncertainty of priors, from 0 to 1; NaN if unknown."""
    slopes: Mapping[str, float] = field(default_factory=dict)
    """Derivatives with respect to the estimated parameters, by their names."""

    @property
    def known_from(self) -> Source:
        """Source of the value: "data", "prior" or "nothing"; "given" if all its parameters are fixed."""
        return "given" if self.std_err == 0 else source(self.std_err, self.from_prior)


@dataclass(frozen=True)
class ConstraintTension(Listed):
    """Test of one constraint between parameters against the data: left minus right side of its equation."""

    name: str
    kind: str
    """"equality", or "inequality": not positive."""
    value: float
    """Value of the equation at the solution, in its unit."""
    active: bool
    """True if it holds the estimates: an equality, or an inequality met with equality."""
    multiplier: float
    """λ of the Lagrangian ½ cost + λ row, or −log L + λ row; 0 of one that is not active."""
    freed: float
    """Value of the equation without it, to first order; NaN if it is not active, or unknown."""
    freed_err: float
    """Standard error of ``freed``; NaN likewise."""
    reason: str = ""
    """Reason if it is unknown; else empty."""
    place: str = ""
    """``file.py:line`` of its declaration."""

    also = ("sigmas",)

    @property
    def sigmas(self) -> float:
        """Deviation from the constraint without it, in standard errors; above 3, the data contradict the constraint."""
        return abs(self.freed) / self.freed_err


@dataclass(frozen=True, eq=False)
class Disturbance(Tabular):
    """Estimated process noise of one recording, averaged over each step: force or torque along each coordinate.

    It is the mean, and the standard deviation, of what is random in the motion if all data are given, for noise of the
    sizes that were found. Where loops close or constraints hold it is projected as (36) of Martinez, Tonneau and
    Mastalli has it: the force Nᵀf along the tree's coordinates, N = I − M⁻¹Jᵀ(J M⁻¹Jᵀ)⁻¹J, which accelerates the
    mechanism as f does and leaves nothing for what holds to bear.

    N steps, n coordinates.
    """

    name: str
    """The recording's."""
    labels: tuple[str, ...]
    """Coordinates of joints, and directions of the force (in the world) and torque (in the body) on free bodies; joints
    with a measured effort are left out: their noise is that of the measurement."""
    units: tuple[str, ...]
    """N or N m."""
    reason: str
    """Why ``std_err`` is NaN; empty if it is a number wherever a step has one."""
    t: Array
    """(N,) [s]: of the steps of the fit; where estimates are those of continuous time, of the finer one."""
    value: Array
    """(N, n): of the step around t, or, with ``Spook()``, of the one that ends there; NaN where there is none."""
    std_err: Array
    """(N, n)."""

    def __repr__(self) -> str:
        labels = ", ".join(self.labels) or "nothing"
        return f"<{type(self).__name__} of {self.name!r}: {counted(len(self.t), 'step')}, {labels}>"

    def blocks(self) -> Sequence[Block]:
        """Title, and a table with a row for each coordinate."""
        rows = []
        for i, (label, unit) in enumerate(zip(self.labels, map(superscripts, self.units), strict=True)):
            error = self.std_err[:, i][np.isfinite(self.std_err[:, i])]
            typical = quantity(float(np.median(error)), unit) if error.size else "not known"
            rows.append((label, quantity(rms(self.value[:, i]), unit), typical))
        title = f"{self.name}: process noise" + (f"; {self.reason}" if self.reason else "")
        return [title, Table(("coordinate", "rms", "standard error (median)"), rows)]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each step."""
        columns = {"t": self.t}
        for i, label in enumerate(self.labels):
            columns |= {label: self.value[:, i], f"{label} std_err": self.std_err[:, i]}
        return by_rows(columns)


Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Quantity:
    """Physical coefficient of a body, joint or motor."""

    name: str
    formula: str
    """Its expression of parameters; empty if it is a number."""
    value: float
    """At the estimates, in ``unit``."""
    unit: str


@dataclass(frozen=True)
class BodyOutline:
    """A rigid body."""

    name: str
    free: bool
    """True if no joint holds it."""
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class JointOutline:
    """Description of a joint between two bodies for results; "GROUND" is the inertial frame."""

    name: str
    parent: str
    child: str
    parent_at: Vector
    """Where it is on the parent, in the parent's frame [m]."""
    child_at: Vector
    """Where it is on the child, in the child's frame [m]."""
    axis: Vector
    """Direction in the parent's frame."""
    quantities: tuple[Quantity, ...]
    """Those that are not zero."""
    kind: str = "Hinge"
    """Name of its class."""
    turn: tuple[Vector, Vector, Vector] | None = None
    """Rows of the rotation that takes the child's axes to the parent's where its coordinates are zero; None in files of
    earlier versions."""


@dataclass(frozen=True)
class ConstraintOutline:
    """What holds beside the joints."""

    name: str
    kind: str
    """Name of its class."""
    ties: tuple[str, ...]
    """Joints or bodies that it ties; none if a user's function says what it holds."""
    at: tuple[Vector, ...]
    """Where it ends on these bodies, in their frames [m]; none of other kinds."""
    quantities: tuple[Quantity, ...]
    """Those that are not zero."""


@dataclass(frozen=True)
class MotorOutline:
    """Description of a motor on a joint coordinate for results."""

    hinge: str
    signal: str
    """Name of its input."""
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class PointOutline:
    """Description of a measured coordinate of a body's point in the world, for results."""

    body: str
    at: Vector
    """In the body's frame [m]."""
    axis: int
    """Of the world: 0, 1 or 2."""


@dataclass(frozen=True)
class SensorOutline:
    """An observed signal."""

    signal: str
    title: str
    """What it measures."""
    sigma: float
    """Standard deviation of its noise as it was given; NaN if it was estimated."""
    unit: str
    point: PointOutline | None = None
    """What it shows as it is, if that is a coordinate of a point."""
    joint: str = ""
    """The joint's coordinate whose position it shows without a scale or a delay of its own, if it does."""


@dataclass(frozen=True)
class Mechanism:
    """Description of all parts of a mechanism for results; bodies in the order of the states."""

    bodies: tuple[BodyOutline, ...]
    hinges: tuple[JointOutline, ...]
    """Joints of all kinds; result files have had this name for them since there were hinges only."""
    motors: tuple[MotorOutline, ...]
    sensors: tuple[SensorOutline, ...]
    gravity: Vector
    """Acceleration of gravity at the estimates [m/s²]."""
    constraints: tuple[ConstraintOutline, ...] = ()
    robot: RobotFile | None = None
    """The file that the model was read from, if it was."""

    def __post_init__(self) -> None:
        bodies = {"GROUND", *(body.name for body in self.bodies)}
        for joint in self.hinges:
            if stray := {joint.parent, joint.child} - bodies:
                raise ValueError(f"joint {joint.name!r} is on body {min(stray)!r}, which is not in the mechanism")
        for sensor in self.sensors:
            if sensor.point is not None and sensor.point.body not in bodies:
                raise ValueError(f"signal {sensor.signal!r} is on body {sensor.point.body!r}, not in the mechanism")


@dataclass(frozen=True)
class StageRecord(Listed):
    """Record of one fit of a solve, with its stage in ``problem.plan``."""

    stage: str
    """Name of the stage."""
    step: float
    """h [s]."""
    solver: str
    iterations: int
    seconds: float
    """Wall time, with the making of its functions."""
    status: Status
    assembled: bool
    """True if samples and equations were laid out anew, and not taken from a fit with the same step."""


@dataclass(frozen=True)
class Size(Listed):
    """Of the transcribed problem."""

    recordings: int
    steps: int
    """Over all recordings."""
    states: int
    """Tangent dimension of all states."""
    parameters: int
    residuals: int
    """Rows that have data."""
    jacobian_nonzeros: int
