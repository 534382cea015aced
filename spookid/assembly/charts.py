"""How coordinates of inertias step: so that π, in which the equations of motion are linear, moves in a line."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.kernels.arrays import Array
from spookid.mechanics.inertia_coordinates import InertiaCoordinates
from spookid.transcription.chart import Chart


def inertia_charts(problem: Declaration) -> tuple[Chart, ...]:
    """One for each body whose inertia has coordinates, some of them free."""
    places = {p.name: i for i, p in enumerate(problem.free)}
    inertias = [b.distribution for b in problem.model.bodies if isinstance(b.distribution, InertiaCoordinates)]
    return tuple(_chart(one, problem, places) for one in inertias if any(p.name in places for p in one.coordinates))


def _chart(inertia: InertiaCoordinates, problem: Declaration, places: dict[str, int]) -> Chart:
    names = [p.name for p in inertia.coordinates]
    theta, delta = (ca.SX.sym(name, len(names)) for name in ("theta", "delta"))
    pi = ca.substitute(inertia.pi, ca.vertcat(*inertia.coordinates), theta)
    function = ca.Function("ahead", [theta, delta], [pi + ca.jtimes(pi, theta, delta)])
    lower = np.array([p.lower for p in inertia.coordinates])

    def ahead(start: Array, step: Array) -> Array:
        return np.asarray(function(start, step).full())[:, 0]

    def inverse(moved: Array, near: Array) -> Array | None:
        try:
            found = inertia.from_pi_values(moved, near)
        except (ValueError, np.linalg.LinAlgError):
            return None
        return found if np.all(np.isfinite(found)) and np.all(found >= lower) else None

    guess = problem.guess
    where = np.array([places.get(name, -1) for name in names], dtype=np.intp)
    return Chart(where, np.array([guess[name] for name in names]), ahead, inverse)
