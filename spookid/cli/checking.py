"""Before there is a fit: what a problem is made of (``spookid check``), and the motion to make (``spookid excite``)."""

from __future__ import annotations

import fnmatch
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from spookid.assembly import checks
from spookid.assembly.assembly import Assembly, assemble
from spookid.assembly.constants import WIDTH_SHARE, slip_widths
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.problem import Problem
from spookid.cli import terminal
from spookid.cli.runner import CommandJob, each, start
from spookid.cli.terminal import Exit, Interruption
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.estimation import fitting
from spookid.estimation.grouping import base_parameters
from spookid.estimation.identifiability import a_priori, papers_weight
from spookid.estimation.questions import CLOCK, questions
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.mechanics.motor import Motor
from spookid.parameter import parameters_in, stacked
from spookid.report.conclusion import inertia_coordinates, parameters, parts, sizes
from spookid.report.export import load
from spookid.report.summary import warnings_of, weak_sentences
from spookid.results import folders
from spookid.results.findings import Finding, ranked
from spookid.results.result import Solution
from spookid.results.wording import weight_words
from spookid.statistics.weak_directions import WEAK
from spookid.studies.job import KeptFits, unfinished
from spookid.tables.table import ROWS, Table, as_text, counted, minutes, number, seconds, wrapped

if TYPE_CHECKING:
    from spookid.studies.expected import ExpectedErrors
    from spookid.studies.motion_limits import MotionLimits

_MOST = 50
"""Bodies of which combinations are found in a few seconds."""
_MORE = "In Python problem.base_parameters() lists the combinations."


def check(arguments: Namespace, interruption: Interruption) -> Exit:
    """Describe each problem on stdout."""
    run, loading = start(arguments, interruption), time.process_time()
    if arguments.trajectory is None and (arguments.source or arguments.noise or arguments.until):
        raise ProblemError("--from, --noise and --until of a check need a planned motion; name it with --trajectory")

    def work(job: CommandJob) -> Exit:
        if arguments.trajectory is not None:
            terminal.say(_expected(job) + "\n" * run.file.several)
            return Exit.DONE
        title = f"{job.problem.name} ({job.place}): {sizes(job.problem)}"
        how = run.file.description, terminal.columns(), arguments.verbose, loading
        asked = questions(job.problem)
        recordings, step = job.problem.sample, job.problem.step
        if asked and any(one.t[-1] - one.t[0] > len(one.t) * step for one in recordings):
            # More steps than samples: a wrong unit of time may make the rest take long.
            terminal.complain(f"{job.label}: {asked[0].text}")
        try:
            page = describe(job.problem, title, *how, asked)
        except ProblemError:  # which may be a unit: the problem is too large to build
            job.ask(asked)
            raise
        terminal.say(page + "\n" * run.file.several)
        return Exit.DONE

    return each(run, lambda job: partial(work, job))


def describe(
    problem: Problem,
    title: str,
    description: str,
    width: int,
    verbose: bool = True,
    loading: float = 0.0,
    asked: Sequence[Finding] = (),
) -> str:
    """Page about a problem before a solve, or before a recording exists."""
    table = parts(problem)
    mechanism = Table((), table.rows, table.left).text(width).splitlines()
    in_doubt = any(question.code == CLOCK for question in asked)  # far too many steps to build
    if problem.recordings and not in_doubt:
        began = time.process_time()
        assembly = assemble(problem)
        title += f"; {_demand(assembly, loading, time.process_time() - began)}"
        findings = ranked([*asked, *assembly.findings, *papers_weight(problem), *_silent_motors(assembly)])
        warnings = ["\n\n".join(warnings_of(findings, verbose, width))] if findings else []
        recordings = _recordings(assembly, width)
        of_fit = [_identifiability(assembly, width, verbose)]
        of_fit += [_settings(assembly, width), _size(assembly, width)] if verbose else []
    else:
        signals = [*problem.model.signals, *(channel.signal for channel in problem.channels)]
        needed = "Not built yet: correct the clock first."
        if not in_doubt:
            needed = (
                "The problem has no recording. To solve the problem, give recordings= with the signals "
                f"{', '.join(dict.fromkeys(signals))}."
            )
        warnings, of_fit = list(warnings_of(asked, verbose, width)), []
        recordings = ["Recordings", *wrapped(needed, width, "  ")]
    quick = verbose and (problem.recordings or len(problem.model.bodies) <= _MOST)
    base = _base_parameters(problem, width) if quick else []
    named = [*wrapped(title, width), *(wrapped(description, width) if description else [])]
    sections = [named, warnings, mechanism, recordings, _parameters(problem, width, verbose), *of_fit, base]
    return "\n\n".join("\n".join(section) for section in sections if any(section))


