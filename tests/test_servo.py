"""Servos: laws against motions of an independent integrator, their parameters from logs of commands, and refusals."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    DCDrive,
    Effort,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Servo,
    gravity,
)
from spookid.__main__ import main

RATE, SPAN = 200, 6.0
T = np.arange(0, SPAN, 1 / RATE)
M, L, J, B = 0.5, 0.1, 0.002, 0.02
"""Of an arm that hangs: mass [kg], length [m], armature [kg m²], viscous friction [N m s]."""


def goal(t):
    """A command that moves fast enough for limits to act."""
    return 0.8 * np.sign(np.sin(2 * np.pi * 0.45 * t)) + 0.4 * np.sin(2 * np.pi * 1.3 * t)


def motion(effort, late=0.0, seed=0, noise=1e-3):
    """Recording of the arm under an effort τ(u, q, s, t), with white noise of the encoder; its command acts late."""
    held = goal(T)

    def rate(u):
        torque = lambda t, x: effort(u, x[0], x[1], t) - B * x[1] - M * 9.81 * L * np.sin(x[0])  # noqa: E731
        return lambda t, x: [x[1], torque(t, x) / (J + M * L**2)]

    parts, x = [np.zeros((2, 1))], np.zeros(2)
    for k in range(len(T) - 1):  # between jumps of the command
        corners = [T[k], *([T[k] + late % (1 / RATE)] if late % (1 / RATE) else []), T[k + 1]]
        for begin, end in pairwise(corners):
            middle = held[max(int(np.floor(((begin + end) / 2 - late) * RATE)), 0)]
            result = solve_ivp(rate(middle), (begin, end), x, rtol=1e-8, atol=1e-10)
            x = result.y[:, -1]
        parts.append(x[:, None])
    angle = np.hstack(parts)[0]
    shown = angle + noise * np.random.default_rng(seed).normal(size=len(T))
    return Recording(T, {"goal": held, "q": shown}, name="log")


def arm(**hinge):
    """The arm and its joint."""
    body, axes = Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9)), dict(x=(0, 1, 0), y=(0, 0, -1))
    return body, Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes), **{"armature": J, **hinge})


def problem(recording, servo, **hinge):
    body, joint = arm(**hinge)
    model = Model([body], [joint], [servo(joint)], gravity=gravity(9.81))
    return Problem("servo", model, recordings=[recording], observations=[HingeAngle(joint, "q")], step=1 / RATE)


def covered(solution, truth):
    """Each estimate within 4.5 errors of the truth, and determined to a fifth of it."""
    for name, value in truth.items():
        found = solution[name]
        assert abs(found.estimate - value) < 4.5 * found.std_err, (name, found)
        assert found.std_err < 0.2 * abs(value), (name, found)


def test_gains_and_limit_follow_from_commands_and_positions():
    truth = {"kp": 3.0, "kd": 0.08, "limit": 1.2, "b": B}
    recording = motion(lambda u, q, s, t: np.clip(3.0 * (u - q) - 0.08 * s, -1.2, 1.2))
    kp, kd, limit = Parameter("kp", 2.0, lower=0), Parameter("kd", 0.04, lower=0), Parameter("limit", 1.6, lower=0.1)
    b = Parameter("b", B, prior=(B, 1e-4))
    solved = problem(recording, lambda j: Servo(j, "goal", kp=kp, kd=kd, limit=limit, rounding=1e-3), viscous=b).solve()
    covered(solved, truth)


def test_a_voltage_drive_with_a_measured_supply_that_lets_go():
    k, R = 0.35, 3.0
    supply, enabled = 7.4 - 0.4 * np.sin(T), np.where((T > 2) & (T < 3), 0.0, 1.0)

    def effort(u, q, s, t):
        i = min(int(t * RATE + 1e-6), len(T) - 1)
        voltage = np.clip(1.1 * (u - q), -0.8, 0.8) * np.interp(t, T, supply)
        return enabled[i] * k * (voltage - k * s) / R

    recording = motion(effort)
    signals = {**recording.signals, "vin": supply, "on": enabled}
    found = Parameter("k", 0.25, lower=0.01), Parameter("R", 4.0, lower=0.1)
    drive = DCDrive(torque_constant=found[0], resistance=found[1], supply="vin", duty_limit=0.8)
    asked = problem(
        Recording(T, signals, name="log"), lambda j: Servo(j, "goal", kp=1.1, drive=drive, enabled="on"), viscous=B
    )
    covered(asked.solve(), {"k": k, "R": R})


def test_a_delay_of_commands_is_found():
    recording = motion(lambda u, q, s, t: 2.0 * (u - q) - 0.05 * s, late=0.0125)
    kp, delay = Parameter("kp", 1.5, lower=0), Parameter("delay", 0.005, lower=0, upper=0.1)
    solved = problem(recording, lambda j: Servo(j, "goal", kp=kp, kd=0.05, delay=delay), viscous=B).solve()
    covered(solved, {"kp": 2.0, "delay": 0.0125})


def test_a_lag_of_commands_is_found_where_a_limit_acts():
    T_lag, held = 0.03, goal(T)
    acting = np.empty(len(T))  # at the samples; between them it fades
    acting[0] = held[0]
    for k in range(len(T) - 1):
        acting[k + 1] = held[k] + (acting[k] - held[k]) * np.exp(-1 / RATE / T_lag)

    def effort(u, q, s, t):
        k = min(int(t * RATE + 1e-6), len(T) - 1)
        commanded = u + (acting[k] - u) * np.exp(-(t - T[k]) / T_lag)
        return np.clip(3.0 * (commanded - q) - 0.05 * s, -1.2, 1.2)

    kp, lag = Parameter("kp", 2.0, lower=0), Parameter("lag", 0.01, lower=0, upper=0.2)
    limit = Parameter("limit", 1.6, lower=0.1)
    drive = lambda j: Servo(j, "goal", kp=kp, kd=0.05, limit=limit, lag=lag, rounding=1e-3)  # noqa: E731
    covered(problem(motion(effort), drive, viscous=B).solve(), {"kp": 3.0, "lag": T_lag, "limit": 1.2})


def with_integral():
    """Recording of the arm under k_p = 2, k_i = 5 and k_d = 0.05."""
    held, x, angle = goal(T), np.zeros(3), [0.0]
    for u in held[:-1]:
        torque = lambda x, u=u: 2.0 * (u - x[0]) + 5.0 * x[2] - 0.05 * x[1] - B * x[1] - M * 9.81 * L * np.sin(x[0])  # noqa: E731
        rates = lambda t, x, u=u, torque=torque: [x[1], torque(x) / (J + M * L**2), u - x[0]]  # noqa: E731
        x = solve_ivp(rates, (0, 1 / RATE), x, rtol=1e-8, atol=1e-10).y[:, -1]
        angle.append(x[0])
    shown = np.array(angle) + 1e-3 * np.random.default_rng(0).normal(size=len(T))
    return Recording(T, {"goal": held, "q": shown}, name="log")


@pytest.mark.parametrize("estimator", ["auto", "hard"])
def test_an_integral_of_the_error_is_found(estimator):
    kp, ki, b = Parameter("kp", 1.5, lower=0), Parameter("ki", 3.0, lower=0), Parameter("b", 0.03, lower=0)
    declared = problem(with_integral(), lambda j: Servo(j, "goal", kp=kp, ki=ki, kd=0.05), viscous=b)
    covered(declared.solve(estimator=estimator), {"kp": 2.0, "ki": 5.0, "b": B})


PRODUCT = "kp=kp, drive=DCDrive(torque_constant=ki, resistance=3, supply=7, back_emf=0, duty_limit=None)"
"""A drive in which the gain and the torque constant are a product, as it has neither limit nor back-EMF."""


@pytest.mark.parametrize(
    ("servo", "named"), [("kp=kp, ki=ki, kd=0.05", ""), (PRODUCT, "kp +100 %, ki -100 % (not identifiable)")]
)
def test_what_is_not_identifiable_is_named_before_the_fit(servo, named, tmp_path, capsys):
    log = with_integral()
    np.savez(tmp_path / "log.npz", t=log.t, **log.signals)
    (tmp_path / "one.py").write_text(UNSOLVED.replace("LOG", str(tmp_path / "log.npz")).replace("SERVO", servo))
    assert main(["check", str(tmp_path / "one.py")]) == 0
    told = capsys.readouterr().out
    assert ("not identifiable" in told) is bool(named)
    assert named in told


def test_friction_that_sticks_with_deterministic_dynamics():
    # Where who sticks is wrong, a search can end with a joint that nothing drives: kp, c and delay are then zero.
    recording = motion(lambda u, q, s, t: 3.0 * (u - q) - 0.05 * s - 0.1 * np.tanh(s / 1e-3), late=0.008)
    kp, c = Parameter("kp", 4.2, lower=0), Parameter("c", 0.14, lower=0)
    delay = Parameter("delay", 0.0112, lower=0)
    asked = problem(recording, lambda j: Servo(j, "goal", kp=kp, kd=0.05, delay=delay), viscous=B, coulomb=c)
    solved = asked.with_(friction="exact", estimator="hard").solve()
    assert solved.status.value == "converged", solved.detail
    covered(solved, {"kp": 3.0, "c": 0.1, "delay": 0.008})


def test_jumps_that_saturate_within_a_step_do_not_shift_the_delay():
    recording = motion(lambda u, q, s, t: np.clip(3.0 * (u - q) - 0.05 * s, -1.2, 1.2), late=0.0083)
    kp, delay = Parameter("kp", 2.0, lower=0), Parameter("delay", 0.004, lower=0, upper=0.1)
    solved = problem(
        recording, lambda j: Servo(j, "goal", kp=kp, kd=0.05, limit=1.2, delay=delay, rounding=1e-3), viscous=B
    ).solve()
    covered(solved, {"kp": 3.0, "delay": 0.0083})
    assert solved["delay"].std_err < 5e-5  # s; a limit of the mean command shifts it by 4e-4 s


@pytest.mark.parametrize("capacitor", [True, False])
def test_a_supply_that_sags_under_load(capacitor):
    k, R, source = 0.35, 3.0, 1.2

    def effort(u, q, s, t):
        duty = np.clip(1.1 * (u - q), -1, 1)
        current = (duty * 7.4 - k * s) / R
        for _ in range(60):  # the voltage at the drive is that of the supply less R_s times what it conducts
            conducted = duty * current if capacitor else np.sign(duty) * current  # without: while it is on
            current = (duty * (7.4 - source * conducted) - k * s) / R
        return k * current

    found = Parameter("k", 0.25, lower=0.01), Parameter("R", 4.0, lower=0.1), Parameter("R_s", 0.5, lower=0)
    drive = DCDrive(
        torque_constant=found[0], resistance=found[1], supply=7.4, source_resistance=found[2], capacitor=capacitor
    )
    asked = problem(motion(effort), lambda j: Servo(j, "goal", kp=1.1, drive=drive), viscous=B)
    covered(asked.solve(), {"k": k, "R": R, "R_s": source})


@pytest.mark.parametrize(
    ("mode", "law"),
    [("velocity", lambda u, q, s: 0.3 * (u - s)), ("effort", lambda u, q, s: 0.5 * u - 0.03 * s)],
)
def test_simulations_follow_velocity_and_effort_commands(mode, law):
    recording = motion(lambda u, q, s, t: law(u, q, s), noise=0)
    gains = {"velocity": dict(kp=0.3), "effort": dict(kp=0.5, kd=0.03)}[mode]
    asked = problem(recording, lambda j: Servo(j, "goal", mode=mode, **gains), viscous=B)
    simulated = asked.simulate(initial={"joint": 0.0})
    assert np.allclose(np.interp(T, simulated.t, simulated.signals["q"]), recording.signals["q"], atol=2e-3)


def test_an_effort_of_a_joint_acts_late_too():
    recording = motion(lambda u, q, s, t: 0.5 * u, late=0.01)
    K, delay = Parameter("K", 0.3), Parameter("delay", 0.004, lower=0, upper=0.1)
    body, joint = arm(viscous=B, loads=[Effort(K, signal="goal", delay=delay)])
    model = Model([body], [joint], gravity=gravity(9.81))
    asked = Problem("effort", model, recordings=[recording], observations=[HingeAngle(joint, "q")], step=1 / RATE)
    covered(asked.solve(), {"K": 0.5, "delay": 0.01})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(kp=-1), "kp is -1"),
        (dict(mode="force"), "mode is 'force'; give 'position', 'velocity' or 'effort'"),
        (dict(limit=0), "limit is 0"),
        (dict(lag=-0.1), "lag is -0.1"),
        (dict(ki=1, integral_limit=0), "integral_limit is 0"),
        (dict(ki=1, mode="effort"), "needs a position or velocity command"),
        (dict(rounding=0), "rounding is 0"),
        (dict(enabled=""), "enabled is ''"),
        (dict(coordinate=1), "coordinate"),
    ],
)
def test_what_is_refused(arguments, words):
    _, joint = arm()
    with pytest.raises(ProblemError, match=words):
        Servo(joint, "goal", **{"kp": 1, **arguments})


def test_deterministic_dynamics_begin_again_from_process_noise_where_they_stall():
    """A saturated drive, from initial values that are wrong by 60 %."""

    def effort(u, q, s, t):
        return 0.5 * np.clip((7.4 * np.clip(2 * (u - q), -1, 1) - 0.5 * s) / 3, -1.5, 1.5)

    truth = {"k": 0.5, "G": 2.0, "b": B, "J": J}
    k, G, b, armature = (Parameter(name, 1.6 * value, lower=0) for name, value in truth.items())
    drive = DCDrive(torque_constant=k, resistance=3, supply=7.4, current_limit=1.5)
    body, joint = arm(viscous=b, armature=armature)
    model = Model([body], [joint], [Servo(joint, "goal", kp=G, drive=drive)], gravity=gravity(9.81))
    declared = Problem("servo", model, [motion(effort)], [HingeAngle(joint, "q")], step=1 / RATE)
    solution = declared.solve(estimator="hard")
    assert "process noise" in {one.stage for one in solution.stages}
    covered(solution, truth)


def test_a_drive_without_resistance_is_refused():
    with pytest.raises(ProblemError, match="resistance is 0"):
        DCDrive(torque_constant=1, resistance=0, supply=12)


def test_one_signal_with_two_delays_is_refused():
    body, joint = arm()
    with pytest.raises(ProblemError, match="another delay, lag or hold"):
        Model([body], [joint], [Servo(joint, "goal"), Motor(joint, "goal", delay=0.1)], gravity=gravity(9.81))


DECLARED = """
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Problem, Servo, gravity

