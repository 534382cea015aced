"""A robust loss of one's own: Welsch's, with which samples far off do not count at all."""

import casadi as ca
import numpy as np
import pytest

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, RobustLoss, gravity


class Welsch(RobustLoss):
    """ρ(z) = 1 − exp(−z), by z times its series where z is small."""

    def row(self, r):
        z = r**2
        near = z < 1e-4
        share = ca.if_else(near, 1 - z / 2 + z**2 / 6, -ca.expm1(-z) / ca.if_else(near, 1, z))
        return r * ca.sqrt(share)

    def residual(self, row):
        return np.sign(row) * np.sqrt(-np.log1p(-np.minimum(row**2, 1 - 1e-12)))


def swing(inertia=0.02, mass=0.5, length=0.2):
    """A released pendulum by the trapezoidal rule with fine steps, with white noise and wrong samples."""
    t, fine = np.arange(0, 4, 0.01), 100
    q, v, angles = 0.8, 0.0, []
    for _ in t:
        angles.append(q)
        for _ in range(fine):  # Störmer–Verlet
            v -= 0.005 / fine * mass * 9.81 * length * np.sin(q) / (inertia + mass * length**2)
            q += 0.01 / fine * v
            v -= 0.005 / fine * mass * 9.81 * length * np.sin(q) / (inertia + mass * length**2)
    shown = np.array(angles) + 1e-3 * np.random.default_rng(0).normal(size=len(t))
    shown[::40] += 0.3
    return Recording(t, {"q": shown})


@pytest.mark.parametrize("loss", [Welsch(), "cauchy"])
def test_wrong_samples_do_not_count(loss):
    J, body = Parameter("J", 0.015, lower=1e-4), Body("arm", mass=0.5, inertia=(1e-9, 1e-9, 1e-9))
    axes = dict(x=(0, 1, 0), y=(0, 0, -1))
    joint = Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, 0.2), **axes), armature=J)
    model = Model([body], [joint], gravity=gravity(9.81))
    problem = Problem("swing", model, [swing()], [HingeAngle(joint, "q", 1e-3, loss=loss)], step=0.01)
    solution = problem.solve()
    assert abs(solution["J"].estimate - 0.02) < 4.5 * solution["J"].std_err < 4.5 * 0.01 * 0.02
