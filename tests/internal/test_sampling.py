"""From irregular samples to steps: exact where there is a sample, honest about what is missing, right on the circle."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spookid import ProblemError, Recording
from spookid.data import sampling
from spookid.data.inputs import acting, commanded
from spookid.data.sampling import Grid, grid, observed, smoothed, wrap
from spookid.mechanics.loads import Input

NAN = math.nan
TURN = 2 * math.pi


def run_of(t: object, y: object) -> Recording:
    return Recording(t=t, signals={"y": y}, name="run")  # type: ignore[arg-type,dict-item]


def at_steps(t: object, y: object, step: float, period: float | None = None) -> np.ndarray:
    run = run_of(t, y)
    return observed(run, "y", grid(run, step), period=period)


# --- the steps ---


@pytest.mark.parametrize(
    ("start", "stop", "step", "count"),
    [(0, 1, 0.1, 11), (0, 0.3, 0.1, 4), (0, 0.99, 0.1, 10), (5, 6, 0.3, 4), (-2, -1, 0.25, 5), (0, 0.2 - 1e-9, 0.1, 3)],
)
def test_grid_counts_the_steps_that_fit(start, stop, step, count):
    steps = grid(run_of([start, (start + stop) / 2, stop], [0, 0, 0]), step)
    assert steps == Grid(start=start, step=step, count=count)
    np.testing.assert_allclose(steps.times(), start + step * np.arange(count), rtol=1e-15)


def test_grid_survives_the_rounding_of_clock_times():
    t = 1.7e9 + (0.05 + 0.01 * np.arange(101))
    y = np.arange(101.0)
    y[50] = NAN
    run = run_of(t, y)
    steps = grid(run, 0.01)
    assert steps.count == 101
    np.testing.assert_array_equal(observed(run, "y", steps, period=None), y)


def test_grid_refuses_short_recordings():
    with pytest.raises(ProblemError, match=re.escape("'run' lasts 0.19 s, less than two time steps of 0.1 s")):
        grid(run_of([1.0, 1.19], [0, 0]), 0.1)


@pytest.mark.parametrize("step", [0.0, -0.1, NAN, math.inf])
def test_grid_refuses_bad_steps(step):
    with pytest.raises(ProblemError, match=f"step is {step}"):
        grid(run_of([0, 1], [0, 0]), step)


def test_unknown_signals_are_named():
    run = Recording(t=[0, 1, 2], signals={"a": [1, 2, 3], "b": [1, 2, 3]}, name="run")
    steps = grid(run, 1.0)
    for sample in (
        lambda: observed(run, "y", steps, period=None),
        lambda: acting(run, [Input("y")], steps, {}),
        lambda: smoothed(run, "y", steps, period=None, cutoff=10.0),
    ):
        with pytest.raises(ProblemError, match="recording 'run' has no signal 'y'; its signals are 'a', 'b'"):
            sample()


# --- observations ---


def test_samples_at_the_steps_are_taken_as_they_are():
    t = 3.0 + np.arange(31) * 0.1
    y = np.random.default_rng(1).normal(size=31)
    np.testing.assert_array_equal(at_steps(t, y, 0.1), y)
    np.testing.assert_array_equal(at_steps(t, y, 0.3), y[::3])


def test_a_sample_that_is_not_at_the_step_is_no_sample_there():
    near, far = 1e-7, 1e-4
    y = [0.0, 10.0, 0.0, 0.0, 0.0]
    assert at_steps([0, 1 + near, 2, 3, 4], y, 1.0)[1] == 10.0
    assert at_steps([0, 1 - near, 2, 3, 4], y, 1.0)[1] == 10.0
    np.testing.assert_allclose(at_steps([0, 1 + far, 2, 3, 4], y, 1.0)[1], 10 / (1 + far), rtol=1e-12)


def test_interpolation_between_samples():
    t = 7.0 + np.array([0.0, 0.7, 1.4, 2.1, 2.8, 3.5])
    y = np.array([0.0, 7.0, -7.0, 7.0, 0.0, 7.0])
    # Steps at 0, 1, 2, 3: by hand.
    expected = [0, 7 - 14 * 3 / 7, -7 + 14 * 6 / 7, 7 * 2 / 7]
    np.testing.assert_allclose(at_steps(t, y, 1.0), expected, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0.01, 0.5), min_size=10, max_size=40),
    st.floats(-100, 100),
    st.floats(-5, 5),
    st.floats(-5, 5),
)
def test_a_straight_line_stays_straight(intervals, start, offset, slope):
    t = start + np.cumsum([0.0, *intervals])
    step = float(t[-1] - t[0]) / 4.5
    run = run_of(t, offset + slope * (t - t[0]))
    steps = grid(run, step)
    values = observed(run, "y", steps, period=None)
    known = np.isfinite(values)
    expected = offset + slope * (steps.times() - t[0])
    np.testing.assert_allclose(values[known], expected[known], atol=1e-9)
    if max(intervals) <= step:
        assert known.all()


def test_a_missing_sample_at_the_step_is_missing():
    t = np.arange(9) * 0.5
    y = np.arange(9.0)
    y[4] = NAN
    np.testing.assert_array_equal(at_steps(t, y, 1.0), [0, 2, NAN, 6, 8])


def test_a_missing_sample_beside_the_step_is_bridged_up_to_h():
    t = [0.0, 0.6, 1.2, 1.8, 2.4, 3.0]
    # At 1: neighbours 0.6 and 1.2; without 1.2 the next is 1.8, within h; without both it is 2.4, too far.
    np.testing.assert_allclose(at_steps(t, [0, 6, 12, 18, 24, 30], 1.0), [0, 10, 20, 30], atol=1e-12)
    np.testing.assert_allclose(at_steps(t, [0, 6, NAN, 18, 24, 30], 1.0), [0, 10, 20, 30], atol=1e-12)
    np.testing.assert_allclose(at_steps(t, [0, 6, NAN, NAN, 24, 30], 1.0), [0, NAN, NAN, 30], atol=1e-12)


def test_a_neighbour_exactly_at_h_is_near_enough():
    # No stamp at 0.3; the neighbours at 0.2 and 0.4 are h = 0.1 away, up to rounding.
    t = np.array([0.0, 0.1, 0.2, 0.4, 0.5])
    np.testing.assert_allclose(at_steps(t, 10 * t, 0.1), [0, 1, 2, 3, 4, 5], atol=1e-12)
    t[3] += 1e-6
    assert np.isnan(at_steps(t, 10 * t, 0.1)[3])


def test_nothing_is_extrapolated():
    t = [0.0, 0.5, 1.5, 2.5, 3.5]
    np.testing.assert_allclose(at_steps(t, [NAN, 5, 15, 25, NAN], 1.0), [NAN, 10, 20, NAN], atol=1e-12)
    t = [0.0, 0.6, 1.2, 1.8, 2.4, 3.0]
    np.testing.assert_allclose(at_steps(t, [NAN, NAN, 12, 18, NAN, NAN], 1.0), [NAN] * 4)
    np.testing.assert_allclose(at_steps(t, [NAN, 6, 12, 18, NAN, 30], 1.0), [NAN, 10, 20, 30], atol=1e-12)


def test_two_interleaved_sensors():
    t = np.arange(13) * 0.25
    slow, fast = t.copy(), 10 * t
    slow[np.arange(13) % 4 != 2] = NAN  # at 0.5, 1.5, 2.5
    fast[np.arange(13) % 4 == 2] = NAN
    run = Recording(t=t, signals={"slow": slow, "fast": fast})
    steps = grid(run, 0.75)
    # `slow` has stamps without a value at 0, 0.75, 2.25 and 3; `fast` lacks 1.5 only.
    np.testing.assert_array_equal(observed(run, "slow", steps, period=None), [NAN, NAN, 1.5, NAN, NAN])
    np.testing.assert_array_equal(observed(run, "fast", steps, period=None), [0, 7.5, NAN, 22.5, 30])


def test_two_stamps_at_one_step_use_the_finite_one():
    t = [0.0, 1.0, 1.0 + 1e-8, 2.0]
    np.testing.assert_array_equal(at_steps(t, [0, NAN, 5, 2], 1.0), [0, 5, 2])
    np.testing.assert_array_equal(at_steps(t, [0, 4, NAN, 2], 1.0), [0, 4, 2])
    np.testing.assert_array_equal(at_steps(t, [0, NAN, NAN, 2], 1.0), [0, NAN, 2])


def test_angles_are_interpolated_the_short_way_round():
    t = [0.0, 0.5, 1.5, 2.5, 3.0]
    y = [3.0, 3.1, -3.1, 3.1, 3.0]
    values = at_steps(t, y, 1.0, TURN)
    np.testing.assert_allclose(wrap(values[1:3] - math.pi, TURN), 0, atol=1e-12)
    np.testing.assert_allclose(at_steps(t, y, 1.0)[1:3], 0, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.floats(-20, 20), st.floats(-20, 20), st.integers(4, 30))
def test_wrapped_and_multi_turn_angles_agree(offset, rate, count):
    t = np.cumsum(np.r_[0.0, 0.04 + 0.03 * np.sin(np.arange(count))])  # turns by less than half a turn between samples
    turns = offset + rate * t
    step = float(t[-1]) / 3
    unwrapped, wrapped = at_steps(t, turns, step, TURN), at_steps(t, wrap(turns, TURN), step, TURN)
    np.testing.assert_allclose(wrap(unwrapped - wrapped, TURN), 0, atol=1e-9)
    np.testing.assert_allclose(unwrapped, at_steps(t, turns, step), atol=1e-9)


# --- inputs ---


def test_inputs_are_held():
    run = run_of([0.0, 0.9, 1.0, 1.1, 2.5, 3.9, 4.0], [1, 2, NAN, 4, 5, 6, NAN])
    np.testing.assert_array_equal(commanded(run, [Input("y")], grid(run, 1.0))[:, 0], [1, 2, 4, 5, 6])


def test_an_input_at_the_step_counts_despite_rounding():
    t = 2.0 + np.array([0.0, 1 + 5e-7, 2 - 5e-7, 3 + 5e-6])
    np.testing.assert_array_equal(
        commanded(run_of(t, [0, 1, 2, 3]), [Input("y")], Grid(2.0, 1.0, 4))[:, 0], [0, 1, 2, 2]
    )


def test_an_input_must_be_there_from_the_start():
    run = run_of([0.5, 1.0, 2.0, 3.0], [NAN, 1, 2, 3])
    message = "'run': input 'y' has no value at or before the first time step at 0.5 s; its first value is at 1 s"
    with pytest.raises(ProblemError, match=re.escape(message)):
        acting(run, [Input("y")], grid(run, 0.5), {})


# --- the smooth signal for the initial guess ---


def sine(t: np.ndarray) -> np.ndarray:
    return np.sin(TURN * 0.5 * t + 0.3)


@pytest.mark.parametrize("step", [0.01, 0.0137, 0.1])
@pytest.mark.parametrize("rate", [100, 1000])
def test_a_slow_sine_passes_without_lag(step, rate):
    run = run_of(5 + np.arange(10 * rate + 1) / rate, sine(np.arange(10 * rate + 1) / rate))
    steps = grid(run, step)
    smooth = smoothed(run, "y", steps, period=None, cutoff=10.0)
    inside = slice(math.ceil(0.1 / step), -math.ceil(0.1 / step))
    expected = sine(steps.times() - 5)
    np.testing.assert_allclose(smooth[inside], expected[inside], atol=1e-3)
    np.testing.assert_allclose(smooth, expected, atol=5e-3)


def test_irregular_stamps_and_missing_samples_make_no_difference():
    rng = np.random.default_rng(3)
    t = np.r_[0.0, np.cumsum(rng.uniform(0.001, 0.006, 2000))]
    y = sine(t)
    y[rng.random(len(t)) < 0.2] = NAN
    run = run_of(t, y)
    steps = grid(run, 0.02)
    smooth = smoothed(run, "y", steps, period=None, cutoff=10.0)
    np.testing.assert_allclose(smooth[10:-10], sine(steps.times())[10:-10], atol=1e-3)


def test_noise_is_removed_and_all_samples_help():
    rng = np.random.default_rng(4)
    t = np.arange(20001) * 0.001
    run = run_of(t, sine(t) + 0.1 * rng.normal(size=len(t)))
    steps = grid(run, 0.01)
    error = smoothed(run, "y", steps, period=None, cutoff=10.0) - sine(steps.times())
    # White noise of a rate of 1 kHz keeps about 2 * 10 / 1000 of its variance; of every tenth sample it would be 0.2.
    assert 0.008 < np.std(error) < 0.02


def test_the_filter_halves_its_cutoff_frequency():
    # Second order, forward and backward: |H|^2 = 1/2 at the cutoff, 1/17 at twice it.
    t = np.arange(4001) * 0.0025
    for factor, gain in ((1, 1 / 2), (2, 1 / 17)):
        run = run_of(t, np.cos(TURN * 4 * factor * t))
        smooth = smoothed(run, "y", grid(run, 0.0125), period=None, cutoff=4.0)
        np.testing.assert_allclose(smooth[200:-200].max(), gain, rtol=0.02)


def test_smoothing_unwraps_angles():
    t = np.arange(1001) * 0.005
    turns = 3.0 + 9.0 * t
    run = Recording(t=t, signals={"wrapped": wrap(turns, TURN), "turns": turns})
    steps = grid(run, 0.01)
    smooth = smoothed(run, "wrapped", steps, period=TURN, cutoff=10.0)
    np.testing.assert_allclose(smooth, wrap(3.0, TURN) + 9.0 * steps.times(), atol=1e-9)
    np.testing.assert_allclose(smoothed(run, "turns", steps, period=TURN, cutoff=10.0), turns[::2], atol=1e-9)
    without = smoothed(run, "wrapped", steps, period=None, cutoff=10.0)
    assert np.abs(without).max() < 4


@pytest.mark.parametrize("cutoff", [100.0, 1e6, math.inf])
def test_a_cutoff_above_nyquist_filters_nothing(cutoff):
    rng = np.random.default_rng(5)
    run = run_of(np.arange(21) * 0.01, rng.normal(size=21))
    steps = grid(run, 0.01)  # the uniform grid has 200 Hz
    np.testing.assert_allclose(smoothed(run, "y", steps, period=None, cutoff=cutoff), run.signals["y"], atol=1e-12)
    assert np.abs(smoothed(run, "y", steps, period=None, cutoff=99.0) - run.signals["y"]).max() > 1e-6


@pytest.mark.parametrize("cutoff", [1e-320, 0.01, 1.0, 9.9, 50.0])
def test_short_signals_are_smoothed_too(cutoff):
    run = run_of([0.0, 0.1, 0.2], [1.0, 2.0, 3.0])
    smooth = smoothed(run, "y", grid(run, 0.1), period=None, cutoff=cutoff)
    assert smooth.shape == (3,)
    assert np.isfinite(smooth).all()
    np.testing.assert_allclose(smooth, [1, 2, 3], atol=1e-9)


def test_a_cutoff_far_below_the_recording_leaves_a_line():
    t = np.arange(101) * 0.01
    run = run_of(t, 2 * t + np.sin(TURN * 5 * t))
    np.testing.assert_allclose(smoothed(run, "y", grid(run, 0.1), period=None, cutoff=1e-3), 2 * t[::10], atol=1e-3)


def test_a_single_sample_is_held():
    run = run_of([0.0, 0.1, 0.2, 0.3], [NAN, NAN, 7.0, NAN])
    np.testing.assert_allclose(smoothed(run, "y", grid(run, 0.1), period=TURN, cutoff=2.0), 7.0, rtol=1e-12)


def test_very_dense_samples_are_thinned(monkeypatch):
    t = np.linspace(0, 1, 100_001)
    run = run_of(t, sine(t))
    steps = grid(run, 0.1)
    sizes = []
    plain = sampling.low_passed
    monkeypatch.setattr(sampling, "_MOST_POINTS", 2000)
    monkeypatch.setattr(
        sampling, "low_passed", lambda values, rate, cutoff: sizes.append(len(values)) or plain(values, rate, cutoff)
    )
    smooth = smoothed(run, "y", steps, period=None, cutoff=10.0)
    assert 1000 < sizes[0] <= 2000
    np.testing.assert_allclose(smooth[1:-1], sine(steps.times())[1:-1], atol=2e-3)


@pytest.mark.parametrize("cutoff", [0.0, -1.0, NAN])
def test_bad_cutoff(cutoff):
    run = run_of([0.0, 1.0, 2.0], [1, 2, 3])
    with pytest.raises(ProblemError, match=f"the cutoff frequency is {cutoff}"):
        smoothed(run, "y", grid(run, 1.0), period=None, cutoff=cutoff)


# --- the circle ---


@given(st.floats(-1e6, 1e6), st.sampled_from([TURN, 1.0, 360.0, 0.1]))
def test_wrap_stays_in_its_interval_and_on_the_circle(x, period):
    y = float(wrap(x, period))
    assert -period / 2 <= y < period / 2
    assert abs(math.remainder(y - x, period)) < 1e-9
    assert float(wrap(y, period)) == y


def test_wrap_at_its_ends():
    x = [math.pi, -math.pi, np.nextafter(math.pi, 0), 3 * TURN, 1e-300, NAN]
    np.testing.assert_array_equal(wrap(x, TURN), [-math.pi, -math.pi, np.nextafter(math.pi, 0), 0, 1e-300, NAN])
