"""What a caller gives to functions of a System, checked: each thing that is wrong is refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from spookid.errors import ProblemError, shown
from spookid.kernels.kernel import Array
from spookid.mechanics.manifold import Manifold
from spookid.parameter import Parameter

_MOST_STEPS = 100_000_000
_UNIT = 1e-3
"""By how much a quaternion may miss its length of one, as numbers of few digits do."""


def seconds(step: object, what: str) -> float:
    """h [s].

    Raises:
        ProblemError: if it is no positive number.
    """
    if not (isinstance(step, Real) and 0 < float(step) < math.inf):
        raise ProblemError(f"{what}: step is {shown(step)}; give a positive number of seconds")
    return float(step)


def counted_steps(steps: object, least: int, what: str) -> int:
    """N.

    Raises:
        ProblemError: if it is no whole number, or less than the least.
    """
    if not (isinstance(steps, Integral) and _MOST_STEPS >= int(steps) >= least):
        raise ProblemError(f"{what}: steps is {shown(steps)}; give {least} or more, and {_MOST_STEPS:,} at the most")
    return int(steps)


def named(values: object, what: str, remedy: str) -> Mapping[str, Any]:
    """A dict; None is an empty one.

    Raises:
        ProblemError: if it is anything else.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ProblemError(f"{what} is {shown(values)}; give a dict, {remedy}")
    return values


def vector(values: Any, size: int, what: str, *, or_one: bool = False) -> Array:
    """Finite numbers, (size,).

    Args:
        or_one: True if one number stands for all.

    Raises:
        ProblemError: for anything else.
    """
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ProblemError(f"{what} is {shown(values)}; give numbers, ({size},)") from None
    if or_one and found.ndim == 0:
        found = np.full(size, found)
    if found.shape != (size,):
        raise ProblemError(f"{what} has the shape {found.shape}; give ({size},)")
    if not np.all(np.isfinite(found)):
        raise ProblemError(f"{what} holds a value that is not finite; give finite numbers, ({size},)")
    return found


def point(values: Any, space: Manifold, what: str) -> Array:
    """Coordinates of a point, (ambient,).

    Raises:
        ProblemError: for anything else, such as a quaternion that is not of length one.
    """
    found = vector(values, space.ambient, what)
    with np.errstate(invalid="ignore"):
        turned = space.normed(found)
    if not np.max(np.abs(turned - found), initial=0.0) <= _UNIT:
        raise ProblemError(f"{what} holds an orientation that is no unit quaternion; divide it by its length")
    return turned


def parameter_values(parameters: Sequence[Parameter], values: Mapping[str, Any], what: str) -> Array:
    """Of each Parameter the value of its name, or its guess, (n_p,).

    Raises:
        ProblemError: for a value that is no number within the bounds.
    """
    found = [values.get(p.name, p.guess) for p in parameters]
    for p, value in zip(parameters, found, strict=True):
        if not (isinstance(value, Real) and math.isfinite(value) and p.lower <= float(value) <= p.upper):
            raise ProblemError(
                f"{what} of {p.name} is {shown(value)}; give a finite number in [{p.lower:g}, {p.upper:g}]"
            )
    return np.array(found, dtype=float)
