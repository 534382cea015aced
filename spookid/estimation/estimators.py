"""Which of two estimators is the answer: noise estimated, or hard dynamics with errors from stretches.

The fit with estimated noise is consistent and stands by default. Steps of an encoder or a clock that jitters look like
a random torque to it, and make its errors wide; hard dynamics take them for errors of the sensors. They replace it only
if white noise of the size that was found is denied, as it would make them leave more than they do; if no recording is
driven in closed loop, and its motion is stable; if a test does not tell both answers apart; and if their errors are
smaller by more than a factor of 1.5 in the median (``statistics.hard_dynamics``, ``statistics.two_estimators``). Two
fits that differ say that the model lacks something, and so does the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.data.recording import Recording
from spookid.estimation import symptoms
from spookid.estimation.knowledge import Knowledge, at_bounds
from spookid.estimation.likelihood_fit import Found
from spookid.kernels.kernel import Array
from spookid.problem import Problem
from spookid.results.notices import DIFFER, ranked
from spookid.results.solution import Choice, Noise, Solution, Trajectory
from spookid.solvers.status import Status
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.condensed import Contraction, linear
from spookid.statistics.covariance import LEAST_STRETCH, without_stretches
from spookid.statistics.hard_dynamics import denied, feedback, unstable
from spookid.statistics.jackknife import WINDOWS
from spookid.statistics.misfit import FALSE_ALARMS, Answers
from spookid.statistics.two_estimators import Answer, Verdict, compared
from spookid.transcription.transcription import Point


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit and what it was made of."""

    solution: Solution
    assembly: Assembly
    point: Point
    knowledge: Knowledge
    found: Found | None
    """None where no noise was estimated."""

    @cached_property
    def answers(self) -> Answers | None:
        """What its residuals say of usual misfits; None if it is none whose residuals should be white."""
        found, contraction = self.found, self.knowledge.contraction
        white = self.solution.status is Status.CONVERGED and self.assembly.problem.estimator != "hard"
        if found is None or contraction is None or not white:
            return None
        return symptoms.answers(found, contraction, self.solution.trajectories, self.solution.values)

    def told(self, coarser: Answers | None = None) -> Solution:
        """The solution with what its model lacks, the step's part taken off if a coarser fit tells it."""
        lacking = symptoms.notices(self.answers, coarser)
        return replace(self.solution, notices=ranked([*lacking, *self.solution.notices]))


@dataclass(frozen=True, eq=False)
class Decision:
    """The estimator that was chosen."""

    problem: Problem
    """As it is solved with this estimator from now on."""
    fit: Fit
    choice: Choice | None
    """None if there was none."""
    first: Fit
    """With noise estimated."""

    def told(self, solution: Solution) -> Solution:
        """A solution with this estimator, and what the decision says of it."""
        if self.choice is None:
            return solution
        notices = ranked([*solution.notices, *_lacking(self.choice)])
        solution = replace(solution, choice=self.choice, notices=notices)
        if self.choice.estimator != "hard":
            return solution
        noise, likelihood = tuple(map(_none, solution.noise)), self.first.solution.log_likelihood
        misfit = [
            f"{notice} This is from the fit with noise estimated." for notice in symptoms.notices(self.first.answers)
        ]
        notices = ranked([*notices, *misfit])
        return replace(solution, noise=noise, normaliser=None, log_likelihood=likelihood, notices=notices)


def fresh(problem: Problem, known: Solution | None) -> tuple[Problem, Solution | None]:
    """The problem and the solution to start from; of one with hard dynamics the estimates alone.

    Its motion lacks nothing to obey the mechanics, and no search for what disturbs it would find anything from there.
    """
    if known is None or known.choice is None or known.choice.estimator != "hard":
        return problem, known
    pairs = ((p, known.values.get(p.name, np.nan)) for p in problem.free)
    values = {p.name: float(np.clip(value, p.lower, p.upper)) for p, value in pairs if np.isfinite(value)}
    return problem.with_(initial={**values, **problem.initial}), None


