"""Robust losses: sensors whose samples far off count less.

With r a residual over its standard deviation, a row sign(r) √ρ(r²) has the square ρ(r²), ρ as in
``scipy.optimize.least_squares`` with ``f_scale=1``. So solvers and statistics see least squares as ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import is_number
from spookid.data.arrays import FloatArray
from spookid.errors import ProblemError, shown
from spookid.records import dataclass

_NEAR = np.cbrt(np.finfo(float).eps)
"""r² below which three terms of the series of ln(1 + r²)/r² leave out less than rounding does."""


class RobustLoss(ABC):
    """Robust loss ρ(r²) of the normalized residuals r of a sensor.

    >>> class PseudoHuber(RobustLoss):  # ρ = 2 (√(1 + r²) − 1)
    ...     def row(self, r):
    ...         return r * ca.sqrt(2 / (1 + ca.sqrt(1 + r**2)))
    ...
    ...     def residual(self, row):
    ...         return np.sign(row) * np.sqrt((1 + row**2 / 2) ** 2 - 1)
    >>> sensor = HingeAngle(hinge, "angle", loss=PseudoHuber())

    The loss of small residuals is r², so that noise standard deviations keep their meaning.
    """

    @abstractmethod
    def row(self, r: ca.SX) -> ca.SX:
        """Transformed residual sign(r) √ρ(r²), whose square is the loss; twice differentiable also at r = 0."""

    @abstractmethod
    def residual(self, row: FloatArray) -> FloatArray:
        """Residuals r for given transformed values: the inverse of ``row``."""


class Huber(RobustLoss):
    """Huber loss ρ(z) of the squared normalized residual z: ρ = z up to 1, then 2 √z − 1."""

    def row(self, r: ca.SX) -> ca.SX:
        size = ca.fabs(r)
        return ca.if_else(size <= 1, r, ca.sign(r) * ca.sqrt(2 * ca.fmax(size, 1) - 1))

    def residual(self, row: FloatArray) -> FloatArray:
        return np.asarray(np.where(row**2 <= 1, row, np.sign(row) * (row**2 + 1) / 2))


class Cauchy(RobustLoss):
    """ρ(z) = ln(1 + z)."""

    def row(self, r: ca.SX) -> ca.SX:
        z = r**2  # r √(ρ/z) has no root of zero
        near = z < _NEAR
        return r * ca.sqrt(ca.if_else(near, 1 - z / 2 + z**2 / 3, ca.log1p(z) / ca.if_else(near, 1, z)))

    def residual(self, row: FloatArray) -> FloatArray:
        return np.asarray(np.sign(row) * np.sqrt(np.expm1(row**2)))


@dataclass(frozen=True)
class StudentT:
    """Sensor noise with Student's t-distribution, whose tails are heavier than normal: the argument ``loss``.

    >>> sensor = HingeAngle(hinge, "angle", loss=StudentT())  # degrees of freedom are estimated
    >>> sensor = HingeAngle(hinge, "angle", loss=StudentT(4))

    The noise standard deviation of the sensor is the scale of the distribution, which is its standard deviation for
    many degrees of freedom. The likelihood has the constant of normalization, so that losses and degrees of freedom
    compare.

    Raises:
        ProblemError: if ``freedom`` is below one.
    """

    freedom: float | None = None
    """Degrees of freedom, at least 1 (Cauchy's distribution); None: they are estimated by likelihood."""

    def __post_init__(self) -> None:
        if self.freedom is not None and not (is_number(self.freedom) and 1 <= self.freedom < np.inf):
            raise ProblemError(f"StudentT has freedom {shown(self.freedom)}; give a number of at least 1, or None")


Loss = Literal["auto", "linear", "huber", "cauchy"] | RobustLoss | StudentT
LOSSES: dict[str, RobustLoss | None] = {"auto": None, "linear": None, "huber": Huber(), "cauchy": Cauchy()}
"""Those with a name; None for plain squares."""


def robust(loss: Loss) -> RobustLoss | None:
    """Return the robust loss with a given name; None for least squares, also for samples that ``StudentT`` weights."""
    return loss if isinstance(loss, RobustLoss) else None if isinstance(loss, StudentT) else LOSSES[loss]
