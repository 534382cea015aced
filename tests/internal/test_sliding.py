"""Friction that turns over less than what is known of the rates: what is known of them, and when it is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    JointPosition,
    JointRate,
    LevenbergMarquardt,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
)
from spookid.estimation.contact_findings import known_rates
from spookid.estimation.fitting import fit


@pytest.mark.parametrize(("noise", "told"), [(0.3, True), (0.003, False)])
def test_directions_of_sliding_that_noise_hides_are_told(noise: float, told: bool) -> None:
    rng, h, t = np.random.default_rng(0), 0.02, np.arange(0, 4, 0.01)
    w = np.array([[1.5, 4.0], [0.4, 0.15], [0.0, 1.0]])
    q, v, a = (np.sum(w[1] * w[0] ** i * np.sin(w[0] * t[:, None] + w[2] + i * np.pi / 2), axis=1) for i in range(3))
    c, b = Parameter("c", 0.05, lower=0, unit="N m"), Parameter("b", 0.05, lower=0, unit="N m s")
    arm = Body("arm", mass=1.0, inertia=(0.05, 0.05, 0.05))
    joint = Hinge("joint", GROUND.frame(), arm.frame(), viscous=b, coulomb=c)
    exact = {"q": q, "v": v, "u": 0.05 * a + 0.05 * v + 0.05 * np.tanh(v / 0.05)}
    recording = Recording(t, {name: one + noise * rng.normal(size=len(t)) for name, one in exact.items()})
    model = Model([arm], [joint], [Motor(joint, "u", measured=True)], gravity=(0, 0, 0))
    sensors = [JointPosition(joint, "q"), JointRate(joint, "v")]
    settings: dict[str, Any] = {"step": h, "friction_width": 0.05, "step_correction": False, "estimator": "noise"}
    problem = Problem("slow", model, [recording], sensors, **settings)
    found = fit(problem, LevenbergMarquardt(), None)
    condensed = found.identifiability.condensed
    assert condensed is not None
    rates, errors = known_rates(found.assembly, found.point, condensed)
    off = rates[:, 0] - np.interp((np.arange(len(rates)) + 1.5) * h, t, v)  # of the interval behind the middle step
    assert np.std(off) == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.25)
    found_out = [f for f in found.result.findings if (f.code, f.subject) == ("friction.direction-unknown", ("joint",))]
    assert bool(found_out) == told
