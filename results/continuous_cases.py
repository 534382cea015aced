"""The cases of `truth.py`: a motion in continuous time, and the problem that is to find its parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import continuous_twins as exact
import numpy as np
import truth_twins
from continuous_twins import ArmSizes, Array

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Variational, gravity

STEP, DURATION, SIGMA = 0.01, 10.0, 1e-3
"""Step and interval of the samples [s], length [s], noise of every sensor [rad]."""
TIMES = STEP * np.arange(round(DURATION / STEP) + 1)


@dataclass(frozen=True)
class Case:
    """A mechanism whose parameters are known in continuous time."""

    name: str
    problem: Problem
    truth: Mapping[str, float]
    angles: Mapping[str, Array]
    """What its sensors would show without noise, at ``TIMES`` [rad]."""
    inputs: Callable[[Array], Mapping[str, Array]] = lambda _: {}
    """Of the motors, by time."""

    def posed(self, seed: int, sigma: float = SIGMA) -> Problem:
        """The problem with a draw of the sensors' noise, and guesses off by a factor of two to either side."""
        random = np.random.default_rng(seed)
        shown = {name: angle + random.normal(0.0, sigma, len(TIMES)) for name, angle in self.angles.items()}
        recording = Recording(t=TIMES, signals={**shown, **self.inputs(TIMES)}, name=f"seed {seed}")
        guess = {name: value * (2.0, 0.5)[i % 2] for i, (name, value) in enumerate(self.truth.items())}
        return self.problem.with_(recordings=[recording], initial=guess)


def dry_pendulum() -> Case:
    """A rod with viscous and Coulomb friction, released at 2 rad; it swings throughout."""
    truth = {"J": 2e-3, "b": 5e-4, "c": 2e-3}
    J, b = Parameter("J", 1e-3, lower=1e-7, unit="kg m^2"), Parameter("b", 1e-3, lower=0, unit="N m s")
    c = Parameter("c", 1e-3, lower=0, unit="N m")
    rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    down, held = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", down, held, viscous=b, coulomb=c)
    model = Model(bodies=[rod], joints=[pin], gravity=gravity(9.81))
    problem = Problem("dry pendulum", model, observations=[HingeAngle(pin, "theta")], step=STEP)
    return Case("pendulum, dry friction", problem, truth, {"theta": exact.dry_pendulum(**truth, t=TIMES)})


def furuta() -> Case:
    """Release of a Furuta pendulum."""
    twin = truth_twins.furuta(STEP, Variational())
    q = exact.forced(exact.furuta(**twin.truth), np.array([0.0, twin.initial["elbow"]]), TIMES)
    return Case("Furuta, release", twin.problem, twin.truth, {"theta1": q[:, 0], "theta2": q[:, 1]})


def fourbar() -> Case:
    """A driven four-bar, its voltage held between samples as a controller gives it."""
    twin = truth_twins.fourbar(STEP, Variational())
    free = dict(twin.truth)
    gain, drive = free.pop("K"), twin.drive
    assert drive is not None
    start, law = np.array([twin.initial["drive"]]), exact.fourbar(**free)
    q = exact.forced(law, start, TIMES, lambda s: np.array([gain * drive(s)]), STEP)[:, 0]
    _, rocker = exact.loop(q)
    angles = {"crank": q, "rocker": np.arctan2(rocker[1], rocker[0])}
    return Case("four-bar, driven", twin.problem, twin.truth, angles, lambda t: {"u": drive(t)})


def arm() -> Case:
    """Three joints, yaw and two of pitch, driven by torques of a few tones, held between samples."""
    truth = {"I_column": 0.03, "I_upper": 0.012, "I_fore": 0.004, "b_1": 0.1, "b_2": 0.08, "b_3": 0.04}
    law = exact.arm(
        ArmSizes(), *(truth[n] for n in ("I_column", "I_upper", "I_fore")), [truth[f"b_{i}"] for i in (1, 2, 3)]
    )
    q = exact.forced(law, np.zeros(3), TIMES, _torques, STEP)
    angles = {f"q_{i + 1}": q[:, i] for i in range(3)}
    return Case("arm of three joints", _arm_problem(ArmSizes()), truth, angles, _arm_inputs)


def _arm_inputs(t: Array) -> dict[str, Array]:
    return {f"u_{i + 1}": u for i, u in enumerate(_torques(t))}


def _torques(t: Array) -> Array:
    """Three tones a joint [N m], (3, ...)."""
    tones = (
        ((0.5, 0.4, 0.0), (0.5, 1.1, 1.0), (0.4, 1.9, 2.0)),
        ((1.6, 0.5, 0.5), (1.2, 0.9, 2.0), (0.8, 1.7, 0.0)),
        ((0.3, 0.7, 1.5), (0.3, 1.3, 0.3), (0.2, 2.1, 1.0)),
    )
    return np.array([sum(a * np.sin(2 * np.pi * f * t + p) for a, f, p in joint) for joint in tones])


def _arm_problem(sizes: ArmSizes) -> Problem:
    inertias = [Parameter(f"I_{n}", 0.01, lower=1e-6, unit="kg m^2") for n in ("column", "upper", "fore")]
    viscous = [Parameter(f"b_{i}", 0.01, lower=0, unit="N m s") for i in (1, 2, 3)]
    I_0, I_1, I_2 = inertias
    column = Body("column", mass=sizes.masses[0], inertia=(0.01, 0.01, I_0))
    upper = Body("upper", mass=sizes.masses[1], inertia=(sizes.upper_inertia[0], I_1, sizes.upper_inertia[1]))
    fore = Body("fore", mass=sizes.masses[2], inertia=(sizes.fore_inertia[0], I_2, sizes.fore_inertia[1]))
    upright = {"x": (0, 0, 1), "y": (1, 0, 0)}
    pitch = {"x": (0, 1, 0), "y": (1, 0, 0)}  # about the link's y axis, its x axis along the link
    shoulder = column.frame(at=(sizes.ahead, sizes.aside, 0), x=(0, -1, 0), y=(0, 0, -1))
    elbow = upper.frame(at=(sizes.upper - sizes.upper_centre, 0, 0), **pitch)
    frames = [
        (GROUND.frame(**upright), column.frame(**upright)),
        (shoulder, upper.frame(at=(-sizes.upper_centre, 0, 0), **pitch)),
        (elbow, fore.frame(at=(-sizes.fore_centre, 0, 0), **pitch)),
    ]
    joints = [Hinge(f"joint_{i + 1}", *pair, viscous=viscous[i]) for i, pair in enumerate(frames)]
    motors = [Motor(joint, signal=f"u_{i + 1}") for i, joint in enumerate(joints)]
    model = Model(bodies=[column, upper, fore], joints=joints, motors=motors, gravity=gravity(sizes.gravity))
    sensors = [HingeAngle(joint, f"q_{i + 1}") for i, joint in enumerate(joints)]
    return Problem("arm", model, observations=sensors, step=STEP)


CASES: Mapping[str, Callable[[], Case]] = {
    "pendulum with dry friction": dry_pendulum,
    "Furuta pendulum": furuta,
    "four-bar": fourbar,
    "arm with three joints": arm,
}
