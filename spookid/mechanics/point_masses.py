"""An inertia as masses at given points, none negative."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import nnls
from spookid.mechanics.inertia import FullInertia, at_guess, check_guess, six, steiner
from spookid.parameter import Parameter

_EVEN = 1e-3
"""Weight of masses that are alike where the guess does not tell them."""
_FAR = 2.0
"""Ratio of masses, or of traces of inertias, from which on a body is another one."""


class PointMasses(FullInertia):
    """Masses at given points, none negative, named after it: ``link_m_1`` to ``link_m_n``.

    Every body within the points' hull is one of these, or nearly, and the more points there are the nearer (Ayusawa,
    Nakamura, IROS 2010). The equations of motion are linear in the masses. Of more than ten the masses are not unique;
    what they sum up to is.

    Args:
        name: what their names begin with, an identifier; mostly that of the body.
        points: (n, 3) [m] in the frame of the body, at least four that are not in a plane.
        guess: a FullInertia; the nearest that the points have is taken, whose mass and trace of the inertia must not be
            half or twice as large. Parameters in it count with their guesses.
        within, around: what is known of π beforehand, see ``FullInertia``; without ``around`` of the guess.

    Raises:
        ProblemError: for points that are no numbers, in a plane or far from the guess, or a name that is no identifier.
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
        check_guess("PointMasses", name, guess, f"{place}: PointMasses")
        what = f"{place}: PointMasses {name!r}"
        given = _given(points, what)
        if len(given) < 4 or np.linalg.matrix_rank(given[1:] - given[0], tol=1e-9) < 3:
            raise ProblemError(f"{what} has points in a plane; give at least four that are not")
        columns = _columns(given)
        start = _start(columns, guess)
        _check_near(columns @ start, guess, what)
        declared = tuple(
            Parameter(f"{name}_m_{i}", mass, lower=0.0, unit="kg", note=f"mass at {tuple(point)} m")
            for i, (mass, point) in enumerate(zip(start.tolist(), given.tolist(), strict=True), start=1)
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
    except (TypeError, ValueError, RuntimeError, OverflowError):
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


def _start(columns: Array, guess: FullInertia) -> Array:
    """Masses whose π is nearest to that of the guess, each entry over its size."""
    wanted = at_guess(guess.pi)
    sizes = np.maximum(np.abs(columns).max(axis=1) * wanted[0], 1e-300)
    count = columns.shape[1]
    even = _EVEN * np.eye(count) / wanted[0]
    rows = np.vstack([columns / sizes[:, None], even])
    masses, _ = nnls(rows, np.concatenate([wanted / sizes, even @ np.full(count, wanted[0] / count)]))
    return np.asarray(masses)


def _check_near(pi: Array, guess: FullInertia, what: str) -> None:
    """Refuse points whose nearest body is another than that of the guess."""
    wanted = at_guess(guess.mass).item(), np.trace(at_guess(guess.inertia))
    mass = float(pi[0])
    size = float(np.sum(pi[4:7]) - 2 * np.sum(pi[1:4] ** 2) / mass) if mass > 0 else 0.0
    for found, asked, thing, unit in zip(
        (mass, size), wanted, ("mass", "trace of the inertia"), ("kg", "kg m²"), strict=True
    ):
        if not 1 / _FAR < found / asked < _FAR:
            raise ProblemError(
                f"{what} has points that cannot hold its guess: the nearest has the {thing} {found:.3g} {unit}, not "
                f"{asked:.3g} {unit}; give points in the body and on its outline, in its frame"
            )
