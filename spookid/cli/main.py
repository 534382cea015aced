"""The arguments of the command ``spookid``. The work is in ``spookid.cli.commands``, imported when needed."""

from __future__ import annotations

import argparse
import gc
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import spookid
from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError

INTERRUPTED = 130
WRONG_INPUT = 2
_SELDOM = 100_000
"""Objects made between two searches for garbage: in what imports and figures leave it costs a command a tenth."""

BACKENDS = ("lm", "ipopt")
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
            from spookid.cli import commands  # CasADi and others take a while to load

            return int(getattr(commands, arguments.command)(arguments, interruption))
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
    more: str = ""
    """What its help says of folders and axes."""
    flags: tuple[str, ...] = ()
    """Of `_FLAGS`, in the order of the help, beside those that all have."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What differs for this command, by flag."""
    step: str = "time step [s]"


def _parser() -> _Parser:
    parser = _Parser(
        prog="spookid",
        description="Identify the parameters of a mechanism from measured motion.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"spookid {spookid.__version__}")
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
        parser.add_argument("directory", metavar="DIR", help="what `spookid solve` wrote")
        return
    parser.add_argument("problem", metavar="PROBLEM.py", help=_PROBLEM)
    for flag in command.flags:
        parser.add_argument(flag, **{**_FLAGS[flag], **command.own.get(flag, {})})
    settings = parser.add_argument_group("settings in the place of the problem's own")
    settings.add_argument("--stepper", choices=STEPPERS, help="time stepping")
    settings.add_argument("--friction", choices=FRICTIONS, help="how dry friction is represented")
    settings.add_argument("--friction-width", type=float, metavar="W", help="width of smooth dry friction [rad/s]")
    settings.add_argument("--step", type=float, metavar="H", help=command.step)
    settings.add_argument("--cutoff", type=float, metavar="F", help="low-pass filter of the initial guess [Hz]")


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


# --- the commands and their flags ---


_FLAGS: dict[str, dict[str, Any]] = {
    "--backend": {"choices": BACKENDS, "default": "lm", "help": "solver (default: lm)"},
    "--set": {
        "nargs": "+",
        "action": "extend",
        "default": [],
        "type": _pair,
        "metavar": "NAME=VALUE",
        "help": "initial guesses of parameters; with --fix the values held",
    },
    "--fix": {
        "nargs": "+",
        "action": "extend",
        "default": [],
        "metavar": "NAME",
        "help": "parameters that keep their guess",
    },
    "--state-weight": {
        "type": _weight,
        "metavar": "K",
        "help": "where the weight of the equations of motion comes from: auto (the default) estimates the sizes of "
        "disturbances and sensor noise with the parameters, a number is the paper's κ, inf makes the dynamics hard "
        "(stepper variational)",
    },
    "--max-iterations": {"type": _count, "metavar": "N", "help": "accepted steps of each fit at the most"},
    "--threads": {"type": _jobs, "metavar": "N", "help": "threads that share out the recordings (default: 1)"},
    "--from": {
        "dest": "source",
        "metavar": "DIR",
        "help": "folder of results: its estimates, its step, and its first state of recordings of the same name "
        "(with several problems DIR/key, if there is one)",
    },
    "--duration": {"type": float, "metavar": "S", "help": "seconds (default: as long as the recording)"},
    "--parameter": {
        "nargs": "+",
        "action": "extend",
        "required": True,
        "metavar": "NAME",
        "help": "parameter to hold, or several",
    },
    "--over": {"action": "append", "required": True, "metavar": "NAME=RANGE", "help": "axis of the grid"},
    "--jobs": {"type": _jobs, "metavar": "N", "help": "worker processes (default: one for each processor)"},
    "--scheduler": {"metavar": "ADDRESS", "help": "Dask scheduler whose workers do the work instead"},
    "--out": {"metavar": "DIR", "required": True},
    "--quiet": {"action": "store_true", "help": "no progress and no table"},
}
_FIT = ("--backend", "--set", "--fix", "--state-weight", "--max-iterations")
_END = ("--out", "--quiet")
_COMMANDS = (
    _Command(
        "check",
        "show what a problem is made of, its sizes and sparsity; solves nothing",
        flags=("--set", "--fix", "--state-weight"),
    ),
    _Command(
        "solve",
        "estimate states and parameters, and write a folder of results",
        _FOLDERS,
        (*_FIT, "--threads", *_END),
        {
            "--max-iterations": {"help": "accepted steps at the most"},
            "--out": {"required": False, "help": "folder of results (default: results/<name of the problem>)"},
            "--quiet": {"help": "no progress and no summary"},
        },
    ),
    _Command(
        "simulate",
        "step a mechanism forward, and compare with its recordings if it has any",
        _FOLDERS,
        ("--from", "--set", "--duration", *_END),
        {
            "--set": {"help": "values"},
            "--out": {"help": "folder of the simulation"},
            "--quiet": {"help": "no progress and no summary"},
        },
    ),
    _Command(
        "audit",
        "fit with the time steps h, h/2 and h/4, and say which estimates move",
        _FOLDERS,
        (*_FIT, *_END),
        {"--out": {"required": False, "help": "folder of the audit (default: none is written)"}},
        step="largest time step h [s]",
    ),
    _Command(
        "profile",
        "refit along a parameter: how far the data let it go, without linearization",
        _FOLDERS,
        ("--parameter", *_FIT, *_END),
        {"--out": {"help": "folder of the profiles"}},
    ),
    _Command(
        "crossvalidate",
        "fit models to each recording, judge them on the others, and order them",
        _VALIDATION,
        (*_FIT, *_END),
        {"--out": {"help": "folder of the cross-validation"}},
    ),
    _Command(
        "sweep",
        "fit over a grid of settings or parameters, in parallel",
        _GRID,
        ("--over", *_FIT, "--jobs", "--scheduler", *_END),
        {"--backend": {"default": None}, "--out": {"help": "folder of the sweep"}},
    ),
    _Command(
        "report",
        "write DIR/report.html, one page about the results in DIR",
        "The page needs no other file. Of a folder with several results it has them all.\n",
    ),
)
