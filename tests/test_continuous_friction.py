"""The smooth law of friction (56): that it dissipates, its slopes, motion as by hand, and what a fit of it tells."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import DOWN, function
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    ContinuousFriction,
    Cylindrical,
    Fourier,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Solution,
    gravity,
)

NAMES = ("stiction", "stribeck_velocity", "breakaway_velocity", "coulomb", "coulomb_velocity", "viscous")
LAW = dict(zip(NAMES, (0.3, 0.4, 0.05, 0.2, 0.1, 0.02), strict=True))


def published(v: Any, stiction: Any, v_s: Any, v_b: Any, coulomb: Any, v_c: Any, viscous: Any) -> Any:
    """τ_f of (56), against the motion, with γ₂ ≥ γ₁."""
    g_0, g_1, g_2, g_3, g_4, g_5 = stiction, 1 / v_s, 1 / v_s + 1 / v_b, coulomb, 1 / v_c, viscous
    return -g_0 * (np.tanh(g_1 * v) - np.tanh(g_2 * v)) + g_3 * np.tanh(g_4 * v) + g_5 * v


def evaluated(rate: Any, values: Any) -> tuple[Any, Any, Any]:
    """Effort at rates (n,) with the six values, (6, n); its slopes along the rate and along the values."""
    s, p = ca.SX.sym("s"), ca.SX.sym("p", 6)
    law = ContinuousFriction(**dict(zip(NAMES, ca.vertsplit(p), strict=True)))
    effort = law.effort(ca.SX(0.3), s, ca.SX(0, 1))
    along = ca.Function("law", [s, p], [effort, ca.jacobian(effort, s), ca.jacobian(effort, p)])
    found = along(np.atleast_2d(rate), values)
    return found[0].full()[0], found[1].full()[0], found[2].full().reshape(-1, 6)


def test_it_is_the_published_law_and_dissipates_whatever_its_values():
    rng = np.random.default_rng(0)
    values = np.exp(rng.uniform(-9, 7, (6, 20_000)))
    rates = rng.choice([-1, 1], 20_000) * np.exp(rng.uniform(-20, 7, 20_000))
    effort, slope, _ = evaluated(rates, values)
    assert np.all(effort * rates <= 0)
    assert np.all(np.isfinite(slope))
    terms = published(rates, *values)
    np.testing.assert_allclose(-effort, terms, rtol=1e-9, atol=1e-12 * values.max())


@pytest.mark.parametrize("rate", [0.0, 1e-5, -0.03, 0.4, 5.0])
def test_slopes_are_differences(rate):
    values, eps = np.array(list(LAW.values())), 1e-6
    _, slope, slopes = evaluated(rate, values)
    ahead, behind = (evaluated(rate + s * eps, values)[0] for s in (1, -1))
    assert slope[0] == pytest.approx((ahead[0] - behind[0]) / (2 * eps), rel=1e-6)
    for i in range(6):
        moved = [evaluated(rate, values + s * eps * np.eye(6)[i])[0][0] for s in (1, -1)]
        assert slopes[0, i] == pytest.approx((moved[0] - moved[1]) / (2 * eps), abs=1e-7)
    if rate == 0:
        s, _, v_b, c, v_c, b = values  # −γ₀γ₁ + γ₀γ₂ + γ₃γ₄ + γ₅
        assert slope[0] == pytest.approx(-(s / v_b + c / v_c + b))


def test_parts_may_be_left_out_and_each_coordinate_has_its_own():
    sleeve = Cylindrical(
        "sleeve",
        GROUND.frame(),
        Body("rod", mass=1, inertia=(1, 1, 1)).frame(),
        loads=[ContinuousFriction(coulomb=(2.0, 0.1), coulomb_velocity=(0.01, 0.2), viscous=(0, 0.3))],
    )
    x, s = ca.SX.sym("x", 2), ca.SX.sym("s", 2)
    at = function([sleeve.effort(x, s, {}, ca.SX([1, 1]))], [x, s])
    expected = [-2 * np.tanh(0.02 / 0.01), 0.1 * np.tanh(0.1 / 0.2) + 0.3 * 0.1]
    np.testing.assert_allclose(at([0, 0], [0.02, -0.1])[0], expected)
    assert sleeve.rubbing == (False, False)
    rough = ContinuousFriction(coulomb=Fourier({1: (0.1, 0)}, mean=0.3), breakaway_velocity=0.1)
    assert function([rough.effort(x[0], s[0], ca.SX(0, 1))], [x, s])([0.5, 0], [9, 0])[0] == pytest.approx(
        -0.3 - 0.1 * np.cos(0.5)
    )


def test_motion_is_that_by_hand():
    """m a = F sin 6t + τ_f(v), through standstills."""
    size, push, t = 0.05, 0.7, np.arange(71) * 0.01
    body = Body("body", mass=size, inertia=(size, size, size))
    joint = Prismatic("joint", GROUND.frame(), body.frame(), loads=[ContinuousFriction(**LAW)])
    model = Model([body], [joint], motors=[Motor(joint, "u")], gravity=gravity(0))
    problem = Problem("one", model, observations=[JointPosition(joint, "x")], step=0.01)
    inputs = Recording(t, {"u": push * np.sin(6 * t)})
    run = problem.simulate({}, 0.7, {"joint": (0.1, -0.5)}, inputs=inputs)
    states = [np.array([0.1, -0.5])]
    for u in inputs.signals["u"][:-1]:
        rate = lambda _, x, u=u: [x[1], (u - published(x[1], *LAW.values())) / size]  # noqa: E731
        states.append(solve_ivp(rate, (0, 0.01), states[-1], rtol=1e-9, atol=1e-11, method="LSODA").y[:, -1])
    states = np.array(states)
    assert np.min(np.abs(states[1:, 1])) < 0.02
    np.testing.assert_allclose(run.signals["x"], states[:, 0], atol=2e-5)


# --- fits ---

ARM = {"J_1": 0.012, "J_2": 0.004} | {
    f"{name}_{i}": value
    for i, values in enumerate([(0.3, 0.5, 0.5, 0.15), (0.12, 0.4, 0.2, 0.05)], start=1)
    for name, value in zip(("sigma", "v_s", "c", "b"), values, strict=True)
}


def arm() -> Model:
    """Two links that hang, each hinge with the law."""
    P = {name: Parameter(name, 1.3 * value, lower=1e-3 if name[:2] == "v_" else 0) for name, value in ARM.items()}
    upper = Body("upper", mass=1.0, inertia=(0.01, P["J_1"], 0.01))
    lower = Body("lower", mass=0.6, inertia=(0.005, P["J_2"], 0.005))
    laws = [
        ContinuousFriction(
            stiction=P[f"sigma_{i}"],
            stribeck_velocity=P[f"v_s_{i}"],
            breakaway_velocity=0.05,
            coulomb=P[f"c_{i}"],
            viscous=P[f"b_{i}"],
        )
        for i in (1, 2)
    ]
    shoulder = Hinge("shoulder", GROUND.frame(**DOWN), upper.frame(at=(0, 0, 0.15), **DOWN), loads=[laws[0]])
    tip, top = upper.frame(at=(0, 0, -0.15), **DOWN), lower.frame(at=(0, 0, 0.12), **DOWN)
    elbow = Hinge("elbow", tip, top, loads=[laws[1]])
    motors = [Motor(shoulder, "u_1"), Motor(elbow, "u_2")]
    return Model([upper, lower], [shoulder, elbow], motors=motors, gravity=gravity(9.81))


def fitted(model: Model, truth: dict[str, float], inputs: Recording, start: dict[str, float]) -> Solution:
    """A fit of what the model itself does in the fit's steps, seen with noise of 0.1 mrad."""
    rng, seen = np.random.default_rng(0), [HingeAngle(joint, f"q_{joint.name}") for joint in model.joints]
    problem = Problem("arm", model, observations=seen, step=0.01, step_correction=False)
    made = problem.simulate(truth, inputs.t[-1], start, inputs=inputs, substeps=1)
    noisy = {o.signal: made.signals[o.signal] + 1e-4 * rng.normal(size=len(inputs.t)) for o in seen}
    return problem.solve(recordings=[made.with_signals(**noisy)])


