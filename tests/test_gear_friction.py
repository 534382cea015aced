"""Friction of gears against an independent integrator of the friction budget, its parameters from logs, refusals."""

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Distance,
    GearFriction,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Servo,
    Spook,
    gravity,
)

RATE, SPAN = 200, 5.0
T = np.arange(0, SPAN, 1 / RATE)
M, L, J, B = 0.5, 0.1, 0.002, 0.01
"""Of an arm that hangs: mass [kg], length [m], armature [kg m²], viscous friction [N m s]."""
GOAL = 0.9 * np.sin(2 * np.pi * 0.5 * T) + 0.35 * np.sin(2 * np.pi * 1.3 * T) + 0.4 * np.sign(np.sin(1.8 * T))
BUDGET = dict(c=0.02, K_m=0.25, K_e=0.1, c_s=0.03, v_s=0.6, alpha=1.5, Q_m=0.3, Q_e=0.5)


def budget(motor, external, rate):
    """The friction budget as the source has it: M6 but for stiction that follows efforts."""
    p = BUDGET
    total = p["c"] + abs(p["K_m"] * motor - p["K_e"] * external)
    extra = p["c_s"]
    if motor * external < 0:
        extra += p["Q_e"] * external**2 if abs(motor) > abs(external) else p["Q_m"] * motor**2
    return total + np.exp(-(abs(rate / p["v_s"]) ** p["alpha"])) * extra


def motion(noise=1e-3, seed=0, parts=50):
    """The arm under a PD drive; friction stops it where the bound suffices, in steps of 0.1 ms."""
    q = s = 0.0
    h, angles = 1 / RATE / parts, [0.0]
    inertia = J + M * L**2
    for goal in GOAL[:-1]:
        for _ in range(parts):
            motor, external = 2.5 * (goal - q) - 0.05 * s, -M * 9.81 * L * np.sin(q)
            free = motor + external - B * s
            bound = budget(motor, external, s)
            s += h * (free + np.clip(-(inertia * s / h + free), -bound, bound)) / inertia
            q += h * s
        angles.append(q)
    shown = np.array(angles) + noise * np.random.default_rng(seed).normal(size=len(T))
    return Recording(T, {"goal": GOAL, "q": shown}, name="log")


def problem(recording, load, **settings):
    body, axes = Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9)), dict(x=(0, 1, 0), y=(0, 0, -1))
    frames = GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes)
    joint = Hinge("joint", *frames, armature=J, viscous=B, loads=[load])
    model = Model([body], [joint], [Servo(joint, "goal", kp=2.5, kd=0.05)], gravity=gravity(9.81))
    return Problem("gears", model, [recording], [HingeAngle(joint, "q")], step=1 / RATE, **settings)


def declared(**changes):
    p = BUDGET | changes
    near_rest = dict(stiction=p["c_s"], stribeck_velocity=p["v_s"], exponent=p["alpha"])
    squares = dict(motor_square=p["Q_m"], external_square=p["Q_e"])
    return GearFriction(p["c"], motor=p["K_m"], external=p["K_e"], **near_rest, **squares, rounding=1e-3)


@pytest.mark.parametrize(
    ("settings", "apart"),
    [
        (dict(friction="exact"), 2e-3),
        (dict(friction="smooth", friction_width=1e-3), 2e-3),
        (dict(friction="exact", stepper=Spook()), 8e-3),  # of first order
    ],
)
def test_simulations_follow_the_budget(settings, apart):
    recording = motion(noise=0)
    asked = problem(recording, declared(), **settings)
    simulated = asked.simulate(initial={"joint": 0.0}, **({} if "stepper" in settings else {"substeps": 8}))
    away = np.interp(T, simulated.t, simulated.signals["q"]) - recording.signals["q"]
    assert np.sqrt(np.mean(away**2)) < apart


def test_parameters_of_the_budget_are_found_where_the_joint_sticks_too():
    names = dict(c=0.03, K_m=0.2, K_e=0.05, c_s=0.02)
    given = {name: Parameter(name, guess, lower=0) for name, guess in names.items()}
    solution = problem(motion(), declared(**given), friction="exact").solve()
    for name in names:
        assert abs(solution[name].estimate - BUDGET[name]) < 4.5 * solution[name].std_err, name
        assert solution[name].std_err < 0.5 * BUDGET[name], name


def test_efforts_of_motors_count_like_those_of_servos():
    recording = Recording(T, {"u": np.sin(3 * T)}, name="log")
    body, axes = Body("arm", mass=M, inertia=(1e-9, 1e-9, 1e-9)), dict(x=(0, 1, 0), y=(0, 0, -1))
    frames = GROUND.frame(**axes), body.frame(at=(0, 0, L), **axes)
    found = []
    for kind in (Motor, lambda joint, signal: Servo(joint, signal, mode="effort")):
        joint = Hinge("joint", *frames, armature=J, viscous=B, loads=[GearFriction(0.01, motor=0.3, external=0.1)])
        model = Model([body], [joint], [kind(joint, "u")], gravity=gravity(9.81))
        one = Problem("gears", model, [], [HingeAngle(joint, "q")], step=1 / RATE)
        found.append(one.simulate(initial={"joint": 0.0}, inputs=recording, duration=2).signals["q"])
    assert np.ptp(found[0]) > 0.1
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(motor=-0.1), "motor is -0.1; it must not be negative"),
        (dict(stiction=0.1), "has stiction and no stribeck_velocity"),
        (dict(stiction=0.1, stribeck_velocity=0), "stribeck_velocity is 0; it must be positive"),
        (dict(rounding=0), "rounding is 0"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ProblemError, match=words):
        GearFriction(**arguments)


def test_gears_in_a_loop_are_refused():
    arm, axes = Body("arm", mass=M, inertia=(1e-3,) * 3), dict(x=(0, 1, 0), y=(0, 0, -1))
    joint = Hinge("joint", GROUND.frame(**axes), arm.frame(**axes), loads=[GearFriction(0.01, motor=0.1)])
    tie = Distance("rod", GROUND.frame(), arm.frame(at=(0.1, 0, 0)), length=0.1)
    model = Model([arm], [joint], constraints=[tie], gravity=gravity(9.81))
    with pytest.raises(ProblemError, match="closed loops"):
        Problem("loop", model, [], [HingeAngle(joint, "q")], step=0.01).simulate(duration=0.1)
