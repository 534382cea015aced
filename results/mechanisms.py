"""Twins of mechanisms with loops, gears and wheels, fitted with the defaults; writes mechanisms.md.

python results/mechanisms.py    three minutes; --seeds 5 --only "gear pair" prints a part of it
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from mechanism_twins import TWINS  # noqa: E402

STEP, DURATION = 0.005, 2.0
MANY = ("gear pair", "gimbal")
"""Fitted to recordings with so many seeds of noise."""


@dataclass(frozen=True)
class Fit:
    """One parameter of one twin."""

    error: float
    """Relative."""
    ratio: float
    """Error over standard error."""
    seconds: float
    """Of the whole solve."""


def fits(name: str, seed: int) -> dict[str, Fit]:
    """With Variational(), estimated noise and guesses 40 % off."""
    twin = TWINS[name]()
    problem = twin.problem(twin.recording(DURATION, STEP, seed), step=STEP)
    start = time.perf_counter()
    found = problem.solve()
    seconds = time.perf_counter() - start
    print(f"{name}, seed {seed}: {found.status.name}, {seconds:.0f} s", flush=True)
    return {
        p: Fit(found[p].estimate / value - 1, (found[p].estimate - value) / found[p].std_err, seconds)
        for p, value in twin.truth.items()
    }


def rows(name: str, seeds: int) -> list[str]:
    """Of the page's table."""
    several = [fits(name, seed) for seed in range(seeds)]
    written = []
    for i, parameter in enumerate(several[0]):
        own = [fit[parameter] for fit in several]
        errors = np.array([f.error for f in own])
        ratios = np.array([f.ratio for f in own])
        inside = f"{np.sum(np.abs(ratios) < 1.96)} of {seeds}" if seeds > 1 else ""
        size = f"{np.sqrt(np.mean(ratios**2)):.2f}" if seeds > 1 else ""
        took = f"{np.median([f.seconds for f in own]):.0f}" if i == 0 else ""
        what = name if i == 0 else ""
        cells = (what, parameter, f"{100 * errors[0]:+.3f}", f"{ratios[0]:+.2f}", inside, size, took)
        written.append("| " + " | ".join(cells) + " |")
    return written


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=list(TWINS))
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else list(TWINS)
    table = [row for name in names for row in rows(name, arguments.seeds if name in MANY else 1)]
    head = (
        "| mechanism | parameter | error [%] | error / std_err | inside ± 1.96 std_err | rms of error / std_err | s |",
        "|---|---|---|---|---|---|---|",
    )
    page = "\n".join([TEXT, *head, *table, ""])
    if arguments.only:
        print(page)
    else:
        (HERE / "mechanisms.md").write_text(page, encoding="utf-8")


TEXT = f"""# Mechanisms with loops, gears and wheels

The synthetic data are integrations of Lagrange's equations in minimal coordinates (`tests/lagrange.py`,
DOP8{1e3 * STEP:g}3 at 1e-10), sampled every 5 ms for {DURATION:g} s with noise of 0.5 mm or 0.5 mrad. The fits use
`Variational()`, estimated noise, h = {STEP:g} s and initial values that are wrong by 40 %. The table shows the errors
of the first seed. If there are several seeds, it shows how many errors are inside the 95 % interval. The times are
those of
one `solve` on one core of two. The synthetic data have no process noise, but the standard errors allow for process
noise.
"""

if __name__ == "__main__":
    main()
