"""Online estimation with states besides the motion: integrals of servos, friction that drifts.

Logs are made by Runge and Kutta's method from equations of motion written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Monitor,
    Motor,
    Parameter,
    Problem,
    RandomWalk,
    Recording,
    Servo,
    gravity,
)
from spookid.__main__ import main

RATE, FIRST, ONSET, END = 200, 5.0, 12.0, 14.0
M, L, ARMATURE, SIGMA, PUSH = 0.5, 0.1, 0.002, 1e-3, 1e-3
INERTIA = ARMATURE + M * L**2
TRUTH = {"kp": 2.0, "ki": 5.0, "b": 0.02}
SLOW, FINE, DRIFT = 100, 4, 0.05
"""Rate of logs with drifts, steps of their integration between samples, and their intensity."""


def simulated(rates, state, inputs, rate=RATE):
    """First state along inputs that are held between samples; ``rates`` takes time, state and input."""
    h, state, shown = 1 / rate, np.array(state, dtype=float), [state[0]]
    for k, u in enumerate(inputs[:-1]):
        t = k * h
        a = rates(t, state, u)
        b = rates(t, state + h / 2 * a, u)
        c = rates(t, state + h / 2 * b, u)
        d = rates(t, state + h * c, u)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
        shown.append(state[0])
    return np.array(shown)


def driven(seed, growth=1.0, end=END):
    """Log of an arm under a servo with an integral; from ONSET on viscous friction is larger by a factor."""
    rng, t = np.random.default_rng(seed), np.arange(0, end, 1 / RATE)
    waves = zip(rng.uniform(0.3, 1.5, 3), rng.uniform(0, 6, 4), strict=False)
    goal = 0.5 * np.sign(np.sin(2.8 * t + seed)) + sum(0.25 * np.sin(2 * np.pi * f * t + p) for f, p in waves)
    push = PUSH * np.sqrt(RATE) * rng.normal(size=len(t))

    def rates(now, x, k):
        b = TRUTH["b"] * (growth if now >= ONSET else 1)
        error, u = goal[k] - x[0], push[k] - M * 9.81 * L * np.sin(x[0])
        effort = TRUTH["kp"] * error + TRUTH["ki"] * x[2] - (0.05 + b) * x[1]
        return np.array([x[1], (effort + u) / INERTIA, error])

    angle = simulated(rates, [0, 0, 0], range(len(t)))
    return Recording(t, {"goal": goal, "q": angle + SIGMA * rng.normal(size=len(t))}, name="log")


def arm(drive, viscous):
    axes, body = dict(x=(0, 1, 0), y=(0, 0, -1)), Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9))
    child = body.frame(at=(0, 0, L), **axes)
    joint = Hinge("joint", GROUND.frame(**axes), child, armature=ARMATURE, viscous=viscous)
    model = Model([body], [joint], [drive(joint)], gravity=gravity(9.81))
    return Problem("arm", model, observations=[HingeAngle(joint, "q")], step=1 / RATE)


def with_integral():
    kp, ki, b = (Parameter(name, 1.3 * value, lower=0) for name, value in TRUTH.items())
    return arm(lambda joint: Servo(joint, "goal", kp=kp, ki=ki, kd=0.05), b)


def watched(problem, recording, seen=None):
    """The monitor of a log; ``seen`` takes its estimates."""
    first = problem.with_(recordings=[recording.between(0, FIRST)])
    monitor = Monitor(FixedLagSmoother(first, window=20, start=first.solve(estimator="noise")))
    for k, t in enumerate(recording.t):
        if t > FIRST:
            estimate = monitor.update(t, {name: values[k] for name, values in recording.signals.items()})
            if seen is not None:
                seen.append(estimate)
    return monitor


def covered(estimate, truth):
    for name, value in truth.items():
        assert abs(estimate.values[name] - value) < 4 * estimate.std_errs[name], name


def test_a_change_of_friction_under_an_integral_is_found_and_named():
    monitor = watched(with_integral(), driven(3, growth=1.5))
    (change,) = monitor.changes
    assert change.parameter == "b"
    assert change.told - ONSET < 2
    assert abs(change.since - ONSET) < 0.3
    assert abs(change.share - 0.5) < 3 * change.share_error
    covered(monitor.smoother.estimate, {**TRUTH, "b": 1.5 * TRUTH["b"]})


def test_nothing_is_reported_under_an_integral_without_a_change():
    monitor = watched(with_integral(), driven(1))
    assert not monitor.changes
    assert "residuals.grown" not in {finding.code for finding in monitor.smoother.estimate.findings}
    covered(monitor.smoother.estimate, TRUTH)


def test_a_smoother_has_the_integral_and_the_estimates_of_a_batch_fit():
    log, problem = driven(3, end=8.0), with_integral().with_(step_correction=False)
    first = problem.with_(recordings=[log.between(0, FIRST)])
    smoother = FixedLagSmoother(first, window=100, start=first.solve(estimator="noise"))
    for k, t in enumerate(log.t):
        if t > FIRST:
            estimate = smoother.update(t, {name: values[k] for name, values in log.signals.items()})
    batch = problem.with_(recordings=[log]).solve(estimator="noise")
    for name in TRUTH:
        assert abs(estimate.values[name] - batch[name].estimate) < 0.3 * batch[name].std_err
    integral = batch.trajectories[0].v[-1, 1, 3]
    assert abs(estimate.rates["joint integral"] - integral) < 4 * estimate.rate_errors["joint integral"]


DECLARED = """
from spookid import *

