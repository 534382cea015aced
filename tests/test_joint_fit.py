"""Joint fits over workers: as a fit in one process, whoever works, and however often it is ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spookid import ProblemError, RecordingFiles, Solution, Status, load, load_problem, solve_jointly
from tests.benchmarks.many_twins import TRUTH, write


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twins of five recordings, one in each piece of work, four of which are the first."""
    return write(tmp_path_factory.mktemp("twins"), 5, 0.5)


@pytest.fixture(scope="module")
def alone(path: Path) -> Solution:
    return solve_jointly(path)


def digits(found: Solution) -> tuple[Any, ...]:
    """All numbers that a fit is asked for."""
    told = [(e.estimate, e.std_err) for e in found.parameters.values()]
    states = [t.q.tobytes() for t in found.trajectories]
    return told, [(n.std, n.error) for n in found.noise], found.log_likelihood, found.history, states


def test_it_is_the_fit_in_one_process(path: Path, alone: Solution) -> None:
    whole = load_problem(path).solve()
    assert alone.status is whole.status
    assert alone.size == whole.size
    assert alone.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-3)
    for name, one in whole.parameters.items():
        found = alone[name]
        assert abs(found.estimate - one.estimate) < 0.005 * one.std_err
        assert found.std_err == pytest.approx(one.std_err, rel=1e-2)
        assert abs(found.estimate - TRUTH[name]) < 4 * found.std_err
    pairs = zip(alone.noise, whole.noise, strict=True)
    assert all(mine.std == pytest.approx(other.std, rel=0.02 * other.error) for mine, other in pairs)


def test_the_step_is_taken_from_the_estimates_of_all(path: Path, alone: Solution, tmp_path: Path) -> None:
    problem = load_problem(path).with_(step_correction=True)
    found, whole = solve_jointly(problem), problem.solve()
    found.save(tmp_path / "out")  # with figures, of what is known of the first recordings
    assert digits(load(tmp_path / "out"))[0] == digits(found)[0]
    assert found.status is Status.CONVERGED
    assert (found.size, found.step) == (whole.size, whole.step)
    assert [len(t.t) for t in found.trajectories] == [len(t.t) for t in alone.trajectories]
    assert not any(finding.code == "step.error" for finding in found.findings)
    for name, one in whole.parameters.items():
        assert abs(found[name].estimate - one.estimate) < 0.05 * one.std_err
        assert found[name].step_error == pytest.approx(one.step_error, rel=0.1, abs=0.05 * one.std_err)
        assert found[name].std_err == pytest.approx(one.std_err, rel=2e-2)


@pytest.mark.parametrize("settings", [{"estimator": "hard"}, {"state_weight": 1e4}])
def test_too_few_to_scatter_are_fitted_in_one_process(path: Path, settings: dict[str, Any]) -> None:
    """And so have standard errors."""
    found, whole = solve_jointly(path, **settings), load_problem(path).with_(**settings).solve()
    assert [str(one) for one in found.parameters.values()] == [str(one) for one in whole.parameters.values()]
    assert np.isfinite(found["J"].std_err)


def test_one_recording_has_the_same_verdict_with_workers(tmp_path: Path) -> None:
    problem = Path(__file__).parents[1] / "problems" / "pendulum.py"
    command = [sys.executable, "-m", "spookid", "solve", str(problem), "--no-figures", "--quiet", "--out"]
    for out, more in (("plain", []), ("joint", ["--jobs", "1"])):
        assert subprocess.run([*command, str(tmp_path / out), *more], check=False).returncode == 0
    plain, joint = load(tmp_path / "plain"), load(tmp_path / "joint")
    assert plain.parameters == joint.parameters
    assert plain.findings == joint.findings


