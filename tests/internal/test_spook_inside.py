"""The inside of what ``test_spook`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import Array, OneStep, chain, free_body, function, furuta, pendulum, random_state, retract, slope
from test_spook import H, state

from spookid import Model
from spookid.mechanics.manifold import jacobian

# --- derivatives ---


_LAWS = dict(viscous=0.02, dry=0.003, coulomb=0.01, drag=0.004, stiffness=0.05, rest_angle=0.2, compliance=(1e-3, 1e-2))


def furuta_of(**laws: object) -> Model:
    """Both hinges alike, a Stribeck term at the shoulder, and a motor."""
    stribeck = {"dry": 0, "stribeck": (0.02, 0.5)}
    return furuta(shoulder=laws | stribeck, elbow=laws, motor={"shaft_inertia": 1e-3})


_MODELS = {"free": free_body(), "pendulum": pendulum(**_LAWS), "furuta": furuta_of(**_LAWS), "chain": chain(**_LAWS)}


def derivative(step: OneStep, which: int, x: Array, after: Array, u: Array) -> Array:
    """∂residual/∂x (0) or ∂residual/∂x₊ (1) in the tangent space."""
    symbols = step.factor.variables
    block = jacobian(step.factor.residual, symbols[which], step.model.state)
    evaluate = function([block], [*symbols.values(), step.factor.data, *(c.symbol for c in step.constants)])
    return evaluate(x, after, u, *(c.value for c in step.constants))[0]


def check_derivatives(model: Model, x: Array, after: Array, slip_width: float = 0.3) -> None:
    step, u = OneStep(model, h=H, slip_width=slip_width, impulse_width=0.1), np.full(len(model.signals), 0.4)
    for which in (0, 1):
        exact = derivative(step, which, x, after, u)
        assert np.all(np.isfinite(exact))

        def residual(delta: Array, which: int = which) -> Array:
            ends = [x, after]
            ends[which] = retract(model.state, ends[which], delta)
            return step.residual(*ends, u)

        expected = slope(residual, model.state.tangent, step=3e-5)
        np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-8 * np.abs(exact).max())


@pytest.mark.parametrize("name", _MODELS)
def test_derivatives_at_random_states(name):
    model, rng = _MODELS[name], np.random.default_rng(3)
    check_derivatives(model, *(np.concatenate(random_state(model, rng)) for _ in range(2)))


@pytest.mark.parametrize("build", [pendulum, furuta_of])
def test_derivatives_where_nothing_turns_and_nothing_slips(build):
    model = build(**{name: value for name, value in _LAWS.items() if name != "drag"})
    x = state(model, np.zeros(len(model.joints)), np.zeros(len(model.joints)))
    check_derivatives(model, x, x)


def test_drag_has_no_slope_where_nothing_slips():
    # s|s| has no second derivative there, which differences would notice.
    still = state(pendulum(), [0.3], [0])
    one, other = (derivative(OneStep(pendulum(drag=d), h=H), 1, still, still, np.zeros(0)) for d in (0, 1))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["pendulum", "furuta"])
def test_derivatives_at_the_edge_between_stick_and_slip(name):
    model, width = _MODELS[name], 0.3
    n = len(model.joints)
    x = state(model, np.linspace(-2, 2, n), np.full(n, width))
    check_derivatives(model, x, state(model, np.linspace(-2, 2, n) + H * width, np.full(n, width)), width)
