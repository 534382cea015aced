"""Noise of sensors with heavy tails, uncertain timestamps and counts, against dense likelihoods that are written here:
a driven mass on a spring, integrated exactly, without this package."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.stats import t as student
from test_correlated_noise import posed
from test_estimator_choice import STEP, STIFFNESS, TRUTH, offs, recorded

from spookid import JointPosition, JointRate, ProblemError, Recording, Solution, StudentT

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
    found, plain = posed(recording, **sensor).solve(), posed(recording, loss="linear").solve()
    values, errors, log = dense(recording, density, own)
    *_, first = dense(recording, normal, [np.std(recording.signal("x")) / 100])
    for i, name in enumerate(TRUTH):
        assert abs(found[name].estimate - values[i]) < 0.2 * errors[i]
        # Those of the fit include what a random force of zero may still be.
        assert 0.95 < found[name].std_err / errors[i] < 1.5
    for j, one in ((0, 4), (place, 5)):
        assert abs(noise(found)[j] - values[one]) < 0.2 * errors[one]
    assert found.log_likelihood - plain.log_likelihood == pytest.approx(log - first, abs=2)
    told = float(re.search(r"± ([0-9.]+)", found.findings[-1].text)[1])
    assert told == pytest.approx(errors[5] * (1e3 if place == 1 else 1), rel=0.1)


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


def test_normal_noise_is_recognized_as_such() -> None:
    recording = recorded(0, 0.02, SCALE)
    plain, found = posed(recording).solve(), posed(recording, loss=StudentT(), jitter=None).solve()
    std, jitter, freedom = noise(found)
    assert std == pytest.approx(SCALE, rel=0.1)
    assert jitter * np.std(np.diff(recording.signal("x")) / STEP) < 0.4 * SCALE
    assert freedom == 0 or freedom > 15
    for name in TRUTH:
        assert abs(found[name].estimate - plain[name].estimate) < 0.2 * plain[name].std_err
    assert -0.01 < found.log_likelihood - plain.log_likelihood < 3


def test_samples_between_the_steps_several_recordings_and_gaps() -> None:
    one, other = heavy(1, 0.02), heavy(2, 0.02)
    x = np.array(other.signal("x"))
    x[300:330] = np.nan
    other = replace(other.with_signals(x=x), name="other")
    problem = posed(one, 2 * STEP, loss=StudentT(FREEDOM)).with_(recordings=[one, other])
    found = problem.solve()
    assert max(offs(found)) < 3.5
    assert noise(found) == pytest.approx((SCALE, 0, FREEDOM), rel=0.1)
    own = StudentT(FREEDOM)
    assert posed(one, loss=own).solve().log_likelihood > posed(one, loss=StudentT(30)).solve().log_likelihood + 10


def test_samples_that_the_motion_follows_have_their_tails() -> None:
    """The random force is so large that each sample of the rate determines much of the motion there."""
    far, tails = [], []
    for seed in range(4):
        recording, rng = heavy(seed, 0.1), np.random.default_rng(2000 + seed)
        rate = CubicSpline(recording.t, recorded(seed, 0.1, 0.0).signal("x"))(recording.t, 1)
        problem = posed(recording.with_signals(rate=rate + 0.01 * rng.standard_t(FREEDOM, len(rate))))
        (slide,) = problem.model.joints
        sensors = [JointPosition(slide, "x", loss=StudentT()), JointRate(slide, "rate", loss=StudentT())]
        solution = problem.with_(observations=sensors).solve()
        far += offs(solution)
        tails.append([(n.std, n.freedom) for n in solution.noise if n.kind == "sensor"])
    assert np.max(far) < 3.5
    assert np.mean(tails, axis=0) == pytest.approx(np.array([[SCALE, FREEDOM], [0.01, FREEDOM]]), rel=0.25)


def test_declared_counts_add_to_a_given_sigma_and_are_recognized_without() -> None:
    width, zs = 0.01, []
    for seed in range(10):
        recording = recorded(seed, 0.0, 1e-3)
        counted = recording.with_signals(x=np.round(recording.signal("x") / width) * width)
        declared = posed(counted, sigma=1e-3, resolution=width).solve()
        assert noise(declared)[0] == pytest.approx(np.hypot(1e-3, width / np.sqrt(12)))
        zs += offs(declared)
    assert np.sum(np.array(zs) > 1.96) <= 3  # of 20: more by accident in one of 60
    found = posed(counted).solve()
    (one,) = (n for n in found.noise if n.kind == "sensor")
    assert one.resolution == pytest.approx(width)
    assert one.std >= width / np.sqrt(12) * (1 - 1e-9)
    (one,) = (n for n in posed(counted, resolution=2 * width).solve().noise if n.kind == "sensor")
    assert one.resolution == pytest.approx(2 * width)


def test_rounding_errors_of_slow_signals_are_recognized_and_covered() -> None:
    solutions = []
    for seed in range(10):
        recording = recorded(seed, 0.02, 1e-4)
        solutions.append(
            posed(recording.with_signals(x=np.round(recording.signal("x") / 0.05) * 0.05))
            .with_(estimator="auto")
            .solve()
        )
    far = np.array([offs(solution) for solution in solutions])
    assert np.sum(far > 1.96) <= 3  # of 20: more by accident in one of 60
    texts = [f.text for solution in solutions for f in solution.findings if f.code == "noise.correlated"]
    assert sum("less than a count" in text for text in texts) >= 5


def test_jitter_that_is_not_declared_is_suspected_and_normal_noise_or_counts_are_not() -> None:
    def suspected(recording: Recording) -> bool:
        return any("(jitter)" in f.text for f in posed(recording).solve().findings)

    assert all(suspected(jittered(seed, 0.02)) for seed in range(3))
    for seed in range(3):
        plain = recorded(seed, 0.02, SCALE)
        counted = plain.with_signals(x=np.round(plain.signal("x") / 0.01) * 0.01)
        assert not any(suspected(one) for one in (plain, counted, heavy(seed, 0.02)))


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        ({"jitter": -1.0}, "jitter -1.0"),
        ({"resolution": float("nan")}, "resolution nan"),
        ({"jitter": 1e-3, "correlation_time": 0.1}, "correlation_time"),
    ],
)
def test_what_cannot_be_is_refused(sensor: dict, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        posed(recorded(0, 0.02, SCALE), **sensor).solve()


def test_a_given_weight_and_few_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ProblemError, match="at least 1"):
        StudentT(0.5)
    with pytest.raises(ProblemError, match="estimated noise"):
        posed(recorded(0, 0.02, SCALE), jitter=None).with_(state_weight=1e6, estimator="auto").solve()


def test_samples_of_fast_motion_are_no_outliers_of_a_clock_that_jitters() -> None:
    """The seed is one of which samples stand out from their neighbours."""
    found = posed(jittered(6, 0.02), jitter=None).solve()
    assert noise(found)[1] == pytest.approx(JITTER, rel=0.1)
    assert not any(one.code == "samples.outliers" for one in found.findings)
