"""One more recording of a problem that is assembled: its chain and its states, without anything built anew."""

from __future__ import annotations

from spookid.assembly.assembly import Assembly, gather, unknowns
from spookid.assembly.chain import chain_of
from spookid.assembly.observations import Observed
from spookid.assembly.sampled_recording import SampledRecording
from spookid.data.recording import Recording
from spookid.data.sampling import Reach
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.transcription.transcription import Chain


def joined(assembly: Assembly, recording: Recording, number: int) -> tuple[Chain, Array]:
    """The chain of another recording of an assembled problem, and its states to begin with, (N, ambient).

    Args:
        number: its place among all recordings.

    Raises:
        ProblemError: if it does not fit the problem, or has samples where those of the assembly have none.
    """
    problem = assembly.problem
    problem.check_recording(recording)
    sampled = gather(problem, recording)
    _check_room(assembly, sampled)
    chain = chain_of(problem, sampled, list(assembly.transcription.factors), assembly.observed, number)
    settings = assembly.widths, assembly.sharpness, assembly.touch
    return chain, unknowns(problem, sampled, *settings, sampled.guess.states)


def _check_room(assembly: Assembly, sampled: SampledRecording) -> None:
    """Refuse samples that no row was made for."""
    problem, between = assembly.problem, [one for one in assembly.observed if one.reach]
    room = {c: (one.reach, n, every) for one in between for c, n, every in zip(*_rows(one), strict=True)}
    for i, own in enumerate(sampled.samples):
        reach, most, every = room.get(i, (Reach(1, 0, 0, 1), 0, False))
        if reach is not None and own.slots(reach, every) > most:
            raise ProblemError(
                f"{problem.what}: {problem.channels[i].signal!r} of recording "
                f"{sampled.recording.name!r} is sampled otherwise than in the first recordings; resample it, or name "
                "one that is sampled so among the first"
            )


def _rows(one: Observed) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
    return one.channels, one.slots, one.whole
