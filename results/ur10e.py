"""The arm UR10e, fitted to one trajectory and judged on another: `python results/ur10e.py` writes its page and figure.

Needs `SPOOKID_DATA`. Beside the fit stands the regression that robots are mostly identified by (`problem.regress`), on
the same samples through the same filter. A minute or two.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from spookid import Problem, Solution, load_problem
from spookid.parameter import substitute
from spookid.studies.motor_efforts import MotorEfforts
from spookid.tables.table import number, uncertain

HERE = Path(__file__).parent
FILE = HERE.parent / "problems" / "ur10e.py"
FITTED, UNSEEN = "excitation_12harm_40s", "excitation_14harm_50s"
GAINS = np.array([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])  # N m/A, published: all torques here are of these
README = np.array([2.71, 3.75, 1.56, 0.356, 0.348, 0.330])  # N m, of the data set's own regressor on the unseen one
CUTOFF = 6.0  # Hz
JOINTS = range(1, 7)
Array = np.ndarray
STEPS = (0.05, 0.2)  # s, beside the step that is chosen

INTRO = """# Torques of an arm on a trajectory that was not fitted: UR10e

`problems/ur10e.py` models six links with full inertia, and, for each joint, motor inertia, gain, viscous and Coulomb
friction and an offset, together 90 parameters. The data are positions and currents of `excitation_12harm_40s` as
logged, with jittering timestamps, without filters and weights; the noise of all twelve signals is estimated. The priors
are the published gains (15 %) and the rough inertias of the robot's URDF file (30 %, `LogCholesky(..., within=0.3)`).
The command `python results/ur10e.py` writes this page.
"""


def predicted_errors(efforts: MotorEfforts) -> Array:
    """Root mean square of measured less predicted currents, as torques of the published gains."""
    return np.sqrt(np.mean(((efforts.measured - efforts.predicted) * GAINS) ** 2, axis=0))


def main() -> None:
    """Fit, predict, compare, write."""
    fitted, unseen = (load_problem(f"{FILE}::{trajectory}") for trajectory in (FITTED, UNSEEN))
    began = time.process_time()
    solution = fitted.solve(max_iterations=300)
    seconds = time.process_time() - began
    regression = fitted.regress(cutoff=CUTOFF)
    reference = {FITTED: regression.errors, UNSEEN: regression.errors_on(unseen)}
    told = {
        name: problem.inverse_dynamics(solution, cutoff=CUTOFF)
        for name, problem in ((FITTED, fitted), (UNSEEN, unseen))
    }
    found = {name: predicted_errors(efforts) for name, efforts in told.items()}
    others = {h: fitted.solve(max_iterations=300, step=h) for h in STEPS}
    steps = {h: (other, predicted_errors(unseen.inverse_dynamics(other, cutoff=CUTOFF))) for h, other in others.items()}
    steps[solution.step] = (solution, found[UNSEEN])
    text = [
        INTRO,
        _facts(solution, seconds),
        "## Torques of the trajectory that was not fitted\n\n"
        + _torques(told[UNSEEN], reference, found, len(regression.names)),
        "## The step\n\n" + _steps(steps),
        "## Joint parameters\n\n" + _joints(fitted, solution),
        "## Link parameters\n\n" + _links(fitted, solution),
    ]
    (HERE / "ur10e.md").write_text("\n".join(text), encoding="utf-8")
    _figure(told[UNSEEN])
    print("\n".join(text), file=sys.stdout)


def _facts(solution: Solution, seconds: float) -> str:
    chosen = next(finding.text for finding in solution.findings if finding.code == "step.chosen")
    return (
        f"The fit ended with status {solution.status.value} after {solution.iterations} iterations and {seconds:.0f} s "
        f"on one core, with the log-likelihood {solution.log_likelihood:.1f}. {chosen}\n"
    )


def _torques(test: MotorEfforts, reference: dict[str, Array], found: dict[str, Array], rank: int) -> str:
    own, spread = reference[UNSEEN], np.std(GAINS * test.measured, axis=0)
    rows = [
        ("spookid", found[UNSEEN], 3),
        ("share of the torque's standard deviation, %", 100 * found[UNSEEN] / spread, 1),
        ("regression, here", own, 3),
        ("regression, README of the data", README, 3),
        ("**ratio to the regression here**", found[UNSEEN] / own, 3),
        ("**ratio to that of the README**", found[UNSEEN] / README, 3),
        ("spookid on what it was fitted to", found[FITTED], 3),
        ("regression on the same", reference[FITTED], 3),
    ]
    lines = _table(["root mean square, N m", *(f"joint {i}" for i in JOINTS), "mean"], [_row(*row) for row in rows])
    return f"""{lines}

