"""A stepper of one's own, the implicit midpoint rule: with rigid joints, and with compliant ones."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Equations,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    OneStep,
    Parameter,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Variational,
    gravity,
)

TRUTH = {"J": 0.006, "b": 0.02, "K": 0.4}
SIGNALS = ("theta_hip", "theta_knee")


class Midpoint(OneStep):
    """All forces at the pose and velocity in the middle; joints hold at the end."""

    name, order = "midpoint", 2

    def equations(self, step):
        v = (step.v + step.v_next) / 2
        moved = step.minus(step.q_next, step.q) / step.h - v
        middle = step.plus(step.q, step.h / 2 * v)
        return Equations(step.impulse(middle, v), ca.vertcat(moved, step.violation(step.q_next) / step.h))


class Compliant(Midpoint):
    """Joints that give way by ε λ/h, λ/h being the force in the step."""

    name, rigid = "midpoint-compliant", False

    def equations(self, step):
        rigid = super().equations(step)
        n = step.v.numel()
        give = step.compliances * step.multipliers / step.h
        return Equations(rigid.impulse, ca.vertcat(rigid.hard[:n], rigid.hard[n:] + give / step.h))


def double(**loads: Any) -> Model:
    """A driven pendulum of two links."""
    J, b, K = Parameter("J", 0.01, lower=1e-4), Parameter("b", 0.01, lower=0), Parameter("K", 0.3)
    upper, lower = Body("upper", mass=1, inertia=(0.002, 0.004, 0.004)), Body("lower", mass=0.6, inertia=(1e-3, J, J))
    axle = {"x": (0, 1, 0), "y": (1, 0, 0)}
    hip = Hinge(
        "hip", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), upper.frame(at=(-0.2, 0, 0), **axle), viscous=b, **loads
    )
    knee = Hinge(
        "knee", upper.frame(at=(0.2, 0, 0), **axle), lower.frame(at=(-0.15, 0, 0), **axle), viscous=0.01, **loads
    )
    return Model([upper, lower], [hip, knee], motors=[Motor(hip, signal="u", gain=K)], gravity=gravity(9.82))


def swing(model: Model | None = None, **settings: Any) -> Problem:
    model = double() if model is None else model
    sensors = [HingeAngle(j, signal=f"theta_{j.name}", sigma=settings.pop("sigma", None)) for j in model.joints]
    return Problem("swing", model=model, observations=sensors, **{"step": 0.01, "stepper": Midpoint(), **settings})


def drive(seconds: float = 2.0) -> Recording:
    t = np.arange(round(seconds / 0.01) + 1) * 0.01
    return Recording(t, {"u": np.where(np.sin(5 * t) > 0, 2.0, -2.0)})


@cache
def clean(seconds: float) -> Recording:
    """In continuous time, by another stepper."""
    start = {"hip": 0.5, "knee": (0.2, 1.0)}
    return swing(stepper=Variational()).simulate(TRUTH, seconds, start, inputs=drive(seconds))


def truth(seconds: float = 2.0, noise: float = 0.0) -> Recording:
    run, rng = clean(seconds), np.random.default_rng(0)
    return run.with_signals(**{name: run.signals[name] + noise * rng.normal(size=len(run.t)) for name in SIGNALS})


def test_it_is_of_second_order():
    exact, start = truth(1.0), {"hip": 0.5, "knee": (0.2, 1.0)}
    errors = []
    for h in (0.01, 0.005, 0.0025):
        run = swing(step=h).simulate(TRUTH, 1.0, start, inputs=drive(1.0))
        every = round(0.01 / h)
        errors.append(np.abs(run.signals["theta_knee"][::every] - exact.signals["theta_knee"]).max())
    assert errors[0] < 5e-3
    np.testing.assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 4, rtol=0.15)


def test_a_free_body_keeps_its_energy():
    body = Body("free", mass=1, inertia=(0.01, 0.02, 0.025), free=True)
    seen = [PointPosition(body.frame(), "x", signal="x")]
    problem = Problem("spin", model=Model([body], gravity=gravity(0)), observations=seen, step=0.02, stepper=Midpoint())
    run = problem.simulate(initial=([[0, 0, 0, 1, 0, 0, 0]], [[1, 0, 0, 2, 5, 1]]), duration=2.0)
    omega = run.v[:, 0, 3:]
    energy = omega**2 @ [0.01, 0.02, 0.025] / 2
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)
    assert np.ptp(omega[:, 0]) > 1


def test_compliant_joints_give_way_by_the_weight_that_they_bear():
    body = Body("bob", mass=2, inertia=(0.01, 0.01, 0.01))
    axle = {"x": (0, 1, 0), "y": (1, 0, 0)}
    hinge = Hinge("pin", GROUND.frame(**axle), body.frame(**axle), compliance=1e-3, viscous=1)
    # About a place of rest that it starts from, the step keeps it there.
    weight = 2 * 9.82 * 1e-3
    model, seen = Model([body], [hinge], gravity=gravity(9.82)), [HingeAngle(hinge, signal="pin")]
    problem = Problem("sag", model=model, observations=seen, step=0.01, stepper=Compliant())
    run = problem.simulate(initial=([[0, 0, -weight, 1, 0, 0, 0]], np.zeros((1, 6))), duration=0.5)
    np.testing.assert_allclose(run.q[:, 0, 2], -weight, atol=1e-10)


@pytest.mark.study
@pytest.mark.parametrize(
    "settings",
    [
        {"state_weight": math.inf, "sigma": 1e-3},
        {},
        {"stepper": Compliant(), "state_weight": math.inf, "sigma": 1e-3},
    ],
    ids=["hard", "estimated", "compliant"],
)
def test_it_identifies(settings):
    model = double(compliance=1e-7) if "stepper" in settings else None
    problem = swing(model, recordings=[truth(2.0 if settings else 1.0, noise=1e-3)], **settings)
    solution = problem.solve(max_iterations=300)
    assert solution.status.value == "converged"
    for name, value in TRUTH.items():
        found = solution[name]
        assert 0 < found.std_err < 0.1 * value
        assert abs(found.estimate - value) < 4 * found.std_err
    assert "midpoint" in solution.summary()
    if not settings:
        std = {n.names[0]: n.std for n in solution.noise if n.kind == "sensor"}
        assert std == pytest.approx(dict.fromkeys(SIGNALS, 1e-3), rel=0.15)


def test_its_twin_comes_back_to_the_last_digits():
    problem = swing(state_weight=math.inf, sigma=1e-3)
    run = problem.simulate(TRUTH, 0.25, {"hip": 0.5}, inputs=drive(0.25))
    solution = problem.solve(recordings=[run])
    for name, value in TRUTH.items():
        assert solution[name].estimate == pytest.approx(value, rel=1e-8)


def test_friction_that_sticks_stands_still():
    model = double(coulomb=0.6)
    run = swing(model, friction="exact").simulate(TRUTH, 2.0, {"hip": 0.1, "knee": 0.05})
    assert np.ptp(run.signals["theta_hip"][-50:]) < 1e-9
    assert np.ptp(run.signals["theta_knee"][-50:]) < 1e-9


@pytest.mark.study
def test_residuals_vanish_along_its_own_motion_with_random_impulses():
    """The likelihood's scheme and the forward step are one: noise that is drawn is noise that is found."""
    sizes = {"hip": 0.02, "knee": 0.01}
    made = swing().simulate(TRUTH, 0.8, {"hip": 0.5}, inputs=drive(), noise=sizes, seed=3)
    rng = np.random.default_rng(1)
    noisy = made.with_signals(**{n: made.signals[n] + 1e-5 * rng.normal(size=len(made.t)) for n in SIGNALS})
    problem = swing(recordings=[noisy], initial=TRUTH, fixed=list(TRUTH), step_correction=False)
    found = {n.names: n.density for n in problem.solve().noise if n.kind == "disturbance"}
    for names, density in found.items():
        for name in names:
            assert density == pytest.approx(sizes[name], rel=0.25)


def test_too_few_rows_are_told():
    class Half(Midpoint):
        name = "half"

        def equations(self, step):
            whole = super().equations(step)
            return Equations(whole.impulse, whole.hard[:5])

    with pytest.raises(
        ProblemError, match="Stepper 'half' has 5 equality constraints per step; required are 12 for the poses"
    ):
        swing(stepper=Half()).simulate(TRUTH, 1.0, inputs=drive(1.0))
