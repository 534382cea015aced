"""Choice between two estimators: estimated process noise, or deterministic dynamics with block-jackknife errors.

The fit with estimated process noise is consistent, and the default. Encoder steps and clock jitter look like a random
torque to it, and make its standard errors wide; deterministic dynamics attribute them to the sensors. Deterministic
dynamics replace it only if all of these hold: process noise of the estimated intensity is rejected, because it would
cause larger residuals; no recording is driven in closed loop; the motion is stable; both estimates agree by a test; and
the standard errors, including the effect of possible process noise, are smaller by more than a factor of 1.5 in the
median (``statistics.hausman``). With a true random force, the fit with estimated noise is more accurate and is kept. If
the estimates disagree, the model is incomplete, and a finding reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from spookid.estimation import misspecification
from spookid.estimation.fit import Fit, with_added_variance
from spookid.estimation.fitting import Start
from spookid.estimation.identifiability import condensed_at
from spookid.estimation.starts import with_impacts_at_rest
from spookid.estimation.trials import correlated_noise, with_correlation
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.results.result import Choice, Noise, Solution
from spookid.solvers.status import Status
from spookid.statistics.block_jackknife import BLOCKS
from spookid.statistics.covariance import without_blocks
from spookid.statistics.hausman import (
    EstimatorOutput,
    HausmanTest,
    denied,
    feedback,
    hausman_test,
    under_process_noise,
    unstable,
    without_echoes,
)
from spookid.statistics.sensitivities import LEAST_BLOCK
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.stepping.base import DETERMINISTIC


def choose_estimator(work: Work, first: Fit) -> Fit:
    """Return the first fit, possibly continued to its maximum, or a fit with deterministic dynamics."""
    problem, converged = first.assembly.problem, first.result.status is Status.CONVERGED
    if first.likelihood is None or not (converged and DETERMINISTIC not in problem.scheme.refuses and problem.free):
        return first

    def chosen(choice: Choice, fit: Fit = first) -> Fit:
        work.remarks.append(partial(with_choice, choice, first))
        return fit

    if not problem.chooses_estimator:
        return chosen(Choice(problem.estimator, "as asked"))
    disturbances = [noise for noise in first.result.noise if noise.kind == "disturbance" and noise.unit != "m/s"]
    if all(noise.given for noise in disturbances):
        return first
    if doubt := _doubt(first, disturbances):
        return chosen(Choice("noise", doubt))
    loop = first.clock.time(partial(_feedback, first))
    if doubt := first.clock.time(partial(_white, first)):
        return chosen(Choice("noise", loop or doubt))
    if first.likelihood.carry is not None:  # what two estimators differ by is known at their ends
        return choose_estimator(work, work.finished(first))
    try:
        found, last = correlated_noise(work, first)
        if found is not None and last.result.status is not Status.INTERRUPTED:
            own = with_correlation(problem, found.times)
            last = lasting = work.run(own, Start(first.result), last)
    except KeyboardInterrupt:
        return first.with_(status=Status.INTERRUPTED, detail="while correlated noise was tried")
    if last.result.status is Status.INTERRUPTED:
        return first.with_(status=Status.INTERRUPTED, detail="while correlated noise was tried")
    if found is not None:
        work.remarks.append(lambda solution: solution.with_findings(lambda: [found.finding]))
        random = [noise for noise in lasting.result.noise if noise.kind == "disturbance" and noise.unit != "m/s"]
        converged = lasting.result.status is Status.CONVERGED
        doubts = lambda: _doubt(lasting, random) or _feedback(lasting) or _white(lasting)  # noqa: E731
        if converged and (doubt := first.clock.time(doubts)):
            work.problem = own
            return chosen(Choice("noise", f"with correlated {found.words}: {doubt}", {}, found.times), lasting)
    if loop:
        return chosen(Choice("noise", loop), first.with_(times=last.result.times, clocks=last.result.clocks))
    hard = problem.with_(estimator="hard")
    try:
        second = with_impacts_at_rest(work, work.run(hard, Start(first.result), last))
    except KeyboardInterrupt:
        second = None
    if second is None or second.result.status is Status.INTERRUPTED:
        return first.with_(status=Status.INTERRUPTED, detail="while deterministic dynamics were tried")
    added = first.clock.time(partial(_of_process_noise, first, second))
    choice = first.clock.time(partial(_chosen, first, second, added))
    if not choice.is_hard:
        return chosen(choice, first.with_(times=second.result.times, clocks=second.result.clocks))
    work.problem, work.finer = hard, None
    work.remarks.append(partial(_with_process_noise, first, added))
    return chosen(choice, second)


def with_choice(choice: Choice, first: Fit, solution: Solution) -> Solution:
    """Solution with the choice of the estimator, and the findings about it."""

    def more() -> list[Finding]:
        found = []
        if choice.differing:
            differing = _listed(choice.differing)
            effect = (
                f"Fits with estimated process noise and with deterministic dynamics disagree on parameters "
                f"{differing}: an unmodelled effect is not white noise."
            )
            advice = "Halve the step; if the fits still disagree, look at the residuals."
            evidence = {"standard_errors": dict(choice.differing)}
            found = [Finding("estimators.differ", tuple(choice.differing), evidence, effect, advice=advice)]
        hard = misspecification.misfit_findings(first.score_tests) if choice.is_hard else []
        return found + [replace(f, advice=f"{f.advice} This is from the fit with noise estimated.") for f in hard]

    solution = solution.with_findings(more).changed(choice=choice)
    if not choice.is_hard:
        return solution
    noise = tuple(replace(n, std=0.0, density=0.0) if n.kind == "disturbance" else n for n in solution.noise)
    return solution.changed(noise=noise, normaliser=None, log_likelihood=first.result.log_likelihood)


# --- before the second fit ---


def _doubt(first: Fit, disturbances: list[Noise]) -> str:
    """Reason against deterministic dynamics in what is declared or estimated; empty if there is none."""
    if any(noise.given and noise.std > 0 for noise in disturbances):
        return "process noise is given"
    if not any(np.isfinite(noise.error) for noise in disturbances):
        return "the estimated process noise is zero: deterministic dynamics would give the same result"
    steps = [chain.steps for chain in first.assembly.transcription.chains]
    if sum(steps) / len(steps) < LEAST_BLOCK * BLOCKS:
        return "the recordings have too few steps for the block jackknife of deterministic dynamics"
    for one in (one.recording for one in first.assembly.sampled if one.recording.closed_loop):
        return f"{one.name} is driven in closed loop (as declared)"
    return ""


def _white(first: Fit) -> str:
    """Reason against deterministic dynamics in the process noise or the motion; empty if there is none."""
    stiff = first.likelihood.stiff if first.likelihood else None
    if stiff is None:
        return "the process noise passes the whiteness test"
    there = condensed_at(stiff.problem, first.point, stiff.problem.free_directions(first.point.parameters))
    if there is None or not denied(there, stiff.sizes):
        return "the process noise passes the whiteness test"
    return "the motion is not stable" if first.condensed is None or unstable(first.condensed) else ""


def _feedback(first: Fit) -> str:
    """Reason against deterministic dynamics if an input depends on the noise of a fit; empty if none does.

    Where correlated noise is taken for white, the smoothed motion follows it, and residuals predict the input without a
    loop. So this does not preclude a trial of correlated noise."""
    sampled, suspects = first.assembly.sampled, list[int]()
    level = FALSE_ALARMS / len(sampled)
    for c, (one, moved) in enumerate(zip(sampled, first.motion, strict=True)):
        residuals = np.hstack([moved.impulse_residual, moved.observed - moved.predicted])
        if one.recording.closed_loop is None and feedback(one.acting.held, residuals) < level:
            suspects.append(c)
    if not suspects or first.condensed is None:
        return ""
    model = first.assembly.problem.model
    drives = [(m.label, [one.acting.held[:, model.signals.index(m.signal)] for one in sampled]) for m in model.motors]
    left = without_echoes(first.condensed, drives)
    for c in (c for c in suspects if feedback(sampled[c].acting.held, left[c]) < level):
        return f"{sampled[c].recording.name} is driven in closed loop (its input depends on the process noise)"
    return ""


# --- after it ---


def _of_process_noise(first: Fit, second: Fit) -> Array:
    """What process noise, if it made the residuals of deterministic dynamics, would add to the covariance of their
    estimates, (n_p, n_p)."""
    if second.condensed is None or not second.result.noise:  # without a beginning, deterministic dynamics have neither
        return np.zeros(1)
    found, of_hard = ({(n.kind, name): n.std for n in fit.result.noise for name in n.names} for fit in (first, second))
    sizes = dict[str, float]()
    for size in second.assembly.noise:
        for key, name in zip(size.keys, size.names, strict=True):
            whole = of_hard[size.kind, name]
            sizes[key] = found[size.kind, name] / whole if whole else 0.0
    return under_process_noise(second.condensed, sizes)


def _with_process_noise(first: Fit, added: Array, solution: Solution) -> Solution:
    """A solution with this covariance in its errors."""
    return with_added_variance(solution, lambda: added, first.clock, raised=True)


def _chosen(first: Fit, second: Fit, added: Array) -> Choice:
    one, other = _answer(first), _answer(second, added)
    if second.result.status is not Status.CONVERGED or one is None or other is None:
        return Choice("noise", "the fit with deterministic dynamics did not converge")
    verdict = hausman_test(one, other)
    if np.any(verdict.differ):  # so may what the step adds to each
        steps = [np.nan_to_num(fit.influence.step_error) for fit in (first, second)]
        pairs = zip((one, other), steps, strict=True)
        verdict = hausman_test(*(replace(answer, estimates=answer.estimates - step) for answer, step in pairs))
    return choice_by(first.identifiability.sensitivities.names, verdict)


def choice_by(names: tuple[str, ...], verdict: HausmanTest) -> Choice:
    """Choice between the results of both estimators by their Hausman test."""
    if np.any(verdict.differ):
        pairs = zip(names, verdict.sigmas.tolist(), verdict.differ.tolist(), strict=True)
        differing = {name: sigma for name, sigma, differs in pairs if differs}
        return Choice("noise", f"deterministic dynamics differ on {_listed(differing)}", differing)
    if verdict.replaces:
        words = f"a fit with estimated process noise agrees, with standard errors {verdict.gain:.2g} times as large"
        return Choice("hard", f"{words} as these, which include possible process noise")
    return Choice(
        "noise",
        "deterministic dynamics agree, with no smaller errors" if verdict.agree else "jackknife errors are no smaller",
    )


def _answer(fit: Fit, added: Array | float = 0.0) -> EstimatorOutput | None:
    statistics, point = fit.identifiability.statistics, fit.point.parameters
    if statistics is None:
        return None
    magnitudes = np.maximum(np.abs(point), fit.assembly.transcription.magnitudes)
    free = fit.assembly.transcription.free_directions(point, unequal=False)
    changes = without_blocks(statistics, magnitudes, free)
    errors = np.sqrt(np.diag(fit.identifiability.sensitivities.covariance + added))
    return EstimatorOutput(point, errors, changes)


def _listed(differing: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ({sigma:.1f} sigma)" for name, sigma in differing.items())
