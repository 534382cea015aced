"""Payloads: π in another frame, the regression against differences and by hand, twins of an arm, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from payload_twins import LOAD, TURN, declared, folder_with, links, run

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Problem,
    ProblemError,
    Recording,
    gravity,
    load,
    load_problem,
)
from spookid.__main__ import main
from spookid.report import pictures
from spookid.statistics.prior_regression import Normal, Rows, _Fit, correlation_time, regress
from spookid.studies.payload_notices import ArmKnowledge
from spookid.studies.payload_rows import shifted


def test_a_distribution_in_another_frame_is_that_of_its_points() -> None:
    rng = np.random.default_rng(1)
    points, masses, at = rng.normal(size=(5, 3)), rng.uniform(1, 2, 5), rng.normal(size=3)

    def pi(places: Any) -> Any:
        about = sum(m * (x @ x * np.eye(3) - np.outer(x, x)) for m, x in zip(masses, places, strict=True))
        entries = [about[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
        return np.array([masses.sum(), *(masses @ places), *entries])

    found = ca.DM(shifted(ca.SX(pi(points)), at, TURN)).full()[:, 0]
    np.testing.assert_allclose(found, pi(points @ TURN.T + at), rtol=1e-12, atol=1e-12)


# --- the regression ---


def rows_of(rng: np.random.Generator, count: int = 400) -> tuple[Rows, Normal]:
    """Two channels, three parameters, of which the first two are gains, and two φ."""
    slopes, columns = rng.normal(size=(count, 2, 3)), rng.normal(size=(count, 2, 2))
    gains = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    counted = np.ones((count, 2))
    rows = Rows(np.arange(count) * 0.1, rng.normal(size=(count, 2)), slopes, columns, gains, counted)
    return rows, Normal(np.array([0.1, -0.1, 0.2]), rng.normal(size=(3, 3)) * 0.3)


def test_slopes_of_the_rows_are_those_of_differences() -> None:
    rows, belief = rows_of(np.random.default_rng(2))
    fit = _Fit(rows, belief, np.full(2, np.nan))
    fit._z, fit._phi = np.array([0.3, -0.2, 0.5]), np.array([2.0, -1.0])

    def half_square(unknowns: Any) -> float:
        fit._z, fit._phi = unknowns[:3], unknowns[3:]
        delta = belief.mean + belief.root @ fit._z
        e = rows.residuals + rows.slopes @ delta + rows.columns @ fit._phi * np.exp(-rows.gains @ delta)
        np.testing.assert_allclose(fit._residuals(), e, atol=1e-12)
        return 0.5 * float(np.sum(e**2 / [1.0, 4.0]))

    at = np.concatenate([fit._z, fit._phi])
    gradient, information = fit._equations(fit._products.sum(axis=0), np.array([1.0, 4.0]))
    steps = 1e-6 * np.eye(5)
    differences = [(half_square(at + step) - half_square(at - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6)
    assert np.linalg.eigvalsh(information).min() > 0


def test_without_gains_it_is_bayesian_linear_regression() -> None:
    rng = np.random.default_rng(3)
    rows, belief = rows_of(rng, 4000)
    rows = Rows(rows.t, rows.residuals, rows.slopes, rows.columns, 0 * rows.gains, rows.counted)
    found = regress(rows, belief, np.full(2, np.nan), np.full(2, np.nan))
    design = np.concatenate([rows.slopes @ belief.root, rows.columns], axis=2) / found.sizes[:, None]
    design /= np.sqrt([correlation_time(one) for one in _residuals(rows, found).T])[:, None]
    first = (rows.residuals + rows.slopes @ belief.mean) / found.sizes
    first /= np.sqrt([correlation_time(one) for one in _residuals(rows, found).T])
    information = np.einsum("tjk,tjl->kl", design, design) + np.diag([1.0, 1, 1, 0, 0])
    expected = -np.linalg.solve(information, np.einsum("tjk,tj->k", design, first))
    np.testing.assert_allclose(found.estimates, expected[3:], rtol=1e-5)
    plain = np.sqrt(np.diag(np.linalg.inv(information)))[3:]
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), plain, rtol=0.5)  # white rows: the jackknife agrees


def _residuals(rows: Rows, found: Any) -> Any:
    return rows.residuals + rows.slopes @ found.found.mean + rows.columns @ found.estimates


def test_what_no_row_sees_has_no_error_and_what_is_given_stays() -> None:
    rows, belief = rows_of(np.random.default_rng(4))
    columns = rows.columns.copy()
    columns[:, :, 1] = 0.0
    rows = Rows(rows.t, rows.residuals, rows.slopes, columns, rows.gains, rows.counted)
    found = regress(rows, belief, np.full(2, np.nan), np.full(2, np.nan))
    assert np.isfinite(found.covariance[0, 0])
    assert np.isnan(found.covariance[1, 1])
    given = regress(rows, belief, np.array([2.0, np.nan]), np.full(2, np.nan))
    assert (given.estimates[0], given.covariance[0, 0]) == (2.0, 0.0)


def test_samples_that_are_as_one() -> None:
    rng, keep = np.random.default_rng(5), 0.9
    values = np.zeros(20_000)
    for k in range(1, len(values)):
        values[k] = keep * values[k - 1] + rng.normal()
    assert correlation_time(values) == pytest.approx((1 + keep) / (1 - keep), rel=0.2)
    assert correlation_time(rng.normal(size=20_000)) == pytest.approx(1, abs=0.2)


# --- a twin ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem file with its results, and logs."""
    place = tmp_path_factory.mktemp("payload")
    folder_with(place, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "drawn", lambda *_: "")  # which takes longer than all of this
        assert main(["solve", str(place / "arm.py"), "--out", str(place / "results"), "--quiet"]) == 0
    return place


