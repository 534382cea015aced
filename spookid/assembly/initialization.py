"""Recordings made ready: samples far off bridged for the initial guess, quaternions brought to one sign.

Coordinates of joints that no sensor of positions shows, from those of rates and accelerations, for an initial guess.

Rates come first and accelerations after, for these are far from linear in the coordinates (``kinematic_fit``). Where
rates alone are known the place of a hinge in its turn is that at which gravity explains best how it speeds up.

Initial states from what sensors of positions show (Marklund et al., section 4.4).

They are low-pass filtered, bodies are placed on the constraint surface joint by joint, and velocities are differences
of the poses (4.3). What no sensor of positions shows follows from others (``dead_reckoning``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.assembly.schedules import Strikes
from spookid.assembly.tracking import BETTER, TURNS, KinematicFit, Motion, Tracking, derivatives, state_at
from spookid.data.channels import Channel, all_predicted, order
from spookid.data.inputs import Acting
from spookid.data.losses import StudentT, robust
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, Samples, smoothed
from spookid.data.sensors import JointPosition
from spookid.data.state import State
from spookid.kernels.arrays import Array
from spookid.kernels.precision import AT_STEP
from spookid.mechanics.constraints import LinearConstraint
from spookid.mechanics.hidden import Lagging
from spookid.mechanics.holding import Freedom
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Values, displacements, evaluated, place, rest_positions, unwrapped, velocities
from spookid.mechanics.manifold import QUATERNION
from spookid.mechanics.model import Mechanics, Model
from spookid.mechanics.servo import Servo
from spookid.parameter import parameters_in, substitute
from spookid.records import dataclass
from spookid.results.findings import Finding


def prepared(recording: Recording, channels: Sequence[Channel]) -> Recording:
    """Recording without the outliers that a robust loss removes, and with continuous signs of quaternions."""
    signals = {
        c.signal: medians(recording.signal(c.signal), c.period)
        for c in channels
        if robust(c.loss) or isinstance(c.loss, StudentT)
    }
    recording = recording.with_signals(**signals) if signals else recording
    for sensor in dict.fromkeys(c.sensor for c in channels if c.sensor.either_sign):
        recording = recording.with_signals(**_continuous(recording, sensor.signals))
    return recording


def medians(values: Array, period: float | None) -> Array:
    """Running medians over five finite samples, (N,)."""
    result, finite = values.copy(), np.isfinite(values)
    known = values[finite] if period is None else np.unwrap(values[finite], period=period)
    if len(known):  # ends are mirrored: repeated, three of five would be the first
        windows = sliding_window_view(np.pad(known, 2, mode="reflect"), 5)
        result[finite] = np.partition(windows, 2, axis=1)[:, 2]
    return result


def _continuous(recording: Recording, signals: Sequence[str]) -> dict[str, Array]:
    """Signals whose sign together may be either, with that which is nearer to the sample before."""
    values = np.column_stack([recording.signal(signal) for signal in signals])
    whole = np.isfinite(values).all(axis=1)
    values[whole] = QUATERNION.continuous(values[whole])
    return dict(zip(signals, values.T, strict=True))


def oriented(
    model: Model, channels: Sequence[Channel], recording: Recording, grid: Grid, states: Array, values: Values
) -> Recording:
    """Recording in which signals with a common unknown sign have the sign nearer to the motion.

    Args:
        states: x = (q, v) at each step, (N, 13 n_b).
    """
    nearest = np.clip(np.rint((recording.t - grid.start) / grid.step), 0, grid.count - 1).astype(np.intp)
    for sensor in dict.fromkeys(c.sensor for c in channels if c.sensor.either_sign):
        q = ca.SX.sym("q", model.configuration.ambient)
        state = State(model, q, ca.SX(model.configuration.tangent, 1))
        shown = ca.vertcat(*(c.predicted(state) for c in channels if c.sensor is sensor))
        predicted = evaluated(shown, q, states[:, : q.numel()], values)[nearest]
        measured = np.column_stack([recording.signal(signal) for signal in sensor.signals])
        measured = QUATERNION.like(measured, predicted)
        recording = recording.with_signals(**dict(zip(sensor.signals, measured.T, strict=True)))
    return recording


WIDTH_AT_REST = 0.01
"""Default friction width where no motion is known [rad/s or m/s]."""


def reckoned(
    model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
) -> tuple[Array, list[int]]:
    """Coordinates of all joints, (N, n_s), and the indices of coordinates that no sensor determines.

    Args:
        channels: all that there are.
        measured: what they have shown at the steps, smooth and without gaps, (N, n_o).
        values: of every parameter.
    """
    orders, found, seen = [order(channel, model) for channel in channels], None, set[int]()
    for most in (1, 2):
        if most not in orders:
            continue
        chosen = [i for i, n in enumerate(orders) if 0 < n <= most]
        fit = KinematicFit(model, [channels[i] for i in chosen], measured[:, chosen], motion, values)
        if fit.seen:
            found = fit.solved(found)
            seen |= fit.seen
    moved = motion.moved.copy()
    if found is not None:
        moved[:, list(motion.hidden)] = found
    told = [number for i, number in enumerate(motion.hidden) if i in seen]
    if told and 2 not in orders:
        moved = _hung(model, moved, told, values, motion.step)
    return moved, [number for number in motion.hidden if number not in told]


def _hung(model: Model, moved: Array, told: Sequence[int], values: Values, step: float) -> Array:
    """Coordinates (N, n_s) with hinges whose rate alone is known at the angle in their turn, of some, at which gravity
    and springs explain plainly best how they speed up; those of motors stay where they are."""
    driven = {model.freedoms_of(motor.joint).start + motor.coordinate for motor in model.motors}
    left = lacking(model, values)

    def turned(number: int, turn: float) -> Array:
        result = moved.copy()
        result[:, number] += turn
        return result

    def cost(number: int, coordinates: Array) -> float:
        rows = left(*(part.T for part in derivatives(coordinates, step))).full()
        return float(np.sum(rows[number] ** 2))

    for number in told:
        period = model.freedoms[number].coordinate.period
        if period is not None and number not in driven:
            tried = [turned(number, period * i / TURNS) for i in range(TURNS)]
            costs = [cost(number, coordinates) for coordinates in tried]
            if min(costs) < BETTER * costs[0]:
                moved = tried[int(np.argmin(costs))]
    return moved


def lacking(model: Model, values: Values) -> ca.Function:
    """Effort that the motion requires along each coordinate besides gravity and loads, without inputs and dry friction,
    from coordinates and derivatives, (n_s,) each."""
    symbols = [ca.SX.sym(name, len(model.freedoms)) for name in ("d", "rate", "acceleration")]
    state, joints = state_at(model, *symbols), JointCoordinates(model)
    mass, none = model.inertia(), ca.SX(len(model.inputs), 1)
    force = model.weight() + Mechanics.gyroscopic_of(mass, state.v) + model.pushed(state.q, state.v, none)
    net = joints.transmitted(state.q, ca.densify(mass @ state.a - force)).along
    rows = [ca.SX(0)] * len(model.freedoms)
    for i, number in enumerate(joints.places[: len(rows)]):
        freedom = model.freedoms[number]
        inputs = {signal: ca.SX(0) for signal in model.signals_of(freedom.joint)}
        width = ca.SX([WIDTH_AT_REST] * len(freedom.joint.coordinates))
        effort = model.effort(freedom.joint, state.angle(freedom.joint), state.rate(freedom.joint), inputs, width)
        rows[number] = net[i] - effort[freedom.index]
    parameters = parameters_in(rows, "the model", ignore=symbols)
    numbers = [ca.SX(values[p.name]) for p in parameters]
    return ca.Function("lacking", symbols, ca.substitute([ca.vertcat(*rows)], list(parameters), numbers))


def seen_by(model: Model, channels: Sequence[Channel]) -> set[int]:
    """Indices of tree coordinates that position channels measure."""
    d = ca.SX.sym("d", len(model.freedoms))
    state = state_at(model, d, ca.SX(d.numel(), 1), ca.SX(d.numel(), 1))
    shown = all_predicted(channels, state)
    slope = ca.jacobian(shown, d)
    return {j for j in range(d.numel()) if slope[:, j].nnz()}


@dataclass(frozen=True, eq=False)
class Guess:
    """Initial states at every step of a grid."""

    states: Array
    """x = (q, v) at each step, (N, 13 n_b)."""
    displacements: Array
    """Coordinates of all joints, continuous in time, (N, n_s) [rad or m]."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class SampledRecording:
    """One recording with its samples at the time steps."""

    recording: Recording
    grid: Grid
    guess: Guess
    observed: Array
    """At the steps, between the samples next to them where there is none, (N, n_o), NaN where missing."""
    samples: tuple[Samples, ...]
    """Of each channel, at their own times."""
    acting: Acting
    """Inputs."""
    slopes: Acting
    """How inputs change with their delays."""
    held: Array
    """1 for each contact that holds from a step to the next, 0 for others, (N − 1, n_c)."""
    strikes: Strikes
    """Impacts."""


