"""Samples between wide steps: polynomials through more states, and how many are taken."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
import pytest

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    JointPosition,
    JointRate,
    Model,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    gravity,
)
from spookid.assembly.assembly import Assembly, assemble
from spookid.data.interpolation import left_out, polynomial, slopes, spectrum

TICK, STEP = 0.025, 0.1
COEFFICIENTS = np.random.default_rng(0).normal(size=6)


def quintic(t: np.ndarray, order: int = 0) -> np.ndarray:
    """A motion of degree five on [−1, 1]; t is from 0 to 6 s."""
    return np.asarray(np.polynomial.Polynomial(COEFFICIENTS, domain=(0, 6)).deriv(order)(t))


@pytest.mark.parametrize("states", [3, 4, 5, 6])
def test_polynomials_of_their_degree_are_reproduced(states: int) -> None:
    shown, place = ca.SX.sym("y", states), ca.SX.sym("x")
    first, values = (states - 1) // 2, ca.vertsplit(shown)
    differences = [after - before for before, after in pairwise(values)]
    at = ca.Function("at", [shown, place], [values[first] + polynomial(differences, first, place)])
    power, nodes = np.polynomial.Polynomial(COEFFICIENTS[:states]), np.arange(states) - first
    for x in np.linspace(-first, states - 1 - first, 9):
        assert float(at(power(nodes), x)) == pytest.approx(power(x), abs=1e-10)
    for order in (1, 2):
        np.testing.assert_allclose(slopes(states, order) @ power(nodes), power.deriv(order)(nodes), atol=1e-9)
    beyond = np.polynomial.Polynomial(np.eye(states + 1)[states])
    assert float(at(beyond(nodes), 0.5)) != pytest.approx(beyond(0.5), abs=0.1)


@pytest.mark.parametrize("states", [3, 4, 6])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_what_is_left_out_of_a_sinusoid_is_told(states: int, noise: float) -> None:
    omega, h = 2.1, 0.15
    t = 2e-3 * np.arange(20_001)
    values = 0.7 * np.sin(omega * t) + 0.3 * t + noise * np.random.default_rng(1).normal(size=t.size)
    first = (states - 1) // 2
    place = (np.arange(200) + 0.5) / 200 - (0.5 if states % 2 else 0.0)
    nodes = np.arange(states) - first
    phases = np.linspace(0, 2 * np.pi, 50, endpoint=False)[:, None]
    fits = np.array(
        [np.polynomial.Polynomial.fit(nodes, np.sin(omega * h * nodes + p), states - 1)(place) for p in phases]
    )
    missed = 0.7 * np.sqrt(np.mean((fits - np.sin(omega * h * place + phases)) ** 2))
    found = np.sqrt(left_out(*spectrum(t, values, 10.0), h, states, 0))
    assert found == pytest.approx(missed, rel=0.15)  # lines of a spectrum have flanks


# --- in problems ---


def slide(size: float, tick: float = TICK, **settings: Any) -> Problem:
    """A body on a rail whose position, rate and acceleration are seen with so much noise."""
    body = Body("body", mass=1.0, inertia=(1, 1, 1))
    rail = Prismatic("rail", GROUND.frame(), body.frame(), viscous=Parameter("b", 1.0))
    sensors = [
        JointPosition(rail, "x", sigma=size),
        JointRate(rail, "v", sigma=size),
        Accelerometer(body.frame(), ("a", "ay", "az"), sigma=size),
    ]
    t = np.arange(0, 6 + tick / 2, tick)
    noise = size * np.random.default_rng(0).normal(size=(5, t.size))
    names = {"x": quintic(t), "v": quintic(t, 1), "a": quintic(t, 2), "ay": 0 * t, "az": 0 * t}
    signals = {name: value + one for (name, value), one in zip(names.items(), noise, strict=True)}
    model = Model([body], [rail], gravity=gravity(0.0))
    return Problem("slide", model, [Recording(t, signals)], sensors, step=STEP, **settings)


def factors(problem: Problem) -> dict[str, int]:
    """Reach of the factors of the sensors."""
    return {f.name: f.reach for f in assemble(problem).transcription.factors if "observation" in f.name}


def errors(ready: Assembly) -> dict[str, np.ndarray]:
    """Predicted less measured where states lie on the quintic, times σ."""
    x = quintic(ready.sampled[0].grid.times())
    rows = ready.transcription.residuals(replace(ready.start, states=(x[:, None],)))[0]
    named = zip(ready.transcription.factors, rows, strict=True)
    return {f.name: values for f, values in named if "observation" in f.name}


def test_rows_of_a_motion_of_degree_five_vanish_wherever_its_samples_lie() -> None:
    ready = assemble(slide(1e-12))
    found = errors(ready)
    assert list(found) == [
        "observation",
        "observation between steps",
        "rate observation between steps",
        "acceleration observation between steps",
    ]
    for name, rows in found.items():
        assert np.max(np.abs(rows)) * ready.sigmas[0] < 1e-9, name
    counted = sum(np.count_nonzero(~mask) for mask in ready.transcription.chains[0].missing.values())
    assert counted == 5 * len(ready.sampled[0].recording.t)
    wrong = errors(assemble(slide(0.1)))
    assert np.max(np.abs(wrong["observation between steps"])) > 1e-4


def test_the_fewest_states_are_taken_that_noise_bears() -> None:
    coarse = factors(slide(0.1))
    assert coarse == {
        "observation": 0,
        "observation between steps": 2,
        "rate observation": 2,
        "rate observation between steps": 3,
        "acceleration observation": 2,
        "acceleration observation between steps": 3,
    }
    reaches = [factors(slide(size))["observation between steps"] for size in (0.1, 1e-4, 1e-12)]
    assert reaches == sorted(reaches)
    assert reaches[0] == 2
    assert reaches[-1] == 5


def test_samples_at_the_steps_are_seen_as_ever_however_fine() -> None:
    assert factors(slide(1e-12, tick=STEP)) == {
        "observation": 0,
        "rate observation": 2,
        "acceleration observation": 2,
    }


def test_no_recording_has_too_few_steps() -> None:
    problem = slide(1e-12)
    (long,) = problem.recordings
    both = problem.with_(recordings=[long, replace(long.between(1.0, 1.0 + 3 * STEP + TICK / 2), name="short")])
    assert factors(both)["observation between steps"] <= 3
    ready = assemble(both)
    for chain, sampled in zip(ready.transcription.chains, ready.sampled, strict=True):
        seen = [np.count_nonzero(~mask) for name, mask in chain.missing.items() if name.startswith("observation")]
        assert sum(seen) == len(sampled.recording.t)
