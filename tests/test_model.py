"""Mechanics: derivatives against differences, hand-made cases, and MuJoCo as an independent oracle."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import (
    G,
    chain,
    free_body,
    full_inertia,
    furuta,
    joint_state,
    mechanics,
    pendulum,
    random_state,
    retract,
    skew_body,
    slope,
)
from scipy.spatial.transform import Rotation

from spookid import GROUND, Body, Hinge, Model, gravity, tilted_gravity

MODELS = {"pendulum": pendulum, "furuta": furuta, "chain": chain, "skew": skew_body}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


# --- derivatives ---


@pytest.mark.parametrize("seed", range(3))
def test_constraint_jacobian_is_the_derivative_of_the_violation(model, seed):
    q, v = random_state(model, np.random.default_rng(seed))
    expected = slope(lambda delta: mechanics(model, retract(model.configuration, q, delta), v).g, len(v), step=1e-3)
    np.testing.assert_allclose(mechanics(model, q, v).G, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_slip_is_the_rate_of_the_angle_on_the_constraint_surface(model, seed):
    rng = np.random.default_rng(seed)
    n = len(model.joints)
    rates = rng.normal(size=n)
    q, v = joint_state(model, rng.uniform(-3, 3, n), rates)
    at = mechanics(model, q, v)
    np.testing.assert_allclose(at.g, 0, atol=1e-15)
    np.testing.assert_allclose(at.G @ v, 0, atol=1e-13)
    np.testing.assert_allclose(at.slip @ v, rates, atol=1e-12)
    turned = slope(lambda t: mechanics(model, retract(model.configuration, q, t[0] * v), v).angle, 1, step=1e-3)
    np.testing.assert_allclose(turned[:, 0], rates, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_slip_and_constraints_leave_no_direction_out(model, seed):
    q, v = joint_state(
        model, np.random.default_rng(seed).uniform(-3, 3, len(model.joints)), np.zeros(len(model.joints))
    )
    at = mechanics(model, q, v)
    assert np.linalg.cond(np.vstack([at.G, at.slip])) < 1e3


# --- conventions by hand ---


def test_a_pendulum_swings_up_from_hanging():
    # About the world's y, a positive turn takes a rod that points down to where it points backwards, to -x.
    q, v = joint_state(pendulum(length=0.2), [np.pi / 2], [2.0])
    np.testing.assert_allclose(q[:3], [-0.2, 0, 0], atol=1e-15)
    np.testing.assert_allclose(v[:3], [0, 0, 0.4], atol=1e-14)


def test_violation_by_hand():
    body = Body("body", 1, (1, 1, 1))
    model = Model([body], [Hinge("h", GROUND.frame(at=(1, 2, 3)), body.frame(at=(0, 0, 0.5)))], gravity=gravity(G))
    tilted = Rotation.from_rotvec([0, 0, np.pi / 6])  # x_a · y_b = −sin 30°, x_a · z_b = 0
    q = np.concatenate([[0.1, 0, 0], tilted.as_quat(scalar_first=True)])
    np.testing.assert_allclose(mechanics(model, q, np.zeros(6)).g, [0.9, 2, 2.5, -0.5, 0], atol=1e-15)


def test_masses_and_weights():
    model = Model([Body("a", 2, (1, 2, 3), free=True), Body("b", 5, full_inertia(), free=True)], gravity=gravity(G))
    at = mechanics(model, *random_state(model, np.random.default_rng(0)))
    expected = np.zeros((12, 12))
    expected[np.arange(6), np.arange(6)] = [2, 2, 2, 1, 2, 3]
    expected[6:9, 6:9], expected[9:, 9:] = 5 * np.eye(3), full_inertia()
    np.testing.assert_array_equal(at.M, expected)
    still = mechanics(model, random_state(model, np.random.default_rng(0))[0], np.zeros(12))
    np.testing.assert_allclose(still.f, [0, 0, -2 * G, 0, 0, 0, 0, 0, -5 * G, 0, 0, 0])


def test_gyroscopic_torque():
    model = Model([Body("b", 1, full_inertia(), free=True)], gravity=gravity(0))
    q, v = random_state(model, np.random.default_rng(1))
    expected = -np.cross(v[3:], full_inertia() @ v[3:])
    np.testing.assert_allclose(mechanics(model, q, v).f, [0, 0, 0, *expected], atol=1e-15)
    # Principal moments 1, 2, 3 and ω = (1, 1, 0): ω × Jω = (0, 0, 1).
    model = free_body(inertia=(1, 2, 3))
    np.testing.assert_allclose(mechanics(model, q, np.array([0, 0, 0, 1, 1, 0])).f[3:], [0, 0, -1], atol=1e-15)


def test_gravity_and_its_tilt():
    np.testing.assert_array_equal(ca.DM(gravity(G)).full()[:, 0], [0, 0, -G])
    for a, b in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (-0.2, 0.15)]:
        tilted = ca.DM(tilted_gravity(G, a, b)).full()[:, 0]
        np.testing.assert_allclose(tilted, Rotation.from_rotvec([a, b, 0]).apply([0, 0, -G]), atol=1e-14)
        np.testing.assert_allclose(tilted, [-b * G, a * G, -G], atol=G * (a * a + b * b))
        assert np.linalg.norm(tilted) == pytest.approx(G)


def test_tilts_have_derivatives_at_zero():
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    slopes = ca.Function("slopes", [a, b], [ca.jacobian(tilted_gravity(G, a, b), ca.vertcat(a, b))])
    np.testing.assert_array_equal(slopes(0, 0).full(), [[0, -G], [G, 0], [0, 0]])
