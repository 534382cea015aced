"""Where a graph's solve starts: what is known of the motion, and what follows from it; what cost rounding leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.graphs.factor import Variables
from spookid.kernels.arrays import Array
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.system import System
from spookid.transcription.transcription import Point, Transcription


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


_EPSILON = 4 * float(np.finfo(float).eps)
_NOTHING = 1e-11
"""Share of its sigma below which an error is nothing in any case."""


def rounding(problem: Transcription, point: Point) -> float:
    """Squares of ε Σ |J| |x| over all soft rows, with the sizes of the unknowns at ``point``."""
    total = _NOTHING**2 * problem.rows
    states, width = point.states[0], problem.manifold.tangent
    sizes = np.ones((len(states), width))
    if states.shape[1] == width:  # without rotations, whose coordinates are of order one
        sizes = np.abs(states)
    for factor in (factor for factor in problem.factors if factor.soft):
        matrix, count = problem.linearize_factor(factor, point, 0).matrix, factor.count(len(states))
        for i, offset in enumerate(factor.variables):
            slopes = np.abs(matrix[:, i * width : (i + 1) * width])
            total += float(np.sum((_EPSILON * np.einsum("kcr,kc->kr", slopes, sizes[offset : offset + count])) ** 2))
    return total
