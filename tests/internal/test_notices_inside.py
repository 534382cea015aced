"""The inside of what ``test_notices`` tests."""

from __future__ import annotations

from spookid import GROUND, Body, Hinge, JointPosition, Model, Parameter, Problem, gravity
from spookid.estimation.physical import mass_findings

# --- inertias ---


def test_a_mass_that_vanishes_is_told_and_one_that_is_small_is_not() -> None:
    m = Parameter("m", 0.5, lower=0)
    rod = Body("rod", mass=2 * m, inertia=(1e-4, 1e-3, 1e-3))
    pin = Hinge("pin", GROUND.frame(), rod.frame())
    problem = Problem("rod", Model([rod], [pin], gravity=gravity(9.81)), observations=[JointPosition(pin, "theta")])
    (told,) = mass_findings(problem, {"m": 1e-5})
    assert "body 'rod' has mass 2e-05 kg, and its initial value is 1 kg" in told.text
    assert not [*mass_findings(problem, {"m": 1e-2})]
    assert not [*mass_findings(problem.with_(fixed=["m"]), {"m": 1e-5})]
