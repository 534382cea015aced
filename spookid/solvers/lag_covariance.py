"""Covariance of the newest states of a fixed-lag smoother and of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels.kernel import Array
from spookid.kernels.scipy_parts import lapack
from spookid.solvers.fronts import Pivots

_CANCELLED = 1e-9
"""What follows an unknown that no row gives by less than this share of its terms does not follow it."""
_ROUNDED = 1e-12
"""An entry that is smaller beside the largest of its row is rounding. Multipliers of what other joints hold already
have such entries, and would make unknown all that stands beside them."""


def joint_covariance(pivots: Sequence[Pivots], border: Pivots, tangent: int) -> Array:
    """Of the newest states, the oldest first, and the parameters; NaN where they are not determined.

    Args:
        pivots: of the elimination of each of these states, rows of its unknowns and of those that follow.
        border: of the elimination of the parameters.
        tangent: unknowns of a state.
    """
    n, states = border.count, len(pivots) * tangent
    rows, places, soft = [np.zeros((0, states + n))], list[int](), list[int]()
    for first, found in zip(range(0, states, tangent), pivots, strict=True):
        block = np.zeros((len(found.rows), states + n))
        inside = min(found.rows.shape[1] - 1 - n, states - first)  # what is behind the newest state is not there
        block[:, first : first + inside] = found.rows[:, :inside]
        block[:, states:] = found.rows[:, found.rows.shape[1] - 1 - n : -1]
        soft += range(len(places) + found.hard, len(places) + len(block))
        rows.append(block)
        places += (first + found.places).tolist()
    soft += range(len(places) + border.hard, len(places) + len(border.rows))
    rows.append(np.hstack([np.zeros((len(border.rows), states)), border.rows[:, :-1]]))
    places += (states + border.places).tolist()
    return _of_rows(np.concatenate(rows), places, soft)


def _of_rows(rows: Array, places: list[int], soft: list[int]) -> Array:
    """Of unknowns that rows give, each by those that stand later among ``places``, with unit noise in the soft ones."""
    size = rows.shape[1]
    covariance = np.full((size, size), np.nan)
    if not places:
        return covariance
    inverse = np.triu(lapack.dtrtri(rows[:, places])[0])
    loose = [i for i in range(size) if i not in set(places)]
    known = np.ones(len(places), dtype=np.bool_)
    if loose:
        largest = np.max(np.abs(rows), axis=1, keepdims=True)
        beside = np.where(np.abs(rows[:, loose]) > _ROUNDED * largest, rows[:, loose], 0.0)
        follows, terms = inverse @ beside, np.abs(inverse) @ np.abs(beside)
        known = ~np.any(np.abs(follows) > _CANCELLED * terms, axis=1)
    responses, at = inverse[known][:, soft], np.array(places)[known]
    covariance[np.ix_(at, at)] = responses @ responses.T
    return covariance
