"""What estimates mean: masses, centres of mass and moments, the combinations of them that forces hang on, and what acts
at joints; with errors by the delta method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.outlining import UNITS
from spookid.errors import ProblemError
from spookid.estimation.grouping import BaseParameters, base_parameters
from spookid.mechanics.holding import Freedom
from spookid.mechanics.motor import Motor
from spookid.parameter import Parameter, is_constant, own_name
from spookid.results.findings import Finding
from spookid.results.result import Derived, Result
from spookid.statistics.combinations import prior_share

_LIMITED = "base-parameters.limited"
_NOT_NEGATIVE = ("viscous", "load_friction", "coulomb", "drag", "armature", "stiffness")
_UNNATURAL = "which nothing in nature has and no simulation bears."
_BOUNDED = "Give its parameters bounds or a prior; the model may have one term too many, or an input the wrong sign."
_SURE = 3.0
"""Standard errors below zero from which on a negative estimate is told."""


class _Row(NamedTuple):
    name: str
    unit: str
    formula: ca.SX
    body: str = ""


def physical_quantities(problem: Declaration, result: Result) -> dict[str, Derived]:
    """Those of the bodies that were declared with a FullInertia or coordinates of one, by name; numbers that were
    given are left out."""
    return _derived(_quantities(problem), problem, result)


def joint_quantities(problem: Declaration, result: Result) -> dict[str, Derived]:
    """What acts along the coordinates of joints, by name; numbers that were given are left out."""
    rows = (row for freedom in problem.model.freedoms for row in _at(freedom, problem.model.motors))
    return _derived((row for row in rows if not is_constant(row.formula)), problem, result)


def negative_findings(problem: Declaration, result: Result) -> Iterator[Finding]:
    """One for each mass and each coefficient of a joint that is estimated to be negative by more than its error tells.

    Moments of inertia have findings of their own (``estimation.inertias``).
    """
    rows = [row for freedom in problem.model.freedoms for row in _at(freedom, problem.model.motors, _NOT_NEGATIVE)]
    rows += [_Row(f"{body.name} mass", "kg", body.mass) for body in problem.model.bodies]
    for found in _derived((row for row in rows if not is_constant(row.formula)), problem, result).values():
        if found.estimate < -_SURE * found.std_err:
            spring = found.name.endswith(" stiffness")
            what = "a spring that pushes away from rest, as few do." if spring else _UNNATURAL
            effect = f"Less than nothing is estimated of {found.name}: {found.estimate:.3g} {found.unit}, {what}"
            cause = "Is the sign of gravity or of a sensor reversed?" if spring else ""
            evidence = {"estimate": found.estimate, "std_err": found.std_err}
            yield Finding("parameters.negative", (found.name,), evidence, effect, cause, _BOUNDED)


def base_quantities(problem: Declaration, result: Result) -> tuple[dict[str, Derived], list[Finding]]:
    """The base parameters that any motion shows, by name, if such bodies are among what is unknown; those that are
    single Parameters are left out. Where loops close in few places only they are those that the recordings show.

    Returns:
        Them, and a finding if they are of the recordings or not known.
    """
    if next(_quantities(problem), None) is None:
        return {}, []
    declared = {p.name for p in problem.parameter_set.declared}
    try:
        found, limited = _combinations(problem)
    except ProblemError as error:
        return {}, [Finding(_LIMITED, effect=f"Base parameters of the bodies are not known: {error}")]
    rows = (_Row(one.name, one.unit, one.formula) for one in found.combinations if one.name not in declared)
    return _derived(rows, problem, result), limited


def _combinations(problem: Declaration) -> tuple[BaseParameters, list[Finding]]:
    try:
        return base_parameters(problem), []
    except ProblemError:  # of loops
        found = base_parameters(problem, problem.recordings)
    effect = (
        "Base parameters are those of the recordings, and another motion may show more: the loops of the model do not "
        "close from joints at random."
    )
    return found, [Finding(_LIMITED, effect=effect)]


def _quantities(problem: Declaration) -> Iterator[_Row]:
    for body in problem.model.bodies:
        quantities = () if body.distribution is None else body.distribution.quantities
        for name, formula, unit in quantities:
            if not is_constant(formula):
                yield _Row(f"{body.name} {name}", unit, formula, body.name)


def _at(freedom: Freedom, motors: Sequence[Motor], names: Sequence[str] = ()) -> Iterator[_Row]:
    """Of one coordinate: coefficients of its joint, all inertia that turns with it alone, and its motors; or only
    coefficients with these names."""
    joint, label, unit = freedom.joint, freedom.label, freedom.coordinate.unit
    own = [motor for motor in motors if motor.joint is joint and motor.coordinate == freedom.index]
    for name, units in UNITS.items():
        if names and name not in names:
            continue
        values = ca.vertsplit(getattr(joint, name))
        formula = values[min(freedom.index, len(values) - 1)]
        if name == "armature":
            formula = sum((motor.inertia for motor in own), formula)
        yield _Row(f"{label} {name.replace('_', ' ')}", units[unit], formula, label)
    for motor in () if names else own:
        whose = f" of {motor.signal}" if len(own) > 1 else ""
        effort = freedom.coordinate.effort
        facts = {"gain": (motor.unit_effort, f"{effort} per unit"), "offset": (motor.offset, effort)}
        facts |= {"delay": (motor.delay, "s"), "back-EMF": (motor.damping, UNITS["viscous"][unit])}
        for what, (formula, own_unit) in facts.items():
            yield _Row(f"{label} {what}{whose}", own_unit, formula, label)


def _derived(rows: Iterable[_Row], problem: Declaration, result: Result) -> dict[str, Derived]:
    """Values with their errors, of each recording if it has its own."""
    rows = list(_of_recordings(rows, problem))
    if not rows:
        return {}
    all_of = ca.vertcat(*(row.formula for row in rows))
    there = {symbol.element_hash() for symbol in ca.symvar(all_of)}
    symbols = [p for p in problem.parameters if p.element_hash() in there]
    x = ca.vertcat(*symbols)
    at = ca.Function("physical", [x], [all_of, ca.densify(ca.jacobian(all_of, x))])
    values, slopes = (np.asarray(part.full()) for part in at(ca.DM([result.values[p.name] for p in symbols])))
    known, found = result.sensitivities, {}
    for i, row in enumerate(rows):
        own = {p.name: s for p, s in zip(symbols, slopes[i].tolist(), strict=True) if s and not result[p.name].fixed}
        error, reason = known.error_of(own, held=True)
        share = prior_share(own, error, known.names, known.seen)
        found[row.name] = Derived(row.name, float(values[i, 0]), error, reason, row.unit, row.body, share, own)
    return found


def _of_recordings(rows: Iterable[_Row], problem: Declaration) -> Iterator[_Row]:
    known = problem.parameter_set
    for row in rows:
        differing: list[Parameter] = [p for p in known.own if ca.depends_on(row.formula, p)]
        symbols = ca.vertcat(*differing)
        for recording in known.recordings if differing else ():
            own = ca.vertcat(*(p.of(recording) for p in differing))
            formula = ca.substitute(row.formula, symbols, own)
            yield row._replace(name=own_name(row.name, recording), formula=formula)
        if not differing:
            yield row