axes = dict(x=(0, 1, 0), y=(0, 0, -1))
arm = Body("arm", mass=0.5, inertia=(1e-9, 1e-9, 1e-9))
kp, ki, b = Parameter("kp", 1.5, lower=0), Parameter("ki", 4.0, lower=0), Parameter("b", 0.03, lower=0)
joint = Hinge("joint", GROUND.frame(**axes), arm.frame(at=(0, 0, 0.1), **axes), armature=0.002, viscous=b)
model = Model([arm], [joint], [Servo(joint, "goal", kp=kp, ki=ki, kd=0.05)], gravity=gravity(9.81))
problem = Problem("servo", model, [], [HingeAngle(joint, "q")], step=0.005)
"""


def followed(folder, capsys, monkeypatch, problem):
    """Watch a log at once and in two parts, which give the same estimates."""
    monkeypatch.chdir(folder)
    (folder / "servo.py").write_text(problem)
    driven(5, end=4.0).to_csv(folder / "log.csv")
    text = (folder / "log.csv").read_text().splitlines(keepends=True)
    (folder / "half.csv").write_text("".join(text[:600]))
    options = ["--warm-up", "2"]
    assert main(["watch", "servo.py", "log.csv", *options]) == 0
    whole = capsys.readouterr().out
    assert main(["watch", "servo.py", "half.csv", *options, "--save", "state.npz"]) == 0
    assert main(["watch", "servo.py", "log.csv", "--resume", "state.npz"]) == 0
    assert capsys.readouterr().out.splitlines()[-8:-1] == whole.splitlines()[-8:-1]


def test_the_command_continues_from_a_file(tmp_path, capsys, monkeypatch):
    followed(tmp_path, capsys, monkeypatch, DECLARED)


def drifting(seed, heavier=1.0, end=20.0):
    """Log of an arm whose friction drifts as a random walk; from ONSET on its inertia is larger by a factor."""
    rng, t = np.random.default_rng(seed), np.arange(0, end, 1 / SLOW)
    waves = rng.uniform([0.05, 1.5, 0], [0.25, 9, 6], (4, 3))
    torque = sum(a * np.sin(w * t + f) for a, w, f in waves)
    push = PUSH * np.sqrt(SLOW) * rng.normal(size=len(t))
    walk = np.cumsum(DRIFT * rng.normal(size=len(t)) / np.sqrt(SLOW))

    def rates(now, x, k):
        k, friction = k // FINE, (1 + walk[k // FINE]) * (0.03 * x[1] + 0.05 * np.tanh(x[1] / 0.02))
        inertia = INERTIA * (heavier if now >= ONSET else 1)
        return np.array([x[1], (torque[k] + push[k] - friction - M * 9.81 * L * np.sin(x[0])) / inertia])

    angle = simulated(rates, [0.3, 0], range(FINE * len(t)), rate=FINE * SLOW)[::FINE]
    return Recording(t, {"u": torque, "q": angle + SIGMA * rng.normal(size=len(t))}, name="log"), walk


def with_walk():
    J, b, c = Parameter("J", 0.008, lower=1e-6), Parameter("b", 0.04, lower=0), Parameter("c", 0.06, lower=0)
    axes, body, warm = dict(x=(0, 1, 0), y=(0, 0, -1)), Body("arm", mass=M, inertia=(1e-9,) * 3), 1 + RandomWalk("heat")
    friction = dict(viscous=b * warm, coulomb=c * warm, armature=J - M * L**2)
    pin = Hinge("pin", GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes), **friction)
    model, sensors = Model([body], [pin], [Motor(pin, "u")], gravity=gravity(9.81)), [HingeAngle(pin, "q")]
    return Problem("arm", model, observations=sensors, step=1 / SLOW, friction_width=0.02)


def test_friction_that_drifts_is_followed_and_is_no_change():
    """The walk is relative to the mean over the first seconds, which the parameters are."""
    inside = []
    for seed in range(20, 24):
        log, walk = drifting(seed)
        mean, seen = np.mean(walk[log.t <= FIRST]), []
        monitor = watched(with_walk(), log, seen)
        assert not monitor.changes
        assert not {finding.code for finding in monitor.smoother.estimate.findings}
        covered(monitor.smoother.estimate, {"J": INERTIA, "b": 0.03 * (1 + mean), "c": 0.05 * (1 + mean)})
        truth = (1 + walk[log.t > FIRST]) / (1 + mean) - 1
        inside += [abs(e.rates["heat"] - w) < 1.96 * e.rate_errors["heat"] for e, w in zip(seen, truth, strict=True)]
    assert 0.9 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize("seed", [20, 21])
def test_a_change_of_inertia_is_found_beside_friction_that_drifts(seed):
    monitor = watched(with_walk(), drifting(seed, heavier=1.3, end=16.0)[0])
    (change,) = monitor.changes
    assert change.parameter == "J"
    assert abs(change.since - ONSET) < 0.5
    assert abs(change.share - 0.3) < 3 * change.share_error < 0.15


def test_the_command_continues_with_a_walk(tmp_path, capsys, monkeypatch):
    walk = 'viscous=b * (1 + RandomWalk("heat", intensity=0.05)))'
    followed(tmp_path, capsys, monkeypatch, DECLARED.replace("viscous=b)", walk))
