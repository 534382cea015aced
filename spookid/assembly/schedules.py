"""When contacts hold along a recording, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array, Mask, contiguous
from spookid.mechanics.model import Model
from spookid.mechanics.standing import HeldContact
from spookid.stepping.base import Scheme
from spookid.transcription.factor import Factor

_ROUNDING = 1e-6
"""Share of a step."""


def check_schedules(model: Model, scheme: Scheme) -> None:
    """Raise ProblemError for contacts that a scheme cannot do."""
    for contact in model.holding.contacts:
        if not scheme.holds_contacts:
            raise ProblemError(
                f"{contact.what}: Spook() has no contacts that hold, for masses and damping would be wrong by more "
                "than their errors; use Variational()"
            )
        if not scheme.switches and (contact.switches or contact.level != "position"):
            raise ProblemError(
                f"{contact.what} holds at times or at acceleration level, which needs Variational() and the "
                "coordinates of joints; leave stepper and coordinates out, and constraints on velocities"
            )


def schedule(model: Model, recording: Recording | None, steps: Grid) -> Array:
    """1 for each contact that holds from a step to the next and at both, 0 for others, (N − 1, n_c).

    Raises:
        ProblemError: if it is not known when a contact holds.
    """
    times = steps.times()
    columns = [_holds(contact, recording, times, steps.step) for contact in model.holding.contacts]
    return contiguous(np.column_stack(columns)) if columns else np.zeros((steps.count - 1, 0))


def schedule_signals(model: Model, recording: Recording | None, steps: Grid) -> dict[str, Array]:
    """The signals of a recording by which contacts hold, at the steps, (N,)."""
    told = [contact.schedule(recording.name) for contact in model.holding.contacts] if recording else []
    assert recording is not None or not told
    names = dict.fromkeys(one for one in told if isinstance(one, str))
    return {name: _last(*finite_samples(recording, name), steps.times()) for name in names}  # type: ignore[arg-type]


def idle_notices(model: Model, recordings: Sequence[tuple[Recording, Array]]) -> list[str]:
    """Notices of contacts that never hold.

    Args:
        recordings: each with its ``schedule``.
    """
    return [
        f"{contact.kind} {contact.name!r} never holds in recording {recording.name!r}: look at its holds and threshold."
        for recording, held in recordings
        for contact, column in zip(model.holding.contacts, held.T, strict=True)
        if not np.any(column)
    ]


def unsettled_notices(model: Model) -> list[str]:
    """Notices of a fit that did not converge: a schedule may be the cause."""
    names = ", ".join(f"{contact.kind} {contact.name!r}" for contact in model.holding.contacts)
    return (
        [f"The fit did not converge; one cause may be that {names} did not hold when holds says so."] if names else []
    )


def contact_data(held: Array) -> Array:
    """Data of ``ContactRows`` for the steps around t_1 … t_{N−2}, (N − 2, 2 n_c): which contacts hold in the interval
    behind, and which may in that, for they hold in a neighbouring one."""
    before, here, after = held[:-1], held[1:], np.vstack([held[2:], held[-1:]])
    return contiguous(np.hstack([here, (1 - here) * np.maximum(before, after)]))


def at_switches(held: Array, factor: Factor, between: bool) -> Mask:
    """True for the rows of an observation of rates or accelerations at a step at which a contact takes hold or lets go,
    (count,): these jump there.

    Args:
        held: as of ``schedule``.
        between: True of samples between the steps, which all states around them tell.
    """
    switched = np.zeros(len(held) + 1, dtype=bool)
    switched[1:-1] = np.any(held[1:] != held[:-1], axis=1)
    count, middle = factor.count(len(switched)), factor.reach // 2
    offsets = range(factor.reach + 1) if between else [middle]
    return np.asarray(np.any([switched[o : o + count] for o in offsets], axis=0))


def _holds(contact: HeldContact, recording: Recording | None, times: Array, step: float) -> Array:
    told = contact.schedule(None if recording is None else recording.name)
    if told is True:
        return np.ones(len(times) - 1)
    if isinstance(told, str):
        return _by_signal(contact, told, recording, times)
    return _by_times(told, times, _ROUNDING * step)  # type: ignore[arg-type]


def _by_signal(contact: HeldContact, signal: str, recording: Recording | None, times: Array) -> Array:
    """A signal keeps its last value."""
    if recording is None:
        raise ProblemError(f"{contact.what} holds by the signal {signal!r}; give a recording that has it")
    try:
        t, values = finite_samples(recording, signal)
    except ProblemError as error:
        raise ProblemError(f"{contact.what}: {error}") from None
    last = _last(t, values, times) >= contact.threshold
    return (last[:-1] & last[1:]).astype(np.float64)


def _last(t: Array, values: Array, times: Array) -> Array:
    return np.asarray(values[np.maximum(np.searchsorted(t, times, side="right") - 1, 0)])


def _by_times(spans: Sequence[tuple[float, float]], times: Array, margin: float) -> Array:
    held = np.zeros(len(times) - 1, dtype=bool)
    for first, last in spans:
        held |= (times[:-1] >= first - margin) & (times[1:] <= last + margin)
    return held.astype(np.float64)
