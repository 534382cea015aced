"""The step of a problem that has none of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.data.bandwidth import longest_step
from spookid.data.channels import Sensor
from spookid.data.recording import Recording
from spookid.data.sensors import JointPosition
from spookid.mechanics.inertia import at_guess


def fitting_step(recordings: Sequence[Recording], sensors: Sequence[Sensor], cutoff: float) -> float | None:
    """The shortest of the longest steps that the motions of joints allow [s]; None if no joint is seen to move."""
    found = [
        longest_step(
            recording,
            sensor.signal,
            angle=sensor.measured.unit == "rad",
            scale=at_guess(sensor.each("scale")[0]).item(),
            cutoff=cutoff,
        )
        for recording in recordings
        for sensor in sensors
        if isinstance(sensor, JointPosition) and sensor.signal in recording.signals
    ]
    moving = [step for step in found if np.isfinite(step)]
    return min(moving, default=None)
