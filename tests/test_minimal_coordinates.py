"""The variational fit of a Furuta pendulum against one in its two hinge angles, written here from the equations alone.

Nothing of the package is in it: poses come from the angles, so that joints hold. In maximal coordinates p = M(v₊ − v) −
h f at the middle one of three poses, and a multiplier takes all but the share along Z = ∂pose/∂θ; in joint coordinates
Zᵀp is h times Lagrange's equation at the means and differences of the angles' rates. The cost is κ Σ|p̂|² + Σ|Δy|².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Literal

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, twin
from scipy import sparse
from scipy.sparse.linalg import splu

from spookid import Parameter, Problem, Variational

TRUTH = {"J_A": 0.003, "J_B": 0.004, "b_1": 1e-3, "b_2": 1e-3}
M_A, L_1, L_A, M_B, L_2, G = 0.238, 0.128, 0.248, 0.428, 0.092, 9.82
HANGING = ca.DM([[0, 1, 0], [0, 0, -1], [-1, 0, 0]])
"""The rod's attitude in the arm at angle 0."""


def about(axis: int, angle: ca.SX) -> ca.SX:
    """Rotation about the x (0) or the z axis (2)."""
    c, s = ca.cos(angle), ca.sin(angle)
    rows = [[1, 0, 0], [0, c, -s], [0, s, c]] if axis == 0 else [[c, -s, 0], [s, c, 0], [0, 0, 1]]
    return ca.vertcat(*(ca.horzcat(*row) for row in rows))


def poses(theta: ca.SX) -> list[ca.SX]:
    """Centre of mass and attitude of the arm, and of the rod."""
    arm = about(2, theta[0])
    rod = arm @ about(0, theta[1]) @ HANGING
    return [L_1 * arm[:, 0], arm, L_A * arm[:, 0] + L_2 * rod[:, 0], rod]


def axial(S: ca.SX) -> ca.SX:
    """The vector of the skew part of a matrix."""
    return ca.vertcat(S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]) / 2


def velocity(first: list[ca.SX], second: list[ca.SX], h: float) -> ca.SX:
    """From one pose to the next, angular velocities by the logarithm, in the world frame, (12,)."""
    parts = []
    for i in (0, 2):
        turn = second[i + 1] @ first[i + 1].T
        sine, cosine = ca.norm_2(axial(turn)), (ca.trace(turn) - 1) / 2
        parts += [second[i] - first[i], axial(turn) * ca.atan2(sine, cosine) / sine]
    return ca.vertcat(*parts) / h


@cache
def lagrangian(h: float) -> ca.Function:
    """L⁻¹ w of three angle pairs and the parameters with L Lᵀ = ZᵀZ, and its Jacobian."""
    angles = [ca.SX.sym(f"theta_{i}", 2) for i in range(3)]
    J_A, J_B, b_1, b_2 = (theta := ca.SX.sym("theta", 4)).elements()
    q, s, a = (ca.SX.sym(name, 2) for name in "qsa")
    r_A, R_A, r_B, R_B = poses(q)
    turns = [[axial(ca.reshape(ca.jacobian(R, x), 3, 3) @ R.T) for x in q.elements()] for R in (R_A, R_B)]
    Z = ca.vertcat(ca.jacobian(r_A, q), ca.horzcat(*turns[0]), ca.jacobian(r_B, q), ca.horzcat(*turns[1]))
    moments = [R @ ca.diag(J) @ R.T for R, J in zip((R_A, R_B), moments_of(J_A, J_B), strict=True)]
    H = Z.T @ ca.diagcat(M_A * ca.DM.eye(3), moments[0], M_B * ca.DM.eye(3), moments[1]) @ Z
    momentum, energy = H @ s, M_B * G * r_B[2]
    forces = ca.jtimes(momentum, q, s) + H @ a - ca.gradient(ca.dot(s, momentum) / 2 - energy, q)
    w = h * (forces + ca.vertcat(b_1 * s[0], b_2 * s[1]))
    rates = [(angles[i + 1] - angles[i]) / h for i in range(2)]
    values = [angles[1], (rates[0] + rates[1]) / 2, (rates[1] - rates[0]) / h]
    (share,) = ca.substitute([ca.solve(ca.chol(Z.T @ Z).T, w)], [q, s, a], values)
    known = [*angles, theta]
    return ca.Function("lagrangian", known, [share, ca.jacobian(share, ca.vertcat(*known))])


