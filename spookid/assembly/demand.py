"""What a fit asks of memory, as measured."""

from __future__ import annotations

from spookid.assembly.declaration import Declaration
from spookid.data.arrays import available
from spookid.data.sampling import grid
from spookid.errors import ProblemError
from spookid.tables.table import number
from spookid.transcription.transcription import Transcription

_STATES = 100
"""Numbers that the initial guess of a body takes at each step, at least."""
_ENTRIES, _BY_WEIGHT = 40, 12
"""Numbers that a fit with its standard errors takes for each structural nonzero of the Jacobian, of estimated noise and
of given weights; one with half the step beside it takes as many again."""
_DOUBLE = 8


def memory(problem: Declaration, transcription: Transcription) -> float:
    """What a whole fit takes by the nonzeros of the Jacobian, to a factor of two or three [bytes]."""
    entries = _ENTRIES if problem.estimates_noise else _BY_WEIGHT
    return float(_DOUBLE * entries * (2 if problem.corrects else 1) * transcription.nonzeros)


def check_states(problem: Declaration) -> None:
    """Refuse a problem whose initial guess alone exceeds memory, before anything is laid out.

    Raises:
        ProblemError: with its size.
    """
    steps = sum(grid(recording, problem.step).count for recording in problem.recordings)
    bodies = len(problem.model.bodies)
    _check(problem, steps, f"states of {13 * bodies} numbers", _DOUBLE * _STATES * bodies * steps)


def check_fit(problem: Declaration, transcription: Transcription) -> None:
    """Refuse a problem whose fit exceeds memory, before it begins.

    Raises:
        ProblemError: with its size.
    """
    steps = sum(chain.steps for chain in transcription.chains)
    what = f"{transcription.unknowns:,} unknowns and {transcription.nonzeros:,} Jacobian nonzeros"
    _check(problem, steps, what, memory(problem, transcription))


def _check(problem: Declaration, steps: int, what: str, needed: float) -> None:
    free = available()
    if needed > free:
        raise ProblemError(
            f"{problem.what} has {steps:,} steps of {number(problem.step)} s, with {what}: "
            f"some {size(needed)} of memory, of which {size(free)} may be had; take a larger step, step=, or shorter "
            "recordings, recording.between(start, stop), and see that their times are in seconds"
        )


def size(count: float) -> str:
    """Bytes in words."""
    return f"{number(count / 1e9, 2)} GB" if count >= 1e9 else f"{number(count / 1e6, 2)} MB"
