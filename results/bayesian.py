"""Tables and figures of Martinez, Tonneau, Mastalli (Bayesian identification) beside ours: `python results/bayesian.py`
writes bayesian.md.

Needs the package example-robot-data, beside Pinocchio or in the folder `SPOOKID_ROBOTS`. An hour and a half of one
core; `--parts FILE` keeps what was computed, so that it may be done in parts: `--only "table 1" --twins Bolt`.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bayesian_constraints import constraints_table
from bayesian_energy import SETTINGS, energy_table
from bayesian_floating import STANCES, FloatingTwin
from bayesian_formulations import formulations_table
from bayesian_noise import noise_table
from bayesian_parts import Parts
from bayesian_text import FIGURE_10, FIGURE_11, INTRO, OTHERS, TABLE_1, TABLE_2
from bayesian_twins import FILES, Twin

HERE = Path(__file__).parent
ESTIMATED, WEIGHTED, GIVEN = SETTINGS
STARTS = {
    "double pendulum": {ESTIMATED: 100, WEIGHTED: 100},
    "Z1": {ESTIMATED: 10, WEIGHTED: 5},
    "Bolt": {GIVEN: 5},
    "B1": {GIVEN: 2},
}
"""Of table I."""
SEEDS = {"double pendulum": 10, "Z1": 3}
"""Of table II."""
TRIALS = {"Bolt": 5, "B1": 2}
"""Of figure 11."""


def main() -> None:
    """Fit, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["figure 10", "figure 11", "table 1", "table 2"], nargs="+")
    parser.add_argument("--twins", choices=[*STARTS], nargs="+", default=[*STARTS], help="of the other three")
    parser.add_argument("--parts", type=Path, help="file of what is known, which grows")
    parser.add_argument("--known", action="store_true", help="make the page of what that file has")
    arguments = parser.parse_args()
    parts = Parts(arguments.parts, only_known=arguments.known)
    twins = [Twin(name) if name in FILES else FloatingTwin(name) for name in arguments.twins]
    standing = [twin for twin in twins if isinstance(twin, FloatingTwin) and twin.name in STANCES]
    sections: dict[str, Callable[[], str]] = {
        "figure 10": lambda: FIGURE_10.format(formulations_table(parts)),
        "figure 11": lambda: FIGURE_11.format(constraints_table(parts, standing, TRIALS)),
        "table 1": lambda: TABLE_1.format(energy_table(parts, twins, STARTS)),
        "table 2": lambda: TABLE_2.format(noise_table(parts, [one for one in twins if one.name in SEEDS], SEEDS)),
    }
    made = [section() for name, section in sections.items() if name in (arguments.only or sections)]
    text = "\n".join(
        [INTRO, *made, OTHERS, (f"All results of this page took {parts.minutes:.0f} minutes on one core.\n")]
    )
    print(text, file=sys.stdout)
    if not arguments.only and len(twins) == len(STARTS):
        (HERE / "bayesian.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
