"""Legs of a quadruped from commands and positions: `python results/go2.py` writes go2.md. Needs `SPOOKID_DATA`; 5
minutes.

Gains were not recorded. The check of the problem without priors names what is not identifiable; fits of the four legs
with the published stiffness are compared.
"""

import subprocess
import sys
from pathlib import Path

from alike import beside, warned

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "problems"))

import go2_servos as declared  # noqa: E402
from data.convert import LEGS  # noqa: E402

from spookid import Solution  # noqa: E402


def checked() -> str:
    """What `spookid check` says of identifiability without priors."""
    source = f"{HERE.parent / 'problems' / 'go2_servos.py'}::free"
    command = [sys.executable, "-m", "spookid", "check", source]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return page[page.index("Identifiability") :].strip()


def main() -> None:
    fits = dict[str, Solution]()
    for name in LEGS:
        fits[name] = declared.problems[name].with_(step_correction=False).solve()
        print(fits[name], flush=True)
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
        "of the legs cannot differ: where they do, the model has an error, which the tests of the residuals also",
        "look for. The causes of this model error were not separated.",
        "",
        "The fits warn:",
        "",
        *warned(fits),
        "",
        "The command `python results/go2.py` writes this page.",
    ]
    (HERE / "go2.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
