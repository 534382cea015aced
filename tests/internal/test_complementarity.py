"""Linear complementarity problems: random, degenerate, ill-scaled; by their residual and by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from mechanisms import Array

from spookid.stepping import bounded
from spookid.stepping.bounded import residual

KINDS = ("monotone", "integer", "low rank", "friction", "ill-scaled", "ill-scaled friction")


# --- random problems ---


@dataclass(frozen=True, eq=False)
class Mixed:
    """n equations and m complementarity rows (Marklund et al., Appendix A).

    A x + C z + a = 0,  D x + B z + b = w,  0 ≤ z ⟂ w ≥ 0.
    """

    A: Array
    C: Array
    D: Array
    B: Array
    a: Array
    b: Array

    def reduced(self) -> tuple[Array, Array, Array]:
        """M and q of what is left for z once the equations are solved, in units that make A's entries comparable, and
        the terms that q is the sum of: where they cancel, q is their rounding."""
        if not len(self.A):
            return self.B, self.b, np.abs(self.b)
        scale = 1 / np.sqrt(np.abs(self.A).max(axis=1))
        right = scale[:, None] * np.column_stack([self.C, self.a])
        solved = scale[:, None] * np.linalg.solve(scale[:, None] * self.A * scale, right)
        inverse = scale[:, None] * np.abs(np.linalg.inv(scale[:, None] * self.A * scale)) * scale
        terms = np.abs(self.b) + np.abs(self.D) @ inverse @ np.abs(self.a)
        return self.B - self.D @ solved[:, :-1], self.b - self.D @ solved[:, -1], terms


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


def check(M: Array, q: Array, of_q: Array, z: Array) -> float:
    """Error of a solution, without the solver's own measure: each row against its terms or the rounding of all."""
    w = M @ z + q
    terms = np.abs(M) @ np.abs(z) + np.abs(q)
    rounding = 1e-5 * np.abs(M).max(axis=1) * np.max(np.abs(z)) + 1e-3 * of_q
    wrong = np.where(z == 0, np.maximum(-w, 0), np.abs(w))
    return float(np.max(wrong / (terms + rounding + 1e-300))) if np.all(z >= 0) else np.inf


def study(count: int, most: int, seed: int) -> tuple[int, list[str]]:
    """How many of ``count`` problems were solved; checks every one of them."""
    rng, failures = np.random.default_rng(seed), []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        M, q, of_q = draw(rng, kind, most).reduced()
        z = bounded.complementary(M, q)
        if z is None:
            failures.append(f"{i} {kind} {len(q)}")
        else:
            assert check(M, q, of_q, z) < 1e-9, (i, kind)
    return count - len(failures), failures


def test_random_problems_are_solved():
    """All but one: which one depends on the rounding of the processor."""
    solved, failures = study(400, 60, 0)
    assert solved >= 399, failures


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
    for i in range(150):
        M, q, _ = draw(rng, KINDS[i % len(KINDS)], 10).reduced()
        found = bounded.complementary(M, q)
        if found is None:
            failures += 1
            continue
        size = np.max(np.abs(found), initial=1e-12)
        assert any(np.allclose(found, z, rtol=1e-6, atol=1e-7 * size) for z in enumerated(M, q)), i
    assert failures == 0


# --- one problem at a time ---


def test_lemke_finds_the_solution_of_the_textbook():
    # Cottle, Pang and Stone, example 1.2.1 in spirit: min x² + ... with one bound active.
    M, q = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-5.0, -1.0])
    found = bounded.path(M, q, np.ones(2), 20)
    assert found is not None
    z, active = found
    np.testing.assert_allclose(z, [2.5, 0.0])
    assert active.tolist() == [True, False]


def test_the_path_survives_a_problem_full_of_ties():
    # Without a rule for ties Lemke's method cycles on problems of this kind (Kostreva).
    M = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    q = -np.ones(3)
    found = bounded.path(M, q, np.ones(3), 30)
    assert found is not None
    z, _ = found
    np.testing.assert_allclose(z, 1 / 3, atol=1e-12)
    assert residual(M, q, z) < 1e-12


def test_a_path_that_runs_off_finds_nothing():
    M, q = np.array([[0.0, -1.0], [0.0, 0.0]]), np.array([1.0, -1.0])
    assert bounded.path(M, q, np.ones(2), 20) is None
    assert bounded.complementary(M, q) is None


def test_too_few_pivots_find_nothing():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(8, 8))
    assert bounded.path(root @ root.T, -np.ones(8), np.ones(8), 2) is None


def test_the_residual_does_not_depend_on_units():
    rng = np.random.default_rng(7)
    M, q, z = rng.normal(size=(4, 4)), rng.normal(size=4), np.maximum(rng.normal(size=4), 0.0)
    rows, columns = 10.0 ** rng.uniform(-5, 5, 4), 10.0 ** rng.uniform(-5, 5, 4)
    scaled = residual(rows[:, None] * M * columns, rows * q, z / columns)
    assert scaled == pytest.approx(residual(M, q, z), rel=1e-3)
    assert residual(M, q, -z - 1) == np.inf
    assert residual(M, q, np.full(4, np.nan)) == np.inf