def spookid(folder: Path, log: str, *more: str) -> int:
    """The command."""
    return main(["payload", str(folder / "results"), str(folder / log), "--body", "flange", *more])


def test_a_known_payload_calibrates_the_next(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, out = folder / "known.json", folder / "out.json"
    assert spookid(folder, "half.csv", "--known-mass", "0.6", "--out", str(known)) == 0
    assert spookid(folder, "loaded.csv", "--calibration", str(known), "--out", str(out)) == 0
    told = capsys.readouterr().out
    assert "arm: payload on flange, mass " in told
    assert "in recording loaded, low-passed at " in told
    found = {row["quantity"]: row for row in json.loads(out.read_text())["quantities"]}
    alone = load_problem(folder / "arm.py").payload(
        load(folder / "results"), Recording.from_csv(folder / "loaded.csv"), "flange"
    )
    assert found["mass"]["std_err"] < 0.03 * LOAD["mass"] < alone["mass"].std_err
    assert alone["mass"].from_prior > 0.5  # the arm's
    assert "payload.scale" in [finding.code for finding in alone.findings]
    for name in ("mass", "c_x", "c_z"):
        for estimate, error in ((found[name]["estimate"], found[name]["std_err"]), _pair(alone[name])):
            assert abs(estimate - LOAD[name]) < 3 * error, name
    whole = np.array(json.loads(out.read_text())["pi"]["covariance"])
    assert np.linalg.eigvalsh(whole).min() > 0
    np.testing.assert_allclose(np.sqrt(whole[0, 0]), found["mass"]["std_err"])


def _pair(value: Any) -> tuple[float, float]:
    return value.estimate, value.std_err


def test_without_a_payload_there_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert spookid(folder, "empty.csv") == 0
    told = capsys.readouterr().out
    assert told.startswith("arm: no significant payload on flange, mass ")
    assert "nan" not in told
    assert spookid(folder, "empty.csv", "--verbose") == 0
    assert "The estimated payload does not differ from zero" in capsys.readouterr().out
    assert spookid(folder, "empty.csv", "--known-mass", "0") == 0
    assert "calibrated with no payload" in capsys.readouterr().out


def test_rest_and_gaps_do_no_harm(folder: Path) -> None:
    problem, result = load_problem(folder / "arm.py"), load(folder / "results")
    whole = Recording.from_csv(folder / "loaded.csv")
    rest = np.arange(1, 201) * 0.01
    still = {name: np.append(values, np.full(200, values[-1])) for name, values in whole.signals.items()}
    for i in range(3):  # what holds it is friction, and may be anything within that
        still[f"i_{i}"][-200:] += 0.1
    kept = np.ones(len(whole.t) + 200, dtype=bool)
    kept[300:380] = False
    t = np.append(whole.t, whole.t[-1] + rest)
    broken = Recording(t[kept], {name: values[kept] for name, values in still.items()}, "broken")
    one, other = (problem.payload(result, log, "flange") for log in (whole, broken))
    assert abs(one["mass"].estimate - other["mass"].estimate) < one["mass"].std_err
    assert any("around gaps" in notice for notice in other.notices)


def test_another_arm_is_told(folder: Path) -> None:
    problem, result = load_problem(folder / "arm.py"), load(folder / "results")
    log = Recording.from_csv(folder / "loaded.csv")
    exchanged = log.with_signals(i_0=log.signals["i_2"], i_2=log.signals["i_0"])
    found = problem.payload(result, exchanged, "flange")
    assert not found.fits
    assert found.findings[0].code == "payload.misfit"
    assert "does not fit the model of the arm" in found.notices[0]
    assert "payload.misfit" in found.blocks()[1]
    assert problem.payload(result, log, "flange").fits


def test_wrong_units_are_no_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Recording.from_csv(folder / "loaded.csv")
    log.with_signals(**{f"i_{k}": 1000 * log.signals[f"i_{k}"] for k in range(3)}).to_csv(folder / "thousands.csv")
    assert spookid(folder, "thousands.csv") == 3
    told = capsys.readouterr()
    assert "no payload" not in told.out
    assert "thousands.csv does not fit the arm" in told.err


def test_less_than_the_arm_had_is_negative(folder: Path) -> None:
    """Half of the load is taken off: currents are linear in it."""
    own = links(np.random.default_rng(4), 1)
    empty, loaded = (run(np.random.default_rng(5), own, "lighter", scale) for scale in (0.0, 1.0))
    signals = {f"i_{k}": 1.5 * empty.signals[f"i_{k}"] - 0.5 * loaded.signals[f"i_{k}"] for k in range(3)}
    lighter = empty.with_signals(**signals)
    found = load_problem(folder / "arm.py").payload(load(folder / "results"), lighter, "flange")
    assert found["mass"].estimate < -3 * found["mass"].std_err
    assert found["c_x"].reason == "the mass is negative"
    assert "payload.negative-mass" in [finding.code for finding in found.findings]
    assert not any("There is no payload" in notice for notice in found.notices)


def test_a_run_begins_where_all_signals_have_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, result = load_problem(folder / "arm.py"), load(folder / "results")
    log = Recording.from_csv(folder / "loaded.csv")
    late = {"i_0": log.signals["i_0"].copy(), "q_2": log.signals["q_2"].copy()}
    late["i_0"][:3], late["q_2"][-2:] = np.nan, np.nan
    found = problem.payload(result, log.with_signals(**late), "flange")
    assert (
        "Times of the run at which a signal has no value are not used: 0.03 s at the beginning and 0.02 s at the end."
        in (found.notices)
    )
    assert found["mass"].estimate == pytest.approx(LOAD["mass"], abs=3 * found["mass"].std_err)
    (folder / "none.json").mkdir()
    for more, words in ((("--cutoff", "51"), "has 100 samples per second"), (("--out", "none.json"), "is a folder")):
        given = [str(folder / one) if one == "none.json" else one for one in more]
        assert spookid(folder, "loaded.csv", *given) == 2
        assert words in capsys.readouterr().err


def test_what_cannot_be_told_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, result = load_problem(folder / "arm.py"), load(folder / "results")
    log = Recording.from_csv(folder / "loaded.csv")
    calls = [
        (lambda: problem.payload(result, log, "hand"), "no body 'hand'; it has pan, tilt, elbow, .* flange"),
        (lambda: problem.payload(result, log, "flange", known_mass=-1.0), "known mass is -1.0 kg; give"),
        (lambda: problem.payload(result, log, "flange", values={"K_pan": 1.0}), "'K_pan' is no parameter that each"),
        (lambda: problem.payload(result, log.between(0, 0.5), "flange"), "too short for a filter with a cutoff"),
        (lambda: pendulum().payload(result, log, "rod"), "lack|no signal"),
    ]
    for call, words in calls:
        with pytest.raises(ProblemError, match=words):
            call()
    other = ArmKnowledge.of(result)
    moved = ArmKnowledge(other.names, other.estimates + 0.1, other.belief)
    with pytest.raises(ProblemError, match="was made with other results"):
        problem.payload(result, log, "flange", calibration=moved)
    (folder / "bad.json").write_text('{"arm": {"parameters": ["a"]}}', encoding="utf-8")
    (folder / "thin.csv").write_text("t,q_0,q_1,q_2\n0,0,0,0\n1,0,0,0\n", encoding="utf-8")
    commands = [
        (("loaded.csv", "--calibration", str(folder / "bad.json")), "has no 'fitted'"),
        (("thin.csv",), "has no 'i_0', which 'arm' was fitted with"),
        (("loaded.csv", "--out", "x.txt"), "ends in .json"),
        (("loaded.csv", "--problem", str(folder / "none.py")), "cannot be read"),
    ]
    for (log_name, *more), words in commands:
        assert spookid(folder, log_name, *more) == 2
        assert words in capsys.readouterr().err


def pendulum() -> Problem:
    """Another one."""
    rod = Body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1))
    hinge = Hinge("pin", GROUND.frame(), rod.frame(at=(0, 0, 0.3)))
    return Problem(
        "pendulum", Model([rod], [hinge], gravity=gravity(9.81)), (), [HingeAngle(hinge, "theta")], step=0.01
    )


@pytest.mark.study
def test_errors_cover() -> None:
    """Mass and centre of 20 arms, with gains known to 10 %, and calibrated with half the load."""
    scores: list[list[float]] = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        own = links(rng)
        empty, loaded, half = (run(rng, own, n, s) for n, s in (("empty", 0.0), ("loaded", 1.0), ("half", 0.5)))
        problem = declared([empty])
        result = problem.solve()
        known = problem.payload(result, half, "flange", known_mass=0.5 * LOAD["mass"])
        for calibration in (None, known):
            found = problem.payload(result, loaded, "flange", calibration=calibration)
            scores.append([(found[n].estimate - LOAD[n]) / found[n].std_err for n in ("mass", "c_x", "c_y", "c_z")])
    assert 0.90 <= np.mean(np.abs(scores) < 1.96) <= 0.99
