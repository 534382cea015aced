"""Result folders: what stands in them, that nothing is lost, and that nothing else is touched."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from solutions import STEPS, awkward, difference, pendulum_problem, solution

import spookid
from spookid import ProblemError, Solution, load
from spookid.__main__ import main

FILES = {
    "solution.json",
    "trajectory.npz",
    "sensitivities.npz",
    "summary.txt",
    "fit.png",
    "convergence.png",
    "parameters.png",
    "influence.png",
}
NUMBER, TEXT, TRUTH = (int, float), (str,), (bool,)
LAYOUT = {
    **dict.fromkeys(("schema", "step", "state_weight", "iterations"), NUMBER),
    **dict.fromkeys(("problem", "backend", "stepper", "friction", "status", "message", "dynamics"), TEXT),
    "contradicted": TRUTH,
    "cost": dict.fromkeys(("total", "state", "observation", "prior"), NUMBER),
    "history": [
        {
            **dict.fromkeys(("iteration", "total", "state", "observation", "damping", "step_norm"), NUMBER),
            "parameters": {"J": NUMBER},
        }
    ],
    "parameters": {
        "J": {
            **dict.fromkeys(("estimate", "std_err", "initial", "lower"), NUMBER),
            "upper": None,
            "unit": TEXT,
            "at_bound": TRUTH,
        }
    },
    "identifiability": {
        "singular_values": [NUMBER],
        "weak_directions": [{"singular_value": NUMBER, "direction": {"J_x": NUMBER}}],
    },
    "complementarity": {"max_residual": None},
    "size": dict.fromkeys(("recordings", "steps", "states", "parameters", "residuals", "jacobian_nonzeros"), NUMBER),
    "timing_s": dict.fromkeys(("build", "compile", "solve", "evaluate", "factorize"), NUMBER),
    "versions": dict.fromkeys(("spookid", "casadi", "numpy"), TEXT),
}


def mismatch(tree: Any, layout: Any, path: str = "") -> str:
    """Where a JSON tree lacks what the layout asks for, empty if nowhere; more keys are welcome."""
    if layout is None:
        return "" if tree is None else f"{path} is {tree!r}, not null"
    if isinstance(layout, tuple):
        good = isinstance(tree, layout) and (layout == TRUTH or not isinstance(tree, bool))
        return "" if good else f"{path} is {tree!r}"
    if isinstance(layout, list):
        return next(filter(None, (mismatch(tree[i], layout[0], f"{path}[{i}]") for i in range(len(tree)))), "")
    missing = set(layout) - set(tree)
    if missing:
        return f"{path} has no {missing}"
    return next(filter(None, (mismatch(tree[key], layout[key], f"{path}/{key}") for key in layout)), "")


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "pendulum"
    solution().save(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A result folder to damage."""
    target = tmp_path / "damaged"
    target.mkdir()
    for name in ("solution.json", "trajectory.npz", "sensitivities.npz"):
        (target / name).write_bytes((folder / name).read_bytes())
    return target


# --- what is written ---


def test_the_folder_holds_the_files_of_the_contract_and_no_others(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.name for path in folder.parent.iterdir()} == {"pendulum"}


