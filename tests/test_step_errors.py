"""What the time step adds to the estimates, against the motion with steps that are forty times finer."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from mechanisms import free_body, furuta, pendulum, twin
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from solutions import difference

from spookid import (
    HingeAngle,
    Model,
    Motor,
    Observation,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    Solution,
    Spook,
    Status,
    Variational,
    load,
    load_problem,
)
from spookid.studies import audit

FINE, STEP = 2.5e-4, 0.01
TRUTH = {"J": 0.005, "b": 0.004}
FURUTA = {"J_Azz": 0.003, "J_Byy": 0.004, "b_1": 5e-3, "b_2": 1e-3}


def swing(noise: float = 0.0, compliance: float = 1e-5, step: float = STEP, **settings: Any) -> Problem:
    """A pendulum that was released, nearly as it moves without steps."""
    problem = released(compliance)
    (clean,) = problem.recordings
    theta = clean.signals["hinge"] + noise * np.random.default_rng(0).normal(size=len(clean.t))
    return problem.with_(step=step, recordings=[clean.with_signals(hinge=theta)], **{"every": 1, **settings})


@cache
def released(compliance: float) -> Problem:
    """The same, with the steps that it was simulated with."""
    J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    model = pendulum(inertia=J, viscous=b, compliance=compliance, damping=0.02)
    start = {"hinge": 1.5}
    return twin(model, TRUTH, initial=start, duration=2.0, step=FINE, stepper=Variational())


def whirl(step: float = STEP, **settings: Any) -> Problem:
    """A Furuta pendulum with a motor, nearly as it moves without steps."""
    return driven().with_(step=step, **{"every": 1, **settings})


@cache
def driven() -> Problem:
    """The same, with the steps that it was simulated with."""
    J_Azz, J_Byy = (Parameter(name, 0.005, lower=1e-7, unit="kg m^2") for name in ("J_Azz", "J_Byy"))
    b_1, b_2, K = (Parameter(name, 1e-3, lower=0) for name in ("b_1", "b_2", "K"))
    model = furuta(
        inertias=(J_Azz, J_Byy, 0.004),
        shoulder={"viscous": b_1},
        elbow={"viscous": b_2},
        motor={"gain": K, "shaft_inertia": 1e-4},
    )
    t = np.arange(12001) * FINE
    drive = Recording(t, {"u": np.sin(5 * t) + np.cos(2 * t)})
    truth = {**FURUTA, "K": 0.1}
    start = {"shoulder": 0.0, "elbow": 2.0}
    return twin(model, truth, initial=start, duration=3.0, inputs=drive, step=FINE, stepper=Variational())


def off(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """By how much the estimates are off in fact, and by what is told, relative to the truth."""
    assert solution.status is Status.CONVERGED
    truth = TRUTH if "J" in solution.parameters else {**FURUTA, "K": 0.1}
    values = np.array(list(truth.values()))
    found = np.array([solution[name].estimate for name in truth])
    return found / values - 1, np.array([solution[name].step_error for name in truth]) / values


# --- the second order ---


@pytest.mark.parametrize(
    ("coordinates", "weight", "expected"),
    [("joint", 100.0, 1.35e-3), ("joint", 1e4, 1.35e-3), ("joint", math.inf, 1.35e-3), ("maximal", 1e4, 4.6e-3)],
)
def test_a_variational_step(coordinates: Literal["joint", "maximal"], weight: float, expected: float) -> None:
    problem = swing(stepper=Variational(), state_weight=weight)
    fact, told = off(problem.solve(model=replace(problem.model, coordinates=coordinates)))
    assert fact[0] == pytest.approx(expected, rel=0.1)
    np.testing.assert_allclose(told, fact, rtol=0.02, atol=1e-5)


@pytest.mark.parametrize(("coordinates", "weight"), [("joint", 1e4), ("joint", math.inf), ("maximal", 1e4)])
def test_inputs_that_change_within_a_step(coordinates: Literal["joint", "maximal"], weight: float) -> None:
    """The step takes their means over it."""
    problem = whirl(stepper=Variational(), state_weight=weight)
    fact, told = off(problem.solve(model=replace(problem.model, coordinates=coordinates)))
    np.testing.assert_allclose(told, fact, rtol=0.02, atol=3e-4)
    assert 0 < fact[0] < 0.016  # of which the inputs make nothing


MOTOR = {"J": 0.005, "K": 0.1}


@cache
def held(every: float | str) -> Problem:
    """A pendulum whose motor's input is held from sample to sample, seen at these and every 10 ms."""
    J, K = Parameter("J", 0.004, lower=1e-6), Parameter("K", 0.05)
    swung = pendulum(inertia=J, viscous=0.004, compliance=1e-6, damping=0.02)
    model = Model(swung.bodies, swung.joints, [Motor(swung.joints[0], signal="u", gain=K)], gravity=swung.gravity)
    t, jitter = np.arange(12001) * FINE, np.random.default_rng(0).uniform(0, 1e-3, 299)
    samples = np.append(0.0, np.arange(1, 300) * STEP + jitter) if every == "jitter" else np.arange(0, 3.0, every)
    u = 3 * np.sin(8 * samples) + 2 * np.cos(5 * samples)
    inputs = Recording(t, {"u": u[np.searchsorted(samples, t + 1e-9, side="right") - 1]})
    start = {"hinge": 0.0}
    fine = twin(model, MOTOR, initial=start, duration=3.0, inputs=inputs, step=FINE, stepper=Variational())
    both = np.union1d(samples, t[::40])
    theta = np.interp(both, t, fine.recordings[0].signals["hinge"])
    last = u[np.searchsorted(samples, both, side="right") - 1]
    return fine.with_(recordings=[Recording(both, {"hinge": theta, "u": last})], step=STEP, state_weight=1e4)


