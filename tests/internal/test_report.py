"""The report: what stands on the page, that it needs nothing but itself, and the command."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from solutions import awkward, estimated, pendulum_problem, solution

from spookid import Finding, ProblemError, Solution, Status, load
from spookid.__main__ import main
from spookid.assembly.outlining import mechanism
from spookid.report import interactive, pictures, skeleton
from spookid.report import page as report
from spookid.results.values import Mechanism

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Tags, attributes and text of a page; every tag that opens must close."""

    VOID = ("meta", "img", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.words.append(data)

    def values(self, tag: str, name: str) -> list[str]:
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]


@cache
def usual() -> str:
    """The page of the small solution."""
    return report.page({"s0": solution()}, {"s0": "today"})


def page(*solutions: Solution) -> Page:
    return Page(report.page({f"s{i}": s for i, s in enumerate(solutions)}, {f"s{i}": "today" for i in range(9)}))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results; not to be changed."""
    folder = tmp_path_factory.mktemp("results") / "release"
    solution().save(folder)
    return folder


# --- the page ---


def test_every_section_says_what_the_solution_holds() -> None:
    s, text = solution(), Page(usual()).text
    J, b, J_x, m = (s[name] for name in ("J", "b", "J_x", "m"))
    low, high = J.estimate - 1.96 * J.std_err, J.estimate + 1.96 * J.std_err
    found = re.search(r"([\d.e+-]+) \.\. ([\d.e+-]+)", text)
    assert found is not None
    assert [float(found[1]), float(found[2])] == pytest.approx([low, high], abs=0.6 * J.std_err)
    assert b.at_bound
    assert m.fixed
    assert math.isnan(J_x.std_err)
    for words in (
        "at lower bound",
        "fixed",
        "the data do not determine it",
        "viscous = b = 0 N m s",
        "mass = m = 0.5 kg",
    ):
        assert words in text
    for heading in ("Parameters", "Mechanism", "Data", "Fit", "Residuals", "Correlations", "Identifiability"):
        assert f" {heading} " in text
    for fact in (
        "Convergence",
        "Provenance",
        "mass = m = 0.5 kg",
        "release 0",
        "theta 95",
        "GROUND and rod",
        "angle of hinge",
        "J_x (not identifiable)",
        s.detail,
    ):
        assert fact in text
    for version in s.versions.values():
        assert version in text


def test_noise_that_was_estimated_has_its_table() -> None:
    s, text = estimated(), page(estimated()).text
    assert " Noise noise standard deviation its error density resolution process noise of hinge " in text
    assert f"theta angle of hinge {1000 * s.noise[1].std:.3g} mrad, estimated" in text
    assert "Dynamics estimated (process and measurement noise" in text
    assert f"log-likelihood {s.log_likelihood:.1f} marginal, of the data" in text
    assert "Noise noise" not in Page(usual()).text


def figures(html: str) -> list[dict[str, Any]]:
    """What Plotly is to draw."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    return [json.loads(text) for text in found]


def numbers(of: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(of["bdata"]), "<f4")


def test_the_page_needs_nothing_but_itself() -> None:
    pytest.importorskip("plotly")
    html = report.page({"s0": solution()}, {"s0": "today"}, link=False)
    parsed = Page(html)
    assert parsed.values("script", "src") == []
    assert "@import" not in usual()
    assert parsed.values("link", "href") == []
    assert parsed.values("img", "src") == []
    assert "plotly.js v" in html
    assert 'name="viewport"' in html
    assert "@media print" in html
    assert "@media screen and (max-width" in html


def test_figures_have_what_the_solution_holds() -> None:
    assert len(figures(usual())) == len(Page(usual()).values("div", "aria-label")) == 7
    motion, fit, *_ = figures(usual())
    assert [trace["name"] for trace in fit["data"]] == ["measured", "estimated", "residual"]
    (t,) = solution().trajectories
    known = np.isfinite(t.observed[:, 0])
    np.testing.assert_allclose(numbers(fit["data"][0]["y"]), t.observed[known, 0], rtol=1e-6)
    np.testing.assert_allclose(numbers(fit["data"][1]["y"]), t.predicted[:, 0], rtol=1e-6)
    assert {trace["name"] for trace in motion["data"]} >= {"rod", "measured", "joints"}


