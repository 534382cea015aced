"""The backend with the name of the Riccati recursion, whose steps are those of the one elimination."""

import math

import numpy as np
import pytest
from mechanisms import paper_twin, pendulum

from spookid import Parameter, Problem, Spook, Status, Variational

# --- the backend ---


def swing(**settings) -> Problem:
    """A pendulum released at 1.5 rad, with 1 mrad of noise."""
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    model = pendulum(inertia=J, viscous=b)
    return paper_twin(model, {"J": 0.005, "b": 0.004}, initial={"hinge": 1.5}, noise=1e-3, duration=1.0, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"stepper": Variational(), "state_weight": math.inf},
        {"stepper": Variational(), "state_weight": 1e4},
        {"stepper": Spook(multipliers="lifted"), "state_weight": 1e4},
    ],
    ids=["hard dynamics", "weighted", "lifted"],
)
def test_estimates_and_errors_are_those_of_levenberg_marquardt(settings):
    problem = swing(**settings)
    expected, found = problem.solve(), problem.solve(backend="riccati")
    assert found.status is expected.status is Status.CONVERGED
    assert found.backend == "riccati"
    for name, parameter in expected.parameters.items():
        assert found[name].estimate == pytest.approx(parameter.estimate, abs=1e-5 * parameter.std_err)
        assert found[name].std_err == pytest.approx(parameter.std_err, rel=1e-4)


def test_a_motion_that_falls_from_upright_for_long_does_not_converge():
    """Hard dynamics, whose errors grow by more than numbers have digits."""
    J = Parameter("J", 0.01, lower=1e-6)
    model = pendulum(inertia=J)
    problem = paper_twin(model, {"J": 0.005}, initial={"hinge": np.pi}, noise=1e-3, duration=10.0)
    found = problem.with_(stepper=Variational(), state_weight=math.inf).solve(backend="riccati")
    assert found.status in (Status.STALLED, Status.MAX_ITERATIONS)


def test_without_c_code_the_answer_is_the_same(by_numpy):
    problem = swing(stepper=Variational(), state_weight=math.inf)
    expected, found = problem.solve(), problem.solve(backend="riccati")
    assert found["J"].estimate == pytest.approx(expected["J"].estimate, abs=1e-5 * expected["J"].std_err)
