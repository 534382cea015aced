"""Sweeps: axes, points in parallel and on a cluster, folders that are continued, tables and figures."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from spookid import Cost, Estimate, Problem, ProblemError, Recording, Status, Sweep, load_problem, sweep
from spookid.__main__ import main
from spookid.cli import terminal
from spookid.estimation.solving import solve
from spookid.studies import sweep_plot, sweeping
from spookid.studies.job import Source, digest
from spookid.studies.sweep_points import (
    Axis,
    SweepPoint,
    axes_of,
    axis,
    failed,
    from_neighbours,
    grid_points,
    solve_point,
)
from spookid.studies.variants import Variant
from spookid.studies.worker_pool import cut_off, processes

FILE = '''"""A pendulum."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Variational, gravity

J, b = Parameter("J", 0.006, lower=1e-6, unit="kg m^2"), Parameter("b", 0.01, lower=0)
rod = Body("rod", mass=0.5, inertia=(1e-4, J, J))
up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", up, out, viscous=b, compliance=1e-6, damping=0.04)
run = Recording.from_csv(Path(__file__).parent / "run.csv", name="run")
model = Model([rod], [hinge], gravity=gravity(9.81))
problem = Problem("swing", model, [run], [HingeAngle(hinge, signal="theta")], step=0.02, state_weight=1e4)
'''
TWO = FILE.replace("problem = ", "one = ") + 'problems = {"a": one, "b": one.with_(name="again")}\n'
GRID = ("--over", "state_weight=1e3:1e4:2log", "--over", "stepper=spook,variational")
LONG = ("--over", "state_weight=1e3:1e4:8log")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a problem file and its recording."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    return tmp_path


def fill(folder: Path) -> None:
    t = np.arange(41) * 0.02
    noise = 1e-3 * np.random.default_rng(0).normal(size=t.size)
    Recording(t, {"theta": np.cos(5.9 * t) * np.exp(-0.2 * t) + noise}, "run").to_csv(folder / "run.csv")
    (folder / "swing.py").write_text(FILE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a long sweep that nothing cut off."""
    folder = tmp_path_factory.mktemp("whole")
    fill(folder)
    assert main(["sweep", str(folder / "swing.py"), *LONG, "--out", str(folder / "out"), "--quiet", "--jobs", "1"]) == 0
    return folder / "out"


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The points that are solved in this process."""
    seen: list[dict[str, Any]] = []

    def spy(problem: Problem, variant: Variant, values: dict[str, Any], near: dict[str, float] | None) -> SweepPoint:
        seen.append(values)
        return solve_point(problem, variant, values, near)

    monkeypatch.setattr(sweeping, "solve_point", spy)
    return seen


def document(folder: str) -> dict[str, Any]:
    return json.loads((Path(folder) / "sweep.json").read_text())


def rows(folder: str) -> list[dict[str, str]]:
    with (Path(folder) / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- axes ---


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step=0.02,0.01,0.005", (0.02, 0.01, 0.005)),
        ("step=0:1:3", (0.0, 0.5, 1.0)),
        ("kappa=0.01:1e4:7log", (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)),
        ("kappa=100:1:3log", (100.0, 10.0, 1.0)),
        ("stepper=spook, variational", ("spook", "variational")),
        ("state_weight=1e3,inf", (1e3, math.inf)),
        ("m=0.1:0.3:3", (0.1, 0.2, 0.3)),
        ("m=-1", (-1.0,)),
    ],
)
def test_ranges_of_an_axis(text: str, values: tuple[float | str, ...]) -> None:
    assert axis(text) == Axis(text.partition("=")[0], values)


NO_AXES = """step step= =1 a.b=1 step=1:2 step=1:2:1 step=1:2:x step=0:1:3log step=-1:1:3log step=1:inf:3
step=a:1:3 step=1,,2 step=1,1 step=nan step=1:1:2 step=1:2:3:4"""


@pytest.mark.parametrize("text", NO_AXES.split())
def test_what_is_no_axis(text: str) -> None:
    with pytest.raises(ProblemError, match=r"give|positive|finite"):
        axis(text)


def test_axes_make_a_grid_whose_last_axis_changes_fastest() -> None:
    axes = axes_of({"a": [1, 2], "b": ["x", "y"]})
    assert grid_points(axes) == [{"a": a, "b": b} for a in (1.0, 2.0) for b in ("x", "y")]
    for wrong in ({}, {"a": []}, {"a": [1, 1.0]}, {"a": [None]}, [Axis("a", (1.0,)), Axis("a", (2.0,))]):
        with pytest.raises(ProblemError):
            axes_of(wrong)  # type: ignore[arg-type]


def test_points_begin_from_neighbours_that_come_before() -> None:
    numbers, texts = Axis("a", (0.0, 1.0, 2.0, 3.0, 4.0)), Axis("b", ("x", "y"))
    assert from_neighbours([numbers]) == [{2: None}, {1: 2, 4: 2}, {0: 1, 3: 4}]
    assert from_neighbours([texts]) == [{0: None, 1: None}]
    assert from_neighbours([Axis("start", (0.0, 1.0, 2.0))]) == [{0: None, 1: None, 2: None}]
    groups, known = from_neighbours([numbers, texts, replace(numbers, name="c")]), set[int]()
    for group in groups:
        for number, near in group.items():
            places = [np.unravel_index(i, (5, 2, 5)) for i in (number, number if near is None else near)]
            assert sum(own != other for own, other in zip(*places, strict=True)) == (near is not None)
            assert (near in known) is (near is not None)
        known |= group.keys()
    assert known == set(range(50))


# --- points ---


def test_a_neighbour_is_begun_from_and_its_own_guess_if_that_leads_nowhere(here: Path) -> None:
    problem, variant = load_problem("swing.py"), Variant(initial={"J": 0.1})
    far = solve_point(problem, variant, {"b": 0.02})
    near = solve_point(problem, variant, {"b": 0.02}, {"J": far.parameters["J"].estimate})
    assert near.iterations < far.iterations
    assert near.parameters["J"].estimate == pytest.approx(far.parameters["J"].estimate, rel=1e-6)
    assert solve_point(problem, variant, {"b": 0.02}, {"J": -1.0}).parameters == far.parameters


def test_a_point_is_what_a_solve_with_its_settings_gives(here: Path) -> None:
    problem = load_problem("swing.py")
    found = sweep(problem, {"b": [0.02], "stepper": ["variational"]}, state_weight=1e3, initial={"J": 0.005})
    (point,) = found.points
    initial = {"J": 0.005, "b": 0.02}
    alone = problem.solve(stepper=variational(), state_weight=1e3, initial=initial, fixed=["b"])
    assert point.values == {"b": 0.02, "stepper": "variational"}
    assert (point.status, point.iterations, point.cost) == (alone.status, alone.iterations, alone.cost)
    assert point.parameters["J"] == alone["J"].changed(step_error=math.nan)
    assert point.parameters["b"].fixed
    assert point.parameters["b"].estimate == 0.02
    assert list(found.estimated.items()) == [("J", "kg m^2")]
    assert str(found).startswith("Sweep of swing: 1 of b x 1 of stepper, 1 points")


def variational() -> Any:
    from spookid import Variational

    return Variational()


@pytest.mark.parametrize(
    ("over", "complaint"),
    [
        ({"nonsense": [1]}, "'nonsense' is neither a setting"),
        ({"stepper": ["euler"]}, "stepper is 'euler'; choose from spook"),
        ({"step": ["x"]}, "step is 'x'; it takes numbers"),
        ({"state_weight": ["some"]}, "state_weight is 'some'; it takes numbers or auto"),
        ({"J": ["x"]}, "'J' is 'x'; give a finite number"),
        ({"max_iterations": [1.5]}, "max_iterations is 1.5"),
        ({"step": [0.01, -1]}, "step is -1.0; it must be a positive number"),
        ({"step": [0.01, 10]}, "swing"),
    ],
)
def test_points_that_the_problem_refuses_are_wrong_input(here: Path, over: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        sweep(load_problem("swing.py"), over)


def test_what_goes_wrong_at_a_point_stays_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def brittle(problem: Problem, *arguments: Any) -> Any:
        if problem.step == 0.02:
            raise MemoryError("too\nlarge")
        return solve(problem, *arguments)

    monkeypatch.setattr("spookid.studies.sweep_points.solve", brittle)
    found = sweep(load_problem("swing.py"), {"step": [0.02, 0.04]}, folder="out")
    assert [point.outcome for point in found.points] == ["failed", "converged"]
    assert found.points[0].message == "MemoryError: too large"
    assert "step = 0.02: MemoryError: too large" in found.text(100)
    assert [row["status"] for row in rows("out")] == ["failed", "converged"]
    assert len(list(Path("out/points").iterdir())) == 1  # the other is to be tried again


# --- executors ---


@pytest.mark.study
def test_processes_and_any_executor_give_what_one_process_gives(here: Path) -> None:
    over = {"state_weight": [1e3, 1e4], "step": [0.02]}
    alone = sweep("swing.py", over, jobs=1)
    with ThreadPoolExecutor(3) as threads:
        others = [sweep("swing.py", over, jobs=2), sweep("swing.py", over, executor=threads)]
    assert alone.unsettled == ()
    assert [point.values for point in alone.points] == grid_points(alone.axes)
    for other in others:
        assert other.csv() == alone.csv()


def test_a_problem_in_memory_cannot_be_sent(here: Path) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(ProblemError, match="give the path of a problem file"):
        sweep(load_problem("swing.py"), {"step": [0.02]}, executor=threads)
    with pytest.raises(ProblemError, match="jobs is 0"):
        sweep("swing.py", {"step": [0.02]}, jobs=0)


def test_a_problem_file_that_changes_meanwhile_is_refused_by_workers(here: Path) -> None:
    sent = pickle.dumps(Source(load_problem("swing.py"), str(here / "swing.py")))
    (here / "swing.py").write_text(FILE.replace("mass=0.5", "mass=0.6"))
    with pytest.raises(ProblemError, match="is not what it was"):
        _ = pickle.loads(sent).problem


def test_a_worker_that_dies_is_a_failure_of_its_points(here: Path) -> None:
    class Dying(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("gone"))
            return future

    found = sweep("swing.py", {"step": [0.02, 0.04]}, executor=Dying(1), folder="out")
    assert [point.message for point in found.points] == ["a worker process died; was memory short?"] * 2
    assert not Path("out/points").exists()


def test_a_dask_cluster_does_the_same_work(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        arguments = ["sweep", "swing.py", *GRID, "--out", "cluster", "--quiet"]
        assert main([*arguments, "--scheduler", cluster.scheduler_address]) == 0
    assert main(["sweep", "swing.py", *GRID, "--jobs", "1", "--out", "here", "--quiet"]) == 0
    assert Path("cluster/sweep.csv").read_text() == Path("here/sweep.csv").read_text()


def test_a_scheduler_needs_dask(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["sweep", "swing.py", *GRID, "--out", "out", "--scheduler", "tcp://localhost:1"]) == 2
    assert "pip install 'spookid[dask]'" in capsys.readouterr().err


# --- going on ---


def test_what_is_known_is_not_solved_again(here: Path, solves: list[dict[str, Any]]) -> None:
    before = []

    def seen(point: SweepPoint, known: bool) -> None:
        before.append(known)

    first = sweep("swing.py", {"step": [0.02, 0.04]}, jobs=1, folder="out", seen=seen)
    text = Path("out/sweep.csv").read_text()
    again = sweep("swing.py", {"step": [0.02, 0.04]}, jobs=1, folder="out", seen=seen)
    assert len(solves) == 2
    assert before == [False, False, True, True]
    assert again == first
    assert Path("out/sweep.csv").read_text() == text
    more = sweep("swing.py", {"step": [0.04, 0.03]}, jobs=1, folder="out")
    assert solves[2:] == [{"step": 0.03}]
    assert more.points[0] == first.points[1]


def test_a_point_keeps_what_is_not_finite(here: Path) -> None:
    over = {"state_weight": [math.inf, 1e4], "J": [0.005]}
    first = sweep("swing.py", over, jobs=1, folder="out", stepper="variational")
    again = sweep("swing.py", over, jobs=1, folder="out", stepper="variational")
    assert math.isnan(again.points[0].parameters["J"].std_err)
    assert again.points[0].parameters["b"].upper == math.inf
    assert repr(again) == repr(first)
    assert document("out")["axes"][0]["values"] == [None, 1e4]


def test_a_point_of_another_problem_is_solved_again(here: Path, solves: list[dict[str, Any]]) -> None:
    """Of another mass, setting or guess, and of other data."""

    def again() -> int:
        sweep("swing.py", {"step": [0.02]}, jobs=1, folder="out")
        return len(solves)

    assert again() == 1
    changes = {"mass=0.5": "mass=0.5000000001", "state_weight=1e4": "state_weight=2e4", '"b", 0.01': '"b", 0.02'}
    for count, (words, others) in enumerate(changes.items(), 2):
        (here / "swing.py").write_text(FILE.replace(words, others))
        assert again() == count
    (here / "run.csv").write_text((here / "run.csv").read_text().replace("\n0.02,", "\n0.0201,"))
    assert again() == 5


def test_a_point_of_other_settings_or_versions_or_a_damaged_one_is_solved_again(
    here: Path, solves: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(**settings: Any) -> int:
        sweep("swing.py", {"step": [0.02]}, jobs=1, folder="out", **settings)
        return len(solves)

    assert [again(), again(), again(cutoff=5.0), again(cutoff=5.0)] == [1, 1, 2, 2]
    (point,) = Path("out/points").iterdir()
    for damage in ("{}", point.read_text()[:-20]):
        point.write_text(damage)
        before = len(solves)
        assert again(cutoff=5.0) == before + 1
    before = len(solves)
    monkeypatch.setattr("spookid.results.folders.__version__", "0.0.0")
    assert again(cutoff=5.0) == before + 1


def test_a_point_that_is_interrupted_is_no_point(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver takes the signal for the end of its fit; the same command solves that point again."""
    calls = []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        return solve(*given[:3], lambda _: signal.raise_signal(signal.SIGINT) if len(calls) == 2 else None)

    monkeypatch.setattr("spookid.studies.sweep_points.solve", interrupted)
    command = ["sweep", "swing.py", "--over", "step=0.02,0.04", "--jobs", "1", "--out", "out", "--quiet"]
    assert main(command) == 130
    told = "spookid: interrupted; 1 of 2 points of swing are in out; the same command does the rest\n"
    assert capsys.readouterr() == ("", told)
    assert main(command) == 0
    assert len(calls) == 3
    assert {point["status"] for point in document("out")["points"]} == {"converged"}


@pytest.mark.parametrize("change", ["step_correction=False", "every=2", "constraints=[b <= 0.5]"])
def test_settings_and_constraints_change_a_problem(here: Path, change: str) -> None:
    before = digest(load_problem("swing.py"))
    (here / "swing.py").write_text(f"{FILE}\nproblem = problem.with_({change})\n")
    assert digest(load_problem("swing.py")) != before


def test_comments_do_not_change_a_problem(here: Path) -> None:
    before = digest(load_problem("swing.py"))
    (here / "swing.py").write_text(FILE + "# a comment\n")
    assert digest(load_problem("swing.py")) == before


def test_a_prior_changes_a_problem(here: Path) -> None:
    before = digest(load_problem("swing.py"))
    (here / "swing.py").write_text(FILE.replace('"b", 0.01', '"b", 0.01, prior=(0.01, 0.001)'))
    assert digest(load_problem("swing.py")) != before


def test_the_weight_of_a_point_may_be_left_to_the_data(here: Path) -> None:
    swept = sweep(load_problem("swing.py"), {"state_weight": ["auto", 1e-2]}, folder="out", max_iterations=30)
    alone = load_problem("swing.py").solve(state_weight="auto", max_iterations=30)
    assert swept.points[0].parameters["J"].estimate == alone["J"].estimate
    assert [row["state_weight"] for row in rows("out")] == ["auto", "0.01"]
    assert [row["log_likelihood"] for row in rows("out")] == [repr(alone.log_likelihood), ""]
    assert document("out")["points"][0]["log_likelihood"] == alone.log_likelihood
    assert f"  {alone.log_likelihood:.1f}" in str(swept)
    assert "log-likelihood" in str(swept)
    assert main(["sweep", "swing.py", "--over", "b=0.02", "--state-weight", "auto", "--jobs", "1", "--out", "b"]) == 0
    assert document("b")["settings"]["state_weight"] == "auto"


# --- the command ---


def test_the_command_prints_a_table_and_writes_a_folder(
    here: Path, capsys: pytest.CaptureFixture[str], drawn: None
) -> None:
    assert main(["sweep", "swing.py", *GRID, "--jobs", "1", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Sweep of swing: 2 of state_weight x 2 of stepper, 4 points\n")
    assert out.endswith("Written to out\n")
    assert {path.name for path in Path("out").iterdir()} == {
        "points",
        *(f"sweep.{e}" for e in ["json", "csv", "txt", "png"]),
    }
    assert Path("out/sweep.png").read_bytes().startswith(b"\x89PNG")
    tree = document("out")
    assert (tree["schema"], tree["problem"], tree["complete"]) == (2, "swing", True)
    assert [point["values"]["state_weight"] for point in tree["points"]] == [1e3, 1e3, 1e4, 1e4]
    alone = load_problem("swing.py").solve(state_weight=1e4, stepper=variational())
    row = rows("out")[3]
    assert float(row["J"]) == alone["J"].estimate
    assert float(row["J_std_err"]) == alone["J"].std_err
    assert float(row["cost"]) == alone.cost.total
    assert row["stepper"] == "variational"


def test_points_that_are_not_converged_make_the_status(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sweep", "swing.py", "--over", "max_iterations=1,100", "--jobs", "1", "--out", "out", "--quiet"]
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "1 of 2 points of swing are not converged, the first at max_iterations = 1 (max_iterations)" in err
    assert [row["status"] for row in rows("out")] == ["max_iterations", "converged"]


def test_a_terminal_that_does_not_tell_its_width_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    inside, outside = pty.openpty()
    os.set_blocking(inside, False)
    with os.fdopen(outside, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with terminal.counting("swing", 3, shown=True):
            assert b"swing:   0%" in os.read(inside, 1000)
    os.close(inside)


@pytest.mark.study
def test_several_problems_share_the_workers_and_have_a_folder_each(here: Path) -> None:
    # Workers of an earlier sweep, which wait in another folder, may serve again.
    loaded = "(Path(__file__).parent / f\"loaded-{__import__('os').getpid()}\").touch()\n"
    (here / "swing.py").write_text(TWO + loaded)
    assert main(["sweep", "swing.py", "--over", "step=0.02,0.04", "--jobs", "2", "--out", "out", "--quiet"]) == 0
    workers = {path.name for path in here.glob("loaded-*")} - {f"loaded-{os.getpid()}"}
    assert 1 <= len(workers) <= 2
    assert [document(f"out/{key}")["problem"] for key in "ab"] == ["swing", "again"]
    for key in "ab":
        assert [(row["step"], row["status"]) for row in rows(f"out/{key}")] == [
            ("0.02", "converged"),
            ("0.04", "converged"),
        ]


def test_workers_that_died_are_replaced_by_others() -> None:
    first = processes(1)
    assert processes(1) is first
    with pytest.raises(BrokenExecutor):
        first.submit(os._exit, 1).result(timeout=60)
    assert processes(1).submit(abs, -3).result(timeout=60) == 3
    cut_off(processes(1))


@pytest.mark.study
def test_workers_do_not_outlive_a_sweep_that_its_caller_ends(here: Path) -> None:
    def seen(point: SweepPoint, known: bool) -> None:
        raise RuntimeError("enough")

    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match="enough") as caught:
        sweep("swing.py", {"state_weight": [1e3, 1e4, 1e5, 1e6]}, jobs=2, seen=seen)
    running = set(multiprocessing.active_children()) - before
    # The pool's own thread waits for the same children, and one that it has just reaped may seem to be alive.
    assert all(wait([child.sentinel], timeout=60) for child in running)
    assert caught.tb is not None  # whose frames are alive still


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--over", "step=1:2"], "no axis"),
        (["--over", "step=0.02,-1"], "must be a positive number"),
        (["--over", "mass=1,2"], "neither a setting"),
        (["--over", "step=0.02", "--over", "step=0.01"], "swept twice"),
        (["--over", "step=0.02", "--step", "0.01"], "step is given and swept"),
        (["--over", "step=0.02", "--set", "x=1"], "no parameter 'x'"),
    ],
)
def test_wrong_input(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str) -> None:
    assert main(["sweep", "swing.py", *arguments, "--out", "out"]) == 2
    assert complaint in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_of_something_else_is_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    assert main(["sweep", "swing.py", *GRID, "--out", "out"]) == 2
    assert "holds no earlier sweep.json" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def command(*arguments: str) -> subprocess.Popen[str]:
    """A sweep in a process of its own."""
    line = [sys.executable, "-m", "spookid", "sweep", "swing.py", *LONG, *arguments]
    return subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_points(folder: str, count: int) -> None:
    for _ in range(3000):
        if len(list(Path(folder).glob("points/*.json"))) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("no points came")


def workers_of(folder: Path, running: subprocess.Popen[str]) -> set[int]:
    """Processes that have loaded the problem file, but for the sweep's own."""
    return {int(path.name.partition("-")[2]) for path in folder.glob("loaded-*")} - {running.pid}


TELLS = 'open(f"loaded-{__import__(\'os\').getpid()}", "w").close()\n'
"""A line of a problem file, by which one sees what loads it."""


@pytest.mark.study
def test_a_sweep_that_is_killed_leaves_no_workers_goes_on_and_gives_the_same_table(here: Path, whole: Path) -> None:
    (here / "swing.py").write_text(FILE + TELLS)
    running = command("--out", "cut", "--jobs", "2")
    wait_for_points("cut", 2)
    workers = workers_of(here, running)
    assert workers
    running.kill()
    running.communicate(timeout=30)
    for _ in range(500):
        if not any(alive(pid) for pid in workers):
            break
        time.sleep(0.01)
    else:
        raise AssertionError("workers live on")
    kept = {path: path.stat().st_mtime_ns for path in Path("cut/points").glob("*.json")}
    assert 2 <= len(kept) < 8
    assert not document("cut")["complete"]
    assert main(["sweep", "swing.py", *LONG, "--out", "cut", "--quiet", "--jobs", "1"]) == 0
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert Path("cut/sweep.csv").read_text() == (whole / "sweep.csv").read_text()
    assert Path("cut/sweep.txt").read_text() == (whole / "sweep.txt").read_text()
    assert document("cut")["complete"]


@pytest.mark.study
def test_an_interrupt_ends_the_sweeps_of_all_problems(here: Path) -> None:
    (here / "swing.py").write_text(TWO + TELLS)
    running = command("--out", "cut", "--jobs", "2")
    wait_for_points("cut/a", 1)
    workers = workers_of(here, running)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    kept = len(list(Path("cut/a/points").glob("*.json")))
    assert 1 <= kept < 8
    assert f"interrupted; {kept} of 8 points of a are in cut/a" in err
    assert not document("cut/a")["complete"]
    assert "not started: b" in err
    assert workers
    assert not any(alive(pid) for pid in workers)


def alive(pid: int) -> bool:
    """True if a process runs; one that ended and was not collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- figures and tables ---


def made(axes: tuple[Axis, ...], bad: int = 0) -> Sweep:
    """A sweep of made-up numbers, whose first points failed and the next did not converge."""
    points = []
    for i, values in enumerate(grid_points(axes)):
        error = 0.05 if i % 2 else math.nan
        bounds = {"initial": 1.0, "lower": 0.0, "upper": math.inf, "at_bound": False}
        estimate = Estimate(name="J", estimate=1.0 + 0.1 * i, std_err=error, reason="", unit="kg m^2", **bounds)
        status = Status.CONVERGED if i >= 2 * bad else Status.STALLED
        point = SweepPoint(values, status, "", i, Cost(1.0 + i, 2.0), {"J": estimate}, 0.1)
        points.append(failed(values, "broken") if i < bad else point)
    return Sweep("swing", axes, tuple(points), Variant(), {})


NUMBERS, WORDS = Axis("state_weight", (1.0, 10.0, 100.0)), Axis("stepper", ("spook", "variational"))
MANY = Axis("step", tuple(0.01 * (i + 1) for i in range(9)))


def panels(figure: Figure) -> dict[str, Any]:
    figure.draw_without_rendering()
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}


def test_lines_over_one_axis() -> None:
    (figure,) = sweep_plot.figures(made((NUMBERS,), bad=1))
    found = panels(figure)
    assert list(found) == ["cost", "iterations", "J [kg m²]"]
    J = found["J [kg m²]"]
    assert J.get_xscale() == "log"
    curve, sure, unsure = J.lines[:3]
    np.testing.assert_array_equal(curve.get_ydata(), [math.nan, 1.1, 1.2])
    assert [line.get_xdata().tolist() for line in (sure, unsure)] == [[100.0], [1.0, 10.0]]
    np.testing.assert_allclose(J.containers[0][2][0].get_segments(), [[[10.0, 1.1 - 0.098], [10.0, 1.1 + 0.098]]])
    assert [line.get_xdata().tolist() for line in J.lines if line.get_marker() == "x"] == [[1.0]]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["95 % interval", "not converged", "failed"]


def test_likelihoods_stand_in_the_place_of_costs() -> None:
    swept = made((NUMBERS,), bad=1)
    likely = [p if p.status is None else replace(p, log_likelihood=float(i)) for i, p in enumerate(swept.points)]
    (figure,) = sweep_plot.figures(replace(swept, points=tuple(likely)))
    found = panels(figure)
    assert list(found) == ["log-likelihood", "iterations", "J [kg m²]"]
    np.testing.assert_array_equal(found["log-likelihood"].lines[0].get_ydata(), [math.nan, 1.0, 2.0])
    swept = made((NUMBERS, MANY))
    likely = [replace(p, log_likelihood=1.0) for p in swept.points]
    assert "log-likelihood" in panels(sweep_plot.figures(replace(swept, points=tuple(likely)))[0])


def test_a_line_for_each_value_of_the_second_axis_and_a_figure_for_each_of_the_third() -> None:
    (figure,) = sweep_plot.figures(made((NUMBERS, WORDS)))
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == [
        "stepper = spook",
        "stepper = variational",
    ]
    assert panels(figure)["iterations"].lines[0].get_ydata().tolist() == [0, 2, 4]
    assert panels(sweep_plot.figures(made((WORDS, NUMBERS)))[0])["cost"].get_xticklabels()[0].get_text() == "spook"
    several = sweep_plot.figures(made((NUMBERS, MANY, WORDS)))
    assert [figure.get_suptitle() for figure in several] == [
        f"Sweep of swing, stepper = {name}" for name in WORDS.values
    ]


def test_maps_over_two_axes_with_many_values() -> None:
    found = panels(sweep_plot.figures(made((NUMBERS, MANY), bad=1))[0])
    cells = found["J [kg m²]"].images[0].get_array()
    assert cells.shape == (9, 3)
    assert not np.isfinite(np.ma.filled(cells, np.nan)[0, 0])
    assert cells[0, 1] == pytest.approx(1.9)  # the second axis changes fastest, and goes upwards
    crosses = [(line.get_xdata()[0], line.get_ydata()[0]) for line in found["cost"].lines]
    assert crosses == [(0, 0), (0, 1)]
    assert found["cost"].get_ylabel() == "step [s]"


def test_a_wide_table_comes_in_blocks() -> None:
    found = made((NUMBERS,), bad=1)
    wide = replace(found.points[2].parameters["J"], name="a_name_that_needs_much_room", at_bound=True)
    point = replace(found.points[2], parameters={**found.points[2].parameters, wide.name: wide})
    found = replace(found, points=(*found.points[:2], point))
    text = found.text(60)
    head, *blocks = text.split("\n\n")
    assert head == "Sweep of swing: 3 of state_weight, 3 points, 2 of them not converged"
    assert all(block.splitlines()[0].split()[0] == "state_weight" for block in blocks[:2])
    assert blocks[0].splitlines()[1].split() == ["1", "failed", "-", "-", "-"]
    assert blocks[0].splitlines()[2].split()[:4] == ["10", "stalled", "1", "4"]
    assert blocks[1].splitlines()[3].endswith("1.2 (bound)")
    assert blocks[-1] == "Failed\n  state_weight = 1: broken"
    assert max(len(line) for block in blocks[:2] for line in block.splitlines()) <= 60