def test_a_page_can_load_plotly_and_does_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"https://cdn.plot.ly/plotly-{interactive.VERSION}.min.js"
    monkeypatch.setattr(interactive, "installed", lambda: False)
    for link in (True, False):
        parsed = Page(report.page({"s0": solution()}, {"s0": "today"}, link=link))
        assert parsed.values("script", "src") == [address]
        assert len(parsed.values("script", "integrity")) == 1


def test_what_a_page_loads_is_what_the_package_has() -> None:
    pytest.importorskip("plotly")
    found = interactive.library(False)["code"]
    if f"plotly.js v{interactive.VERSION}\n" not in found[:200]:
        pytest.skip("another version of Plotly is installed")
    digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
    assert interactive.library(True)["integrity"] == f"sha256-{digest}"


@pytest.mark.usefixtures("drawn")
def test_it_is_the_same_each_time() -> None:
    assert report.page({"a": solution()}, {"a": "today"}) == report.page({"a": solution()}, {"a": "today"})


@pytest.mark.usefixtures("drawn")
def test_odd_names_and_numbers_that_are_not_finite_are_shown_as_they_are() -> None:
    s = replace(awkward(), problem="<b>a & b</b>", findings=(Finding("weight.paper", effect="<script>"),))
    parsed = page(s)
    assert "<b>a & b</b>" in parsed.words
    assert "<script>" in parsed.text
    assert len(parsed.values("script", "src")) == 1
    assert "Deterministic dynamics: the motion obeys the mechanics." in parsed.text
    assert "FAILED at the initial values" in parsed.text


def test_a_solution_without_a_mechanism_or_parameters_has_a_page() -> None:
    s = solution()
    bare = replace(
        s,
        mechanism=None,
        parameters={},
        sensitivities=replace(
            s.sensitivities,
            names=(),
            covariance=np.zeros((0, 0)),
            covariance_sandwich=np.zeros((0, 0)),
            factor=np.zeros((0, 0)),
            singular_values=np.zeros(0),
            weak=(),
        ),
    )
    text = page(bare).text
    assert "does not contain the mechanism" in text
    assert "The problem has no parameters." in text


def test_a_signal_without_samples_has_a_row() -> None:
    s = solution()
    (t,), nothing = s.trajectories, np.zeros_like(s.trajectories[0].samples)
    blind = replace(t, observed=np.full_like(t.observed, np.nan), samples=nothing, squares=nothing, largest=nothing)
    assert " theta 0 " in page(replace(s, trajectories=(blind,))).text


def test_several_results_share_a_page() -> None:
    parsed = page(solution(), replace(solution(), status=Status.STALLED, problem="other"))
    assert parsed.values("a", "href") == ["#s0-0", "#s1-1"]
    assert parsed.values("article", "id") == ["s0-0", "s1-1"]
    assert parsed.values("div", "class").count("status good") == 1
    assert "2 results" in parsed.text
    assert "NOT converged, stalled" in parsed.text


def test_of_many_recordings_the_first_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_PANELS", 1)
    parsed = page(solution(2))
    assert "Measured and estimated signals of release 0" in parsed.values("div", "aria-label")
    assert "Measured and estimated signals of release 1" not in parsed.values("div", "aria-label")
    assert "1 more recordings are in trajectory.npz." in parsed.text


# --- parts of it ---


def test_correlation_of_series() -> None:
    rng = np.random.default_rng(0)
    white = rng.normal(size=4000)
    smooth = np.convolve(white, [1.0, 1.0], "valid")  # correlation 1/2 at lag 1, 0 beyond
    assert interactive.correlation([smooth], 1) == pytest.approx(0.5, abs=0.05)
    assert interactive.correlation([smooth[:2000], smooth[2000:]], 2) == pytest.approx(0.0, abs=0.05)
    smooth[::7] = np.nan
    assert interactive.correlation([smooth], 1) == pytest.approx(0.5, abs=0.06)
    assert math.isnan(interactive.correlation([np.full(5, np.nan)], 1))