def moments_of(J_A: ca.SX, J_B: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Principal moments of the arm and of the rod."""
    return ca.vertcat(1e-4, 0.003, J_A), ca.vertcat(1e-4, J_B, 0.004)


@cache
def residual(h: float) -> ca.Function:
    """p̂ of three angle pairs and the parameters, and its Jacobian."""
    angles = [ca.SX.sym(f"theta_{i}", 2) for i in range(3)]
    J_A, J_B, b_1, b_2 = (theta := ca.SX.sym("theta", 4)).elements()
    before, here, after = (poses(a) for a in angles)
    v, v_next = velocity(before, here, h), velocity(here, after, h)
    inertia_A, inertia_B = (R @ ca.diag(J) @ R.T for R, J in zip(here[1::2], moments_of(J_A, J_B), strict=True))
    omega_A, omega_B = ((v + v_next) / 2)[3:6], ((v + v_next) / 2)[9:12]
    up, axle = ca.DM([0, 0, 1]), here[1][:, 0]
    shoulder, elbow = b_1 * ca.dot(omega_A, up) * up, b_2 * ca.dot(omega_B - omega_A, axle) * axle
    torque_A = elbow - shoulder - ca.cross(omega_A, inertia_A @ omega_A)
    force = ca.vertcat(-M_A * G * up, torque_A, -M_B * G * up, -elbow - ca.cross(omega_B, inertia_B @ omega_B))
    M = ca.diagcat(M_A * ca.DM.eye(3), inertia_A, M_B * ca.DM.eye(3), inertia_B)
    turns = [[axial(ca.reshape(ca.jacobian(R, a), 3, 3) @ R.T) for a in angles[1].elements()] for R in here[1::2]]
    Z = ca.vertcat(
        ca.jacobian(here[0], angles[1]), ca.horzcat(*turns[0]), ca.jacobian(here[2], angles[1]), ca.horzcat(*turns[1])
    )
    share = ca.solve(ca.chol(Z.T @ Z).T, Z.T @ (M @ (v_next - v) - h * force))
    known = [*angles, theta]
    return ca.Function("residual", known, [share, ca.jacobian(share, ca.vertcat(*known))])


def fit(one_step: ca.Function, y: Array, weight: float, start: list[float]) -> Array:
    """J_A, J_B, b_1, b_2 by Gauss-Newton from the samples (N, 2), all angles and parameters free."""
    n, x, values = len(y), y.copy(), np.array(start)
    step_of = one_step.map(n - 2)
    rows = np.arange(2 * (n - 2)).reshape(-1, 2, 1)
    columns = np.concatenate(
        [2 * np.arange(n - 2)[:, None] + np.arange(6), np.tile(2 * n + np.arange(4), (n - 2, 1))], 1
    )
    seen = sparse.eye_array(2 * n, 2 * n + 4)
    for _ in range(30):
        p, J = step_of(x[:-2].T, x[1:-1].T, x[2:].T, np.tile(values, (n - 2, 1)).T)
        slopes = np.array(J).reshape(2, n - 2, 10).swapaxes(0, 1) * np.append(np.ones(6), values)
        places = np.broadcast_to(rows, slopes.shape).ravel(), np.broadcast_to(columns[:, None], slopes.shape).ravel()
        A = sparse.coo_array((np.sqrt(weight) * slopes.ravel(), places), shape=(2 * (n - 2), 2 * n + 4))
        whole = sparse.vstack([A, seen]).tocsc()
        r = np.concatenate([np.sqrt(weight) * np.array(p).T.ravel(), (x - y).ravel()])
        step = -splu((whole.T @ whole).tocsc()).solve(whole.T @ r)
        x, values = x + step[:-4].reshape(-1, 2), values * (1 + step[-4:])
        if np.abs(step[-4:]).max() < 1e-10:
            return values
    raise AssertionError("no convergence")


def release(h: float) -> Problem:
    """A noisy release of a twin whose inertias and frictions are unknown."""
    p = {name: Parameter(name, 1.2 * value, lower=0.1 * value) for name, value in TRUTH.items()}
    model = furuta(inertias=(p["J_A"], p["J_B"], 0.004), shoulder={"viscous": p["b_1"]}, elbow={"viscous": p["b_2"]})
    start = {"shoulder": 0.3, "elbow": 2.0}
    return twin(model, TRUTH, initial=start, duration=3.0, noise=1e-3, stepper=Variational(), step=h)


@pytest.mark.parametrize(("coordinates", "one_step"), [("maximal", residual), ("joint", lagrangian)])
@pytest.mark.parametrize(
    ("h", "state_weight"),
    [(0.02, 1e2), (0.02, 1e8), *(pytest.param(h, 1e4, marks=pytest.mark.study) for h in (0.02, 0.01))],
)
def test_one_estimate_in_all_coordinates_and_in_two(
    h: float, state_weight: float, coordinates: Literal["joint", "maximal"], one_step: Callable[[float], ca.Function]
) -> None:
    problem = release(h)
    problem = problem.with_(model=replace(problem.model, coordinates=coordinates))
    (recording,) = problem.recordings
    y = np.column_stack([recording.signals[name] for name in ("shoulder", "elbow")])
    solution = problem.solve(state_weight=state_weight, decrease_tolerance=1e-15)
    found = fit(one_step(h), y, state_weight, [1.2 * value for value in TRUTH.values()])
    np.testing.assert_allclose([solution[name].estimate for name in TRUTH], found, rtol=1e-6)
