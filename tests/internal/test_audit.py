"""The time-step audit: orders found by hand, steppers of known order, and the command with its folder."""

from __future__ import annotations

import json
import math
import re
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
    Solution,
    Spook,
    Status,
    Variational,
    gravity,
    load_problem,
)
from spookid.__main__ import main
from spookid.estimation.solving import solve
from spookid.studies import auditing as audit_plot
from spookid.studies import auditing as time_steps
from spookid.studies.auditing import Audit, Drift, drift
from spookid.tables.table import as_text

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
    model, recordings = Model([rod], [hinge], gravity=gravity(G)), settings.pop("recordings", [swing(1.0, 0.005)])
    return Problem("swing", model, recordings, [HingeAngle(hinge, signal="theta")], **settings)


# --- orders by hand ---


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("slope", [0.3, -70.0])
def test_order_and_extrapolation_of_a_power_of_the_step(order: int, slope: float) -> None:
    h = 0.1
    estimates = tuple(2.0 + slope * (h / 2**i) ** order for i in range(3))
    for expected in (1, 2):  # another one than the stepper's shows where nothing blurs it
        found = drift("J", "kg", estimates, math.nan, expected)
        assert (found.name, found.unit, found.estimates) == ("J", "kg", estimates)
        assert found.order == order
        assert found.extrapolated == pytest.approx(2.0)
        assert found.off == pytest.approx(slope * h**order)


def test_the_order_is_that_of_the_stepper_where_it_fits() -> None:
    nearly = drift("J", "", (1.42, 1.1, 1.0), math.nan, 2)  # differences of 0.32 and 0.1
    assert nearly.order == 2
    assert nearly.extrapolated == pytest.approx(1.0 - 0.1 / 3)
    blurred, clear = (drift("J", "", (1.4, 1.1, 1.03), std_err, 1) for std_err in (0.7, 0.1))
    assert math.isnan(blurred.order)
    assert clear.order == 2


@pytest.mark.parametrize(
    "estimates",
    [
        (1.0, 1.2, 0.9),  # to and fro
        (1.0, 1.2, 1.2),  # settled at once
        (1.0, 1.0, 1.3),  # as if for the first time
        (1.0, 1.1, 1.3),  # faster and faster
        (1.0, 1.1, 1.18),  # hardly slower
    ],
)
@pytest.mark.parametrize("std_err", [math.nan, 0.1])
def test_without_an_order_nothing_is_extrapolated(estimates: tuple[float, float, float], std_err: float) -> None:
    found = drift("J", "", estimates, std_err, 2)
    assert math.isnan(found.order)
    assert math.isnan(found.extrapolated)
    assert math.isnan(found.off)
    assert not found.fine


def test_what_moves_less_than_fits_converge_is_steady() -> None:
    found = drift("J", "", (1.0, 1.002, 1.001), 0.1, 2)
    assert math.isnan(found.order)
    assert (found.extrapolated, found.fine) == (1.001, True)
    assert drift("J", "", (1.0, 1.0, 1.0), math.nan, 2).extrapolated == 1.0


@pytest.mark.parametrize(
    ("estimates", "std_err", "fine"),
    [
        ((1.012, 1.003, 1.00075), math.nan, False),
        ((1.008, 1.002, 1.0005), math.nan, True),
        ((1.008, 1.002, 1.0005), 0.007, False),
        ((1.008, 1.002, 1.0005), 0.009, True),
        ((1.0, 1.2, 0.9), 0.29, False),
        ((1.0, 1.2, 0.9), 0.31, True),
        ((0.0, 0.0, 0.0), math.nan, True),
        ((-1.008, -1.002, -1.0005), 1e-9, False),
    ],
)
def test_a_step_is_fine_within_a_standard_error(
    estimates: tuple[float, float, float], std_err: float, fine: bool
) -> None:
    assert drift("J", "", estimates, std_err, 2).fine is fine


def of(*drifts: Drift, statuses: tuple[Status, ...] = (Status.CONVERGED,) * 3, name: str = "swing") -> Audit:
    return Audit(name, (0.02, 0.01, 0.005), statuses, drifts)


