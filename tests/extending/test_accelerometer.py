"""A sensor of one's own, with public names only: an accelerometer on a pendulum, three signals at once."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Sensor,
    Solution,
    Spook,
    State,
    Status,
    gravity,
)

MASS, LENGTH, G, STEP, OUT = 0.5, 0.2, 9.82, 0.01, 0.1
TRUTH = {"J": 0.005, "b": 0.004, "bias": 0.3}


class Accelerometer(Sensor):
    """Specific force in the axes of a frame, and a bias along its x axis."""

    unit = "m/s^2"

    def __init__(self, frame: Any, signals: tuple[str, ...], bias: Any = 0, sigma: Any = None) -> None:
        self.frame, self.signals, self.bias, self.sigma = frame, signals, bias, sigma

    @property
    def title(self) -> str:
        return f"specific force on {self.frame.body.name}"

    def predicted(self, state: State) -> Any:
        force = state.axes(self.frame).T @ (state.acceleration(self.frame) - state.model.gravity)
        return force + ca.vertcat(self.bias, 0, 0)


J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2")
b = Parameter("b", 1e-3, lower=0, unit="N m s")
bias = Parameter("bias", 0.0, unit="m/s^2")
rod = Body("rod", mass=MASS, inertia=(1e-4, J, J))
at_hinge = rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), at_hinge, viscous=b)
model = Model(bodies=[rod], joints=[hinge], gravity=gravity(G))
place = rod.frame(at=(OUT, 0, 0))
NAMES = ("ax", "ay", "az")


def recording(noise: float, seed: int = 0, step: float = STEP, duration: float = 6) -> Recording:
    """From the differential equation: the sensor hangs at r from the axle, its x axis along the rod."""
    t, r = np.arange(0, duration, step), LENGTH + OUT
    inertia = TRUTH["J"] + MASS * LENGTH**2

    def turning(angle: Any, rate: Any) -> Any:
        return (-MASS * G * LENGTH * np.sin(angle) - TRUTH["b"] * rate) / inertia

    start, span = [2.0, 0.0], (0, duration)
    x, w = solve_ivp(lambda _, s: [s[1], turning(s[0], s[1])], span, start, t_eval=t, rtol=1e-10, atol=1e-12).y
    along = -r * w**2 - G * np.cos(x) + TRUTH["bias"]
    across = -(r * turning(x, w) + G * np.sin(x))  # the rod's z axis is y × x of a rod that hangs down
    rng = np.random.default_rng(seed)
    signals = {"ax": along, "ay": 0 * t, "az": across}
    noisy = {name: values + noise * rng.standard_normal(len(t)) for name, values in signals.items()}
    return Recording(t, {"theta": x + 1e-3 * rng.standard_normal(len(t)), **noisy})


def problem(noise: float = 0.02, seed: int = 0, **settings: Any) -> Problem:
    sensors = [HingeAngle(hinge, "theta"), Accelerometer(place, NAMES, bias=bias)]
    return Problem("swing", model, [recording(noise, seed)], sensors, step=STEP, **settings)


@cache
def fitted() -> Solution:
    return problem().solve()


def test_derivatives_are_those_of_differences() -> None:
    state = State.symbols(model)
    rows = ca.SX(Accelerometer(place, NAMES, bias=bias).predicted(state))
    x = ca.vertcat(state.q, state.v, state.a, bias)
    function = ca.Function("rows", [x], [rows, ca.jacobian(rows, x)])
    still = np.array([0, 0, 0, 1.0, 0, 0, 0, *np.zeros(13)])  # at zero rotation and at rest
    for at in (still, np.random.default_rng(0).standard_normal(20)):
        exact, size = function(at)[1].full(), 1e-6
        ends = [[function(at + s * size * e)[0].full()[:, 0] for s in (1, -1)] for e in np.eye(20)]
        np.testing.assert_allclose(exact.T, [(a - c) / (2 * size) for a, c in ends], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{}, {"state_weight": math.inf}, {"stepper": Spook(), "state_weight": 1e4}],
    ids=["all", "hard", "spook"],
)
def test_it_is_used_with_every_stepper(settings: dict[str, Any]) -> None:
    solution = problem(**settings).solve() if settings else fitted()
    assert solution.status is Status.CONVERGED
    assert np.isfinite([solution[name].std_err for name in TRUTH]).all()
    if "stepper" not in settings:  # the estimates of Spook() are those of its step
        tolerance = {"J": 0.02, "b": 0.05, "bias": 0.02}
        for name, value in TRUTH.items():
            assert solution[name].estimate == pytest.approx(value, rel=tolerance[name])
    trajectory = solution.trajectories[0]
    assert trajectory.signals == ("theta", *NAMES)
    assert trajectory.units == ("rad", "m/s^2", "m/s^2", "m/s^2")
    assert {"ax", "az"} <= set(solution.summary().split())


def test_estimates_and_noise_are_those_of_the_twin() -> None:
    solution = fitted()
    for name, value in TRUTH.items():
        assert abs(solution[name].estimate - value) < 4 * solution[name].std_err
    sizes = {noise.names[0]: noise.std for noise in solution.noise if noise.kind == "sensor"}
    assert sizes == pytest.approx({"theta": 1e-3, "ax": 0.02, "ay": 0.02, "az": 0.02}, rel=0.15)


@pytest.mark.study
def test_estimates_and_errors_do_not_depend_on_rounding(by_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing disturbs the twin: its disturbance falls to where digits end, which is the same however one evaluates."""
    sensors = [HingeAngle(hinge, "theta"), Accelerometer(place, NAMES, bias=bias)]
    twin = Problem("swing", model, [recording(2e-3, step=5e-4, duration=1)], sensors, step=5e-4)
    found = []
    for _ in range(2):
        found.append(twin.solve(step_correction=False))
        monkeypatch.setenv("SPOOKID_NATIVE", "off")
    first, second = found
    assert first.noise[0].kind == "disturbance"
    assert first.noise[0].std == pytest.approx(second.noise[0].std, rel=0.05)
    for name in TRUTH:
        assert first[name].std_err == pytest.approx(second[name].std_err, rel=0.01)
        assert first[name].estimate == pytest.approx(second[name].estimate, abs=0.01 * first[name].std_err)


def test_a_simulation_shows_it() -> None:
    """Its accelerations are differences of velocities over two steps."""
    shown = problem().simulate(TRUTH, duration=2.0, initial={"hinge": 2.0})
    measured = recording(0.0)
    for name in ("ax", "az"):
        difference = np.asarray(shown.signals[name])[1:-1] - np.asarray(measured.signals[name])[1 : len(shown.t) - 1]
        assert np.abs(difference).max() < 0.05 * np.abs(measured.signals[name]).max()


@pytest.mark.parametrize(
    ("sensor", "complaint"),
    [
        (lambda: Accelerometer(place, ("ax", "ay")), "Accelerometer of .* predicts 3 values; it has 2 signals"),
        (lambda: Accelerometer(place, NAMES, sigma=-1), "has sigma -1; it must be positive"),
        (lambda: Accelerometer(place, NAMES, sigma=(1, 1)), "predicts 3 values; it has 3 signals and 2 sigma"),
    ],
)
def test_what_is_refused(sensor: Any, complaint: str) -> None:
    with pytest.raises(ProblemError, match=rf"test_accelerometer\.py:\d+: .*{complaint}"):
        Problem("swing", model, [recording(0.1)], [HingeAngle(hinge, "theta"), sensor()], step=STEP)
