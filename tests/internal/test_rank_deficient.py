"""Parameters that the data do not tell apart, or not at all, cost a fit next to no more evaluations."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.problems import pendulum

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Solution, Variational, gravity
from spookid.transcription.transcription import Transcription

MASS, LENGTH = 0.2, 0.15


@cache
def fitted(friction: str, kind: str, weight: float | None, backend: str) -> tuple[Solution, int]:
    """A fit of a pendulum with viscous and dry friction, and how often residuals were evaluated."""
    J, mu = Parameter("J", 2e-3, lower=1e-6), Parameter("mu", 1e-4, lower=0.0)
    b, other = Parameter("b", 1e-4, lower=0.0), Parameter("other", 1e-4, lower=0.0)
    viscous = {"plain": b, "sum": b + other, "nothing": b + 0.0 * other}[kind]
    rod = Body("rod", mass=MASS, inertia=(1e-5, J, J))
    frame = rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), frame, viscous=viscous, dry=mu)
    problem = Problem(
        "pendulum",
        Model([rod], [hinge], gravity=gravity(9.82)),
        pendulum(Variational(), 201).recordings,
        [HingeAngle(hinge, "theta", sigma=1e-3)],
        step=0.01,
        friction=friction,
        state_weight=weight,
    )
    counted, evaluate = list[int](), Transcription.residuals
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Transcription, "residuals", lambda *given: (counted.append(1), evaluate(*given))[1])
        return problem.solve(backend), len(counted)


@pytest.mark.parametrize(
    ("friction", "weight", "backend", "kind"),
    [
        pytest.param(*how, kind, marks=() if kind == seen else pytest.mark.study)
        for *how, seen in (
            ("smooth", 1e4, "lm", "nothing"),
            ("smooth", None, "lm", "sum"),
            ("exact", 1e4, "lm", "nothing"),
            ("mpcc", 1e4, "ipopt", "sum"),
        )
        for kind in ("sum", "nothing")
    ],
)
def test_what_is_not_told_does_not_slow_a_fit(friction, weight, backend, kind):
    plain, few = fitted(friction, "plain", weight, backend)
    found, many = fitted(friction, kind, weight, backend)
    assert found.status is plain.status
    assert found.iterations <= 2 * plain.iterations
    assert 0 < many <= 2 * few
    assert abs(found["J"].estimate - plain["J"].estimate) < 0.05 * plain["J"].std_err
