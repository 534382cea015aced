"""Detection of saturated samples: runs of equal values at the minimum or maximum of a signal, beyond which it moved.

An encoder also shows equal values when the motion reverses or rests. A run counts as saturated if noise larger than the
resolution disappears in it, or if parabolas through the neighbouring samples exceed the extreme by more than noise and
resolution explain: a motion that reverses or rests slows down before. Saturated samples are treated as missing, because
normal errors around the extreme would pull the motion back to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.channels import order
from spookid.data.recording import Recording
from spookid.estimation.suspects import drops_outliers, runs, without
from spookid.kernels.arrays import ROUNDING, Array, Integers, Mask
from spookid.records import dataclass
from spookid.results.findings import OFF, SURE, Finding
from spookid.statistics.marginal import roughness
from spookid.tables.table import counted, quantity

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
    return float(np.min(apart[apart > ROUNDING * np.ptp(shown)]))


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
    advice = 'Take a sensor with a larger range, or move less far; loss="linear" of a sensor keeps all of its samples.'
    return Finding("samples.saturated", tuple(counts), {"samples": counts}, effect, advice=advice)
