"""What every peer is asked: J_Azz, J_Byy, b_1, b_2 of a Furuta pendulum and its first state, from two angles at 100 Hz.

All know the dynamics exactly and believe them; the sensors' deviation is 1 mrad.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.problems import RELEASE, STEP
from benchmarks.shooting import SCALE
from numpy.typing import NDArray

from spookid import Recording

Array = NDArray[np.float64]

SIGMA = 1e-3
"""Of the sensors [rad]."""
TRUTH = np.array([0.003, 0.004, 1e-3, 1e-4])
"""Of J_Azz, J_Byy [kg m²], b_1, b_2 [N m s]."""
GUESSES = {"the script's guesses": np.array([0.01, 0.01, 1e-4, 1e-4]), "guesses 3 % off": 1.03 * TRUTH}
LOWER = np.concatenate([np.full(4, -np.inf), [1e-3, 1e-3, 0.0, 0.0]])
"""Of the first state and the scaled parameters."""


@dataclass(frozen=True)
class Fit:
    """One answer."""

    estimates: Array
    """(4,) as `TRUTH`."""
    rms: float
    """Of the residuals of the angles [rad]."""
    note: str
    """How many iterations or simulations."""


Peer = Callable[[Array], Fit]
"""Solver from guesses of the parameters (4,)."""


def measured(steps: int) -> Array:
    """(steps, 2) angles [rad]."""
    recording = Recording.from_csv(RELEASE, time="t")
    return np.column_stack([recording.signals[name][::10] for name in ("theta1", "theta2")])[:steps]


def start(angles: Array, guess: Array) -> Array:
    """First state and scaled parameters (8,)."""
    return np.concatenate([angles[0], (angles[5] - angles[0]) / (5 * STEP), guess / SCALE])
