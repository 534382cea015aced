"""A motion from its first state on, by an explicit rule: where a solve may start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.graphs.integration import accelerations
from spookid.kernels.arrays import Array
from spookid.mechanics.system import System, counted_steps, named, parameter_values, point, seconds, vector
from spookid.parameter import Parameter, parameters_in, stacked

_OFF = 1e-3
"""Share of the largest coordinate, or rate, by which a first state may be off the constraints."""
Values = tuple[ca.SX, Array]
"""Parameters, and their numbers."""


@checked
def simulated(
    system: System,
    step: float,
    steps: int,
    q: Any,
    v: Any = 0.0,
    data: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float] | None = None,
) -> dict[str, Array]:
    """q, v and a of a motion from a state on, each (N, its coordinates): where a solve may start.

    By the classical Runge–Kutta rule of fourth order for the accelerations (6). Constraints are met as well as the
    first state meets them.

    Args:
        step: h [s].
        steps: N.
        q, v: at the first step, (its coordinates,); one number for all rates.
        data: of each input of the system its values at the steps, (N,), on a line between them.
        parameters: values of Parameters by name; of others their guesses.

    Raises:
        ProblemError: for a step or a number of steps that is not positive, a state of the wrong shape or off the
            constraints by more than a thousandth of it, inputs that are missing, of another length or not the
            system's, or a Parameter that it does not have.
    """
    what = f"{declared_at()}: simulated"
    h, count = seconds(step, what), counted_steps(steps, 1, what)
    place = point(q, system.manifold, f"{what}: q")
    rates = vector(v, system.manifold.tangent, f"{what}: v", or_one=True)
    given = _inputs(system, count, named(data, f"{what}: data", "the name of each input to its values"), what)
    values = _values(system, named(parameters, f"{what}: parameters", "the name of each to its value"), what)
    _check_first(system, place, rates, values, what)
    moving, shown_a = _rule(system, h, values)
    first, n = np.concatenate([place, rates]), system.manifold.ambient
    x = np.vstack([first, _rolled(moving, first, np.hstack([given[:-1], given[1:]]))])
    x[:, :n] = [system.manifold.normed(one) for one in x[:, :n]]
    a = np.asarray(shown_a.map(count)(x.T, given.T).full()).T
    return {"q": x[:, :n], "v": x[:, n:], "a": a}


def _rolled(moving: ca.Function, first: Array, inputs: Array) -> Array:
    """States after the first one, (N − 1, n)."""
    if not len(inputs):
        return np.zeros((0, len(first)))
    return np.asarray(moving.mapaccum(len(inputs))(first, inputs.T).full()).T


def _rule(system: System, step: float, values: Values) -> tuple[ca.Function, ca.Function]:
    """(q, v) after a step, from inputs at its beginning and end; and a."""
    q, v, u = _symbols(system)
    x = ca.vertcat(q, v)
    a = ca.substitute(accelerations(system, q, v, system.force(q, v, u)), *values)
    flow = ca.Function("flow", [x, u], [ca.vertcat(system.manifold.basis(q) @ v, a)], {"cse": True})
    end = ca.SX.sym("end", u.numel())
    middle = (u + end) / 2
    k1 = flow(x, u)
    k2 = flow(x + step / 2 * k1, middle)
    k3 = flow(x + step / 2 * k2, middle)
    k4 = flow(x + step * k3, end)
    after = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    moving = ca.Function("moving", [x, ca.vertcat(u, end)], [after])
    return moving, ca.Function("acceleration", [x, u], [a])


def _symbols(system: System) -> tuple[ca.SX, ca.SX, ca.SX]:
    """q, v and u."""
    q, v = ca.SX.sym("q", system.manifold.ambient), ca.SX.sym("v", system.manifold.tangent)
    return q, v, ca.SX.sym("u", len(system.signals))


def _values(system: System, given: Mapping[str, Any], what: str) -> Values:
    q, v, u = _symbols(system)
    parts = system.mass(q), system.force(q, v, u), system.constraint(q), *system.expressions()
    unknown: tuple[Parameter, ...] = parameters_in(parts, what, [q, v, u])
    names = [p.name for p in unknown]
    for name in given:
        if name not in names:
            raise ProblemError(f"{what}: no Parameter of the system is {shown(name)}; it has {_list(names)}")
    return stacked(unknown), parameter_values(unknown, given, f"{what}: value")


def _check_first(system: System, place: Array, rates: Array, values: Values, what: str) -> None:
    """Raise ProblemError for a state that is off the constraints, as far as coordinates would have to move."""
    q, v, _ = _symbols(system)
    if not system.constraint(q).numel():
        return
    rows = [system.constraint(q), system.constraint_rate(q, v), system.constraint_jacobian(q)]
    found = ca.Function("rows", [q, v], [ca.densify(ca.substitute(ca.SX(row), *values)) for row in rows])
    lacking, parting, slopes = (np.asarray(part.full()) for part in found(place, rates))
    for name, left, own, remedy in (
        ("q", lacking, place, "give coordinates that meet them, such as those of Mechanism.assembled"),
        ("v", parting, rates, "give rates with which they stay met, or 0"),
    ):
        off = float(np.max(np.abs(np.linalg.lstsq(slopes, left)[0])))
        if not off <= _OFF * np.max(np.abs(own)):
            raise ProblemError(f"{what}: {name} is off the constraints by {off:.3g} of a coordinate; {remedy}")


def _inputs(system: System, steps: int, data: Mapping[str, Any], what: str) -> Array:
    """(N, n_u)."""
    for name in data:
        if name not in system.signals:
            raise ProblemError(f"{what}: the system has no input {shown(name)}; it has {_list(system.signals)}")
    for name in system.signals:
        if name not in data:
            raise ProblemError(f"{what}: the input {name!r} has no values; give data={{{name!r}: ...}}, ({steps},)")
    columns = [vector(data[name], steps, f"{what}: the input {name!r}") for name in system.signals]
    return np.column_stack(columns) if columns else np.zeros((steps, 0))


def _list(names: Any) -> str:
    return ", ".join(names) or "none"
