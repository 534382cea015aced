"""What stands between motors and joints: couplings, rotors behind gears, propellers, linkages in series."""

from __future__ import annotations

import re
from typing import Any

import casadi as ca
import numpy as np
import pytest
from legs import JOINTS, TRUTH, leg, recording, sensors

from spookid import (
    GROUND,
    Body,
    Coupling,
    Cylindrical,
    Gear,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Propeller,
    Recording,
    Spook,
    Status,
    gravity,
)

N, ARMS, ROTOR, DRAG, FRICTION = 6.0, (0.02, 0.03), 3e-4, 0.1, 2e-3
"""Gear ratio, inertias about both joints, a rotor's, damping of the joints, of the motors."""


def differential(ratio: Any = N, rotor: Any = ROTOR, friction: Any = FRICTION) -> Model:
    """Two joints on parallel axles; one motor turns by n times their sum, the other by n times their difference."""
    arms = [Body(f"arm {i}", mass=1, inertia=(J, J, J)) for i, J in enumerate(ARMS)]
    rotors = [Body(f"rotor {i}", mass=0.1, inertia=(rotor, 1e-4, 1e-4)) for i in range(2)]
    joints = [Hinge(f"joint {i}", GROUND.frame(), arm.frame(), viscous=DRAG) for i, arm in enumerate(arms)]
    drives = [Hinge(f"motor {i}", GROUND.frame(), r.frame(), viscous=friction) for i, r in enumerate(rotors)]
    one, other = joints
    ties = [
        Coupling("sum", {drives[0]: 1, one: -ratio, other: -ratio}),
        Coupling("difference", {drives[1]: 1, one: -ratio, other: ratio}),
    ]
    motors = [Motor(drive, f"u_{i}") for i, drive in enumerate(drives)]
    return Model([*arms, *rotors], [*joints, *drives], motors, gravity=gravity(0), constraints=ties)


def test_two_motors_turn_two_joints_by_sum_and_difference():
    """J x'' = n (u₀ ± u₁) − (b + 2 n² b_m) x' with J + 2 n² J_m, in closed form; both motors through many turns."""
    model, t, u = differential(), np.arange(101) * 0.01, (0.3, 0.1)
    seen = [HingeAngle(joint, joint.name) for joint in model.joints]
    problem = Problem("differential", model, observations=seen, step=0.01)
    inputs = Recording(t, {f"u_{i}": np.full(101, value) for i, value in enumerate(u)})
    run = problem.simulate({}, 1.0, dict.fromkeys((j.name for j in model.joints), 0.0), inputs=inputs)
    angles = []
    for i, sign in enumerate((1, -1)):
        J, b = ARMS[i] + 2 * N**2 * ROTOR, DRAG + 2 * N**2 * FRICTION
        final = N * (u[0] + sign * u[1]) / b
        angles.append(final * (t - J / b * (1 - np.exp(-b / J * t))))
        np.testing.assert_allclose(np.unwrap(run.signals[f"joint {i}"]), angles[-1], atol=2e-4)
    turned = N * (angles[0] + angles[1])
    assert turned[-1] > 4 * np.pi
    np.testing.assert_allclose(np.unwrap(run.signals["motor 0"]), turned, atol=2e-3)


@pytest.mark.study
def test_ratio_rotor_and_friction_of_a_differential_are_identified():
    names = {"n": 5.0, "J_m": 2e-4, "b_m": 1e-3}
    n, rotor, friction = (Parameter(name, guess, lower=0) for name, guess in names.items())
    truth, t, rng = {"n": N, "J_m": ROTOR, "b_m": FRICTION}, np.arange(301) * 0.01, np.random.default_rng(0)
    model = differential(n, rotor, friction)
    seen = [HingeAngle(joint, joint.name) for joint in model.joints]
    problem = Problem("differential", model, observations=seen, step=0.01, step_correction=False, estimator="noise")
    pushes = {"u_0": 0.03 * np.sin(5 * t), "u_1": 0.04 * np.sin(8 * t + 1)}
    start = dict.fromkeys((joint.name for joint in model.joints), 0.0)
    made = problem.simulate(truth, 3.0, start, inputs=Recording(t, pushes), substeps=1)
    noisy = {o.signal: made.signals[o.signal] + 1e-4 * rng.normal(size=301) for o in seen}
    solution = problem.solve(recordings=[made.with_signals(**noisy)])
    for name, value in truth.items():
        found = solution[name]
        assert abs(found.estimate - value) < min(3.5 * found.std_err, 0.02 * value), (name, found)


