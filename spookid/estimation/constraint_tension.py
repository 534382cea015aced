"""How hard the data pull at constraints between parameters: what each would be if it alone were let go.

With S the Schur complement of the states, g half the gradient of −2 log L at the solution, and L of LLᵀ = S⁻¹ along
what moves without a row, the row moves by aᵀδ, δ = −LLᵀg for its slope a, to first order; its variance is
aᵀLLᵀ Cov(g) LLᵀa. Its ratio is the test of Aitchison and Silvey (Annals of Mathematical Statistics 29, 1958).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.relations import constraint_rows
from spookid.estimation.identifiability import Identifiability
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.results.values import ConstraintTension
from spookid.solvers.multipliers import balanced
from spookid.statistics.condensing import inverse_root
from spookid.statistics.student import widened
from spookid.transcription.free_directions import FreeDirections
from spookid.transcription.transcription import Point

_FAR = 3.0
"""Standard errors from which on data contradict a constraint."""
_SEEN = 1e-9
"""Share of a row's length in the parameters' units up to which nothing of it moves."""


def tensions(
    assembly: Assembly, point: Point, known: Identifiability, normaliser: Array | None
) -> Mapping[str, ConstraintTension]:
    """Of each row, by its title.

    Args:
        normaliser: what the logarithms in −2 log L add to g, (n_p,); None: nothing.
    """
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
    return known.condensed.inner(known.condensed.T, residuals)[:, 0]


def _freed(
    known: Identifiability, gradient: Array, slope: Array, free: FreeDirections, sizes: Array, weighted: bool
) -> tuple[float, float, str]:
    """Where a row would be without it, its standard error, and why there is none.

    Args:
        free: what moves without it.
        weighted: True if the noise that was found is not that of the weights.
    """
    if known.statistics is None or not np.all(np.isfinite(known.statistics.scatter)):
        return np.nan, np.nan, "the data do not determine the states, or leave no freedom"
    if np.linalg.norm(free.basis(sizes).T @ (sizes * slope)) <= _SEEN * np.linalg.norm(sizes * slope):
        return np.nan, np.nan, "others imply it"
    half = inverse_root(known.statistics.information, free)
    along = half.T @ slope
    scatter = half.T @ known.statistics.information @ half
    if weighted:
        prior, shares = (half.T @ part @ half for part in (known.statistics.prior, known.statistics.shares))
        scatter = widened(prior, shares, known.statistics.variances)
    variance = along @ scatter @ along
    if not variance > 0:
        return np.nan, np.nan, "the data do not see it"
    return float(-along @ (half.T @ gradient)), float(np.sqrt(variance)), ""


def contradicted(found: Mapping[str, ConstraintTension]) -> list[Finding]:
    """Constraints that the data contradict."""
    far = [one for one in found.values() if one.sigmas > _FAR]
    if not far:
        return []
    told = "; ".join(f"{one.name} ({one.place}) would be off by {one.freed:+.3g} ± {one.freed_err:.2g}" for one in far)
    evidence = {one.name: {"off": one.freed, "std_err": one.freed_err} for one in far}
    effect = f"The data contradict constraints between parameters: {told}."
    advice = "Either they or the model are wrong: fit without them, and compare."
    return [Finding("constraints.contradicted", tuple(one.name for one in far), evidence, effect, advice=advice)]
