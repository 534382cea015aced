"""A finding on friction whose direction the motion does not tell: rates are known less well than the law's width.

States are integrated out by Laplace's method, around the most probable ones. Where a rate is known less well than the
width over which friction turns, and is within two of its errors of rest, the law is no straight line over what is
likely, and most probable states choose the direction that suits the noise.
"""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.kernels.arrays import Array
from spookid.mechanics.friction_loads import ContinuousFriction
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import linearize_beside
from spookid.tables.table import quantity
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point

_NEAR_REST = 2.0
"""Standard errors of a rate within which its sign is not known."""
_MANY = 0.1
"""Share of the steps from which on it is told: fits that cover leave up to 0.03, the noisy twin of results/bayesian.md
0.3 to 0.5."""


def sliding_findings(
    assembly: Assembly, point: Point, condensed: Condensed | None, values: Mapping[str, float]
) -> list[Finding]:
    """One that names the coordinates.

    Args:
        condensed: the fit linearized at its noise; None if the states are not determined.
        values: of the parameters by name.
    """
    problem = assembly.problem
    widths = _widths(assembly, values)
    if not widths or condensed is None or problem.dynamics != "estimated" or problem.estimator == "hard":
        return []
    rates, errors = known_rates(assembly, point, condensed)
    told, evidence = [], {}
    for i, width in widths.items():
        unknown = (errors[:, i] > width) & (np.abs(rates[:, i]) < _NEAR_REST * errors[:, i])
        if np.mean(unknown) > _MANY:
            freedom = problem.model.freedoms[i]
            unit = f"{freedom.coordinate.unit}/s"
            share, error = float(np.mean(unknown)), float(np.median(errors[unknown, i]))
            evidence[freedom.label] = {"share": share, "std_err": error, "width": width}
            told.append(
                f"{freedom.label} at {100 * share:.0f} % of the steps, where its rate is known to "
                f"{quantity(error, unit, 2)} and friction turns over {quantity(width, unit, 2)}"
            )
    if not told:
        return []
    effect = (
        f"The direction of sliding is not known of: {'; '.join(told)}. Dry friction then comes out too large and "
        "viscous friction too small, by up to about a standard error in the mean."
    )
    advice = "Sensors that tell rates better help most; a longer step lessens it."
    return [Finding("friction.direction-unknown", tuple(evidence), evidence, effect, advice=advice)]


def _widths(assembly: Assembly, values: Mapping[str, float]) -> dict[int, float]:
    """Of coordinates with smooth dry friction, by their number [rad/s or m/s]."""
    problem, found = assembly.problem, dict[int, float]()
    known = problem.parameter_set.on(dict(values))
    for i, freedom in enumerate(problem.model.freedoms):
        laws = [load for load in freedom.joint.loads if isinstance(load, ContinuousFriction)]
        each = [number(velocity, known) for law in laws for velocity in law.velocities]
        each += [float(assembly.widths[i])] if freedom.rubs and problem.friction == "smooth" else []
        if each:
            found[i] = min(each)
    return found


def known_rates(assembly: Assembly, point: Point, condensed: Condensed) -> tuple[Array, Array]:
    """Of all coordinates at the ends of the steps of all recordings, and their standard errors, parameters given,
    (N, n_s) both."""
    problem = assembly.problem
    n, law = len(problem.model.freedoms), problem.scheme.friction_along(problem.model, assembly.settings)
    ends = law.value[3 * n : 4 * n] * assembly.settings.slip_width
    labels = tuple(freedom.label for freedom in problem.model.freedoms)
    factor = Factor("rates", Group.OBSERVATION, ca.densify(ends), law.variables, ca.SX.sym("none", 0), labels)
    terms = linearize_beside(condensed.linearized.problem, factor, point)
    spread = [condensed.state_covariances(c, term) for c, term in enumerate(terms)]
    errors = np.sqrt(np.concatenate([np.einsum("kii->ki", one) for one in spread]))
    return np.concatenate([term.residual for term in terms]), errors
