"""Online estimation with states besides the motion: integrals of servos.

Logs are made by Runge and Kutta's method from equations of motion written by hand."""

from __future__ import annotations

import numpy as np

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Monitor,
    Parameter,
    Problem,
    Recording,
    Servo,
    gravity,
)
from spookid.__main__ import main

RATE, FIRST, ONSET, END = 200, 5.0, 12.0, 14.0
M, L, ARMATURE, SIGMA, PUSH = 0.5, 0.1, 0.002, 1e-3, 1e-3
INERTIA = ARMATURE + M * L**2
TRUTH = {"kp": 2.0, "ki": 5.0, "b": 0.02}


def simulated(rates, state, inputs):
    """First state along inputs that are held between samples; ``rates`` takes time, state and input."""
    h, state, shown = 1 / RATE, np.array(state, dtype=float), [state[0]]
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


def watched(problem, recording):
    first = problem.with_(recordings=[recording.between(0, FIRST)])
    monitor = Monitor(FixedLagSmoother(first, window=20, start=first.solve(estimator="noise")))
    for k, t in enumerate(recording.t):
        if t > FIRST:
            monitor.update(t, {name: values[k] for name, values in recording.signals.items()})
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


def test_the_command_continues_from_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "servo.py").write_text(DECLARED)
    driven(5, end=4.0).to_csv(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text().splitlines(keepends=True)
    (tmp_path / "half.csv").write_text("".join(text[:600]))
    options = ["--warm-up", "2"]
    assert main(["watch", "servo.py", "log.csv", *options]) == 0
    whole = capsys.readouterr().out
    assert main(["watch", "servo.py", "half.csv", *options, "--save", "state.npz"]) == 0
    assert main(["watch", "servo.py", "log.csv", "--resume", "state.npz"]) == 0
    assert capsys.readouterr().out.splitlines()[-8:-1] == whole.splitlines()[-8:-1]


def test_a_smoother_refuses_a_random_walk(tmp_path, capsys):
    (tmp_path / "one.py").write_text(DECLARED.replace("viscous=b)", 'viscous=b * (1 + RandomWalk("heat")))'))
    assert main(["watch", str(tmp_path / "one.py"), str(tmp_path / "log.csv")]) == 2
    assert "has the random walk 'heat', whose mean a smoother does not know" in capsys.readouterr().err
