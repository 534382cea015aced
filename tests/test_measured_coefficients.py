"""Coefficients that follow a measured signal: friction by temperature, from motions of an independent integrator."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    DCDrive,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Servo,
    Signal,
    gravity,
)

RATE, SPAN = 100, 8.0
T = np.arange(0, SPAN, 1 / RATE)
TRUTH = {"J": 0.006, "b": 0.02, "c": 0.05, "k": -0.02}
M, L = 0.5, 0.1
AXES = dict(x=(0, 1, 0), y=(0, 0, -1))


def heat(t):
    """Temperature of the gear [°C]."""
    return 25 + 20 * (1 - np.exp(-t / 3))


def log(seed):
    rng = np.random.default_rng(seed)
    waves = rng.uniform([0.1, 2, 0], [0.3, 9, 6], (3, 3))
    torque = sum(a * np.sin(w * T + f) for a, w, f in waves)

    def rates(t, x):
        u = torque[min(int(t * RATE + 1e-9), len(T) - 1)]
        share = 1 + TRUTH["k"] * (heat(t) - 40)
        friction = share * (TRUTH["b"] * x[1] + TRUTH["c"] * np.tanh(x[1] / 0.01))
        return [x[1], (u - friction - M * 9.81 * L * np.sin(x[0])) / TRUTH["J"]]

    angle = solve_ivp(rates, (0, SPAN), [0.4, 0], t_eval=T, max_step=1 / RATE, rtol=1e-6, atol=1e-8).y[0]
    return Recording(T, {"u": torque, "q": angle + 1e-3 * rng.normal(size=len(T)), "temp": heat(T)}, name=f"log{seed}")


def problem(recording, **settings):
    J, b, c, k = (Parameter(n, 1.5 * TRUTH[n], lower=-1 if n == "k" else 1e-6) for n in TRUTH)
    share = 1 + k * (Signal("temp") - 40)
    arm = Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9))
    friction = dict(viscous=b * share, coulomb=c * share, armature=J - M * L**2)
    pin = Hinge("pin", GROUND.frame(**AXES), arm.frame(at=(0, 0, L), **AXES), **friction)
    model = Model([arm], [pin], [Motor(pin, "u")], gravity=gravity(9.81))
    return Problem("warm", model, [recording], [HingeAngle(pin, "q")], step=1 / RATE, **settings)


@pytest.mark.parametrize("settings", [{}, {"friction": "exact"}])
def test_friction_by_temperature_is_identified(settings):
    for seed in range(2):
        solution = problem(log(seed), **settings).solve()
        for name, true in TRUTH.items():
            found = solution[name]
            assert abs(found.estimate - true) < 4.5 * found.std_err < 4.5 * 0.03 * abs(true)


@pytest.mark.parametrize("friction", ["smooth", "exact"])
def test_a_simulation_takes_the_signal(friction):
    recording = log(3)
    start, asked = {"pin": (0.4, 0.0)}, problem(recording, friction=friction)
    made, constant = (asked.simulate(TRUTH | {"k": k}, SPAN - 0.01, start, inputs=recording) for k in (TRUTH["k"], 0.0))
    errors = [
        np.sqrt(np.mean((one.signal("q") - np.interp(one.t, T, recording.signal("q"))) ** 2))
        for one in (made, constant)
    ]
    assert errors[0] < 0.2 * errors[1]


def test_a_winding_may_warm_up():
    """At a standstill against a spring the torque of a drive is k V/R."""
    warm, arm = 1 + 0.004 * (Signal("temp") - 20), Body("arm", mass=M, inertia=(1e-2, 1e-2, 1e-2))
    pin = Hinge("pin", GROUND.frame(**AXES), arm.frame(**AXES), stiffness=10.0, viscous=2.0)
    drive = DCDrive(torque_constant=0.5, resistance=2.0 * warm, supply=10.0)
    model = Model([arm], [pin], [Servo(pin, "duty", mode="effort", drive=drive)], gravity=gravity(0))
    asked = Problem("drive", model, observations=[HingeAngle(pin, "q")], step=0.01)
    t = np.arange(0, 4, 0.01)
    for temperature in (20.0, 120.0):
        given = Recording(t, {"duty": np.full(len(t), 0.4), "temp": np.full(len(t), temperature)})
        reached = asked.simulate(duration=3.9, inputs=given).signal("q")[-1]
        resistance = 2.0 * (1 + 0.004 * (temperature - 20))
        assert reached == pytest.approx(0.5 * 0.4 * 10 / resistance / 10, rel=1e-3)


def test_what_is_refused():
    with pytest.raises(ProblemError, match="give the name of an input"):
        Signal("")
    bare = log(0)
    with pytest.raises(ProblemError, match="temp"):
        problem(Recording(T, {name: bare.signal(name) for name in ("u", "q")})).solve()
