"""A planned motion as the recording that it would leave if nothing erred."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.assembly import WIDTH_AT_REST, WIDTH_SHARE, chosen_numbers, numbers, settings_of
from spookid.assembly.declaration import Declaration
from spookid.assembly.trajectories import predict, stamped
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.data.sensors import JointPosition
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.mechanics.impacts import Impact
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.recursion import Recursion
from spookid.parameter import number, parameters_in
from spookid.studies.motor_efforts import inverse_dynamics
from spookid.studies.regression_rows import check_balanced

_AROUND = 2, 3, 4
"""Samples from a jump at which others are looked for."""
_SUDDEN, _LONE = 0.2, 8.0
"""Shares of the fastest step, and of second differences around, above which one is a jump."""
PLANNED = "planned"
"""Name of such a recording."""


def check_driven(problem: Declaration) -> None:
    """Refuse a mechanism whose joints cannot be made to move as planned.

    Raises:
        ProblemError: unless it is a tree of hinges and sliders on the ground, each driven by one motor.
    """
    check_balanced(problem, "a planned motion")
    driven = [motor.label for motor in problem.model.motors]
    for freedom in problem.model.freedoms:
        if driven.count(freedom.label) != 1:
            how = "by several motors" if freedom.label in driven else "by no motor"
            raise ProblemError(
                f"{problem.place}: Problem {problem.name!r}: {freedom.label!r} is driven {how}, and motions are "
                "planned where each coordinate has one motor; else simulate commands that you have in mind, and ask "
                "`spookid check --trajectory` what they tell"
            )
    signals = [motor.signal for motor in problem.model.motors]
    if twice := next((signal for signal in signals if signals.count(signal) > 1), None):
        raise ProblemError(f"{problem.place}: the signal {twice!r} drives two coordinates; give each motor its own")


def planned_recording(problem: Declaration, t: Array, motion: Array) -> Recording:
    """What all sensors would show along a motion, at the problem's guesses and without noise, and what motors do.

    Args:
        t: times, evenly spaced, (N,) [s].
        motion: positions, rates and accelerations (3, N, n), in the order of the model's coordinates.

    Returns:
        a recording of all signals, and ``<label>_rate`` of each coordinate, unless a sensor's is called so.

    Raises:
        ProblemError: as ``check_driven``.
    """
    check_driven(problem)
    # No recording of the problem's has a part in it.
    alone = problem.with_(recordings=[], step=float(t[1] - t[0]))
    values, model = alone.guess_on(), alone.model
    efforts = inverse_dynamics(alone, values, motion=(motion[0], motion[1], motion[2]))
    states = _states(alone, motion)
    share = WIDTH_SHARE * np.sqrt(np.mean(motion[1] ** 2, axis=0))
    widths = np.where(share > 0, share, WIDTH_AT_REST)
    fixed = alone.with_(fixed=[p.name for p in alone.parameter_set.declared])
    constants = (*numbers(fixed, settings_of(fixed), widths), *chosen_numbers(fixed, fixed.guess, 0))
    shown = stamped(alone, predict(fixed, states, constants), values)
    signals = {channel.signal: shown[:, i] for i, channel in enumerate(alone.channels)}
    for i, (freedom, rate) in enumerate(zip(model.freedoms, motion[1].T, strict=True)):
        for j, channel in enumerate(alone.channels):
            of = channel.sensor
            if isinstance(of, JointPosition) and model.freedoms_of(of.joint).start + of.coordinate == i:
                turns = shown[0, j] - number(channel.scale, values) * motion[0][0, i] - number(channel.offset, values)
                signals[channel.signal] = shown[:, j] - turns  # beyond a turn, as the motion is planned
        signals.setdefault(f"{freedom.label}_rate", rate)
    signals |= {signal: efforts.predicted[:, i] for i, signal in enumerate(efforts.signals)}
    return Recording(t=t, signals=signals, name=PLANNED)


def _states(problem: Declaration, motion: Array) -> Array:
    """(q, v) of all bodies, (N, 13 n_b)."""
    joints, n = JointCoordinates(problem.model), motion.shape[2]
    order = [problem.model.freedoms_of(joint).start for joint in joints.tree]
    parts = [ca.SX.sym(name, n) for name in "xsa"]
    bodies = Recursion(joints, *parts)
    found = ca.vertcat(bodies.q, bodies.v)
    others, values = parameters_in([found], "the bodies", ignore=parts), problem.guess_on()
    found = ca.substitute(found, ca.vertcat(ca.SX(0, 1), *others), ca.DM([values[p.name] for p in others]))
    function = ca.Function("states", parts, [ca.densify(found)])
    return np.ascontiguousarray(np.asarray(function(*(part[:, order].T for part in motion)).full()).T)


def completed(problem: Declaration, given: Recording) -> Recording:
    """A planned motion with all signals of the problem: where some are missing, what the joints' positions ask for.

    Args:
        given: a recording with all signals, or at least those of the positions of all joints.

    Raises:
        ProblemError: if neither is there, or positions jump.
    """
    _check_steady(problem, given)
    needed = dict.fromkeys([*problem.model.signals, *(channel.signal for channel in problem.channels)])
    missing = [signal for signal in needed if signal not in given.signals]
    if not missing:
        return given
    try:
        check_driven(problem)
    except ProblemError as error:
        raise ProblemError(
            f"the trajectory has no {missing[0]!r}, which does not follow from the others: {error}"
        ) from None
    from scipy.interpolate import make_interp_spline  # half a second to load

    columns, t = [], given.t
    for freedom in problem.model.freedoms:
        signal = next((s for s in _positions(problem, freedom.label) if s in given.signals), None)
        if signal is None:
            raise ProblemError(
                f"the trajectory has no {missing[0]!r}, nor a position of {freedom.label!r} that it would follow from; "
                f"it has {', '.join(given.signals)}"
            )
        samples = finite_samples(given, signal)
        if len(samples[0]) < 6:
            raise ProblemError(f"the trajectory has {len(samples[0])} samples of {signal!r}; give 6 at least")
        columns.append(make_interp_spline(*samples, k=5))
    even = np.linspace(t[0], t[-1], len(t))
    motion = np.stack([np.column_stack([spline(even, nu) for spline in columns]) for nu in range(3)])
    return planned_recording(problem, even, motion)


def _check_steady(problem: Declaration, given: Recording) -> None:
    """Refuse jumps of positions or rates, which would take an effort without end.

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
                    f"the trajectory makes {freedom.label!r} jump at {t[k]:.6g} s: {signal!r} changes by "
                    f"{moved[k - 1]:.3g} {unit} to there and by {moved[k]:.3g} {unit} from there to the next sample, "
                    "which no motor can follow; make it smooth"
                )


def _positions(problem: Declaration, label: str) -> list[str]:
    """Signals that show a coordinate as it is."""
    found = []
    for channel in problem.channels:
        of, values = channel.sensor, problem.guess_on()
        if isinstance(of, JointPosition) and of.joint.labels[of.coordinate] == label:
            plain = (
                number(channel.scale, values) == 1
                and number(channel.offset, values) == number(channel.delay, values) == 0
            )
            found += [channel.signal] if plain else []
    return [*found, label]
