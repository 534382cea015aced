"""The inside of what ``test_excitation`` tests."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from test_excitation import LIMITS, NOISE, problem_of
from test_excitation import arm as arm

from spookid import Problem, Recording
from spookid.studies.excitation_design import Basis, Design, DesignProgram
from spookid.studies.excitation_result import Excitation
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.planned_coordinates import PlannedCoordinates
from spookid.studies.planned_motion import planned_recording

ROTOR = """
from spookid import *
J = Parameter("J", 0.1, lower=0, unit="kg m^2")
b = Parameter("b", 0.5, lower=0, unit="N m s")
rotor = Body("rotor", mass=1.0, inertia=(1, 1, J))
pin = Hinge("pin", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), rotor.frame(x=(0, 0, 1), y=(1, 0, 0)), viscous=b)
problem = Problem("rotor", model=Model([rotor], [pin], [Motor(pin, "tau", measured=True)], gravity=gravity(9.81)),
                  recordings=[], observations=[JointPosition(pin, "q", sigma=1e-5)])
"""


@pytest.fixture(scope="module")
def found(arm: Problem) -> Excitation:
    return arm.excite(4.0, LIMITS, noise=NOISE, rate=50, harmonics=4, starts=2)


def design(arm: Problem, determinant: bool, largest: bool, judged: list[bool]) -> Design:
    basis, bounds = Basis("fourier", 4.0, 4), LIMITS.bounds(arm)
    coordinates = PlannedCoordinates(arm, np.zeros(2))
    efforts = PlannedEfforts(coordinates, np.array([0.1, 0.2]), np.full(2, 0.1), LIMITS.frames(arm))
    shown = np.eye(4)[:, :3]  # the fourth is not seen
    known, sizes, t = np.diag([0.0, 4.0, 0.0, 0.0]), np.array([1.0, 0.2, 0.3, 1.0]), np.linspace(0, 4, 33)
    return Design(efforts, basis, bounds, t, known, sizes, np.array(judged), determinant, largest, shown)


@pytest.mark.parametrize("name", ["fourier", "bspline"])
def test_a_basis_rests_at_both_ends_and_its_rates_are_slopes(name: str) -> None:
    basis = Basis(name, 3.0, 5)
    t = np.linspace(0.0, 3.0, 3001)
    values, rates, accelerations = basis.at(t)
    assert basis.size == 9
    assert np.allclose([rates[[0, -1]], accelerations[[0, -1]]], 0, atol=1e-9)
    assert np.allclose(np.gradient(values, t, axis=0)[1:-1], rates[1:-1], atol=1e-3 * np.abs(rates).max())
    assert np.allclose(
        np.gradient(rates, t, axis=0)[1:-1], accelerations[1:-1], atol=1e-3 * np.abs(accelerations).max()
    )
    assert np.allclose(values[:, 0], values[0, 0]), "the first function is constant"


@pytest.mark.parametrize(
    ("determinant", "largest", "judged"),
    [(True, False, [True] * 4), (False, True, [True, True, True, False]), (False, False, [False, True, False, False])],
)
def test_derivatives_of_criteria_and_limits(arm: Problem, determinant: bool, largest: bool, judged: list[bool]) -> None:
    """Also at the ends, where rates are zero, the edge of friction."""
    plan = design(arm, determinant, largest, judged)
    rng = np.random.default_rng(0)
    z, d = 0.3 * rng.standard_normal(2 * plan.basis.size), rng.standard_normal(2 * plan.basis.size)
    program, h = DesignProgram(plan, z), 1e-6
    slope = (program.objective(z + h * d) - program.objective(z - h * d)) / (2 * h)
    assert slope == pytest.approx(program.gradient(z) @ d, rel=1e-6)
    rows = (program.constraints(z + h * d) - program.constraints(z - h * d)) / (2 * h)
    sparsity = program.jacobian_sparsity
    dense = np.zeros(sparsity.shape)
    dense[sparsity.get_triplet()[0], sparsity.get_triplet()[1]] = program.jacobian(z)
    assert np.allclose(dense @ d, rows, atol=1e-6 * np.abs(rows).max())


def test_efforts_are_those_of_inverse_dynamics_and_places_those_of_the_arm(arm: Problem) -> None:
    plan = design(arm, True, False, [True] * 4)
    z = 0.3 * np.random.default_rng(1).standard_normal(2 * plan.basis.size)
    motion = plan.motion(z)
    asked = plan.efforts.asked(motion)
    other = arm.with_(friction_width=0.1).inverse_dynamics(motion=tuple(motion))
    assert np.allclose(asked[:, :4], np.hstack([*motion[:2]]))
    assert np.allclose(asked[:, 4:6], other.efforts)
    q_1, height = motion[0][:, 0], asked[:, 8]
    up = np.sign(height[0] / np.sin(q_1[0]))  # which way the first joint turns
    assert np.allclose(height, up * 0.4 * np.sin(q_1))


def test_information_of_a_rotor_by_hand(tmp_path: Path) -> None:
    """τ = J a + b s, measured with σ at N instants: (JᵀJ)⁻¹ σ² of the columns a and s."""
    rotor = problem_of(tmp_path, ROTOR)
    t = np.arange(501) / 100
    w = 2 * np.pi * 0.6
    motion = np.stack([np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)])[:, :, None]
    expected = rotor.expected_errors(planned_recording(rotor, t, motion), noise={"tau": 0.2})
    columns = np.column_stack([motion[2][:, 0], motion[1][:, 0]])
    by_hand = 0.2 * np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)))
    assert expected.names == ("J", "b")
    assert np.allclose(expected.after, by_hand, rtol=0.03), "but for ends of half a step and the noise of positions"
    assert np.all(np.isinf(expected.before))
    assert expected.repetitions("J", by_hand[0] / 2) == pytest.approx(4, rel=0.1)
    assert "after 4 runs (20 s)" in expected.until("b", expected.after[1] / 1.99)
    assert "after one run of 5 s" in expected.until("b", expected.after[1] / 0.5, relative=True)


def test_a_fit_reports_what_was_expected_and_a_second_run_lessens_it(arm: Problem, found: Excitation) -> None:
    planned, rng = found.trajectory, np.random.default_rng(2)
    signals = {name: planned.signals[name] + size * rng.standard_normal(len(planned.t)) for name, size in NOISE.items()}
    solution = arm.with_(recordings=[Recording(t=planned.t, signals=signals)]).solve()
    errors = np.array([solution[name].std_err for name in "mcf"])
    before = [found.expected.names.index(name) for name in "mcf"]
    assert np.allclose(errors, found.expected.after[before], rtol=0.25), "the sizes of the noise are estimated"
    off = np.array([solution[name].estimate for name in "mcf"]) - found.expected.values[before]
    assert np.all(np.abs(off) < 4 * found.expected.after[before])
    again = arm.expected_errors(planned, noise=NOISE, known=solution)
    assert np.allclose(again.before[before], errors, rtol=1e-6)
    assert np.allclose(1 / again.after[before] ** 2, 1 / errors**2 + 1 / found.expected.after[before] ** 2, rtol=0.2)


def test_a_design_stays_within_its_limits_and_beats_random_motions(found: Excitation) -> None:
    at = found.trajectory
    assert all(np.all(np.abs(at.signals[name]) <= most) for name, most in {"q_1": 1.5, "q_2": 1.0}.items())
    assert all(np.all(np.abs(at.signals[f"{name}_rate"]) <= 4.0) for name in ("shoulder", "elbow"))
    assert np.max(np.abs(2.0 * at.signals["tau_1"])) <= 15.0 * 1.02, "friction turns faster in a fit than in a design"
    assert np.max(np.abs(found.efforts[:, 0])) <= 15.0
    assert [at.signals["shoulder_rate"][k] for k in (0, -1)] == pytest.approx([0, 0], abs=1e-9)
    assert found.found < found.random.min() - 0.5
    assert not found.notices, "both searches converge"
    assert math.isnan(found.expected.after[found.expected.names.index("s")]), "unobserved is unobserved"
