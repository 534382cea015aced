"""Noise of sensors with heavy tails, uncertain timestamps and counts, against dense likelihoods that are written here:
a driven mass on a spring, integrated exactly, without this package."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.stats import t as student
from test_correlated_noise import posed
from test_estimator_choice import STEP, STIFFNESS, TRUTH, offs, recorded

from spookid import ProblemError, Recording, Solution, StudentT

SCALE, FREEDOM = 1e-3, 3.0
FINE, JITTER = 2e-4, 3e-3


def heavy(seed: int, force: float) -> Recording:
    clean, rng = recorded(seed, force, 0.0), np.random.default_rng(1000 + seed)
    return clean.with_signals(x=clean.signal("x") + SCALE * rng.standard_t(FREEDOM, len(clean.t)))


def jittered(seed: int, force: float) -> Recording:
    clean, rng = recorded(seed, force, 0.0), np.random.default_rng(1000 + seed)
    late = CubicSpline(clean.t, clean.signal("x"))(clean.t + JITTER * rng.normal(size=len(clean.t)))
    return clean.with_signals(x=late + FINE * rng.normal(size=len(clean.t)))


def motion(recording: Recording, m: float, b: float, x: float, v: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities without a random force."""
    step = expm(STEP * np.array([[0, 1, 0], [-STIFFNESS / m, -b / m, 1 / m], [0, 0, 0]]))
    states = [np.array([x, v])]
    for f in recording.signal("f")[:-1]:
        states.append(step[:2, :2] @ states[-1] + step[:2, 2] * f)
    return np.array(states).T


def dense(
    recording: Recording, density: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], start: list[float]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Estimates of m, b, the first state and what the density of errors, given rates, takes; their standard errors by
    second differences; and the log-likelihood."""
    scales = np.array([1e-3, 1e-3, 1e-3, 1e-2, *np.abs(start) / 10])
    first = np.array([*TRUTH.values(), 0.0, 0.0, *start])

    def cost(z: np.ndarray) -> float:
        values = first + scales * z
        shown, rates = motion(recording, *values[:4])
        return -float(np.sum(density(recording.signal("x") - shown, rates, values[4:])))

    z = minimize(cost, np.zeros(len(first)), method="BFGS", options={"gtol": 1e-2}).x
    steps = 0.05 * np.eye(len(z))
    curved = [
        [sum(p * q * cost(z + p * s + q * w) for p in (-1, 1) for q in (-1, 1)) / (4 * 0.05**2) for w in steps]
        for s in steps
    ]
    return first + scales * z, scales * np.sqrt(np.diag(np.linalg.inv(curved))), -cost(z)


def normal(errors: np.ndarray, _: np.ndarray, own: np.ndarray) -> np.ndarray:
    return np.asarray(-((errors / own[0]) ** 2) / 2 - np.log(abs(own[0])) - np.log(2 * np.pi) / 2)


def of_student(errors: np.ndarray, _: np.ndarray, own: np.ndarray) -> np.ndarray:
    return np.asarray(student.logpdf(errors, own[1], scale=own[0]))


def of_jitter(errors: np.ndarray, rates: np.ndarray, own: np.ndarray) -> np.ndarray:
    return normal(errors, rates, np.sqrt(own[0] ** 2 + (rates * own[1]) ** 2)[None])


def noise(solution: Solution) -> tuple[float, float, float]:
    (one,) = (n for n in solution.noise if n.kind == "sensor")
    return one.std, one.jitter, one.freedom


@pytest.mark.parametrize(
    ("record", "density", "own", "place", "sensor"),
    [
        (heavy, of_student, [SCALE, FREEDOM], 2, {"loss": StudentT()}),
        (jittered, of_jitter, [FINE, JITTER], 1, {"jitter": None}),
    ],
)
def test_estimates_errors_and_likelihood_are_those_of_a_dense_likelihood(
    record: Callable[..., Recording], density: Callable, own: list[float], place: int, sensor: dict
) -> None:
    recording = record(0, 0.0)
    found = posed(recording, **sensor).solve()
    plain = posed(recording, loss="linear").solve()
    values, errors, log = dense(recording, density, own)
    *_, first = dense(recording, normal, [np.std(recording.signal("x")) / 100])
    for i, name in enumerate(TRUTH):
        assert abs(found[name].estimate - values[i]) < 0.2 * errors[i]
        assert found[name].std_err == pytest.approx(errors[i], rel=0.1)
    for j, one in ((0, 4), (place, 5)):
        assert abs(noise(found)[j] - values[one]) < 0.2 * errors[one]
    assert found.log_likelihood - plain.log_likelihood == pytest.approx(log - first, abs=2)
    assert f"{errors[5] * (1e3 if place == 1 else 1):.1g}" in found.findings[-1].text


@pytest.mark.parametrize(
    ("record", "sensor", "true"),
    [(heavy, {"loss": StudentT()}, (SCALE, 0, FREEDOM)), (jittered, {"jitter": None}, (FINE, JITTER, 0))],
)
def test_errors_cover_where_a_random_force_acts(
    record: Callable[..., Recording], sensor: dict, true: tuple[float, float, float]
) -> None:
    solutions = [posed(record(seed, 0.02), **sensor).solve() for seed in range(10)]
    far = np.array([offs(solution) for solution in solutions])
    assert np.sum(far > 1.96) <= 3  # of 20: more by accident in one of 60
    assert np.max(far) < 3.5
    assert np.mean([noise(solution) for solution in solutions], axis=0) == pytest.approx(true, rel=0.1)
