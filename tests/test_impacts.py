"""Impacts by schedule: their rows, when they are, restitution and friction from twins, and schedules that are wrong."""

from __future__ import annotations

from functools import lru_cache

import casadi as ca
import numpy as np
import pytest
from impact_twins import BAR, STEP, SWING, Twin, bar, bar_twin, swing, swing_twin
from scipy.spatial.transform import Rotation

from spookid import (
    Body,
    Impact,
    Model,
    Orientation,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    Solution,
    Status,
    gravity,
)


def first(make, count: int, start: int = 0, **arguments) -> Twin:
    """The first twin that is one, from a seed on."""
    return next(twin for seed in range(start, start + 200) if (twin := make(count, seed, **arguments)))


@lru_cache
def toss() -> Twin:
    """A throw of the bar."""
    return first(bar_twin, 1)


@pytest.fixture(scope="module")
def fitted() -> tuple[Problem, Solution]:
    """A fit of it."""
    problem = bar([toss()], estimator="noise")
    return problem, problem.solve()


def test_restitution_and_friction_are_found(fitted: tuple[Problem, Solution]) -> None:
    problem, solution = fitted
    assert solution.status is Status.CONVERGED
    assert not any(f.code in ("contacts.schedule", "residuals.autocorrelated") for f in solution.findings)
    for name, value in BAR.items():
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err
        assert solution[name].std_err < 0.05 * value
    truth = sorted(t for own in toss().times for t in own)
    found = problem.impacts(solution)
    for one, t in zip(found, truth, strict=True):
        assert one.time == pytest.approx(t, abs=0.1 * STEP)
        assert one.after[2] == pytest.approx(-solution["e"].estimate * one.before[2], rel=1e-3)
        assert one.impulse[0] > 0
    assert len(problem.contact_forces(solution)) == 0


@pytest.mark.parametrize(("count", "left_out"), [(1, 0), pytest.param(3, 1, marks=pytest.mark.study)])
def test_an_impact_that_is_left_out_is_named(count: int, left_out: int) -> None:
    twin = first(swing_twin, count)
    findings = swing(twin, left_out).solve(estimator="noise").findings
    told = next(finding.text for finding in findings if finding.code == "contacts.schedule")
    assert "Impact 'stop' is missing" in told
    assert float(told.split("around ")[1].split()[0]) == pytest.approx(twin.times[0][left_out], abs=1.5 * STEP)


@pytest.mark.study
def test_an_impact_that_is_none_is_named() -> None:
    twin = first(swing_twin, 1)
    none = Twin(twin.recording, ((twin.times[0][0], twin.times[0][0] + 0.15),))
    notices = swing(none).solve(estimator="noise").notices
    assert any("does not move towards the plane" in notice or "away from there" in notice for notice in notices)


@pytest.mark.study
@pytest.mark.parametrize("backend", ["ipopt", "riccati"])
def test_backends_agree(fitted: tuple[Problem, Solution], backend: str) -> None:
    problem, solution = fitted
    other = problem.solve(backend, warm_start=solution)
    assert other.status is Status.CONVERGED
    for name in BAR:
        assert other[name].estimate == pytest.approx(solution[name].estimate, abs=0.1 * solution[name].std_err)


@pytest.mark.study
def test_throws_with_several_impacts() -> None:
    twins = first(bar_twin, 2, 4), toss()
    problem = bar(twins)
    solution = problem.solve()
    for name, value in BAR.items():
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err
    for i, twin in enumerate(twins):
        truth = sorted(t for own in twin.times for t in own)
        found = problem.impacts(solution, i)
        assert [one.time for one in found] == pytest.approx(truth, abs=0.1 * STEP)
        for one in found:
            assert one.after[2] == pytest.approx(-solution["e"].estimate * one.before[2], rel=1e-3)


@pytest.mark.study
def test_what_sticks_has_no_friction_to_find() -> None:
    twin = first(bar_twin, 1, sticks=True)
    solution = bar([twin], sticks=True).solve()
    assert abs(solution["e"].estimate - BAR["e"]) < 3 * solution["e"].std_err
    slid = bar([twin]).solve()
    assert any("it sticks there" in notice or "not noise" in notice for notice in slid.notices)


@pytest.mark.study
def test_intervals_cover() -> None:
    inside = []
    for seed in range(20):
        twin = swing_twin(3, seed)
        solution = swing(twin).solve(estimator="noise")
        inside += [abs(solution[name].estimate - true) < 1.96 * solution[name].std_err for name, true in SWING.items()]
    assert np.mean(inside) > 0.85


