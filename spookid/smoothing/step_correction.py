"""What steps of h add to the estimates, of the time with which a smoother began, and what is not known of it later on.

A fit of the first seconds tells it from steps of h and h/2. It changes with the motion: with the score Tᵀd of what the
steps miss (``estimation.step_errors``) it is e = P Tᵀd, P the covariance of the parameters. So what it was in the
beginning, e₀, fades to P P₀⁻¹e₀ if the steps of later motion add nothing, and stays if they add the same. And they may
add another thing, which is taken to be as large for what they tell: a score of covariance s²/n (P⁻¹ − P₀⁻¹) with
s² = e₀ᵀP₀⁻¹e₀.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.kernels.arrays import Array


@dataclass(frozen=True, eq=False)
class StepCorrection:
    """What is taken from the estimates."""

    amounts: Array
    """e₀, (n_p,)."""
    information: Array
    """P₀⁻¹, (n_p, n_p)."""

    def covariance(self, parameters: Array) -> Array:
        """Of the amounts, (n_p, n_p), when that of the parameters is P; zero in the beginning."""
        if not np.any(self.amounts):
            return np.zeros_like(parameters)
        known = np.isfinite(np.diag(parameters))
        present = np.where(known[:, None] & known, parameters, 0.0)
        share = present @ self.information
        apart = self.amounts - share @ self.amounts
        square = float(self.amounts @ self.information @ self.amounts)
        later = present - share @ present
        return np.asarray(np.outer(apart, apart) + square / len(apart) * (later + later.T) / 2)