@pytest.mark.study
@pytest.mark.parametrize(
    ("stepper", "close", "every"),
    [(Variational(), 0.05, 0.015), (Variational(), 0.05, "jitter"), (Spook(), 0.4, 0.015)],
)
def test_inputs_that_change_at_any_time(stepper: Spook | Variational, close: float, every: float | str) -> None:
    solution = held(every).solve(stepper=stepper)
    for name, value in MOTOR.items():
        fact = solution[name].estimate - value
        assert solution[name].step_error == pytest.approx(fact, rel=close, abs=2e-3 * value)


def test_a_sensor_of_velocities() -> None:
    problem = swing(stepper=Variational(), state_weight=10.0)
    hinge, (recording,) = problem.model.joints[0], problem.recordings
    theta = recording.signals["hinge"]
    seen = Recording(recording.t, {"hinge": theta, "rate": np.gradient(theta, FINE)})
    sensors = [HingeAngle(hinge, signal="hinge"), Observation(lambda s: s.rate(hinge), "rate", sigma=0.1)]
    fact, told = off(problem.with_(recordings=[seen], observations=sensors).solve())
    np.testing.assert_allclose(told, fact, rtol=0.01, atol=1e-4)


def tumbling() -> Problem:
    """A free body that turns about all its axes, seen by three of its points; no steps are in it."""
    J1, J2 = Parameter("J1", 0.012, lower=1e-6), Parameter("J2", 0.018, lower=1e-6)
    model, moments = free_body(inertia=(J1, J2, 0.025)), np.array([0.01, 0.02, 0.025])

    def rates(_: float, x: np.ndarray) -> np.ndarray:
        s, v, w = x[0], x[1:4], x[4:]
        return np.concatenate([[-v @ w / 2], (s * w + np.cross(v, w)) / 2, -np.cross(w, moments * w) / moments])

    t = np.arange(151) * STEP
    x = solve_ivp(rates, (0, t[-1]), [1, 0, 0, 0, 2, 6, 1.5], t_eval=t, rtol=1e-11, atol=1e-12).y.T
    turned = Rotation.from_quat(x[:, :4], scalar_first=True)
    centre = np.outer(t, [0.1, 0, 2]) - np.outer(t**2, [0, 0, 4.91])
    sensors, signals = [], {}
    for name, at in (("a", (0.1, 0, 0)), ("b", (0, 0.1, 0)), ("c", (0, 0, 0.1))):
        seen = centre + turned.apply(np.array(at))
        for i, axis in enumerate("xyz"):
            sensors.append(PointPosition(model.bodies[0].frame(at=at), axis, signal=name + axis))
            signals[name + axis] = seen[:, i]
    return Problem("tumbling", model, [Recording(t, signals)], sensors, step=STEP, state_weight=1e4)


@pytest.mark.parametrize(("stepper", "close"), [(Variational(), 0.01), (Spook(), 0.05)])
def test_a_free_body(stepper: Spook | Variational, close: float) -> None:
    solution = tumbling().solve(stepper=stepper)
    assert solution.status is Status.CONVERGED
    for name, truth in (("J1", 0.01), ("J2", 0.02)):
        assert solution[name].step_error == pytest.approx(solution[name].estimate - truth, rel=close)


