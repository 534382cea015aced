"""Physical quantities of the estimates with errors by the delta method, and findings on unphysical values.

Quantities are masses, centres of mass, moments, base parameters and coefficients of joints. The largest principal
moment of a body is at most the sum of the others. A violation is reported only if the data determine it: changes of
inertias that leave the kinetic energy T = ½ Σ ωᵀ I ω + … of the motion unchanged are not identifiable, such as moments
about axes that a body never rotates about, or shifts of inertia between bodies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.outlining import UNITS
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.grouping import base_parameters
from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics.body import Body
from spookid.mechanics.holding import Freedom
from spookid.mechanics.motor import Motor
from spookid.parameter import Parameter, at_rest, is_constant, own_name, parameters_in, substitute
from spookid.results.findings import Finding
from spookid.results.result import Derived, Solution
from spookid.results.trajectory import Trajectory
from spookid.statistics.sensitivities import Sensitivities, prior_share
from spookid.statistics.whiteness import SURE

_LIMITED = "base-parameters.limited"
_NOT_NEGATIVE = ("viscous", "load_friction", "coulomb", "drag", "armature", "stiffness")


class _Row(NamedTuple):
    name: str
    unit: str
    formula: ca.SX
    body: str = ""


def physical_quantities(problem: Problem, result: Solution) -> dict[str, Derived]:
    """Masses, centres of mass and moments of bodies with a full inertia, by name, without given numbers."""
    return _derived(_quantities(problem), problem, result)


def predicted_quantities(problem: Problem, known: Sensitivities) -> dict[str, Derived]:
    """Same quantities at the initial values of a problem, with the standard errors of a planned fit."""
    rows = list(_quantities(problem))
    return _at_values(rows, problem, problem.guess, known, {p.name for p in problem.free}) if rows else {}


def joint_quantities(problem: Problem, result: Solution, names: Sequence[str] = ()) -> dict[str, Derived]:
    """Coefficients along joint coordinates, by name, without given numbers; or only those with these names."""
    rows = (row for freedom in problem.model.freedoms for row in _at(freedom, problem.model.motors, names))
    return _derived((row for row in rows if not is_constant(row.formula)), problem, result)


def negative_findings(problem: Problem, result: Solution) -> Iterator[Finding]:
    """Warning for each mass and joint coefficient whose estimate is significantly negative."""
    masses = (_Row(f"{one.name} mass", "kg", one.mass) for one in problem.model.bodies if not is_constant(one.mass))
    every = {**joint_quantities(problem, result, _NOT_NEGATIVE), **_derived(masses, problem, result)}
    advice = "Give these parameters bounds or a prior; the model may have a superfluous term, or an input a wrong sign."
    for found in every.values():
        if found.estimate < -SURE * found.std_err:
            spring = found.name.endswith(" stiffness")
            what = (
                "the spring pushes away from its rest position."
                if spring
                else "no physical mechanism has such a value."
            )
            effect = f"The estimate of {found.name} is negative, {found.estimate:.3g} {found.unit}: {what}"
            cause = "Is the sign of gravity or of a sensor reversed?" if spring else ""
            evidence = {"estimate": found.estimate, "std_err": found.std_err}
            yield Finding("parameters.negative", (found.name,), evidence, effect, cause, advice)


def base_quantities(problem: Problem, result: Solution) -> tuple[dict[str, Derived], list[Finding]]:
    """Base parameters by name for any motion, if bodies are unknown, without single Parameters; for closed loops that
    close in few poses, those of the recordings, with a finding."""
    if next(_quantities(problem), None) is None:
        return {}, []
    declared, limited = {p.name for p in problem.parameter_set.declared}, list[Finding]()
    try:
        try:
            found = base_parameters(problem)
        except ProblemError:  # of loops
            found = base_parameters(problem, problem.recordings)
            effect = (
                "The base parameters are those of the recorded motion, and another motion may identify more: no other "
                "poses were found in which the loops of the model close."
            )
            limited = [Finding(_LIMITED, effect=effect)]
    except ProblemError as error:
        return {}, [Finding(_LIMITED, effect=f"The base parameters of the bodies could not be computed: {error}")]
    rows = (_Row(one.name, one.unit, one.formula) for one in found.combinations if one.name not in declared)
    return _derived(rows, problem, result), limited


def _quantities(problem: Problem) -> Iterator[_Row]:
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
        facts |= {
            "delay": (motor.delay, "s"),
            "lag": (motor.lag, "s"),
            "back-EMF": (motor.damping, UNITS["viscous"][unit]),
        }
        for what, (formula, own_unit) in facts.items():
            yield _Row(f"{label} {what}{whose}", own_unit, formula, label)


def _derived(rows: Iterable[_Row], problem: Problem, result: Solution) -> dict[str, Derived]:
    """Values with their errors, of each recording if it has its own."""
    rows = list(_of_recordings(rows, problem))
    if not rows:
        return {}
    free = {name for name, one in result.parameters.items() if not one.fixed}
    return _at_values(rows, problem, result.values, result.sensitivities, free)


def _at_values(
    rows: Sequence[_Row], problem: Problem, at: Mapping[str, float], known: Sensitivities, free: Collection[str]
) -> dict[str, Derived]:
    """Values of formulas and their errors by the delta method; parameters that are not ``free`` are certain."""
    all_of = at_rest(ca.vertcat(*(row.formula for row in rows)))
    there = {symbol.element_hash() for symbol in ca.symvar(all_of)}
    symbols = [p for p in problem.parameters if p.element_hash() in there]
    x = ca.vertcat(*symbols)
    function = ca.Function("physical", [x], [all_of, ca.densify(ca.jacobian(all_of, x))])
    values = np.asarray(function(ca.DM([at[p.name] for p in symbols]))[0].full())
    slopes = np.asarray(function(ca.DM([known.at.get(p.name, at[p.name]) for p in symbols]))[1].full())
    found = {}
    for i, row in enumerate(rows):
        own = {p.name: s for p, s in zip(symbols, slopes[i].tolist(), strict=True) if s and p.name in free}
        error, reason = known.error_of(own, held=True)
        share = prior_share(own, error, known.names, known.seen)
        found[row.name] = Derived(row.name, float(values[i, 0]), error, reason, row.unit, row.body, share, own)
    return found


def _of_recordings(rows: Iterable[_Row], problem: Problem) -> Iterator[_Row]:
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


_LITTLE = 1e-2
"""Share of a body's turning, or of a direction, that may as well be the give of its joints."""
_PRODUCTS = np.triu_indices(3)
"""Rows and columns of the products of rates that inertias multiply."""
_DOUBLE = np.where(np.equal(*_PRODUCTS), 1.0, 2.0)
"""Multiplicity of each product in an inertia."""


