"""The law of friction that sticks and of what pushes: closed forms, energy, failures, the mixed problem (2.24)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mechanisms import Array

from spookid.stepping import bounded
from spookid.stepping.bounded import Bounded, BoundedSolution

STICKING, FORWARD, BACKWARD, OPEN = 0, 1, -1, 2
"""Modes of a reaction: at rate 0, at its lower and its upper bound, and without any."""


def draw(rng: np.random.Generator, load: float = 0.1) -> Bounded:
    """One to three hinges with five loads each, up to two contacts with two tangents, in a random mechanism.

    The energy matrix of reactions and loads is positive definite; coefficients of the load are up to ``load``.
    """
    f, a = int(rng.integers(1, 4)), int(rng.integers(0, 3))
    m, k = f + 3 * a, 5 * f
    root = rng.normal(size=(m + k, m + k + 2))
    whole = root @ root.T
    inner = whole[m:, m:] + np.diag(10.0 ** rng.uniform(-8, 0, k))
    follow = -np.linalg.solve(inner, whole[m:, :m])
    W, K = np.zeros((m, k)), np.zeros((m, m))
    for j in range(f):
        W[j, 5 * j : 5 * j + 5] = load * rng.uniform()
    unilateral = np.zeros(m, dtype=bool)
    for normal in range(f, m, 3):
        unilateral[normal] = True
        K[normal + 1 : normal + 3, normal] = 0.3 * rng.uniform()
    constant = np.where(np.arange(m) < f, rng.uniform(0, 1, m) * rng.integers(0, 2, m), 0.0)
    R = whole[:m, :m] + whole[:m, m:] @ follow
    R = (R + R.T) / 2
    return Bounded(R, 3 * rng.normal(size=m), follow, rng.normal(size=k), K, constant, W, unilateral)


def check(p: Bounded, found: BoundedSolution) -> Array:
    """Every clause of the law; returns the rates."""
    rates, limit = p.R @ found.u + p.rates, p.bound(found.u)
    close = 1e-8 * (1 + np.max(np.abs(found.u)))
    moves = np.abs(rates) >= 1e-8 * (1 + np.max(np.abs(p.rates)))
    for i, u in enumerate(found.u):
        if p.unilateral[i]:
            assert u >= -close
            assert not moves[i] or (abs(u) < close and rates[i] > 0)
        else:
            assert abs(u) <= limit[i] + close
            assert not moves[i] or u == pytest.approx(-np.sign(rates[i]) * limit[i], abs=close)
    return rates


def study(count: int, seed: int) -> int:
    """Number of failures; friction must take energy out in every step."""
    rng, failures = np.random.default_rng(seed), 0
    for _ in range(count):
        p = draw(rng)
        found = bounded.solve(p, np.zeros(len(p.R)))
        if not found.solved:
            failures += 1
            assert found.residual > 0
            continue
        rates = check(p, found)
        rubs = ~p.unilateral
        scale = np.abs(found.u) @ np.abs(p.rates)
        assert np.all(found.u[rubs] * rates[rubs] <= 1e-8 * scale)
        # Against the step without any reaction, all of them together never add kinetic energy.
        assert found.u @ (rates + p.rates) / 2 <= 1e-8 * scale
    return failures


@pytest.mark.study
def test_friction_takes_energy_out():
    assert study(3000, 0) <= 3


@pytest.mark.study
def test_friction_takes_energy_out_in_a_hundred_thousand_steps():
    assert study(100_000, 1) <= 100


def one(R: float, rate: float, limit: float, load: float = 0.0, follow: float = 0.0, mu: float = 0.0) -> Bounded:
    """One hinge with one load."""
    single = np.ones((1, 1))
    return Bounded(
        R * single, np.array([rate]), follow * single, np.array([load]), 0 * single, np.array([limit]), mu * single,
        np.array([False]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "impulse"), [(0.3, -0.15), (-0.3, 0.15), (1.0, -0.4), (-1.0, 0.4), (0.8, -0.4), (0.0, 0.0)]
)
def test_one_hinge(rate, impulse):
    found = bounded.solve(one(2.0, rate, 0.4), np.zeros(1))
    assert found.solved
    np.testing.assert_allclose(found.u, [impulse], atol=1e-14)


def test_a_bound_that_the_reaction_itself_loads():
    # |u| = 0.5 |1 − 0.2 u| at u < 0: u = −0.5/(1 − 0.1) slips forward.
    found = bounded.solve(one(1.0, 3.0, 0.0, load=1.0, follow=-0.2, mu=0.5), np.zeros(1))
    np.testing.assert_allclose(found.u, [-0.5 / 0.9], rtol=1e-12)


def test_the_start_decides_between_several_solutions():
    # Slipping forward, u = −L with L = 2|1 + u|: −2/3 and −2.
    p = one(0.1, 1.0, 0.0, load=1.0, follow=1.0, mu=2.0)
    ends = {round(float(bounded.solve(p, np.array([start])).u[0]), 9) for start in (-0.7, -2.1)}
    assert ends == {round(-2 / 3, 9), -2.0}


def every(p: Bounded) -> list[Array]:
    """Solutions of the law by one linear system for each mode of each reaction and each sign of each load."""
    found: list[Array] = []
    own = p.R.diagonal()
    choices = [(STICKING, OPEN) if pushes else (STICKING, FORWARD, BACKWARD) for pushes in p.unilateral]
    for modes in product(*choices):
        for signs in product((-1.0, 1.0), repeat=len(p.loads)):
            A, b = p.R / own[:, None], -p.rates / own
            for i, mode in enumerate(modes):
                if mode == STICKING:
                    continue
                A[i], b[i] = np.eye(len(own))[i], 0.0
                if mode != OPEN:
                    A[i] += mode * (p.K[i] + (p.W[i] * signs) @ p.loads)
                    b[i] = -mode * (p.constant[i] + (p.W[i] * signs) @ p.loads_before)
            u = np.linalg.solve(A, b)
            limit = p.bound(u)
            lower, upper = np.where(p.unilateral, 0, -limit), np.where(p.unilateral, np.inf, limit)
            error = np.abs(u - np.clip(u - (p.R @ u + p.rates) / own, lower, upper)).max()
            if error <= 1e-9 * np.abs(u).max() and not any(np.allclose(u, v, rtol=1e-7) for v in found):
                found.append(u)
    return found


def test_what_is_found_is_one_of_all_solutions():
    rng, several = np.random.default_rng(8), 0
    for _ in range(250):
        p = coupled(rng)
        solutions = every(p)
        if not solutions:
            continue
        last = solutions[int(rng.integers(len(solutions)))] + rng.normal(size=len(p.R))
        last[p.unilateral] = np.maximum(last[p.unilateral], 0)
        found = bounded.solve(p, last)
        assert found.solved
        check(p, found)
        assert any(np.allclose(found.u, u, rtol=1e-7) for u in solutions)
        several += len(solutions) > 1
    assert several > 30


def coupled(rng: np.random.Generator) -> Bounded:
    """Hinges with a load each and perhaps a contact with one tangent, whose friction strongly loads itself."""
    f, a = ((1, 0), (2, 0), (1, 1), (0, 1))[int(rng.integers(4))]
    m, k = f + 2 * a, f
    root = rng.normal(size=(m, m + 2))
    W, K, unilateral = np.zeros((m, k)), np.zeros((m, m)), np.arange(m) == (f if a else m)
    for j in range(f):
        W[j, j] = rng.uniform(0, 4)
    K[m - 1, unilateral] = rng.uniform(0, 8)
    constant = np.where(np.arange(m) < f, rng.uniform(0, 0.1, m), 0.0)
    loads, before = rng.normal(size=(k, m)), rng.normal(size=k)
    return Bounded(root @ root.T, 10 * rng.normal(size=m), loads, before, K, constant, W, unilateral)


def test_mixed_problem_of_the_paper_is_the_closed_form():
    # (2.24) with D̄ = [Ḡ; −Ḡ], Δ = 0 and its regularization Σ_t, for a load that does not depend on friction.
    rng = np.random.default_rng(2)
    for _ in range(500):
        R, sigma, rate, limit = rng.uniform(0.1, 2), 10.0 ** rng.uniform(-6, 0), rng.normal(), rng.uniform(0, 1)
        M = np.array([[R + sigma, -R, 1.0], [-R, R + sigma, 1.0], [-1.0, -1.0, 0.0]])
        found = bounded.complementary(M, np.array([rate, -rate, limit]))
        assert found is not None
        impulse = found[0] - found[1]
        assert impulse == pytest.approx(np.clip(-rate / (R + sigma), -limit, limit), abs=1e-10)
        slip = rate + R * impulse
        stuck = abs(slip) <= sigma * limit
        assert impulse == pytest.approx(-slip / sigma if stuck else -limit * np.sign(slip), abs=1e-8)
        exact = bounded.solve(one(R, rate, limit), np.zeros(1)).u[0]
        assert exact == pytest.approx(np.clip(-rate / R, -limit, limit), abs=1e-12)


def test_lemke_finds_what_newton_misses():
    rng, missed = np.random.default_rng(4), 0
    for _ in range(300):
        p = draw(rng, load=0.5)
        found = bounded.solve(p, np.zeros(len(p.R)))
        alone = bounded._Newton(p).solve(np.zeros(len(p.R)))
        missed += not alone.solved and found.solved
        if found.solved:
            check(p, found)
    assert missed > 0


def test_a_law_without_solution_is_a_failure():
    # A contact whose own reaction pulls it down: no normal impulse lifts it.
    p = Bounded(
        -np.eye(1), np.array([-1.0]), np.zeros((0, 1)), np.zeros(0), np.zeros((1, 1)), np.zeros(1), np.zeros((1, 0)),
        np.array([True]),
    )  # fmt: skip
    found = bounded.solve(p, np.zeros(1))
    assert not found.solved
    assert found.residual >= 0.5
    nothing = bounded.solve(one(1.0, np.nan, 1.0), np.zeros(1))
    assert not nothing.solved
