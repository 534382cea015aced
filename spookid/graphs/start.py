"""Where a graph's solve starts: a motion by an explicit rule, or what is known of it; what cost rounding leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.graphs.factor import Variables
from spookid.graphs.integration import accelerations
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EPSILON
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.system import FEW_DIGITS, System, counted_steps, floats, parameter_values, point, seconds, vector
from spookid.parameter import Parameter, parameters_in, stacked
from spookid.transcription.transcription import Point, Transcription

Values = tuple[ca.SX, Array]  # parameters, and their numbers


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
    """Simulate q, v and a from an initial state, (N, size) each, as initial values of a solve.

    The accelerations (6) are integrated by the classical Runge–Kutta method of fourth order. Constraints are met as
    well as the first state meets them.

    Args:
        step: h [s].
        steps: N.
        q, v: at the first step, (its coordinates,); one number for all rates.
        data: values of each input of the system at the steps, (N,), interpolated linearly.
        parameters: values of Parameters by name; others have their initial values.

    Raises:
        ProblemError: for a step or a number of steps that is not positive, a state of the wrong shape or off the
            constraints by more than a thousandth of it, inputs that are missing, of another length or not the
            system's, or a Parameter that it does not have.
    """
    what = f"{declared_at()}: simulated"
    h, count = seconds(step, what), counted_steps(steps, 1, what)
    place = point(q, system.manifold, f"{what}: q")
    rates = vector(v, system.manifold.tangent, f"{what}: v", or_one=True)
    given = _inputs(system, count, data or {}, what)
    values = _values(system, parameters or {}, what)
    _check_first(system, place, rates, values, what)
    moving, shown_a = _rule(system, h, values)
    first, n = np.concatenate([place, rates]), system.manifold.ambient
    inputs = np.hstack([given[:-1], given[1:]])
    rolled = (
        np.asarray(moving.mapaccum(count - 1)(first, inputs.T).full()).T if count > 1 else np.zeros((0, len(first)))
    )
    x = np.vstack([first, rolled])
    x[:, :n] = [system.manifold.normed(one) for one in x[:, :n]]
    a = np.asarray(shown_a.map(count)(x.T, given.T).full()).T
    return {"q": x[:, :n], "v": x[:, n:], "a": a}


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
        ("q", lacking, place, "give coordinates that satisfy them, such as those of Mechanism.assembled"),
        ("v", parting, rates, "give rates that keep them satisfied, or 0"),
    ):
        off = float(np.max(np.abs(np.linalg.lstsq(slopes, left)[0])))
        if not off <= FEW_DIGITS * np.max(np.abs(own)):
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


def started(variables: Variables, start: Mapping[str, Any], steps: int, what: str, step: float = 1.0) -> Array:
    """Complete given variables, (size,) or (N, size), to those of all steps, (N, ambient). Missing rates are finite
    differences, independent variables follow from q, v and a, and unknown efforts are 0."""
    given = {name: _spread(variables, name, values, steps, what) for name, values in start.items()}
    if "q" in given:
        given.setdefault("v", _slopes(variables.system.manifold, given["q"], step))
        given.setdefault("a", _slopes(variables.space("v"), given["v"], step))
    for name, source in (("z", "q"), ("dz", "v"), ("ddz", "a")):
        if name in variables.names and name not in given and source in given:
            given[name] = _chosen(variables.system, source, given[source])
    if "q" in variables.names and "q" not in given:
        raise ProblemError(f'{what}: start has no q; give start={{"q": ...}}, one point or one for each step')
    for name in variables.names:
        given.setdefault(name, np.zeros((steps, variables.space(name).ambient)))
    return variables.written(given)


def _slopes(space: Manifold, values: Array, step: float) -> Array:
    """Rates by differences of neighbours, at the ends of two, (N, tangent) [1/s]."""
    if len(values) < 2:
        return np.zeros((len(values), space.tangent))
    after, before = ca.SX.sym("after", space.ambient), ca.SX.sym("before", space.ambient)
    difference = ca.Function("difference", [after, before], [space.difference(after, before)])
    ahead = np.asarray(difference.map(len(values) - 1)(values[1:].T, values[:-1].T).full()).T / step
    return np.vstack([ahead[:1], (ahead[1:] + ahead[:-1]) / 2, ahead[-1:]])


def _spread(variables: Variables, name: str, values: Any, steps: int, what: str) -> Array:
    known = {*variables.names, "q", "v", "a"}
    if name not in known:
        raise ProblemError(f"{what}: start has {name!r}; its variables are {', '.join(variables.names)}")
    size = variables.space(name).ambient
    found = floats(values, f"{what}: start of {name}", "numbers")
    if found.shape not in ((size,), (steps, size)) or not np.all(np.isfinite(found)):
        raise ProblemError(
            f"{what}: start of {name} has the shape {found.shape}; give finite numbers, ({size},) or ({steps}, {size})"
        )
    return np.array(np.broadcast_to(found, (steps, size)))


def _chosen(system: System, source: str, values: Array) -> Array:
    own = list(system.independent)
    if source == "q":
        own = [system.manifold.coordinate(column) for column in own]
    return values[:, own]


_NOTHING = 1e-11  # share of its sigma below which an error is nothing in any case


def rounding(problem: Transcription, point: Point) -> float:
    """Estimate the rounding error of the cost at ``point``: squares of ε Σ |J| |x| over all residuals."""
    total = _NOTHING**2 * problem.rows
    states, width = point.states[0], problem.manifold.tangent
    sizes = np.ones((len(states), width))
    if states.shape[1] == width:  # without rotations, whose coordinates are of order one
        sizes = np.abs(states)
    for factor in (factor for factor in problem.factors if factor.soft):
        matrix, count = problem.linearize_factor(factor, point, 0).matrix, factor.count(len(states))
        for i, offset in enumerate(factor.variables):
            slopes = np.abs(matrix[:, i * width : (i + 1) * width])
            total += float(np.sum((EPSILON * np.einsum("kcr,kc->kr", slopes, sizes[offset : offset + count])) ** 2))
    return total
