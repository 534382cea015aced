"""What estimated inertias mean: masses, centres of mass and moments, with errors by the delta method."""

from __future__ import annotations

from collections.abc import Iterator

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.parameter import Parameter, is_constant, own_name
from spookid.results.result import Derived, Result
from spookid.statistics.combinations import prior_share

_Row = tuple[str, str, str, ca.SX]
"""Body, name, unit and formula."""


def physical_quantities(problem: Declaration, result: Result) -> dict[str, Derived]:
    """Those of the bodies that were declared with a FullInertia or coordinates of one, by name; numbers that were
    given are left out."""
    rows = list(_rows(problem))
    if not rows:
        return {}
    symbols = [p for p in problem.parameters if any(ca.depends_on(formula, p) for *_, formula in rows)]
    x, all_of = ca.vertcat(*symbols), ca.vertcat(*(formula for *_, formula in rows))
    at = ca.Function("physical", [x], [all_of, ca.densify(ca.jacobian(all_of, x))])
    values, slopes = (np.asarray(part.full()) for part in at(ca.DM([result.values[p.name] for p in symbols])))
    known, found = result.sensitivities, {}
    for i, (body, name, unit, _) in enumerate(rows):
        own = {p.name: s for p, s in zip(symbols, slopes[i].tolist(), strict=True) if s and not result[p.name].fixed}
        error, reason = known.error_of(own, held=True)
        share = prior_share(own, error, known.names, known.seen)
        found[name] = Derived(name, float(values[i, 0]), error, reason, unit, body, share)
    return found


def _rows(problem: Declaration) -> Iterator[_Row]:
    known = problem.parameter_set
    for body in problem.model.bodies:
        quantities = () if body.distribution is None else body.distribution.quantities
        for name, formula, unit in quantities:
            if is_constant(formula):
                continue
            differing: list[Parameter] = [p for p in known.own if ca.depends_on(formula, p)]
            symbols = ca.vertcat(*differing)
            for recording in known.recordings if differing else ():
                own = ca.vertcat(*(p.of(recording) for p in differing))
                yield body.name, own_name(f"{body.name} {name}", recording), unit, ca.substitute(formula, symbols, own)
            if not differing:
                yield body.name, f"{body.name} {name}", unit, formula
