"""One more recording of a problem that is assembled: its chain and its states, without anything built anew."""

from __future__ import annotations

from spookid.assembly.assembly import Assembly, gather, unknowns
from spookid.assembly.chain import chain_of
from spookid.assembly.declared import check_recording
from spookid.assembly.observations import without_room
from spookid.assembly.sampled_recording import SampledRecording
from spookid.data.recording import Recording
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
    check_recording(problem, recording)
    sampled = gather(problem, recording)
    _check_room(assembly, sampled)
    chain = chain_of(problem, sampled, list(assembly.transcription.factors), assembly.observed, number)
    settings = assembly.widths, assembly.sharpness, assembly.touch
    return chain, unknowns(problem, sampled, *settings, sampled.guess.states)


def _check_room(assembly: Assembly, sampled: SampledRecording) -> None:
    """Refuse samples that no row was made for."""
    problem = assembly.problem
    for i in without_room(assembly.observed, sampled.samples):
        raise ProblemError(
            f"{problem.what}: {problem.channels[i].signal!r} of recording {sampled.recording.name!r} is sampled "
            "otherwise than in the first recordings; resample it, or name one that is sampled so among the first"
        )
