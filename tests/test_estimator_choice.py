"""Whether answers with deterministic dynamics have honest errors where a random force acts: twins of a driven mass on a
spring, integrated exactly, without this package."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from spookid import GROUND, Body, JointPosition, Model, Motor, Parameter, Prismatic, Problem, Recording, Solution

STEP, COUNT, STIFFNESS = 0.01, 2000, 40.0
TRUTH = {"m": 2.0, "b": 1.0}


def recorded(seed: int, force: float, noise: float, lasting: float = 0.0) -> Recording:
    """A force of 40 random levels and a white random force [N/√Hz]; errors of the sensor [m] that last so long [s]."""
    rng, t = np.random.default_rng(seed), STEP * np.arange(COUNT)
    f = np.repeat(rng.uniform(-3, 3, 40), COUNT // 40)
    rates = np.array([[0, 1, 0], [-STIFFNESS / TRUTH["m"], -TRUTH["b"] / TRUTH["m"], 1 / TRUTH["m"]], [0, 0, 0]])
    fine = expm(rates * STEP / 8)
    x, motion = np.zeros(2), np.zeros(COUNT)
    for k in range(COUNT):
        motion[k] = x[0]
        for kick in rng.normal(0.0, force * np.sqrt(STEP / 8) / TRUTH["m"], 8):
            x = fine[:2, :2] @ x + fine[:2, 2] * f[k] + np.array([0.0, kick])
    kept = np.exp(-STEP / lasting) if lasting else 0.0
    error = noise * rng.normal(size=COUNT)
    for k in range(1, COUNT):
        error[k] = kept * error[k - 1] + np.sqrt(1 - kept**2) * error[k]
    return Recording(t, {"f": f, "x": motion + error}, name="twin")


def solved(recording: Recording, **settings: str) -> Solution:
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    car = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), car.frame(), viscous=b, stiffness=STIFFNESS)
    # The force is constant from one sample to the next.
    model = Model([car], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    return Problem("car", model, [recording], [JointPosition(slide, "x")], step=STEP).solve(**settings)


def offs(solution: Solution) -> list[float]:
    return [abs(solution[name].estimate - value) / solution[name].std_err for name, value in TRUTH.items()]


@pytest.mark.parametrize("lasting", [0.02, 0.05])
def test_errors_cover_where_a_random_force_acts_and_the_sensor_errs_for_long(lasting: float) -> None:
    solutions = [solved(recorded(seed, 0.02, 1e-3, lasting)) for seed in range(8)]
    far = np.array([offs(solution) for solution in solutions])
    assert np.sum(far > 1.96) <= 3  # of 16: more by accident in one of 300
    assert np.max(far) < 3.5


def test_deterministic_dynamics_without_a_random_force_are_sharper_than_estimated_noise() -> None:
    recording = recorded(0, 0.0, 1e-3, 0.05)
    chosen, noisy = solved(recording), solved(recording, estimator="noise")
    assert chosen.choice is not None
    assert chosen.choice.is_hard
    assert max(offs(chosen)) < 3
    for name in TRUTH:
        assert chosen[name].std_err < noisy[name].std_err / 1.5
    assert "effect of process noise" in " ".join(chosen.summary().split())
    asked = solved(recording, estimator="hard")
    assert "effect of process noise" not in " ".join(asked.summary().split())
    assert asked["m"].std_err < chosen["m"].std_err


def test_errors_of_deterministic_dynamics_are_not_taken_for_sharper_in_white_noise() -> None:
    """Simulations in which random forces leave little are as rare as they are many: the errors have to say so."""
    for seed in range(4):
        solution = solved(recorded(seed, 0.02, 1e-4))
        assert solution.choice is not None
        assert not solution.choice.is_hard
        assert max(offs(solution)) < 3.5
