"""How coordinates of inertias step: so that π, in which the equations of motion are linear, moves in a line.

Constraints between parameters as a solver takes them: those of the recordings, fixed parameters as numbers.

What is known of parameters beforehand, as a factor that stands once per problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EQUAL, MET, TINY
from spookid.mechanics.inertia import Belief
from spookid.mechanics.inertia_coordinates import InertiaCoordinates
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.relations import Relation
from spookid.parameter import Parameter, is_constant, parameters_in, stacked
from spookid.records import dataclass
from spookid.transcription.factor import Factor, Group
from spookid.transcription.parameter_constraints import Chart, ParameterConstraints


def inertia_charts(problem: Problem) -> tuple[Chart, ...]:
    """Charts of the inertias whose coordinates are free Parameters, one per body."""
    places = {p.name: i for i, p in enumerate(problem.free)}
    inertias = [b.distribution for b in problem.model.bodies if isinstance(b.distribution, InertiaCoordinates)]
    return tuple(_chart(one, problem, places) for one in inertias if any(p.name in places for p in one.coordinates))


def _chart(inertia: InertiaCoordinates, problem: Problem, places: dict[str, int]) -> Chart:
    names = [p.name for p in inertia.coordinates]
    theta, delta = (ca.SX.sym(name, len(names)) for name in ("theta", "delta"))
    pi = ca.substitute(inertia.pi, ca.vertcat(*inertia.coordinates), theta)
    function = ca.Function("ahead", [theta, delta], [pi + ca.jtimes(pi, theta, delta)])
    lower = np.array([p.lower for p in inertia.coordinates])

    def ahead(start: Array, step: Array) -> Array:
        return np.asarray(function(start, step).full())[:, 0]

    def inverse(moved: Array, near: Array) -> Array | None:
        try:
            found = inertia.from_pi_values(moved, near)
        except (ValueError, np.linalg.LinAlgError):
            return None
        return found if np.all(np.isfinite(found)) and np.all(found >= lower) else None

    guess = problem.guess
    where = np.array([places.get(name, -1) for name in names], dtype=np.intp)
    return Chart(where, np.array([guess[name] for name in names]), ahead, inverse)


_MOST_TRIED = 40
"""Rows among which those are sought that contradict each other."""


@dataclass(frozen=True, eq=False)
class Row:
    """One equation of a relation, for one recording if its parameters differ between recordings."""

    relation: Relation
    title: str
    difference: ca.SX
    """Zero, or not positive; of free parameters."""
    equal: bool


def constraint_rows(problem: Problem) -> list[Row]:
    """Equations of the problem's constraints; an equation without free parameters is omitted if it is satisfied.

    Raises:
        ProblemError: for a row of fixed parameters alone that does not hold.
    """
    found: list[Row] = []
    free = {p.name for p in problem.free}
    fixed = [p for p in problem.parameters if p.name not in free]
    numbers = ca.DM([problem.guess[p.name] for p in fixed])
    for relation in problem.constraints:
        for title, (difference, equal) in zip(relation.titles, relation.rows, strict=True):
            for name, one in problem.parameter_set.in_each(title, difference):
                settled = ca.substitute(one, stacked(fixed), ca.vertcat(ca.DM(0, 1), numbers))
                if not is_constant(settled):
                    same = sum(row.title == name or row.title.startswith(f"{name} (") for row in found)
                    found.append(Row(relation, f"{name} ({same + 1})" if same else name, settled, equal))
                elif not _holds(one, float(ca.evalf(settled)), equal, problem):
                    raise ProblemError(
                        f"{relation.place}: constraint {name!r} does not hold at the values at which its parameters "
                        "are fixed; free one of them, or give another value"
                    )
    return found


def _holds(row: ca.SX, value: float, equal: bool, problem: Problem) -> bool:
    own = parameters_in([row], "a constraint")
    slopes = ca.Function("slopes", [ca.vertcat(*own)], [ca.jacobian(row, ca.vertcat(*own))])
    at = np.array([problem.guess[p.name] for p in own])
    terms = float(np.abs(slopes(at).full()[0]) @ np.abs(at))
    return (abs(value) if equal else value) <= MET * max(terms, TINY)


def parameter_constraints(problem: Problem, sizes: Array) -> ParameterConstraints | None:
    """All constraints on parameters, equalities first; None if there are none.

    Args:
        sizes: typical ones of the free parameters, (n_p,).

    Raises:
        ProblemError: as ``constraint_rows``, or if no values near the initial values and in their bounds satisfy all.
    """
    rows = sorted(constraint_rows(problem), key=lambda row: not row.equal)
    return _made(problem, rows, sizes) if rows else None


def _made(problem: Problem, rows: Sequence[Row], sizes: Array) -> ParameterConstraints:
    equal = stacked(row.difference for row in rows if row.equal)
    unequal = stacked(row.difference for row in rows if not row.equal)
    guess = np.array([problem.guess[p.name] for p in problem.free])
    return ParameterConstraints(ca.vertcat(*problem.free), equal, unequal, [r.title for r in rows], sizes, guess)


def feasible(problem: Problem, constraints: ParameterConstraints | None, start: Array) -> Array:
    """Parameters (n_p,) nearest to a start that satisfy all constraints.

    Raises:
        ProblemError: if there are none, with the constraints that contradict each other; for one that is NaN there.
    """
    if constraints is None:
        return start
    lower, upper = (np.array([getattr(p, side) for p in problem.free]) for side in ("lower", "upper"))
    found = constraints.restored(start, lower, upper)
    if found is not None:
        return found
    rows = sorted(constraint_rows(problem), key=lambda row: not row.equal)
    for row, off in zip(rows, constraints.violations(start), strict=True):
        if np.isnan(off):
            raise ProblemError(
                f"{row.relation.place}: constraint {row.title!r} is NaN where the fit begins; correct the number in it "
                "that is no number, or the initial values at which it has no value"
            )
    left = np.ones(len(rows), dtype=bool)
    for i in range(min(len(rows), _MOST_TRIED)):  # what can go without making the rest satisfiable takes no part
        left[i] = False
        if constraints.part(left).restored(start, lower, upper) is not None:
            left[i] = True
    guilty = [row for row, is_left in zip(rows, left, strict=True) if is_left]
    words = " and ".join(dict.fromkeys(f"{row.title!r} ({row.relation.place})" for row in guilty))
    many = len(guilty) > 1
    raise ProblemError(
        f"{guilty[0].relation.place}: no values of the parameters in their bounds and near the initial values "
        f"satisfy the constraint{'s' * many} {words}; correct {'one of them' if many else 'it'}, or the bounds"
    )


def attainable(problem: Problem, values: Mapping[str, float], name: str, bound: float) -> float:
    """Largest change of a parameter towards its bound, from values that satisfy the constraints: the bound, or a value
    at which constraints stop it."""
    free = problem.free
    start = np.array([values[p.name] for p in free])
    lower, upper = (np.array([getattr(p, side) for p in free]) for side in ("lower", "upper"))
    sizes = np.array([abs(values[p.name]) or abs(problem.guess[p.name]) or 1.0 for p in free])
    constraints, place = parameter_constraints(problem, sizes), [p.name for p in free].index(name)
    assert constraints is not None

    def possible(value: float) -> bool:
        there = start.copy()
        there[place] = value
        at = np.arange(len(free)) == place
        ends = (np.where(at, value, end) for end in (lower, upper))
        return constraints.restored(there, *ends) is not None

    here, beyond = values[name], bound
    if not np.isfinite(bound):
        ways = np.sign(bound) * sizes[place] * 10.0 ** np.arange(-6, 7)
        beyond = next((here + way for way in ways.tolist() if not possible(here + way)), bound)
    if not np.isfinite(beyond) or possible(beyond):
        return bound
    while abs(beyond - here) > EQUAL * max(abs(beyond), sizes[place]):
        middle = (here + beyond) / 2
        here, beyond = (middle, beyond) if possible(middle) else (here, middle)
    return here if abs(here - values[name]) > MET * sizes[place] else values[name]


NAME = "prior"
NORMALISER = "normaliser"


def normaliser_factor(parameters: Sequence[Parameter], manifold: Manifold) -> tuple[Factor, ca.SX]:
    """Effect of the likelihood's normalizer on parameters θ near θ₀, as a squared residual.

        (c + vᵀ(θ − θ₀))²/c = c + 2 vᵀ(θ − θ₀) + …

    Without it a fit at given noise would scale all inertias and forces down. It stands like a prior; its symbols are
    θ₀, v and c, one below the other.
    """
    n, present = len(parameters), ca.SX.sym("present")
    numbers = ca.SX.sym("normaliser", 2 * n + 1)
    at, slope, weight = ca.vertsplit(numbers, [0, n, 2 * n, 2 * n + 1])
    row = present * (weight + ca.dot(slope, ca.vertcat(*parameters) - at)) / ca.sqrt(weight)
    variables = {0: ca.SX.sym("x", manifold.ambient)}
    factor = Factor(NORMALISER, Group.PRIOR, row, variables, present, (NORMALISER,), first_only=True)
    return factor, numbers


def priors(problem: Problem) -> tuple[Belief, ...]:
    """Return the priors of free parameters, and of inertias that depend on them. A parameter with a value per recording
    has one prior for each."""
    own = [Belief(p.name, p, *p.prior) for p in problem.free if p.prior is not None]
    of_bodies = [
        replace(belief, title=title, formula=formula)
        for belief in problem.model.beliefs
        for title, formula in problem.parameter_set.in_each(belief.title, belief.formula)
    ]
    free = stacked(problem.free)
    return (*own, *(belief for belief in of_bodies if ca.depends_on(belief.formula, free)))


def prior_factor(beliefs: Sequence[Belief], manifold: Manifold) -> Factor:
    """Return the factor (value − mean)/sigma of the priors.

    It applies to the first step of each recording, without its unknowns. Its one datum is 1 in the recording that
    carries it and 0 in the others, where its rows are missing.
    """
    present = ca.SX.sym("present")
    return Factor(
        NAME,
        Group.PRIOR,
        ca.vertcat(*(present * belief.row for belief in beliefs)),
        {0: ca.SX.sym("x", manifold.ambient)},
        present,
        tuple(f"prior of {belief.title}" for belief in beliefs),
        first_only=True,
    )
