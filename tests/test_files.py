"""The page on the files of a solution has every key that a solve writes, with its shape."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Contact,
    Hinge,
    HingeAngle,
    JointPosition,
    Model,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Spook,
    gravity,
)

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "files.md"


def section(title: str) -> list[list[str]]:
    """Rows of a table of the page, cell by cell."""
    text = PAGE.read_text(encoding="utf-8").split(f"## `{title}`")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def swing(**settings: Any) -> tuple[Problem, dict[str, int]]:
    """Two links with unknown friction and a fixed inertia, one of whose angles is seen, and how many there are."""
    I, b, c = Parameter("I", 0.02), Parameter("b", 0.02, lower=0), Parameter("c", 0.01, lower=0)
    upper, lower = (Body(name, mass=1.0, inertia=(0.02, 0.02, inertia)) for name, inertia in (("a", I), ("b", 0.02)))
    shoulder = Hinge("shoulder", GROUND.frame(), upper.frame(at=(0, 0.2, 0)), viscous=b)
    elbow = Hinge("elbow", upper.frame(at=(0, -0.2, 0)), lower.frame(at=(0, 0.2, 0)), viscous=c)
    model = Model([upper, lower], [shoulder, elbow], gravity=(0, -9.81, 0))
    sensors = [HingeAngle(shoulder, "shoulder"), HingeAngle(elbow, "elbow")]
    problem = Problem("swing", model, [], sensors, step=0.02, fixed=["I"], **settings)
    run = problem.simulate(duration=1.0, initial={"shoulder": 1.0, "elbow": 0.5})
    rng = np.random.default_rng(0)
    seen = {s: np.array(x) + 1e-3 * rng.normal(size=len(run.t)) for s, x in run.signals.items()}
    counts = {"B": 2, "J": 2, "R": 10, "O": 2, "E": 0, "C": 0, "P": 2, "H": 1}
    return problem.with_(recordings=[Recording(run.t, seen)]), counts


def rebounding() -> tuple[Problem, dict[str, int]]:
    """A ball that falls on a floor."""

    def declared(e: Any, recordings: list[Recording]) -> Problem:
        body, up = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3)), {"x": (0, 0, 1), "y": (0, 1, 0)}
        rail = Prismatic("rail", GROUND.frame(**up), body.frame(**up))
        contacts = [Contact("floor", body.frame(), GROUND.frame(), restitution=e)]
        model = Model([body], [rail], contacts=contacts, gravity=gravity(9.81))
        return Problem("ball", model, recordings, [JointPosition(rail, "z")], step=0.005, friction="exact")

    run = declared(0.7, []).simulate(duration=0.5, initial={"rail": 0.3}, substeps=1)
    z = np.array(run.signals["z"]) + 1e-3 * np.random.default_rng(0).normal(size=len(run.t))
    counts = {"B": 1, "J": 1, "R": 5, "O": 1, "E": 0, "C": 1, "P": 1, "H": 0}
    return declared(Parameter("e", 0.5, lower=0, upper=1), [Recording(run.t, {"z": z})]), counts


CASES = {
    "noise estimated": lambda: swing(step_correction=False, estimator="noise"),
    "extrapolated": swing,
    "given weight": lambda: swing(stepper=Spook(), state_weight=1e4),
    "contact": rebounding,
}


@cache
def written(case: str, folder: Path) -> tuple[Path, dict[str, int]]:
    problem, counts = CASES[case]()
    problem.solve().save(folder)
    return folder, counts


@pytest.mark.parametrize("case", CASES)
def test_arrays_are_those_of_the_page(case: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, counts = written(case, tmp_path_factory.getbasetemp() / case)
    known: dict[str, int] = dict(counts)
    for file in ("trajectory.npz", "sensitivities.npz"):
        rows = {key.strip("`"): shape for key, shape, _ in section(file)}
        arrays = np.load(folder / file)
        assert set(arrays.files) <= set(rows)
        assert set(rows) - set(arrays.files) <= {"normaliser"}
        for key in arrays.files:
            sizes = [size.strip() for size in rows[key].strip("()").split(",") if size.strip()]
            assert len(sizes) == arrays[key].ndim, key
            if key == "inflation" and arrays[key].size == 0:
                continue
            for size, length in zip(sizes, arrays[key].shape, strict=True):
                letter, _, more = size.partition(" + ")
                length -= int(more or 0)
                wanted = int(letter) if letter.isdigit() else known.setdefault(letter, length)
                assert length == wanted, (key, size)
    assert known["I"] == (12 * known["B"] if case == "given weight" else known["J"])


def test_the_document_has_the_keys_of_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, _ = written("extrapolated", tmp_path_factory.getbasetemp() / "extrapolated")
    keys = {key for row in section("solution.json") for key in re.findall(r"`(\w+)`", row[0])}
    assert set(json.loads((folder / "solution.json").read_text(encoding="utf-8"))) == keys