GOOD = drift("J", "kg m^2", (1.001, 1.0, 1.0), 0.1, 2)
COARSE = drift("b", "", (1.2, 1.1, 1.05), math.nan, 1)
ZERO = drift("c", "", (0.4, 0.1, 0.025), 0.05, 2)
ROUGH = drift("d", "", (1.0, 1.2, 0.9), 0.1, 2)


def test_the_verdict_names_what_moves() -> None:
    assert of(GOOD).verdict.startswith("the time step 0.02 s is fine enough")
    assert of(GOOD, COARSE, ZERO).verdict == (
        "the time step 0.02 s is too coarse for b (+20 %), c (+0.4, 8.0 standard errors); use a smaller step, the "
        "stepper Variational() or extrapolated values."
    )
    assert of(GOOD, ROUGH).verdict.startswith("Estimates of d show no order of convergence in the step: ")
    assert of(COARSE, ROUGH).verdict.count("extrapolated") == 1
    failed = of(GOOD, statuses=(Status.CONVERGED, Status.STALLED, Status.CONVERGED))
    assert failed.verdict == "no verdict: the fit with step 0.01 s did not converge."


def test_the_table_is_aligned_and_has_a_dash_for_what_is_not_known() -> None:
    found = of(GOOD, COARSE, ROUGH)
    lines = found.table().splitlines()
    assert lines[0] == f"swing: {found.verdict}"
    assert lines[2].split()[-7:] == ["bias", "of", "h", "/", "std.", "error", "order"]
    assert lines[3].split() == ["J", "1.00", "0.10", "10", "%", "kg", "m^2", "+0.1", "%", "0.01", "-"]
    assert lines[4].split() == ["b", "1.2", "+20", "%", "1"]
    assert lines[5].split() == ["d", "1.00", "0.10", "10", "%", "-", "none"]
    assert lines[7].endswith("at step 0")
    assert lines[8].split() == ["J", "[kg", "m²]", "1.001", "1", "1", "+0.1", "%", "1"]
    assert lines[9].split() == ["b", "1.2", "1.1", "1.05", "+20", "%", "1"]
    assert lines[10].split() == ["d", "1", "1.2", "0.9", "-", "-"]


# --- steppers ---


def test_what_the_step_adds_is_told_apart_from_the_noise() -> None:
    """The values at step 0 are within their errors of the truth, those at h are not: an exact motion, 1 mrad noise."""
    errors: list[list[tuple[float, float]]] = []
    for seed in range(3):
        clean = swing(6.0, 0.02)
        noise = np.random.default_rng(seed).normal(0.0, 1e-3, len(clean.t))
        noisy = Recording(clean.t, {"theta": clean.signals["theta"] + noise}, "swing")
        found = time_steps.audit(pendulum(Variational(), state_weight=None).with_(recordings=[noisy]))
        assert found.statuses == (Status.CONVERGED,) * 3
        assert found.drifts[0].order == 2
        off = [(d.std_err, d.extrapolated - TRUTH[d.name], d.estimates[0] - TRUTH[d.name]) for d in found.drifts]
        errors.append([(beyond / error, coarse / error) for error, beyond, coarse in off])
    at_zero, at_h = np.sqrt(np.mean(np.square(errors), axis=0)).T
    assert np.all(at_zero < 2)
    assert np.all(at_h > 3 * at_zero)


