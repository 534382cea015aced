"""A fit as a nonlinear program of CasADi expressions: other solvers of these find what the package finds."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, pendulum

from spookid import HingeAngle, Parameter, Problem, ProblemError, Recording, Solution, load_problem
from spookid.studies import NonlinearProgram

ROOT = Path(__file__).parents[1]
TRUTH = {"J": 0.005, "c": 0.15}
"""Inertia and dry friction of a pendulum [kg m², N m]."""


def swinging(duration: float = 1.0, **settings: Any) -> Problem:
    """A pendulum that swings out until it sticks, seen with noise; guesses are off by a half."""
    unknown = {name: Parameter(name, 1.5 * true, lower=0) for name, true in TRUTH.items()}

    def declared(values: Any, recordings: list[Recording], **settings: Any) -> Problem:
        model = pendulum(inertia=values["J"], coulomb=values["c"])
        sensors = [HingeAngle(model.joints[0], "angle")]
        return Problem("swinging", model, recordings, sensors, step=0.01, state_weight=1e6, **settings)

    run = declared(TRUTH, [], friction="exact").simulate(None, duration, {"hinge": 0.4})
    noise = 1e-3 * np.random.default_rng(3).normal(size=len(run.t))
    return declared(unknown, [Recording(run.t, {"angle": run.signals["angle"] + noise})], **settings)


def solved(nlp: NonlinearProgram, **changes: Any) -> Array:
    """By ``ca.nlpsol`` with the program's own options."""
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = ca.nlpsol("solver", "ipopt", nlp.problem | changes.pop("problem", {}), nlp.options | quiet)
    found = np.asarray(solver(**nlp.arguments | changes)["x"]).ravel()
    assert solver.stats()["return_status"] in ("Solve_Succeeded", "Solved_To_Acceptable_Level")
    return found


@cache
def quick_start() -> tuple[Problem, Solution]:
    """That of the README, at its own step."""
    problem = load_problem(ROOT / "problems" / "pendulum.py").with_(step_correction=False)
    return problem, problem.solve(backend="ipopt")


def test_the_quick_start_is_solved_likewise() -> None:
    problem, solution = quick_start()
    nlp = problem.nlp(solution)
    found = nlp.parameters(solved(nlp))
    for name, value in found.items():
        assert abs(value - solution[name].estimate) < 0.02 * solution[name].std_err


def test_a_fit_from_the_guess_ends_at_the_same_minimum() -> None:
    problem = swinging(friction_width=0.1)
    nlp, known = problem.nlp(), problem.solve(backend="ipopt")
    found = solved(nlp)
    assert float(nlp.function(found, nlp.p0)[0]) == pytest.approx(known.cost.total, rel=1e-6)
    for name, value in nlp.parameters(found).items():
        assert abs(value - known[name].estimate) < 0.02 * known[name].std_err
    (motion,) = nlp.trajectories(found)
    np.testing.assert_allclose(motion.q, known.trajectories[0].q, atol=1e-5)


def test_pairs_are_marked_and_their_pieces_can_be_solved() -> None:
    problem = swinging(friction="mpcc")
    known = problem.solve(backend="ipopt")
    nlp = problem.nlp(known)
    assert nlp.pairs.shape == (2 * 99, 2)
    assert np.all(nlp.lbg[nlp.pairs] == 0)
    assert np.all(np.isinf(nlp.ubg[nlp.pairs]))
    f, g, r = (np.asarray(value).ravel() for value in nlp.function(nlp.x0, nlp.p0))
    assert f.item() == pytest.approx(np.sum(r**2))
    members = g[nlp.pairs]
    upper = nlp.ubg.copy()
    upper[np.take_along_axis(nlp.pairs, members.argmin(axis=1)[:, None], axis=1)] = 0.0
    for name, value in nlp.parameters(solved(nlp, ubg=upper)).items():
        assert abs(value - known[name].estimate) < 0.02 * known[name].std_err


def test_names_are_those_of_all_entries() -> None:
    nlp = swinging(friction="mpcc").nlp()
    sizes = {"x": len(nlp.x0), "g": len(nlp.lbg), "p": len(nlp.p0), "parameters": 2}
    assert {name: len(of) for name, of in nlp.names.items()} == sizes
    assert len(set(nlp.names["x"])) == len(nlp.x0)
    assert nlp.names["x"][-2:] == ("J", "c")
    assert "slip forwards hinge" in nlp.names["g"][nlp.pairs[0, 0]]
    assert "room below hinge" in nlp.names["g"][nlp.pairs[0, 1]]


def test_a_longer_horizon_has_no_more_nodes() -> None:
    short, long = (swinging(duration).nlp() for duration in (0.5, 2.0))
    assert len(long.x0) > 3 * len(short.x0)
    assert long.function.n_instructions() == short.function.n_instructions()


def test_it_is_saved_and_read(tmp_path: Path) -> None:
    nlp = swinging(friction="mpcc").nlp()
    again = NonlinearProgram.load(nlp.save(tmp_path / "swinging.casadi"))
    x = nlp.x0 + 1e-3 * np.random.default_rng(0).normal(size=len(nlp.x0))
    for mine, other in zip(nlp.function(x, nlp.p0), again.function(x, again.p0), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))
    assert again.names == nlp.names
    assert again.parameters(x) == nlp.parameters(x)
    for name in ("x0", "lbx", "ubx", "lbg", "ubg", "pairs"):
        np.testing.assert_array_equal(getattr(again, name), getattr(nlp, name))
    with pytest.raises(ProblemError, match="mechanism"):
        again.trajectories(x)
    with pytest.raises(ProblemError, match="is no file"):
        NonlinearProgram.load(tmp_path / "missing.casadi")


def test_laws_that_switch_are_refused() -> None:
    with pytest.raises(ProblemError, match="friction='mpcc'"):
        swinging(friction="exact").nlp()
