"""The arguments of the command ``spookid``. The work is in ``spookid.cli.commands``, imported when needed."""

from __future__ import annotations

import argparse
import gc
import logging
import math
from collections.abc import Sequence
from typing import NoReturn

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
    _add_check(commands)
    _add_solve(commands)
    _add_simulate(commands)
    _add_audit(commands)
    _add_profile(commands)
    _add_crossvalidate(commands)
    _add_sweep(commands)
    _add_report(commands)
    return parser


def _add_check(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(commands, "check", "show what a problem is made of, its sizes and sparsity; solves nothing")
    _add_fit(parser)
    _add_settings(parser)


def _add_solve(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(commands, "solve", "estimate states and parameters, and write a folder of results", _FOLDERS)
    parser.add_argument("--backend", choices=BACKENDS, default="lm", help="solver (default: lm)")
    _add_fit(parser)
    _add_settings(parser)
    parser.add_argument("--max-iterations", type=_count, metavar="N", help="accepted steps at the most")
    parser.add_argument("--threads", type=_jobs, metavar="N", help="threads that share out the recordings (default: 1)")
    parser.add_argument("--out", metavar="DIR", help="folder of results (default: results/<name of the problem>)")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _add_simulate(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands, "simulate", "step a mechanism forward, and compare with its recordings if it has any", _FOLDERS
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DIR",
        help="folder of results: its estimates, its step, and its first state of recordings of the same name "
        "(with several problems DIR/key, if there is one)",
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], type=_pair, metavar="NAME=VALUE", help="values"
    )
    parser.add_argument("--duration", type=float, metavar="S", help="seconds (default: as long as the recording)")
    _add_settings(parser)
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the simulation")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _add_audit(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands, "audit", "fit with the time steps h, h/2 and h/4, and say which estimates move", _FOLDERS
    )
    parser.add_argument("--backend", choices=BACKENDS, default="lm", help="solver (default: lm)")
    _add_fit(parser)
    _add_settings(parser, "largest time step h [s]")
    parser.add_argument("--max-iterations", type=_count, metavar="N", help="accepted steps of each fit at the most")
    parser.add_argument("--out", metavar="DIR", help="folder of the audit (default: none is written)")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def _add_profile(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands, "profile", "refit along a parameter: how far the data let it go, without linearization", _FOLDERS
    )
    parser.add_argument(
        "--parameter", nargs="+", action="extend", required=True, metavar="NAME", help="parameter to hold, or several"
    )
    parser.add_argument("--backend", choices=BACKENDS, default="lm", help="solver (default: lm)")
    _add_fit(parser)
    _add_settings(parser)
    parser.add_argument("--max-iterations", type=_count, metavar="N", help="accepted steps of each fit at the most")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the profiles")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def _add_crossvalidate(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands, "crossvalidate", "fit models to each recording, judge them on the others, and order them", _VALIDATION
    )
    parser.add_argument("--backend", choices=BACKENDS, default="lm", help="solver (default: lm)")
    _add_fit(parser)
    _add_settings(parser)
    parser.add_argument("--max-iterations", type=_count, metavar="N", help="accepted steps of each fit at the most")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the cross-validation")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def _add_sweep(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(commands, "sweep", "fit over a grid of settings or parameters, in parallel", _GRID)
    parser.add_argument("--over", action="append", required=True, metavar="NAME=RANGE", help="axis of the grid")
    parser.add_argument("--backend", choices=BACKENDS, help="solver (default: lm)")
    _add_fit(parser)
    _add_settings(parser)
    parser.add_argument("--max-iterations", type=_count, metavar="N", help="accepted steps of each fit at the most")
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="worker processes (default: one for each processor)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers do the work instead")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the sweep")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def _add_report(commands: argparse._SubParsersAction[_Parser]) -> None:
    purpose = "write DIR/report.html, one page about the results in DIR"
    more = "The page needs no other file. Of a folder with several results it has them all.\n"
    parser = _bare(commands, "report", purpose, more)
    parser.add_argument("directory", metavar="DIR", help="what `spookid solve` wrote")


def _command(commands: argparse._SubParsersAction[_Parser], name: str, purpose: str, more: str = "") -> _Parser:
    parser = _bare(commands, name, purpose, more)
    parser.add_argument("problem", metavar="PROBLEM.py", help=_PROBLEM)
    return parser


def _bare(commands: argparse._SubParsersAction[_Parser], name: str, purpose: str, more: str) -> _Parser:
    return commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"{more}\n{_STATUS}" if more else _STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_fit(parser: _Parser) -> None:
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="initial guesses of parameters; with --fix the values held",
    )
    parser.add_argument(
        "--fix", nargs="+", action="extend", default=[], metavar="NAME", help="parameters that keep their guess"
    )
    parser.add_argument(
        "--state-weight",
        type=_weight,
        metavar="K",
        help="where the weight of the equations of motion comes from: auto (the default) estimates the sizes of "
        "disturbances and sensor noise with the parameters, a number is the paper's κ, inf makes the dynamics hard "
        "(stepper variational)",
    )


def _add_settings(parser: _Parser, step: str = "time step [s]") -> None:
    settings = parser.add_argument_group("settings in the place of the problem's own")
    settings.add_argument("--stepper", choices=STEPPERS, help="time stepping")
    settings.add_argument("--friction", choices=FRICTIONS, help="how dry friction is represented")
    settings.add_argument("--friction-width", type=float, metavar="W", help="width of smooth dry friction [rad/s]")
    settings.add_argument("--step", type=float, metavar="H", help=step)
    settings.add_argument("--cutoff", type=float, metavar="F", help="low-pass filter of the initial guess [Hz]")


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
