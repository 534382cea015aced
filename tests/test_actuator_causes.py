"""Whether what an actuator does to its input is named: twins of a driven mass on a spring, integrated exactly, whose
drive has a power law, a first-order lag, or saturates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from scipy.linalg import expm
from test_estimator_choice import COUNT, STEP, STIFFNESS, TRUTH

from spookid import GROUND, Body, Hinge, JointPosition, Model, Motor, Parameter, Prismatic, Problem, Recording, Solution

Law = Callable[[np.ndarray], np.ndarray]


def driven(seed: int, law: Law, lag: float = 0.0, waves: bool = False) -> Recording:
    """A force of 40 random levels, or two sine waves, that is held and acts by a law, with a lag [s]; a white random
    force, an error of the sensor."""
    rng, t = np.random.default_rng(seed), STEP * np.arange(COUNT)
    f = 2 * np.sin(7 * t) + 2 * np.sin(11 * t) if waves else np.repeat(rng.uniform(-3, 3, 40), COUNT // 40)
    acting, x, shown, fine = law(f), np.zeros(2), np.zeros(COUNT), 8
    rates = np.array([[0, 1, 0], [-STIFFNESS / TRUTH["m"], -TRUTH["b"] / TRUTH["m"], 1 / TRUTH["m"]], [0, 0, 0]])
    onward, share, force = expm(rates * STEP / fine), -np.expm1(-STEP / fine / lag) if lag else 1.0, float(acting[0])
    for k in range(COUNT):
        shown[k] = x[0]
        for kick in rng.normal(0.0, 0.02 * np.sqrt(STEP / fine) / TRUTH["m"], fine):
            force += share * (acting[k] - force)
            x = onward[:2, :2] @ x + onward[:2, 2] * force + np.array([0.0, kick])
    return Recording(t, {"f": f, "x": shown + 1e-4 * rng.normal(size=COUNT)}, name="twin")


def solved(recording: Recording, hold: Literal["previous", "linear"] = "previous") -> Solution:
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    car, K = Body("car", mass=m, inertia=(1, 1, 1)), Parameter("K", 0.8, lower=0.1)
    slide = Prismatic("slide", GROUND.frame(), car.frame(), viscous=b, stiffness=STIFFNESS)
    model = Model([car], [slide], [Motor(slide, "f", gain=K, hold=hold)], gravity=(0, 0, 0))
    return Problem("car", model, [recording], [JointPosition(slide, "x")], step=STEP).solve()


@pytest.mark.parametrize(
    ("law", "lag", "words"),
    [
        (lambda f: 3 * np.sign(f) * np.abs(f / 3) ** 1.6, 0.0, "exponent"),
        (lambda f: f, 0.1, "first-order lag"),
        (lambda f: np.clip(f, -2.4, 2.4), 0.0, "saturate"),
    ],
)
def test_what_an_actuator_does_is_among_the_causes(law: Law, lag: float, words: str) -> None:
    told = [" ".join(f.text for f in solved(driven(seed, law, lag)).findings) for seed in range(3)]
    assert sum(words in text for text in told) >= 2


def test_a_right_actuator_raises_no_alarm() -> None:
    for seed in range(3):
        assert "residuals.autocorrelated" not in {f.code for f in solved(driven(seed, lambda f: f)).findings}


def test_a_held_input_that_is_taken_as_linear_is_named() -> None:
    for seed in range(2):
        held = driven(seed, lambda f: f, waves=True)
        assert "hold='previous'" in " ".join(f.text for f in solved(held, "linear").findings)
        assert "residuals.autocorrelated" not in {f.code for f in solved(held).findings}


def test_a_torque_that_repeats_every_turn_is_named_with_its_size() -> None:
    rng, t, fine = np.random.default_rng(0), 0.01 * np.arange(2000), 50
    u, shown, q, w = np.repeat(rng.uniform(0.02, 0.08, 20), 100), np.zeros(2000), 0.0, 0.0
    for k in range(len(t)):
        shown[k] = q
        for kick in rng.normal(0.0, 3e-4 * np.sqrt(0.01 / fine) / 4e-4, fine):
            w += kick + 0.01 / fine * (u[k] - 4e-3 * w + 2e-3 * np.sin(q + 0.7)) / 4e-4
            q += 0.01 / fine * w
    J, b = Parameter("J", 3e-4, lower=1e-7), Parameter("b", 2e-3, lower=0)
    rotor = Body("rotor", mass=1, inertia=(J, 1, 1))
    axle = Hinge("axle", GROUND.frame(), rotor.frame(), viscous=b)
    log = Recording(t, {"u": u, "q": shown + 1e-3 * rng.normal(size=len(t))}, name="turns")
    model = Model([rotor], [axle], [Motor(axle, "u")], gravity=(0, 0, 0))
    found = Problem("rotor", model, [log], [JointPosition(axle, "q")], step=0.01).solve().findings
    text = next(f.text for f in found if "once a turn" in f.text)
    size = re.search(r"([\d.]+) N m of torque that varies once a turn of axle", text)
    assert size is not None
    assert float(size[1]) == pytest.approx(2e-3, rel=0.2)
    assert "stiffness" not in text


@pytest.mark.parametrize("seed", range(2))
def test_a_cause_that_holds_an_estimate_at_its_bound_is_a_warning(seed: int) -> None:
    """A thrust that lags looks like negative friction."""
    rng, t, fine = np.random.default_rng(seed), 0.01 * np.arange(2000), 20
    u = 1.2 * np.sum([np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in (0.4, 0.9, 1.7, 2.6)], axis=0)
    shown, z, v, force = np.zeros(2000), 0.0, 0.0, 0.0
    for k in range(len(t)):
        shown[k] = z
        for kick in rng.normal(0.0, 0.02 * np.sqrt(0.01 / fine) / 1.1, fine):
            force += 0.01 / fine * (u[k] - force) / 0.06
            v += kick + 0.01 / fine * (force - 0.35 * v) / 1.1
            z += 0.01 / fine * v
    m, b = Parameter("m", 0.8, lower=0.1), Parameter("b", 0.2, lower=0)
    lift = Prismatic("lift", GROUND.frame(), (body := Body("body", mass=m, inertia=(1, 1, 1))).frame(), viscous=b)
    log = Recording(t, {"u": u, "z": shown + 2e-3 * rng.normal(size=len(t))}, name="lift")
    model = Model([body], [lift], [Motor(lift, "u")], gravity=(0, 0, 0))
    problem = Problem("lift", model, [log], [JointPosition(lift, "z")], step=0.01, estimator="noise")
    solution = problem.solve()
    assert solution["b"].estimate == 0
    found = next(f for f in solution.findings if f.code == "residuals.autocorrelated")
    assert "first-order lag" in found.text
    assert "b +" in found.text