def test_an_arm_with_two_such_joints_is_identified():
    t = np.arange(301) * 0.01
    pushes = {"u_1": 2.2 * np.sin(1.3 * t) + 1.5 * np.sin(3.1 * t + 1) + 0.8 * np.sin(7 * t)}
    pushes["u_2"] = 0.6 * np.sin(1.9 * t + 2) + 0.4 * np.sin(4.3 * t) + 0.2 * np.sin(9 * t)
    solution = fitted(arm(), ARM, Recording(t, pushes), {"shoulder": 0.2, "elbow": -0.3})
    assert solution.status.value == "converged"
    for name, value in ARM.items():
        found = solution[name]
        assert abs(found.estimate - value) < 3.5 * found.std_err, (name, found)
        assert found.std_err < 0.25 * value, (name, found)
    quantities = {q.name: (q.value, q.unit) for q in solution.mechanism.hinges[1].quantities}
    assert quantities["stiction"] == (solution["sigma_2"].estimate, "N m")
    assert quantities["stribeck velocity"] == (solution["v_s_2"].estimate, "rad/s")
    assert "coulomb velocity" not in quantities


def test_what_cannot_be_told_apart_is_told():
    """Damping stands in the law and in the joint: the data see their sum."""
    one, other = (Parameter(name, 0.02, lower=0, unit="N m s") for name in ("b_law", "b_joint"))
    body, law = Body("wheel", mass=1, inertia=(0.01, 0.01, 0.01)), {**LAW, "viscous": one}
    pin = Hinge("pin", GROUND.frame(), body.frame(), viscous=other, loads=[ContinuousFriction(**law)])
    model, t = Model([body], [pin], motors=[Motor(pin, "u")], gravity=gravity(0)), np.arange(121) * 0.01
    pushed = Recording(t, {"u": 0.9 * np.sin(5 * t)})
    solution = fitted(model, {"b_law": 0.03, "b_joint": 0.06}, pushed, {"pin": 0.1})
    assert any(set(weak.direction) == {"b_law", "b_joint"} for weak in solution.sensitivities.weak)
    assert np.isnan(solution["b_law"].std_err)
    assert solution["b_law"].reason
    total = solution(one + other)
    assert abs(total.estimate - 0.09) < 3.5 * total.std_err < 0.01


