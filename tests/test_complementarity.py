"""Mixed linear complementarity problems: random, degenerate, ill-scaled; by their residual and by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spookid.kernels.kernel import Array
from spookid.stepping.complementarity import enumeration, lemke, linear, mixed
from spookid.stepping.complementarity.mixed import Mixed
from spookid.stepping.complementarity.status import Status, residual, scaling

KINDS = ("monotone", "integer", "low rank", "friction", "ill-scaled", "ill-scaled friction")


# --- random problems ---


def draw(rng: np.random.Generator, kind: str, most: int) -> Mixed:
    """A problem of at most ``most`` rows that has a solution, half or more of them complementarity rows."""
    if "friction" in kind:
        problem = frictional(rng, max(1, int(rng.integers(1, max(2, most // 8 + 1)))))
    else:
        m = int(rng.integers(1, most - most // 4 + 1))
        problem = monotone(rng, int(rng.integers(0, most - m + 1)), m, kind)
    return badly_scaled(rng, problem) if "ill" in kind else problem


def monotone(rng: np.random.Generator, n: int, m: int, kind: str) -> Mixed:
    """A positive definite or, with a rigid part, quasi-definite A, and a monotone rest with a known solution."""
    integer = kind in ("integer", "low rank")
    entries = (lambda *s: rng.integers(-2, 3, s).astype(float)) if integer else (lambda *s: rng.normal(size=s))
    rigid = n // 3
    A = np.zeros((n, n))
    square = entries(n - rigid, n - rigid)
    A[: n - rigid, : n - rigid] = square @ square.T + np.eye(n - rigid)
    A[n - rigid :, : n - rigid] = rng.normal(size=(rigid, n - rigid))
    A[: n - rigid, n - rigid :] = A[n - rigid :, : n - rigid].T
    C = np.vstack([entries(n - rigid, m), np.zeros((rigid, m))])
    rank = max(1, m // 3) if kind == "low rank" else m
    root, skew = entries(m, rank), entries(m, m)
    B = root @ root.T + (skew - skew.T) * (kind != "low rank")
    # A solution with both z and w zero in places: ties for Lemke's ratio test.
    z = np.maximum(entries(m), 0.0)
    w = np.where(z > 0, 0.0, np.maximum(entries(m), 0.0))
    x = entries(n)
    return Mixed(A, C, -C.T, B, -A @ x - C @ z, w + C.T @ x - B @ z)


def frictional(rng: np.random.Generator, contacts: int) -> Mixed:
    """Contacts with two friction directions and a multiplier each as in (2.24), the velocities as equations."""
    n = 3 * contacts + int(rng.integers(0, 3))
    root = rng.normal(size=(n, n))
    A = root @ root.T + 0.1 * np.eye(n)
    normal, tangent = rng.normal(size=(contacts, n)), rng.normal(size=(contacts, n))
    D = np.zeros((4 * contacts, n))
    B = np.zeros((4 * contacts, 4 * contacts))
    for i in range(contacts):
        first = 4 * i
        D[first], D[first + 1], D[first + 2] = normal[i], tangent[i], -tangent[i]
        B[first, first] = 10.0 ** rng.uniform(-6, 0)
        B[first + 1 : first + 3, first + 3] = 1.0
        B[first + 3, first : first + 3] = rng.uniform(0, 1), -1.0, -1.0
    b = np.zeros(4 * contacts)
    b[::4] = rng.normal(size=contacts) * rng.integers(0, 2, contacts)
    b[3::4] = rng.uniform(0, 1, contacts) * rng.integers(0, 2, contacts)
    return Mixed(A, -D.T, D, B, rng.normal(size=n), b)


def badly_scaled(rng: np.random.Generator, p: Mixed) -> Mixed:
    """The same problem in other units of every row and unknown; A stays symmetric."""
    x, z, w = (10.0 ** rng.uniform(-4, 4, size) for size in (len(p.a), len(p.b), len(p.b)))
    return Mixed(
        x[:, None] * p.A * x, x[:, None] * p.C * z, w[:, None] * p.D * x, w[:, None] * p.B * z, x * p.a, w * p.b
    )


def check(p: Mixed, x: Array, z: Array) -> float:
    """Error of a solution, without the solver's own measure: each row against its terms or the rounding of all."""
    whole, right, both = np.block([[p.A, p.C], [p.D, p.B]]), np.concatenate([p.a, p.b]), np.concatenate([x, z])
    rows = whole @ both + right
    terms = np.abs(whole) @ np.abs(both) + np.abs(right)
    rounding = 1e-5 * np.abs(whole).max(axis=1) * np.max(np.abs(both))
    passive = np.concatenate([np.zeros(len(x), dtype=bool), z == 0])
    wrong = np.where(passive, np.maximum(-rows, 0), np.abs(rows))
    return float(np.max(wrong / (terms + rounding + 1e-300))) if np.all(z >= 0) else np.inf


