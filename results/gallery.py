"""Figures of the gallery: `python results/gallery.py` writes docs/gallery/*.png. Needs `SPOOKID_DATA`; two minutes.

`python results/gallery.py emps cube` makes some of them. The ball and the quadrotor are those of their pages, whose
code is run. The UR10e and the B1 have figures of their own in this folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spookid import Solution, load_problem

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "gallery"
sys.path.insert(0, str(ROOT / "problems"))

MEASURED = {"color": "#E69F00", "linewidth": 3.5, "label": "measured"}
FOUND = {"color": "#0072B2", "linewidth": 1.2}
Curve = tuple[str, Any, Any, Any, Any]
"""Label of the axis, times and values that were measured, times and values of the model."""


def figure(curves: list[Curve], word: str) -> Figure:
    """Measured signals below those of the model, a panel each."""
    drawn = Figure(figsize=(6.4, 4.0), layout="constrained")
    panels: list[Axes] = list(drawn.subplots(len(curves), sharex=True, squeeze=False)[:, 0])
    for axes, (label, t, measured, times, values) in zip(panels, curves, strict=True):
        axes.plot(t, measured, **MEASURED)
        axes.plot(times, values, **FOUND, label=word)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.align_ylabels(panels)
    panels[-1].set_xlabel("t [s]")
    panels[0].legend(ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return drawn


def fitted(solution: Solution, *labels: str) -> Figure:
    """The first recording and its estimated motion, some of the signals."""
    print(solution.summary())
    motion = solution.trajectories[0]
    curves: list[Curve] = []
    for label in labels:
        i = motion.signals.index(label.split()[0])
        curves.append((label, motion.t, motion.observed[:, i], motion.t, motion.predicted[:, i]))
    return figure(curves, "estimated")


def solved(file: str, *labels: str) -> Figure:
    """That of a problem file."""
    return fitted(load_problem(str(ROOT / "problems" / file)).solve(), *labels)


def of_page(name: str, *labels: str) -> Figure:
    """That of the code on a page."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)), names)
    return fitted(names["solution"], *labels)


def servo() -> Figure:
    """Free simulations from the commands alone."""
    from data.convert import measured

    declared = load_problem(str(ROOT / "problems" / "servo_xl330.py") + "::all")
    solution = declared.solve()
    curves: list[Curve] = []
    for name in ("kp100_sin_time_square", "kp400_sin_time_square"):
        seen = measured(f"xl330_{name}")
        start = {"joint": float(seen.signal("q")[0]) - solution["zero"].estimate}
        run = declared.with_(recordings=[seen]).simulate(solution.values, initial=start)
        label = f"q [rad], gain {name[2:5]}"
        curves.append((label, seen.t, seen.signal("q"), run.t, run.signal("q")))
    return figure(curves, "simulated")


def cube() -> Figure:
    """Tosses in flight and through the first impact."""
    import contacts_cube as tosses

    runs, dt = tosses.tosses()
    radius, level, _ = tosses.geometry([runs[k] for k in tosses.FITTED], dt)
    return fitted(tosses.first_impacts(runs, dt, radius, level), "z [m]", "qy")


DEVICES: dict[str, Callable[[], Figure]] = {
    "pendulum": partial(solved, "pendulum.py", "theta [rad]"),
    "furuta": partial(solved, "furuta_swingup.py::swingup_500hz_1", "theta [rad]", "alpha [rad]"),
    "emps": partial(solved, "emps.py::symmetric", "qm [m]"),
    "fourbar": partial(solved, "fourbar.py", "crank [rad]", "rocker [rad]"),
    "ball": partial(of_page, "ball", "z [m]"),
    "quadrotor": partial(of_page, "quadrotor", "z [m]", "qx"),
    "servo": servo,
    "cube": cube,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or DEVICES:
        DEVICES[name]().savefig(PAGES / f"{name}.png", dpi=100)
