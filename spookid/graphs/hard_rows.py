"""Whether the hard rows of a graph can all hold: none may fix what others determine, nor be more than the unknowns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.errors import ProblemError
from spookid.graphs.writing import Written
from spookid.kernels.kernel import Array
from spookid.transcription.transcription import Point, Transcription

_DEPENDENT = 1e-9
"""Singular values of rows below this are zero."""


def check_hard_rows(problem: Transcription, parts: Sequence[Written], point: Point, what: str) -> None:
    """Refuse hard rows of which some follow from others at the first step, and more of them than a step can meet.

    Args:
        parts: factors of the graph, ``what``.
        point: where the solve starts.

    Raises:
        ProblemError: naming the factor.
    """
    width = problem.manifold.tangent
    hard = [part for part in parts if part.factor.hard]
    every = _added(problem, [p for p in hard if not (p.factor.reach or p.factor.first_only)], point, [], "each step")
    linked = sum(len(part.factor.rows) for part in hard if part.factor.reach)
    if rank(every) + linked > width:
        raise ProblemError(
            f"{what} has {rank(every) + linked} hard rows for {width} unknowns of a step; give some of its factors a "
            "sigma"
        )
    first = [part for part in hard if part.factor.first_only and not part.factor.reach]
    _added(problem, first, point, every, "the first step")


def _added(
    problem: Transcription, parts: Sequence[Written], point: Point, known: list[Array], where: str
) -> list[Array]:
    """Slopes of the rows that are known, and of these parts beside them, each (rows, tangent)."""
    for part in parts:
        slopes = problem.jacobian(part.factor, point, 0)(slice(0, 1))[0, : problem.manifold.tangent].T
        if not np.all(np.isfinite(slopes)):
            continue  # of a start that is not feasible; the solve says so
        if rank([*known, slopes]) < rank(known) + len(slopes):
            raise ProblemError(
                f"{part.source.what} {part.source.title!r} fixes at {where} what other hard factors determine already; "
                "give it rows of independent coordinates, or a sigma"
            )
        known = [*known, slopes]
    return known


def rank(rows: Sequence[Array]) -> int:
    """Of matrices one below the other."""
    return int(np.linalg.matrix_rank(np.vstack(rows), _DEPENDENT)) if rows else 0
