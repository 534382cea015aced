"""Units of columns, converted to SI where they enter; an angle is in radians."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.logs.libraries import library
from spookid.errors import ProblemError, shown

_NONE = ("", "-", "1")
"""How files say that a number has no unit."""
_SPELLINGS = {
    r"\b([kmuµ]?N)([cm]?m)\b": r"(\1*\2)",  # to pint Nm is a unit of yarn
    r"\b[Aa]mps?\b": "ampere",  # and amps are attometres per second
    r"\bs2\b": "s^2",
    r"\brevs?\b": "turn",
}
"""What logs write and pint reads as something else, or not at all."""
_UNCLEAR = {"g": "'gram' or 'g_0'", "G": "'gauss' or 'g_0'"}
"""Units of which nobody can say whether they are of an acceleration."""


def to_si(values: FloatArray, unit: object, what: str, dimension: str = "") -> FloatArray:
    """Values in SI base units, which for rates of angles are rad/s, of torques N m and of temperatures K.

    Args:
        unit: as pint writes it: ``deg``, ``ms``, ``rpm``, ``N cm``, ``mA``.
        what: begins messages and names file and column.
        dimension: unit that the values must be convertible to; empty if any will do.

    Raises:
        ProblemError: for a unit that pint does not know or that is of another dimension.
    """
    if not isinstance(unit, str):
        raise ProblemError(f"{what} has the unit {shown(unit)}; give a text such as 'deg'")
    if unit.strip() in _NONE and not dimension:
        return values
    if unit.strip() in _UNCLEAR:
        raise ProblemError(f"{what} has the unit {unit!r}; with units= say which one it is, {_UNCLEAR[unit.strip()]}")
    known = _registry(f"{what}: the unit {unit!r}")
    try:
        quantity = known.Quantity(values, _spelled(unit))
        converted = quantity.to_base_units()
    except Exception:  # pint raises of many kinds at texts that are no unit
        raise ProblemError(f"{what} has the unit {unit!r}, which pint does not know; write it as in 'deg'") from None
    if dimension and not quantity.is_compatible_with(dimension):
        raise ProblemError(f"{what} has the unit {unit!r}, which is no time; write it as in 'ms'")
    return np.asarray(converted.magnitude, dtype=np.float64)


def is_unit(text: str) -> bool:
    """True if pint knows a unit by this text."""
    if text.strip() in _NONE:
        return True
    try:
        _registry("a row of units").Unit(_spelled(text))
    except ProblemError:
        raise
    except Exception:
        return False
    return True


def _spelled(unit: str) -> str:
    """A unit as pint reads it."""
    for written, meant in _SPELLINGS.items():
        unit = re.sub(written, meant, unit)
    return unit.strip()


def _registry(what: str) -> Any:
    return _units(library("pint", "pint", what, install="pint"))


@cache
def _units(pint: Any) -> Any:
    return pint.UnitRegistry()
