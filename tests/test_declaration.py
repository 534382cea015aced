"""Wrong declarations: each is refused at its own line by a sentence that names the thing."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from mechanisms import chain, pendulum

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
    Recording,
    Spook,
    gravity,
    tilted_gravity,
)

FIELD = gravity(9.81)
J = Parameter("J", 0.01, lower=1e-6)


def body(name: str = "A", **more: object) -> Body:
    return Body(name, **{"mass": 1.0, "inertia": (1, 1, 1), **more})


def hinge(name: str = "shoulder", parent: object = None, child: object = None, **more: object) -> Hinge:
    return Hinge(name, parent or GROUND.frame(), child or body().frame(), **more)


def recording(**signals: object) -> Recording:
    return Recording(t=np.arange(11) * 0.1, signals=signals or {"theta": np.zeros(11)}, name="run")


def problem(**more: object) -> Problem:
    return Problem("swing", **{"model": pendulum(inertia=J), **more})


def refuses(declare: Callable[[], object], *parts: str, line: bool = True) -> None:
    """``declare`` raises one sentence that holds ``parts`` and begins with the line of the declaration in this file."""
    with pytest.raises(ProblemError) as caught:
        declare()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    if line:
        own = {f.lineno for f in traceback.extract_tb(caught.tb) if f.filename == __file__}
        place = re.match(r"test_declaration\.py:(\d+): ", message)
        assert place, message
        assert int(place[1]) in own


# --- bodies and frames ---


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"mass": -1}, ["Body 'A'", "mass -1 kg", "must be positive"]),
        ({"mass": 0}, ["Body 'A'", "mass 0 kg"]),
        ({"mass": "heavy"}, ["Body 'A'", "mass", "'heavy'"]),
        ({"mass": math.nan}, ["Body 'A'", "mass", "not finite"]),
        ({"mass": [1, 2]}, ["Body 'A'", "mass must have one number"]),
        ({"inertia": (1, 1, 0)}, ["Body 'A'", "moment of inertia 0", "must be positive"]),
        ({"inertia": (1, -2, J)}, ["Body 'A'", "moment of inertia -2"]),
        ({"inertia": (1, 2)}, ["Body 'A'", "inertia"]),
        ({"inertia": np.ones((2, 3))}, ["Body 'A'", "inertia"]),
        ({"inertia": [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]}, ["Body 'A'", "inertia", "not symmetric"]),
        ({"inertia": 0.1}, ["Body 'A'", "inertia"]),
        ({"inertia": J}, ["Body 'A'", "inertia"]),
        ({"inertia": None}, ["Body 'A'", "inertia"]),
        ({"inertia": [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}, ["Body 'A'", "inertia", "positive"]),
    ],
)
def test_bodies(wrong, parts):
    refuses(lambda: Body(**{"name": "A", "mass": 1, "inertia": (1, 1, 1), **wrong}), *parts)


def test_moments_as_a_column_are_taken():
    np.testing.assert_array_equal(ca.DM(body(inertia=ca.vertcat(1, 2, 3)).inertia).full(), np.diag([1, 2, 3]))


def test_moments_that_violate_the_triangle_inequality_and_rounded_products_are_taken():
    assert body(inertia=(1, 1, 5)).name == "A"
    rounded = np.array([[2.4, -0.17, -0.12], [-0.17, 2.1, -0.07], [-0.12, -0.07, 1.0]])
    rounded[0, 1] = np.nextafter(rounded[0, 1], 0.0)
    assert body(inertia=rounded).name == "A"


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"x": (0, 0, 0)}, ["frame on 'A'", "axis x of length zero"]),
        ({"y": (0, 0, 0)}, ["frame on 'A'", "axis y of length zero"]),
        ({"x": (1, 0, 0), "y": (1, 1, 0)}, ["frame on 'A'", "not perpendicular"]),
        ({"x": (1, 0)}, ["frame on 'A'", "x must have shape 3"]),
        ({"at": 0.3}, ["frame on 'A'", "at must have shape 3"]),
    ],
)
def test_frames(wrong, parts):
    refuses(lambda: body().frame(**wrong), *parts)


def test_axes_of_a_frame_are_made_orthonormal_and_right_handed():
    axes = ca.DM(body().frame(x=(0, 0, 3), y=(2, 2, 1e-6)).axes).full()
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(axes[:, 0], [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(axes[:, 1], np.array([1, 1, 0]) / np.sqrt(2), atol=1e-15)
    assert np.linalg.det(axes) == pytest.approx(1)


# --- hinges, motors, sensors ---


@pytest.mark.parametrize("name", ["viscous", "dry", "coulomb", "drag", "stiffness", "damping", "compliance"])
def test_negative_coefficients_of_hinges(name):
    refuses(lambda: hinge(**{name: -1}), "Hinge 'shoulder'", f"{name} is -1", "must not be negative")


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"compliance": (1, 2, 3)}, ["Hinge 'shoulder'", "compliance must have shape 2"]),
        ({"compliance": (1e-4, -1)}, ["Hinge 'shoulder'", "compliance is -1"]),
        ({"dry": 1, "stribeck": 3}, ["Hinge 'shoulder'", "stribeck must have shape 2"]),
        ({"dry": 1, "stribeck": (1, -3)}, ["Hinge 'shoulder'", "stribeck is -3"]),
        ({"stribeck": (1, 3)}, ["Hinge 'shoulder'", "stribeck", "give one of them"]),
        ({"dry": 1, "coulomb": J, "stribeck": (1, 3)}, ["Hinge 'shoulder'", "stribeck", "give one of them"]),
        ({"viscous": "oil"}, ["Hinge 'shoulder'", "viscous", "'oil'"]),
        ({"rest_angle": math.inf}, ["Hinge 'shoulder'", "rest_angle", "not finite"]),
    ],
)
def test_hinges(wrong, parts):
    refuses(lambda: hinge(**wrong), *parts)


def test_compliances_may_come_as_an_array_and_rest_angles_be_negative():
    assert hinge(compliance=np.array([1e-4, 1e-3])).compliance.shape == (2, 1)
    assert float(hinge(rest_angle=-1).rest) == -1


def test_a_hinge_of_a_body_to_itself():
    a = body()
    refuses(lambda: Hinge("elbow", a.frame(), a.frame(at=(1, 0, 0))), "Hinge 'elbow'", "'A' to itself")


def test_motors_sensors_and_gravity():
    refuses(lambda: gravity("down"), "gravity", "'down'")
    refuses(lambda: tilted_gravity(9.81, None, 0), "tilt", "None")
    refuses(lambda: Motor(hinge(), "u", shaft_inertia=-1), "Motor", "shaft_inertia is -1")
    refuses(lambda: Motor(hinge(), "u", gain="strong"), "Motor", "gain", "'strong'")


@pytest.mark.parametrize("sigma", [0, -1, math.nan, math.inf, "small"])
def test_sigma_must_be_positive(sigma):
    refuses(lambda: HingeAngle(hinge(), "theta", sigma=sigma), "HingeAngle of 'theta'", "sigma")


# --- models ---


def test_a_body_that_no_joint_holds_is_named_at_its_own_line():
    loose = body("loose")
    with pytest.raises(ProblemError, match="Body 'loose' is held by no joint") as caught:
        Model(bodies=[loose], gravity=FIELD)
    assert str(caught.value).startswith(loose.place)
    assert Model(bodies=[body("loose", free=True)], gravity=FIELD).joints == ()


def test_bodies_joined_to_each_other_but_not_to_the_ground():
    a, b, c = body("A"), body("B"), body("C")
    joints = [hinge(child=a.frame()), hinge("elbow", b.frame(), c.frame())]
    refuses(lambda: Model(bodies=[a, b, c], joints=joints, gravity=FIELD), "Body 'B'", "no chain of joints", line=False)
    b = body("B", free=True)
    joints = [hinge(child=a.frame()), hinge("elbow", b.frame(), c.frame())]
    assert len(Model(bodies=[a, b, c], joints=joints, gravity=FIELD).tree()) == 2


def test_hinges_may_close_loops():
    a = body()
    joints = [hinge(child=a.frame()), hinge("second", child=a.frame(at=(1, 0, 0)))]
    model = Model(bodies=[a], joints=joints, gravity=FIELD)
    assert model.has_loops
    assert [joint.name for joint in model.tree()] == ["shoulder"]
    assert not chain().has_loops


def test_things_of_one_name():
    a = body()
    refuses(lambda: Model(bodies=[a, body()], gravity=FIELD), "Body 'A' has the name of another", line=False)
    joints = [hinge(child=a.frame()), hinge(child=a.frame())]
    refuses(lambda: Model([a], joints, gravity=FIELD), "Hinge 'shoulder' has the name of another", line=False)


def test_things_that_are_not_in_the_model():
    a, other = body(), body("B")
    joints = [hinge(child=a.frame())]
    strange = [hinge(child=other.frame())]
    motors = [Motor(strange[0], "u")]
    refuses(lambda: Model([a], strange, gravity=FIELD), "Hinge 'shoulder'", "Body 'B'", "not in the bodies", line=False)
    refuses(lambda: Model([a], joints, motors, gravity=FIELD), "Motor", "'shoulder'", "not in the model", line=False)
    swing = {"model": Model([a], joints, gravity=FIELD), "observations": [HingeAngle(strange[0], "theta")]}
    refuses(lambda: Problem("swing", **swing), "HingeAngle", "'shoulder'", "not in the model", line=False)


def test_models_need_bodies_and_gravity_of_three_numbers():
    refuses(lambda: Model([], gravity=FIELD), "Model has no bodies")
    refuses(lambda: Model([body(free=True)], gravity=9.81), "gravity must have shape 3")


def test_trees_start_at_the_ground_whatever_the_order():
    assert [joint.name for joint in chain().tree()] == list("abcde")


# --- problems ---


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"step": 0}, ["Problem 'swing'", "step is 0", "positive"]),
        ({"step": -0.01}, ["Problem 'swing'", "step is -0.01"]),
        ({"step": math.nan}, ["Problem 'swing'", "step is nan"]),
        ({"step": "short"}, ["Problem 'swing'", "step is 'short'"]),
        ({"state_weight": 0}, ["Problem 'swing'", "state_weight is 0"]),
        ({"state_weight": -1}, ["Problem 'swing'", "state_weight is -1"]),
        ({"friction_width": 0}, ["Problem 'swing'", "friction_width is 0"]),
        ({"cutoff": -1}, ["Problem 'swing'", "cutoff is -1"]),
        ({"friction": "icy"}, ["Problem 'swing'", "friction 'icy'", "smooth"]),
        ({"initial": {"K": 1}}, ["Problem 'swing'", "no parameter 'K'", "J"]),
        ({"initial": {"J": -1}}, ["Problem 'swing'", "initial value -1 of parameter 'J' is outside"]),
        ({"initial": {"J": "much"}}, ["Problem 'swing'", "'J'", "'much'"]),
        ({"fixed": ["K"]}, ["Problem 'swing'", "no parameter 'K'"]),
    ],
)
def test_problems(wrong, parts):
    refuses(lambda: Problem(**{"name": "swing", "model": pendulum(inertia=J), **wrong}), *parts)


def test_guesses_with_which_nothing_could_begin():
    swing = pendulum(inertia=J)
    axle = swing.joints[0]
    zero, late = Parameter("zero", 0.0), Parameter("late", 2.0)
    for sensor, parts in (
        (
            HingeAngle(axle, "theta", scale=zero),
            ["HingeAngle of 'theta'", "0 at the initial value of zero", "change it"],
        ),
        (HingeAngle(axle, "theta", delay=late), ["HingeAngle of 'theta'", "delay of 2 s", "'run' lasts 1 s"]),
        (HingeAngle(axle, "theta", delay=-1.5), ["HingeAngle of 'theta'", "delay of -1.5 s"]),
    ):
        refuses(lambda s=sensor: problem(model=swing, recordings=[recording()], observations=[s]), *parts, line=False)
    for more, parts in (
        ({"delay": 50.0}, ["Motor with 'theta'", "delay of 50 s"]),
        ({"torque_constant": 1.0, "resistance": zero}, ["Motor", "resistance that is 0 at the initial value of zero"]),
    ):
        driven = replace(swing, motors=[Motor(axle, "theta", **more)])
        refuses(lambda m=driven: problem(model=m, recordings=[recording()]), *parts, line=False)


def test_steppers():
    refuses(lambda: Spook(multipliers="guessed"), "multipliers", "'guessed'", "'lifted'", line=False)


def test_steps_of_numpy_are_numbers():
    assert problem(step=np.float32(0.5)).step == 0.5


def test_signals_must_be_in_every_recording():
    model = pendulum()
    observations = [HingeAngle(model.joints[0], "theta")]
    runs = [recording(), recording(angle=np.ones(11))]
    wrong = {"model": model, "observations": observations, "recordings": runs}
    refuses(lambda: problem(**wrong), "recording 'run'", "no signal 'theta'", "'angle'", line=False)
    driven = Model(model.bodies, model.joints, [Motor(model.joints[0], "u")], gravity=FIELD)
    refuses(lambda: problem(model=driven, recordings=[recording()]), "no signal 'u'", line=False)


def test_recordings_must_last_two_steps():
    refuses(lambda: problem(recordings=[recording()], step=0.6), "recording 'run'", "less than two time", line=False)


@pytest.mark.parametrize(
    ("use", "parts"),
    [
        (lambda p: p.with_(speed=1), ["Problem 'swing' has no setting 'speed'", "state_weight"]),
        (lambda p: p.with_(step=0), ["Problem 'swing'", "step is 0"]),
        (lambda p: p.solve(backend="magic"), ["backend 'magic'", "lm"]),
        (lambda p: p.solve(tolerance=1), ["'tolerance' is no option", "max_iterations"]),
        (lambda p: p.solve(), ["Problem 'swing'", "needs recordings and observations"]),
        (lambda p: p.simulate(), ["Problem 'swing'", "no recording", "duration"]),
        (lambda p: p.simulate({"K": 1}, duration=1), ["Problem 'swing'", "no parameter 'K'"]),
        (lambda p: p.simulate({"J": math.nan}, duration=1), ["Problem 'swing'", "nan", "'J'"]),
        (lambda p: p.simulate(duration=1, initial={"knee": 1}), ["the joint 'knee'", "has hinge"]),
        (lambda p: p.simulate(duration=1e-3), ["duration is 0.001 s", "two steps"]),
        (lambda p: p.simulate(duration=1, initial=(np.zeros(7), np.zeros(6))), ["(7,)", "(1, 7)"]),
    ],
)
def test_uses_of_a_problem_are_refused_with_its_own_line(use, parts):
    swing = problem()
    refuses(lambda: use(swing), *parts, line=False)
    with pytest.raises(ProblemError) as caught:
        use(swing)
    assert str(caught.value).startswith((swing.place, "duration", "initial"))


def test_the_ground_is_no_body_of_a_model():
    refuses(lambda: Model([GROUND], gravity=FIELD), "GROUND", "leave it out", line=False)
