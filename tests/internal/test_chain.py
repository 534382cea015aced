"""The elimination of a chain, in C and by NumPy, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import Array

from spookid.kernels.chain import Chain
from spookid.kernels.stages import HardRows
from spookid.kernels.thread_pool import Workspace
from spookid.solvers.elimination import Elimination, assembled
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError

CASES = {
    "neighbours": (6, 12, (0, 1), []),
    "three steps": (5, 9, (0, 1, 2), []),
    "stages of two steps": (2, 21, (0, 1, 2), []),
    "stages of four steps": (1, 30, (0, 1, 2), []),
    "a wide step": (24, 5, (0, 1), []),
    "hard rows of neighbours": (6, 12, (0, 1), [((0, 1), 3)]),
    "only hard rows link steps": (6, 10, (0,), [((0, 1), 3)]),
    "hard rows of one step and of two": (6, 12, (0, 1), [((0,), 2), ((0, 1), 2)]),
    "hard rows of three steps": (6, 10, (0, 1), [((0, 1, 2), 2), ((0,), 1)]),
    "hard rows of stages": (2, 20, (0, 1), [((0, 1), 1)]),
    "hard rows with a gap": (3, 11, (0, 1), [((0, 2), 2)]),
}
"""Unknowns of a step, steps, offsets of soft rows, and of each hard factor its offsets and rows."""
P = 4
"""Parameters."""


class Dense:
    """The same as one matrix K and its border."""

    def __init__(self, soft: list[Rows], hard: list[HardRows], steps: int, tangent: int) -> None:
        n = steps * tangent
        J, A = (np.array([row for rows in some for row in _dense(rows, steps, tangent)]) for some in (soft, hard))
        A = A.reshape(-1, J.shape[1])
        slack = [(np.zeros(r.matrix[:, 0].shape) if r.slack is None else r.slack).ravel() for r in hard]
        e = np.concatenate([np.zeros(0), *slack])
        H = J[:, :n].T @ J[:, :n] + A[:, :n].T @ A[:, :n]
        self.K = np.block([[H, A[:, :n].T], [A[:, :n], -np.diag(e)]])
        self.border = np.concatenate([J[:, :n].T @ J[:, n:] + A[:, :n].T @ A[:, n:], A[:, n:]])
        self.n, self.A = n, A

    def inverse(self) -> Array:
        """Without multipliers of rows that others imply."""
        return np.asarray(np.linalg.pinv(self.K, rcond=1e-11, hermitian=True))


def _dense(rows: Rows | HardRows, steps: int, tangent: int) -> list[Array]:
    found = []
    for k, matrix in enumerate(rows.matrix):
        for column in matrix.T:
            row = np.zeros(steps * tangent + P + 1)
            for i, offset in enumerate(rows.offsets):
                row[(k + offset) * tangent :][:tangent] = column[i * tangent :][:tangent]
            row[steps * tangent :] = column[len(rows.offsets) * tangent :]
            found.append(row)
    return found


def blocks(case: str, slack: float = 0.0, repeat: bool = False) -> tuple[list[Rows], list[HardRows], int, int]:
    tangent, steps, offsets, factors = CASES[case]
    rng = np.random.default_rng(3)

    def some(offsets: tuple[int, ...], rows: int) -> Array:
        return rng.normal(size=(steps - max(offsets), len(offsets) * tangent + P + 1, rows))

    soft = [Rows(offsets, some(offsets, tangent + 2), None), Rows((0,), some((0,), tangent), None)]
    hard = []
    for offsets, count in factors:
        matrix = some(offsets, count)
        matrix = np.concatenate([matrix, 2 * matrix[:, :, :1]], axis=2) if repeat else matrix
        hard.append(HardRows(offsets, matrix, np.full(matrix[:, 0].shape, slack) if slack else None))
    return soft, hard, steps, tangent


def eliminated(soft: list[Rows], hard: list[HardRows], steps: int, tangent: int) -> tuple[Elimination, NormalEquations]:
    workspace, squares = Workspace(), [Rows(rows.offsets, rows.matrix, None) for rows in hard]
    equations = assembled([*soft, *squares], hard, steps, tangent, P, workspace)
    _ = equations.diagonal  # kept from before a factor takes the place of the band
    return Elimination(equations, None, hard, workspace), equations


def close(found: Array, expected: Array, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max(initial=1e-300))


@pytest.mark.parametrize("slack", [0.0, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_a_chain_is_its_dense_matrix(engine: str, case: str, slack: float) -> None:
    soft, hard, steps, tangent = blocks(case, slack)
    found, dense = eliminated(soft, hard, steps, tangent)[0], Dense(soft, hard, steps, tangent)
    inverse, n = dense.inverse(), dense.n
    close(found.corner, dense.border.T @ inverse @ dense.border)
    assert found.logarithm == pytest.approx(np.linalg.slogdet(dense.K)[1], abs=1e-9)
    close(found.responses()[0], (inverse @ dense.border)[:n])

    rng = np.random.default_rng(5)
    move, right = rng.normal(size=P), rng.normal(size=(n, 3))
    values = [rng.normal(size=(len(rows.matrix), rows.matrix.shape[2], 3)) for rows in hard]
    whole = np.concatenate([right, *(value.reshape(-1, 3) for value in values)])
    states, multipliers = found.solve(right.copy(), values)
    close(states, (inverse @ whole)[:n])
    close(np.concatenate([np.zeros((0, 3)), *(m.reshape(-1, 3) for m in multipliers)]), (inverse @ whole)[n:])
    for forward, own in (
        (found.own, dense.border[:, -1]),
        (found.forward(right[:, 0], [value[:, :, 0] for value in values]), whole[:, 0]),
    ):
        close(forward.taken, dense.border[:, :-1].T @ inverse @ own)
        assert forward.square == pytest.approx(own @ inverse @ own, rel=1e-9)
        expected = -inverse @ (own + dense.border[:, :-1] @ move)
        step, multipliers = found.step(forward, move)
        close(step, expected[:n])
        close(np.concatenate([np.zeros(0), *(m.ravel() for m in multipliers)]), expected[n:])


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_the_inverse_are_those_of_the_dense_one(engine: str, case: str, monkeypatch) -> None:
    monkeypatch.setattr("spookid.solvers.elimination.NUMBERS", 2000)  # so that some steps follow others
    soft, hard, steps, tangent = blocks(case)
    found, dense = eliminated(soft, hard, steps, tangent)[0], Dense(soft, hard, steps, tangent)
    inverse = dense.inverse()
    covariances = found.covariances()
    for start, some in found.covariances_backward():
        np.testing.assert_array_equal(some, covariances[start : start + len(some)])
    wide = max(max(rows.offsets) for rows in [*soft, *hard]) + 1
    for k in range(steps):
        seen = slice(k * tangent, min(k + wide, steps) * tangent)
        count = seen.stop - seen.start
        close(covariances[k, :count, :count], inverse[seen, seen])
    at = dense.n
    for number, rows in enumerate(hard):
        across = found.along(covariances, number, rows.offsets)
        for k, (block, matrix) in enumerate(zip(across, rows.matrix, strict=True)):
            states = np.concatenate([np.arange((k + o) * tangent, (k + o + 1) * tangent) for o in rows.offsets])
            close(block, inverse[states[:, None], at + k * matrix.shape[1] + np.arange(matrix.shape[1])])
        at += across.shape[0] * across.shape[2]


@pytest.mark.parametrize("case", [name for name, given in CASES.items() if given[3]])
def test_rows_that_others_imply_are_left_out(engine: str, case: str) -> None:
    (once, one), (twice, two) = (eliminated(*blocks(case, repeat=repeat)) for repeat in (False, True))
    close(two.corner - twice.corner, one.corner - once.corner, 1e-8)
    close(twice.responses()[0], once.responses()[0], 1e-7)
    assert twice.logarithm == pytest.approx(once.logarithm, abs=1e-7)
    for held, (_, count) in zip(twice.held(), CASES[case][3], strict=True):
        assert np.all(held[:, :count])
        assert not np.any(held[:, count:])


@pytest.mark.parametrize("case", ["neighbours", "stages of two steps", "hard rows of three steps"])
def test_an_elimination_can_be_stopped_and_continued(engine: str, case: str) -> None:
    soft, hard, steps, tangent = blocks(case)
    squares = [Rows(rows.offsets, rows.matrix, None) for rows in hard]
    equations = assembled([*soft, *squares], hard, steps, tangent, P, Workspace())
    given = equations.band, np.zeros(len(equations.band)), equations.border, steps, hard
    whole, parts = Chain(*given), Chain(*given, kept=False)
    assert not whole.sweep()
    for first, last in ((0, 2), (2, 3), (3, whole.stages)):
        assert not parts.sweep(first, last)
    close(parts.taken, whole.taken, 1e-12)
    assert parts.logarithm == pytest.approx(whole.logarithm)


@pytest.mark.parametrize("value", [-1e3, 0.0, np.nan])
@pytest.mark.parametrize(("tangent", "steps"), [(6, 7), (2, 15)])
def test_what_is_not_positive_definite_is_refused(engine: str, value: float, tangent: int, steps: int) -> None:
    rng, parts = np.random.default_rng(4), []
    for offsets, rows in (((0, 1), 2 * tangent), ((0,), tangent)):
        parts.append(Rows(offsets, rng.normal(size=(steps - max(offsets), len(offsets) * tangent + 2, rows)), None))
    equations = assembled(parts, (), steps, tangent, 1, Workspace())
    equations.band[4 * tangent + 1, 0] = value
    with pytest.raises(NotPositiveDefiniteError, match="no pivot in step 4"):
        Elimination(equations, np.zeros(len(equations.band)))


def test_unknowns_that_no_row_sees_stay_where_they_are(engine: str) -> None:
    soft, hard, steps, tangent = blocks("hard rows of neighbours")
    for rows in [*soft, *hard]:
        rows.matrix[:, 1 : len(rows.offsets) * tangent : tangent] = 0.0
    found, equations = eliminated(soft, hard, steps, tangent)
    diagonal = equations.diagonal
    step = found.step(found.own, np.ones(P))[0]
    assert np.all(step[diagonal == 0] == 0)
    assert np.count_nonzero(diagonal == 0) == steps


def test_numbers_that_fade_do_not_linger(by_c: None) -> None:
    """Below 1e-308 a processor is a hundred times slower."""
    steps, tangent = 400, 4
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(steps - 1, 2 * tangent + 2, 2 * tangent))
    matrix[1:, 2 * tangent :] = 0.0
    first = Rows((0,), rng.normal(size=(1, tangent + 2, tangent)), None)
    equations = assembled([Rows((0, 1), matrix, None), first], (), steps, tangent, 1, Workspace())
    found = Elimination(equations).responses()[0]
    assert not np.any((found != 0) & (np.abs(found) < np.finfo(float).tiny))
