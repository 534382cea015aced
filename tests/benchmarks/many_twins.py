"""Any number of recordings of one driven pendulum, and the problem file of all of them: what joint fits are tried on.

The motion is integrated by the classical Runge-Kutta method for all recordings at once, with 1 ms; a torque that is
random from millisecond to millisecond disturbs it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

TRUTH = {"J": 0.004, "b": 0.003, "K": 0.05}
"""[kg m²], [N m s] and [N m/V]."""
_MASS, _LENGTH, _GRAVITY = 0.3, 0.15, 9.81
_FINE, _EVERY = 1e-3, 10
_DENSITY, _SIGMA = 2e-4, 1e-3
"""Of the disturbance [N m/√Hz] and the encoder [rad]."""

PROBLEM = '''"""Twins of a driven pendulum, in files."""

from pathlib import Path

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, RecordingFiles, gravity

J = Parameter("J", 0.006, lower=1e-5, unit="kg m^2")
b = Parameter("b", 0.001, lower=0, unit="N m s")
K = Parameter("K", 0.03, unit="N m/V")
rod = Body("rod", mass={mass}, inertia=(1e-6, J, J))
pin = Hinge("pin", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-{length}, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
            viscous=b)
problem = Problem(
    "twins",
    model=Model([rod], [pin], [Motor(pin, signal="u", gain=K)], gravity=gravity({gravity})),
    recordings=RecordingFiles(str(Path(__file__).parent / "logs" / "*.npz")),
    observations=[HingeAngle(pin, signal="theta")],
    step=0.01,
    step_correction=False,{settings}
)
'''


def write(folder: Path, count: int, seconds: float, seed: int = 0, settings: str = "") -> Path:
    """The problem file in ``folder``, with its recordings beside it."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for first in range(0, count, 1000):
        _some(folder / "logs", range(first, min(first + 1000, count)), seconds, seed)
    path = folder / "twins.py"
    path.write_text(PROBLEM.format(mass=_MASS, length=_LENGTH, gravity=_GRAVITY, settings=settings))
    return path


def _some(folder: Path, numbers: range, seconds: float, seed: int) -> None:
    rng = np.random.default_rng([seed, numbers.start])
    n, steps = len(numbers), round(seconds / _FINE)
    inertia, weight = TRUTH["J"] + _MASS * _LENGTH**2, _MASS * _GRAVITY * _LENGTH
    angle, rate = rng.uniform(-1.5, 1.5, n), np.zeros(n)
    size, frequency, phase = (rng.uniform(low, high, n) for low, high in ((2.0, 6.0), (0.4, 1.5), (0.0, 6.28)))
    t, h = _FINE * np.arange(steps + 1), _FINE
    shown, volts = np.empty((steps // _EVERY + 1, n)), np.empty((steps // _EVERY + 1, n))

    def slope(angle: np.ndarray, rate: np.ndarray, torque: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rate, (torque - TRUTH["b"] * rate - weight * np.sin(angle)) / inertia

    for k in range(steps + 1):
        if k % _EVERY == 0:
            shown[k // _EVERY] = angle + _SIGMA * rng.standard_normal(n)
            volts[k // _EVERY] = size * np.sin(2 * np.pi * frequency * t[k] + phase)
        # Inputs are held from sample to sample.
        w = TRUTH["K"] * volts[k // _EVERY] + _DENSITY / np.sqrt(_FINE) * rng.standard_normal(n)
        a1, r1 = slope(angle, rate, w)
        a2, r2 = slope(angle + h / 2 * a1, rate + h / 2 * r1, w)
        a3, r3 = slope(angle + h / 2 * a2, rate + h / 2 * r2, w)
        a4, r4 = slope(angle + h * a3, rate + h * r3, w)
        angle = angle + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        rate = rate + h / 6 * (r1 + 2 * r2 + 2 * r3 + r4)
    for i, number in enumerate(numbers):
        np.savez(folder / f"{number:06d}.npz", t=t[::_EVERY], theta=shown[:, i], u=volts[:, i])