![Measured and predicted torques](ur10e.png)

The torque errors are those of inverse dynamics. The positions of `{UNSEEN}` are low-pass filtered at {CUTOFF:g} Hz
forward and backward and differentiated, and the model computes the torques. Predicted and measured torques pass the
same filter once more; half a second is omitted at both ends. `problem.inverse_dynamics(solution, cutoff=6)` computes
these errors. Because the gains are estimated, the comparison uses currents, multiplied by the published gains. The
regression on this page, `problem.regress(cutoff=6)`, uses the same samples, filter and friction law (sign of the rate,
smoothed over 1 % of its rms). It has two passes, in which each joint is weighted by its residuals. Its regressor has
rank {rank} for 84 parameters, and it has neither gains nor priors. The README of the data contains a regression of the
same kind, without details of its friction near rest and its torque filter; its residuals are larger.
"""


def _row(name: str, values: Array, digits: int) -> list[str]:
    mean = f"{np.mean(values):.3f}" if "ratio" in name else ""
    return [name, *(f"{value:.{digits}f}" for value in values), mean]


def _steps(steps: dict[float, tuple[Solution, Array]]) -> str:
    rows = []
    for h, (solution, off) in sorted(steps.items()):
        inertias = ", ".join(number(solution[f"J_m{i}"].estimate, 3) for i in JOINTS)
        noise = next(n for n in solution.noise if n.names == ("q1",))
        cells = [
            f"{1000 * h:g} ms",
            solution.status.value,
            f"{np.mean(off / README):.3f}",
            f"{np.max(off / README):.3f}",
        ]
        rows.append([*cells, inertias, f"{1000 * noise.std:.3f} mrad"])
    chosen = steps[max(set(steps) - set(STEPS))][0]["J_m1"]
    away = abs(steps[min(STEPS)][0]["J_m1"].estimate - chosen.estimate) / chosen.std_err
    heads = ["h", "", "mean ratio to the README's", "largest", "J_m [kg m²]", "noise of q1"]
    return f"""{_table(heads, rows)}

The time step is longer than the sampling interval of the log. Current noise and timestamp jitter are correlated over
several samples, and are white only over longer steps, which also take less computing time. The bandwidth of the motion
allows a step of {1000 * max(set(steps) - set(STEPS)):g} ms, with a discretization error of 0.5 % of the torques. With
half this step the torque predictions are as good; the motor inertia of joint 1 changes by {away:.1f} standard errors.
With twice this step, the discretization error appears in the estimated encoder noise. The reported current noise is
that of white samples with the power density at the frequencies of the motion, which is larger than the noise of single
samples.
"""


def _joints(problem: Problem, solution: Solution) -> str:
    names = ["K", "J_m", "F_v", "F_c", "offset"]
    rows = []
    for i in JOINTS:
        keys = [f"K_{i}", f"J_m{i}", f"F_v{i}", f"F_c{i}", f"offset_{i}"]
        noise = next(n for n in solution.noise if n.names == (f"i{i}",))
        cells = [uncertain(solution[key].estimate, solution[key].std_err) for key in keys]
        rows.append([f"{i}", f"{GAINS[i - 1]}", *cells, f"{noise.std:.3f}"])
    heads = ["joint", "K published [N m/A]", *names, "white noise of a sample [N m]"]
    return f"""{_table(heads, rows)}

