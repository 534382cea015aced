"""Make the recordings of the mechanisms of the plane: twins of the problem files beside this folder.

    python problems/data/make_planar.py

Each mechanism is that of its problem file, simulated with the project's own variational stepper, at the parameters
below, from rest where it is declared; torques are held over a sample. The files that are there are replaced; a problem
file cannot be read without one. Takes about half a minute.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spookid import Recording, load_problem

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Twin:
    """What a recording is made of."""

    truth: dict[str, float]
    noise: dict[str, float]
    """Standard deviation of each signal."""
    duration: float
    """[s]."""
    rate: float
    """Samples a second."""
    torques: dict[str, list[tuple[float, float, float]]]
    """Of each input sines: amplitude [N m], frequency [Hz], phase [rad]."""


TWINS = {
    "planar_fourbar": Twin(
        {"m_coupler": 2.0, "m_rocker": 4.0, "b": 0.8},
        {"crank": 1e-3, "rocker": 1e-3},
        4.0,
        200.0,
        {"torque": [(15.0, 0.4, 0.0), (10.0, 1.1, 1.0)]},
    ),
    "slider_crank": Twin(
        {"m_slider": 0.5, "b": 3.0, "J": 2e-3},
        {"crank": 1e-3, "slider": 1e-4},
        2.0,
        400.0,
        {"torque": [(0.25, 0.5, 1.6), (0.3, 2.1, 0.0)]},
    ),
    "five_bar": Twin(
        {"m_tool": 0.3, "b_1": 0.02, "b_2": 0.03},
        {"angle_1": 5e-4, "angle_2": 5e-4},
        2.0,
        400.0,
        {"torque_1": [(0.5, 1.3, 1.6), (0.3, 3.1, 0.0)], "torque_2": [(0.5, 1.7, 1.3), (0.3, 2.3, 2.0)]},
    ),
    "watt_linkage": Twin(
        {"k": 400.0, "c": 2.0, "m": 3.0},
        {"across": 1e-4, "height": 1e-4},
        3.0,
        200.0,
        {},
    ),
}


def made(name: str, twin: Twin) -> Recording:
    """The twin's recording, with noise."""
    problem = load_problem(FOLDER.parent / f"{name}.py").with_(recordings=(), step=1 / twin.rate)
    t = np.arange(round(twin.duration * twin.rate) + 1) / twin.rate
    torques = {
        signal: np.sum([a * np.sin(2 * np.pi * f * t + p) for a, f, p in sines], axis=0)
        for signal, sines in twin.torques.items()
    }
    inputs = Recording(t=t, signals=torques) if torques else None
    motion = problem.simulate(parameters=twin.truth, duration=twin.duration, inputs=inputs)
    rng = np.random.default_rng(20244)
    noisy = {signal: motion.signals[signal] + rng.normal(0.0, size, len(t)) for signal, size in twin.noise.items()}
    return Recording(t=t, signals={**noisy, **torques})


if __name__ == "__main__":
    for name, twin in TWINS.items():
        made(name, twin).to_csv(FOLDER / f"{name}.csv", decimals=6)
