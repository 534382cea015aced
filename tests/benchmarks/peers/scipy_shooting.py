"""Single shooting with SciPy's least squares: exact sensitivities, compiled to C."""

from __future__ import annotations

import numpy as np
from benchmarks.peers.task import SIGMA, Array, Fit, Peer
from benchmarks.shooting import SCALE, single_shooting

NAME = "single shooting, SciPy and CasADi's C"


def peer(steps: int) -> Peer:
    """Solver; the compiler has run."""
    fit = single_shooting(steps)

    def solve(guess: Array) -> Fit:
        found = fit(guess)
        rms = SIGMA * float(np.sqrt(np.mean(found.fun**2)))
        return Fit(found.x[4:] * SCALE, rms, f"{found.nfev} simulations")

    return solve
