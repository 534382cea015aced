"""Usual causes of model errors, for score tests: of sensors, of coordinates, and of actuators on their inputs.

Each effect of an actuator (delay, first-order lag, power law, saturation) is a first-order change of the input per unit
of its magnitude, at magnitude zero. A first-order lag is tested at a few time constants, because a small lag is
equivalent to a delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import ROUNDING
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.solvers.rows import Columns, LinearizedFactor
from spookid.statistics.condensing import Condensed
from spookid.transcription.factor import Group, measured_noise

_LAGS = (3, 10, 30)
"""Time constants of a first-order lag, in steps."""
DELAY, LAG = "a delay?", "a first-order lag"
"""In words of causes: the first is listed if both say the same."""
ONCE = "once a turn"
"""In words of two alternatives, a cosine and a sine of an angle, of which the best combination is tested."""
_LARGE = 0.8
"""Share of the largest input from which it may saturate."""


Key = tuple[str, str, float]
"""Words, unit and share of an alternative."""


@dataclass(frozen=True)
class Alternative:
    """One usual alternative."""

    words: str
    """Description, with {} for the magnitude, and the place of the effect."""
    unit: str
    columns: tuple[Columns, ...]
    """e per chain and factor, (count, 1, rows that are left)."""
    sizes: tuple[float, float] = (-np.inf, np.inf)
    """Least and largest plausible size: nothing acts before its cause, and no law has a negative total."""
    volume: float | None = None
    """Half its slope of the logarithms in −2 log L at the same states; None if it is not known, and about what
    parameters would do."""
    share: float = 1.0
    """Share of a coordinate's typical rate up to which it acts. Alternatives with the same words differ in it."""

    @property
    def key(self) -> Key:
        """Identifies the same alternative in fits with other steps."""
        return self.words, self.unit, self.share


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals of one recording's estimated motion, N steps, for score tests."""

    observed: Array
    """What the sensors would show, continuous in time, (N, n_o)."""
    inputs: Array
    """(N, n_u)."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What the tests take."""

    step: float
    """h [s]."""
    motions: tuple[Signals, ...]
    sensors: tuple[tuple[str, str], ...]
    """Signal and unit of each."""
    coordinates: tuple[tuple[str, str], ...]
    """Label, and unit of what acts along it, of those of joints that have process-noise equations."""
    sigmas: dict[str, float]
    """Of sensors by their signal."""
    noises: tuple[tuple[str, ...], ...]
    """Names of each noise that is estimated."""
    impulses: dict[str, float]
    """Random impulse of a step of coordinates by their label [N m s or N s]."""
    efforts: Mapping[str, float]
    """Root mean square of all efforts along coordinates by their label [N m or N]; no label if it is not known."""
    motors: tuple[tuple[str, str, int, float], ...]
    """Coordinate, signal, the signal's place and gain of each motor."""
    held: float = 0.0
    """Longest interval between samples of inputs that are measured, and taken as linear between them [s]."""
    uneven: frozenset[str] = frozenset()
    """Signals whose noise depends on the motion, such as components of a quaternion: their outliers are not tested."""
    apart: tuple[Mapping[str, Array], ...] = ()
    """Per recording, of factors of samples between the steps by their name: how far each row's sample is from the
    nearest step, in steps, (count, rows)."""
    coarse: frozenset[str] = frozenset()
    """Signals of which rounding to counts is most of the noise: at rest they err by less."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Counts of sensors over their noise, if larger, by the name of this noise."""

    def rates(self, i: int) -> list[Array]:
        """Change of what a sensor shows over its noise, per second that it is late, in each recording, (N,)."""
        return [-np.gradient(m.observed[:, i], self.step) / self.sigmas[self.sensors[i][0]] for m in self.motions]

    def timed(self, i: int) -> list[Array]:
        """Rates for a test of the timestamps; none of a sensor of counts, or with less noise than a rounding error of
        its timestamps causes."""
        rates = self.rates(i)
        rounding = ROUNDING * self.step * max(len(one) for one in rates)
        known = self.sensors[i][0] not in self.coarse and max(np.max(np.abs(one)) for one in rates) * rounding < 1
        return rates if known else []