def test_several_recordings_with_gaps() -> None:
    problem = swing(stepper=Variational(), state_weight=1e4)
    (recording,) = problem.recordings
    theta = recording.signals["hinge"].copy()
    theta[3000:3600] = np.nan
    short = Recording(recording.t[:4001], {"hinge": recording.signals["hinge"][:4001]}, "short")
    fact, told = off(problem.with_(recordings=[Recording(recording.t, {"hinge": theta}, "gap"), short]).solve())
    np.testing.assert_allclose(told, fact, rtol=0.03, atol=1e-5)


# --- the first order ---


@pytest.mark.parametrize(
    ("weight", "compliance"),
    [(100.0, 1e-5), *(pytest.param(*one, marks=pytest.mark.study) for one in ((100.0, 1e-7), (1e4, 1e-5)))],
)
def test_spook(weight: float, compliance: float) -> None:
    problem = swing(stepper=Spook(), state_weight=weight, step=0.005, compliance=compliance)
    fact, told = off(problem.solve())
    assert fact[0] < -0.015
    np.testing.assert_allclose(told, fact, rtol=0.2)


@pytest.mark.study
def test_against_an_audit() -> None:
    problem = swing(stepper=Spook(), state_weight=1e4, step=0.005)
    solution = problem.solve()
    for drift in audit(problem).drifts:
        assert solution[drift.name].step_error == pytest.approx(drift.off, rel=0.25)


@pytest.mark.study
@pytest.mark.measured
@pytest.mark.skipif(not os.environ.get("SPOOKID_DATA"), reason="needs the measured data: set SPOOKID_DATA")
def test_a_measured_pendulum_against_an_audit() -> None:
    problem = load_problem(f"{Path(__file__).parents[1] / 'problems' / 'multiarm_single.py'}::viscous")
    solution, drift = problem.solve(), audit(problem).drifts[0]
    assert drift.name == "J"
    assert drift.off > 0.025 * solution["J"].estimate
    assert solution["J"].step_error == pytest.approx(drift.off, rel=0.05)


# --- what is unknown, and what is said ---


@pytest.mark.study
def test_what_has_no_order_and_what_is_too_short_leave_it_unknown() -> None:
    dry = pendulum(inertia=Parameter("J", 0.004, lower=1e-6), coulomb=0.01)
    rubbed = twin(dry, {"J": 0.005}, initial={"hinge": 1.5}, stepper=Variational()).solve()
    assert math.isnan(rubbed["J"].step_error)
    lifted = swing().solve(stepper=Spook(multipliers="lifted"), state_weight=100.0)
    assert math.isnan(lifted["J"].step_error)
    for stepper in (Spook(), Variational()):
        problem = swing(stepper=stepper, state_weight=1e4, fixed=["b"], initial={"b": 0.004})
        theta, alone = problem.recordings[0].signals["hinge"][::40], problem.solve()["J"].step_error
        for count in (3, 7):
            short = Recording(np.arange(count) * STEP, {"hinge": theta[:count]}, "short")
            assert math.isnan(problem.with_(recordings=[short]).solve()["J"].step_error)
            both = [*problem.recordings, short]
            with_it = problem.with_(recordings=both).solve()["J"].step_error
            assert with_it == pytest.approx(alone, rel=0.05)


def test_a_parameter_that_is_held_has_none() -> None:
    held = swing(stepper=Variational()).solve(fixed=["b"], initial={"b": 0.004})
    assert math.isnan(held["b"].step_error)
    assert held["J"].step_error > 0


def test_a_notice_says_what_exceeds_the_standard_error(tmp_path: Path) -> None:
    sharp = swing(noise=1e-4, stepper=Variational(), state_weight=1e4).solve()
    J = sharp["J"]
    assert J.step_error > 2 * J.std_err
    text = f"step of 0.01 s makes estimates J {J.step_error:.2g} kg m^2 ({J.step_error / J.std_err:.2g}) too large"
    assert text in " ".join(sharp.notices)
    assert text in " ".join(sharp.summary().split())
    noisy = swing(noise=2e-2, stepper=Variational(), state_weight=1e4).solve()
    assert not [notice for notice in noisy.notices if "continuous time" in notice]
    sharp.save(tmp_path / "out")
    assert difference(load(tmp_path / "out"), sharp) == ""
    assert "rough" not in " ".join(sharp.notices)
    first = swing(noise=1e-4, stepper=Spook(), state_weight=1e4).solve()
    assert "a rough guide here" in " ".join(first.notices)
    assert "or the stepper Variational()" in " ".join(first.notices)