def test_errors_are_those_of_one_process_where_recordings_differ(tmp_path: Path) -> None:
    """From twenty recordings on errors are of their scatter, of fewer by blocks of them; and what the step adds."""
    for count in (8, 20):
        path = write(tmp_path / str(count), count, 1.0)
        rng = np.random.default_rng(5)
        for log in sorted((path.parent / "logs").glob("*.npz")):
            with np.load(log) as columns:
                gain, slow = 1 + 0.1 * rng.standard_normal(), 0.03 * np.sin(3 * columns["t"])
                np.savez(log, t=columns["t"], theta=columns["theta"] + slow, u=gain * columns["u"])
        found, whole = solve_jointly(path), load_problem(path).solve()
        for name, one in whole.parameters.items():
            assert abs(found[name].estimate - one.estimate) < 0.014 * one.std_err  # √(2 · 1e-4), where a search ends
            assert found[name].std_err == pytest.approx(one.std_err, rel=5e-3)
            assert found[name].step_error == pytest.approx(one.step_error, rel=1e-2)
        raised = whole.sensitivities.inflation.size > 0
        (told,) = (finding.effect for finding in found.findings if finding.code == "fit.recordings")
        assert ("Standard errors are computed from the scatter between recordings" in told) is raised is (count == 20)
        (differ,) = (finding for finding in whole.findings if finding.code == "recordings.differ")
        assert ("The standard errors include this variation." in differ.effect) is raised


def test_given_weights_are_least_squares(tmp_path: Path) -> None:
    path = write(tmp_path, 20, 0.5)
    found, whole = solve_jointly(path, state_weight=1e4), load_problem(path).solve(state_weight=1e4)
    for name, one in whole.parameters.items():
        assert abs(found[name].estimate - one.estimate) < 0.005 * one.std_err
        assert found[name].std_err > 0
    assert found.cost.total == pytest.approx(whole.cost.total, rel=1e-8)


class Losing(ThreadPoolExecutor):
    """Loses its workers some times."""

    left = 0

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        if self.left == 0:
            return super().submit(*given, **named)
        self.left -= 1
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("gone"))
        return future


def test_workers_and_an_end_in_between_change_no_digit(path: Path, alone: Solution, tmp_path: Path) -> None:
    seen: list[int] = []

    def interrupt(iteration: Any) -> None:
        seen.append(iteration.iteration)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with Losing(2) as executor:
        executor.left = 7
        with pytest.raises(KeyboardInterrupt):
            solve_jointly(path, executor=executor, folder=tmp_path / "kept", callback=interrupt)
        found = solve_jointly(path, executor=executor, folder=tmp_path / "kept", callback=interrupt)
    assert seen[:4] == [0, 1, 2, 2]  # what led to the last but one is kept
    assert digits(found) == digits(alone)


def test_what_it_does_not_know_is_refused(path: Path, tmp_path: Path) -> None:
    for settings, words in (
        ({"backend": "ipopt"}, "take 'lm'"),
        ({"friction": "exact"}, "take 'smooth'"),
        ({"state_weight": np.inf}, "estimator='hard'"),
    ):
        with pytest.raises(ProblemError, match=words):
            solve_jointly(path, **settings)
    with pytest.raises(ProblemError, match="give the path of its file"):
        solve_jointly(load_problem(path), jobs=2)
    with ThreadPoolExecutor(1) as executor, pytest.raises(ProblemError, match="needs a folder"):
        solve_jointly(path, executor=executor)


def test_a_folder_of_something_else_is_left_alone(path: Path, tmp_path: Path) -> None:
    (tmp_path / "0000000").mkdir()
    for name in ("thesis.tex", "fit.npz", "identity", "0000000/0000000.npz"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(ProblemError, match="holds no earlier joint_fit"):
        solve_jointly(path, folder=tmp_path)
    assert {one.read_text() for one in tmp_path.rglob("*.*") if one.is_file()} == {"mine"}


def test_problems_that_are_none_are_refused() -> None:
    for wrong in (None, 3, [1]):
        with pytest.raises(ProblemError, match="solve_jointly: problem is"):
            solve_jointly(wrong)  # type: ignore[arg-type]


def test_a_recording_that_is_sampled_otherwise_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path.parent, tmp_path / "twins")
    last = tmp_path / "twins/logs/000004.npz"
    with np.load(last) as columns:
        shifted = {name: columns[name] + 0.003 * (name == "t") * (np.arange(51) > 25) for name in columns.files}
    np.savez(last, **shifted)
    with pytest.raises(ProblemError, match="'theta' of recording '000004' is sampled otherwise"):
        solve_jointly(tmp_path / "twins/twins.py")


