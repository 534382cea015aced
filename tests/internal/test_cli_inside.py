"""The inside of what ``test_cli`` tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_cli import BLIND, ONE, TRUTH, TWO, simulation, tree, write
from test_cli import data as data
from test_cli import here as here

from spookid import ProblemError, Recording, load_problem
from spookid.__main__ import main
from spookid.cli import checking, flags, runner, solving, terminal
from spookid.files import beside
from spookid.registry import COMMANDS
from spookid.report import export
from spookid.results import folders, settings
from spookid.studies import simulation_study as simulation_plot
from spookid.studies.simulation_study import compare
from spookid.studies.variants import STEPPERS

# --- arguments ---


def test_choices_are_those_of_the_package():
    assert flags.BACKENDS == settings.BACKENDS
    assert flags.FRICTIONS == settings.FRICTIONS
    assert set(flags.STEPPERS) == set(STEPPERS)


def test_worst_status():
    order = [terminal.Exit.INTERRUPTED, terminal.Exit.WRONG_INPUT, terminal.Exit.NOT_CONVERGED, terminal.Exit.DONE]
    assert [int(end) for end in order] == [130, 2, 3, 0]
    for i, end in enumerate(order):
        assert runner.worst(*reversed(order[i:])) is end


# --- wrong input, common to all commands ---


def test_unexpected_exceptions_are_not_swallowed(here, monkeypatch):
    def fail(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(checking, "assemble", fail)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        main(["check", write(ONE)])


# --- solve ---


def test_what_commands_run_is_there():
    assert all(callable(command.function) for command in COMMANDS.values())


def test_refused_folders_are_known_before_the_first_solve(here, capsys, monkeypatch):
    Path("out/b").mkdir(parents=True)
    Path("out/b/notes.txt").write_text("mine")
    complaints = []
    monkeypatch.setattr(solving, "_solve", lambda *_: complaints.append(capsys.readouterr().err) or terminal.Exit.DONE)
    assert main(["solve", write(TWO), "--out", "out"]) == 2
    assert complaints == [
        "spookid: error: b: out/b is not empty and holds no earlier solution.json, so it is left alone; "
        "choose another folder\n"
    ]


# --- simulate ---


def test_simulated_signals_have_their_own_units(here, capsys):
    text = ONE + (
        "from spookid import Observation, PointPosition\n"
        "tip = problem.model.bodies[0].frame(at=(0.2, 0, 0))\n"
        "sensors = [PointPosition(tip, 'x', 'x'), Observation(lambda s: s.position(tip)[2], 'z')]\n"
        "problem = problem.with_(observations=[*problem.observations, *sensors], recordings=[])\n"
    )
    made = load_problem(write(text)).simulate(TRUTH, 0.5, {"pivot": 4.0})
    Recording(made.t, made.signals, "run").to_csv("run.csv")
    path = write(text.replace("recordings=[]", "recordings=[run()]"))
    assert main(["simulate", path, "--out", "out"]) == 0
    sentence = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"rms difference theta \S+ rad, x \S+ m, z [^ ]+$", sentence), sentence
    comparison = compare(load_problem(path), 0, TRUTH, None, {"pivot": 4.0}, lambda steps: steps)
    figure = simulation_plot.figure([comparison], "title")
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["theta [rad]", "x [m]", "z"]
    units = [axes.texts[0].get_text().split()[2:] for axes in figure.axes[1::2]]
    assert [unit[0].strip("mµn") + "|" if unit else "" for unit in units] == ["rad|", "|", ""]


def test_a_simulation_without_measurements_has_no_residuals(here):
    blind = load_problem(write(BLIND))
    comparison = compare(blind, 0, TRUTH, 0.5, {"pivot": 1.0}, lambda steps: steps)
    figure = simulation_plot.figure([replace(comparison, failure="no way on")], "title")
    assert [axes.get_ylabel() for axes in figure.axes] == ["theta [rad]"]
    assert figure.axes[0].get_title(loc="left") == "blind, not solved after 0.5 s"
    assert figure.axes[0].get_xlabel() == "time [s]"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["simulated"]


def test_first_step_without_a_solution(here, capsys, monkeypatch):
    monkeypatch.setattr("spookid.stepping.simulation.NEWTON", 0)
    assert main(["simulate", write(ONE), "--out", "out", "--quiet"]) == 3
    assert "step 1 (t = 0.01 s) was not solved" in capsys.readouterr().err
    [entry] = simulation("out")["recordings"]
    assert (entry["steps"], entry["file"], entry["duration"]) == (1, None, 0)
    assert not list(Path("out").glob("*.csv"))


# --- folders ---


MARK = {"mark.json": {"schema": 1, "problem": "p", "new": True}}


def test_folder_is_whole_or_absent(tmp_path):
    target = tmp_path / "deep" / "out"
    folders.save(target, {**MARK, "late.txt": lambda path: path.write_text(str(target.exists()))})
    assert [path.name for path in target.parent.iterdir()] == ["out"]
    assert (target / "late.txt").read_text() == "False"

    def fail(path):
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        folders.save(target, {"mark.json": {}, "half": fail})
    assert [path.name for path in target.parent.iterdir()] == ["out"]
    assert json.loads((target / "mark.json").read_text())["new"]


def test_folder_is_put_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    (target / "mark.json").write_text('{"schema": 1, "problem": "p", "old": true}')
    rename = Path.rename

    def fail(self, to):
        if self.suffix == ".part":
            raise OSError(28, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ProblemError, match=r"out cannot be written \(No space left on device\)"):
        folders.save(target, MARK)
    assert json.loads((target / "mark.json").read_text())["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_run_left_is_cleared_and_what_it_moved_aside_comes_back(tmp_path):
    """Only if its process is dead; and nothing that is not of spookid goes with it."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    target, left = tmp_path / "out", {}
    for number in (dead.pid, os.getppid()):
        for kind in ("part", "old"):
            name = beside(target, kind).name.replace(f"-{os.getpid()}-", f"-{number}-")
            left[number, kind] = tmp_path / name
            folders.save(left[number, kind], MARK)
            (left[number, kind] / "notes.txt").write_text("mine")
    assert folders.check_target(target, "mark.json") == target
    assert (target / "notes.txt").read_text() == "mine"
    alive = {left[os.getppid(), kind].name for kind in ("part", "old")}
    assert {path.name for path in tmp_path.iterdir()} == {"out", *alive}


