"""The variational step: energy, second order against exact motion, hard dynamics; and lifted multipliers beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from mechanisms import Array, G, furuta, hub, maximal, mechanics, pendulum, twin
from scipy.integrate import solve_ivp

from spookid import (
    HingeAngle,
    Model,
    Observation,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    Solution,
    Spook,
    Status,
    Variational,
)

J, M, L = 0.005, 0.5, 0.2
"""The pendulum's inertia [kg m²], mass [kg] and distance to its hinge [m]."""
M_A, L_1, L_A, M_B, L_2 = 0.238, 0.128, 0.248, 0.428, 0.092
"""The Furuta pendulum's masses [kg] and lengths [m] (Table G.5)."""
TRUTH = {"J_A": 0.003, "J_B": 0.004, "b": 1e-3}
"""Inertias [kg m²] and the friction of the shoulder [N m s] of a twin."""
VISCOUS = {"shoulder": {"viscous": 1e-3}, "elbow": {"viscous": 1e-4}}
LIFTED = Spook(multipliers="lifted")


def problem(model: Model, step: float = 0.01, **settings: Any) -> Problem:
    """Every hinge's angle observed under the hinge's name; variational unless told otherwise."""
    observations = [HingeAngle(joint, signal=joint.name) for joint in model.joints]
    settings = {"observations": observations, "stepper": Variational(), **settings}
    return Problem("run", model=model, step=step, **settings)


def orders(errors: list[float]) -> Array:
    """Slopes of errors at h, h/2, h/4 ... in log h."""
    return np.log2(np.divide(errors[:-1], errors[1:]))


# --- exact motion in minimal coordinates ---


def swing(_: float, x: Array) -> Array:
    """(θ̇, θ̈) of the pendulum with viscous friction b = 0.004 N m s."""
    return np.array([x[1], (-M * G * L * np.sin(x[0]) - 0.004 * x[1]) / (J + M * L**2)])


def whirl(_: float, x: Array) -> Array:
    """(φ̇, θ̇, φ̈, θ̈) of the Furuta pendulum of ``furuta(**VISCOUS)``, from Lagrange's equations.

    The rod's centre of mass is at l_A r + l_2 (sin θ t − cos θ z), r and t along and across the arm; the rod turns with
    φ̇ z + θ̇ r, in its own axes (−φ̇ cos θ, θ̇, −φ̇ sin θ). Hence T = ½ a φ̇² + b φ̇ θ̇ + ½ c θ̇² and U = −m_B g l_2 cos θ.
    """
    _, theta, fast, rate = x
    sin, cos = np.sin(theta), np.cos(theta)
    swept = 0.004 + M_B * L_2**2 - 1e-4
    a = 0.003 + M_A * L_1**2 + M_B * L_A**2 + 1e-4 + swept * sin**2
    b, c = M_B * L_A * L_2 * cos, 0.004 + M_B * L_2**2
    turning = M_B * L_A * L_2 * sin * rate**2 - 2 * swept * sin * cos * fast * rate - 1e-3 * fast
    swinging = swept * sin * cos * fast**2 - M_B * G * L_2 * sin - 1e-4 * rate
    return np.array([fast, rate, *np.linalg.solve([[a, b], [b, c]], [turning, swinging])])


@cache
def exact(motion: Callable[[float, Array], Array], start: tuple[float, ...], duration: float) -> Array:
    """Angles and rates every 5 ms, (N, 2 n)."""
    t = np.linspace(0, duration, round(duration / 0.005) + 1)
    return solve_ivp(motion, (0, duration), start, "DOP853", t_eval=t, rtol=1e-12, atol=1e-13).y.T


def rates(model: Model, run: Recording) -> Array:
    """Slip rates along a simulation, (N, n_j) [rad/s]."""
    return np.array(
        [mechanics(model, q.ravel(), v.ravel()).slip @ v.ravel() for q, v in zip(run.q, run.v, strict=True)]
    )


