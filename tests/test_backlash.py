"""Backlash: its law, its width from the motor's encoder alone, no alarm without it, and refusals."""

import casadi as ca
import numpy as np
import pytest

from spookid import (
    GROUND,
    Backlash,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    gravity,
)

RATE, SPAN, PARTS = 200, 6.0, 25
T = np.arange(0, SPAN, 1 / RATE)
M, L, J, B, K, D = 0.5, 0.1, 0.002, 0.02, 100.0, 0.2
"""Mass and length of the link, inertia and friction of the rotor, stiffness and damping of the gear."""
COUNT = 2 * np.pi / 4096


def log(width, seed):
    """Recording of the motor's 12-bit encoder; the motion by Runge–Kutta steps of 0.2 ms of the exact law."""
    rng = np.random.default_rng(seed)
    waves = rng.uniform([0.05, 2, 0], [0.15, 12, 6], (4, 3))
    torque = sum(a * np.sin(w * T + f) for a, w, f in waves)

    def rates(x, u):
        twist, turning = x[0] - x[1], x[2] - x[3]
        touches = abs(twist) >= width / 2
        passed = K * (twist - np.clip(twist, -width / 2, width / 2)) + D * turning * touches
        gravity = M * 9.81 * L * np.sin(x[1])
        return np.array([x[2], x[3], (u - B * x[2] - passed) / J, (passed - gravity) / (M * L**2)])

    h, x, angles = 1 / RATE / PARTS, np.zeros(4), []
    for u in torque:
        angles.append(x[0])
        for _ in range(PARTS):
            a = rates(x, u)
            b = rates(x + h / 2 * a, u)
            c = rates(x + h / 2 * b, u)
            d = rates(x + h * c, u)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
    shown = (np.floor((np.array(angles) + 0.3) / COUNT) + 0.5) * COUNT - 0.3
    return Recording(T, {"u": torque, "q": shown}, name=f"log{seed}")


def width_of(recording):
    axes, w = dict(x=(0, 1, 0), y=(0, 0, -1)), Parameter("w", 1e-3, lower=0)
    inertia, friction = Parameter("J", 1.3 * J, lower=0), Parameter("b", 1.3 * B, lower=0)
    rotor, link = Body("rotor", mass=0.1, inertia=(inertia,) * 3), Body("link", mass=M, inertia=(1e-9,) * 3)
    motor = Hinge("motor", GROUND.frame(**axes), rotor.frame(**axes), viscous=friction)
    play = Hinge("play", rotor.frame(**axes), link.frame(at=(0, 0, L), **axes), loads=[Backlash(w, K, D)])
    model = Model([rotor, link], [motor, play], [Motor(motor, "u")], gravity=gravity(9.81))
    return Problem("play", model, [recording], [HingeAngle(motor, "q")], step=0.0025).solve()["w"]


def test_a_width_of_little_more_than_a_count_is_found():
    for seed in range(3):
        w = width_of(log(2e-3, seed))
        assert abs(w.estimate - 2e-3) < 4.5 * w.std_err
        assert w.std_err < 1e-4


def test_there_is_no_alarm_without_backlash():
    for seed in range(3):
        w = width_of(log(0.0, seed))
        assert w.estimate < 2.5 * w.std_err or w.estimate < 1e-6


def test_its_law():
    x, s = np.array([-0.4, -0.1, 0.0, 0.05, 0.3]), np.array([1.0, 1.0, 2.0, -1.0, -2.0])
    exact = -K * (x - np.clip(x, -0.1, 0.1)) - D * s * (np.abs(x) > 0.1)
    law = ca.SX.sym("x"), ca.SX.sym("s")
    for width, wanted in ((0.2, exact), (0.0, -K * x - D * s)):
        effort = ca.Function("law", [*law], [Backlash(width, K, D, rounding=1e-6).effort(*law, ca.SX(0, 1))])
        found = np.array(effort(x[None, :], s[None, :]).full())[0]
        inside = np.abs(x) != 0.1
        assert np.allclose(found[inside], wanted[inside], atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"), [((-1, 1), "width is -1"), ((1, -1), "stiffness is -1"), ((1, 1, -1), "damping is -1")]
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ProblemError, match=words):
        Backlash(*arguments)
    with pytest.raises(ProblemError, match="rounding is 2"):
        Backlash(1, 1, rounding=2)
