"""Dry friction in its three forms and both backends: `python results/friction.py` writes friction.md and friction.png.

The data are made here: a Furuta pendulum with Coulomb friction in both hinges, pushed by pulses of torque, simulated
with exact friction, substeps refined to 1e-6 rad, and seen by two angles with noise of 0.001 rad. What differs between
two rows is the form of friction and the solver. A table of `tests/benchmarks/ways.py` is below; with `--kept FILE` an
interrupted run goes on from that file.
"""

import argparse
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    Variational,
    gravity,
)

HERE = Path(__file__).parent
L_1, L_A, L_2 = 0.128, 0.248, 0.092
STEP, DURATION, NOISE, SEED = 0.005, 10.0, 1e-3, 0
STATE_WEIGHT = 1e4
TRUTH = {"c_1": 0.02, "c_2": 0.03, "b_1": 1e-3, "b_2": 1e-3, "J_Azz": 0.003, "J_Byy": 0.004, "K": 0.1}
GUESS = {"c_1": 0.01, "c_2": 0.01, "b_1": 1e-4, "b_2": 1e-4, "J_Azz": 0.01, "J_Byy": 0.01, "K": 0.05}
UNITS = {"c": "N m", "b": "N m s", "J": "kg m^2", "K": "N m/V"}
IDENTIFIABLE = 0.02
"""A parameter counts as identifiable if its standard error is at most this share of it."""
HINGES = ("shoulder", "elbow")


class Way(NamedTuple):
    """One way to solve."""

    name: str
    options: dict[str, Any]


LM_EXACT, LM_SMOOTH, IPOPT_SMOOTH, IPOPT_MPCC = "LM, exact", "LM, smooth", "IPOPT, smooth", "IPOPT, mpcc"
IPOPT = {"backend": "ipopt", "max_iterations": 300}
WAYS = (
    Way(LM_EXACT, {"friction": "exact", "max_iterations": 300}),
    Way(LM_SMOOTH, {"friction": "smooth", "max_iterations": 300}),
    Way(IPOPT_SMOOTH, IPOPT | {"friction": "smooth"}),
    Way(IPOPT_MPCC, IPOPT | {"friction": "mpcc"}),
)


class Fit(NamedTuple):
    """A solution and the processor time that all of it took [s]."""

    way: Way
    solution: Solution
    seconds: float


