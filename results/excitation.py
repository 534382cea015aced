"""A designed motion of a 6-joint arm beside random ones, and whether the errors that it promises are those of twins.

`python results/excitation.py` writes its page and figure; it needs `SPOOKID_DATA`. About ten minutes of one core;
`--twins 4 --random 3` is shorter and writes nothing.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spookid import FullInertia, JointPosition, Motor, Parameter, Problem, Recording, robots
from spookid.parameter import substitute
from spookid.report.pictures import save
from spookid.solvers.status import Status
from spookid.studies.excitation_result import Excitation, draw
from spookid.studies.motion_limits import MotionLimits
from spookid.tables.table import number

HERE = Path(__file__).parent
SHARED = "/work/shared/data"
DURATION, RATE = 20.0, 100.0  # s, Hz
EFFORT_NOISE = (2.0, 3.0, 1.5, 0.3, 0.3, 0.3)  # N m of a sample, as measured on this arm (results/ur10e.md)
POSITION_NOISE = 1e-4  # rad of a sample
SPREAD = 0.1  # of a twin's parameters around the guesses, as a share of their sizes
Array = np.ndarray

INTRO = """# A designed excitation of a 6-joint arm

The arm is a UR10e described by its manufacturer's URDF file. Kinematics and masses are known. The 34 unknown parameters
are viscous and Coulomb friction, effective motor inertia and torque-sensor offset of each joint, and, for five links,
the two coordinates of the centre of mass perpendicular to the joint axis. There are no priors of these parameters. The
joints must stay within ±2 rad and 1.5 rad/s, the torques within the limits of the URDF file, and the flange above 0.1
m. The torques are measured with noise of 2, 3, 1.5, 0.3, 0.3 and 0.3 N m and the angles with noise of 0.1 mrad, every
10 ms for 20 s. Standard errors are relative to the parameters; for parameters with the initial value zero, they are
relative to the range between their bounds. The command `python results/excitation.py` writes this page.
"""


def arm() -> Problem:
    """The problem, without recordings."""
    robot = robots.read(Path(os.environ.get("SPOOKID_DATA", SHARED)) / "ur10e" / "ur10e.urdf")
    joints, inertias = {}, {}
    for i, (name, joint) in enumerate(robot.joints.items(), 1):
        size = robot.limits[name].effort
        joints[name] = {
            "viscous": Parameter(f"F_v{i}", size / 30, lower=0, unit="N m s"),
            "coulomb": Parameter(f"F_c{i}", size / 50, lower=0, unit="N m"),
            "armature": Parameter(f"J_m{i}", size / 150, lower=0, unit="kg m^2"),
        }
        if i > 1:
            inertias[joint.child.body.name] = across(joint, i)
    robot = robot.with_(joints=joints, inertias=inertias)
    motors = [
        Motor(joint, f"tau{i}", measured=True, offset=Parameter(f"o_{i}", 0.0, lower=-5, upper=5, unit="N m"))
        for i, joint in enumerate(robot.joints.values(), 1)
    ]
    sensors = [JointPosition(joint, f"q{i}", sigma=POSITION_NOISE) for i, joint in enumerate(robot.joints.values(), 1)]
    return Problem("ur10e", model=robot.model(motors=motors), recordings=[], observations=sensors)


def across(joint, i: int) -> FullInertia:
    """The inertia of a link whose centre of mass is not known across its joint's axis."""
    known = joint.child.body.distribution
    mass, center, inertia = (substitute(part, {}) for part in (known.mass, known.center_of_mass, known.inertia))
    along = int(np.argmax(np.abs(substitute(joint.child.axes, {})[:, 0])))
    place = [
        float(c)
        if axis == along
        else Parameter(f"c_{'xyz'[axis]}{i}", round(float(c), 4), lower=float(c) - 0.1, upper=float(c) + 0.1, unit="m")
        for axis, c in enumerate(center.ravel())
    ]
    return FullInertia(mass.item(), place, inertia=inertia)


def planned(problem: Problem, **how) -> Excitation:
    """A motion within the limits of the page."""
    labels = [freedom.label for freedom in problem.model.freedoms]
    tool = list(problem.model.frames)[-1]
    limits = MotionLimits(
        position=dict.fromkeys(labels, (-2.0, 2.0)),
        rate=dict.fromkeys(labels, 1.5),
        place={tool: [(-math.inf, math.inf), (-math.inf, math.inf), (0.1, math.inf)]},
    )
    noise = {f"tau{i}": sigma for i, sigma in enumerate(EFFORT_NOISE, 1)}
    return problem.excite(DURATION, limits, noise=noise, rate=RATE, **how)


