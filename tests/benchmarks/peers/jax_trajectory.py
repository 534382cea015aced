"""Least squares over all angles in JAX: Euler and Lagrange's equations by automatic differentiation, all times at once.

What an expert in JAX would write: a compiled function makes the banded normal equations, LAPACK solves them, with
Levenberg and Marquardt's damping around both. The disturbance of the torque is as large as spookid's.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.peers.task import LOWER, SIGMA, Array, Fit, Peer, measured
from benchmarks.problems import STEP
from benchmarks.shooting import SCALE
from scipy.linalg import solveh_banded

NAME = "all angles at once, JAX and LAPACK"
DISTURBANCE = 1e-3
"""Deviation of the torque [N m √s]."""


def lagrangian(angles: jax.Array, speeds: jax.Array, p: jax.Array) -> jax.Array:
    """Kinetic minus potential energy [J]."""

    def spot(angles: jax.Array) -> jax.Array:
        c1, s1, c2, s2 = jnp.cos(angles[0]), jnp.sin(angles[0]), jnp.cos(angles[1]), jnp.sin(angles[1])
        return 0.248 * jnp.array([c1, s1, 0.0]) + 0.092 * jnp.array([-s2 * s1, s2 * c1, -c2])

    velocity = jax.jvp(spot, (angles,), (speeds,))[1]
    spin = jnp.array([-jnp.cos(angles[1]) * speeds[0], speeds[1], jnp.sin(angles[1]) * speeds[0]])
    inertia = jnp.array([1e-4, p[1], 0.004])
    arm = 0.5 * (p[0] + 0.238 * 0.128**2 + 1e-4) * speeds[0] ** 2
    rod = 0.5 * 0.428 * velocity @ velocity + 0.5 * inertia @ spin**2
    return arm + rod - 0.428 * 9.82 * spot(angles)[2]


def torque(three: jax.Array, scaled: jax.Array) -> jax.Array:
    """Unexplained torque at the middle of three samples (6,), in its deviations, (2,)."""
    before, now, after = three[:2], three[2:4], three[4:]
    p, speeds, faster = scaled * SCALE, (after - before) / (2 * STEP), (after - 2 * now + before) / STEP**2
    momentum = jax.grad(lagrangian, 1)
    changes = jax.jvp(lambda q, v: momentum(q, v, p), (now, speeds), (speeds, faster))[1]
    left = changes - jax.grad(lagrangian)(now, speeds, p) + p[2:] * speeds
    return left * np.sqrt(STEP) / DISTURBANCE


def normal_equations(angles: Array) -> Callable[..., tuple[jax.Array, ...]]:
    """Function of the angles (n, 2) and parameters (4,): upper band, border, corner, both gradients, cost."""
    n = len(angles)

    @jax.jit
    def formed(q: jax.Array, scaled: jax.Array) -> tuple[jax.Array, ...]:
        three = jnp.concatenate([q[:-2], q[1:-1], q[2:]], axis=1)
        r = jax.vmap(torque, (0, None))(three, scaled)
        A = jax.vmap(jax.jacfwd(torque), (0, None))(three, scaled)
        B = jax.vmap(jax.jacfwd(torque, 1), (0, None))(three, scaled)
        H, C = jnp.einsum("kri,krj->kij", A, A), jnp.einsum("kri,krj->kij", A, B)
        g, seen = jnp.einsum("kri,kr->ki", A, r), (q - angles) / SIGMA
        band, border, slope = jnp.zeros((6, 2 * n)), jnp.zeros((2 * n, 4)), (seen / SIGMA).ravel()
        first = 2 * jnp.arange(n - 2)
        for i in range(6):
            border, slope = border.at[first + i].add(C[:, i]), slope.at[first + i].add(g[:, i])
            for j in range(i, 6):
                band = band.at[5 - (j - i), first + j].add(H[:, i, j])
        band = band.at[5].add(1 / SIGMA**2)
        cost = (jnp.sum(r**2) + jnp.sum(seen**2)) / 2
        return band, border, jnp.einsum("kri,krj->ij", B, B), slope, jnp.einsum("kri,kr->i", B, r), cost

    return formed


def stepped(equations: list[Array], damping: float) -> tuple[Array, Array]:
    """Changes of the angles and of the parameters."""
    band, border, corner, slope, end, _ = equations
    damped = band.copy()
    damped[5] *= 1 + damping
    solved = solveh_banded(damped, np.column_stack([border, slope]), check_finite=False)
    schur = corner * (1 + damping * np.eye(4)) - border.T @ solved[:, :4]
    change = -np.linalg.solve(schur, end - border.T @ solved[:, 4])
    return (-solved[:, 4] - solved[:, :4] @ change).reshape(-1, 2), change


def peer(steps: int) -> Peer:
    """Solver; the first call compiles."""
    jax.config.update("jax_enable_x64", True)
    angles = measured(steps)
    formed = normal_equations(angles)

    def solve(guess: Array) -> Fit:
        q, scaled, damping, note = angles, guess / SCALE, 1e-6, "100 iterations"
        current = [np.asarray(part) for part in formed(q, scaled)]
        for iteration in range(1, 101):
            moved, change = stepped(current, damping)
            trial = q + moved, np.maximum(scaled + change, LOWER[4:])
            new = [np.asarray(part) for part in formed(*trial)]
            if not new[-1] < current[-1]:
                damping *= 10
                continue
            gain, damping = current[-1] - new[-1], damping / 10
            (q, scaled), current = trial, new
            if gain < 1e-8 * new[-1]:
                note = f"{iteration} iterations, converged"
                break
        return Fit(scaled * SCALE, float(np.sqrt(np.mean((q - angles) ** 2))), note)

    return solve
