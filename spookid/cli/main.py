"""The arguments of the command ``spookid``. The work is in modules beside this one, imported when needed."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, NoReturn

from spookid.cli import terminal
from spookid.cli.flags import FLAGS, OF_ROBOTS, SETTINGS
from spookid.cli.interruption import INTERRUPTED, Interruption
from spookid.errors import ProblemError, is_text
from spookid.records import dataclass
from spookid.version import __version__

WRONG_INPUT = 2
_SELDOM = 100_000
"""Objects made between two searches for garbage: in what imports and figures leave it costs a command a tenth."""


_PROBLEM = "a Python file that holds `problem`, or a dict `problems`; PROBLEM.py::key picks one of these"
_STATUS = """exit status:
  0    converged, or done
  2    wrong input: one line on stderr says what
  3    not converged, or a simulation came to a step that has no solution, or
       the run of a payload does not fit; what there is, is written and says so
  130  interrupted by Ctrl-C or SIGTERM; a solve saves its best iterate so far,
       and the same command goes on where it stood, to the same digits
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
_CARRIED = """Mass, centre of mass and inertia about it are told in the frame of NAME, with
errors of which the run has a part and the arm another. The scale of an arm's
gains is often known to some per cent only; a run with a payload of known mass
tells it, and the next run takes what that has found:

  spookid payload RESULT KNOWN.csv --body tool0 --known-mass 2.8 --out known.json
  spookid payload RESULT LOG --body tool0 --calibration known.json
"""
_PLANNED = """Joint angles are Fourier series or splines from rest to rest, of mechanisms that
their motors move in every way in which they can: arms, loops, robots that stand
on contacts. Of these the motion of the trunk is planned, and legs follow. The
motion is the one whose efforts tell most; errors that are told are those that
`spookid solve` would report, with all sensors, noise and priors. Limits are the
robot's file's, if the problem was made from one, and those of the flags. The
CSV has the problem's signals and JOINT_rate.

  spookid excite arm.py --duration 20 --noise 'q*=1e-4' 'tau*=0.5' --until m=1% --out plan.csv
  spookid check arm.py --trajectory plan.csv --noise 'q*=1e-4' 'tau*=0.5'
  spookid excite quadruped.py --duration 20 --cone '*foot=0.5:20' --home '*thigh=0.8' --out plan.csv
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
    for word in sys.argv[1:] if argv is None else argv:
        if not is_text(word):
            terminal.complain(f"error: the argument {word!r} holds characters that cannot be shown; leave them out")
            return WRONG_INPUT
    arguments = commands_parser().parse_args(argv)
    terminal.prepare()
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that a font has a substitute is no news
    interruption = Interruption()
    try:
        with interruption:
            # CasADi and others take a while to load.
            home = import_module(f"spookid.cli.{_HOMES[arguments.command]}")
            status = int(getattr(home, arguments.command)(arguments, interruption))
            if status != INTERRUPTED:
                interruption.heed()
            return status if terminal.finish() else status or WRONG_INPUT
    except (Exception, KeyboardInterrupt) as error:
        if interruption.told_by(error):
            terminal.complain("interrupted")
            return INTERRUPTED
        if not isinstance(error, ProblemError):
            raise
        terminal.complain(f"error: {error}")
        return WRONG_INPUT
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
    """Of `FLAGS`, in the order of the help; those of `SETTINGS` all have."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What differs for this command, by flag."""
    log: bool = False
    """True if it reads a log beside the problem."""


def commands_parser() -> argparse.ArgumentParser:
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
        parser.add_argument("--animate", **FLAGS["--animate"])
        parser.add_argument("--robot", **FLAGS["--robot"])
        return
    if command.name in OF_ROBOTS:
        for name, how in OF_ROBOTS[command.name].items():
            parser.add_argument(name, **how)
        return
    parser.add_argument("problem", metavar="PROBLEM.py", help=_PROBLEM)
    if command.log:
        parser.add_argument(
            "log", metavar="LOG", help="rows to be watched: a CSV or other file, or - for standard input"
        )
    settings = parser.add_argument_group("settings in the place of the problem's own")
    for place, flags in ((parser, {flag: FLAGS[flag] for flag in command.flags}), (settings, SETTINGS)):
        for flag, how in flags.items():
            place.add_argument(flag, **{**how, **command.own.get(flag, {})})


