"""Richardson extrapolation of the estimates to step zero, from fits with h and h/2 (Stoer and Bulirsch, ch. 7.2.14).

The variational step is of second order, also with dry friction: the discretization bias of an estimate is a h² to
leading order, so that fits with h and h/2 determine it, a h² = (θ_h − θ_{h/2}) 4/3. Both fits use the same samples, and
the noise of the finer one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from spookid.assembly.checks import step_chosen
from spookid.assembly.constants import at_gains
from spookid.assembly.outlining import measured_poses, mechanism
from spookid.assembly.problem import Problem
from spookid.estimation import continuation
from spookid.estimation.fit import Fit, joined
from spookid.estimation.fitting import Start
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding, ranked
from spookid.results.result import Estimate, Noise, Solution
from spookid.results.trajectory import MeasuredPoses, Trajectory
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import Influence, Sensitivities, of_priors
from spookid.statistics.weak_directions import in_units, pivots, references
from spookid.transcription.factor import Group

FINER, COARSER = "half the step", "the step"
"""Stages of a plan: a fit with h/2, and one with h at the noise of that."""


def finer(problem: Problem) -> Problem:
    """Same problem with half the time step, and samples at the same steps."""
    return problem.with_(step=problem.step / 2, every=problem.every and 2 * problem.every, step_correction=False)


def corrected(work: Work, first: Fit) -> Solution:
    """Result with estimates extrapolated to step zero, if this is requested and possible."""
    problem, found = work.problem, first.result
    if not problem.corrects or found.status is not Status.CONVERGED:
        return work.polished(first).told()
    try:
        fine, coarse = _both(work, first)
        interrupted = Status.INTERRUPTED in (fine.result.status, coarse.result.status)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        return found.changed(status=Status.INTERRUPTED, detail="before the step was taken from the estimates")
    if not fine.result.status is coarse.result.status is Status.CONVERGED:
        last = work.polished(work.finished(first))
        return last.told().with_findings(lambda: [missed(problem.step)])
    answer = extrapolated(coarse, fine)
    all_three = answer.changed(times=answer.times + coarse.result.times, clocks=(fine.clock, coarse.clock))
    return all_three.changed(**{**joined(found, all_three), "times": all_three.times})  # which include the first fit


def _both(work: Work, first: Fit) -> tuple[Fit, Fit]:
    """Fits with h/2 and with h, both with the noise of the finer one."""
    problem = work.problem
    beside, last = work.beside(finer(problem), work.noise), work.beside(problem)
    beside.done, beside.hold, last.hold, last.callback = first.result.iterations, work.hold, work.hold, None
    if continuation.sticks(problem):
        with beside.stage(FINER):
            continuation.stick_finer(beside, beside.problem, first)
        fine, sharp = beside.fit or first, continuation.SHARPNESS[-1]
        if fine.result.status is not Status.CONVERGED:
            return fine, fine
        with last.stage(COARSER):
            start = Start(first.told(), noise=beside.noise, sharpness=sharp, held=pinned(fine))
            return fine, last.run(problem, start, first)
    begun = work.finer or first.result
    with beside.stage(FINER):
        fine = beside.run(beside.problem, Start(begun, hold=work.hold))
        if fine.result.status in (Status.STALLED, Status.DIVERGED) and begun is work.finer:
            fine = beside.run(beside.problem, Start(first.result, hold=work.hold), fine)
        fine = beside.polished(fine)
    if fine.result.status is not Status.CONVERGED:
        return fine, fine
    pins = pinned(fine)
    if not pins and first.likelihood is not None and first.likelihood.carry is None and _is_scale(first, fine):
        return fine, last.polished(first)
    # What is held belongs to the other estimates of that fit.
    estimates = fine.result.parameters if pins else first.result.parameters
    near = first.result.changed(noise=regained(fine, fine.result.noise, first.result.values), parameters=estimates)
    with last.stage(COARSER):
        return fine, last.polished(last.run(problem, Start(near, hold=True, held=pins), first), pins)


def _is_scale(first: Fit, fine: Fit) -> bool:
    """True if both fits have deterministic dynamics and one sensor: no estimate depends on the size of its noise."""
    problem = first.assembly
    free = [one for one in fine.result.noise if not (one.given and one.kind == "disturbance")]
    others = [f for f in problem.transcription.factors if f.group in (Group.PRIOR, Group.RESIDUAL)]
    return problem.problem.is_hard and len(free) == 1 and not free[0].given and not others


def pinned(fine: Fit, part: float = 0.01) -> dict[str, float]:
    """Parameters to fix at their values in a fit: one per direction along which fits with h and h/2 may stop anywhere,
    because data determine it less than priors or not at all."""
    names, analysis = fine.assembly.transcription.names, fine.identifiability.analysis
    sizes = np.maximum(np.abs(fine.point.parameters), fine.assembly.transcription.magnitudes)
    seen = fine.identifiability.sensitivities.seen
    open_ones = np.vstack([analysis.hidden, *([] if seen is None else [of_priors(seen, sizes)])])
    several = np.count_nonzero(np.abs(open_ones) > part, axis=1) > 1
    if not np.any(several):
        return {}
    seen_alone = np.linalg.norm(fine.identifiability.sensitivities.factor, axis=0)
    return {names[i]: fine.values[names[i]] for i in pivots(open_ones[several] * sizes * seen_alone)}


def extrapolated(coarse: Fit, fine: Fit) -> Solution:
    """Fit with the finer step, at the steps and with the noise of the coarser one, with extrapolated estimates."""
    step, found = coarse.assembly.problem.step, fine.told(lambda: coarse.score_tests)
    chosen = step_chosen(coarse.assembly.problem)
    parameters = fine.clock.time(lambda: _all_beyond(coarse, fine, found.parameters))

    def motion() -> tuple[Trajectory, ...]:
        pairs = zip(fine.motion, coarse.assembly.sampled, strict=True)
        return tuple(_every_second(t, e.grid.count) for t, e in pairs)

    def measured() -> tuple[MeasuredPoses, ...]:
        return measured_poses(fine.assembly, fine.point, motion())

    def influence() -> Influence:
        return _seen(fine.influence, [e.grid.count for e in coarse.assembly.sampled])

    def findings() -> tuple[Finding, ...]:
        kept = [one for one in found.findings if one.code != "step.error"]  # of steps of h/2, which is taken away
        return ranked([*kept, *chosen, *_findings(step, parameters, _unfollowed(kept))])

    # Disturbances with their standard deviation over a step.
    noise = [replace(n, std=n.density / math.sqrt(step)) if n.kind == "disturbance" else n for n in found.noise]
    values = {name: estimate.estimate for name, estimate in parameters.items()}
    return found.changed(
        step=step,
        sensitivities=fine.later(lambda: _told_of(fine, parameters)),
        size=replace(coarse.result.size, parameters=found.size.parameters),
        noise=regained(fine, noise, {name: e.estimate for name, e in parameters.items()}),
        normaliser=None,  # it is that of steps of h/2
        parameters=parameters,
        trajectories=fine.later(motion),
        measured=fine.later(measured),
        mechanism=fine.later(lambda: mechanism(coarse.assembly.problem, values)),
        influence=fine.later(influence),
        findings=fine.later(findings),
    )


def regained(fine: Fit, noise: Sequence[Noise], values: Mapping[str, float]) -> tuple[Noise, ...]:
    """Noise of a fit, in which noise of measured efforts is converted to the gains of other estimates."""
    problem = fine.assembly.problem
    return tuple(at_gains(problem, at_gains(problem, noise, fine.values, back=True), {**fine.values, **values}))


def step_added(coarse: Fit, fine: Fit) -> Array:
    """Discretization bias of a step h in the free parameters, from fits with h and h/2 and the same noise, (n_p,); zero
    if a fit has a parameter at a bound, or the extrapolation leaves the bounds."""
    problem = coarse.assembly.transcription
    values = [fine.values[name] for name in problem.names]
    added = (coarse.point.parameters - values) * 4 / 3  # of an error c h², that with h/2 has lost 3/4
    inside = (problem.lower < values) & (coarse.point.parameters - added > problem.lower)
    inside &= (values < problem.upper) & (coarse.point.parameters - added < problem.upper)
    inside &= (problem.lower < coarse.point.parameters) & (coarse.point.parameters < problem.upper)
    return np.where(inside, added, 0.0)


def missed(step: float) -> Finding:
    """Warning that estimates still contain the discretization error."""
    said = f"The estimates contain the discretization error of the time step {step:g} s"
    effect = f"{said}: the fit with steps half as long, which would take it from them, did not converge."
    return Finding("step.error", (), {"step": step}, effect, advice="Take a smaller step.")


def beyond(coarse: float, fine: Estimate) -> Estimate:
    """Estimate extrapolated from those with h and h/2; unchanged if a fit has it at a bound, or the extrapolation
    leaves the bounds. The bias of parameters that are not determined is unknown."""
    value = fine.estimate + (fine.estimate - coarse) / 3
    if fine.fixed or fine.at_bound or not (fine.lower < coarse < fine.upper and fine.lower < value < fine.upper):
        return fine
    return fine.changed(estimate=value, step_error=math.nan if fine.reason else coarse - value)


def _all_beyond(coarse: Fit, fine: Fit, found: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Of all parameters; the line through both fits leaves constraints between them that are not linear."""
    told, problem = {n: beyond(coarse.values[n], e) for n, e in found.items()}, fine.assembly.transcription
    if problem.constraints is None:
        return told
    straight = np.array([told[name].estimate for name in problem.names])
    values = problem.constraints.restored(straight, problem.lower, problem.upper)
    if values is None:
        return dict(found)
    return told | {
        name: told[name].changed(estimate=value, step_error=told[name].step_error - (value - told[name].estimate))
        for name, value in zip(problem.names, values.tolist(), strict=True)
        if value != told[name].estimate
    }


