"""Dry friction that sticks: several recordings, samples missing, errors, and the command line."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import pendulum

from spookid import HingeAngle, Model, Parameter, Problem, Recording, Solution, Spook, Status, Variational
from spookid.__main__ import main

NOISE = 1e-3
STEPPER, LIFTED = Variational(), Spook(multipliers="lifted")
LAWS: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "coulomb": ({"J": 0.005, "c": 0.15}, {"coulomb": "c"}),
    "dry": ({"J": 0.005, "c": 0.03}, {"dry": "c"}),
}
"""Truth, and what the hinge is given, parameters by name."""


def hanging(law: str, values: dict[str, Any]) -> Model:
    """A pendulum with one of the laws."""
    given = {
        name: tuple(values.get(v, v) for v in value) if isinstance(value, tuple) else values[value]
        for name, value in LAWS[law][1].items()
    }
    return pendulum(inertia=values["J"], compliance=1e-4, damping=0.02, **given)


def declared(law: str, values: dict[str, Any], **settings: Any) -> Problem:
    model = hanging(law, values)
    seen = [HingeAngle(joint, joint.name) for joint in model.joints]
    return Problem("forms", model=model, observations=seen, step=0.01, **{"state_weight": 1e6, **settings})


@cache
def released(law: str, stepper: Any, angle: float = 0.4, name: str = "run", duration: float = 1.0) -> Recording:
    """A pendulum that swings out until it sticks, seen with noise."""
    run = declared(law, LAWS[law][0], stepper=stepper, friction="exact").simulate(None, duration, {"hinge": angle})
    noise = NOISE * np.random.default_rng(3).normal(size=len(run.t))
    return Recording(run.t, {"hinge": run.signal("hinge") + noise}, name=name)


def twin(law: str = "coulomb", stepper: Any = STEPPER, **settings: Any) -> Problem:
    """What the pendulum is to be found from, guesses off by a half to twice."""
    unknown = {name: Parameter(name, 1.5 * true, lower=0) for name, true in LAWS[law][0].items()}
    settings = {"recordings": [released(law, stepper)]} | settings
    return declared(law, unknown, stepper=stepper, **settings)


def check_exact(solution: Solution, law: str = "coulomb") -> None:
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.complementarity_residual < 1e-11
    assert solution.sticking["hinge"] > 0.2
    for name, true in LAWS[law][0].items():
        assert abs(solution[name].estimate - true) < 5 * solution[name].std_err


@pytest.mark.study
@pytest.mark.parametrize(
    ("law", "stepper", "weight"),
    [("coulomb", STEPPER, np.inf), ("coulomb", LIFTED, 1e6), ("dry", STEPPER, 1e4), ("dry", STEPPER, np.inf)],
)
def test_exact_friction_is_found_from_guesses(law, stepper, weight):
    calls: list[int] = []
    problem = twin(law, stepper, state_weight=weight)
    solution = problem.solve(friction="exact", callback=lambda iteration: calls.append(iteration.iteration))
    check_exact(solution, law)
    assert solution.iterations <= 120
    assert (solution.stepper, solution.friction, solution.state_weight) == (stepper.name, "exact", weight)
    # All stages count as one solve; each reports where it starts.
    assert calls == sorted(calls)
    assert calls[-1] == solution.iterations == len(solution.history) - 1


def test_an_interrupt_in_an_early_stage_is_that_of_the_problem():
    def callback(iteration: Any) -> None:
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    solution = twin("coulomb", LIFTED).solve(friction="exact", callback=callback)
    assert solution.status is Status.INTERRUPTED
    assert (solution.stepper, solution.friction) == ("spook-lifted", "exact")


@pytest.mark.study
def test_an_interrupted_fit_goes_on_to_the_answer():
    def callback(iteration: Any) -> None:
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    problem = twin(friction="exact", state_weight=None)
    left = problem.solve(callback=callback)
    assert left.status is Status.INTERRUPTED
    resumed, whole = problem.solve(warm_start=left), problem.solve()
    assert resumed.status is Status.CONVERGED
    for name in ("J", "c"):
        assert abs(resumed[name].estimate - whole[name].estimate) < 0.1 * whole[name].std_err


@cache
def paired() -> Solution:
    """By pairs, from the guesses."""
    return twin().solve(backend="ipopt", friction="mpcc", max_iterations=200)


def test_pairs_and_the_exact_law_find_the_same():
    exact, pairs = twin().solve(friction="exact"), paired()
    assert pairs.status is Status.CONVERGED
    assert pairs.complementarity_residual < 1e-9
    for name in ("J", "c"):
        assert pairs[name].estimate == pytest.approx(exact[name].estimate, rel=1e-5)
    again = twin().solve(backend="ipopt", friction="mpcc", warm_start=exact)
    assert again.status is Status.CONVERGED
    assert again.iterations < pairs.iterations
    # Each begins with the friction impulses of the other's answer.
    assert again.history[0].cost.total == pytest.approx(exact.cost.total, rel=1e-6)
    back = twin().solve(friction="exact", warm_start=pairs)
    assert back.history[0].cost.total == pytest.approx(pairs.cost.total, rel=1e-6)


def test_pairs_end_where_no_piece_is_better():
    """Stationarity is named, and counts the pairs of which both members are zero."""
    solution = paired()
    both = not solution.detail.endswith("; 0 of 198 pairs are zero on both sides")
    assert ("strongly stationary for the active set found" if both else "B-stationary") in solution.detail
    assert solution.complementarity_residual < 1e-12


def test_pairs_converge_beside_rows_of_large_weight():
    """In metres and rad IPOPT stalled with its barrier at 1e-4 of the cost."""
    solution = twin("coulomb", LIFTED, state_weight=1e10).solve(backend="ipopt", friction="mpcc", max_iterations=300)
    assert solution.status is Status.CONVERGED, solution.message


def test_several_recordings_with_samples_missing():
    first, second = released("coulomb", STEPPER), released("coulomb", STEPPER, 0.43, "again", 0.8)
    holed = []
    for recording, gap in ((first, slice(40, 50)), (second, slice(70, None))):
        angle = recording.signal("hinge").copy()
        angle[gap] = np.nan
        holed.append(recording.with_signals(hinge=angle))
    solution = twin(recordings=holed).solve(friction="exact")
    check_exact(solution)
    sticks = [np.nanmean(motion.sticks[:, 0]) for motion in solution.trajectories]
    assert min(sticks) < solution.sticking["hinge"] < max(sticks)
    assert all(np.all(np.isfinite(motion.predicted)) for motion in solution.trajectories)


# --- the command line ---


FILE = '''"""A pendulum with dry friction."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Variational, gravity

