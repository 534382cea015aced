"""Axes of a parameter study: a name and the values that it takes, also as a text of the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from spookid.errors import ProblemError
from spookid.studies.random_starts import START

AxisValue: TypeAlias = float | str
"""A value on an axis: a number, or the name of a stepper, of a backend ..."""

_NAME = re.compile(r"[^\W\d]\w*(\[.+\])?")
"""Of a setting or a parameter, perhaps that of one recording."""
_RANGE = re.compile(r"(?P<first>[^:]*):(?P<last>[^:]*):(?P<count>\d+)(?P<log>log)?")
_MOST_POINTS = 100_000
_HOW = "give NAME=a:b:n for n values from a to b, NAME=a:b:nlog for evenly spaced logarithms, or NAME=a,b,c"


@dataclass(frozen=True)
class Axis:
    """One direction of the grid of a study."""

    name: str
    """Of a setting or of a parameter."""
    values: tuple[AxisValue, ...]
    """In the order given, all different."""

    @property
    def is_numeric(self) -> bool:
        """True if all values are finite numbers."""
        return all(isinstance(value, float) and math.isfinite(value) for value in self.values)

    @property
    def is_logarithmic(self) -> bool:
        """True if the values are rather multiples of each other than evenly spaced."""
        if not self.is_numeric or len(self.values) < 3:
            return False
        values = np.sort(np.array(self.values, dtype=np.float64))
        if values[0] <= 0:
            return False
        return bool(
            np.ptp(np.diff(np.log(values))) / np.log(values[-1] / values[0]) < np.ptp(np.diff(values)) / np.ptp(values)
        )


def axis(text: str) -> Axis:
    """The axis that ``NAME=a:b:n``, ``NAME=a:b:nlog`` or ``NAME=a,b,c`` describes.

    Raises:
        ProblemError: if the text is none of these.
    """
    name, _, values = text.partition("=")
    if not (_NAME.fullmatch(name) and values):
        raise ProblemError(f"{text!r} is no axis; {_HOW}")
    match = _RANGE.fullmatch(values)
    if match is None:
        return Axis(name, _distinct(text, [_choice(part, text) for part in values.split(",")]))
    ends, count = [_number(match[end], text) for end in ("first", "last")], int(match["count"])
    if not 2 <= count <= _MOST_POINTS:
        raise ProblemError(f"{text!r} has {count} values; give 2 to {_MOST_POINTS:,}")
    if match["log"] and not min(ends) > 0:
        raise ProblemError(f"{text!r}: values with evenly spaced logarithms must be positive")
    grid_points = (np.geomspace if match["log"] else np.linspace)(ends[0], ends[1], count)
    return Axis(name, _distinct(text, [_tidy(value) for value in grid_points.tolist()]))


def axes_of(over: Mapping[str, Iterable[AxisValue]] | Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes from a mapping of names to values, or as they are.

    Raises:
        ProblemError: for no axis, an axis without values, one value twice on an axis, or two axes of one name.
    """
    if isinstance(over, Mapping):
        axes = tuple(
            Axis(name, _distinct(name, [value if isinstance(value, str) else _float(value, name) for value in values]))
            for name, values in over.items()
        )
    else:
        axes = tuple(over)
    if not axes:
        raise ProblemError(f"a sweep needs an axis; {_HOW}")
    names = [one.name for one in axes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ProblemError(f"{twice!r} is swept twice; put all its values into one axis")
    if math.prod(len(one.values) for one in axes) > _MOST_POINTS:
        raise ProblemError(f"the axes have more than {_MOST_POINTS:,} points; take fewer values")
    return axes


def grid_points(axes: Sequence[Axis]) -> list[dict[str, AxisValue]]:
    """All combinations of the values; the last axis changes fastest."""
    return [
        dict(zip([one.name for one in axes], values, strict=True)) for values in product(*(one.values for one in axes))
    ]


def from_neighbours(axes: Sequence[Axis]) -> list[dict[int, int | None]]:
    """Numbers of all points of a grid, in groups one after another, each with that of the neighbour, of an earlier
    group, that it begins from; None: from none.

    Along an axis of numbers the middle comes first, then the middles of both halves, and so on, so that groups grow.
    Points that differ in a text, or in the number of a random start, are no neighbours.
    """
    trees = [_halved(len(one.values)) if one.is_numeric and one.name != START else None for one in axes]
    sizes, groups = [len(one.values) for one in axes], dict[int, dict[int, int | None]]()
    for number, place in enumerate(product(*map(range, sizes))):
        depths = [0 if tree is None else tree[at][0] for tree, at in zip(trees, place, strict=True)]
        deepest, near = int(np.argmax(depths)), list(place)
        if (tree := trees[deepest]) is not None:
            near[deepest] = tree[place[deepest]][1]
        own = int(np.ravel_multi_index(near, sizes)) if any(depths) else None
        groups.setdefault(sum(depths), {})[number] = own
    return [groups[depth] for depth in sorted(groups)]


def _halved(count: int) -> list[tuple[int, int]]:
    """Depth of each place in a tree of halves, and the place above it."""
    found, parts = [(0, 0)] * count, [(0, count, 0, 0)]
    while parts:
        first, last, above, depth = parts.pop()
        if first < last:
            middle = (first + last) // 2
            found[middle] = depth, above
            parts += [(first, middle, middle, depth + 1), (middle + 1, last, middle, depth + 1)]
    return found


def _distinct(what: str, values: list[AxisValue]) -> tuple[AxisValue, ...]:
    if not values:
        raise ProblemError(f"{what!r} has no values; {_HOW}")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ProblemError(f"{what!r} has the value {twice!r} twice; give each once")
    return tuple(values)


def _choice(part: str, text: str) -> AxisValue:
    """A number if it reads as one, else a name."""
    part = part.strip()
    value = _read(part)
    if value is None and (not part or ":" in part):
        raise ProblemError(f"{text!r} is no axis; {_HOW}")
    if value is not None and math.isnan(value):
        raise ProblemError(f"{text!r} has a value that is no number; {_HOW}")
    return part if value is None else value


def _number(part: str, text: str) -> float:
    value = _read(part)
    if value is None or not math.isfinite(value):
        raise ProblemError(f"{text!r}: {part!r} is no finite number; {_HOW}")
    return value


def _float(value: object, name: str) -> float:
    number = _read(value)
    if number is None:
        raise ProblemError(f"{name!r} has the value {value!r}; an axis takes numbers and texts")
    return number


def _read(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _tidy(value: float) -> float:
    """Without the round-off of the spacing: 0.1 rather than 0.10000000000000002."""
    return float(f"{value:.12g}")
