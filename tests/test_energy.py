"""Energy observations: on the exact motion of a driven pendulum they vanish to third order, they scatter as they say,
and errors of a fit do not shrink for data that are used twice."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    EnergyBalance,
    FixedLagSmoother,
    FullInertia,
    Hinge,
    JointPosition,
    JointRate,
    Model,
    Motor,
    Parameter,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    State,
    Status,
    gravity,
)

M, L, G, WIDTH = 0.7, 0.3, 9.81, 0.1
TRUTH = {"J": 0.02, "b": 0.05, "c": 0.12, "k": 0.4}
ROTOR, OFFSET, BACK = 0.01, 0.15, 0.3**2 / 2.0
AXLE = {"x": (0, 1, 0), "y": (1, 0, 0)}
ENDS = np.array([0.4, 0.0])
DURATION = 6.0


def pendulum(**friction: Any) -> Model:
    J, b, c, k = (Parameter(name, value, lower=0) for name, value in TRUTH.items())
    rod = Body("rod", inertia=FullInertia(M, (0, 0, -L), inertia=(J, J, 0.001)))
    own = {"viscous": b, "coulomb": c, "stiffness": k} | friction
    pin = Hinge("pin", GROUND.frame(**AXLE), rod.frame(**AXLE), **own)
    drive = {"torque_constant": 0.3, "resistance": 2.0, "rotor_inertia": ROTOR, "offset": OFFSET}
    return Model([rod], [pin], [Motor(pin, "u", measured=True, **drive)], gravity=gravity(G))


def voltage(t: Any) -> Any:
    return 12 * np.sin(2.3 * t) + 6 * np.sin(5.1 * t + 1)


@cache
def trajectory() -> Any:
    """Angle and rate as a function of time, from the differential equation written by hand."""

    def slope(t: float, x: Array) -> list[float]:
        torque = 0.15 * voltage(t) + OFFSET - (TRUTH["b"] + BACK) * x[1] - TRUTH["c"] * np.tanh(x[1] / WIDTH)
        return [x[1], (torque - TRUTH["k"] * x[0] - M * G * L * np.sin(x[0])) / (TRUTH["J"] + M * L**2 + ROTOR)]

    return solve_ivp(slope, (0, DURATION), ENDS, method="DOP853", dense_output=True, rtol=1e-10, atol=1e-12).sol


@cache
def motion(interval: float) -> tuple[Array, Array, Array]:
    """(t, angle, rate)."""
    t = np.arange(round(DURATION / interval) + 1) * interval
    return t, *trajectory()(t)


def problem(h: float, seed: int | None = None, rates: bool = True, **settings: Any) -> Problem:
    """Samples every h/5; without a seed they have no noise."""
    model, (t, angle, rate) = pendulum(), motion(h / 5)
    rng, size = np.random.default_rng(seed), 0.0 if seed is None else 1.0
    noise = size * rng.normal(size=(3, len(t))) * [[1e-3], [0.02], [0.3]]
    signals = {"q": angle + noise[0], "s": rate + noise[1], "u": voltage(t) + noise[2]}
    sensors = [JointPosition(model.joints[0], "q"), *([JointRate(model.joints[0], "s")] if rates else [])]
    given = {"friction_width": WIDTH, "step_correction": False, "estimator": "noise", "step": h}
    return Problem("pendulum", model, [Recording(t, signals, "run")], sensors, **given | settings)


def _state(angle: float, rate: float) -> tuple[Any, ...]:
    """q, v of the rod about its centre of mass, angle and rate."""
    turn = np.array([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
    at = -L * np.array([np.sin(angle), 0, np.cos(angle)])
    velocity = -L * rate * np.array([np.cos(angle), 0, -np.sin(angle)])
    return np.concatenate([at, turn]), np.concatenate([velocity, [0, rate, 0]]), angle, rate


def test_derivatives_are_those_of_differences() -> None:
    model, rng = pendulum(), np.random.default_rng(1)
    before, after = (State.symbols(model) for _ in range(2))
    data = [0.3, 0.02, 0.1]
    row = EnergyBalance().rows(before, after, data=ca.DM(data))
    symbols = ca.vertcat(before.q, before.v, after.q, after.v, *(Problem("p", model).parameters))
    function = ca.Function("row", [symbols, before.step], [row, ca.jacobian(row, symbols)])
    still = np.concatenate(_state(0.0, 0.0)[:2])  # zero rotation, zero slip
    for state in (still, np.concatenate(_state(0.7, -1.3)[:2])):
        at = np.concatenate([state, state + 0.01 * rng.normal(size=13), list(TRUTH.values())])
        exact = function(at, 0.01)[1].full()[0]
        for i, slope in enumerate(exact):
            step = 1e-6 * np.eye(len(at))[i]
            ahead, behind = (float(function(at + sign * step, 0.01)[0]) for sign in (1, -1))
            assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-4)


def test_data_that_are_used_twice_do_not_make_errors_smaller() -> None:
    alone, both = (problem(0.02, 0, residuals=given).solve() for given in ([], [EnergyBalance()]))
    assert both.status is Status.CONVERGED
    assert both.cost.residual > 0
    for name, value in TRUTH.items():
        assert abs(both[name].estimate - value) < 4 * both[name].std_err
        assert abs(both[name].estimate - alone[name].estimate) < 2 * alone[name].std_err
    shares = [both[name].std_err / alone[name].std_err for name in TRUTH]
    assert np.exp(np.mean(np.log(shares))) > 0.85
    scattered = np.sqrt(np.diag(both.sensitivities.covariance_sandwich))
    assert np.all(both.sensitivities.standard_errors >= scattered * (1 - 1e-9))


def test_what_has_no_balance_is_refused() -> None:
    with pytest.raises(ProblemError, match="friction of 'pin' depends on its load; make it coulomb"):
        Problem("p", pendulum(dry=0.01), residuals=[EnergyBalance()])
    model = pendulum()
    passive = Model(model.bodies, model.joints, gravity=gravity(G))
    with pytest.raises(ProblemError, match="there are no motors; declare those whose work was measured"):
        Problem("p", passive, residuals=[EnergyBalance()])
    tip = PointPosition(model.bodies[0].frame(at=(0, 0, -L)), "z", "q")
    with pytest.raises(ProblemError, match="'pin' has no JointRate and no JointPosition, so that the work of its"):
        Problem("p", model, problem(0.02, 0).recordings, [tip], residuals=[EnergyBalance()], step=0.02).solve()
    with pytest.raises(ProblemError, match="made of data that other rows have too, of which a"):
        FixedLagSmoother(problem(0.02, 0, residuals=[EnergyBalance()]), seconds=0.2)
