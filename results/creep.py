"""How far dry friction holds a pendulum at rest: `python results/creep.py` writes creep.png and creep.md.

A pendulum is released inside its dead band, where gravity pulls with half of what dry friction holds. With exact
friction it stays there; with smooth friction it creeps at a rate in proportion to the width δ.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Problem, Recording, Spook, Variational, gravity

HERE = Path(__file__).parent
MASS, LENGTH, G, START, DURATION = 0.5, 0.2, 9.82, 0.05, 100.0
PULL = MASS * G * LENGTH * np.sin(START)
WIDTHS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
STEPPERS = (Spook(), Variational())


def problem() -> Problem:
    """A pendulum with dry friction of twice the torque of gravity at the start."""
    rod = Body("rod", mass=MASS, inertia=(1e-4, 0.005, 0.005))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        coulomb=2 * PULL,
    )
    model = Model(bodies=[rod], joints=[hinge], gravity=gravity(G))
    return Problem("creep", model=model, observations=[HingeAngle(hinge, signal="theta")], step=0.01)


def drift(run: Recording) -> np.ndarray:
    """How far the angle is from where it was released [rad]."""
    return np.abs(run.signals["theta"] - START)


if __name__ == "__main__":
    figure = Figure(figsize=(10, 4.5), layout="constrained", dpi=130)
    over_time, over_width = figure.subplots(1, 2)
    lines = []
    for stepper, marker in zip(STEPPERS, "os", strict=True):
        declared = problem().with_(stepper=stepper)
        exact = drift(declared.simulate(duration=DURATION, initial={"hinge": START}, friction="exact"))
        creeps = []
        for width in WIDTHS:
            run = declared.simulate(duration=DURATION, initial={"hinge": START}, friction_width=width)
            creeps.append(drift(run)[100] / run.t[100])
            lines.append(f"| {stepper.name} | {width:.0e} | {creeps[-1]:.3g} | {drift(run)[-1]:.3g} |")
            if isinstance(stepper, Spook):
                over_time.plot(run.t[1:], drift(run)[1:], lw=1.2, label=f"smooth, $\\delta$ = {width:.0e} rad/s")
        lines.append(f"| {stepper.name} | exact | {exact[100]:.2g} | {exact.max():.2g} (largest) |")
        if isinstance(stepper, Spook):
            over_time.plot(run.t[1:], np.maximum(exact[1:], 1e-17), lw=1.2, color="k", label="exact")
        over_width.plot(WIDTHS, creeps, marker, ms=6, mfc="none", label=f"{stepper.name}, first second")
    theory = np.array(WIDTHS) * np.arctanh(0.5)
    over_width.plot(WIDTHS, theory, "-", color="0.5", lw=1, label=r"$\delta\,\mathrm{artanh}(\tau/c)$, $\tau/c = 1/2$")
    over_time.set(yscale="log", xlabel="time [s]", ylabel="drift from the start [rad]", title="SPOOK, h = 10 ms")
    over_width.set(xscale="log", yscale="log", xlabel=r"width $\delta$ [rad/s]", ylabel="creep [rad/s]")
    for axes in (over_time, over_width):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(HERE / "creep.png")
    text = (
        "# Creep of a pendulum at rest under dry friction\n"
        "\n"
        "In this test a pendulum is released at rest where gravity pulls with half of the friction bound; "
        "the time step is h = 10 ms, and the simulation lasts 100 s. With `exact` friction the position is "
        "constant up to rounding errors. With `smooth` friction the pendulum creeps at the speed δ "
        "artanh(1/2), so that only the friction width limits the drift. The steps of `variational` are "
        "divided until the motion changes by less than 1e-6 rad; smaller creep cannot be resolved.\n"
        "\n"
        "| stepper | width δ [rad/s] | creep in the first second [rad/s] | drift after 100 s [rad] |\n"
        "|---|---|---|---|\n"
    )
    (HERE / "creep.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