@pytest.mark.parametrize("turns", [0, 3, -20])
@pytest.mark.parametrize(("ratios", "whole"), [((1, -6, -6), 1), ((1, -1.5, 2.25), 0.25), ((2, 4, 0.7), 0.1)])
def test_a_coupling_holds_through_turns(ratios, whole, turns):
    bodies = [Body(f"b{i}", mass=1, inertia=(1, 1, 1)) for i in range(3)]
    joints = [Hinge(f"h{i}", GROUND.frame(), body.frame()) for i, body in enumerate(bodies)]
    tie = Coupling("tie", dict(zip(joints, ratios, strict=True)), 0.2)
    assert tie.told_by_poses
    model = Model(bodies, joints, gravity=gravity(0), constraints=[tie])
    free = np.array([0.4 + 2 * np.pi * turns, -1.1])
    angles = [(0.2 + 1e-3 - free @ ratios[1:]) / ratios[0], *free]
    wrapped = [float(np.arctan2(np.sin(x), np.cos(x))) for x in angles]
    at = dict(zip(joints, wrapped, strict=True))
    found = tie.violation(model, None, lambda joint: np.array([at[joint]]))
    assert float(found) == pytest.approx(1e-3, abs=1e-9)
    assert float(tie._whole()) == pytest.approx(whole)


def discs(settings: Any = None, **model: Any) -> tuple[Problem, Recording]:
    """Two discs whose ratio √3 is a Parameter, and J a'' = u − b a' in closed form through several turns of both."""
    r, u, t = np.sqrt(3), 0.5, np.arange(161) * 0.01
    one, two = (Body(name, mass=1, inertia=(J, J, J)) for name, J in (("one", 0.01), ("two", 0.015)))
    a = Hinge("a", GROUND.frame(), one.frame(), viscous=0.01)
    b = Hinge("b", GROUND.frame(), two.frame(), viscous=0.01)
    mesh = Gear("mesh", a, b, Parameter("r", 1.5), 0.3)
    made = Model([one, two], [a, b], [Motor(a, "u")], gravity=gravity(0), constraints=[mesh], **model)
    J, loss = 0.01 + r**2 * 0.015, 0.01 + r**2 * 0.01
    angle = u / loss * (t - J / loss * (1 - np.exp(-loss / J * t)))
    assert r * angle[-1] > 4 * np.pi
    seen = {"a": angle, "b": r * angle + 0.3}
    noise = np.random.default_rng(0).normal(size=(2, 161))
    noisy = {name: values + 1e-4 * n for (name, values), n in zip(seen.items(), noise, strict=True)}
    given = {"step": 0.01, "step_correction": False, "estimator": "noise"} | (settings or {})
    recording = Recording(t, {**noisy, "u": np.full(161, u)})
    return Problem("discs", made, [recording], [HingeAngle(a, "a"), HingeAngle(b, "b")], **given), Recording(t, seen)


@pytest.mark.parametrize(
    ("friction", "start"), [("smooth", {"a": 0.0, "b": 0.3}), ("exact", {"a": 0.0}), ("exact", {"b": 0.3})]
)
def test_a_ratio_that_is_a_parameter_is_simulated_through_turns(friction, start):
    problem, exact = discs({"friction": friction})
    run = problem.simulate({"r": np.sqrt(3)}, initial=start)
    for name, values in exact.signals.items():
        np.testing.assert_allclose(run.signals[name], values, atol=1e-9 if friction == "smooth" else 1e-3)
    np.testing.assert_allclose(run.signals["b"], np.sqrt(3) * run.signals["a"] + 0.3, atol=1e-9)


@pytest.mark.parametrize("given", [{}, {"state_weight": 1e4}])
def test_a_ratio_that_is_a_parameter_is_fitted_through_turns(given):
    solution = discs(given)[0].solve()
    assert solution.status is Status.CONVERGED
    assert solution["r"].estimate == pytest.approx(np.sqrt(3), abs=5e-6)


def test_turns_that_poses_do_not_tell_are_refused_where_they_are_needed():
    for problem in (discs({"stepper": Spook()})[0], discs(coordinates="maximal")[0]):
        with pytest.raises(ProblemError, match=r"Gear 'mesh': a passes half a turn at 0\.93 s"):
            problem.solve()
    problem, _ = discs({"stepper": Spook(), "step": 0.005})
    with pytest.raises(ProblemError, match=r"Gear 'mesh': [ab] passes half a turn"):
        problem.simulate({"r": np.sqrt(3)}, initial={"a": 0.0, "b": 0.3})
    assert problem.simulate({"r": np.sqrt(3)}, 0.5, {"a": 0.0, "b": 0.3}).signals["a"][-1] < np.pi


