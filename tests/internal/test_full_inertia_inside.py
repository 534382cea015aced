"""The inside of what ``test_full_inertia`` tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import maximal
from test_full_inertia import CENTER, ENTRIES, GUESS, MASS, UP, G, arm, driven, matrix, problem_of, twin

import spookid
from spookid import (
    GROUND,
    Body,
    ExponentialEigenvalue,
    FullInertia,
    Hinge,
    HingeAngle,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Status,
    gravity,
)
from spookid.statistics.sensitivities import UNOBSERVED

# --- fits ---


def linear(**known: Any) -> FullInertia:
    """π as Parameters."""
    from spookid.mechanics.inertia import PI, at_guess

    guesses = zip(PI, at_guess(GUESS.pi).tolist(), strict=True)
    return FullInertia.from_pi(
        [Parameter(name, value, lower=0.1 if name == "mass" else -np.inf) for name, value in guesses], **known
    )


@cache
def fitted(kind: Any, **known: Any) -> tuple[Any, Any]:
    """By the steps of the twin: next to nothing but noise is left, and π as free numbers is a body, too."""
    link = linear(**known) if kind is FullInertia else kind("arm", GUESS, **known)
    return link, problem_of(maximal(arm(link)), [twin()]).solve()


SEEN = {  # combinations that an arm on two such axles shows
    "h_x": lambda pi: pi[1],
    "h_z": lambda pi: pi[3],
    "I_yy": lambda pi: pi[5],
    "I_xz": lambda pi: pi[8],
    "I_xx - I_zz": lambda pi: pi[4] - pi[6],
    "I_zz": lambda pi: pi[6],
}


@pytest.mark.study
def test_all_coordinates_tell_the_same_and_what_can_exist():
    """π as free numbers, and both kinds of coordinates, with what is known of π beforehand."""
    truth = FullInertia(MASS, CENTER, inertia=ENTRIES)
    free, result = fitted(FullInertia, within=0.5)
    assert result.status is Status.CONVERGED
    for kind in (LogCholesky, ExponentialEigenvalue):
        link, solution = fitted(kind, within=0.5)
        assert solution.status is Status.CONVERGED
        assert solution.iterations < 40
        assert solution.cost.total == pytest.approx(result.cost.total, rel=1e-6)
        for name, one in solution.physical.items():
            other = result.physical[name]
            assert one.estimate == pytest.approx(other.estimate, abs=1e-2 * other.std_err)
            assert one.std_err == pytest.approx(other.std_err, rel=1e-2)
        for of in SEEN.values():
            value = solution(of(link.pi))
            assert abs(value.estimate - float(ca.DM(of(truth.pi)))) < 4 * value.std_err
            assert value.std_err == pytest.approx(result(of(free.pi)).std_err, rel=0.02)
        moments = np.linalg.eigvalsh(
            matrix([solution.physical[f"arm I_{a}"].estimate for a in ("xx", "yy", "zz", "xy", "xz", "yz")])
        )
        assert 0 < moments[0] <= moments[2] < moments[0] + moments[1]


def test_what_the_data_do_not_see_has_no_error_and_what_they_see_has_one(tmp_path):
    """Of a link on a vertical axle they see the moment about that axle, whatever it is the sum of."""
    one, two = Parameter("one", 0.007, lower=1e-4), Parameter("two", 0.007, lower=1e-4)
    body = Body("link", inertia=FullInertia(1.0, (0.1, 0, 0.1), inertia=(one, two, one + two, 0.001, 0, 0)))
    hinge = Hinge("hinge", GROUND.frame(**UP), body.frame(**UP))
    model = Model([body], [hinge], [Motor(hinge, "u1", gain=0.1)], gravity=gravity(G))
    problem = Problem("link", model, [], [HingeAngle(hinge, "q", sigma=1e-4)], step=0.01, state_weight=1e8)
    run = problem.simulate({"one": 0.004, "two": 0.006}, 1.0, inputs=driven(1.0, 0.01), substeps=1)
    noise = 1e-4 * np.random.default_rng(0).normal(size=len(run.t))
    recording = Recording(run.t, {"u1": run.signals["u1"], "q": run.signals["q"] + noise}, name="r")
    solution = problem.with_(recordings=[recording]).solve()
    assert solution.status is Status.CONVERGED
    lost, seen = solution.physical["link I_xx"], solution.physical["link I_zz"]
    assert np.isnan(lost.std_err)
    assert lost.reason == UNOBSERVED
    assert 0 < seen.std_err < 1e-4
    assert abs(seen.estimate - 0.01) < 4 * seen.std_err
    assert solution(one + two).std_err == pytest.approx(seen.std_err)
    assert np.isnan(solution(one - two).std_err)
    assert "link I_zz" in solution.summary(verbose=True)
    solution.save(tmp_path / "r")
    back = spookid.load(tmp_path / "r")
    assert {n: d.reason for n, d in back.physical.items()} == {n: d.reason for n, d in solution.physical.items()}
    assert back.physical["link I_zz"] == seen
    assert back(one + two).std_err == pytest.approx(seen.std_err, rel=1e-9)
