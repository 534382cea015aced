"""The arguments of the command ``spookid``. The work is in ``spookid.cli.commands``, imported when needed."""

from __future__ import annotations

import argparse
import gc
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NoReturn

from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError
from spookid.version import __version__

INTERRUPTED = 130
WRONG_INPUT = 2
_SELDOM = 100_000
"""Objects made between two searches for garbage: in what imports and figures leave it costs a command a tenth."""

BACKENDS = ("lm", "riccati", "ipopt")
STEPPERS = ("spook", "spook-lifted", "variational")
FRICTIONS = ("smooth", "exact", "mpcc")

_PROBLEM = "a Python file that holds `problem`, or a dict `problems`; PROBLEM.py::key picks one of these"
_STATUS = """exit status:
  0    converged, or done
  2    wrong input: one line on stderr says what
  3    not converged, or a simulation came to a step that has no solution;
       what there is, is written and says so
  130  interrupted by Ctrl-C or SIGTERM; a solve saves its best iterate so far
  Of several problems the worst counts, in the order 130, 2, 3, 0.
"""
_VALIDATION = """With a dict `problems`, those that differ in nothing but their recordings are
one model, and models on the same recordings are set side by side. All of it
goes into DIR itself, which is written whole or not at all.
"""
_GRID = """An axis NAME=RANGE is a setting (step, state_weight, friction_width, cutoff,
stepper, friction, backend, max_iterations ...) or a parameter, which is then
held at each value. Of a RANGE, a:b:n means n values from a to b, a:b:nlog the
same with evenly spaced logarithms, a,b,c these. Several axes make a grid.
Every point is kept in DIR/points once it is solved; the same command goes on
where it was interrupted. A point is solved anew if the problem, the settings
or the versions have changed. With a dict `problems`, each has its DIR/key.
"""
_PAGE = "The page needs no other file. Of a folder with several results it has them all.\n"
_MATCHED = """Joints and columns are matched by name: the joint's name in the column's, or
q1, q2 ... in the order of the joints. What is not matched is listed. Guesses
are from the robot's file, and from a regression along the log.
"""
_KEPT = """Masses, inertias, damping and friction are replaced, of an MJCF armatures and
springs too; every other byte is as it was.
"""
_WATCHED = """LOG is text with a header row, as Recording.from_csv reads it: a column of
stamps and those of all signals of the problem; or, by its ending, any other
file that Recording.from_file reads, an MCAP file say. The first seconds
are fitted (--warm-up), also to find the sizes of the noise; from then on every
row counts when it is there. On a terminal a table is rewritten in place,
elsewhere a line is written every second of the log (--every). When a parameter
has changed, a line says so, such as

  14:02:09  CHANGED  b (friction of elbow) +12.1 ± 2.9 % since 14:02:07

and what was known of it before is forgotten. Stamps from 1e9 on are seconds
since 1970 and are shown as local time of day.
"""
_FOLDERS = """With a dict `problems`, PROBLEM.py means all of them, each with its own folder
DIR/key. A folder is written whole or not at all; an empty one or an earlier
one of the same command is replaced, any other is refused.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default the process's own, and return its exit status.

    Raises:
        SystemExit: for ``--help``, ``--version``, and arguments that do not parse (status 2).
    """
    arguments = _parser().parse_args(argv)
    terminal.prepare()
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that a font has a substitute is no news
    try:
        with Interruption() as interruption:
            # CasADi and others take a while to load.
            home = import_module(f"spookid.cli.{_HOMES.get(arguments.command, 'commands')}")
            return int(getattr(home, arguments.command)(arguments, interruption))
    except ProblemError as error:
        terminal.complain(f"error: {error}")
        return WRONG_INPUT
    except KeyboardInterrupt:
        terminal.complain("interrupted; nothing was written")
        return INTERRUPTED
    finally:
        terminal.finish()
        gc.set_threshold(*before)


class _Parser(argparse.ArgumentParser):
    """Complains in one line: the usage of a command fills half a screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, f"{self.prog}: error: {message}; see {self.prog} --help\n")


@dataclass(frozen=True)
class _Command:
    name: str
    purpose: str
    more: str
    """What its help says of folders and axes."""
    flags: tuple[str, ...] = ()
    """Of `_FLAGS`, in the order of the help; those of `_SETTINGS` all have."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What differs for this command, by flag."""
    log: bool = False
    """True if it reads a log beside the problem."""


