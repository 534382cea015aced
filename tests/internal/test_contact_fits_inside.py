"""The inside of what ``test_contact_fits`` tests."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from test_contact_fits import G, block, bounced, on_the_slope
from test_contact_fits import bounces as bounces

from spookid import GROUND, Body, Contact, JointPosition, Model, Prismatic, Problem, Solution, gravity
from spookid.assembly.assembly import assemble
from spookid.estimation.contact_findings import contact_findings
from spookid.stepping.contact_law import ContactStep, unknowns
from spookid.stepping.impulses import Settings

# --- the law ---


def law(cone: str, form: Any, rounding: float = 0.0) -> tuple[Any, Array]:
    """All rows of the law of one contact, as a function of the unknowns and codes, and a state that touches."""
    problem = block(0.6, cone)
    model, settings = problem.model, Settings.of(problem.model)
    q, v, q_next, v_next = (ca.SX.sym(name, n) for name, n in (("q", 7), ("v", 6), ("p", 7), ("w", 6)))
    extra = ca.SX.sym("extra", unknowns(model, form))
    step = ContactStep(model, settings, form, q, v, q_next, v_next, extra)
    factors = step.factors({0: ca.vertcat(q, v), 1: ca.vertcat(q_next, v_next, extra)})
    codes = ca.vertcat(ca.SX(0, 1), *(f.box.codes for f in factors if f.box))
    numbers = ca.vertcat(settings.step, settings.touch_speed, settings.touch_impulse, settings.touch_rounding)
    rows = ca.vertcat(step.impulse, *(f.residual for f in factors))
    x = ca.vertcat(q, v, q_next, v_next, extra)
    given = ca.substitute([rows, ca.jacobian(rows, x)], [numbers], [ca.DM([0.005, 0.1, 0.2, rounding])])
    pose, velocity = on_the_slope()
    return ca.Function("law", [x, codes], given), np.concatenate([pose[0], velocity[0], pose[0]])


@pytest.mark.parametrize("cone", ["box", "disc"])
@pytest.mark.parametrize(("form", "rounding"), [("exact", 0.0), ("exact", 0.1), ("mpcc", 0.0)])
@pytest.mark.parametrize("where", ["no gap", "no slip", "at the edge"])
def test_slopes_agree_with_differences(cone: str, form: Any, rounding: float, where: str) -> None:
    function, start = law(cone, form, rounding)
    rng = np.random.default_rng(0)
    speed = {"no gap": rng.standard_normal(6), "no slip": np.zeros(6), "at the edge": 1e-3 * np.eye(6)[1]}[where]
    z = {"no gap": [0.3, -0.2], "no slip": [0.2, 0.1], "at the edge": [0.0, -1.0]}[where]
    beside = {"exact": [], "mpcc": [0.0, 0.0] if cone == "box" else [0.0]}[form]
    x = np.concatenate([start, speed, [0.8, *z, *beside]])
    for code in (-1.0, 0.0) if form == "exact" else (0.0,):
        codes = np.full(function.size1_in(1), code)
        slope = function(x, codes)[1].full()
        e = 1e-6
        differences = [(function(x + e * d, codes)[0] - function(x - e * d, codes)[0]).full() for d in np.eye(len(x))]
        assert np.allclose(slope, np.hstack(differences) / (2 * e), atol=1e-6)


# --- fits ---


def test_a_plane_at_a_wrong_height_is_told(bounces: Solution) -> None:
    assert not any(finding.code == "contacts.plane" for finding in bounces.findings)
    for height, said in ((0.05, "below the plane"), (-0.05, "the distance to the plane is at least")):
        body, up = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3)), {"x": (0, 0, 1), "y": (0, 1, 0)}
        rail = Prismatic("rail", GROUND.frame(**up), body.frame(**up))
        floor = Contact("floor", body.frame(), GROUND.frame(at=(0, 0, height)))
        model = Model([body], [rail], contacts=[floor], gravity=gravity(G))
        problem = Problem("ball", model, [bounced(0)], [JointPosition(rail, "z")], step=0.005, friction="exact")
        assembly = assemble(problem)
        (told,) = contact_findings(assembly, assembly.start)
        assert said in told.text