_HOMES = {
    "check": "checking",
    "solve": "solving",
    "simulate": "simulating",
    "audit": "studying",
    "profile": "studying",
    "regress": "regressing",
    "crossvalidate": "studying",
    "sweep": "studying",
    "excite": "exciting",
    "new": "robots",
    "export": "robots",
    "payload": "payload",
    "watch": "watching",
    "report": "reporting",
}
"""The module of each command: a command loads what it needs."""
_GUESSED = ("--set", "--fix", "--state-weight")
_FIT = ("--backend", *_GUESSED, "--max-iterations", "--out", "--quiet")


def _out(help: str, required: bool = True) -> dict[str, Any]:
    return {"--out": {"help": help, "required": required}}


_COMMANDS = (
    _Command(
        "check",
        "show what a problem is made of, its sizes and sparsity; solves nothing",
        "",
        (*_GUESSED, "--trajectory", "--from", "--noise", "--until"),
        {"--from": {"help": "of a --trajectory: folder of results, whose estimates and errors are known beforehand"}},
    ),
    _Command(
        "solve",
        "estimate states and parameters, and write a folder of results",
        _FOLDERS,
        (*_FIT, "--threads", "--starts", "--seed", "--jobs", "--scheduler", "--animate", "--plan", "--no-figures"),
        {
            "--starts": {
                "help": "guesses to start from, drawn at random (default: 1, the given one)",
                "default": 1,
            },
            "--seed": {"help": "of these guesses (default: 0)"},
            "--jobs": {
                "help": "worker processes, each with one recording at a time; of --starts (default there: one for each "
                "processor)"
            },
            **_out("folder of results (default: results/<name of the problem>)", required=False),
        },
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
        ("--parameter", *_FIT, "--jobs", "--scheduler"),
        {
            "--jobs": {"help": "worker processes that share out the sides of the profiles (default: 1)"},
            **_out("folder of the profiles"),
        },
    ),
    _Command(
        "regress",
        "least squares on filtered derivatives, as robots are mostly identified, beside a fit",
        _FOLDERS,
        ("--method", "--filter", "--unknowns", "--from", "--alone", *_FIT),
        {
            "--from": {"help": "folder of results that are to stand beside it, in the place of a fit"},
            "--cutoff": {"help": "low-pass filter of the regression, and of the fit's initial guess [Hz]"},
            **_out("folder of the regression (default: none is written)", False),
        },
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
    _Command(
        "excite",
        "design a motion that tells most of the parameters, within limits",
        _PLANNED,
        (
            *(
                "--duration",
                "--criterion",
                "--from",
                "--rate",
                "--basis",
                "--harmonics",
                "--starts",
                "--seed",
                "--noise",
            ),
            *("--position-limit", "--rate-limit", "--effort-limit", "--inside", "--cone", "--home", "--until"),
            *("--set", "--fix", "--out"),
            "--quiet",
        ),
        {
            "--duration": {"help": "seconds", "required": True},
            "--from": {"help": "folder of results: its estimates and errors are known beforehand"},
            "--quiet": {"help": "no progress and no table"},
            "--out": {"help": "the trajectory, a CSV; a picture FILE.png stands beside it", "metavar": "FILE.csv"},
        },
    ),
    _Command("new", "write a problem file for a robot and a log of it", _MATCHED),
    _Command("export", "write a robot's own file with what was found of it", _KEPT),
    _Command("payload", "find what an arm that was fitted carries along a run, without a fit", _CARRIED),
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