def test_folder_that_filled_up_meanwhile_is_left_alone(tmp_path):
    target = tmp_path / "out"

    def late(path):
        target.mkdir()
        (target / "notes.txt").write_text("mine")

    with pytest.raises(ProblemError, match="is not empty"):
        folders.save(target, {**MARK, "late": late})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folders.save(tmp_path / "link", MARK)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "mark.json").exists()


def test_targets_that_are_refused(tmp_path):
    def refusal(path):
        with pytest.raises(ProblemError) as caught:
            folders.check_target(path, "mark.json")
        return str(caught.value)

    file = tmp_path / "file"
    file.write_text("")
    assert refusal(file) == f"{file} is a file; choose another folder"
    assert refusal(file / "out") == f"{file / 'out'} cannot be made because {file} is a file; choose another folder"
    mine = tmp_path / "mine"
    mine.mkdir()
    for content in ("", "[]", '{"other": 1}'):
        (mine / "mark.json").write_text(content)
        assert "mine is not empty and holds no earlier mark.json" in refusal(mine)
    (mine / "mark.json").write_text('{"schema": 1, "problem": "p"}')
    folders.check_target(mine, "mark.json")
    (mine / "below").mkdir()
    assert "mine would be replaced with the folder 'below' in it; move that away" in refusal(mine)
    assert refusal("/proc").startswith("/proc ")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if not os.access(locked, os.W_OK):  # root may write everywhere
        assert f"because {locked} is not writable" in refusal(locked / "out")


# --- interrupts ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_solving_saves_the_best_iterate(here, capsys, monkeypatch, number):
    show = terminal.SolverLine.show

    def interrupt(line, iteration):
        show(line, iteration)
        if iteration.iteration == 1:
            signal.raise_signal(number)

    monkeypatch.setattr(terminal.SolverLine, "show", interrupt)
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    assert main(["solve", write(TWO), "--out", "out"]) == 130
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    out, err = capsys.readouterr()
    assert "interrupted\n" in out
    told = "interrupted; the best iterate of a is in out/a; repeat the command to resume"
    assert err == f"spookid: {told}\nspookid: not started: b\n"
    assert (tree("out/a")["status"], tree("out/a")["iterations"]) == ("interrupted", 1)
    assert not Path("out/b").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_building_writes_nothing(here, capsys, monkeypatch, number):
    monkeypatch.setattr("spookid.estimation.fitting.assemble", lambda *_: signal.raise_signal(number))
    assert main(["solve", write(ONE), "--out", "out"]) == 130
    assert capsys.readouterr() == ("", "spookid: interrupted before swing was done\n")
    assert not Path("out").exists()


def test_interrupt_after_the_end_loses_nothing(here, capsys, monkeypatch):
    """It comes while the summary is made: too late to shorten the solve, and no reason to drop it."""
    summarize = export.summarize

    def interrupt(solution):
        signal.raise_signal(signal.SIGINT)
        return summarize(solution)

    monkeypatch.setattr(export, "summarize", interrupt)
    assert main(["solve", write(TWO), "--out", "out"]) == 130
    assert "not started: b" in capsys.readouterr().err
    assert tree("out/a")["status"] == "converged"


def test_second_interrupt_does_not_wait(here, capsys, monkeypatch):
    def interrupt(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("spookid.report.export.save", interrupt)
    assert main(["solve", write(ONE), "--out", "out", "--quiet"]) == 130
    assert capsys.readouterr().err == "spookid: interrupted before swing was done\n"
    assert not Path("out").exists()


# --- on a terminal ---


def test_columns(monkeypatch):
    for told, used in (("10", 60), ("90", 90), ("500", 500)):
        monkeypatch.setenv("COLUMNS", told)
        assert terminal.columns() == used
