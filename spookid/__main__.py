"""``spookid`` and ``python -m spookid``: the process of a command."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default the process's own, in this process, and return its exit status."""
    from spookid.cli.main import main as command

    return command(argv)


def parser() -> ArgumentParser:
    """All commands and their flags."""
    from spookid.cli.main import commands_parser

    return commands_parser()


def run() -> None:
    """Run the command line of this process, and end it.

    Signals are heard from the first moment to the last. Its digits do not depend on how many processors there are.
    """
    from spookid.cli import terminal
    from spookid.kernels.single_thread import ONE_THREAD

    for number in terminal.SIGNALS:
        signal.signal(number, terminal.end)
    os.environ.update(ONE_THREAD)  # before NumPy is loaded

    status = main()
    if status != terminal.Exit.INTERRUPTED:  # a problem file's function could hold it up once more
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed by who reads it, or by a problem file
            stream.flush()
    # Python would take every object apart, a fifth of a second of a fit that takes one, wait for threads, and die of a
    # signal itself if that had come while C code ran some Python.
    os._exit(status)


if __name__ == "__main__":
    run()
