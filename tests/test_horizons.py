"""Windows of a motion and the octaves of time in them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spookid.horizons import edges, score, starts


def test_windows_do_not_overlap_and_stay_within_the_recording() -> None:
    assert starts(100, 30, 1000, 30).tolist() == [0, 30, 60]
    assert starts(90, 30, 1000, 30).tolist() == [0, 30, 60]
    assert starts(100, 30, 1000, 20).tolist() == [0, 20, 40, 60]
    assert starts(30, 30, 10, 30).tolist() == [0]


def test_windows_left_out_are_spread_evenly() -> None:
    assert starts(1000, 10, 50, 10).tolist() == [0, 200, 400, 600, 800]


def test_octaves_are_halves_of_the_window_down_to_the_shortest() -> None:
    assert edges(160, 10.0) == (0, 10, 20, 40, 80, 160)
    assert edges(160, 10.1) == (0, 20, 40, 80, 160)
    assert edges(613, 38.3) == (0, 38, 77, 153, 306, 613)
    assert edges(20, 80.0) == (0, 20)
    assert edges(4, 0.0) == (0, 1, 2, 4)


def test_each_octave_and_each_window_counts_the_same() -> None:
    squares = np.ones((2, 8, 1))
    squares[0, :4] = 100.0**2  # a quarter of all octaves is 100 times worse
    assert score(squares, (0, 4, 8)) == pytest.approx(100**0.25)
    assert score(squares, (0, 8)) == pytest.approx(((100**2 + 1) / 2) ** 0.25)


def test_missing_samples_drop_out() -> None:
    squares = np.full((2, 4, 2), 9.0)
    squares[0, 2:], squares[1, 0, 1] = np.nan, np.nan
    assert score(squares, (0, 2, 4)) == pytest.approx(3.0)
    assert math.isnan(score(np.full((2, 4, 1), np.nan), (0, 4)))


def test_a_window_that_fails_makes_it_infinite() -> None:
    squares = np.ones((3, 4, 1))
    squares[1] = np.inf
    assert score(squares, (0, 2, 4)) == math.inf