def _told_of(fine: Fit, parameters: dict[str, Estimate]) -> Sensitivities:
    """Sensitivities of the finer fit, directions that it barely sees in shares of the reported estimates. Those
    that it does not see are those of a scale, which follows the estimates."""
    known, analysis = replace(fine.identifiability.sensitivities, at=fine.values), fine.identifiability.analysis
    statistics = fine.identifiability.statistics
    if statistics is None or not known.weak:
        return known
    sizes = np.maximum(np.abs(fine.point.parameters), fine.assembly.transcription.magnitudes)
    estimates = np.array([parameters[name].estimate for name in known.names])
    told = references(estimates, sizes, statistics.information, statistics.scatter)
    before, after = (dict(zip(known.names, one.tolist(), strict=True)) for one in (analysis.references, told))
    told_of = (w if set(w.direction) & set(known.reasons) else in_units(w, before, after) for w in known.weak)
    return replace(known, weak=tuple(told_of))


def _every_second(trajectory: Trajectory, count: int) -> Trajectory:
    values: dict[str, Any] = {f.name: getattr(trajectory, f.name) for f in fields(Trajectory)}
    arrays = {name: a[: 2 * count : 2][:count] for name, a in values.items() if isinstance(a, np.ndarray)}
    sums = {name: _paired(values[name], count) for name in ("samples", "squares") if values[name] is not None}
    if trajectory.largest is not None:
        sums["largest"] = _paired(trajectory.largest, count, np.maximum)
    if trajectory.drive is not None:  # a mean over both
        sums["drive"] = _paired(trajectory.drive, count) / 2
    return Trajectory(**{**values, **arrays, **sums})


