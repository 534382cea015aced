"""Where a graph's solve starts: what is known of the motion, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.graphs.dynamics import accelerations
from spookid.graphs.variables import Variables
from spookid.kernels.kernel import Array
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.system import System
from spookid.parameter import parameters_in


def started(variables: Variables, start: Mapping[str, Any], steps: int, what: str, step: float = 1.0) -> Array:
    """Variables of all steps, (N, ambient), from those that are given, (its coordinates,) or (N, its coordinates):
    rates that are not given are differences of what they are the rates of, independent variables are those of q, v and
    a, and unknown efforts are 0.

    Args:
        step: h [s].

    Raises:
        ProblemError: for a variable of the wrong shape or that the graph does not have, or without q.
    """
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
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"{what}: start of {name} is {shown(values)}; give numbers") from None
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
        q, v: at the first step, (its coordinates,); rates of 0 by default.
        data: of each input of the system its values at the steps, (N,), on a line between them.
        parameters: values of Parameters by name; of others their guesses.

    Raises:
        ProblemError: if inputs are missing or of another length.
    """
    moving, shown_a = _rule(system, step, parameters or {})
    n, size = system.manifold.ambient, system.manifold.tangent
    first = np.concatenate([np.asarray(q, dtype=float), np.broadcast_to(np.asarray(v, dtype=float), size)])
    given = _inputs(system, steps, data or {})
    x = np.vstack([first, _rolled(moving, first, np.hstack([given[:-1], given[1:]]))])
    x[:, :n] = [system.manifold.normed(one) for one in x[:, :n]]
    a = np.asarray(shown_a.map(steps)(x.T, given.T).full()).T
    return {"q": x[:, :n], "v": x[:, n:], "a": a}


def _rolled(moving: ca.Function, first: Array, inputs: Array) -> Array:
    """States after the first one, (N − 1, n)."""
    if not len(inputs):
        return np.zeros((0, len(first)))
    return np.asarray(moving.mapaccum(len(inputs))(first, inputs.T).full()).T


def _rule(system: System, step: float, parameters: Mapping[str, float]) -> tuple[ca.Function, ca.Function]:
    """(q, v) after a step, from inputs at its beginning and end; and a."""
    q, v = ca.SX.sym("q", system.manifold.ambient), ca.SX.sym("v", system.manifold.tangent)
    u, x = ca.SX.sym("u", len(system.signals)), ca.vertcat(q, v)
    a = accelerations(system, q, v, system.force(q, v, u))
    unknown = parameters_in([a], "the system", [q, v, u])
    values = ca.DM([parameters.get(p.name, p.guess) for p in unknown])
    a = ca.substitute(a, ca.vertcat(ca.SX(0, 1), *unknown), values)
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


def _inputs(system: System, steps: int, data: Mapping[str, Any]) -> Array:
    """(N, n_u)."""
    columns = []
    for name in system.signals:
        values = np.asarray(data.get(name, ()), dtype=float)
        if values.shape != (steps,) or not np.all(np.isfinite(values)):
            raise ProblemError(
                f"the input {name!r} has no value for each of {steps} steps; give data={{{name!r}: ...}}"
            )
        columns.append(values)
    return np.column_stack(columns) if columns else np.zeros((steps, 0))
