"""Symbols by which a sketch tells one kind of joint from another."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.path import Path

from spookid.kernels.kernel import Array

Line = list[tuple[float, float]]
"""Points along an axis and across it."""
_END_ON = 0.2
"""Length of a unit vector on paper below which it is seen from its end."""
_SLEEVE: Line = [(-2, -1), (2, -1), (2, 1), (-2, 1)]
_PLATE: Line = [(-0.4, -2.2), (0.4, -2.2), (0.4, 2.2), (-0.4, 2.2)]
_THREADS: list[Line] = [[(x - 0.4, -1), (x + 0.4, 1)] for x in (-1.3, -0.45, 0.45, 1.3)]


def draw(panel: Axes, kind: str, place: Array, axis: Array, foot: Array | None) -> None:
    """A joint of a kind at a place on paper, (2,).

    A hinge is a ring, on the ground a triangle; a slider a sleeve along its axis, a cylinder a sleeve with a ring, a
    screw a sleeve with threads, a universal joint a ring with a cross, a ball a ring with a dot, a planar joint a
    plate across its axis with a ring, a pin in a slot a diamond with a ring, and a fixed one a black square. Others are
    diamonds. What stands on the ground has a pale triangle behind it.

    Args:
        axis: its unit vector as it looks on paper, (2,).
        foot: where it stands on the ground, (2,); None if it does not.
    """
    along = axis / np.linalg.norm(axis) if np.linalg.norm(axis) > _END_ON else np.array([1.0, 0.0])
    if kind == "Hinge":
        _marker(panel, place, "o" if foot is None else "^", 6 if foot is None else 9)
        return
    if foot is not None:
        panel.plot(*foot, "^", color="0.6", mfc="0.85", markersize=19, zorder=4.5)
    if kind in ("Prismatic", "Cylindrical", "Screw"):
        _marker(panel, place, _shape([_SLEEVE], along), 16)
    if kind == "Screw":
        _marker(panel, place, _shape(_THREADS, along, closed=False), 16)
    elif kind == "Planar":
        _marker(panel, place, _shape([_PLATE], along), 18)
    if kind in ("Cylindrical", "Planar"):
        _marker(panel, place, "o", 5)
    elif kind in ("Universal", "Spherical"):
        _marker(panel, place, "o", 10)
        _marker(panel, place, "+" if kind == "Universal" else "o", 9 if kind == "Universal" else 4, "black")
    elif kind == "Fixed":
        _marker(panel, place, "s", 7, "black")
    elif kind not in ("Prismatic", "Screw"):
        _marker(panel, place, "D", 8)
        if kind == "PinInSlot":
            _marker(panel, place, "o", 4)


def _marker(panel: Axes, place: Array, marker: Any, size: float, fill: str = "white") -> None:
    panel.plot(*place, marker=marker, color="black", mfc=fill, markersize=size, zorder=5, linestyle="none")


def _shape(lines: list[Line], along: Array, closed: bool = True) -> Path:
    """A marker of lines whose points are given along the axis and across it."""
    across = np.array([-along[1], along[0]])
    vertices, codes = [], []
    for line in lines:
        points = [x * along + y * across for x, y in (*line, line[0])][: None if closed else len(line)]
        vertices += points
        codes += [Path.MOVETO, *[Path.LINETO] * (len(points) - 1)]
    return Path(np.array(vertices), codes)
