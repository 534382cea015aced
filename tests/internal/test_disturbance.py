"""What disturbs a motion, with its errors: the projector against its definition, bands against algebra and twins."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import DOWN, Array
from solutions import pendulum_problem
from solutions import recording as swing
from solutions import solution as pendulum
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    JointTorque,
    Model,
    Motor,
    Parameter,
    PointContact,
    Problem,
    Recording,
    Solution,
    Variational,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.mechanics.joint_coordinates import JointCoordinates, Projection
from spookid.mechanics.kinematics import place
from spookid.report import interactive
from spookid.statistics.condensing import Condensed, linearize
from spookid.studies.simulation_start import random_impulses
from spookid.transcription.parameter_constraints import FreeDirections

STEP = 0.01
QUIET: dict[str, Any] = {"step": STEP, "step_correction": False}


# --- the projector ---


def four_bar(order: tuple[int, ...] = (0, 1, 2, 3), inertia: Any = 2e-4, **settings: Any) -> Model:
    """The linkage with armatures; the order of its joints says which of them closes the loop."""
    made = linkage(LENGTHS, BASE, MASSES, (inertia, 2.5e-3, 4e-3), viscous=0.01, armature=1e-4, disturbance=3e-4)
    return Model(made.bodies, [made.joints[i] for i in order], made.motors, gravity=made.gravity, **settings)


def evaluated(model: Model, q: Array) -> Array:
    """Nᵀ[I, B] at configurations (N, 21)."""
    projection = Projection(model)
    symbol, value = projection.ingredients
    return projection.matrices(np.asarray(ca.Function("at", [symbol], [value])(q.T).full().T))


@pytest.mark.parametrize("angle", [0.3, 2.0, -1.4])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_it_is_the_force_of_the_nearest_motion_that_closes(order, angle):
    """Against the conditions of Gauss's principle (39) in the coordinates of all bodies, M the metric."""
    model = four_bar(order)
    joints, angles = JointCoordinates(model), closed(LENGTHS, BASE, angle)
    q = place(model, np.array([[angles[joint.name] for joint in model.joints]]), {})[0]
    symbol = ca.SX.sym("q", 21)
    at = model.mechanics(symbol)
    parts = ca.Function("at", [symbol], [at.mass, at.constraint, at.slip])(q)
    M, G, slips = (np.asarray(part.full()) for part in parts)
    M = M + 1e-4 * slips.T @ slips
    made = evaluated(model, q[None])[0]
    rng = np.random.default_rng(0)
    forces = rng.normal(size=4)  # along the coordinates of the tree, then of the joint that is cut
    places = [*joints.places, *joints.cut_places]
    wrench = slips[places].T @ forces
    whole = np.block([[M, G.T], [G, np.zeros((len(G), len(G)))]])
    acceleration = np.linalg.lstsq(whole, np.concatenate([wrench, np.zeros(len(G))]), rcond=1e-12)[0][:18]
    tree = [row for joint in joints.tree for row in range(*model.rows_of(joint).indices(len(G)))]
    S = np.linalg.lstsq(np.vstack([G[tree], slips[joints.places]]), np.eye(18)[:, 15:], rcond=None)[0]
    np.testing.assert_allclose(made @ forces, S.T @ M @ acceleration, rtol=1e-6, atol=1e-9)
    closing = [row for row in range(len(G)) if row not in tree]
    pushes = (G[closing] @ S).T @ rng.normal(size=len(closing))
    np.testing.assert_allclose(made[:, :3] @ pushes, 0, atol=1e-9 * np.abs(pushes).max())
    np.testing.assert_allclose(made[:, :3] @ made[:, :3], made[:, :3], atol=1e-9)
    rates = slips @ acceleration  # a motion that closes: the projected force does the same work
    np.testing.assert_allclose(rates[joints.places] @ made @ forces, rates[places] @ forces, rtol=1e-8)


# --- bands ---


def arm(**settings: Any) -> Problem:
    """Two links that hang; the inertia of the upper one and its damping are unknown."""
    J, b = Parameter("J", 0.02, lower=0), Parameter("b", 0.1, lower=0)
    upper = Body("upper", mass=1.0, inertia=(0.01, J, 0.01))
    lower = Body("lower", mass=0.6, inertia=(0.005, 0.004, 0.005))
    shoulder = Hinge("shoulder", GROUND.frame(**DOWN), upper.frame(at=(0, 0, 0.15), **DOWN), viscous=b)
    tip, top = upper.frame(at=(0, 0, -0.15), **DOWN), lower.frame(at=(0, 0, 0.12), **DOWN)
    elbow = Hinge("elbow", tip, top, viscous=0.02)
    model = Model([upper, lower], [shoulder, elbow], motors=[Motor(shoulder, "u")], gravity=gravity(9.81))
    seen = [HingeAngle(shoulder, "q_1"), HingeAngle(elbow, "q_2")]
    return Problem("arm", model, observations=seen, **{**QUIET, **settings})


