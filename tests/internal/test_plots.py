"""The figures: what they show is what the solution holds, and nothing is lost by thinning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from solutions import awkward, estimated, solution

from spookid import Cost, Estimate, Solution, Trajectory
from spookid.report import pictures, plots
from spookid.results.result import IterationRecord
from spookid.tables.table import uncertain


def many(parameters: int = 13, recordings: int = 3) -> Solution:
    """A solution with as many parameters of many magnitudes, with and without errors and bounds."""
    s = solution()
    names = [f"parameter_{i}" for i in range(parameters)]
    estimates = {name: _estimate(name, i) for i, name in enumerate(names)}
    history = tuple(
        IterationRecord(k, s.history[0].cost, 10.0**-k, 1.0, {n: p.initial / (k + 1) for n, p in estimates.items()})
        for k in range(7)
    )
    return replace(s, parameters=estimates, history=history, trajectories=s.trajectories * recordings)


def _estimate(name: str, i: int) -> Estimate:
    value = (-1.0) ** i * 10.0 ** (i % 9 - 6)
    unknown = i % 4 == 1
    return Estimate(
        name=name,
        estimate=value,
        std_err=math.nan if unknown else abs(value) * 10.0 ** (-(i % 3)),
        reason="the data do not determine it" if unknown else "",
        initial=value * (1 + 0.5 * (i % 2)),
        lower=value - abs(value) if i % 3 else -math.inf,
        upper=value if i % 5 == 0 else math.inf,
        unit="kg m^2",
        at_bound=i % 5 == 0,
        fixed=i == 3,
    )


def long(steps: int, turns: float = 0.0) -> Solution:
    """A solution with one trajectory of many steps, a spike of one sample, a gap, and a sensor that wraps."""
    t = np.arange(steps) * 1e-3
    true = np.sin(3 * t) + 2 * math.pi * turns * t / t[-1]
    observed = np.mod(true + math.pi, 2 * math.pi) - math.pi
    observed[steps // 2 : steps // 2 + steps // 10] = np.nan
    predicted = np.where(np.isnan(observed), true, observed) + 0.001
    observed[steps // 3] += 0.5
    blank = np.zeros((steps, 0))
    trajectory = Trajectory(
        "long", ("theta",), ("rad",), (2 * math.pi,), t, np.zeros((steps, 0, 7)), np.zeros((steps, 0, 6)),
        observed[:, None], np.isfinite(observed)[:, None] * 1.0, predicted[:, None], blank, blank, blank, blank,
    )  # fmt: skip
    return replace(solution(), trajectories=(trajectory,))


def drawn(figure: Figure) -> Figure:
    """The figure after layout; warnings (of a layout that does not fit, of glyphs that lack) are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    return figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


FIGURES = {"fit": plots.fit, "convergence": plots.convergence, "parameters": plots.parameters}
CASES: dict[str, Callable[[], Solution]] = {
    "awkward": awkward,
    "estimated": lambda: estimated(2),
    "40 parameters": lambda: many(40, 6),
    "nothing": lambda: replace(solution(), parameters={}, trajectories=(), history=()),
}


@pytest.mark.parametrize(
    "case",
    ["awkward", "nothing", *(pytest.param(one, marks=pytest.mark.study) for one in ("estimated", "40 parameters"))],
)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn_without_a_warning(name: str, case: str) -> None:
    assert drawn(FIGURES[name](CASES[case]())).get_suptitle()


# --- fit ---


def test_the_fit_shows_measured_estimated_and_residual() -> None:
    s = solution()
    trajectory = s.trajectories[0]
    upper, lower = drawn(plots.fit(s)).axes
    measured, estimated = upper.lines
    there = np.isfinite(trajectory.observed[:, 0])
    np.testing.assert_allclose(measured.get_ydata(), trajectory.observed[there, 0], atol=1e-12)
    np.testing.assert_allclose(estimated.get_ydata(), trajectory.predicted[:, 0], atol=1e-12)
    residual = (trajectory.observed - trajectory.predicted)[there, 0]
    np.testing.assert_allclose(lower.lines[-1].get_ydata(), 1e3 * residual, atol=1e-12)
    assert upper.get_ylabel() == "theta [rad]"
    assert lower.get_ylabel() == "residual\n[mrad]"
    assert lower.get_xlabel() == "time [s]"
    assert f"rms {1e3 * math.sqrt(np.mean(residual**2)):.3g} mrad" in texts(lower.figure)


def test_recordings_stand_side_by_side_the_first_four_of_them() -> None:
    three = drawn(plots.fit(solution(3)))
    assert len(three.axes) == 6
    assert [axes.get_title(loc="left") for axes in three.axes[::2]] == ["release 0", "release 1", "release 2"]
    assert "recordings" not in three.get_suptitle()
    six = drawn(plots.fit(many(1, 6)))
    assert len(six.axes) == 8
    assert "(first 4 of 6 recordings)" in six.get_suptitle()


