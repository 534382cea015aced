"""Factors between neighbouring steps: integration rules, and what changes little from a step to the next."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.graphs.factor import GraphFactor, Window
from spookid.graphs.variables import Variables

_RATES = {"q": "v", "v": "a", "z": "dz", "dz": "ddz"}
"""Of each variable that has one."""


@dataclass(frozen=True, eq=False)
class _Integration(GraphFactor):
    """Of a variable and its rate."""

    variable: str
    rate: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if _RATES.get(self.variable) != self.rate:
            pairs = ", ".join(f"{rate} of {x}" for x, rate in _RATES.items())
            raise ProblemError(f"{self.what}: {self.rate} is no rate of {self.variable}; rates are {pairs}")

    @property
    def reach(self) -> int:
        """To the next step."""
        return 1

    @property
    def default(self) -> str:
        """With the name of what is integrated."""
        return f"{super().default} {self.variable}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Both."""
        return self.variable, self.rate

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """One for each direction of the variable."""
        return variables.labels(self.variable)


@dataclass(frozen=True, eq=False)
class Euler(_Integration):
    """e = x_{k+1} ⊟ x_k − h ẋ_k, which is off by h²/2 times the second derivative (22).

    Args:
        variable: x, such as ``"q"``; a difference of orientations is the rotation vector from one to the other.
        rate: ẋ, such as ``"v"``.
        sigma: in the unit of x.
    """

    def error(self, at: Window) -> ca.SX:
        """(22)."""
        return at.changes(self.variable)[0] - at.step * at.now[self.rate]


@dataclass(frozen=True, eq=False)
class Trapezoid(_Integration):
    """e = x_{k+1} ⊟ x_k − h (ẋ_k + ẋ_{k+1})/2, which is off by h³/12 times the third derivative (23).

    Args:
        variable: x, such as ``"q"``; a difference of orientations is the rotation vector from one to the other.
        rate: ẋ, such as ``"v"``.
        sigma: in the unit of x.
    """

    def error(self, at: Window) -> ca.SX:
        """(23)."""
        return at.changes(self.variable)[0] - at.step / 2 * (at.now[self.rate] + at.after[self.rate])


@dataclass(frozen=True, eq=False)
class SoftEquality(GraphFactor):
    """e = x_{k+1} ⊟ x_k: a variable changes little from a step to the next (f_eq of section 5.2).

    A large sigma settles what nothing else does, such as how an effort alternates from step to step, to which a
    trapezoidal rule is blind. Of order 2, e = (x_{k+2} ⊟ x_{k+1}) − (x_{k+1} ⊟ x_k), it has nothing against a steady
    change.

    Args:
        variable: x.
        order: 1, or 2.
        sigma: in the unit of x; not 0, which would hold it still.
    """

    variable: str
    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ProblemError(f"{self.what}: order is {shown(self.order)}; give 1 or 2")
        super().__post_init__()
        if not np.all(self.sigma):
            raise ProblemError(f"{self.what} has sigma 0, which holds {self.variable} still; give a positive one")

    @property
    def default(self) -> str:
        """With the name of the variable."""
        return f"{super().default} {self.variable}"

    @property
    def reach(self) -> int:
        """Its order."""
        return self.order

    @property
    def variables(self) -> tuple[str, ...]:
        """The one."""
        return (self.variable,)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """One for each direction of the variable."""
        return variables.labels(self.variable)

    def error(self, at: Window) -> ca.SX:
        """The first or the second difference."""
        changes = at.changes(self.variable)
        return changes[0] if self.order == 1 else changes[1] - changes[0]
