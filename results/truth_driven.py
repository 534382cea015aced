"""Driven mechanisms for `truth.py`, by equations of motion that share nothing with spookid.

Each function draws a recording and returns the problem that is to
find its parameters, and their true values. Initial values are off by a factor of about two, unless ``near``.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import casadi as ca
import numpy as np
from truth_motion import Array, lagrange, lasting_noise, run, tones

from spookid import (
    GROUND,
    Body,
    Coupling,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Nonholonomic,
    Observation,
    Parameter,
    PinInSlot,
    Planar,
    PointLoad,
    Problem,
    RandomWalk,
    Recording,
    gravity,
    planar,
)

Posed = tuple[Problem, Mapping[str, float]]
_DOWN = {"x": (0, 1, 0), "y": (0, 0, -1)}
NEAR = 0.25
"""Share of the way from the true values to the distant initial values at which the near ones are."""


def _parameters(truth: Mapping[str, float], far: Mapping[str, float], near: bool = False) -> dict[str, Parameter]:
    """With a lower bound of zero, or a thousandth of what is never zero."""
    start = {n: v + NEAR * (far[n] - v) if near else far[n] for n, v in truth.items()}
    return {n: Parameter(n, start[n], lower=1e-3 * v if n[0] in "Jm" else 0) for n, v in truth.items()}


# --- an arm of two links ---

ARM = {"J1": 0.01, "J2": 0.006, "m2": 0.7, "b1": 0.05, "b2": 0.03, "c1": 0.10, "c2": 0.05}
_ARM_FAR = {"J1": 0.02, "J2": 0.003, "m2": 0.5, "b1": 0.02, "b2": 0.02, "c1": 0.02, "c2": 0.02}


@cache
def _arm_rates() -> ca.Function:
    """The third input multiplies the friction of the first joint."""
    p, long, r_1, r_2, m_1 = ARM, 0.3, 0.15, 0.12, 1.0

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        turn, w = q[0] + q[1], v[0] + v[1]
        x = ca.vertcat(long * v[0] * ca.cos(q[0]) + r_2 * w * ca.cos(turn), 0)
        x[1] = long * v[0] * ca.sin(q[0]) + r_2 * w * ca.sin(turn)
        return ((p["J1"] + m_1 * r_1**2) * v[0] ** 2 + p["J2"] * w**2 + p["m2"] * ca.dot(x, x)) / 2

    def potential(q: ca.SX) -> ca.SX:
        height = -long * ca.cos(q[0]) - r_2 * ca.cos(q[0] + q[1])
        return 9.81 * (p["m2"] * height - m_1 * r_1 * ca.cos(q[0]))

    def forces(_: ca.SX, v: ca.SX, u: ca.SX, w: ca.SX) -> ca.SX:
        one, two = (p[f"b{i}"] * v[i - 1] + p[f"c{i}"] * ca.tanh(v[i - 1] / 2e-3) for i in (1, 2))
        return ca.vertcat(u[0] + w[0] - u[2] * one, u[1] + w[1] - two)

    return lagrange(kinetic, potential, forces, 2, 3, 2)


def arm(
    seed: int,
    lasting: float = 0.0,
    gust: float = 0.0,
    wild: float = 0.0,
    cut: float = 1.0,
    drift: float = 0.0,
    walk: bool = False,
) -> Posed:
    """Two driven links under gravity, with dry friction.

    Args:
        lasting: of the sensors' noise [s].
        gust: cut-off frequency of the random torques, which are white if it is zero [Hz].
        wild: share of outliers.
        cut: share of the range of the first sensor.
        drift: growth of the first joint's friction.
        walk: whether the friction of the first joint is declared as a random walk.
    """
    rng, dt, sigma = np.random.default_rng(seed), 1 / 200, 0.005
    t = dt * np.arange(2001)
    held, torque = np.floor(100 * t + 1e-9) / 100, np.empty((len(t), 3))
    torque[:, 0] = tones(rng, held, (0.3, 0.7, 1.1, 1.9, 2.7), 0.78)
    torque[:, 1] = tones(rng, held, (0.4, 0.9, 1.7, 2.3, 3.1), 0.21)
    torque[:, 2] = 1 + drift * (t / t[-1] - 0.5)
    hidden = lasting_noise(rng, len(t), (0.06, 0.03, 0), np.exp(-dt * 2 * np.pi * gust)) if gust else None
    density, start = (0.0, 0.0) if gust else (0.004, 0.002), (0.3, -0.2, 0, 0)
    white = 0 if lasting else sigma
    q, *_ = run(_arm_rates(), start, lambda k, _: torque[k], density, (white, white), rng, (len(t), dt, 8), hidden)
    if lasting:
        q = q + lasting_noise(rng, len(t), (sigma, sigma), np.exp(-dt / lasting))
    q = np.where(rng.random(q.shape) < wild, q + 0.1 * rng.standard_t(2, q.shape), q)
    end = np.quantile(np.abs(q[:, 0]), cut)
    signals = {"q1": np.clip(q[:, 0], -end, end), "q2": q[:, 1], "u1": torque[:, 0], "u2": torque[:, 1]}
    p, more = _parameters(ARM, _ARM_FAR), 1 + RandomWalk("heat") if walk else 1
    A, B = (
        Body("A", mass=1.0, inertia=(1e-3, p["J1"], p["J1"])),
        Body("B", mass=p["m2"], inertia=(1e-3,) + (p["J2"],) * 2),
    )
    axes = {"x": (0, 1, 0), "y": (1, 0, 0)}
    dry = {"viscous": p["b1"] * more, "coulomb": p["c1"] * more}
    one = Hinge("j1", GROUND.frame(**_DOWN), A.frame(at=(-0.15, 0, 0), **axes), **dry)
    frames = A.frame(at=(0.15, 0, 0), **axes), B.frame(at=(-0.12, 0, 0), **axes)
    two = Hinge("j2", *frames, viscous=p["b2"], coulomb=p["c2"])
    model = Model([A, B], [one, two], [Motor(one, "u1"), Motor(two, "u2")], gravity=gravity(9.81))
    sensors = [HingeAngle(one, "q1"), HingeAngle(two, "q2")]
    return Problem("arm", model, [Recording(t, signals, name="arm")], sensors, step=0.01), ARM


# --- a motor and a load with a shaft between them, Stribeck friction of the motor ---

DRIVE = {"J_m": 0.01, "J_l": 0.02, "k": 20.0, "d": 0.02, "c": 0.2, "delta": 0.15, "b_l": 0.05}
_DRIVE_FAR = {"J_m": 0.02, "J_l": 0.01, "k": 30.0, "d": 0.01, "c": 0.1, "delta": 0.05, "b_l": 0.02}


class _Bearing(PointLoad):
    """Viscous friction of a body against the ground."""

    def __init__(self, frame: Any, b: Parameter) -> None:
        self.frames, self.signals, self._b = (frame,), (), b

    def torques(self, at: Any, inputs: Any) -> list[Any]:
        return [-self._b * at[0].omega[0] * at[0].x]


@cache
def _drive_rates(width: float) -> ca.Function:
    p = DRIVE

    def forces(q: ca.SX, v: ca.SX, u: ca.SX, w: ca.SX) -> ca.SX:
        dry = (p["c"] + p["delta"] * ca.exp(-4 * v[0] ** 2)) * ca.tanh(v[0] / width)
        shaft = p["k"] * (q[0] - q[1]) + p["d"] * (v[0] - v[1])
        return ca.vertcat(u[0] + w[0] - dry - shaft, shaft - p["b_l"] * v[1] + w[1])

    return lagrange(lambda _, v: (p["J_m"] * v[0] ** 2 + p["J_l"] * v[1] ** 2) / 2, lambda q: 0 * q[0], forces, 2, 1)


def drive(seed: int, near: bool = False, width: float = 5e-3) -> Posed:
    """A drive with two masses, whose friction has this width [rad/s]."""
    rng, dt = np.random.default_rng(seed), 1 / 500
    t = dt * np.arange(2501)
    u = tones(rng, t, (0.3, 0.7, 1.3, 2.9, 5.3, 8.1, 10.7), 0.85)
    rates, density, sigma = _drive_rates(width), (0.004, 0.002), (0.002, 0.002)
    q, *_ = run(rates, (0,) * 4, lambda k, _: u[k : k + 1], density, sigma, rng, (len(t), dt, 10))
    p = _parameters(DRIVE, _DRIVE_FAR, near)
    rotor, load = Body("rotor", mass=1, inertia=(p["J_m"], 1, 1)), Body("load", mass=1, inertia=(p["J_l"], 1, 1))
    motor = Hinge("motor", GROUND.frame(), rotor.frame(), coulomb=p["c"], stribeck=(p["delta"], 4.0))
    shaft = Hinge("shaft", rotor.frame(), load.frame(), stiffness=p["k"], viscous=p["d"])
    bearing = _Bearing(load.frame(), p["b_l"])
    model = Model([rotor, load], [motor, shaft], [Motor(motor, "u")], gravity=gravity(0), loads=[bearing])
    sensors = [HingeAngle(motor, "q_m"), Observation(lambda s: s.angle(motor) + s.angle(shaft), "q_l")]
    recording = Recording(t, {"q_m": q[:, 0], "q_l": q[:, 1], "u": u}, name="drive")
    return Problem("drive", model, [recording], sensors, step=0.005), DRIVE


# --- a ball that rolls on a beam, in closed loop ---

BEAM = {"J_beam": 0.02, "b_beam": 0.05, "J_ball": 4e-6, "b_roll": 0.05}
_BEAM_FAR = {"J_beam": 0.05, "b_beam": 0.02, "J_ball": 8e-6, "b_roll": 0.02}
_BALL, _RADIUS = 0.06, 0.012


@cache
def _beam_rates() -> ca.Function:
    p, m, r = BEAM, _BALL, _RADIUS

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        along, across = v[1] - r * v[0], q[1] * v[0]
        return (m * (along**2 + across**2) + p["J_beam"] * v[0] ** 2 + p["J_ball"] * (v[0] - v[1] / r) ** 2) / 2

    def forces(_: ca.SX, v: ca.SX, u: ca.SX, w: ca.SX) -> ca.SX:
        return ca.vertcat(u[0] + w[0] - p["b_beam"] * v[0], w[1] - p["b_roll"] * v[1])

    height = lambda q: 9.81 * m * (q[1] * ca.sin(q[0]) + r * ca.cos(q[0]))  # noqa: E731
    return lagrange(kinetic, height, forces, 2, 1)


def beam(seed: int, near: bool = False) -> Posed:
    """A ball that rolls on a driven beam and is held by a controller."""
    rng, dt = np.random.default_rng(seed), 0.01
    t = dt * np.arange(801)
    goal = 0.12 * np.sin(2 * np.pi * 0.2 * t + rng.uniform(0, 6)) + 0.06 * np.sin(2 * np.pi * 0.45 * t)
    shaken, before, rate = 0.1 * np.sin(2 * np.pi * 3.1 * t + rng.uniform(0, 6)), np.zeros(2), np.zeros(2)

    def control(k: int, shown: Array) -> Array:
        nonlocal before, rate
        rate = 0.7 * rate + 0.3 * (shown - before) / dt if k else rate
        before = shown
        tilt = np.clip(1.2 * (shown[1] - goal[k]) + 0.8 * rate[1], -0.35, 0.35)
        return np.clip([6 * (tilt - shown[0]) - 0.5 * rate[0] + _BALL * 9.81 * shown[1] + shaken[k]], -3, 3)

    times, density, sigma = (len(t), dt, 20), (0.003, 0.0005), (0.001, 0.002)
    q, u, _ = run(_beam_rates(), (0, 0.05, 0, 0), control, density, sigma, rng, times)
    p = _parameters(BEAM, _BEAM_FAR, near)
    wood, ball = (
        Body("beam", mass=1.0, inertia=(p["J_beam"],) * 3),
        Body("ball", mass=_BALL, inertia=(p["J_ball"],) * 3),
    )
    hinge = Hinge("hinge", GROUND.frame(), wood.frame(), viscous=p["b_beam"])
    slot = PinInSlot("slot", wood.frame(at=(0, 0, _RADIUS)), ball.frame(), viscous=(p["b_roll"], 0), disturbance=None)
    rolls = Coupling("rolls", {(slot, 0): 1 / _RADIUS, (slot, 1): 1})
    model = Model([wood, ball], [hinge, slot], [Motor(hinge, "u")], gravity=gravity(9.81), constraints=[rolls])
    sensors = [HingeAngle(hinge, "angle"), JointPosition(slot, "x", coordinate=0)]
    signals = {"angle": q[:, 0], "x": q[:, 1], "u": u[:, 0]}
    return Problem("beam", model, [Recording(t, signals, name="beam", closed_loop=True)], sensors, step=dt), BEAM


# --- a differential drive with encoders, a gyroscope and perhaps its position ---

ROVER = {"I_z": 0.08, "m": 4.0, "b": 0.02, "c": 0.05, "x_c": 0.03}
_WHEEL, _TRACK, _SPIN = 0.05, 0.3, 4e-4


@cache
def _rover_rates() -> ca.Function:
    """States: turns of the wheels, yaw and position of the axle's centre, rates of the wheels."""
    p, x, u, w = ROVER, ca.SX.sym("x", 7), ca.SX.sym("u", 2), ca.SX.sym("w", 2)
    J = ca.DM([[_WHEEL / 2, _WHEEL / 2], [_WHEEL / _TRACK, -_WHEEL / _TRACK]])
    ahead, turn = ca.vertsplit(J @ x[5:])
    torque = u + w - p["b"] * x[5:] - p["c"] * ca.tanh(x[5:] / 5e-3)
    M = ca.diag(ca.vertcat(p["m"], p["I_z"] + _SPIN + p["m"] * p["x_c"] ** 2))
    inertial = p["m"] * p["x_c"] * ca.vertcat(-(turn**2), ahead * turn)
    rates = ca.solve(J.T @ M @ J + _SPIN * ca.DM.eye(2), torque - J.T @ inertial)
    at = ca.vertcat(ahead * ca.cos(x[2]), ahead * ca.sin(x[2]))
    return ca.Function("rates", [x, u, w], [ca.vertcat(x[5:], turn, at, rates)])


