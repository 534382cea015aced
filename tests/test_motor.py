"""Motors with gears, rotors and windings: against their equations, and against the same written by hand."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import DOWN, pendulum
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Effort,
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
    Spook,
    Variational,
    gravity,
)

J, K, R, RATIO, ROTOR, SHAFT, OFFSET = 0.02, 0.05, 1.6, 30.0, 2e-5, 3e-3, 0.2
T = np.arange(201) * 0.01
INPUT = Recording(T, {"u": 3 * np.sign(np.sin(1.7 * T * (1 + 0.4 * T)))})
GEARED = {"ratio": RATIO, "rotor_inertia": ROTOR, "shaft_inertia": SHAFT}


def driven(motor: dict[str, Any], **settings: Any) -> Problem:
    """A balanced wheel with viscous friction of its own."""
    loads = settings.pop("loads", {"viscous": 0.1})
    body = Body("wheel", mass=1.0, inertia=(1, J, 1))
    pin = Hinge("pin", GROUND.frame(**DOWN), body.frame(**DOWN), compliance=1e-9, **loads)
    model = Model([body], [pin], motors=[Motor(pin, "u", **motor)], gravity=gravity(0))
    return Problem("driven", model, observations=[HingeAngle(pin, "theta")], **{"step": 0.01, **settings})


def angle(problem: Problem, **settings: Any) -> np.ndarray:
    run = problem.simulate(settings.pop("truth", {}), 2.0, {"pin": (0.1, 1.0)}, inputs=INPUT, **settings)
    return np.asarray(np.unwrap(run.signals["theta"]))


def exact(gain: float, damping: float, inertia: float) -> np.ndarray:
    """θ of inertia s' = gain u + offset − damping s, u held."""
    states = [np.array([0.1, 1.0])]
    for u in INPUT.signals["u"][:-1]:
        force = gain * u + OFFSET

        def rate(_: float, state: np.ndarray, force: float = force) -> list[float]:
            return [state[1], (force - damping * state[1]) / inertia]

        states.append(solve_ivp(rate, (0, 0.01), states[-1], rtol=1e-9, atol=1e-11).y[:, -1])
    return np.array(states)[:, 0]


