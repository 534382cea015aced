"""Outliers: samples that are removed from a fit by default, and listed.

A first fit without the samples that differ from their neighbours (``suspects``) determines the motion and the noise.
Samples more than five noise standard deviations from this fit are removed from the final one. That is least squares
with hard rejection from a robust start (Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987, section
2.1), which loses next to nothing on normal noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import numpy as np

from spookid.assembly.assembly import Assembly, assemble
from spookid.assembly.initialization import medians
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import trajectories
from spookid.data.channels import Channel
from spookid.data.losses import StudentT
from spookid.data.recording import Recording
from spookid.data.sampling import wrap
from spookid.errors import ProblemError
from spookid.estimation import suspects
from spookid.estimation.fit import Fit
from spookid.estimation.likelihood_fit import Revise
from spookid.estimation.noise_components import check_components, tails
from spookid.estimation.suspects import (
    MOST,
    Wrong,
    drops_outliers,
    is_robust,
    masked,
    spread,
    unsaturated,
    varied,
    without,
)
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.scipy_parts import lapack
from spookid.mechanics.kinematics import Values
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.results.values import Outlier
from spookid.solvers.status import Status
from spookid.statistics.whiteness import OFF
from spookid.tables.table import counted
from spookid.tables.table import number as digits
from spookid.transcription.transcription import Point


def doubt_samples(work: Work) -> None:
    """Exclude suspicious samples until an estimated motion can judge them; with contacts, jumps are expected."""
    problem = work.problem
    if problem.model.contacts or problem.model.holding.contacts:
        return
    found = tuple(suspects.suspects(problem, recording) for recording in problem.recordings)
    if any(np.any(mask) for masks in found for mask in masks.values()):
        work.whole, work.suspects, work.problem = problem, found, masked(problem, found)


def revision(work: Work) -> Revise | None:
    """Return a function that judges suspects by a motion: it gives the problem without those far off it, or None."""
    return None if work.whole is None or work.judged else partial(_revised, work, work.whole)


def _revised(work: Work, whole: Problem, assembly: Assembly, point: Point) -> Assembly | None:
    due = _judged(work, whole, trajectories(assembly, point), assembly.values(point))
    if not due:
        return None
    left = assembly.problem.with_(recordings=work.problem.recordings, step=assembly.problem.step)
    return assemble(left, like=assembly)


def _judged(work: Work, whole: Problem, motion: Sequence[Trajectory], values: Values) -> bool:
    """Decide by a motion on the samples to leave out; True if they are others now."""
    found = _all_far_off(whole, work.suspects, motion, values)
    same, work.judged = all(map(_alike, work.suspects, found)), True
    if not same:
        work.suspects, work.problem = found, masked(whole, found)
    return not same


def judge_samples(work: Work) -> bool:
    """Judge suspicious samples, and those beside them, by the motion of a fit; True if a fit with other samples is
    needed. If no fit converged, all samples are kept."""
    found, whole = work.near if work.fit is None else work.fit.result, work.whole
    if whole is None or found is None or work.stopped:
        return False
    if found.status is Status.CONVERGED:
        work.found = found
        return _judged(work, whole, found.trajectories, found.values)
    if work.judged:
        return False
    work.whole, work.problem, work.found = None, whole, work.near
    return True


def _all_far_off(problem: Problem, doubted: Wrong, motion: Sequence[Trajectory], values: Values) -> Wrong:
    return tuple(_far_off(problem, i, masks, motion[i], values) for i, masks in enumerate(doubted))


def _alike(a: Mapping[str, Mask], b: Mapping[str, Mask]) -> bool:
    """True if both are the same samples; a signal that is not there has none."""
    return all(np.array_equal(a[name], b[name]) if name in b else not np.any(a[name]) for name in a)


def _far_off(
    problem: Problem, place: int, doubted: Mapping[str, Mask], motion: Trajectory, values: Values
) -> dict[str, Mask]:
    """Suspects that the fit does not explain either, and others that it shows to stand out; of signals with a robust
    loss those that count little."""
    recording, result = problem.recordings[place], {}
    for channel in problem.channels:
        suspected = doubted.get(channel.signal)
        if suspected is None or not np.any(suspected):
            if not is_robust(channel):
                continue
            suspected = None
        errors = errors_of(problem, channel, recording, motion, values)
        known = np.isfinite(errors)
        halves = [errors_of(problem, channel, recording, motion, values, slice(i, None, 2)) for i in (0, 1)]
        # Of second order: what a step does not follow is a third of what twice the step misses beside it.
        unfollowed = np.nan_to_num(np.max(np.abs(errors - halves), axis=0)) / 3
        least = OFF * _width(errors[known if suspected is None else known & ~suspected])
        far = known & (np.abs(errors) > least + unfollowed)
        if suspected is not None:
            beside = medians(np.where(suspected, np.nan, errors), None)
            far &= suspected | (np.abs(errors - beside) > least)
        result[channel.signal] = far & (np.count_nonzero(far) <= MOST * np.count_nonzero(known))
    return result


def _width(errors: Array) -> float:
    return float(spread(errors)) if len(errors) else np.inf


def errors_of(
    problem: Problem,
    channel: Channel,
    recording: Recording,
    motion: Trajectory,
    found: Values,
    steps: slice = slice(None),
) -> Array:
    """Residuals of a signal's samples from the estimated motion, (N,), NaN without a sample or motion. From
    every other of its ``steps`` it differs by what long steps may not follow."""
    column = motion.signals.index(channel.signal)
    known = dict(problem.guess_on(recording.name)) | dict(found)
    times = recording.t - number(channel.delay, known)
    inside = (times >= motion.t[0]) & (times <= motion.t[-1])
    shown = motion.predicted[:, column]
    if channel.period is not None:
        shown = np.unwrap(shown, period=channel.period)
    errors = recording.signal(channel.signal) - _spline(motion.t[steps], shown[steps], times)
    errors = errors if channel.period is None else wrap(errors, channel.period)
    return np.where(inside, errors, np.nan)


def _spline(t: Array, values: Array, at: Array) -> Array:
    """Values at even times (N,) as a cubic spline whose two polynomials at either end are one; a fifth of a second less
    to load than SciPy's."""
    if len(t) < 4:
        return np.interp(at, t, values)
    step = (t[-1] - t[0]) / (len(t) - 1)
    middle, side, right = np.full(len(t), 4.0), np.ones(len(t) - 1), np.empty(len(t))
    right[1:-1] = 3 * (values[2:] - values[:-2])
    middle[[0, -1]], side[0], lower = 1.0, 2.0, np.ones(len(t) - 1)
    lower[-1] = 2.0
    right[0] = (-5 * values[0] + 4 * values[1] + values[2]) / 2
    right[-1] = (5 * values[-1] - 4 * values[-2] - values[-3]) / 2
    slopes = lapack.dgtsv(lower, middle, side, right)[3]
    place = (at - t[0]) / step
    k = np.clip(place.astype(int), 0, len(t) - 2)
    u = place - k
    rise = values[k + 1] - values[k]
    bend, twist = 3 * rise - 2 * slopes[k] - slopes[k + 1], slopes[k] + slopes[k + 1] - 2 * rise
    return np.asarray(values[k] + u * (slopes[k] + u * (bend + u * twist)))