# --- declaration ---


def test_mistakes_are_told():
    whole = dict(stiction=1, stribeck_velocity=0.1, breakaway_velocity=0.1)
    for given, words in (
        (dict(stiction=-1), "stiction is -1"),
        (dict(stiction=1), "has no stribeck_velocity"),
        (dict(coulomb=1), "has no coulomb_velocity"),
        (whole | dict(breakaway_velocity=0), "breakaway_velocity is 0"),
        (whole | dict(breakaway_velocity=-0.1), "breakaway_velocity is -0.1"),
        (whole | dict(stiction=Parameter("s", 1)), "'s', whose bounds let it create energy; give it lower=0"),
        (whole | dict(stribeck_velocity=Parameter("v", 1, lower=0)), "'v', whose .* a positive bound"),
        (whole | dict(stribeck_velocity=Fourier({1: (0, 1)}, mean=2)), "does not vary with the position"),
    ):
        with pytest.raises(ProblemError, match=words):
            ContinuousFriction(**given)


@pytest.mark.study
def test_a_fit_leaves_a_minimum_without_stiction():
    """From guesses off by a factor of two, where a fit takes what friction does near rest for disturbance."""
    truth = {"sigma": 0.1, "v_s": 0.3, "v_b": 0.05, "c": 0.08, "b": 0.03, "J": 0.01}
    guess = {"sigma": 0.05, "v_s": 0.5, "v_b": 0.1, "c": 0.05, "b": 0.02, "J": 0.02}
    P = {name: Parameter(name, value, lower=1e-3 if name[0] in "vJ" else 0) for name, value in guess.items()}
    wheel = Body("wheel", mass=1.0, inertia=(P["J"],) * 3)
    law = ContinuousFriction(
        stiction=P["sigma"], stribeck_velocity=P["v_s"], breakaway_velocity=P["v_b"], coulomb=P["c"], viscous=P["b"]
    )
    axle = Hinge("axle", GROUND.frame(), wheel.frame(), loads=[law])
    model = Model([wheel], [axle], [Motor(axle, "u")], gravity=gravity(0))
    problem = Problem("wheel", model, observations=[HingeAngle(axle, "q")], step=0.01, step_correction=False)
    t = np.arange(0, 5, 0.01)
    pushed = Recording(t, {"u": 0.25 * np.sin(1.3 * t) + 0.1 * np.sin(5 * t)})
    noise = {"axle": 5e-4, "q": 1e-4}
    made = problem.simulate(truth, t[-1], {"axle": 0.0}, inputs=pushed, noise=noise, seed=0, substeps=1)
    seen = problem.with_(recordings=[made])
    found, best = seen.solve(), seen.solve(initial=truth)
    assert found.status.value == "converged"
    assert found.log_likelihood == pytest.approx(best.log_likelihood, abs=1e-2)
    for name, value in truth.items():
        assert abs(found[name].estimate - value) < 3.5 * found[name].std_err, name
        assert found[name].initial == guess[name]
