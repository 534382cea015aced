"""The four-bar's free motion as a factor graph, step by step: Table 1, Figure 7 and the two branches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import casadi as ca
import numpy as np
from factor_graph_reference import Array, fourbar, moved, pictured
from matplotlib.figure import Figure

from spookid import FixedLagSmoother
from spookid.graphs import Dynamics, Graph, PositionConstraint, Prior, Trapezoid, VelocityConstraint, forward_dynamics

Coordinates = Literal["dependent", "independent"]
STEP, STEPS = 1e-3, 5001
WINDOWS = range(2, 11)
PUBLISHED = {
    "dependent": (2.361, 2.356, 2.352, 2.348, 2.344, 2.341, 2.338, 2.335, 2.332),
    "independent": (23.834, 19.645, 20.019, 16.647, 16.677, 16.677, 16.677, 17.056, 16.677),
}
"""RMSE of q of Table 1 [mm]."""


@dataclass(frozen=True)
class Run:
    """A motion as the newest step of each update has it."""

    q: Array
    """Of P1 and P2, (N, 4) [m]."""
    v: Array
    iterations: Array
    """Of each update, (N,)."""
    unfinished: int
    """Updates that had not converged."""
    violation: float
    """The largest |Φ| [m or m²]."""
    seconds: float
    """CPU time of an update, what it gives with its covariance included [s]."""

    def errors(self, θ: Array, ω: Array) -> tuple[Array, Array]:
        """Of q and v against a motion of the crank, each (N, 4)."""
        q, v = pictured(θ, ω)
        return self.q - q, self.v - v


def table_2(kind: Coordinates) -> Graph:
    """The graph with the noise of Table 2 to the letter: roots of its covariances, and hard rows where they are zero.

    The position of the first step is given by its independent coordinate, which with the closed loop is the same as by
    all, and its rates have 1e-3 for independent ones and 1 for others.
    """
    system = fourbar(angle=kind == "independent")
    q0, own = system.assembled(), system.independent[0]
    name = system.names[own]
    x, dx, ddx = ("q", "v", "a") if kind == "dependent" else ("z", "dz", "ddz")
    rates = [1e-3**0.5 if i == own else 1.0 for i in range(len(q0))]
    first = [Prior("q", (q0[own],), rows=(name,)), Prior("v", (0.0,) * len(q0), sigma=rates)]
    return Graph(
        system,
        [
            *first,
            Trapezoid(x, dx, sigma=1e-2**0.5),
            Trapezoid(dx, ddx, sigma=1e-2**0.5),
            Dynamics(kind, sigma=1e-4**0.5),
            PositionConstraint(kind),
            VelocityConstraint(kind),
        ],
        step=STEP,
    )


def followed(graph: Graph, window: int, steps: int = STEPS, start: Array | None = None) -> Run:
    """The motion that a fixed-lag smoother finds."""
    system = graph.system
    smoother = FixedLagSmoother(graph, window, start={"q": system.assembled() if start is None else start})
    still = dict.fromkeys(graph.signals, 0.0)
    q, v, iterations = np.zeros((steps, len(system.names))), np.zeros((steps, 4)), np.zeros(steps, dtype=int)
    begin, unfinished = time.process_time(), 0
    for k in range(steps):
        found = smoother.update(k * graph.step, still)
        q[k], v[k], iterations[k] = found.variables["q"], found.variables["v"][:4], found.iterations
        unfinished += not found.converged
    seconds = (time.process_time() - begin) / steps
    closed = ca.Function("phi", [x := ca.SX.sym("q", len(system.names))], [system.constraint(x)])
    return Run(q[:, :4], v, iterations, unfinished, float(np.abs(closed(q.T).full()).max()), seconds)


def rmse(errors: Array) -> float:
    """Over all steps and coordinates."""
    return float(np.sqrt(np.mean(errors**2)))


def table_1() -> tuple[list[str], Run]:
    """Rows of the page's table, and the run of Figure 7."""
    t = STEP * np.arange(STEPS)
    θ, ω = moved(t)
    rows, shown = [], None
    for i, window in enumerate(WINDOWS):
        cells = [str(window)]
        for kind in PUBLISHED:
            run = followed(table_2(kind), window)
            shown = shown or run
            q, v = run.errors(θ, ω)
            cells += [
                f"{rmse(q):.2e}",
                f"{rmse(v):.2e}",
                f"{np.mean(run.iterations[1:]):.1f}, {np.max(run.iterations[1:])}",
                f"{run.violation:.0e}",
                f"{1e3 * run.seconds:.2f}",
                f"{1e-3 * PUBLISHED[kind][i]:.2e}",
            ]
            print(f"window {window}, {kind}: {' '.join(cells[-6:])}; not converged {run.unfinished}", flush=True)
        rows.append("| " + " | ".join(cells) + " |")
    assert shown is not None
    return rows, shown


def figure_7(run: Run, path: Path) -> None:
    """Histories and errors of the coordinates and their rates."""
    t = STEP * np.arange(len(run.q))
    θ, ω = moved(t)
    exact = pictured(θ, ω)
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    names = ("P₁ x", "P₁ y", "P₂ x", "P₂ y")
    for column, (found, true, unit) in enumerate(((run.q, exact[0], "m"), (run.v, exact[1], "m/s"))):
        for i, name in enumerate(names):
            panels[0, column].plot(t, found[:, i], color=f"C{i}", label=name)
            panels[0, column].plot(t[::100], true[::100, i], ".", color=f"C{i}", ms=4)
            panels[1, column].plot(t, found[:, i] - true[:, i], color=f"C{i}", lw=0.8)
        panels[0, column].set_ylabel(f"{('q', 'q̇')[column]} [{unit}]")
        panels[1, column].set_ylabel(f"error of {('q', 'q̇')[column]} [{unit}]")
        panels[1, column].ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
        panels[1, column].set_xlabel("t [s]")
    panels[0, 1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1), title="dots: reference")
    figure.savefig(path, dpi=100)


def branches(path: Path) -> list[str]:
    """The two assemblies at one crank angle, each followed for a second; a line of the page for each."""
    system, steps = fourbar(), 1001
    t = STEP * np.arange(steps)
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines = []
    for number, (branch, q0) in enumerate(system.branches({"theta": 0.0}).items()):
        side = 1 if q0[3] > 0 else -1
        run = followed(forward_dynamics(system, STEP, q0, coordinates="independent"), 3, steps, q0)
        θ, ω = moved(t, side=side)
        exact = pictured(θ, ω, side)
        error = rmse(run.q - exact[0])
        held = sum(system.branch(np.append(q, angle)) == branch for q, angle in zip(run.q, θ, strict=True))
        lines.append(
            f"| C = {branch} | ({q0[2]:.0f}, {q0[3]:.0f}) | {θ[-1]:.6f} | {error:.1e} | {rmse(run.v - exact[1]):.1e} | "
            f"{held} of {steps} |"
        )
        color = f"C{number}"
        frame = np.array([[0, 0], q0[:2], q0[2:4], [4, 0]])
        left.plot(*frame.T, "o-", color=color, label=f"C = {branch}")
        left.plot(*run.q[:, 2:].T, color=color, lw=0.8, ls="--")
        right.plot(t, run.q[:, 3], color=color)
        right.plot(t[::50], exact[0][::50, 3], ".", color=color)
    left.set(aspect="equal", xlabel="x [m]", ylabel="y [m]")
    left.set_title("at θ = 0; dashed: path of P₂ in a second", fontsize="medium")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    right.set(xlabel="t [s]", ylabel="y of P₂ [m]; dots: reference")
    figure.savefig(path, dpi=100)
    return lines
