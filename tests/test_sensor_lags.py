"""Sensors that report through a first-order filter: against SciPy's exact response, and lags that fits recover."""

import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.signal import lsim

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    JointRate,
    JointTorque,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Servo,
    gravity,
    load,
)
from spookid.__main__ import main
from tests.test_watched_states import driven

RATE, SPAN = 200, 5.0
T = np.arange(0, SPAN, 1 / RATE)
M, L = 0.5, 0.1
TRUTH = {"J": 0.002, "b": 0.05, "lag": 0.03}
FINE = 20
"""Points of an independent motion between samples."""


def motion(seed):
    """Torque, and angle and velocity at finer times, of an arm that hangs."""
    rng, t = np.random.default_rng(seed), np.arange(0, (len(T) - 1) * FINE + 1) / (RATE * FINE)
    waves = rng.uniform([0.1, 2, 0], [0.3, 12, 6], (4, 3))

    def torque(t):
        return np.interp(t, T, sum(a * np.sin(w * T + f) for a, w, f in waves))

    def rates(t, x):
        effort = torque(t) - TRUTH["b"] * x[1] - M * 9.81 * L * np.sin(x[0])
        return [x[1], effort / (TRUTH["J"] + M * L**2)]

    x = solve_ivp(rates, (0, t[-1]), [0.3, 0.0], t_eval=t, max_step=1 / RATE, rtol=1e-9, atol=1e-11).y
    return torque(T), t, x


def reported(t, true, lag):
    """Response of 1/(1 + lag s), at rest in the beginning."""
    return lsim(([1], [lag, 1]), true - true[0], t)[1][::FINE] + true[0]


def log(seed, lag=TRUTH["lag"], noise=(1e-3, 0.02)):
    """Recording of the filtered angle and velocity, and the angle itself."""
    rng, (torque, t, (q, w)) = np.random.default_rng(seed), motion(seed)
    shown = {"q": reported(t, q, lag), "w": reported(t, w, lag), "prompt": q[::FINE]}
    deviations = {"q": noise[0], "w": noise[1], "prompt": noise[0]}
    signals = {name: values + deviations[name] * rng.normal(size=len(T)) for name, values in shown.items()}
    return Recording(T, {"u": torque, **signals}, name="log")


def arm(recordings, *sensors, guess=1.5, lag=None, **settings):
    J, b = (Parameter(name, guess * TRUTH[name], lower=0) for name in ("J", "b"))
    T_lag = Parameter("lag", TRUTH["lag"] / 2, lower=0, upper=0.5) if lag is None else lag
    axes, body = dict(x=(0, 1, 0), y=(0, 0, -1)), Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9))
    joint = Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes), armature=J, viscous=b)
    model = Model([body], [joint], [Motor(joint, "u", hold="linear")], gravity=gravity(9.81))
    known = {
        "q": HingeAngle(joint, "q", lag=T_lag),
        "w": JointRate(joint, "w", lag=T_lag),
        "prompt": HingeAngle(joint, "prompt"),
    }
    return Problem("arm", model, recordings, [known[name] for name in sensors], step=1 / RATE, **settings)


@pytest.mark.parametrize("lag", [0.002, 0.03])
def test_simulations_report_what_an_exact_filter_does(lag):
    recording = log(0, lag, noise=(0, 0)).between(0, 1)
    simulated = arm([recording], "q", "w").simulate({**TRUTH, "lag": lag}, initial={"joint": (0.3, 0.0)})
    for name in ("q", "w"):
        span = np.ptp(recording.signals[name])
        assert np.allclose(simulated.signals[name], recording.signals[name], rtol=0, atol=2e-4 * span), name


@pytest.mark.parametrize(
    ("sensors", "estimator"),
    [(("q", "prompt"), "noise"), (("w", "prompt"), "hard"), (("q", "w"), "auto")],
)
def test_a_lag_is_recovered_with_both_kinds_of_dynamics(sensors, estimator):
    scores = []
    for seed in range(2):
        solution = arm([log(seed)], *sensors).solve(estimator=estimator)
        assert solution.status.value == "converged"
        assert solution["lag"].std_err < 2e-4
        scores += [(solution[name].estimate - value) / solution[name].std_err for name, value in TRUTH.items()]
    assert np.max(np.abs(scores)) < 4
    assert np.sqrt(np.mean(np.square(scores))) < 2


def test_a_lag_below_a_step_is_found():
    lag = Parameter("lag", 0.005, lower=0)
    solution = arm([log(0, 1e-3)], "w", "prompt", lag=lag).solve(estimator="noise")
    assert abs(solution["lag"].estimate - 1e-3) < 4 * solution["lag"].std_err < 4e-4


def with_integral():
    """Arm under a servo with an integral, and its log."""
    log, axes, body = driven(3, end=3.0), dict(x=(0, 1, 0), y=(0, 0, -1)), Body("arm", mass=M, inertia=(1e-9,) * 3)
    joint = Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes), armature=0.002, viscous=0.07)
    servo = Servo(joint, "goal", kp=Parameter("kp", 1.5, lower=0), ki=5.0, kd=0.0)
    return Problem("arm", Model([body], [joint], [servo], gravity=gravity(9.81)), [log], [HingeAngle(joint, "q")])


