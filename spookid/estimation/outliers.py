"""Samples that are plainly wrong: left out of a fit by default, and named.

Where nothing strikes, a position cannot jump and come back: a sample far from its neighbours on both sides is wrong,
and so are those in a row between two jumps, or that stand still until one jumps on (``estimation.stuck``). A fit
without such suspects tells the motion and the noise; by these it is decided which samples are left out of the answer,
those from five times the noise on. That is least squares with hard rejection from a robust start (Rousseeuw and Leroy,
Robust Regression and Outlier Detection, 1987, section 2.1), which loses next to nothing on normal noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.assembly.assembly import Assembly, assemble
from spookid.assembly.initialization import medians
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import trajectories
from spookid.data.channels import BENT, Channel, order
from spookid.data.recording import Recording
from spookid.data.sampling import wrap
from spookid.estimation.likelihood_fit import Revise
from spookid.estimation.suspects import linear, stuck
from spookid.estimation.work import Work, Wrong
from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.scipy_parts import lapack
from spookid.mechanics.kinematics import Values
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.results.values import Outlier
from spookid.solvers.status import Status
from spookid.tables.table import counted
from spookid.tables.table import number as digits
from spookid.transcription.transcription import Point

_SUSPECT = 10.0
"""Times the typical distance of samples from where their neighbours put them, of all and of those near by, from which
on one is suspected."""
_AROUND = 11
"""How many samples are near by."""
_ROUNDING = 1e-12
"""Share of what a signal spans that is rounding."""
_CLOSE = 20.0
"""Times their usual spacing to which the five samples of a median may lie apart."""
_FAR = 5.0
"""Times the noise, by the median of the residuals, from which on a suspect is left out, and others that stand out."""
_MOST = 0.1
"""Share of a signal's samples from which on they are no outliers but something that the model lacks."""
_TIMES = 6
"""Times that a finding names of each signal, those of samples in a row as one."""


def doubt_samples(work: Work) -> None:
    """Leave suspects out until a motion is known by which they can be judged; contacts make jumps of their own."""
    problem = work.problem
    if problem.model.contacts or problem.model.holding.contacts:
        return
    suspects = tuple(_suspects(problem, recording) for recording in problem.recordings)
    if any(np.any(mask) for masks in suspects for mask in masks.values()):
        work.whole, work.suspects, work.problem = problem, suspects, _without(problem, suspects)


def revision(work: Work) -> Revise | None:
    """Judges the suspects by a motion: gives the problem without those that are far off it; None if there are none."""
    if work.whole is None:
        return None
    whole, suspects = work.whole, work.suspects

    def revise(assembly: Assembly, point: Point) -> Assembly | None:
        motion, values = trajectories(assembly, point), assembly.values(point)
        work.whole, work.wrong = None, _all_far_off(whole, suspects, motion, values)
        if all(map(_alike, suspects, work.wrong)):
            return None
        work.problem = _without(whole, work.wrong)
        left = assembly.problem.with_(recordings=work.problem.recordings, step=assembly.problem.step)
        return assemble(left, like=assembly)

    return revise


def judge_samples(work: Work) -> bool:
    """Judge suspects that no search has judged on its way; True if a fit is due with other samples. One that did not
    converge decides nothing: then all samples stay."""
    found = work.near if work.fit is None else work.fit.result
    if work.whole is None or found is None or work.stopped:
        return False
    whole, work.whole = work.whole, None
    if found.status is not Status.CONVERGED:
        work.problem, work.found = whole, work.near
        return True
    work.wrong = _all_far_off(whole, work.suspects, found.trajectories, found.values)
    work.problem, work.found = _without(whole, work.wrong), found
    return not all(map(_alike, work.suspects, work.wrong))


def _all_far_off(problem: Problem, suspects: Wrong, motion: Sequence[Trajectory], values: Values) -> Wrong:
    return tuple(_far_off(problem, i, masks, motion[i], values) for i, masks in enumerate(suspects))


def _alike(a: Mapping[str, Mask], b: Mapping[str, Mask]) -> bool:
    """True if both are the same samples; a signal that is not there has none."""
    return all(np.array_equal(a[name], b[name]) if name in b else not np.any(a[name]) for name in a)


def _suspects(problem: Problem, recording: Recording) -> dict[str, Mask]:
    """Samples that stand out from their neighbours."""
    found = {}
    for channel in problem.channels:
        if channel.loss == "auto" and not channel.sensor.either_sign and order(channel, problem.model) == 0:
            values = recording.signal(channel.signal)
            mask = standing_out(recording.t, values, channel.period) | stuck(values, channel.period)
            known = np.count_nonzero(np.isfinite(values))
            found[channel.signal] = mask & (np.count_nonzero(mask) <= _MOST * known)
    return found