c = Parameter("c", 0.1, lower=0, unit="N m")
rod = Body("rod", mass=0.5, inertia=(1e-4, 0.005, 0.005))
hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
              coulomb=c)
problem = Problem("stick", Model([rod], [hinge], gravity=gravity(9.82)),
                  [Recording.from_csv(Path(__file__).parent / "run.csv")], [HingeAngle(hinge, signal="hinge")],
                  state_weight=1e6, stepper=Variational())
'''


@pytest.fixture
def file(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    released("coulomb", STEPPER).to_csv(Path("run.csv"))
    Path("stick.py").write_text(FILE)
    return "stick.py"


def test_solve_that_did_not_get_there_says_so(file):
    assert main(["solve", file, "--friction", "exact", "--max-iterations", "2", "--out", "out", "--quiet"]) == 3
    tree = json.loads(Path("out/solution.json").read_text())
    assert (tree["status"], tree["friction"]) == ("max_iterations", "exact")


@pytest.mark.parametrize(("backend", "friction", "other"), [("lm", "mpcc", "exact"), ("ipopt", "exact", "mpcc")])
def test_solve_refuses_a_form_to_a_backend_that_does_not_know_it(file, capsys, backend, friction, other):
    assert main(["solve", file, "--backend", backend, "--friction", friction, "--out", "out"]) == 2
    err = capsys.readouterr().err
    assert f"friction '{friction}' is not for backend '{backend}'; use friction '{other}'" in err
    assert err.count("\n") == 1
    assert not Path("out").exists()