def test_solution_json_has_the_keys_and_types_of_the_contract(folder: Path) -> None:
    tree = json.loads((folder / "solution.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert mismatch(tree, LAYOUT) == ""
    assert tree["schema"] == 2
    assert tree["iterations"] == len(tree["history"]) - 1
    assert tree["cost"]["total"] == tree["cost"]["state"] + tree["cost"]["observation"] + tree["cost"]["prior"]
    assert tree["parameters"]["b"]["std_err"] is None
    assert tree["parameters"]["b"]["reason"] == "held at its bound"
    assert tree["parameters"]["m"]["fixed"] is True
    assert tree["status"] == "converged"


def test_summary_and_pictures(folder: Path, tmp_path: Path, drawn: None) -> None:
    assert (folder / "summary.txt").read_text(encoding="utf-8") == solution().summary() + "\n"
    solution().save(tmp_path / "drawn")
    for name in ("fit.png", "convergence.png", "parameters.png", "influence.png"):
        assert (tmp_path / "drawn" / name).read_bytes().startswith(b"\x89PNG")


# --- round trip ---


def test_the_comparison_sees_a_difference() -> None:
    # The test above proves nothing if this one fails.
    assert "estimate" in difference(solution()["J"], awkward()["J"])
    assert difference(solution(), awkward()) != ""
    assert difference((0.0, math.nan), (-0.0, math.nan)) != ""


def test_a_loaded_solution_evaluates_expressions(folder: Path) -> None:
    (J, *_) = pendulum_problem().parameters
    loaded = spookid.load(str(folder))
    assert isinstance(loaded, Solution)
    assert loaded(2 * J).std_err == 2 * loaded["J"].std_err == 2 * solution()["J"].std_err


def test_loading_needs_no_matplotlib_and_saving_no_pyplot(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys, spookid\n"
        f"s = spookid.load({str(folder)!r})\n"
        "assert 'matplotlib' not in sys.modules, 'loading imports it'\n"
        f"s.save({str(tmp_path / 'again')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules, 'saving imports it'\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


# --- damage ---


@pytest.mark.parametrize("name", ["solution.json", "trajectory.npz", "sensitivities.npz"])
def test_a_missing_file_is_named(name: str, copy: Path) -> None:
    (copy / name).unlink()
    with pytest.raises(ProblemError, match=rf"{name} cannot be read \(No such file"):
        load(copy)


@pytest.mark.parametrize("name", ["solution.json", "trajectory.npz", "sensitivities.npz"])
@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "folder"])
def test_a_damaged_file_is_named(name: str, damage: str, copy: Path) -> None:
    path = copy / name
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"cut": content[: len(content) // 2], "noise": b"\xff\x00 no" * 50, "empty": b""}[damage])
    with pytest.raises(ProblemError, match=name):
        load(copy)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"nowhere/solution\.json cannot be read.*solve the problem again"):
        load(tmp_path / "nowhere")


NEWER = "of a newer version, and this version of spookid reads 1 and 2; update spookid, or solve the problem again"
UNKNOWN = "and this version of spookid reads 1 and 2; solve the problem again"


@pytest.mark.parametrize(("schema", "words"), [(3, NEWER), (0, UNKNOWN), (None, UNKNOWN), ("1", UNKNOWN)])
def test_another_schema_is_refused(schema: Any, words: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(copy, lambda tree: tree.update(schema=schema))
    with pytest.raises(ProblemError, match=rf"solution\.json has schema .*{words}"):
        load(copy)
    assert main(["report", str(copy)]) == 2
    assert words in capsys.readouterr().err


def test_what_the_schema_promises_is_asked_of_it(copy: Path) -> None:
    with np.load(copy / "trajectory.npz") as archive:
        arrays = {key: a for key, a in archive.items() if key != "samples_0"}
    np.savez(copy / "trajectory.npz", **arrays)
    with pytest.raises(ProblemError, match=r"trajectory\.npz has no 'samples_0'"):
        load(copy)


def test_a_folder_without_findings_has_those_of_its_notices(copy: Path) -> None:
    rewrite(copy, lambda tree: tree.pop("findings"))
    found = load(copy)
    assert found.notices == solution().notices != ()
    assert {finding.code for finding in found.findings} == {"result.earlier"}


KEYS = [
    ("schema",), ("problem",), ("step",), ("status",), ("detail",), ("cost", "prior"), ("history", 0, "total"),
    ("history", 0, "prior"), ("parameters", "J", "estimate"), ("parameters", "J", "fixed"), ("identifiability",),
    ("identifiability", "reasons"), ("complementarity", "max_residual"), ("size", "steps"), ("timing_s", "compile"),
    ("versions",), ("recordings",), ("recordings", 0, "signals"), ("infinities",),
]  # fmt: skip


@pytest.mark.parametrize("way", KEYS, ids=lambda way: "/".join(map(str, way)))
def test_a_missing_key_is_named(way: tuple[Any, ...], copy: Path) -> None:
    def remove(tree: Any) -> None:
        for key in way[:-1]:
            tree = tree[key]
        del tree[way[-1]]

    rewrite(copy, remove)
    if way[-1] in ("total", "prior", "fixed"):  # the sum of the others, and what is zero or false unless it is said
        assert difference(load(copy), solution()) == ""
        return
    with pytest.raises(ProblemError, match=rf"solution\.json .*['`]{way[-1]}['`]"):
        load(copy)


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("problem",), 3),
        (("step",), "0.01"),
        (("step",), True),
        (("status",), "splendid"),
        (("cost",), 1.0),
        (("cost", "state"), [1.0]),
        (("parameters",), ["J"]),
        (("parameters", "J", "at_bound"), 1),
        (("size", "steps"), 10.5),
        (("size", "steps"), None),
        (("versions", "numpy"), 2),
        (("history", 0, "parameters"), {"other": 1.0}),
        (("infinities",), {"no/such/place": 1}),
        (("infinities",), {"history/7/total": 1}),
        (("infinities",), {"step/deeper": 1}),
        (("timing_s", "solve"), 10**400),
    ],
)
def test_a_wrong_value_is_damage(way: tuple[Any, ...], value: Any, copy: Path) -> None:
    def change(tree: Any) -> None:
        for key in way[:-1]:
            tree = tree[key]
        tree[way[-1]] = value

    rewrite(copy, change)
    with pytest.raises(ProblemError, match=r"solution\.json (is damaged|has no)"):
        load(copy)