def model(values: dict[str, Any]) -> Model:
    """The pendulum with numbers or Parameters; the rod hangs at elbow angle 0."""
    arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, values["J_Azz"]))
    rod = Body("B", mass=0.428, inertia=(1e-4, values["J_Byy"], 0.004))
    stand, axle = GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), arm.frame(at=(-L_1, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    tip, pin = arm.frame(at=(L_A - L_1, 0, 0), y=(0, 0, -1)), rod.frame(at=(-L_2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    soft = {"compliance": 1e-4, "damping": 0.02}
    shoulder = Hinge("shoulder", stand, axle, viscous=values["b_1"], coulomb=values["c_1"], **soft)
    elbow = Hinge("elbow", tip, pin, viscous=values["b_2"], coulomb=values["c_2"], **soft)
    motor = Motor(shoulder, signal="u", gain=values["K"])
    return Model(bodies=[arm, rod], joints=[shoulder, elbow], motors=[motor], gravity=gravity(9.82))


def problem(values: dict[str, Any], recording: Recording) -> Problem:
    """The pendulum with a recording."""
    mechanism = model(values)
    seen = [HingeAngle(joint, signal=joint.name, sigma=1.0) for joint in mechanism.joints]
    return Problem(
        "friction",
        model=mechanism,
        recordings=[recording],
        observations=seen,
        step=STEP,
        state_weight=STATE_WEIGHT,
        stepper=Variational(),
    )


def measured() -> tuple[Recording, Recording]:
    """The motion without noise and with it: pulses of 0.25 s every 2.5 s, of alternating sign."""
    t = np.arange(0.0, DURATION + STEP / 2, STEP)
    u = np.where(t % 2.5 < 0.25, 1.2, 0.0) * np.where(t // 2.5 % 2 == 0, 1, -1)
    inputs = Recording(t=t, signals={"u": u} | dict.fromkeys(HINGES, 0 * t))
    clean = problem(TRUTH, inputs).simulate(initial={"elbow": 1.2}, friction="exact")
    rng = np.random.default_rng(SEED)
    return clean, clean.with_signals(**{h: clean.signals[h] + NOISE * rng.standard_normal(t.size) for h in HINGES})


def shares(clean: Recording) -> dict[str, float]:
    """Share of the steps in which each hinge of the motion without noise stands still."""
    return {hinge: float(np.mean(np.abs(np.diff(clean.signals[hinge])) < 1e-12)) for hinge in HINGES}


def fits(recording: Recording) -> dict[str, Fit]:
    """Solve in all ways."""
    unknown = {name: Parameter(name, guess, lower=0, unit=UNITS[name[0]]) for name, guess in GUESS.items()}
    declared = problem(unknown, recording)
    found: dict[str, Fit] = {}
    for way in WAYS:
        began = time.process_time()
        solution = declared.solve(**way.options)
        found[way.name] = Fit(way, solution, time.process_time() - began)
        sys.stderr.write(f"{way.name}: {solution.status.value} after {solution.iterations}\n")
    return found


def difference(one: Solution, other: Solution) -> tuple[float, float]:
    """Largest relative difference of an identifiable parameter, and of any."""
    off = {name: abs(one[name].estimate / p.estimate - 1) for name, p in other.parameters.items()}
    identifiable = [name for name, p in other.parameters.items() if p.std_err <= IDENTIFIABLE * p.estimate]
    return max(off[name] for name in identifiable), max(off.values())


def rows(found: dict[str, Fit]) -> list[str]:
    """Markdown: a row a way of solving."""
    lines = [
        "| | "
        + " | ".join(TRUTH)
        + " | from LM, exact | all | cost | residual [N m s] | sticks | status | processor |",
        "|---" * (len(TRUTH) + 8) + "|",
        "| truth | " + " | ".join(f"{value:g}" for value in TRUTH.values()) + " | | | | | | | |",
    ]
    exact = found[LM_EXACT].solution
    for name, (_, solution, seconds) in found.items():
        near, far = difference(solution, exact)
        cells = [
            name,
            *(f"{solution[p].estimate:.5g}" for p in TRUTH),
            f"{near:.2%}",
            f"{far:.2%}",
            f"{solution.cost.total:.6g}",
            f"{solution.complementarity_residual:.1e}",
            " ".join(f"{solution.sticking[h]:.0%}" for h in HINGES),
            f"{solution.status.value}, {solution.iterations}",
            f"{seconds:.1f} s",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    errors = [f"{exact[p].std_err / exact[p].estimate:.1%}" for p in TRUTH]
    lines.append("| standard error of LM, exact | " + " | ".join(errors) + " | | | | | | | |")
    return lines


def text(clean: Recording, found: dict[str, Fit]) -> str:
    """The table, and how far apart the two backends are on the same smooth problem."""
    still = " and ".join(f"the {hinge} sticks during {share:.0%} of the time" for hinge, share in shares(clean).items())
    apart = difference(found[IPOPT_SMOOTH].solution, found[LM_SMOOTH].solution)
    ends = f"On the same smooth problem, the estimates by IPOPT and LM differ by at most {apart[1]:.1e}.\n"
    return f"In the motion without noise, {still}.\n\n" + "\n".join(rows(found)) + "\n\n" + ends


def picture(solution: Solution) -> Figure:
    """Angle, slip rate and friction torque with its bound; grey where a hinge sticks."""
    motion = solution.trajectories[0]
    figure = Figure(figsize=(12, 7.5), layout="constrained", dpi=130)
    axes = figure.subplots(3, 2, sharex=True)
    for j, (hinge, name) in enumerate(zip(HINGES, ("c_1", "c_2"), strict=True)):
        angle, slip, torque = axes[:, j]
        bound = solution[name].estimate
        angle.plot(motion.t, motion.observed[:, j], ".", ms=2, color="0.6", label="measured")
        angle.plot(motion.t, motion.predicted[:, j], lw=1, color="#0072B2", label="estimated")
        slip.plot(motion.t[1:], np.diff(motion.predicted[:, j]) / STEP, lw=1, color="#0072B2")
        torque.plot(motion.t, motion.friction[:, j] / STEP, lw=1, color="#D55E00", label="friction torque")
        for sign, label in ((1, "bound ±c"), (-1, None)):
            torque.axhline(sign * bound, ls="--", lw=0.8, color="k", label=label)
        torque.set_ylim(-1.3 * bound, 2.2 * bound)
        for axis in axes[:, j]:
            stuck = motion.sticks[:, j] == 1
            axis.fill_between(
                motion.t, 0, 1, where=stuck, color="0.88", lw=0, transform=axis.get_xaxis_transform(), label="sticks"
            )
            axis.grid(alpha=0.3)
        angle.set_title(f"{hinge}: sticks {solution.sticking[hinge]:.0%} of the time")
        torque.set_xlabel("time [s]")
        angle.legend(fontsize=8, loc="upper right")
        torque.legend(fontsize=8, loc="upper right", ncols=3)
    for axis, label in zip(axes[:, 0], ("angle [rad]", "slip rate [rad/s]", "friction torque [N m]"), strict=True):
        axis.set_ylabel(label)
    return figure


INTRO = f"""# Dry friction in three forms, by two backends

The data are simulated: a Furuta pendulum with Coulomb friction in both hinges is driven by torque pulses. The
simulation has sticking friction, with substeps refined to 1e-6 rad. Two angles have noise of {NOISE:g} rad; h =
{STEP:g} s, κ = {STATE_WEIGHT:g}, duration {DURATION:g} s (`results/friction.py`, seed {SEED}).

All fits start from initial values that are wrong by a factor of two to ten, with the default friction width. The fits
`exact` and `mpcc` begin with smooth fits by Levenberg–Marquardt; iterations and time include these smooth fits. Column
*from LM, exact*: largest relative difference, from the fit `exact` by LM, of a parameter whose standard error is at
most {IDENTIFIABLE:.0%} of it; column *all*: the largest difference of any parameter. Column *residual*: largest value
of L |z − clip(z − s/w, −1, 1)|, the impulse by which a step violates the exact friction law. Column *sticks*: fraction
of the time during which shoulder and elbow stick. Column *processor*: CPU time of this process; other
programs used the machine, so that the ratios are approximate.

"""


WAYS_SCRIPT = HERE.parent / "tests" / "benchmarks" / "ways.py"
PROBLEMS = ("furuta_", "multiarm", "odrive_release", "paper_", "pendulum_free")
"""Words in the names of the problems of the long table."""
DOORS = """
## Solver variants on problems with dry friction

The table is made by `tests/benchmarks/ways.py --dry`. It has problems of `problems/` and of the acceptance tests,
solved from their initial values with at most 150 iterations per fit. The columns *iterations* and *time* include all
preliminary fits; *time* is CPU time, and *of smooth IPOPT* its ratio to that of smooth IPOPT. Costs are compared at
the same noise levels, those of the smooth fit, or at the given weight. The columns *over best* and *errors off* compare
with the best converged variant with the same friction law (smooth or sticking). They show the excess of the cost as a
fraction, and the largest difference of a parameter in standard errors.

"""
SAME, MOST = 1e-4, 5.0
"""Share of the cost within which two forms end at one minimum; times that `mpcc` may take of smooth IPOPT's."""


def listed(names: list[str]) -> str:
    """Names in a sentence."""
    return ", ".join(names) if names else "none"


def compared(table: str) -> str:
    """How many pairs of that table end at one cost, and how much longer `mpcc` takes than smooth IPOPT."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    solved = {(*row[:2], *row[2:4]): row for row in cells if "refused" not in row[4]}
    pairs = [key[:2] for key in solved if key[3] == "mpcc" and (*key[:2], "lm", "exact") in solved]
    apart, broken, slow, ratios = list[str](), list[str](), list[str](), list[float]()
    for pair in pairs:
        exact, paired = solved[*pair, "lm", "exact"], solved[*pair, "ipopt", "mpcc"]
        name = f"`{pair[0]}` of {pair[1]}"
        if {exact[4], paired[4]} != {"converged"}:
            broken.append(f"{name} ({exact[4]}, {paired[4]})")
        elif abs(off := float(paired[6]) / float(exact[6]) - 1) > SAME:
            apart.append(f"{name} ({100 * off:+.2g} %)")
        if len(paired) > 10 and paired[10]:
            ratios.append(float(paired[10]))
            if ratios[-1] > MOST:
                slow.append(f"{name} ({paired[10]})")
    text = (
        f"`exact` and `mpcc` were compared for {len(pairs)} pairs of a problem and a stepper. Both converged for "
        f"{len(pairs) - len(broken)}, and their costs agree to {SAME:g} for {len(pairs) - len(broken) - len(apart)}. "
        f"Cost of `mpcc` over that of `exact` for the others: {listed(apart)}. Not converged (`exact`, `mpcc`): "
        f"{listed(broken)}. `mpcc` takes {np.median(ratios):.1f} times as long as smooth IPOPT in the median of "
        f"{len(ratios)} pairs, at most {max(ratios):.1f} times. More than {MOST:g} times: {listed(slow)}."
    )
    return textwrap.fill(text, 120) + "\n\n"


def shown(table: str) -> str:
    """The table without variants that a stepper refuses."""
    return "\n".join(line for line in table.splitlines() if "refused" not in line) + "\n"


def ways(kept: Path | None) -> str:
    """The long table."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "ways.md"
        more = ["--kept", str(kept)] if kept else []
        subprocess.run([sys.executable, WAYS_SCRIPT, "--dry", "--markdown", made, *more, *PROBLEMS], check=True)
        return made.read_text(encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept", type=Path, help="file of the rows made so far, from which an interrupted run goes on")
    kept = parser.parse_args().kept
    table = ways(kept)
    clean, noisy = measured()
    found = fits(noisy)
    page = INTRO + text(clean, found) + "\n![friction](friction.png)\n" + DOORS + compared(table) + shown(table)
    (HERE / "friction.md").write_text(page, encoding="utf-8")
    picture(found[LM_EXACT].solution).savefig(HERE / "friction.png")
    if kept:
        kept.unlink()