def usual(condensed: Condensed, experiment: Experiment) -> Iterator[Alternative]:
    """Alternatives in sensors, coordinates and motors."""
    of = (_of_sensor, experiment.sensors), (_of_coordinate, experiment.coordinates), (_of_motor, experiment.motors)
    for make, some in of:
        for i in range(len(some)):
            yield from make(condensed, experiment, i)


def rounding(condensed: Condensed, counts: Mapping[str, float]) -> list[Columns]:
    """What rounding to counts adds to the residuals in mean, if the motion is known, per chain and factor, (count, 1,
    rows). It follows from where the motion is between two counts, so that a slow motion correlates it in time."""
    found = [[np.zeros((len(t.residual), 1, t.residual.shape[1])) for t in own] for own in condensed.linearized.chains]
    for term, column in condensed.rows(found):
        for row, name in enumerate(term.factor.noise):
            if name in counts and term.factor.group is Group.OBSERVATION and term.complement is None:
                column[:, 0, row] = -counts[name] * rounding_error(term.residual[:, row] / counts[name], counts[name])
    return found


def rounding_error(places: Array, count: float) -> Array:
    """Mean of what rounding to whole numbers adds to values with normal noise, (n,). ``places``: the values less any
    whole numbers; ``count``: one, over the standard deviation of noise and rounding together, which is smaller."""
    noise = math.sqrt(max(count**-2 - 1 / 12, ROUNDING))
    apart = places - np.rint(places)
    jumps = np.arange(9)[:, None] + 0.5  # normal noise of less than a count does not reach farther
    shares = special.ndtr((apart - jumps) / noise) - special.ndtr((-apart - jumps) / noise)
    return np.asarray(np.sum(shares, axis=0) - apart)


def _of_sensor(condensed: Condensed, experiment: Experiment, i: int) -> list[Alternative]:
    signal, unit = experiment.sensors[i]
    sigma, h, key = experiment.sigmas[signal], experiment.step, measured_noise(signal)
    ones = [np.full(len(m.observed), 1 / sigma) for m in experiment.motions]
    causes = causes_of_lag([m.observed[:, i] for m in experiment.motions], h, experiment.held)
    lags = _rows(condensed, Group.OBSERVATION, key, experiment.rates(i))
    offsets = _rows(condensed, Group.OBSERVATION, key, ones)
    # What shifts residuals but no slope changes determinants by the states alone, and so does a delay of all samples.
    of_lag = 0.0 if len(experiment.sensors) == 1 else None
    return [
        *(Alternative(f"{signal} lags by about {{}}: {cause}", "s", lags, sizes, of_lag) for cause, sizes in causes),
        Alternative(f"{signal} is off by about {{}}: an offset?", unit, offsets, volume=0.0),
    ]


def _of_coordinate(condensed: Condensed, experiment: Experiment, j: int) -> list[Alternative]:
    """A constant torque or force a is missing if the residual is −a h over the random impulse."""
    name, unit = experiment.coordinates[j]
    if name not in experiment.impulses:
        return []
    parts = [np.full(len(m.observed), -experiment.step / experiment.impulses[name]) for m in experiment.motions]
    what = "torque" if unit == "N m" else "force"
    words = f"{{}} of constant {what} in {name}: an offset of the motor, or a tilt?"
    most = experiment.efforts.get(name, np.inf)
    return [Alternative(words, unit, _rows(condensed, Group.STATE, name, parts), (-most, most), 0.0)]


def _of_motor(condensed: Condensed, experiment: Experiment, m: int) -> list[Alternative]:
    """What its drive may do."""
    driven, signal, place, gain = experiment.motors[m]
    scale = -experiment.step * gain / experiment.impulses.get(driven, np.inf)
    inputs = [motion.inputs[:, place] for motion in experiment.motions]
    return [
        Alternative(
            one.words, one.unit, _rows(condensed, Group.STATE, driven, [scale * c for c in one.changes]), one.sizes, 0.0
        )
        for one in causes_of_input(signal, driven, inputs, experiment.step, experiment.held)
    ]


