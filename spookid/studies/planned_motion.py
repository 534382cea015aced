"""A planned motion as the recording that it would leave if nothing erred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.assembly.assembly import settings_of
from spookid.assembly.constants import chosen_numbers, numbers, widths_along
from spookid.assembly.initialization import WIDTH_AT_REST
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import predict, stamped
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.data.sensors import JointPosition
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.contacts import HeldContact, Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.parameter import number
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.planned_coordinates import PlannedCoordinates, home_pose
from spookid.studies.simulation_start import Initial

_AROUND = 2, 3, 4
"""Samples from a jump at which others are looked for."""
_SUDDEN, _LONE = 0.2, 8.0
"""Shares of the fastest step, and of second differences around, above which one is a jump."""
PLANNED = "planned"
"""Name of such a recording."""


def planned_recording(problem: Problem, t: Array, motion: Array, initial: Initial = None) -> Recording:
    """Compute noise-free signals of all sensors and motors for a motion, at the problem's initial values.

    Args:
        t: times, evenly spaced, (N,) [s].
        motion: of the planned coordinates, of trees on the ground those of all joints in the model's order: positions,
            rates and accelerations, (3, N, m).
        initial: the home pose of mechanisms with loops, contacts or free bodies, as of ``excite``.

    Returns:
        a recording of all signals, and ``<label>_rate`` of each joint's coordinate, unless a sensor's is called so.

    Raises:
        ProblemError: as ``PlannedCoordinates`` and ``PlannedEfforts``, and where nothing moves so.
    """
    initial, alone = home_pose(problem, initial), problem.with_(recordings=[], step=float(t[1] - t[0]))
    n = len(problem.model.freedoms)
    coordinates = PlannedCoordinates(alone, np.zeros(n), initial)
    efforts = PlannedEfforts(coordinates, np.ones(len(disturbance_names(problem.model))), np.full(n, WIDTH_AT_REST))
    return recorded(efforts, t, motion)


def recorded(efforts: PlannedEfforts, t: Array, motion: Array) -> Recording:
    """As ``planned_recording``.

    Raises:
        ProblemError: where no pose holds together.
    """
    alone = efforts.problem.with_(recordings=[], step=float(t[1] - t[0]))
    values, model = alone.guess_on(), alone.model
    rates = efforts.told(motion).joints[1]
    if not np.all(np.isfinite(rates)):
        raise ProblemError(
            f"{alone.what} cannot take the poses of this motion; give the problem that the motion was designed for"
        )
    widths = widths_along(alone, rates)
    told = efforts.told(motion, widths)
    fixed = alone.with_(fixed=[p.name for p in alone.parameter_set.declared])
    constants = (*numbers(fixed, settings_of(fixed), widths), *chosen_numbers(fixed, fixed.guess, 0))
    shown = stamped(alone, predict(fixed, contiguous(told.states), constants, told.accelerations), values)
    signals = {channel.signal: shown[:, i] for i, channel in enumerate(alone.channels)}
    for i, (freedom, position, rate) in enumerate(zip(model.freedoms, told.joints[0].T, rates.T, strict=True)):
        for j, channel in enumerate(alone.channels):
            of = channel.sensor
            if isinstance(of, JointPosition) and model.freedoms_of(of.joint).start + of.coordinate == i:
                turns = shown[0, j] - number(channel.scale, values) * position[0] - number(channel.offset, values)
                signals[channel.signal] = shown[:, j] - turns  # beyond a turn, as the motion is planned
        signals.setdefault(f"{freedom.label}_rate", rate)
    signals |= {motor.signal: told.signals[:, i] for i, motor in enumerate(model.motors)}
    return Recording(t=t, signals=_standing(efforts.coordinates.held, t) | signals, name=PLANNED)


def _standing(contacts: Sequence[Touch], t: Array) -> dict[str, Array]:
    """Signals by which contacts hold.

    Raises:
        ProblemError: for a contact that lets go meanwhile.
    """
    found: dict[str, Array] = {}
    for contact in contacts:
        assert isinstance(contact, HeldContact)
        told = contact.schedule(PLANNED)
        if isinstance(told, str):
            found[told] = np.maximum(found.get(told, 0.0), np.full(len(t), contact.threshold))
        elif told is not True and not any(first <= t[0] and t[-1] <= last for first, last in told):
            raise ProblemError(
                f"{contact.what} lets go at times of the motion that is planned; say that it holds in the recording "
                f"{PLANNED!r}, holds={{{PLANNED!r}: True}}"
            )
    return found


def completed(problem: Problem, given: Recording) -> Recording:
    """Complete a planned motion: compute missing signals of the problem from the joint positions.

    Args:
        given: a recording with all signals, or at least those of the positions of all joints, of a loop those of the
            joints that are planned.

    Raises:
        ProblemError: if neither is there, or positions jump.
    """
    _check_steady(problem, given)
    needed = dict.fromkeys([*problem.model.signals, *(channel.signal for channel in problem.channels)])
    missing = [signal for signal in needed if signal not in given.signals]
    if not missing:
        return given
    try:
        coordinates = PlannedCoordinates(problem, np.zeros(len(problem.model.freedoms)), home_pose(problem, None))
        if any(place >= len(problem.model.freedoms) for place in coordinates.places):
            raise ProblemError(
                f"{problem.place}: it has free bodies, whose position no joint determines; join them to the ground"
            )
    except ProblemError as error:
        raise ProblemError(
            f"the trajectory has no signal {missing[0]!r}, and other signals do not determine it: {error}"
        ) from None
    from scipy.interpolate import make_interp_spline  # half a second to load

    columns, t = [], given.t
    for freedom in (problem.model.freedoms[place] for place in coordinates.places):
        signal = next((s for s in _positions(problem, freedom.label) if s in given.signals), None)
        if signal is None:
            raise ProblemError(
                f"the trajectory has neither signal {missing[0]!r} nor the position of joint {freedom.label!r}, which "
                f"determines this signal; it has {', '.join(given.signals)}"
            )
        samples = finite_samples(given, signal)
        if len(samples[0]) < 6:
            raise ProblemError(f"the trajectory has {len(samples[0])} samples of {signal!r}; give at least 6")
        columns.append(make_interp_spline(*samples, k=5))
    even = np.linspace(t[0], t[-1], len(t))
    motion = np.stack([np.column_stack([spline(even, nu) for spline in columns]) for nu in range(3)])
    return planned_recording(problem, even, motion)


def _check_steady(problem: Problem, given: Recording) -> None:
    """Refuse jumps of positions or velocities, which would take an effort without end.

    At a jump of either, second differences are far larger than all around, and as large as rates.
    """
    if any(isinstance(contact, Impact) for contact in problem.model.holding.contacts):
        return
    for freedom in problem.model.freedoms:
        for signal in [one for one in _positions(problem, freedom.label) if one in given.signals][:1]:
            t, x = finite_samples(given, signal)
            period = freedom.coordinate.period
            moved = np.diff(x if period is None else np.unwrap(x, period=period))
            bend, largest = np.abs(np.diff(moved)), float(np.max(np.abs(moved), initial=0.0))
            around = np.pad(bend, _AROUND[-1])
            others = np.max([np.roll(around, o * side) for o in _AROUND for side in (1, -1)], axis=0)
            others = others[_AROUND[-1] : len(bend) + _AROUND[-1]]
            jumps = np.flatnonzero((bend > _SUDDEN * largest) & (bend > _LONE * others))
            if len(jumps):
                k, unit = int(jumps[0]) + 1, freedom.coordinate.unit
                raise ProblemError(
                    f"the trajectory of joint {freedom.label!r} jumps at {t[k]:.6g} s: signal {signal!r} changes by "
                    f"{moved[k - 1]:.3g} {unit} before this sample and by {moved[k]:.3g} {unit} after it, which no "
                    "motor can follow; make the trajectory smooth"
                )


def _positions(problem: Problem, label: str) -> list[str]:
    """Signals that show a coordinate as it is."""
    found, values = [], problem.guess_on()
    for channel in problem.channels:
        of, parts = channel.sensor, (channel.scale, channel.offset, channel.delay)
        if isinstance(of, JointPosition) and of.joint.labels[of.coordinate] == label:
            found += [channel.signal] if [number(part, values) for part in parts] == [1, 0, 0] else []
    return [*found, label]
