"""The Riccati recursion of Martinez, Tonneau and Mastalli, "System Identification under Constraints and Disturbance",
section VIII, written down as in docs/explanation/riccati.md, against the elimination that is taken in its place."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import Array
from test_chain import CASES, P, blocks, close, eliminated

from spookid.kernels.stages import HardRows
from spookid.solvers.rows import Rows

PAIRS = ("neighbours", "hard rows of neighbours", "only hard rows link steps", "hard rows of one step and of two")


def rows_of(some: list[Rows] | list[HardRows], step: int, t: int) -> Array:
    """Rows whose last step is this one, in the step before, the step, the parameters and 1, (rows, 2 t + P + 1)."""
    found = [np.zeros((0, 2 * t + P + 1))]
    for rows in some:
        first = step - max(rows.offsets)
        if 0 <= first < len(rows.matrix):
            matrix = rows.matrix[first].T
            before = np.zeros((len(matrix), t * (2 - len(rows.offsets))))
            found.append(np.hstack([before, matrix]))
    return np.concatenate(found)


def stage(Q: Array, C: Array, t: int) -> tuple[Array, Array]:
    """What is left of a quadratic form Q and of rows C = 0 in (x, u, rest) if u is the best for every x: the form, and
    the rows that u cannot meet, both in (x, rest)."""
    u, rest = slice(t, 2 * t), np.r_[0:t, 2 * t : len(Q)]
    left, values, right = np.linalg.svd(C[:, u])
    rank = int(np.sum(values > 1e-10 * max(values.max(initial=0.0), 1e-300)))
    K = -right[:rank].T @ (left[:, :rank].T @ C[:, rest] / values[:rank, None])  # (77): u = K (x, rest) + Z w
    Z = right[rank:].T
    K = K - Z @ np.linalg.solve(Z.T @ Q[u, u] @ Z, Z.T @ (Q[u][:, rest] + Q[u, u] @ K))  # (79)
    passed = left[:, rank:].T @ C[:, rest]
    V = Q[np.ix_(rest, rest)] + Q[rest][:, u] @ K + K.T @ Q[u][:, rest] + K.T @ Q[u, u] @ K  # (80)
    return V, passed


def recursion(soft: list[Rows], hard: list[HardRows], steps: int, t: int) -> Array:
    """V_θθ at the first step, the parameters' gradient and the least cost with it, (P + 1, P + 1)."""
    V, C = np.zeros((t + P + 1,) * 2), np.zeros((0, t + P + 1))
    for k in range(steps - 1, -1, -1):
        J, A = rows_of(soft, k, t), rows_of(hard, k, t)
        Q = J.T @ J
        Q[t:, t:] += V
        V, C = stage(Q, np.concatenate([A, np.hstack([np.zeros((len(C), t)), C])]), t)
    assert not np.any(np.abs(C) > 1e-8)
    return V[t:, t:]


@pytest.mark.parametrize("case", PAIRS)
def test_the_recursion_leaves_what_the_elimination_leaves(engine: str, case: str) -> None:
    assert case in CASES
    soft, hard, steps, tangent = blocks(case)
    found, equations = eliminated(soft, hard, steps, tangent)
    close(equations.corner - found.corner, recursion(soft, hard, steps, tangent), 1e-8)
