"""Coefficients that drift: means and walks from motions of an independent integrator, simulations, and refusals."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    RandomWalk,
    Recording,
    gravity,
)
from spookid.__main__ import main

RATE, SPAN = 100, 8.0
T = np.arange(0, SPAN, 1 / RATE)
TRUTH = {"J": 0.006, "b": 0.02, "c": 0.05}
M, L = 0.5, 0.1


def level(t):
    """Friction over its mean."""
    return 1.3 - 0.6 * t / SPAN


def log(seed):
    rng = np.random.default_rng(seed)
    waves = rng.uniform([0.1, 2, 0], [0.3, 9, 6], (3, 3))
    torque = sum(a * np.sin(w * T + f) for a, w, f in waves)

    def rates(t, x):
        u = torque[min(int(t * RATE + 1e-9), len(T) - 1)]
        friction = level(t) * (TRUTH["b"] * x[1] + TRUTH["c"] * np.tanh(x[1] / 0.01))
        return [x[1], (u - friction - M * 9.81 * L * np.sin(x[0])) / TRUTH["J"]]

    angle = solve_ivp(rates, (0, SPAN), [0.4, 0], t_eval=T, max_step=1 / RATE, rtol=1e-6, atol=1e-8).y[0]
    return Recording(T, {"u": torque, "q": angle + 1e-3 * rng.normal(size=len(T))}, name=f"log{seed}")


def problem(recordings, walk, **settings):
    J, b, c = (Parameter(name, 1.5 * value, lower=1e-6) for name, value in TRUTH.items())
    arm, axes = Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9)), dict(x=(0, 1, 0), y=(0, 0, -1))
    friction = dict(viscous=b * (1 + walk), coulomb=c * (1 + walk), armature=J - M * L**2)
    pin = Hinge("pin", GROUND.frame(**axes), arm.frame(at=(0, 0, L), **axes), **friction)
    model = Model([arm], [pin], [Motor(pin, "u")], gravity=gravity(9.81))
    return Problem("drift", model, recordings, [HingeAngle(pin, "q")], step=1 / RATE, **settings)


def test_means_and_the_walk_of_friction_that_drifts():
    inside = []
    for seed in range(3):
        solution = problem([log(seed)], RandomWalk("heat")).solve(estimator="noise")
        for name, value in TRUTH.items():
            z = (solution[name].estimate - value) / solution[name].std_err
            assert abs(z) < 4.5, (seed, name, z)
            assert solution[name].std_err < 0.2 * value
            inside.append(abs(z) < 1.96)
        walk = solution.trajectories[0].v[:, 1, 3]  # the angular velocity of its wheel
        assert abs(np.mean(walk)) < 1e-2
        assert np.corrcoef(walk, level(solution.trajectories[0].t))[0, 1] > 0.9
    assert np.mean(inside) > 0.8


def test_simulations_have_the_walk_in_both_forms_of_friction():
    walk, values = RandomWalk("heat"), dict(TRUTH)
    driven = problem([log(0)], walk)
    for friction in ("smooth", "exact"):
        initial = {"pin": (0.4, 0.0), "heat": (0.0, 0.5)}
        moved = driven.with_(friction=friction).simulate(values, initial=initial)
        more = {**values, "b": 1.5 * values["b"], "c": 1.5 * values["c"]}
        same = driven.with_(friction=friction).simulate(more, initial={"pin": (0.4, 0.0), "heat": (0.0, 0.0)})
        assert np.allclose(moved.signals["q"], same.signals["q"], atol=1e-9)
        turned = moved.signals["heat"][-1] - 0.5 * moved.t[-1]
        assert np.sin(turned) == pytest.approx(0, abs=1e-9)


def test_what_is_refused():
    with pytest.raises(ProblemError, match="name is 3"):
        RandomWalk(3)
    with pytest.raises(ProblemError, match="intensity is 0"):
        RandomWalk("heat", intensity=0)
    with pytest.raises(ProblemError, match="rename"):
        problem([log(0)], RandomWalk("pin"))


DECLARED = """
import numpy as np
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, RandomWalk, Recording, Servo, gravity

t, axes, heat = np.arange(0, 4, 0.005), dict(x=(0, 1, 0), y=(0, 0, -1)), RandomWalk("heat")
ki, b = Parameter("ki", 2.0, lower=0), Parameter("b", 0.04, lower=0)
arm = Body("arm", mass=0.5, inertia=(1e-6, 1e-6, 1e-6))
joint = Hinge("joint", GROUND.frame(**axes), arm.frame(at=(0, 0, 0.1), **axes), armature=0.003, viscous=b * (1 + heat))
model = Model([arm], [joint], [Servo(joint, "goal", kp=2.6, ki=ki, kd=0.05, limit=1.5)], gravity=gravity(9.81))
empty = Problem("one", model, [], [HingeAngle(joint, "q", sigma=1e-3)], step=0.005)
commands = Recording(t, {"goal": 0.8 * np.sign(np.sin(3 * t)) + 0.3 * np.sin(8 * t)})
noise = {"joint": 0, "heat": 0.1, "joint integral": 0, "q": 1e-3}
log = empty.simulate({"ki": 4.0, "b": 0.03}, duration=3.9, inputs=commands, noise=noise)
problem = empty.with_(recordings=[log])
"""


def test_commands_take_problems_with_hidden_states(tmp_path, capsys):
    (tmp_path / "one.py").write_text(DECLARED)
    assert main(["check", str(tmp_path / "one.py")]) == 0
    assert "heat (Wheel, GROUND to heat state)" in " ".join(capsys.readouterr().out.split())
    result = ["--out", str(tmp_path / "result"), "--no-figures"]
    assert main(["solve", str(tmp_path / "one.py"), *result]) == 0
    assert "process noise of heat" in " ".join(capsys.readouterr().out.split())
