"""The command ``studio``: a page on this machine that leads from files to an identified robot."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

from spookid.cli import terminal
from spookid.cli.runner import Exit
from spookid.cli.terminal import Interruption
from spookid.errors import ProblemError


def studio(arguments: Namespace, interruption: Interruption) -> Exit:
    """Serve the page until Ctrl-C."""
    if find_spec("nicegui") is None:
        raise ProblemError("spookid studio needs nicegui; install it with: pip install 'spookid[studio]'")
    from spookid.studio.pages import serve  # with the server

    def say(address: str) -> None:
        terminal.say(f"spookid studio: {address}")
        if not arguments.no_browser:
            webbrowser.open(address)

    serve(Path(arguments.folder), arguments.port, say)
    return Exit.DONE