def guess(
    model: Model, observations: Sequence[Channel], recording: Recording, grid: Grid, values: Values, cutoff: float
) -> Guess:
    """Initial states that agree with filtered observations and satisfy all constraints.

    Coordinates of a tree of joints place its bodies directly. Closed loops and other sensors are followed along
    the recording (``tracking``). Coordinates of a tree that no position determines follow from sensors of
    rates and accelerations (``dead_reckoning``), or stay at rest.

    Args:
        values: number of every parameter.
        cutoff: of the second-order Butterworth filter, forward and back [Hz].
    """
    recording = prepared(recording, observations)
    each = [smoothed(recording, s.signal, grid, period=s.period, cutoff=cutoff) for s in observations]
    shown = np.array(each).reshape(-1, grid.count).T
    placed = [i for i, s in enumerate(observations) if order(s, model) == 0]
    sensors, targets = followed(model, [observations[i] for i in placed], shown[:, placed], values)
    moved = np.tile(rest_positions(model, values), (grid.count, 1))
    seen = _coordinates(model, sensors, targets, values)
    for i, target in seen.items():
        moved[:, i] = target
    sensors, targets = geared(model, sensors, targets, values)
    hidden = [i for i in range(len(model.freedoms)) if i not in seen]
    if model.has_loops or len(seen) < len(sensors):
        tracking = Tracking(model, sensors, values)
        start = tracking.at(moved[:1])
        if model.ties:  # where bodies stand before any sensor is asked, a user's rows may have no value
            start = Tracking(model, sensors, values, tied=False).settled(start, targets[:1])
        poses = tracking.poses(tracking.along(start[0], targets))
        moved = unwrapped(model, displacements(model, poses, values))
        told = model.has_loops or any(body.free for body in model.bodies)
        untold = [] if told else [i for i in hidden if i not in seen_by(model, sensors)]
    else:
        poses, untold = place(model, moved, values), list(hidden)
    if untold and len(placed) < len(observations):
        moved, untold = reckoned(model, observations, shown, Motion(moved, untold, grid.step), values)
        poses = place(model, moved, values)
    if any(one.sensor.either_sign for one in observations):
        poses = _signed(model, poses, moved, values)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), moved, _findings(model, hidden, untold))