def _parser() -> _Parser:
    parser = _Parser(
        prog="spookid",
        description="Identify the parameters of a mechanism from measured motion.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"spookid {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        _add(commands, command)
    return parser


def _add(commands: argparse._SubParsersAction[_Parser], command: _Command) -> None:
    purpose = command.purpose
    parser = commands.add_parser(
        command.name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"{command.more}\n{_STATUS}" if command.more else _STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if command.name == "report":
        parser.add_argument("directory", metavar="DIR", help="what a command of spookid wrote")
        parser.add_argument("--animate", **_FLAGS["--animate"])
        parser.add_argument("--robot", **_FLAGS["--robot"])
        return
    if command.name in _OF_ROBOTS:
        for name, how in _OF_ROBOTS[command.name].items():
            parser.add_argument(name, **how)
        return
    parser.add_argument("problem", metavar="PROBLEM.py", help=_PROBLEM)
    if command.log:
        parser.add_argument(
            "log", metavar="LOG", help="rows to be watched: a CSV or other file, or - for standard input"
        )
    settings = parser.add_argument_group("settings in the place of the problem's own")
    for place, flags in ((parser, {flag: _FLAGS[flag] for flag in command.flags}), (settings, _SETTINGS)):
        for flag, how in flags.items():
            place.add_argument(flag, **{**how, **command.own.get(flag, {})})


# --- types of arguments ---


def _pair(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (name and math.isfinite(number)):
        order = "; give PROBLEM.py before the options" if text.partition("::")[0].endswith(".py") else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a finite number{order}")
    return name, number


def _weight(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number, inf nor auto") from None


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of iterations; give 0, 1, 2 ...")
    return number


def _jobs(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; give 1, 2, 3 ...")
    return int(text)


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


# --- the commands and their flags ---


def _flag(help: str, metavar: str | None = None, **how: Any) -> dict[str, Any]:
    return {"help": help, **({"metavar": metavar} if metavar else {}), **how}


_SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
_WEIGHT = (
    "where the weight of the equations of motion comes from: auto (the default) estimates the sizes of disturbances "
    "and sensor noise with the parameters, a number is the paper's κ, inf makes the dynamics hard (stepper variational)"
)
_SOURCE = (
    "folder of results: its estimates, its step, and its first state of recordings of the same name (with several "
    "problems DIR/key, if there is one)"
)
_GUESSES = "initial guesses of parameters; with --fix the values held"
_FLAGS = {
    "--backend": _flag("solver (default: lm)", choices=BACKENDS, default="lm"),
    "--set": _flag(_GUESSES, "NAME=VALUE", type=_pair, default=[], **_SEVERAL),
    "--fix": _flag("parameters that keep their guess", "NAME", default=[], **_SEVERAL),
    "--state-weight": _flag(_WEIGHT, "K", type=_weight),
    "--max-iterations": _flag("accepted steps of each fit at the most", "N", type=_count),
    "--threads": _flag("threads that share out the recordings (default: 1)", "N", type=_jobs),
    "--from": _flag(_SOURCE, "DIR", dest="source"),
    "--duration": _flag("seconds (default: as long as the recording)", "S", type=float),
    "--parameter": _flag("parameter to hold, or several", "NAME", required=True, **_SEVERAL),
    "--over": _flag("axis of the grid", "NAME=RANGE", required=True, action="append"),
    "--jobs": _flag("worker processes (default: one for each processor)", "N", type=_jobs),
    "--scheduler": _flag("Dask scheduler whose workers do the work instead", "ADDRESS"),
    "--follow": _flag("wait for rows after the last one, until Ctrl-C", action="store_true"),
    "--time": _flag("column of the stamps [s] (default: t)", "NAME", default="t"),
    "--warm-up": _flag("seconds that are fitted first (default: 5)", "S", type=_amount, default=5.0),
    "--window": _flag("seconds in which states are estimated anew (default: 20 steps)", "S", type=_amount),
    "--every": _flag("seconds of the log between two lines (default: 1)", "S", type=_amount, default=1.0),
    "--false-alarms": _flag(
        "changes told a day at the most that are none, where the noise is white (default: 1)",
        "N",
        type=_amount,
        default=1.0,
    ),
    "--save": _flag("keep all that is known in FILE when the log ends, or at Ctrl-C", "FILE"),
    "--resume": _flag("go on from such a file; rows up to its last stamp are passed over", "FILE"),
    "--out": _flag("folder of results", "DIR", required=True),
    "--animate": _flag(
        "add the mechanism in motion, estimated over measured: animation_0.gif ..., one a recording",
        action="store_true",
    ),
    "--robot": _flag("the robot's file that the problem was made from, where that is not where it was", "FILE"),
    "--quiet": _flag("no progress, no summary and no table", action="store_true"),
}
_SETTINGS = {
    "--stepper": _flag("time stepping", choices=STEPPERS),
    "--friction": _flag("how dry friction is represented", choices=FRICTIONS),
    "--friction-width": _flag("width of smooth dry friction [rad/s]", "W", type=float),
    "--step": _flag("time step [s]", "H", type=float),
    "--cutoff": _flag("low-pass filter of the initial guess [Hz]", "F", type=float),
}
_ROBOT = {
    "--free": _flag("the root of a URDF moves freely, as a trunk does", action="store_true"),
    "--hold": _flag("joints that do not move, and where [rad or m]", "JOINT=VALUE", type=_pair, default=[], **_SEVERAL),
}
_GAIN = "what a data sheet says of a drive: torque along the joint per ampere or volt, known within 10 %%"
_OF_ROBOTS: dict[str, dict[str, dict[str, Any]]] = {
    "new": {
        "robot": _flag("its URDF, xacro or MJCF file", "ROBOT"),
        "log": _flag("what was recorded: CSV, or any file that Recording.from_file reads", "LOG", nargs="?"),
        **_ROBOT,
        "--gain": _flag(_GAIN, "JOINT=VALUE", type=_pair, default=[], **_SEVERAL),
        "--out": _flag("the problem file", "FILE.py", required=True),
    },
    "export": {
        "result": _flag("folder of results", "RESULT"),
        "--to": _flag("the robot's own file, which is kept", "ROBOT", required=True),
        **_ROBOT,
        "--out": _flag("the new file; FILE.json beside it has errors and covariance", "FILE", required=True),
    },
}
"""Arguments of commands about a robot's file."""
_HOMES = dict.fromkeys(_OF_ROBOTS, "robots")
"""Modules of commands that are not in ``commands``."""
_GUESSED = ("--set", "--fix", "--state-weight")
_FIT = ("--backend", *_GUESSED, "--max-iterations", "--out", "--quiet")


def _out(help: str, required: bool = True) -> dict[str, Any]:
    return {"--out": {"help": help, "required": required}}


_COMMANDS = (
    _Command("check", "show what a problem is made of, its sizes and sparsity; solves nothing", "", _GUESSED),
    _Command(
        "solve",
        "estimate states and parameters, and write a folder of results",
        _FOLDERS,
        (*_FIT, "--threads", "--animate"),
        _out("folder of results (default: results/<name of the problem>)", required=False),
    ),
    _Command(
        "simulate",
        "step a mechanism forward, and compare with its recordings if it has any",
        _FOLDERS,
        ("--from", "--set", "--duration", "--out", "--quiet"),
        {"--set": {"help": "values"}, **_out("folder of the simulation")},
    ),
    _Command(
        "audit",
        "fit with the time steps h, h/2 and h/4, and say which estimates move",
        _FOLDERS,
        _FIT,
        {
            "--step": {"help": "largest time step h [s]"},
            **_out("folder of the audit (default: none is written)", False),
        },
    ),
    _Command(
        "profile",
        "refit along a parameter: how far the data let it go, without linearization",
        _FOLDERS,
        ("--parameter", *_FIT),
        _out("folder of the profiles"),
    ),
    _Command(
        "crossvalidate",
        "fit models to each recording, judge them on the others, and order them",
        _VALIDATION,
        _FIT,
        _out("folder of the cross-validation"),
    ),
    _Command(
        "sweep",
        "fit over a grid of settings or parameters, in parallel",
        _GRID,
        ("--over", *_FIT, "--jobs", "--scheduler"),
        {"--backend": {"default": None}, **_out("folder of the sweep")},
    ),
    _Command("new", "write a problem file for a robot and a log of it", _MATCHED),
    _Command("export", "write a robot's own file with what was found of it", _KEPT),
    _Command(
        "watch",
        "estimate while a log grows, and say when a parameter has changed",
        _WATCHED,
        (
            *("--follow", "--time", "--warm-up", "--window", "--every", "--false-alarms", "--save", "--resume"),
            *(*_GUESSED, "--quiet"),
        ),
        {"--quiet": {"help": "only changes, no estimates and no progress"}},
        log=True,
    ),
    _Command("report", "write DIR/report.html, one page about the results in DIR", _PAGE),
)
