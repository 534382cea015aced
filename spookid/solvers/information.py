"""What the data say about the parameters at a solution that any solver found."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.linearization import Linearization
from spookid.solvers.program import Program
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.steps import schur
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.transcription import Point, Transcription

_UNSEEN = 1e-10
"""Largest share of a direction that is not seen, in units in which each parameter by itself is seen alike."""
_SHIFT = 1e-13
"""Of the Hessian's diagonal, so that unknowns that nothing determines, such as multipliers in a loop, do not matter."""


@dataclass(frozen=True, eq=False)
class Information:
    """What is known at a point."""

    matrix: Array
    """Schur complement of the states in JᵀWJ, hard rows held exactly, (n_p, n_p); NaN if it cannot be had."""
    redundant: int
    """Hard rows of a step that follow from the others."""


def information(problem: Transcription, point: Point) -> Information:
    """Information in the parameters at ``point``; of a complementarity pair the smaller member is held at zero."""
    held = problem.at_solution()
    try:
        reduced = ReducedProblem(held, point)
        chains = range(len(held.chains))
        here = Linearization(reduced, reduced.evaluate(point), [reduced.linearize(point, c) for c in chains])
        matrix = schur(here) if reduced.saddle or not reduced.coupled else _constrained(held, point)
        return Information(matrix, reduced.redundant)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return unknown(problem)


def unknown(problem: Transcription) -> Information:
    """Where it cannot be had."""
    n = len(problem.names)
    return Information(np.full((n, n), np.nan), 0)


def unseen_directions(problem: Transcription, point: Point, scales: Array) -> Array:
    """Directions of the parameters, over their scales, that move nothing at ``point`` and that equalities between them
    leave: orthonormal rows, (k, n_p)."""
    basis = problem.free_directions(point.parameters, unequal=False).basis(scales)
    along = scales[:, None] * basis
    matrix = along.T @ information(problem, point).matrix @ along
    if not np.all(np.isfinite(matrix)):
        return np.zeros((0, len(scales)))
    lengths = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    moves = lengths > _UNSEEN * np.max(lengths, initial=0.0)
    sizes = np.where(moves, lengths, 1.0)
    values, vectors = np.linalg.eigh(np.where(np.outer(moves, moves), matrix, 0.0) / np.outer(sizes, sizes))
    directions = (vectors / sizes[:, None])[:, values < _UNSEEN]
    return np.asarray((basis @ np.linalg.qr(directions)[0]).T)


def _constrained(problem: Transcription, point: Point) -> Array:
    """The Schur complement from the sparse optimality system of hard rows A and soft rows J, [JᵀJ Aᵀ; A 0]."""
    from scipy import sparse  # slow to load, and few ask for it
    from scipy.sparse.linalg import splu

    program = Program(problem, point, exact=False)
    z, rows = program.origin, len(program.bounds[0])
    upper = ca.DM(program.hessian_sparsity, program.hessian(z, 0.5, np.zeros(rows)))
    H, A = ca.triu2symm(upper).sparse(), ca.DM(program.jacobian_sparsity, program.jacobian(z)).sparse()
    if not (np.all(np.isfinite(H.data)) and np.all(np.isfinite(A.data))):
        raise NotPositiveDefiniteError("a derivative is not finite")
    states = program.size - len(problem.names)
    diagonal = H.diagonal()[:states]
    in_rows = np.bincount(A.tocoo().col, minlength=program.size)[:states] > 0
    alone = (diagonal == 0) & ~in_rows
    shift = sparse.diags_array(np.where(alone, 1.0, _SHIFT * diagonal))  # an unknown that moves nothing stays
    system = sparse.block_array([[H[:states, :states] + shift, A[:, :states].T], [A[:, :states], None]], format="csc")
    border = sparse.vstack([H[:states, states:], A[:, states:]]).toarray()
    try:
        eliminated = border.T @ splu(system).solve(border)
    except RuntimeError as error:
        raise NotPositiveDefiniteError(str(error)) from None
    return np.asarray((H[states:, states:].toarray() - eliminated) / np.outer(program.scales, program.scales))
