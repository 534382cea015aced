"""spookid in joint coordinates: states and parameters at once, sensors and a disturbance torque of known deviations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from benchmarks.peers.task import Array, Fit, Peer, measured
from benchmarks.problems import FOUR, joint_pendulum

from spookid import LevenbergMarquardt
from spookid.assembly.assembly import assemble
from spookid.estimation.fitting import fit_at_known_noise

NAME = "spookid, joint coordinates"
SHARE = np.array([1e-4, 0.0, 0.0, 0.0])
"""Of the motor's shaft, which turns with the arm, in its moment of inertia [kg m²]."""


def peer(steps: int) -> Peer:
    """Solver; the kernels are compiled, which a machine waits for once."""
    problem, angles = joint_pendulum(steps), measured(steps)
    assembly, noise = assemble(problem), problem.solve(step_correction=False).noise
    names = assembly.transcription.names

    def solve(guess: Array) -> Fit:
        by_name = dict(zip(FOUR, guess + SHARE, strict=True))
        first = replace(assembly.start, parameters=np.array([by_name[name] for name in names]))
        outcome = fit_at_known_noise(assembly, first, noise, LevenbergMarquardt(), None).outcome
        found = assembly.values(outcome.point)
        rms = float(np.sqrt(np.mean((outcome.point.states[0] - angles) ** 2)))
        note = f"{len(outcome.history) - 1} iterations, {outcome.status.value}"
        return Fit(np.array([found[name] for name in FOUR]) - SHARE, rms, note)

    return solve