def _paired(values: Array, count: int, together: np.ufunc = np.add) -> Array:
    """Each step of h/2 that is one of h together with the next, as sums unless told otherwise, (count, ...)."""
    return np.asarray(together.reduceat(values, np.arange(0, len(values), 2))[:count])


def _seen(influence: Influence, counts: Sequence[int]) -> Influence:
    observations = tuple(_paired(o, n) for o, n in zip(influence.observations, counts, strict=True))
    return replace(influence, observations=observations)


def _unfollowed(found: Sequence[Finding]) -> float:
    """Variance that samples between steps have beside their noise, over it, of the sensor with most."""
    return max((m["unfollowed"] for one in found for m in one.evidence.get("misfits", ())), default=0.0)


def _findings(step: float, parameters: dict[str, Estimate], unfollowed: float) -> list[Finding]:
    """What the step would have added, where that is more than a standard error: a warning if what steps of h/2 do not
    follow is more than noise, for then the line through both fits does not lead to step zero."""
    large = [e for e in parameters.values() if abs(e.step_error) > e.std_err]
    if not large:
        return []
    evidence = {"step": step, "step_errors": {e.name: e.step_error for e in large}, "unfollowed": unfollowed}
    names = tuple(e.name for e in large)
    if unfollowed > 1:
        moved = ", ".join(f"{e.name} {e.step_error / e.std_err:+.1f}" for e in large)
        said = (
            f"The step of {step:g} s is too long: between steps the motion differs from the samples by more than noise"
        )
        effect = f"{said}. Estimates with this step and in the limit differ by {moved} standard errors."
        return [Finding("step.error", names, evidence, effect, advice=f"Take a step of {step / 4:g} s or less.")]
    amounts = ", ".join(f"{e.name} {e.step_error:+.2g} {e.unit}".rstrip() for e in large)
    said = f"Estimates are extrapolated to time step zero from fits with steps of {step:g} and {step / 2:g} s"
    effect, advice = f"{said}; the longer one would have added {amounts}.", "There is nothing to do."
    return [Finding("step.extrapolated", names, evidence, effect, advice=advice)]
