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
from spookid.robots.scaffold import scaffold
from spookid.robots.writing import write


def new(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write a problem file for a robot and a log of it."""
    out, log = Path(arguments.out), None if arguments.log is None else Path(arguments.log)
    if out.suffix != ".py":
        raise ProblemError(f"--out {out}: a problem is a Python file; give a name that ends in .py")
    if out.exists():
        raise ProblemError(f"{out} is there already, and may have been changed by hand; remove it or give another name")
    robot = _robot(arguments, arguments.robot)
    if log is None and arguments.units:
        raise ProblemError(f"--units {arguments.units[0][0]}: units are those of the columns of a log; give LOG, too")
    gains = ["--gain", *(f"{name}={value:g}" for name, value in arguments.gain)] if arguments.gain else []
    units = ["--units", *map("=".join, arguments.units)] if arguments.units else []
    command = shlex.join(["spookid", "new", arguments.robot, *([arguments.log] if log else []), *units, *gains])
    made = scaffold(robot, log, out, command, dict(arguments.gain), dict(arguments.units))
    folders.write(out, made.text)
    matched = made.matched
    what = f"{len(matched.positions)} positions" if log else "no log yet"
    driven = f", {len(matched.efforts)} of them with a {matched.effort}" if log and matched.efforts else ""
    terminal.say(f"Written to {out}: {len(robot.bodies)} bodies, {len(robot.joints)} joints, {what}{driven}")
    for notice in [*robot.notices, *made.notices, *_complaints(made.held, dict(matched.unused))]:
        terminal.complain(notice)
    return Exit.DONE


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
