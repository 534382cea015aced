"""The time-step audit: orders found by hand, steppers of known order, and the command with its folder."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    Spook,
    Variational,
    audit_plot,
    gravity,
    load_problem,
)
from spookid import audit as time_steps
from spookid.audit import Audit, Drift, drift
from spookid.cli import main
from spookid.solution import Solution
from spookid.solvers.status import Status

MASS, LENGTH, G = 0.5, 0.2, 9.81
TRUTH = {"J": 0.005, "b": 0.02}


def swing(duration: float, interval: float) -> Recording:
    """A pendulum released at 1 rad, by an integrator that is exact to round-off."""
    inertia = TRUTH["J"] + MASS * LENGTH**2

    def rates(_: float, y: np.ndarray) -> list[float]:
        return [y[1], (-MASS * G * LENGTH * math.sin(y[0]) - TRUTH["b"] * y[1]) / inertia]

    t = np.arange(round(duration / interval) + 1) * interval
    theta = solve_ivp(rates, (0, t[-1]), [1.0, 0.0], t_eval=t, rtol=1e-11, atol=1e-12).y[0]
    return Recording(t, {"theta": theta}, "swing")


def pendulum(stepper: Spook | Variational, **changes: Any) -> Problem:
    """The same pendulum with unknown inertia and friction."""
    J, b = Parameter("J", 0.006, lower=1e-6, unit="kg m^2"), Parameter("b", 0.01, lower=0)
    rod = Body("rod", mass=MASS, inertia=(1e-4, J, J))
    axle, pivot = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("hinge", axle, pivot, viscous=b, compliance=1e-6, damping=0.04)
    settings: dict[str, Any] = {"step": 0.02, "state_weight": 1e4, "stepper": stepper, **changes}
    model = Model([rod], [hinge], gravity=gravity(G))
    return Problem("swing", model, [swing(1.0, 0.005)], [HingeAngle(hinge, signal="theta")], **settings)


# --- orders by hand ---


@pytest.mark.parametrize("order", [0.6, 1.0, 1.5, 2.0, 3.9])
@pytest.mark.parametrize("slope", [0.3, -70.0])
def test_order_and_extrapolation_of_a_power_of_the_step(order: float, slope: float) -> None:
    h = 0.1
    estimates = tuple(2.0 + slope * (h / 2**i) ** order for i in range(3))
    found = drift("J", "kg", estimates, math.nan)
    assert (found.name, found.unit, found.estimates) == ("J", "kg", estimates)
    assert found.order == pytest.approx(order)
    assert found.extrapolated == pytest.approx(2.0)
    assert found.off == pytest.approx(slope * h**order)


@pytest.mark.parametrize(
    "estimates",
    [
        (1.0, 1.2, 0.9),  # to and fro
        (1.0, 1.2, 1.2),  # settled at once
        (1.0, 1.0, 1.0),
        (1.0, 1.0, 1.3),  # as if for the first time
        (1.0, 1.1, 1.3),  # faster and faster
        (1.0, 2.0, 2.01),  # more than fourth order
        (1.0, 1.1, 1.18),  # hardly slower
    ],
)
def test_without_an_order_the_last_estimate_counts(estimates: tuple[float, float, float]) -> None:
    found = drift("J", "", estimates, 0.1)
    assert math.isnan(found.order)
    assert found.extrapolated == estimates[2]
    assert found.off == estimates[0] - estimates[2]


@pytest.mark.parametrize(
    ("estimates", "std_err", "fine"),
    [
        ((1.009, 1.0, 1.0), math.nan, True),
        ((1.011, 1.0, 1.0), math.nan, False),
        ((1.011, 1.0, 1.0), 0.006, True),
        ((0.5, 0.0, 0.0), 0.2, False),
        ((0.5, 0.0, 0.0), 0.3, True),
        ((0.0, 0.0, 0.0), math.nan, True),
        ((-1.009, -1.0, -1.0), 1e-9, True),
        ((-1.011, -1.0, -1.0), 1e-9, False),
    ],
)
def test_a_step_is_fine_within_one_per_cent_or_two_standard_errors(
    estimates: tuple[float, float, float], std_err: float, fine: bool
) -> None:
    assert drift("J", "", estimates, std_err).fine is fine


def of(*drifts: Drift, statuses: tuple[Status, ...] = (Status.CONVERGED,) * 3, name: str = "swing") -> Audit:
    return Audit(name, (0.02, 0.01, 0.005), statuses, drifts)


GOOD = drift("J", "kg m^2", (1.001, 1.0, 1.0), 0.1)
COARSE = drift("b", "", (1.2, 1.1, 1.05), math.nan)
ZERO = drift("c", "", (0.5, 0.0, 0.0), math.nan)


def test_the_verdict_names_what_moves() -> None:
    assert of(GOOD).verdict.startswith("The step 0.02 s is fine enough")
    assert of(GOOD, COARSE, ZERO).verdict.startswith("The step 0.02 s is too coarse for b (+20.00%), c (+0.5);")
    failed = of(GOOD, statuses=(Status.CONVERGED, Status.STALLED, Status.CONVERGED))
    assert failed.verdict == "No verdict: the fit at step 0.01 s did not converge."


def test_the_table_is_aligned_and_has_a_dash_for_what_is_not_known() -> None:
    lines = of(GOOD, COARSE).table().splitlines()
    assert lines[0] == "Time-step audit of swing"
    assert lines[2].split("  ")[-1] == "off at h"
    assert lines[3].split() == ["J", "[kg", "m^2]", "1.001", "1", "1", "0.1", "-", "1", "+0.10%"]
    assert lines[4].split() == ["b", "1.2", "1.1", "1.05", "-", "1.0", "1", "+20.00%"]
    assert len({len(line) for line in lines[2:5]}) == 1
    assert lines[-1] == of(GOOD, COARSE).verdict


# --- steppers ---


def test_an_audit_estimates_the_noise_at_every_step() -> None:
    found = time_steps.audit(pendulum(Variational(), state_weight=None))
    assert found.statuses == (Status.CONVERGED,) * 3
    assert found.drifts[0].order == pytest.approx(2.0, abs=0.2)
    assert found.drifts[0].extrapolated == pytest.approx(TRUTH["J"], rel=1e-3)


@pytest.mark.parametrize(("stepper", "order", "close"), [(Spook(), 1, 0.003), (Variational(), 2, 1e-4)])
def test_the_estimates_drift_with_the_order_of_the_stepper(
    stepper: Spook | Variational, order: int, close: float
) -> None:
    seen: list[tuple[float, Solution]] = []
    problem = pendulum(stepper)

    def fit(step: float) -> Solution:
        seen.append((step, problem.solve(step=step)))
        return seen[-1][1]

    found = time_steps.audit(problem, fit)
    assert found.statuses == (Status.CONVERGED,) * 3
    assert found.steps == tuple(step for step, _ in seen) == (0.02, 0.01, 0.005)
    assert [solution.step for _, solution in seen] == list(found.steps)
    for d in found.drifts:
        assert d.estimates == tuple(solution[d.name].estimate for _, solution in seen)
        assert d.std_err == seen[0][1][d.name].std_err
        assert d.order == pytest.approx(order, abs=0.3)
        assert d.extrapolated == pytest.approx(TRUTH[d.name], rel=close)
        assert abs(d.extrapolated - TRUTH[d.name]) < 0.3 * abs(d.estimates[2] - TRUTH[d.name])
    J = found.drifts[0]
    assert (J.name, J.unit) == ("J", "kg m^2")
    assert not J.fine
    assert "too coarse for J (" in found.verdict


def test_fixed_parameters_are_not_audited() -> None:
    fixed = pendulum(Variational(), fixed=["b"], initial={"b": TRUTH["b"]})
    assert [d.name for d in time_steps.audit(fixed).drifts] == ["J"]


# --- the figure ---


def test_a_panel_a_parameter() -> None:
    figure = audit_plot.figure(of(GOOD, COARSE, ZERO))
    figure.draw_without_rendering()
    J, b, c = figure.axes
    assert [axes.get_title(loc="left") for axes in (J, b, c)] == ["J [kg m²]", "b", "c"]
    assert [axes.get_title(loc="right") for axes in (J, b, c)] == ["no order", "order 1.0", "no order"]
    for axes, d in zip((J, b, c), (GOOD, COARSE, ZERO), strict=True):
        estimates, extrapolated = dots(axes)
        assert estimates == list(zip((0.02, 0.01, 0.005), d.estimates, strict=True))
        assert extrapolated == [(0.0, d.extrapolated)]
    assert [len(axes.containers) for axes in (J, b, c)] == [1, 0, 0]  # error bars
    np.testing.assert_allclose(J.containers[0][2][0].get_segments()[0], [[0.02, 0.901], [0.02, 1.101]])
    way = b.lines[0]
    np.testing.assert_allclose(np.interp([0, 0.005, 0.01, 0.02], *way.get_data()), [1.0, 1.05, 1.1, 1.2])
    assert J.lines[-1].get_color() != b.lines[-1].get_color() == c.lines[-1].get_color()


def dots(axes: Axes) -> list[list[tuple[float, float]]]:
    """Points of the estimates, and of the extrapolated value."""
    found = {line.get_marker(): line for line in axes.lines}
    return [[(float(x), float(y)) for x, y in zip(*found[m].get_data(), strict=True)] for m in "oD"]


def test_what_hardly_moves_looks_flat() -> None:
    low, high = audit_plot.figure(of(drift("K", "", (0.1 + 1e-14, 0.1, 0.1), math.nan))).axes[0].get_ylim()
    assert high - low == pytest.approx(0.002)


@pytest.mark.parametrize("count", [0, 1, 5, 13])
def test_any_number_of_panels_fits_the_figure(count: int) -> None:
    drifts = [replace(COARSE, name=f"name_{i}", unit="$", std_err=math.nan if i % 2 else 0.02) for i in range(count)]
    figure = audit_plot.figure(of(*drifts, name="a $x$"))
    figure.draw_without_rendering()
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == count
    assert [axes.get_xlabel() for axes in shown].count("step [s]") == min(count, 4)
    boxes = [axes.get_tightbbox() for axes in (*shown, *figure.legends)]
    for i, a in enumerate(boxes):
        assert min(a.x0, a.y0) >= -1
        assert (a.x1 - 1, a.y1 - 1) <= (figure.bbox.x1, figure.bbox.y1)
        assert not any(a.overlaps(b) for b in boxes[:i])


# --- the command ---

FILE = '''"""A pendulum."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

