"""NaN and infinity: traced to the factor, the recording, the step, and the operation and parameter that make them."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import chain, pendulum

from spookid import (
    FixedLagSmoother,
    HingeAngle,
    Observation,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Residual,
    Spook,
    Status,
    StepFailedError,
)

T = np.arange(60) * 0.02


def swing(name: str, start: float = 0.5) -> Recording:
    noise = 1e-3 * np.random.default_rng(0).normal(size=T.size)
    return Recording(T, {"angle": start * np.exp(-0.3 * T) * np.cos(8 * T) + noise}, name=name)


def problem(viscous: Any, rooted: bool = False, **settings: Any) -> Problem:
    """Its residual, if it has one, is real as long as the angle is below 0.3 rad, as it is on the first recording."""
    model = pendulum(viscous=viscous)
    hinge = model.joints[0]
    roots = Residual("ratio", lambda s: 1e-3 * ca.sqrt(0.09 - s.angle(hinge) ** 2), sigma=1.0)
    runs = [swing("slow", 0.2), swing("fast")]
    sensors = [HingeAngle(model.joints[0], "angle", sigma=1e-3)]
    settings = {"state_weight": 1e4, **settings}
    return Problem("p", model, runs, sensors, step=0.02, residuals=[roots] * rooted, **settings)


C_FREE = Parameter("c", 0.01)
AT_ZERO = Parameter("z", 0.0, lower=0)


@pytest.mark.parametrize("settings", [{}, {"stepper": Spook()}, {"state_weight": None}])
def test_a_residual_that_is_not_finite_at_the_guess_is_traced(settings: dict[str, Any]) -> None:
    found = problem(C_FREE, True, **settings).solve()
    assert found.status is Status.DIVERGED
    assert found["c"].estimate == C_FREE.guess
    assert np.isnan(found["c"].std_err)
    assert "fast, step 0 (t = 0 s)" in found.message
    assert "ratio" in found.message
    assert "sqrt(-0.1" in found.message


def test_a_sensor_that_is_not_finite_is_traced() -> None:
    """And not LAPACK's error, where poses are to follow what it shows."""
    model = chain()
    sensors = [Observation(lambda s: math.nan, "angle"), HingeAngle(model.joints[0], "first")]
    run = replace(swing("slow"), signals={"angle": 0 * T, "first": 0.1 * np.sin(T)})
    found = Problem("p", model, [run], sensors, step=0.02, state_weight=1e4).solve()
    assert found.status is Status.DIVERGED
    assert "observation of angle (observation): nan is not a number" in found.message


@pytest.mark.parametrize("backend", ["lm", "ipopt"])
def test_a_derivative_that_is_infinite_is_traced(backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = problem(1e-9 * ca.sqrt(AT_ZERO) + 0.01, state_weight=None).solve(backend=backend)
        assert found.notices is not None
    assert found.status is Status.DIVERGED
    assert "The fit cannot begin at the initial values" in found.message
    assert "slow, step 1 (t = 0.02 s): Δp hinge (impulse), its derivative by z" in found.message
    assert "is infinite (z = 0)" in found.message


@pytest.mark.parametrize("settings", [{}, {"state_weight": None}])
def test_steps_that_lead_to_nan_are_traced(settings: dict[str, Any]) -> None:
    """Friction that is larger than what fits best is allowed, but has no finite value below a limit."""
    limit = 0.5 * problem(C_FREE, **settings).solve()["c"].estimate
    found = problem(C_FREE + 1e-9 * (limit - C_FREE) ** 1.5, initial={"c": 0.1 * limit}, **settings).solve()
    assert found["c"].estimate <= limit
    assert found.status is Status.STALLED
    assert "steps lead to where something is not finite: slow, step 1 (t = 0.02 s)" in found.message
    assert ",1.5) is not a number (c = 0.0" in found.message


def test_a_smoother_that_can_go_no_further_says_why() -> None:
    made = problem(C_FREE, True, state_weight=None).with_(recordings=[swing("slow", 0.2)])
    smoother = FixedLagSmoother(made, window=30, start=made.solve())
    told = [smoother.update(1.2 + 0.02 * k, {"angle": 0.2 + 0.05 * k}).reason for k in range(6)]
    assert told[-1].startswith("slow, step 6")
    assert "(t = 1.2" in told[-1] or "(t = 1.3" in told[-1]
    assert "ratio (residual ratio): sqrt(-0." in told[-1]


def test_an_expression_that_is_not_finite_at_the_guess_is_refused() -> None:
    told = r"mechanisms.py:\d+: an expression of <Hinge 'hinge'.*sqrt\(c\) is not a number \(c = -0.1\)"
    with pytest.raises(ProblemError, match=told):
        problem(ca.sqrt(C_FREE), initial={"c": -0.1})
    per = Parameter("p", 1.0, per="recording")
    with pytest.raises(ProblemError, match=r"p is infinite \(p = 0\)|/p\) is infinite \(p = 0\)"):
        problem(0.1 / per, initial={"p[fast]": 0.0})


def test_a_simulation_tells_recording_and_time() -> None:
    with pytest.raises(StepFailedError, match=r"^step 1 of recording 'fast' \(t = 0.02 s\) was not solved: "):
        problem(C_FREE).simulate(initial={"hinge": (0.0, 1e200)}, recording=1)


def test_a_step_that_is_too_long_is_still_told_by_its_residual() -> None:
    with pytest.raises(StepFailedError, match="the residual of the step's equations remains at"):
        raise StepFailedError(3, 0.5, np.zeros((3, 1)))
