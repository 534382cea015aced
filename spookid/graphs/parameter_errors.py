"""Standard errors of a graph's parameters: the sigmas of its factors are what they are."""

from __future__ import annotations

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.information import information, unseen_directions
from spookid.statistics.combinations import RESOLVED, UNOBSERVED
from spookid.statistics.covariance import AT_BOUND, NO_FACTOR
from spookid.transcription.transcription import Point, Transcription


def standard_errors(problem: Transcription, point: Point) -> tuple[Array, dict[str, str]]:
    """Of each parameter, (n_p,), and why some have none: roots of the diagonal of the inverse of the information, in
    what the data see and the bounds leave free."""
    names, n = problem.names, len(problem.names)
    errors = np.full(n, np.nan)
    if not n:
        return errors, {}
    held = (point.parameters <= problem.lower) | (point.parameters >= problem.upper)
    reasons = {name: AT_BOUND for name, at in zip(names, held, strict=True) if at}
    matrix = information(problem, point).matrix
    if not np.all(np.isfinite(matrix)):
        return errors, {name: NO_FACTOR for name in names} | reasons
    hidden = np.zeros(n)
    directions = unseen_directions(problem, point, problem.magnitudes)
    hidden[:] = np.sum(directions**2, axis=0)
    seen = ~held & (hidden <= RESOLVED)
    reasons |= {name: UNOBSERVED for name, is_seen, at in zip(names, seen, held, strict=True) if not (is_seen or at)}
    free = np.flatnonzero(~held)
    scales = problem.magnitudes[free]
    inverse = np.linalg.pinv(matrix[np.ix_(free, free)] * np.outer(scales, scales), rcond=_RANK, hermitian=True)
    found = np.full(n, np.nan)
    found[free] = scales * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return np.where(seen, found, np.nan), reasons


_RANK = 1e-12
"""Share of the largest eigenvalue below which a direction is not seen."""
