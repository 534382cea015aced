"""Hard rows that others imply change no answer."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spookid import LevenbergMarquardt, Manifold, Status
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.linearization import implied, information
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

STEPS = 12


def problem(repeated: bool) -> Transcription:
    """Unknowns x of a step on the line x₀ + x₁ = p₀, and x₂ that grows by p₁ from one step to the next; all said twice
    or once. Both are seen, with noise."""
    x, y, p = ca.SX.sym("x", 3), ca.SX.sym("y", 3), ca.SX.sym("p", 2)
    data, rng = ca.SX.sym("data", 2), np.random.default_rng(0)
    line, growth = x[0] + x[1] - p[0], y[2] - x[2] - p[1]
    if repeated:
        line, growth = ca.vertcat(line, 3 * line), ca.vertcat(growth, -2 * growth)
    none = ca.SX.sym("none", 0)
    factors = [
        Factor("seen", Group.OBSERVATION, ca.vertcat(x[0] + x[1], x[2]) - data, {0: x}, data, ("a", "b")),
        Factor("apart", Group.OBSERVATION, x[0] - 0.3 * x[1], {0: x}, none, ("c",)),
        Factor("line", Group.STATE, line, {0: x}, none, ("l",) * line.numel(), kind=Kind.HARD),
        Factor("growth", Group.STATE, growth, {0: x, 1: y}, none, ("g",) * growth.numel(), kind=Kind.HARD),
    ]
    values = np.column_stack([np.full(STEPS, 0.7), 0.2 * np.arange(STEPS)]) + 0.01 * rng.normal(size=(STEPS, 2))
    chain = Chain("run", STEPS, {"seen": values}, {})
    box = np.full(2, -np.inf), np.full(2, np.inf), np.ones(2)
    return Transcription(Manifold((("flat", 3),)), factors, p, [], ["a", "b"], *box, [chain])


def point() -> Point:
    return Point((np.random.default_rng(1).normal(size=(STEPS, 3)),), np.array([0.5, 0.1]))


def test_rows_that_are_said_twice_are_found(engine: str) -> None:
    (found,), (once,) = implied(problem(True), point()), implied(problem(False), point())
    assert set(found) == set(once) == {"line", "growth"}
    for name in found:
        assert not np.any(once[name])
        np.testing.assert_array_equal(found[name], np.tile([False, True], (len(found[name]), 1)))


@pytest.mark.parametrize("solver", [LevenbergMarquardt(), Ipopt()], ids=lambda one: one.name)
def test_they_change_no_answer(engine: str, solver: LevenbergMarquardt | Ipopt) -> None:
    once, twice = (solver.solve(problem(repeated), point()) for repeated in (False, True))
    assert once.status is twice.status is Status.CONVERGED
    np.testing.assert_allclose(twice.point.parameters, once.point.parameters, rtol=1e-9)
    one, two = (information(problem(repeated), once.point).matrix for repeated in (False, True))
    np.testing.assert_allclose(two, one, rtol=1e-8)
