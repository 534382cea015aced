"""What inertial units tell: a pendulum from one alone, a Furuta pendulum from a gyroscope and an encoder.

The twins come from differential equations that are written down here in the angles of the joints.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Gyroscope,
    Hinge,
    HingeAngle,
    JointRate,
    Model,
    Parameter,
    Problem,
    Recording,
    Solution,
    Status,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.mechanics.kinematics import displacements

G, STEP = 9.82, 0.01
GYRO, SPECIFIC = ("gx", "gy", "gz"), ("ax", "ay", "az")


def swing(equations: Any, start: list[float], duration: float) -> tuple[Any, Any, Any]:
    """Times, states (n, N) and their rates."""
    t = np.arange(0, duration, STEP)
    x = solve_ivp(lambda _, s: equations(s), (0, duration), start, t_eval=t, rtol=1e-10, atol=1e-12).y
    return t, x, np.array([equations(s) for s in x.T]).T


def biases(name: str, unit: str) -> list[Parameter]:
    return [Parameter(f"{name}_{axis}", 0.0, unit=unit) for axis in "xyz"]


def assert_within_errors(solution: Solution, truth: dict[str, float], most: float = 3.5) -> None:
    assert solution.status is Status.CONVERGED
    for name, value in truth.items():
        estimate = solution[name]
        assert estimate.std_err > 0
        assert abs(estimate.estimate - value) < most * estimate.std_err, (name, estimate.estimate, estimate.std_err)


# --- a pendulum ---

MASS, LENGTH, OUT = 0.5, 0.2, 0.3
PENDULUM = {"J": 0.005, "b": 0.004}
BIAS = {"g_x": 0.05, "g_y": -0.03, "g_z": 0.02, "a_x": 0.3, "a_y": -0.2, "a_z": 0.1}


def pendulum_recording(start: float, seed: int = 0) -> Recording:
    """A rod that hangs from an axle along the world's y; the unit sits OUT from it, its x axis along the rod."""
    inertia = PENDULUM["J"] + MASS * LENGTH**2

    def equations(s: Any) -> list[float]:
        return [s[1], (-MASS * G * LENGTH * np.sin(s[0]) - PENDULUM["b"] * s[1]) / inertia]

    t, (angle, rate), (_, turning) = swing(equations, [start, 0.0], 4)
    shown = {
        "gx": 0 * t,
        "gy": rate,
        "gz": 0 * t,
        "ax": -OUT * rate**2 - G * np.cos(angle),
        "ay": 0 * t,
        "az": -(OUT * turning + G * np.sin(angle)),
    }
    rng = np.random.default_rng(seed)
    offsets = dict(zip((*GYRO, *SPECIFIC), BIAS.values(), strict=True))
    noise = {name: 0.005 if name in GYRO else 0.05 for name in shown}
    noisy = {n: v + offsets[n] + noise[n] * rng.standard_normal(len(t)) for n, v in shown.items()}
    return Recording(t, {**noisy, "rate": rate, "angle": angle})


def pendulum_model(zero: float = -1.0) -> tuple[Model, Body]:
    """The rod hangs at angle zero, or stands there."""
    J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    rod = Body("rod", mass=MASS, inertia=(1e-4, J, J))
    at_hinge = rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, zero)), at_hinge, viscous=b)
    return Model(bodies=[rod], joints=[hinge], gravity=gravity(G)), rod


def pendulum(start: float, zero: float = -1.0, **settings: Any) -> Problem:
    model, rod = pendulum_model(zero)
    place = rod.frame(at=(OUT - LENGTH, 0, 0))
    unit = [
        Gyroscope(place, GYRO, bias=biases("g", "rad/s")),
        Accelerometer(place, SPECIFIC, bias=biases("a", "m/s^2")),
    ]
    return Problem("imu", model, [pendulum_recording(start)], unit, step=STEP, **settings)


def test_an_inertial_unit_alone_tells_inertia_friction_and_its_biases() -> None:
    solution = pendulum(2.0).solve()
    assert_within_errors(solution, {**PENDULUM, **BIAS})
    assert solution["J"].std_err < 0.002 * PENDULUM["J"]
    poses = solution.trajectories[0].q[:, 0]
    found = displacements(pendulum_model()[0], poses, {"J": 1.0, "b": 1.0})[:, 0]
    np.testing.assert_allclose(np.unwrap(found), pendulum_angle(2.0), atol=1e-3)


@pytest.mark.study
def test_an_accelerometer_alone_tells_them_too() -> None:
    problem = pendulum(1.0)
    solution = problem.with_(observations=problem.observations[1:], estimator="noise").solve()
    assert_within_errors(solution, {**PENDULUM, **{n: v for n, v in BIAS.items() if n.startswith("a")}})
    assert any(finding.code == "step.extrapolated" for finding in solution.findings)  # a step of h adds five errors
    assert solution["J"].std_err < 0.002 * PENDULUM["J"]


def pendulum_angle(start: float) -> Any:
    return pendulum_recording(start).signal("angle")


