"""Sizes of noise: standard deviations that rows have in common, to estimate or to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spookid.transcription.factor import measured_noise

NoiseKind = Literal["disturbance", "sensor"]


@dataclass(frozen=True)
class NoiseSize:
    """One standard deviation that some rows have in common."""

    kind: NoiseKind
    names: tuple[str, ...]
    """What it is the noise of: hinges and free bodies, or one signal."""
    unit: str
    """Of a sensor its signal's; of a disturbance that of the force, the torque, or the velocity."""
    places: tuple[int, ...]
    """Of its symbols among the constants."""
    given: float | None = None
    """Its value if it is not estimated: of a disturbance per √Hz."""
    floor: float = 0.0
    """It is not smaller: what a sensor resolves."""
    averaging: float = 1.0
    """Of a measured effort: the standard deviation of the means that drive the motion, as white noise, over that of a
    sample."""
    marginalized: bool = False
    """True if a fit has found it but hardly knows it, and errors are averaged over it."""

    @property
    def of_motion(self) -> bool:
        """True of the slip of contacts, a velocity, where other disturbances are forces."""
        return self.unit == "m/s"

    @property
    def keys(self) -> tuple[str, ...]:
        """Its names in ``Factor.noise``, where a signal may be called like a hinge."""
        return self.names if self.kind == "disturbance" else tuple(map(measured_noise, self.names))