INERTIA = J + SHAFT + RATIO**2 * ROTOR
SOURCES: dict[str, tuple[dict[str, Any], float, float]] = {
    "torque": ({"gain": 0.04}, RATIO * 0.04, 0.1),
    "current": ({"torque_constant": K}, RATIO * K, 0.1),
    "voltage": ({"torque_constant": K, "resistance": R}, RATIO * K / R, 0.1 + RATIO**2 * K**2 / R),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_geared_motor_turns_as_by_hand(source):
    given, gain, damping = SOURCES[source]
    run = angle(driven({**given, **GEARED, "offset": OFFSET}))
    np.testing.assert_allclose(run, exact(gain, damping, INERTIA), atol=1e-5)


@pytest.mark.parametrize("stepper", [Spook(), Variational()], ids=["spook", "variational"])
@pytest.mark.parametrize("source", SOURCES)
def test_it_is_what_gain_and_viscous_friction_say(stepper, source):
    given, gain, damping = SOURCES[source]
    motor = driven({**given, **GEARED, "offset": OFFSET}, stepper=stepper)
    plain = {"gain": gain, "shaft_inertia": SHAFT + RATIO**2 * ROTOR}
    by_hand = driven(plain, stepper=stepper, loads={"viscous": damping, "loads": [Effort(OFFSET)]})
    np.testing.assert_allclose(angle(motor, substeps=1), angle(by_hand, substeps=1), atol=1e-11)


def test_constant_and_resistance_are_identified_and_shown():
    """Both, for the back-EMF has another share of them than the torque; written by hand the fit is the same."""
    k, resistance = Parameter("k", 0.02, lower=1e-4), Parameter("R", 1.0, lower=1e-2)
    free = driven({"torque_constant": k, "resistance": resistance, **GEARED})
    theta = angle(free, truth={"k": K, "R": R})
    seen = Recording(T, {**INPUT.signals, "theta": theta + 1e-3 * np.random.default_rng(0).normal(size=len(T))})
    solution = free.solve(recordings=[seen])
    assert solution.status.value == "converged"
    for name, truth in (("k", K), ("R", R)):
        assert 0 < solution[name].std_err < 0.05 * truth
        assert abs(solution[name].estimate - truth) < 4 * solution[name].std_err + 0.002 * truth
    plain = {"gain": RATIO * k / resistance, "shaft_inertia": SHAFT + RATIO**2 * ROTOR}
    by_hand = driven(plain, loads={"viscous": 0.1 + (RATIO * k) ** 2 / resistance}).solve(recordings=[seen])
    assert by_hand["k"].estimate == pytest.approx(solution["k"].estimate, rel=1e-5)
    assert by_hand.log_likelihood == pytest.approx(solution.log_likelihood, abs=1e-3)
    quantities = {q.name: (q.value, q.unit) for q in solution.mechanism.motors[0].quantities}
    assert quantities["ratio"] == (RATIO, "rad/rad")
    assert quantities["torque constant"] == (pytest.approx(solution["k"].estimate, rel=1e-4), "N m/A")
    assert "gain" not in quantities


def test_a_screw_drives_a_slide():
    """Its ratio is 2π over the lead: a torque of the motor becomes a force, its rotor a mass."""
    ratio = 2 * math.pi / 0.02
    body = Body("carriage", mass=5.0, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), body.frame())
    motor = Motor(slide, "u", gain=0.1, ratio=ratio, rotor_inertia=1e-4)
    model = Model([body], [slide], motors=[motor], gravity=gravity(9.82))
    problem = Problem("screw", model, observations=[JointPosition(slide, "x")], step=0.01)
    run = problem.simulate({}, 1.0, inputs=Recording(T, {"u": np.ones(len(T))}))
    acceleration = ratio * 0.1 / (5.0 + ratio**2 * 1e-4)
    np.testing.assert_allclose(run.signals["x"], acceleration * run.t**2 / 2, atol=1e-6)


def test_mistakes_are_told():
    pin = pendulum().joints[0]
    for given, complaint in (
        ({"gain": 1, "torque_constant": 0.1}, "Motor has gain and torque_constant; give gain for a torque, or"),
        ({"resistance": 1}, "Motor has a resistance and no torque_constant; give both for a voltage"),
        ({"gain": 1, "resistance": 1}, "Motor has a resistance and no torque_constant"),
        ({"torque_constant": 1, "resistance": 0}, "Motor: resistance is 0; give what it is"),
        ({"torque_constant": 1, "resistance": -1}, "Motor: resistance is -1; it must not be negative"),
        ({"ratio": 0}, "Motor: ratio is 0; give what it is"),
        ({"rotor_inertia": -1}, "Motor: rotor_inertia is -1; it must not be negative"),
        ({"measured": "yes"}, "Motor of 'u': measured is 'yes'; give True or False"),
        ({"offset": "some"}, "Motor: offset must be a number or an expression of Parameters"),
    ):
        with pytest.raises(ProblemError, match=rf"test_motor\.py:\d+: {complaint}"):
            Motor(pin, "u", **given)


LAG = 0.03


def lagging(seed: int) -> Recording:
    """The wheel under 0.5 times a lagged input, by an independent integrator, with white noise of the encoder."""
    t = np.arange(0, 6, 0.01)
    u = 3 * np.sign(np.sin(1.7 * t * (1 + 0.4 * t)))
    states = [np.array([u[0], 0.1, 1.0])]
    for held in u[:-1]:

        def rate(_: float, x: np.ndarray, held: float = held) -> list[float]:
            return [(held - x[0]) / LAG, x[2], (0.5 * x[0] - 0.1 * x[2]) / J]

        states.append(solve_ivp(rate, (0, 0.01), states[-1], rtol=1e-10, atol=1e-12).y[:, -1])
    theta = np.array(states)[:, 1] + 1e-3 * np.random.default_rng(seed).normal(size=len(t))
    return Recording(t, {"u": u, "theta": theta}, name="lagging")


