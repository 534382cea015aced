"""Direct collocation: Hermite and Simpson's rule in CasADi's Opti, IPOPT with exact Hessians."""

from __future__ import annotations

from contextlib import suppress

import casadi as ca
import numpy as np
from benchmarks.peers.task import SIGMA, Array, Fit, Peer, measured
from benchmarks.problems import STEP
from benchmarks.shooting import SCALE, rate

NAME = "collocation, CasADi and IPOPT"


def peer(steps: int) -> Peer:
    """Solver; what is built once is not in its time."""
    angles, f, opti = measured(steps), rate(), ca.Opti()
    x, scaled = opti.variable(4, len(angles)), opti.variable(4)
    p = scaled * SCALE
    rates = f.map(len(angles))(x, ca.repmat(p, 1, len(angles)))
    left, right, before, after = x[:, :-1], x[:, 1:], rates[:, :-1], rates[:, 1:]
    middle = (left + right) / 2 + STEP / 8 * (before - after)
    between = f.map(len(angles) - 1)(middle, ca.repmat(p, 1, len(angles) - 1))
    opti.subject_to(ca.vec(right - left - STEP / 6 * (before + 4 * between + after)) / STEP == 0)
    opti.subject_to(scaled >= np.array([1e-3, 1e-3, 0.0, 0.0]))
    opti.minimize(ca.sumsqr((x[:2, :].T - angles) / SIGMA) / 2)
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "max_iter": 500})
    speeds = np.gradient(angles, STEP, axis=0)

    def solve(guess: Array) -> Fit:
        opti.set_initial(x, np.column_stack([angles, speeds]).T)
        opti.set_initial(scaled, guess / SCALE)
        with suppress(RuntimeError):  # not converged: its last iterate stands in `debug`
            opti.solve()
        stats = opti.stats()
        path, found = opti.debug.value(x), opti.debug.value(scaled)
        rms = float(np.sqrt(np.mean((path[:2].T - angles) ** 2)))
        return Fit(found * SCALE, rms, f"{stats['iter_count']} iterations, {stats['return_status']}")

    return solve
