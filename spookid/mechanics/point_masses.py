"""An inertia as masses at given points, none negative."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from scipy.optimize import nnls

from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.kernel import Array
from spookid.mechanics.inertia import FullInertia, at_guess, six, steiner
from spookid.parameter import Parameter

_EVEN = 1e-3
"""Weight of masses that are alike where the guess does not tell them."""


class PointMasses(FullInertia):
    """Masses at given points, none negative, named after it: ``link_m_1`` to ``link_m_n``.

    Every body within the points' hull is one of these, or nearly, and the more points there are the nearer (Ayusawa,
    Nakamura, IROS 2010). The equations of motion are linear in the masses. Of more than ten the masses are not unique;
    what they sum up to is.

    Args:
        name: what their names begin with, an identifier; mostly that of the body.
        points: (n, 3) [m] in the frame of the body, at least four that are not in a plane.
        guess: a FullInertia; the nearest that the points have is taken. Parameters in it count with their guesses.
        within, around: what is known of π beforehand, see ``FullInertia``; without ``around`` of the guess.

    Raises:
        ProblemError: for points that are no numbers or in a plane, or a name that is no identifier.
    """

    coordinates: tuple[Parameter, ...]
    """The masses."""

    def __init__(
        self,
        name: str,
        points: Any,
        guess: FullInertia,
        *,
        within: float | None = None,
        around: FullInertia | None = None,
    ) -> None:
        place = declared_at()
        what = f"{place}: PointMasses {name!r}"
        if not isinstance(guess, FullInertia):
            raise ProblemError(f"{what} has the guess {shown(guess)}; give a FullInertia")
        given = _given(points, what)
        if len(given) < 4 or np.linalg.matrix_rank(given[1:] - given[0], tol=1e-9) < 3:
            raise ProblemError(f"{what} has points in a plane; give at least four that are not")
        columns = _columns(given)
        declared = tuple(
            Parameter(f"{name}_m_{i}", mass, lower=0.0, unit="kg", note=f"mass at {tuple(point)} m")
            for i, (mass, point) in enumerate(zip(_start(columns, guess), given.tolist(), strict=True), start=1)
        )
        whole = FullInertia.from_pi(ca.DM(columns) @ ca.vertcat(*declared))
        expected = around or (guess if within is not None else None)
        parts = whole.mass, whole.center_of_mass
        super().__init__(*parts, inertia=whole.inertia, within=within, around=expected, place=place)
        object.__setattr__(self, "coordinates", declared)


def _given(points: Any, what: str) -> Array:
    """Points as an array (n, 3)."""
    try:
        given = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        given = np.full((1, 3), np.nan)
    if given.ndim != 2 or given.shape[1] != 3:
        raise ProblemError(f"{what} has points of shape {given.shape}; give a row a point, (n, 3)")
    if not np.all(np.isfinite(given)):
        raise ProblemError(f"{what} has points {shown(points)}; give finite numbers (n, 3)")
    return given


def _columns(points: Array) -> Array:
    """π of 1 kg at each point, (10, n)."""
    one, parts = ca.SX(1), [ca.SX(ca.DM(point)) for point in points]
    columns = (ca.vertcat(one, c, six(steiner(one, c))) for c in parts)
    return np.asarray(ca.DM(ca.horzcat(*columns)).full())


def _start(columns: Array, guess: FullInertia) -> list[float]:
    """Masses whose π is nearest to that of the guess, each entry over its size."""
    wanted = at_guess(guess.pi)
    sizes = np.maximum(np.abs(columns).max(axis=1) * wanted[0], 1e-300)
    count = columns.shape[1]
    even = _EVEN * np.eye(count) / wanted[0]
    rows = np.vstack([columns / sizes[:, None], even])
    return list(nnls(rows, np.concatenate([wanted / sizes, even @ np.full(count, wanted[0] / count)]))[0].tolist())
