"""Power of the tests for `truth.py`: mechanisms are drawn with one fault that their model does not have, and fitted.

Each fit counts whether an estimate is three standard errors or more from its true value, whether there is any warning,
and whether a finding names the fault.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.signal import lfilter
from truth_pendulums import EXTRA, SLOW, STEP, WIDTH, swung

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Solution, gravity

DURATION = 10.0
"""Length of a recording [s]."""
DISTURBANCES = (0.0, 1e-5, 1e-4, 1e-3)
"""Of every hinge, by turns [N m/√Hz]."""
LATE, LAG, OFFSET, LONGER = 5e-3, 0.02, 0.02, 1.02
"""Delay of a sensor or motor [s], time constant of a motor [s], offset of a sensor [rad], and declared over true length
of a link."""
FAULTS = {
    "no fault": "",
    "delay of a sensor": "a delay?",
    "delay of the motor": "a delay?",
    "lag of the motor": "first-order lag",
    "offset of a sensor": "an offset?",
    "missing Coulomb friction": "Coulomb friction?",
    "missing Stribeck friction": "Stribeck",
    "wrong length of a link": "length",
}
"""What a finding says of each."""


@dataclass(frozen=True)
class Mechanism:
    """What is drawn and fitted."""

    name: str
    build: Callable[..., Problem]
    """With ``length=`` (of one link over the true one), ``dry=`` and ``stribeck=``."""
    truth: Mapping[str, float]
    start: Sequence[float]
    """Initial angles [rad]."""
    sensors: Sequence[str]
    """Of which the last one lags or is off."""

    def posed(self, fault: str, seed: int) -> Problem:
        """The problem with a draw of the data of a fault."""
        run = _drawn(self.name, seed, fault if "motor" in fault or "Stribeck" in fault else "")
        angle = run.signal(self.sensors[-1])
        if fault == "delay of a sensor":
            angle = np.interp(np.asarray(run.t) - LATE, np.asarray(run.t), angle)
        elif fault == "offset of a sensor":
            angle = angle + OFFSET
        length = LONGER if fault == "wrong length of a link" else 1.0
        problem = self.build(length=length, dry=fault != "missing Coulomb friction")
        return problem.with_(
            recordings=[Recording(t=run.t, signals={**run.signals, self.sensors[-1]: angle}, name="log")]
        )

    def judged(self, fault: str, solution: Solution) -> dict[str, bool]:
        """Whether an estimate is far off, and whether the fault is named."""
        pairs = [(solution[name], value) for name, value in self.truth.items() if name in solution.parameters]
        far = any(abs(found.estimate - value) >= 3 * found.std_err for found, value in pairs if found.std_err > 0)
        named = any(FAULTS[fault] in finding.text for finding in solution.findings)
        return {"moved": far, "named": bool(FAULTS[fault]) and named}

    def faults(self) -> Iterator[str]:
        """Those that differ from other values of its parameters."""
        return (fault for fault in FAULTS if "length" not in fault or self.build is furuta)


@lru_cache(maxsize=8)
def _drawn(mechanism: str, seed: int, fault: str) -> Recording:
    """A motion with its noise, and the input as it is recorded."""
    one, rng = next(m for m in MECHANISMS if m.name == mechanism), np.random.default_rng(seed)
    t = STEP * np.arange(round(DURATION / STEP) + 1)
    waves = lambda t: np.sin(2 * t + 0.1 * seed) + np.sin(5.3 * t)  # noqa: E731
    acts = waves(t)
    if fault == "delay of the motor":
        acts = waves(t - LATE)
    elif fault == "lag of the motor":
        share = -np.expm1(-STEP / LAG)
        acts = lfilter([share], [1, share - 1], acts, zi=[(1 - share) * acts[0]])[0]
    disturbance = DISTURBANCES[seed % len(DISTURBANCES)]
    angles = swung(one.truth, one.start, acts, disturbance, rng, fault == "missing Stribeck friction")
    return Recording(t=t, signals={**dict(zip(one.sensors, angles.T, strict=True)), "u": waves(t)}, name="log")


@cache
def pendulum(length: float = 1.0, dry: bool = True, stribeck: bool = False) -> Problem:
    """A driven rod with Coulomb friction: inertia, friction and the motor's gain."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    K, c = Parameter("K", 0.03), Parameter("c", 1e-3, lower=0)
    rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15 * length, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    extra = (EXTRA * c, SLOW**-2) if stribeck else None
    pin = Hinge("pin", *frames, viscous=b, coulomb=c if dry else 0, stribeck=extra)
    model = Model(bodies=[rod], joints=[pin], motors=[Motor(pin, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("pendulum", model, observations=[HingeAngle(pin, "theta")], step=STEP, friction_width=WIDTH)


@cache
def furuta(length: float = 1.0, dry: bool = True, stribeck: bool = False) -> Problem:
    """A driven Furuta pendulum: inertias, friction and the motor's gain. The arm's length is that of one link."""
    J_A, J_B = Parameter("J_A", 0.002, lower=1e-6), Parameter("J_B", 0.01, lower=1e-6)
    b_1, b_2 = Parameter("b_1", 1e-4, lower=0), Parameter("b_2", 1e-4, lower=0)
    c_1, c_2 = Parameter("c_1", 1e-3, lower=0), Parameter("c_2", 1e-3, lower=0)
    K = Parameter("K", 0.05)
    arm = Body("arm", mass=0.238, inertia=(1e-4, 0.003, J_A))
    rod = Body("rod", mass=0.428, inertia=(1e-3, J_B, J_B))
    up = {"x": (0, 0, 1), "y": (1, 0, 0)}
    axle = GROUND.frame(**up), arm.frame(at=(-0.128 * length, 0, 0), **up)
    shoulder = Hinge("shoulder", *axle, viscous=b_1, coulomb=c_1)
    edge = arm.frame(at=(0.12 * length, 0, 0), x=(1, 0, 0), y=(0, 0, -1))
    extra = (EXTRA * c_2, SLOW**-2) if stribeck else None
    at = rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    elbow = Hinge("elbow", edge, at, viscous=b_2, coulomb=c_2 if dry else 0, stribeck=extra)
    model = Model([arm, rod], [shoulder, elbow], [Motor(shoulder, signal="u", gain=K)], gravity=gravity(9.82))
    sensors = [HingeAngle(shoulder, "theta1"), HingeAngle(elbow, "theta2")]
    return Problem("furuta", model, observations=sensors, step=STEP, friction_width=WIDTH)


MECHANISMS = (
    Mechanism("driven pendulum", pendulum, {"J": 2e-3, "b": 2e-3, "c": 5e-3, "K": 0.05}, (1.5,), ("theta",)),
    Mechanism(
        "driven Furuta pendulum",
        furuta,
        {"J_A": 0.003, "J_B": 0.004, "b_1": 1e-3, "b_2": 1e-3, "c_1": 5e-3, "c_2": 5e-3, "K": 0.1},
        (0.0, 2.0),
        ("theta1", "theta2"),
    ),
)