class Judged(Protocol):
    """Protocol of objects that contain a decision on samples, such as a Solution."""

    @property
    def outliers(self) -> Sequence[Outlier]:
        """Samples that are plainly wrong."""


def of_same_samples(problem: Problem, found: Judged | None = None) -> Problem:
    """Problem with the samples that ``found`` kept, for any model: likelihoods of other samples are not comparable.
    Before a fit, samples that stand out from their neighbours are removed."""
    if not any(map(drops_outliers, problem.observations)):
        return problem
    problem = unsaturated(problem)[0]
    if found is None:
        recordings = [suspects.without_suspects(problem, recording)[0] for recording in problem.recordings]
    else:
        left = [one for one in found.outliers if one.left_out]
        recordings = [without(recording, _at(recording, left)) for recording in problem.recordings]
    plain = [varied(one, loss="linear") if drops_outliers(one) else one for one in problem.observations]
    return problem.with_(observations=plain, recordings=recordings, step=problem.step)


def _at(recording: Recording, outliers: Sequence[Outlier]) -> dict[str, Mask]:
    times: dict[str, list[float]] = {}
    for one in outliers:
        if one.recording == recording.name:
            times.setdefault(one.signal, []).append(one.t)
    return {signal: np.isin(recording.t, own) for signal, own in times.items()}