# --- sections, each a list of lines ---


def _parameters(problem: Problem, width: int, verbose: bool) -> list[str]:
    """All parameters, or if they do not fit a screen those that are no coordinates of inertias."""
    table = parameters(problem)
    hidden = inertia_coordinates(problem) if len(table.rows) > ROWS and not verbose else frozenset()
    rows = [row for row in table.rows if row[0] not in hidden]
    more = [f"  and {counted(len(hidden), 'coordinate')} of inertias: --verbose lists them"] if hidden else []
    lines = Table(table.head, rows, table.left).text(width, "  ").splitlines() if rows else ["  none"]
    return ["Parameters", *lines, *more]


def _recordings(assembly: Assembly, width: int) -> list[str]:
    problem, rows, fewer = assembly.problem, [], False
    for e in assembly.sampled:
        duration = e.recording.t[-1] - e.recording.t[0]
        counts = _samples(problem, e)
        fewer = fewer or any(used < there for _, used, there in counts)
        texts = [f"{name} {used:,}" + (f" of {there:,}" if used < there else "") for name, used, there in counts]
        rows.append((e.recording.name, f"{e.grid.count:,}", f"{number(duration, 6)} s", ", ".join(texts)))
    head = ("name", "steps", "duration", "samples")
    table = Table(head, rows, left=(0, 1, 2, 3)).text(width, "  ").splitlines()
    if not fewer or problem.every:
        return ["Recordings", *table]
    left_out = "Samples before the first step or after the last one are not used."
    return ["Recordings", *table, *wrapped(left_out, width, "  ")]


def _samples(problem: Problem, sampled: SampledRecording) -> list[tuple[str, int, int]]:
    """Of each signal how many samples count, and how many there are."""
    pairs = [(channel.signal, own) for channel, own in zip(problem.channels, sampled.samples, strict=True)]
    return [(name, len(own.at), len(finite_samples(sampled.recording, name)[0])) for name, own in pairs]


def _settings(assembly: Assembly, width: int) -> list[str]:
    problem = assembly.problem
    text = (
        f"stepper {problem.stepper.name}, friction {problem.friction}, step h = {number(problem.step, 6)} s, "
        f"{weight_words(problem.dynamics, problem.weight)}, cutoff of initial states {number(problem.cutoff)} Hz"
    )
    lines = wrapped(text, width, "Settings    ")
    rubbing = [
        f"{freedom.label} {number(slip, 3)} {freedom.coordinate.unit}/s"
        for freedom, slip in zip(problem.model.freedoms, slip_widths(problem, assembly.sampled), strict=True)
        if freedom.rubs
    ]
    if rubbing:
        origin = "" if problem.friction_width is not None else f" ({100 * WIDTH_SHARE:g} % of the rms slip rate)"
        lines += wrapped(f"friction width {', '.join(rubbing)}{origin}", width, " " * 12)
    return lines


def _size(assembly: Assembly, width: int) -> list[str]:
    transcription = assembly.transcription
    parameters = len(transcription.names)
    states = transcription.unknowns - parameters
    density = transcription.nonzeros / (transcription.rows * transcription.unknowns)
    text = (
        f"{transcription.unknowns:,} unknowns ({states:,} of states, {parameters:,} of parameters), "
        f"{transcription.rows:,} residuals, {transcription.nonzeros:,} Jacobian nonzeros "
        f"({number(100 * density, 2)} %)"
    )
    return wrapped(text, width, "Size        ")


