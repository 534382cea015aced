"""The commands that begin and end with a robot's file: ``new`` and ``export``.

The commands ``payload`` and ``predict``: what a fitted arm carries along a run, and what its motors do there.

``card`` and ``verify``: what a fit found in one file, and whether another log agrees with it. ``report``: one page
about a folder of results. ``studio``: a page on this machine that leads from files to an identified robot.
"""

from __future__ import annotations

import shlex
import time
import webbrowser
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from spookid.assembly.loading import load_problem
from spookid.assembly.problem import Problem
from spookid.cli import terminal
from spookid.cli.terminal import Exit, Interruption
from spookid.errors import ProblemError
from spookid.report import export as exports
from spookid.report import page
from spookid.report.interactive import installed
from spookid.results import folders
from spookid.results.result import Solution
from spookid.robots import Robot, ServoActuator, read, servos, write_isaac_lab
from spookid.robots.actuators import declared_servos
from spookid.robots.comparing import compare
from spookid.robots.identified import at_values, check_same
from spookid.robots.logs import Log, Matched, joint_in, opened, recording_of
from spookid.robots.robot import problem_of, section
from spookid.robots.scaffold import scaffold
from spookid.robots.writing import write
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.studies.motor_efforts import inverse_dynamics
from spookid.studies.payload_notices import ArmKnowledge
from spookid.studies.payloads import payload as find
from spookid.studies.posterior_draws import randomize as draw
from spookid.studies.verification import Card
from spookid.studies.verification import card as card_of
from spookid.studies.verification import verify as verified
from spookid.tables.table import Table, as_text, seconds


