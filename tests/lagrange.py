"""Mechanisms in coordinates of one's own choice, by Lagrange's equations: an integrator that shares nothing with the
package but CasADi's derivatives.

Bodies are given as positions r(q) and rotation matrices R(q). With T = Σ ½ m |ṙ|² + ½ ωᵀJω and holonomic rows c(q) = 0
or rows A(q) q̇ = γ the motion solves M q̈ = Q + Aᵀμ − (Ṁ q̇ − ∂T/∂q), A q̈ = −Ȧ q̇.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from mechanisms import Array
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation


def turned(axis: int, angle: Any) -> ca.SX:
    """Rotation matrix about a coordinate axis, (3, 3)."""
    c, s, i, j = ca.cos(angle), ca.sin(angle), (axis + 1) % 3, (axis + 2) % 3
    R = ca.SX.eye(3)
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


@dataclass
class Solid:
    """A rigid body in the coordinates."""

    mass: float
    inertia: Any
    """Principal moments about its centre of mass, in its own axes, or (3, 3)."""
    r: ca.SX
    R: ca.SX


class Motion:
    """A mechanism in coordinates q.

    Args:
        q: symbol, (n,).
        gravity: (3,) [m/s²].
        forces: generalized forces of (q, q̇, t), but for gravity.
        holonomic: c(q).
        rolling: rows that are A(q) q̇, as a function of (q, q̇).
    """

    def __init__(
        self,
        q: ca.SX,
        solids: Sequence[Solid],
        gravity: Sequence[float],
        forces: Callable[[ca.SX, ca.SX, ca.SX], Any] = lambda q, v, t: 0 * v,
        holonomic: Any = None,
        rolling: Callable[[ca.SX, ca.SX], Any] | None = None,
    ) -> None:
        n = q.numel()
        self.q, self._v, t = q, ca.SX.sym("v", n), ca.SX.sym("t")
        v = self._v
        T, V, twists = ca.SX(0), ca.SX(0), []
        for solid in solids:
            speed = ca.jacobian(solid.r, q) @ v
            spin = solid.R.T @ ca.reshape(ca.jacobian(ca.vec(solid.R), q) @ v, 3, 3)
            omega = ca.vertcat(spin[2, 1], spin[0, 2], spin[1, 0])
            tensor = np.asarray(solid.inertia)
            tensor = ca.DM(tensor if tensor.ndim == 2 else np.diag(tensor))
            T += 0.5 * solid.mass * ca.dot(speed, speed) + 0.5 * ca.dot(tensor @ omega, omega)
            twists.append(ca.vertcat(speed, omega))
            V -= solid.mass * ca.dot(ca.DM(gravity), solid.r)
        p = ca.gradient(T, v)
        M = ca.jacobian(p, v)
        Q = forces(q, v, t) + ca.gradient(T - V, q) - ca.jacobian(p, q) @ v
        parts = [ca.jacobian(c, q) for c in ([] if holonomic is None else [ca.SX(holonomic)])]
        parts += [ca.jacobian(ca.SX(row), v) for row in ([] if rolling is None else [rolling(q, v)])]
        A = ca.vertcat(ca.SX(0, n), *parts)
        drift = ca.jtimes(A @ v, q, v)
        K = ca.blockcat([[M, -A.T], [A, ca.SX(A.shape[0], A.shape[0])]])
        right = ca.vertcat(Q, -drift)
        poses = [ca.vertcat(solid.r, ca.vec(solid.R)) for solid in solids]
        self._poses = ca.Function("poses", [q, v], [ca.horzcat(*poses), ca.horzcat(*twists)])
        system = ca.densify(ca.horzcat(K, right))
        self._system = ca.Function("system", [ca.vertcat(q, v, t)], [system], {"cse": True})
        self.energy = ca.Function("energy", [q, v], [T + V])
        rows = ca.vertcat(ca.SX(0, 1), *([] if holonomic is None else [holonomic]))
        self._rows = ca.Function("rows", [q], [ca.densify(rows), ca.densify(ca.jacobian(rows, q)), ca.densify(A)])

    def closed(self, q: Sequence[float], v: Sequence[float]) -> tuple[Array, Array]:
        """The nearest coordinates that satisfy the holonomic rows, and the nearest rates that satisfy all."""
        there, moving = np.array(q, dtype=float), np.array(v, dtype=float)
        for _ in range(50):
            rows, slope, _ = (m.full() for m in self._rows(there))
            there -= np.linalg.pinv(slope) @ rows[:, 0]
        A = self._rows(there)[2].full()
        return there, moving - np.linalg.pinv(A) @ (A @ moving)

    def state(self, q: Sequence[float], v: Sequence[float]) -> tuple[Array, Array]:
        """Poses (bodies, 7) and velocities (bodies, 6) of all bodies, as the package writes them."""
        poses, twists = (m.full().T for m in self._poses(q, v))
        turns = Rotation.from_matrix(poses[:, 3:].reshape(-1, 3, 3).transpose(0, 2, 1))
        return np.hstack([poses[:, :3], turns.as_quat(scalar_first=True)]), twists

    def run(self, q: Sequence[float], v: Sequence[float], t: Array, tolerance: float = 1e-10) -> tuple[Array, Array]:
        """Coordinates and rates at times t, each (N, n)."""
        n = len(q)

        now, system = np.empty(2 * n + 1), np.empty(self._system.size_out(0)[::-1])
        buffer, evaluate = self._system.buffer()
        buffer.set_arg(0, now.data)
        buffer.set_res(0, system.data)

        def flow(time: float, state: Array) -> Array:
            now[:-1], now[-1] = state, time
            evaluate()
            return np.concatenate([state[n:], np.linalg.solve(system[:-1].T, system[-1])[:n]])

        start = np.concatenate([q, v]).astype(float)
        found = solve_ivp(flow, (t[0], t[-1]), start, "DOP853", t_eval=t, rtol=tolerance, atol=tolerance * 1e-2)
        assert found.success
        return found.y[:n].T, found.y[n:].T

    def along(self, expression: Any, q: Array) -> Array:
        """An expression of the coordinates along a motion, (N, m)."""
        function = ca.Function("along", [self.q], [ca.densify(ca.vec(ca.SX(expression)))])
        return np.asarray(function(q.T).full()).T
