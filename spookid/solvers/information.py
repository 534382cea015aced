"""What the data say about the parameters at a solution that any solver found."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.factor import Factor
from spookid.kernels import Array
from spookid.solvers.linearization import Linearization
from spookid.solvers.reduction import Reduction
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription import Point, Transcription


@dataclass(frozen=True, eq=False)
class Information:
    """See the fields of ``Outcome`` of the same names."""

    matrix: Array
    """Schur complement of the states in JᵀWJ, (n_p, n_p); NaN if the normal equations are singular."""
    freedom: int
    redundant: int


def information(problem: Transcription, point: Point) -> Information:
    """Information in the parameters at ``point``; of a complementarity pair the smaller member is held at zero."""
    held = problem.with_factors([_active(factor) for factor in problem.factors])
    n = len(problem.names)
    try:
        reduction = Reduction(held, point)
        reduction.stiffen()
        here = Linearization(reduction, point, [reduction.reduce(point, c) for c in range(len(held.chains))])
        return Information(here.information(), here.freedom, reduction.redundant)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return Information(np.full((n, n), np.nan), 0, 0)


def _active(factor: Factor) -> Factor:
    if not factor.pairs:
        return factor
    m = len(factor.rows) // 2
    smaller = ca.fmin(factor.residual[:m], factor.residual[m:])
    return Factor(
        factor.name,
        factor.group,
        smaller,
        factor.variables,
        factor.data,
        factor.rows[:m],
        first_only=factor.first_only,
        hard=True,
    )
