"""Initial states from measured joint angles (Marklund et al., section 4.4).

Angles are low-pass filtered, bodies are placed on the constraint surface hinge by hinge, and velocities are differences
of the poses (4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spookid.kernels import Array
from spookid.kinematics import Values, place, rest_angles, velocities
from spookid.model import Model
from spookid.observations import HingeAngle
from spookid.recording import Recording
from spookid.sampling import Grid, smoothed


@dataclass(frozen=True, eq=False)
class Guess:
    """States at every step of a grid."""

    states: Array
    """x = (q, v) at each step, (N, 13 n_b)."""
    angles: Array
    """Hinge angles, unwrapped, (N, n_j) [rad]."""
    notices: tuple[str, ...]


def guess(
    model: Model, observations: Sequence[HingeAngle], recording: Recording, grid: Grid, values: Values, cutoff: float
) -> Guess:
    """States that agree with the filtered observations at zero constraint violation.

    Args:
        values: number of every parameter of the model.
        cutoff: of the second-order Butterworth filter, forward and back [Hz].
    """
    rest = rest_angles(model, values)
    angles = np.tile(rest, (grid.count, 1))
    seen = {observation.hinge: observation for observation in observations}
    notices = []
    for j, joint in enumerate(model.joints):
        if joint in seen:
            angles[:, j] = smoothed(recording, seen[joint].signal, grid, period=HingeAngle.period, cutoff=cutoff)
        else:
            notices.append(
                f"Hinge {joint.name!r} is not observed; its angle starts at {rest[j]:g} rad, its rest angle."
            )
    poses = place(model, angles, values)
    return Guess(np.hstack([poses, velocities(poses, grid.step)]), angles, tuple(notices))
