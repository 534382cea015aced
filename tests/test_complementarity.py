"""Mixed linear complementarity problems: random, degenerate and ill-scaled ones, against enumeration and by residual."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spookid.complementarity import lemke, linear, mixed
from spookid.complementarity.mixed import Mixed
from spookid.complementarity.status import Status, residual
from spookid.kernels import Array

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