def rover(seed: int) -> Posed:
    """A vehicle with two driven wheels that roll, its mass ahead of the axle."""
    rng, dt = np.random.default_rng(seed), 1 / 200
    t = dt * np.arange(1001)
    held = np.floor(100 * t + 1e-9) / 100
    tau = np.array([tones(rng, held, f, 0.35) for f in ((0.2, 0.5, 0.9, 1.7, 2.9), (0.25, 0.6, 1.1, 1.9, 3.1))]).T
    sigma, times = (0.004, 0.004, 0, 0.005, 0.005), (len(t), dt, 20)
    q, _, x = run(_rover_rates(), (0,) * 7, lambda k, _: tau[k], (0.002, 0.002), sigma, rng, times)
    yaw = _WHEEL / _TRACK * (x[:, 5] - x[:, 6])
    signals = {"right": q[:, 0], "left": q[:, 1], "x": q[:, 3], "y": q[:, 4], "u_right": tau[:, 0]}
    signals["u_left"] = tau[:, 1]
    signals["gyro"] = yaw + 0.01 + 0.02 * np.std(yaw) * rng.normal(size=len(t))
    p = {n: Parameter(n, 0.6 * v, lower=0 if n in "bc" else 1e-3 * v) for n, v in ROVER.items() if n != "x_c"}
    x_c = p["x_c"] = Parameter("x_c", 0.0)
    base = Body("base", mass=p["m"], inertia=(p["I_z"], 1, 1))  # x upwards, y ahead, z to the left
    place = lambda z, **axes: base.frame(at=(0, -x_c, z * _TRACK / 2), **axes)  # noqa: E731
    floor, wheels, motors = Planar("floor", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), place(0)), [], []
    axis, rolls = {"x": (0, 0, 1), "y": (0, 1, 0)}, [Nonholonomic("side", lambda s: _along(s, place(0), 2))]
    for name, z in (("right", -1), ("left", 1)):
        wheel = Body(name, mass=1e-6, inertia=(_SPIN / 2, _SPIN / 2, _SPIN))
        hinge = Hinge(name, place(z, **axis), wheel.frame(**axis), viscous=p["b"], coulomb=p["c"])
        wheels.append((wheel, hinge))
        motors.append(Motor(hinge, f"u_{name}"))
        rolls.append(Nonholonomic(f"{name} rolls", partial(_slip, frame=place(z), hinge=hinge)))
    bodies, hinges = [base, *(wheel for wheel, _ in wheels)], [hinge for _, hinge in wheels]
    model = Model(bodies, [floor, *hinges], motors, gravity=gravity(9.81), constraints=rolls)
    sensors = [HingeAngle(hinge, hinge.name) for hinge in hinges]
    sensors += [JointPosition(floor, name, coordinate=i) for i, name in enumerate("xy")]
    sensors.append(Observation(lambda s: s.angular_velocity(base)[0], "gyro", offset=Parameter("gyro_bias", 0.0)))
    return Problem("rover", model, [Recording(t, signals, name="rover")], sensors, step=0.01), ROVER


