"""Whether answers with deterministic dynamics have honest errors where a random force acts: twins of a driven mass on a
spring, integrated exactly, without this package."""

from __future__ import annotations

from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    JointPosition,
    Model,
    Motor,
    Orientation,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Solution,
    Spherical,
    load_problem,
)

STEP, COUNT, STIFFNESS = 0.01, 2000, 40.0
TRUTH = {"m": 2.0, "b": 1.0}


def recorded(
    seed: int, force: float, noise: float, lasting: float = 0.0, late: int = 0, tones: tuple[float, ...] = ()
) -> Recording:
    """A force of 40 random levels, or of tones [Hz], so many samples late, and a white random force [N/√Hz]; errors of
    the sensor [m] that last so long [s]."""
    rng, t = np.random.default_rng(seed), STEP * np.arange(COUNT)
    if tones:
        f = np.sin(2 * np.pi * np.outer(t, tones) + rng.uniform(0, 2 * np.pi, len(tones))).sum(axis=1)
    else:
        f = np.repeat(rng.uniform(-3, 3, 40), COUNT // 40)
    rates = np.array([[0, 1, 0], [-STIFFNESS / TRUTH["m"], -TRUTH["b"] / TRUTH["m"], 1 / TRUTH["m"]], [0, 0, 0]])
    fine = expm(rates * STEP / 8)
    x, motion = np.zeros(2), np.zeros(COUNT)
    for k in range(COUNT):
        motion[k] = x[0]
        for kick in rng.normal(0.0, force * np.sqrt(STEP / 8) / TRUTH["m"], 8):
            x = fine[:2, :2] @ x + fine[:2, 2] * f[max(k - late, 0)] + np.array([0.0, kick])
    kept = np.exp(-STEP / lasting) if lasting else 0.0
    error = noise * rng.normal(size=COUNT)
    for k in range(1, COUNT):
        error[k] = kept * error[k - 1] + np.sqrt(1 - kept**2) * error[k]
    return Recording(t, {"f": f, "x": motion + error}, name="twin")


def solved(recording: Recording, **settings: str) -> Solution:
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    car = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), car.frame(), viscous=b, stiffness=STIFFNESS)
    # The force is constant from one sample to the next.
    model = Model([car], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    return Problem("car", model, [recording], [JointPosition(slide, "x")], step=STEP).solve(**settings)


def offs(solution: Solution) -> list[float]:
    return [abs(solution[name].estimate - value) / solution[name].std_err for name, value in TRUTH.items()]


@pytest.mark.parametrize("lasting", [0.02, 0.05])
def test_errors_cover_where_a_random_force_acts_and_the_sensor_errs_for_long(lasting: float) -> None:
    solutions = [solved(recorded(seed, 0.02, 1e-3, lasting)) for seed in range(8)]
    far = np.array([offs(solution) for solution in solutions])
    assert np.sum(far > 1.96) <= 3  # of 16: more by accident in one of 300
    assert np.max(far) < 3.5


def test_correlated_noise_without_a_random_force_is_recognized_and_sharper_than_white_noise() -> None:
    recording = recorded(0, 0.0, 1e-3, 0.05)
    chosen, noisy = solved(recording), solved(recording, estimator="noise")
    assert chosen.choice is not None
    assert chosen.choice.correlation_times["x"] == pytest.approx(0.05, rel=0.2)
    assert max(offs(chosen)) < 3
    for name in TRUTH:
        assert chosen[name].std_err < noisy[name].std_err / 1.5


@pytest.mark.parametrize("noise", [1e-3, 5e-3])
def test_correlated_noise_is_recognized_where_residuals_predict_a_smooth_input(noise: float) -> None:
    """White noise in place of it lets the motion follow the sensor, as if a controller did."""
    chosen = solved(recorded(0, 0.02, noise, 0.02, tones=(0.3, 0.7, 1.1, 1.9, 2.7)))
    assert chosen.choice is not None
    assert chosen.choice.correlation_times["x"] == pytest.approx(0.02, rel=0.5)
    assert "residuals.autocorrelated" not in {finding.code for finding in chosen.findings}
    assert max(offs(chosen)) < 3


def test_errors_of_chosen_deterministic_dynamics_include_process_noise() -> None:
    problem = load_problem(Path(__file__).parents[1] / "problems" / "pendulum.py")
    chosen = problem.solve()
    assert chosen.choice is not None
    assert chosen.choice.is_hard
    assert "effect of process noise" in " ".join(chosen.summary().split())
    asked = problem.solve(estimator="hard")
    assert "effect of process noise" not in " ".join(asked.summary().split())
    assert asked["J"].std_err < chosen["J"].std_err


def test_errors_of_deterministic_dynamics_are_not_taken_for_sharper_in_white_noise() -> None:
    """Simulations in which random forces leave little are as rare as they are many: the errors have to say so."""
    for seed in range(4):
        solution = solved(recorded(seed, 0.02, 1e-4))
        assert solution.choice is not None
        assert not solution.choice.is_hard
        assert max(offs(solution)) < 3.5


INERTIA, DAMPING = np.array([[0.02, 0.002, -0.003], [0.002, 0.03, 0.001], [-0.003, 0.001, 0.04]]), 0.01


def turning(seed: int, torque: float, sigma: float) -> Recording:
    """A driven body in a ball joint with white random torques [N m/√Hz], and its orientation with noise [rad]."""
    rng, dt, fine = np.random.default_rng(seed), 0.01, 20
    t = dt * np.arange(1001)
    phases = rng.uniform(0, 2 * np.pi, (3, 4, 1))
    u = 0.075 * np.sin(2 * np.pi * np.array([[0.2], [0.5], [0.9], [1.7]]) * t + phases).sum(axis=1)
    at, rate, shown = Rotation.identity(), rng.normal(size=3), []
    for k in range(len(t)):
        shown.append((at * Rotation.from_rotvec(sigma * rng.normal(size=3))).as_quat(scalar_first=True))
        given = u[:, k] + torque / np.sqrt(dt) * rng.normal(size=3)
        for _ in range(fine):
            half = rate + dt / fine / 2 * _acceleration(rate, given)
            at = at * Rotation.from_rotvec(dt / fine * half)
            rate = rate + dt / fine * _acceleration(half, given)
    signals = {f"q{i}": column for i, column in enumerate(np.array(shown).T)} | {f"u{i}": u[i] for i in range(3)}
    return Recording(t, signals, name="turning")


def _acceleration(rate: np.ndarray, torque: np.ndarray) -> np.ndarray:
    return np.linalg.solve(INERTIA, torque - DAMPING * rate - np.cross(rate, INERTIA @ rate))


def test_a_quaternion_has_noise_in_three_directions_and_a_random_torque_is_no_sensor_noise() -> None:
    names = ("J_xx", "J_yy", "J_zz", "J_xy", "J_xz", "J_yz")
    J = [Parameter(n, 0.03, lower=1e-5) if n[2] == n[3] else Parameter(n, 0.0) for n in names]
    truth = {n: float(INERTIA["xyz".index(n[2]), "xyz".index(n[3])]) for n in names} | {"b": DAMPING}
    matrix = ca.vertcat(ca.horzcat(J[0], J[3], J[4]), ca.horzcat(J[3], J[1], J[5]), ca.horzcat(J[4], J[5], J[2]))
    body = Body("body", mass=1.0, inertia=matrix)
    ball = Spherical("ball", GROUND.frame(), body.frame(), viscous=Parameter("b", 0.005, lower=0))
    motors = [Motor(ball, f"u{i}", coordinate=i) for i in range(3)]
    model, sensor = (
        Model([body], [ball], motors, gravity=(0, 0, 0)),
        Orientation(body.frame(), ("q0", "q1", "q2", "q3"), sigma=2e-3),
    )
    far = []
    for seed in range(4):
        solution = Problem("body", model, [turning(seed, 3e-5, 2e-3)], [sensor], step=0.01).solve()
        assert solution.choice is not None
        assert not solution.choice.is_hard
        far += [abs(solution[name].estimate - value) / solution[name].std_err for name, value in truth.items()]
    assert np.max(far) < 4
    assert np.sum(np.array(far) > 1.96) <= 6  # of 28: more by accident in one of 500


def test_an_input_that_acts_late_is_not_taken_for_a_closed_loop() -> None:
    for seed in range(3):
        solution = solved(recorded(seed, 0.02, 1e-4, late=3))
        assert solution.choice is not None
        assert "closed loop" not in solution.choice.reason
