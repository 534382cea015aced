"""What a process of the studio does: look at a robot, read a log, write a problem file, check, solve, predict, compare.

Each is a function of the task, of what sends events meanwhile, and of what is set once the user cancels.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

from msgspec import convert

from spookid.assembly.loading import load_file, load_problem
from spookid.errors import ProblemError
from spookid.estimation.questions import questions
from spookid.report import export
from spookid.report.conclusion import inertia_coordinates
from spookid.robots import Robot, read
from spookid.robots.logs import recording_of
from spookid.solvers.status import Iteration
from spookid.studies.motor_efforts import inverse_dynamics
from spookid.studies.nested_models import ladder
from spookid.studies.simulating import simulate
from spookid.studio import facts, writing
from spookid.studio.choices import Choices
from spookid.studio.folder import check_named

Task: TypeAlias = dict[str, Any]
Say: TypeAlias = Callable[[dict[str, Any]], None]


def _confine(folder: Path) -> None:
    """From now on refuse to open files that are neither in the folder nor of Python and the system's libraries."""
    homes = [folder.resolve(), *map(Path, ("/usr", "/lib", "/opt", "/dev/null", "/proc/self"))]
    homes += [Path(place).resolve() for place in {sys.prefix, sys.base_prefix, *filter(None, sys.path)}]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = Path(os.fsdecode(arguments[0])).resolve()
            if not any(path.is_relative_to(home) for home in homes):
                raise PermissionError(13, "the file is outside the folder of the studio", str(path))

    sys.addaudithook(hook)


def _robot(task: Task) -> tuple[Robot, Choices]:
    """The robot of a task, and what was chosen; from then on no file outside the folder is opened."""
    folder, choices = Path(task["folder"]), convert(task["choices"], Choices)
    _confine(folder)
    check_named(folder, folder / task["robot"])
    return read(folder / task["robot"], free=choices.free, mend=choices.mend), choices


def look_at_robot(task: Task, say: Say, cancelled: Event) -> Any:
    """A robot's file."""
    return facts.of_robot(_robot(task)[0])


def read_log(task: Task, say: Say, cancelled: Event) -> Any:
    """Read a log: its columns, their probable meaning, and their time series."""
    log, columns = writing.proposed(*_robot(task), Path(task["folder"], task["log"]))
    recording, left_out = writing.readable(log, columns)
    own = {
        "columns": {name: asdict(one) for name, one in columns.items()},
        "left_out": left_out,
        "units": dict(log.units),
    }
    return {**facts.of_recording(recording, log.notes), **own, "time": log.time, "has_times": log.has_times}


def write(task: Task, say: Say, cancelled: Event) -> Any:
    """Write a problem file: a new one, an opened one with other choices, or one of friction laws; returns notes."""
    out, notices = Path(task["out"]), tuple[str, ...]()
    if task["source"] is None:
        text, notices = writing.new(*_robot(task), [Path(task["folder"], name) for name in task["logs"]], out)
    else:
        text = writing.edited(task["source"], convert(task["choices"], Choices))
    if task["ladder"]:
        text = writing.ladder(text, task["ladder"])
    out.write_text(text, encoding="utf-8")
    return list(notices)


def check(task: Task, say: Say, cancelled: Event) -> Any:
    """Return questions about a problem, and what the data will determine."""
    file = load_file(task["problem"])
    problem = next(iter(file.problems.values()))
    if not problem.recordings:
        raise ProblemError("there is no recording yet; drop a log at Data")
    say({"event": "questions", "questions": [facts.of_finding(one) for one in questions(problem)]})
    return {**facts.of_problem(problem), "keys": list(file.problems) if file.several else []}


def solve(task: Task, say: Say, cancelled: Event) -> Any:
    """Fit a problem as ``spookid solve`` does, with its result folder."""
    file, said = load_file(task["problem"]), [0.0]
    key, problem = next(iter(file.problems.items()))
    names = [parameter.name for parameter in problem.free]

    def callback(iteration: Iteration) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt
        if time.monotonic() > said[0] + 0.1:  # [s]
            said[0] = time.monotonic()
            values = dict(zip(names, iteration.parameters.tolist(), strict=False))
            say({"event": "iteration", "cost": iteration.total, "values": values})

    solution = problem.solve(callback=callback).changed(source=file.source(key))
    say({"event": "stage", "text": "diagnosis and figures"})
    export.save(solution, task["out"])
    return facts.of_solution(solution, inertia_coordinates(problem))


def predict(task: Task, say: Say, cancelled: Event) -> Any:
    """Predict a recording that was not fitted: efforts by inverse dynamics, or signals by a simulation."""
    problem, solution = load_problem(task["problem"]), export.load_answer(task["out"], force=False)
    log = writing.read_with(Path(task["folder"], task["log"]), convert(task["choices"], Choices))
    recording = recording_of(log, None, problem)
    if any(motor.measured for motor in problem.model.motors):
        found = inverse_dynamics(problem, solution.values, recording)
        return {"text": str(found), "figure": facts.of_efforts(found)}
    known = {parameter.name for parameter in problem.parameter_set.declared}
    values = {name: value for name, value in solution.values.items() if name in known}
    simulated = simulate(problem.with_(recordings=[recording], step=problem.step), values)
    text = f"Simulated from the first state of recording {recording.name}, with the recorded inputs."
    return {"text": text, "figure": facts.of_simulation(problem, recording, simulated)}


def compare(task: Task, say: Say, cancelled: Event) -> Any:
    """Compare friction laws for one problem, from the smallest to the largest, in one table."""
    return str(ladder(load_file(task["problem"]).problems))


TASKS = {one.__name__: one for one in (look_at_robot, read_log, write, check, solve, predict, compare)}
