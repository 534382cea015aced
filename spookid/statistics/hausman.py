"""Hausman test: do two estimators agree? Noise estimated, against hard dynamics with errors of the block jackknife.

The test is Hausman's (Econometrica 46, 1978, 1251) with the covariance of the difference from influence functions, as
V₁ − V₂ need not be positive definite: with δ_w how estimates change without block w, their difference changes by
δ¹_w − δ²_w, of which the jackknife makes its variance. Parameters are compared one by one (Bonferroni), as so few
blocks tell no matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass

SHARPER = 1.5
"""Times that the errors of hard dynamics must be smaller, in the median."""
LEVEL = 0.05
"""Probability of a difference on any parameter where both estimate the same: that of intervals of 95 %."""
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class EstimatorOutput:
    """What one of the estimators says."""

    estimates: Array
    """(n_p,)."""
    errors: Array
    """Standard errors that it shows, (n_p,); NaN where there is none."""
    changes: Array
    """Of the estimates without each block, as if there were no bounds, (W, n_p); NaN where unknown."""


@dataclass(frozen=True, eq=False)
class HausmanTest:
    """On two answers from the same blocks."""

    sigmas: Array
    """Differences, as those of a normal variable that are as improbable, (n_p,); NaN where it is not known."""
    differ: NDArray[np.bool_]
    """True where that is no accident, (n_p,)."""
    gain: float
    """Times that the second's errors are smaller, in the median; NaN if there are none."""

    @property
    def agree(self) -> bool:
        """True if no parameter differs that carries an error in either answer."""
        return bool(np.all(np.isfinite(self.sigmas)) and not np.any(self.differ))

    @property
    def replaces(self) -> bool:
        """True if the second answer may stand in the place of the first."""
        return self.agree and self.gain > SHARPER


def hausman_test(first: EstimatorOutput, second: EstimatorOutput) -> HausmanTest:
    """Test that both estimate the same; m blocks leave m − 1 degrees of freedom."""
    changes = first.changes - second.changes
    count, known = len(changes), first.estimates.size
    away = np.abs(first.estimates - second.estimates)
    spread = np.sqrt((count - 1) / max(count, 1) * np.sum((changes - changes.mean(axis=0)) ** 2, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(away > 0, away / spread, 0 * spread)
        ratios = first.errors / second.errors
    sigmas = -special.ndtri(np.maximum(special.stdtr(max(count - 1, 1), -t), _TINY))
    sigmas = np.where(np.isfinite(t) & (count > 1), np.maximum(sigmas, 0.0), np.nan)
    ratios = ratios[np.isfinite(ratios)]
    gain = float(np.median(ratios)) if ratios.size else float("nan")
    return HausmanTest(sigmas, sigmas > -special.ndtri(LEVEL / 2 / max(known, 1)), gain)