J, b = Parameter("J", 0.006, lower=1e-6, unit="kg m^2"), Parameter("b", 0.01, lower=0)
rod = Body("rod", mass=0.5, inertia=(1e-4, J, J))
up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", up, out, viscous=b, compliance=1e-6, damping=0.04)
run = Recording.from_csv(Path(__file__).parent / "run.csv", name="run")
model = Model([rod], [hinge], gravity=gravity(9.81))
problem = Problem("swing", model, [run], [HingeAngle(hinge, signal="theta")], step=0.02, state_weight=1e4)
'''
TWO = FILE.replace("problem = ", "one = ") + 'problems = {"a": one, "b": one.with_(name="blind", recordings=[])}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a recording."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spookid.pictures.DPI", 20)
    swing(1.0, 0.005).to_csv(tmp_path / "run.csv")
    return tmp_path


def write(text: str) -> str:
    Path("swing.py").write_text(text)
    return "swing.py"


def document(folder: str) -> dict[str, Any]:
    return json.loads((Path(folder) / "audit.json").read_text())


def test_the_command_prints_the_table_and_writes_nothing_unless_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", write(FILE)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == time_steps.audit(load_problem("swing.py")).table() + "\n"
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == ["run.csv", "swing.py"]
    assert not Path("results").exists()
    assert main(["audit", "swing.py", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_folder_holds_numbers_table_and_figure(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--step", "0.04", "--stepper", "variational", "--state-weight", "inf", "--set", "b=0.02", "--fix", "b"]
    assert main(["audit", write(FILE), *flags, "--out", "deep/out"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n\nWritten to deep/out\n")
    assert {path.name for path in Path("deep/out").iterdir()} == {"audit.json", "audit.txt", "audit.png"}
    assert out.startswith(Path("deep/out/audit.txt").read_text())
    assert Path("deep/out/audit.png").read_bytes().startswith(b"\x89PNG")
    tree = document("deep/out")
    assert (tree["schema"], tree["problem"], tree["steps"]) == (1, "swing", [0.04, 0.02, 0.01])
    assert tree["statuses"] == ["converged"] * 3
    assert list(tree["parameters"]) == ["J"]
    options = {"step": 0.04, "state_weight": math.inf, "initial": {"b": 0.02}, "fixed": ["b"]}
    found = time_steps.audit(load_problem("swing.py").with_(stepper=Variational(), **options))
    (J,) = found.drifts
    assert tree["verdict"] == found.verdict
    assert tree["parameters"]["J"] == {
        "unit": "kg m^2",
        "estimates": list(J.estimates),
        "std_err": J.std_err,
        "order": J.order,
        "extrapolated": J.extrapolated,
        "off": J.off,
        "fine": J.fine,
    }


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    audit_plot.save(tmp_path / "out", of(replace(COARSE, order=math.nan, extrapolated=math.inf)))
    entry = json.loads((tmp_path / "out" / "audit.json").read_text())["parameters"]["b"]
    assert [entry[key] for key in ("std_err", "order", "extrapolated", "off", "fine")] == [None, None, None, None, True]


def test_fits_that_do_not_converge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", write(FILE), "--max-iterations", "1", "--out", "out"]) == 3
    out, err = capsys.readouterr()
    assert "No verdict: the fit at step 0.02 s and 0.01 s and 0.005 s did not converge." in out
    statuses = ", ".join(f"{step} s (max_iterations)" for step in (0.02, 0.01, 0.005))
    assert err == f"spookid: swing is not converged with the step {statuses}\n"
    assert document("out")["statuses"] == ["max_iterations"] * 3


def test_wrong_input(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(*arguments: str) -> str:
        assert main(["audit", *arguments]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err

    path = write(FILE)
    assert "--set c: swing.py has no parameter 'c'" in wrong(path, "--set", "c=1")
    assert "step is -1.0; it must be a positive number" in wrong(path, "--step", "-1")
    flags = ("--state-weight", "inf", "--stepper", "spook")
    assert "an infinite state_weight needs the stepper Variational()" in wrong(path, *flags)
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    assert "full is not empty and holds no earlier audit.json, so it is left alone" in wrong(path, "--out", "full")
    assert [entry.name for entry in Path("full").iterdir()] == ["notes.txt"]


def test_several_problems_have_their_own_folders(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", write(TWO), "--out", "out"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("spookid: error: b: ")
    assert "needs recordings and observations" in err
    assert out.endswith("Written to out/a\n\n")
    assert [path.name for path in Path("out").iterdir()] == ["a"]


@pytest.mark.parametrize("fit", [1, 2])
def test_an_interrupt_ends_the_audit_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fit: int
) -> None:
    solve, fits = Problem.solve, []

    def interrupted(problem: Problem, *arguments: Any, callback: Any, **options: Any) -> Solution:
        fits.append(options["step"])

        def interrupt(iteration: Any) -> None:
            callback(iteration)
            if len(fits) == fit and iteration.iteration == 1:
                signal.raise_signal(signal.SIGINT)

        return solve(problem, *arguments, callback=interrupt, **options)

    monkeypatch.setattr(Problem, "solve", interrupted)
    assert main(["audit", write(FILE), "--out", "out"]) == 130
    assert capsys.readouterr() == ("", "spookid: interrupted; nothing of swing was written\n")
    assert fits == [0.02, 0.01][:fit]
    assert not Path("out").exists()


def test_progress_names_the_step(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spookid.progress.wanted", lambda quiet: not quiet)
    assert main(["audit", write(FILE), "--step", "0.04"]) == 0
    shown = capsys.readouterr().err.split("\r")
    for step in ("0.04", "0.02", "0.01"):
        assert f"swing, step {step} s: building" in shown
        assert any(line.startswith(f"swing, step {step} s: iteration 1  cost ") for line in shown)
    assert main(["audit", "swing.py", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