def test_the_refits_take_the_samples_and_the_noise_of_one_fit() -> None:
    seen: list[tuple[Problem, Solution | None, bool, Solution]] = []

    def fit(problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
        seen.append((problem, near, hold, solve(problem, "lm", {}, None, near, hold)))
        return seen[-1][-1]

    problem = pendulum(Variational(), state_weight=None, step_correction=True)
    found = time_steps.audit(problem, fit)
    assert found.steps == (0.02, 0.01, 0.005)
    assert [p.step for p, *_ in seen] == [0.02, 0.005, 0.02, 0.01]
    assert [p.step_correction for p, *_ in seen] == [True, False, False, False]
    assert [hold for _, _, hold, _ in seen] == [False, False, True, True]
    counts = {s.trajectories[0].samples.sum() for *_, s in seen}
    assert counts == {201}  # samples every 5 ms, whatever the step
    fine, *held = [s.noise for *_, s in seen[1:]]
    assert all(n.density == pytest.approx(m.density, nan_ok=True) for h in held for n, m in zip(h, fine, strict=True))


def test_an_audit_estimates_the_noise_at_every_step() -> None:
    found = time_steps.audit(pendulum(Variational(), state_weight=None))
    assert found.statuses == (Status.CONVERGED,) * 3
    assert found.drifts[0].order == 2
    assert found.drifts[0].extrapolated == pytest.approx(TRUTH["J"], rel=1e-3)


@pytest.mark.parametrize(("stepper", "order", "close"), [(Spook(), 1, 0.003), (Variational(), 2, 1e-4)])
def test_the_estimates_drift_with_the_order_of_the_stepper(
    stepper: Spook | Variational, order: int, close: float
) -> None:
    problem = pendulum(stepper)
    found = time_steps.audit(problem)
    assert found.statuses == (Status.CONVERGED,) * 3
    assert found.steps == (0.02, 0.01, 0.005)
    for d in found.drifts:
        assert d.estimates[0] == pytest.approx(problem.solve()[d.name].estimate, rel=1e-6)
        assert d.order == order
        assert d.extrapolated == pytest.approx(TRUTH[d.name], rel=close)
        assert abs(d.extrapolated - TRUTH[d.name]) < 0.3 * abs(d.estimates[2] - TRUTH[d.name])
    J = found.drifts[0]
    assert (J.name, J.unit) == ("J", "kg m^2")
    assert not J.fine
    assert "too coarse for J (" in found.verdict


def test_what_solve_takes_off_is_not_called_too_coarse() -> None:
    """The step adds several standard errors to the fits, and next to nothing to the estimates of solve."""
    true = swing(2.0, 0.01)
    theta = true.signal("theta") + 2e-3 * np.random.default_rng(0).normal(size=len(true.t))
    rigid = pendulum(Variational(), recordings=[true.with_signals(theta=theta)], state_weight=None)
    found = time_steps.audit(rigid)
    J = found.drifts[0]
    assert abs(J.estimates[0] - TRUTH["J"]) > 3 * J.std_err
    assert abs(J.solved - TRUTH["J"]) < 3 * J.std_err
    assert J.solved == pytest.approx(rigid.solve()["J"].estimate, abs=0.05 * J.std_err)
    assert J.fine
    assert "with half the step, no estimate of `solve`" in found.verdict


def test_fixed_parameters_are_not_audited() -> None:
    fixed = pendulum(Variational(), fixed=["b"], initial={"b": TRUTH["b"]})
    assert [d.name for d in time_steps.audit(fixed).drifts] == ["J"]


# --- the figure ---


def test_a_panel_a_parameter() -> None:
    figure = audit_plot.figure(of(GOOD, COARSE, ROUGH))
    figure.draw_without_rendering()
    J, b, d = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["J [kg m²]", "b", "d"]
    assert [axes.get_title(loc="right") for axes in figure.axes] == ["steady", "order 1", "no order seen"]
    for axes, one in zip(figure.axes, (GOOD, COARSE, ROUGH), strict=True):
        estimates, extrapolated = dots(axes)
        assert estimates == list(zip((0.02, 0.01, 0.005), one.estimates, strict=True))
        np.testing.assert_equal(extrapolated, [(0.0, one.extrapolated)])
    assert [len(axes.containers) for axes in (J, b, d)] == [1, 0, 1]  # error bars
    np.testing.assert_allclose(J.containers[0][2][0].get_segments()[0], [[0.005, 0.9], [0.005, 1.1]])
    way = b.lines[0]
    np.testing.assert_allclose(np.interp([0, 0.005, 0.01, 0.02], *way.get_data()), [1.0, 1.05, 1.1, 1.2])
    assert J.lines[-1].get_color() != b.lines[-1].get_color() == d.lines[-1].get_color()


def dots(axes: Axes) -> list[list[tuple[float, float]]]:
    """Points of the estimates, and of the extrapolated value."""
    found = {line.get_marker(): line for line in axes.lines}
    return [[(float(x), float(y)) for x, y in zip(*found[m].get_data(), strict=True)] for m in "oD"]


def test_what_hardly_moves_looks_flat() -> None:
    low, high = audit_plot.figure(of(drift("K", "", (0.1 + 1e-14, 0.1, 0.1), math.nan, 2))).axes[0].get_ylim()
    assert high - low == pytest.approx(0.002)


@pytest.mark.parametrize("count", [0, 5])
def test_any_number_of_panels_is_shown(count: int) -> None:
    drifts = [replace(COARSE, name=f"name_{i}", unit="$", std_err=math.nan if i % 2 else 0.02) for i in range(count)]
    figure = audit_plot.figure(of(*drifts, name="a $x$"))
    figure.draw_without_rendering()
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == count
    assert [axes.get_xlabel() for axes in shown].count("step [s]") == min(count, 4)


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
    monkeypatch.setattr("spookid.report.pictures.DPI", 20)
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
    assert out == as_text(time_steps.audit(load_problem("swing.py")).blocks(), 80) + "\n"
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == ["run.csv", "swing.py"]
    assert not Path("results").exists()
    assert main(["audit", "swing.py", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_folder_holds_numbers_table_and_figure(here: Path, drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--step", "0.04", "--stepper", "variational", "--state-weight", "inf", "--set", "b=0.02", "--fix", "b"]
    assert main(["audit", write(FILE), *flags, "--out", "deep/out"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n\nWritten to deep/out\n")
    assert {path.name for path in Path("deep/out").iterdir()} == {"audit.json", "audit.txt", "audit.png"}
    assert out.splitlines()[2] in Path("deep/out/audit.txt").read_text()
    assert Path("deep/out/audit.png").read_bytes().startswith(b"\x89PNG")
    tree = document("deep/out")
    assert (tree["schema"], tree["problem"], tree["steps"]) == (2, "swing", [0.04, 0.02, 0.01])
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
        "solved": None,
        "off": J.off,
        "fine": J.fine,
    }


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    audit_plot.answer(of(replace(COARSE, order=math.nan, extrapolated=math.inf)), "swing").save(
        tmp_path / "out", "audit.json"
    )
    entry = json.loads((tmp_path / "out" / "audit.json").read_text())["parameters"]["b"]
    assert [entry[key] for key in ("std_err", "order", "extrapolated", "off", "fine")] == [
        None,
        None,
        None,
        None,
        False,
    ]


def test_fits_that_do_not_converge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", write(FILE), "--max-iterations", "1", "--out", "out"]) == 3
    out, err = capsys.readouterr()
    assert "no verdict: the fit with step 0.02 s and 0.01 s and 0.005 s did not converge." in " ".join(out.split())
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
    fits = []

    def interrupted(problem: Problem, backend: str, options: Any, callback: Any, *near: Any) -> Solution:
        fits.append(problem.step)

        def interrupt(iteration: Any) -> None:
            callback(iteration)
            if len(fits) == fit and iteration.iteration == 1:
                signal.raise_signal(signal.SIGINT)

        return solve(problem, backend, options, interrupt, *near)

    monkeypatch.setattr("spookid.cli.runner.solve", interrupted)
    assert main(["audit", write(FILE), "--out", "out"]) == 130
    kept = "; 1 of its fits are saved; repeat the command to resume" if fit == 2 else ""
    assert capsys.readouterr() == ("", f"spookid: interrupted before swing was done{kept}\n")
    assert fits == [0.02, 0.005][:fit]
    assert not Path("out").exists()


def test_progress_names_the_step(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spookid.cli.terminal.wanted", lambda quiet: not quiet)
    assert main(["audit", write(FILE), "--step", "0.04"]) == 0
    shown = capsys.readouterr().err.split("\r")
    for step in ("0.04", "0.02", "0.01"):
        assert any(re.fullmatch(rf"swing,.* step {step} s: building", line) for line in shown)
        assert any(re.match(rf"swing,.* step {step} s: iteration 1  cost ", line) for line in shown)
    assert main(["audit", "swing.py", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