def decided(problem: Problem, first: Fit, again: Callable[[Problem], Fit]) -> Decision:
    """Choose between the first fit and one with hard dynamics.

    Args:
        again: solves a problem, going on from the first fit.
    """
    stands = Decision(problem, first, None, first)
    converged = first.solution.status is Status.CONVERGED
    if first.found is None or not (converged and problem.scheme.offers_hard and problem.free):
        return stands
    if problem.estimator != "auto":
        return replace(stands, choice=Choice(problem.estimator, "as asked"))
    disturbances = [noise for noise in first.solution.noise if noise.kind == "disturbance"]
    if all(noise.given for noise in disturbances):
        return stands
    if doubt := _doubt(first, disturbances):
        return replace(stands, choice=Choice("noise", doubt))
    hard = problem.with_(estimator="hard")
    try:
        second = again(hard)
    except KeyboardInterrupt:
        second = None
    if second is None or second.solution.status is Status.INTERRUPTED:
        detail = "while hard dynamics were tried"
        solution = replace(first.solution, status=Status.INTERRUPTED, detail=detail)
        return replace(stands, fit=replace(first, solution=solution))
    choice = _chosen(first, second)
    if choice.estimator == "hard":
        return Decision(hard, second, choice, first)
    solution = replace(first.solution, times=second.solution.times)
    return replace(stands, fit=replace(first, solution=solution), choice=choice)


# --- before the second fit ---


def _doubt(first: Fit, disturbances: list[Noise]) -> str:
    """Why hard dynamics are not to be believed; empty if they may be."""
    if any(noise.given and noise.std > 0 for noise in disturbances):
        return "a disturbance is given"
    if not any(np.isfinite(noise.error) for noise in disturbances):
        return "no disturbance is seen, and hard dynamics would say the same"
    steps = [chain.steps for chain in first.assembly.transcription.chains]
    if sum(steps) / len(steps) < LEAST_STRETCH * WINDOWS:
        return "the recordings are too short for errors from their stretches"
    pairs = list(zip(first.assembly.evidence, first.solution.trajectories, strict=True))
    level = FALSE_ALARMS / len(pairs)
    for evidence, trajectory in pairs:
        if words := _closed(evidence.recording, evidence.inputs, trajectory, level):
            return f"{evidence.recording.name} is driven in closed loop ({words})"
    if first.knowledge.contraction is None or unstable(first.knowledge.contraction):
        return "the motion is not stable"
    return "" if _denied(first) else "what disturbs the motion adds up as white noise does"


def _closed(recording: Recording, inputs: Array, trajectory: Trajectory, level: float) -> str:
    """How a closed loop is known; empty if there is none."""
    if recording.closed_loop is not None:
        return "as declared" if recording.closed_loop else ""
    noise = np.hstack([trajectory.impulse_residual, trajectory.observed - trajectory.predicted])
    return "its input answers to what disturbs it" if feedback(inputs, noise) < level else ""


def _denied(first: Fit) -> bool:
    """True if the disturbance is no white noise of the size that was found; linearized at the first fit."""
    stiff = None if first.found is None else first.found.stiff
    if stiff is None:
        return False
    try:
        there = Contraction(linear(stiff.problem, first.point), at_bounds(stiff.problem, first.point))
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return False
    return denied(there, stiff.sizes)


# --- after it ---


def _chosen(first: Fit, second: Fit) -> Choice:
    answers = _answer(first), _answer(second)
    if second.solution.status is not Status.CONVERGED or answers[0] is None or answers[1] is None:
        return Choice("noise", "the fit with hard dynamics did not converge")
    return judged(first.solution.sensitivities.names, compared(answers[0], answers[1]))


def judged(names: tuple[str, ...], verdict: Verdict) -> Choice:
    """The choice between two answers that may both be believed."""
    if np.any(verdict.differ):
        pairs = zip(names, verdict.sigmas.tolist(), verdict.differ.tolist(), strict=True)
        differing = {name: sigma for name, sigma, differs in pairs if differs}
        return Choice("noise", f"hard dynamics differ on {_listed(differing)}", differing)
    if verdict.replaces:
        words = f"a fit with noise estimated agrees, and its errors are {verdict.gain:.2g} times as large"
        return Choice("hard", words)
    return Choice("noise", "hard dynamics agree and are not sharper" if verdict.agree else "stretches do not tell more")


def _answer(fit: Fit) -> Answer | None:
    evidence, point = fit.knowledge.evidence, fit.point.parameters
    if evidence is None:
        return None
    magnitudes = np.maximum(np.abs(point), fit.assembly.transcription.magnitudes)
    changes = without_stretches(evidence, magnitudes)
    return Answer(point, fit.solution.sensitivities.standard_errors, changes)


def _lacking(choice: Choice) -> list[str]:
    if not choice.differing:
        return []
    return [f"{DIFFER} {_listed(choice.differing)}: the model lacks something that is no white noise."]


def _listed(differing: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ({sigma:.1f} sigma)" for name, sigma in differing.items())


def _none(noise: Noise) -> Noise:
    """The same, but a disturbance as none."""
    return replace(noise, std=0.0, density=0.0) if noise.kind == "disturbance" else noise
