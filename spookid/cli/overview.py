"""What a problem is made of, as text: the page of ``spookid check``."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import WIDTH_SHARE, Assembly, slip_widths
from spookid.assembly.declaration import Declaration
from spookid.assembly.demand import Demand
from spookid.assembly.sampled_recording import SampledRecording
from spookid.data.channels import Channel
from spookid.data.sampling import finite_samples
from spookid.estimation.grouping import base_parameters
from spookid.estimation.identifiability import a_priori, papers_weight
from spookid.mechanics.motor import Motor
from spookid.parameter import parameters_in, stacked
from spookid.report.summary import settled_words, weak_words
from spookid.results.wording import weight_words
from spookid.statistics.settled import left_open
from spookid.statistics.weak_directions import WEAK
from spookid.tables.numbers import bounds, number, quantity
from spookid.tables.table import Table, wrapped

Row = tuple[str, ...]
_MOST = 50
"""Bodies of which combinations are found in a few seconds."""
_MORE = "In Python problem.base_parameters() lists the combinations."


def describe(assembly: Assembly, title: str, description: str, width: int) -> str:
    """Everything that can be said about a problem before it is solved.

    Args:
        title: how the user called it.
        description: of its file; may be empty.
        width: columns of a line.
    """
    sections = [
        _title(title, description, width),
        _mechanism(assembly.problem, width),
        _recordings(assembly, width),
        ["Parameters", *_parameters(assembly.problem, width)],
        _settings(assembly, width),
        _size(assembly, width),
        _identifiability(assembly, width),
        _base_parameters(assembly.problem, width),
        _notices(assembly, width),
    ]
    return _page(sections)


def describe_unrecorded(problem: Declaration, title: str, description: str, width: int) -> str:
    """What can be said about a problem of which nothing is recorded yet; arguments as of ``describe``."""
    signals = [*problem.model.signals, *(channel.signal for channel in problem.channels)]
    needed = f"No recording yet: give recordings= one with {', '.join(dict.fromkeys(signals))} to solve the problem."
    sections = [
        _title(title, description, width),
        _mechanism(problem, width),
        ["Recordings", *wrapped(needed, width, "  ")],
        ["Parameters", *_parameters(problem, width)],
        _base_parameters(problem, width) if len(problem.model.bodies) <= _MOST else [],
    ]
    return _page(sections)


def _page(sections: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(section) for section in sections if section)


# --- sections, each a list of lines ---


def _title(title: str, description: str, width: int) -> list[str]:
    return [title, "=" * min(len(title), width), *(wrapped(description, width) if description else [])]


def _mechanism(problem: Declaration, width: int) -> list[str]:
    model = problem.model
    free = [body.name for body in model.bodies if body.free]
    joints = [f"{j.name} ({j.parent.body.name} to {j.child.body.name})" for j in model.joints]
    motors = [f"{m.signal} on {m.label}" for m in model.motors]
    sensors = [f"{o.signal}: {o.title} (sigma {_sigma(problem, o)})" for o in problem.channels]
    labelled = [
        ("Bodies", [body.name + (" (free)" if body.name in free else "") for body in model.bodies]),
        ("Joints", joints),
        ("Constraints", [f"{c.name} ({c.kind})" for c in model.constraints]),
        ("Motors", motors),
        ("Loads", [load.title for load in model.loads]),
        ("Sensors", sensors),
    ]
    return [
        line for label, names in labelled if names for line in wrapped(", ".join(names), width, _label(label, names))
    ]


def _sigma(problem: Declaration, sensor: Channel) -> str:
    if sensor.sigma is None and problem.dynamics == "estimated":
        return "estimated"
    return quantity(1.0 if sensor.sigma is None else sensor.sigma, sensor.unit, 4)


def _label(label: str, names: Sequence[str]) -> str:
    return f"{label:<7}{len(names):>3}  "


def _recordings(assembly: Assembly, width: int) -> list[str]:
    problem, rows, fewer = assembly.problem, [], False
    for e in assembly.sampled:
        duration = e.recording.t[-1] - e.recording.t[0]
        counts = _samples(problem, e)
        fewer = fewer or any(used < there for _, used, there in counts)
        texts = [f"{name} {used:,}" + (f" of {there:,}" if used < there else "") for name, used, there in counts]
        rows.append((e.recording.name, f"{e.grid.count:,}", f"{number(duration, 6)} s", ", ".join(texts)))
    table = _table(("name", "steps", "duration", "samples"), rows, width)
    if not fewer or problem.every:
        return ["Recordings", *table]
    left_out = "Samples of what took place before the first step or behind the last one are left out."
    return ["Recordings", *table, *wrapped(left_out, width, "  ")]


def _samples(problem: Declaration, sampled: SampledRecording) -> list[tuple[str, int, int]]:
    """Of each signal how many samples count, and how many there are."""
    pairs = [(channel.signal, own) for channel, own in zip(problem.channels, sampled.samples, strict=True)]
    return [(name, len(own.at), len(finite_samples(sampled.recording, name)[0])) for name, own in pairs]


def _parameters(problem: Declaration, width: int) -> list[str]:
    if not problem.parameters:
        return ["  none"]
    rows, free = [], {p.name for p in problem.free}
    for p in problem.parameters:
        fixed = "" if p.name in free else "fixed"
        rows.append((p.name, number(problem.guess[p.name], 6), bounds(p.lower, p.upper), p.unit, fixed, p.note))
    return _table(("name", "guess", "bounds", "unit", "", "note"), rows, width)


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


def _size(assembly: Assembly, width: int) -> list[str]:
    transcription = assembly.transcription
    parameters = len(transcription.names)
    states = transcription.unknowns - parameters
    density = transcription.nonzeros / (transcription.rows * transcription.unknowns)
    text = (
        f"{transcription.unknowns:,} unknowns ({states:,} of states, {parameters:,} of parameters), "
        f"{transcription.rows:,} residuals, {transcription.nonzeros:,} Jacobian nonzeros "
        f"({number(100 * density, 2)} %); a fit takes {Demand.of(assembly.problem, transcription)}, to a factor of 3"
    )
    return wrapped(text, width, "Size        ")


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
    said = [*map(weak_words, left_open(identifiability)), *filter(None, [settled_words(identifiability)])]
    lines += [line for sentence in said for line in wrapped(sentence, width, "  - ")]
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


def _table(head: Row, rows: Sequence[Row], width: int) -> list[str]:
    return Table(head, rows, range(len(rows[0]))).text(width, "  ").splitlines()
