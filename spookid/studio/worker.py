"""The process that does the work of one request: ``python -m spookid.studio.worker``.

It reads a task as a line of JSON, writes lines of JSON, and ends with ``done`` or with ``refused`` and a sentence.
Hostile files and heavy ones are its business alone. Another line ends a fit with its best iterate; the end of its
input, as when the studio has ended, ends it at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

_SELDOM = 0.1
"""Least time between two iterations that are reported [s]."""
_cancelled = Event()


def confine(folder: Path) -> None:
    """From now on refuse to open files that are neither in the folder nor of Python and the system's libraries."""
    homes = [folder.resolve(), Path("/usr"), Path("/lib"), Path("/opt"), Path("/dev/null"), Path("/proc/self")]
    homes += [Path(place).resolve() for place in {sys.prefix, sys.base_prefix, *filter(None, sys.path)}]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = Path(os.fsdecode(arguments[0])).resolve()
            if not any(path.is_relative_to(home) for home in homes):
                raise PermissionError(13, "it lies outside the folder of the studio", str(path))

    sys.addaudithook(hook)


def look(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """A robot's file."""
    from spookid.studio import facts

    return facts.of_robot(_robot(task, _choices(task)))


def read_log(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """A log: its columns, what they probably are, and their series."""
    from spookid.studio import facts, matching

    choices = _choices(task)
    robot = _robot(task, choices)
    log, columns = matching.proposed(robot, Path(task["folder"], task["log"]), choices)
    recording, left_out = matching.readable(log, columns)
    return {
        **facts.of_recording(recording, log.notes),
        **{"columns": matching.tree(columns), "time": log.time, "has_times": log.has_times},
        **{"units": log.named_units, "left_out": left_out},
    }


def write(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """The text of a problem file: a new one, or an opened one with other choices."""
    from spookid.studio import writing

    choices, out = _choices(task), Path(task["out"])
    notices: tuple[str, ...] = ()
    if task["source"] is None:
        robot = _robot(task, choices)
        logs = [Path(task["folder"], name) for name in task["logs"]]
        text, notices = writing.new(robot, logs, choices, out)
    else:
        text = writing.edited(task["source"], choices)
    if task["ladder"]:
        text = writing.ladder(text, task["ladder"], halves=len(task["logs"]) < 2)
    out.write_text(text, encoding="utf-8")
    return {"notices": list(notices)}


def check(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """Questions about a problem, and what the data will determine."""
    from spookid.assembly.loading import load_file
    from spookid.errors import ProblemError
    from spookid.estimation.questions import questions
    from spookid.studio import facts

    file = load_file(task["problem"])
    problem = next(iter(file.problems.values()))
    if not problem.recordings:
        raise ProblemError("there is no recording yet; drop a log at Data")
    say({"event": "questions", "questions": [facts.of_finding(one) for one in questions(problem)]})
    found = facts.of_problem(problem)
    return {**found, "keys": list(file.problems) if file.several else [], "description": file.description}


def solve(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """A fit, as ``spookid solve`` makes it, with its folder of results."""
    from spookid.assembly.loading import load_file
    from spookid.report import export
    from spookid.report.conclusion import inertia_coordinates
    from spookid.solvers.status import Iteration
    from spookid.studio import facts

    file = load_file(task["problem"])
    key, problem = next(iter(file.problems.items()))
    names, said = [parameter.name for parameter in problem.free], [0.0]

    def callback(iteration: Iteration) -> None:
        if _cancelled.is_set():
            raise KeyboardInterrupt
        if time.monotonic() > said[0] + _SELDOM:
            said[0] = time.monotonic()
            values = dict(zip(names, iteration.parameters.tolist(), strict=False))
            say({"event": "iteration", "cost": iteration.total, "damping": iteration.damping, "values": values})

    solution = problem.solve(callback=callback).changed(source=file.source(key))
    say({"event": "stage", "text": "diagnosis and figures"})
    export.save(solution, task["out"])
    return facts.of_solution(solution, inertia_coordinates(problem))


def predict(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """A recording that was left out: efforts by inverse dynamics, or signals by a simulation with inputs alone."""
    from spookid.assembly.loading import load_problem
    from spookid.report import export
    from spookid.robots.logs import opened, recording_of
    from spookid.studies.motor_efforts import inverse_dynamics
    from spookid.studies.simulating import simulate
    from spookid.studio import facts

    problem, solution = load_problem(task["problem"]), export.load_answer(task["out"], force=False)
    log = opened(Path(task["folder"], task["log"]), _choices(task).units)
    log_units = {**log.named_units, **log.units}
    recording = recording_of(opened(log.path, log_units), None, problem)
    if any(motor.measured for motor in problem.model.motors):
        found = inverse_dynamics(problem, solution.values, recording)
        return {"text": str(found), "signals": facts.of_efforts(found)}
    known = {parameter.name for parameter in problem.parameter_set.declared}
    values = {name: value for name, value in solution.values.items() if name in known}
    simulated = simulate(problem.with_(recordings=[recording], step=problem.step), values)
    return {
        "text": f"Simulated from the first state of {recording.name} on, with inputs alone.",
        "signals": facts.of_simulation(problem, recording, simulated),
    }


def ladder(task: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> Any:
    """Friction laws of one problem, from the smallest to the largest, in one table."""
    from spookid.assembly.loading import load_file
    from spookid.studies.nested_models import ladder as compare

    found = compare(load_file(task["problem"]).problems)
    return {"text": str(found)}


TASKS = {one.__name__: one for one in (look, read_log, write, check, solve, predict, ladder)}


def _robot(task: dict[str, Any], choices: Any) -> Any:
    """The robot of a task; from then on no file outside the folder is opened."""
    from spookid.robots import read
    from spookid.studio.folder import check_named

    path = Path(task["folder"], task["robot"])
    confine(Path(task["folder"]))
    if path.suffix in (".xml", ".mjcf"):
        check_named(Path(task["folder"]), path)
    return read(path, free=choices.free, mend=choices.mend)


def _choices(task: dict[str, Any]) -> Any:
    from spookid.studio.choices import Choices

    return Choices.of(task["choices"])


def main() -> None:
    """Do the task that standard input holds."""
    from spookid.errors import ProblemError
    from spookid.kernels.single_thread import ONE_THREAD

    os.environ.update(ONE_THREAD)  # before NumPy is loaded, as the command does: digits are the same
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # problem files may print

    def say(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    def listen() -> None:
        if not sys.stdin.readline():
            os._exit(1)
        _cancelled.set()

    task = json.loads(sys.stdin.readline())
    Thread(target=listen, daemon=True).start()
    try:
        say({"event": "done", "result": TASKS[task["task"]](task, say)})
    except ProblemError as error:
        say({"event": "refused", "text": str(error)})
    except MemoryError:
        say({"event": "refused", "text": "memory ran out; take a larger step or a shorter log"})
    except Exception as error:  # an error of ours, which the page has to survive
        say({"event": "refused", "text": f"{task['task']} failed with {type(error).__name__}: {error}"})
    os._exit(0)  # the thread still reads


if __name__ == "__main__":
    main()
