"""Measured arms of two links with rigid hinges: estimates against what was built and what others found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    Status,
    Variational,
    gravity,
)

DATA = Path(os.environ.get("SPOOKID_DATA", "/nowhere"))
DOWN = {"x": (0, 1, 0), "y": (0, 0, -1)}
ALONG = {"x": (0, 1, 0), "y": (1, 0, 0)}

pytestmark = [pytest.mark.measured, pytest.mark.skipif(not DATA.is_dir(), reason="SPOOKID_DATA is not set")]


def arrays(name: str) -> dict[str, np.ndarray]:
    place = DATA / name
    if not place.is_file():
        pytest.skip(f"SPOOKID_DATA has no {name}")
    with np.load(place, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def links(length: float, arm: tuple[Body, float], forearm: tuple[Body, Any], **friction: Any) -> tuple[Hinge, Hinge]:
    """Rigid hinges of two links that hang down: each body with its centre of mass's distance from its hinge [m]."""
    (upper, r1), (lower, r2) = arm, forearm
    first, second = (dict(compliance=0, viscous=friction[f"b{i}"], coulomb=friction[f"c{i}"]) for i in (1, 2))
    return (
        Hinge("shoulder", GROUND.frame(**DOWN), upper.frame(at=(-r1, 0, 0), **ALONG), **first),
        Hinge("elbow", upper.frame(at=(length - r1, 0, 0), **ALONG), lower.frame(at=(-r2, 0, 0), **ALONG), **second),
    )


def test_a_driven_arm_is_identified() -> None:
    """dfki-double-pendulum, design A.0: the shoulder's inertia and the forearm's moment of mass by regression."""
    data = arrays("dfki-double-pendulum/A0_11.npz")
    t, q, u = data["t"] - data["t"][0], data["pos"], data["tau_meas"]
    motion = Recording(t, {"q1": q[:, 0], "q2": q[:, 1], "u1": u[:, 0], "u2": u[:, 1]}, name="A0_11")
    I1, I2 = (Parameter(name, guess, lower=1e-4) for name, guess in (("I1", 5e-2), ("I2", 2e-2)))
    r2 = Parameter("r2", 0.15, lower=0.02, upper=0.3)
    friction = {name: Parameter(name, 1e-2, lower=0) for name in ("b1", "b2", "c1", "c2")}
    length, m1, m2 = 0.3, 0.5594, 0.6043
    upper, lower = Body("upper", mass=m1, inertia=(1e-4, I1, I1)), Body("lower", mass=m2, inertia=(1e-4, I2, I2))
    hinges = links(length, (upper, length), (lower, r2), **friction)
    drives = [Motor(hinge, signal=signal, gain=1.0) for hinge, signal in zip(hinges, ("u1", "u2"), strict=True)]
    sensors = [HingeAngle(hinge, signal=signal) for hinge, signal in zip(hinges, ("q1", "q2"), strict=True)]
    model = Model([upper, lower], hinges, motors=drives, gravity=gravity(9.81))
    problem = Problem("arm", model, [motion], sensors, step=0.004, state_weight=1e4, stepper=Variational())
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= 25
    assert solution(I1 + (m1 + m2) * length**2).estimate == pytest.approx(0.1094, rel=0.05)
    assert solution(m2 * r2).estimate == pytest.approx(0.118, rel=0.08)


def test_a_free_double_pendulum_gives_back_the_length_it_was_built_with() -> None:
    """multiarm-pendulum: 0.1727 m between the hinges, from the first 8 s of the free swing."""
    data = arrays("multiarm-pendulum/double.npz")
    t, absolute = data["t"][:8000], data["theta"][:8000] - np.pi
    motion = Recording(t, {"q1": absolute[:, 0], "q2": absolute[:, 1] - absolute[:, 0]}, name="double")
    J1, J2 = (Parameter(name, guess, lower=1e-6) for name, guess in (("J1", 5e-4), ("J2", 1e-3)))
    L1 = Parameter("L1", 0.15, lower=0.05, upper=0.4)
    friction = {name: Parameter(name, 1e-5, lower=0) for name in ("b1", "b2", "c1", "c2")}
    one, two = (Body(n, mass=m, inertia=(1e-6, J, J)) for n, m, J in (("one", 0.093844, J1), ("two", 0.137596, J2)))
    hinges = links(L1, (one, 0.108565), (two, 0.116779), **friction)
    sensors = [HingeAngle(hinge, signal=signal) for hinge, signal in zip(hinges, ("q1", "q2"), strict=True)]
    model = Model([one, two], hinges, gravity=gravity(9.81))
    problem = Problem("double", model, [motion], sensors, step=0.005, state_weight=1e8, stepper=Variational())
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= 25
    assert solution["L1"].estimate == pytest.approx(0.1727, rel=0.01)
