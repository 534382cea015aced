"""Other mechanisms as factor graphs against Lagrange's equations in the angles of their links."""

from __future__ import annotations

import sys
from pathlib import Path

import casadi as ca
import numpy as np
from factor_graph_reference import Array
from matplotlib.figure import Figure

from spookid import planar
from spookid.graphs import forward_dynamics, simulated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from test_planar import REFERENCES, drive

STEP, SECONDS = 1e-3, 2.0
Points = list[planar.Point]


def slider_crank() -> tuple[planar.Mechanism, Points]:
    """That of ``problems/slider_crank.py`` with its true values."""
    A, line = planar.Ground("A", (0, 0)), planar.Ground("line", (1, 0))
    pin = planar.Point("pin", (0.06, 0.08))
    slider = planar.Point("slider", (0.06 + (0.3**2 - 0.08**2) ** 0.5, 0), mass=0.5)
    crank = planar.Link("crank", A, pin, mass=0.4, center=(0.02, 0), inertia=2e-3)
    guide = planar.FixedSlider("guide", slider, A, line, viscous=3.0)
    links = [crank, planar.Link("rod", pin, slider, mass=0.2)]
    system = planar.Mechanism(
        links, [planar.AbsoluteAngle("theta", crank), guide], [planar.Torque(crank, "torque")], gravity=9.81
    )
    return system, [slider]


def five_bar() -> tuple[planar.Mechanism, Points]:
    """That of ``problems/five_bar.py`` with its true values."""
    A, E = planar.Ground("A", (-0.1, 0)), planar.Ground("E", (0.1, 0))
    left, right = planar.Point("left", (-0.25, 0.2)), planar.Point("right", (0.25, 0.2))
    tool = planar.Point("tool", (0, 0.45), mass=0.3)
    upper = planar.Link("upper_1", A, left, mass=0.3), planar.Link("upper_2", E, right, mass=0.3)
    lower = planar.Link("lower_1", left, tool, mass=0.2), planar.Link("lower_2", right, tool, mass=0.2)
    loads = [planar.Torque(upper[0], "torque_1"), planar.Torque(upper[1], "torque_2")]
    pins = [planar.PinFriction(A, upper[0], viscous=0.02), planar.PinFriction(E, upper[1], viscous=0.03)]
    angles = [planar.AbsoluteAngle("theta_1", upper[0]), planar.AbsoluteAngle("theta_2", upper[1])]
    return planar.Mechanism([*upper, *lower], angles, [*loads, *pins], gravity=0), [tool]


def watt_linkage() -> tuple[planar.Mechanism, Points]:
    """That of ``problems/watt_linkage.py`` with its true values."""
    A, D = planar.Ground("A", (-0.5, 0.1)), planar.Ground("D", (0.5, -0.1))
    ceiling = planar.Ground("ceiling", (0, 0.5))
    upper, lower = planar.Point("upper", (0, 0.1)), planar.Point("lower", (0, -0.1))
    arm = planar.Link("arm_1", A, upper, mass=0.5)
    links = [arm, planar.Link("coupler", upper, lower, mass=3.0), planar.Link("arm_2", D, lower, mass=0.5)]
    spring = planar.Spring(ceiling, upper, stiffness=400.0, rest=0.25, damping=2.0)
    return planar.Mechanism(links, [planar.AbsoluteAngle("theta", arm)], [spring], gravity=9.81), [upper, lower]


MECHANISMS = {"slider_crank": slider_crank, "five_bar": five_bar, "watt_linkage": watt_linkage}


def expected(name: str, t: Array) -> Array:
    """The point that is compared: the slider, the tool, or the middle of Watt's coupler, (N, 2) [m]."""
    motion, angles, point = REFERENCES[name]()
    start, still = motion.closed(angles, np.zeros(len(angles)))
    return np.asarray(motion.along(point, motion.run(start, still, t, tolerance=1e-11)[0]))


def found(name: str, t: Array, coordinates: str) -> tuple[Array, int]:
    """The same by the forward graph, and its iterations."""
    system, points = MECHANISMS[name]()
    values = np.array(ca.Function("u", [s := ca.SX.sym("t")], [drive(name, s)])(t[None])).reshape(-1, len(t))
    data = dict(zip(system.signals, values, strict=True))
    q0 = system.assembled()
    graph = forward_dynamics(system, STEP, q0, coordinates=coordinates)  # type: ignore[arg-type]
    # From a simulation in steps twenty times as long, which is off by far more than what is asked of the graph.
    coarse = t[::20]
    guess = simulated(system, 20 * STEP, len(coarse), q0, data={key: one[::20] for key, one in data.items()})
    start = {key: np.array([np.interp(t, coarse, one) for one in part.T]).T for key, part in guess.items()}
    solution = graph.solve(len(t), data, start=start)
    if not solution.converged:
        raise RuntimeError(f"{name}, {coordinates}: {solution.detail}")
    columns = [[system.names.index(f"{point.name}.{axis}") for axis in "xy"] for point in points]
    return np.asarray(np.mean([solution["q"][:, pair] for pair in columns], axis=0)), solution.iterations


def linkages(path: Path, seconds: float = SECONDS) -> list[str]:
    """Rows of the page's table, and a figure of the points' paths."""
    t = STEP * np.arange(round(seconds / STEP) + 1)
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    panels = figure.subplots(2, 3, sharex="row")
    rows = []
    for column, name in enumerate(MECHANISMS):
        true, cells = expected(name, t), [name.replace("_", " "), f"{np.ptp(expected(name, t), axis=0).max():.2f} m"]
        for number, coordinates in enumerate(("dependent", "independent")):
            points, iterations = found(name, t, coordinates)
            error = np.linalg.norm(points - true, axis=1)
            cells.append(f"{error.max():.1e} m, {iterations}")
            panels[1, column].plot(t, error, color=f"C{number}", lw=0.9, label=coordinates)
            if number:
                panels[0, column].plot(t, points, label=["x", "y"])
        panels[0, column].plot(t[::100], true[::100], "k.", ms=3)
        panels[0, column].set_title(name.replace("_", " "), fontsize="medium")
        panels[1, column].set_xlabel("t [s]")
        rows.append("| " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    panels[0, 0].set_ylabel("position [m]; dots: reference")
    panels[1, 0].set_ylabel("distance from the reference [m]")
    panels[0, 0].legend(fontsize="small")
    panels[1, 0].legend(fontsize="small")
    figure.savefig(path, dpi=100)
    return rows