def with_outliers(problem: Problem, wrong: Wrong, found: Solution, fit: Fit | None = None) -> Solution:
    """Add a finding on removed outliers, and on samples with small robust weights, to the result; it compares Student-t
    noise if sensors of this ``fit`` could have it."""
    if any(map(is_robust, problem.channels)):
        none: Wrong = wrong or ({},) * len(problem.recordings)
        light = _all_far_off(problem, ({},) * len(none), found.trajectories, found.values)
        wrong = tuple({**hardly, **out} for hardly, out in zip(light, none, strict=True))
    motion = found.trajectories if any(wrong) else ()
    named = [
        one
        for recording, moved, masks in zip(problem.recordings, motion, wrong, strict=False)
        for channel in problem.channels
        if channel.signal in masks
        for one in _named(problem, channel, recording, moved, found, masks[channel.signal])
    ]
    if not named:
        return found
    return found.with_findings(lambda: [_told(named, problem, fit)]).changed(outliers=tuple(named))


def _named(
    problem: Problem, channel: Channel, recording: Recording, motion: Trajectory, found: Solution, mask: Mask
) -> list[Outlier]:
    errors = errors_of(problem, channel, recording, motion, found.values)
    width, values = _width(errors[np.isfinite(errors) & ~mask]), recording.signal(channel.signal)
    sigmas, shown = errors / width if width > 0 else np.full_like(errors, np.nan), values - errors
    numbers = np.column_stack([recording.t, values, shown, sigmas])[mask].tolist()
    return [Outlier(recording.name, channel.signal, a, b, c, d, drops_outliers(channel)) for a, b, c, d in numbers]


def _tails(named: Sequence[Outlier], fit: Fit) -> Mapping[str, tuple[float, float]]:
    """Degrees of freedom and log-likelihood of Student-t noise over that of outliers, by signal that can have it."""
    found, problem = {}, fit.assembly.problem
    for sensor in problem.observations:
        own = {signal: [o.value - o.predicted for o in named if o.signal == signal] for signal in sensor.signals}
        others = [varied(one, loss=StudentT()) if one is sensor else one for one in problem.observations]
        with suppress(ProblemError):
            check_components(problem.with_(observations=others, step=problem.step), False)
            found.update({name: tails(fit, name, np.array(far)) for name, far in own.items() if far})
    return found


def _told(named: Sequence[Outlier], problem: Problem, fit: Fit | None, most: int = 6) -> Finding:
    """Which samples, with so many times of each signal, those of samples in a row as one."""
    parts, counts = [], dict[str, int]()
    for recording, signal in dict.fromkeys((one.recording, one.signal) for one in named):
        own = [one for one in named if (one.recording, one.signal) == (recording, signal)]
        stamps = next(one.t for one in problem.recordings if one.name == recording)
        spans = suspects.runs(np.searchsorted(stamps, [one.t for one in own]).astype(np.int64))
        times = [digits(stamps[a], 6) + f" to {digits(stamps[b], 6)}" * (b > a) for a, b in spans[:most]]
        more = " ..." if len(spans) > most else ""
        counts[signal] = counts.get(signal, 0) + len(own)
        where = f" of {recording}" if len(problem.recordings) > 1 else ""
        fate = "left out" if own[0].left_out else "given little weight by the robust loss"
        parts.append(f"{counted(len(own), 'sample')} of {signal}{where} {fate}, at {', '.join(times)}{more} s")
    remedy = 'Declare mechanical impacts as Contact or Impact; a sensor with loss="linear" keeps all samples.'
    effect = f"Outliers are more than {OFF:g} noise standard deviations from the fit: {'; '.join(parts)}."
    left_out, cause = [one for one in named if one.left_out], ""
    evidence: dict[str, Mapping[str, float]] = {"samples": counts}
    known = fit is not None and fit.likelihood is not None and fit.likelihood.states is not None
    found = _tails(left_out, fit) if fit is not None and known else {}
    if found:
        evidence["student"] = {name: gain for name, (_, gain) in found.items()}
    if heavy := {name: one for name, one in found.items() if one[1] > 0}:
        parts = [f"{name} with {nu:.2g} degrees of freedom ({gain:+,.0f})" for name, (nu, gain) in heavy.items()]
        cause = f"Student-t noise has a higher log-likelihood than outliers: {', '.join(parts)}."
        remedy = f"Give the sensor loss=StudentT(). {remedy}"
    return Finding("samples.outliers", tuple(counts), evidence, effect, cause, remedy if left_out else "")
