"""The inside of what ``test_tables`` tests."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from solutions import estimated, pendulum_problem, recording, solution
from test_tables import _NAMES, results

from spookid import Variational
from spookid.__main__ import main
from spookid.registry import studies
from spookid.report.conclusion import assumed
from spookid.studies import auditing as audits
from spookid.studies import crossvalidation_study as crossvalidations
from spookid.studies import profile_study as profiles
from spookid.studies import sweeping
from spookid.studies.job import Source
from spookid.studies.simulation_study import compare
from spookid.studies.sweep_points import SweepPoint, axes_of
from spookid.tables.table import Table, latex

_FILE = """
import sys
sys.path.insert(0, {tests!r})
from solutions import pendulum_problem, recording
problem = pendulum_problem().with_(recordings=[recording("a", 0), recording("b", 1)])
"""
_SHOWN = {
    "problem": r"hinge \(Hinge, GROUND to rod\)",
    "recording": "theta +95",
    "estimate": "std err +0.00016[89]",
    "value": "std err +0.00033[678]",
    "cost": "total",
    "size": "steps +100",
    "timing": "analysis",
    "history": "cost +state",
    "trajectory": "rms of residuals",
    "sensitivities": "b +nan +held at its bound",
    "weak": "direction +J_x",
    "noise": "disturbance",
    "agreement": "recording 2",
    "score": "status +converged",
    "profile point": "zeta",
    "drift": "estimates",
    "sweep point": "parameters +J 0.0",
    "comparison": "rms difference",
}
"""What else a public function or a property gives, and some of what it prints."""


@lru_cache
def parts() -> dict[str, Any]:
    """One of each kind that is a part of these, or is declared or simulated."""
    s, found = solution(), results()
    one = pendulum_problem().with_(recordings=[recording()])
    (J,) = (p for p in one.parameters if p.name == "J")
    return {
        "problem": one,
        "recording": recording(),
        "estimate": s["J"],
        "value": s(2 * J),
        "cost": s.cost,
        "size": s.size,
        "timing": s.timing,
        "history": s.history[0],
        "trajectory": s.trajectories[0],
        "sensitivities": s.sensitivities,
        "weak": s.sensitivities.weak[0],
        "noise": estimated().noise[0],
        "agreement": found["crossvalidation"].agreement,
        "score": found["crossvalidation"].scores[0],
        "profile point": found["profile"].points[0],
        "drift": found["audit"].drifts[0],
        "sweep point": found["sweep"].points[0],
        "comparison": compare(one, 0, one.guess, 0.1, None, lambda steps: steps),
    }


@pytest.mark.parametrize("kind", sorted(_SHOWN))
def test_every_part_of_a_result_is_a_table(kind: str) -> None:
    part = parts()[kind]
    assert re.search(_SHOWN[kind], str(part))
    assert part.blocks()[0] in part._repr_html_().replace("&lt;", "<")
    assert part._repr_html_().count("<table>") == part.to_latex().count(r"\begin{tabular}") > 0
    assert len(part.to_dataframe()) == len(part.records()) > 0
    assert "\n" not in repr(part)


@pytest.mark.parametrize("kind", sorted(_NAMES))
def test_notebooks_and_latex_have_the_cells_that_are_printed(kind: str) -> None:
    result = results()[kind]
    html, tex = result._repr_html_(), result.to_latex()
    tables = [block for block in result.blocks() if isinstance(block, Table)]
    assert html.count("<table>") == html.count("</table>") == tex.count(r"\begin{tabular}") == len(tables) > 0
    for table in tables:
        assert table.text() in str(result) or kind in ("solution", "sweep")  # which are cut to the width
        for row in table.rows:
            assert all(f">{cell}</td>" in html for cell in row)
            assert " & ".join(map(latex, row)) + r" \\" in tex


def test_html_is_escaped() -> None:
    assert "&lt;b&gt;" in Table(("<b>",), [("&",)])._repr_html_()


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("J_x [kg m^2]", r"J\_x [kg m$^{2}$]"),
        ("m s⁻¹", "m s$^{-1}$"),
        ("(1.20 ± 0.05)e-05", r"(1.20 $\pm$ 0.05)$\times10^{-5}$"),
        ("-1.5e+03", r"$-$1.5$\times10^{3}$"),
        ("k1e5 & 50 %", r"k1e5 \& 50 \%"),
        ("a-1 \\ #~", r"a-1 \textbackslash{} \#\textasciitilde{}"),
        ("2024-05-01", "2024-05-01"),
        ("≥ 0", r"$\geq$ 0"),
    ],
)
def test_latex_of_texts(text: str, tex: str) -> None:
    assert latex(text) == tex


# --- data frames ---


def test_data_frames() -> None:
    frame = solution().to_dataframe().set_index("parameter")
    assert frame.loc["J", "estimate"] == solution()["J"].estimate
    assert list(Table(("a", "b"), [("1", "x")]).to_dataframe().columns) == ["a", "b"]


# --- assumptions ---


def test_assumptions_follow_the_settings() -> None:
    problem = pendulum_problem()
    assert (
        assumed(problem)["Noise"]
        == "weight κ = 100; measurement noise is white and normal, standard deviations: theta one unit"
    )
    free = problem.with_(state_weight=None, stepper=Variational(), step=0.02)
    assert assumed(free)["Stepper"] == "variational, step h = 0.02 s"
    assert assumed(free)["Noise"].endswith("standard deviations: theta estimated")
    assert assumed(free.with_(estimator="hard"))["Estimator"].startswith("deterministic dynamics")
    assert assumed(free)["Friction"] == "no joint has dry friction"


# --- reports ---


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one folder of each command."""
    home = tmp_path_factory.mktemp("commands")
    file = home / "swing.py"
    file.write_text(_FILE.format(tests=str(Path(__file__).parents[1])), encoding="utf-8")
    commands = {"simulate": ["--duration", "0.2"], "sweep": ["--over", "state_weight=1,100", "--jobs", "1"]}
    for command, more in commands.items():
        assert main([command, str(file), "--quiet", *more, "--out", str(home / "out" / command)]) == 0
    found = results()  # what the other commands write is written here, without fits of their own
    answers = {
        "audit": audits.answer(found["audit"], "swing"),
        "profile": profiles.answer([found["profile"]], "swing"),
        "crossvalidate": crossvalidations.answer("swing.py", [[found["crossvalidation"]]]),
    }
    markers = {study.name: study.marker for study in studies()}
    for name, answer in answers.items():
        answer.save(home / "out" / name, markers[name])
    solution().save(home / "out" / "solve")
    return home / "out"


