"""The commands that begin and end with a robot's file: ``new`` and ``export``."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit
from spookid.errors import ProblemError
from spookid.report import export as exports
from spookid.results import folders
from spookid.robots import Robot, read
from spookid.robots.logs import Log, opened
from spookid.robots.scaffold import scaffold
from spookid.robots.writing import write


def new(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write a problem file for a robot and a log of it."""
    out = Path(arguments.out)
    if out.suffix != ".py":
        raise ProblemError(f"--out {out}: a problem is a Python file; give a name that ends in .py")
    if out.exists():
        raise ProblemError(f"{out} is there already, and may have been changed by hand; remove it or give another name")
    robot = _robot(arguments, arguments.robot)
    made = scaffold(robot, log := _log(arguments), out, _asked(arguments), dict(arguments.gain))
    folders.write(out, made.text)
    matched = made.matched
    what = f"{len(matched.positions)} positions" if log else "no log yet"
    driven = f", {len(matched.efforts)} of them with a {matched.effort}" if log and matched.efforts else ""
    terminal.say(f"Written to {out}: {len(robot.bodies)} bodies, {len(robot.joints)} joints, {what}{driven}")
    for notice in [*robot.notices, *made.notices, *_complaints(made.held, dict(matched.unused))]:
        terminal.complain(notice)
    return Exit.DONE


def _log(arguments: Namespace) -> Log | None:
    """What was recorded, if that is given."""
    if arguments.log is not None:
        return opened(Path(arguments.log), dict(arguments.units), arguments.topics)
    for flag, said in (("--units", [name for name, _ in arguments.units]), ("--topics", arguments.topics)):
        if said:
            raise ProblemError(f"{flag} {said[0]}: {flag[2:]} are those of a log; give LOG, too")
    return None


def _asked(arguments: Namespace) -> str:
    """The command, as one would write it again."""
    words = ["spookid", "new", arguments.robot, *([arguments.log] if arguments.log else [])]
    words += [f"--{flag}" for flag in ("free", "mend") if getattr(arguments, flag)]
    lists = {
        "--hold": [f"{name}={value:g}" for name, value in arguments.hold],
        "--topics": arguments.topics,
        "--units": [f"{name}={unit}" for name, unit in arguments.units],
        "--gain": [f"{name}={value:g}" for name, value in arguments.gain],
    }
    for flag, values in lists.items():
        words += [flag, *values] if values else []
    return shlex.join(words)


def _complaints(held: tuple[str, ...], unused: dict[str, str]) -> list[str]:
    told = []
    if held:
        told.append(f"no column for {', '.join(held)}: held at 0 in the file")
    if unused:
        told.append(f"not used: {', '.join(f'{column} ({reason})' for column, reason in unused.items())}")
    return told


def export(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write a robot's own file with what a result has found of it."""
    robot, out = _robot(arguments, arguments.to), Path(arguments.out)
    result = exports.load(arguments.result)
    beside = write(robot, out, result)
    terminal.say(f"Written to {out}, and with errors and covariance to {beside}")
    bodies = result.mechanism.bodies if result.mechanism else ()
    others = [body.name for body in bodies if body.name not in robot.description.links]
    if others:
        terminal.complain(f"{arguments.to} has no link {', '.join(others)}: what was found of it is not in {out}")
    return Exit.DONE


def _robot(arguments: Namespace, path: str) -> Robot:
    return read(path, free=arguments.free, held=dict(arguments.hold), mend=arguments.mend)
