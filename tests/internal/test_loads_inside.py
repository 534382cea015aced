"""The inside of what ``test_loads`` tests."""

from __future__ import annotations

import math

import casadi as ca
import pytest
from mechanisms import function
from test_loads import wheel

from spookid import Asymmetric
from spookid.mechanics.loads import Efforts
from spookid.stepping.impulses import DryFriction, Settings, Slips

# --- dry friction ---


@pytest.mark.parametrize("form", ["smooth", "exact", "mpcc"])
@pytest.mark.parametrize("law", ["coulomb", "load_friction"])
def test_dry_friction_is_between_its_two_bounds(form, law):
    """Z L − K is −L₊ where the wheel turns forwards and L₋ where it turns back, for each way that says who slips."""
    values = {"coulomb": Asymmetric(0.5, 0.2), "load_friction": Asymmetric(0.05, 0.02)}
    stribeck = (Asymmetric(0.1, 0.3), 2.0) if law == "coulomb" else (0.01, Asymmetric(2.0, 1.0))
    model = wheel(**{law: values[law]}, stribeck=stribeck)
    settings, slip = Settings.of(model), ca.SX.sym("slip")
    friction, extra, load = (
        DryFriction(form),
        ca.SX.sym("extra", {"smooth": 0, "exact": 1, "mpcc": 2}[form]),
        ca.SX(5, 1),
    )
    load[2] = -6.0
    slips = Slips(slip, slip, ca.SX(0.7), ca.SX(1, 1), (slip,), ca.SX(0.1), Efforts(ca.SX(1, 1), ca.SX(1, 1)))
    value = friction.impulses(model, settings, slips, load, extra)
    evaluate = function([value], [slip, extra, settings.step, settings.slip_width, settings.impulse_width])
    forward = 0.5 + 0.1 * math.exp(-2 * 0.49), 0.05 + 0.01 * math.exp(-2 * 0.49)
    backward = 0.2 + 0.3 * math.exp(-2 * 0.49), 0.02 + 0.01 * math.exp(-1 * 0.49)
    i, scale = (0, 0.01) if law == "coulomb" else (1, 6.0)
    for sign, bound in ((1, forward[i]), (-1, backward[i])):
        unknowns = [-sign, max(30.0 * sign, 0)][: extra.numel()]
        assert evaluate(3.0 * sign, unknowns, 0.01, 0.1, 1e-9)[0][0] == pytest.approx(-sign * scale * bound)