def inertia_findings(
    problem: Problem, values: Mapping[str, float], known: Sensitivities, motion: Sequence[Trajectory]
) -> Iterator[Finding]:
    """Warning for each body whose principal moments are not positive, or violate the triangle inequality."""
    found = [(body, *worst) for body in problem.model.bodies if (worst := _worst(problem, body, values)) is not None]
    energy = _energy(motion) if found else np.zeros((0, 0))
    for body, recording, (size, slope, moments) in found:
        place = problem.model.bodies.index(body)
        if _is_seen(energy, place, slope) and size > SURE * _error(problem, body, recording, slope, values, known):
            text = ", ".join(f"{m:.4g}" for m in moments)
            said = f"The principal moments {text} kg m² of body {body.name!r} are not physical"
            evidence = {"principal_moments": moments.tolist(), "violation": size}
            fixed = "A fixed mass, length or inertia may be wrong.", "Measure this value again, or estimate it."
            effect = f"{said}: they violate the triangle inequality."
            yield Finding("inertia.unphysical", (body.name,), evidence, effect, *fixed)


def mass_findings(problem: Problem, values: Mapping[str, float], gone: float = 1e-3) -> Iterator[Finding]:
    """Warning for each body whose estimated mass is a tiny share of its initial value."""
    free = {p.name for p in problem.free}
    for body in problem.model.bodies:
        if not free.isdisjoint(p.name for p in parameters_in([body.mass], body.name)):
            guessed, found = (float(substitute(body.mass, of)[0]) for of in (problem.guess, values))
            if 0 <= found < gone * guessed:
                what = f"body {body.name!r} has mass {found:.2g} kg, and its initial value is {guessed:.3g} kg"
                cause = "The fit has probably ended at a wrong local minimum."
                advice, evidence = "Use other initial values, or a prior.", {"mass": found, "initial": guessed}
                yield Finding("mass.vanished", (body.name,), evidence, f"A mass has vanished: {what}.", cause, advice)


