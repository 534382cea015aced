"""Initial states from what sensors of positions show (Marklund et al., section 4.4), and from others where none does.

They are low-pass filtered, bodies are placed on the constraint surface joint by joint, and velocities are differences
of the poses (4.3).

Coordinates of joints that no sensor of positions shows, from those of rates and accelerations, for an initial guess.

Rates come first and accelerations after, for these are far from linear in the coordinates (``kinematic_fit``). Where
rates alone are known the place of a hinge in its turn is that at which gravity explains best how it speeds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.assembly.kinematic_fit import BETTER, KinematicFit, Motion, derivatives, state_at
from spookid.assembly.preparing import prepared
from spookid.data.channels import Channel, apart, order, signed
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, smoothed
from spookid.data.sensors import JointPosition
from spookid.data.state import State
from spookid.kernels.kernel import Array
from spookid.mechanics.constraints import LinearConstraint
from spookid.mechanics.freedom import Freedom
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values, displacements, place, rest_positions, tracked, unwrapped, velocities
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import parameters_in, substitute

_STIFF = 1e4
"""Weight of the constraints against observations that contradict them: what remains of them is 1e-8 of the noise."""


@dataclass(frozen=True, eq=False)
class Guess:
    """States at every step of a grid."""

    states: Array
    """x = (q, v) at each step, (N, 13 n_b)."""
    displacements: Array
    """Coordinates of all joints, continuous in time, (N, n_s) [rad or m]."""
    notices: tuple[str, ...]


def guess(
    model: Model, observations: Sequence[Channel], recording: Recording, grid: Grid, values: Values, cutoff: float
) -> Guess:
    """States that agree with the filtered observations at zero constraint violation.

    Coordinates of a tree of joints place its bodies directly. Closed loops and other sensors are followed step by step
    by Gauss–Newton, each step from the one before. Coordinates of a tree that no position tells follow from sensors of
    rates and accelerations (``dead_reckoning``), or stay at rest.

    Args:
        values: number of every parameter.
        cutoff: of the second-order Butterworth filter, forward and back [Hz].
    """
    recording = prepared(recording, observations)
    shown = np.array([_smoothed(recording, s, grid, cutoff) for s in observations]).reshape(-1, grid.count).T
    placed = [i for i, s in enumerate(observations) if order(s, model) == 0]
    sensors, targets = [observations[i] for i in placed], shown[:, placed]
    moved = np.tile(rest_positions(model, values), (grid.count, 1))
    seen = _coordinates(model, sensors, targets, values)
    for i, target in seen.items():
        moved[:, i] = target
    sensors, targets = geared(model, sensors, targets, values)
    hidden = [i for i in range(len(model.freedoms)) if i not in seen]
    if model.has_loops or len(seen) < len(sensors):
        start = place(model, moved[:1], values)[0]
        if model.ties:  # where bodies stand before any sensor is asked, a user's rows may have no value
            start = tracked(closing_rows(model, sensors, values, tied=False), start, targets[:1])[0]
        poses = tracked(closing_rows(model, sensors, values), start, targets)
        moved = unwrapped(model, displacements(model, poses, values))
        told = model.has_loops or any(body.free for body in model.bodies)
        untold = [] if told else [i for i in hidden if i not in seen_by(model, sensors)]
    else:
        poses, untold = place(model, moved, values), list(hidden)
    if untold and len(sensors) < len(observations):
        moved, untold = reckoned(model, observations, shown, Motion(moved, untold, grid.step), values)
        poses = place(model, moved, values)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), moved, _notices(model, hidden, untold))


def _coordinates(model: Model, sensors: Sequence[Channel], targets: Array, values: Values) -> dict[int, Array]:
    """Coordinates that have sensors of their own, by number, (N,) each."""
    return {
        model.freedoms_of(s.sensor.joint).start + s.sensor.coordinate: _true(s, target, values)
        for s, target in zip(sensors, targets.T, strict=True)
        if isinstance(s.sensor, JointPosition)
    }


def _smoothed(recording: Recording, channel: Channel, grid: Grid, cutoff: float) -> Array:
    """What a channel has shown at the steps, smooth and without gaps, (N,)."""
    return smoothed(recording, channel.signal, grid, period=channel.period, cutoff=cutoff)


def _true(channel: Channel, shown: Array, values: Values) -> Array:
    """What is true of a channel that has shown something, (N,)."""
    offset, scale = substitute(ca.vertcat(channel.offset, channel.scale), values)
    return np.asarray((shown - offset) / scale)


def _notices(model: Model, hidden: Sequence[int], untold: Sequence[int]) -> tuple[str, ...]:
    """Of coordinates without a sensor of their own, and among them those that no sensor tells."""
    from_rest = (f"{_named(f)} is not observed; it starts from its rest {_what(f)}." for f in _some(model, untold))
    others = _some(model, [i for i in hidden if i not in untold])
    return (*from_rest, *(f"{_named(f)} has no {_what(f)} sensor; its start follows from the others." for f in others))


def _some(model: Model, numbers: Sequence[int]) -> list[Freedom]:
    return [model.freedoms[i] for i in numbers]


def geared(model: Model, sensors: list[Channel], targets: Array, values: Values) -> tuple[list[Channel], Array]:
    """What is seen, and angles that gears and couplings tell from others where poses do not tell them."""
    pairs = zip(sensors, targets.T, strict=True)
    seen = {
        (s.sensor.joint, s.sensor.coordinate): _true(s, target, values)
        for s, target in pairs
        if isinstance(s.sensor, JointPosition)
    }
    for tie in (tie for tie in model.ties if isinstance(tie, LinearConstraint) and not tie.told_by_poses):
        unseen = [term for term in tie.terms if (term.joint, term.coordinate) not in seen]
        if len(unseen) == 1:
            offset, *ratios = substitute(ca.vertcat(tie.offset, *(term.ratio for term in tie.terms)), values)
            parts = {(t.joint, t.coordinate): ratio for t, ratio in zip(tie.terms, ratios, strict=True)}
            other, own = unseen[0][:2], parts.pop(unseen[0][:2])
            seen[other] = (offset - sum(ratio * seen[place] for place, ratio in parts.items())) / own
            sensors = [*sensors, Channel(JointPosition(other[0], tie.name, coordinate=other[1]), 0)]
            targets = np.column_stack([targets, seen[other]])
    return sensors, targets


def _named(freedom: Freedom) -> str:
    return f"{freedom.joint.kind} {freedom.label!r}"


def _what(freedom: Freedom) -> str:
    return "angle" if freedom.coordinate.unit == "rad" else "position"


def closing_rows(model: Model, sensors: Sequence[Channel], values: Values, tied: bool = True) -> ca.Function:
    """Function (q, measured, step) to violations and observation errors, their Jacobian along the tangent space, and
    q ⊞ step: what ``kinematics.tracked`` makes vanish. Violations are weighted, so that observations yield to them;
    those of constraints are there if ``tied``."""
    q, measured = ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("y", len(sensors))
    state = State(model, q, ca.SX(model.configuration.tangent, 1))
    held = model.holding.told_by_poses(q, tied)
    shown = ca.vertcat(ca.SX(0, 1), *(sensor.predicted(state) for sensor in sensors))
    near = signed(sensors, measured, shown)
    rows = ca.vertcat(_STIFF * held, *(apart(s, shown[i], near[i]) for i, s in enumerate(sensors)))
    outputs = [rows, ca.densify(jacobian(rows, q, model.configuration))]
    parameters = parameters_in(outputs, "the model", ignore=[q, measured])
    numbers = ca.DM([values[p.name] for p in parameters])
    step = ca.SX.sym("step", model.configuration.tangent)
    moved = model.configuration.retract(q, step)
    full = ca.Function("rows", [q, measured, step, ca.vertcat(*parameters)], [*outputs, moved])
    inputs = [ca.MX.sym("q", q.numel()), ca.MX.sym("y", len(sensors)), ca.MX.sym("s", step.numel())]
    return ca.Function("rows", inputs, full(*inputs, numbers))


_TURNS = 8
"""Angles at which a hinge is tried whose place in its turn nothing has told."""

_WIDTH = 0.01
"""Of what turns from one sign to the other with a rate [rad/s or m/s]."""


def reckoned(
    model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
) -> tuple[Array, list[int]]:
    """Coordinates of all joints, (N, n_s), and the numbers of those that could be told from no sensor.

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
    lacking = _lacking(model, values)

    def turned(number: int, turn: float) -> Array:
        result = moved.copy()
        result[:, number] += turn
        return result

    def cost(number: int, coordinates: Array) -> float:
        rows = lacking(*(part.T for part in derivatives(coordinates, step))).full()
        return float(np.sum(rows[number] ** 2))

    for number in told:
        period = model.freedoms[number].coordinate.period
        if period is not None and number not in driven:
            tried = [turned(number, period * i / _TURNS) for i in range(_TURNS)]
            costs = [cost(number, coordinates) for coordinates in tried]
            if min(costs) < BETTER * costs[0]:
                moved = tried[int(np.argmin(costs))]
    return moved


