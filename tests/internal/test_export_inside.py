"""The inside of what ``test_export`` tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from solutions import STEPS, awkward, difference, estimated, solution
from test_export import FILES, NUMBER, TEXT, mismatch, refuse, rewrite
from test_export import copy as copy
from test_export import folder as folder

from spookid import ProblemError, Solution, load
from spookid.__main__ import main
from spookid.report import plots
from spookid.report.export import MARKER, save
from spookid.results.folders import check_target
from spookid.results.trajectory import rms, rms_of_samples


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that cost no time, where they are not what is tested."""
    for name in ("fit", "convergence", "parameters"):
        monkeypatch.setattr(plots, name, lambda _: plots.Figure(figsize=(1, 1)))
    monkeypatch.setattr(plots, "influence_figure", lambda _: plots.Figure(figsize=(1, 1)))


# --- what is written ---


def test_noise_stands_under_the_name_of_each_hinge_body_and_signal(figures: None, tmp_path: Path) -> None:
    s = estimated()
    shared = replace(s.noise[0], names=("hinge", "cart force"))
    save(replace(s, noise=(shared, s.noise[1])), tmp_path / "r")
    tree = json.loads((tmp_path / "r/solution.json").read_text(encoding="utf-8"), parse_constant=refuse)
    noise = tree["noise"]
    assert list(noise["disturbance"]) == ["hinge", "cart force"]
    assert list(noise["sensors"]) == ["theta"]
    assert mismatch(noise["disturbance"]["cart force"], {"std": NUMBER, "unit": TEXT, "density": NUMBER}) == ""
    assert mismatch(noise["sensors"]["theta"], {"std": NUMBER, "unit": TEXT, "density": None}) == ""
    assert (tree["dynamics"], tree["state_weight"]) == ("estimated", None)
    assert tree["log_likelihood"] == s.log_likelihood
    again = load(tmp_path / "r")
    assert again.noise == (shared, s.noise[1])
    assert [one.labels for one in again.disturbance] == [("hinge",)]
    np.testing.assert_array_equal(again.disturbance[0].std_err, s.disturbance[0].std_err)


