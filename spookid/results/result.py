"""The answer: frozen data about estimates, states and how they were found. Rendering and files are elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import casadi as ca

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.parameter import parameters_in, symbolic
from spookid.records import dataclass
from spookid.results.findings import Finding, ranked
from spookid.results.lazy import Clock, Lazy, LazyRecord, lazy
from spookid.results.settings import DynamicsAndFriction
from spookid.results.trajectory import MeasuredPoses, Trajectory
from spookid.results.values import (
    Basin,
    ConstraintTension,
    Mechanism,
    Outlier,
    Size,
    Source,
    StageRecord,
    source,
)
from spookid.results.values import Choice as Choice
from spookid.results.values import Derived as Derived
from spookid.results.values import Disturbance as Disturbance
from spookid.results.values import FrictionWidth as FrictionWidth
from spookid.results.values import Noise as Noise
from spookid.results.values import Value as Value
from spookid.solvers.status import Status, Timing
from spookid.statistics.sensitivities import CONSTRAINED, Influence, Sensitivities, prior_share
from spookid.statistics.weak_directions import UNSEEN
from spookid.tables.table import Block, Listed, Tabular, superscripts, uncertain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Estimate(LazyRecord, Listed):
    """One parameter's estimate."""

    name: str
    estimate: float
    std_err: float = lazy()
    """Linearized standard error in ``unit``, for the noise of the residuals: ± 1.96 of it is Student's 95 % interval,
    wider where they leave the noise standard deviation uncertain; NaN if unknown."""
    reason: str = lazy()
    """Reason if ``std_err`` is NaN; else empty."""
    initial: float
    """Initial value."""
    lower: float
    upper: float
    unit: str
    at_bound: bool
    fixed: bool = False
    """True if the user fixed it at its initial value."""
    step_error: float = lazy(math.nan)
    """Discretization bias; ``std_err`` does not contain it. NaN if unknown."""
    from_prior: float = lazy(math.nan)
    """Share of its variance for white noise that is the uncertainty of priors, from 0 to 1, also where ``std_err`` was
    raised above that; NaN if unknown."""
    scale: float = lazy(math.nan)
    """Factor by which ``std_err`` has to grow for the estimates of single recordings to agree, 1 if they do; NaN where
    fewer than two recordings determine it."""

    @property
    def known_from(self) -> Source:
        """Main source of information on the parameter: "data" or "prior"; or "given", "bound" or "nothing"."""
        if self.fixed or self.at_bound:
            return "given" if self.fixed else "bound"
        if self.reason == CONSTRAINED:
            return "given"
        return source(self.std_err, self.from_prior)

    def __repr__(self) -> str:
        return f"<Estimate {self.title}>"

    @property
    def title(self) -> str:
        """Name and value."""
        return f"{self.name} = {self.brief}"

    @property
    def brief(self) -> str:
        """Value and standard error."""
        return f"{uncertain(self.estimate, self.std_err)} {superscripts(self.unit)}".rstrip()


@dataclass(frozen=True)
class Cost(Listed):
    """Weighted sums of squared residuals."""

    state: float
    """κ Σ|Δp|²; with estimated noise the sum of squares of the process noise over its standard deviation."""
    observation: float
    """Σ|Δy/σ|²."""
    prior: float = 0.0
    residual: float = 0.0
    """Part of the user-defined residuals."""

    also = ("total",)

    @property
    def total(self) -> float:
        """Their sum."""
        return self.state + self.observation + self.prior + self.residual


@dataclass(frozen=True)
class IterationRecord(Listed):
    """One accepted iterate of the solver; the first record is the initial point."""

    iteration: int
    cost: Cost
    damping: float
    step_norm: float
    parameters: Mapping[str, float]


