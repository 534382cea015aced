"""Changes of parameters on streams of scores: exact sizes, found in time, told once, and false alarms as stated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from mechanisms import Array

from spookid import ProblemError
from spookid.statistics.changes import DAY, Change, ChangeDetector

COVARIANCE = np.eye(3) + 0.4
"""Of a sample's sensitivities."""
NAMES = ("m", "b", "c")
RATE = 100.0
"""Samples a second."""


def normal(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_normal(n)


class Stream:
    """Whitened innovations y = g·d(t) + noise; a block a sample.

    Args:
        steps: time [s], parameter and size of each change.
    """

    def __init__(self, seed: int, seconds: float, noise: Callable = normal, steps: tuple = ()) -> None:
        rng, n = np.random.default_rng(seed), int(seconds * RATE)
        self.t = np.arange(n) / RATE
        self.g = rng.standard_normal((n, 3)) @ np.linalg.cholesky(COVARIANCE).T
        d = np.zeros((n, 3))
        for time, j, size in steps:
            d[self.t >= time, j] += size
        self.y = np.sum(self.g * d, axis=1) + noise(rng, n)

    def feed(self, detector: ChangeDetector, first: int = 0, last: int | None = None) -> list[Change]:
        """Scores are taken at zero, where the reference of the parameters need not be."""
        found = []
        for t, g, y in list(zip(self.t, self.g, self.y, strict=True))[first:last]:
            change = detector.add(t, np.zeros(3), g * y, np.outer(g, g))
            if change is not None:
                found.append(change)
        return found


def detector(false_alarms: float = 1.0, reference: float = 0.0) -> ChangeDetector:
    return ChangeDetector(NAMES, np.full(3, reference), -1 / RATE, false_alarms=false_alarms)


def plain_error(j: int, seconds: float = 2.0) -> float:
    """Of an estimate from so many seconds."""
    return float(np.sqrt(np.linalg.inv(COVARIANCE * RATE * seconds)[j, j]))


@pytest.mark.study
@pytest.mark.parametrize("j", range(3))
def test_a_change_of_ten_plain_errors_of_two_seconds_is_told_within_two_seconds(j: int) -> None:
    for seed in range(2):
        size = (-1) ** seed * 10 * plain_error(j)
        (change,) = Stream(seed, 18, steps=((16.0, j, size),)).feed(detector())
        assert change.parameter == NAMES[j]
        assert 16.0 <= change.told < 18.0
        assert abs(change.since - 16.0) < 0.7
        # It is told as soon as it is seen, which is mostly when it seems larger than it is.
        assert abs(change.change - size) < 3.5 * change.error
        assert abs(change.before) < 4 * plain_error(j, 16.0)
        assert change.after == change.before + change.change
        assert change.z > 5


def test_the_size_is_that_of_least_squares_over_all_data() -> None:
    stream = Stream(5, 12, steps=((10.0, 1, 10 * plain_error(1)),))
    (change,) = stream.feed(detector(reference=0.3))
    seen = stream.t <= change.told
    since = stream.t > change.since + 1e-9
    design = np.column_stack([stream.g, stream.g[:, 1] * since])[seen]
    solved = np.linalg.solve(design.T @ design, design.T @ stream.y[seen])
    covariance = np.linalg.inv(design.T @ design)
    assert change.change == pytest.approx(solved[3], rel=1e-9)
    assert change.before == pytest.approx(solved[1], rel=1e-9)
    assert change.error >= np.sqrt(covariance[3, 3]) * (1 - 1e-9)
    assert change.error < 1.3 * np.sqrt(covariance[3, 3])  # the scatter that was found is that of white noise


def test_each_change_is_told_once_and_the_test_goes_on() -> None:
    size = 10 * plain_error(0)
    stream = Stream(2, 30, steps=((8.0, 0, size), (14.0, 2, -size), (20.0, 0, -2 * size)))
    found = detector()
    changes = stream.feed(found)
    assert [change.parameter for change in changes] == ["m", "c", "m"]
    assert all(first.told < second.since for first, second in pairwise(changes))
    # What is known of the mass now is of the last ten seconds, of the friction that never changed of all.
    score, information = found.knowledge
    covariance = np.linalg.inv(information)
    assert np.sqrt(covariance[1, 1]) < 1.2 * plain_error(1, 30.0)
    assert np.sqrt(covariance[0, 0]) == pytest.approx(plain_error(0, 10.0), rel=0.25)
    assert np.all(np.abs(covariance @ score - [-size, 0.0, -size]) < 4 * np.sqrt(covariance.diagonal()))


def test_what_one_parameter_cannot_tell_from_another_names_both() -> None:
    """Two of nearly one sensitivity: it waits for what parts them, and says so if nothing does."""
    rng = np.random.default_rng(0)
    found = ChangeDetector(("b", "c"), np.zeros(2), 0.0)
    change = None
    for k in range(2600):
        g = rng.standard_normal() * np.ones(2) + 0.02 * rng.standard_normal(2)
        y = g @ [0.0, 1.0 if k >= 1600 else 0.0] + rng.standard_normal()
        change = change or found.add(k / RATE, np.zeros(2), g * y, np.outer(g, g))
    assert change is not None
    assert {change.parameter, *change.others} == {"b", "c"}
    assert "; or, nearly as likely, " in change.words()


def outliers(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_normal(n) + 30 * (rng.random(n) < 0.01) * rng.standard_normal(n)


def heavy(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_t(3, n)


def lasting(rng: np.random.Generator, n: int) -> Array:
    """White noise, and as much again of what lasts ten samples."""
    from scipy.signal import lfilter

    return rng.standard_normal(n) + lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], rng.standard_normal(n))


def louder(rng: np.random.Generator, n: int) -> Array:
    """Three times as much from the middle on."""
    return rng.standard_normal(n) * np.where(np.arange(n) < n // 2, 1, 3)


@pytest.mark.parametrize(
    "noise", [outliers, lasting, *(pytest.param(one, marks=pytest.mark.study) for one in (normal, heavy, louder))]
)
def test_false_alarms_are_fewer_than_stated(noise: Callable) -> None:
    """One in a second may be false: there are thirty such times here."""
    assert len(Stream(3, 30, noise).feed(detector(false_alarms=DAY))) < 30


class Wandering(Stream):
    """Parameters that wander by a model's misfit, which lasts fifty samples and is seen as well as they are."""

    def __init__(self, seed: int, seconds: float) -> None:
        super().__init__(seed, seconds)
        from scipy.signal import lfilter

        wandering = np.random.default_rng(seed + 100).standard_normal((len(self.t), 3))
        self.y += 0.7 * np.sum(self.g * lfilter([np.sqrt(1 - 0.98**2)], [1, -0.98], wandering, axis=0), axis=1)


def test_lasting_misfit_and_noise_that_was_found_too_small_are_no_changes() -> None:
    """From the first block on: nothing is told before it is known by how much scores scatter."""
    for seed in range(2):
        assert Wandering(seed, 25).feed(detector()) == []
        assert Stream(seed, 12, lambda rng, n: 3.5 * rng.standard_normal(n)).feed(detector()) == []


def test_what_only_a_value_out_of_bounds_explains_is_no_change() -> None:
    bounds = np.array([-1.0, -1.0, -1.0]), np.full(3, np.inf)
    steps = ((16.0, 1, -3.0),)
    told = Stream(1, 19, steps=steps).feed(detector())[0]
    assert (told.parameter, round(told.after)) == ("b", -3)
    assert Stream(1, 19, steps=steps).feed(ChangeDetector(NAMES, np.zeros(3), -1 / RATE, bounds=bounds)) == []
    near = np.array([-np.inf, -2.9, -np.inf]), np.full(3, np.inf)
    (change,) = Stream(1, 17, steps=steps).feed(ChangeDetector(NAMES, np.zeros(3), -1 / RATE, bounds=near))
    assert change.after == -2.9
    assert change.change == change.after - change.before


def test_a_change_is_found_in_spite_of_misfit() -> None:
    """Noise of three degrees of freedom has 1.7 times the size: a change of so many errors more is found."""
    (change,) = Stream(1, 22, heavy, steps=((20.0, 1, 20 * plain_error(1)),)).feed(detector())
    assert change.parameter == "b"
    assert 20 <= change.told < 22
    assert change.error > 1.2 * plain_error(1, change.told - change.since)


def test_what_is_not_excited_is_no_change_and_memory_is_bounded() -> None:
    """The second parameter is never seen; the third only late, and its first appearance is no change."""
    rng, found = np.random.default_rng(0), ChangeDetector(NAMES, np.zeros(3), 0.0)
    for k in range(3000):
        g = rng.standard_normal(3) * [1.0, 0.0, float(k > 2000)]
        assert found.add(k / RATE, np.zeros(3), g * (rng.standard_normal() + g[2]), np.outer(g, g)) is None
    assert len(found.arrays()["blocks_until"]) < 100


def test_a_gap_in_the_log_is_no_time_for_false_alarms() -> None:
    stream, found = Stream(4, 20), detector(false_alarms=100.0)
    stream.t[1000:] += 1e6
    assert stream.feed(found) == []


def test_it_goes_on_from_what_was_saved_with_the_same_digits() -> None:
    stream = Stream(6, 14, steps=((11.0, 1, 10 * plain_error(1)),))
    whole = stream.feed(detector())
    first = detector()
    assert stream.feed(first, 0, 1113) == []
    later = ChangeDetector.resumed(NAMES, {name: np.array(array) for name, array in first.arrays().items()})
    assert list(map(repr, stream.feed(later, 1113))) == list(map(repr, whole))
    assert len(whole) == 1


def test_words() -> None:
    change = Change("b_elbow", 840.0, 842.0, 0.5, 0.56, 0.06, 0.015, 0.12, 0.03, 6.5)
    assert change.words("friction of elbow", clock=lambda t: f"{t / 60:.0f} min") == (
        "friction of elbow +12.0 ± 3.0 % since 14 min"
    )
    small = Change("b", 10.0, 12.0, 1e-4, -0.05, -0.0501, 0.002, np.nan, np.nan, 25.0, ("c",))
    assert small.words(unit="N m s") == (
        "b -0.0501 ± 0.0020 N m s (it was 0.0001 N m s) since 10 s; or, nearly as likely, c"
    )


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ProblemError, match="false_alarms is 0"):
        detector(false_alarms=0)
    with pytest.raises(ProblemError, match="false_alarms is 'a'"):
        detector(false_alarms="a")


@pytest.mark.study
def test_no_alarm_in_hours_without_a_change() -> None:
    for seed, noise in enumerate([normal, normal, heavy, lasting]):
        assert Stream(seed, 3600, noise).feed(detector()) == []
