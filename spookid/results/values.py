"""What estimates say of other numbers: values of expressions, and physical quantities of bodies."""

from __future__ import annotations

from dataclasses import dataclass

from spookid.tables.tabular import Listed


@dataclass(frozen=True)
class Value(Listed):
    """An expression of parameters at the solution."""

    estimate: float
    """Its value."""
    std_err: float
    """Linearized, as of a parameter; NaN if the data do not see the expression, whatever they see of what is in it."""
    reason: str = ""
    """Why ``std_err`` is NaN; empty if it is a number."""


@dataclass(frozen=True)
class Derived:
    """What estimates mean, such as the mass of a body that is declared by other coordinates."""

    name: str
    estimate: float
    """In ``unit``."""
    std_err: float
    """By the delta method, if parameters at a bound stay there; NaN if the data do not see it."""
    reason: str
    """Why ``std_err`` is NaN; empty if it is a number."""
    unit: str
