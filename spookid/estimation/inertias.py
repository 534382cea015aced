"""Findings on estimated inertias that no mass distribution has, where the motion tells that they are so.

The largest principal moment of a body is at most the sum of the others. The kinetic energy is linear in the inertias,
T = ½ Σ ωᵀ I ω + …, and what does not change it does not change the motion: moments about axes that a body never turns
about, or what one body's inertia gives and another's takes. Only what no such change alters is a matter of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.kernels.arrays import Array
from spookid.mechanics.body import Body
from spookid.parameter import parameters_in, substitute
from spookid.results.findings import Finding
from spookid.results.result import Trajectory
from spookid.statistics.covariance import Sensitivities

_SURE = 3.0
"""Standard errors of a violation from which on it is told."""
_ROUNDING = 1e-9
_LITTLE = 1e-2
"""Share of a body's turning, or of a direction, that may as well be the give of its joints."""
_MOST_STATES = 2000
_GONE = 1e-3
"""Share of the mass that was guessed below which a body has lost it."""
_PRODUCTS = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)
"""Rows and columns of I_xx, I_yy, I_zz, I_xy, I_xz and I_yz."""


def inertia_findings(
    problem: Declaration, values: Mapping[str, float], known: Sensitivities, motion: Sequence[Trajectory]
) -> Iterator[Finding]:
    """One for each body whose principal moments violate the triangle inequality, or are not positive."""
    suspects = [(b, *found) for b in problem.model.bodies if (found := _worst(problem, b, values)) is not None]
    energy = _energy(motion) if suspects else np.zeros((0, 0))
    for body, recording, (size, slope, moments) in suspects:
        place = problem.model.bodies.index(body)
        if _is_seen(energy, place, slope) and size > _SURE * _error(problem, body, recording, slope, values, known):
            text = ", ".join(f"{m:.4g}" for m in moments)
            said = f"No mass distribution has the principal moments {text} kg m² of body {body.name!r}"
            evidence = {"principal_moments": moments.tolist(), "violation": size}
            fixed = "A mass, a length or an inertia that is fixed may be wrong.", "Measure it again, or free it."
            effect = f"{said}: they violate the triangle inequality."
            yield Finding("inertia.unphysical", (body.name,), evidence, effect, *fixed)


def mass_findings(problem: Declaration, values: Mapping[str, float]) -> Iterator[Finding]:
    """One for each body of whose mass next to nothing is left."""
    for body in problem.model.bodies:
        if {p.name for p in parameters_in([body.mass], body.name)} & {p.name for p in problem.free}:
            guessed, found = (float(substitute(body.mass, of)[0]) for of in (problem.guess, values))
            if 0 <= found < _GONE * guessed:
                what = f"body {body.name!r} has {found:.2g} of the {guessed:.3g} kg of its guess"
                cause = "The fit has most likely ended at another minimum than the true one."
                advice, evidence = "Begin elsewhere, or give the mass a prior.", {"mass": found, "initial": guessed}
                yield Finding("mass.vanished", (body.name,), evidence, f"A mass has vanished: {what}.", cause, advice)


def _worst(
    problem: Declaration, body: Body, values: Mapping[str, float]
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
    return (size, (axes * signs) @ axes.T, moments) if size > _ROUNDING * moments[2] else None


def _energy(motion: Sequence[Trajectory]) -> Array:
    """Slopes of 2 T in the inertias of all bodies at states of the motion, (states, 6 n_b)."""
    rates = np.concatenate([t.v[:, :, 3:] for t in motion])
    rates = rates[np.isfinite(rates).all(axis=(1, 2))]
    rates = rates[:: max(len(rates) // _MOST_STATES, 1)]
    rows, columns = map(list, _PRODUCTS)
    products = rates[:, :, rows] * rates[:, :, columns] * np.where(np.equal(rows, columns), 1.0, 2.0)
    return np.asarray(products.reshape(len(rates), -1))


def _is_seen(energy: Array, place: int, slope: Array) -> bool:
    """True if no change of inertias that leaves the energy as it is alters what has this slope in those of a body."""
    rows, columns = map(list, _PRODUCTS)
    wanted = np.zeros(energy.shape[1])
    wanted[6 * place : 6 * place + 6] = slope[rows, columns] * np.where(np.equal(rows, columns), 1.0, 2.0)
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
    problem: Declaration,
    body: Body,
    recording: str | None,
    slope: Array,
    values: Mapping[str, float],
    known: Sensitivities,
) -> float:
    """Standard error of the violation; infinite if it hangs on a parameter that has none."""
    of, values = (
        partial(problem.parameter_set.name_on, recording=recording),
        problem.parameter_set.on(values, recording),
    )
    free = [p for p in parameters_in([body.inertia], body.name) if of(p) in known.names]
    if not free:
        return 0.0
    jacobian = ca.jacobian(ca.dot(ca.DM(slope), body.inertia), ca.vertcat(*free))
    slopes = np.ravel(substitute(jacobian, values))
    rows = [known.names.index(of(p)) for p, s in zip(free, slopes.tolist(), strict=True) if s]
    gradient = slopes[slopes != 0]
    variance = float(gradient @ known.covariance[np.ix_(rows, rows)] @ gradient)
    return float(np.sqrt(variance)) if np.isfinite(variance) else np.inf
