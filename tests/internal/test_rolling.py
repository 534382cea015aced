"""Constraints on velocities in the coordinates of the joints, on mechanisms whose motion is integrated here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Model,
    Nonholonomic,
    Observation,
    Parameter,
    Planar,
    PointDrag,
    PointForce,
    PointLoad,
    PointPosition,
    PointTorque,
    Problem,
    Recording,
    Solution,
    Status,
    gravity,
)
from spookid.mechanics.body import Frame
from spookid.mechanics.moving import MovingFrame

SLEIGH = {"m": 2.0, "I": 0.05, "a": 0.12, "bv": 0.15, "bw": 0.02}
UP: dict[str, Any] = {"x": (0, 0, 1), "y": (1, 0, 0)}


def pushed(t: Array) -> Array:
    """Force along the blade, and torque, (2, n)."""
    return np.array([1.2 * np.cos(2.1 * t) + 0.5, 0.25 * np.sin(3.3 * t + 0.3)])


@cache
def slid() -> tuple[Array, Array]:
    """Times, and what they show: place of the blade, heading, speed along it and turning rate, (5, n) (Chaplygin's
    sleigh, driven and damped)."""
    m, I, a, bv, bw = SLEIGH.values()

    def flow(t: float, y: Array) -> list[float]:
        (force, torque), (v, w) = pushed(np.asarray(t)), y[3:]
        turned = (torque - bw * w - m * a * v * w) / (I + m * a**2)
        return [v * math.cos(y[2]), v * math.sin(y[2]), w, (force - bv * v) / m + a * w**2, turned]

    t = np.arange(0, 3, 0.0025)
    return t, solve_ivp(flow, (0, 3), [0, 0, 0.2, 0.5, 0.0], t_eval=t, rtol=1e-11, atol=1e-12).y


class Turning(PointLoad):
    """Damps the turning of a body."""

    def __init__(self, frame: Frame, damping: Any) -> None:
        self.frames, self._damping = (frame,), damping

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Against the turning rate."""
        return [-self._damping * at[0].body_axes @ at[0].omega]


def sleigh(
    duration: float = 3.0, seed: int = 0, step: float = 0.02, noise: float = 1e-4, other: int = 13, **given: Any
) -> Problem:
    """On a blade that does not slip across itself; a camera sees two of its points, and a gyroscope turns with it.

    Args:
        other: of how many instants of the input one has a sample of the second point, at other times if that is odd.
    """
    t, y = slid()
    p = {
        "m": Parameter("m", 1.7, lower=0.1),
        "I": Parameter("I", 0.07, lower=1e-4),
        "a": Parameter("a", 0.1),
        "bv": Parameter("bv", 0.1, lower=0),
        "bw": Parameter("bw", 0.03, lower=0),
    }
    body = Body("sleigh", mass=p["m"], inertia=(1, 1, p["I"]))
    blade, tip = body.frame(at=(-p["a"], 0, 0), **UP), body.frame(at=(0.3 - p["a"], 0, 0))
    floor = Planar("floor", GROUND.frame(**UP), blade)
    edge = body.frame(at=(-p["a"], 0, 0))
    knife = Nonholonomic("knife", lambda s: ca.dot(s.axes(edge)[:, 1], s.velocity(edge)))
    loads = [
        PointForce(edge, (1, 0, 0), signals="F", axes="frame"),
        PointTorque(edge, (0, 0, 1), signals="T"),
        PointDrag(edge, linear=p["bv"]),
        Turning(edge, p["bw"]),
    ]
    model = Model([body], [floor], loads=loads, constraints=[knife], gravity=gravity(9.81))
    rng = np.random.default_rng(0)
    every = {"x": 8, "y": 8, "w": 4} | dict.fromkeys("uv", other)
    true = {"x": y[0], "y": y[1], "u": y[0] + 0.3 * np.cos(y[2]), "v": y[1] + 0.3 * np.sin(y[2]), "w": y[4]}
    size = {"x": noise, "y": noise, "u": noise, "v": noise, "w": 10 * noise}
    own = {s: slice(n % 2 * 3, None, n) for s, n in every.items()}
    times = {s: t[part] for s, part in own.items()}
    seen = {s: true[s][part] + size[s] * rng.normal(size=times[s].size) for s, part in own.items()}
    force, torque = pushed(t)
    recording = Recording(t, {"F": force, "T": torque, **seen}, times=times)
    sensors = [
        PointPosition(edge, "xy", ("x", "y")),
        PointPosition(tip, "xy", ("u", "v")),
        Observation(lambda s: s.angular_velocity(body)[2], "w"),
    ]
    return Problem("sleigh", model, [recording], sensors, step=step, **given)


def apart(solution: Solution) -> Array:
    """Estimates less the truth."""
    assert solution.status is Status.CONVERGED
    return np.array([solution[name].estimate - value for name, value in SLEIGH.items()])


def test_a_sleigh_is_identified_in_steps_of_no_length() -> None:
    """What one of 40 ms adds is taken off."""
    coarse, found = sleigh(step=0.04, step_correction=False).solve(), sleigh(step=0.04).solve()
    errors = np.array([found[name].std_err for name in SLEIGH])
    assert np.all(np.abs(apart(found)) < 3 * errors)
    assert np.all(errors < 0.1 * np.array(list(SLEIGH.values())))
    assert np.linalg.norm(apart(found) / errors) < np.linalg.norm(apart(coarse) / errors)


def test_the_step_of_a_fit_by_weight_is_told() -> None:
    settings: dict[str, Any] = {"noise": 1e-7, "state_weight": math.inf, "other": 8}
    coarse, fine = sleigh(every=1, step=0.04, **settings).solve(), sleigh(every=2, **settings).solve()
    truth = np.array(list(SLEIGH.values()))
    adds, told = (apart(coarse) - apart(fine)) * 4 / 3, np.array([coarse[name].step_error for name in SLEIGH])
    np.testing.assert_allclose(told / truth, adds / truth, rtol=0.1, atol=1e-3)
    assert np.max(np.abs(told / truth)) > 1e-2