@pytest.mark.parametrize("steps", [1000, 100_000])
def test_no_spike_is_lost_and_no_line_is_drawn_across_a_wrap(steps: int) -> None:
    upper, lower = plots.fit(long(steps, turns=20)).axes
    for line in (*upper.lines, lower.lines[-1]):
        assert len(line.get_ydata()) <= 3000
    assert np.max(np.abs(np.diff(upper.lines[1].get_ydata()))) < 0.5
    assert np.max(lower.lines[-1].get_ydata()) == pytest.approx(499)  # [mrad]
    residual = np.interp(upper.lines[0].get_xdata(), upper.lines[1].get_xdata(), upper.lines[1].get_ydata())
    assert np.max(np.abs(upper.lines[0].get_ydata() - residual)) == pytest.approx(0.5, abs=0.05)


def test_a_sensor_of_many_turns_keeps_its_turns_if_its_first_samples_are_missing() -> None:
    s = solution()
    trajectory = s.trajectories[0]
    observed = trajectory.observed + 20 * math.pi
    observed[:3] = np.nan
    predicted = trajectory.predicted + np.where(np.isnan(observed), 0.0, 20 * math.pi)
    turned = replace(trajectory, observed=observed, predicted=predicted)
    upper, _ = plots.fit(replace(s, trajectories=(turned,))).axes
    for line in upper.lines:
        assert np.min(line.get_ydata()) > 19 * math.pi


def one_signal(unit: str, period: float | None, observed: list[float], predicted: list[float]) -> Solution:
    """A solution with one short trajectory."""
    t, blank = np.arange(len(observed)) * 0.1, np.zeros((len(observed), 0))
    trajectory = Trajectory(
        "short", ("y",), (unit,), (period,), t, np.zeros((len(t), 0, 7)), np.zeros((len(t), 0, 6)),
        np.array(observed)[:, None], np.isfinite(observed)[:, None] * 1.0, np.array(predicted)[:, None],
        blank, blank, blank, blank,
    )  # fmt: skip
    return replace(solution(), trajectories=(trajectory,))


@pytest.mark.parametrize(
    ("unit", "residual", "labels"),
    [
        ("m", 0.002, ("y [m]", "residual\n[mm]", "rms 2 mm")),
        ("m/s", 2e-6, ("y [m/s]", "residual\n[µm/s]", "rms 2 µm/s")),
        ("N m", 0.002, ("y [N m]", "residual\n[mN m]", "rms 2 mN m")),
        ("m", 2.0, ("y [m]", "residual\n[m]", "rms 2 m")),
        ("m^2", 0.002, ("y [m²]", "residual\n[m²]", "rms 0.002 m²")),
        ("mm", 0.002, ("y [mm]", "residual\n[mm]", "rms 0.002 mm")),
        ("kg", 0.002, ("y [kg]", "residual\n[kg]", "rms 0.002 kg")),
        ("$", 0.002, ("y [$]", "residual\n[$]", "rms 0.002 $")),
        ("", 0.002, ("y", "residual", "rms 0.002")),
    ],
)
def test_each_signal_has_its_own_unit(unit: str, residual: float, labels: tuple[str, str, str]) -> None:
    upper, lower = drawn(plots.fit(one_signal(unit, None, [residual] * 3, [0.0] * 3))).axes
    np.testing.assert_allclose(lower.lines[-1].get_ydata(), float(labels[2].split()[1]))
    assert (upper.get_ylabel(), lower.get_ylabel()) == labels[:2]
    assert labels[2] in texts(lower.figure)


@pytest.mark.parametrize(
    ("period", "drawn_as"),
    [
        (None, [0.0, 4.0, 8.0, 2.0]),
        (10.0, [0.0, 4.0, 8.0, 12.0]),
        (2 * math.pi, [0.0, 4 - 2 * math.pi, 8 - 4 * math.pi, 2 - 2 * math.pi]),
    ],
)
def test_only_periodic_signals_are_made_continuous(period: float | None, drawn_as: list[float]) -> None:
    jumps = [0.0, 4.0, 8.0, 2.0]
    upper, _ = plots.fit(one_signal("m", period, jumps, jumps)).axes
    for line in upper.lines:
        np.testing.assert_allclose(line.get_ydata(), drawn_as, atol=1e-12)


