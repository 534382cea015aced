"""The command ``spookid``: its arguments, made from what is declared in ``spookid.registry``, and its process."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from spookid.cli import terminal
from spookid.cli.flags import FLAGS, OF_COMMANDS, SETTINGS
from spookid.cli.terminal import Exit, Interruption
from spookid.errors import ProblemError, is_text
from spookid.registry import COMMANDS, Command, Study
from spookid.version import __version__

_PROBLEM = "Python file with `problem` or a dict `problems`; PROBLEM.py::key selects one of these"
_UNSAID = dict.fromkeys(("max_iterations", "threads", "out", "source", "scheduler")) | {
    "backend": "lm",
    "set": [],
    "quiet": False,
}
"""Values for commands that have no such flag."""
_STATUS = """exit status:
  0    converged, or done
  2    wrong input: one line on stderr says what
  3    not converged, or the data contradict the model, or a simulation came to
       a step that has no solution, or the run of a payload does not fit, or a
       warning with --strict; what there is, is written and says so
  130  interrupted by Ctrl-C or SIGTERM; a solve saves its best iterate so far,
       and the same command continues from there, to the same digits
  Of several problems the worst counts, in the order 130, 2, 3, 0.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default the process's own, and return its exit status.

    Raises:
        SystemExit: for ``--help``, ``--version``, and arguments that do not parse (status 2).
    """
    terminal.prepare()
    words = sys.argv[1:] if argv is None else list(argv)
    for word in words:
        if not is_text(word):
            terminal.complain(f"error: the command-line argument {word!r} contains unprintable characters; remove them")
            return Exit.WRONG_INPUT
    arguments = commands_parser(next((word for word in words if word in COMMANDS), "")).parse_args(words)
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])  # searching what imports and figures leave costs a command a tenth
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that a font has a substitute is no news
    interruption = Interruption()
    try:
        with interruption:
            status = _run(COMMANDS[arguments.command], arguments, interruption)
            if status != Exit.INTERRUPTED:
                interruption.heed()
            return status if terminal.finish() else status or Exit.WRONG_INPUT
    except (Exception, KeyboardInterrupt) as error:
        if interruption.told_by(error):
            terminal.complain("interrupted")
            return Exit.INTERRUPTED
        if not isinstance(error, ProblemError):
            raise
        terminal.complain(f"error: {error}")
        return Exit.WRONG_INPUT
    finally:
        terminal.finish()
        gc.set_threshold(*before)


def _run(command: Command, arguments: argparse.Namespace, interruption: Interruption) -> int:
    if not isinstance(command, Study):
        return int(command.function(arguments, interruption))
    from spookid.cli.runner import studied  # with CasADi and others, which take a while to load

    return studied(command, arguments, interruption)


class _Parser(argparse.ArgumentParser):
    """Complains in one line: the usage of a command fills half a screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.WRONG_INPUT, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def commands_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """Parser of all commands; with the options of the requested command only, by default of all."""
    parser = _Parser(
        prog="spookid",
        description="Identify the parameters of a mechanism from measured motion.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"spookid {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        _add(commands, command, asked in (None, command.name))
    return parser


def _add(commands: argparse._SubParsersAction[_Parser], command: Command, whole: bool) -> None:
    purpose = command.purpose
    parser = commands.add_parser(
        command.name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"{command.more}\n{_STATUS}" if command.more else _STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if not whole:
        return
    places: list[tuple[argparse._ActionsContainer, Mapping[str, Mapping[str, Any]]]]
    if command.name in OF_COMMANDS:
        places = [(parser, OF_COMMANDS[command.name])]
    else:
        parser.set_defaults(**_UNSAID)
        parser.add_argument("problem", metavar="PROBLEM.py", help=_PROBLEM)
        settings = parser.add_argument_group("settings instead of the problem's own")
        places = [(parser, {name: FLAGS.get(name, {}) for name in command.flags.split()}), (settings, SETTINGS)]
    for place, flags in places:
        for name, how in flags.items():
            own = command.own.get(name, {})
            place.add_argument(name, **{**how, **({"help": own} if isinstance(own, str) else own)})
