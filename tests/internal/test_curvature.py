"""The curvature of the residuals against differences, and valleys that need it."""

from __future__ import annotations

import itertools

import casadi as ca
import numpy as np
import pytest
from mechanisms import furuta, paper_twin, pendulum

from spookid import LevenbergMarquardt, Manifold, Parameter, Status, Variational
from spookid.assembly.assembly import assemble
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.status import Outcome
from spookid.solvers.steps import DampedStep, MeritModel, Tangent
from spookid.solvers.structured import NotPositiveDefiniteError, normal_equations
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

STEPS = 5


def second(values: dict[int, float], step: float) -> float:
    """f″(0) from f at −2 … 2 steps, to fourth order."""
    return (-values[-2] + 16 * values[-1] - 30 * values[0] + 16 * values[1] - values[2]) / (12 * step**2)


def test_second_derivatives_along_rotations_and_parameters():
    truth = {"J": 0.003, "c": 2e-3, "delta": 1e-3, "zeta": 0.4}
    p = {name: Parameter(name, value) for name, value in truth.items()}
    model = furuta(inertias=(p["J"], 0.004, 0.004), elbow={"coulomb": p["c"], "stribeck": (p["delta"], p["zeta"])})
    start = {"shoulder": (0.3, 2.0), "elbow": (2.0, -3.0)}
    assembly = assemble(paper_twin(model, truth, initial=start, duration=0.04, noise=1e-3, friction_width=0.5))
    transcription, point = assembly.transcription, assembly.start
    rng, width = np.random.default_rng(0), transcription.manifold.tangent
    x = rng.normal(size=(STEPS, width))
    parameters = 0.1 * point.parameters * rng.normal(size=len(point.parameters))
    for i, factor in enumerate(transcription.factors):
        weights = rng.normal(size=(factor.count(STEPS), len(factor.rows)))
        step = 1e-3
        values = {}
        for k in range(-2, 3):
            moved = transcription.retract(point, [k * step * x], k * step * parameters)
            values[k] = float(np.vdot(weights, transcription.residuals(moved)[0][i]))
        blocks = transcription.curvature(factor, point, 0, weights)
        np.testing.assert_allclose(blocks, blocks.transpose(0, 2, 1), rtol=1e-12)
        along = [np.hstack([*(x[k + o] for o in factor.variables), parameters]) for k in range(len(weights))]
        found = sum(d @ block @ d for d, block in zip(along, blocks, strict=True))
        scale = sum(np.abs(d) @ np.abs(block) @ np.abs(d) for d, block in zip(along, blocks, strict=True))
        assert found == pytest.approx(second(values, step), abs=1e-6 * scale + 1e-7)


def bent(local: bool, coupled: bool, private: bool) -> Transcription:
    """Steps (a, b, l) and two parameters, all rows curved, l linear."""
    here, there, p = ca.SX.sym("here", 3), ca.SX.sym("there", 3), ca.SX.sym("p", 2)
    (a, b, push), (a_next, b_next, _) = ca.vertsplit(here), ca.vertsplit(there)
    d, none = ca.SX.sym("d"), ca.SX.sym("none", 0)
    both = {0: here, 1: there}
    shove = ca.vertcat(
        a_next - p[0] * ca.sin(a) - push * ca.cos(b), b_next - a * b + (2 + b) * push, p[1] * b_next - a**2, push - 1
    )
    factors = [
        Factor("seen", Group.OBSERVATION, ca.vertcat(a - d, ca.exp(p[1] * b) - 2 * d), {0: here}, d, ("a", "b")),
        Factor("shove", Group.STATE, shove, both, none, tuple("1234"), private=(0, range(2, 3)) if private else None),
        Factor("local", Group.STATE, a**2 + 2 * b**2 - 1, {0: here}, none, ("c",), kind=Kind.HARD),
        Factor("coupled", Group.STATE, a_next - ca.cos(a * b) + p[0], both, none, ("c",), kind=Kind.HARD),
    ]
    factors = [f for f in factors if not f.hard or (f.name == "local" and local) or (f.name == "coupled" and coupled)]
    chain = Chain("run", STEPS, {"seen": np.linspace(0, 1, STEPS)[:, None]}, {})
    box = np.full(2, -np.inf), np.full(2, np.inf), np.ones(2)
    return Transcription(Manifold((("flat", 3),)), factors, p, [], ["p", "q"], *box, [chain])


