"""The inside of what ``test_friction_width`` tests."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import pendulum

from spookid import HingeAngle, Parameter, Problem
from spookid.estimation import friction_width
from spookid.kernels.arrays import Array


def rod(inertia: Any) -> Problem:
    """A pendulum with dry friction, whose inertia is an expression."""
    model = pendulum(inertia=inertia, viscous=Parameter("b", 0.01), coulomb=Parameter("c", 0.01, lower=0))
    return Problem("rod", model, observations=[HingeAngle(model.joints[0], "theta")], step=0.01, step_correction=False)


def test_what_widths_add_is_that_of_the_answer_in_any_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an inertia is the exponential of a coordinate, dJ = J dlog J at the answer, however far from there the fit
    with the width has ended."""
    kept, uncertain, plain = list[Any](), friction_width._uncertain, rod(Parameter("J", 0.005))
    noise, values = {"hinge": 1e-3, "theta": 1e-3}, {"J": 0.005, "b": 0.01, "c": 0.02}
    run = plain.simulate(values, 6.0, {"hinge": 2.5}, noise=noise, seed=1)

    def known(*given: Any) -> tuple[Array, Array]:
        kept.append(given)
        return uncertain(*given)

    monkeypatch.setattr(friction_width, "_uncertain", known)
    for problem in (plain, rod(ca.exp(Parameter("log", np.log(0.005))))):
        solution = problem.with_(recordings=[run]).solve()
        assert solution.friction_widths
    (fit, widths, at), (other, names, _) = kept
    for J in (at["J"], 0.5 * at["J"]):
        found = uncertain(fit, widths, at | {"J": J})
        log = uncertain(other, names, at | {"log": float(np.log(J))})
        order = [one.assembly.transcription.names for one in (fit, other)]
        slope = np.array([J if name == "log" else 1.0 for name in order[1] if name not in names])
        assert [name for name in order[0] if name not in widths][1:] == [n for n in order[1] if n not in names][1:]
        np.testing.assert_allclose(log[0], found[0], rtol=1e-2)
        np.testing.assert_allclose(log[1] * np.outer(slope, slope), found[1], rtol=5e-2, atol=1e-3 * found[1].max())
