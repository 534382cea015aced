"""Constraints between parameters as a solver takes them: those of the recordings, fixed parameters as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.relations import Relation
from spookid.parameter import is_constant, own_name, parameters_in, stacked
from spookid.records import dataclass
from spookid.transcription.parameter_constraints import ParameterConstraints

_HOLDS = 1e-6
"""A relation of fixed parameters alone holds if it is off by no more than this share of its terms."""
_HALVINGS = 40
"""Of the way on which a parameter's end is sought."""
_MOST_TRIED = 40
"""Rows among which those are sought that contradict each other."""


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a relation, in one recording if that has parameters of its own."""

    relation: Relation
    title: str
    difference: ca.SX
    """Zero, or not positive; of free parameters."""
    equal: bool


def constraint_rows(problem: Declaration) -> list[Row]:
    """Of the problem's constraints; a row without a free parameter is left out where it holds.

    Raises:
        ProblemError: for a row of fixed parameters alone that does not hold.
    """
    found: list[Row] = []
    free = {p.name for p in problem.free}
    fixed = [p for p in problem.parameters if p.name not in free]
    numbers = ca.DM([problem.guess[p.name] for p in fixed])
    for relation in problem.constraints:
        for title, (difference, equal) in zip(relation.titles, relation.rows, strict=True):
            for name, one in _of_recordings(problem, title, difference):
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


def _of_recordings(problem: Declaration, title: str, difference: ca.SX) -> list[tuple[str, ca.SX]]:
    """A row for each recording if a parameter of it is another in each."""
    known = problem.parameter_set
    declared = [p for p in known.own if ca.depends_on(difference, p)]
    if not declared:
        return [(title, difference)]
    symbols = ca.vertcat(*declared)
    return [
        (own_name(title, name), ca.substitute(difference, symbols, ca.vertcat(*(p.of(name) for p in declared))))
        for name in known.recordings
    ]


def _holds(row: ca.SX, value: float, equal: bool, problem: Declaration) -> bool:
    own = parameters_in([row], "a constraint")
    slopes = ca.Function("slopes", [ca.vertcat(*own)], [ca.jacobian(row, ca.vertcat(*own))])
    at = np.array([problem.guess[p.name] for p in own])
    terms = float(np.abs(slopes(at).full()[0]) @ np.abs(at))
    return (abs(value) if equal else value) <= _HOLDS * max(terms, np.finfo(float).tiny)


def parameter_constraints(problem: Declaration, sizes: Array) -> ParameterConstraints | None:
    """All rows, equalities first; None if there are none.

    Args:
        sizes: typical ones of the free parameters, (n_p,).

    Raises:
        ProblemError: as ``constraint_rows``, or if no values near the guesses and in their bounds satisfy all.
    """
    rows = sorted(constraint_rows(problem), key=lambda row: not row.equal)
    return _made(problem, rows, sizes) if rows else None


def _made(problem: Declaration, rows: Sequence[Row], sizes: Array) -> ParameterConstraints:
    equal = stacked(row.difference for row in rows if row.equal)
    unequal = stacked(row.difference for row in rows if not row.equal)
    guess = np.array([problem.guess[p.name] for p in problem.free])
    return ParameterConstraints(ca.vertcat(*problem.free), equal, unequal, [r.title for r in rows], sizes, guess)


def feasible(problem: Declaration, constraints: ParameterConstraints | None, start: Array) -> Array:
    """The nearest parameters to a start (n_p,) that satisfy all.

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
                "that is no number, or the guesses at which it has no value"
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
        f"{guilty[0].relation.place}: no values of the parameters in their bounds, as near to the guesses as could be "
        f"looked, satisfy the constraint{'s' * many} {words}; correct {'one of them' if many else 'it'}, or the bounds"
    )


def attainable(problem: Declaration, values: Mapping[str, float], name: str, bound: float) -> float:
    """How far a parameter can go towards its bound, from values that satisfy the constraints: the bound, or where these
    stop it."""
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
    for _ in range(_HALVINGS):
        middle = (here + beyond) / 2
        here, beyond = (middle, beyond) if possible(middle) else (here, middle)
    return here if abs(here - values[name]) > _HOLDS * sizes[place] else values[name]
