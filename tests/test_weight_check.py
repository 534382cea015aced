"""What a solution says of a state weight that was given: too small, too large, or nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import pendulum, twin

from spookid import Parameter, Problem, Recording, Spook, Variational
from spookid.assembly import assemble
from spookid.knowledge import at_bounds, learn
from spookid.model import Model
from spookid.open_loop import windows
from spookid.periods import LONG, OVERLAP, extent
from spookid.solution import Solution
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.prediction import scores

TRUTH = {"J": 0.005, "b": 2e-3}
STEPPERS = [(Variational(), 0.02), (Spook(), 0.4), (Spook(multipliers="lifted"), 0.4)]
"""And by how much simulations of each may differ: those of Spook take the exact logarithm, its residuals (3.24)."""


def swing(noise: float = 2e-3, bounds: tuple[float, float] = (1e-6, 1.0), **settings: Any) -> Problem:
    """A swing of a pendulum that its own stepper simulated, with white noise."""
    lower, upper = bounds
    J = Parameter("J", float(np.clip(0.004, lower, upper)), lower=lower, upper=upper, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    model = pendulum(inertia=J, viscous=b, compliance=1e-4, damping=0.02)
    return twin(
        model, TRUTH, initial={"hinge": 1.5}, duration=4.0, noise=noise, **{"stepper": Variational(), **settings}
    )


def rubbing(model: Model, stepper: Any, friction: str) -> Problem:
    """A swing under dry friction."""
    truth, start = {"J": 0.005, "c": 0.01}, {"hinge": 1.5}
    return twin(model, truth, initial=start, duration=4.0, noise=2e-3, stepper=stepper, friction=friction)


def damped() -> Problem:
    """A long decay under drag, which the model has as viscous friction: true at one amplitude only."""
    J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
    b, d = (Parameter(name, 1e-3, lower=0) for name in ("b", "d"))
    truth = {"J": 0.005, "b": 1e-3, "d": 3e-3}
    model = pendulum(inertia=J, viscous=b, drag=d)
    whole = twin(model, truth, initial={"hinge": 2.0}, duration=30.0, noise=1e-3, stepper=Variational(), step=0.02)
    return whole.with_(initial={"d": 0.0}, fixed=["d"])


def doubts(solution: Solution) -> list[str]:
    return [notice for notice in solution.notices if notice.startswith("The state weight")]


def linearized(problem: Problem, *factors: float) -> np.ndarray:
    """Scores at the solution of ``problem`` for κ times each factor."""
    assembly = assemble(problem)
    point = LevenbergMarquardt().solve(assembly.transcription, assembly.start).point
    held = at_bounds(assembly.transcription, point)
    contraction = learn(assembly, point, held).contraction
    assert contraction is not None
    length, edges = extent(assembly.evidence, problem.step, LONG)
    assert length == edges[-1]
    return scores(contraction.linear, held, point, factors, edges, length // OVERLAP, 4000)


# --- the linearized prediction ---


@pytest.mark.parametrize("friction", ["smooth", "exact"])
@pytest.mark.parametrize(("stepper", "off"), STEPPERS, ids=lambda value: getattr(value, "name", ""))
def test_it_is_that_of_a_simulation(stepper: Any, off: float, friction: str) -> None:
    J, c = Parameter("J", 0.004, lower=1e-6), Parameter("c", 1e-3, lower=0)
    model = pendulum(inertia=J, coulomb=c, compliance=1e-4, damping=0.02)
    problem = rubbing(model, stepper, friction).with_(state_weight=1e3)
    simulated = windows(problem, periods=LONG, overlap=OVERLAP).score(problem.solve())
    assert linearized(problem, 1.0)[0] == pytest.approx(simulated, rel=off)


@pytest.mark.parametrize("factor", [1e-2, 1e2])
def test_it_foretells_a_fit_with_another_weight(factor: float) -> None:
    problem = swing(state_weight=1e2)
    here, there = linearized(problem, 1.0, factor)
    refitted = windows(problem, periods=LONG, overlap=OVERLAP).score(problem.solve(state_weight=factor * 1e2))
    assert abs(here / refitted - 1) > 0.1  # the weight matters
    assert there == pytest.approx(refitted, rel=0.1 if factor > 1 else 4)
    assert (there > here) == (refitted > here)


def test_recordings_of_any_length_and_gaps_are_judged_together() -> None:
    problem = swing(state_weight=1e4)
    whole = problem.recordings[0]
    theta = np.where(np.arange(30) % 3 == 0, np.nan, whole.signals["hinge"][:30])
    both = problem.with_(recordings=[whole, Recording(whole.t[:30], {"hinge": theta})])
    assert linearized(both, 1.0)[0] == pytest.approx(linearized(problem, 1.0)[0], rel=0.5)


def test_parameters_stay_within_their_bounds() -> None:
    free = swing(state_weight=1.0)
    J = free.parameters[0]
    assert J.name == "J"
    value = free.solve()["J"].estimate
    tight = swing(state_weight=1.0, bounds=(value * (1 - 1e-6), value * (1 + 1e-6)))
    assert linearized(tight, 1e4)[0] > 1.5 * linearized(free, 1e4)[0]


# --- the notice ---


def test_a_weight_that_is_far_too_small_is_named_with_the_figure_and_the_remedy(tmp_path: Path) -> None:
    solution = swing().solve(state_weight=1.0)
    (text,) = doubts(solution)
    assert text.startswith("The state weight 1 is far too small: one 10,000 times as large predicts")
    assert "times better" in text
    assert "open-loop prediction over up to" in text
    assert 'state_weight="auto" (--state-weight auto)' in text
    assert "The state weight 1 is far too small" in solution.summary()
    solution.save(tmp_path / "out")
    assert text in json.loads((tmp_path / "out" / "solution.json").read_text())["notices"]


def test_states_that_follow_every_sample_are_known_by_the_misfit_they_leave() -> None:
    (text,) = doubts(swing().solve(state_weight=1e-4))
    assert text.startswith("The state weight 0.0001 is far too small: the estimates predict the measurements")


def test_a_weight_that_is_far_too_large_is_found_out_where_the_model_lacks_something() -> None:
    (text,) = doubts(damped().solve(state_weight=1e8))
    assert text.startswith("The state weight 1e+08 is far too large: one 10")
    assert "times smaller predicts the measurements" in text


@pytest.mark.parametrize("make", [swing, damped])
def test_the_weight_that_the_data_choose_is_not_doubted(make: Callable[[], Problem]) -> None:
    problem = make()
    chosen = problem.solve(state_weight="auto")
    assert not doubts(chosen)
    assert not doubts(problem.solve(state_weight=chosen.state_weight))


def test_a_large_weight_does_no_harm_if_the_model_is_right() -> None:
    assert not doubts(swing().solve(state_weight=1e10))
    assert not doubts(swing().solve(state_weight=math.inf))


def test_nothing_is_said_of_a_fit_that_did_not_converge() -> None:
    assert not doubts(swing().solve(state_weight=1e-4, max_iterations=1))


def test_friction_that_sticks_is_judged_once() -> None:
    J, c = Parameter("J", 0.004, lower=1e-6), Parameter("c", 1e-3, lower=0)
    problem = rubbing(pendulum(inertia=J, coulomb=c), Variational(), "exact")
    assert len(doubts(problem.solve(state_weight=1.0))) == 1
