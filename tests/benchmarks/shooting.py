"""The usual way, for comparison: SciPy's least squares over a simulation, four parameters and the initial state.

The Furuta pendulum in its two angles from its kinetic and potential energy, classical Runge-Kutta steps with exact
forward sensitivities, in C that the system's compiler makes the most of.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import casadi as ca
import numpy as np
from benchmarks.problems import FOUR, STEP, furuta
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares

from spookid import Variational

Array = NDArray[np.float64]
March = Callable[[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong], None]

SCALE = np.array([1e-3, 1e-3, 1e-3, 1e-4])
SUBSTEPS = 2
COMPILER = os.environ.get("CC", "cc")
OPTIONS = ["-O3", "-march=native"]


def rate() -> ca.Function:
    """ẋ of x = (θ₁, θ₂, θ̇₁, θ̇₂), the rod hanging at θ₂ = 0; p = (J_Azz, J_Byy, b_1, b_2)."""
    angles, speeds, p = ca.SX.sym("angles", 2), ca.SX.sym("speeds", 2), ca.SX.sym("p", 4)
    c1, s1, c2, s2 = ca.cos(angles[0]), ca.sin(angles[0]), ca.cos(angles[1]), ca.sin(angles[1])
    radial, across, up = ca.vertcat(c1, s1, 0), ca.vertcat(-s1, c1, 0), ca.vertcat(0, 0, 1)
    along = s2 * across - c2 * up  # the rod from the elbow on
    spot = 0.248 * radial + 0.092 * along
    velocity = ca.jtimes(spot, angles, speeds)
    # Angular velocity of the rod in its own directions: along it, about the elbow, and across both.
    spin = ca.vertcat(ca.dot(up, along) * speeds[0], speeds[1], ca.dot(up, c2 * across + s2 * up) * speeds[0])
    inertia = ca.vertcat(1e-4, p[1], 0.004)
    kinetic = 0.5 * (p[0] + 0.238 * 0.128**2 + 1e-4) * speeds[0] ** 2
    kinetic += 0.5 * 0.428 * ca.dot(velocity, velocity) + 0.5 * ca.dot(inertia, spin**2)
    lagrangian = kinetic - 0.428 * 9.82 * spot[2]
    momentum = ca.gradient(lagrangian, speeds)
    force = ca.gradient(lagrangian, angles) - p[2:] * speeds
    faster = ca.solve(ca.jacobian(momentum, speeds), force - ca.jtimes(momentum, angles, speeds))
    return ca.Function("rate", [ca.vertcat(angles, speeds), p], [ca.vertcat(speeds, faster)])


def step() -> ca.Function:
    """One sample: (state with sensitivities (4, 1 + 8), scaled parameters (4,)) to the next state with its own."""
    whole, q = ca.SX.sym("whole", 4, 9), ca.SX.sym("q", 4)
    x, h = ca.SX.sym("x", 4), STEP / SUBSTEPS
    p, y, f = q * SCALE, x, rate()
    for _ in range(SUBSTEPS):
        k1 = f(y, p)
        k2 = f(y + h / 2 * k1, p)
        k3 = f(y + h / 2 * k2, p)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3, p))
    slopes = ca.jacobian(y, x) @ whole[:, 1:] + ca.horzcat(ca.DM(4, 4), ca.jacobian(y, q))
    following = ca.substitute([ca.horzcat(y, slopes)], [x], [whole[:, 0]])[0]
    return ca.Function("sample", [ca.vec(whole), q], [ca.cse(ca.densify(following))])


MARCH = """
__attribute__((visibility("default"))) void march(const double *q, double *path, long long count) {
  for (long long k = 1; k < count; ++k) {
    const double *arg[] = {path + 36 * (k - 1), q};
    double *res[] = {path + 36 * k};
    sample(arg, res, 0, 0, 0);
  }
}
"""


def compiled() -> March:
    """Marches along samples, each from the one before, in C."""
    generator = ca.CodeGenerator("march")
    generator.add(step())
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "march.c"), Path(folder, "march.so")
        source.write_text(generator.dump() + MARCH, encoding="ascii")
        subprocess.run(
            [COMPILER, *OPTIONS, "-fPIC", "-shared", "-fvisibility=hidden", str(source), "-lm", "-o", str(library)],
            check=True,
        )
        loaded = ctypes.CDLL(str(library))
    march: March = loaded.march
    return march


def simulate(march: March, unknowns: Array, count: int) -> Array:
    """(count, 9, 4): per sample the state and its derivatives."""
    path = np.zeros((count, 9, 4))
    path[0, 0], path[0, 1:5] = unknowns[:4], np.eye(4)
    q = np.ascontiguousarray(unknowns[4:])
    march(ctypes.c_void_p(q.ctypes.data), ctypes.c_void_p(path.ctypes.data), ctypes.c_longlong(count))
    return path


Solve = Callable[[Array], OptimizeResult]


def single_shooting(steps: int) -> Solve:
    """Solver of the 4-parameter problem from guesses of its parameters."""
    recording = furuta(Variational(), steps, 4).recordings[0]
    measured = np.column_stack([recording.signals[name][::10] for name in ("theta1", "theta2")])
    march = compiled()

    def residual(unknowns: Array) -> Array:
        return np.asarray((simulate(march, unknowns, len(measured))[:, 0, :2] - measured).ravel() / 1e-3)

    def slope(unknowns: Array) -> Array:
        path = simulate(march, unknowns, len(measured))
        return np.asarray(path[:, 1:, :2].transpose(0, 2, 1).reshape(-1, 8) / 1e-3)

    speeds = (measured[5] - measured[0]) / (5 * STEP)
    lower = np.concatenate([np.full(4, -np.inf), [1e-3, 1e-3, 0.0, 0.0]])

    def solve(guess: Array) -> OptimizeResult:
        start = np.concatenate([measured[0], speeds, guess / SCALE])
        return least_squares(residual, start, jac=slope, bounds=(lower, np.inf), x_scale="jac", max_nfev=200)

    return solve


def estimates(result: OptimizeResult) -> dict[str, float]:
    """By name."""
    return dict(zip(FOUR, (result.x[4:] * SCALE).tolist(), strict=True))