_SAID = {
    "simulate": "Simulation of 2 motions of up to 0.2 s: completed; its rms difference",
    "audit": "pendulum: the time step 0.01 s is fine enough",
    "sweep": "All 2 points converged; the estimate that moves most is J",
    "profile": "J: The linearized interval is accurate",
    "crossvalidate": "On recordings that were not fitted, the cost of pendulum",
    "solve": "pendulum: converged, ",
}


@pytest.mark.parametrize("command", sorted(_SAID))
def test_a_report_begins_with_its_conclusion_and_assumptions(folders: Path, command: str) -> None:
    assert main(["report", str(folders / command)]) == 0
    html = (folders / command / "report.html").read_text(encoding="utf-8")
    body = html[html.index("<body>") :]
    text = " ".join(re.sub("<[^>]*>", " ", body).split())
    place = text.index(_SAID[command])
    assert place < 60
    assumed = text[place:].partition("Assumptions")[2]
    assert re.match(r" Estimator .* Stepper spook, step h = 0.01 s Friction no joint has dry friction Noise ", assumed)
    assert "data:image/png;base64," in html
    assert body.count("<table") > 0


def test_folders_of_all_commands_share_a_page(folders: Path) -> None:
    assert main(["report", str(folders)]) == 0
    html = (folders / "report.html").read_text(encoding="utf-8")
    assert html.count("<article") == len(_SAID)
    anchors = re.findall('href="#([^"]*)"', html)
    assert len(anchors) == len(set(anchors)) == len(_SAID)
    assert all(f'id="{anchor}"' in html for anchor in anchors)


def test_a_folder_of_an_earlier_version_shows_its_texts(folders: Path, tmp_path: Path) -> None:
    tree = json.loads((folders / "audit" / "audit.json").read_text(encoding="utf-8"))
    del tree["report"]
    (tmp_path / "audit.json").write_text(json.dumps(tree), encoding="utf-8")
    (tmp_path / "audit.txt").write_text("a < b", encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 0
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<pre>a &lt; b</pre>" in html
    assert tree["verdict"] in html


def test_notices_stand_under_a_heading(folders: Path, tmp_path: Path) -> None:
    tree = json.loads((folders / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert tree["report"]["notices"] == []
    tree["report"]["notices"] = ["The fit at step 0.01 s ended as stalled."]
    (tmp_path / "audit.json").write_text(json.dumps(tree), encoding="utf-8")
    main(["report", str(tmp_path)])
    assert re.search(
        r"<h2>Notices</h2>\s*<ul><li>The fit at step 0.01 s ended",
        (tmp_path / "report.html").read_text(encoding="utf-8"),
    )


def test_an_interrupted_sweep_says_so(tmp_path: Path) -> None:
    source = Source(pendulum_problem().with_(recordings=[recording()]), None)
    plan = sweeping.plan(source, axes_of({"step": [0.01]}))

    def stop(point: SweepPoint, before: bool) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeping.run(plan, tmp_path / "sweep", seen=stop)
    assert main(["report", str(tmp_path / "sweep")]) == 0
    html = (tmp_path / "sweep" / "report.html").read_text(encoding="utf-8")
    assert "The sweep is not complete; the same command does the rest." in html
