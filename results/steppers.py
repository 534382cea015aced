"""Estimates of every stepper against the time step: `python results/steppers.py` writes steppers.png and steppers.md.

The data are made here: a Furuta pendulum in minimal coordinates, integrated to 1e-12, seen by two angles with noise of
0.001 rad. What is plotted is the error of each estimate; a stepper of second order falls with slope 2. The dashed line
is what the last kind would be without its extrapolation to continuous time. Takes minutes.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Spook, Variational, gravity

HERE = Path(__file__).parent
L_1, L_A, L_2, M_A, M_B, G = 0.128, 0.248, 0.092, 0.238, 0.428, 9.82
TRUTH = {"J_Azz": 0.003, "J_Byy": 0.004, "b_1": 1e-3, "b_2": 1e-4}
J_BXX, J_BZZ = 1e-4, 0.004
STEPS = (0.02, 0.01, 0.005, 0.0025)
STEPPERS = {
    "Spook, compliance 1e-4": (Spook(), 1e-4, 100.0),
    "Spook lifted, rigid": (Spook(multipliers="lifted"), 0.0, 100.0),
    "Variational": (Variational(), 0.0, 1e4),
    "Variational, state weight 1e6": (Variational(), 0.0, 1e6),
    "Variational, noise estimated": (Variational(), 0.0, None),
}
"""Compliance and state weight of each; without one the noise is estimated, with one every sensor's σ is 1."""

CORRECTED = "Variational, noise estimated"


def furuta(time: float, state: np.ndarray) -> np.ndarray:
    """Rates of (shoulder, elbow, their rates); the rod hangs at elbow angle 0."""
    _, elbow, w1, w2 = state
    s, c = np.sin(elbow), np.cos(elbow)
    # The rod's length axis is x: J_Bxx acts when it hangs, J_Bzz + m l² when it lies.
    swing = TRUTH["J_Byy"] + M_B * L_2**2
    lying = J_BZZ + M_B * L_2**2
    mass = np.array(
        [
            [TRUTH["J_Azz"] + M_A * L_1**2 + M_B * L_A**2 + lying * s**2 + J_BXX * c**2, M_B * L_A * L_2 * c],
            [M_B * L_A * L_2 * c, swing],
        ]
    )
    turn = 2 * (lying - J_BXX) * s * c
    force = np.array(
        [
            -turn * w1 * w2 + M_B * L_A * L_2 * s * w2**2 - TRUTH["b_1"] * w1,
            0.5 * turn * w1**2 - M_B * G * L_2 * s - TRUTH["b_2"] * w2,
        ]
    )
    return np.concatenate([[w1, w2], np.linalg.solve(mass, force)])


def recording() -> Recording:
    """Ten seconds at 400 Hz, released near upright."""
    t = np.arange(0.0, 10.0 + 1e-9, 0.0025)
    motion = solve_ivp(furuta, (0, t[-1]), [0, np.pi - 0.03, 0, 0], "DOP853", t, rtol=1e-12, atol=1e-12).y
    noise = np.random.default_rng(1).normal(0.0, 0.001, (2, t.size))
    return Recording(t=t, signals={"theta1": motion[0] + noise[0], "theta2": motion[1] + noise[1]})