def _worst(
    problem: Problem, body: Body, values: Mapping[str, float]
) -> tuple[str | None, tuple[float, Array, Array]] | None:
    """The recording in which a body violates the inequality most, None if all are alike, with the violation."""
    own = {p.name for p in problem.parameter_set.own} & {p.name for p in parameters_in([body.inertia], body.name)}
    recordings = problem.parameter_set.recordings if own else (None,)
    pairs = [(r, _violation(body, problem.parameter_set.on(values, r))) for r in recordings]
    return max(((r, v) for r, v in pairs if v is not None), key=lambda pair: pair[1][0], default=None)


def _violation(body: Body, values: Mapping[str, float]) -> tuple[float, Array, Array] | None:
    """By how much [kg m²], how that changes with the inertia, (3, 3), and the moments; None if it is none."""
    inertia = substitute(body.inertia, values)
    if not ca.symvar(body.inertia) or not np.all(np.isfinite(inertia)):
        return None
    moments, axes = np.linalg.eigh(inertia)
    signs = np.array([-1.0, 0.0, 0.0] if moments[0] <= 0 else [-1.0, -1.0, 1.0])
    size = float(signs @ moments)
    return (size, (axes * signs) @ axes.T, moments) if size > HALF_DIGITS * moments[2] else None


def _energy(motion: Sequence[Trajectory], most: int = 2000) -> Array:
    """Slopes of 2 T in the inertias of all bodies at about so many states of the motion, (states, 6 n_b)."""
    rates = np.concatenate([t.v[:, :, 3:] for t in motion])
    rates = rates[np.isfinite(rates).all(axis=(1, 2))]
    rates = rates[:: max(len(rates) // most, 1)]
    rows, columns = _PRODUCTS
    products = rates[:, :, rows] * rates[:, :, columns] * _DOUBLE
    return np.asarray(products.reshape(len(rates), -1))


def _is_seen(energy: Array, place: int, slope: Array) -> bool:
    """True if no change of inertias that leaves the energy as it is alters what has this slope in those of a body."""
    wanted = np.zeros(energy.shape[1])
    wanted[6 * place : 6 * place + 6] = slope[_PRODUCTS] * _DOUBLE
    scale = np.sqrt(np.sum(energy**2, axis=0))
    largest = np.repeat(np.max(scale.reshape(-1, 6), axis=1), 6)
    moving = scale > _LITTLE * largest
    if not np.any(moving) or np.linalg.norm(wanted[~moving]) > _LITTLE * np.linalg.norm(wanted):
        return False
    sought = wanted[moving] / scale[moving]
    _, sizes, directions = np.linalg.svd(energy[:, moving] / scale[moving], full_matrices=False)
    seen = directions[sizes > _LITTLE * sizes[0]]
    rest = sought - seen.T @ (seen @ sought)
    return bool(np.linalg.norm(rest) <= _LITTLE * np.linalg.norm(sought))


def _error(
    problem: Problem,
    body: Body,
    recording: str | None,
    slope: Array,
    values: Mapping[str, float],
    known: Sensitivities,
) -> float:
    """Standard error of the violation; NaN if it depends on a parameter that has none."""
    at, name = problem.parameter_set.on(values, recording), partial(problem.parameter_set.name_on, recording=recording)
    free = {name(p): p for p in parameters_in([body.inertia], body.name) if name(p) in known.names}
    if not free:
        return 0.0
    slopes = substitute(ca.jacobian(ca.dot(ca.DM(slope), body.inertia), ca.vertcat(*free.values())), at).ravel()
    moving = {name: s for name, s in zip(free, slopes.tolist(), strict=True) if s}
    return known.error_of(moving)[0]