@pytest.mark.parametrize("with_states", [lambda: arm([log(0)], "w", "prompt"), with_integral])
def test_noise_of_states_that_have_none_is_not_listed(tmp_path, with_states):
    solution = with_states().solve(estimator="noise")
    solution.save(tmp_path / "result")
    for shown in (solution, load(tmp_path / "result")):
        words = shown.summary(verbose=True)
        assert "process noise of joint" in words
        assert not re.search("filter|integral|given", words)
    (name,) = {one.names[0] for one in solution.noise if one.internal}
    units = {one.kind: one.unit for one in solution.noise if one.internal}
    assert units == {"disturbance": "rad/s" if name == "w filter" else "rad", "sensor": "rad"}


def test_an_angle_that_turns_over_is_filtered_the_short_way_round():
    lag, t = 0.05, np.arange(0, 3, 0.01)
    rotor = Body("rotor", mass=1, inertia=(1e-3, 1e-3, 1e-3))
    axle = Hinge("axle", GROUND.frame(), rotor.frame(), viscous=1e-4)
    T_lag = Parameter("lag", 0.02, lower=0)
    model = Model([rotor], [axle], [Motor(axle, "u")], gravity=(0, 0, 0))
    drag, begin = 1e-4 / 1e-3, 8.0
    turned = begin / drag * (1 - np.exp(-drag * t))
    # y' = (q - y)/T with q(0) = y(0) = 0, for q = (s/d)(1 - exp(-d t))
    late = begin / drag * (1 - np.exp(-drag * t) / (1 - lag * drag)) + begin * lag / (1 - lag * drag) * np.exp(-t / lag)
    noise = 1e-3 * np.random.default_rng(0).normal(size=(2, len(t)))
    wrapped = [np.angle(np.exp(1j * (values + e))) for values, e in zip((turned, late), noise, strict=True)]
    recording = Recording(t, {"u": np.zeros(len(t)), "q": wrapped[0], "y": wrapped[1]}, name="turns")
    sensors = [HingeAngle(axle, "q"), HingeAngle(axle, "y", lag=T_lag)]
    solution = Problem("turns", model, [recording], sensors, step=0.01).solve()
    assert abs(solution["lag"].estimate - lag) < 4 * solution["lag"].std_err < 4e-3


def test_a_smoother_follows_a_filter():
    recording = log(3)
    first = arm([recording.between(0, 3)], "w", "prompt", step_correction=False)
    smoother = FixedLagSmoother(first, window=50, start=first.solve(estimator="noise"))
    for k, t in enumerate(T):
        if t > 3:
            estimate = smoother.update(t, {name: recording.signals[name][k] for name in ("u", "w", "prompt")})
    for name, value in TRUTH.items():
        assert abs(estimate.values[name] - value) < 4 * estimate.std_errs[name], name
    assert estimate.rates["w filter"] == pytest.approx(reported(*lagged_velocity(3))[-1], abs=0.05)


def lagged_velocity(seed):
    _, t, (_, w) = motion(seed)
    return t, w, TRUTH["lag"]


def test_sensors_of_another_problem_leave_no_state_behind():
    problem = arm([log(0)], "w", "prompt")
    assert [body.name for body in problem.model.bodies] == ["arm", "w filter state"]
    (prompt,) = (one for one in problem.observations if getattr(one, "signal", "") == "prompt")
    assert [body.name for body in problem.with_(observations=[prompt]).model.bodies] == ["arm"]


def test_check_takes_a_lag_and_a_design_refuses_it(tmp_path, capsys):
    np.savez(tmp_path / "log.npz", t=T, **log(0).signals)
    (tmp_path / "one.py").write_text(
        f"""
from spookid import *

J, b, lag = Parameter("J", 0.003, lower=0), Parameter("b", 0.03, lower=0), Parameter("lag", 0.01, lower=0)
axes, body = dict(x=(0, 1, 0), y=(0, 0, -1)), Body("arm", mass=0.5, inertia=(1e-9, 1e-9, 1e-9))
joint = Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, 0.1), **axes), armature=J, viscous=b)
model = Model([body], [joint], [Motor(joint, "u")], gravity=gravity(9.81))
sensors = [JointRate(joint, "w", lag=lag), HingeAngle(joint, "prompt")]
problem = Problem("one", model, [Recording.from_npz({str(tmp_path / "log.npz")!r})], sensors, step=0.005)
"""
    )
    assert main(["check", str(tmp_path / "one.py")]) == 0
    out = capsys.readouterr().out
    assert "w filter (Wheel" in out
    assert "w filter: " not in out
    assert "not identifiable" not in out
    limits = ["--rate-limit", "joint=3", "--effort-limit", "joint=1", "--position-limit", "joint=-1:1"]
    design = ["excite", str(tmp_path / "one.py"), "--duration", "2", *limits, "--out", str(tmp_path / "plan.csv")]
    assert main(design) == 2
    assert "a sensor has a lag ('w filter'); design motions with lag=0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "words"),
    [(-0.1, "lag is -0.1"), ("slow", "lag"), (Parameter("T", 0.0, lower=0), "begin with a positive")],
)
def test_wrong_lags_are_refused(value, words):
    with pytest.raises(ProblemError, match=words):
        arm([], "q", lag=value)


def test_a_lag_of_a_measured_torque_is_refused():
    joint = Hinge("joint", GROUND.frame(), Body("arm", mass=1, inertia=(1, 1, 1)).frame())
    with pytest.raises(ProblemError, match="what it shows drives the motion; leave the lag out"):
        JointTorque(joint, "tau", lag=0.01)