def _demand(assembly: Assembly, loading: float, building: float) -> str:
    memory = f"some {checks.size(checks.memory(assembly.problem, assembly.transcription))} of memory"
    try:
        duration = loading + fitting.seconds(assembly, building)
    except ProblemError as error:
        return f"a fit needs {memory} and is not started: {error}"
    return f"a fit needs {memory} and takes {minutes(duration)} on one core (accurate to a factor of 2)"


def _identifiability(assembly: Assembly, width: int, verbose: bool) -> list[str]:
    """What a fit will be able to determine, as far as the initial values show."""
    if not assembly.transcription.names:
        return []
    identifiability = a_priori(assembly).sensitivities
    values = identifiability.singular_values
    lines = ["Identifiability, linearized at the initial values"]
    if not np.all(np.isfinite(values)):
        reason = next(iter(identifiability.reasons.values()))
        return [*lines, *wrapped(f"Unknown: {reason.replace('at the solution', 'there')}.", width, "  ")]
    if verbose:
        spectrum = ", ".join(number(value, 2) for value in values)
        lines += wrapped(f"Changes of 100 % along each direction, in standard errors: {spectrum}.", width, "  ")
    lines += [line for sentence in weak_sentences(identifiability) for line in wrapped(sentence, width, "  - ")]
    if not identifiability.weak:
        lines += wrapped(
            f"No direction is weakly identifiable: changes of 100 % exceed {number(WEAK)} standard errors.", width, "  "
        )
    return lines


def _base_parameters(problem: Problem, width: int) -> list[str]:
    """What forces at the joints determine of bodies whose whole inertia is unknown, if there are such."""
    free = stacked(problem.parameter_set.declared)
    inertias = (body.distribution for body in problem.model.bodies)
    if not any(one is not None and ca.depends_on(one.pi, free) for one in inertias):
        return []
    anywhere = base_parameters(problem)
    here = base_parameters(problem, problem.recordings) if problem.recordings else anywhere
    headlines = dict.fromkeys([anywhere.headline(), here.headline()])
    text = " ".join(f"{sentence[0].upper()}{sentence[1:]}" for sentence in headlines)
    rows = here.by_body().text(width, "  ").splitlines()
    told = (line for words in (*here.remarks(), _MORE) for line in wrapped(words, width, "  "))
    return ["Base parameters", *wrapped(text, width, "  "), *rows, *told]


def _silent_motors(assembly: Assembly) -> list[Finding]:
    """Gains that are sought in recordings without any input."""
    problem = assembly.problem
    loud = np.any(np.vstack([e.acting.held for e in assembly.sampled]), axis=0)
    silent = [signal for signal, seen in zip(problem.model.signals, loud, strict=False) if not seen]
    free = {parameter.name for parameter in problem.free}
    said = "The input {0.signal!r} is zero throughout: the motor gain on {0.label!r} is not identifiable."
    return [
        Finding("input.zero", (m.signal,), effect=said.format(m))
        for m in problem.model.motors
        if m.signal in silent and free & _names(problem, m)
    ]


def _names(problem: Problem, motor: Motor) -> set[str]:
    """Of the parameters in a motor's gain."""
    declared = parameters_in([motor.gain], motor.place)
    return {one.name for p in declared for one in problem.parameter_set.of(p)}


# --- motions that are planned ---


