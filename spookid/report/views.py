"""How a mechanism is looked at: on the plane of its motion if there is one, else from the side and a little above."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.values import Mechanism

_AZIMUTH, _ELEVATION = np.radians(35.0), np.radians(20.0)
_FLAT = 0.01
"""Share of the largest extent of a motion below which it has none in a direction; compliant joints give a little."""
_ALIGNED = 1 - 1e-6
"""Cosine from which on a direction is that of an axis of the world."""


@dataclass(frozen=True, eq=False)
class View:
    """Directions of the world that are to the right and up on paper."""

    rows: Array
    """(2, 3)."""
    labels: tuple[str, str] = ("", "")
    """Of the axes on paper; empty where lengths look shorter than they are."""

    @property
    def is_flat(self) -> bool:
        """True if lengths on paper are lengths of the motion."""
        return any(self.labels)

    def seen(self, points: Array) -> Array:
        """Points of the world on paper [m], (n, 3) to (2, n)."""
        return np.asarray(self.rows @ points.T)


def upright(gravity: Array) -> Rotation:
    """Turns the world so that gravity points down on paper."""
    if not (np.isfinite(gravity).all() and np.any(gravity)):
        return Rotation.identity()
    return Rotation.align_vectors([[0.0, 0.0, -1.0]], [gravity / np.linalg.norm(gravity)])[0]


def oblique(parts: Mechanism) -> View:
    """From the side and a little from above."""
    right = [-np.sin(_AZIMUTH), np.cos(_AZIMUTH), 0.0]
    up = [-np.sin(_ELEVATION) * np.cos(_AZIMUTH), -np.sin(_ELEVATION) * np.sin(_AZIMUTH), np.cos(_ELEVATION)]
    return View(np.array([right, up]) @ upright(np.array(parts.gravity)).as_matrix())


def view_of(parts: Mechanism, q: Array) -> View:
    """On the plane of a motion q (N, n_b, 7) if it has one, else oblique."""
    gravity = np.array(parts.gravity)
    normal = _normal(q, gravity)
    if normal is None:
        return oblique(parts)
    size = np.linalg.norm(gravity)
    down = gravity - normal * (normal @ gravity)
    if np.isfinite(size) and np.linalg.norm(down) > 0.1 * size > 0:
        up = -down / np.linalg.norm(down)
    else:  # seen from above
        world = np.eye(3)[int(np.argmax(np.abs(normal)[[2, 0, 1]]))]
        up = np.cross(normal, np.cross(world, normal))
        up /= np.linalg.norm(up)
    right = np.cross(up, normal)
    right *= np.sign(right[np.argmax(np.abs(right))])
    return View(np.array([right, up]), (_named(right, "along the plane of motion [m]"), _named(up, "up [m]")))


def _normal(q: Array, gravity: Array) -> Array | None:
    """Unit vector across the plane in which all points of the bodies move, (3,); None if there is none."""
    centres, turned = q[:, :, :3], Rotation.from_quat(np.roll(q[:, :, 3:].reshape(-1, 4), -1, axis=1))
    ends = turned.as_matrix().reshape(*q.shape[:2], 3, 3)  # axes of the bodies in columns, a metre long
    way = np.concatenate([(a - a[0]).reshape(-1, 3) for a in (centres, *np.moveaxis(ends, 3, 0))])
    _, sizes, directions = np.linalg.svd(way, full_matrices=False)
    if not sizes[0] > 0 or sizes[2] > _FLAT * sizes[0]:
        return None
    if sizes[1] > _FLAT * sizes[0]:
        return np.asarray(directions[2])
    # All moves along a line: the plane holds gravity, too, if that is across it.
    across = np.cross(directions[0], gravity)
    level = np.linalg.norm(across) <= 0.1 * np.linalg.norm(gravity) or not np.isfinite(across).all()
    across = np.cross(directions[0], np.eye(3)[int(np.argmin(np.abs(directions[0])))]) if level else across
    return np.asarray(across / np.linalg.norm(across))


def _named(direction: Array, otherwise: str) -> str:
    """Label of an axis on paper."""
    for axis, name in enumerate("xyz"):
        if abs(direction[axis]) > _ALIGNED:
            return f"{name if direction[axis] > 0 else '−' + name} [m]"
    return otherwise