SIZES = {"shoulder": 0.02, "elbow": 0.005, "q_1": 1e-4, "q_2": 1e-4}
ARM = {"J": 0.012, "b": 0.08}


def disturbed(problem: Problem, truth: dict[str, float], start: dict[str, float], noise: dict[str, float], **how: Any):
    """A recording, and the forces along all coordinates that were drawn for it, in mean over a step, (N − 1, n)."""
    t, seed = np.arange(how["steps"] + 1) * STEP, how.get("seed", 0)
    inputs = Recording(t, {"u": how["push"] * np.sin(5 * t)})
    made = problem.simulate(truth, t[-1], start, inputs=inputs, substeps=1, noise=noise, seed=seed)
    own = {freedom.label: noise[freedom.label] for freedom in problem.model.freedoms}
    return made, random_impulses(problem, own, how["steps"], np.random.default_rng(seed)) / STEP


def of_arm(steps: int, seed: int = 0) -> tuple[Solution, Array]:
    """A fit, and what it should find of the disturbance."""
    problem = arm()
    made, forces = disturbed(problem, ARM, {"shoulder": 0.3, "elbow": -0.2}, SIZES, steps=steps, push=1.0, seed=seed)
    return problem.solve(recordings=[made]), forces


def shares(found: Array, truth: Array, errors: Array) -> Array:
    """Of 95 % intervals that hold the truth."""
    return np.asarray(np.mean(np.abs(found - truth) < 1.96 * errors, axis=0))


def test_bands_hold_what_was_drawn():
    solution, forces = of_arm(200)
    found = solution.disturbance[0]
    assert (found.labels, found.units, found.reason) == (("shoulder", "elbow"), ("N m", "N m"), "")
    inner = slice(1, -1)
    assert np.isnan(found.value[[0, -1]]).all()
    held = shares(found.value[inner], forces[1:], found.std_err[inner])
    assert np.all(np.abs(held - 0.95) < 0.06), held
    errors = np.sqrt(np.mean((found.value[inner] - forces[1:]) ** 2, axis=0))
    assert np.all(errors < 0.7 * forces.std(axis=0))  # more is known than before
    assert np.all(np.median(found.std_err[inner], axis=0) < 0.7 * forces.std(axis=0))


@pytest.mark.study
def test_bands_hold_what_was_drawn_over_many_seeds():
    held = []
    for seed in range(20):
        solution, forces = of_arm(400, seed)
        found = solution.disturbance[0]
        held.append(shares(found.value[1:-1], forces[1:], found.std_err[1:-1]))
    np.testing.assert_allclose(np.mean(held, axis=0), 0.95, atol=0.02)


def test_covariances_of_rows_are_those_of_dense_algebra():
    recording = disturbed(arm(), ARM, {"shoulder": 0.3, "elbow": -0.2}, SIZES, steps=20, push=1.0)[0]
    assembly = assemble(arm(recordings=[recording]))
    condensed = Condensed(linearize(assembly.transcription, assembly.start), FreeDirections(np.zeros(2, dtype=bool)))
    terms = condensed.linearized.chains[0]
    states = terms[0].steps * terms[0].tangent
    each, blocks = np.eye(states).reshape(terms[0].steps, -1, states), []
    for term in terms:
        rows = term.at(slice(None))
        J = rows.image(each).transpose(0, 2, 1).reshape(-1, states)
        blocks.append(np.hstack([J, rows.matrix[:, term.unknowns : -1].transpose(0, 2, 1).reshape(len(J), -1)]))
    inverse = np.linalg.inv(sum(J.T @ J for J in blocks))
    for i, (term, J) in enumerate(zip(terms, blocks, strict=True)):
        count, rows = term.residual.shape
        dense = (J @ inverse @ J.T).reshape(count, rows, count, rows)
        expected = np.array([dense[k, :, k] for k in range(count)])
        np.testing.assert_allclose(condensed.covariances(0, i), expected, atol=1e-7)


# --- loops ---


def about_crank(model: Model, q: Array, value: Array, error: Array) -> tuple[Array, Array]:
    """The torques at the crank that do the same work at configurations (N, 21), and their errors: along one freedom all
    forces go together."""
    symbol, count = ca.SX.sym("q", 21), model.rows
    at = model.mechanics(symbol)
    rows = ca.Function("at", [symbol], [ca.vec(ca.vertcat(at.constraint, at.slip))])(q.T).full()
    stacked = rows.T.reshape(len(q), 18, -1).transpose(0, 2, 1)
    motion = np.linalg.svd(stacked[:, :count])[2][:, -1, :, None]
    rates = (stacked[:, count:] @ motion)[:, :, 0]
    crank = [freedom.label for freedom in model.freedoms].index("drive")
    torque = np.sum(value * rates[:, JointCoordinates(model).places], axis=1) / rates[:, crank]
    return torque, np.abs(torque) * np.median(error / np.abs(value), axis=1)