def test_a_lag_of_the_input_is_found() -> None:
    gain, lag = Parameter("K", 0.4), Parameter("lag", 0.01, lower=0, unit="s")
    problem = driven({"gain": gain, "lag": lag}).with_(recordings=[lagging(0)])
    solution = problem.solve()
    for name, truth in (("K", 0.5), ("lag", LAG)):
        assert abs(solution[name].estimate - truth) < 4.5 * solution[name].std_err, solution[name]
        assert solution[name].std_err < 0.02 * truth


def test_simulations_have_the_lag() -> None:
    recording = lagging(0)
    problem = driven({"gain": 0.5, "lag": LAG}).with_(recordings=[recording])
    simulated = problem.simulate({}, initial={"pin": (0.1, 1.0)})
    assert np.allclose(simulated.signals["theta"], recording.signals["theta"], atol=6e-3)


POWER = 1.6


def curved(seed: int, lag: float = 0.0) -> Recording:
    """The wheel under 0.3 u |u|^0.6, u by steps and lagged, by an independent integrator, with noise of the encoder."""
    t = np.arange(0, 6, 0.01)
    u = np.repeat(np.random.default_rng(seed).uniform(-3, 3, 60), 10)
    states = [np.array([u[0], 0.1, 0.0])]
    for held in u[:-1]:

        def rate(_: float, x: np.ndarray, held: float = held) -> list[float]:
            level = x[0] if lag else held
            drive = 0.3 * np.sign(level) * abs(level) ** POWER
            return [(held - x[0]) / lag if lag else 0.0, x[2], (drive + OFFSET - 0.1 * x[2]) / J]

        states.append(solve_ivp(rate, (0, 0.01), states[-1], rtol=1e-10, atol=1e-12).y[:, -1])
    theta = np.array(states)[:, 1] + 1e-3 * np.random.default_rng(seed).normal(size=len(t))
    return Recording(t, {"u": u, "theta": theta}, name="curved")


def powered(gain: Any, power: Any, **more: Any) -> dict[str, Any]:
    return {"effort": lambda u: gain * ca.sign(u) * ca.fabs(u) ** power, "offset": OFFSET, **more}


def test_a_power_law_of_the_input_is_found() -> None:
    gain, power = Parameter("K", 0.5, lower=0), Parameter("n", 1.0, lower=0.1)
    for friction in ("smooth", "exact"):
        problem = driven(powered(gain, power), friction=friction).with_(recordings=[curved(0)])
        solution = problem.solve()
        for name, truth in (("K", 0.3), ("n", POWER)):
            assert abs(solution[name].estimate - truth) < 4.5 * solution[name].std_err < 4.5 * 0.01 * truth


@pytest.mark.parametrize("lag", [0.0, LAG])
def test_simulations_have_the_law(lag: float) -> None:
    recording = curved(1, lag)
    problem = driven(powered(0.3, POWER, lag=lag)).with_(recordings=[recording])
    simulated = problem.simulate({}, initial={"pin": (0.1, 0.0)})
    assert np.allclose(simulated.signals["theta"], recording.signals["theta"], atol=8e-3)


def test_a_function_of_the_input_stands_alone() -> None:
    pin = driven({}).model.joints[0]
    for given in ({"gain": 1}, {"measured": True}, {"rotor_inertia": 1}, {"torque_constant": 1}):
        with pytest.raises(ProblemError, match=r"test_motor\.py:\d+: Motor has effort, with which gain"):
            Motor(pin, "u", effort=lambda u: u, **given)
    with pytest.raises(ProblemError, match="effort returns 2 values"):
        driven({"effort": lambda u: ca.vertcat(u, u)})
