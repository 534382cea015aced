"""Factors between neighbouring steps: integration rules, and what changes little from a step to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import casadi as ca

from spookid.graphs.factor import GraphFactor, Window
from spookid.graphs.variables import Variables


@dataclass(frozen=True, eq=False)
class _Integration(GraphFactor):
    """Of a variable and its rate."""

    variable: str
    rate: str
    reach: ClassVar[int] = 1

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

    def _change(self, at: Window) -> ca.SX:
        """x_{k+1} ⊟ x_k."""
        space = at.variables.space(self.variable)
        return space.difference(at.after[self.variable], at.now[self.variable])


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
        return self._change(at) - at.step * at.now[self.rate]


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
        return self._change(at) - at.step / 2 * (at.now[self.rate] + at.after[self.rate])


@dataclass(frozen=True, eq=False)
class SoftEquality(GraphFactor):
    """e = x_{k+1} ⊟ x_k: a variable changes little from a step to the next (f_eq of section 5.2).

    A large sigma settles what nothing else does, such as the branch of a loop or how an effort alternates.

    Args:
        variable: x.
        sigma: in the unit of x; not 0, which would hold it still.
    """

    variable: str
    reach: ClassVar[int] = 1

    @property
    def default(self) -> str:
        """With the name of the variable."""
        return f"{super().default} {self.variable}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The one."""
        return (self.variable,)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """One for each direction of the variable."""
        return variables.labels(self.variable)

    def error(self, at: Window) -> ca.SX:
        """The difference."""
        return at.variables.space(self.variable).difference(at.after[self.variable], at.now[self.variable])
