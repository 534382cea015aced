"""Initial states from measured coordinates of joints (Marklund et al., section 4.4).

They are low-pass filtered, bodies are placed on the constraint surface joint by joint, and velocities are differences
of the poses (4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, error, order
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, smoothed
from spookid.data.sensors import JointPosition
from spookid.data.state import State
from spookid.kernels.kernel import Array
from spookid.mechanics.kinematics import Values, displacements, place, rest_positions, tracked, unwrapped, velocities
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Freedom, Model
from spookid.parameter import parameters_in

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
    by Gauss–Newton, each step from the one before.

    Args:
        values: number of every parameter.
        cutoff: of the second-order Butterworth filter, forward and back [Hz].
    """
    sensors = [s for s in observations if order(s, model) == 0]
    targets = [smoothed(recording, s.signal, grid, period=s.period, cutoff=cutoff) for s in sensors]
    moved = np.tile(rest_positions(model, values), (grid.count, 1))
    seen: dict[int, Array] = {
        model.freedoms_of(s.sensor.joint).start + s.sensor.coordinate: target
        for s, target in zip(sensors, targets, strict=True)
        if isinstance(s.sensor, JointPosition)
    }
    for i, target in seen.items():
        moved[:, i] = target
    hidden = [freedom for i, freedom in enumerate(model.freedoms) if i not in seen]
    if model.has_loops or len(seen) < len(sensors):
        start = place(model, moved[:1], values)[0]
        rows = closing_rows(model, sensors, values)
        poses = tracked(rows, start, np.column_stack(targets) if targets else np.zeros((grid.count, 0)))
        moved = unwrapped(model, displacements(model, poses, values))
        notices = tuple(f"{_named(f)} has no {_what(f)} sensor; its start follows from the others." for f in hidden)
    else:
        poses = place(model, moved, values)
        notices = tuple(f"{_named(f)} is not observed; it starts from its rest {_what(f)}." for f in hidden)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), moved, notices)


def _named(freedom: Freedom) -> str:
    return f"{freedom.joint.kind} {freedom.label!r}"


def _what(freedom: Freedom) -> str:
    return "angle" if freedom.coordinate.unit == "rad" else "position"


def closing_rows(model: Model, sensors: Sequence[Channel], values: Values) -> ca.Function:
    """Function (q, measured, step) to violations and observation errors, their Jacobian along the tangent space, and
    q ⊞ step: what ``kinematics.tracked`` makes vanish. Violations are weighted, so that observations yield to them."""
    q, measured = ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("y", len(sensors))
    state = State(model, q, ca.SX(model.configuration.tangent, 1))
    rows = ca.vertcat(_STIFF * model.violation(q), *(error(s, state, measured[i]) for i, s in enumerate(sensors)))
    outputs = [rows, ca.densify(jacobian(rows, q, model.configuration))]
    parameters = parameters_in(outputs, "the model", ignore=[q, measured])
    numbers = ca.DM([values[p.name] for p in parameters])
    step = ca.SX.sym("step", model.configuration.tangent)
    moved = model.configuration.retract(q, step)
    full = ca.Function("rows", [q, measured, step, ca.vertcat(*parameters)], [*outputs, moved])
    inputs = [ca.MX.sym("q", q.numel()), ca.MX.sym("y", len(sensors)), ca.MX.sym("s", step.numel())]
    return ca.Function("rows", inputs, full(*inputs, numbers))
