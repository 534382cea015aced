"""The commands ``card`` and ``verify``: what a fit found in one file, and whether another log agrees with it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import msgspec

from spookid.assembly.loading import load_problem
from spookid.cli import terminal
from spookid.cli.robots import check_out, named_problem
from spookid.cli.runner import Exit
from spookid.cli.terminal import Interruption
from spookid.errors import ProblemError
from spookid.report import export as exports
from spookid.results import folders
from spookid.robots.logs import opened, recording_of
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.studies.verification import Card
from spookid.studies.verification import card as card_of
from spookid.studies.verification import verify as verified


def card(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the verification card of a result."""
    out = Path(arguments.out)
    check_out(out, ".json", "a card is written as JSON")
    result = exports.load_answer(arguments.result, arguments.force)
    card_of(named_problem(arguments, result), result).save(out)
    terminal.say(f"Written to {out}")
    return Exit.DONE


def verify(arguments: Namespace, interruption: Interruption) -> Exit:
    """Test a log against a card, and print the parameters that have changed."""
    out = None if arguments.out is None else Path(arguments.out)
    check_out(out, ".json", "what was found is written as JSON")
    known = Card.load(arguments.card)
    source = arguments.problem or known.source
    if not source or not Path(source.partition("::")[0]).is_file():
        raise ProblemError(f"card {arguments.card}: problem file {source!r} does not exist; give --problem FILE")
    problem = load_problem(source)
    log = opened(Path(arguments.log), dict(arguments.units), arguments.topics)
    recording = recording_of(log, arguments.time, problem, told=terminal.complain)
    rate = FALSE_ALARMS if arguments.false_alarms is None else arguments.false_alarms
    found = verified(problem, known, recording, rate)
    terminal.say(str(found))
    if out is not None:
        tree = {"agrees": found.agrees, "verdict": found.verdict, "limit": found.limit, "false_alarms": rate}
        tree |= {"changes": found.records(), "noise": found.noise}
        folders.write(out, msgspec.json.format(msgspec.json.encode(tree), indent=1).decode() + "\n")
    return Exit.DONE if found.agrees else Exit.NOT_CONVERGED