CASES = {
    "pendulum": (lambda: pendulum(viscous=0.004), swing, (2.0, 1.0)),
    "furuta": (lambda: furuta(**VISCOUS), whirl, (0.3, 2.0, 1.5, -1.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_motion_and_velocities_are_of_second_order(case):
    build, motion, start = CASES[case]
    model, n = build(), len(start) // 2
    truth, errors = exact(motion, start, 1.5), {"angle": [], "rate": []}
    initial = {joint.name: (start[j], start[n + j]) for j, joint in enumerate(model.joints)}
    for every in (4, 2, 1):
        run = problem(model, 0.005 * every).simulate(duration=1.5, initial=initial, substeps=1)
        angles = np.column_stack([run.signals[joint.name] for joint in model.joints])
        errors["angle"].append(np.abs(angles - truth[::every, :n]).max())
        errors["rate"].append(np.abs(rates(model, run) - truth[::every, n:]).max())
    assert errors["angle"][0] < 0.05
    assert min(orders(errors["angle"])) > 1.9
    assert min(orders(errors["rate"])) > 1.9


# --- torques act at the midpoint ---


def test_torques_act_at_the_midpoint_velocity():
    h, inertia, shaft, width = 0.01, 0.002, 5e-4, 0.3
    hinge = {"viscous": 0.003, "drag": 0.002, "coulomb": 0.01, "stiffness": 0.05, "rest_angle": 0.4}
    wheel = hub(inertia=inertia, g=G, motor={"gain": 0.2, "shaft_inertia": shaft}, **hinge)
    u = np.array([1.0, -0.5, 0.3, 0.3, -0.8, 0.2])
    inputs = Recording(t=h * np.arange(6), signals={"u": u})
    run = problem(wheel, h, friction_width=width).simulate(
        duration=0.05, initial={"hinge": (0.7, 1.2)}, inputs=inputs, substeps=1
    )
    theta = run.signals["hinge"]
    side = np.concatenate([[1.2], np.diff(theta) / h])
    # The first step has half the interval, and no input before it.
    share, mean = np.array([0.5, 1, 1, 1, 1]), np.concatenate([u[:1], (u[:-2] + u[1:-1]) / 2])
    before = np.concatenate([[2 * side[0] - side[1]], side[1:-1]])
    middle = (side[1:] + before) / 2
    torque = 0.2 * mean - 0.05 * (theta[:-1] - 0.4) - 0.003 * middle - 0.002 * middle * abs(middle)
    mean_sign = np.log(np.cosh(side[1:] / width) / np.cosh(before / width)) / (side[1:] - before)
    torque -= 0.01 * width * mean_sign
    np.testing.assert_allclose((inertia + shaft) * np.diff(side), share * h * torque, atol=1e-15, rtol=1e-11)


# --- identification ---


def inertias() -> tuple[Parameter, Parameter]:
    """J_Azz and J_Byy = J_Bzz, guessed wrong by a third and more."""
    return Parameter("J_A", 0.005, lower=1e-6), Parameter("J_B", 0.0025, lower=1e-6)


def release(
    step: float, *, duration: float = 1.5, hinge: dict[str, object] | None = None, **settings: object
) -> Solution:
    """Fit of the inertias to exact motion of the Furuta pendulum."""
    j_a, j_b = inertias()
    sides = {name: {**side, **(hinge or {})} for name, side in VISCOUS.items()}
    truth = exact(whirl, (0.3, 2.0, 1.5, -1.0), max(duration, 1.5))[: round(duration / 0.005) + 1]
    signals = {"shoulder": truth[:, 0], "elbow": truth[:, 1]}
    recording = Recording(t=0.005 * np.arange(len(truth)), signals=signals)
    return problem(furuta(inertias=(j_a, j_b, j_b), **sides), step, recordings=[recording], **settings).solve()


def test_errors_of_inertias_fall_with_the_square_of_the_step():
    solutions = [release(step, state_weight=1e6) for step in (0.02, 0.01, 0.005)]
    assert all(s.status is Status.CONVERGED for s in solutions)
    for name, truth in (("J_A", 0.003), ("J_B", 0.004)):
        errors = [abs(s[name].estimate / truth - 1) for s in solutions]
        assert errors[-1] < 0.003
        assert min(orders(errors)) > 1.8


def test_rounding_of_hard_rows_is_no_obstacle():
    """It is more than the last steps promise."""
    assert release(0.005, duration=6.0, state_weight=np.inf).status is Status.CONVERGED


def own_twin(state_weight: float, noise: float = 0.0) -> Solution:
    """Fit of three parameters to motion that the stepper made itself."""
    j_a, j_b = inertias()
    model = maximal(furuta(inertias=(j_a, j_b, j_b), shoulder={"viscous": Parameter("b", 1e-4, lower=0)}))
    settings = {"stepper": Variational(), "state_weight": state_weight, "noise": noise}
    return twin(model, TRUTH, initial={"elbow": 2.0}, duration=1.0, **settings).solve()


def test_hard_dynamics_recover_the_truth():
    solution = own_twin(np.inf)
    assert solution.values == pytest.approx(TRUTH, rel=1e-6)
    assert np.nanmax(np.abs(solution.trajectories[0].impulse_residual)) < 1e-9
    assert solution.cost.state == 0


def test_a_fit_without_noise_ends():
    solution = own_twin(1e4)
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= 10


def test_hard_dynamics_are_the_limit_of_soft_ones():
    hard, soft = own_twin(np.inf, noise=1e-3), own_twin(1e8, noise=1e-3)
    assert hard.status is soft.status is Status.CONVERGED
    assert np.nanmax(np.abs(hard.trajectories[0].impulse_residual)) < 1e-9
    for name, estimate in hard.parameters.items():
        assert abs(estimate.estimate - TRUTH[name]) < 3 * estimate.std_err
        assert soft[name].estimate == pytest.approx(estimate.estimate, rel=1e-4)
        assert soft[name].std_err == pytest.approx(estimate.std_err, rel=0.02)


def test_ignored_compliance_is_noticed():
    def notices(compliance: float) -> tuple[str, ...]:
        model = pendulum(inertia=Parameter("J", 0.006, lower=1e-6), compliance=compliance)
        settings = {"initial": {"hinge": 1.0}, "duration": 0.3, "noise": 1e-3, "stepper": Variational()}
        return twin(model, {"J": J}, **settings).solve().notices

    assert notices(0.0) == notices(1e-4) == ()  # which is what nobody has given
    (notice,) = notices(2e-4)
    assert "compliance" in notice
    assert "hinge" in notice


# --- lifted multipliers ---


def test_lifted_and_eliminated_multipliers_move_alike():
    model = furuta(shoulder={"viscous": 1e-3, "dry": 1e-3})
    runs = [problem(model, stepper=s).simulate(duration=0.5, initial={"elbow": 2.0}) for s in (Spook(), LIFTED)]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)
    np.testing.assert_array_equal(runs[0].v, runs[1].v)


@pytest.mark.parametrize("state_weight", [pytest.param(1e2, marks=pytest.mark.study), 1e5])
def test_lifted_and_eliminated_multipliers_give_one_answer(state_weight):
    settings = {"duration": 1.0, "hinge": {"compliance": 1e-4, "damping": 0.02}, "state_weight": state_weight}
    fits = [release(0.01, stepper=stepper, **settings) for stepper in (Spook(), LIFTED)]
    assert all(s.status is Status.CONVERGED for s in fits)
    assert fits[1].cost.total == pytest.approx(fits[0].cost.total, rel=1e-2)
    assert fits[1].values == pytest.approx(fits[0].values, rel=1e-3)
    known = [s.sensitivities.factor.T @ s.sensitivities.factor for s in fits]
    np.testing.assert_allclose(known[1], known[0], rtol=0.02, atol=1e-3 * known[0].max())


@pytest.mark.study
def test_lifted_estimates_do_not_depend_on_the_compliance():
    fits = [
        release(0.01, duration=1.0, hinge={"compliance": compliance}, stepper=LIFTED, state_weight=100.0)
        for compliance in (1e-8, 0)
    ]
    assert all(s.status is Status.CONVERGED for s in fits)
    assert fits[0].values == pytest.approx(fits[1].values, rel=1e-3)


# --- sensors ---


@pytest.mark.parametrize("stepper", [Spook(), Variational()], ids=lambda s: s.name)
@pytest.mark.parametrize("sensors", ["rate", "point"])
def test_rates_and_points_are_observed(stepper, sensors):
    b = Parameter("b", 1e-3, lower=0)
    model = pendulum(viscous=b)
    (hinge,), tip = model.joints, model.bodies[0].frame(at=(0.1, 0, 0))
    points = [PointPosition(tip, "x", signal="x"), PointPosition(tip, "z", signal="z")]
    # The angle has next to no weight: it is there for the initial guess, which rates alone do not give.
    rate = [HingeAngle(hinge, signal="angle", sigma=100.0), Observation(lambda s: s.rate(hinge), "rate", unit="rad/s")]
    observations = rate if sensors == "rate" else points
    swinging = problem(model, stepper=stepper, observations=observations, state_weight=1e4)
    clean = swinging.simulate({"b": 0.004}, duration=2.0, initial={"hinge": 1.2}, substeps=1)
    rng = np.random.default_rng(1)
    noisy = {o.signal: clean.signals[o.signal] + rng.normal(0, 1e-3, len(clean.t)) for o in observations}
    solution = swinging.with_(recordings=[clean.with_signals(**noisy)]).solve()
    assert solution.status is Status.CONVERGED
    assert solution["b"].estimate == pytest.approx(0.004, rel=0.02)
    motion = solution.trajectories[0]
    assert np.sqrt(np.mean((motion.predicted - motion.observed)[1:-1, -1] ** 2)) < 1.2e-3


def test_a_length_in_a_sensor_is_a_parameter():
    reach = Parameter("reach", 0.2)
    model = pendulum(viscous=0.004)
    tip = model.bodies[0].frame(at=(reach, 0, 0))
    height = Observation(lambda s: s.position(tip)[2], "z")
    swinging = problem(model, observations=[HingeAngle(model.joints[0], signal="hinge"), height])
    recording = swinging.simulate({"reach": 0.13}, duration=1.0, initial={"hinge": 1.2}, substeps=1)
    np.testing.assert_allclose(recording.signals["z"], -0.33 * np.cos(recording.signals["hinge"]), atol=1e-12)
    assert swinging.with_(recordings=[recording], step_correction=False).solve()["reach"].estimate == pytest.approx(
        0.13, abs=1e-6
    )
