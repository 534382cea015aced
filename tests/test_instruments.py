"""A sensor that lags or is off, where the fit has put a disturbance in the place of the mechanics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    JointPosition,
    Model,
    Motor,
    Observation,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    gravity,
)

DRIVE, LOAD, STIFFNESS, DAMPING, DRAG = 1.0, 2.0, 400.0, 0.5, 3.0


T = np.arange(400) * 0.005
FORCE = 20 * np.sin(2 * np.pi * 0.7 * T) + 15 * np.sin(2 * np.pi * 2.3 * T + 1)


def slopes(t: float, x: np.ndarray) -> list[float]:
    spring = STIFFNESS * (x[1] - x[0]) + DAMPING * (x[3] - x[2])
    return [x[2], x[3], (np.interp(t, T, FORCE) - DRAG * x[2] + spring) / DRIVE, -spring / LOAD]


def flexible(late: float, off: float) -> Problem:
    """A driven mass, another on a spring behind it, and encoders of both on the ground, one of which may be wrong."""
    whole = T[-1] + 1e-12
    found = solve_ivp(slopes, (0, whole), np.zeros(4), rtol=1e-9, atol=1e-11, max_step=0.005, dense_output=True)
    shown = np.array([found.sol(T)[0], found.sol(np.clip(T - late, 0, whole))[1] + off])
    shown += 1e-5 * np.random.default_rng(0).normal(size=shown.shape)
    drive, load = Parameter("drive", 0.5, lower=1e-3), Parameter("load", 1.0, lower=1e-3)
    first, second = Body("first", mass=drive, inertia=(1, 1, 1)), Body("second", mass=load, inertia=(1, 1, 1))
    rail = Prismatic("rail", GROUND.frame(), first.frame(), viscous=Parameter("drag", 1.0, lower=0))
    spring = Prismatic(
        "spring", first.frame(), second.frame(), stiffness=Parameter("k", 200.0, lower=0), viscous=DAMPING
    )
    gain = Parameter("gain", 0.7)
    model = Model([first, second], [rail, spring], [Motor(rail, "f", gain=gain, hold="linear")], gravity=gravity(0.0))
    recording = Recording(T, {"first": shown[0], "second": shown[1], "f": FORCE}, "run")
    end = Observation(lambda s: s.angle(rail) + s.angle(spring), "second", unit="m")
    return Problem("flexible", model, [recording], [JointPosition(rail, "first"), end])


@pytest.mark.parametrize(
    ("late", "off", "words"), [(0.012, 0.0, "second is 12 ms late"), (0.0, 0.05, "second is off by 0.05 m")]
)
def test_a_sensor_that_lags_or_is_off_is_named(late: float, off: float, words: str) -> None:
    findings = flexible(late, off).solve(max_iterations=40).findings
    (told,) = [finding for finding in findings if finding.code == "sensors.late-or-off"]
    assert words in told.text
    assert told.subject == ("second",)
    known = {"delay": late, "offset": off}
    assert told.evidence["second"] == pytest.approx({name: size for name, size in known.items() if size}, rel=0.05)


def test_nothing_is_told_where_sensors_are_right() -> None:
    assert not [finding for finding in flexible(0.0, 0.0).solve().findings if finding.doubts]