def test_residuals_stand_against_time_rate_and_signal() -> None:
    s = estimated(2)
    found = [block["figure"] for block in interactive.residuals(s)]
    assert len(found) == 4
    labels = [figure["layout"]["xaxis"]["title"]["text"] for figure in found]
    assert labels == ["time [s]", "rate of theta [rad/s]", "theta [rad]", "lag [steps]"]
    assert found[0]["layout"]["yaxis"]["title"]["text"] == "residual of theta [sigma]"
    assert [trace["name"] for trace in found[0]["data"][:2]] == ["release 0", "release 1"]
    first = s.trajectories[0]
    known = np.isfinite(first.observed[:, 0])
    expected = (first.observed - first.predicted)[known, 0] / s.noise[1].std
    along = first.t, np.gradient(first.predicted[:, 0], first.t), first.predicted[:, 0]
    for figure, x in zip(found[:3], along, strict=True):
        dots = figure["data"][0]
        np.testing.assert_allclose(numbers(dots["x"]), x[known], atol=1e-6)
        np.testing.assert_allclose(numbers(dots["y"]), expected, rtol=1e-5, atol=1e-6)


def test_what_a_sensor_lacks_shows_in_the_means() -> None:
    s = estimated()
    (t,) = s.trajectories
    rate = np.gradient(t.predicted[:, 0], t.t)
    late = replace(s, trajectories=(replace(t, observed=t.predicted - 0.01 * rate[:, None]),))
    means = interactive.residuals(late)[1]["figure"]["data"][-1]
    x, y = numbers(means["x"]), numbers(means["y"])
    np.testing.assert_allclose(y * s.noise[1].std, -0.01 * x, rtol=1e-4, atol=1e-7)
    blind = replace(t, observed=np.full_like(t.observed, np.nan))
    assert interactive.residuals(replace(s, trajectories=(blind,))) == []


def test_of_many_signals_the_first_are_drawn() -> None:
    s = solution()
    (t,) = s.trajectories
    many = {"signals": tuple("abcdefghi"), "units": ("m",) * 9, "periods": (None,) * 9}
    columns = {name: np.tile(getattr(t, name), 9) for name in ("observed", "samples", "predicted")}
    wide = replace(t, **columns, **many)
    found = interactive.residuals(replace(s, trajectories=(wide,)))
    assert len(found) == 4 * pictures.MOST_PANELS
    assert found[0]["figure"]["layout"]["yaxis"]["title"]["text"] == "residual of a [mm]"


def test_hostile_names_are_text_in_figures() -> None:
    s = solution()
    (t,) = s.trajectories
    bad = "</script><script>alert(1)</script><b>"
    hostile = replace(s, trajectories=(replace(t, name=bad, signals=(bad,)),), problem=bad)
    html = report.page({bad: hostile}, {bad: "today"})
    assert "alert(1)</script>" not in html
    assert len(Page(html).values("script", "src")) == 1
    (title,) = [figure["layout"]["yaxis"]["title"]["text"] for figure in figures(html)[1:2]]
    assert title == "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt; [rad]"


def test_lines_have_gaps_where_numbers_are_missing() -> None:
    x, y = np.arange(6.0), np.array([0, 1, np.nan, np.nan, 4, 5])
    line = interactive.curve(x, y, "a", "black")
    np.testing.assert_array_equal(numbers(line["y"]), [0, 1, np.nan, 4, 5])
    np.testing.assert_array_equal(numbers(interactive.curve(x, y, "a", "black", mode="markers")["y"]), [0, 1, 4, 5])


def drawn(parts: Mechanism, figure: Figure) -> dict[str, tuple[float, float]]:
    """Where the names of bodies and hinges stand."""
    (panel,) = figure.axes
    return {text.get_text(): text.xy for text in panel.texts}


