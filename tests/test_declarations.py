"""Random mechanisms are solved or refused in a sentence. By hand: ``python tests/test_declarations.py 100000``."""

from __future__ import annotations

import sys
from random import Random

import declarations
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fuzz import refused_in_a_sentence

from spookid import (
    GROUND,
    Body,
    Distance,
    Fixed,
    Hinge,
    JointPosition,
    Model,
    Parameter,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Spook,
    gravity,
)


def study(count: int) -> None:
    """Solve so many, and reduce the first that ends otherwise."""

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def tried(chance):
        with refused_in_a_sentence():
            declarations.solved(chance)

    tried()


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.study)])
def test_random_mechanisms(count):
    study(count)


@pytest.mark.parametrize("seed", [332, "7 14", "1001 811", "1001 867", "2002 341", "3003 277"])
def test_what_longer_studies_found(seed):
    """No degrees of freedom are left of the residuals, whose variance then overflows; no pose has any freedom; a loop
    is begun with perpendicular axes; a welded body is solved in joint coordinates; joints and a
    free body share a noise standard deviation."""
    with refused_in_a_sentence():
        declarations.solved(Random(seed))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"state_weight": 100.0}, {"estimator": "hard"}])
def test_bodies_that_are_fixed_to_the_ground(count, settings):
    bodies = [Body(f"b{i}", mass=1.0, inertia=(0.01, 0.01, 0.01)) for i in range(count)]
    pairs = zip([GROUND, *bodies], bodies, strict=False)
    welds = [Fixed(f"weld{i}", one.frame(), other.frame()) for i, (one, other) in enumerate(pairs)]
    run = Recording(0.01 * np.arange(12), {"y": np.sin(0.09 * np.arange(12))})
    model = Model(bodies, welds, gravity=gravity(9.81))
    sensors = [PointPosition(bodies[-1].frame(), "x", "y")]
    problem = Problem("welded", model, [run], sensors, step=0.01, step_correction=False, **settings)
    with pytest.raises(ProblemError, match="are rigid in this stepper and leave nothing that could move"):
        problem.solve()


def swing(lengths=(), more=(), **settings):
    """A rod on a hinge 0.2 m beside its centre, which rods of some lengths join to that hinge, too."""
    J = Parameter("J", 0.02, lower=1e-4)
    rod = Body("rod", mass=0.5, inertia=(0.01, J, J))
    up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    ties = [Distance(f"d{i}", GROUND.frame(), rod.frame(), length) for i, length in enumerate(lengths)]
    bodies, joints = free_pair() if more else ([], [])
    hinge = Hinge("hinge", up, out, coulomb=0.01)
    model = Model([rod, *bodies], [hinge, *joints], constraints=ties, gravity=gravity(9.81))
    run = Recording(0.01 * np.arange(20), {"y": 0.2 * np.cos(0.09 * np.arange(20))})
    return Problem("swing", model, [run], [JointPosition(hinge, "y")], step=0.01, step_correction=False, **settings)


def free_pair():
    """A free body with a hinge, and one that is fixed behind it."""
    one, two, three = (Body(f"b{i}", mass=1.0, inertia=(0.1, 0.1, 0.1), free=i == 0) for i in range(3))
    joints = [Hinge("knee", one.frame(), two.frame(at=(0.1, 0, 0))), Fixed("weld", two.frame(), three.frame())]
    return [one, two, three], joints


@pytest.mark.parametrize("settings", [{}, {"state_weight": 1e4}, {"friction": "exact"}, {"stepper": Spook()}])
def test_constraints_that_repeat_a_joint_or_contradict_it(settings):
    settings = {"state_weight": 100.0, **settings} if "stepper" in settings else settings
    for length in (0.1, 5.0):
        with pytest.raises(ProblemError, match=r"Distance 'd0' has a length that no pose gives: 20 were tried"):
            swing([length], **settings).solve()
    if "state_weight" in settings:  # in maximal coordinates rows that repeat others are known from the others
        swing([0.2], **settings).solve(max_iterations=3)
    else:
        with pytest.raises(ProblemError, match=r"the joints already satisfy constraints 'd0'; remove these"):
            swing([0.2], **settings).solve()
    swing(more=[1], **settings).solve(max_iterations=2)


if __name__ == "__main__":
    study(int(sys.argv[1]))