def excite(arguments: Namespace, interruption: Interruption) -> Exit:
    """Design a motion, print the expected standard errors, and write the motion."""
    from spookid.studies.excitation import MOST_ITERATIONS  # with what plans motions
    from spookid.studies.excitation_result import save

    out, run = Path(arguments.out), start(arguments, interruption)
    if out.suffix != ".csv":
        raise ProblemError(f"--out {out}: a trajectory is written as CSV; give a name that ends in .csv")
    folders.check_file(out)
    if not out.parent.is_dir():
        raise ProblemError(f"--out {out}: there is no folder {out.parent}; make it, or give another name")
    job = run.only(out)
    problem, name = job.problem, job.problem.name
    criterion: str | Sequence[str] = arguments.criterion
    if criterion not in ("determinant", "largest"):
        criterion = tuple(one.strip() for one in arguments.criterion.split(","))
    options = {key: getattr(arguments, key) for key in ("rate", "basis", "harmonics", "starts", "seed")}
    given = {"noise": _noise(job), "known": _known(job), "initial": _at_coordinates(job, "home") or None}
    kept = KeptFits(unfinished(out), sorted((n, v) for n, v in vars(arguments).items() if not callable(v)))
    with terminal.line(f"{name}: planning", run.watched) as show, kept.searching(problem):
        began = time.monotonic()

        def forecast(start: int, iteration: int) -> str:
            done, elapsed = start - 1, time.monotonic() - began
            if not (share := done or iteration / MOST_ITERATIONS):
                return ""
            whole = f"{'about' if done else 'at most'} {minutes(elapsed * arguments.starts / share)}"
            return f", {elapsed:.0f} s of {whole}, iteration {iteration}"

        def seen(start: int, iteration: int, value: float) -> None:
            show(f"{name}: start {start} of {arguments.starts}{forecast(start, iteration)}, criterion {value:.5g}")
            interruption.checkpoint()

        found = problem.excite(arguments.duration, _limits(job), criterion=criterion, **options, **given, progress=seen)
    picture = save(out, found)
    *page, facts = found.page(arguments.verbose)
    page += [*_until(job, found.expected), f"{facts}, {seconds(time.monotonic() - began)}"]
    run.say(f"{as_text(page, terminal.columns())}\n\nWritten to {out} and {picture}")
    if found.interrupted:
        on = "the same command repeats the search that was interrupted, from its beginning"
        terminal.complain(f"interrupted; the best motion found so far is in file {out}, and {on}")
        return Exit.INTERRUPTED
    kept.end()
    return Exit.DONE


def _expected(job: CommandJob) -> str:
    """Errors to expect of a trajectory."""

    planned = Recording.from_file(job.arguments.trajectory)
    try:
        errors = job.problem.expected_errors(planned, noise=_noise(job), known=_known(job))
    except ProblemError as error:
        raise ProblemError(f"{job.arguments.trajectory}: {error}") from None
    return as_text([*errors.page(job.arguments.verbose), *_until(job, errors)], terminal.columns())


def _until(job: CommandJob, errors: ExpectedErrors) -> list[str]:
    """A sentence for each parameter and the error that is wanted of it."""
    return [errors.until(name, *error) for name, error in dict(job.arguments.until).items()]


def _known(job: CommandJob) -> Solution | None:
    return None if job.source is None else load(job.source)


def _noise(job: CommandJob) -> Mapping[str, float]:
    """Sizes that the command names, by patterns."""
    model = job.problem.model
    measured = {motor.label: motor.signal for motor in model.motors if motor.measured}
    seen, disturbed = dict.fromkeys(channel.signal for channel in job.problem.channels), disturbance_names(model)
    found = _matched(job, "noise", [*dict.fromkeys([*measured.values(), *seen, *disturbed])])
    signals = {*measured.values()} - {*disturbed} | {*seen}
    return {name: size for name, size in found.items() if name in signals or name not in measured}


def _limits(job: CommandJob) -> MotionLimits:
    """Those that the command names, by patterns."""
    from spookid.studies.motion_limits import MotionLimits

    return MotionLimits(
        position=_at_coordinates(job, "position_limit"),
        rate=_at_coordinates(job, "rate_limit"),
        effort=_at_coordinates(job, "effort_limit"),
        place=dict(job.arguments.inside),
        cone=_matched(job, "cone", [contact.name for contact in job.problem.model.holding.contacts]),
        where="spookid excite",
    )


def _at_coordinates(job: CommandJob, flag: str) -> dict[str, Any]:
    return _matched(job, flag, [freedom.label for freedom in job.problem.model.freedoms])


def _matched(job: CommandJob, flag: str, names: Sequence[str]) -> dict[str, Any]:
    """What a flag gives by patterns, by the names that these match; the last one counts."""
    found: dict[str, Any] = {}
    for pattern, value in getattr(job.arguments, flag):
        own = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if not own:
            there = ", ".join(names) or "none"
            raise ProblemError(f"--{flag.replace('_', '-')} {pattern}: nothing is called so; there are {there}")
        found |= dict.fromkeys(own, value)
    return found