def _along(state: Any, frame: Any, axis: int) -> Any:
    return ca.dot(state.velocity(frame), state.axes(frame)[:, axis])


def _slip(state: Any, frame: Any, hinge: Hinge) -> Any:
    return _along(state, frame, 1) - _WHEEL * state.rate(hinge)


# --- a five-bar in closed loop, with dry friction of its passive joints ---

FIVEBAR = {"J_1": 0.004, "J_2": 0.003, "m_tool": 0.15, "b_1": 0.03, "b_2": 0.04, "c_elbow": 0.04, "c_tool": 0.02}
_FIVEBAR_FAR = {"J_1": 0.002, "J_2": 0.002, "m_tool": 0.1, "b_1": 0.01, "b_2": 0.01, "c_elbow": 0.01, "c_tool": 0.01}
_UPPER, _LOWER = 0.3, 0.2
"""Masses of the links [kg]."""


@cache
def _fivebar_rates() -> ca.Function:
    p, apart, upper, lower = FIVEBAR, 0.1, 0.25, np.hypot(0.25, 0.25)
    q, v, u, w = (ca.SX.sym(name, 2) for name in "qvuw")
    left, right = (
        ca.vertcat(side * apart + upper * ca.cos(q[i]), upper * ca.sin(q[i])) for i, side in enumerate((-1, 1))
    )
    gap = right - left
    away = ca.norm_2(gap)
    tool = (left + right) / 2 + ca.sqrt(lower**2 - away**2 / 4) * ca.vertcat(-gap[1], gap[0]) / away
    one, two = (ca.atan2(*reversed(ca.vertsplit(tool - elbow))) for elbow in (left, right))
    feet = ca.DM([-apart, 0]), ca.DM([apart, 0])
    parts = [(_UPPER, (feet[0] + left) / 2, p["J_1"], q[0]), (_UPPER, (feet[1] + right) / 2, p["J_2"], q[1])]
    parts += [(_LOWER, (elbow + tool) / 2, _LOWER * lower**2 / 12, turn) for elbow, turn in ((left, one), (right, two))]
    parts += [(p["m_tool"], tool, 0, q[0])]
    T = sum(m * ca.sumsqr(ca.jacobian(x, q) @ v) / 2 + J * (ca.jacobian(a, q) @ v) ** 2 / 2 for m, x, J, a in parts)
    force = u + w - ca.vertcat(p["b_1"] * v[0], p["b_2"] * v[1])
    for turn, c in ((one - q[0], "c_elbow"), (two - q[1], "c_elbow"), (one - two, "c_tool")):
        row = ca.jacobian(turn, q)
        force -= row.T @ (p[c] * ca.tanh(row @ v / 4e-3))
    impulse = ca.gradient(T, v)
    rest = ca.gradient(T, q) - ca.jacobian(impulse, q) @ v + force
    return ca.Function("rates", [ca.vertcat(q, v), u, w], [ca.vertcat(v, ca.solve(ca.jacobian(impulse, v), rest))])


