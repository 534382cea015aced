"""When contacts hold along a recording, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.precision import AT_STEP
from spookid.mechanics.contacts import HeldContact, Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.stepping.base import HELD, SWITCHED
from spookid.stepping.contact_rows import AROUND
from spookid.transcription.factor import Factor

FAR = 1.5
"""Steps by which an impact may be off its schedule."""


def check_schedules(model: Model, name: str, refuses: Mapping[str, str]) -> None:
    """Raise ProblemError for scheduled contacts that a stepper does not support."""
    for contact in model.holding.contacts:
        for refused, asked in ((HELD, True), (SWITCHED, contact.switches or contact.stabilized)):
            if asked and (why := refuses.get(refused)):
                raise ProblemError(f"{contact.what}: stepper {name!r} has no {refused}: {why}")


def schedule(model: Model, recording: Recording | None, steps: Grid) -> Array:
    """Contact flags, (N − 1, n_c): 1 for each contact that is closed from a step to the next and at both, otherwise 0.

    Raises:
        ProblemError: if it is not known when a contact holds.
    """
    times = steps.times()
    columns = [_holds(contact, recording, times, steps.step) for contact in model.holding.contacts]
    return contiguous(np.column_stack(columns)) if columns else np.zeros((steps.count - 1, 0))


@dataclass(frozen=True, eq=False)
class Strikes:
    """Impacts along one recording."""

    times: tuple[tuple[float, ...], ...]
    """Of each contact of the model, in steps from the first; none of those that hold."""
    scheduled: tuple[tuple[float, ...], ...]
    """What schedules say of the same."""
    struck: Array
    """1 for each impact at the step nearest to it, 0 elsewhere, (N, n_c)."""
    late: Array
    """How many steps after each step an impact next to it is, 0 at others, (N, 1); of models without any, (N, 0)."""


def strikes(model: Model, recording: Recording | None, steps: Grid, held: Array) -> Strikes:
    """Return the impacts that schedules determine.

    Args:
        held: as of ``schedule``.

    Raises:
        ProblemError: if it is not known when they happen, or the motion around one is not free of others.
    """
    contacts = model.holding.contacts
    told = [_told(one, recording, steps) if isinstance(one, Impact) else () for one in contacts]
    found = strikes_at(model, told, steps, told)
    if np.any(found.struck):
        _check_apart(contacts, found.struck, held, steps)
    return found


def strikes_at(
    model: Model, times: Sequence[Sequence[float]], steps: Grid, scheduled: Sequence[Sequence[float]]
) -> Strikes:
    """Impacts at known times.

    Args:
        times, scheduled: as of ``Strikes``.

    Raises:
        ProblemError: for one too near to an end of the motion.
    """
    contacts = model.holding.contacts
    struck = np.zeros((steps.count, len(contacts)))
    late = np.zeros((steps.count, int(any(isinstance(one, Impact) for one in contacts))))
    for i, (impact, own) in enumerate(zip(contacts, times, strict=True)):
        for x in own:
            k = round(x)
            if not AROUND <= k < steps.count - AROUND:
                raise ProblemError(
                    f"{impact.what}: the impact at {steps.start + x * steps.step:g} s has no {AROUND} steps of "
                    f"{steps.step:g} s of the motion before and after it; leave it out, or make the step smaller"
                )
            struck[k, i] = 1.0
            late[k - 1 : k + 2, 0] = x - np.arange(k - 1, k + 2)
    found, told = ([tuple(own) for own in one] for one in (times, scheduled))
    return Strikes(tuple(found), tuple(told), struck, late)


def _told(impact: Impact, recording: Recording | None, steps: Grid) -> list[float]:
    told = impact.schedule(None if recording is None else recording.name)
    times = _rising(impact, told, recording) if isinstance(told, str) else told
    return [(t - steps.start) / steps.step for t in times]


def _check_apart(contacts: Sequence[Touch], struck: Array, held: Array, steps: Grid) -> None:
    """Refuse impacts between which the motion is not free for long enough to have velocities of its own."""
    times, shown = steps.times(), np.flatnonzero(np.any(struck, axis=1))
    starts = np.argwhere(held[1:] > held[:-1])
    others = {int(k): contacts[int(np.argmax(struck[k]))] for k in shown} | {int(k) + 1: contacts[i] for k, i in starts}
    for k in shown:
        for other, contact in others.items():
            if 0 < abs(other - k) < 2 * AROUND:
                impact = contacts[int(np.argmax(struck[k]))]
                raise ProblemError(
                    f"{impact.what}: between the impact at {times[k]:g} s and what {contact.kind} {contact.name!r} "
                    f"does at {times[other]:g} s there are fewer than {2 * AROUND} steps; make the step smaller than "
                    f"{abs(other - k) * steps.step / (2 * AROUND):.2g} s"
                )


def _rising(impact: Impact, signal: str, recording: Recording | None) -> list[float]:
    t, values = _samples(impact, "happens", signal, recording)
    above = values >= impact.threshold
    return list(t[1:][above[1:] & ~above[:-1]])


def schedule_signals(model: Model, recording: Recording | None, steps: Grid) -> dict[str, Array]:
    """Signals of a recording that determine when contacts are closed or impacts happen, at the steps, (N,)."""
    told = [contact.schedule(recording.name) for contact in model.holding.contacts] if recording else []
    assert recording is not None or not told
    names = dict.fromkeys(one for one in told if isinstance(one, str))
    return {name: _last(*finite_samples(recording, name), steps.times()) for name in names}  # type: ignore[arg-type]


def idle_findings(model: Model, recordings: Sequence[tuple[Recording, Array]]) -> list[Finding]:
    """Contacts that never hold.

    Args:
        recordings: each with its ``schedule``.
    """
    said = "{0.kind} {0.name!r} never holds in recording {1.name!r}."
    advice = "Look at its holds and threshold."
    return [
        Finding("contacts.idle", (contact.name, recording.name), {}, said.format(contact, recording), advice=advice)
        for recording, held in recordings
        for contact, column in zip(model.holding.contacts, held.T, strict=True)
        if isinstance(contact, HeldContact) and not np.any(column)
    ]


def unsettled_findings(model: Model) -> list[Finding]:
    """Note, for a fit that did not converge, that a schedule may be the cause."""
    contacts = model.holding.contacts
    names = ", ".join(f"{contact.kind} {contact.name!r}" for contact in contacts)
    effect = f"The fit did not converge. The schedule may declare contact at times when {names} was open."
    return [Finding("contacts.unsettled", tuple(contact.name for contact in contacts), effect=effect)] if names else []


def contact_data(held: Array, strikes: Strikes | None = None) -> Array:
    """Data of ``contact_rows.Schedule`` for the steps around t_1 … t_{N−2}, (N − 2, 2 n_c + n): contacts that are
    closed in the preceding interval, contacts that may be closed because a neighbouring interval is or an impact is
    near, and delays of impacts."""
    before, here, after = held[:-1], held[1:], np.vstack([held[2:], held[-1:]])
    may = (1 - here) * np.maximum(before, after)
    if strikes is None:
        return contiguous(np.hstack([here, may]))
    struck = strikes.struck
    may = np.maximum(may, np.maximum(np.maximum(struck[:-2], struck[1:-1]), struck[2:]))
    return contiguous(np.hstack([here, may, strikes.late[1:-1]]))


def impact_data(model: Model, strikes: Strikes, factor: Factor) -> tuple[Array, Mask]:
    """Data of the impact factor, (count, 2 n_i), and flags of equations without data, (count, rows)."""
    impacts = {i: one for i, one in enumerate(model.holding.contacts) if isinstance(one, Impact)}
    inner = slice(AROUND, AROUND + factor.count(len(strikes.struck)))
    own = strikes.struck[inner, list(impacts)]
    lates = np.zeros_like(own)
    for column, i in enumerate(impacts):
        for x in strikes.times[i]:
            lates[round(x) - AROUND, column] = x - round(x)
    rows = [np.repeat(own[:, [i]], len(one.rows_along), axis=1) for i, one in enumerate(impacts.values())]
    return contiguous(np.hstack([own, lates])), np.hstack(rows) == 0


def at_switches(held: Array, struck: Array, factor: Factor, order: int, between: bool) -> Mask:
    """True for equations of an observation that a smooth motion cannot predict, (count,): rates or accelerations at a
    step where a contact closes or opens, and all samples next to an impact.

    Args:
        held: as of ``schedule``.
        struck: as of ``Strikes``.
        order: how many time derivatives it sees.
        between: True of samples between the steps, which all states around them determine.
    """
    switched, hit = np.zeros(len(held) + 1, dtype=bool), np.any(struck, axis=1)
    switched[1:-1] = np.any(held[1:] != held[:-1], axis=1) & (order > 0)
    count, middle = factor.count(len(switched)), factor.reach // 2
    every = range(factor.reach + 1)
    offsets = every if between else [middle]
    jumps = [switched[o : o + count] for o in offsets]
    return np.asarray(np.any([*jumps, *(hit[o : o + count] for o in every if order or between)], axis=0))


def _holds(contact: Touch, recording: Recording | None, times: Array, step: float) -> Array:
    if not isinstance(contact, HeldContact):
        return np.zeros(len(times) - 1)
    told = contact.schedule(None if recording is None else recording.name)
    if told is True:
        return np.ones(len(times) - 1)
    if isinstance(told, str):  # a signal keeps its last value
        last = _last(*_samples(contact, "holds", told, recording), times) >= contact.threshold
        return (last[:-1] & last[1:]).astype(np.float64)
    held, margin = np.zeros(len(times) - 1, dtype=bool), AT_STEP * step
    for first, end in told:
        held |= (times[:-1] >= first - margin) & (times[1:] <= end + margin)
    return held.astype(np.float64)


def _samples(contact: Touch, does: str, signal: str, recording: Recording | None) -> tuple[Array, Array]:
    if recording is None:
        raise ProblemError(f"{contact.what} {does} by the signal {signal!r}; give a recording that has it")
    try:
        return finite_samples(recording, signal)
    except ProblemError as error:
        raise ProblemError(f"{contact.what}: {error}") from None


def _last(t: Array, values: Array, times: Array) -> Array:
    return np.asarray(values[np.maximum(np.searchsorted(t, times, side="right") - 1, 0)])
