"""First-order effect of the interpolation of inputs on the estimates.

A measured signal may be interpolated linearly between its samples, or as band-limited. Both agree if it is slow
compared with the sampling rate. If the residuals change by d, the estimates change by −(TᵀT)⁻¹Tᵀd with T as in (3.32).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.observations import chain_of
from spookid.data.inputs import acting
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.loads import Hold, Input
from spookid.results.findings import Finding
from spookid.statistics.condensing import Condensed
from spookid.statistics.sensitivities import Sensitivities
from spookid.tables.table import number
from spookid.transcription.transcription import Point

_OTHER: dict[str, Hold] = {"linear": "band", "band": "linear"}


def hold_findings(assembly: Assembly, point: Point, condensed: Condensed | None, known: Sensitivities) -> list[Finding]:
    """Warning for each input for which another interpolation would change an estimate by a standard error."""
    found = []
    for one in (one for one in assembly.problem.model.inputs if one.hold in _OTHER):
        other = _OTHER[one.hold]
        moved = None if condensed is None else _moved(assembly, point, condensed, replace(one, hold=other))
        if moved is None:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = dict(zip(known.names, (moved / known.standard_errors).tolist(), strict=True))
        large = {name: ratio for name, ratio in ratios.items() if abs(ratio) > 1}
        if large:
            listed = ", ".join(f"{name} {number(ratio, 2)}" for name, ratio in large.items())
            effect = (
                f"Input {one.signal} is interpolated between its samples with hold {one.hold!r}. With hold {other!r}, "
                f"estimates would change by these multiples of their standard errors: {listed}."
            )
            advice = f"Give the motor the correct hold between samples, or record input {one.signal} at a higher rate."
            cause = f"{one.signal} changes fast against its sampling rate."
            found.append(
                Finding("input.between-samples", tuple(large), {"standard_errors": large}, effect, cause, advice)
            )
    return found


def _moved(assembly: Assembly, point: Point, condensed: Condensed, other: Input) -> Array | None:
    """How far the estimates would move with an input interpolated otherwise, (n_p,); None where it cannot be."""
    problem, transcription = assembly.problem, assembly.transcription
    try:
        sampled = [_with_input(assembly, one, other) for one in assembly.sampled]
    except ProblemError:  # samples that are not even
        return None
    factors = list(transcription.factors)
    chains = [chain_of(problem, one, factors, assembly.observed, i) for i, one in enumerate(sampled)]
    changed, before = transcription.with_chains(chains).residuals(point), transcription.residuals(point)
    columns = []
    for c, terms in enumerate(condensed.linearized.chains):
        differences = {f.name: a - b for f, a, b in zip(factors, changed[c], before[c], strict=True)}
        parts = []
        for term in terms:
            rows = np.nan_to_num(differences[term.factor.name])
            rows = rows if term.complement is None else np.matmul(rows[:, None], term.complement)[:, 0]
            parts.append((term.scale * rows * term.alive)[:, None])
        columns.append(condensed.without_states(c, parts))
    return np.asarray(-condensed.inverse @ condensed.inner(columns, condensed.T)[0])


def _with_input(assembly: Assembly, sampled: SampledRecording, other: Input) -> SampledRecording:
    """Samples of a recording with one of its inputs interpolated otherwise."""
    problem = assembly.problem
    inputs = [other if one.signal == other.signal else one for one in problem.model.inputs]
    now, slopes = acting(sampled.recording, inputs, sampled.grid, problem.guess_on(sampled.recording.name))
    return replace(sampled, acting=now, slopes=slopes)
