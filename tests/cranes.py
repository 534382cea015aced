"""A crane with dry friction of its trolley, by equations of motion of its own and Runge–Kutta steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    gravity,
)

TRUTH = {"M": 8.0, "m": 2.0, "c": 4.0, "b": 6.0, "d": 0.02}
"""Masses of trolley and load [kg], friction of the rail [N] and [N s/m], and damping of the rope [N m s]."""
ROPE, STEP = 0.6, 0.01
_FINE = 10
_FREQUENCIES = np.array([0.23, 0.41, 0.77, 1.3])


def record(seed: int, duration: float = 10.0, width: float = 2e-3, changes: float = np.inf) -> Recording:
    """What sensors show of a crane driven by a spring and sines, whose friction grows by 40 % at a time [s]."""
    rng = np.random.default_rng(seed)
    count, h = round(duration / STEP), STEP / _FINE
    phases, state = rng.uniform(0, 2 * np.pi, len(_FREQUENCIES)), np.array([0.0, 0.1, 0.0, 0.0])
    shown = np.empty((count + 1, 3))
    for k in range(count + 1):
        t = k * STEP
        u = 9 * np.sin(2 * np.pi * _FREQUENCIES * t + phases).sum() - 15 * state[0]
        shown[k] = *(state[:2] + rng.normal(size=2) * [5e-4, 1e-3]), u
        coulomb = TRUTH["c"] * (1.4 if t >= changes else 1.0)
        for noise in rng.normal(size=(_FINE, 2)) * np.array([0.03, 0.003]) / np.sqrt(h):
            state = _stepped(state, h, u + noise[0], noise[1], coulomb, width)
    return Recording(np.arange(count + 1) * STEP, {"x": shown[:, 0], "theta": shown[:, 1], "u": shown[:, 2]})


def _stepped(
    state: NDArray[Any], h: float, force: float, torque: float, coulomb: float, width: float
) -> NDArray[np.float64]:
    def rates(x: NDArray[Any]) -> NDArray[Any]:
        _, angle, v, w = x
        total, m, d = TRUTH["M"] + TRUTH["m"], TRUTH["m"], TRUTH["d"]
        coupling = m * ROPE * np.cos(angle)
        f = force - TRUTH["b"] * v - coulomb * np.tanh(v / width) + m * ROPE * np.sin(angle) * w**2
        g = torque - d * w - m * 9.81 * ROPE * np.sin(angle)
        det = total * m * ROPE**2 - coupling**2
        return np.array([v, w, (m * ROPE**2 * f - coupling * g) / det, (total * g - coupling * f) / det])

    a = rates(state)
    b = rates(state + h / 2 * a)
    c = rates(state + h / 2 * b)
    return np.asarray(state + h / 6 * (a + 2 * b + 2 * c + rates(state + h * c)))


def crane(*recordings: Recording, **settings: Any) -> Problem:
    """The same as a problem, at initial values half as large again."""
    p = {name: Parameter(name, 1.5 * value, lower=0 if name in "bcd" else 0.1) for name, value in TRUTH.items()}
    trolley, load = Body("trolley", mass=p["M"], inertia=(1, 1, 1)), Body("load", mass=p["m"], inertia=(1e-6,) * 3)
    along, across = {"x": (1, 0, 0), "y": (0, 1, 0)}, {"x": (0, -1, 0), "y": (1, 0, 0)}
    rail = Prismatic("rail", GROUND.frame(**along), trolley.frame(**along), viscous=p["b"], coulomb=p["c"])
    hook = Hinge("hook", trolley.frame(**across), load.frame(at=(0, 0, ROPE), **across), viscous=p["d"])
    model = Model([trolley, load], [rail, hook], [Motor(rail, "u")], gravity=gravity(9.81))
    sensors = [JointPosition(rail, "x"), HingeAngle(hook, "theta")]
    return Problem("crane", model, recordings, sensors, **{"step": STEP, **settings})