def test_files_are_recordings_that_are_read_when_asked_for(path: Path) -> None:
    files = RecordingFiles(str(path.parent / "logs" / "*.npz"))
    assert (len(files), files.names[-1], files[1].name) == (5, "000004", "000001")
    assert [one.name for one in files] == list(files.names)
    with pytest.raises(ProblemError, match="there is no file"):
        RecordingFiles("nothing/*.npz")
    with pytest.raises(ProblemError, match="name each once"):
        RecordingFiles([files.paths[0], files.paths[0]])


class Joint:
    """The command of a joint fit of sixty twins, and what it keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder, 60, 5.0)

    def command(self, out: str, *how: str) -> list[str]:
        return [sys.executable, "-m", "spookid", "solve", "twins.py", "--quiet", "--out", out, *how]

    @property
    def kept(self) -> int:
        """When the fit was kept last [ns]; 0: not yet."""
        places = (self.folder / ".out.unfinished" / "joint").glob("*.place.npz")
        return max((place.stat().st_mtime_ns for place in places), default=0)

    def run(self, out: str, *how: str) -> None:
        subprocess.run(self.command(out, *how), cwd=self.folder, check=True)

    def begin(self, *how: str) -> subprocess.Popen[str]:
        """Started, and in the middle of its fit."""
        running = subprocess.Popen(self.command("out", *how), cwd=self.folder, stderr=subprocess.PIPE, text=True)
        while not any(self.folder.glob(".out.unfinished/joint/*/*.1.npy")):  # states of the first pass
            assert running.poll() is None
            time.sleep(0.05)
        return running

    def goes_on(self) -> None:
        """Until the next iterate is kept."""
        before = self.kept
        while self.kept == before:
            time.sleep(0.05)

    def check(self) -> None:
        """It gave what one process gives."""
        self.run("whole", "--jobs", "1")
        assert digits(load(self.folder / "out")) == digits(load(self.folder / "whole"))


@pytest.mark.study
def test_commands_that_are_killed_go_on(tmp_path: Path) -> None:
    """Of two worker processes one is killed, and later the command itself; the same command ends the fit."""
    joint = Joint(tmp_path)
    running = joint.begin("--jobs", "2")
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    workers = [c for c in children if b"loky" in Path(f"/proc/{c}/cmdline").read_bytes()]
    os.kill(int(workers[-1]), signal.SIGKILL)
    joint.goes_on()
    running.kill()
    running.wait()
    joint.run("out", "--jobs", "2")
    joint.check()


@pytest.mark.study
def test_a_worker_and_a_scheduler_that_are_killed_change_no_digit(tmp_path: Path) -> None:
    """The command says that the scheduler is gone, and goes on with another one."""
    pytest.importorskip("distributed")
    joint, place = Joint(tmp_path), tmp_path / "scheduler.json"
    started: list[subprocess.Popen[bytes]] = []

    def daemon(kind: str, *how: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(place), "--no-dashboard"]
        started.append(subprocess.Popen([*words, *how], stderr=subprocess.DEVNULL))
        return started[-1]

    def cluster() -> tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        place.unlink(missing_ok=True)
        scheduler = daemon("scheduler", "--port", "0")
        while not place.exists():
            time.sleep(0.05)
        workers = [daemon("worker", "--nthreads", "1", "--no-nanny") for _ in range(2)]
        return str(json.loads(place.read_text())["address"]), scheduler, workers[-1]

    try:
        address, scheduler, worker = cluster()
        running = joint.begin("--scheduler", address)
        worker.kill()
        joint.goes_on()
        scheduler.kill()
        _, said = running.communicate(timeout=60)
        assert running.returncode == 2
        assert said.count("\n") == 1
        assert f"the Dask scheduler at {address} has stopped" in said
        joint.run("out", "--scheduler", cluster()[0])
    finally:
        for one in started:
            one.kill()
    joint.check()
