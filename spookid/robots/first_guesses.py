"""What a log and a robot's file together say of drives and friction, well enough to begin a fit from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.robots.description import Freedom
from spookid.robots.logs import Matched, efforts_along
from spookid.robots.robot import Robot

_SHARE = 0.02
"""Of a drive's greatest effort, the friction of a gear of which nothing is known."""
_STILL = 0.02
"""Share of the rms rate within which the sign of a rate says nothing."""
_VAGUE = 0.2
"""Share by which a gain may be off that is taken."""
_LEAST = 1e-2
"""Least part of an effort that a guess makes, so that no fit begins at a bound."""


@dataclass(frozen=True)
class Drive:
    """Guesses for one coordinate, SI."""

    viscous: float
    coulomb: float
    armature: float
    gain: float = 1.0
    """Effort per unit of the signal."""
    alike: bool = False
    """True if the log does not tell the gain, and it is the usual one of the other drives."""


def drives(robot: Robot, recording: Recording | None, matched: Matched, known: Mapping[str, float]) -> dict[str, Drive]:
    """Guesses by label: those of a regression of what the file's inertias take along the log, or of the file alone.

    Args:
        known: gains that are known, by label.
    """
    plain = {label: replace(_plain(freedom), gain=known.get(label, 1.0)) for label, freedom in robot.freedoms.items()}
    if recording is None or not matched.efforts or matched.effort == "voltage":
        return plain
    try:
        return plain | _regressed(robot, recording, matched, known)
    except ProblemError:  # loops, or joints of which nothing was measured
        return plain


def _plain(freedom: Freedom) -> Drive:
    effort = freedom.limits.effort if np.isfinite(freedom.limits.effort) else 10.0
    rate = freedom.limits.velocity if np.isfinite(freedom.limits.velocity) else 1.0
    viscous, coulomb = freedom.viscous or _SHARE * effort / rate, freedom.coulomb or _SHARE * effort
    return Drive(viscous, coulomb, freedom.armature or 1e-3 * effort)


def _regressed(robot: Robot, recording: Recording, matched: Matched, given: Mapping[str, float]) -> dict[str, Drive]:
    """Per joint: K u − (what the file's bodies take) is b s + c sign(s) + J a + offset."""
    nothing = {"viscous": 0, "coulomb": 0, "armature": 0}
    bare = robot.with_(joints={label: nothing for label in matched.positions if label in robot.joints})
    told = efforts_along(bare, recording, matched.positions, matched.efforts)
    seen = {}
    for i, label in enumerate(told.motors):
        at = np.interp(told.t, *finite_samples(recording, matched.positions[label]))
        rate = np.gradient(at, told.t)
        one = _Seen(told.efforts[:, i], told.measured[:, i], rate, np.gradient(rate, told.t))
        if np.any(one.rate) and np.any(one.signal) and np.all(np.isfinite(one.signal)):
            seen[label] = one
    if matched.effort in ("torque", "control"):
        return {label: one.drive(given.get(label, 1.0)) for label, one in seen.items()}
    independent = told.cutoff * float(told.t[-1] - told.t[0])
    gains = {label: given.get(label) or one.gain(independent) for label, one in seen.items()}
    known = [gain for gain in gains.values() if gain is not None]
    usual = float(np.median(known)) if known else 1.0
    return {
        label: replace(one.drive(gains[label] or usual), alike=gains[label] is None and bool(known))
        for label, one in seen.items()
    }


@dataclass(frozen=True, eq=False)
class _Seen:
    """Of one joint along the log, (N,) each."""

    needed: Array
    """What the file's bodies take [N m or N]."""
    signal: Array
    rate: Array
    """[rad/s or m/s]."""
    change: Array
    """Its derivative."""

    @property
    def _others(self) -> Array:
        """What else takes effort: rate, its sign, its change, and a constant, (N, 4)."""
        sign = np.tanh(self.rate / (_STILL * np.sqrt(np.mean(self.rate**2))))
        return np.column_stack([self.rate, sign, self.change, np.ones_like(self.rate)])

    def gain(self, independent: float) -> float | None:
        """Effort per unit of the signal, if the log tells; the signal has the noise.

        Args:
            independent: how many samples that are.
        """
        columns = np.column_stack([self.needed, self._others])
        scale = np.linalg.norm(columns, axis=0)
        if not np.all(scale > 0):
            return None
        found, _, rank, _ = np.linalg.lstsq(columns / scale, self.signal, rcond=None)
        if rank < len(scale):
            return None
        left = float(np.mean((self.signal - columns / scale @ found) ** 2))
        covariance = np.linalg.inv((columns / scale).T @ (columns / scale)) * len(self.signal)
        error = np.sqrt(left * covariance[0, 0] / independent)
        return None if error > _VAGUE * abs(found[0]) else float(scale[0] / found[0])

    def drive(self, gain: float) -> Drive:
        """The others for a gain; none at a bound."""
        columns, effort = self._others, gain * self.signal
        scale = np.linalg.norm(columns, axis=0)
        found = np.linalg.lstsq(columns / scale, effort - self.needed, rcond=None)[0] / scale
        size = float(np.sqrt(np.mean(effort**2)))
        least = _LEAST * size / np.sqrt(np.mean(columns[:, :3] ** 2, axis=0))
        viscous, coulomb, armature = np.maximum(found[:3], least).tolist()
        return Drive(viscous, coulomb, armature, gain)


def printed(value: float) -> str:
    """A guess as a file has it."""
    return repr(float(f"{value:.3g}"))
