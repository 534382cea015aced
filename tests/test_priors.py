"""Priors of parameters: what they cost, what they add to what the data say, and how they are declared."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from mechanisms import pendulum, twin

from spookid import Finding, HingeAngle, Parameter, Problem, ProblemError, Solution, load


def two_frictions(prior: tuple[float, float] | None, sigma: float = 1e-3, **settings: object) -> Problem:
    """A pendulum whose data see only the sum of two frictions."""
    one, two = Parameter("one", 1e-3, prior=prior), Parameter("two", 1e-3)
    settings = {"duration": 0.8, "noise": 1e-3, "initial": {"hinge": 1.0}, "state_weight": 1e8, **settings}
    problem = twin(pendulum(viscous=one + two), {"one": 2e-3, "two": 2e-3}, **settings)
    return problem.with_(observations=[HingeAngle(o.joint, o.signal, sigma=sigma) for o in problem.observations])


def test_estimates_say_whether_data_or_priors_tell_them(tmp_path):
    solution, without = two_frictions((1.5e-3, 2e-4)).solve(), two_frictions(None).solve(fixed="one")
    one, two = solution["one"], solution["two"]
    assert (one.known_from, two.known_from) == ("prior", "data")
    assert one.from_prior == pytest.approx(1, abs=1e-3)
    # The error of `two` is that of the prior of `one` and that of the sum.
    assert two.from_prior == pytest.approx(one.std_err**2 / two.std_err**2, rel=1e-3)
    assert solution(Parameter("one", 1.0) + Parameter("two", 1.0)).from_prior == pytest.approx(0, abs=1e-6)
    assert (without["one"].known_from, without["two"].known_from, without["two"].from_prior) == ("given", "data", 0)
    assert {e.known_from for e in two_frictions(None).solve().parameters.values()} == {"nothing"}
    (row,) = re.findall(r"^(\w+) [^\n]*\n? *from the prior$", solution.summary(), re.MULTILINE)
    assert row == "one"
    solution.save(tmp_path / "r")
    back = load(tmp_path / "r")
    assert back["one"] == one
    assert back(Parameter("two", 1.0)).from_prior == two.from_prior
    written = json.loads((tmp_path / "r" / "solution.json").read_text())["parameters"]
    assert (written["one"]["known_from"], written["two"]["known_from"]) == ("prior", "data")


def test_its_cost_is_counted_once():
    problem = two_frictions((1.5e-3, 2e-4))
    twice = problem.with_(recordings=problem.recordings * 2)
    assert twice.solve(max_iterations=0).cost.prior == pytest.approx(((1e-3 - 1.5e-3) / 2e-4) ** 2)
    one, other = problem.solve(), twice.solve()
    assert other.size.residuals == 2 * one.size.residuals - 1
    assert other.cost.total == other.cost.state + other.cost.observation + other.cost.prior
    assert other.history[0].cost.prior == one.history[0].cost.prior


def test_prior_and_data_are_weighed_by_their_variances():
    J = Parameter("J", 0.01, lower=1e-6)
    settings = {"duration": 0.4, "noise": 1e-2, "initial": {"hinge": 1.0}, "state_weight": 1e8}
    free = twin(pendulum(inertia=J), {"J": 0.005}, **settings)
    free = free.with_(observations=[HingeAngle(o.joint, o.signal, sigma=1e-2) for o in free.observations])
    alone = free.solve()["J"]
    size = alone.std_err / alone_noise(free)  # of sigma as declared
    believed = Parameter("J", 0.01, lower=1e-6, prior=(alone.estimate + size, size))
    problem = twin(pendulum(inertia=believed), {"J": 0.005}, **settings)
    problem = problem.with_(observations=[HingeAngle(o.joint, o.signal, sigma=1e-2) for o in problem.observations])
    assert problem.solve()["J"].estimate == pytest.approx(alone.estimate + size / 2, rel=5e-3)


def alone_noise(problem: Problem) -> float:
    """Standard deviation of the angle's residuals in sigma."""
    return problem.solve().sensitivities.noise["hinge"]


