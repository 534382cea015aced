"""From a recording's own timestamps to the equidistant steps t_k = t_0 + k h of the estimation: which step each sample
belongs to, and where it lies between the states there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spookid.data.arrays import FloatArray, available
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.kernels.precision import AT_STEP
from spookid.mechanics.system import MOST_STEPS
from spookid.records import dataclass

_MOST_POINTS = 2**20  # of the uniform grid that the initial guess is filtered on


SPOILED = 3.0  # periods of the cutoff at both ends of a recording, or of a gap, that the filter spoils
_LEAST_BYTES = 800  # that the motion of one body takes at a step


@dataclass(frozen=True)
class Grid:
    """Uniform time grid of the states of one recording."""

    start: float  # time t_0 of the first state and of the recording's first sample [s]
    step: float  # step h [s]
    count: int  # number of states N
    first: int = 0  # number k of the first of them: a part of a longer grid has the very same times

    def times(self) -> FloatArray:
        """Times t_k = t_0 + k h of the states [s], shape (N,)."""
        return self.start + self.step * np.arange(self.first, self.first + self.count, dtype=np.float64)


def grid(recording: Recording, step: float) -> Grid:
    """Make the grid of a recording: N = floor((t_end − t_0)/h + 1e-6) + 1 steps."""
    if not (math.isfinite(step) and step > 0):
        raise ProblemError(f"the time step is {step!r}; give a positive number of seconds")
    start, stop = float(recording.t[0]), float(recording.t[-1])
    count = math.floor((stop - start + slack(recording, step)) / step) + 1
    if count < 3:
        raise ProblemError(
            f"recording {recording.name!r} lasts {stop - start:g} s, less than two time steps of {step:g} s; "
            "take a longer recording or a smaller step"
        )
    return limited(Grid(start=start, step=step, count=count))


def limited(grid: Grid) -> Grid:
    """Check that the states fit into memory, and return the grid; raises `ProblemError` if they do not."""
    if grid.count > MOST_STEPS or _LEAST_BYTES * grid.count > available():
        raise ProblemError(
            f"{grid.count:.3g} steps of {grid.step:g} s are too many; take a larger step or less time, and see that "
            "times are in seconds, not in milliseconds or microseconds"
        )
    return grid


def observed(recording: Recording, signal: str, grid: Grid, *, period: float | None) -> FloatArray:
    """Measured value at each step, (N,), NaN where it is missing: that of a sample there, or else on a line between the
    nearest finite ones, none farther than h, the short way round with a ``period``; between several clocks also at a
    step whose own sample is NaN."""
    values = recording.signal(signal)
    times, t = grid.times(), recording.t
    near = slack(recording, grid.step)
    finite = np.isfinite(values)
    known_t, known = t[finite], values[finite]

    stamped = np.searchsorted(t, times + near, side="right") > np.searchsorted(t, times - near, side="left")
    after = np.searchsorted(known_t, times, side="left")
    right = np.minimum(after, len(known) - 1)
    left = np.maximum(after - 1, 0)
    to_left, to_right = np.abs(times - known_t[left]), np.abs(known_t[right] - times)

    reach = grid.step + near
    bracketed = (after > 0) & (after < len(known)) & (to_left <= reach) & (to_right <= reach)
    difference, distance = known[right] - known[left], to_left + to_right
    fraction = np.divide(to_left, distance, out=np.zeros_like(distance), where=distance > 0)
    between = known[left] + fraction * (difference if period is None else wrap(difference, period))
    nearest = np.where(to_left <= to_right, left, right)
    at_step = np.minimum(to_left, to_right) <= near
    return np.where(
        at_step, known[nearest], np.where(bracketed & (recording.several_clocks | ~stamped), between, np.nan)
    )


def smoothed(recording: Recording, signal: str, grid: Grid, *, period: float | None, cutoff: float) -> FloatArray:
    """Low-pass a signal and interpolate it at the time steps, (N,), also across gaps, for initial states.

    The finite samples, unwrapped with a ``period``, are interpolated on a uniform grid, of which every step is a point,
    and which is as fine as the median sample interval, so that the filter averages the noise of all samples; it is
    coarser where it would exceed about a million points. A zero-phase Butterworth filter (paper, section 4.4) follows.
    """
    if not cutoff > 0:
        raise ProblemError(f"the cutoff frequency is {cutoff!r}; give a positive number in Hz")
    known_t, known = finite_samples(recording, signal)
    if period is not None:
        known = np.unwrap(known, period=period)
    wanted = 2 if len(known_t) < 2 else math.ceil(grid.step / float(np.median(np.diff(known_t))) * (1 - AT_STEP))
    per_step = max(2, min(wanted, _MOST_POINTS // grid.count))
    interval = grid.step / per_step
    # Beyond the last step up to the last sample: the filter's end effect lies there rather than in the result.
    points = max((grid.count - 1) * per_step, math.floor((recording.t[-1] - grid.start) / interval)) + 1
    uniform = np.interp(grid.start + interval * np.arange(points), known_t, known)
    return low_passed(uniform, 1 / interval, cutoff)[: (grid.count - 1) * per_step + 1 : per_step]


def wrap(x: ArrayLike, period: float) -> FloatArray:
    """Shift each element of x by whole periods into [−period/2, period/2), exactly; NaN stays NaN."""
    rest = np.fmod(np.asarray(x, dtype=np.float64), period)  # exact, and so are both shifts below
    rest = np.where(rest >= period / 2, rest - period, rest)
    return np.where(rest < -period / 2, rest + period, rest)


def slack(recording: Recording, step: float) -> float:
    """Largest time difference [s] at which a sample still counts as taken at a step."""
    return slack_at(float(np.abs(recording.t[[0, -1]]).max()), step)


def slack_at(time: float, step: float) -> float:
    """Spacing of floating-point timestamps near ``time`` [s]."""
    return max(AT_STEP * step, 4 * float(np.spacing(abs(time))))  # of timestamps that count from 1970 about 1e-6 s


def finite_samples(recording: Recording, signal: str) -> tuple[FloatArray, FloatArray]:
    """Return times and values of the finite samples of a signal, which has at least one."""
    values = recording.signal(signal)
    finite = np.isfinite(values)
    return recording.t[finite], values[finite]


def spoiled_steps(cutoff: float, step: float) -> int:
    """Duration [s] at each end of a low-passed signal that the filter distorts, for a cutoff [Hz]."""
    return math.ceil(min(SPOILED / cutoff / step, MOST_STEPS))


def low_passed(values: FloatArray, rate: float, cutoff: float) -> FloatArray:
    """Zero-phase low-pass of equidistant values, (N,) or (N, m), with the gain 1/(1 + (w/w_c)^4) of a second-order
    Butterworth filter forward and back; straight lines pass unchanged at the ends. Rate and cutoff in Hz."""
    count = len(values)
    if cutoff >= rate / 2 or count < 3:
        return values
    # Without the line both ends are zero: continued as an odd function the values have a sine series, of which the
    # filter takes each term by its gain. Frequencies are those of the bilinear transform.
    line: FloatArray = np.linspace(values[0], values[-1], count)
    rest = values - line
    period = 2 * (count - 1)
    terms = np.fft.rfft(np.concatenate([rest, -rest[-2:0:-1]]), axis=0)
    angles = np.pi * np.arange(len(terms)) / period
    gain = 1 / (1 + (np.tan(angles) / math.tan(math.pi * max(cutoff / rate, 1e-30))) ** 4)
    filtered: FloatArray = np.fft.irfft(terms * gain.reshape(-1, *[1] * (values.ndim - 1)), period, axis=0)[:count]
    return line + filtered


@dataclass(frozen=True)
class Reach:
    """Neighbouring states that are used to interpolate a value between time steps."""

    steps: int  # largest offset between states that it is made of
    first: int  # offset of the state from which it is counted
    before: int  # how many states before that one it reaches to
    after: int
    """How many behind it: as many, and that one is the nearest, or one more, and it is the last one before a sample."""

    @property
    def states(self) -> int:
        """Number of states that are used in the interpolation."""
        return self.before + 1 + self.after

    @property
    def polynomial(self) -> bool:
        """True if the interpolation uses more than three states."""
        return self.states > 3

    def cells(self, x: FloatArray, count: int) -> NDArray[np.intp]:
        """Index of the state before each time x, given in steps from the first of ``count`` states; −1 outside."""
        nearest = np.rint(x) if self.before == self.after else np.floor(x)
        last = self.first + count - self.steps - 1
        k = np.clip(nearest, self.first, last).astype(np.intp)
        inside = (x - k >= -self.before) & (x - k <= self.after)
        return np.where(inside & (last >= self.first), k, -1)

    def cell(self, x: float) -> int:
        """Index of the state before one time, on a horizon without an end."""
        k = max(round(x) if self.before == self.after else math.floor(x), self.first)
        return k if -self.before <= x - k <= self.after else -1


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one channel along a grid."""

    stamps: FloatArray  # their own times, (n,) [s]
    values: FloatArray  # (n,)
    at: FloatArray  # when what they show took place, in steps from the first state, (n,)
    count: int  # steps of the grid
    start: float  # of the grid [s]
    step: float  # [s]
    weights: FloatArray | None = None  # σ over the standard deviation of each, (n,); None: all have σ

    @classmethod
    def at_steps(cls, values: FloatArray, grid: Grid) -> Samples:
        """Make samples from values at every step, (N,), which are NaN at steps without a sample."""
        k = np.flatnonzero(np.isfinite(values))
        return cls(grid.times()[k], values[k], k.astype(np.float64), grid.count, grid.start, grid.step)

    @property
    def _stepped(self) -> NDArray[np.bool_]:
        return np.asarray(self.at == np.rint(self.at))

    @property
    def share(self) -> float:
        """Fraction of the steps that have a sample."""
        return np.count_nonzero(self._stepped) / self.count

    def stepped(self) -> tuple[FloatArray, FloatArray]:
        """Samples at the steps, NaN at steps without a sample, and their weights, 0 at such steps, (N,) each."""
        values, weights, here = np.full(self.count, np.nan), np.zeros(self.count), self._stepped
        k = self.at[here].astype(np.intp)
        values[k], weights[k] = self.values[here], 1.0 if self.weights is None else self.weights[here]
        return values, weights

    def slots(self, reach: Reach, every: bool) -> int:
        """Largest number of samples in one step interval; counts only samples between steps, or ``every`` sample."""
        cells = reach.cells(self.at[every | ~self._stepped], self.count)
        return int(np.max(np.bincount(cells[cells >= 0]), initial=0))

    def placed(
        self, reach: Reach, every: bool
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Indices of samples between the steps, or of ``every`` sample, with the state, row and slot of each."""
        chosen = every | ~self._stepped
        cells = reach.cells(self.at[chosen], self.count)
        seen = np.flatnonzero(chosen)[cells >= 0]
        cells = cells[cells >= 0]
        order = np.argsort(cells, kind="stable")
        seen, cells = seen[order], cells[order]
        place = np.arange(len(cells)) - np.searchsorted(cells, cells)
        return seen, cells, (cells - reach.first, place)

    def between(self, reach: Reach, slots: int, every: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Samples between the steps, or ``every`` one, grouped by state: times in steps from the state, values, and
        weights, 0 where there is none, each (N − reach, slots)."""
        seen, cells, where = self.placed(reach, every)
        shape = (max(self.count - reach.steps, 0), slots)
        stamps, values, weights = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        stamps[where] = (self.stamps[seen] - self.start) / self.step - cells
        values[where], weights[where] = self.values[seen], 1.0 if self.weights is None else self.weights[seen]
        return stamps, values, weights

    def along(self, reach: Reach | None, every: bool, rows: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Indices of the samples between the steps, of ``every`` one, or without a reach of those at the steps; and
        their numbers among those of all rows, (count, slots)."""
        if reach is not None:
            seen, _, where = self.placed(reach, every)
            return seen, rows[where]
        k = self.at.astype(np.intp) - (self.count - len(rows)) // 2
        seen = np.flatnonzero(self._stepped & (k >= 0) & (k < len(rows)))
        return seen, rows[k[seen], 0]


ADJUSTED, WEIGHT = "{} as adjusted", "weight of {}"
"""Names of signals of a recording that stages of a fit add: what samples are taken for, and ``Samples.weights``."""


def samples(recording: Recording, signal: str, grid: Grid, delay: float = 0.0) -> Samples:
    """Select the finite samples of a signal between the first and the last state of a grid, with delays."""
    t, values = finite_samples(recording, signal)
    weights = None
    if (own := recording.signals.get(WEIGHT.format(signal))) is not None:
        finite = np.isfinite(recording.signal(signal))
        values, weights = recording.signal(ADJUSTED.format(signal))[finite], own[finite]
    at, near = (t - delay - grid.start) / grid.step, slack(recording, grid.step) / grid.step
    at = np.where(np.abs(at - np.rint(at)) <= near, np.rint(at), at)
    inside = (at >= 0) & (at <= grid.count - 1)
    known = None if weights is None else weights[inside]
    return Samples(t[inside], values[inside], at[inside], grid.count, grid.start, grid.step, known)


def told_apart(of_recordings: Sequence[Samples], share: float = 0.5) -> bool:
    """True if enough steps have a sample of a channel, so that each step can have its own equation."""
    return any(one.share >= share for one in of_recordings)
