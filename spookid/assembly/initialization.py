"""Initial states from measured joint angles (Marklund et al., section 4.4).

Angles are low-pass filtered, bodies are placed on the constraint surface hinge by hinge, and velocities are differences
of the poses (4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.data.recording import Recording
from spookid.data.sampling import Grid, smoothed
from spookid.data.sensors import HingeAngle, Sensor, State, error, sees_velocities
from spookid.kernels.kernel import Array
from spookid.mechanics.kinematics import Values, follow, hinge_angles, place, rest_angles, velocities
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in

_STIFF = 1e4
"""Weight of the constraints against observations that contradict them: what remains of them is 1e-8 of the noise."""


@dataclass(frozen=True, eq=False)
class Guess:
    """States at every step of a grid."""

    states: Array
    """x = (q, v) at each step, (N, 13 n_b)."""
    angles: Array
    """Hinge angles, unwrapped, (N, n_j) [rad]."""
    notices: tuple[str, ...]


def guess(
    model: Model, observations: Sequence[Sensor], recording: Recording, grid: Grid, values: Values, cutoff: float
) -> Guess:
    """States that agree with the filtered observations at zero constraint violation.

    Angles of a tree of hinges place its bodies directly. Closed loops and other sensors are followed step by step by
    Gauss–Newton, each step from the one before.

    Args:
        values: number of every parameter.
        cutoff: of the second-order Butterworth filter, forward and back [Hz].
    """
    sensors = [s for s in observations if not sees_velocities(s, model)]
    targets = [smoothed(recording, s.signal, grid, period=s.period, cutoff=cutoff) for s in sensors]
    angles = np.tile(rest_angles(model, values), (grid.count, 1))
    seen = {s.hinge: target for s, target in zip(sensors, targets, strict=True) if isinstance(s, HingeAngle)}
    for j, joint in enumerate(model.joints):
        if joint in seen:
            angles[:, j] = seen[joint]
    if model.has_loops or len(seen) < len(sensors):
        start = place(model, angles[:1], values)[0]
        rows = closing_rows(model, sensors, values)
        poses = follow(rows, start, np.column_stack(targets) if targets else np.zeros((grid.count, 0)))
        angles = np.unwrap(hinge_angles(model, poses, values), axis=0)
        rest = (joint for joint in model.joints if joint not in seen)
        notices = tuple(f"Hinge {j.name!r} has no angle sensor; its start follows from the others." for j in rest)
    else:
        poses = place(model, angles, values)
        rest = (joint for joint in model.joints if joint not in seen)
        notices = tuple(f"Hinge {j.name!r} is not observed; it starts from its rest angle." for j in rest)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), angles, notices)


def closing_rows(model: Model, sensors: Sequence[Sensor], values: Values) -> ca.Function:
    """Function (q, measured, step) to violations and observation errors, their Jacobian along the tangent space, and
    q ⊞ step: what ``kinematics.follow`` makes vanish. Violations are weighted, so that observations yield to them."""
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
