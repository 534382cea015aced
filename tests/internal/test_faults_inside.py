"""The inside of what ``test_faults`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import joint_state
from test_faults import C_FREE, problem

from spookid import Spook, StepFailedError
from spookid.assembly.constants import numbers
from spookid.kernels.program import cause, first_cause
from spookid.stepping.impulses import Settings
from spookid.stepping.simulation import march
from spookid.studies.simulating import forward_stepper
from spookid.transcription.factor import Constant

C, J = ca.SX.sym("c"), ca.SX.sym("J")
X = ca.SX.sym("x_3")


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (ca.sqrt(C) + J, "sqrt(c) is not a number (c = -0.5)"),
        (1 + C / J, "(c/J) is infinite (c = -0.5, J = 0)"),
        (ca.log(X * J + C), "log(-0.5) is not a number (c = -0.5, J = 0)"),
        (ca.exp(X), "exp(900) is infinite"),
        (ca.if_else(C > 0, ca.sqrt(C), C), ""),
        (ca.sin(ca.if_else(C > 0, C, 1 / J)), "(1./J) is infinite (J = 0)"),
        (ca.jacobian(ca.sqrt(J), J), "(1./(2.*sqrt(J))) is infinite (J = 0)"),
    ],
)
def test_the_first_operation_that_is_not_finite_is_the_cause(expression: ca.SX, told: str) -> None:
    values = [np.array([-0.5]), np.array([0.0]), np.array([900.0])]
    found = cause(expression, [C, J, X], values, {"c": C, "J": J})
    assert found == told
    assert first_cause(ca.vertcat(C, expression), [C, J, X], values, {"c": C, "J": J}) == found


def test_shared_subexpressions_are_looked_at_once() -> None:
    deep = C
    for _ in range(200):
        deep = deep + deep * deep  # 2^200 paths, 400 operations
    assert cause(ca.sqrt(deep), [C], [np.array([-0.5])], {"c": C}).startswith("sqrt(")


@pytest.mark.parametrize("friction", ["smooth", "exact"])
def test_a_simulation_says_what_is_not_finite(friction: str) -> None:
    made = problem(ca.sqrt(C_FREE), friction=friction, stepper=Spook())
    of = Settings.of(made.model, 1)
    constants = *numbers(made, of, np.ones(1)), Constant(C_FREE, -0.1)
    start = np.concatenate(joint_state(made.model, [1.0], [0.0]))
    with pytest.raises(StepFailedError, match=r"step 1 was not solved: sqrt\(c\) is not a number \(c = -0.1\)"):
        march(forward_stepper(made, of, constants), start, np.zeros((3, 0)))