def bends(here: MeritModel, step: Tangent) -> tuple[float, float]:
    """δᵀJᵀJδ of the soft rows and δᵀSδ."""
    reduced, plain = here.reduced, 0.0
    for chain, terms, states in zip(here.problem.chains, here.chains, step.states, strict=True):
        soft = [term.source for term in terms if not term.factor.hard]
        equations = normal_equations(soft, chain.steps, reduced.tangent, len(step.parameters))
        moved, pulled = equations.apply(states, step.parameters)
        plain += float(states @ moved + step.parameters @ pulled)
    return plain, step.dot(here.curvature_times(step))


@pytest.mark.parametrize(("local", "coupled", "private"), list(itertools.product([False, True], repeat=3)))
def test_the_promise_is_the_lagrangian_to_second_order(local, coupled, private):
    transcription, rng = bent(local, coupled, private), np.random.default_rng(1)
    start = Point((0.5 + 0.2 * rng.normal(size=(STEPS, 3)),), np.array([0.3, 0.7]))
    reduced = ReducedProblem(transcription, start)
    for factor, rows in zip(transcription.factors, reduced.evaluate(start).residuals[0], strict=True):
        if factor in reduced.coupled:
            reduced.multipliers(0, factor)[:] = 3 * rows
    point = reduced.project(start)
    here = MeritModel(reduced, reduced.evaluate(point))
    states, parameters = rng.normal(size=STEPS * reduced.tangent), rng.normal(size=2)
    direction, step = Tangent((states,), parameters), 1e-3
    values = {}
    for k in range(-2, 3):
        at = reduced.evaluate(here.moved(Tangent((k * step * states,), k * step * parameters)))
        values[k] = at.cost
        for factor, rows in zip(transcription.factors, at.residuals[0], strict=True):
            if factor in reduced.coupled:
                values[k] += 2 * reduced.penalty * np.vdot(reduced.multipliers(0, factor), rows)
    plain, bend = bends(here, direction)
    assert plain + bend == pytest.approx(second(values, step) / 2, rel=1e-5)
    assert abs(bend) > 1e-3 * plain


def test_the_promise_of_rigid_joints_with_friction():
    J, c = Parameter("J", 0.01, lower=1e-6), Parameter("c", 1e-2, lower=0)
    model = pendulum(inertia=J, coulomb=c)
    problem = paper_twin(model, {"J": 0.005, "c": 0.02}, initial={"hinge": 1.5}, noise=0.01, duration=0.2)
    assembly = assemble(problem.with_(stepper=Variational(), friction_width=0.3))
    transcription = assembly.transcription
    reduced = ReducedProblem(transcription, assembly.start)
    point = reduced.project(assembly.start)
    here = MeritModel(reduced, reduced.evaluate(point))
    rng = np.random.default_rng(2)
    states = rng.normal(size=transcription.chains[0].steps * reduced.tangent)
    direction = Tangent((states,), point.parameters * rng.normal(size=2))
    step = 1e-4
    values = {
        k: reduced.evaluate(here.moved(Tangent((k * step * states,), k * step * direction.parameters))).merit
        for k in range(-2, 3)
    }
    assert sum(bends(here, direction)) == pytest.approx(second(values, step) / 2, rel=1e-5)
    for exact in (False, True):
        taken, promised = DampedStep(here, 1e-2, exact).first()
        plain, bend = bends(here, taken)
        assert promised == pytest.approx(
            -2 * here.pull_back(here.residuals).dot(taken) - plain - (bend if exact else 0.0), rel=1e-9
        )
    assert abs(bend) > 1e-6 * plain


# --- valleys ---

BROWN_DENNIS = 85822.2016
"""Least cost of the problem of Brown and Dennis (1971), number 16 of Moré, Garbow and Hillstrom (1981)."""