def _lacking(model: Model, values: Values) -> ca.Function:
    """Of coordinates and their derivatives, (n_s,) each: what the motion takes along each coordinate besides gravity
    and the loads, without inputs and dry friction, (n_s,)."""
    symbols = [ca.SX.sym(name, len(model.freedoms)) for name in ("d", "rate", "acceleration")]
    state, joints = state_at(model, *symbols), JointCoordinates(model)
    mass, none = model.inertia(), ca.SX(len(model.signals), 1)
    force = model.weight() + Mechanics.gyroscopic_of(mass, state.v) + model.pushed(state.q, state.v, none)
    net = joints.transmitted(state.q, ca.densify(mass @ state.a - force)).along
    rows = [ca.SX(0)] * len(model.freedoms)
    for i, number in enumerate(joints.places[: len(rows)]):
        freedom = model.freedoms[number]
        inputs = {signal: ca.SX(0) for signal in freedom.joint.signals}
        width = ca.SX([_WIDTH] * len(freedom.joint.coordinates))
        effort = freedom.joint.effort(state.angle(freedom.joint), state.rate(freedom.joint), inputs, width)
        rows[number] = net[i] - effort[freedom.index]
    parameters = parameters_in(rows, "the model", ignore=symbols)
    numbers = [ca.SX(values[p.name]) for p in parameters]
    return ca.Function("lacking", symbols, ca.substitute([ca.vertcat(*rows)], list(parameters), numbers))


def seen_by(model: Model, channels: Sequence[Channel]) -> set[int]:
    """Numbers of the coordinates of a tree of joints that channels of positions see."""
    d = ca.SX.sym("d", len(model.freedoms))
    state = state_at(model, d, ca.SX(d.numel(), 1), ca.SX(d.numel(), 1))
    shown = ca.vertcat(ca.SX(0, 1), *(channel.predicted(state) for channel in channels))
    slope = ca.jacobian(shown, d)
    return {j for j in range(d.numel()) if slope[:, j].nnz()}
