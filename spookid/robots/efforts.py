"""What a robot's file says of the efforts of a motion that was measured."""

from __future__ import annotations

from collections.abc import Mapping

from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.data.sensors import JointPosition
from spookid.mechanics.motor import Hold, Motor
from spookid.robots.parts import Parts
from spookid.studies.motor_efforts import MotorEfforts, inverse_dynamics


def efforts_along(
    robot: Parts,
    recording: Recording,
    positions: Mapping[str, str],
    efforts: Mapping[str, str],
    *,
    hold: Hold = "linear",
    cutoff: float | None = None,
) -> MotorEfforts:
    """Inverse dynamics of a robot along a recording, beside the efforts that were recorded.

    Args:
        positions, efforts: signals by joints of one coordinate.
        hold: what efforts are between their samples.
        cutoff: of the low-pass filter [Hz]; None: that of the motion's bandwidth.

    Raises:
        ProblemError: as ``inverse_dynamics``.
    """
    motors = [Motor(robot.joints[label], name, measured=True, hold=hold) for label, name in efforts.items()]
    sensors = [JointPosition(robot.joints[label], name) for label, name in positions.items()]
    problem = Declaration(robot.name, robot.model(motors=motors), [recording], sensors, place=robot.name)
    return inverse_dynamics(problem, cutoff=cutoff)