def standing_out(t: Array, values: Array, period: float | None) -> Mask:
    """Samples (N,) that are farther than others from where the two before and the two behind put them, by the median of
    lines through any two of these; the farthest of five neighbours, and none beside a gap, where motion is no jump."""
    result, finite = np.zeros(len(values), dtype=np.bool_), np.isfinite(values)
    if np.count_nonzero(finite) < _AROUND:
        return result
    known = values[finite] if period is None else np.unwrap(values[finite], period=period)
    around, at = (_windows(each, 5, "reflect", reflect_type="odd") for each in (known, t[finite]))
    lines = [_on_line(around, at, *ends) for ends in ((1, 3), (0, 4), (0, 1), (3, 4))]
    median = (sum(lines) - np.max(lines, axis=0) - np.min(lines, axis=0)) / 2
    away = np.abs(around[2] - median)
    for end in (slice(0, 4), slice(None, -5, -1)):
        away[end][:2] = _off_at_end(known[end], t[finite][end])
    moving = away[away > _ROUNDING * np.ptp(known)]
    # Of an encoder that hardly moves most samples are on the lines.
    typical = max(float(np.median(away)), float(np.min(moving)) if len(moving) else np.inf)
    far = away > _SUSPECT * typical
    if np.any(far):
        far[far] = away[far] > _SUSPECT * np.median(_windows(away, _AROUND, "symmetric")[:, far], axis=0)
        single = away == np.max(_windows(away, 5, "symmetric"), axis=0)
        apart = np.concatenate([[0.0], np.diff(t[finite]), [0.0]])
        widest = np.max(sliding_window_view(np.pad(apart, 1, mode="edge"), 4), axis=1)
        result[finite] = far & single & (widest <= _CLOSE * np.median(apart))
    return result


def _off_at_end(values: Array, at: Array) -> tuple[float, float]:
    """How far the first two of four samples are from the nearest of lines through any two others."""
    lines = (
        [(values[k] - values[i] - (values[j] - values[i]) * (at[k] - at[i]) / (at[j] - at[i])) for i, j in pairs]
        for k, pairs in ((0, ((1, 2), (1, 3), (2, 3))), (1, ((0, 2), (0, 3), (2, 3))))
    )
    first, second = (float(np.min(np.abs(one))) for one in lines)
    return first, second


