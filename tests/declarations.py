"""Random mechanisms that can be declared: trees and loops, repeated and impossible constraints, all settings."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from spookid import (
    GROUND,
    Body,
    Cylindrical,
    Distance,
    Fixed,
    Gear,
    Gyroscope,
    Hinge,
    JointPosition,
    Model,
    Motor,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    Recording,
    Spherical,
    Spook,
    Universal,
    Variational,
    gravity,
)

AXES = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
STEPS = 12


def frame(chance: Random, body: Any, near: bool = False) -> Any:
    """Some frame of a body; its origin is that of the body often."""
    x, y, *_ = chance.sample(AXES, 3)
    at = (0.0, 0.0, 0.0) if near else tuple(chance.choice((0.0, 0.1, -0.2)) for _ in range(3))
    return body.frame(at=at, x=x, y=y)


def friction(chance: Random, parameters: list[Parameter]) -> dict[str, Any]:
    """Loads along a joint's coordinate, mostly none."""
    found: dict[str, Any] = {}
    for name in ("viscous", "coulomb", "dry", "stiffness"):
        if chance.random() < 0.2:
            found[name] = chance.choice((0.0, 0.05, *parameters))
    return found


def joint(chance: Random, name: str, parent: Any, child: Any, parameters: list[Parameter]) -> Any:
    """A joint between random frames of two bodies."""
    kind = chance.choices((Hinge, Prismatic, Fixed, Spherical, Universal, Cylindrical), weights=(6, 2, 2, 1, 1, 1))[0]
    loads = friction(chance, parameters) if kind in (Hinge, Prismatic) else {}
    if chance.random() < 0.2:
        loads |= {"compliance": 1e-4, "damping": 0.02} if kind is not Fixed else {}
    return kind(name, frame(chance, parent), frame(chance, child), **loads)


def constraint(chance: Random, name: str, bodies: list[Any], joints: list[Any]) -> Any:
    """One that may repeat what a joint holds, or that nothing can satisfy."""
    if chance.random() < 0.2 and len(joints) > 1:
        return Gear(name, *chance.sample(joints, 2), ratio=chance.choice((1.0, -2.0, 0.5)))
    if chance.random() < 0.5:
        one = chance.choice(joints)
        return Distance(name, one.parent, frame(chance, one.child.body), chance.choice((0.1, 0.2, 5.0)))
    one, other = chance.sample([GROUND, *bodies], 2)
    return Distance(name, frame(chance, one), frame(chance, other), chance.choice((0.1, 0.2, 0.3, 5.0)))


def settings(chance: Random) -> dict[str, Any]:
    """Of the problem."""
    some: dict[str, tuple[Any, ...]] = {
        "state_weight": (100.0, 1e4, float("inf"), None),
        "stepper": (Spook(), Variational(), Spook(multipliers="lifted")),
        "friction": ("smooth", "exact"),
        "estimator": ("hard", "noise"),
        "friction_width": (0.1,),
    }
    return {name: chance.choice(values) for name, values in some.items() if chance.random() < 0.4}


def problem(chance: Random) -> Problem:
    """A problem; raises ProblemError for what cannot be."""
    parameters = [Parameter(f"p{i}", chance.choice((0.01, 0.1, 1.0)), lower=0.0) for i in range(chance.randint(1, 3))]
    bodies: list[Any] = []
    joints: list[Any] = []
    for i in range(chance.randint(1, 4)):
        free = chance.random() < 0.15
        moments = tuple(chance.choice((0.01, 0.02, *parameters)) for _ in range(3))
        body = Body(f"b{i}", mass=chance.choice((0.5, 1.0, parameters[0])), inertia=moments, free=free)
        if not free:
            joints.append(joint(chance, f"j{i}", chance.choice([GROUND, *bodies]), body, parameters))
        bodies.append(body)
    if len(bodies) > 1 and chance.random() < 0.2:
        joints.append(joint(chance, "loop", *chance.sample([GROUND, *bodies], 2), parameters))
    ties = [constraint(chance, f"c{i}", bodies, joints) for i in range(chance.choice((0, 0, 1, 1, 2))) if joints]
    moving = [one for one in joints if one.coordinates]
    t = 0.01 * np.arange(STEPS)
    signals = {f"y{i}": chance.uniform(-0.3, 0.3) * np.cos(chance.uniform(1, 20) * t) for i in range(6)}
    signals["u"] = chance.choice((np.zeros(STEPS), np.sin(9 * t)))
    motors = (
        [Motor(chance.choice(moving), "u", chance.choice((1.0, *parameters)))]
        if moving and chance.random() < 0.3
        else []
    )
    sensors: list[Any] = [JointPosition(one, "y0") for one in chance.sample(moving, min(1, len(moving)))]
    if chance.random() < 0.2:
        sensors.append(PointPosition(frame(chance, chance.choice(bodies)), chance.choice("xyz"), "y1"))
    if chance.random() < 0.2:
        sensors.append(Gyroscope(frame(chance, chance.choice(bodies)), ("y1", "y2", "y3")))
    names = {name for sensor in sensors for name in ([sensor.signal] if hasattr(sensor, "signal") else sensor.signals)}
    run = Recording(t, {name: signals[name] for name in sorted(names | {"u"})})
    how = {"coordinates": "joint"} if chance.random() < 0.3 else {}
    model = Model(bodies, joints, motors, constraints=ties, gravity=gravity(9.81), **how)
    return Problem("random", model, [run], sensors, step=0.01, step_correction=False, **settings(chance))


def solved(chance: Random) -> None:
    """A few iterations of a random problem, and all that is said of it."""
    str(problem(chance).solve(max_iterations=3))
