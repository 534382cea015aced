"""``spookid report``: one page about a folder of results."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit
from spookid.report import page
from spookid.robots.report_section import section


def report(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the page of a folder of results."""
    robots = partial(section, file=arguments.robot)
    terminal.say(f"Written to {page.write(arguments.directory, animate=arguments.animate, robots=robots)}")
    return Exit.DONE
