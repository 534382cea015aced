"""How far friction and restitution of simulated tosses scatter: `python results/tosses_twins.py` (minutes).

A toss of `tosses.py` is thrown as a measured one was, and simulated with known values in parts of a step. Its poses
have noise. The fit of `tosses.py`, whose steps are whole, is compared with the truth. What scatters here comes from the
step and from the choice of contact times. `SPOOKID_DATA` has the data.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from spookid import Recording, Status

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "problems")]

from contacts_cube import launched, places  # noqa: E402
from cube import RADIUS, STEP, TABLE, cube  # noqa: E402
from data.convert import measured  # noqa: E402
from tosses import NAMES, PUBLISHED, means, poses_of, rotations  # noqa: E402

PARTS = 8
"""Of a step of the simulation."""
PLACE, TURN = 5e-4, 5e-3
"""Noise of poses [m, rad]."""
SIGNALS = ("x", "y", "z", "qw", "qx", "qy", "qz")


def simulated(number: int, parts: int) -> Recording:
    """Poses of one toss, with noise of its own."""
    poses, rng = poses_of(measured(f"cube_toss_{number}")), np.random.default_rng(number)
    n = int(np.argmax(places(poses, RADIUS)[:, :, 2].min(axis=1) - TABLE < 2e-3)) - 1
    law, duration = cube("twin", mu=PUBLISHED["mu"], e=PUBLISHED["e"]), (len(poses) - 1) * STEP
    q = law.simulate(duration=duration, initial=launched(poses[:n], STEP), substeps=parts).q[: len(poses), 0]
    turned = rotations(q) * Rotation.from_rotvec(TURN * rng.normal(size=(len(q), 3)))
    places_ = q[:, :3] + PLACE * rng.normal(size=(len(q), 3))
    columns = np.column_stack([places_, turned.as_quat()[:, [3, 0, 1, 2]]])
    return Recording(t=STEP * np.arange(len(q)), signals=dict(zip(SIGNALS, columns.T, strict=True)), name=f"{number}")


def main() -> None:
    """One line for each toss, then what they say together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tosses", type=int, default=6)
    parser.add_argument("--parts", type=int, default=PARTS, help="of a step")
    given, fits = parser.parse_args(), []
    for number in range(given.tosses):
        found = cube(f"twin_{number}", [simulated(number, given.parts)]).solve()
        one = {name: (found[name].estimate, found[name].std_err) for name in NAMES}
        fits += [one] if found.status is Status.CONVERGED else []
        print(number, found.status.value, one, flush=True)
    for name, (mean, error, chi) in means(fits).items():
        values, errors = np.array([one[name] for one in fits if one[name][1] > 0]).T
        about = float(np.mean(((values - PUBLISHED[name]) / errors) ** 2))
        print(f"{name}: {mean:.3f} ± {error:.3f}, true {PUBLISHED[name]}; χ² {chi:.1f}, about the truth {about:.1f}")


if __name__ == "__main__":
    main()