def test_a_propeller_pushes_along_its_axis_and_turns_about_it():
    craft = Body("craft", mass=0.5, inertia=(1e-3, 1e-3, 2e-3), free=True)
    hub = craft.frame(at=(0.2, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    model = Model([craft], loads=[Propeller(hub, "u", thrust=3.0, moment=-0.02)], gravity=gravity(9.81))
    pose = ca.SX([0, 0, 0, np.sqrt(0.5), np.sqrt(0.5), 0, 0])  # a quarter of a turn about x: its axis is −y
    found = ca.DM(model.pushed(pose, ca.SX(6, 1), ca.SX([2.0])))
    np.testing.assert_allclose(np.ravel(found), [0, -6, 0, 0, -1.2, 0.12], atol=1e-12)


@pytest.mark.study
def test_thrust_and_moment_of_a_propeller_are_identified():
    """A body on a pole that climbs and turns: m x'' = k u − m g and J ω' = −c k u, known mass and inertia."""
    k, c = Parameter("k", 1.0, lower=0, unit="N"), Parameter("c", 0.01, unit="m")
    craft, t = Body("craft", mass=0.5, inertia=(1e-3, 1e-3, 2e-3)), np.arange(61) * 0.01
    pole = Cylindrical("pole", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), craft.frame(x=(0, 0, 1), y=(1, 0, 0)))
    hub = craft.frame(at=(0, 0, 0.02), x=(0, 0, 1), y=(1, 0, 0))
    model = Model([craft], [pole], loads=[Propeller(hub, "u", thrust=k, moment=c)], gravity=gravity(9.81))
    truth, u = {"k": 1.7, "c": 0.016}, 3.0 + np.sin(9 * t)
    speed = np.concatenate([[0.0], np.cumsum(1.7 * u[:-1] * 0.01)])  # of a force that is held from sample to sample
    lift = np.concatenate([[0.0], np.cumsum(speed[:-1] * 0.01 + 1.7 * u[:-1] * 0.01**2 / 2)])
    rng, noise = np.random.default_rng(0), 1e-4
    signals = {"x": lift / 0.5 - 9.81 * t**2 / 2, "turn": -0.016 * lift / 2e-3}
    noisy = {name: values + noise * rng.normal(size=61) for name, values in signals.items()}
    seen = [JointPosition(pole, name, coordinate=i) for i, name in enumerate(signals)]
    problem = Problem("craft", model, [Recording(t, {**noisy, "u": u})], seen, step=0.01, step_correction=False)
    solution = problem.solve()
    for name, value in truth.items():
        assert solution[name].estimate == pytest.approx(value, rel=0.01)


# --- linkages in series ---


def test_loops_near_a_dead_centre_close_where_they_are_drawn():
    """Rods in line with their cranks: of two ways to close each loop, the one beside the joints' zero is taken."""
    model = leg(TRUTH)
    problem = Problem("leg", model, observations=sensors(model), step=0.005)
    still = Recording(np.arange(3) * 0.005, {f"tau_{name}": np.zeros(3) for name in JOINTS})
    made = problem.simulate(None, 0.01, dict.fromkeys(JOINTS, 0.0), inputs=still, substeps=1)
    for joint in model.joints:
        if joint.name.endswith("_motor"):
            assert abs(made.signals[joint.name][0]) < 0.02


@pytest.mark.study
def test_friction_and_rotors_of_a_leg_of_three_linkages_are_identified():
    """What stands at the motors' side of three loops in series, from encoders at motors and joints."""
    model = leg({name: Parameter(name, 1.5 * value, lower=0) for name, value in TRUTH.items()})
    problem = Problem("leg", model, observations=sensors(model), step=0.005, step_correction=False, estimator="noise")
    seen = recording(problem, TRUTH, 1.0, 1e-5)
    for name in JOINTS:  # rods close their loops, and no gear is constant
        moved, driven = (np.gradient(np.unwrap(seen.signals[signal])) for signal in (name, f"{name}_motor"))
        fast = np.abs(driven) > 0.3 * np.abs(driven).max()
        assert np.ptp((moved / driven)[fast]) > 0.1
    solution = problem.solve(recordings=[seen])
    assert solution.status.value == "converged"
    assert any(finding.code == "constraints.redundant" for finding in solution.findings)
    for name, value in TRUTH.items():
        found = solution[name]
        assert abs(found.estimate - value) < 3.5 * found.std_err, (name, found)


# --- declaration ---


def test_mistakes_are_told():
    made = differential()
    one, other = made.joints[:2]
    for given, words in (
        ({one: 1}, "of two or more"),
        ({one: 1, other: 0}, "has ratio 0"),
        ({one: 1, (one, 0): 2}, "ties a coordinate to itself"),
        ({one: 1, (other, 1): 2}, "coordinate 1 of 'joint 1', which has 1"),
        ({one: 1, "joint": 2}, "which is no Hinge or other Joint"),
    ):
        with pytest.raises(ProblemError, match=re.escape(words)):
            Coupling("c", given)
    stranger = differential().joints[0]
    with pytest.raises(ProblemError, match="which is not in the model"):
        Model(made.bodies, made.joints, gravity=gravity(0), constraints=[Coupling("c", {one: 1, stranger: 1})])
    assert [term.ratio for term in Gear("g", one, other, 2).terms] == [-2, 1]
