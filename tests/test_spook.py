"""The SPOOK step: hand derivations, what its residuals say about its own motion, and their derivatives everywhere."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms import (
    DOWN,
    Array,
    G,
    OneStep,
    chain,
    free_body,
    furuta,
    hub,
    joint_state,
    pendulum,
    random_state,
    retract,
    skew_body,
)

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Spook, Status, gravity

H = 0.01
J = 0.002
"""Inertia of the hub about its axle [kg m²]."""


def state(model: Model, angles: object, rates: object) -> Array:
    return np.concatenate(joint_state(model, angles, rates))


def hub_rate(model: Model, rate: float, angle: float = 0.0, u: object = (), **settings: float) -> float:
    """Slip rate of a hub after one step."""
    step = OneStep(model, h=H, **settings)
    return float(step.forward(state(model, [angle], [rate]), u)[7:][4])


# --- bodies ---


def test_a_free_body_falls_by_h_g_in_a_step():
    step = OneStep(free_body(), h=H)
    rng = np.random.default_rng(0)
    x = np.concatenate(random_state(step.model, rng))
    after = step.forward(x)
    np.testing.assert_allclose(after[7:10], x[7:10] - [0, 0, H * G], atol=1e-15)
    np.testing.assert_allclose(after[:3], x[:3] + H * after[7:10], atol=1e-15)
    inertia, omega = np.diag([0.01, 0.02, 0.025]), x[10:]
    expected = omega - H * np.linalg.solve(inertia, np.cross(omega, inertia @ omega))
    np.testing.assert_allclose(after[10:], expected, atol=1e-14)


def test_a_pendulum_at_rest_hangs_by_its_compliance():
    # The hinge's origin on the rod, r_b, sags below the ground's, r_a, by ε times the weight; λ = h m g carries it.
    model = pendulum(mass=0.5, compliance=(1e-4, 1e-3))
    x = state(model, [0], [0])
    x[2] -= 1e-4 * 0.5 * G
    step = OneStep(model, h=H)
    after = step.forward(x)
    np.testing.assert_allclose(after, x, atol=1e-15)
    np.testing.assert_allclose(step.multipliers(x, after), [0, 0, -H * 0.5 * G, 0, 0], atol=1e-14)


def test_a_released_pendulum_settles_at_its_sag():
    model = pendulum(mass=0.5, compliance=1e-4)
    step = OneStep(model, h=H)
    x = state(model, [0], [0])
    for _ in range(100):
        x = step.forward(x)
    assert x[2] == pytest.approx(-0.2 - 1e-4 * 0.5 * G, abs=1e-12)


def test_a_direction_row_yields_by_its_own_compliance():
    # The centre of mass hangs 0.1 m beside the hinge along the axle: the torque m g a about x turns it by ε m g a.
    wheel = Body("wheel", mass=1.0, inertia=(0.003, J, 0.004))
    hinge = Hinge("h", GROUND.frame(**DOWN), wheel.frame(at=(0, 0.1, 0), **DOWN), compliance=(0.0, 1e-3), viscous=1)
    model = Model(bodies=[wheel], joints=[hinge], gravity=gravity(G))
    step, x = OneStep(model, h=H), state(model, [0], [0])
    for _ in range(200):
        x = step.forward(x)
    assert 2 * x[4] == pytest.approx(1e-3 * 1.0 * G * 0.1, rel=1e-3)


# --- residuals of its own motion ---


@pytest.mark.parametrize("build", [free_body, pendulum, furuta, skew_body, chain])
def test_a_simulated_step_leaves_no_velocity_residual(build):
    model = build()
    step = OneStep(model, h=H)
    rng = np.random.default_rng(1)
    n, bodies = len(model.joints), len(model.bodies)
    x = state(model, rng.uniform(-3, 3, n), rng.normal(size=n)) if n else np.concatenate(random_state(model, rng))
    for _ in range(5):
        after = step.forward(x)
        residual = step.residual(x, after)
        momentum = np.abs(residual[: 6 * bodies]).max() + np.abs(x[7 * bodies :]).max()
        np.testing.assert_allclose(residual[6 * bodies :], 0, atol=1e-12 * momentum)
        x = after


def test_the_position_residual_of_a_spinning_body_is_that_of_the_small_angle_formula():
    # q₊ ⊟ q = sin(h ω) instead of h ω: Δp_q = J (sin(h ω)/h − ω).
    step = OneStep(free_body(inertia=(0.01, 0.02, 0.025)), h=H)
    x = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20.0, 0])
    residual = step.residual(x, step.forward(x))
    np.testing.assert_allclose(residual[4], 0.02 * (np.sin(H * 20) / H - 20), rtol=1e-10)
    np.testing.assert_allclose(np.delete(residual, 4), 0, atol=1e-13)


def test_the_position_residual_is_of_second_order_in_the_step():
    model, errors = chain(compliance=1e-2), []
    for h in (1e-3, 5e-4, 2.5e-4):
        step = OneStep(model, h=h)
        x = state(model, [0.5, -1, 2, 1, -0.3], [3, -2, 4, 1, 5])
        errors.append(np.linalg.norm(step.residual(x, step.forward(x))[:30]))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 2, atol=0.1)


def test_residuals_are_weighted():
    rng = np.random.default_rng(2)
    x, after = (np.concatenate(random_state(pendulum(), rng)) for _ in range(2))
    plain, heavy = (OneStep(pendulum(), h=H, weight=weight) for weight in (1, 400))
    np.testing.assert_allclose(heavy.residual(x, after), 20 * plain.residual(x, after), rtol=1e-12)
    np.testing.assert_allclose(heavy.initial(x), 20 * plain.initial(x), rtol=1e-12)


def test_the_initial_state_costs_what_leaves_the_surface():
    model = chain()
    step = OneStep(model, h=H)
    x = state(model, [0.5, -1, 2, 1, -0.3], [3, -2, 4, 1, 5])
    np.testing.assert_allclose(step.initial(x), 0, atol=1e-9)
    assert np.abs(step.initial(retract(model.state, x, np.full(60, 1e-3)))).min() > 1e-6


def test_the_initial_residual_by_hand():
    # A hub whose centre is off by d along z: Δq₀ = −G⁺ g = the way back −d z, seen through m + 1/Σ.
    model = hub(compliance=1e-4, damping=0.02, mass=2.0)
    x = state(model, [0], [0])
    x[2], x[7] = 1e-3, 0.5
    sigma = 4 / H**2 * 1e-4 / (1 + 4 * 0.02 / H)
    expected = np.zeros(12)
    expected[2], expected[6] = -(2.0 + 1 / sigma) * 1e-3 / H, (2.0 + 1 / sigma) * 0.5
    np.testing.assert_allclose(OneStep(model, h=H).initial(x), expected, atol=1e-12)


# --- along the axle: each law by hand ---


@pytest.mark.parametrize("rate", [3.0, -2.0])
@pytest.mark.parametrize("angle", [0.3, -2.5])
@pytest.mark.parametrize(
    ("laws", "torque"),
    [
        ({"viscous": 0.03}, lambda s, after, angle: -0.03 * after),
        ({"drag": 0.05}, lambda s, after, angle: -0.05 * after * abs(after)),
        ({"stiffness": 0.04}, lambda s, after, angle: -0.04 * angle),
        ({"stiffness": 0.04, "rest_angle": 0.7}, lambda s, after, angle: -0.04 * (angle - 0.7)),
        ({"coulomb": 0.05}, lambda s, after, angle: -0.05 * np.sign(s)),
        (
            {"coulomb": 0.01, "stribeck": (0.02, 0.8)},
            lambda s, after, angle: -(0.01 + 0.02 * np.exp(-0.8 * s**2)) * np.sign(s),
        ),
        ({"motor": {"gain": 0.1}}, lambda s, after, angle: 0.1 * 0.4),
        ({"motor": {"gain": 0.1, "shaft_inertia": 5e-4}}, lambda s, after, angle: 0.1 * 0.4 - 5e-4 * (after - s) / H),
        (
            {"viscous": 0.01, "coulomb": 0.02, "stiffness": 0.03, "motor": {"gain": 0.5}},
            lambda s, after, angle: -0.01 * after - 0.02 * np.sign(s) - 0.03 * angle + 0.5 * 0.4,
        ),
    ],
)
def test_torques_about_the_axle(laws, torque, angle, rate):
    after = hub_rate(hub(inertia=J, **laws), rate, angle, u=[0.4] if "motor" in laws else ())
    assert J * (after - rate) == pytest.approx(H * torque(rate, after, angle), abs=1e-14)


def test_shaft_inertia_adds_to_the_bodys():
    with_shaft = furuta(motor={"gain": 1.0, "shaft_inertia": 1e-3}, inertias=(0.003, 0.004, 0.004))
    heavier = furuta(motor={"gain": 1.0}, inertias=(0.004, 0.004, 0.004))
    x = state(heavier, [0.3, 2.0], [1.0, -2.0])
    # Along the axle only: the first joint's rates agree, and with them everything.
    one, other = (OneStep(m, h=H).forward(x, [0.2]) for m in (with_shaft, heavier))
    np.testing.assert_allclose(one, other, atol=2e-6)
    assert np.abs(one - OneStep(furuta(motor={}), h=H).forward(x, [0.2])).max() > 1e-3


def test_dry_friction_bears_the_load():
    # λ = (0, 0, −h m g, 0, 0) at the sag; the other four rows count the width of |λ| each.
    model, mu, width = hub(inertia=J, mass=3.0, g=G, dry=0.002, compliance=1e-4), 0.002, 1e-5
    step = OneStep(model, h=H, impulse_width=width)
    x = state(model, [0], [1.0])
    x[2] -= 1e-4 * 3.0 * G
    bound = mu * (np.sqrt((H * 3.0 * G) ** 2 + width**2) + 4 * width)
    assert step.forward(x)[11] == pytest.approx(1.0 - bound / J, abs=1e-9)


def test_stribeck_adds_to_the_load_dependent_law():
    laws = {"dry": 0.002, "stribeck": (0.003, 0.5)}
    same = hub(inertia=J, mass=3.0, g=G, dry=0.002 + 0.003 * np.exp(-0.5 * 4))
    assert hub_rate(hub(inertia=J, mass=3.0, g=G, **laws), 2.0) == pytest.approx(hub_rate(same, 2.0), abs=1e-12)


# --- smooth dry friction against the exact law ---


@cache
def sticky(width: float) -> OneStep:
    return OneStep(hub(inertia=J, coulomb=0.02), h=H, slip_width=width)


@given(st.floats(-0.2, 0.2), st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_smooth_friction_tends_to_the_exact_law(rate, width):
    """s₊ = s − clip(s, ±l) with l = h c/J, up to w artanh(s/l) if it sticks, 2 l exp(−2 (s − l)/w) if not."""
    limit = H * 0.02 / J
    exact = rate - np.clip(rate, -limit, limit)
    after = sticky(width).forward(np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, rate, 0]))[11]
    error = abs(after - exact)
    at_the_edge = width * (1 + np.log(1 + limit / width))
    share = min(abs(rate) / limit, 1 - 1e-16)
    bound = width * np.arctanh(share) if abs(rate) < limit else 2 * limit * np.exp(-2 * (abs(rate) - limit) / width)
    assert error <= min(bound, at_the_edge) + 1e-12


def test_deterministic_dynamics_give_back_what_its_own_steps_simulated():
    inertia, viscous = Parameter("J", 0.006, lower=1e-5), Parameter("b", 0.002, lower=0)
    model = pendulum(inertia=inertia, viscous=viscous)
    sensors = [HingeAngle(model.joints[0], signal="angle", sigma=1e-3)]
    problem = Problem("swing", model, [], sensors, stepper=Spook(), step=0.01, state_weight=math.inf)
    truth = {"J": 0.005, "b": 0.004}
    solution = problem.solve(recordings=[problem.simulate(truth, duration=1.0, initial={"hinge": 1.0})])
    for name, value in truth.items():
        assert solution[name].estimate == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("compliance", [1e-8, 1e-12])
def test_stiff_joints_have_the_minimum_of_rigid_ones(compliance):
    """With eliminated multipliers normal equations had no digits left, and fits ended far from their minimum."""
    inertia, viscous = Parameter("J", 0.01, lower=1e-5), Parameter("b", 1e-3, lower=0)

    def swing(softness: float, stepper: Spook) -> Problem:
        soft = {"compliance": softness, "damping": 0.02}
        model = furuta(inertias=(inertia, 0.004, 0.004), shoulder={"viscous": viscous, **soft}, elbow=soft)
        sensors = [HingeAngle(hinge, signal=hinge.name, sigma=1.0) for hinge in model.joints]
        return Problem("swing", model, [], sensors, stepper=stepper, step=0.01, state_weight=100.0, every=1)

    rigid = swing(0.0, Spook(multipliers="lifted"))
    start = dict.fromkeys((joint.name for joint in rigid.model.joints), 1.0)
    run = rigid.simulate({"J": 0.003, "b": 2e-3}, duration=2.0, initial=start, substeps=1)
    rng = np.random.default_rng(0)
    noisy = Recording(run.t, {name: x + 1e-3 * rng.standard_normal(len(x)) for name, x in run.signals.items()})
    limit, found = (one.solve(recordings=[noisy]) for one in (rigid, swing(compliance, Spook())))
    assert found.status is Status.CONVERGED
    assert found.cost.total == pytest.approx(limit.cost.total, rel=0.01)
    for name in ("J", "b"):
        assert abs(found[name].estimate - limit[name].estimate) < 0.05 * limit[name].std_err
