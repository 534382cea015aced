"""Twins with impacts, from equations of motion of their own that SciPy integrates up to each event.

A bar falls, slides on its ends and tumbles; a pendulum swings against a stop. White forces disturb both, constant over
every 2 ms; what sensors show at every 10 ms has white noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    Impact,
    JointPosition,
    Model,
    Parameter,
    Planar,
    Problem,
    Recording,
    gravity,
)

Array = np.ndarray
G, STEP, PIECE = 9.81, 0.01, 0.002
MASS, INERTIA, HALF = 0.5, 0.004, 0.1
"""Of the bar [kg, kg m²], and half its length [m]."""
BAR = {"e": 0.6, "mu": 0.12}
SWING = {"e": 0.8, "b": 0.004}
ROD = {"mass": 0.4, "length": 0.25, "inertia": 0.009}
"""Of the pendulum [kg], to its centre of mass [m], and about that [kg m²]."""
STOP = 0.2
"""Angle of the pendulum's stop [rad]."""
FORCE, TORQUE = 0.05, 0.003
"""What disturbs both [N/√Hz, N m/√Hz]."""


@dataclass(frozen=True)
class Twin:
    """A recording with the times of its impacts."""

    recording: Recording
    times: tuple[tuple[float, ...], ...]
    """Of each point that hits [s]."""

    def told(self, left_out: int | None = None) -> list[list[float]]:
        """Times to the nearest sample, without one of them all."""
        every = sorted(t for own in self.times for t in own)
        out = None if left_out is None else every[left_out]
        return [[round(t / STEP) * STEP for t in own if t != out] for own in self.times]


def run(
    y: Array,
    rhs: Callable[[Array, Array], Array],
    gaps: Sequence[Callable[[Array], float]],
    reset: Callable[[int, Array], Array],
    forces: Callable[[], Array],
    count: int,
) -> tuple[Array, Array, list[list[float]]]:
    """Samples every STEP, (N, n), of a motion up to shortly before the impact after the first ``count``."""
    t, shown, hits = 0.0, [y], [[] for _ in gaps]
    events = [lambda _, x, gap=gap: gap(x) for gap in gaps]
    for event in events:
        event.terminal, event.direction = True, -1
    while len(shown) < 3000:
        force, end = forces(), t + PIECE
        while True:
            push = partial(rhs, force=force)
            found = solve_ivp(lambda _, x, f=push: f(x), (t, end), y, events=events, rtol=1e-9, atol=1e-11)
            t, y = float(found.t[-1]), found.y[:, -1]
            if found.status != 1:
                break
            which = next(i for i, at in enumerate(found.t_events) if len(at))
            if sum(map(len, hits)) == count:
                return np.arange(len(shown) - 1) * STEP, np.array(shown[:-1]), hits
            hits[which].append(t)
            y = reset(which, y)
            y = y + 1e-12 * rhs(y, force)
        if round(t / PIECE) % round(STEP / PIECE) == 0:
            shown.append(y)
    return np.arange(len(shown)) * STEP, np.array(shown), hits


def bar_twin(count: int, seed: int, sigma: float = 5e-4, sticks: bool = False) -> Twin | None:
    """A bar that falls and slides, or sticks where it hits; None if an end stops, or impacts are hardly apart."""
    rng, slides = np.random.default_rng(seed), [True]
    inverse = np.array([1 / MASS, 1 / MASS, 1 / INERTIA])

    def arm(end: int, angle: float) -> Array:
        return (2 * end - 1) * HALF * np.array([np.cos(angle), np.sin(angle)])

    def reset(end: int, y: Array) -> Array:
        r = arm(end, y[2])
        normal, along = np.array([0, 1, r[0]]), np.array([1, 0, -r[1]])
        if sticks:
            J = np.array([normal, along])
            jump = [-(1 + BAR["e"]) * (normal @ y[3:]), -along @ y[3:]]
            return np.concatenate([y[:3], y[3:] + inverse * (J.T @ np.linalg.solve(J * inverse @ J.T, jump))])
        direction = np.sign(along @ y[3:])
        push = normal - BAR["mu"] * direction * along
        after = y[3:] - inverse * push * (1 + BAR["e"]) * (normal @ y[3:]) / (normal @ (inverse * push))
        slides[0] &= direction * (along @ after) > 0.2
        return np.concatenate([y[:3], after])

    def rhs(y: Array, force: Array) -> Array:
        return np.concatenate([y[3:], inverse * force - [0, G, 0]])

    def forces() -> Array:
        return rng.standard_normal(3) * [FORCE, FORCE, TORQUE] / np.sqrt(PIECE)

    start = np.array([0, rng.uniform(0.6, 0.8), rng.uniform(-0.5, 0.5), 6.0, 0, rng.uniform(-3, 3)])
    gaps = [lambda y, end=end: y[1] + arm(end, y[2])[1] for end in range(2)]
    t, y, hits = run(start, rhs, gaps, reset, forces, count)
    every = sorted(x for own in hits for x in own)
    near = np.diff([0, *every, t[-1]]).min() < 9 * STEP
    if not slides[0] or near or len(every) < count:
        return None
    signals = {name: y[:, i] + sigma * rng.standard_normal(len(t)) for i, name in enumerate(("x", "z", "angle"))}
    return Twin(Recording(t=t, signals=signals, name="bar"), tuple(map(tuple, hits)))


