"""Twins whose noise is declared, for estimates while data come in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from mechanisms import DOWN, Array

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    gravity,
)
from spookid.smoothing.estimate import OnlineEstimate

ROD = {"J": 0.005, "b": 0.004, "c": 0.01, "K": 0.1}
FOURBAR = {"I_crank": 2e-4, "I_coupler": 2.5e-3, "I_rocker": 4e-3, "b": 0.01, "K": 0.05}
SIGMA, PUSH, SHAKE = 1e-3, 2e-3, 2e-4
"""Noise of angles [rad], of the rod's hinge and of the linkage's [N m/√Hz]."""
BEGIN = 2.0
"""Seconds of the batch fit that a smoother begins with."""
WINDOW = 40
"""Steps of the rod's window: 0.2 s."""
IN_STEPS: dict[str, Any] = {"step_correction": False, "estimator": "noise"}
"""Settings of a batch fit that tells the same as a smoother."""


@cache
def rod(sigma: float | None = SIGMA, **settings: Any) -> Problem:
    """A driven pendulum with smooth friction: four parameters."""
    J, b = Parameter("J", 0.004, lower=1e-5, unit="kg m^2"), Parameter("b", 5e-3, lower=0)
    c, K = Parameter("c", 5e-3, lower=0), Parameter("K", 0.08)
    body = Body("rod", mass=0.3, inertia=(1e-4, J, J))
    child = body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", GROUND.frame(**DOWN), child, viscous=b, coulomb=c, disturbance=PUSH)
    model = Model([body], [pin], motors=[Motor(pin, "u", gain=K)], gravity=gravity(9.81))
    sensors = [HingeAngle(pin, "theta", sigma=sigma)]
    return Problem("rod", model, observations=sensors, step=0.005, friction_width=0.05, **IN_STEPS, **settings)


@cache
def swing(seed: int = 0, duration: float = 2.6) -> Recording:
    """Of the rod, with its true states."""
    t = np.arange(0, duration + 1e-9, 0.005)
    faster = np.minimum(t, 3.0)
    drive = 3 * np.sin(2 * np.pi * (0.4 + 0.15 * faster) * t) + 2 * np.sign(np.sin(5.1 * t))
    noise = {"pin": PUSH, "theta": SIGMA}
    return rod().simulate(
        ROD, duration, {"pin": 0.5}, inputs=Recording(t, {"u": drive}), noise=noise, seed=seed, substeps=1
    )


def released(duration: float = 0.5) -> Recording:
    """Of the rod without a drive."""
    still = Recording(t := np.arange(0, duration + 1e-9, 0.005), {"u": np.zeros(len(t))})
    noise = {"pin": PUSH, "theta": SIGMA}
    return rod().simulate(ROD, duration, {"pin": 0.5}, inputs=still, noise=noise, seed=0, substeps=1)


@cache
def fourbar() -> Problem:
    """A driven linkage, whose loop three rows too many close: five parameters."""
    lengths, masses = (0.10, 0.25, 0.30), (0.2, 0.4, 0.5)
    names, guesses = ("crank", "coupler", "rocker"), (5e-4, 1e-3, 1e-3)
    inertias = [Parameter(f"I_{name}", guess, lower=1e-6) for name, guess in zip(names, guesses, strict=True)]
    links = [Body(n, mass=m, inertia=(1e-5, i, i)) for n, m, i in zip(names, masses, inertias, strict=True)]
    axle: dict[str, Any] = {"x": (0, 0, 1), "y": (1, 0, 0)}
    starts = [link.frame(at=(-length / 2, 0, 0), **axle) for link, length in zip(links, lengths, strict=True)]
    ends = [link.frame(at=(length / 2, 0, 0), **axle) for link, length in zip(links, lengths, strict=True)]
    alike: dict[str, Any] = {"compliance": 0, "disturbance": SHAKE}
    drive = Hinge("drive", GROUND.frame(**axle), starts[0], viscous=Parameter("b", 1e-3, lower=0), **alike)
    knee, wrist = Hinge("knee", ends[0], starts[1], **alike), Hinge("wrist", ends[1], ends[2], **alike)
    pivot = Hinge("pivot", GROUND.frame(at=(0.3, 0, 0), **axle), starts[2], **alike)
    motor = Motor(drive, "u", gain=Parameter("K", 0.03))
    model = Model(links, [drive, knee, wrist, pivot], motors=[motor], gravity=(0, -9.81, 0))
    sensors = [HingeAngle(drive, "crank", sigma=SIGMA), HingeAngle(pivot, "rocker", sigma=SIGMA)]
    return Problem("fourbar", model, observations=sensors, step=0.004, **IN_STEPS)


@cache
def turning(seed: int = 0, duration: float = 2.3) -> Recording:
    """Of the linkage; the first pose is that of the guesses of its angles, which close the loop."""
    t = np.arange(0, duration + 1e-9, 0.004)
    drive = Recording(t, {"u": 4 * np.sin(2 * np.pi * (0.5 + 0.3 * t) * t) + 2})
    noise = {"drive": SHAKE, "knee": SHAKE, "wrist": SHAKE, "pivot": SHAKE, "crank": SIGMA, "rocker": SIGMA}
    initial = {"drive": 1.0}
    return fourbar().simulate(FOURBAR, duration, initial, inputs=drive, noise=noise, seed=seed, substeps=1)


def measured(run: Recording) -> Recording:
    """What a run shows, without its states."""
    return Recording(run.t, run.signals, run.name)


def rows(recording: Recording) -> Iterator[tuple[float, dict[str, float]]]:
    """Time and samples, one stamp after another."""
    for i, t in enumerate(recording.t.tolist()):
        yield t, {name: float(values[i]) for name, values in recording.signals.items()}


def begun(problem: Problem, run: Recording, **window: Any) -> FixedLagSmoother:
    """A smoother at the end of a batch fit of the first seconds."""
    first = problem.with_(recordings=[measured(run).between(0, BEGIN)])
    return FixedLagSmoother(first, start=first.solve(), **window)


def followed(smoother: FixedLagSmoother, recording: Recording) -> OnlineEstimate:
    """The last estimate after all samples of a recording."""
    for t, values in rows(recording):
        smoother.update(t, values)
    return smoother.estimate


def off(estimate: OnlineEstimate, batch: Solution) -> Array:
    """How far estimates are from those of a batch fit, in standard errors."""
    pairs = [(value - batch[name].estimate, batch[name].std_err) for name, value in estimate.values.items()]
    return np.array([difference / error for difference, error in pairs])


@cache
def start(run: Recording) -> tuple[Problem, Solution]:
    """The rod's first seconds, and a fit of them."""
    first = rod().with_(recordings=[measured(run).between(0, BEGIN)])
    return first, first.solve()


def smoother(run: Recording, **window: Any) -> FixedLagSmoother:
    first, known = start(run)
    return FixedLagSmoother(first, start=known, **(window or {"window": WINDOW}))


def later(run: Recording, stop: float = 99.0) -> Recording:
    return measured(run).between(BEGIN, stop)
