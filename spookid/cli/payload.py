"""The command ``payload``: what an arm that was fitted carries along a run."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import load_declaration
from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.report import export as exports
from spookid.results import folders
from spookid.results.result import Result
from spookid.robots.logs import Log, opened
from spookid.studies.arm_knowledge import ArmKnowledge
from spookid.studies.payloads import payload as find
from spookid.tables.table import seconds

_TIME = "t"


def payload(arguments: Namespace, interruption: Interruption) -> Exit:
    """Find a payload, print it, and write it if there is a file."""
    began = time.perf_counter()
    out = None if arguments.out is None else Path(arguments.out)
    if out is not None and out.suffix != ".json":
        raise ProblemError(f"--out {out}: a payload is written as JSON; give a name that ends in .json")
    if out is not None:
        folders.check_file(out)
    result = exports.load(arguments.result)
    problem = _problem(arguments, result)
    calibration = None if arguments.calibration is None else ArmKnowledge.load(arguments.calibration)
    log = opened(Path(arguments.log), dict(arguments.units), arguments.topics)
    recording = _recording(log, arguments.time, problem)
    loaded = time.perf_counter()
    found = find(
        problem,
        result,
        recording,
        arguments.body,
        known_mass=arguments.known_mass,
        calibration=calibration,
        values=dict(arguments.set),
        cutoff=arguments.cutoff,
    )
    terminal.say(f"{found}\n\nLoaded in {seconds(loaded - began)}, found in {seconds(found.seconds)}")
    if out is not None:
        found.save(out)
        terminal.say(f"Written to {out}")
    if not found.fits:
        terminal.complain(f"{arguments.log} does not fit the arm of {arguments.result}")
        return Exit.NOT_CONVERGED
    return Exit.DONE


def _problem(arguments: Namespace, result: Result) -> Declaration:
    """That of the results, from the file that was solved or the one that is given."""
    source = arguments.problem or result.source
    if not source:
        raise ProblemError(
            f"{arguments.result} does not say which problem file was solved; name it with --problem PROBLEM.py"
        )
    if arguments.problem is None and not Path(source.partition("::")[0]).is_file():
        raise ProblemError(
            f"{arguments.result} is of {source}, which is not there any more; say where it is with --problem PROBLEM.py"
        )
    problem = load_declaration(source)
    if problem.name != result.problem:
        raise ProblemError(
            f"{source} holds problem {problem.name!r}, and {arguments.result} are results of {result.problem!r}; name "
            "the file that was solved with --problem"
        )
    return problem


def _recording(log: Log, stamps: str | None, problem: Declaration) -> Recording:
    """The signals of the problem's sensors and motors."""
    signals = list(dict.fromkeys([*(c.signal for c in problem.channels), *problem.model.signals]))
    missing = [name for name in signals if name not in log.columns]
    if missing:
        raise ProblemError(
            f"{log.path} has no {missing[0]!r}, which {problem.name!r} was fitted with; it has "
            f"{', '.join(log.columns)}: name its columns as those of the log that was fitted"
        )
    for name, unit in log.named_units.items():
        if name in signals:
            terminal.complain(
                f"{name!r} is read as it stands; if the problem file converts it, say --units {name!r}={unit}"
            )
    return log.read(signals, stamps or (_TIME if _TIME in log.columns else log.matched([], {}).time))