def twins(
    problem: Problem, found: Excitation, noise: dict[str, float], count: int
) -> Iterator[tuple[Array, Array, bool]]:
    """Estimates less the truth, standard errors, and whether the fit converged, of one twin after another."""
    names, sizes = found.expected.names, found.expected.sizes
    for seed in range(count):
        rng = np.random.default_rng(1000 + seed)
        guess = found.expected.values
        lower, upper = (np.array([getattr(p, side) for p in problem.free]) for side in ("lower", "upper"))
        moved = guess + SPREAD * sizes * np.clip(rng.standard_normal(len(guess)), -3, 3)
        truth = dict(zip(names, np.clip(moved, lower, upper).tolist(), strict=True))
        clean = found.recording(truth).signals
        noisy = {name: clean[name] + size * rng.standard_normal(len(clean[name])) for name, size in noise.items()}
        twin = problem.with_(recordings=[Recording(t=found.trajectory.t, signals=noisy, name="twin")])
        solution = twin.solve()
        off = np.array([solution[name].estimate - truth[name] for name in names])
        yield off, np.array([solution[name].std_err for name in names]), solution.status is Status.CONVERGED
        print(f"twin {seed}: {np.sqrt(np.mean((off / found.expected.after) ** 2)):.2f}", file=sys.stderr)


def main() -> None:
    """Design, compare, fit, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--twins", type=int, default=30)
    parser.add_argument("--random", type=int, default=10)
    counts = parser.parse_args()
    problem, began = arm(), time.process_time()
    designed = {name: planned(problem, criterion=name) for name in ("largest", "determinant")}
    seconds = (time.process_time() - began) / len(designed)
    others = [planned(problem, starts=1, max_iterations=0, seed=100 + i).expected for i in range(counts.random)]
    found = designed["largest"]
    sigmas = {f"q{i}": POSITION_NOISE for i in range(1, 7)} | {f"tau{i}": s for i, s in enumerate(EFFORT_NOISE, 1)}
    results = list(twins(problem, found, sigmas, counts.twins))
    text = [
        INTRO,
        compared(designed, others, seconds),
        promised(found, results),
        "![The designed motion](excitation.png)\n",
        f"## All errors\n\n```\n{found}\n```\n",
    ]
    print("\n".join(text))
    if (counts.twins, counts.random) == (30, 10):
        (HERE / "excitation.md").write_text("\n".join(text), encoding="utf-8")
        save(draw(found), HERE / "excitation.png")


def compared(designed: dict[str, Excitation], others: list, seconds: float) -> str:
    """Designs beside random motions."""
    largest = np.array([np.max(one.relative) for one in others])
    means = np.array([np.exp(np.mean(np.log(one.relative))) for one in others])
    lines = [
        "## Comparison with random motions",
        "",
        "| 20 s | largest error [%] | geometric mean of all errors [%] |",
        "|---|---|---|",
        f"| {len(others)} random Fourier series of the same limits, median | {number(100 * np.median(largest), 3)} | "
        f"{number(100 * np.median(means), 3)} |",
        f"| the best of these, each | {number(100 * largest.min(), 3)} | {number(100 * means.min(), 3)} |",
    ]
    for name, one in designed.items():
        errors = one.expected.relative
        what = "largest error" if name == "largest" else "−log det"
        mean = number(100 * np.exp(np.mean(np.log(errors))), 3)
        lines.append(f"| designed for the {what} | **{number(100 * errors.max(), 3)}** | {mean} |")
    share = designed["largest"].expected.relative.max() / np.median(largest)
    lines += [
        "",
        (
            f"The largest standard error for the designed motion is **{share:.2f}** times the median of random "
            f"motions; the goal was 0.5. The design from three starts takes {seconds:.0f} s on one core.\n"
        ),
    ]
    return "\n".join(lines)


def promised(found: Excitation, results: list[tuple[Array, Array, bool]]) -> str:
    """Promised errors beside those of twins."""
    off, told = (np.array([one[i] for one in results]) for i in (0, 1))
    after = found.expected.after
    shares = off / after
    ratio = told / after
    spread = np.sqrt(np.mean(shares**2, axis=0))
    covered = np.abs(shares) < 1.96
    limit = 1 / math.sqrt(2 * len(results))
    return f"""## Predicted and actual errors

Each of {len(results)} synthetic recordings has its own parameters, normally distributed around the initial values with
a standard deviation of {100 * SPREAD:g} %. The simulated arm follows the motion designed for the initial values, with
different measurement noise. `spookid solve` begins at the initial values, estimates the torque noise together with the
parameters, and chooses the time step; {sum(ok for *_, ok in results)} of {len(results)} fits converged.

| | |
|---|---|
| within ±1.96 promised errors of the truth | **{100 * covered.mean():.1f} %** of {covered.size}; 95 % is right |
| rms of estimate less truth over the promised error | {np.sqrt(np.mean(shares**2)):.3f} |
| the same of each parameter | {spread.min():.2f} … {spread.max():.2f}; {len(results)} twins tell it to {limit:.2f} |
| errors that fits report over those promised | median {np.median(ratio):.3f}, {ratio.min():.2f} … {ratio.max():.2f} |
"""


if __name__ == "__main__":
    main()