@pytest.mark.parametrize(
    ("sensors", "zero"),
    [
        ("both", 1.0),
        pytest.param("gyroscope", 1.0, marks=pytest.mark.study),
        pytest.param("accelerometer", 1.0, marks=pytest.mark.study),
        ("rate", -1.0),
    ],
)
def test_states_begin_near_the_motion_without_a_sensor_of_angles(sensors: str, zero: float) -> None:
    problem = pendulum(1.0, zero)
    gyro, force = problem.observations
    rate = JointRate(problem.model.joints[0], "rate", offset=Parameter("drift", 0.0))
    chosen = {"both": [gyro, force], "gyroscope": [gyro], "accelerometer": [force], "rate": [rate]}[sensors]
    (sampled,) = assemble(problem.with_(observations=chosen)).sampled
    expected = pendulum_angle(1.0) + (0 if zero < 0 else np.pi)
    error = np.angle(np.exp(1j * (sampled.guess.displacements[:, 0] - expected)))
    assert np.sqrt(np.mean(error**2)) < 0.15
    assert tuple(f.text for f in sampled.guess.findings) == (
        "Hinge 'hinge' has no angle sensor; its start follows from the others.",
    )


# --- a Furuta pendulum ---

ARM_MASS, ROD_MASS, L_1, L_A, L_2 = 0.238, 0.428, 0.128, 0.248, 0.092
FURUTA = {"J_A": 0.004, "J_B": 0.0015, "b_1": 0.003, "b_2": 4e-4, "g_x": 0.04, "g_y": -0.03, "g_z": 0.02}
ROD_LONG = 1e-4


def furuta_equations(s: Any) -> list[float]:
    """Of the arm's angle about the vertical and the rod's about the arm, by Lagrange."""
    _, angle, w_1, w_2 = s
    sin, cos = np.sin(angle), np.cos(angle)
    across = ROD_MASS * L_2**2 + FURUTA["J_B"] - ROD_LONG
    arm = FURUTA["J_A"] + ARM_MASS * L_1**2 + ROD_MASS * L_A**2 + ROD_LONG
    mass = [[arm + across * sin**2, ROD_MASS * L_A * L_2 * cos], [0, ROD_MASS * L_2**2 + FURUTA["J_B"]]]
    mass[1][0] = mass[0][1]
    efforts = [
        -FURUTA["b_1"] * w_1 - 2 * across * sin * cos * w_1 * w_2 + ROD_MASS * L_A * L_2 * sin * w_2**2,
        -FURUTA["b_2"] * w_2 + across * sin * cos * w_1**2 - ROD_MASS * G * L_2 * sin,
    ]
    return [w_1, w_2, *np.linalg.solve(mass, efforts)]


@cache
def furuta_problem() -> Problem:
    """An encoder on the arm; on the rod, whose x axis is along it and y along its axle, a gyroscope."""
    t, (turn, angle, w_1, w_2), _ = swing(furuta_equations, [0.0, 2.0, 0.0, 0.0], 4)
    rng = np.random.default_rng(1)
    rates = {"gx": -np.cos(angle) * w_1, "gy": w_2, "gz": -np.sin(angle) * w_1}
    signals = {n: r + FURUTA[f"g_{n[1]}"] + 0.005 * rng.standard_normal(len(t)) for n, r in rates.items()}
    recording = Recording(t, {**signals, "turn": turn + 1e-3 * rng.standard_normal(len(t)), "angle": angle})
    p = {n: Parameter(n, g, lower=1e-7) for n, g in {"J_A": 0.01, "J_B": 0.005, "b_1": 1e-3, "b_2": 1e-3}.items()}
    arm = Body("arm", mass=ARM_MASS, inertia=(1e-4, 0.003, p["J_A"]))
    rod = Body("rod", mass=ROD_MASS, inertia=(ROD_LONG, p["J_B"], p["J_B"]))
    up = {"x": (0, 0, 1), "y": (1, 0, 0)}
    shoulder = Hinge("shoulder", GROUND.frame(**up), arm.frame(at=(-L_1, 0, 0), **up), viscous=p["b_1"])
    axle = arm.frame(at=(L_A - L_1, 0, 0), x=(1, 0, 0), y=(0, 0, -1))
    elbow = Hinge("elbow", axle, rod.frame(at=(-L_2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=p["b_2"])
    model = Model(bodies=[arm, rod], joints=[shoulder, elbow], gravity=gravity(G))
    sensors = [HingeAngle(shoulder, "turn"), Gyroscope(rod.frame(), GYRO, bias=biases("g", "rad/s"))]
    return Problem("furuta", model, [recording], sensors, step=STEP)


@pytest.mark.study
def test_an_encoder_on_the_arm_and_a_gyroscope_on_the_rod_tell_a_furuta_pendulum() -> None:
    problem = furuta_problem()
    solution = problem.solve()
    assert_within_errors(solution, FURUTA)
    assert solution["J_B"].std_err < 0.01 * FURUTA["J_B"]
