"""Rows of the regressions that robots are mostly identified by: balances along recordings, filtered.

Positions, on a uniform grid, are low-passed and differentiated; efforts, and all that they are made of, pass the same
filter and are kept at the interval at which its output is nearly uncorrelated (Gautier, ICRA 1997). Balances of
energy hold over such an interval each: kinetic energies at its ends, and the power of all else integrated over it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import casadi as ca
import numpy as np

from spookid.assembly.constants import widths_along
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, grid, low_passed, smoothed, spoiled_steps
from spookid.data.sensors import JointPosition
from spookid.errors import ProblemError
from spookid.estimation.grouping import unknown
from spookid.estimation.motions import Motion, linear_rows
from spookid.kernels.arrays import Array
from spookid.mechanics.kinematics import Values
from spookid.mechanics.regressor import Balance, Regressor
from spookid.parameter import Parameter, number
from spookid.studies.motor_efforts import sampled_every

FilterName: TypeAlias = Literal["butterworth", "savgol"]

_KEPT = 0.5
"""Of a period of the cutoff, the interval between the rows that count."""
_ORDER = 4
"""Of the polynomials of Savitzky and Golay; an even one is the fitting one for second derivatives."""


class Rows(NamedTuple):
    """Regression equations along one recording, at N instants or intervals."""

    left: Array
    """What is left of it where all unknowns are zero, or at their values, (N, m)."""
    slopes: Array
    """With the unknowns, (N, m, n)."""


@dataclass(frozen=True)
class Filter:
    """Zero-phase low-pass filter that also computes derivatives."""

    name: FilterName
    cutoff: float
    """Where amplitudes are 1/2, of Savitzky and Golay 1/√2 [Hz]."""
    interval: float
    """Between samples [s]."""

    def derivatives(self, values: Array) -> list[Array]:
        """Smoothed values, first and second derivatives of signals in columns (N, n)."""
        if self.name == "savgol":
            return [self._savgol(values, i) for i in range(3)]
        smooth = self.smooth(values)
        rates = np.gradient(smooth, self.interval, axis=0)
        return [smooth, rates, np.gradient(rates, self.interval, axis=0)]

    def smooth(self, values: Array) -> Array:
        """Columns (N, ...), low-passed."""
        if self.name == "savgol":
            return self._savgol(values, 0)
        flat = values.reshape(len(values), -1)
        return low_passed(flat, 1 / self.interval, self.cutoff).reshape(values.shape)

    @property
    def window(self) -> int:
        """Window length of the Savitzky–Golay filter (Schafer, IEEE Signal Processing Magazine 28, 2011, eq. 12)."""
        share = 2 * self.cutoff * self.interval
        return max(2 * round(((_ORDER + 1) / share + 4.6) / 3.2) + 1, _ORDER + 1)

    def _savgol(self, values: Array, derivative: int) -> Array:
        from scipy.signal import savgol_filter  # half a second to load

        found = savgol_filter(values, self.window, _ORDER, derivative, self.interval, axis=0)
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class _Run:
    """A recording, filtered."""

    filter: Filter
    motion: Motion
    inputs: Array
    """(N, n_u), unfiltered."""
    widths: Array
    """Of smooth friction, (n,) [rad/s or m/s]."""
    values: Values
    """Numbers of parameters."""


class Balances:
    """Equations of motion or energy balance of a problem, along all of its recordings.

    Args:
        cutoff: of the filter [Hz].

    Raises:
        ProblemError: as ``spookid.studies.regress``.
    """

    def __init__(self, problem: Problem, balance: Balance, name: FilterName, cutoff: float) -> None:
        check_balanced(problem, "a regression")
        if not problem.recordings:
            what = f"{problem.what} has no recordings"
            raise ProblemError(f"{what}; give those that a regression is to explain")
        self.problem, self.balance, self.name, self.cutoff = problem, balance, name, cutoff
        self.regressor = Regressor(problem.model, unknown(problem))
        self._runs = [self._filtered(recording) for recording in problem.recordings]

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the rows."""
        return ("energy",) if self.balance == "energy" else tuple(self.regressor.joints.names)

    def linear(self, every: bool = False) -> list[Rows]:
        """Equations of each recording as linear functions of the regressor's quantities.

        Args:
            every: True for rows at every sample; else at those that are nearly uncorrelated.
        """
        found = []
        for run in self._runs:
            given = run.motion, run.widths, run.values, run.inputs
            slopes, left = linear_rows(self.regressor, *given, self.balance)
            found.append(self._kept(Rows(left, slopes), run, every))
        return found

    def in_parameters(self, free: Array, every: bool = False) -> list[Rows]:
        """Equations at given values of the free Parameters, (n,), and their derivatives; see ``linear``."""
        function, others = self._function
        found = []
        for run in self._runs:
            known = [run.values[p.name] for p in others]
            given = (*(part.T for part in run.motion), run.widths, run.inputs.T, free, known)
            left, flat = (np.asarray(part.full()).T for part in function(*given))
            slopes = flat.reshape(len(left), len(free), left.shape[1]).transpose(0, 2, 1)
            found.append(self._kept(Rows(left, slopes), run, every))
        return found

    @cached_property
    def _function(self) -> tuple[ca.Function, Sequence[Parameter]]:
        return self.regressor.in_parameters(self.balance)

    def _kept(self, rows: Rows, run: _Run, every: bool) -> Rows:
        """Filtered, or integrated, without what the ends spoil."""
        interval = run.filter.interval
        ends = spoiled_steps(self.cutoff, interval)
        apart = max(round(_KEPT / self.cutoff / interval), 1)
        if self.balance == "forces":
            kept = slice(ends, -ends, 1 if every else apart)
            return Rows(*(run.filter.smooth(part)[kept] for part in rows))
        return Rows(*(_balanced(part[ends:-ends], apart, interval) for part in rows))

    def _filtered(self, recording: Recording) -> _Run:
        problem, model = self.problem, self.problem.model
        values, channels = problem.guess_on(recording.name), _encoders(problem)
        steps = grid(recording, sampled_every(recording, channels))
        low_pass = Filter(self.name, self.cutoff, steps.step)
        kept = steps.count - 2 - 2 * spoiled_steps(self.cutoff, steps.step)
        if kept * steps.step * self.cutoff < 2 or 2 * self.cutoff * steps.step >= 1:
            raise ProblemError(
                f"recording {recording.name!r} lasts {steps.step * (steps.count - 1):.3g} s with samples of "
                f"{1000 * steps.step:.3g} ms, unsuitable for a filter with a cutoff of {self.cutoff:g} Hz; "
                "choose another cutoff"
            )
        moved = np.column_stack([_shown(recording, channel, steps, values) for channel in channels])
        count = np.arange(len(model.freedoms))
        order = np.concatenate([count[model.freedoms_of(joint)] for joint in self.regressor.joints.tree])
        motion = Motion(*(part[1:-1, order] for part in low_pass.derivatives(moved)))
        mean = acting(recording, model.inputs, steps, values)[0].mean
        rates = np.empty_like(motion.s)
        rates[:, order] = motion.s
        return _Run(low_pass, motion, (mean[:-1] + mean[1:]) / 2, widths_along(problem, rates), values)


