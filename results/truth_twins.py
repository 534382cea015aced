"""Mechanisms with known parameters for `truth.py` and `clocks.py`; their data are from integrators of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Variational,
    gravity,
    tilted_gravity,
)


@dataclass(frozen=True)
class Twin:
    """A mechanism whose parameters are known."""

    name: str
    problem: Problem
    truth: Mapping[str, float]
    initial: Mapping[str, float]
    duration: float
    drive: Callable[[np.ndarray], np.ndarray] | None = None
    """Input of the motors, by time."""


def pendulum(step: float, stepper: Variational) -> Twin:
    """A rod on a hinge: inertia and viscous friction."""
    J, b = Parameter("J", 1e-3, lower=1e-7, unit="kg m^2"), Parameter("b", 1e-4, lower=0, unit="N m s")
    rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    down = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1))
    pin = Hinge("pin", down, rod.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=b)
    model = Model(bodies=[rod], joints=[pin], gravity=gravity(9.81))
    problem = Problem("pendulum", model, observations=[HingeAngle(pin, "theta")], step=step, stepper=stepper)
    return Twin("pendulum", problem, {"J": 2e-3, "b": 2e-3}, {"pin": 2.0}, 10.0)


def furuta(step: float, stepper: Variational, full: bool = False) -> Twin:
    """A Furuta pendulum of Table G.5: four parameters of a release, or thirteen of a driven one."""
    parameters = {
        "J_Axx": (1e-4, 2e-4, 1e-6, "kg m^2"),
        "J_Ayy": (0.003, 0.002, 1e-6, "kg m^2"),
        "J_Azz": (0.003, 0.01, 1e-6, "kg m^2"),
        "J_Byy": (0.004, 0.01, 1e-6, "kg m^2"),
        "J_Bzz": (0.004, 0.01, 1e-6, "kg m^2"),
        "b_1": (1e-3, 1e-4, 0.0, "N m s"),
        "b_2": (1e-3, 1e-4, 0.0, "N m s"),
        "c_1": (5e-3, 1e-3, 0.0, "N m"),
        "c_2": (2e-3, 1e-3, 0.0, "N m"),
        "d_2": (5e-4, 1e-4, 0.0, "N m s^2"),
        "K": (0.1, 0.05, 0.0, "N m/V"),
        "tilt_x": (0.02, 0.0, -0.2, "rad"),
        "tilt_y": (-0.01, 0.0, -0.2, "rad"),
    }
    free = tuple(parameters) if full else ("J_Azz", "J_Byy", "b_1", "b_2")
    p = {
        name: Parameter(name, guess, lower=lower, unit=unit) if name in free else truth * (full or name[0] == "J")
        for name, (truth, guess, lower, unit) in parameters.items()
    }
    arm = Body("A", mass=0.238, inertia=(p["J_Axx"], p["J_Ayy"], p["J_Azz"]))
    rod = Body("B", mass=0.428, inertia=(1e-3, p["J_Byy"], p["J_Bzz"]))
    axle, edge = GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), arm.frame(at=(0.12, 0, 0), x=(1, 0, 0), y=(0, 0, -1))
    shoulder = Hinge(
        "shoulder", axle, arm.frame(at=(-0.128, 0, 0), x=(0, 0, 1), y=(1, 0, 0)), viscous=p["b_1"], coulomb=p["c_1"]
    )
    at = rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    elbow = Hinge("elbow", edge, at, viscous=p["b_2"], coulomb=p["c_2"], drag=p["d_2"])
    motors = [Motor(shoulder, signal="u", gain=p["K"])] if full else []
    down = tilted_gravity(9.82, p["tilt_x"], p["tilt_y"]) if full else gravity(9.82)
    model = Model(bodies=[arm, rod], joints=[shoulder, elbow], motors=motors, gravity=down)
    sensors = [HingeAngle(shoulder, "theta1"), HingeAngle(elbow, "theta2")]
    name = "Furuta, 13 parameters" if full else "Furuta, 4 parameters"
    width = 0.05  # of the friction law, in the twin and in the fit
    problem = Problem("furuta", model, observations=sensors, step=step, stepper=stepper, friction_width=width)
    truth = {name: parameters[name][0] for name in free}
    return Twin(name, problem, truth, {"elbow": 2.8}, 10.0, _chord if full else None)


def _chord(t: np.ndarray) -> np.ndarray:
    """Three tones [V]."""
    return 2 * np.sin(2.0 * t) + 1.5 * np.sin(5.3 * t + 1) + np.sin(9.1 * t + 2)


def fourbar(step: float, stepper: Variational) -> Twin:
    """A driven four-bar: three inertias, friction and the motor's gain."""
    I_1 = Parameter("I_crank", 4e-4, lower=1e-6, unit="kg m^2")
    I_2 = Parameter("I_coupler", 1e-3, lower=1e-6, unit="kg m^2")
    I_3 = Parameter("I_rocker", 1e-3, lower=1e-6, unit="kg m^2")
    b, K = Parameter("b", 1e-3, lower=0, unit="N m s"), Parameter("K", 0.03, unit="N m/V")
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    crank, coupler, rocker = (
        Body(name, mass=m, inertia=(1e-5, inertia, inertia))
        for name, m, inertia in (("crank", 0.2, I_1), ("coupler", 0.4, I_2), ("rocker", 0.5, I_3))
    )
    drive = Hinge("drive", GROUND.frame(**axle), crank.frame(at=(-_CRANK / 2, 0, 0), **axle), viscous=b)
    knee_in, knee_out = crank.frame(at=(_CRANK / 2, 0, 0), **axle), coupler.frame(at=(-_COUPLER / 2, 0, 0), **axle)
    wrist_in, wrist_out = coupler.frame(at=(_COUPLER / 2, 0, 0), **axle), rocker.frame(at=(_ROCKER / 2, 0, 0), **axle)
    knee, wrist = Hinge("knee", knee_in, knee_out), Hinge("wrist", wrist_in, wrist_out)
    base = GROUND.frame(at=(_ROCKER, 0, 0), **axle)
    pivot = Hinge("pivot", base, rocker.frame(at=(-_ROCKER / 2, 0, 0), **axle))
    joints, motor = [drive, knee, wrist, pivot], Motor(drive, signal="u", gain=K)
    model = Model(bodies=[crank, coupler, rocker], joints=joints, motors=[motor], gravity=(0, -9.81, 0))
    sensors = [HingeAngle(drive, "crank"), HingeAngle(pivot, "rocker")]
    problem = Problem("fourbar", model, observations=sensors, step=step, stepper=stepper)
    truth = {"I_crank": 2e-4, "I_coupler": 2.5e-3, "I_rocker": 4e-3, "b": 1e-2, "K": 0.05}
    return Twin("four-bar", problem, truth, _closed(0.5), 6.0, _voltage)


_CRANK, _COUPLER, _ROCKER = 0.10, 0.25, 0.30
"""Lengths of the links [m]; the fixed axles are as far apart as the rocker is long."""


def _closed(angle: float) -> dict[str, float]:
    """Angles of all hinges [rad] with the crank at ``angle`` and the wrist above the line from knee to pivot."""
    x, y = _ROCKER - _CRANK * np.cos(angle), -_CRANK * np.sin(angle)
    reach = np.hypot(x, y)
    at_knee = np.arccos((_COUPLER**2 + reach**2 - _ROCKER**2) / (2 * _COUPLER * reach))
    at_pivot = np.arccos((_ROCKER**2 + reach**2 - _COUPLER**2) / (2 * _ROCKER * reach))
    coupler, rocker = np.arctan2(y, x) + at_knee, np.arctan2(-y, -x) - at_pivot
    return {"drive": angle, "knee": coupler - angle, "wrist": rocker - coupler, "pivot": rocker}


def _voltage(t: np.ndarray) -> np.ndarray:
    """Three sines [V]."""
    return sum(a * np.sin(2 * np.pi * f * t + p) for a, f, p in [(1.5, 0.7, 0.0), (3.0, 2.3, 1.0), (4.0, 4.1, 0.0)])