@pytest.mark.study
def test_a_free_body_that_turns_in_space() -> None:
    """A ball with a peg: of equal moments, so that it flies on with the same angular velocity.

    The peg is below its centre, so that the slip does not turn while the ball hits, which it may elsewhere.
    """
    mass, inertia, peg, e, mu, g = 0.5, 2e-3, np.array([0, 0, -0.1]), 0.7, 0.1, 9.81
    place, v, turn, w = np.array([0, 0, 0.8]), np.array([4.0, 2.0, 0]), Rotation.identity(), np.array([0, 0, 1.0])

    def flown(t: np.ndarray) -> tuple[np.ndarray, Rotation]:
        return place + np.outer(t, v) - np.outer(t**2, [0, 0, g / 2]), Rotation.from_rotvec(np.outer(t, w)) * turn

    fine = np.arange(0, 1, 1e-6)
    at, turned = flown(fine)
    hit = fine[np.argmax(at[:, 2] + turned.apply(peg)[:, 2] < 0)]
    t = np.arange(0, hit, STEP)
    before, turns = flown(t)
    place, turn = (part[0] for part in flown(np.array([hit])))
    v = v - [0, 0, g * hit]
    r = turn.apply(peg)
    J = np.hstack([np.eye(3), -np.cross(np.eye(3), r)])
    slip = J @ [*v, *w]
    push = J.T @ [*(-mu * slip[:2] / np.linalg.norm(slip[:2])), 1]
    inverse = np.array([1 / mass] * 3 + [1 / inertia] * 3)
    jump = inverse * push * -(1 + e) * slip[2] / (J[2] @ (inverse * push))
    v, w = v + jump[:3], w + jump[3:]
    after, turns_after = flown(np.arange(t[-1] + STEP, hit + 0.3, STEP) - hit)
    shown, rng = np.vstack([before, after]), np.random.default_rng(0)
    shaken = Rotation.from_rotvec(3e-4 * rng.standard_normal((len(shown), 3)))
    noisy = (Rotation.concatenate([turns, turns_after]) * shaken).as_quat(scalar_first=True)
    signals = {axis: shown[:, i] + 3e-4 * rng.standard_normal(len(shown)) for i, axis in enumerate("xyz")}
    signals |= {f"q{i}": noisy[:, i] for i in range(4)}
    body = Body("ball", mass=mass, inertia=(inertia,) * 3, free=True)
    times, found = [round(hit / STEP) * STEP], {"e": e, "mu": mu}
    parameters = {"restitution": Parameter("e", 0.5, lower=0, upper=1), "friction": Parameter("mu", 0.3, lower=0)}
    model = Model(
        [body], constraints=[Impact("peg", body.frame(at=peg), times=times, **parameters)], gravity=gravity(g)
    )
    sensors = [
        PointPosition(body.frame(), "xyz", tuple("xyz")),
        Orientation(body.frame(), ("q0", "q1", "q2", "q3"), sigma=3e-4),
    ]
    recording = Recording(t=STEP * np.arange(len(shown)), signals=signals)
    solution = Problem("ball", model, [recording], sensors, step=STEP).solve()
    for name, value in found.items():
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err
        assert solution[name].std_err < 0.1 * value


def test_friction_of_a_rod_by_hand() -> None:
    """At the end of a rod along x that slides along x, friction turns it about its centre not at all."""
    rod = Body("rod", mass=1.0, inertia=(1, 1, 1), free=True)
    impact = Impact("end", rod.frame(at=(0.4, 0, 0)), times=[1.0], friction=0.3)
    model = Model([rod], constraints=[impact], gravity=gravity(9.81))
    v = ca.SX.sym("v", 6)
    pushed = impact.friction_on_bodies(model, ca.SX([0, 0, 0, 1, 0, 0, 0]), v, ca.SX(2.0))
    function = ca.Function("pushed", [v], [pushed, ca.jacobian(pushed, v)])
    value, slope = (part.full() for part in function([2.0, 0, 0, 0, 0, 0]))
    assert np.allclose(value[:, 0], [-0.6, 0, 0, 0, 0, 0], atol=1e-6)
    still, slope = (part.full() for part in function(np.zeros(6)))
    assert np.all(still == 0)
    assert np.all(np.isfinite(slope))