def test_the_sketch_shows_centres_and_hinges_with_gravity_down() -> None:
    s = solution()
    parts = s.mechanism
    assert parts is not None
    places = drawn(parts, skeleton.mechanism(parts, s.trajectories[0].q))
    arm = np.subtract(places["rod"], places["hinge"])
    # The hinge turns about y and its angle is zero where the rod hangs: 0.2 m at about 1.2 rad, seen from 35° and 20°.
    angle = s.trajectories[0].predicted[0, 0]
    x, z = -0.2 * math.sin(angle), -0.2 * math.cos(angle)
    a, e = math.radians(35), math.radians(20)
    np.testing.assert_allclose(arm, [-math.sin(a) * x, math.cos(e) * z - math.sin(e) * math.cos(a) * x], atol=2e-3)
    turned = replace(parts, gravity=(-parts.gravity[2], 0.0, 0.0))
    assert drawn(turned, skeleton.mechanism(turned, s.trajectories[0].q)) != places


def test_an_outline_holds_formulas_and_values() -> None:
    found = mechanism(pendulum_problem(), {"J": 0.006, "b": 0.1, "J_x": 1e-4, "m": 0.7})
    (rod,), (hinge,) = found.bodies, found.hinges
    assert [(q.name, q.formula, q.value) for q in rod.quantities] == [
        ("mass", "m", 0.7),
        ("J_xx", "J_x", 1e-4),
        ("J_yy", "", 0.004),
        ("J_zz", "J", 0.006),
    ]
    assert (hinge.parent, hinge.child, hinge.parent_at, hinge.child_at) == ("GROUND", "rod", (0, 0, 0), (-0.2, 0, 0))
    assert hinge.axis == (0, 1, 0)
    assert {q.name: q.value for q in hinge.quantities} == {
        "compliance": 1e-4,
        "angular compliance": 1e-4,
        "viscous": 0.1,
        "damping": 0.02,
    }
    assert found.gravity == (0, 0, -9.81)
    assert (found.sensors[0].signal, found.sensors[0].sigma) == ("theta", 1.0)


# --- the command ---


def test_the_command_writes_a_page_beside_the_results(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "release"
    shutil.copytree(results, folder)
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out == f"Written to {folder / 'report.html'}\n"
    assert ("pip install 'spookid[report]'" in said.err) != interactive.installed()
    assert {path.name for path in folder.iterdir()} == {path.name for path in results.iterdir()} | {"report.html"}
    text = Page((folder / "report.html").read_text(encoding="utf-8")).text
    assert "Folder release, written 20" in text
    solution().save(folder)  # the results can be replaced, the page with them
    assert not (folder / "report.html").exists()


def test_a_folder_of_folders_has_one_page(results: Path, tmp_path: Path) -> None:
    for key in ("b", "a"):
        shutil.copytree(results, tmp_path / key)
    (tmp_path / "notes").mkdir()
    assert main(["report", str(tmp_path)]) == 0
    parsed = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert parsed.values("article", "id") == ["a-0", "b-1"]


def test_results_of_an_earlier_version_have_a_page(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(results, folder)
    tree = json.loads((folder / "solution.json").read_text())
    del tree["mechanism"]
    (folder / "solution.json").write_text(json.dumps(tree))
    assert load(folder).mechanism is None
    assert main(["report", str(folder)]) == 0


def test_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "holds none of solution.json" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "solution.json").write_text("{}")
    with pytest.raises(ProblemError, match="has no 'schema'"):
        report.write(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_draws_all_figures(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    folder = tmp_path / "release"
    shutil.copytree(results, folder)
    page = report.write(folder)
    options = ("--headless", "--no-sandbox", "--virtual-time-budget=20000", "--window-size=1280,9000", "--dump-dom")
    command = [str(CHROMIUM), *options, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=120).stdout
    places = re.findall(r'<div class="plot js-plotly-plot" role="img" aria-label="([^"]+)"', shown)
    assert len(places) == len(figures(page.read_text(encoding="utf-8")))
    assert "<canvas" in shown  # the scene
