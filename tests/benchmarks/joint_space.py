"""How fast joint coordinates are: ``python tests/benchmarks/joint_space.py``. Each figure beside its target.

Of 1000 steps on one core, with known noise: an iteration (equations, Jacobians, normal equations, step) of chains and
of an arm, and what their set-up costs.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from benchmarks.rows import set_up
from benchmarks.table import Row, seconds, text

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    HingeAngle,
    LevenbergMarquardt,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    gravity,
)
from spookid.assembly.assembly import Assembly

STEPS, STEP = 1000, 0.01
LINK = 0.3
"""Length of a link [m]."""
PI = (1.0, 0.15, 0.0, 0.0, 0.01, 0.05, 0.05, 0.0, 0.0, 0.0)
"""Mass, first moments and entries of the inertia of one."""


def motion(joints: int) -> Recording:
    """Smooth angles, no two alike, and torques that do not cause them: what they cost is asked."""
    t, rng = STEP * np.arange(STEPS), np.random.default_rng(0)
    angles = {f"q{j}": 0.5 * np.sin((1 + rng.uniform()) * t + rng.uniform(0, 6)) for j in range(joints)}
    return Recording(t, {**angles, **{f"u{j}": np.cos((1 + 0.1 * j) * t) for j in range(joints)}})


def chain(joints: int, ten: bool, driven: bool = False) -> Problem:
    """Links in a row whose axles are in turn across and upright.

    Args:
        ten: all of each link's inertia is unknown, not its three moments alone.
        driven: motors' inertias and offsets, and friction, are unknown, too.
    """
    bodies, hinges, motors = list[Body](), list[Hinge](), list[Motor]()

    def unknown(name: str, j: int, value: float) -> Parameter | float:
        return Parameter(f"{name}_{j}", value) if driven else value

    for j in range(joints):
        if ten:
            pi = [Parameter(f"pi_{j}_{k}", value, lower=0.1 if k == 0 else -np.inf) for k, value in enumerate(PI)]
            body, inner = Body(f"link {j}", inertia=FullInertia.from_pi(pi)), 0.0
        else:
            moments = tuple(Parameter(f"J_{j}_{axis}", 0.02, lower=1e-6) for axis in "xyz")
            body, inner = Body(f"link {j}", mass=PI[0], inertia=moments), -LINK / 2
        axes = {"x": (0, 0, 1), "y": (1, 0, 0)} if j % 2 else {"x": (0, 1, 0), "y": (1, 0, 0)}
        below = bodies[-1].frame(at=(inner + LINK, 0, 0), **axes) if bodies else GROUND.frame(**axes)
        friction = {"viscous": unknown("b", j, 0.02), "coulomb": unknown("c", j, 0.1) if driven else 0.0}
        hinge = Hinge(f"joint {j}", below, body.frame(at=(inner, 0, 0), **axes), disturbance=1e-2, **friction)
        rotor = {"shaft_inertia": unknown("I", j, 0.01), "offset": unknown("o", j, 0.0)}
        motors.append(Motor(hinge, f"u{j}", gain=1.0, **rotor))
        bodies.append(body)
        hinges.append(hinge)
    model = Model(bodies, hinges, motors, gravity=gravity(9.81), coordinates="joint")
    sensors = [HingeAngle(hinge, f"q{j}", sigma=1e-3) for j, hinge in enumerate(hinges)]
    return Problem("chain", model, [motion(joints)], sensors, step=STEP, every=1)


def processor_time() -> float:
    """Of this process and those it has waited for [s]."""
    return time.process_time() + sum(os.times()[2:4])


def iteration(assembly: Assembly, least: Callable[[Callable[[], object]], float]) -> float:
    """Of Levenberg and Marquardt, by how much longer three take than one [s]."""

    def spent(count: int) -> float:
        solver = LevenbergMarquardt(max_iterations=count)
        return least(lambda: solver.solve(assembly.transcription, assembly.start))

    return (spent(3) - spent(1)) / 2


def rows(names: list[str], repeats: int, clock: Callable[[], float]) -> Iterator[Row]:
    """Of the chains and arms that are named."""

    def least(work: Callable[[], object]) -> float:
        return min(seconds(work, 1, clock) for _ in range(repeats))

    chains = {
        "chain": ("16 hinges, three moments a body", chain(16, ten=False), "≤ 40 ms"),
        "arm": ("6-joint arm, 84 parameters", chain(6, ten=True, driven=True), "≤ 20 ms"),
        "ten": ("16 hinges, ten a body", chain(16, ten=True), "≤ 120 ms"),
    }
    for name, (label, problem, target) in chains.items():
        if name not in names:
            continue
        first = seconds(lambda p=problem: set_up(p), 1, clock)
        yield Row(f"{label}: set-up, the first", first, "s", target="≤ 10 s")
        again = seconds(lambda p=problem: set_up(p), 1, clock)
        assembly = set_up(problem)
        note = f"{len(problem.free)} parameters; set-up again {again:.2g} s"
        yield Row(f"{label}: an iteration", 1e3 * iteration(assembly, least), "ms", target=target, note=note)
        kernels = least(lambda a=assembly: evaluated(a))
        yield Row(f"{label}: equations and Jacobians alone", 1e3 * kernels, "ms")


def evaluated(assembly: Assembly) -> None:
    """All factors linearized."""
    assembly.transcription.linearize(assembly.start, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["chain", "arm", "ten"])
    parser.add_argument("--repeats", type=int, default=5, help="of which the least is shown")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine with other work")
    given = parser.parse_args()
    measured, clock = [], processor_time if given.cpu else time.perf_counter
    for row in rows(given.names, given.repeats, clock):
        print(*row.cells, sep="  ", file=sys.stderr, flush=True)
        measured.append(row)
    print(text(measured))


if __name__ == "__main__":
    main()
