"""One log of an arm by FIGAROH, and an online smoother by GTSAM: ``python tests/benchmarks/peers/arm.py --markdown
results/peers_arm.md``.

Needs ``SPOOKID_DATA``, GTSAM, and in ``FIGAROH_PYTHON`` the interpreter of an environment with FIGAROH (``pip install
figaroh``). Two minutes.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE.parents[1])]

from benchmarks.machine import machine
from benchmarks.peers import smoother

PAGE = """# An arm by FIGAROH, and a smoother by GTSAM

Regressions take less time than a fit by spookid, and an update by GTSAM takes less time than one by spookid. spookid
predicts the torques of a new trajectory better, in this case by 2 to 26 %. The command `python
tests/benchmarks/peers/arm.py` makes both tables.

## One log of a UR10e

Each method runs in its own process. This process identifies the arm from `excitation_12harm_40s`, and predicts the
torques of `excitation_14harm_50s`, which were not fitted. The times are those of the whole process, including imports
and the prediction. The last columns show root mean squares of measured minus predicted torques [N m], with positions
and torques low-pass filtered at 6 Hz. FIGAROH computes the regressor, the base parameters and a least-squares fit in
two passes, in which each joint is weighted by its residuals. Its friction law is viscous and Coulomb friction, with the
sign of the rate.

{arm}

In this use, FIGAROH estimates 58 combinations of parameters in a sixth of the CPU time. `solve` estimates physically
possible masses, centres of mass and moments of inertia, gains and friction, with standard errors, and does not filter
the data. `regress` is the regression of spookid, whose Coulomb friction changes its sign over 1 % of the rms rate.

## Parameters of a pendulum, online

The second table shows 1,800 updates at 100 Hz with a window of 0.5 s. The measurement is an angle with 1 mrad of noise,
and the process noise is a random torque. Both smoothers keep two parameters outside the window, and the noise levels
are given. The GTSAM smoother is `IncrementalFixedLagSmoother` (iSAM2) in C++. Its factors and derivatives are written
by hand in Python for this pendulum. spookid generates its factors from the mechanism, and also computes standard errors
of the parameters at each update.

{online}

MATLAB and Simulink are missing, because no package registry offers them.

{where}, one thread.
"""
OURS = """
import json, sys
import numpy as np
from spookid import load_problem
GAINS = np.array([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])
fitted, unseen = (load_problem(f"problems/ur10e.py::excitation_{name}") for name in ("12harm_40s", "14harm_50s"))
if sys.argv[1] == "solve":
    found = unseen.inverse_dynamics(fitted.solve(max_iterations=300), cutoff=6)
    errors = np.sqrt(np.mean(((found.measured - found.predicted) * GAINS) ** 2, axis=0))
    numbers = len(fitted.free)
else:
    regression = fitted.regress(cutoff=6)
    errors, numbers = regression.errors_on(unseen), len(regression.names)
print(json.dumps({"errors": errors.tolist(), "numbers": numbers}))
"""
HEAD = ("method", "wall [s]", "CPU [s]", "numbers", *(f"joint {i}" for i in range(1, 7)))


def row(name: str, command: list[str]) -> tuple[str, ...]:
    """What a process takes, and what its estimates leave on the other trajectory [N m]."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads(said.splitlines()[-1])
    return (name, f"{wall:.1f}", f"{spent:.1f}", str(found["numbers"]), *(f"{e:.3f}" for e in found["errors"]))


def table(*rows: tuple[str, ...]) -> str:
    head, *others = rows
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *others))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="file to write the page to")
    given = parser.parse_args()
    data, figaroh = Path(os.environ["SPOOKID_DATA"]) / "ur10e", os.environ["FIGAROH_PYTHON"]
    ways = {
        "spookid, `solve`": [sys.executable, "-c", OURS, "solve"],
        "spookid, `regress`": [sys.executable, "-c", OURS, "regress"],
        "FIGAROH": [figaroh, "-W", "ignore", str(HERE / "figaroh_arm.py"), str(data)],
    }
    arm, online = table(HEAD, *(row(*way) for way in ways.items())), table(smoother.COLUMNS, *smoother.rows())
    page = PAGE.format(arm=arm, online=online, where=f"{machine()}, Python {platform.python_version()}")
    sys.stdout.write(page)
    if given.markdown:
        given.markdown.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