def with_states(model: Model, guess: Guess, acting: Acting, values: Values, step: float) -> Guess:
    """Initial states whose integrals of servos and filters of sensors follow from the motion and the commands. Without
    its integral, a gain is not identifiable at the initial values."""
    states, moved, count = guess.states.copy(), guess.displacements.copy(), len(model.bodies)
    servos = [(one.integrator, one) for one in model.servos if one.integrator]
    along = [(hidden, _integral(model, one, moved, acting, values, step)) for hidden, one in servos]
    for hidden, rates in [*along, *((one, _filtered(model, one, moved, values, step)) for one in model.filters)]:
        turned = step * np.append(0.0, np.cumsum(rates))
        moved[:, model.freedoms_of(hidden.joint).start] = turned
        alone, i = Model([hidden.body], [hidden.joint], gravity=model.gravity), model.bodies.index(hidden.body)
        poses = place(alone, turned[:, None], values)
        states[:, 7 * i : 7 * (i + 1)] = poses
        states[:, 7 * count + 6 * i :][:, :6] = velocities(poses, step)
    return replace(guess, states=states, displacements=moved)


def _integral(model: Model, servo: Servo, moved: Array, acting: Acting, values: Values, step: float) -> Array:
    """Integral of a servo after each step, (N − 1,)."""
    z, q, s, u = (ca.SX.sym(name, n) for name, n in (("z", 1), ("q", 1), ("s", 1), ("u", len(servo.signals))))
    ahead = servo.next_integral(z, q, s, u, step)
    parameters = list(parameters_in([ahead], "the model", ignore=[z, q, s, u]))
    ahead = ca.substitute(ahead, ca.vertcat(*parameters), ca.SX([values[p.name] for p in parameters]))
    own = moved[:, model.freedoms_of(servo.joint).start + servo.coordinate]
    commands = acting.mean[:, [model.signals.index(signal) for signal in servo.signals]]
    run = ca.Function("integral", [z, q, s, u], [ahead]).mapaccum(len(commands))
    return np.asarray(run(0.0, own[None, :-1], np.diff(own)[None] / step, commands.T).full()[0])