arm, axes = Body("arm", mass=0.5, inertia=(1e-6, 1e-6, 1e-6)), dict(x=(0, 1, 0), y=(0, 0, -1))
joint = Hinge("joint", GROUND.frame(**axes), arm.frame(at=(0, 0, 0.1), **axes))
model = Model([arm], [joint], [Servo(joint, "goal", kp=2)], gravity=gravity(9.81))
problem = Problem("servo", model, [], [HingeAngle(joint, "q")], step=0.005)
"""


UNSOLVED = """from spookid import *

axes = dict(x=(0, 1, 0), y=(0, 0, -1))
arm = Body("arm", mass=0.5, inertia=(1e-9, 1e-9, 1e-9))
joint = Hinge("joint", GROUND.frame(**axes), arm.frame(at=(0, 0, 0.1), **axes), armature=0.002, viscous=0.02)
kp, ki = Parameter("kp", 1.5, lower=0), Parameter("ki", 3.0, lower=0)
servo = Servo(joint, "goal", SERVO)
problem = Problem("servo", Model([arm], [joint], [servo], gravity=gravity(9.81)), [Recording.from_npz('LOG')],
                  [HingeAngle(joint, "q")], step=0.005)
"""


def test_check_lists_servos_among_the_motors(tmp_path, capsys):
    (tmp_path / "one.py").write_text(DECLARED)
    assert main(["check", str(tmp_path / "one.py")]) == 0
    assert "goal on joint (servo)" in capsys.readouterr().out