def _rows(condensed: Condensed, group: Group, noise: str, values: Sequence[Array]) -> tuple[Columns, ...]:
    """A column in the rows of a group that have this noise, from values at every step of each recording."""
    return tuple(
        [_column(term, group, noise, v) for term in terms]
        for terms, v in zip(condensed.linearized.chains, values, strict=True)
    )


def _column(term: LinearizedFactor, group: Group, noise: str, values: Array) -> Array:
    factor, (count, rows) = term.factor, term.residual.shape
    if factor.group is not group or noise not in factor.noise:
        return np.zeros((count, 1, rows))
    first = factor.reach // 2  # a factor over several steps belongs to the middle one
    mask = np.array([name == noise for name in factor.noise], dtype=np.float64)
    column = values[first : first + count, None] * mask
    if term.complement is not None:
        column = np.matmul(column[:, None], term.complement)[:, 0]
    return np.asarray((column * term.alive)[:, None])


@dataclass(frozen=True, eq=False)
class Cause:
    """One change of an input."""

    words: str
    """The size replaces {}."""
    unit: str
    changes: tuple[Array, ...]
    """Of the input at each step of each recording per unit of the size, (N,)."""
    sizes: tuple[float, float]
    """Least and largest plausible size."""


def causes_of_input(signal: str, driven: str, inputs: Sequence[Array], step: float, held: float) -> Iterator[Cause]:
    """Possible errors of a signal that acts on a coordinate. ``inputs``: at each step of each recording; ``held``: as
    for ``causes_of_lag``."""
    slopes, late = [np.gradient(one, step) for one in inputs], delays(inputs, step)
    acts = f"{signal} acts on {driven}"
    # An input that moves between its samples is taken as held, half an interval late.
    for cause, sizes in causes_of_lag(inputs, step, held):
        yield Cause(f"{acts} late by about {{}}: {cause}", "s", tuple(-s for s in slopes), sizes)
    early = f"{acts} early by about {{}}: does it move between its samples?"
    yield Cause(early, "s", tuple(slopes), late)
    largest = max(float(np.max(np.abs(one), initial=0.0)) for one in inputs)
    if not any(np.ptp(one) for one in inputs):
        return
    for steps in _LAGS:
        tau = steps * step
        lagging = tuple((_lagged(one, steps) - one) / tau for one in inputs)
        yield Cause(f"{acts} with {LAG} of about {{}}: the drive, its filter?", "s", lagging, (0.0, 2 * tau))
    powers = tuple(one * np.log(np.where(one == 0, 1.0, np.abs(one) / largest)) for one in inputs)
    curved = f"{acts} with an exponent that is off by about {{}}: is its effect proportional?"
    yield Cause(curved, "", powers, (-1.0, np.inf))
    beyond = tuple(-np.sign(one) * np.maximum(np.abs(one) - _LARGE * largest, 0.0) for one in inputs)
    yield Cause(f"{acts} {{}} less than proportionally where it is large: does it saturate?", "%", beyond, (0.0, 1.0))


def causes_of_lag(signals: Sequence[Array], step: float, held: float) -> list[tuple[str, tuple[float, float]]]:
    """Possible causes of a sensor's delay, with plausible amounts. ``held``: longest interval between samples of inputs
    that are interpolated linearly: held inputs act half an interval later, so that all sensors lag."""
    least, most = delays(signals, step)
    by_input = (f"inputs that are constant between samples (hold='previous'), or {DELAY}", (least, held))
    return [(DELAY, (max(least, held), most)), *[by_input] * bool(held)]


def delays(signals: Sequence[Array], step: float) -> tuple[float, float]:
    """Plausible delays of a signal [s]: not negative, and not longer than the time in which the signal changes."""
    changes = np.concatenate([np.gradient(one, step) for one in signals])
    apart = np.concatenate([one - one.mean() for one in signals])
    return 0.0, float(np.sqrt(np.mean(apart**2) / (np.mean(changes**2) or 1.0)))


def _lagged(values: Array, steps: float) -> Array:
    """What a first-order lag of so many steps makes of values that are held, from rest at the first, (N,)."""
    share, found = -np.expm1(-1 / steps), np.empty_like(values, dtype=np.float64)
    state = float(values[0])
    for k, value in enumerate(values.tolist()):
        found[k] = state
        state += share * (value - state)
    return found
