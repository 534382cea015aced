"""What the data do not see: told in shares of the estimates, before a fit as after it, and in nobody's way."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    Joint,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Universal,
    gravity,
)

TRUTH = {"M": 95.0, "b": 200.0, "c": 20.0, "G": 35.0}


def slider(gain: object = None) -> Problem:
    """A driven carriage, far from its guesses."""
    M, b = Parameter("M", 50, lower=1, unit="kg"), Parameter("b", 100, lower=0, unit="N s/m")
    c = Parameter("c", 10, lower=0, unit="N")
    carriage = Body("carriage", mass=M, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), carriage.frame(), viscous=b, coulomb=c)
    motor = Motor(slide, signal="u", gain=Parameter("G", 30, lower=1, unit="N/V") if gain is None else gain)
    model = Model([carriage], [slide], [motor], gravity=gravity(9.81))
    return Problem("slider", model, observations=[JointPosition(slide, signal="q")], step=0.02)


@cache
def driven(one_way: bool = False, step: float = 0.02) -> Recording:
    """It moves to and fro, or one way only."""
    t = np.arange(0.0, 3.0 + 2 * step, step)
    u = 2 + np.sin(3 * t) if one_way else 3 * np.sin(4 * t) + 2 * np.sin(9 * t)
    inputs = Recording(t, {"u": u})
    start = {"slide": (0.0, 0.2 if one_way else 0.0)}
    twin = slider().with_(step=step)
    run = twin.simulate(TRUTH, 3.0, start, inputs=inputs, noise={"slide": 0.05, "q": 1e-6}, seed=0)
    return Recording(run.t, run.signals)


@pytest.mark.study
def test_ratios_of_what_is_not_determined_are_those_with_one_of_it_known() -> None:
    # Steps that are long for the sensor: with h the noise that is found is another than with h/2.
    recording = driven(step=0.005)
    free = slider().with_(recordings=[recording], step=0.04).solve()
    assert all(np.isnan(free[name].std_err) for name in TRUTH)
    assert pytest.approx(dict(free.sensitivities.weak[0].direction), abs=1e-3) == {
        "M": 1.0,
        "b": 1.0,
        "c": 1.0,
        "G": 1.0,
    }
    known = slider(30.0).with_(recordings=[recording], step=0.04).solve()
    for name in ("M", "b", "c"):
        share = 0.02 * known[name].std_err / 30
        assert free[name].estimate / free["G"].estimate == pytest.approx(known[name].estimate / 30, abs=share)
    told = [re.findall(r"\d+ standard errors", " ".join(one.notices)) for one in (free, known)]
    assert told[0] == told[1]


def test_a_body_on_one_axle_is_not_to_be_turned_about_another_axis() -> None:
    def advice(joint: type[Joint]) -> str:
        J, K = Parameter("J", 0.1, lower=1e-3), Parameter("K", 1.0, lower=0.1)
        body = Body("body", mass=1.0, inertia=(J, J, J))
        axle = joint("axle", GROUND.frame(), body.frame(), viscous=J)
        t = np.arange(0.0, 2.0, 0.02)
        recording = Recording(t, {"u": np.sin(3 * t), "q": 0.02 * np.sin(2 * t) + 1e-4 * np.cos(70 * t)})
        model = Model([body], [axle], [Motor(axle, "u", gain=K)], gravity=gravity(0.0))
        problem = Problem("body", model, [recording], [JointPosition(axle, "q")], step=0.02)
        return " ".join(one.advice for one in problem.solve().sensitivities.weak)

    assert "turn body" not in advice(Hinge)
    assert "rotate body body about all axes that its joints allow" in advice(Universal)
