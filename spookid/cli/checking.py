"""``spookid check``: what a problem is made of."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial

import casadi as ca
import numpy as np

from spookid.assembly import demand
from spookid.assembly.assembly import WIDTH_SHARE, Assembly, assemble, slip_widths
from spookid.assembly.declaration import Declaration
from spookid.assembly.sampled_recording import SampledRecording
from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import CommandJob, Exit, each, start
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.estimation import forecast
from spookid.estimation.grouping import base_parameters
from spookid.estimation.identifiability import a_priori, papers_weight
from spookid.estimation.questions import questions
from spookid.mechanics.motor import Motor
from spookid.parameter import parameters_in, stacked
from spookid.report.conclusion import parameters, parts
from spookid.report.summary import weak_sentences
from spookid.results.wording import weight_words
from spookid.statistics.weak_directions import WEAK
from spookid.tables.table import Table, minutes, number, wrapped

_MOST = 50
"""Bodies of which combinations are found in a few seconds."""
_MORE = "In Python problem.base_parameters() lists the combinations."


def check(arguments: Namespace, interruption: Interruption) -> Exit:
    """Describe each problem on stdout."""
    run, loading = start(arguments, interruption), time.process_time()
    if arguments.trajectory is None and (arguments.source or arguments.noise or arguments.until):
        raise ProblemError(
            "--from, --noise and --until of a check speak of a planned motion; name it with --trajectory"
        )

    def work(job: CommandJob) -> Exit:
        if arguments.trajectory is not None:
            from spookid.cli.exciting import foretold  # with what plans motions

            terminal.say(f"{foretold(job)}\n" if run.file.several else foretold(job))
            return Exit.DONE
        title = f"{job.problem.name} ({job.place})"
        for question in questions(job.problem):  # first, for what is asked about may be too large to be built
            terminal.say("\n".join(wrapped(question, terminal.columns())) + "\n")
        page = describe(job.problem, title, run.file.description, terminal.columns(), loading)
        terminal.say(f"{page}\n" if run.file.several else page)
        return Exit.DONE

    return each(run, lambda job: partial(work, job))


def describe(problem: Declaration, title: str, description: str, width: int, loading: float = 0.0) -> str:
    """Everything that can be said about a problem before it is solved, or before anything of it is recorded.

    Args:
        title: how the user called it.
        description: of its file; may be empty.
        width: columns of a line.
        loading: processor time that a command takes before it begins a fit [s].
    """
    named = [title, "=" * min(len(title), width), *(wrapped(description, width) if description else [])]
    mechanism = Table((), (table := parts(problem)).rows, table.left).text(width).splitlines()
    known = parameters(problem).text(width, "  ").splitlines() if problem.parameters else ["  none"]
    if problem.recordings:
        began = time.process_time()
        assembly = assemble(problem)
        building = time.process_time() - began
        recordings = _recordings(assembly, width)
        sizes = _size(assembly, width, loading, building)
        of_fit = [_settings(assembly, width), sizes, _identifiability(assembly, width)]
        notices = _notices(assembly, width)
    else:
        signals = [*problem.model.signals, *(channel.signal for channel in problem.channels)]
        needed = (
            f"No recording yet: give recordings= one with {', '.join(dict.fromkeys(signals))} to solve the problem."
        )
        recordings, of_fit, notices = ["Recordings", *wrapped(needed, width, "  ")], [], []
    quick = problem.recordings or len(problem.model.bodies) <= _MOST
    base = _base_parameters(problem, width) if quick else []
    sections = [named, mechanism, recordings, ["Parameters", *known], *of_fit, base, notices]
    return "\n\n".join("\n".join(section) for section in sections if section)


# --- sections, each a list of lines ---


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
    left_out = "Samples of what took place before the first step or behind the last one are left out."
    return ["Recordings", *table, *wrapped(left_out, width, "  ")]


def _samples(problem: Declaration, sampled: SampledRecording) -> list[tuple[str, int, int]]:
    """Of each signal how many samples count, and how many there are."""
    pairs = [(channel.signal, own) for channel, own in zip(problem.channels, sampled.samples, strict=True)]
    return [(name, len(own.at), len(finite_samples(sampled.recording, name)[0])) for name, own in pairs]


def _settings(assembly: Assembly, width: int) -> list[str]:
    problem = assembly.problem
    text = (
        f"stepper {problem.stepper.name}, friction {problem.friction}, step h = {number(problem.step, 6)} s, "
        f"{weight_words(problem.dynamics, problem.weight)}, cutoff of the initial guess {number(problem.cutoff)} Hz"
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


def _size(assembly: Assembly, width: int, loading: float, building: float) -> list[str]:
    transcription = assembly.transcription
    parameters = len(transcription.names)
    states = transcription.unknowns - parameters
    density = transcription.nonzeros / (transcription.rows * transcription.unknowns)
    text = (
        f"{transcription.unknowns:,} unknowns ({states:,} of states, {parameters:,} of parameters), "
        f"{transcription.rows:,} residuals, {transcription.nonzeros:,} Jacobian nonzeros "
        f"({number(100 * density, 2)} %); {_demand(assembly, loading, building)}"
    )
    return wrapped(text, width, "Size        ")


def _demand(assembly: Assembly, loading: float, building: float) -> str:
    memory = f"some {demand.size(demand.memory(assembly.problem, assembly.transcription))} of memory"
    try:
        duration = loading + forecast.seconds(assembly, building)
    except ProblemError as error:
        return f"a fit takes {memory}, and is refused: {error}"
    return f"a fit takes {memory} and {minutes(duration)} on one core, to a factor of 2"


def _identifiability(assembly: Assembly, width: int) -> list[str]:
    """What a fit will be able to tell, as far as the initial guess can say."""
    if not assembly.transcription.names:
        return []
    head = "Identifiability, linearized at the initial guess"
    identifiability = a_priori(assembly).sensitivities
    values = identifiability.singular_values
    if not np.all(np.isfinite(values)):
        reason = next(iter(identifiability.reasons.values()))
        return [head, *wrapped(f"Unknown: {reason.replace('at the solution', 'there')}.", width, "  ")]
    spectrum = f"Directions are seen at {', '.join(number(value, 2) for value in values)} sigma for a change of 100 %."
    lines = wrapped(spectrum, width, "  ")
    lines += [line for sentence in weak_sentences(identifiability) for line in wrapped(sentence, width, "  - ")]
    if not identifiability.weak:
        lines += wrapped(f"None is weak (below {number(WEAK)} sigma).", width, "  ")
    return [head, *lines]


def _base_parameters(problem: Declaration, width: int) -> list[str]:
    """What forces at the joints tell of bodies whose whole inertia is unknown, if there are such."""
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


def _notices(assembly: Assembly, width: int) -> list[str]:
    notices = [*assembly.notices, *papers_weight(assembly.problem), *_silent_motors(assembly)]
    lines = [line for notice in dict.fromkeys(notices) for line in wrapped(notice, width, "  - ")]
    return ["Notices", *lines] if lines else []


def _silent_motors(assembly: Assembly) -> list[str]:
    """Notices of gains that are sought in recordings without any input."""
    problem = assembly.problem
    loud = np.any(np.vstack([e.acting.held for e in assembly.sampled]), axis=0)
    silent = [signal for signal, seen in zip(problem.model.signals, loud, strict=True) if not seen]
    free = {parameter.name for parameter in problem.free}
    return [
        f"The input {m.signal!r} is zero throughout: nothing can be learnt of its motor's gain on {m.label!r}."
        for m in problem.model.motors
        if m.signal in silent and free & _names(problem, m)
    ]


def _names(problem: Declaration, motor: Motor) -> set[str]:
    """Of the parameters in a motor's gain."""
    declared = parameters_in([motor.gain], motor.place)
    return {one.name for p in declared for one in problem.parameter_set.of(p)}