@dataclass(frozen=True)
class Times(Listed):
    """Wall times [s]."""

    build: float
    """Symbols, functions, initial states."""
    compile: float
    """Making the model's kernels: derivatives, and programs of them; 0 if they are there."""
    solve: float
    """The solver's whole loop."""
    evaluate: float
    """Part of the loop: residuals and Jacobians."""
    factorize: float
    """Part of the loop: normal equations and their solution."""
    analysis: float = 0.0
    """Diagnostics beyond the estimates, and those that choose the estimator."""
    other: float = 0.0
    """All the rest."""
    bend: float = 0.0
    """Part of the loop: exact second derivatives."""

    also = ("total",)

    @property
    def title(self) -> str:
        return "Times [s]"

    @classmethod
    def of(cls, timing: Timing, build: float, compile: float) -> Times:
        return cls(build, compile, timing.solve, timing.evaluate, timing.factorize, bend=timing.bend)

    @property
    def total(self) -> float:
        """Total time of the solve, without reading and writing files [s]."""
        return self.build + self.compile + self.solve + self.analysis + self.other

    def __add__(self, other: Times) -> Times:
        return Times(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Times)})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution(LazyRecord, Tabular, DynamicsAndFriction):
    """Result of a fit, which ``problem.solve`` returns and ``spookid.load`` reads. All fields except the estimates are
    computed at first use."""

    problem: str
    """Its name."""
    backend: str
    """"lm" or "ipopt"."""
    stepper: str
    """Its name."""
    friction: str
    """Form of dry friction."""
    step: float
    """h [s]."""
    state_weight: float
    """κ; NaN where the noise is estimated."""
    status: Status
    """Status of the solver at its end."""
    detail: str
    """Test that ended the solver."""
    cost: Cost
    """Cost at the solution."""
    history: tuple[IterationRecord, ...]
    """Iterates from the initial values on."""
    parameters: Mapping[str, Estimate]
    """Estimates by name, in the order of declaration."""
    sensitivities: Sensitivities = lazy()
    """Covariance of the estimates, and unidentifiable directions."""
    influence: Influence = lazy()
    """Influence of samples and settings on the estimates."""
    complementarity_residual: float = lazy(missing=math.nan)
    """Largest distance of impulses from the exact law of dry friction [N m s] or contacts [N s]; NaN without."""
    sticking: Mapping[str, float] = lazy(missing={})
    """Share of the time for which each hinge with dry friction sticks, by its name."""
    size: Size
    """Size of the solved problem."""
    times: Times
    """Durations of the fits, without later diagnostics; see ``timing``."""
    versions: Mapping[str, str]
    """Versions of packages, by name."""
    trajectories: tuple[Trajectory, ...] = lazy()
    """Estimated motion, one for each recording."""
    disturbance: tuple[Disturbance, ...] = lazy((), missing=())
    """Estimated process noise of each trajectory; empty if the folder of results does not hold it."""
    measured: tuple[MeasuredPoses, ...] = lazy((), missing=())
    """One of each trajectory; none if it was read from a folder that does not hold them."""
    dynamics: str = "weight"
    """"estimated", "hard" or "weight": where the weight of the equations of motion comes from."""
    log_likelihood: float = math.nan
    """Marginal log-likelihood of the data: compares models with one step and choice of coordinates. NaN with a
    weight."""
    noise: tuple[Noise, ...] = ()
    """Standard deviations of process and measurement noise; empty with a given `state_weight`."""
    friction_widths: Mapping[str, FrictionWidth] = field(default_factory=dict)
    """Of coordinates with smooth dry friction, by their labels, where they were estimated."""
    choice: Choice | None = None
    """None where there was none."""
    findings: tuple[Finding, ...] = lazy((), missing=())
    """Warnings and notes about the set-up and the result, the most important first."""
    mechanism: Mechanism | None = lazy(None, missing=None)
    """None if it was read from a folder that does not hold it."""
    physical: Mapping[str, Derived] = lazy(missing={})
    """Mass, centre of mass, inertia about it of bodies with a FullInertia or coordinates of one: ``"link I_xx"``."""
    joints: Mapping[str, Derived] = lazy(missing={})
    """Friction, springs and drives of joints, as ``"elbow viscous"``: all that depend on parameters."""
    base_parameters: Mapping[str, Derived] = lazy(missing={})
    """Base parameters by name: the combinations of inertias that determine the forces at the joints."""
    source: str = ""
    """Path of the problem file that ``spookid solve`` was given, with ``::key`` if it holds several; else empty."""
    constraints: Mapping[str, ConstraintTension] = lazy(missing={})
    """Tension of each equation of the problem's constraints, by its title."""
    outliers: tuple[Outlier, ...] = ()
    """Samples that are plainly wrong, in the order of recordings, signals and times."""
    stages: tuple[StageRecord, ...] = ()
    """Every fit that led to this answer, in their order; none if it was read from a folder that does not hold them."""
    basins: tuple[Basin, ...] = ()
    """Minima that several starts found, the best first; empty for a single start."""
    normaliser: Array | None = field(default=None, repr=False)
    """Half the slope of the logarithms in −2 log L in free parameters, (n_p,), for fits that continue at this noise."""
    clocks: tuple[Clock, ...] = field(default=(), repr=False)
    """Of what is lazy in this result and in the fits that led to it."""

    @property
    def timing(self) -> Times:
        """Durations of the stages so far [s]."""
        return replace(self.times, analysis=self.times.analysis + sum(clock.seconds for clock in self.clocks))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.6g}" for name, value in self.values.items())  # nothing lazy is computed
        return f"<{type(self).__name__} of {self.problem!r}, {self.status.value}: {values}>"

    @property
    def message(self) -> str:
        """Reason why the solver stopped, with a remedy if it failed."""
        found = [self.status.advice.removesuffix(".")]
        if self.status in (Status.MAX_ITERATIONS, Status.STALLED):
            found += self._causes()
        return f"{'; '.join(found)} ({self.detail})."

    def _causes(self) -> Iterator[str]:
        """Why it stopped before its minimum, the likeliest first."""
        for weak in self.sensitivities.weak:
            if weak.singular_value < UNSEEN and len(weak.direction) > 1:
                names = ", ".join(weak.direction)
                yield f"the data do not determine a combination of parameters {names}, along which a fit may diverge"
        if self.is_weighted:
            yield "joints may be too stiff for `state_weight`: raise the compliance, or take a smaller weight"
        if self.status is Status.STALLED and self.sticking:
            yield "the friction width may be too small"

    @property
    def contradicted(self) -> bool:
        """True if the data contradict the model, that is, a finding is an error: estimates are then meaningless."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def no_answer(self) -> str:
        """Reason why the estimates are not valid, to be read after "is"; empty if they are valid."""
        if self.status is not Status.CONVERGED:
            return f"not converged ({self.status.value})"
        return "contradicted by the data" if self.contradicted else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """``findings`` in sentences."""
        return tuple(finding.text for finding in self.findings)

    def with_findings(self, more: Callable[[], Iterable[Finding]]) -> Self:
        """Return a copy with further findings, which are computed at first use."""
        clock = next(iter(self.clocks), Clock())
        return self.changed(findings=Lazy(lambda: ranked([*self.findings, *more()]), clock))

    @property
    def iterations(self) -> int:
        """Accepted steps."""
        return max(len(self.history) - 1, 0)

    def __getitem__(self, name: str) -> Estimate:
        """Estimate of a parameter.

        Raises:
            KeyError: for a name that is none.
        """
        try:
            return self.parameters[name]
        except KeyError:
            raise KeyError(f"no parameter {name!r}; there are {', '.join(self.parameters)}") from None

    @property
    def values(self) -> dict[str, float]:
        """Estimates by name."""
        return {name: parameter.estimate for name, parameter in self.parameters.items()}

    def __call__(self, expression: Any, recording: str | None = None) -> Value:
        """Value of an expression of parameters, with its linearized standard error.

        Args:
            recording: whose parameters are meant where each has its own.

        Raises:
            ProblemError: if it is no scalar expression, or holds a parameter that this solution does not know, or that
                each recording has its own of while none is named.
        """
        e = symbolic(expression, "the expression")
        declared = parameters_in([e], "the expression")
        if recording is None and (own := [p for p in declared if p.per and p.name not in self.parameters]):
            raise ProblemError(
                f"the expression contains parameter {own[0].name!r}, which has a value per recording; give recording="
            )
        if recording is not None and (own := [p for p in declared if p.per]):
            e = ca.substitute(e, ca.vertcat(*own), ca.vertcat(*(p.of(recording) for p in own)))
        symbols = parameters_in([e], "the expression")
        if unknown := [p.name for p in symbols if p.name not in self.parameters]:
            what = f"{unknown[0]!r}, which is no parameter of {self.problem!r}"
            raise ProblemError(f"the expression contains {what}; remove it")
        x = ca.vertcat(*symbols)
        known, at = self.sensitivities, [self.parameters[p.name].estimate for p in symbols]
        function = ca.Function("value", [x], [e, ca.densify(ca.jacobian(e, x))])
        value = function(ca.DM(at))[0]
        gradient = function(ca.DM([known.at.get(p.name, a) for p, a in zip(symbols, at, strict=True)]))[1]
        # Fixed parameters are certain.
        slopes = {p.name: float(gradient[0, i]) for i, p in enumerate(symbols) if p.name in known.names}
        error, reason = known.error_of({name: slope for name, slope in slopes.items() if slope})
        return Value(float(value), error, reason, prior_share(slopes, error, known.names, known.seen))

    def summary(self, verbose: bool = False) -> str:
        """Summary for a terminal: verdict, warnings, estimates, unidentifiable parameters, and noise.

        Args:
            verbose: True with notes, all parameters with initial values and bounds, base parameters, residuals, costs,
                sizes, times and versions.
        """
        from spookid.report.summary import summarize

        return summarize(self, verbose)

    def __str__(self) -> str:
        return self.summary()

    def blocks(self) -> Sequence[Block]:
        """Verdict, tables and sentences of the summary."""
        from spookid.report.summary import printed

        return printed(self)

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        values = ("estimate", "std_err", "unit", "initial", "lower", "upper", "at_bound", "fixed", "reason")
        names = (*values, "known_from", "from_prior", "scale")
        return [{"parameter": p.name, **{n: getattr(p, n) for n in names}} for p in self.parameters.values()]

    def plot(self, name: str = "fit") -> Figure:
        """Return a Matplotlib figure of the fit, which a notebook shows.

        Args:
            name: ``"fit"``: measured and estimated signals; ``"convergence"``: costs and parameters by iteration;
                ``"parameters"``: estimates with intervals and bounds; ``"influence"``: how far each estimate
                moves without a block of a recording; ``"starts"``: ends of several starts; ``"mechanism"``: bodies and
                joints along the first recording.

        Raises:
            ProblemError: for a name that is none.
        """
        from spookid.report.export import figure

        return figure(self, name)

    def save(self, directory: str | PathLike[str], *, animate: bool = False) -> None:
        """Write the result folder; see ``spookid.report.export.save``."""
        from spookid.report.export import save

        save(self, directory, animate=animate)
