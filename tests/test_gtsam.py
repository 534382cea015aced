"""The package against GTSAM: the same factors of a four-bar, all steps at once and with a fixed lag."""

from __future__ import annotations

import numpy as np
import pytest

from spookid import FixedLagSmoother, planar
from spookid.graphs import forward_dynamics, simulated

pytest.importorskip("gtsam")

from gtsam_fourbar import Peer

STEP, STEPS, WINDOW = 1e-3, 26, 5


def fourbar() -> planar.Mechanism:
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
    P, R = planar.Point("P", (1, 0)), planar.Point("R", (1, 2))
    bars = [planar.Link("crank", A, P, 1), planar.Link("coupler", P, R, 2), planar.Link("rocker", D, R, 4)]
    return planar.Mechanism(bars, gravity=9.8)


def test_estimates_are_those_of_gtsam() -> None:
    system = fourbar()
    q0 = system.assembled()
    graph, peer = forward_dynamics(system, STEP, q0), Peer(system, STEP, q0)
    guess = simulated(system, STEP, STEPS, q0)
    found = graph.solve(STEPS, start=guess)
    theirs, _ = peer.batch(np.hstack([guess[name] for name in "qva"]))
    assert np.abs(theirs - np.hstack([found[name] for name in "qva"])).max() < 1e-9

    smoother, newest = FixedLagSmoother(graph, WINDOW, start={"q": q0}), []
    for k in range(STEPS):
        variables = smoother.update(STEP * k, {}).variables
        newest.append(np.concatenate([variables[name] for name in "qva"]))
    theirs, _ = peer.online(WINDOW, STEPS)
    assert np.abs(newest[-1][:4] - q0).max() > 1e-3
    assert np.abs(theirs - newest).max() < 1e-8
