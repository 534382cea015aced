"""Results as tables: printed, in notebooks, in LaTeX, as data frames, and the reports of the folders of commands."""

from __future__ import annotations

import base64
import math
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from solutions import pendulum_problem, recording, solution

from spookid import GROUND, Body, Hinge, Model, Motor, ProblemError, Recording, sweep
from spookid.__main__ import main
from spookid.studies import audit

_NAMES = {"solution", "profile", "audit", "sweep", "crossvalidation"}


@lru_cache
def results() -> dict[str, Any]:
    """One of each kind."""
    one = pendulum_problem().with_(recordings=[recording("release 0")])
    two = pendulum_problem().with_(recordings=[recording("a", 0), recording("b", 1)])
    return {
        "solution": solution(),
        "profile": one.profile("J", solution()),
        "audit": audit(one),
        "sweep": sweep(one, {"state_weight": [1.0, 100.0]}),
        "crossvalidation": two.crossvalidate(),
    }


def test_frames_of_recordings_and_trajectories_hold_the_samples() -> None:
    r, (t,) = recording(), solution().trajectories
    np.testing.assert_array_equal(r.to_dataframe()["theta"], r.signal("theta"))
    np.testing.assert_array_equal(r.to_dataframe()["t"], r.t)
    np.testing.assert_array_equal(t.to_dataframe()["theta predicted"], t.predicted[:, 0])


@pytest.mark.parametrize("kind", sorted(_NAMES))
def test_printing_shows_the_table_and_repr_is_one_short_line(kind: str) -> None:
    result = results()[kind]
    assert len(str(result).splitlines()) > 4
    assert re.search(r"\bJ\b", str(result))
    assert "\n" not in repr(result)
    assert len(repr(result)) < 120


def test_a_problem_shows_its_parameters_recordings_and_settings() -> None:
    html = pendulum_problem().with_(recordings=[recording()])._repr_html_()
    for words in (
        "1 body, 1 joint, 3 free parameters",
        ">J_x<",
        ">fixed<",
        "theta 95",
        "spook, step h = 0.01 s",
        "κ = 100",
    ):
        assert words in html


def drawing(html: str) -> str:
    """The picture above the tables of a problem."""
    return base64.b64decode(html.partition("base64,")[2].partition('"')[0]).decode()


@pytest.mark.parametrize("recordings", [[], [recording()]], ids=["declared", "measured"])
def test_a_notebook_shows_bodies_and_joints_of_a_problem(recordings: list[Recording]) -> None:
    html = pendulum_problem().with_(recordings=recordings)._repr_html_()
    svg = drawing(html)
    assert {node.tag.rpartition("}")[2] for node in fromstring(svg).iter()} >= {"svg", "path"}
    assert "<!-- rod -->" in svg
    assert "<!-- hinge -->" in svg
    assert "<script" not in html


def test_a_printed_solution_is_its_summary() -> None:
    assert str(solution()) == solution().summary()


# --- data frames ---


def test_records_hold_the_numbers_in_full() -> None:
    found, s = results(), solution()
    rows = {row["parameter"]: row for row in s.records()}
    assert rows["J"]["estimate"] == s["J"].estimate
    assert math.isnan(rows["J_x"]["std_err"])
    assert rows["J_x"]["reason"] == s["J_x"].reason != ""
    zetas = [row["zeta"] for row in found["profile"].records()]
    assert np.all(np.diff(zetas) > 0)
    assert [row["state_weight"] for row in found["sweep"].records()] == [1.0, 100.0]
    assert found["sweep"].records()[1]["J"] == pytest.approx(s["J"].estimate, rel=1e-6)
    assert {(row["fitted"], row["on"]) for row in found["crossvalidation"].records()} == {
        *zip("aabb", "abab", strict=True)
    }
    (drift,) = (row for row in found["audit"].records() if row["parameter"] == "J")
    assert drift["h = 0.01 s"] - drift["extrapolated"] == drift["step_adds"]


def test_without_pandas_one_sentence_tells_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ProblemError, match=r"pip install 'spookid\[pandas\]'"):
        solution().to_dataframe()


# --- reports ---


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "is damaged"), ('{"schema": 1}', "has no 'problem'"), ('{"schema": 99, "problem": "p"}', "has schema 99")],
)
def test_a_marker_that_cannot_be_read_is_refused(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.json").write_text(content, encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_parts_of_a_mechanism_are_one_short_line() -> None:
    rod = Body("rod", mass=1.0, inertia=(1, 1, 1))
    hinge = Hinge("hip", GROUND.frame(), rod.frame(at=(0, 0, 1)))
    model = Model([rod], [hinge], motors=[Motor(hinge, signal="u")], gravity=(0, 0, -9.81))
    assert repr(rod.frame()) == "<Frame of rod>"
    assert repr(hinge) == "<Hinge 'hip' of GROUND and rod>"
    assert repr(model) == f"<Model of <Body 'rod'>, {hinge!r}, <Motor at 'hip', input 'u'>>"
