"""Correct models for `truth.py`: synthetic data, and problems whose model and noise are those of the data.

Each function draws the data of a seed, and returns the problem that is to find its parameters, and their true values.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from continuous_cases import CASES, Case
from scipy.interpolate import CubicSpline
from scipy.linalg import expm
from scipy.spatial.transform import Rotation
from truth_driven import Posed, arm, beam, drive, fivebar, rover
from truth_motion import run, tones
from truth_pendulums import swung
from truth_twins import Twin, furuta, pendulum

from spookid import (
    GROUND,
    Body,
    JointPosition,
    JointRate,
    Model,
    Motor,
    Orientation,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Spherical,
    StudentT,
    Variational,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests import cranes

STEP, STIFFNESS = 0.01, 40.0
CAR = {"m": 2.0, "b": 1.0}
SPRUNG, RATE = {"m": 2.0, "k": 4000.0, "b": 6.0}, 64.0
"""Of an oscillator with a natural frequency of 7.1 Hz, and the rate of its samples [Hz]."""
INERTIA, DAMPING = np.array([[0.02, 0.002, -0.003], [0.002, 0.03, 0.001], [-0.003, 0.001, 0.04]]), 0.01


def car(
    seed: int,
    force: float = 0.02,
    noise: float = 1e-4,
    lasting: float = 0.0,
    count: int = 2000,
    counts: float = 0.0,
    range_: float = np.inf,
    wild: float = 0.0,
    tails: bool = False,
    early: float = 0.0,
    speed: bool = False,
    **sensor: Any,
) -> Posed:
    """A driven mass on a spring, integrated exactly.

    Args:
        force: white random force [N/√Hz].
        noise: of the sensor [m or m/s].
        lasting: correlation time of this noise [s].
        count: number of samples.
        counts: steps of an encoder [m].
        range_: end of the sensor's range [m].
        wild: share of outliers.
        tails: whether the noise is that of Student's t distribution with three degrees of freedom.
        early: standard deviation of the times of the samples [s].
        speed: whether the sensor measures the velocity.
        sensor: what is declared of the sensor.
    """
    rng, t = np.random.default_rng(seed), STEP * np.arange(count)
    f = np.repeat(rng.uniform(-3, 3, max(count // 50, 4)), 50)[:count] if count > 200 else rng.uniform(-3, 3, count)
    rates = np.array([[0, 1, 0], [-STIFFNESS / CAR["m"], -CAR["b"] / CAR["m"], 1 / CAR["m"]], [0, 0, 0]])
    fine, x, motion = expm(rates * STEP / 8), np.zeros(2), np.zeros((count, 2))
    kicks = rng.normal(0.0, force * np.sqrt(STEP / 8) / CAR["m"], (count, 8))
    for k in range(count):
        motion[k] = x
        for kick in kicks[k]:
            x = fine[:2, :2] @ x + fine[:2, 2] * f[k] + np.array([0.0, kick])
    kept = np.exp(-STEP / lasting) if lasting else 0.0
    error = noise * (rng.standard_t(3, count) if tails else rng.normal(size=count))
    for k in range(1, count):
        error[k] = kept * error[k - 1] + np.sqrt(1 - kept**2) * error[k]
    error += np.where(rng.random(count) < wild, 0.02 * rng.standard_t(2, count), 0.0)
    seen = CubicSpline(t, motion[:, int(speed)])(t + early * rng.normal(size=count))
    shown = np.clip(seen + error, -range_, range_)
    shown = counts * np.round(shown / counts) if counts else shown
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    body = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), body.frame(), viscous=b, stiffness=STIFFNESS)
    model = Model([body], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    sensors = [(JointRate if speed else JointPosition)(slide, "x", **sensor)]
    return Problem("car", model, [Recording(t, {"f": f, "x": shown}, name="car")], sensors, step=STEP), CAR


def oscillator(seed: int, share: float = 1 / 3, noise: float = 1e-4) -> Posed:
    """A mass on a stiff spring under tones up to this share of the sampling rate, of which a sum is the motion."""
    rng, t = np.random.default_rng(seed), np.arange(1281) / RATE
    w, phases = 2 * np.pi * RATE * share * np.arange(1, 43) / 42, rng.uniform(0, 2 * np.pi, 42)
    m, k, b = SPRUNG.values()
    tones = 5 * np.exp(1j * (np.outer(t, w) + phases))
    force, x = tones.sum(axis=1).imag, (tones / (k - m * w**2 + 1j * b * w)).sum(axis=1).imag
    p = {name: Parameter(name, 1.2 * value, lower=0.01) for name, value in SPRUNG.items()}
    block = Body("block", mass=p["m"], inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), block.frame(), stiffness=p["k"], viscous=p["b"])
    model = Model([block], [slide], [Motor(slide, "u", hold="band")], gravity=(0, 0, 0))
    recording = Recording(t, {"x": x + noise * rng.normal(size=len(t)), "u": force}, name="oscillator")
    return Problem("oscillator", model, [recording], [JointPosition(slide, "x")], step=1 / (2 * RATE)), SPRUNG


def crane(seed: int, width: float, duration: float = 10.0, changes: float = np.inf) -> Posed:
    """A driven crane, the friction of whose rail has this width [m/s], and grows by 40 % at a time [s]."""
    return cranes.crane(cranes.record(seed, duration, width, changes)), cranes.TRUTH


@cache
def _turning() -> ca.Function:
    """Time derivative of the orientation (a quaternion) and angular velocity of a body by its torque."""
    x, u, w = ca.SX.sym("x", 7), ca.SX.sym("u", 3), ca.SX.sym("w", 3)
    scalar, vector, rate = x[0], x[1:4], x[4:]
    turn = ca.vertcat(-ca.dot(vector, rate), scalar * rate + ca.cross(vector, rate)) / 2
    rates = ca.solve(ca.DM(INERTIA), u + w - DAMPING * rate - ca.cross(rate, ca.DM(INERTIA) @ rate))
    return ca.Function("rates", [x, u, w], [ca.vertcat(turn, rates)])


def attitude(seed: int, torque: float, sigma: float = 2e-3) -> Posed:
    """A driven body in a ball joint with white random torques [N m/√Hz], and its orientation with noise [rad]."""
    rng, dt = np.random.default_rng(seed), 0.01
    t = dt * np.arange(1001)
    u = np.array([tones(rng, t, (0.2, 0.5, 0.9, 1.7), 0.106) for _ in range(3)])
    start, times = (1, 0, 0, 0, *rng.normal(size=3)), (len(t), dt, 20)
    *_, x = run(_turning(), start, lambda k, _: u[:, k], (torque,) * 3, (), rng, times)
    turns = Rotation.from_quat(x[:, :4], scalar_first=True) * Rotation.from_rotvec(sigma * rng.normal(size=(len(t), 3)))
    shown = turns.as_quat(scalar_first=True)
    signals = {f"q{i}": column for i, column in enumerate(shown.T)} | {f"u{i}": u[i] for i in range(3)}
    names = ("J_xx", "J_yy", "J_zz", "J_xy", "J_xz", "J_yz")
    truth = {n: float(INERTIA["xyz".index(n[2]), "xyz".index(n[3])]) for n in names} | {"b": DAMPING}
    J = [Parameter(n, 0.03, lower=1e-5) if n[2] == n[3] else Parameter(n, 0.0) for n in names]
    matrix = ca.vertcat(ca.horzcat(J[0], J[3], J[4]), ca.horzcat(J[3], J[1], J[5]), ca.horzcat(J[4], J[5], J[2]))
    body = Body("body", mass=1.0, inertia=matrix)
    ball = Spherical("ball", GROUND.frame(), body.frame(), viscous=Parameter("b", 0.005, lower=0))
    model = Model([body], [ball], [Motor(ball, f"u{i}", coordinate=i) for i in range(3)], gravity=(0, 0, 0))
    sensor = Orientation(body.frame(), ("q0", "q1", "q2", "q3"), sigma=sigma)
    return Problem("body", model, [Recording(t, signals, name="body")], [sensor], step=dt), truth


def swing(seed: int, disturbance: float, make: Callable[..., Twin] = pendulum) -> Posed:
    """A pendulum with a random torque at every hinge [N m/√Hz], released, or driven if it has a motor."""
    twin, rng = make(step=STEP, stepper=Variational()), np.random.default_rng(seed)
    t = STEP * np.arange(round(twin.duration / STEP) + 1)
    start = (twin.initial["pin"],) if make is pendulum else (0.0, twin.initial["elbow"])
    u = np.zeros(len(t)) if twin.drive is None else twin.drive(t)
    known = {"J_Bzz": 0.004, **twin.truth} if make is furuta else twin.truth
    angles = swung(known, start, u, disturbance, rng)
    names = [sensor.signal for sensor in twin.problem.observations]
    signals = dict(zip(names, angles.T, strict=True)) | ({"u": u} if twin.drive else {})
    return twin.problem.with_(recordings=[Recording(t, signals, name="swing")]), twin.truth


@cache
def _case(name: str) -> Case:
    return CASES[name]()


def _continuous(name: str, seed: int) -> Posed:
    case = _case(name)
    return case.posed(seed), case.truth


FORCED: Mapping[str, Callable[[int], Posed]] = {
    "mass on a spring": car,
    "random force weakly determined": partial(car, force=2e-3),
    "sensor noise over 20 ms": partial(car, noise=1e-3, lasting=0.02),
    "encoder with steps of 2 mm": partial(car, noise=1e-6, counts=2e-3),
    "encoder with steps of 10 mm, noise of 1 mm": partial(car, noise=1e-3, counts=1e-2),
    "noise of Student's t distribution": partial(car, noise=1e-3, tails=True, loss=StudentT()),
    "clock jitter of 3 ms": partial(car, noise=2e-4, early=3e-3, jitter=None),
    "velocity alone": partial(car, noise=1e-3, speed=True),
    "40 samples": partial(car, count=40),
    "body in a ball joint": partial(attitude, torque=1e-3),
    "body in a ball joint, torque weakly determined": partial(attitude, torque=3e-5),
    "pendulum": partial(swing, disturbance=1e-4),
    "pendulum, torque weakly determined": partial(swing, disturbance=1e-5),
    "Furuta pendulum": partial(swing, disturbance=1e-4, make=furuta),
    "Furuta pendulum, 13 parameters": partial(swing, disturbance=1e-4, make=partial(furuta, full=True)),
    "Furuta pendulum, 13 parameters, large torques": partial(swing, disturbance=3e-3, make=partial(furuta, full=True)),
    "crane, sharp friction": partial(crane, width=2e-3),
    "crane, smooth friction": partial(crane, width=2e-2),
    "arm with two links": arm,
    "arm, sensor noise over 20 ms": partial(arm, lasting=0.02),
    "arm, drifting friction": partial(arm, drift=0.6, walk=True),
    "drive with two masses, Stribeck friction": partial(drive, near=True),
    "the drive, initial values off by two": drive,
    "ball on a beam": partial(beam, near=True),
    "the ball, initial values off by two": beam,
    "vehicle with two driven wheels": rover,
    "five-bar with passive friction": fivebar,
}
"""With a random force or torque at each driven joint."""
FREE: Mapping[str, Callable[[int], Posed]] = {
    "mass on a spring, no force": partial(car, force=0.0),
    "the mass, sensor noise over 50 ms": partial(car, force=0.0, noise=1e-3, lasting=0.05),
    "the mass, steps of 10 mm, noise of 1 mm": partial(car, force=0.0, noise=1e-3, counts=1e-2),
    **{f"{name} in continuous time": partial(_continuous, name) for name in CASES},
}
"""Without."""
FLAWED: Mapping[str, Callable[[int], Posed]] = {
    "mass on a spring, sensor that saturates": partial(car, range_=0.1),
    "arm, sensor that saturates": partial(arm, cut=0.85),
    "mass on a spring, 3 % outliers": partial(car, wild=0.03),
    "arm, 3 % outliers": partial(arm, wild=0.03),
    "arm, random torques below 1 Hz": partial(arm, gust=1.0),
    "oscillator, tones up to a third of the sampling rate": oscillator,
}
"""Data with a fault or a fast input that the fit should name, and noise that is not white."""
