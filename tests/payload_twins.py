"""An arm of three joints that carries something: as a problem with unknowns, and as it is, with runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    JointPosition,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    gravity,
)

FILE = """from pathlib import Path
from payload_twins import declared
from spookid import Recording
problem = declared([Recording.from_csv(Path(__file__).parent / "empty.csv")], unknown=1)
"""
NAMES = ("pan", "tilt", "elbow")
AXES = ((0, 0, 1), (0, 1, 0), (0, 1, 0))
ACROSS = ((1, 0, 0), (1, 0, 0), (1, 0, 0))
PLACES = ((0, 0, 0.2), (0, 0.1, 0.1), (0.4, 0, 0))
ROUGH = (
    (3.0, (0, 0.02, 0.1), (0.03, 0.03, 0.02)),
    (2.0, (0.2, 0, 0.01), (0.01, 0.04, 0.04)),
    (0.8, (0.05, 0.01, 0.02), (0.002, 0.003, 0.003)),
)
"""Mass, centre of mass and moments about it of each link, as a robot's file has them."""
AT, TURN = np.array([0.1, 0.02, 0.0]), np.array([[0, 0, -1], [0, 1, 0], [1, 0, 0]]).T
"""The flange on the last link: where, and its axes as columns."""
LOAD = {"mass": 1.2, "c_x": 0.03, "c_y": -0.02, "c_z": 0.06, "I_xx": 0.016, "I_yy": 0.015, "I_zz": 0.014}
"""In the frame of the flange, moments about the centre."""
JOINTS = {"K": (1.8, 2.1, 2.3), "b": (0.4, 0.2, 0.1), "c": (0.7, 0.4, 0.2)}
INTERVAL, ENCODER, CURRENT = 0.01, 2e-5, 0.05


def arm(inertias: Any, coefficients: Any, **prior: Any) -> Model:
    """The arm with inertias of links, and K, b and c of joints."""
    bodies = [Body(name, inertia=inertia) for name, inertia in zip(NAMES, inertias, strict=True)]
    before, joints, motors = GROUND, [], []
    for i, (name, body) in enumerate(zip(NAMES, bodies, strict=True)):
        axes = {"x": AXES[i], "y": ACROSS[i]}
        own = {"viscous": coefficients["b"][i], "coulomb": coefficients["c"][i]}
        joints.append(Hinge(name, before.frame(at=PLACES[i], **axes), body.frame(**axes), **own))
        motors.append(Motor(joints[-1], f"i_{i}", gain=coefficients["K"][i], measured=True))
        before = body
    flange = bodies[-1].frame(at=AT, x=TURN[:, 0], y=TURN[:, 1])
    return Model(bodies, joints, motors, gravity=gravity(9.81), frames={"flange": flange})


def declared(recordings: Any = (), unknown: int = 2) -> Problem:
    """What an engineer knows: gains within 10 %, and roughly the last links, so many of them."""
    rough = [FullInertia(m, c, inertia=moments) for m, c, moments in ROUGH]
    inertias = rough[:-unknown]
    inertias += [LogCholesky(name, one, within=0.3) for name, one in list(zip(NAMES, rough, strict=True))[-unknown:]]
    own = {
        "K": [Parameter(f"K_{name}", 2.0, lower=0, prior=(2.0, 0.2), unit="N m/A") for name in NAMES],
        "b": [Parameter(f"b_{name}", 0.3, lower=0, unit="N m s") for name in NAMES],
        "c": [Parameter(f"c_{name}", 0.5, lower=0, unit="N m") for name in NAMES],
    }
    return problem_of(arm(inertias, own), recordings)


def problem_of(model: Model, recordings: Any = ()) -> Problem:
    """With encoders."""
    sensors = [JointPosition(joint, f"q_{i}") for i, joint in enumerate(model.joints)]
    return Problem("arm", model, recordings, sensors, step=0.1, step_correction=False, estimator="noise")


