"""Initial states from what sensors of positions show (Marklund et al., section 4.4).

They are low-pass filtered, bodies are placed on the constraint surface joint by joint, and velocities are differences
of the poses (4.3). What no sensor of positions shows follows from others (``dead_reckoning``).
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.dead_reckoning import reckoned, seen_by
from spookid.assembly.kinematic_fit import Motion
from spookid.assembly.preparing import prepared
from spookid.assembly.tracking import Tracking
from spookid.data.channels import Channel, order
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, smoothed
from spookid.data.sensors import JointPosition
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import LinearConstraint
from spookid.mechanics.holding import Freedom
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values, displacements, evaluated, place, rest_positions, unwrapped, velocities
from spookid.mechanics.model import Model
from spookid.parameter import substitute
from spookid.records import dataclass
from spookid.results.findings import Finding


@dataclass(frozen=True, eq=False)
class Guess:
    """States at every step of a grid."""

    states: Array
    """x = (q, v) at each step, (N, 13 n_b)."""
    displacements: Array
    """Coordinates of all joints, continuous in time, (N, n_s) [rad or m]."""
    findings: tuple[Finding, ...]


def guess(
    model: Model, observations: Sequence[Channel], recording: Recording, grid: Grid, values: Values, cutoff: float
) -> Guess:
    """States that agree with the filtered observations at zero constraint violation.

    Coordinates of a tree of joints place its bodies directly. Closed loops and other sensors are followed along
    the recording (``tracking``). Coordinates of a tree that no position tells follow from sensors of
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
    if untold and len(sensors) < len(observations):
        moved, untold = reckoned(model, observations, shown, Motion(moved, untold, grid.step), values)
        poses = place(model, moved, values)
    if any(one.sensor.either_sign for one in observations):
        poses = _signed(model, poses, moved, values)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), moved, _findings(model, hidden, untold))


def _signed(model: Model, poses: Array, moved: Array, values: Values) -> Array:
    """Poses with quaternions of the sign that continuous coordinates of the joints give them, which that of measured
    ones is to follow."""
    joints = JointCoordinates(model)
    x = ca.SX.sym("x", joints.manifold.ambient)
    return model.configuration.like(poses, evaluated(joints.configuration(x), x, joints.along(poses, moved), values))


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
            sensors = [*sensors, *JointPosition(other[0], tie.name, coordinate=other[1]).channels(model)]
            targets = np.column_stack([targets, seen[other]])
    return sensors, targets


def _what(freedom: Freedom) -> str:
    return "angle" if freedom.coordinate.unit == "rad" else "position"