def study(count: int, most: int, seed: int) -> tuple[int, list[str]]:
    """How many of ``count`` problems were solved; checks every one of them."""
    rng, failures = np.random.default_rng(seed), []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        p = draw(rng, kind, most)
        found = mixed.solve(p)
        error = check(p, found.x, found.z)
        if found.status is Status.SOLVED:
            assert error < 1e-9, (i, kind, error)
        else:
            failures.append(f"{i} {kind} {len(p.a)}+{len(p.b)} {found.status} {error:.1e}")
    return count - len(failures), failures


def test_random_problems_are_solved():
    solved, failures = study(1200, 60, 0)
    assert solved >= 1199, failures


@pytest.mark.study
def test_ten_thousand_random_problems_are_solved():
    solved, failures = study(10_000, 60, 1)
    assert solved > 9_990, failures


def enumerated(M: Array, q: Array) -> list[Array]:
    """Every solution that a choice of z_i = 0 or w_i = 0 for each row gives, where it gives one."""
    found = []
    for choice in product((False, True), repeat=len(q)):
        active = np.array(choice, dtype=bool)
        z = np.zeros(len(q))
        try:
            z[active] = np.linalg.solve(M[np.ix_(active, active)], -q[active])
        except np.linalg.LinAlgError:
            continue
        if residual(M, q, np.maximum(z, 0.0)) < 1e-9 and np.all(z > -1e-9 * np.max(np.abs(z), initial=1e-9)):
            found.append(z)
    return found


def test_small_problems_have_a_solution_that_enumeration_finds():
    rng = np.random.default_rng(3)
    failures = 0
    for i in range(600):
        p = draw(rng, KINDS[i % len(KINDS)], 10)
        x = mixed.equations(p.A, np.column_stack([p.C, p.a]))
        M, q = p.B - p.D @ x[:, :-1], p.b - p.D @ x[:, -1]
        found = mixed.solve(p)
        if found.status is not Status.SOLVED:
            failures += 1
            continue
        size = np.max(np.abs(found.z), initial=1e-12)
        assert any(np.allclose(found.z, z, rtol=1e-6, atol=1e-7 * size) for z in enumerated(M, q)), i
    assert failures <= 1


# --- one problem at a time ---


def test_lemke_finds_the_solution_of_the_textbook():
    # Cottle, Pang and Stone, example 1.2.1 in spirit: min x² + ... with one bound active.
    M, q = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-5.0, -1.0])
    status, z, active = lemke.path(M, q, np.ones(2), 20)
    assert status is Status.SOLVED
    np.testing.assert_allclose(z, [2.5, 0.0])
    assert active.tolist() == [True, False]


def test_the_path_survives_a_problem_full_of_ties():
    # Without a rule for ties Lemke's method cycles on problems of this kind (Kostreva).
    M = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    q = -np.ones(3)
    status, z, _ = lemke.path(M, q, np.ones(3), 30)
    assert status is Status.SOLVED
    np.testing.assert_allclose(z, 1 / 3, atol=1e-12)
    assert residual(M, q, z) < 1e-12


def test_a_path_that_runs_off_is_a_ray():
    found = linear.solve(np.array([[0.0, -1.0], [0.0, 0.0]]), np.array([1.0, -1.0]))
    assert found.status is Status.RAY
    assert found.residual > 0.1


def test_too_few_pivots_are_reported():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(8, 8))
    status, _, _ = lemke.path(root @ root.T, -np.ones(8), np.ones(8), 2)
    assert status is Status.TOO_MANY_PIVOTS