def _windows(values: Array, size: int, mode: Literal["reflect", "symmetric"], **beyond: Any) -> Array:
    """Neighbours of each value, (size, N), itself in the middle."""
    return sliding_window_view(np.pad(values, size // 2, mode=mode, **beyond), size).T


def _on_line(values: Array, at: Array, one: int, other: int) -> Array:
    """Where the line through two neighbours is in the middle, (N,)."""
    slope = (values[other] - values[one]) / (at[other] - at[one])
    return np.asarray(values[one] + slope * (at[2] - at[one]))


def _far_off(
    problem: Problem, place: int, suspects: Mapping[str, Mask], motion: Trajectory, values: Values
) -> dict[str, Mask]:
    """Suspects that the fit does not explain either, and others that it shows to stand out; of signals with a robust
    loss those that count little."""
    recording, result = problem.recordings[place], {}
    for channel in problem.channels:
        doubted = channel.signal in suspects and bool(np.any(suspects[channel.signal]))
        if not (doubted or channel.loss in BENT):
            continue
        errors = errors_of(problem, channel, recording, motion, values)
        known = np.isfinite(errors)
        kept = known & ~suspects[channel.signal] if doubted else known
        far = known & (np.abs(errors) > _FAR * _width(errors[kept]))
        if doubted:
            single = np.zeros_like(far)
            rest = np.where(suspects[channel.signal], np.nan, errors)
            single[known] = np.abs(errors - medians(rest, None))[known] > _FAR * _width(errors[kept])
            far &= suspects[channel.signal] | single
        result[channel.signal] = far & (np.count_nonzero(far) <= _MOST * np.count_nonzero(known))
    return result


def _bent(problem: Problem) -> bool:
    return any(channel.loss in BENT for channel in problem.channels)


def _width(errors: Array) -> float:
    """Standard deviation of normal noise with the median of these."""
    return float(np.median(np.abs(errors))) / 0.6745 if len(errors) else np.inf


def errors_of(problem: Problem, channel: Channel, recording: Recording, motion: Trajectory, found: Values) -> Array:
    """What the samples of a signal are off from the estimated motion, (N,), NaN where there is none or no motion."""
    column = motion.signals.index(channel.signal)
    known = dict(problem.guess_on(recording.name)) | dict(found)
    times = recording.t - number(channel.delay, known)
    inside = (times >= motion.t[0]) & (times <= motion.t[-1])
    shown = motion.predicted[:, column]
    if channel.period is not None:
        shown = np.unwrap(shown, period=channel.period)
    errors = recording.signal(channel.signal) - _spline(motion.t, shown, times)
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


def _without(problem: Problem, wrong: Wrong) -> Problem:
    """The problem without these samples."""
    recordings = [_masked(recording, one) for recording, one in zip(problem.recordings, wrong, strict=True)]
    return problem.with_(recordings=recordings, step=problem.step)


def _masked(recording: Recording, wrong: Mapping[str, Mask]) -> Recording:
    """The recording without these samples."""
    left = {name: np.where(mask, np.nan, recording.signal(name)) for name, mask in wrong.items()}
    return recording.with_signals(**left)


def of_same_samples(problem: Problem, found: Solution | None = None) -> Problem:
    """The problem on the samples that ``found`` kept, whatever is fitted: likelihoods of other samples do not compare.
    Before a fit those go that stand out from their neighbours."""
    if all(sensor.loss != "auto" for sensor in problem.observations):
        return problem
    if found is None:
        recordings = [without_suspects(problem, recording)[0] for recording in problem.recordings]
    else:
        left = [one for one in found.outliers if one.left_out]
        recordings = [_masked(recording, _at(recording, left)) for recording in problem.recordings]
    plain = [linear(sensor, ("auto",)) for sensor in problem.observations]
    return problem.with_(observations=plain, recordings=recordings, step=problem.step)


def _at(recording: Recording, outliers: Sequence[Outlier]) -> dict[str, Mask]:
    own = [one for one in outliers if one.recording == recording.name]
    return {
        signal: np.isin(recording.t, [one.t for one in own if one.signal == signal])
        for signal in dict.fromkeys(one.signal for one in own)
    }


def without_suspects(problem: Problem, recording: Recording) -> tuple[Recording, int]:
    """A recording without samples that stand out from their neighbours, and how many these are: what can be told
    before a fit."""
    masks = _suspects(problem, recording)
    count = sum(int(np.count_nonzero(mask)) for mask in masks.values())
    return (_masked(recording, masks) if count else recording), count


def with_outliers(problem: Problem, wrong: Wrong, found: Solution) -> Solution:
    """The result with its outliers, and a notice of them.

    Args:
        wrong: samples that were left out; what robust losses hardly count is found here.
    """
    if _bent(problem):
        none: Wrong = wrong or ({},) * len(problem.recordings)
        light = _all_far_off(problem, ({},) * len(none), found.trajectories, found.values)
        wrong = tuple({**hardly, **out} for hardly, out in zip(light, none, strict=True))
    named: list[Outlier] = []
    for recording, motion, masks in zip(
        problem.recordings, found.trajectories if any(wrong) else (), wrong, strict=False
    ):
        for channel in problem.channels:
            if channel.signal in masks:
                named += _named(problem, channel, recording, motion, found, masks[channel.signal])
    if not named:
        return found
    return found.with_findings(lambda: [_told(named, problem)]).changed(outliers=tuple(named))


def _named(
    problem: Problem, channel: Channel, recording: Recording, motion: Trajectory, found: Solution, mask: Mask
) -> list[Outlier]:
    errors = errors_of(problem, channel, recording, motion, found.values)
    width, values = _width(errors[np.isfinite(errors) & ~mask]), recording.signal(channel.signal)
    return [
        Outlier(
            recording.name,
            channel.signal,
            float(recording.t[k]),
            float(values[k]),
            float(values[k] - errors[k]),
            float(errors[k] / width) if width > 0 else float("nan"),
            channel.loss == "auto",
        )
        for k in np.flatnonzero(mask).tolist()
    ]


def _told(named: Sequence[Outlier], problem: Problem) -> Finding:
    parts, counts = [], dict[str, int]()
    for recording, signal in dict.fromkeys((one.recording, one.signal) for one in named):
        own = [one for one in named if (one.recording, one.signal) == (recording, signal)]
        stamps = next(one.t for one in problem.recordings if one.name == recording)
        runs = _runs(np.searchsorted(stamps, [one.t for one in own]).astype(np.int64))
        times = [digits(stamps[a], 6) + f" to {digits(stamps[b], 6)}" * (b > a) for a, b in runs[:_TIMES]]
        more = " ..." if len(runs) > _TIMES else ""
        counts[signal] = counts.get(signal, 0) + len(own)
        where = f" of {recording}" if len(problem.recordings) > 1 else ""
        fate = "left out" if own[0].left_out else "hardly counted, by its loss"
        parts.append(f"{counted(len(own), 'sample')} of {signal}{where} {fate}, at {', '.join(times)}{more} s")
    remedy = (
        'A Contact or an Impact tells of blows; loss="linear" of a sensor keeps all of its samples.'
        if any(one.left_out for one in named)
        else ""
    )
    effect = f"Samples more than {_FAR:g} times the noise off: {'; '.join(parts)}."
    return Finding("samples.outliers", tuple(counts), {"samples": counts}, effect, advice=remedy)


def _runs(places: Integers) -> list[tuple[int, int]]:
    """First and last of whole numbers (n,), ascending, that follow one another."""
    ends = np.flatnonzero(np.diff(places) != 1)
    first, last = np.append(0, ends + 1), np.append(ends, len(places) - 1)
    return list(zip(places[first].tolist(), places[last].tolist(), strict=True))
