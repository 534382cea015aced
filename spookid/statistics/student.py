"""Covariances of estimates whose noise variances are themselves estimated.

The covariance Σ_g s_g² C_g of estimates rests on variances s_g² that are known up to errors of covariance D. Intervals
of the normal distribution would be too short, as Student found, and far too short where a variance happens to come out
near zero. So each variance is taken as normal about its estimate but not negative (the posterior of a flat prior), with
the mean and deviation that it then has: of a variance that is known well, the estimate and its error; of one that came
out as zero, what may hide in the data, but no more than the weights let expect. With these, a variance whose relative
variance is 2/ν is taken for one of ν degrees of freedom (Satterthwaite, Biometrics Bulletin 2, 1946), in all directions
together, so that an expression of parameters has the error that it would have as a parameter:

    C = Σ_g s_g² C_g,    N = Σ_gh D_gh A_g A_h,    A_g = C^{-1/2} C_g C^{-1/2},    2/ν: each eigenvalue of N,

and C becomes C^{1/2} f(N) C^{1/2}, f = (t_ν/1.96)²: ± 1.96 standard errors are Student's interval of 95 %. For one
parameter this is Satterthwaite's interval; for several it is nowhere narrower in the first order of D.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass

_UPPER = 0.975
"""Probability below the upper end of an interval of 95 %."""
_FREEDOM = (1.0, 1e12)
"""Degrees of freedom at least, as fewer say nothing, and at most: then Student's distribution is the normal one."""
_SURE = 30.0
"""Standard deviations from zero beyond which it matters nothing that a variance is not negative."""
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Variances:
    """What residuals say of noise variances, in units of what weights say."""

    estimates: Array
    """(n_g,), NaN if there are no degrees of freedom."""
    doubt: Array
    """D, covariance of their errors, (n_g, n_g)."""
    common: float
    """The variance of all groups if the weights had the right ratios."""

    def likely(self) -> tuple[Array, Array]:
        """Means and covariance of the variances, given that they are not negative: (n_g,), (n_g, n_g)."""
        errors = np.sqrt(np.diag(self.doubt))
        certain = errors <= self.estimates / _SURE
        a = np.where(certain, _SURE, self.estimates / np.maximum(errors, _TINY))
        hazard = np.exp(-(a**2) / 2 - special.log_ndtr(a)) / np.sqrt(2 * np.pi)
        most = np.maximum(self.estimates, self.common)
        means = np.where(certain, self.estimates, np.minimum(self.estimates + errors * hazard, most))
        shares = np.minimum(np.sqrt(1 - a * hazard - hazard**2), most / np.maximum(errors, _TINY))
        return means, self.doubt * np.outer(shares, shares)


def widened(known: Array, parts: Array, variances: Variances) -> Array:
    """The covariance that makes ± 1.96 standard errors Student's interval, (n, n).

    Args:
        known: part of the covariance that is certain, (n, n).
        parts: C_g, (n_g, n, n).
        variances: s_g².
    """
    means, D = variances.likely()
    C = known + np.tensordot(means, parts, axes=1)
    values, vectors = np.linalg.eigh(C)
    seen = values > np.finfo(float).eps * values.max(initial=0.0)
    root, whitening = (vectors[:, seen] * values[seen] ** power for power in (0.5, -0.5))
    A = whitening.T @ parts @ whitening
    relative, directions = np.linalg.eigh(np.einsum("gh,gij,hjk->ik", D, A, A, optimize=True))
    freedom = np.clip(2 / np.maximum(relative, _TINY), *_FREEDOM)
    half = root @ directions * (special.stdtrit(freedom, _UPPER) / special.ndtri(_UPPER))
    return np.asarray(half @ half.T)
