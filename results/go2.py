"""Legs of a quadruped from commands and positions: `python results/go2.py` writes go2.md. Needs `SPOOKID_DATA`; 5
minutes.

Gains were not recorded. The check of the problem without priors names what is not identifiable; fits of the four legs
with the published stiffness are compared.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.stats import chi2

LEAST = 0.01
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "problems"))

import go2_servos as declared  # noqa: E402
from data.convert import LEGS  # noqa: E402

import spookid  # noqa: E402
from spookid import Solution  # noqa: E402


def checked() -> str:
    """What `spookid check` says of identifiability without priors."""
    source = f"{HERE.parent / 'problems' / 'go2_servos.py'}::free"
    command = [sys.executable, "-m", "spookid", "check", source]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return page[page.index("Identifiability") :].strip()


def beside(fits: dict[str, Solution]) -> list[str]:
    """Estimates of the legs side by side, and the chance that legs that are alike differ as much."""
    alike, differ = list[str](), list[str]()
    lines = [
        f"| parameter | unit | {' | '.join(fits)} | spread / std. error | probability |",
        "|---|---|" + "---:|" * 6,
    ]
    for name, first in fits["FL"].parameters.items():
        values, errors = np.array([[fit[name].estimate, fit[name].std_err] for fit in fits.values()]).T
        weights = 1 / errors**2
        square = float(np.sum(weights * (values - np.sum(weights * values) / np.sum(weights)) ** 2))
        cells = [f"{value:.3g} ± {error:.1g}" for value, error in zip(values, errors, strict=True)]
        chance = float(chi2.sf(square, 3))
        (alike if chance > LEAST else differ).append(name)
        lines.append(f"| {name} | {first.unit} | {' | '.join(cells)} | {np.sqrt(square / 3):.1f} | {chance:.2g} |")
    lines += ["", f"The legs agree, with a probability above {LEAST:g}, in: {', '.join(alike)}."]
    lines += [f"The legs differ in: {', '.join(differ)}."]
    return lines


def main() -> None:
    fits = dict[str, Solution]()
    for name in LEGS:
        fits[name] = declared.problems[name].with_(step_correction=False).solve()
        print(fits[name], flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout
    lines = [
        "# Legs of a quadruped from commands and positions",
        "",
        (
            "The quadruped Unitree Go2 is suspended in the air, and its legs follow triangular position "
            "commands. Motor torques and controller gains were not"
        ),
        (
            "recorded. Therefore all parameters are identifiable only up to one common gain, as `spookid check` "
            "reports before a fit:"
        ),
        "",
        "```",
        checked(),
        "```",
        "",
        "Each leg is fitted separately. The stiffness is 20 N m/rad, taken from the program that",
        "recorded the data, and",
        "its damping of 1.5 ± 0.1 N m s/rad is a prior. The last columns compare the four legs: the root of χ²/3, and",
        "the probability that identical legs differ by this much.",
        "",
        *beside(fits),
        "",
        "## Why the legs differ",
        "",
        (
            "Gears and encoder zeros may differ between the legs, and with them dry friction and constant "
            "torques. The masses"
        ),
        "of the legs cannot differ, so the different estimates show a model error, which the tests of",
        "the residuals also",
        "find. The causes of this model error were not separated.",
        "",
        *(f"- {name}: {fit.status.value}. {' '.join(fit.notices)}" for name, fit in fits.items()),
        "",
        (
            f"The command `python results/go2.py` wrote this page at commit {commit.strip()}, spookid "
            f"{spookid.__version__}."
        ),
    ]
    (HERE / "go2.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
