"""The torque that a motion of the four-bar's crank takes, and the motion that this torque makes: Figure 8."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import casadi as ca
import numpy as np
from factor_graph_reference import Array, fourbar, functions, moved, torque
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from spookid.graphs import STAGES, GraphSolution, Sigmas, forward_dynamics, inverse_dynamics, simulated
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt

STEP, SECONDS, RESTART = 1e-3, 10.0, 0.2
LIMIT = 1e-3
"""Of the tracking error [rad]."""
FINE = Sigmas((1e-9, 1e-6), 1e-4)
"""What softness leaves in the trapezoidal rows is then rounding. The forward graph's cost is 0 with any noise."""
CHUNK, TO_THE_END = 100, LevenbergMarquardt(negligible_cost=0.0, damping=1e-14, max_iterations=5)
"""Steps of the forward graph that are solved together, until nothing moves: ending where the cost is rounding, as by
default, leaves errors of 1e-13."""


def reference(t: Array) -> tuple[Array, Array, Array]:
    """θ, ω and α, each (N,)."""
    return 1.2 * (1 - np.cos(2 * t)), 2.4 * np.sin(2 * t), 4.8 * np.cos(2 * t)


@dataclass(frozen=True)
class Tracked:
    """All that Figure 8 shows."""

    t: Array
    solution: GraphSolution
    """In independent coordinates."""
    wanted: Array
    """Torque by minimal coordinates (N,) [N m]."""
    forward: Array
    """Angle that the forward factors give for the torque (N,)."""
    integrated: Array
    """That another integrator gives, started once (N,)."""
    restarted: Array
    """Error of the same, started anew at intervals (N,) [rad]."""
    growth: Array
    """By how much an error in the state at 0 may have grown, (N,)."""
    rounding: Array
    """Standard deviation of θ if each step rounds both coordinates of the state by 2.2e-16 (N,) [rad]."""

    @property
    def error(self) -> Array:
        """Of the forward factors (N,) [rad]."""
        return np.abs(self.forward - reference(self.t)[0])


def inverse(t: Array, coordinates: str) -> GraphSolution:
    """The solution of the inverse problem; by dependent coordinates in the paper's four stages."""
    system = fourbar()
    data, start = {"reference": reference(t)[0]}, {"q": system.assembled()}
    if coordinates == "dependent":
        return inverse_dynamics(system, STEP, ["reference"]).solve(len(t), data, start=start, stages=STAGES)
    graph = inverse_dynamics(system, STEP, ["reference"], coordinates="independent", noise=FINE)
    return graph.solve(len(t), data, start=start)


def tracked(seconds: float = SECONDS) -> Tracked:
    """The inverse problem, then its torque given to forward factors and to another integrator."""
    t = STEP * np.arange(round(seconds / STEP) + 1)
    solution = inverse(t, "independent")
    effort = solution["Q"][:, 0]
    spline = CubicSpline(t, effort)
    start = float(solution["z"][0, 0]), float(solution["dz"][0, 0])
    integrated = moved(t, lambda s: float(spline(s)), start)[0]
    again = restarted(t, spline)
    return Tracked(t, solution, torque(*reference(t)), forward(solution), integrated, again, *growth(t, effort))


def forward(solution: GraphSolution) -> Array:
    """Angles that the forward factors give from the first state and the torque, a tenth of a second after the other,
    each from where the last one ended (N,)."""
    system, effort = fourbar(), solution["Q"][:, 0]
    q, v, found = solution["q"][0], solution["v"][0], [solution["z"][:1, 0]]
    for first in range(0, len(effort) - 1, CHUNK):
        data = {"torque": effort[first : first + CHUNK + 1]}
        steps = len(data["torque"])
        graph = forward_dynamics(system, STEP, q, v, coordinates="independent", noise=FINE)
        part = graph.solve(steps, data, start=simulated(system, STEP, steps, q, v, data), solver=TO_THE_END)
        q, v = part["q"][-1], part["v"][-1]
        found.append(part["z"][1:, 0])
    return np.concatenate(found)


def restarted(t: Array, effort: CubicSpline) -> Array:
    """Errors of an integrator that begins anew at the reference (N,)."""
    many, found = round(RESTART / STEP), np.zeros(len(t))
    for first in range(0, len(t) - 1, many):
        part = slice(first, min(first + many + 1, len(t)))
        θ, ω, _ = reference(t[part])
        found[part] = moved(t[part], lambda s: float(effort(s)), (θ[0], ω[0]))[0] - θ
    return found


