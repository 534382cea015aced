"""Fits whose disturbance stands in the place of the mechanics, and what is said of fits that did not end."""

from __future__ import annotations

import numpy as np
import pytest
from test_unseen import driven, slider

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Solution, Spook, Status


def suspicion(solution: Solution) -> str:
    return next((finding.text for finding in solution.findings if finding.code == "motion.unexplained"), "")


@pytest.mark.study
def test_a_reversed_motor_is_suspected() -> None:
    right = slider(35.0).with_(recordings=[driven()], step_correction=False, estimator="noise")
    reversed_ = slider(-35.0).with_(recordings=[driven()], step_correction=False, estimator="noise")
    assert not suspicion(right.solve())
    wrong = reversed_.solve()
    assert "slide" in suspicion(wrong)
    assert "of u reversed" in suspicion(wrong)
    assert wrong.summary().index("What disturbs the motion exceeds") < wrong.summary().index("parameter ")


@pytest.mark.parametrize("up", [1, -1])
def test_gravity_that_points_up_is_suspected(up: int) -> None:
    J, b = Parameter("J", 2e-3, lower=1e-7), Parameter("b", 1e-3, lower=0)

    def pendulum(g: float) -> Problem:
        rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
        frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
        pin = Hinge("pin", *frames, viscous=b)
        model = Model([rod], [pin], gravity=(0, 0, -g))
        settings = {"step": 0.02, "step_correction": False, "estimator": "noise"}
        return Problem("swing", model, observations=[HingeAngle(pin, "theta")], **settings)

    run = pendulum(9.81).simulate({"J": 2e-3, "b": 1e-3}, 2.0, {"pin": 1.0}, noise={"theta": 1e-3}, seed=0)
    solution = pendulum(up * 9.81).with_(recordings=[Recording(run.t, run.signals)]).solve()
    assert bool(suspicion(solution)) == (up < 0)


def test_what_kept_a_fit_from_its_end_is_told_by_its_settings() -> None:
    problem = slider().with_(recordings=[driven()], step_correction=False)
    stopped = problem.solve(max_iterations=1)
    assert stopped.status is Status.MAX_ITERATIONS
    assert "the data do not see that" in stopped.message
    assert "may run away along that (max_iterations = 1)" in stopped.message
    assert "stiff" not in stopped.message
    weighted = slider(35.0).with_(recordings=[driven()], stepper=Spook(), state_weight=1e4).solve(max_iterations=0)
    assert "too stiff for the state weight" in weighted.message
    assert "the data do not see" not in weighted.message


def test_no_cause_is_asked_for_after_convergence() -> None:
    solution = slider(35.0).with_(recordings=[driven()], step_correction=False, estimator="noise").solve()
    assert solution.message.startswith("A local minimum was found (")
    assert np.isfinite(solution["M"].std_err)