def bar(twins: Sequence[Twin], left_out: int | None = None, sticks: bool = False, **settings: object) -> Problem:
    """The bar's ends hit the ground when twins tell, but for one impact of the first."""
    e = Parameter("e", 0.5, lower=0, upper=1)
    mu = np.inf if sticks else Parameter("mu", 0.3, lower=0)
    recordings = [replace(twin.recording, name=f"toss {i}") for i, twin in enumerate(twins)]
    told = [twin.told(None if i else left_out) for i, twin in enumerate(twins)]
    frame = {"x": (0, -1, 0), "y": (1, 0, 0)}
    body = Body("bar", mass=MASS, inertia=(1e-3, INERTIA, INERTIA))
    flight = Planar("flight", GROUND.frame(**frame), body.frame(**frame))
    ends = [
        Impact(
            f"end {i}",
            body.frame(at=((2 * i - 1) * HALF, 0, 0)),
            axes="xz",
            times={r.name: times[i] for r, times in zip(recordings, told, strict=True)},
            restitution=e,
            friction=mu,
        )
        for i in range(2)
    ]
    sensors = [JointPosition(flight, name, coordinate=i) for i, name in enumerate(("x", "z", "angle"))]
    model = Model([body], [flight], constraints=ends, gravity=gravity(G))
    return Problem("bar", model, recordings, sensors, step=STEP, **settings)


def swing_twin(count: int, seed: int, sigma: float = 5e-4) -> Twin | None:
    """A pendulum that swings against a stop."""
    rng = np.random.default_rng(seed)
    inertia, weight = ROD["inertia"] + ROD["mass"] * ROD["length"] ** 2, ROD["mass"] * G * ROD["length"]

    def rhs(y: Array, force: Array) -> Array:
        return np.array([y[1], (-weight * np.sin(y[0]) - SWING["b"] * y[1] + force[0]) / inertia])

    def forces() -> Array:
        return rng.standard_normal(1) * TORQUE / np.sqrt(PIECE)

    start, stop = np.array([rng.uniform(1.3, 1.6), 0.0]), [lambda y: y[0] - STOP]
    t, y, hits = run(start, rhs, stop, lambda _, y: np.array([y[0], -SWING["e"] * y[1]]), forces, count)
    angle = y[:, 0] + sigma * rng.standard_normal(len(t))
    if np.diff([0, *hits[0], t[-1]]).min() < 9 * STEP:
        return None
    return Twin(Recording(t=t, signals={"angle": angle}, name="swing"), (tuple(hits[0]),))


def swing(twin: Twin, left_out: int | None = None, **settings: object) -> Problem:
    """The pendulum's tip hits a stop when a twin tells, but for one impact; its angle is zero where it hangs."""
    e, b = Parameter("e", 0.5, lower=0, upper=1), Parameter("b", 0.01, lower=0, unit="N m s")
    rod = Body("rod", mass=ROD["mass"], inertia=(ROD["inertia"],) * 3)
    down = {"x": (0, -1, 0), "y": (0, 0, -1)}
    hinge = Hinge("hinge", GROUND.frame(**down), rod.frame(at=(0, 0, ROD["length"]), **down), viscous=b)
    normal = GROUND.frame(at=(0, 0, 0), x=(0, 1, 0), y=(0, 0, 1))
    tip = Impact("stop", rod.frame(at=(0, 0, -ROD["length"])), normal, times=twin.told(left_out)[0], restitution=e)
    model = Model([rod], [hinge], constraints=[tip], gravity=gravity(G))
    return Problem("swing", model, [twin.recording], [JointPosition(hinge, "angle")], step=STEP, **settings)