def test_no_number_is_written_as_nan_or_infinity(figures: None, tmp_path: Path) -> None:
    save(awkward(), tmp_path / "r")
    tree = json.loads((tmp_path / "r/solution.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert tree["state_weight"] is None
    assert tree["cost"]["observation"] is None
    assert tree["parameters"]["J"]["lower"] is None


def test_arrays_have_the_names_and_shapes_of_the_contract(figures: None, tmp_path: Path) -> None:
    save(solution(3), tmp_path / "r")
    with np.load(tmp_path / "r/trajectory.npz", allow_pickle=False) as arrays:
        for i in range(3):
            assert arrays[f"t_{i}"].shape == (STEPS,)
            assert arrays[f"q_{i}"].shape == (STEPS, 1, 7)
            assert arrays[f"v_{i}"].shape == (STEPS, 1, 6)
            assert arrays[f"observed_{i}"].shape == arrays[f"predicted_{i}"].shape == (STEPS, 1)
            assert arrays[f"impulse_residual_{i}"].shape == (STEPS, 12)
            assert arrays[f"multipliers_{i}"].shape == (STEPS, 5)
            assert arrays[f"friction_{i}"].shape == arrays[f"sticks_{i}"].shape == (STEPS, 1)
            for key in ("samples", "squares", "largest"):
                assert arrays[f"{key}_{i}"].shape == (STEPS, 1)
            assert arrays[f"drive_{i}"].shape == (STEPS, 0)
            assert arrays[f"touches_{i}"].shape == (STEPS, 0, 3)
            assert arrays[f"measured_{i}"].shape == (*arrays[f"frames_{i}"].shape, 1, 7)
            assert arrays[f"disturbance_t_{i}"].shape == (STEPS,)
            assert arrays[f"disturbance_{i}"].shape == arrays[f"disturbance_std_err_{i}"].shape == (STEPS, 1)
            assert arrays[f"ratios_{i}"].shape[0] == STEPS
        assert len(arrays.files) == 60
    with np.load(tmp_path / "r/sensitivities.npz", allow_pickle=False) as arrays:
        assert arrays["names"].tolist() == ["J", "b", "J_x"]
        for name in ("covariance", "covariance_sandwich", "correlation", "T"):
            assert arrays[name].shape == (3, 3)
        assert arrays["dispersion"].shape == (3,)
        assert arrays["correlation"][0, 0] == pytest.approx(1.0)
        assert arrays["fixed_names"].tolist() == ["m"]
        assert arrays["d_fixed"].shape == (1, 3)
        assert arrays["d_state_weight"].shape == arrays["d_step"].shape == (3,)
        for i in range(3):
            assert arrays[f"d_observed_{i}"].shape == (STEPS, 1, 3)
            assert arrays[f"d_stretch_{i}"].shape == (20, 3)
            assert arrays[f"stretch_edges_{i}"].shape == (21,)


# --- round trip ---


@pytest.mark.parametrize(
    "make",
    [solution, lambda: solution(3), lambda: estimated(2), awkward],
    ids=["one", "three", "estimated", "awkward"],
)
def test_nothing_is_lost(make: Any, figures: None, tmp_path: Path) -> None:
    original = make()
    save(original, tmp_path / "r")
    loaded = load(tmp_path / "r")
    assert difference(original, loaded) == ""
    assert loaded.summary() == original.summary()


# --- where it is written ---


def test_an_earlier_result_and_an_empty_folder_are_replaced_but_for_what_is_not_of_spookid(
    figures: None, tmp_path: Path
) -> None:
    target = tmp_path / "r"
    target.mkdir()
    save(solution(), target)
    (target / "notes.txt").write_text("from before")
    (target / "report.html").write_text("of the earlier result")
    save(awkward(), target)
    assert {path.name for path in target.iterdir()} == {*FILES, "notes.txt"}
    assert load(target).problem == awkward().problem
    assert list(tmp_path.iterdir()) == [target]


def test_parents_are_made(figures: None, tmp_path: Path) -> None:
    save(solution(), str(tmp_path / "a/b/c"))
    assert load(tmp_path / "a/b/c").problem == "pendulum"


def test_anything_else_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spookid.results.folders._fill", lambda *_: pytest.fail("it wrote"))
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for target in (other, tmp_path / "file"):
        for refuses in (lambda: check_target(target, MARKER), lambda: save(solution(), target)):  # noqa: B023
            with pytest.raises(ProblemError, match=f"{target.name}.*choose another folder"):
                refuses()
    assert (other / "chapter.tex").read_text() == (tmp_path / "file").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_may_be_written_is_accepted(folder: Path, tmp_path: Path) -> None:
    for target in (folder, tmp_path, tmp_path / "new", str(tmp_path / "new/deeper")):
        check_target(target, MARKER)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_if_writing_fails_all_is_as_before(
    error: type[BaseException], figures: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "r"
    save(solution(), target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def fail(_: Solution) -> None:
        raise error("in the middle")

    monkeypatch.setattr(plots, "parameters", fail)
    for place in (target, tmp_path / "new"):
        with pytest.raises(ProblemError if error is OSError else error, match="in the middle"):
            save(awkward(), place)
    assert list(tmp_path.iterdir()) == [target]
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


# --- damage ---


def to_schema_1(folder: Path) -> None:
    """Take from a folder what the first folders of schema 1 did not hold."""

    def change(tree: Any) -> None:
        tree["schema"] = 1
        for step in (tree["cost"], *tree["history"]):
            del step["residual"]
        for key in ("analysis", "other"):
            del tree["timing_s"][key]
        del tree["mechanism"]["constraints"]
        for part, key in (("hinges", "kind"), ("sensors", "point")):
            for outline in tree["mechanism"][part]:
                del outline[key]

    rewrite(folder, change)
    newer = ("samples", "squares", "largest", "frames", "measured")
    with np.load(folder / "trajectory.npz") as archive:
        arrays = {key: a for key, a in archive.items() if key.split("_")[0] not in newer}
    np.savez(folder / "trajectory.npz", **arrays)


def test_folders_of_the_previous_schema_load(copy: Path) -> None:
    to_schema_1(copy)
    s, earlier = solution(), load(copy)
    (now,), (then,) = s.trajectories, earlier.trajectories
    assert difference(earlier.parameters, s.parameters) == ""
    assert earlier.measured == ()
    assert np.array_equal(then.samples, np.isfinite(now.observed))
    later = {name: getattr(now, name) for name in ("samples", "squares", "largest")}
    assert difference(replace(then, **later), now) == ""
    assert rms_of_samples([then], 0) == pytest.approx(rms(now.observed[:, 0] - now.predicted[:, 0]))
    assert earlier.mechanism == s.mechanism
    assert main(["report", str(copy)]) == 0