def new(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write a problem file for a robot and its log."""
    out = Path(arguments.out)
    check_out(out, ".py", "a problem is a Python file")
    folders.check_new(out)
    robot = _robot(arguments, arguments.robot)
    made = scaffold(robot, log := _log(arguments), out, _asked(arguments), dict(arguments.gain))
    folders.write_all({out: made.text}, partial(folders.check_new, out))
    matched = made.matched
    what = f"{len(matched.positions)} positions" if log else "no log yet"
    driven = f", {len(matched.efforts)} of them with a {matched.effort}" if log and matched.efforts else ""
    driven += f", {len(matched.commands)} of them with commands of a servo" if log and matched.commands else ""
    terminal.say(f"Problem file {out} has {len(robot.bodies)} bodies, {len(robot.joints)} joints, {what}{driven}")
    for notice in [
        *_assumed(robot, matched if log else None),
        *made.notices,
        *_complaints(made.held, dict(matched.unused)),
    ]:
        terminal.complain(notice)
    return Exit.DONE


def _assumed(robot: Robot, matched: Matched | None) -> Iterator[str]:
    """Message on columns whose names contain no joint or actuator."""
    labels, described = list(robot.freedoms), robot.description
    if matched is None or len(labels) == 1:
        return
    names = {one.name for kind in (described.actuators, described.servos) for one in kind}
    kinds = {"position": matched.positions, matched.effort: matched.efforts, "command": matched.commands}
    pairs = [(kind, name, column) for kind, own in kinds.items() for name, column in own.items() if column not in names]
    found = [f"{column} ({kind} of {name})" for kind, name, column in pairs if not joint_in(column, labels)]
    if found:
        yield f"assigned by number: {', '.join(found)}; if this is wrong, name the columns after the joints"


def _log(arguments: Namespace) -> Log | None:
    """What was recorded, if that is given."""
    if arguments.log is not None:
        return opened(Path(arguments.log), dict(arguments.units), arguments.topics, arguments.rate)
    rate = [] if arguments.rate is None else [arguments.rate]
    units = [name for name, _ in arguments.units]
    for flag, said in (("--units", units), ("--topics", arguments.topics), ("--rate", rate)):
        if said:
            raise ProblemError(f"{flag} {said[0]}: {flag[2:]} are those of a log; give LOG, too")
    return None


def _asked(arguments: Namespace) -> str:
    """The command, as one would write it again."""
    words = ["spookid", "new", arguments.robot, *([arguments.log] if arguments.log else [])]
    words += [f"--{flag}" for flag in ("free", "mend", "trust") if getattr(arguments, flag)]
    lists = {
        "--hold": [f"{name}={value:g}" for name, value in arguments.hold],
        "--topics": arguments.topics,
        "--units": [f"{name}={unit}" for name, unit in arguments.units],
        "--gain": [f"{name}={value:g}" for name, value in arguments.gain],
    }
    words += [] if arguments.rate is None else ["--rate", f"{arguments.rate:g}"]
    for flag, values in lists.items():
        words += [flag, *values] if values else []
    return shlex.join(words)


def _complaints(held: tuple[str, ...], unused: dict[str, str]) -> list[str]:
    told = []
    if held:
        told.append(f"the log has no column for joints {', '.join(held)}: the problem file fixes these at 0")
    if unused:
        told.append(f"not used: {', '.join(f'{column} ({reason})' for column, reason in unused.items())}")
    return told


def export(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the robot's file with identified values, or its servos for Isaac Lab."""
    out, result = Path(arguments.out), exports.load_answer(arguments.result, arguments.force)
    yaml = out.suffix in (".yaml", ".yml")
    if yaml is not (arguments.to is None):
        raise ProblemError(
            "give --to ROBOT for a robot's file, or --out FILE.yaml alone for the actuators of Isaac Lab"
        )
    if yaml is (arguments.timestep is None):
        raise ProblemError("--timestep belongs to --out FILE.yaml, which counts delays in steps; a robot's file has it")
    drives = _servos(arguments, result)
    for one in drives:
        for what in one.left_out if yaml else sorted({*one.left_out} - {*one.in_mjcf}):
            terminal.complain(f"{one.joint}: {out} is without {what}")
    if yaml:
        write_isaac_lab(drives, out, arguments.timestep)
        terminal.say(f"Written to {out}")
        return Exit.DONE
    robot = _robot(arguments, arguments.to)
    beside = write(robot, out, result, drives if robot.source.format == "MJCF" else ())
    terminal.say(f"Robot file written to {out}; standard errors and covariance are in file {beside}")
    bodies = result.mechanism.bodies if result.mechanism else ()
    others = [body.name for body in bodies if body.name not in robot.description.links]
    if others:
        terminal.complain(f"{arguments.to} has no link {', '.join(others)}: its estimates are not in {out}")
    try:
        compared = compare(robot, result, problem=problem_of(result), replays=False)
        terminal.say(f"\n{as_text(compared.blocks()[1:], terminal.columns())}")
    except ProblemError as error:
        terminal.complain(f"predicted torques cannot be compared with the log: {error}")
    return Exit.DONE


def _servos(arguments: Namespace, result: Solution) -> tuple[ServoActuator, ...]:
    """Those of the problem that was solved; none where it has none, or its file is not there and nobody names it."""
    source = arguments.problem or result.source
    wanted = arguments.problem or arguments.signal or arguments.to is None
    if not wanted and not (source and Path(source.partition("::")[0]).is_file()):
        return ()
    problem = named_problem(arguments, result)
    return servos(problem, result, dict(arguments.signal)) if wanted or declared_servos(problem) else ()


def check_out(out: Path | None, ending: str, kind: str) -> None:
    """Refuse a file that cannot be written, before a long computation."""
    if out is not None and out.suffix != ending:
        raise ProblemError(f"--out {out}: {kind}; give a name that ends in {ending}")
    if out is not None:
        folders.check_file(out)


def _robot(arguments: Namespace, path: str) -> Robot:
    return read(path, free=arguments.free, held=dict(arguments.hold), mend=arguments.mend, trust=arguments.trust)


def payload(arguments: Namespace, interruption: Interruption) -> Exit:
    """Identify a payload, print it, and write it if a file is given."""
    began = time.perf_counter()
    out = None if arguments.out is None else Path(arguments.out)
    check_out(out, ".json", "a payload is written as JSON")
    result = exports.load_answer(arguments.result, arguments.force)
    problem = named_problem(arguments, result)
    calibration = None if arguments.calibration is None else ArmKnowledge.load(arguments.calibration)
    log = opened(Path(arguments.log), dict(arguments.units), arguments.topics)
    recording = recording_of(log, arguments.time, problem, told=terminal.complain)
    loaded = time.perf_counter()
    found = find(
        problem,
        result,
        recording,
        arguments.body,
        known_mass=arguments.known_mass,
        calibration=calibration,
        values=dict(arguments.set),
        cutoff=arguments.cutoff,
    )
    page = found.page(arguments.verbose)
    page += [f"loaded in {seconds(loaded - began)}"] if arguments.verbose else []
    terminal.say(as_text(page, terminal.columns()))
    if out is not None:
        found.save(out)
        terminal.say(f"\nWritten to {out}")
    if not found.fits:
        terminal.complain(f"{arguments.log} does not fit the arm of {arguments.result}")
        return Exit.NOT_CONVERGED
    return Exit.DONE


def predict(arguments: Namespace, interruption: Interruption) -> Exit:
    """Predict the motor efforts along a log, print their errors, and write them."""
    out = None if arguments.out is None else Path(arguments.out)
    check_out(out, ".csv", "efforts are written as CSV")
    result = exports.load_answer(arguments.result, arguments.force)
    problem = named_problem(arguments, result)
    log = opened(Path(arguments.log), dict(arguments.units), arguments.topics)
    inputs = {motor.signal for motor in problem.model.motors}
    recording = recording_of(log, arguments.time, problem, inputs, terminal.complain)
    values = {**result.values, **dict(arguments.set)}
    found = inverse_dynamics(problem, values, recording, cutoff=arguments.cutoff)
    kinds = {"predicted": found.efforts, "measured": found.measured_efforts}
    title = f"{result.problem}: {arguments.log} with the estimates of {arguments.result}"
    terminal.say(as_text([title, *found.blocks()], terminal.columns()))
    if out is not None:
        heads = [f"{label} [{unit}]" for label, unit in zip(found.motors, found.units, strict=True)]
        columns = {f"{head} {kind}": efforts[:, i] for kind, efforts in kinds.items() for i, head in enumerate(heads)}
        rows = zip(found.t, *columns.values(), strict=True)
        folders.write(out, Table(("t", *columns), [tuple(map(repr, map(float, row))) for row in rows]).csv())
        terminal.say(f"Written to {out}")
    return Exit.DONE


def randomize(arguments: Namespace, interruption: Interruption) -> Exit:
    """Draw parameters from a posterior, print their ranges, and write them, also as robot files."""
    out, files = Path(arguments.out), None if arguments.files is None else Path(arguments.files)
    folders.check_file(out)
    if (files is None) != (arguments.to is None):
        raise ProblemError("--to and --files belong together: the robot's own file, and a new folder; give both")
    if files is not None:
        folders.check_new(files)
    result = exports.load_answer(arguments.result, arguments.force)
    problem = named_problem(arguments, result)
    draws = draw(problem, result, arguments.count, arguments.seed)
    draws.save(out)
    terminal.say(f"{draws}\n\nWritten to {out}")
    if files is not None:
        robot = _robot(arguments, arguments.to)
        check_same(robot, result)
        bodies, joints = problem.model.bodies, problem.model.joints

        def fill(folder: Path) -> None:
            for i, found in enumerate(at_values(bodies, joints, [draws[i] for i in range(len(draws))])):
                write(robot, folder / f"{i:05d}{Path(arguments.to).suffix}", found)

        folders.make(files, fill)
        terminal.say(f"Written to {files}: {len(draws)} files")
    return Exit.DONE


def named_problem(arguments: Namespace, result: Solution) -> Problem:
    """Problem of a result, from the file that was solved or a given file."""
    source = arguments.problem or result.source
    if not source:
        raise ProblemError(
            f"{arguments.result} does not say which problem file was solved; name it with --problem PROBLEM.py"
        )
    if arguments.problem is None and not Path(source.partition("::")[0]).is_file():
        raise ProblemError(
            f"{arguments.result} is of {source}, which is not there any more; say where it is with --problem PROBLEM.py"
        )
    problem = load_problem(source)
    if problem.name != result.problem:
        raise ProblemError(
            f"{source} holds problem {problem.name!r}, and {arguments.result} are results of {result.problem!r}; name "
            "the file that was solved with --problem"
        )
    return problem


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
    check_out(out, ".json", "the verification is written as JSON")
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


def report(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the HTML report of a result folder."""
    robots = partial(section, file=arguments.robot)
    if not (arguments.link or installed()):
        terminal.complain(
            "Plotly is not installed, so the page loads it from cdn.plot.ly; a page that needs no network: "
            "pip install 'spookid[report]'"
        )
    terminal.say(f"Written to {page.write(arguments.directory, link=arguments.link, robots=robots)}")
    return Exit.DONE


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