def growth(t: Array, effort: Array) -> tuple[Array, Array]:
    """The largest singular value of d state(t) / d state(0) along the reference, the torque given in time, and the
    standard deviation of θ by rounding in all steps, each (N,); by the trapezoidal rule for the linearized motion."""
    y, τ = ca.SX.sym("y", 2), ca.SX.sym("τ")
    J, slope, weight = ca.vertsplit(functions()["terms"](y[0]))
    flow = ca.vertcat(y[1], (τ - slope / 2 * y[1] ** 2 - weight) / J)
    slopes = ca.Function("slopes", [y, τ], [ca.jacobian(flow, y)])
    θ, ω, _ = reference(t)
    A = np.asarray(slopes(np.vstack([θ, ω]), effort[None]).full()).reshape(2, len(t), 2).transpose(1, 0, 2)
    one, found, deviation = np.eye(2), np.ones(len(t)), np.zeros(len(t))
    Φ, P = one, np.finfo(float).eps ** 2 * one
    for k in range(len(t) - 1):
        step = np.linalg.solve(one - STEP / 2 * A[k + 1], one + STEP / 2 * A[k])
        Φ, P = step @ Φ, step @ P @ step.T + np.finfo(float).eps ** 2 * one
        found[k + 1], deviation[k + 1] = np.linalg.norm(Φ, 2), np.sqrt(P[0, 0])
    return found, deviation


def left(t: Array, error: Array) -> str:
    """When an error first exceeds the limit."""
    beyond = np.flatnonzero(np.abs(error) > LIMIT)
    return f"{t[beyond[0]]:.2f} s" if len(beyond) else f"not within {t[-1]:.0f} s"


def figure_8(run: Tracked, path: Path) -> None:
    """Angle, torque and tracking error."""
    t, θ = run.t, reference(run.t)[0]
    figure = Figure(figsize=(10, 7), layout="constrained")
    a, b, c = figure.subplots(3, 1, sharex=True)
    a.plot(t, run.forward, label="forward factors, by the torque below")
    a.plot(t[::200], θ[::200], "k.", ms=4, label="reference")
    a.set(ylabel="(a) θ [rad]", ylim=(-1, 4))
    b.plot(t, run.solution["Q"][:, 0], label="inverse dynamics, factors")
    b.plot(t[::200], run.wanted[::200], "k.", ms=4, label="minimal coordinates")
    b.set_ylabel("(b) torque [N m]")
    tiny = 1e-17
    c.semilogy(t, np.maximum(np.abs(run.integrated - θ), tiny), color="C1", label="DOP853 fed the torque, started once")
    c.semilogy(t, np.maximum(np.abs(run.restarted), tiny), color="C2", lw=0.8, label="DOP853, started anew every 0.2 s")
    c.semilogy(t, np.maximum(run.error, tiny), color="C0", label="forward factors fed the torque")
    c.semilogy(t, np.maximum(run.rounding, tiny), "k--", lw=1, label="rounding of 2e-16 in each step, grown")
    c.axhline(LIMIT, color="0.6", lw=1)
    c.set(ylabel="(c) error of θ [rad]", xlabel="t [s]", ylim=(1e-17, 10))
    for panel in (a, b, c):
        panel.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=100)


def lines(run: Tracked) -> list[str]:
    """Rows of the page's table."""
    dependent = inverse(run.t, "dependent")
    rows = [
        (f"torque, independent coordinates, largest error of {np.abs(run.wanted).max():.0f} N m", run.solution),
        ("torque, dependent coordinates, four stages, largest error", dependent),
    ]
    found = [
        f"| {what} | {np.abs(one['Q'][:, 0] - run.wanted).max():.1e} N m, {one.iterations} iterations, "
        f"{one.seconds:.1f} s |"
        for what, one in rows
    ]
    last = run.t[-1]
    return [
        *found,
        f"| an error of the state at 0 has grown after {last:.0f} s by | {run.growth[-1]:.1e} |",
        f"| that is a rate of | {np.log(run.growth[-1]) / last:.2f} /s |",
        f"| rounding of 2.2e-16 in each step would reach 1 mrad at | {left(run.t, run.rounding)} |",
        f"| forward factors fed the torque are beyond 1 mrad at | {left(run.t, run.error)} |",
        f"| their error a second before that | {run.error[np.flatnonzero(run.error > LIMIT)[0] - 1000]:.1e} rad |",
        f"| another integrator of the torque, started once, is beyond 1 mrad at | "
        f"{left(run.t, run.integrated - reference(run.t)[0])} |",
        f"| started anew at the reference every 0.2 s, largest error | {np.abs(run.restarted).max():.1e} rad |",
    ]
