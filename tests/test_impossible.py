"""Mechanisms that cannot be: refused before the work, or told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mechanisms import DOWN, hub, pendulum

from spookid import (
    GROUND,
    Asymmetric,
    Body,
    Fourier,
    FullInertia,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Planar,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Status,
    Variational,
    gravity,
)

J, C = Parameter("J", 1e-3, lower=1e-6), Parameter("c", 0.1)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: hub(viscous=-J), r"viscous is -0\.001 at the initial value of J; it must not be negative"),
        (lambda: hub(dry=-C), r"dry is -0\.1 at the initial value of c"),
        (lambda: hub(viscous=Asymmetric(J, -J)), r"Viscous is -0\.001 at the initial value of J"),
        (
            lambda: hub(coulomb=Fourier({1: (J, 0)})),
            r"the Fourier falls to -0\.001 at the initial value of J; give it a mean",
        ),
        (
            lambda: Body("b", mass=-C, inertia=(1, 1, 1)),
            r"'b' has mass -0\.1 kg at the initial value of c; a mass must be",
        ),
        (
            lambda: Body("b", mass=1, inertia=(1, 1, 1 - 20 * C)),
            r"moment of inertia -1 kg m² at the initial value of c",
        ),
        (
            lambda: Body("b", mass=1, inertia=(1, 1, 1, 20 * C, 0, 0)),
            r"not positive definite at the initial value of c",
        ),
        (
            lambda: Body("b", inertia=FullInertia(1 - 20 * C, inertia=(1, 1, 1))),
            r"has mass -1 kg at the initial value of c",
        ),
    ],
)
def test_expressions_that_are_negative_at_the_guess_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ProblemError, match=told):
        make()


def test_a_friction_that_is_estimated_to_be_negative_is_told() -> None:
    model, t = pendulum(viscous=Parameter("v", 0.01)), np.arange(150) * 0.01
    swing = 0.05 * np.exp(0.8 * t) * np.cos(8 * t) + 1e-4 * np.random.default_rng(0).normal(size=t.size)
    run = Recording(t, {"angle": swing})
    problem = Problem("p", model, [run], [HingeAngle(model.joints[0], "angle")], step=0.01, step_correction=False)
    found = problem.solve()
    (told,) = [finding for finding in found.findings if finding.code == "parameters.negative"]
    assert told.subject == ("hinge viscous",)
    assert told.evidence["estimate"] < 0
    assert told.text.startswith("The estimate of hinge viscous is negative, -0.0")


def test_a_spring_that_is_estimated_to_push_away_is_told() -> None:
    model, t = pendulum(viscous=0.01, stiffness=Parameter("k", 0.1)), np.arange(150) * 0.01
    swing = 0.3 * np.exp(-0.2 * t) * np.cos(3 * t) + 1e-4 * np.random.default_rng(0).normal(size=t.size)
    sensors = [HingeAngle(model.joints[0], "angle")]
    problem = Problem("p", model, [Recording(t, {"angle": swing})], sensors, step=0.01, step_correction=False)
    told = next(finding for finding in problem.solve().findings if finding.code == "parameters.negative")
    assert told.subject == ("hinge stiffness",)
    assert "pushes away from its rest position" in told.text


def four_bar(coupler: Any, stepper: Any = None, brace: bool = False) -> Problem:
    """Links of 0.1 m, ``coupler`` and 0.2 m between pins 0.4 m apart; a fifth link braces it."""
    bodies = [Body(name, mass=0.2, inertia=(1e-3, 1e-3, 1e-3)) for name in ("crank", "coupler", "rocker", "brace")]
    a, b, c, d = bodies
    pairs = [
        (GROUND.frame(**DOWN), a.frame(at=(-0.05, 0, 0), **DOWN)),
        (a.frame(at=(0.05, 0, 0), **DOWN), b.frame(at=(-coupler / 2, 0, 0), **DOWN)),
        (b.frame(at=(coupler / 2, 0, 0), **DOWN), c.frame(at=(-0.1, 0, 0), **DOWN)),
        (c.frame(at=(0.1, 0, 0), **DOWN), GROUND.frame(at=(0.4, 0, 0), **DOWN)),
        (GROUND.frame(at=(0.2, 0, 0), **DOWN), d.frame(at=(-0.06, 0, 0), **DOWN)),
        (d.frame(at=(0.09, 0, 0), **DOWN), b.frame(at=(0.03, 0, 0.02), **DOWN)),
    ]
    friction = Parameter("v", 0.01, lower=0)
    joints = [Hinge(f"h{i}", *pair, viscous=friction) for i, pair in enumerate(pairs[: 6 if brace else 4])]
    model = Model(bodies[: 4 if brace else 3], joints, gravity=gravity(9.81))
    run = Recording(np.arange(12) * 0.01, {"theta": np.linspace(0.3, 0.4, 12)})
    return Problem("four", model, [run], [HingeAngle(joints[0], "theta")], step=0.01, stepper=stepper or Variational())


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_planar_body_without_an_angle_sensor_ends_with_a_status() -> None:
    body = Body("b", mass=Parameter("m", 1.0, lower=0.1), inertia=(1e-2, 1e-2, J))
    joint = Planar("p", GROUND.frame(), body.frame(), viscous=Parameter("v", 0.1, lower=0))
    t = np.arange(12) * 0.02
    run = Recording(t, {"x": np.sin(3 * t), "y": np.cos(2 * t)})
    sensors = [JointPosition(joint, name, coordinate=i) for i, name in enumerate(("x", "y"))]
    problem = Problem("p", Model([body], [joint], gravity=(0, 0, -9.81)), [run], sensors, step=0.02, stepper=Spook())
    assert problem.solve().status in Status


def test_measured_poses_of_recordings_that_no_report_shows_are_none() -> None:
    model, t = pendulum(viscous=Parameter("v", 0.01, lower=0)), np.arange(10) * 0.01
    runs = [Recording(t, {"angle": 0.3 * np.cos(8 * t)}, name=f"r{i}") for i in range(5)]
    sensors = [HingeAngle(model.joints[0], "angle", sigma=1e-3)]
    measured = Problem("p", model, runs, sensors, step=0.01, state_weight=1.0).solve().measured
    assert [len(one.poses) for one in measured[3:]][1] == 0 < len(measured[3].poses)


def resting(friction: str, angle: float = 0.03, noise: float = 1e-3, dry: bool = True, moves: float = 0.0) -> Problem:
    """A pendulum that dry friction holds under a small torque; ``moves``: by how much it swings nevertheless."""
    t = np.arange(300) * 0.01
    theta = angle + noise * np.random.default_rng(0).standard_normal(len(t)) + moves * np.sin(2 * np.pi * 25 * t)
    body, b = Body("b", mass=0.5, inertia=(J, J, J)), Parameter("v", 0.01, lower=0)
    pin = Hinge("pin", GROUND.frame(), body.frame(at=(0, 0, 0.2)), viscous=b, coulomb=C if dry else 0.0)
    model = Model([body], [pin], [Motor(pin, "u")], gravity=gravity(9.81))
    run = Recording(t, {"theta": theta, "u": 0.02 * np.sin(2 * t)})
    return Problem("rest", model, [run], [HingeAngle(pin, "theta")], step=0.01, friction=friction)


@pytest.mark.parametrize("friction", ["exact", "smooth"])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_a_pendulum_that_friction_holds_at_rest_is_refused(friction: str, noise: float) -> None:
    with pytest.raises(ProblemError, match=r"no sensor shows a motion beyond its noise, .* whatever J, c, v may be"):
        resting(friction, noise=noise).solve()


def test_what_moves_or_has_no_dry_friction_is_fitted() -> None:
    """An oscillation of four samples a period has no correlation from one sample to the next."""
    for problem in (resting("smooth", moves=1e-3), resting("smooth", angle=0.0, dry=False)):
        assert problem.solve(max_iterations=2).status in Status
