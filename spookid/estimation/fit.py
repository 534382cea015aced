"""One fit and its result: estimates are available at once, everything else is computed when it is first used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.outlining import measured_poses, mechanism
from spookid.assembly.schedules import unsettled_findings
from spookid.assembly.trajectories import complementarity, sticking, trajectories
from spookid.estimation import between, disturbances, misspecification, physical, step_errors, tensions
from spookid.estimation.contact_findings import contact_findings, schedule_findings, sliding_findings
from spookid.estimation.disturbances import excess_findings, followed_findings, unexplained_findings
from spookid.estimation.identifiability import (
    Identifiability,
    condensed_at,
    contradictions,
    disagreement,
    identified,
    papers_weight,
    trade_offs,
)
from spookid.estimation.likelihood_fit import Likelihood
from spookid.estimation.misspecification import hold_findings
from spookid.estimation.tensions import held_findings
from spookid.kernels.arrays import Array
from spookid.kernels.library import evaluator, warning
from spookid.parameter import Parameter
from spookid.records import dataclass
from spookid.results.findings import Finding, ranked
from spookid.results.folders import versions
from spookid.results.lazy import Clock, Lazy
from spookid.results.result import Cost, Estimate, IterationRecord, Solution, Times
from spookid.results.trajectory import Trajectory
from spookid.results.values import ConstraintTension, Size
from spookid.solvers.status import Iteration, Outcome, Status
from spookid.statistics.condensing import Condensed
from spookid.statistics.score_tests import ScoreTests
from spookid.statistics.sensitivities import Influence, Sensitivities, prior_share
from spookid.transcription.factor import Group
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point, Transcription


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of one fit, with the assembly and solver state from which it was computed."""

    assembly: Assembly
    outcome: Outcome
    backend: str
    times: Times
    likelihood: Likelihood | None
    """None where no noise was estimated."""
    over: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the result that are others than those of this fit."""
    clock: Clock = field(default_factory=Clock)
    """Of what is computed after it."""

    @property
    def point(self) -> Point:
        """Where it ended."""
        return self.outcome.point

    @cached_property
    def values(self) -> dict[str, float]:
        """Number of every parameter."""
        return self.assembly.values(self.point)

    @property
    def rank(self) -> tuple[bool, float]:
        """Rank of a fit among fits of one problem; higher is better."""
        return self.outcome.status is Status.CONVERGED, self.result.log_likelihood

    @cached_property
    def condensed(self) -> Condensed | None:
        """Linearized problem without states; None if the states are not determined."""
        return condensed_at(self.assembly.transcription, self.point, self._free)

    @cached_property
    def identifiability(self) -> Identifiability:
        """Analysis of the identifiability of the parameters."""
        doubt = self.likelihood.doubt if self.likelihood and self.condensed is not None else 0.0
        return identified(self.assembly, self.point, self._free, self.condensed, doubt)

    @cached_property
    def between(self) -> Mapping[str, between.ParameterBetween]:
        """What single recordings would estimate."""
        recordings = [sampled.recording.name for sampled in self.assembly.sampled]
        return between.between_recordings(self.identifiability, self._free, recordings)

    @property
    def _free(self) -> FreeDirections:
        return self.assembly.transcription.free_directions(self.point.parameters)

    @cached_property
    def tensions(self) -> Mapping[str, ConstraintTension]:
        """Tests of the constraints between parameters against the data."""
        normaliser = None if self.likelihood is None else self.likelihood.normaliser
        return tensions.tensions(self.assembly, self.point, self.identifiability, normaliser)

    @cached_property
    def motion(self) -> tuple[Trajectory, ...]:
        """Estimated, on each recording."""
        return trajectories(self.assembly, self.point)

    @cached_property
    def influence(self) -> Influence:
        """Derivatives of the estimates with respect to data and settings."""
        return step_errors.influence(self.assembly, self.point, self.identifiability, self.motion)

    @property
    def _determined(self) -> Condensed | None:
        """The linearized problem without the directions of the parameters that the data do not see, such as a common
        scale of all forces, along which the residuals lie; None if the states are not determined."""
        condensed, hidden = self.condensed, self.identifiability.analysis.hidden
        if condensed is None or not len(hidden):
            return condensed
        problem = self.assembly.transcription
        sizes = np.maximum(np.abs(self.point.parameters), problem.magnitudes)
        return condensed.across((hidden * sizes).T)

    @cached_property
    def score_tests(self) -> ScoreTests | None:
        """Score tests of the residuals for typical model errors; None if no residuals should be white."""
        condensed = self._determined
        white = self.result.status is Status.CONVERGED and not self.assembly.problem.is_hard
        if self.likelihood is None or condensed is None or not white:
            return None
        return misspecification.misspecification_tests(
            self.assembly,
            self.point,
            self.likelihood.states,
            condensed,
            self.motion,
            self.values,
            self.identifiability.sensitivities.standard_errors,
        )

    def told(self, coarser: Callable[[], ScoreTests | None] = lambda: None) -> Solution:
        """Result with findings on model errors; a coarser fit shows which of them are discretization error."""

        return self.result.with_findings(lambda: misspecification.misfit_findings(self.score_tests, coarser))

    def with_(self, **fields: Any) -> Fit:
        """Same fit with other fields of its result."""
        copy = replace(self, over={**self.over, **fields})
        known = ("condensed", "identifiability", "motion", "influence")
        copy.__dict__.update({name: value for name, value in self.__dict__.items() if name in known})
        return copy

    def judged(self, known: Identifiability, step_error: Array) -> Fit:
        """Same fit with results of other fits about its parameters, and the discretization bias, (n_p,)."""
        copy, influence = replace(self), step_errors.of_elsewhere(self.assembly, step_error)
        copy.__dict__.update(condensed=known.condensed, identifiability=known, influence=influence)
        return copy

    def later(self, make: Callable[[], object]) -> Any:
        """Lazy value of a field, whose time counts as analysis of this fit."""
        return Lazy(make, self.clock)

    @cached_property
    def result(self) -> Solution:
        """The answer."""
        problem, transcription, found = self.assembly.problem, self.assembly.transcription, self.likelihood
        at = self.assembly, self.point
        made = Solution(
            problem=problem.name,
            backend=self.backend,
            stepper=problem.stepper.name,
            friction=problem.friction,
            step=problem.step,
            state_weight=math.nan if problem.estimates_noise else problem.weight,
            dynamics=problem.dynamics,
            log_likelihood=math.nan if found is None else found.log_likelihood,
            noise=() if found is None else found.noise,
            status=self.outcome.status,
            detail=self.outcome.detail,
            cost=_cost(self.outcome.history[-1].costs),
            history=tuple(_step(iteration, transcription.names) for iteration in self.outcome.history),
            parameters={p.name: self._estimate(p) for p in problem.parameters},
            physical={},
            joints={},
            base_parameters={},
            sensitivities=self.later(lambda: self.identifiability.sensitivities),
            influence=self.later(lambda: self.influence),
            complementarity_residual=self.later(lambda: complementarity(*at)),
            sticking=self.later(lambda: sticking(problem, self.motion)),
            size=_size(transcription),
            times=self.times,
            versions={**versions(), "kernels": evaluator()},
            constraints=self.later(lambda: self.tensions),
            trajectories=self.later(lambda: self.motion),
            disturbance=self.later(lambda: disturbances.disturbances(*at, self.condensed, self.motion)),
            measured=self.later(lambda: measured_poses(*at, self.motion)),
            findings=self.later(self._findings),
            mechanism=self.later(lambda: mechanism(problem, self.values)),
            normaliser=None if found is None else found.normaliser,
            clocks=(self.clock,),
        )
        return made.changed(**self.over)

    def _estimate(self, parameter: Parameter) -> Estimate:
        problem, name, value = self.assembly.problem, parameter.name, self.values[parameter.name]
        fixed = name not in self.assembly.transcription.names
        known = Estimate(
            name=name,
            estimate=value,
            std_err=math.nan,
            reason="fixed by the user",
            initial=problem.guess[name],
            lower=parameter.lower,
            upper=parameter.upper,
            unit=parameter.unit,
            at_bound=not fixed and not parameter.lower < value < parameter.upper,
            fixed=fixed,
        )
        if fixed:
            return known
        i = self.assembly.transcription.names.index(name)

        def sensitivities() -> Sensitivities:
            return self.identifiability.sensitivities

        def step_error() -> float:
            return math.nan if name in sensitivities().reasons else float(self.influence.step_error[i])

        def from_prior() -> float:
            s = sensitivities()
            return prior_share({name: 1.0}, float(s.standard_errors[i]), s.names, s.seen)

        return known.changed(
            std_err=self.later(lambda: float(sensitivities().standard_errors[i])),
            reason=self.later(lambda: sensitivities().reasons.get(name, "")),
            step_error=self.later(step_error),
            from_prior=self.later(from_prior),
            scale=self.later(lambda: self.between[name].scale if name in self.between else math.nan),
        )

    def _findings(self) -> tuple[Finding, ...]:
        """What a user should know, by rank; of what follows from the estimates nothing unless the fit has converged."""
        assembly, identifiability = self.assembly, self.identifiability
        problem, known = assembly.problem, identifiability.sensitivities
        remarks = [*papers_weight(problem), *assembly.findings, *_redundant(self.outcome)]
        remarks += [Finding("kernels.slow", effect=why)] if (why := warning()) else []
        remarks += unexplained_findings(assembly, self.point, self.motion)
        remarks += excess_findings(problem, self.motion)
        remarks += schedule_findings(assembly, self.point, self.motion)
        remarks += contact_findings(assembly, self.point)
        if self.outcome.status is not Status.CONVERGED:
            if self.outcome.status in (Status.STALLED, Status.MAX_ITERATIONS):
                remarks += held_findings(assembly, self.point, self.motion)
            return ranked([*identifiability.findings, *unsettled_findings(problem.model), *remarks])
        steps = []
        if not (problem.corrects or (problem.every or 1) > 1):
            steps = step_errors.step_error_findings(assembly, self.point, known, self.influence.step_error)
        follows = [*contradictions(assembly, self.point, identifiability), *disagreement(assembly, known)]
        follows += trade_offs(problem, known)
        follows += hold_findings(assembly, self.point, identifiability.condensed, known)
        follows += tensions.contradicted(self.tensions)
        follows += between.disagreements(self.between, self.values, {p.name: p.unit for p in problem.free})
        follows += sliding_findings(assembly, self.point, identifiability.condensed, self.values)
        follows += followed_findings(() if self.likelihood is None else self.likelihood.noise, self.motion)
        unphysical = physical.inertia_findings(problem, self.values, known, self.motion)
        vanished = physical.mass_findings(problem, self.values)
        return ranked([*identifiability.findings, *follows, *unphysical, *vanished, *steps, *remarks])


def _step(iteration: Iteration, names: Sequence[str]) -> IterationRecord:
    parameters = dict(zip(names, iteration.parameters.tolist(), strict=True))
    return IterationRecord(
        iteration.iteration, _cost(iteration.costs), iteration.damping, iteration.step_norm, parameters
    )


def _cost(costs: Mapping[Group, float]) -> Cost:
    return Cost(costs[Group.STATE], costs[Group.OBSERVATION], costs[Group.PRIOR], costs[Group.RESIDUAL])


def _size(transcription: Transcription) -> Size:
    steps = sum(chain.steps for chain in transcription.chains)
    return Size(
        recordings=len(transcription.chains),
        steps=steps,
        states=steps * transcription.manifold.tangent,
        parameters=len(transcription.names),
        residuals=transcription.rows,
        jacobian_nonzeros=transcription.nonzeros,
    )


def _redundant(outcome: Outcome) -> list[Finding]:
    effect = f"{outcome.redundant} constraint equations of each step follow from the others, as in a closed loop."
    return [Finding("constraints.redundant", (), {"rows": outcome.redundant}, effect)] if outcome.redundant else []


def joined(first: Solution, second: Solution) -> dict[str, Any]:
    """Fields of the second of two solves, with history and times of both."""
    later = (replace(step, iteration=step.iteration + first.iterations) for step in second.history[1:])
    return {
        "history": (*first.history, *later),
        "times": first.times + second.times,
        "clocks": tuple(dict.fromkeys((*first.clocks, *second.clocks))),
    }


def with_added_variance(known: Solution, added: Callable[[], Array], clock: Clock, raised: bool = False) -> Solution:
    """Solution with a term added to the covariance of its estimates, (n_p, n_p); see ``with_variance``."""
    sensitivities = Lazy(lambda: known.sensitivities.with_variance(added(), raised), clock)
    names = [name for name, one in known.parameters.items() if not one.fixed]
    parameters = dict(known.parameters)
    for i, name in enumerate(names):
        parameters[name] = parameters[name].changed(std_err=Lazy(partial(_error, sensitivities, i), clock))
    return known.changed(sensitivities=sensitivities, parameters=parameters)


def _error(sensitivities: Lazy[Sensitivities], place: int) -> float:
    return float(sensitivities.get().standard_errors[place])