The units are N m/A, kg m², N m s and N m. Motor currents identify only ratios to the gains: all torques, inertias and
friction coefficients may be multiplied by one factor. Only the priors determine this scale. The estimated gains differ
from the published gains by {_pulled(solution)} prior standard deviations. The rough masses and the published gains do
not agree on the scale, and the estimates are a compromise. Friction and motor inertia have the relative error of the
gain: the error of F_v is {_shares(problem, solution, False)} %, but that of F_v/K is {
        _shares(problem, solution, True)
    } %.
"""


def _shares(problem: Problem, solution: Solution, by_gain: bool) -> str:
    """Least and largest relative error of viscous friction, or of it over the gain [%]."""
    of = {p.name: p for p in problem.parameters}
    formulas = (of[f"F_v{i}"] / of[f"K_{i}"] if by_gain else of[f"F_v{i}"] for i in JOINTS)
    found = [solution(formula) for formula in formulas]
    shares = [100 * one.std_err / one.estimate for one in found]
    return f"{min(shares):.1f} to {max(shares):.1f}"


def _pulled(solution: Solution) -> str:
    off = [(solution[f"K_{i}"].estimate / gain - 1) / 0.15 for i, gain in zip(JOINTS, GAINS, strict=True)]
    return f"{min(off):.1f} to {max(off):+.1f}"


def _links(problem: Problem, solution: Solution) -> str:
    rows = []
    for body in problem.model.bodies:
        least = np.linalg.eigvalsh(substitute(body.distribution.pseudo, solution.values))[0]
        known = [solution.physical[f"{body.name} {what}"] for what in ("mass", "c_x", "c_y", "c_z")]
        rough = substitute(body.mass, {p.name: p.guess for p in problem.parameters}).item()
        moments = np.linalg.eigvalsh(substitute(body.inertia, solution.values))
        told = [uncertain(one.estimate, one.std_err) for one in known]
        own = known[0].std_err / (0.3 * rough)
        rows.append(
            [body.name, f"{rough:g}", *told, ", ".join(number(m, 3) for m in moments), f"{least:.2g}", f"{own:.2f}"]
        )
    heads = ["link", "m of the URDF [kg]", "m [kg]", "c_x [m]", "c_y [m]", "c_z [m]", "principal moments [kg m²]"]
    heads += ["least eigenvalue of J", "error of m over the prior's"]
    return f"""{_table(heads, rows)}

Every link has a physically possible mass distribution: by construction, the smallest eigenvalue of its pseudo-inertia J
is positive, and the principal moments satisfy the triangle inequality. Some links are thin or flat, at the limit of
what is physically possible. The motion does not identify their single moments, which therefore absorb model errors
(elastic gears, load-dependent friction). The motion identifies 58 combinations of the 84 parameters of links, motors
and friction (the rank above). All other combinations keep their prior, which the last column shows for the masses: 1 is
the prior itself. The shoulder rotates about one axis only, so that its mass and centre of mass are those of the URDF
file.
"""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _figure(efforts: MotorEfforts) -> None:
    figure, axes = plt.subplots(3, 2, figsize=(10, 7), sharex=True, layout="constrained")
    for i, ax in enumerate(axes.T.ravel()):
        measured, predicted = (GAINS[i] * part[:, i] for part in (efforts.measured, efforts.predicted))
        ax.plot(efforts.t, measured, color="0.6", linewidth=2, label="measured")
        ax.plot(efforts.t, predicted, color="tab:blue", linewidth=0.8, label="predicted")
        ax.plot(efforts.t, measured - predicted, color="tab:red", linewidth=0.6, label="difference")
        ax.set_title(f"joint {i + 1}", fontsize=9)
        ax.set_ylabel("torque [N m]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", fontsize=8, ncols=3)
    for ax in axes[-1]:
        ax.set_xlabel("time [s]")
    figure.savefig(HERE / "ur10e.png", dpi=100)


if __name__ == "__main__":
    main()