def matrix(entries: Any) -> Array:
    """Of I_xx, I_yy, I_zz alone, or all six."""
    xx, yy, zz, xy, xz, yz = (*entries, 0, 0, 0)[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def joined(one: Any, scale: float) -> FullInertia:
    """A link with the load in its flange times a scale, by the parallel axis theorem."""
    mass, center = scale * LOAD["mass"], AT + TURN @ [LOAD[f"c_{a}"] for a in "xyz"]
    inertia = scale * TURN @ matrix([LOAD[f"I_{a}{a}"] for a in "xyz"]) @ TURN.T
    total = one[0] + mass
    middle = (one[0] * np.asarray(one[1]) + mass * center) / total
    whole = np.zeros((3, 3))
    for m, c, about in ((one[0], np.asarray(one[1]), matrix(one[2])), (mass, center, inertia)):
        arm_ = c - middle
        whole += about + m * (arm_ @ arm_ * np.eye(3) - np.outer(arm_, arm_))
    return FullInertia(total, middle, inertia=whole)


def links(rng: np.random.Generator, unknown: int = 2) -> list[Any]:
    """Links as they are: the last ones 10 % off the rough masses and moments, centres 1 cm."""
    own = [
        (m * np.exp(0.1 * rng.normal()), c + 0.01 * rng.normal(size=3), np.array(moments) * np.exp(0.1 * rng.normal()))
        for m, c, moments in ROUGH[-unknown:]
    ]
    return [*ROUGH[:-unknown], *own]


def run(
    rng: np.random.Generator, own: Any, name: str, scale: float = 0.0, duration: float = 9.0, noisy: float = 1.0
) -> Recording:
    """A run along a trajectory of its own, with the load times a scale. Half of the currents' variance lasts 0.1 s."""
    t = np.arange(round(duration / INTERVAL) + 1) * INTERVAL
    q, v, a = np.zeros((3, len(t), 3))
    for k in range(1, 5):
        amplitude, phase, omega = rng.normal(size=3) * 0.7, rng.uniform(0, 6.28, 3), 2 * np.pi * 0.11 * k
        q += amplitude / np.sqrt(k) * np.sin(omega * t[:, None] + phase)
        v += amplitude / np.sqrt(k) * omega * np.cos(omega * t[:, None] + phase)
        a -= amplitude / np.sqrt(k) * omega**2 * np.sin(omega * t[:, None] + phase)
    whole = [FullInertia(m, c, inertia=moments) for m, c, moments in own[:2]] + [joined(own[2], scale)]
    model = arm(whole, JOINTS)
    current = problem_of(model).inverse_dynamics(motion=(q, v, a)).predicted
    slow = np.zeros_like(current)
    keep = np.exp(-INTERVAL / 0.1)
    for k in range(1, len(t)):
        slow[k] = keep * slow[k - 1] + np.sqrt(1 - keep**2) * rng.normal(size=3)
    current = current + noisy * CURRENT * (slow + rng.normal(size=current.shape)) / np.sqrt(2)
    q = q + noisy * ENCODER * rng.normal(size=q.shape)
    columns = {f"q_{i}": q[:, i] for i in range(3)} | {f"i_{i}": current[:, i] for i in range(3)}
    return Recording(t, columns, name)


def folder_with(place: Path, seed: int = 0) -> dict[str, Recording]:
    """A problem file and logs of one arm: empty, with the load, with half of it."""
    rng = np.random.default_rng(seed)
    own = links(rng, 1)
    kinds = (("empty", 0.0, 6.0), ("loaded", 1.0, 9.0), ("half", 0.5, 9.0))
    runs = {name: run(rng, own, name, scale, duration) for name, scale, duration in kinds}
    for name, one in runs.items():
        one.to_csv(place / f"{name}.csv")
    (place / "arm.py").write_text(FILE, encoding="utf-8")
    return runs
