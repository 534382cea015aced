"""Which inertias are told to be those of no mass distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from mechanisms import furuta, twin

from spookid import GROUND, Body, Finding, Hinge, Model, Parameter, Solution, Variational, gravity


def swivel(moments: tuple[Any, Any, Any]) -> Model:
    """A body on three hinges about axes that are none of its own to begin with: all its moments take part."""
    rings = [Body(name, mass=0.2, inertia=(2e-3, 2e-3, 2e-3)) for name in ("outer", "inner")]
    body = Body("body", mass=1.0, inertia=moments)
    axes = [{"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (1, 0, 0), "y": (0, 1, 0)}, {"x": (0, 1, 0), "y": (0, 0, 1)}]
    chain = [GROUND, *rings, body]
    pairs = zip(chain[:-1], chain[1:], axes, strict=True)
    hinges = [Hinge(f"h{i}", a.frame(**axis), b.frame(at=(0.05, 0, 0), **axis)) for i, (a, b, axis) in enumerate(pairs)]
    return Model([*rings, body], hinges, gravity=gravity(9.81))


def free_moments() -> list[Parameter]:
    return [Parameter(name, 0.01, lower=1e-6) for name in ("J_x", "J_y", "J_z")]


def unphysical(solution: Solution) -> list[Finding]:
    return [finding for finding in solution.findings if finding.code == "inertia.unphysical"]


def solved(model: Model, truth: dict[str, float], **settings: Any) -> Solution:
    common = {"duration": 2.0, "noise": 1e-4, "stepper": Variational()}
    return twin(model, truth, **{**common, **settings}).solve()


def test_moments_that_are_all_seen_and_that_a_mass_distribution_has_are_not_told() -> None:
    truth = {"J_x": 0.01, "J_y": 0.007, "J_z": 0.016}
    solution = solved(swivel(tuple(free_moments())), truth, initial={"h0": 0.5, "h1": 1.0, "h2": -0.7})
    assert np.isfinite([solution[name].std_err for name in truth]).all()
    assert unphysical(solution) == []


def test_a_violation_within_its_errors_is_not_told() -> None:
    truth, start = {"J_x": 0.01, "J_y": 0.007, "J_z": 0.018}, {"h0": 0.5, "h1": 1.0, "h2": -0.7}
    sharp = solved(swivel(tuple(free_moments())), truth, initial=start)
    assert np.isfinite([sharp[name].std_err for name in truth]).all()
    assert len(unphysical(sharp)) == 1
    rough = solved(swivel(tuple(free_moments())), truth, initial=start, noise=0.05, duration=1.0)
    assert unphysical(rough) == []


def test_a_hinge_sees_one_moment_and_the_others_are_placeholders() -> None:
    rod = Body("rod", mass=0.5, inertia=(1e-4, 1e-4, Parameter("J", 0.004, lower=1e-6)))
    axis = {"x": (0, 0, 1), "y": (1, 0, 0)}
    tilted = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1))
    model = Model([rod], [Hinge("hinge", tilted, rod.frame(at=(-0.2, 0, 0), **axis))], gravity=gravity(9.81))
    assert unphysical(solved(model, {"J": 0.005}, initial={"hinge": 1.0})) == []


def test_what_the_arm_takes_over_from_the_rod_is_not_told() -> None:
    """Of the rod's moments along and across only the difference is seen: the arm's inertia makes up for the rest."""
    J = [Parameter(name, 0.004, lower=1e-6) for name in ("J_Azz", "J_Byy", "J_Bzz")]
    truth = {"J_Azz": 0.003, "J_Byy": 0.006, "J_Bzz": 0.004}
    solution = solved(furuta(inertias=tuple(J)), truth, initial={"elbow": 2.0})
    assert all(np.isfinite(solution[name].std_err) for name in truth)
    assert unphysical(solution) == []
