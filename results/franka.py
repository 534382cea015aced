"""Friction of the arm Franka Panda beside published values: `python results/franka.py` writes franka.md.

Needs `SPOOKID_DATA`. Beside the fit stands a regression on filtered derivatives (`problem.regress`), as the published
values were found. Two minutes.
"""

import textwrap
import time
from pathlib import Path

from spookid import Solution, load_problem
from spookid.tables.table import uncertain

HERE = Path(__file__).parent
FILE = HERE.parent / "problems" / "franka.py"
JOINTS = range(1, 8)
PUBLISHED = {  # Gaz et al. 2019, supplement: least squares on this trajectory
    "F_v": (0.0665, 0.1987, 0.0399, 0.2257, 0.1023, -0.0132, 0.0638),
    "F_c": (0.2450, 0.1523, 0.1827, 0.3591, 0.2669, 0.1658, 0.2109),
    "F_o": (-0.1073, -0.1566, -0.0686, -0.2522, 0.0045, 0.0910, -0.0127),
}
UNITS = {"F_v": "N m s", "F_c": "N m", "F_o": "N m"}
TITLES = {"F_v": "Viscous friction", "F_c": "Coulomb friction", "F_o": "Constant torque"}
CUTOFF = 10.0  # Hz
APART = 2.0  # standard errors from which on two values differ

INTRO = """# Friction of an arm with torque sensors: Franka Panda

`problems/franka.py` models seven links with full inertia, and friction and an offset for each joint. The data are
torques and every fifth sample of the positions, as logged, with jittering timestamps and gaps; the noise of all
fourteen signals is estimated. The priors of the inertias are weak (50 % of rough initial values), and friction has no
prior. The command `python results/franka.py` writes this page.
"""
WHY = """## Which joints differ, and why

The tables mark {marked} of {all} estimates that differ from the published values by more than two standard errors. The
regression on this page uses the method of the publication, and for {same} of the {marked} it differs from the
published value in the same direction. Then the estimator is not the only cause. The torque residuals are as large as
these differences, so that the estimates depend on the friction law. Four effects are nearly equivalent: a constant
torque, gravity on a link that rotates little (joint 4 by 1.5 rad, always bent), friction with one sign for seconds,
and the speed over which dry friction changes its sign. This width is estimated (last table); for the published values
it is zero. A wide sign change takes a part of the viscous friction over into Coulomb friction. A probable cause of all
is that the torque sensors on the link side also measure a part of the friction of motors and gears, which such a law
does not describe. The inertias of the motors do not affect torques on the link side and are not in the model.
"""


def main() -> None:
    """Fit, compare, write."""
    problem = load_problem(FILE)
    began = time.process_time()
    solution = problem.solve(max_iterations=300)
    seconds = time.process_time() - began
    regression = problem.regress(cutoff=CUTOFF)
    by_regression = dict(zip(regression.names, regression.estimates, strict=True))
    efforts = problem.inverse_dynamics(solution, cutoff=CUTOFF)
    torques = ["| root mean square, N m | " + " | ".join(f"joint {i}" for i in JOINTS) + " |", "|" + " --- |" * 8]
    for name, values in (("spookid", efforts.errors), ("regression, this page", regression.errors)):
        torques.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    text = [
        INTRO,
        f"The fit ended with status {solution.status.value} after {solution.iterations} iterations and "
        f"{seconds:.0f} s on one core, with a time step of {1000 * solution.step:g} ms chosen from the bandwidth of "
        "the motion.\n",
        *(_compared(name, solution, by_regression) for name in PUBLISHED),
        "## Torque residuals\n",
        (
            f"The table compares torques by inverse dynamics at positions that are low-pass filtered at {CUTOFF:g} "
            "Hz; measured and predicted torques are filtered in the same way.\n"
        ),
        "\n".join(torques) + "\n",
        WHY.format(**_counted(solution, by_regression)),
        _widths(solution),
        _warned(solution),
    ]
    (HERE / "franka.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


def _widths(solution: Solution) -> str:
    lines = ["| joint | width of the sign change [rad/s] |", "| --- | --- |"]
    for name, one in solution.friction_widths.items():
        value = uncertain(one.width, one.std_err) if one.resolved else "sharper than the data resolve"
        lines.append(f"| {name.removeprefix('joint_')} | {value} |")
    return "\n".join(lines) + "\n"


def _warned(solution: Solution) -> str:
    """First words of each warning, without lists of samples and parameters."""
    told = (one for one in solution.findings if one.severity == "warning")
    lines = (f"- `{one.code}`: {textwrap.shorten(one.effect, 180, placeholder=' …')}" for one in told)
    return "\n".join(["The fit warns:\n", *lines]) + "\n"


def _counted(solution: Solution, by_regression: dict[str, float]) -> dict[str, int]:
    """Number of estimates, of those that differ from the published ones, and of those where the regression agrees."""
    names = [
        (f"{name}{i}", value) for name, values in PUBLISHED.items() for i, value in zip(JOINTS, values, strict=True)
    ]
    marked = [(name, value) for name, value in names if abs(_away(solution, name, value)) > APART]
    same = [name for name, value in marked if (by_regression[name] - value) * _away(solution, name, value) > 0]
    return {"all": len(names), "marked": len(marked), "same": len(same)}


def _away(solution: Solution, name: str, published: float) -> float:
    """From the published value, in standard errors."""
    return (solution[name].estimate - published) / solution[name].std_err


def _compared(name: str, solution: Solution, by_regression: dict[str, float]) -> str:
    lines = [
        f"## {TITLES[name]} [{UNITS[name]}]\n",
        "| joint | published | regression, this page | spookid | difference |",
    ]
    lines.append("|" + " --- |" * 5)
    for i, published in zip(JOINTS, PUBLISHED[name], strict=True):
        other = by_regression[f"{name}{i}"]
        found = solution[f"{name}{i}"]
        away = _away(solution, f"{name}{i}", published)
        told = f"{away:+.1f} standard errors" if abs(away) > APART else ""
        lines.append(f"| {i} | {published:.4f} | {other:.4f} | {uncertain(found.estimate, found.std_err)} | {told} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
