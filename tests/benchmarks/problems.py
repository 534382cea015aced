"""What is measured: a Furuta pendulum released near upright, and a single pendulum as long as one likes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ellipj, ellipk

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Spook,
    Variational,
    gravity,
    tilted_gravity,
)

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "problems" / "data" / "furuta_release.csv"
STEP = 0.01
FOUR = ("J_Azz", "J_Byy", "b_1", "b_2")
"""Parameters that the shorter problem estimates; the truth is 0.003 and 0.004 kg m², 1e-3 and 1e-4 N m s."""

_GUESSES = {
    "J_Axx": (0.01, 1e-6),
    "J_Ayy": (0.01, 1e-6),
    "J_Azz": (0.01, 1e-6),
    "J_Bxx": (0.001, 1e-6),
    "J_Byy": (0.01, 1e-6),
    "J_Bzz": (0.01, 1e-6),
    "b_1": (1e-4, 0.0),
    "b_2": (1e-4, 0.0),
    "mu_1": (1e-4, 0.0),
    "mu_2": (1e-4, 0.0),
    "K": (0.1, -np.inf),
    "tilt_x": (0.0, -0.2),
    "tilt_y": (0.0, -0.2),
}
"""Guess and lower bound."""

_FIXED = {"J_Axx": 1e-4, "J_Ayy": 0.003, "J_Bxx": 1e-4, "J_Bzz": 0.004, "mu_1": 0.0, "mu_2": 0.0}
"""Values of those that the shorter problem does not estimate, where they differ from their guesses."""


def furuta(stepper: Spook | Variational, steps: int, parameters: int) -> Problem:
    """The mechanism of Table G.5 with 13 or 4 unknown parameters and at most 1001 samples of two angles."""
    p = {name: Parameter(name, guess, lower=lower) for name, (guess, lower) in _GUESSES.items()}
    soft = {"compliance": 1e-4, "damping": 0.02}
    arm = Body("A", mass=0.238, inertia=(p["J_Axx"], p["J_Ayy"], p["J_Azz"]))
    rod = Body("B", mass=0.428, inertia=(p["J_Bxx"], p["J_Byy"], p["J_Bzz"]))
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    shoulder = Hinge(
        "shoulder",
        GROUND.frame(**axle),
        arm.frame(at=(-0.128, 0, 0), **axle),
        viscous=p["b_1"],
        dry=p["mu_1"],
        **soft,
    )
    elbow = Hinge(
        "elbow",
        arm.frame(at=(0.12, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=p["b_2"],
        dry=p["mu_2"],
        **soft,
    )
    whole = Recording.from_csv(RELEASE, time="t")
    kept = slice(0, round((steps - 1) * STEP / 1e-3) + 1)
    motor = Motor(shoulder, signal="u", gain=p["K"], shaft_inertia=1e-4)
    return Problem(
        "furuta",
        model=Model([arm, rod], [shoulder, elbow], [motor], gravity=tilted_gravity(9.82, p["tilt_x"], p["tilt_y"])),
        every=1,
        recordings=[Recording(t=whole.t[kept], signals={name: s[kept] for name, s in whole.signals.items()})],
        observations=[HingeAngle(shoulder, signal="theta1", sigma=1.0), HingeAngle(elbow, signal="theta2", sigma=1.0)],
        step=STEP,
        stepper=stepper,
        state_weight=1e4 if isinstance(stepper, Variational) else 100.0,
        friction="smooth",
        initial=_FIXED if parameters == len(FOUR) else {},
        fixed=set(_GUESSES) - set(FOUR) if parameters == len(FOUR) else (),
    )


def joint_pendulum(steps: int) -> Problem:
    """The Furuta pendulum, rigid, in joint coordinates and without friction by load, of which four parameters are
    unknown; at most 1001 samples."""
    J_A, J_B = (Parameter(name, 0.01, lower=1e-6) for name in ("J_Azz", "J_Byy"))
    b_1, b_2 = (Parameter(name, 1e-4, lower=0.0) for name in ("b_1", "b_2"))
    arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, J_A))
    rod = Body("B", mass=0.428, inertia=(1e-4, J_B, 0.004))
    axle, noise = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"disturbance": 1e-3}
    shoulder = Hinge("shoulder", GROUND.frame(**axle), arm.frame(at=(-0.128, 0, 0), **axle), viscous=b_1, **noise)
    elbow = Hinge(
        "elbow",
        arm.frame(at=(0.12, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b_2,
        **noise,
    )
    recording = Recording.from_csv(RELEASE, time="t").between(0.0, (steps - 0.5) * STEP)
    model = Model([arm, rod], [shoulder, elbow], gravity=gravity(9.82), coordinates="joint")
    sensors = [HingeAngle(hinge, f"theta{i}", sigma=1e-3) for i, hinge in enumerate((shoulder, elbow), start=1)]
    return Problem("furuta", model, [recording], sensors, step=STEP, every=1)


def chain(hinges: int, steps: int, **settings: Any) -> Problem:
    """A chain of rods whose hinges are across one another in turns, with three unknown moments a rod, in the poses of
    all bodies; its angles sway slowly."""
    rods, joints, end = [], [], GROUND.frame(x=(0, 1, 0), y=(1, 0, 0))
    for i in range(hinges):
        rod = Body(f"rod {i}", mass=0.5, inertia=tuple(Parameter(f"I{i}_{a}", 0.01, lower=1e-5) for a in "xyz"))
        across = {"x": (0, 0, 1) if i % 2 else (0, 1, 0), "y": (1, 0, 0)}
        inner = rods[-1].frame(at=(0.15, 0, 0), **across) if rods else end
        joints.append(Hinge(f"hinge {i}", inner, rod.frame(at=(-0.15, 0, 0), **across), viscous=0.02))
        rods.append(rod)
    t = np.arange(steps) * 0.005
    angles = {f"theta{i}": 0.2 * np.sin(2 * np.pi * (0.3 + 0.05 * i) * t + i) for i in range(hinges)}
    efforts = {f"u{i}": 0.1 * np.cos(t + i) for i in range(hinges)}
    motors = [Motor(joint, signal=f"u{i}", gain=1.0) for i, joint in enumerate(joints)]
    return Problem(
        f"chain of {hinges}",
        model=Model(rods, joints, motors, gravity=gravity(9.82), coordinates="maximal"),
        recordings=[Recording(t=t, signals=angles | efforts)],
        observations=[HingeAngle(joint, signal=f"theta{i}", sigma=1e-3) for i, joint in enumerate(joints)],
        step=0.005,
        stepper=Variational(),
        **settings,
    )


def pendulum(stepper: Spook | Variational, steps: int) -> Problem:
    """A pendulum without friction that swings to 2 rad, from the exact solution: sin(θ/2) = k sn(ω₀ t, k²)."""
    J, b = Parameter("J", 2e-3, lower=1e-6), Parameter("b", 1e-5, lower=0)
    mass, length, g = 0.2, 0.15, 9.82
    rod = Body("rod", mass=mass, inertia=(1e-5, J, J))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(-length, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b,
        compliance=1e-4,
        damping=0.02,
    )
    t = np.arange(steps) * STEP
    modulus = np.sin(1.0)
    rate = np.sqrt(mass * g * length / (1.8e-3 + mass * length**2))
    angle = 2 * np.arcsin(modulus * ellipj(rate * t + ellipk(modulus**2), modulus**2)[0])
    noise = np.random.default_rng(0).normal(scale=1e-3, size=steps)
    return Problem(
        "pendulum",
        model=Model([rod], [hinge], gravity=gravity(g)),
        recordings=[Recording(t=t, signals={"theta": angle + noise})],
        observations=[HingeAngle(hinge, signal="theta", sigma=1.0)],
        step=STEP,
        stepper=stepper,
        state_weight=1e4 if isinstance(stepper, Variational) else 100.0,
        friction="smooth",
        friction_width=0.01,
    )
