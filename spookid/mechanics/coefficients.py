"""Coefficients of joints as they are declared, one number or one for each coordinate, and limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.kernels.kernel import Array
from spookid.mechanics.inertia import at_guess
from spookid.parameter import expression, is_constant, parameters_in, symbolic

Limits = tuple[ca.SX | None, ...]
"""(lower, upper) of each coordinate, (2,) [rad or m]; None of those that have no limits."""

COMPLIANCE = 1e-4
"""Of joints and constraints of which nothing is said [m/N or rad/(N m)]."""


class Limited(Protocol):
    """What limits need to know of a coordinate."""

    @property
    def name(self) -> str:
        """Within its joint."""

    @property
    def unit(self) -> str:
        """Of the limits."""

    @property
    def turns_over(self) -> bool:
        """True if it begins anew after a turn."""


def refuse_negative(value: ca.SX | None, name: str, what: str) -> None:
    """Raise ProblemError for a coefficient that is negative, as a number or at the guesses of its Parameters."""
    for entry in () if value is None else ca.vertsplit(ca.densify(value)):
        number, where = guessed(entry)
        if number < 0:
            raise ProblemError(f"{what}: {name} is {number:g}{where}; it must not be negative")


def guessed(value: ca.SX) -> tuple[float, str]:
    """A number, or what an expression is " at the guess of" its Parameters; NaN if another symbol stands in it, which
    a problem refuses."""
    numbers, where = guessed_all(value)
    return numbers.item(), where


def guessed_all(values: ca.SX) -> tuple[Array, str]:
    """The same of a matrix or a column."""
    if values.is_constant():
        return at_guess(ca.densify(values)), ""
    try:
        names = ", ".join(p.name for p in parameters_in([values], "the coefficient"))
    except ProblemError:
        return np.full(values.shape, np.nan), ""
    return at_guess(ca.densify(values)), f" at the guess of {names}" if names else ""


def is_absent(value: ca.SX) -> bool:
    """True for the number zero."""
    return is_constant(value) and float(value) == 0


def acts(value: ca.SX) -> bool:
    """False for zeros."""
    return not all(map(is_absent, ca.vertsplit(value)))


def coefficient(value: Any, coordinates: int, what: str) -> ca.SX:
    """One number, or one for each coordinate."""
    given = expression(value, what)
    several = given.numel() == coordinates > 1
    return symbolic(ca.vec(given) if several else value, what, (coordinates,) if several else ())


def limits_of(value: Any, coordinates: Sequence[Limited], what: str) -> Limits | None:
    """A pair for the one coordinate, or a pair or None for each of several; None if there are no limits.

    Raises:
        ProblemError: for another number of pairs, or a pair that is no interval.
    """
    if value is None:
        return None
    alone = len(coordinates) == 1 and not (isinstance(value, tuple) and len(value) == 1)
    pairs = [value] if alone else _each(value, coordinates, what)
    found = []
    for coordinate, pair in zip(coordinates, pairs, strict=True):
        found.append(None if pair is None else symbolic(pair, f"{what}: limits", (2,)))
        _check(found[-1], coordinate, what)
    return tuple(found) if any(pair is not None for pair in found) else None


def _each(value: Any, coordinates: Sequence[Limited], what: str) -> list[Any]:
    pairs = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if len(pairs) != len(coordinates) or not all(pair is None or _is_pair(pair) for pair in pairs):
        names = ", ".join(coordinate.name for coordinate in coordinates) or "none"
        raise ProblemError(
            f"{what} has limits {shown(value)}; give (lower, upper), or None, for each of its coordinates: {names}"
        )
    return pairs


def _is_pair(value: Any) -> bool:
    if isinstance(value, ca.SX):
        return bool(value.numel() == 2)
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return listed and len(value) == 2


def _check(limits: ca.SX | None, coordinate: Limited, what: str) -> None:
    if limits is None:
        return
    width = limits[1] - limits[0]
    turns = coordinate.turns_over
    if is_constant(width) and not 0 < float(width) < (2 * math.pi if turns else math.inf):
        raise ProblemError(
            f"{what}: limits are {float(limits[0]):g} and {float(limits[1]):g} "
            f"{coordinate.unit}; give (lower, upper){', less than a turn apart' if turns else ''}"
        )