def _filtered(model: Model, one: Lagging, moved: Array, values: Values, step: float) -> Array:
    """Mean over each step of what a filter has reached, which begins at rest, (N − 1,)."""
    joint, coordinate, of_rate = one.followed
    own = moved[:, model.freedoms_of(joint).start + coordinate]
    true = np.gradient(own, step) if of_rate else own
    begin, fade = true[0], math.exp(-step / max(substitute(one.lag, values).item(), AT_STEP * step))
    reached = [begin, *(begin := fade * begin + (1 - fade) * x for x in ((true[1:] + true[:-1]) / 2).tolist())]
    return np.convolve(reached, [0.5, 0.5], "valid")


def _signed(model: Model, poses: Array, moved: Array, values: Values) -> Array:
    """Poses with quaternions of the sign that continuous coordinates of the joints give them, which that of measured
    ones is to follow."""
    joints = JointCoordinates(model)
    x = ca.SX.sym("x", joints.manifold.ambient)
    return model.configuration.like(poses, evaluated(joints.configuration(x), x, joints.along(poses, moved), values))


def _coordinates(model: Model, sensors: Sequence[Channel], targets: Array, values: Values) -> dict[int, Array]:
    """Coordinates that have sensors of their own, by number, (N,) each."""
    own = _by_coordinate(sensors, targets, values)
    return {model.freedoms_of(joint).start + number: true for (joint, number), true in own.items()}


def _true(channel: Channel, shown: Array, values: Values) -> Array:
    """What is true of a channel that has shown something, (N,)."""
    offset, scale = substitute(ca.vertcat(channel.offset, channel.scale), values)
    return np.asarray((shown - offset) / scale)


def _findings(model: Model, hidden: Sequence[int], untold: Sequence[int]) -> tuple[Finding, ...]:
    """Of coordinates without a sensor of their own, and among them those that no sensor tells."""
    found = []
    for i in hidden:
        freedom = model.freedoms[i]
        named, what = f"{freedom.joint.kind} {freedom.label!r}", _what(freedom)
        code, effect = "start.inferred", f"{named} has no {what} sensor; its start follows from the others."
        if i in untold:
            code, effect = "start.unobserved", f"{named} is not observed; it starts from its rest {what}."
        found.append(Finding(code, (freedom.label,), effect=effect))
    return tuple(found)


def geared(model: Model, sensors: list[Channel], targets: Array, values: Values) -> tuple[list[Channel], Array]:
    """Return the observations, and angles that follow from others by gears and couplings."""
    seen = _by_coordinate(sensors, targets, values)
    for tie in (tie for tie in model.ties if isinstance(tie, LinearConstraint) and not tie.told_by_poses):
        unseen = [term for term in tie.terms if (term.joint, term.coordinate) not in seen]
        if len(unseen) == 1:
            offset, *ratios = substitute(ca.vertcat(tie.offset, *(term.ratio for term in tie.terms)), values)
            parts = {(t.joint, t.coordinate): ratio for t, ratio in zip(tie.terms, ratios, strict=True)}
            other, own = unseen[0][:2], parts.pop(unseen[0][:2])
            seen[other] = (offset - sum(ratio * seen[place] for place, ratio in parts.items())) / own
            sensors = [*sensors, *JointPosition(other[0], tie.name, coordinate=other[1]).channels(model)]
            targets = np.column_stack([targets, seen[other]])
    return sensors, targets


def followed(model: Model, sensors: list[Channel], targets: Array, values: Values) -> tuple[list[Channel], Array]:
    """Return the observations, and those of joints or motors on the other side of an elastic gear without any."""
    seen = _by_coordinate(sensors, targets, values)
    for joint in (joint for joint in model.joints if joint.motor is not joint):
        for one, other in ((joint, joint.motor), (joint.motor, joint)):
            if (one, 0) in seen and (other, 0) not in seen:
                sensors = [*sensors, *JointPosition(other, other.name).channels(model)]
                targets = np.column_stack([targets, seen[one, 0]])
    return sensors, targets


def _by_coordinate(sensors: Sequence[Channel], targets: Array, values: Values) -> dict[tuple[Joint, int], Array]:
    """True values of coordinates that have sensors of their own, by joint and number, (N,) each."""
    pairs = zip(sensors, targets.T, strict=True)
    own = ((channel.sensor, _true(channel, target, values)) for channel, target in pairs)
    return {(sensor.joint, sensor.coordinate): true for sensor, true in own if isinstance(sensor, JointPosition)}


def _what(freedom: Freedom) -> str:
    return "angle" if freedom.coordinate.unit == "rad" else "position"
