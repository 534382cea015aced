"""The inside of what ``test_graphs`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from test_graphs import DEPENDENT, Array, Pendulum, arm

from spookid.graphs import (
    AccelerationConstraint,
    Dynamics,
    Graph,
    GraphFactor,
    InverseDynamics,
    JointSystem,
    PositionConstraint,
    Prior,
    SoftEquality,
    Trapezoid,
    VelocityConstraint,
    forward_dynamics,
    simulated,
)
from spookid.graphs.start import started
from spookid.transcription.transcription import Point

INDEPENDENT = [
    PositionConstraint("independent", sigma=0.5),
    VelocityConstraint("independent", sigma=0.5),
    AccelerationConstraint("independent", sigma=0.5),
    Dynamics("independent", sigma=0.3),
    InverseDynamics("independent", sigma=0.3),
    Prior("z", ("reference",), at="every", sigma=0.1),
    Trapezoid("z", "dz", sigma=0.1),
]


def slopes_by_differences(graph: Graph, states: Array, data: dict[str, Array]) -> float:
    """Largest error of the Jacobians of all factors against central differences, over their largest entry."""
    problem = graph.transcription(len(states), data)
    parameters, width, step = np.array([p.guess for p in graph.parameters]), problem.manifold.tangent, 1e-6
    point, worst = Point((states,), parameters), 0.0
    for factor in problem.factors:
        exact = problem.linearize_factor(factor, point, 0).matrix[0, : len(factor.variables) * width].T
        found = np.zeros_like(exact)
        for k in range(len(factor.variables)):
            for column in range(width):
                sides = []
                for sign in (1, -1):
                    moves = np.zeros((len(states), width))
                    moves[k, column] = sign * step
                    moved = problem.retract(point, [moves], np.zeros(len(parameters)))
                    sides.append(problem.linearize_factor(factor, moved, 0).residual[0])
                found[:, k * width + column] = (sides[0] - sides[1]) / (2 * step)
        worst = max(worst, float(np.abs(found - exact).max() / max(np.abs(exact).max(), 1.0)))
    return worst


@pytest.mark.parametrize("factors", [DEPENDENT, INDEPENDENT], ids=["dependent", "independent"])
@pytest.mark.parametrize("moving", [0.0, 1.0], ids=["at zero and rest", "moving"])
def test_derivatives_of_every_factor(factors: list[GraphFactor], moving: float) -> None:
    graph = Graph(Pendulum(), factors, step=0.1)
    states = moving * np.random.default_rng(0).normal(size=(3, graph.variables.manifold.ambient))
    data = {name: np.full(3, 0.3) for name in graph.signals}
    assert slopes_by_differences(graph, states, data) < 1e-7


@pytest.mark.parametrize("moving", [0.0, 0.4])
def test_derivatives_on_orientations(moving: float) -> None:
    system = JointSystem(arm(), friction_width=0.1)
    prior = Prior("q", (1, 0, 0, 0, 0.1), sigma=0.1)
    graph = Graph(
        system,
        [prior, Trapezoid("q", "v", sigma=0.1), SoftEquality("q", 2, sigma=1.0), Dynamics(sigma=0.1)],
        step=0.1,
    )
    states = moving * np.random.default_rng(1).normal(size=(3, graph.variables.manifold.ambient))
    states[:, 0] += 1
    states[:, :4] /= np.linalg.norm(states[:, :4], axis=1)[:, None]
    assert slopes_by_differences(graph, states, {"u": np.full(3, 0.2)}) < 1e-6


def test_a_start_has_rates_that_are_differences() -> None:
    system, h = JointSystem(arm(), friction_width=0.1), 1e-3
    motion = simulated(system, h, 51, np.array([1, 0, 0, 0, 0.3]), [0.5, -0.3, 0.2, 1.0], {"u": np.zeros(51)})
    graph = forward_dynamics(system, h, motion["q"][0])
    found = graph.variables.read(started(graph.variables, {"q": motion["q"]}, 51, "start", h))
    for name in ("v", "a"):
        assert np.abs(found[name] - motion[name])[2:-2].max() < 1e-3 * np.abs(motion[name]).max()
