"""The command ``excite``, and what ``check`` says of a planned trajectory."""

from __future__ import annotations

import fnmatch
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.cli import terminal
from spookid.cli.flags import Box, Range
from spookid.cli.interruption import Interruption
from spookid.cli.runner import CommandJob, Exit, start
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.report import export
from spookid.results import folders
from spookid.results.result import Result
from spookid.robots.planning import limits_within
from spookid.studies import excitation_result as excitations
from spookid.studies.excitation import excite as design
from spookid.studies.expected import ExpectedErrors, expected_errors
from spookid.studies.job import KeptFits, unfinished
from spookid.studies.motion_limits import MotionLimits
from spookid.studies.planned_motion import completed


def excite(arguments: Namespace, interruption: Interruption) -> Exit:
    """Design a motion, print what it will tell, and write it."""
    out, run = _out(arguments), start(arguments, interruption)
    problem, known = (job := run.only(out)).problem, _known(job)
    limits = limits_within(problem, _limits(arguments, problem))
    wanted = dict(arguments.until)
    criterion: str | Sequence[str] = arguments.criterion
    if criterion not in ("determinant", "largest"):
        criterion = tuple(name.strip() for name in arguments.criterion.split(","))
    kept = KeptFits(unfinished(out), sorted((n, v) for n, v in vars(arguments).items() if not callable(v)))
    with terminal.line(f"{problem.name}: planning", run.watched) as show, kept.searching(problem):

        def told_of(start: int, iteration: int, value: float) -> None:
            show(f"{problem.name}: start {start}, iteration {iteration}, criterion {value:.5g}")
            interruption.checkpoint()

        found = design(
            problem,
            arguments.duration,
            criterion=criterion,
            limits=limits,
            noise=_noise(arguments, problem),
            known=known,
            initial=_home(arguments, problem),
            rate=arguments.rate,
            basis=arguments.basis,
            harmonics=arguments.harmonics,
            starts=arguments.starts,
            seed=arguments.seed,
            progress=told_of,
        )
    told = until(found.expected, wanted)
    picture = excitations.save(out, found)
    run.say("\n".join([str(found), *(f"\n{one}" for one in told), f"\nWritten to {out} and {picture}"]))
    if found.interrupted:
        on = "the same command goes on with the search that was cut short, from its beginning"
        terminal.complain(f"interrupted; the best motion until then is in {out}, and {on}")
        return Exit.INTERRUPTED
    kept.end()
    return Exit.DONE


def _out(arguments: Namespace) -> Path:
    """Where the motion is written."""
    out = Path(arguments.out)
    if out.suffix != ".csv":
        raise ProblemError(f"--out {out}: a trajectory is written as CSV; give a name that ends in .csv")
    folders.check_file(out)
    if not out.parent.is_dir():
        raise ProblemError(f"--out {out}: there is no folder {out.parent}; make it, or give another name")
    return out


def foretold(job: CommandJob) -> str:
    """What a trajectory will tell of a problem, for ``check``."""
    arguments, problem, known = job.arguments, job.problem, _known(job)
    planned, noise = Recording.from_file(arguments.trajectory), _noise(arguments, problem)
    try:
        errors = expected_errors(problem, completed(problem, planned), noise=noise, known=known)
    except ProblemError as error:
        raise ProblemError(f"{arguments.trajectory}: {error}") from None
    return "\n".join([str(errors), *(f"\n{one}" for one in until(errors, dict(arguments.until)))])


def until(errors: ExpectedErrors, wanted: Mapping[str, tuple[float, bool]]) -> list[str]:
    """A sentence for each parameter and the error that is wanted of it."""
    return [errors.until(name, size, relative) for name, (size, relative) in wanted.items()]


def _known(job: CommandJob) -> Result | None:
    return None if job.source is None else export.load(job.source)


def _noise(arguments: Namespace, problem: Declaration) -> Mapping[str, float]:
    """Sizes that the command names, by patterns."""
    random = [*(motor.signal for motor in problem.model.motors if motor.measured)]
    random += [channel.signal for channel in problem.channels]
    random += dict.fromkeys(disturbance_names(problem.model))
    found: dict[str, float] = {}
    for pattern, size in arguments.noise:
        found |= dict.fromkeys(_matching("--noise", pattern, random), size)
    measured = {motor.label for motor in problem.model.motors if motor.measured}
    signals = {*random} - {*disturbance_names(problem.model)} | {c.signal for c in problem.channels}
    return {name: size for name, size in found.items() if name in signals or name not in measured}


def _limits(arguments: Namespace, problem: Declaration) -> MotionLimits:
    """Those that the command names, by patterns."""
    labels = [freedom.label for freedom in problem.model.freedoms]

    def each(flag: str, given: Sequence[tuple[str, float]]) -> dict[str, float]:
        return {name: value for pattern, value in given for name in _matching(flag, pattern, labels)}

    ranges: Sequence[tuple[str, Range]] = arguments.position_limit
    boxes: Sequence[tuple[str, Box]] = arguments.inside
    cones: Sequence[tuple[str, Range]] = arguments.cone
    contacts = [contact.name for contact in problem.model.holding.contacts]
    return MotionLimits(
        position={n: pair for pattern, pair in ranges for n in _matching("--position-limit", pattern, labels)},
        rate=each("--rate-limit", arguments.rate_limit),
        effort=each("--effort-limit", arguments.effort_limit),
        place=dict(boxes),
        cone={n: pair for pattern, pair in cones for n in _matching("--cone", pattern, contacts)},
        where="spookid excite",
    )


def _home(arguments: Namespace, problem: Declaration) -> Mapping[str, float] | None:
    """The pose that the command names, by patterns."""
    labels = [freedom.label for freedom in problem.model.freedoms]
    found = {n: value for pattern, value in arguments.home for n in _matching("--home", pattern, labels)}
    return found or None


def _matching(flag: str, pattern: str, names: Sequence[str]) -> list[str]:
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ProblemError(f"{flag} {pattern}: nothing is called so; there are {', '.join(names) or 'none'}")
    return found