@pytest.mark.study
def test_what_is_found_of_a_loop_does_not_hang_on_where_it_is_cut():
    """Raw noise is drawn at all joints; the fit has the part that moves the linkage, whichever joint closes it."""
    sizes = dict.fromkeys(("drive", "knee", "wrist", "pivot"), 3e-4) | {"crank": 1e-4, "rocker": 1e-4}
    made, torques, likelihoods = None, [], []
    for order in ((0, 1, 2, 3), (3, 2, 1, 0)):
        model = four_bar(order, Parameter("I_crank", 2.5e-4, lower=0), coordinates="maximal")
        named = {joint.name: joint for joint in model.joints}
        seen = [
            HingeAngle(named[name], signal, sigma=1e-4) for name, signal in (("drive", "crank"), ("pivot", "rocker"))
        ]
        problem = Problem("loop", model, observations=seen, **QUIET)
        if made is None:
            start, how = closed(LENGTHS, BASE, 1.0), dict(steps=50, push=0.08)
            made, forces = disturbed(problem, {"I_crank": 2e-4}, start, sizes, **how)
        solution = problem.solve(recordings=[made])
        found, poses = solution.disturbance[0], solution.trajectories[0].q.reshape(51, -1)
        known = four_bar(order, solution["I_crank"].estimate)
        inner = slice(1, -1)
        torques.append(about_crank(known, poses[inner], found.value[inner], found.std_err[inner]))
        likelihoods.append(solution.log_likelihood)
        if order == (0, 1, 2, 3):
            drawn = np.einsum("kij,kj->ki", evaluated(known, poses[inner]), forces[1:])
            held = shares(found.value[inner], drawn, found.std_err[inner])
            assert np.all(np.abs(held - 0.95) < 0.1), held
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)
    first, other = torques
    np.testing.assert_allclose(other[0], first[0], atol=2e-3 * np.abs(first[0]).max())
    np.testing.assert_allclose(other[1], first[1], rtol=5e-3)


# --- what is not known ---


def test_what_says_nothing_of_a_disturbance_is_told():
    weighed = pendulum().disturbance[0]
    assert np.isnan(weighed.value).all()
    assert "a weight was given" in weighed.reason
    problem = pendulum_problem().with_(state_weight=math.inf, stepper=Variational(), recordings=[swing()])
    hard = problem.solve().disturbance[0]
    assert not hard.value.any()
    assert np.isnan(hard.std_err).all()
    assert "there is no process noise" in hard.reason


def test_measured_efforts_are_no_disturbance():
    problem = arm()
    made = disturbed(problem, ARM, {"shoulder": 0.3, "elbow": -0.2}, SIZES, steps=100, push=1.0)[0]
    model = Model(problem.model.bodies, problem.model.joints, gravity=gravity(9.81))
    torque = JointTorque(model.joints[0], "u")
    measured = Problem("arm", model, observations=[*problem.observations, torque], recordings=[made], **QUIET)
    solution = measured.solve()
    found = solution.disturbance[0]
    assert found.labels == ("elbow",)
    assert np.isfinite(found.std_err[1:-1]).all()
    layout = interactive.disturbance(found, 6)["figure"]["layout"]
    assert layout["yaxis"]["title"]["text"].startswith("elbow [")
    assert "yaxis2" not in layout
    assert list(found.records()[3]) == ["t", "elbow", "elbow std_err"]
    assert "not known" not in str(found)


# --- contacts that hold ---


def test_what_disturbs_a_leg_that_stands_leaves_nothing_to_its_foot():
    """A leg of two links whose foot holds for half of the time: the rows of the contact take no part while it holds."""
    problem = arm()
    _, lower = problem.model.bodies
    foot = PointContact("foot", lower.frame(at=(0, 0, -0.12)), axes="xz", holds=[(0.0, 0.25)])
    model = Model(problem.model.bodies, problem.model.joints, gravity=gravity(0), constraints=[foot])
    t, noise = np.arange(51) * STEP, np.random.default_rng(0)
    swing = np.where(t < 0.25, 0.0, 0.4 * (1 - np.cos(9 * (t - 0.25))))
    signals = {"q_1": 0.3 + swing, "q_2": -0.5 - 2 * swing}
    seen = [HingeAngle(joint, name, sigma=1e-4) for joint, name in zip(model.joints, signals, strict=True)]
    recording = Recording(t, {name: values + 1e-4 * noise.normal(size=51) for name, values in signals.items()})
    known = {"J": 0.012, "b": 0.08}
    fit = Problem("leg", model, [recording], seen, **QUIET, initial=known, fixed=list(known), estimator="noise")
    found = fit.solve().disturbance[0]
    assert found.labels == ("shoulder", "elbow")
    stands, swings = found.t[1:-1] < 0.24, found.t[1:-1] > 0.28
    np.testing.assert_allclose(found.value[1:-1][stands], 0, atol=1e-9)  # two rows hold both joints: nothing moves
    assert np.all(found.std_err[1:-1][stands] < 1e-9)
    assert np.all(found.std_err[1:-1][swings] > 1e-3)