def test_equations_that_contradict_one_another_are_reported():
    A = np.array([[1.0, 1.0], [1.0, 1.0]])
    p = Mixed(A, np.zeros((2, 1)), np.zeros((1, 2)), np.eye(1), np.array([1.0, 2.0]), np.array([1.0]))
    found = mixed.solve(p)
    assert found.status is Status.SINGULAR
    assert found.residual > 1e-3


def test_redundant_equations_are_solved():
    A = np.array([[2.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    p = Mixed(A, np.zeros((3, 1)), np.array([[1.0, 0.0, 0.0]]), np.eye(1), np.array([0.0, 1.0, 1.0]), np.array([0.5]))
    found = mixed.solve(p)
    assert found.status is Status.SOLVED
    np.testing.assert_allclose(found.x, [-1.0, 1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(found.z, [0.5], atol=1e-12)


def test_the_guess_decides_between_several_solutions():
    M, q = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([-1.0, -1.0])
    np.testing.assert_allclose(linear.solve(M, q, np.array([1.0, 0.0])).z, [1.0, 0.0])
    np.testing.assert_allclose(linear.solve(M, q, np.array([0.0, 1.0])).z, [0.0, 1.0])


def test_of_several_solutions_the_nearest_to_the_guess_is_taken():
    rng, several, far = np.random.default_rng(11), 0, 0
    for _ in range(300):
        n = int(rng.integers(1, 8))
        rows, columns = 10.0 ** rng.uniform(-3, 3, (2, n))
        # Entries of one size, so that the units that make M's columns comparable are those of ``columns``.
        M = rows[:, None] * rng.choice([-1.0, 1.0], (n, n)) * rng.uniform(0.9, 1, (n, n)) / columns
        z = columns * np.maximum(rng.normal(size=n), 0.0)
        q = np.where(z > 0, 0.0, rows * rng.uniform(0, 2, n)) - M @ z
        solutions = np.array(enumerated(M, q))
        guess = columns * np.maximum(rng.normal(size=n), 0.0)
        found = linear.solve(M, q, guess)
        assert found.status is Status.SOLVED
        distances = np.sort(np.linalg.norm((solutions - guess) / columns, axis=1))
        reached = np.linalg.norm((found.z - guess) / columns)
        assert np.abs(solutions - found.z).max(axis=1).min() <= 1e-6 * np.abs(found.z).max()
        # The norm is the documented one to the spread of the entries, 10 %.
        assert reached <= 1.2 * distances[0] + 1e-9
        several += len(solutions) > 1 and distances[1] > 1.2 * distances[0]
        far += any(np.linalg.norm((linear._reached(*start(M, q, guess)).z - guess) / columns) > 1.2 * distances[:1])
    assert several > 100
    assert far > 10


def start(M: Array, q: Array, guess: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Arguments of the search that compares nothing."""
    rows, columns = scaling(M)
    size = np.max(np.abs(rows * q))
    return M, q, rows[:, None] * M * columns, rows * q / size, columns * size, guess


def test_monotone_problems_and_large_ones_are_not_enumerated(monkeypatch):
    monkeypatch.setattr(enumeration, "candidates", lambda *_: pytest.fail("enumerated"))
    rng = np.random.default_rng(12)
    for n, root in ((5, 1.0), (11, 0.0)):
        square = rng.normal(size=(n, n))
        M = root * square @ square.T + np.where(root, 0.1, 1.0) * np.triu(np.ones((n, n))) * 3
        found = linear.solve(M, rng.normal(size=n), np.ones(n))
        assert found.status is Status.SOLVED


def test_the_residual_does_not_depend_on_units():
    rng = np.random.default_rng(7)
    M, q, z = rng.normal(size=(4, 4)), rng.normal(size=4), np.maximum(rng.normal(size=4), 0.0)
    rows, columns = 10.0 ** rng.uniform(-5, 5, 4), 10.0 ** rng.uniform(-5, 5, 4)
    scaled = residual(rows[:, None] * M * columns, rows * q, z / columns)
    assert scaled == pytest.approx(residual(M, q, z), rel=1e-3)
    assert residual(M, q, -z - 1) == np.inf
    assert residual(M, q, np.full(4, np.nan)) == np.inf
