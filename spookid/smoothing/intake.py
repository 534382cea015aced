"""Samples as they come, in any order: checked, put where they belong, and counted where they came too late."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from spookid.argument_checks import is_number
from spookid.assembly.declared import measured_channels
from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.data.channels import Sensor
from spookid.errors import ProblemError, listing, shown
from spookid.kernels.arrays import Array
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.smoothing.input_rows import InputRows, Place, SensorRows, SetData, Unplaced
from spookid.transcription.factor import Factor


@dataclass(frozen=True)
class Intake:
    """Numbers of samples that were received and not used, by reason."""

    samples: int = 0
    """All that are finite."""
    late: int = 0
    """Of a step that had left the window: left out."""
    early: int = 0
    """They show what was before the first step: left out."""
    crowded: int = 0
    """More in one step than the recording that the smoother began with has: left out."""


class Samples:
    """Received samples of all signals of a problem.

    Args:
        factors: all of the problem's, with the layout ``observed`` of samples.
        recording: name of the recording whose parameters are meant.
        start: time of step 0 [s].
    """

    def __init__(
        self, problem: Problem, factors: Sequence[Factor], observed: Sequence[Observed], recording: str, start: float
    ) -> None:
        values, h = problem.guess_on(recording), problem.step
        self._problem = problem
        self._delays = [number(channel.delay, values) for channel in problem.channels]
        named = {factor.name: factor for factor in factors}
        self.sensors = SensorRows(observed, named, self._delays, start, h)
        self.inputs = InputRows(problem, factors, values, start, h)
        self._channels: dict[str, list[int]] = {}
        for i, channel in enumerate(problem.channels):
            self._channels.setdefault(channel.signal, []).append(i)
        self.known = signals(problem)
        """Names of the signals."""
        self._mirrored = tuple(dict.fromkeys(c.sensor for c in problem.channels if c.sensor.either_sign))
        self._before: dict[Sensor, Array] = {}
        """The last values of sensors whose signals may have either sign."""
        self.counts, self._left_out = Intake(), LeftOut()

    def checked(self, t: object, values: object) -> tuple[float, dict[str, float]]:
        """Time and finite values of one update; raises ProblemError as ``checked``, and for a second sample of a signal
        at the same time or step."""
        what = self._problem.what
        time, finite = checked(what, self.known, t, values)
        refuse_second(what, time, (name for name in finite if self._twice(name, time)))
        return time, finite

    def _twice(self, name: str, t: float) -> bool:
        if any(isinstance(place, Place) and self.sensors.has(place, t) for place in self._places(name, t)):
            return True
        return name in self.inputs.signals and self.inputs.has(name, t)

    def add(self, t: float, values: Mapping[str, float], first: int) -> None:
        """Store checked samples. ``first``: number of the oldest step in the window."""
        found = {"samples": len(values), "late": 0, "early": 0, "crowded": 0}
        for name, value in self._oriented(values).items():
            for place in self._places(name, t):
                fate = self._put(place, t, value, first)
                self._left_out.add(t, fate)
                if fate:
                    found[fate] += 1
            if name in self.inputs.signals:
                acts = self.inputs.add(name, t, value) and self.inputs.acts(name, t) >= first
                self._left_out.add(t, "" if acts else "late")
                found["late"] += not acts
        self.counts = Intake(**{name: getattr(self.counts, name) + n for name, n in found.items()})

    def _places(self, name: str, t: float) -> list[Place | Unplaced]:
        """Where a sample of a signal belongs, in each channel that takes it."""
        return [self.sensors.place(i, t) for i in self._channels.get(name, ())]

    def _put(self, place: Place | Unplaced, t: float, value: float, first: int) -> str:
        """Why a sample of a sensor was left out; empty if it was not."""
        if not isinstance(place, Place):
            return place
        if place.row < first:
            return "late"
        if self.sensors.is_full(place):
            return "crowded"
        self.sensors.add(place, t, value)
        return ""

    def _oriented(self, values: Mapping[str, float]) -> dict[str, float]:
        """Signals whose sign together may be either with that which is nearer to the sample before."""
        result = dict(values)
        for sensor in self._mirrored:
            if all(name in values for name in sensor.signals):
                now = np.array([values[name] for name in sensor.signals])
                now *= -1.0 if self._before.get(sensor, now) @ now < 0 else 1.0
                self._before[sensor] = now
                result |= dict(zip(sensor.signals, now.tolist(), strict=True))
        return result

    def findings(self, now: float) -> tuple[Finding, ...]:
        """Findings about samples that are not used, and inputs without samples, at a time [s]."""
        said = "input {!r} has no sample after {:.6g} s, and keeps its last value, on which later estimates depend"
        stopped = self.inputs.stopped(now).items()
        held = (Finding("input.stopped", (name,), {"since": t}, said.format(name, t)) for name, t in stopped)
        return (*held, *self._left_out.findings)

    def begin(self, newest: int, set_data: SetData) -> None:
        """Give the data of the rows that end at a new step."""
        self.inputs.begin(newest, set_data)
        self.sensors.begin(newest, set_data)

    def renew(self, newest: int, set_data: SetData) -> bool:
        """Update data of rows that have received samples since; True if there were any."""
        renewed = self.inputs.renew(newest, set_data)
        return self.sensors.renew(newest, set_data) or renewed

    def forget(self, first: int) -> None:
        """Delete data on which no step from a given step on depends."""
        self.sensors.forget(first)
        self.inputs.forget(first)

    def arrays(self) -> dict[str, Array]:
        """All stored data, by name."""
        found = {"sensors": np.array(list(self.sensors.kept())).reshape(-1, 5), "left out": self._left_out.array()}
        for name, intervals in self.inputs.intervals.items():
            found[f"intervals {name}"] = np.array(intervals)
        for name, samples in self.inputs.samples.items():
            found[f"input {name}"] = np.array(samples).reshape(-1, 2)
        for i, sensor in enumerate(self._mirrored):
            if sensor in self._before:
                found[f"sign {i}"] = self._before[sensor]
        return found

    def restore(self, arrays: Mapping[str, Array], counts: Intake, first: int, newest: int) -> None:
        """Restore the data of ``arrays`` into an empty object, for a window from a first to a newest step."""
        self.sensors.restore(arrays["sensors"].tolist())
        pairs = {name: arrays[f"input {name}"].tolist() for name in self.inputs.signals}
        self.inputs.restore({name: [(t, value) for t, value in rows] for name, rows in pairs.items()}, first, newest)
        for name, intervals in self.inputs.intervals.items():
            intervals.extend(arrays[f"intervals {name}"].tolist())
        self._left_out.restore(arrays["left out"])
        self._before = {s: arrays[f"sign {i}"] for i, s in enumerate(self._mirrored) if f"sign {i}" in arrays}
        self.counts = counts


def signals(problem: Problem) -> frozenset[str]:
    """Names of the measured signals of sensors and inputs."""
    return frozenset({*(channel.signal for channel in measured_channels(problem)), *problem.model.signals})


def checked(what: str, known: frozenset[str], t: object, values: object) -> tuple[float, dict[str, float]]:
    """Time and the finite values of one update.

    Args:
        known: names of the signals.

    Raises:
        ProblemError: for a time that is not finite, a signal that is unknown, or an infinite value.
    """
    if not (is_number(t) and math.isfinite(t)):
        raise ProblemError(f"{what}: a sample has the time {shown(t)}; give seconds as a finite number")
    time, finite = float(t), {}
    if not isinstance(values, Mapping):
        raise ProblemError(f"{what}: the samples at {time:.12g} s are {shown(values)}; give a dict of signal to value")
    for name, value in values.items():
        if name not in known:
            raise ProblemError(f"{what} has no signal {name!r}; it has {listing(sorted(known))}")
        if value is None or (isinstance(value, Real) and math.isnan(value)):
            continue
        if not (isinstance(value, Real) and math.isfinite(value)):
            raise ProblemError(f"{what}: {name!r} is {shown(value)} at {time:.12g} s; give a number, or NaN for none")
        finite[str(name)] = float(value)
    return time, finite


def refuse_second(what: str, t: float, names: Iterable[str]) -> None:
    """Raise ProblemError for the first signal that already has a sample at this time [s]."""
    for name in names:
        raise ProblemError(f"{what}: {name!r} has a second sample at {t:.12g} s; give each sample once")


_LATEST = 100
"""Samples over which a share is taken, older ones counting less and less."""
_MUCH, _LITTLE = 0.1, 0.05
"""Shares from which it is reported, and below which it is reported no more."""
_WHY = {
    "late": "samples arrive after their step has left the window, and are not used: choose a longer window",
    "crowded": (
        "more samples come between two steps than there is room for, and are left out: begin with a recording that has "
        "as many, or take a smaller step"
    ),
}
"""By what becomes of a sample."""


class LeftOut:
    """Fractions of samples that are not used, by reason, and the time since when they are large."""

    def __init__(self) -> None:
        self._shares = dict.fromkeys(_WHY, 0.0)
        self._since = dict.fromkeys(_WHY, math.nan)

    def add(self, t: float, fate: str) -> None:
        """Count a sample at time t [s], by the reason why it was not used, if any."""
        for why in _WHY:
            share = self._shares[why] + ((why == fate) - self._shares[why]) / _LATEST
            self._shares[why] = share
            if share < _LITTLE:
                self._since[why] = math.nan
            elif share > _MUCH and math.isnan(self._since[why]):
                self._since[why] = t

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Warnings about large fractions of unused samples."""
        large = [(why, t) for why, t in self._since.items() if not math.isnan(t)]
        return tuple(Finding(f"samples.{why}", (), {"since": t}, f"since {t:.6g} s {_WHY[why]}") for why, t in large)

    def array(self) -> Array:
        """All stored counts, (reasons, 2)."""
        return np.column_stack([list(self._shares.values()), list(self._since.values())])

    def restore(self, array: Array) -> None:
        """Take what ``array`` gave."""
        for why, (share, since) in zip(_WHY, array.tolist(), strict=True):
            self._shares[why], self._since[why] = share, since
