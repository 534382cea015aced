"""What a window knows of parameters, and why it does not know some."""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.solvers.fixed_lag import FixedLag
from spookid.statistics.combinations import UNOBSERVED
from spookid.statistics.covariance import AT_BOUND
from spookid.transcription.faults import fault
from spookid.transcription.transcription import Chain, Point, Transcription

FEW = "too few samples yet"
"""Why nothing is known before there are states."""


def unsettled(core: FixedLag, iterations: int, start: float, step: float) -> str:
    """Why an update has not converged; empty if it has.

    Args:
        iterations: of the update.
        start: of step 0 [s].
        step: [s].
    """
    if core.converged:
        return ""
    problem, kept, (chain, *_) = core.transcription, core.arrays(), core.transcription.chains
    data = {f.name: contiguous(kept[f"data {f.name}"][: f.count(core.steps)]) for f in problem.factors}
    times = contiguous(start + step * (core.first + np.arange(core.steps)))
    window = problem.with_chains([Chain(chain.name, core.steps, data, {}, chain.choice, times, core.first)])
    found = fault(window, Point((contiguous(core.states),), core.parameters), derivatives=False)
    if not found:
        return f"after {iterations} steps the estimates were still moving"
    return f"{found}; no estimate goes on from there: write it otherwise, or begin anew with bounds that keep off"


def of_parameters(problem: Transcription, values: Array, covariance: Array) -> tuple[Array, dict[str, str]]:
    """Covariance of the parameters (n_p, n_p), those at a bound held there, and why some have none.

    Args:
        values: of the parameters, (n_p,).
        covariance: of all, bounds or not, NaN of what is not known.
    """
    held = (values <= problem.lower) | (values >= problem.upper)
    known = np.isfinite(np.diag(covariance))
    if np.all(known) and not np.any(held):
        return covariance, {}
    reasons = {name: UNOBSERVED for name, is_so in zip(problem.names, known, strict=True) if not is_so}
    reasons |= {name: AT_BOUND for name, is_so in zip(problem.names, held, strict=True) if is_so}
    covariance = covariance.copy()
    at, free = np.flatnonzero(held & known), np.flatnonzero(~held & known)
    if len(at):
        across = covariance[np.ix_(free, at)]
        covariance[np.ix_(free, free)] -= across @ np.linalg.pinv(covariance[np.ix_(at, at)]) @ across.T
    covariance[held] = covariance[:, held] = np.nan
    return covariance, reasons


def inverse(covariance: Array) -> Array:
    """Information (n, n) of what has this covariance, none where it is NaN."""
    known = np.flatnonzero(np.isfinite(np.diag(covariance)))
    found, at = np.zeros_like(covariance), np.ix_(known, known)
    sizes = np.sqrt(np.diag(covariance)[known])
    found[at] = np.linalg.pinv(covariance[at] / np.outer(sizes, sizes), hermitian=True) / np.outer(sizes, sizes)
    return found


def carried(slopes: Array, covariance: Array) -> Array:
    """Covariance of what has these slopes; NaN where it hangs on what is not known."""
    unknown = np.isnan(np.diag(covariance))
    if not np.any(unknown):
        return np.asarray(slopes @ covariance @ slopes.T)
    known = np.where(unknown[:, None] | unknown, 0.0, covariance)
    found = slopes @ known @ slopes.T
    loose = np.any(slopes[:, unknown] != 0.0, axis=1)
    found[loose] = found[:, loose] = np.nan
    return np.asarray(found)