def test_a_fixed_parameter_has_no_prior():
    solution = two_frictions((1.5e-3, 2e-4)).solve(fixed="one")
    assert solution.cost.prior == 0
    assert solution["two"].estimate == pytest.approx(3e-3, rel=0.1)


def misweighted(solution: Solution) -> list[str]:
    return [finding.text for finding in solution.findings if finding.code == "prior.misweighted"]


def test_a_notice_says_that_sigma_is_not_the_noise():
    solution = two_frictions((1.5e-3, 2e-4), sigma=1.0, state_weight=100.0).solve()
    assert [text for text in misweighted(solution) if "not 1" in text]
    assert not misweighted(two_frictions((1.5e-3, 2e-4)).solve())


def test_a_sensor_without_sigma_has_one_with_a_given_weight():
    problem = two_frictions((1.5e-3, 2e-4), state_weight=100.0)
    bare = problem.with_(observations=[HingeAngle(o.joint, o.signal) for o in problem.observations])
    assert any("not 1" in text for text in misweighted(bare.solve()))


def test_a_prior_is_weighed_against_noise_that_is_estimated():
    problem = two_frictions((1.5e-3, 2e-4), state_weight=None)
    solution = problem.with_(observations=[HingeAngle(o.joint, o.signal) for o in problem.observations]).solve()
    assert solution["one"].estimate == pytest.approx(1.5e-3, rel=1e-3)
    assert solution["one"].std_err == pytest.approx(2e-4, rel=1e-2)
    assert not misweighted(solution)


@pytest.mark.parametrize("weight", [None, 1e8])
def test_a_prior_that_the_data_contradict_gets_a_notice(weight):
    def contradicted(mean: float, sigma: float) -> list[Finding]:
        J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2", prior=(mean, sigma))
        problem = twin(
            pendulum(inertia=J), {"J": 0.005}, duration=1.0, noise=1e-3, initial={"hinge": 1.0}, state_weight=weight
        )
        given = {"sigma": None if weight is None else 1e-3}
        sensors = [HingeAngle(o.joint, o.signal, **given) for o in problem.observations]
        findings = problem.with_(observations=sensors).solve().findings
        return [finding for finding in findings if finding.code == "prior.contradicted"]

    (finding,) = contradicted(0.006, 3e-4)
    assert finding.subject == ("J",)
    assert "contradict the prior of parameter J, 0.006 ± 0.0003 kg m^2: data alone give 0.00" in finding.text
    said, error = finding.evidence["data"], finding.evidence["std_err"]
    assert said == pytest.approx(0.005, abs=4 * error)
    (finding,) = contradicted(0.006, 1e-4)
    assert "data alone give 0.00" in finding.text or "data alone require a smaller value" in finding.text
    assert contradicted(0.0051, 1e-4) == []
    assert contradicted(0.006, 1e-3) == []


def test_what_the_data_do_not_see_cannot_contradict_a_prior():
    findings = two_frictions((5e-3, 2e-4)).solve().findings
    assert not any(finding.code == "prior.contradicted" for finding in findings)


def test_it_is_kept():
    assert Parameter("a", 1.0, prior=(2, 0.5)).prior == (2.0, 0.5)
    assert Parameter("a", 1.0).prior is None


@pytest.mark.parametrize("prior", [3.0, (1.0,), (1.0, "much"), "ab", (1.0, 2.0, 3.0)])
def test_what_is_no_pair_is_refused(prior):
    with pytest.raises(ProblemError, match=r"Parameter 'a': prior must be a pair \(mean, sigma\)"):
        Parameter("a", 1.0, prior=prior)


@pytest.mark.parametrize("prior", [(1.0, 0.0), (1.0, -1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_numbers_that_make_no_prior_are_refused(prior):
    with pytest.raises(ProblemError, match="finite mean and a positive, finite sigma"):
        Parameter("a", 1.0, prior=prior)
