"""Tests of constraints between parameters against the data, and causes of fits that stopped before their minimum.

With S the Schur complement of the states, g half the gradient of −2 log L at the solution, and LLᵀ = S⁻¹ within all
other constraints, releasing one constraint with gradient a changes its value by aᵀδ, δ = −LLᵀg, to first order, with
the variance aᵀLLᵀ Cov(g) LLᵀa. Their ratio is the test of Aitchison and Silvey (Annals of Mathematical Statistics 29,
1958).

For a fit that stopped early, the largest parts of the cost are named: joints, constraints, recordings, and bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.checks import OPEN
from spookid.assembly.priors import constraint_rows
from spookid.assembly.trajectories import along
from spookid.estimation.identifiability import Identifiability
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.precision import HALF_DIGITS, MET
from spookid.results.findings import Finding
from spookid.results.trajectory import Trajectory
from spookid.results.values import ConstraintTension
from spookid.solvers.quadratic_program import balanced
from spookid.statistics.condensing import inverse_root
from spookid.statistics.variances import widened
from spookid.statistics.whiteness import SURE
from spookid.transcription.factor import Factor, Group
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point


def tensions(
    assembly: Assembly, point: Point, known: Identifiability, normaliser: Array | None
) -> Mapping[str, ConstraintTension]:
    """Test of each constraint equation, by title; the normalizer adds the logarithms in −2 log L to g, (n_p,)."""
    problem, constraints = assembly.transcription, assembly.transcription.constraints
    if constraints is None:
        return {}
    (rows, slopes), active = constraints.values(point.parameters), constraints.active(point.parameters)
    gradient, multipliers = np.full(len(problem.names), np.nan), np.full(len(rows), np.nan)
    if known.condensed is not None:
        gradient = _gradient(known) + (0.0 if normaliser is None else normaliser)
        diagonal = np.diag(known.condensed.information)
        lengths = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        multipliers = balanced(problem, point.parameters, gradient, lengths)[0]
    places, found = {row.title: row.relation.place for row in constraint_rows(assembly.problem)}, {}
    held = problem.free_directions(point.parameters)
    for i, title in enumerate(constraints.titles):
        freed, error, reason = np.nan, np.nan, ""
        if active[i]:
            others = held.without(int(np.sum(active[:i])))
            freed, error, reason = _freed(known, gradient, slopes[i], others, constraints.sizes, not assembly.noise)
        kind = "equality" if i < constraints.equalities else "inequality"
        numbers = float(rows[i]), bool(active[i]), float(multipliers[i]), freed, error
        found[title] = ConstraintTension(title, kind, *numbers, reason, places[title])
    return found


def _gradient(known: Identifiability) -> Array:
    """Tᵀr, (n_p,)."""
    assert known.condensed is not None
    residuals = [[term.residual[:, None] for term in terms] for terms in known.condensed.linearized.chains]
    return known.condensed.inner(known.condensed.T, residuals, hard=True)[:, 0]


def _freed(
    known: Identifiability, gradient: Array, slope: Array, free: FreeDirections, sizes: Array, weighted: bool
) -> tuple[float, float, str]:
    """Where a row would be with only ``free`` directions held, its standard error, ``weighted`` if no noise was found,
    and why there is none."""
    if known.statistics is None or not np.all(np.isfinite(known.statistics.scatter)):
        return np.nan, np.nan, "the data do not determine the states, or leave no freedom"
    if np.linalg.norm(free.basis(sizes).T @ (sizes * slope)) <= HALF_DIGITS * np.linalg.norm(sizes * slope):
        return np.nan, np.nan, "others imply it"
    half = inverse_root(known.statistics.information, free)
    along = half.T @ slope
    scatter = half.T @ known.statistics.information @ half
    if weighted:
        prior, shares = (half.T @ part @ half for part in (known.statistics.prior, known.statistics.shares))
        scatter = widened(prior, shares, known.statistics.variances)
    variance = along @ scatter @ along
    if not variance > 0:
        return np.nan, np.nan, "the data do not determine it"
    return float(-along @ (half.T @ gradient)), float(np.sqrt(variance)), ""


def contradicted(found: Mapping[str, ConstraintTension]) -> list[Finding]:
    """Constraints that the data contradict."""
    far = [one for one in found.values() if one.sigmas > SURE]
    if not far:
        return []
    told = "; ".join(f"{one.name} ({one.place}) would be off by {one.freed:+.3g} ± {one.freed_err:.2g}" for one in far)
    evidence = {one.name: {"off": one.freed, "std_err": one.freed_err} for one in far}
    effect = f"The data contradict constraints between parameters: {told}."
    advice = "Either these constraints or the model are wrong: fit without the constraints, and compare."
    return [Finding("constraints.contradicted", tuple(one.name for one in far), evidence, effect, advice=advice)]


def held_findings(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[Finding]:
    """Note on the largest contributions to the cost where a fit stopped, with advice; none if not finite."""
    with np.errstate(all="ignore"):
        residuals = assembly.transcription.residuals(point)
        costs = [_costs(assembly, chain) for chain in residuals]
        if not np.isfinite(sum(sum(cost.values()) for cost in costs)):
            return []
        open_joint = list(_open_joint(assembly, point, motion))
        rows = _broken_row(assembly, residuals, (Group.RESIDUAL,) if open_joint else tuple(Group))
        parts = [*open_joint, *rows, *_largest(assembly, costs), *_at_bounds(assembly, point)]
    effect = f"Largest contributions to the cost when the fit stopped: {'; '.join(parts)}."
    evidence = {
        chain.name: sum(cost.values()) for chain, cost in zip(assembly.transcription.chains, costs, strict=True)
    }
    return [Finding("fit.stopped", evidence={"cost": evidence}, effect=effect)] if parts else []


def _costs(assembly: Assembly, residuals: Sequence[Array]) -> dict[str, float]:
    """Of one recording by the name of the row."""
    found: dict[str, float] = {}
    for factor, values in zip(assembly.transcription.factors, residuals, strict=True):
        for name, square in zip(factor.rows if factor.soft else (), np.sum(values**2, axis=0).tolist(), strict=False):
            found[name] = found.get(name, 0.0) + square
    return found


def _largest(assembly: Assembly, costs: Sequence[dict[str, float]], large: float = 1.5) -> Iterator[str]:
    """The recording with so many times its share of the cost, and the row that most of it is in."""
    chains, totals = assembly.transcription.chains, np.array([sum(cost.values()) for cost in costs])
    worst = int(np.argmax(totals))
    share, fair = (float(of[worst] / max(np.sum(of), 1e-300)) for of in (totals, np.array([c.steps for c in chains])))
    name, square = max(costs[worst].items(), key=lambda one: one[1])
    most = f"{100 * square / max(totals[worst], 1e-300):.0f} % of {{}} is {name!r}"
    if len(chains) > 1 and share > large * fair:
        yield (
            f"recording {chains[worst].name!r} has {100 * share:.0f} % of the cost with {100 * fair:.0f} % of the time "
            f"steps, and {most.format('this cost')}: fit this recording alone, look at its residuals, or remove it"
        )
    elif square > 0:
        yield f"{most.format('the cost')}: look at its residuals in `spookid report`, and whether its sigma is right"


def _open_joint(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> Iterator[str]:
    """The joint with the largest gap, if it is more than joints give: a share of how far the bodies move, or rad."""
    model = assembly.problem.model
    if not model.joints:
        return
    q = ca.SX.sym("q", model.configuration.ambient)
    rows = [ca.vec(model.joint(joint, q).violation) for joint in model.joints]
    sizes = ca.vertcat(*(ca.norm_inf(row) if row.numel() else ca.SX(0) for row in rows))
    gaps = [
        along([q], sizes, [contiguous(t.q.reshape(len(t.t), -1))], assembly.numbers(point, c))
        for c, t in enumerate(motion)
    ]
    widest = max(range(len(gaps)), key=lambda c: float(np.max(gaps[c], initial=0.0)))
    k, j = divmod(int(np.argmax(gaps[widest])), len(model.joints))
    reach = max(float(np.ptp(t.q[:, :, :3], axis=(0, 1)).max()) for t in motion)
    if (gap := float(gaps[widest][k, j])) > OPEN * min(reach, 1.0):
        joint, trajectory = model.joints[j], motion[widest]
        yield (
            f"{joint.kind} {joint.name!r} stays {gap:.2g} m or rad open at t = {trajectory.t[k]:.4g} s of "
            f"{trajectory.name!r}: correct the lengths and frames of its bodies, or make one a Parameter"
        )


def _broken_row(assembly: Assembly, residuals: Sequence[Sequence[Array]], groups: Collection[Group]) -> Iterator[str]:
    """The equality constraint of some groups that is farthest off."""
    problem = assembly.transcription
    found: list[tuple[float, int, Factor, int]] = []
    for c, chain in enumerate(residuals):
        for factor, values in zip(problem.factors, chain, strict=True):
            if factor.hard and factor.group in groups and values.size:
                i = int(np.argmax(np.abs(values)))
                found.append((float(np.abs(values).flat[i]), c, factor, i))
    if found and (worst := max(found, key=lambda one: one[0]))[0] > MET:
        off, c, factor, i = worst
        yield (
            f"the constraint {problem.provenance(c, factor, i)} ({factor.name}) is violated by {off:.2g}: remove "
            "the contradicting constraint, or give this constraint a sigma"
        )


def _at_bounds(assembly: Assembly, point: Point) -> Iterator[str]:
    problem = assembly.transcription
    at = (point.parameters <= problem.lower) | (point.parameters >= problem.upper)
    names = [name for name, held in zip(problem.names, at & (problem.lower < problem.upper), strict=True) if held]
    if names:
        yield f"{', '.join(names)} at a bound: widen it unless nature sets it"
