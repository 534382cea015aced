"""A smoother in a file: arrays, and a document that says what they are of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from spookid.assembly.assembly import settings_of
from spookid.assembly.constants import numbers
from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.data.logs.tables import read_npz
from spookid.errors import ProblemError
from spookid.files import replacing
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.results.folders import reading
from spookid.smoothing.initialization import without_end
from spookid.smoothing.intake import Intake
from spookid.smoothing.readout import StepCorrection
from spookid.smoothing.stream import Stream
from spookid.solvers.fixed_lag import FixedLag
from spookid.transcription.transcription import Transcription
from spookid.version import __version__

_DOCUMENT, _CONSTANTS, _CORE, _STREAM = "document", "constants", "core ", "stream "
"""Names of the arrays, or how they begin."""
_AGAIN = "begin a new smoother"


def write(stream: Stream, path: str | os.PathLike[str], also: Mapping[str, Array]) -> None:
    """Write a stream and further arrays to a file, completely or not at all; raises ProblemError if that fails."""
    transcription = stream.core.transcription
    document = {
        "kind": "fixed-lag smoother",
        "version": __version__,
        "problem": stream.problem.name,
        "fingerprint": _fingerprint(transcription),
        "guesses": dict(stream.problem.initial),
        "observed": [asdict(one) for one in stream.observed],
        "recording": stream.recording,
        "start": stream.start,
        "now": stream.now,
        "step_errors": stream.correction.amounts.tolist(),
        "information": stream.correction.information.tolist(),
        "findings": [asdict(finding) for finding in stream.findings],
        "surprise": stream.residual_test.array().tolist(),
        "intake": asdict(stream.samples.counts),
    }
    arrays: dict[str, Any] = {f"{_CORE}{name}": value for name, value in stream.core.arrays().items()}
    arrays |= {f"{_STREAM}{name}": value for name, value in stream.samples.arrays().items()}
    arrays |= also
    arrays[_CONSTANTS] = transcription.constants
    document["digest"] = _digest(arrays)
    arrays[_DOCUMENT] = np.frombuffer(msgspec.json.encode(document), dtype=np.uint8)
    try:
        with replacing(Path(path)) as part, part.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise ProblemError(f"{path} cannot be written ({error.strerror or error}); choose another place") from None


def read(problem: Problem, path: str | os.PathLike[str]) -> Stream:
    """Read a stream from a file that ``write`` made; raises ProblemError if it is unreadable, or from another problem
    or version."""
    with reading(Path(path), _AGAIN) as file:
        arrays: dict[str, Array] = read_npz(file)
        document = msgspec.json.decode(arrays[_DOCUMENT].tobytes(), type=dict[str, Any])
        for what, own in (("version", __version__), ("problem", problem.name)):
            if document[what] != own:
                raise ProblemError(f"{path} is of {what} {document[what]!r}, and this is {own!r}; {_AGAIN}")
        if document["digest"] != _digest({name: array for name, array in arrays.items() if name != _DOCUMENT}):
            raise ValueError("it is not as it was written")
        problem = problem.with_(initial=document["guesses"])
        observed = msgspec.convert(document["observed"], tuple[Observed, ...])
        settings = settings_of(problem)
        known = numbers(problem, settings, np.zeros(len(problem.model.freedoms)))
        transcription = without_end(problem, settings, known, observed)
        if document["fingerprint"] != _fingerprint(transcription):
            raise ProblemError(
                f"{path} is of another model or settings than problem {problem.name!r} has now; {_AGAIN}"
            )
        transcription = transcription.with_numbers(arrays[_CONSTANTS])
        core = FixedLag.resumed(transcription, _part(arrays, _CORE))
        amounts, information = np.array(document["step_errors"]), np.array(document["information"])
        correction = StepCorrection(amounts, information.reshape(len(amounts), -1))
        findings = msgspec.convert(document["findings"], tuple[Finding, ...])
        begun = document["recording"], document["start"]
        stream = Stream(problem, settings, core, observed, *begun, correction, findings)
        stream.residual_test.restore(np.array(document["surprise"]))
        counts = Intake(**document["intake"])
        stream.samples.restore(_part(arrays, _STREAM), counts, core.first, stream.newest)
        stream.now = document["now"]
    return stream


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _digest(arrays: Mapping[str, Array]) -> str:
    """Of all numbers: a smoother continues from nothing that was changed on the way."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _fingerprint(transcription: Transcription) -> str:
    """Of the factors and the parameters with their bounds."""
    parts = [*transcription.kernels.expressions, repr(transcription.names).encode()]
    parts += [transcription.lower.tobytes(), transcription.upper.tobytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
