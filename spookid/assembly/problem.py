"""The problem that users declare: a mechanism, its recordings, settings of the fit, and studies."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import casadi as ca

from spookid.argument_checks import Checked, checked
from spookid.assembly import declared
from spookid.assembly.parameters import ParameterSet
from spookid.data.channels import Channel, Sensor, channels_of
from spookid.data.recording import SAMPLE, Recording, RecordingFiles
from spookid.data.residual import Residual
from spookid.errors import declared_at
from spookid.mechanics.model import Model
from spookid.mechanics.relations import Relation
from spookid.parameter import Parameter
from spookid.records import dataclass, kept
from spookid.results.settings import AUTO, Dynamics, DynamicsAndFriction, Estimator
from spookid.stepping.base import EXTRAPOLATED, Scheme, Stepper
from spookid.stepping.impulses import DryFriction, Form
from spookid.stepping.variational import Variational
from spookid.tables.table import Block, Tabular

if TYPE_CHECKING:  # each is loaded when it is first asked for
    from spookid.assembly.impact_estimates import Strike
    from spookid.estimation.grouping import BaseParameters
    from spookid.estimation.plan import Plan
    from spookid.graphs.solution import Picture
    from spookid.kernels.arrays import Array
    from spookid.results.result import Solution
    from spookid.solvers.status import Callback
    from spookid.stepping.simulation import Progress
    from spookid.studies.crossvalidation import CrossValidation
    from spookid.studies.excitation_result import Excitation
    from spookid.studies.expected import ExpectedErrors
    from spookid.studies.motion_limits import MotionLimits
    from spookid.studies.motor_efforts import MotorEfforts, TouchSpan
    from spookid.studies.nonlinear_program import NonlinearProgram
    from spookid.studies.payloads import Payload
    from spookid.studies.profiling import Profile
    from spookid.studies.regression import Regression
    from spookid.studies.simulation_start import Initial, Noises, Parameters


@dataclass(frozen=True, eq=False)
class Problem(Tabular, DynamicsAndFriction, Estimator, metaclass=Checked):
    """An identification problem: a model, recordings, sensors and settings. It can be solved, simulated and studied.

    Its parameters are those that occur in the model; they are not listed again.

    Raises:
        ProblemError: for settings out of range, a signal missing in a recording, recordings too short for the step, or
            an unknown name in ``initial`` or ``fixed``.
    """

    name: str
    """Name of the problem in results and messages."""
    model: Model
    """The mechanism, with Parameters where numbers are not known."""
    recordings: Sequence[Recording] = ()
    """Measured motion; each recording has its own states, all share the parameters. May be empty to simulate only."""
    observations: Sequence[Sensor] = ()
    """Sensors: the quantities that the signals of the recordings measure."""
    residuals: Sequence[Residual] = field(kw_only=True, default=())
    """Further residuals of the motion: see ``Residual``."""
    constraints: Sequence[Relation | Any] = field(kw_only=True, default=())
    """Relations of parameters, held exactly, such as ``m_1 + m_2 == 3.2``, ``c_1 <= c_2``, ``total_mass(...)``."""
    step: float = cast(float, None)
    """h [s]; None: 0.01 s, or where efforts of motors are measured and the stepper is of second order what the motion's
    bandwidth asks for, an error of 0.5 % of them; it then follows the recordings given to ``with_``."""
    state_weight: float | Literal["auto"] | None = None
    """None (or "auto"): the standard deviations of process noise and measurement noise are estimated together with the
    parameters (see ``spookid.statistics``). A number is the paper's κ, weight of the squared impulse residuals
    [1/(N s)²] against the squared observation residuals; ``math.inf`` makes the dynamics deterministic."""
    stepper: Stepper = field(default_factory=Variational)
    """Time stepper: ``Variational()``, ``Spook()`` or a subclass of ``OneStep``."""
    friction: str = "smooth"
    """Representation of dry friction of joints: ``"smooth"`` (a sticking joint creeps; but a ``Contact`` is exact in
    fits), ``"exact"`` (it does not move; for simulations and backend "lm"), ``"mpcc"`` (the same law as complementarity
    pairs, for backend "ipopt"; in simulations the same as ``"exact"``)."""
    friction_width: float | Mapping[str, float | ca.SX] | None = None
    """Slip rate [rad/s or m/s] over which smooth dry friction changes its sign: of all joints, or by coordinate. None:
    estimated from, and with a given weight, 1 % of the rms of each joint's slip rate in the initial motion (0.01 rad/s
    at rest). Friction that sticks is taken to stop at once below it; with ``"exact"`` it is always the default."""
    cutoff: float = 10.0
    """Cutoff of the low-pass filter of the initial states [Hz]."""
    initial: Mapping[str, float] = field(default_factory=dict)
    """Initial values by parameter name; where recordings have their own, ``"m"`` sets all, ``"m[loaded]"`` one."""
    step_correction: bool = True
    """True for parameters in continuous time: with ``Variational()`` and estimated noise, fits with h and h/2 are
    extrapolated. False for those in steps of h, as of data simulated so; what other settings give are always these."""
    estimator: str = "auto"
    """Of fits without ``state_weight``: ``"noise"`` estimates the process noise, ``"hard"`` assumes none, with errors
    from a jackknife over blocks; ``"auto"`` takes the second where the data show that it is better
    (``Variational()`` with smooth friction, backend "lm"; see ``spookid.estimation.estimator_choice``)."""
    every: int | None = None
    """None: every sample counts, at its own time. A number: only every so many steps are observed (1 in the paper)."""
    fixed: Iterable[str] = ()
    """Names of parameters that keep their initial value; bounds are for estimates, so these may lie outside theirs."""
    place: str = field(default_factory=declared_at, repr=False)

    follows_motion = False  # no field: True of a problem whose step was not given

    def __post_init__(self) -> None:
        for name, value in declared.normalized(self):
            object.__setattr__(self, name, value)
        if self.step is None:
            object.__setattr__(self, "follows_motion", True)
            object.__setattr__(self, "step", self.bandwidth_step or declared.STEP)
        declared.check(self)

    @property
    def sample(self) -> Sequence[Recording]:
        """The recordings that are in memory: all, or the first few if recordings are read from files."""
        return self.recordings[:SAMPLE] if isinstance(self.recordings, RecordingFiles) else self.recordings

    @property
    def what(self) -> str:
        """File and line of the problem's declaration, and its name, for messages."""
        return f"{self.place}: Problem {self.name!r}"

    @property
    def dynamics(self) -> Dynamics:
        """Weighting of the equations of motion: estimated noise, deterministic dynamics, or a given weight."""
        if self.state_weight is None or self.state_weight == AUTO:
            return "estimated"
        return "weight" if math.isfinite(self.state_weight) else "hard"

    @property
    def corrects(self) -> bool:
        """True if a fit extrapolates the estimates to time step zero (Richardson extrapolation)."""
        asked = self.step_correction and self.estimates_noise and EXTRAPOLATED not in self.stepper.refuses
        return asked and not declared.uncorrected(self)

    @cached_property
    def bandwidth_step(self) -> float | None:
        """Longest step that the bandwidth of the motion allows [s]; None if unknown."""
        return declared.bandwidth_step(self)

    @property
    def weight(self) -> float:
        """Inverse process-noise variance κ of the equations of motion; 1 if the noise is estimated."""
        return 1.0 if self.estimates_noise else float(cast(float, self.state_weight))

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Measured channels, one per signal of the sensors, in the order of their declaration."""
        return kept(channels_of, self.model, tuple(self.observations))

    @cached_property
    def parameter_set(self) -> ParameterSet:
        """All declared Parameters, and the Parameters of each recording."""
        return declared.declared_parameters(self)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the model and its sensors in the order of declaration, including those of each recording."""
        return self.parameter_set.every

    @cached_property
    def free(self) -> tuple[Parameter, ...]:
        """Parameters to estimate."""
        return declared.free_parameters(self)

    @cached_property
    def delays(self) -> tuple[str, ...]:
        """Names of all Parameters in delays of sensors and inputs, including those of each recording."""
        return declared.delays(self)

    @cached_property
    def guess(self) -> dict[str, float]:
        """Dict from Parameter name to initial value, for all parameters."""
        return {p.name: p.guess for p in self.parameters} | self.given

    @cached_property
    def given(self) -> dict[str, float]:
        """Dict from Parameter name to the initial value that a user gave instead of the declared value."""
        return {name: float(value) for name, value in self.parameter_set.expanded(self.initial).items()}

    @checked
    def guess_on(self, recording: str | None = None) -> dict[str, float]:
        """Return a dict from declared Parameter name to initial value in one recording; None: in the first."""
        return self.parameter_set.on(self.guess, recording)

    @property
    def scheme(self) -> Scheme[Any]:
        """The time stepper with the chosen form of dry friction and of process noise."""
        return self.stepper.fitting(self.model, DryFriction(cast(Form, self.friction)), self.dynamics)

    def with_(self, **changes: Any) -> Self:
        """Return a copy of the problem with changed arguments; the copy has no initial or fixed values of removed
        recordings. Raises ProblemError for an unknown argument, or a value that is refused."""
        return declared.changed(self, changes)

    def solve(
        self,
        backend: str = "lm",
        *,
        callback: Callback | None = None,
        warm_start: Solution | None = None,
        starts: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> Solution:
        """Estimate states and parameters.

        Args:
            backend: "lm", the package's own Levenberg–Marquardt; "riccati", another name for it; or "ipopt", a general
                solver of nonlinear programs.
            callback: function of each accepted iterate, of every start; an exception in it ends the fit and is passed
                on.
            warm_start: a solution of the same recordings and step, of any stepper and backend: its states and
                estimates are the start, those of parameters in ``initial`` and ``fixed`` excepted.
            starts: number of starts: initial values are drawn from priors, both bounds, or else a decade to either side
                of the given one (of 0: of the size that makes up a tenth of the motion). The solution is the best that
                converged; its ``basins`` list where all ended. Ctrl-C ends them with the best until then.
            seed: seed of these initial values.
            options: the problem's own settings (``step``, ``state_weight``, ``fixed`` ...) and the backend's
                (``max_iterations``, tolerances: see ``LevenbergMarquardt`` and ``Ipopt``).

        Raises:
            ProblemError: for an unknown backend or option, nothing to fit, or a warm start that does not fit.
        """
        began = time.perf_counter()
        from spookid.estimation.solving import answered, solve

        problem, others = declared.split(self, options)
        if starts == 1:
            return answered(problem, solve(problem, backend, others, callback, warm_start), backend, others, began)
        from spookid.studies.starting import from_starts

        best = from_starts(problem, starts, seed, backend, others, callback, warm_start)
        return answered(problem, best, backend, others, began)

    def plan(self, backend: str = "lm", **options: Any) -> Plan:
        """List the fits that ``solve`` makes with the same arguments; ``plan.done(solution)`` shows which were made."""
        from spookid.estimation.solving import planned

        problem, others = declared.split(self, options)
        return planned(problem, backend, others)

    def questions(self) -> tuple[str, ...]:
        """Return questions about suspicious units, clocks and signs of the data; ``solve`` asks them, too."""
        from spookid.estimation.questions import questions

        return tuple(question.text for question in questions(self))

    def profile(self, name: str, solution: Solution | None = None, backend: str = "lm", **options: Any) -> Profile:
        """Compute the likelihood profile of a free Parameter; see ``spookid.studies.profiling``, else ``solve``."""
        from spookid.studies.profiling import profile
        from spookid.studies.variants import fitting

        problem, others = declared.split(self, options)
        return profile(problem, name, fitting(backend, others), solution)

    def crossvalidate(self, backend: str = "lm", **options: Any) -> CrossValidation:
        """Fit each of two or more recordings alone, and evaluate its estimates on all others; see
        ``spookid.studies.crossvalidation``. Arguments and errors are those of ``solve``."""
        from spookid.studies.crossvalidation import crossvalidate
        from spookid.studies.variants import fitting

        problem, others = declared.split(self, options)
        return crossvalidate(problem, fitting(backend, others))

    def base_parameters(self, recordings: Recording | Iterable[Recording] | None = None) -> BaseParameters:
        """Return the combinations of parameters that the motion of ``recordings`` can identify; default: any motion."""
        from spookid.estimation.grouping import base_parameters

        return base_parameters(self, recordings)

    def contact_forces(self, solution: Solution, recording: int = 0) -> dict[str, Array]:
        """Return contact forces on bodies by contact name, (N, rows): forces [N] and moments [N m] in the contact's
        frame, averaged around each step; 0 in flight, NaN at the first and the last step."""
        from spookid.studies.motor_efforts import contact_forces

        return contact_forces(self, solution, recording)

    def impacts(self, solution: Solution, recording: int = 0) -> tuple[Strike, ...]:
        """Return the impacts of a recording: times, speeds of the points before and after, and impulses."""
        from spookid.studies.motor_efforts import strikes

        return strikes(self, solution, recording)

    def touches(self, solution: Solution, recording: int = 0) -> tuple[TouchSpan, ...]:
        """Return times and impulses of impacts of each ``Contact``; ``Trajectory.touches`` has each step."""
        from spookid.studies.motor_efforts import touches

        return touches(self, solution, recording)

    def simulate(
        self,
        parameters: Parameters = None,
        duration: float | None = None,
        initial: Initial = None,
        *,
        recording: int = 0,
        inputs: Recording | None = None,
        noise: Noises = None,
        seed: int = 0,
        substeps: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Recording:
        """Simulate the mechanism forward in time; ``spookid.studies.simulate`` describes results and errors.

        Args:
            parameters: values by name, instead of initial values, or a solution for its estimates.
            duration: [s]; by default that of the recording.
            initial: positions, or positions and rates, of joints' coordinates by name; arrays (q, v); or a solution.
            recording: number of the recording that gives the inputs and the default start and duration.
            inputs: a recording of the motors' signals to use instead; without any they are zero.
            noise: a solution, for its estimated noise, or standard deviations by name; None: no noise.
            seed: seed of the random numbers.
            substeps: number of equal parts of each step; default: as many as convergence to continuous time needs.
            progress: wraps the iteration over the steps, as a progress bar does.
            options: the problem's own settings.
        """
        from spookid.studies.simulating import simulate

        how: dict[str, Any] = {"noise": noise, "seed": seed, "substeps": substeps, "progress": progress}
        return simulate(self.with_(**options), parameters, duration, initial, recording=recording, inputs=inputs, **how)

    def inverse_dynamics(
        self, parameters: Parameters = None, recording: int | Recording = 0, **options: Any
    ) -> MotorEfforts:
        """Compute motor efforts for a recording or a given motion; see ``spookid.studies.inverse_dynamics``."""
        from spookid.studies.motor_efforts import inverse_dynamics

        return inverse_dynamics(self, parameters, recording, **options)

    def payload(self, solution: Solution, recording: Recording, body: str, **options: Any) -> Payload:
        """Identify the payload of a body along a recording; see ``spookid.studies.payload``."""
        from spookid.studies.payloads import payload

        return payload(self, solution, recording, body, **options)

    def excite(self, duration: float, limits: MotionLimits | None = None, **options: Any) -> Excitation:
        """Design a motion of a duration [s] that identifies the parameters best; see ``spookid.studies.excite``. If the
        problem was made from a robot's file, limits that are missing in ``limits`` are read from this file. With
        ``estimator``, expected errors are of this one."""
        from spookid.robots.robot import limits_within
        from spookid.studies.excitation import excite

        problem = self.with_(estimator=options.pop("estimator")) if "estimator" in options else self
        return excite(problem, duration, limits=limits_within(self, limits), **options)

    def expected_errors(
        self, planned: Recording, *, noise: Noises = None, known: Solution | None = None, **options: Any
    ) -> ExpectedErrors:
        """Predict standard errors of a planned motion, with settings such as ``estimator``; see ``studies``."""
        from spookid.studies.expected import expected_errors
        from spookid.studies.planned_motion import completed

        return expected_errors(self.with_(**options), completed(self, planned), noise=noise, known=known)

    def regress(self, solution: Solution | None = None, **options: Any) -> Regression:
        """Estimate parameters by least squares on filtered derivatives; see ``spookid.studies.regress``."""
        from spookid.studies.regression import regress

        return regress(self, solution, **options)

    def nlp(self, solution: Solution | None = None) -> NonlinearProgram:
        """Return the fit as a nonlinear program in CasADi, with the noise of a given solution if noise is estimated."""
        from spookid.studies.nonlinear_program import nonlinear_program

        return nonlinear_program(self, solution)

    def graph(self) -> Picture:
        """Return a factor graph, to print or ``draw(axes, steps=3)``; x: unknowns of a step, λ: multipliers."""
        from spookid.assembly.outlining import picture

        return picture(self)

    def __repr__(self) -> str:
        from spookid.report.conclusion import sizes

        return f"<Problem {self.name!r}: {sizes(self)}>"

    def _repr_html_(self) -> str:
        from spookid.studies.drawing import with_drawing

        return with_drawing(self)

    def blocks(self) -> Sequence[Block]:
        """Summary without a solve: title, bodies, joints, sensors, parameters, recordings and settings."""
        from spookid.report.conclusion import description

        return description(self)

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        return declared.rows(self)
