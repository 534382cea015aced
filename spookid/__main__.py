"""``spookid`` and ``python -m spookid``: the process of a command."""

from __future__ import annotations

import os
import signal
import sys


def run() -> None:
    """Run the command line of this process, and end it.

    Signals are heard from the first moment on. Once the command has ended there is nothing left for them to end.
    """
    from spookid.cli import interruption

    for number in interruption.SIGNALS:
        signal.signal(number, interruption.end)
    from spookid.cli.main import main

    status = main()
    for number in interruption.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if status == interruption.INTERRUPTED:
        # Python would wait for threads, and die of the signal itself if that had come while C code ran some Python.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    run()