def _balanced(part: Array, apart: int, interval: float) -> Array:
    """dT/dt + P, rows 0 and 1 of (N, 2, ...), integrated over so many samples each, (N', 1, ...)."""
    energy, power = part[:, 0], part[:, 1]
    summed = np.concatenate([0 * power[:1], np.cumsum((power[1:] + power[:-1]) / 2 * interval, axis=0)])
    return np.asarray(np.diff((energy + summed)[::apart], axis=0)[:, None])


def _shown(recording: Recording, channel: Channel, steps: Grid, values: Values) -> Array:
    """A coordinate at the steps, unfiltered and without gaps, (N,)."""
    offset, scale, delay = (number(one, values) for one in (channel.offset, channel.scale, channel.delay))
    late = Grid(steps.start + delay, steps.step, steps.count)
    shown = smoothed(recording, channel.signal, late, period=channel.period, cutoff=math.inf)
    return np.asarray((shown - offset) / scale)


def _encoders(problem: Problem) -> list[Channel]:
    """One for each coordinate of the model."""
    model, found = problem.model, dict[int, Channel]()
    for channel in problem.channels:
        if isinstance(channel.sensor, JointPosition):
            found[model.freedoms_of(channel.sensor.joint).start + channel.sensor.coordinate] = channel
    missing = [freedom.label for i, freedom in enumerate(model.freedoms) if i not in found]
    if missing:
        raise ProblemError(
            f"{problem.what} has no JointPosition of {missing[0]!r}, and a regression needs "
            "those of all coordinates; solve the problem instead"
        )
    return [found[i] for i in range(len(model.freedoms))]


def check_balanced(problem: Problem, study: str) -> None:
    """Raise ProblemError for a problem whose forces do not follow from the motion of its joints.

    Args:
        study: what it is for, with its article.

    Raises:
        ProblemError: as ``spookid.studies.regress``.
    """
    model, what = problem.model, problem.what
    held = model.ties or model.holding.contacts
    if model.has_loops or held or model.is_unilateral or any(body.free for body in model.bodies):
        raise ProblemError(
            f"{what} closes loops, or has free bodies, constraints, limits or contacts, whose forces are not measured; "
            f"{study} is for trees of joints on the ground"
        )
    check_shown(problem, study)


def check_shown(problem: Problem, study: str) -> None:
    """Raise ProblemError for a problem with forces that do not affect its joint motion.

    Raises:
        ProblemError: for joints that turn in space, friction that depends on loads, parameters of single recordings.
    """
    what = problem.what
    if any(joint.manifold.ambient != len(joint.coordinates) for joint in problem.model.joints):
        raise ProblemError(f"{what} has joints whose positions are no numbers; {study} is for hinges and sliders")
    if loaded := [joint.name for joint in problem.model.joints if joint.follows_load]:
        raise ProblemError(
            f"{what}: friction of {loaded[0]!r} depends on its load, which no motion shows; make it coulomb"
        )
    if own := [p.name for p in problem.parameter_set.own if p.name not in problem.fixed]:
        raise ProblemError(f"{what} has another {own[0]!r} in each recording; {study} has one, so fix it")