def fivebar(seed: int) -> Posed:
    """Two driven links whose ends are joined by two rods, moved by a controller."""
    rng, dt = np.random.default_rng(seed), 1 / 200
    t, start = dt * np.arange(1201), np.array([np.arctan2(0.2, -0.15), np.arctan2(0.2, 0.15)])
    phases = rng.uniform(0, 2 * np.pi, (2, 3))
    frequencies, sizes = np.array([[0.4, 1.1, 2.3], [0.5, 1.3, 2.1]]), np.array([0.3, 0.12, 0.05])
    before, rate = np.zeros(2), np.zeros(2)

    def control(k: int, shown: Array) -> Array:
        nonlocal before, rate
        rate = 0.6 * rate + 0.4 * (shown - before) / dt if k else rate
        before = shown
        waves = np.sin(2 * np.pi * frequencies * t[k] + phases) - np.sin(phases) * np.exp(-t[k])
        return np.clip(12 * (start + waves @ sizes - shown) - 0.25 * rate, -6, 6)

    times, density, sigma = (len(t), dt, 20), (0.003, 0.003), (0.002, 0.002)
    q, u, _ = run(_fivebar_rates(), (*start, 0, 0), control, density, sigma, rng, times)
    p = _parameters(FIVEBAR, _FIVEBAR_FAR)
    A, E = planar.Ground("A", (-0.1, 0)), planar.Ground("E", (0.1, 0))
    L, R = planar.Point("left", (-0.25, 0.2)), planar.Point("right", (0.25, 0.2))
    tool = planar.Point("tool", (0, 0.45), mass=p["m_tool"])
    upper = [
        planar.Link(f"upper_{i}", *ends, mass=_UPPER, inertia=p[f"J_{i}"]) for i, ends in ((1, (A, L)), (2, (E, R)))
    ]
    lower = [planar.Link(f"lower_{i}", point, tool, mass=_LOWER) for i, point in ((1, L), (2, R))]
    loads = [planar.Torque(link, f"u_{i}") for i, link in enumerate(upper, 1)]
    loads += [
        planar.PinFriction(at, link, viscous=p[f"b_{i}"])
        for i, (at, link) in enumerate(zip((A, E), upper, strict=True), 1)
    ]
    loads += [planar.PinFriction(at, *two, coulomb=p["c_elbow"]) for at, *two in zip((L, R), lower, upper, strict=True)]
    loads.append(planar.PinFriction(tool, lower[1], lower[0], coulomb=p["c_tool"]))
    angles = [planar.AbsoluteAngle(f"theta_{i}", link) for i, link in enumerate(upper, 1)]
    mechanism = planar.Mechanism([upper[0], lower[0], upper[1], lower[1]], angles, loads, gravity=0)
    sensors = [HingeAngle(mechanism.rigid.hinge(at), signal=f"a_{i}") for i, at in ((1, A), (2, E))]
    signals = {"a_1": q[:, 0], "a_2": q[:, 1], "u_1": u[:, 0], "u_2": u[:, 1]}
    recording = Recording(t, signals, name="five-bar", closed_loop=True)
    return Problem("five-bar", mechanism.model, [recording], sensors, step=0.005), FIVEBAR