def problem(measured: Recording, compliance: float) -> Problem:
    """The pendulum with four unknowns."""
    J_Azz, J_Byy = (Parameter(name, 0.01, lower=1e-7, unit="kg m^2") for name in ("J_Azz", "J_Byy"))
    b_1, b_2 = (Parameter(name, 1e-4, lower=0, unit="N m s") for name in ("b_1", "b_2"))
    arm = Body("A", mass=M_A, inertia=(1e-4, 0.003, J_Azz))
    rod = Body("B", mass=M_B, inertia=(J_BXX, J_Byy, J_BZZ))
    stand, axle = GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), arm.frame(at=(-L_1, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    tip, pin = arm.frame(at=(L_A - L_1, 0, 0), y=(0, 0, -1)), rod.frame(at=(-L_2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    shoulder = Hinge("shoulder", stand, axle, viscous=b_1, compliance=compliance, damping=0.02)
    elbow = Hinge("elbow", tip, pin, viscous=b_2, compliance=compliance, damping=0.02)
    return Problem(
        "steppers",
        model=Model(bodies=[arm, rod], joints=[shoulder, elbow], gravity=gravity(G)),
        recordings=[measured],
        observations=[HingeAngle(shoulder, signal="theta1"), HingeAngle(elbow, signal="theta2")],
    )


def errors(measured: Recording) -> dict[str, np.ndarray]:
    """Relative errors of each stepper and those that it tells, (steps, parameters, 2); NaN where a fit did not
    converge, or where nothing is told."""
    found = {}
    for name, (stepper, compliance, weight) in STEPPERS.items():
        rows = []
        for step in STEPS:
            options = {"stepper": stepper, "step": step, "state_weight": weight}
            solution = problem(measured, compliance).solve(**options)
            off = [(solution[p].estimate / t - 1, solution[p].step_error / t) for p, t in TRUTH.items()]
            rows.append(off if solution.status.value == "converged" else np.full((len(off), 2), np.nan))
            sys.stderr.write(f"{name}, h = {step}: {solution.status.value} after {solution.iterations} iterations\n")
        found[name] = np.array(rows)
    return found


def cell(off: float, told: float) -> str:
    """Both in percent."""
    if np.isnan(off):
        return "not converged"
    return f"{100 * off:+.2f} %" + ("" if np.isnan(told) else f" ({100 * told:+.2f})")


def table(found: dict[str, np.ndarray]) -> str:
    """Markdown: relative errors in percent."""
    lines = ["| stepper | h [s] | " + " | ".join(TRUTH) + " |", "|---" * (len(TRUTH) + 2) + "|"]
    for name, rows in found.items():
        for step, row in zip(STEPS, rows, strict=True):
            cells = " | ".join(cell(off, told) for off, told in row)
            lines.append(f"| {name} | {step:g} | {cells} |")
    return "\n".join(lines)


def picture(found: dict[str, np.ndarray]) -> Figure:
    """Absolute relative error against h, a panel a parameter."""
    figure = Figure(figsize=(11, 7), layout="constrained", dpi=130)
    colors = ("#D55E00", "#E69F00", "#0072B2", "#CC79A7", "#009E73")
    for i, (axis, name) in enumerate(zip(figure.subplots(2, 2, sharex=True).flat, TRUTH, strict=True)):
        for (label, rows), color, mark in zip(found.items(), colors, "osDv^", strict=True):
            axis.loglog(STEPS, np.abs(rows[:, i, 0]), mark + "-", color=color, label=label, ms=5)
        off, told = found[CORRECTED][:, i].T
        label = "noise estimated, not extrapolated"
        axis.loglog(STEPS, np.abs(off + told), "^--", color=colors[-1], mfc="white", label=label, ms=5)
        guide = np.array([STEPS[-1], STEPS[0]])
        axis.loglog(guide, 2e-3 * (guide / guide[0]) ** 2, ":", color="0.5", label="slope 2")
        axis.set_title(name)
        axis.set_xticks(STEPS, [f"{h:g}" for h in STEPS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set_ylabel("relative error")
        if i >= 2:
            axis.set_xlabel("time step h [s]")
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


if __name__ == "__main__":
    result = errors(recording())
    intro = (
        "# Estimates against the time step\n"
        "\n"
        "The table shows relative errors of four parameters of a Furuta pendulum. The data are an exact "
        "continuous-time motion with 0.001 rad of noise on two angles. In brackets is the discretization "
        "bias that the solution reports (`step_error`); it is missing with lifted multipliers and for "
        "parameters at a bound. With estimated noise, the estimates are extrapolated to step zero, and "
        "the number in brackets is the removed bias. The model with Spook has compliant hinges, and the "
        "data have rigid hinges. This model error does not depend on the step; for J_Byy it is about -2 "
        "%. The command `python results/steppers.py` writes this page.\n"
        "\n"
    )
    (HERE / "steppers.md").write_text(intro + table(result) + "\n\n![errors](steppers.png)\n", encoding="utf-8")
    picture(result).savefig(HERE / "steppers.png")
