"""Agreement of recordings: first-order estimates of each recording, and the factor by which errors have to grow.

With S_c the Schur complement of the states of recording c and g_c its half gradient at the joint estimate, without the
part that a step of the joint problem would remove, recording c alone would change the estimates by δ_c = −S_c⁻¹g_c,
with the covariance S_c⁻¹. For each parameter,

    S² = Σ_c ((δ_c − δ̄)/s_c)² / (n − 1)

with the weighted mean δ̄ is one on average if the parameter is the same in all n recordings and the errors are right.
If S exceeds one, errors have to grow by this factor (Particle Data Group, Review of Particle Physics, introduction,
section 5.2.2). As there, recordings with s_c above 3 √n times the error of the mean are left out, as they would only
dilute S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from spookid.estimation.identifiability import Identifiability
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.statistics.condensing import inverse_root
from spookid.statistics.weak_directions import RANK
from spookid.statistics.whiteness import SURE
from spookid.tables.table import number, quantity
from spookid.transcription.parameter_constraints import FreeDirections


@dataclass(frozen=True, eq=False)
class ParameterBetween:
    """Estimates of one parameter from single recordings, and their scatter."""

    recordings: tuple[str, ...]
    """Names of those that determine it."""
    changes: Array
    """From the joint estimate, (n,)."""
    errors: Array
    """Standard errors of these within recordings, (n,)."""
    raised: float = 1.0
    """Factor by which the scatter between recordings has raised the error of the joint estimate already."""

    @property
    def mean(self) -> float:
        """Weighted mean of the changes."""
        return float(np.average(self.changes, weights=1 / self.errors**2))

    @property
    def distances(self) -> Array:
        """Deviations of the recordings' estimates from their mean, in standard errors, (n,)."""
        return np.asarray((self.changes - self.mean) / self.errors)

    @property
    def chi_square(self) -> float:
        """Sum of the squares of the deviations in standard errors."""
        return float(np.sum(self.distances**2))

    @property
    def factor(self) -> float:
        """S, one at least."""
        return max(1.0, math.sqrt(self.chi_square / (len(self.errors) - 1)))

    @property
    def scale(self) -> float:
        """Factor by which the standard error of the joint estimate must still be increased, at least one."""
        return max(1.0, self.factor / self.raised)

    @property
    def spread(self) -> float:
        """Standard deviation between recordings (DerSimonian and Laird, Controlled Clinical Trials 7, 1986)."""
        w, more = 1 / self.errors**2, self.chi_square - (len(self.errors) - 1)
        return math.sqrt(max(more, 0.0) / (w.sum() - np.sum(w**2) / w.sum()))


def between_recordings(
    known: Identifiability, free: FreeDirections, recordings: Sequence[str]
) -> Mapping[str, ParameterBetween]:
    """Scatter between recordings of each parameter that at least two recordings determine, by name."""
    statistics = known.statistics
    if statistics is None or len(recordings) < 2 or not np.all(np.isfinite(statistics.scores)):
        return {}
    blocks = [len(edges) - 1 for edges in known.edges] or [1] * len(statistics.scores)
    if len(blocks) != len(recordings):
        return {}
    ends = np.cumsum([0, *blocks])[:-1]
    scores = np.add.reduceat(statistics.scores, ends)
    half = inverse_root(statistics.information, free)
    alone = [_alone(half, half.T @ own @ half) for own in np.add.reduceat(statistics.block_information, ends)]
    changes = np.array([-inverse @ score for (inverse, _), score in zip(alone, scores, strict=True)])
    joint = known.sensitivities.standard_errors
    within = joint if known.within is None else known.within
    with np.errstate(divide="ignore", invalid="ignore"):
        stated, raised = within / np.sqrt(np.sum(half**2, axis=1)), joint / within
    errors = np.array([error for _, error in alone]) * stated
    found = {}
    for i, name in enumerate(known.sensitivities.names):
        seen = np.isfinite(errors[:, i]) & (errors[:, i] > 0)
        mean = 1 / math.sqrt(np.sum(1 / errors[seen, i] ** 2)) if seen.any() else 0.0
        seen &= np.where(seen, errors[:, i], np.inf) <= 3 * math.sqrt(np.count_nonzero(seen)) * mean
        if np.count_nonzero(seen) > 1:
            names = tuple(one for one, is_so in zip(recordings, seen, strict=True) if is_so)
            found[name] = ParameterBetween(names, changes[seen, i], errors[seen, i], max(float(raised[i]), 1.0))
    return found


def _alone(half: Array, share: Array) -> tuple[Array, Array]:
    """Covariance by one recording's share of the information, in the directions that it determines, and the standard
    errors of the parameters, infinite where it leaves one open."""
    values, vectors = np.linalg.eigh(share)
    open_ones = values <= RANK
    along = half @ vectors
    reach = np.sum(along[:, open_ones] ** 2, axis=1) > RANK * np.sum(along**2, axis=1)
    root = along[:, ~open_ones] / np.sqrt(values[~open_ones])
    return root @ root.T, np.where(reach, np.inf, np.sqrt(np.sum(root**2, axis=1)))


def disagreements(
    found: Mapping[str, ParameterBetween], estimates: Mapping[str, float], units: Mapping[str, str]
) -> list[Finding]:
    """Warning about parameters whose estimates differ between recordings by more than chance."""
    level = math.erfc(SURE / math.sqrt(2)) / max(len(found), 1)
    apart = {n: one for n, one in found.items() if special.chdtrc(len(one.errors) - 1, one.chi_square) < level}
    if not apart:
        return []
    words, evidence = [], {}
    apart = dict(sorted(apart.items(), key=lambda pair: -pair[1].factor))
    for name, one in apart.items():
        far, values = int(np.argmax(np.abs(one.distances))), estimates[name] + one.changes
        alone = f"{one.recordings[far]} alone: {quantity(float(values[far]), units[name], 3)}"
        words.append(f"{name} by {number(one.factor, 2)} ({alone})")
        own = zip(one.recordings, values.tolist(), one.errors.tolist(), strict=True)
        evidence[name] = {
            "scale": one.scale,
            "mean": estimates[name] + one.mean,
            "spread": one.spread,
            "recordings": {r: {"estimate": value, "std_err": error} for r, value, error in own},
        }
    included = any(one.raised > 1 for one in found.values())
    effect = (
        "Estimates from single recordings differ by more than their standard errors explain. To agree, standard "
        f"errors would have to be larger: {', '.join(words)}."
    )
    if included:
        effect = (
            f"Estimates vary more between recordings than within a recording: {', '.join(words)}. The standard errors "
            "include this variation."
        )
    first, one = next(iter(apart.items()))
    prior = f"({number(estimates[first] + one.mean, 3)}, {number(one.spread, 2)})"
    advice = (
        f'If parameter {first} differs between recordings, declare Parameter("{first}", ..., per="recording"), with '
        f"prior={prior}: the mean and the spread of these estimates."
    )
    advice += "" if included else " Otherwise multiply the errors by these factors."
    return [Finding("recordings.differ", tuple(evidence), evidence, effect, advice=advice)]
