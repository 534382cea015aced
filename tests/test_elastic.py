"""Elastic gears: motors behind springs, from motions of an independent integrator, in every form of a fit."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Elastic,
    EnergyBalance,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Spherical,
    gravity,
)

RATE, SPAN = 200, 5.0
T = np.arange(0, SPAN, 1 / RATE)
M, L = 0.5, 0.1
TRUTH = {"k": 8.0, "d": 0.01, "J": 0.002, "b": 0.02}
AXES = dict(x=(0, 1, 0), y=(0, 0, -1))


def log(seed):
    """Recording of encoders on both sides of the gear."""
    rng = np.random.default_rng(seed)
    waves = rng.uniform([0.05, 2, 0], [0.2, 25, 6], (5, 3))
    torque = sum(a * np.sin(w * T + f) for a, w, f in waves)

    def rates(t, x):
        u = torque[min(int(t * RATE + 1e-9), len(T) - 1)]
        passed = TRUTH["k"] * (x[0] - x[1]) + TRUTH["d"] * (x[2] - x[3])
        motor = (u - TRUTH["b"] * x[2] - passed) / TRUTH["J"]
        return [x[2], x[3], motor, (passed - M * 9.81 * L * np.sin(x[1])) / (M * L**2)]

    found = solve_ivp(rates, (0, SPAN), [0.3, 0.3, 0, 0], t_eval=T, max_step=0.2 / RATE, rtol=1e-8, atol=1e-10).y
    noise = 1e-3 * rng.normal(size=(2, len(T)))
    return Recording(T, {"u": torque, "motor": found[0] + noise[0], "link": found[1] + noise[1]}, name=f"log{seed}")


def problem(recording, seen=("motor",), coordinates=None, **settings):
    k, d, J, b = (Parameter(name, 1.4 * value, lower=0) for name, value in TRUTH.items())
    arm, gear = Body("arm", mass=M, inertia=(1e-9,) * 3), Elastic(k, d, motor_inertia=J, viscous=b)
    elbow = Hinge("elbow", GROUND.frame(**AXES), arm.frame(at=(0, 0, L), **AXES), elastic=gear)
    model = Model([arm], [elbow], [Motor(elbow.motor, "u")], gravity=gravity(9.81), coordinates=coordinates)
    sensors = {"motor": HingeAngle(elbow.motor, "motor"), "link": HingeAngle(elbow, "link")}
    return Problem("elastic", model, [recording], [sensors[one] for one in seen], step=1 / RATE, **settings)


@pytest.mark.parametrize("seen", [("motor",), ("link",), ("motor", "link")])
def test_the_gear_is_identified_from_either_side(seen):
    for seed in range(2):
        solution = problem(log(seed), seen).solve()
        for name, true in TRUTH.items():
            found = solution[name]
            assert abs(found.estimate - true) < 4.5 * found.std_err < 4.5 * 0.5 * true
        assert "start.unobserved" not in [finding.code for finding in solution.findings]


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"coordinates": "maximal"}, {}),
        ({"friction": "exact"}, {}),
        ({"state_weight": 1e8}, {}),
        ({"residuals": [EnergyBalance()]}, {}),
        ({}, {"backend": "ipopt"}),
    ],
)
def test_every_form_of_a_fit_has_the_same_answer(settings, options):
    both = ("motor", "link")
    one, other = problem(log(2), both).solve(), problem(log(2), both, **settings).solve(**options)
    for name in TRUTH:
        apart = abs(one[name].estimate - other[name].estimate)
        assert apart < 0.5 * one[name].std_err + 1e-3 * TRUTH[name]  # a given weight leaves errors of the step


def test_a_simulation_has_the_motion_of_both_sides():
    recording = log(3)
    made = problem(recording, ("motor", "link")).simulate(TRUTH, inputs=recording)
    for name in ("motor", "link"):
        measured = np.interp(made.t, recording.t, recording.signal(name))
        assert np.sqrt(np.mean((made.signal(name) - measured) ** 2)) < 0.02  # the log has noise, and its own start


def test_a_slider_moves_with_its_motor():
    """A mass on a spring whose other end, without mass of note, is driven: ẍ = (u − c ẋ)/(m + J) where it is stiff."""
    mass, m, J = Parameter("m", 2.0, lower=0), 1.5, 0.5
    x, u = 0.3 * np.sin(4 * T), -0.3 * 16 * (m + J) * np.sin(4 * T)
    recording = Recording(T, {"u": u, "x": x + 1e-5 * np.random.default_rng(0).normal(size=len(T))})
    cart, gear = Body("cart", mass=mass, inertia=(1, 1, 1)), Elastic(5e3, 5, motor_inertia=J)
    rail = Prismatic("rail", GROUND.frame(), cart.frame(), elastic=gear)
    model = Model([cart], [rail], [Motor(rail.motor, "u", hold="linear")], gravity=gravity(9.81))
    found = Problem("rail", model, [recording], [JointPosition(rail, "x")], step=1 / RATE).solve()["m"]
    # The spring gives by m ω²/k: the motor moves that much more.
    assert abs(found.estimate - m) < 0.01 * m
    assert rail.motor.coordinates[0].unit == "m"


def test_what_is_refused():
    arm = Body("arm", mass=M, inertia=(1, 1, 1))
    with pytest.raises(ProblemError, match="stiffness is -1"):
        Elastic(-1, motor_inertia=1)
    with pytest.raises(ProblemError, match="motor_inertia is -1"):
        Elastic(1, motor_inertia=-1)
    with pytest.raises(ProblemError, match="has 3 coordinates; give it to a joint of one"):
        Spherical("ball", GROUND.frame(), arm.frame(), elastic=Elastic(1, motor_inertia=1))
    with pytest.raises(ProblemError, match="give it as elastic="):
        Hinge("hinge", GROUND.frame(), arm.frame(), loads=[Elastic(1, motor_inertia=1)])
    with pytest.raises(ProblemError, match="give an Elastic"):
        Hinge("hinge", GROUND.frame(), arm.frame(), elastic=100)