def brown_dennis(**settings: object) -> Outcome:
    """Four parameters and twenty residuals that stay large.

    Of the two unknowns of a step a hard row fixes the first, which is part of its residual. The other takes 1/101 of
    the cost away.
    """
    x, p, t = ca.SX.sym("x", 2), ca.SX.sym("p", 4), ca.SX.sym("t")
    residual = x[0] ** 2 + (p[2] + p[3] * ca.sin(t) - ca.cos(t)) ** 2
    part = x[0] - (p[0] + t * p[1] - ca.exp(t))
    factors = [
        Factor("residual", Group.OBSERVATION, ca.vertcat(residual + 0.1 * x[1], x[1]), {0: x}, t, ("r", "x")),
        Factor("part", Group.STATE, part, {0: x}, t, ("c",), kind=Kind.HARD),
    ]
    times = np.arange(1, 21)[:, None] / 5
    chain = Chain("run", len(times), {"residual": times, "part": times}, {})
    box = np.full(4, -np.inf), np.full(4, np.inf), np.ones(4)
    problem = Transcription(Manifold((("flat", 2),)), factors, p, [], list("abcd"), *box, [chain])
    parameters = np.array([25.0, 5, -5, -1])
    start = Point((np.zeros((20, 2)),), parameters)
    return LevenbergMarquardt(**settings).solve(problem, start)


def test_a_valley_of_large_residuals():
    newton, linear = brown_dennis(), brown_dennis(newton=False)
    for outcome in (newton, linear):
        assert outcome.status is Status.CONVERGED
        assert outcome.history[-1].total == pytest.approx(BROWN_DENNIS / 1.01, rel=1e-9)
    assert 3 * len(newton.history) < 2 * len(linear.history)


def test_second_derivatives_are_taken_only_where_needed(monkeypatch):
    asked = []

    def curvature(*_: object) -> None:
        asked.append(True)
        raise NotPositiveDefiniteError

    monkeypatch.setattr(Transcription, "curvature", curvature)
    straight = paper_twin(pendulum(inertia=Parameter("J", 0.01)), {"J": 0.005}, initial={"hinge": 1.5}, noise=1e-3)
    assert straight.solve().status is Status.CONVERGED
    assert brown_dennis(newton=False).status is Status.CONVERGED
    assert not asked
    # Refused, they leave the steps of the linear model.
    assert brown_dennis().status is Status.CONVERGED
    assert asked


def violating() -> MeritModel:
    """A point at which constraints that link steps do not hold."""
    transcription, rng = bent(False, True, False), np.random.default_rng(4)
    transcription = transcription.with_factors([f for f in transcription.factors if f.name != "shove"])
    start = Point((0.5 + 0.2 * rng.normal(size=(STEPS, 3)),), np.array([0.3, 0.7]))
    reduced = ReducedProblem(transcription, start)
    return MeritModel(reduced, reduced.evaluate(start))


def test_damping_shortens_steps_towards_constraints_too_and_bounds_the_multipliers():
    here, lengths, forces = violating(), [], []
    for damping in (1e2, 1e8):
        step, promised = DampedStep(here, damping).first()
        assert promised > 0
        lengths.append(step.scaled_norm(here.scales))
        forces.append(max(float(np.max(np.abs(force))) for force in here.reduced.forces(0)))
    assert lengths[1] < 2e-6 * lengths[0]
    assert forces[1] == pytest.approx(forces[0], rel=0.1)


def test_the_exact_step_where_only_hard_rows_link_steps():
    """Their multipliers bend pairs of steps of which no soft row sees both."""
    here, damping = violating(), 1.0
    DampedStep(here, damping).first()  # for the multipliers
    step, promised = DampedStep(here, damping, exact=True).first()
    plain, bend = bends(here, step)
    foretold = -2 * here.pull_back(here.residuals).dot(step) - plain - bend
    assert abs(bend) > 1e-3 * plain
    left = damping / (1 + damping)  # Cδ = −c / (1 + α)
    violated = sum(float(np.sum(rows**2)) for rows in here.violations(here.residuals)[0])
    assert promised == pytest.approx(foretold + (1 - left**2) * violated, rel=1e-9)
    for rows in here.coupled[0]:
        moved = step.states[0].reshape(STEPS, -1)
        along = np.hstack([*(moved[o : o + len(rows.matrix)] for o in rows.offsets)])
        whole = np.hstack([along, np.broadcast_to(np.append(step.parameters, 1.0), (len(along), 3))])
        remaining = left * rows.matrix[:, -1]
        np.testing.assert_allclose(np.einsum("kc,kcr->kr", whole, rows.matrix), remaining, atol=1e-12)
