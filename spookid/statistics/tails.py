"""Heavy tails of a sensor's residuals: outliers, or samples that a long step does not predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.statistics.condensing import Condensed
from spookid.tables.table import counted
from spookid.transcription.factor import Group, measured_noise

FALSE_ALARMS = 0.01
"""Probability of one or more on data that the model fits."""
_FAMILIES = 4
"""Tails, alternatives, recordings, whiteness: each may raise so large a part of the false alarms."""
_FAR = 5.0
"""Times the noise, by the median of the residuals, from which on a sample is an outlier."""
_GROWS = 4.0
"""Factor by which a step twice as long makes the fourth power of what it does not predict larger at the least; that of
h² grows by 256."""


@dataclass(frozen=True)
class Misfit:
    """An alternative that the residuals speak for."""

    words: str
    z: float
    """Standard errors."""


@dataclass(frozen=True)
class Tails:
    """Of a sensor's residuals."""

    signal: str
    count: int
    """How many samples are far off."""
    z: float
    """Standard errors by which their fourth moment is not that of normal noise."""
    fourth: float
    """Mean fourth power of the residuals over the noise that was found."""
    between: bool
    """True if those that are far off lie farther from the steps than the others."""

    def are_heavy(self, sensors: int) -> bool:
        """True if samples of this one among so many sensors are farther off than noise would put them."""
        return self.count > 0 and abs(self.z) > limit(sensors)

    def misfit(self, coarser: Tails | None) -> Misfit:
        """Outliers, or what the step does: a step twice as long leaves outliers what they are, as ``coarser`` tells;
        where there is no such fit, the place between the steps does."""
        by_step = self.between if coarser is None else coarser.fourth > _GROWS * self.fourth
        cause = "is the step too long?" if by_step else "outliers?"
        how_many = f"{counted(self.count, 'sample')} of {self.signal} {'is' if self.count == 1 else 'are'}"
        words = f"{how_many} more than {_FAR:g} times its noise off: {cause}"
        return Misfit(words, self.z)


def limit(tests: int) -> float:
    """Standard errors that one of so many tests of a family must exceed, on either side."""
    return float(-special.ndtri(FALSE_ALARMS / _FAMILIES / 2 / max(tests, 1)))


def tails_of(condensed: Condensed, signal: str, places: Sequence[Mapping[str, Array]]) -> Tails:
    """Heavy tails of a sensor's residuals, by their fourth moment: samples that are farther off than its noise."""
    e, apart, step = _errors(condensed, places, measured_noise(signal))
    if not e.size:  # nothing that is estimated moves what it shows
        return Tails("", 0, 0.0, 0.0, False)
    variance, fourth = float(np.mean(e**2)) or 1.0, float(np.mean(e**4))
    z = (fourth / variance**2 - 3) / np.sqrt(24 / len(e))
    width = float(np.median(np.abs(e))) / 0.6745 or 1.0
    far = np.abs(e) > _FAR * width
    return Tails(signal, int(np.sum(far)), z, fourth, between_steps(apart[far], apart, step[far]))


def _errors(condensed: Condensed, places: Sequence[Mapping[str, Array]], key: str) -> tuple[Array, Array, Array]:
    """What is left of the samples with this noise, how far each is from the nearest step, in steps, and the number of
    the step that it belongs to, over all recordings, (n,)."""
    errors, apart, steps, first = [], [], [], 0
    known = places or ({},) * len(condensed.linearized.chains)
    for terms, parts, own in zip(condensed.linearized.chains, condensed.residuals, known, strict=True):
        for term, r in zip(terms, parts, strict=True):
            if term.factor.group is Group.OBSERVATION and key in term.factor.noise:
                here = (term.alive > 0) & np.array([name == key for name in term.factor.noise])
                errors.append(r[:, 0][here])
                apart.append(own.get(term.factor.name, np.zeros(here.shape))[here])
                steps.append(first + np.nonzero(here)[0])
        first += terms[0].steps
    return np.concatenate(errors), np.concatenate(apart), np.concatenate(steps)


def between_steps(far: Array, every: Array, steps: Array) -> bool:
    """True if samples that are far off lie farther from the steps than others do: outliers may lie anywhere, what a
    long step does not predict grows with the distance. Those of neighbouring steps lie alike, and count once.

    Args:
        far: distances from the steps of those that are far off, (k,).
        every: of all, (n,).
        steps: to which those that are far off belong, (k,).
    """
    if not far.size:
        return False
    apart = int(np.sum(np.diff(np.unique(steps)) > 1)) + 1
    return bool(float(np.mean(far) - np.mean(every)) * np.sqrt(apart) > limit(1) * float(np.std(every)) > 0)
