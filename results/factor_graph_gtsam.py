"""The four-bar's forward dynamics by GTSAM and by the package: estimates and times."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from factor_graph_reference import fourbar

from spookid import FixedLagSmoother
from spookid.graphs import forward_dynamics, simulated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

STEP, WINDOW = 1e-3, 10


def gtsam_rows(steps: int = 501) -> list[str]:
    """Rows of the page's table; none if GTSAM is not installed."""
    try:
        from gtsam_fourbar import INSIDE, Peer
    except ImportError:
        return []
    system = fourbar(angle=False)
    q0 = system.assembled()
    graph, peer = forward_dynamics(system, STEP, q0), Peer(system, STEP, q0)
    guess = simulated(system, STEP, steps, q0)
    written = []
    for _ in range(2):  # the first one makes kernels
        before = time.process_time()
        found = graph.solve(steps, start=guess)
        own = time.process_time() - before
    theirs, spent = peer.batch(np.hstack([guess[name] for name in "qva"]))
    off = np.abs(theirs - np.hstack([found[name] for name in "qva"])).max()
    took = f"{1e3 * own:.0f} | {1e3 * spent:.0f} | {1e3 * INSIDE[0]:.0f}"
    written.append(f"| all {steps} steps at once | {off:.0e} | {took} |")

    smoother, newest = FixedLagSmoother(graph, WINDOW, start={"q": q0}), []
    INSIDE[0], before = 0.0, time.process_time()
    for k in range(steps):
        variables = smoother.update(STEP * k, {}).variables
        newest.append(np.concatenate([variables[name] for name in "qva"]))
    own = (time.process_time() - before) / steps
    theirs, spent = peer.online(WINDOW, steps)
    off = np.abs(theirs - np.array(newest)).max()
    written.append(
        f"| an update, window {WINDOW} | {off:.0e} | {1e3 * own:.2f} | {1e3 * spent / steps:.1f} | "
        f"{1e3 * INSIDE[0] / steps:.1f} |"
    )
    return written