def test_thinning_keeps_the_extremes_of_every_stretch() -> None:
    random = np.random.default_rng(3)
    for n in (3000, 3001, 4567, 100_003):
        t, y = np.arange(n, dtype=float), random.normal(size=n)
        kept_t, kept = plots.thinned(t, y)
        assert len(kept) <= 3000
        assert np.all(np.diff(kept_t) > 0)
        np.testing.assert_array_equal(kept, y[kept_t.astype(int)])
        assert (kept.max(), kept.min()) == (y.max(), y.min())
        length = -(-2 * n // 3000) if n > 3000 else 1
        for start in range(0, n, length * 97):
            stretch = y[start : start + length]
            assert {stretch.max(), stretch.min()} <= set(kept)


def test_a_signal_that_diverged_or_has_no_samples_says_so() -> None:
    s = solution()
    nothing = np.full_like(s.trajectories[0].observed, np.nan)
    for changes in ({"predicted": nothing}, {"observed": nothing}):
        figure = drawn(plots.fit(replace(s, trajectories=(replace(s.trajectories[0], **changes),))))
        assert "no residuals" in texts(figure)


# --- convergence ---


def test_costs_are_logarithmic_and_iterations_whole_numbers() -> None:
    s = solution()
    top, middle, bottom = drawn(plots.convergence(s)).axes
    assert top.get_yscale() == bottom.get_yscale() == "log"
    assert [line.get_label() for line in top.lines] == ["total", "state", "observation"]
    np.testing.assert_array_equal(top.lines[0].get_ydata(), [step.cost.total for step in s.history])
    np.testing.assert_array_equal(top.lines[2].get_xdata(), range(len(s.history)))
    assert all(tick == round(tick) for tick in bottom.get_xticks())
    assert [line.get_label() for line in middle.lines[1:]] == ["J", "b", "J_x"]
    assert all(line.get_ydata()[-1] == 0.0 for line in middle.lines[1:])
    assert np.isnan(bottom.lines[0].get_ydata()[0])  # the guess took no damping, and zero has no logarithm


def test_the_way_of_a_parameter_is_relative_to_its_largest_value() -> None:
    s = solution()
    steps = tuple(replace(s.history[0], iteration=k, parameters={"_b": b}) for k, b in enumerate((2.0, 4.0, 0.0)))
    figure = drawn(plots.convergence(replace(s, history=steps)))
    np.testing.assert_array_equal(figure.axes[1].lines[1].get_ydata(), [0.5, 1.0, 0.0])
    assert [text.get_text().strip() for text in figure.axes[1].get_legend().get_texts()] == ["_b"]


def test_of_many_parameters_those_that_go_farthest_are_named() -> None:
    s = solution()
    ways = [{f"wrist_link_{i:02}_{'viscous_' * 5}": 1.0 + i * k for i in range(90)} for k in (0.1, 0.0)]
    steps = tuple(replace(s.history[0], iteration=k, parameters=way) for k, way in enumerate(ways))
    figure = drawn(plots.convergence(replace(s, history=steps)))
    named = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert [name[11:13] for name in named[:-1]] == [f"{i}" for i in range(78, 90)]
    assert named[-1] == "78 that go less far"
    assert len(figure.axes[1].lines) == 1 + 90


def test_costs_without_a_logarithm_say_so() -> None:
    s = solution()
    figure = drawn(
        plots.convergence(replace(s, history=(replace(s.history[0], cost=Cost(math.nan, math.inf), damping=0.0),)))
    )
    assert texts(figure).count("no positive finite value") == 2


# --- parameters ---


def test_a_row_shows_estimate_interval_guess_and_words() -> None:
    s = solution()
    J = s["J"]
    axes = row(s, "J")
    (guess,), (estimate,) = ([one for one in axes.lines if one.get_marker() == marker][-1:] for marker in "|o")
    (interval,) = (one for one in axes.lines if one.get_linewidth() == 5)
    at = [float(line.get_xdata()[0]) for line in (guess, estimate)]
    scale = (J.estimate - J.initial) / (at[1] - at[0])
    shown = J.initial + (np.asarray(interval.get_xdata()) - at[0]) * scale
    np.testing.assert_allclose(shown, [J.estimate - 1.96 * J.std_err, J.estimate + 1.96 * J.std_err], rtol=1e-6)
    assert words(axes) == [f"{uncertain(J.estimate, J.std_err)} kg m²", "initial 0.004, bounds ≥ 1e-06"]


def test_parameters_without_an_error_look_different_and_say_why() -> None:
    s = solution()
    looks = {}
    for name, reason in {"J": None, "b": "at lower bound", "J_x": "the data do not determine it", "m": "fixed"}.items():
        axes = row(s, name)
        (estimate,) = (line for line in axes.lines if line.get_marker() in ("o", "s"))
        looks[name] = (estimate.get_marker(), estimate.get_color())
        assert reason is None or words(axes)[1].endswith(reason)
    assert looks["b"] == looks["J_x"]
    assert len(set(looks.values())) == 3


def row(s: Solution, name: str) -> Axes:
    """The figure of a parameter alone."""
    (axes,) = plots.parameters(replace(s, parameters={name: s[name]})).axes
    return axes


def words(axes: Axes) -> list[str]:
    """What stands on the right."""
    return [text.get_text() for text in axes.texts]


def test_of_many_rows_the_foremost_are_drawn_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pictures.foremost([1.0, 0.0, -1.0]) == [0, 1, 2]
    monkeypatch.setattr(pictures, "MOST_ROWS", 2)
    assert pictures.foremost([1.0, 3.0, -1.0, 2.0]) == [1, 3]
    text = plots.parameters(awkward()).get_suptitle()
    assert "the 2 of" in " ".join(text.split())
