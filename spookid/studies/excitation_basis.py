"""Motions as sums of functions of time that begin and end at rest: Fourier series, or B-splines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from spookid.kernels.kernel import Array

BasisName: TypeAlias = Literal["fourier", "bspline"]
_DEGREE = 5
"""Of splines: their accelerations have continuous slopes."""
_NULL = 1e-10


@dataclass(frozen=True, eq=False)
class Basis:
    """m functions on [0, T] whose first and second derivatives vanish at both ends, the first of them constant.

    A Fourier series has the frequencies 1/T ... L/T (Swevers et al., Mechanical Systems and Signal Processing 10,
    1996); splines have evenly spaced knots and as many coefficients.
    """

    name: BasisName
    duration: float
    """T [s]."""
    harmonics: int
    """L."""

    @property
    def size(self) -> int:
        """m."""
        return int(self._resting.shape[1])

    def at(self, t: Array) -> Array:
        """Values, first and second derivatives at N times, (3, N, m)."""
        return np.asarray(self._whole(t) @ self._resting)

    @property
    def _resting(self) -> Array:
        """Combinations of all functions that rest at both ends, the constant first, (M, m)."""
        ends = self._whole(np.array([0.0, self.duration]))[1:].reshape(4, -1)
        lengths = np.linalg.norm(ends, axis=1, keepdims=True)
        _, sizes, directions = np.linalg.svd(ends / np.where(lengths > 0, lengths, 1.0))
        found = directions[int(np.sum(sizes > _NULL)) :]
        constant = np.zeros(found.shape[1])
        constant[: 1 if self.name == "fourier" else None] = 1.0
        others = found - np.outer(found @ constant, constant) / (constant @ constant)
        _, _, moving = np.linalg.svd(others)
        return np.column_stack([constant, moving[: len(found) - 1].T])

    def _whole(self, t: Array) -> Array:
        """All functions without regard to the ends, (3, N, M)."""
        return self._series(t) if self.name == "fourier" else self._splines(t)

    def _series(self, t: Array) -> Array:
        omega = 2 * np.pi / self.duration * np.arange(1, self.harmonics + 1)
        phase = np.outer(t, omega)
        sines, cosines, size = np.sin(phase), np.cos(phase), omega / omega[0]  # rates of one size
        values = np.hstack([np.ones((len(t), 1)), sines / size, cosines / size])
        rates = np.hstack([np.zeros((len(t), 1)), cosines * omega / size, -sines * omega / size])
        accelerations = np.hstack([np.zeros((len(t), 1)), -sines * omega**2 / size, -cosines * omega**2 / size])
        return np.stack([values, rates, accelerations])

    def _splines(self, t: Array) -> Array:
        from scipy.interpolate import BSpline  # half a second to load

        count = 2 * self.harmonics + 1 + 2  # as many as a series once four ends are at rest
        inner = np.linspace(0.0, self.duration, count - _DEGREE + 1)
        knots = np.concatenate([np.zeros(_DEGREE), inner, np.full(_DEGREE, self.duration)])
        spline = BSpline(knots, np.eye(count), _DEGREE)
        return np.stack([np.asarray(spline(t, nu)) for nu in range(3)])
