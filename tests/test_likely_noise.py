"""Process noise and standard errors where parameters absorb a part of the noise, against fits with each noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from spookid import GROUND, Body, JointPosition, Model, Motor, Parameter, Prismatic, Problem, Recording

STEP, SIGMA, DENSITY = 0.01, 2e-4, 0.05
TRUTH = {"m": 2.0, "b": 1.0, "k": 40.0}
NAMES = tuple(TRUTH)


def recorded(seed: int, count: int) -> Recording:
    """A mass on a spring under random steps of a force and a white random force, integrated exactly."""
    rng = np.random.default_rng(seed)
    m, b, k = TRUTH.values()
    force = np.repeat(rng.uniform(-3, 3, count // 25), 25)
    step = expm(np.array([[0, 1, 0], [-k / m, -b / m, 1 / m], [0, 0, 0]]) * STEP / 8)
    x, shown = np.zeros(2), np.zeros(count)
    for i in range(count):
        shown[i] = x[0] + SIGMA * rng.normal()
        for kick in rng.normal(0.0, DENSITY * np.sqrt(STEP / 8) / m, 8):
            x = step[:2, :2] @ x + step[:2, 2] * force[i] + np.array([0.0, kick])
    return Recording(STEP * np.arange(count), {"x": shown, "f": force})


def posed(recording: Recording, density: float | None) -> Problem:
    m, b, k = (Parameter(n, 1.2 * value, lower=0.01) for n, value in TRUTH.items())
    body = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), body.frame(), viscous=b, stiffness=k, disturbance=density)
    model = Model([body], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    sensors = [JointPosition(slide, "x", sigma=SIGMA)]
    return Problem("car", model, [recording], sensors, step=STEP, step_correction=False, estimator="noise")


@pytest.mark.parametrize(("seed", "count", "least", "near"), [(1, 400, -0.8, 0.03), (2, 100, -6.0, 0.2)])
def test_errors_and_noise_are_those_of_the_posterior(seed: int, count: int, least: float, near: float) -> None:
    """Its density is summed over fits with given noise: s^0.7 in log s, the parameters integrated out by Laplace.

    Of 400 samples the noise is known to 12 %; of 100 samples the likelihood is at its maximum without any, and the
    estimates move by twice their errors there, so that a linear step of theirs is less exact.
    """
    recording = recorded(seed, count)
    found = posed(recording, None).solve()
    (noise,) = (one for one in found.noise if one.kind == "disturbance")
    logs = np.log(DENSITY) + np.linspace(least, 1.0, 13)
    fits = [posed(recording, float(np.exp(log))).solve() for log in logs]
    covariances = [fit.sensitivities.covariance for fit in fits]
    depths = [fit.log_likelihood + np.linalg.slogdet(C)[1] / 2 for fit, C in zip(fits, covariances, strict=True)]
    weights = np.exp(0.7 * logs + depths - np.max(depths))
    weights /= weights.sum()
    values = np.array([[fit[name].estimate for name in NAMES] for fit in fits])
    apart = values - weights @ values
    covariance = np.tensordot(weights, covariances, 1) + (weights * apart.T) @ apart
    likely = np.sqrt(weights @ np.exp(2 * logs)) / noise.density
    assert noise.likely == pytest.approx(likely, rel=near)
    assert [found[name].std_err for name in NAMES] == pytest.approx(np.sqrt(np.diag(covariance)), rel=near)
