"""Samples that are suspected before any fit: positions that differ from their neighbours, and signals at their ends.

Without impacts, a position cannot jump and return, nor stand still and jump on, as with a stuck encoder or a lost
connection that repeats the last value. Robust losses alone do not suffice: they ignore distant samples, and with a
wrong inertia the whole recording may look like outliers. A fit with robust losses therefore begins with least squares,
without the suspected samples.

Saturated samples are runs of equal values at the minimum or maximum of a signal, beyond which it moved. An encoder also
shows equal values when the motion reverses or rests. A run counts as saturated if noise larger than the resolution
disappears in it, or if parabolas through the neighbouring samples exceed the extreme by more than noise and resolution
explain: a motion that reverses or rests slows down before. Saturated samples are treated as missing, because normal
errors around the extreme would pull the motion back to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.assembly.initialization import medians
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel, Sensor, order
from spookid.data.losses import robust
from spookid.data.recording import Recording
from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.precision import HALF_DIGITS
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.statistics.marginal import roughness
from spookid.statistics.whiteness import OFF, SURE
from spookid.tables.table import counted, quantity

Wrong = tuple[Mapping[str, Mask], ...]
"""Of each recording, samples by the name of their signal, (N,) each."""
_FAR = 10.0
"""Times the typical distance of samples from where their neighbours put them, or the typical change from one to the
next, of all and of those near by, from which one is suspected."""
_AROUND = 11
"""How many samples are near by, itself among them."""
MOST = 0.1
"""Share of a signal's samples above which they indicate a model error and not outliers."""


def drops_outliers(one: Sensor | Channel) -> bool:
    """True if obvious outliers of the sensor are excluded from a fit."""
    return one.loss == "auto"


def is_robust(one: Sensor | Channel) -> bool:
    """True if the sensor's loss reduces the weight of outliers."""
    return robust(one.loss) is not None


def suspects(problem: Problem, recording: Recording) -> dict[str, Mask]:
    """Position samples that stand out from their neighbours; with jitter, those of fast motion do."""
    found = {}
    for channel in (c for c in problem.channels if drops_outliers(c) and c.sensor.jitter == 0):
        if not channel.sensor.either_sign and order(channel, problem.model) == 0:
            values = recording.signal(channel.signal)
            single = standing_out(recording.t, values, channel.period)
            both = single, stuck(values, channel.period, single)
            most = MOST * np.count_nonzero(np.isfinite(values))
            found[channel.signal] = np.any([one & (np.count_nonzero(one) <= most) for one in both], axis=0)
    return found


# --- single ones ---


def standing_out(t: Array, values: Array, period: float | None) -> Mask:
    """Samples (N,) that are farther than others from the prediction by two samples before and two after, the median of
    lines through any two of these; only the farthest of five neighbours, and none next to a gap."""
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
    moving = away[away > HALF_DIGITS * np.ptp(known)]
    # Of an encoder that barely moves most samples are on the lines.
    typical = max(float(np.median(away)), float(np.min(moving)) if len(moving) else np.inf)
    far = away > _FAR * typical
    if np.any(far):
        far[far] = away[far] > _FAR * np.median(_windows(away, _AROUND, "symmetric")[:, far], axis=0)
        single = away == np.max(_windows(away, 5, "symmetric"), axis=0)
        apart = np.concatenate([[0.0], np.diff(t[finite]), [0.0]])
        widest = np.max(sliding_window_view(np.pad(apart, 1, mode="edge"), 4), axis=1)
        result[finite] = far & single & (widest <= 2 * _FAR * np.median(apart))
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


# --- several in a row ---


def stuck(values: Array, period: float | None, single: Mask | None = None) -> Mask:
    """Samples (N,) of a position that no motion makes: those that stand still until one jumps on, but for the first,
    which may be true; those that stand still while it moves fast before and after, where no jump is larger than the
    motion; and those from a jump on until another one comes back, beside ``single`` ones that stand out."""
    result, finite = np.zeros(len(values), dtype=np.bool_), np.isfinite(values)
    apart = finite if single is None else finite & ~single
    for kept, find in ((finite, _standing), (apart, _strayed)):
        known = values[kept] if period is None else np.unwrap(values[kept], period=period)
        if len(known) >= 2 * _AROUND:
            places, changes = np.flatnonzero(kept), np.diff(known)
            for first, last in find(changes, np.flatnonzero(_jumps(changes)).tolist()):
                result[places[first : last + 1]] = True
    return result


