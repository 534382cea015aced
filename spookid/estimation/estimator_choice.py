"""Which of two estimators is the answer: noise estimated, or hard dynamics with errors from stretches.

The fit with estimated noise is consistent and stands by default. Steps of an encoder or a clock that jitters look like
a random torque to it, and make its errors wide; hard dynamics take them for errors of the sensors. They replace it only
if white noise of the size that was found is denied, as it would make them leave more than they do; if no recording is
driven in closed loop, and its motion is stable; if a test does not tell both answers apart; and if their errors are
smaller by more than a factor of 1.5 in the median (``statistics.hard_dynamics``, ``statistics.hausman``). Two
fits that differ say that the model lacks something, and so does the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.estimation import misspecification
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.starts import with_impacts_at_rest
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.results.result import Choice, Noise, Solution
from spookid.results.trajectory import Trajectory
from spookid.solvers.status import Status
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.block_jackknife import BLOCKS
from spookid.statistics.condensing import Condensed
from spookid.statistics.covariance import LEAST_BLOCK, without_blocks
from spookid.statistics.hausman import EstimatorOutput, HausmanTest, denied, feedback, hausman_test, unstable
from spookid.statistics.linearized import linearize
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.stepping.base import DETERMINISTIC


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
        choice = self.choice

        def more() -> list[Finding]:
            hard = misspecification.misfit_findings(self.first.score_tests) if choice.is_hard else []
            misfit = [replace(f, advice=f"{f.advice} This is from the fit with noise estimated.") for f in hard]
            return [*_lacking(choice), *misfit]

        solution = solution.with_findings(more).changed(choice=choice)
        if not choice.is_hard:
            return solution
        noise, likelihood = tuple(map(_none, solution.noise)), self.first.result.log_likelihood
        return solution.changed(noise=noise, normaliser=None, log_likelihood=likelihood)


def choose_estimator(work: Work, first: Fit) -> Decision:
    """Choose between the first fit, which may have ended near its maximum, and one with hard dynamics."""
    problem = first.assembly.problem
    stands = Decision(problem, first, None, first)
    converged = first.result.status is Status.CONVERGED
    if first.likelihood is None or not (converged and DETERMINISTIC not in problem.scheme.refuses and problem.free):
        return stands
    if not problem.chooses_estimator:
        return replace(stands, choice=Choice(problem.estimator, "as asked"))
    disturbances = [noise for noise in first.result.noise if noise.kind == "disturbance" and noise.unit != "m/s"]
    if all(noise.given for noise in disturbances):
        return stands
    if doubt := first.clock.time(partial(_doubt, first, disturbances)):
        return replace(stands, choice=Choice("noise", doubt))
    if first.likelihood.carry is not None:  # what two estimators differ by is told by their ends
        return choose_estimator(work, work.finished(first))
    hard = problem.with_(estimator="hard")
    try:
        second = with_impacts_at_rest(work, work.run(hard, Start(first.result), first))
    except KeyboardInterrupt:
        second = None
    if second is None or second.result.status is Status.INTERRUPTED:
        interrupted = {"status": Status.INTERRUPTED, "detail": "while hard dynamics were tried"}
        return replace(stands, fit=first.with_(**interrupted))
    choice = first.clock.time(partial(_chosen, first, second))
    if choice.is_hard:
        return Decision(hard, second, choice, first)
    both = {"times": second.result.times, "clocks": second.result.clocks}
    return replace(stands, fit=first.with_(**both), choice=choice)


# --- before the second fit ---


def _doubt(first: Fit, disturbances: list[Noise]) -> str:
    """Why hard dynamics are not to be believed; empty if they may be."""
    if any(noise.given and noise.std > 0 for noise in disturbances):
        return "a disturbance is given"
    if not any(np.isfinite(noise.error) for noise in disturbances):
        return "no disturbance is seen, and hard dynamics would say the same"
    steps = [chain.steps for chain in first.assembly.transcription.chains]
    if sum(steps) / len(steps) < LEAST_BLOCK * BLOCKS:
        return "the recordings have too few steps for hard dynamics, whose errors are all from stretches"
    pairs = list(zip(first.assembly.sampled, first.motion, strict=True))
    level = FALSE_ALARMS / len(pairs)
    for sampled, trajectory in pairs:
        if words := _closed(sampled.recording, sampled.acting.held, trajectory, level):
            return f"{sampled.recording.name} is driven in closed loop ({words})"
    if not _denied(first):
        return "what disturbs the motion adds up as white noise does"
    return "the motion is not stable" if first.condensed is None or unstable(first.condensed) else ""


def _closed(recording: Recording, inputs: Array, trajectory: Trajectory, level: float) -> str:
    """How a closed loop is known; empty if there is none."""
    if recording.closed_loop is not None:
        return "as declared" if recording.closed_loop else ""
    noise = np.hstack([trajectory.impulse_residual, trajectory.observed - trajectory.predicted])
    return "its input answers to what disturbs it" if feedback(inputs, noise) < level else ""


def _denied(first: Fit) -> bool:
    """True if the disturbance is no white noise of the size that was found; linearized at the first fit."""
    stiff = None if first.likelihood is None else first.likelihood.stiff
    if stiff is None:
        return False
    try:
        free = stiff.problem.free_directions(first.point.parameters)
        there = Condensed(linearize(stiff.problem, first.point), free)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return False
    return denied(there, stiff.sizes)


# --- after it ---


def _chosen(first: Fit, second: Fit) -> Choice:
    one, other = _answer(first), _answer(second)
    if second.result.status is not Status.CONVERGED or one is None or other is None:
        return Choice("noise", "the fit with hard dynamics did not converge")
    verdict = hausman_test(one, other)
    if np.any(verdict.differ):  # so may what the step adds to each
        verdict = hausman_test(_without_step(one, first), _without_step(other, second))
    return choice_by(first.identifiability.sensitivities.names, verdict)


def choice_by(names: tuple[str, ...], verdict: HausmanTest) -> Choice:
    """The choice between two answers that may both be believed."""
    if np.any(verdict.differ):
        pairs = zip(names, verdict.sigmas.tolist(), verdict.differ.tolist(), strict=True)
        differing = {name: sigma for name, sigma, differs in pairs if differs}
        return Choice("noise", f"hard dynamics differ on {_listed(differing)}", differing)
    if verdict.replaces:
        words = f"a fit with noise estimated agrees, and its errors are {verdict.gain:.2g} times as large"
        return Choice("hard", words)
    return Choice("noise", "hard dynamics agree and are not sharper" if verdict.agree else "stretches do not tell more")


def _answer(fit: Fit) -> EstimatorOutput | None:
    statistics, point = fit.identifiability.statistics, fit.point.parameters
    if statistics is None:
        return None
    magnitudes = np.maximum(np.abs(point), fit.assembly.transcription.magnitudes)
    free = fit.assembly.transcription.free_directions(point, unequal=False)
    changes = without_blocks(statistics, magnitudes, free)
    return EstimatorOutput(point, fit.identifiability.sensitivities.standard_errors, changes)


def _without_step(answer: EstimatorOutput, fit: Fit) -> EstimatorOutput:
    """In continuous time, as far as that is known."""
    return replace(answer, estimates=answer.estimates - np.nan_to_num(fit.influence.step_error))


def _lacking(choice: Choice) -> list[Finding]:
    if not choice.differing:
        return []
    said = f"Fits with noise estimated and with hard dynamics differ on {_listed(choice.differing)}"
    effect = f"{said}: the model lacks something that is no white noise."
    advice = "Take half the step; if this stays, look at the residuals."
    evidence = {"standard_errors": dict(choice.differing)}
    return [Finding("estimators.differ", tuple(choice.differing), evidence, effect, advice=advice)]


def _listed(differing: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ({sigma:.1f} sigma)" for name, sigma in differing.items())


def _none(noise: Noise) -> Noise:
    """The same, but a disturbance as none."""
    return replace(noise, std=0.0, density=0.0) if noise.kind == "disturbance" else noise
