"""Friction of the arm Franka Panda beside published values: `python results/franka.py` writes franka.md.

Needs `SPOOKID_DATA`. Beside the fit stands a regression on filtered derivatives (`problem.regress`), as the published
values were found. Two minutes.
"""

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

Seven links with full inertia, friction and an offset for each joint by `problems/franka.py`: torques, and every fifth
sample of the positions, as they were logged, stamps that jitter and gaps included; the noise of all fourteen signals is
estimated. Inertias are hardly known beforehand (50 % of rough guesses), friction not at all. This page is made by
`python results/franka.py`.
"""
WHY = """## Which joints differ, and why

Viscous friction is that published within two standard errors at every joint but the first (2.1); at joint 6, where a
negative one is published, it is none. Coulomb friction is within 12 % of the published values at joints 1, 2, 5, 6
and 7, and larger at joints 3 and 4, by 0.07 and 0.12 N m; constant torques differ at joints 1, 3 and 4. It is not the
estimator: the regression here, which has nothing of it, differs from the published one at the same joints and to the
same side, by three fifths as much or more. What is left of the torques of joints 1 to 4, 0.15 N m and more, is as large
as these differences, so that the law of friction decides, here smooth over 1 % of the rms rate: a constant torque,
gravity on a link that turns by little (joint 4 by 1.5 rad, always bent) and friction of one sign for seconds trade
for one another. Probably the sensors, on the side of the links, see friction of motors and gears in part, which no
such law describes. Inertias of motors are not seen from the links and are left out.
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
    for name, values in (("spookid", efforts.errors), ("regression, here", regression.errors)):
        torques.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    text = [
        INTRO,
        f"{solution.status.value.capitalize()} in {solution.iterations} iterations and {seconds:.0f} s of one core, "
        f"step {1000 * solution.step:g} ms, that of the motion's bandwidth.\n",
        *(_compared(name, solution, by_regression) for name in PUBLISHED),
        "## What is left of the torques\n",
        f"Inverse dynamics at positions filtered at {CUTOFF:g} Hz, both sides filtered alike.\n",
        "\n".join(torques) + "\n",
        WHY,
    ]
    (HERE / "franka.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


def _compared(name: str, solution: Solution, by_regression: dict[str, float]) -> str:
    lines = [f"## {TITLES[name]} [{UNITS[name]}]\n", "| joint | published | regression, here | spookid | apart |"]
    lines.append("|" + " --- |" * 5)
    for i, published in zip(JOINTS, PUBLISHED[name], strict=True):
        other = by_regression[f"{name}{i}"]
        found = solution[f"{name}{i}"]
        away = (found.estimate - published) / found.std_err
        told = f"{away:+.1f} standard errors" if abs(away) > APART else ""
        lines.append(f"| {i} | {published:.4f} | {other:.4f} | {uncertain(found.estimate, found.std_err)} | {told} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
