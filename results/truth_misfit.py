"""How often a fit says what its model lacks: `python results/truth_misfit.py [--seeds N] [--only KIND]` prints a table.

Twins of two mechanisms are drawn, each with one thing in it that the model does not have, and fitted; counted is how
often a notice names it, and how often there is any. Of the clean twins nothing should be said. The last two columns
count the fits in which an estimate is three standard errors or more from its true value, and those of them with a
warning of any kind.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.signal import lfilter

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Solution, gravity

SIGMA, STEP, DURATION = 1e-3, 0.01, 10.0
"""Noise of every sensor [rad], time step and length of a recording [s]."""
DISTURBANCES = {True: (0.0, 1e-5, 1e-4, 1e-3), False: (0.0, 1e-5)}
"""Of every hinge of twins that lack nothing, and of others, by turns [N m/√Hz]."""
DELAY, OFFSET, LONGER, OTHER = 5e-3, 0.02, 1.02, 1.02
"""Of one sensor [s], [rad]; a link's declared length, and an inertia in one recording of three, over the true one."""
EXTRA, SLOW, SPRING = 1.0, 1.5, 0.005
"""Stribeck's extra over Coulomb's friction and its rate [rad/s]; stiffness of a spring [N m]."""
RIPPLE, DRIFT = 0.1, 0.95
"""Part of the drive that the recording does not have; share of a sensor's noise that lasts from step to step."""
SPOILT, FAR = 0.01, 0.1
"""Share of outliers, and their standard deviation [rad]."""


@dataclass(frozen=True)
class Mechanism:
    """What is drawn and fitted."""

    name: str
    build: Callable[..., Problem]
    """With ``length=`` (of one link over the true one), ``dry=``, ``stribeck=`` and ``spring=``."""
    truth: dict[str, float]
    initial: dict[str, float]
    sensor: str
    """The one that lags, is off or has outliers."""
    inertia: str
    """The one that is another in one recording."""
    kinds: tuple[str, ...]

    def draw(
        self, seed: int, truth: dict[str, float], clean: bool = False, hidden: float = 0.0, **build: bool
    ) -> Recording:
        """A motion with its noise."""
        t = np.arange(0.0, DURATION + 2 * STEP, STEP)
        known, problem = np.sin(2 * t + 0.1 * seed) + np.sin(5.3 * t), self.build(**build)
        drive = Recording(t=t, signals={"u": known + hidden * np.sin(9.1 * t)})
        sizes = DISTURBANCES[clean]
        noise = {joint.name: sizes[seed % len(sizes)] for joint in problem.model.joints}
        noise |= {sensor.signal: SIGMA for sensor in problem.observations}
        run = problem.simulate(truth, DURATION, self.initial, inputs=drive, noise=noise, seed=seed)
        names = [sensor.signal for sensor in problem.observations]
        signals = {name: run.signals[name] for name in names} | {"u": np.interp(run.t, t, known)}
        return Recording(t=run.t, signals=signals, name=f"seed {seed}")

    def twins(self, kind: str, seed: int) -> list[Recording]:
        """Draws, with what a mechanism or a sensor does to them."""
        if kind in ("clean, three recordings", "recordings"):
            other = self.truth | {self.inertia: OTHER * self.truth[self.inertia]}
            last = other if kind == "recordings" else self.truth
            clean = kind != "recordings"
            return [self.draw(seed + 1000 * i, truth, clean) for i, truth in enumerate((self.truth, self.truth, last))]
        hidden = RIPPLE if kind == "torque not recorded" else 0.0
        extra = {"stribeck": kind == "Stribeck", "spring": kind == "spring"}
        run = self.draw(seed, self.truth, kind == "clean", hidden, **extra)
        rng = np.random.default_rng(seed)
        angle = run.signals[self.sensor]
        if kind == "delay":
            angle = np.interp(run.t - DELAY, run.t, angle)
        elif kind == "offset":
            angle = angle + OFFSET
        elif kind == "outliers":
            angle = np.where(rng.random(len(angle)) < SPOILT, angle + FAR * rng.standard_normal(len(angle)), angle)
        elif kind == "sensor's noise lasts":
            white = SIGMA * np.sqrt(1 - DRIFT**2) * rng.standard_normal(len(angle))
            angle = angle + lfilter([1.0], [1.0, -DRIFT], white)
        return [Recording(t=run.t, signals={**run.signals, self.sensor: angle}, name=run.name)]

    def fitted(self, kind: str, seed: int) -> Solution:
        """The fit of a twin."""
        problem = self.build(length=LONGER if kind == "link" else 1.0, dry=kind != "Coulomb")
        return problem.with_(recordings=self.twins(kind, seed)).solve()


