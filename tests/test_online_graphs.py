"""Factor graphs while data come in: the motion and the parameters of a batch solve."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from spookid import FixedLagSmoother, Parameter, ProblemError, planar
from spookid.graphs import Graph, Observation, Prior, Sigmas, forward_dynamics, simulated

STEP, STEPS = 2e-3, 120


@cache
def fourbar(coupler: Any = 2.0) -> planar.Mechanism:
    """The paper's, its crank at rest at 0."""
    ground = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
    points = planar.Point("P1", (1, 0)), planar.Point("P2", (1, 2))
    crank = planar.Link("crank", ground[0], points[0], mass=1.0)
    links = [
        crank,
        planar.Link("coupler", *points, mass=coupler),
        planar.Link("rocker", ground[1], points[1], mass=4.0),
    ]
    return planar.Mechanism(links, [planar.AbsoluteAngle("theta", crank)], gravity=9.8)


def sensed(mechanism: planar.Mechanism) -> Graph:
    """The angle of the crank with noise."""
    q = mechanism.assembled()
    more = [Observation("angle", lambda q: q[4], sigma=1e-3)]
    return forward_dynamics(mechanism, STEP, q, noise=Sigmas((1e-5, 1e-4), 1e-2), more=more)


@pytest.mark.parametrize(
    ("coordinates", "window"),
    [
        ("dependent", 2),
        ("independent", 10),
        pytest.param("dependent", 10, marks=pytest.mark.study),
        pytest.param("independent", 2, marks=pytest.mark.study),
    ],
)
def test_a_motion_is_that_of_all_steps_at_once(coordinates: Any, window: int) -> None:
    mechanism = fourbar()
    q = mechanism.assembled()
    graph = forward_dynamics(mechanism, STEP, q, coordinates=coordinates)
    smoother = FixedLagSmoother(graph, window, start={"q": q})
    found = [smoother.update(5.0 + k * STEP, {}) for k in range(STEPS)]
    batch = graph.solve(STEPS, start=simulated(mechanism, STEP, STEPS, q))
    for name in ("q", "v"):
        assert np.allclose([one.variables[name] for one in found], batch[name], atol=1e-8)
    assert found[-1].t == pytest.approx(5.0 + (STEPS - 1) * STEP)
    assert all(one.converged for one in found)


def test_a_parameter_is_estimated_as_by_all_steps_at_once() -> None:
    mass = Parameter("m", 1.9, lower=0.1, unit="kg", prior=(1.9, 0.2))
    mechanism, q = fourbar(mass), fourbar().assembled()
    motion = simulated(fourbar(), STEP, STEPS, q)
    angles = motion["q"][:, 4] + 1e-3 * np.random.default_rng(0).standard_normal(STEPS)
    angles[::4] = np.nan
    graph = sensed(mechanism)
    batch = graph.solve(STEPS, {"angle": angles}, start=motion)
    smoother = FixedLagSmoother(graph, 20, start={"q": q})
    for k, angle in enumerate(angles):
        estimate = smoother.update(k * STEP, {"angle": angle})
    error = batch.standard_errors["m"]
    assert estimate["m"] == pytest.approx(batch.parameters["m"], abs=0.1 * error)
    assert estimate.std_errs["m"] == pytest.approx(error, rel=0.05)
    assert abs(estimate["m"] - 2.0) < 4 * error
    assert "m" in str(estimate)


def test_a_motion_that_has_left_its_branch_says_so() -> None:
    P = planar.Point("P", (0.8, -0.6))
    rod = planar.Link("rod", planar.Ground("A", (0, 0)), P, mass=1.0)
    lowest = planar.Mechanism([rod], gravity=9.8, independent_names=["P.y"])
    graph = forward_dynamics(lowest, 10 * STEP, lowest.assembled(), coordinates="independent")
    smoother = FixedLagSmoother(graph, 4, start={"q": lowest.assembled()})
    told = [smoother.update(10 * k * STEP, {}).notices for k in range(40)]
    assert told[0] == ()
    assert "the motion left its branch at t = 0." in told[-1][0]
    assert told[-1][0] in str(smoother.estimate)
    other = forward_dynamics(lowest, 10 * STEP, lowest.assembled())
    smoother = FixedLagSmoother(other, 4, start={"q": lowest.assembled()})
    assert all(smoother.update(10 * k * STEP, {}).notices == () for k in range(40))


def test_steps_of_a_graph_may_be_told_late_and_may_be_left_out() -> None:
    mechanism = fourbar()
    q, graph = mechanism.assembled(), sensed(mechanism)
    motion = simulated(mechanism, STEP, 30, q)["q"][:, 4]
    in_order, late = (FixedLagSmoother(graph, 10, start={"q": q}) for _ in range(2))
    for k in (*range(20), *range(23, 30)):
        in_order.update(k * STEP, {"angle": motion[k] + 1e-3})
    for k in (*range(18), 19, 18, *range(23, 28), 29, 28):
        late.update(k * STEP, {"angle": motion[k] + 1e-3})
    assert in_order.intake == late.intake
    assert late.estimate.step == 29
    assert np.allclose(in_order.estimate.variables["q"], late.estimate.variables["q"], atol=1e-7)
    late.update(0.0, {})
    with pytest.raises(ProblemError, match=r"'angle' has a second sample at 0\.058 s"):
        late.update(29 * STEP, {"angle": 0.0})
    counts = late.intake
    late.update(5 * STEP, {"angle": 0.0})
    assert late.intake.late == counts.late + 1


def test_what_a_graph_cannot_take_is_refused() -> None:
    mechanism = fourbar()
    q, graph = mechanism.assembled(), sensed(mechanism)
    with pytest.raises(ProblemError, match="start is None; give where the first step begins"):
        FixedLagSmoother(graph, 10)
    for other, sentence in (
        (Prior("q", (0.3,), rows=("theta",), name="other"), "'other' fixes at the first step what other hard factors"),
        (Prior("q", (1.0,), at="every", rows=("P1.x",), name="other"), "'other' fixes at each step what other hard"),
    ):
        with pytest.raises(ProblemError, match=sentence):
            FixedLagSmoother(forward_dynamics(mechanism, STEP, q, more=[other]), 10, start={"q": q})
    free = sensed(fourbar(Parameter("m", 1.9, lower=0.1)))
    with pytest.raises(ProblemError, match=r"start of m is 'x'; give a finite number in \[0\.1, inf\]"):
        FixedLagSmoother(free, 10, start={"q": q, "m": "x"})
    smoother = FixedLagSmoother(graph, 10, start={"q": q})
    assert smoother.estimate.step == -1
    smoother.update(1.0, {})
    with pytest.raises(ProblemError, match=r"lies between two steps of 0\.002 s from 1 s on; a graph's samples are at"):
        smoother.update(1.001, {})
    with pytest.raises(ProblemError, match="no signal 'gyro'"):
        smoother.update(1.002, {"gyro": 1.0})
    with pytest.raises(ProblemError, match="time leaps to 1000000 s, 499999500 steps"):
        smoother.update(1e6, {})
    with pytest.raises(ProblemError, match="cannot be saved while it is smoothed"):
        smoother.save("nowhere")
