"""What a step takes of memory while a problem is solved, beyond the data and the start."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from benchmarks.problems import furuta, pendulum
from benchmarks.rows import STEPPERS, memory, set_up

from spookid import LevenbergMarquardt
from spookid.assembly import checks
from spookid.assembly.assembly import assemble
from spookid.assembly.trajectories import trajectories
from spookid.estimation.identifiability import a_posteriori, a_priori
from spookid.estimation.step_errors import influence
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.steps import DampedStep, MeritModel
from spookid.transcription.parameter_constraints import FreeDirections

pytestmark = pytest.mark.usefixtures("by_c")


@pytest.mark.study
@pytest.mark.parametrize(("stepper", "parameters", "most"), [("SPOOK", 13, 18.0), ("rigid Variational", 13, 5.0)])
def test_a_step_of_the_furuta_pendulum(stepper, parameters, most):
    assert memory(set_up(furuta(STEPPERS[stepper], 1001, parameters))) / 1001 < 1e3 * most


@pytest.mark.parametrize(("stepper", "most"), [("SPOOK", 5.0), ("rigid Variational", 2.0)])
def test_a_step_takes_no_more_on_a_long_horizon(stepper, most):
    short, long = (memory(set_up(pendulum(STEPPERS[stepper], steps))) for steps in (2000, 6000))
    assert (long - short) / 4000 < 1e3 * most


def peak(work: Callable[[], object]) -> float:
    """The most that something needs [bytes]."""
    tracemalloc.start()
    work()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(found)


@pytest.mark.study
@pytest.mark.parametrize(("stepper", "parameters", "most"), [("SPOOK", 13, 20.0), ("rigid Variational", 13, 4.0)])
def test_the_analysis_of_the_furuta_pendulum(stepper, parameters, most):
    assembly = set_up(furuta(STEPPERS[stepper], 1001, parameters))
    point = LevenbergMarquardt(max_iterations=3).solve(assembly.transcription, assembly.start).point

    def analyse() -> None:
        identifiability = a_posteriori(assembly, point, FreeDirections(np.zeros(parameters, dtype=bool)))
        influence(assembly, point, identifiability, trajectories(assembly, point))

    assert peak(analyse) / 1001 < 1e3 * most


@pytest.mark.parametrize(
    ("stepper", "most"), [("SPOOK", 6.0), pytest.param("rigid Variational", 1.0, marks=pytest.mark.study)]
)
def test_nor_does_what_the_data_say_of_the_parameters(stepper, most):
    short, long = (peak(partial(a_priori, set_up(pendulum(STEPPERS[stepper], steps)))) for steps in (2000, 6000))
    assert (long - short) / 4000 < 1e3 * most


@pytest.mark.parametrize("stepper", ["SPOOK", pytest.param("rigid Variational", marks=pytest.mark.study)])
def test_what_a_fit_by_weight_is_said_to_take_is_near_what_it_takes(stepper):
    problems = [pendulum(STEPPERS[stepper], steps) for steps in (2000, 6000)]
    short, long = (peak(problem.solve) for problem in problems)
    said = [checks.memory(problem, assemble(problem).transcription) for problem in problems]
    assert 0.5 * (long - short) < said[1] - said[0] < 10 * (long - short)


def test_another_damping_gets_equations_that_no_factor_has_overwritten():
    assembly = set_up(furuta(STEPPERS["SPOOK"], 101, 13))
    reduced = ReducedProblem(assembly.transcription, assembly.start)
    point = LevenbergMarquardt(max_iterations=1).solve(assembly.transcription, assembly.start).point

    def here() -> MeritModel:
        return MeritModel(reduced, reduced.evaluate(point))

    again = here()
    first = DampedStep(again, 1e-6).first()
    for damping in (1e-2, 1e-6):
        step, promised = DampedStep(again, damping).first()
        fresh, expected = DampedStep(here(), damping).first()
        assert promised == expected
        np.testing.assert_array_equal(step.states[0], fresh.states[0])
    np.testing.assert_array_equal(step.states[0], first[0].states[0])