@cache
def pendulum(length: float = 1.0, dry: bool = True, stribeck: bool = False, spring: bool = False) -> Problem:
    """A driven rod with Coulomb friction: inertia, friction and the motor's gain."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    K, c = Parameter("K", 0.03), Parameter("c", 1e-3, lower=0)
    rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15 * length, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    extra, k = (EXTRA * c, SLOW**-2) if stribeck else None, SPRING * spring
    pin = Hinge("pin", *frames, viscous=b, coulomb=c if dry else 0, stribeck=extra, stiffness=k)
    model = Model(bodies=[rod], joints=[pin], motors=[Motor(pin, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("pendulum", model, observations=[HingeAngle(pin, "theta")], step=STEP, friction_width=0.05)


@cache
def furuta(length: float = 1.0, dry: bool = True, stribeck: bool = False, spring: bool = False) -> Problem:
    """A driven Furuta pendulum: inertias, friction and the motor's gain. The arm's length is that of one link."""
    J_A, J_B = Parameter("J_A", 0.002, lower=1e-6), Parameter("J_B", 0.01, lower=1e-6)
    b_1, b_2 = Parameter("b_1", 1e-4, lower=0), Parameter("b_2", 1e-4, lower=0)
    c_1, c_2 = Parameter("c_1", 1e-3, lower=0), Parameter("c_2", 1e-3, lower=0)
    K = Parameter("K", 0.05)
    arm = Body("arm", mass=0.238, inertia=(1e-4, 0.003, J_A))
    rod = Body("rod", mass=0.428, inertia=(1e-3, J_B, J_B))
    up = {"x": (0, 0, 1), "y": (1, 0, 0)}
    axle = GROUND.frame(**up), arm.frame(at=(-0.128 * length, 0, 0), **up)
    shoulder = Hinge("shoulder", *axle, viscous=b_1, coulomb=c_1, stiffness=SPRING * spring)
    edge = arm.frame(at=(0.12 * length, 0, 0), x=(1, 0, 0), y=(0, 0, -1))
    extra = (EXTRA * c_2, SLOW**-2) if stribeck else None
    at = rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    elbow = Hinge("elbow", edge, at, viscous=b_2, coulomb=c_2 if dry else 0, stribeck=extra)
    model = Model([arm, rod], [shoulder, elbow], [Motor(shoulder, signal="u", gain=K)], gravity=gravity(9.82))
    sensors = [HingeAngle(shoulder, "theta1"), HingeAngle(elbow, "theta2")]
    return Problem("furuta", model, observations=sensors, step=STEP, friction_width=0.05)


_FEW = 5
"""Draws of which the notices are printed, too."""
NAMES = {
    "Stribeck": "Stribeck",
    "delay": "a delay?",
    "link": "length",
    "offset": "an offset?",
    "Coulomb": "Coulomb friction?",
    "outliers": "outliers?",
    "recordings": "recordings disagree",
    "spring": "a spring",
    "torque not recorded": "not white",
    "sensor's noise lasts": "not white",
}
"""What a notice says of each kind."""
KINDS = ("clean", "clean, three recordings", *NAMES)
MECHANISMS = (
    Mechanism(
        "driven pendulum",
        pendulum,
        {"J": 2e-3, "b": 2e-3, "c": 5e-3, "K": 0.05},
        {"pin": 1.5},
        "theta",
        "J",
        tuple(kind for kind in KINDS if kind != "link"),
    ),
    Mechanism(
        "driven Furuta pendulum",
        furuta,
        {"J_A": 0.003, "J_B": 0.004, "b_1": 1e-3, "b_2": 1e-3, "c_1": 5e-3, "c_2": 5e-3, "K": 0.1},
        {"elbow": 2.0},
        "theta2",
        "J_B",
        KINDS,
    ),
)


def told(solution: Solution) -> str:
    """The notice of what the model lacks, empty if there is none."""
    return next((finding.text for finding in solution.findings if finding.code == "residuals.autocorrelated"), "")


def astray(mechanism: Mechanism, solution: Solution) -> bool:
    """True if an estimate is three standard errors or more from its true value."""
    pairs = ((solution[name], value) for name, value in mechanism.truth.items())
    return any(abs(found.estimate - value) >= 3 * found.std_err for found, value in pairs if found.std_err > 0)


def warns(solution: Solution) -> bool:
    """True if there is a warning, or no answer."""
    return bool(solution.no_answer) or any(finding.severity != "note" for finding in solution.findings)


def table(seeds: int, only: Sequence[str]) -> Iterator[str]:
    """Lines of the table."""
    yield "| mechanism | missing effect | named | any warning | converged | three errors off | of these warned |"
    yield "|---|---|---|---|---|---|---|"
    for mechanism in MECHANISMS:
        for kind in (k for k in mechanism.kinds if not only or k in only):
            found = [mechanism.fitted(kind, seed) for seed in range(seeds)]
            notices = [told(solution) for solution in found]
            named = sum(NAMES[kind] in notice for notice in notices) if kind in NAMES else "none"
            sound = sum(solution.status.value == "converged" for solution in found)
            off = [solution for solution in found if astray(mechanism, solution)]
            counts = f"{named} of {seeds}" if kind in NAMES else "", f"{sum(map(bool, notices))}", f"{sound}"
            counts += f"{len(off)}", f"{sum(map(warns, off))}"
            yield " | ".join(["", mechanism.name, kind, *counts, ""]).strip()
            if seeds <= _FEW:
                yield from filter(None, notices)


def part(seeds: int) -> Iterator[str]:
    """Lines of the table under their title."""
    yield "## Warnings for incomplete models"
    yield ""
    yield from table(seeds, ())
    yield ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    for line in table(given.seeds, given.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