def _standing(changes: Array, jumps: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of samples that stand still, before a jump or in the midst of fast motion."""
    for k in jumps:
        first = k
        while first > 0 and changes[first - 1] == 0:
            first -= 1
        if k - first >= 2:  # three or more stand still
            yield first + (first - 1 not in jumps), k
    yield from _halts(changes)


def _strayed(changes: Array, jumps: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of samples between a jump and another one back. Each jump belongs to the shorter of two, for what
    is between them is motion."""
    pairs = [(b - a, a, b) for a, b in pairwise(jumps) if abs(changes[a] + changes[b]) < abs(changes[a]) / 2]
    used = set[int]()
    for _, k, back in sorted(pairs):
        if used.isdisjoint((k, back)):
            used |= {k, back}
            yield k + 1, back


def _halts(changes: Array, near: int = _AROUND // 2) -> Iterator[tuple[int, int]]:
    """First and last of three or more samples that stand still in the midst of fast motion; not the first if it lies
    where motion would have come to."""
    fastest = _fastest(changes)
    still = np.concatenate([[False], changes == 0, [False]])
    begins, ends = np.flatnonzero(~still[:-1] & still[1:]), np.flatnonzero(still[:-1] & ~still[1:])
    for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
        before, after = changes[max(first - 1 - near, 0) : max(first - 1, 0)], changes[last + 1 : last + 1 + near]
        around = np.concatenate([before, after])
        if last - first < 2 or min(len(before), len(after)) < near or np.abs(around).min() < fastest / 2:
            continue
        usual = np.median(before)
        yield first + (abs(changes[first - 1] - usual) < abs(usual) / 2), last


def _jumps(changes: Array) -> Mask:
    """True for changes (N − 1,) that are far larger than those around and nearly all others."""
    sizes = np.abs(changes)
    around = np.delete(_windows(sizes, _AROUND, "symmetric"), _AROUND // 2, axis=0)
    return np.asarray((sizes > _FAR * np.median(around, axis=0)) & (sizes > _FAR / 2 * _fastest(changes)))


def _fastest(changes: Array) -> float:
    """What nine in ten of those that are none stay below."""
    moving = np.abs(changes[changes != 0])
    return float(np.quantile(moving, 0.9)) if len(moving) else np.inf


def is_still(values: Array, period: float | None, lags: int = 20, least: float = 1e-3) -> bool:
    """True if samples are constant but for white noise, by their autocorrelations at so many lags (Ljung and Box,
    Biometrika 65, 1978); ``least``: probability of such ones below which they are not."""
    known = values[np.isfinite(values)] if period is None else np.unwrap(values[np.isfinite(values)], period=period)
    apart, n = known - np.mean(known), len(known)
    total = float(apart @ apart)
    if total <= n * (HALF_DIGITS * np.max(np.abs(known), initial=0.0)) ** 2:
        return True
    shares = [float(apart[lag:] @ apart[:-lag]) / total for lag in range(1, lags + 1) if lag < n / 4]
    scattered = n * (n + 2) * sum(share**2 / (n - lag) for lag, share in enumerate(shares, 1))
    return len(shares) == lags and bool(special.chdtrc(lags, scattered) > least)


# --- problems without them ---


def masked(problem: Problem, wrong: Wrong) -> Problem:
    """The problem without these samples."""
    recordings = [without(recording, one) for recording, one in zip(problem.recordings, wrong, strict=True)]
    return problem.with_(recordings=recordings, step=problem.step)


def without(recording: Recording, wrong: Mapping[str, Mask]) -> Recording:
    """The recording without these samples."""
    left = {name: np.where(mask, np.nan, recording.signal(name)) for name, mask in wrong.items()}
    return recording.with_signals(**left)


def without_suspects(problem: Problem, recording: Recording) -> tuple[Recording, int]:
    """Recording without suspicious samples, and their number, before a fit."""
    masks = suspects(problem, recording)
    count = sum(int(np.count_nonzero(mask)) for mask in masks.values())
    return (without(recording, masks) if count else recording), count


def without_outliers(problem: Problem) -> Problem:
    """Problem with linear losses and without samples that stand out; unchanged if all its losses are linear."""
    robust = [channel for channel in problem.channels if is_robust(channel)]
    if not robust:
        return problem
    recordings = []
    for recording in problem.recordings:
        kept = {c.signal: _without_far(recording.signal(c.signal), c.period) for c in robust}
        recordings.append(recording.with_signals(**kept))
    plain = [varied(sensor, loss="linear") if is_robust(sensor) else sensor for sensor in problem.observations]
    return leading(problem).with_(observations=plain, recordings=recordings, step=problem.step)


def _without_far(values: Array, period: float | None) -> Array:
    """Samples (N,), those that are far from the medians around missing."""
    away = np.abs(values - medians(values, period))
    if period is not None:
        away = np.minimum(away % period, -away % period)
    known = away[np.isfinite(away)]
    moving = known[known > 0]
    # Of an encoder that barely moves most samples are their medians.
    typical = float(np.median(known)) or (float(np.min(moving)) if len(moving) else np.inf)
    return np.where(away > _FAR * typical, np.nan, values)


def leading(problem: Problem) -> Problem:
    """Problem for preliminary fits: with its own step, and with the estimator that is chosen."""
    estimator = "hard" if problem.is_hard else "noise"
    return problem.with_(step=problem.step, step_correction=False, estimator=estimator)


def trial(problem: Problem, sensors: Sequence[Sensor], **changes: Any) -> Problem:
    """Problem with other sensors, to test if the model explains the data with them."""
    return problem.with_(observations=sensors, step=problem.step, step_correction=False, **changes)


def varied(sensor: Sensor, **changes: Any) -> Sensor:
    """A sensor with other arguments."""
    other = copy(sensor)
    for name, value in changes.items():
        object.__setattr__(other, name, value)
    return other


def spread(values: Array) -> Array:
    """Standard deviations of normal noise, from the medians of absolute values in columns (N, ...)."""
    return np.asarray(np.median(np.abs(values), axis=0)) / 0.6745


def runs(places: Integers, gap: int = 1) -> list[tuple[int, int]]:
    """First and last of groups of ascending whole numbers (n,), split at larger gaps."""
    ends = np.flatnonzero(np.diff(places) > gap)
    first, last = places[np.append(0, ends + 1)] if len(places) else places, places[np.append(ends, -1)[: len(places)]]
    return list(zip(first.tolist(), last.tolist(), strict=True))


_ROW = 3
"""Equal samples in a row at least: noise makes two by accident."""
_SIDE = 9
"""Samples beside a run that a parabola is fitted to."""


def saturated(t: Array, values: Array, bends: bool = False) -> Mask:
    """True for samples (N,) at the end of a sensor's range. ``bends``: True for rates, which a force may change
    abruptly, so that only the noise criterion applies."""
    result, finite = np.zeros(len(values), dtype=np.bool_), np.isfinite(values)
    known, times, found = values[finite], t[finite], list[tuple[Mask, list[_Side]]]()
    for extreme, up in ((known.max(initial=-np.inf), 1.0), (known.min(initial=np.inf), -1.0)):
        at = known == extreme
        if np.all(at) or not (rows := [(a, b) for a, b in runs(np.flatnonzero(at), _ROW) if _longest(at[a : b + 1])]):
            continue
        places = [(_beside(at, a, -1), _beside(at, b, 1)) for a, b in rows]
        inner = [side for pair in places if all(len(beside) == _SIDE for _, beside in pair) for side in pair]
        found.append((at, [_Side.of(times, up * (known - extreme), *side) for side in inner]))
    if not any(sides for _, sides in found):
        return result
    noisy = _stops_noise(known, [side for _, sides in found for side in sides])
    for at, sides in found:
        result[finite] |= at & (noisy or (not bends and _leads_beyond(sides)))
    return result


def _longest(at: Mask) -> bool:
    return any(b - a + 1 >= _ROW for a, b in runs(np.flatnonzero(at)))


def _beside(at: Mask, edge: int, way: int) -> tuple[int, Integers]:
    """A sample inside a run, and those next to it from its edge on."""
    places = edge + way * np.arange(1, 2 * _SIDE)
    places = places[(places >= 0) & (places < len(at))]
    return edge - way * (_ROW - 1), places[~at[places]][:_SIDE]


@dataclass(frozen=True, eq=False)
class _Side:
    """A parabola through the samples next to a run."""

    below: Array
    """These samples relative to the extreme, (n,)."""
    top: float
    """Where it leads inside, relative to the extreme."""
    error: float
    """Of that, in standard deviations of the samples."""
    left: float
    """Standard deviation that it leaves."""
    rough: float
    """The same by fourth differences, which smooth motion barely has."""

    @classmethod
    def of(cls, t: Array, below: Array, inside: int, places: Integers) -> _Side:
        """Criterion for samples that are ``below`` the extreme value by an amount."""
        scaled = (t[places] - t[places[0]]) / (t[places[-1]] - t[places[0]])
        ahead = (t[inside] - t[places[0]]) / (t[places[-1]] - t[places[0]])
        inverse = np.linalg.pinv(np.vander(scaled, 3))
        parabola, weights = inverse @ below[places], np.vander([ahead], 3)[0] @ inverse
        left = below[places] - np.vander(scaled, 3) @ parabola
        deviation = math.sqrt(float(left @ left) / (_SIDE - 3))
        beside = below[places]
        return cls(beside, float(weights @ beside), float(np.linalg.norm(weights)), deviation, roughness([beside]))


def _stops_noise(known: Array, sides: Sequence[_Side]) -> bool:
    """True if samples beside have noise that is larger than steps between them, and none are equal elsewhere."""
    left, rough = (float(np.median([getattr(side, name) for side in sides])) for name in ("left", "rough"))
    row = np.convolve(np.diff(known) == 0, np.ones(_ROW - 1), "valid") == _ROW - 1
    inside = (known > known.min()) & (known < known.max())
    return rough > left / 2 and left > SURE * _step(sides) and not np.any(row & inside[: len(row)])


def _leads_beyond(sides: Sequence[_Side]) -> bool:
    if not sides:
        return False
    left, step = float(np.median([side.left for side in sides])), _step(sides)
    far = np.array([(side.top - SURE * step) / (max(side.left, left) * side.error) for side in sides])
    return bool(far.sum() > OFF * math.sqrt(len(far)) and np.mean(far > 0) > 1 / 2)


def _step(sides: Sequence[_Side]) -> float:
    """The smallest distance between values of samples that is more than rounding."""
    shown = np.unique(np.concatenate([[0.0], *(side.below for side in sides)]))
    apart = np.diff(shown)
    return float(np.min(apart[apart > HALF_DIGITS * np.ptp(shown)]))


def saturated_samples(problem: Problem, recording: Recording) -> Mapping[str, Mask]:
    """Saturated samples by signal name; sensors with loss="linear" keep all samples."""
    channels = [c for c in problem.channels if drops_outliers(c) and not c.sensor.either_sign]
    found = {
        c.signal: saturated(recording.t, recording.signal(c.signal), order(c, problem.model) > 0) for c in channels
    }
    return {name: mask for name, mask in found.items() if mask.any()}


def unsaturated(problem: Problem) -> tuple[Problem, tuple[Finding, ...]]:
    """Problem without saturated samples, and a finding that lists them."""
    found = [saturated_samples(problem, recording) for recording in problem.recordings]
    if not any(found):
        return problem, ()
    recordings = [without(recording, masks) for recording, masks in zip(problem.recordings, found, strict=True)]
    return problem.with_(recordings=recordings, step=problem.step), (_named(problem, found),)


def _named(problem: Problem, found: Sequence[Mapping[str, Mask]]) -> Finding:
    words, counts, units = [], dict[str, int](), {c.signal: c.unit for c in problem.channels}
    for recording, masks in zip(problem.recordings, found, strict=True):
        for name, mask in masks.items():
            counts[name] = counts.get(name, 0) + int(mask.sum())
            values = np.unique(recording.signal(name)[mask]).tolist()
            ends = " and ".join(quantity(value, units[name], 4) for value in values)
            where = f" of {recording.name}" if len(found) > 1 else ""
            words.append(f"{counted(int(mask.sum()), 'sample')} of {name}{where} at {ends}")
    effect = f"Sensors are saturated: {'; '.join(words)}. These samples are treated as missing."
    advice = 'Use a sensor with a larger range, or a smaller motion; a sensor with loss="linear" keeps all samples.'
    return Finding("samples.saturated", tuple(counts), {"samples": counts}, effect, advice=advice)
