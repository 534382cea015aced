"""The inside of what ``test_joint_kinds`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from matplotlib.figure import Figure
from test_joint_kinds import KINDS, joint, two_bodies

from spookid import GROUND, Body, Hinge, Joint
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.model import Mechanics
from spookid.mechanics.moving import check_joint
from spookid.report.skeleton import symbol

# --- what a joint is ---


@pytest.mark.parametrize("kind", [Hinge, *KINDS])
def test_a_joint_is_where_its_transform_leads(kind):
    body = Body("body", mass=1, inertia=(1, 1, 1))
    made = joint(kind, GROUND.frame(), body.frame())
    check_joint(made, kind.__name__)
    assert made.rows + len(made.coordinates) == 6


@pytest.mark.parametrize("kind", [Hinge, *KINDS[:-1]])
def test_the_recursion_knows_every_kind_of_joint(kind):
    """Velocities and accelerations of all bodies are derivatives of their poses along a smooth motion, and virtual work
    is that of these."""
    model, rng, eps = two_bodies(kind), np.random.default_rng(2), 1e-4
    joints = JointCoordinates(model)
    space, q = joints.manifold, model.configuration
    x, s, a, t = ca.SX.sym("x", space.ambient), *(ca.SX.sym(n, space.tangent) for n in "sa"), ca.SX.sym("t")
    motion = Recursion(joints, x, s, a)
    poses = ca.Function("poses", [x, s, a, t], [joints.configuration(space.retract(x, t * s + t**2 / 2 * a))])
    sides = ca.SX.sym("b", q.ambient), ca.SX.sym("a", q.ambient)
    apart = ca.Function("apart", list(sides), [q.difference(*sides)])
    numbers = space.normed(rng.normal(size=x.numel())), *rng.normal(size=(2, s.numel()))
    before, here, after = (poses(*numbers, time) for time in (-eps, 0, eps))
    left, right = apart(here, before) / eps, apart(after, here) / eps
    mass = model.inertia()
    needed = mass @ motion.accelerations - model.weight() - Mechanics.gyroscopic_of(mass, motion.v)
    work = ca.jacobian(motion.v, s).T @ needed
    found = ca.Function("found", [x, s, a], [motion.v, motion.accelerations, motion.along(motion.needed), work])
    v, acceleration, along, expected = (part.full() for part in found(*numbers))
    np.testing.assert_allclose(v, (left + right).full() / 2, atol=1e-6)
    np.testing.assert_allclose(acceleration, (right - left).full() / eps, atol=1e-5)
    np.testing.assert_allclose(along, expected, atol=1e-12)


# --- bodies in parts, limits, sketches ---


def test_every_kind_has_a_symbol_of_its_own():
    drawn = {}
    for kind in [Hinge, *KINDS, Joint]:
        panel = Figure().subplots()
        symbol(panel, kind.__name__, np.zeros(2), foot=None)
        marks = [line.get_marker() for line in panel.lines]
        drawn[kind] = repr([(m if isinstance(m, str) else m.vertices.tolist()) for m in marks])
    assert len(set(drawn.values())) == len(drawn)
