"""The inside of what ``test_variational`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import Array, G, furuta, mechanics
from scipy.spatial.transform import Rotation
from test_variational import L_2, LIFTED, M_A, M_B, orders, problem, release

from spookid import Body, Model, Observation, Status
from spookid.mechanics.kinematics import velocities
from spookid.solvers.reduced_problem import ReducedProblem

# --- what it conserves ---


def energy_of_release(duration: float, elbow: float) -> tuple[Array, float]:
    """½(T(v) + T(v₊)) + U over m_B g l_2 along a frictionless release, and the largest violation."""
    model, h = furuta(), 0.005
    poses = problem(model, h).simulate(duration=duration, initial={"elbow": elbow}, substeps=1).q.reshape(-1, 14)
    kinetic = 0.5 * velocities(poses, h)[1:] ** 2 @ [*[M_A] * 3, 1e-4, 0.003, 0.003, *[M_B] * 3, 1e-4, 0.004, 0.004]
    potential = G * poses[1:-1, [2, 9]] @ [M_A, M_B]
    worst = max(np.abs(mechanics(model, q, np.zeros(12)).g).max() for q in poses[::20])
    return ((kinetic[:-1] + kinetic[1:]) / 2 + potential) / (M_B * G * L_2), worst


@pytest.mark.parametrize("duration", [20.0, pytest.param(100.0, marks=pytest.mark.study)])
@pytest.mark.parametrize(
    ("elbow", "spread"), [pytest.param(2.0, 7.5e-4, marks=pytest.mark.study), (np.pi - 0.03, 2.1e-3)]
)
def test_energy_is_bounded_without_trend_and_joints_hold(duration, elbow, spread):
    energy, violation = energy_of_release(duration, elbow)
    drift = np.polyfit(np.linspace(0, 1, len(energy)), energy, 1)[0]
    assert np.ptp(energy) < spread
    assert abs(drift) < 0.02 * spread
    assert violation < 1e-14


def tumble(h: float) -> tuple[float, float]:
    """Relative errors of kinetic energy and of spatial momentum of a body tumbling about its middle axis for 10 s."""
    moments = np.array([1.0, 2.0, 3.0])
    body = Body("body", mass=1.0, inertia=tuple(moments), free=True)
    observed = [Observation(lambda s: s.q[0], "x")]
    tumbling = problem(Model([body], gravity=(0, 0, 0)), h, observations=observed)
    start = (np.array([[0, 0, 0, 1.0, 0, 0, 0]]), np.array([[0, 0, 0, 1e-3, 2.0, 1e-3]]))
    poses = tumbling.simulate(duration=10.0, initial=start, substeps=1).q.reshape(-1, 7)
    omega = velocities(poses, h)[1:, 3:]
    energy = omega**2 @ moments
    momentum = Rotation.from_quat(poses[1:-1, 3:], scalar_first=True).apply((omega[1:] + omega[:-1]) / 2 * moments)
    return np.abs(energy / energy[0] - 1).max(), np.abs(momentum - momentum[0]).max() / np.linalg.norm(momentum[0])


def test_a_tumbling_body_keeps_its_energy_and_nearly_its_momentum():
    energies, momenta = zip(*(tumble(h) for h in (0.02, 0.01, 0.005)), strict=True)
    assert max(energies) < 1e-10
    assert momenta[0] < 1e-2
    assert min(orders(momenta)) > 1.9


# --- lifted multipliers ---


@pytest.mark.study
def test_lifted_estimates_are_those_of_a_penalty(monkeypatch):
    settings = {"duration": 1.0, "hinge": {"compliance": 1e-6}, "stepper": LIFTED, "state_weight": 100.0}
    found = release(0.01, **settings)
    monkeypatch.setattr(ReducedProblem, "_linked", lambda *_: False)
    expected = release(0.01, **settings)
    assert found.status is expected.status is Status.CONVERGED
    assert found.iterations < expected.iterations
    assert found.values == pytest.approx(expected.values, rel=1e-6)
