"""One more recording of a problem that is assembled: its chain and its states, without anything built anew."""

from __future__ import annotations

from spookid.assembly.assembly import Assembly, gather, unknowns
from spookid.assembly.chain import chain_of
from spookid.assembly.closure import check_closure
from spookid.assembly.evidence import Evidence
from spookid.assembly.observations import layout
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
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
    evidence = gather(problem, recording)
    check_closure(problem, evidence.guess.states[:, : problem.model.configuration.ambient], recording.name)
    _check_room(assembly, evidence)
    chain = chain_of(problem, evidence, list(assembly.transcription.factors), assembly.observed, number)
    settings = assembly.widths, assembly.sharpness, assembly.touch
    return chain, unknowns(problem, evidence, *settings, evidence.guess.states)


def _check_room(assembly: Assembly, evidence: Evidence) -> None:
    """Refuse samples that no row was made for."""
    problem, known = assembly.problem, {one.name: one for one in assembly.observed}
    for own in layout(problem, [evidence.samples]):
        room = known.get(own.name)
        rows = {} if room is None or room.reach != own.reach else _rows(room.channels, room.slots)
        for channel, wanted in _rows(own.channels, own.slots).items():
            if rows.get(channel, 0) < wanted:
                raise ProblemError(
                    f"{problem.place}: Problem {problem.name!r}: {problem.channels[channel].signal!r} of recording "
                    f"{evidence.recording.name!r} is sampled otherwise than in the first recordings; resample it, or "
                    "name one that is sampled so among the first"
                )


def _rows(channels: tuple[int, ...], slots: tuple[int, ...]) -> dict[int, int]:
    return dict(zip(channels, slots or (1,) * len(channels), strict=True))
