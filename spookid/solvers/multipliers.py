"""Multipliers of bounds and constraints of the parameters, and what of a gradient they do not balance."""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import nnls
from spookid.transcription.transcription import Transcription


def unopposed(problem: Transcription, parameters: Array, gradient: Array, lengths: Array) -> Array:
    """What is left of a gradient (n_p,) once bounds and constraints that hold have balanced all they can.

    Args:
        lengths: of the columns of the Jacobian, positive, (n_p,): what is left is least in their units.
    """
    low, high = parameters <= problem.lower, parameters >= problem.upper
    if problem.constraints is None:
        return np.where((low & (gradient > 0)) | (high & (gradient < 0)), 0.0, gradient)
    return gradient + balanced(problem, parameters, gradient, lengths)[1]


def balanced(problem: Transcription, parameters: Array, gradient: Array, lengths: Array) -> tuple[Array, Array]:
    """Multipliers of the constraints' rows, 0 of those that do not hold, (k,); and what they and those of bounds add
    to the gradient, (n_p,)."""
    assert problem.constraints is not None
    low, high = parameters <= problem.lower, parameters >= problem.upper
    rows, unit = problem.constraints.values(parameters)[1], np.eye(len(parameters))
    active = np.flatnonzero(problem.constraints.active(parameters))
    both = active[active < problem.constraints.equalities]
    pushes = np.vstack([rows[active], -rows[both], unit[high], -unit[low]])
    sizes = np.linalg.norm(pushes / lengths, axis=1)
    used, weights = sizes > 0, np.zeros(len(sizes))
    if np.any(used):  # SciPy's routine needs a column
        weights[used] = nnls((pushes[used] / lengths / sizes[used, None]).T, -gradient / lengths)[0] / sizes[used]
    multipliers, equal = np.zeros(len(rows)), slice(len(active), len(active) + len(both))
    multipliers[active] += weights[: len(active)]
    multipliers[both] -= weights[equal]
    return multipliers, weights @ pushes
