"""The inside of what ``test_riccati`` tests."""

import numpy as np
import pytest

from spookid.kernels.riccati import riccati_routines
from spookid.kernels.thread_pool import Workspace
from spookid.solvers.riccati import Riccati
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NotPositiveDefiniteError, normal_equations

T, P = 5, 3
"""Unknowns of a step, and parameters."""


def random_rows(rng, steps: int, offsets: tuple[int, ...], rows: int) -> Rows:
    return Rows(offsets, rng.normal(size=(steps - max(offsets), len(offsets) * T + P + 1, rows)), None)


def linking(rng, steps: int) -> list[Rows]:
    """Rows of every sort: of both steps, of the earlier or the later alone, at some steps only, and ones that the later
    step cannot meet, which go back over several steps."""
    both = random_rows(rng, steps, (0, 1), 4)
    both.matrix[:, :T, 1] = 0.0
    both.matrix[::3, :, 2] = 0.0
    both.matrix[:, T : 2 * T, 3] = both.matrix[:, T : 2 * T, 0]  # u meets one of these, x the other
    own = random_rows(rng, steps, (0,), 1)
    own.matrix[1::2] = 0.0
    return [both, own]


HARD = {
    "none": lambda rng, steps: [],
    "dynamics": lambda rng, steps: [random_rows(rng, steps, (0, 1), T - 1)],
    "own": lambda rng, steps: [random_rows(rng, steps, (0,), 2)],
    "all sorts": linking,
    "three steps": lambda rng, steps: [random_rows(rng, steps, (0, 1, 2), 2), random_rows(rng, steps, (0, 1), 1)],
}


def dense(blocks: list[Rows], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows [states | parameters, value], and which of them see a state."""
    found = []
    for rows in blocks:
        for k, matrix in enumerate(rows.matrix):
            for column in matrix.T:
                row = np.zeros(steps * T + P + 1)
                for i, offset in enumerate(rows.offsets):
                    row[(k + offset) * T :][:T] = column[i * T :][:T]
                row[steps * T :] = column[len(rows.offsets) * T :]
                found.append(row)
    whole = np.array(found).reshape(-1, steps * T + P + 1)
    return whole, np.any(whole[:, : steps * T] != 0, axis=1)


def solved(blocks, hard, steps, damping):
    """K⁻¹ as a function, and the border, by a dense matrix."""
    J, (A, seen) = dense(blocks, steps)[0], dense(hard, steps)
    n, A = steps * T, A[seen]
    H = J[:, :n].T @ J[:, :n] + np.diag(damping)
    K = np.block([[H, A[:, :n].T], [A[:, :n], np.zeros((len(A), len(A)))]])
    border = np.concatenate([J[:, :n].T @ J[:, n:], A[:, n:]])
    return lambda right: np.linalg.solve(K, right), border, seen


@pytest.mark.parametrize("reach", [0, 1, 2])
@pytest.mark.parametrize("steps", [3, 7])
@pytest.mark.parametrize("kind", list(HARD))
def test_the_recursion_solves_the_optimality_system(kind, steps, reach):
    rng = np.random.default_rng(1)
    blocks = [random_rows(rng, steps, (0,), 3), random_rows(rng, steps, tuple(range(reach + 1)), 2)]
    hard = HARD[kind](rng, steps)
    equations = normal_equations(blocks, steps, T, P)
    damping = 1e-2 * equations.diagonal
    found = Riccati(equations, hard, damping, Workspace(), riccati_routines())
    inverse, border, seen = solved(blocks, hard, steps, damping)

    expected = border.T @ inverse(border)
    np.testing.assert_allclose(found.corner, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    gradient, move = rng.normal(size=steps * T), rng.normal(size=P)
    given = [np.where(np.any(r.matrix[:, : -P - 1], axis=1), rng.normal(size=r.matrix[:, 0].shape), 0.0) for r in hard]
    values = np.concatenate([np.zeros(0), *(v.ravel() for v in given)])[seen]
    right = np.concatenate([gradient, values])
    for forward, own in ((found.own, border[:, -1]), (found.forward(gradient, given), right)):
        np.testing.assert_allclose(forward.taken, border[:, :-1].T @ inverse(own), rtol=1e-9, atol=1e-9)
        assert forward.square == pytest.approx(own @ inverse(own), rel=1e-9, abs=1e-9)
        whole = -inverse(own + border[:, :-1] @ move)
        states, multipliers = found.step(forward, move)
        np.testing.assert_allclose(states, whole[: steps * T], rtol=1e-9, atol=1e-9 * np.abs(whole).max())
        flat = np.concatenate([np.zeros(0), *(m.ravel() for m in multipliers)])[seen]
        np.testing.assert_allclose(flat, whole[steps * T :], rtol=1e-8, atol=1e-8 * np.abs(whole).max())


def test_rows_that_repeat_one_another_do_not_matter():
    rng, steps = np.random.default_rng(2), 12
    rows = random_rows(rng, steps, (0, 1), 3)
    again = Rows((0, 1), np.concatenate([rows.matrix, rows.matrix[:, :, :2] * 1e3], axis=2), None)
    equations = normal_equations([random_rows(rng, steps, (0,), T)], steps, T, P)
    damping = 1e-2 * equations.diagonal
    once, twice = (Riccati(equations, [hard], damping, Workspace(), riccati_routines()) for hard in (rows, again))
    np.testing.assert_allclose(twice.corner, once.corner, rtol=1e-9, atol=1e-9 * np.abs(once.corner).max())
    one, two = (found.step(found.own, np.ones(P))[0] for found in (once, twice))
    np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-9 * np.abs(one).max())


def test_an_unknown_that_nothing_determines_is_refused():
    rng, steps = np.random.default_rng(3), 6
    seen = random_rows(rng, steps, (0,), T)
    seen.matrix[4:, 2] = 0.0
    equations = normal_equations([seen], steps, T, P)
    with pytest.raises(NotPositiveDefiniteError, match="nothing determines an unknown of step 5"):
        Riccati(equations, [], np.zeros(steps * T), Workspace(), riccati_routines())
