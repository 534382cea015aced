"""States at one step from the unknowns of neighbouring steps, for sensors and residuals."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca

from spookid.data.state import Motion
from spookid.mechanics.model import Model
from spookid.stepping.impulses import Settings, Window


def of_positions(
    model: Model, settings: Settings, order: int, ambient: int, configuration: Callable[[ca.SX], ca.SX]
) -> Window:
    """Of a scheme whose unknowns hold poses alone: v is the mean of both sides, a their difference, over three steps.

    Args:
        ambient: size of the unknowns.
        configuration: q of unknowns.
    """
    here, still = ca.SX.sym("x", ambient), ca.SX(model.configuration.tangent, 1)
    q, h = configuration(here), settings.step
    if order == 0:
        return Window({0: here}, Motion(q, still, still))
    before, after = ca.SX.sym("x_before", ambient), ca.SX.sym("x_after", ambient)
    pairs = ((q, configuration(before)), (configuration(after), q))
    left, right = (model.configuration.difference(a, b) / h for a, b in pairs)
    return Window({0: before, 1: here, 2: after}, Motion(q, (left + right) / 2, (right - left) / h))


def first_of_positions(
    model: Model, settings: Settings, order: int, ambient: int, configuration: Callable[[ca.SX], ca.SX]
) -> Window | None:
    """Likewise at the first step, v being the slope there of the parabola through three poses, as in the states of
    results; None for accelerations."""
    if order == 0:
        return of_positions(model, settings, order, ambient, configuration)
    if order == 2:
        return None
    steps = [ca.SX.sym(f"x_{i}", ambient) for i in range(3)]
    first, second, third = map(configuration, steps)
    near, far = (model.configuration.difference(b, a) / settings.step for a, b in ((first, second), (second, third)))
    return Window(dict(enumerate(steps)), Motion(first, (3 * near - far) / 2, ca.SX(model.configuration.tangent, 1)))


def of_states(model: Model, settings: Settings, order: int, ambient: int, staggered: bool) -> Window:
    """Of a scheme whose unknowns begin with (q, v).

    Args:
        ambient: size of the unknowns.
        staggered: True if v is that of the interval before, so that (v₊ − v)/h is the acceleration at q.
    """
    n, m, h = model.configuration.ambient, model.state.ambient, settings.step
    x = ca.SX.sym("x", ambient)
    if order < 2:
        return Window({0: x}, Motion(x[:n], x[n:m], ca.SX(m - n, 1)))
    after = ca.SX.sym("x_after", ambient)
    if staggered:
        return Window({0: x, 1: after}, Motion(x[:n], x[n:m], (after[n:m] - x[n:m]) / h))
    before = ca.SX.sym("x_before", ambient)
    return Window({0: before, 1: x, 2: after}, Motion(x[:n], x[n:m], (after[n:m] - before[n:m]) / (2 * h)))