def test_json_that_is_no_object_or_holds_nan_is_damage(copy: Path) -> None:
    for text in ("[1]", '{"schema": NaN}', "7"):
        (copy / "solution.json").write_text(text)
        with pytest.raises(ProblemError, match=r"solution\.json is damaged"):
            load(copy)


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("trajectory.npz", "q_0", None, "has no 'q_0'"),
        ("trajectory.npz", "q_0", np.zeros((3, 1, 7)), "'q_0' has shape"),
        ("trajectory.npz", "observed_0", np.zeros((STEPS, 2)), "'observed_0' has shape"),
        ("trajectory.npz", "v_0", np.zeros((STEPS, 6)), "'v_0' is an array"),
        ("trajectory.npz", "t_0", np.array(["a"] * STEPS), "'t_0' is an array"),
        ("trajectory.npz", "t_0", np.array(1.0), "is damaged"),
        ("sensitivities.npz", "T", None, "has no 'T'"),
        ("sensitivities.npz", "covariance", np.zeros((2, 3)), "'covariance' has shape"),
        ("sensitivities.npz", "names", np.zeros(3), "is damaged"),
    ],
)
def test_wrong_arrays_are_named(name: str, key: str, value: Any, message: str, copy: Path) -> None:
    with np.load(copy / name) as archive:
        arrays = dict(archive)
    if value is None:
        del arrays[key]
    else:
        arrays[key] = value
    np.savez(copy / name, **arrays)
    with pytest.raises(ProblemError, match=f"{name} .*{message}|{name} {message}"):
        load(copy)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_no_pickle_is_read(copy: Path, tmp_path: Path) -> None:
    np.savez(copy / "sensitivities.npz", names=np.array([Bomb(tmp_path / "boom")], dtype=object))
    with pytest.raises(ProblemError, match=r"sensitivities\.npz is damaged"):
        load(copy)
    assert not (tmp_path / "boom").exists()


def rewrite(folder: Path, change: Any) -> None:
    path = folder / "solution.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")
