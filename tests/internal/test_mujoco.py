"""A closed loop against MuJoCo: what moves it, what closes it, and the accelerations that both make together.

MuJoCo's equality constraint is soft; it gives the mass matrix, the bias, the Jacobian of the closure and the
acceleration of its point, and the rigid equations M a + c = τ + Jᵀf, J a + J̇ s = 0 are solved here.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, function
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import JointSpace

mujoco = pytest.importorskip("mujoco")

INERTIAS, VISCOUS, GAIN, G = (2e-4, 2.5e-3, 4e-3), 0.01, 0.05, 9.81
A, B, C = (length / 2 for length in LENGTHS)
CHAIN = f"""
<mujoco><option gravity="0 {-G} 0"><flag contact="disable"/></option>
<worldbody><body>
  <joint name="drive" axis="0 0 1" damping="{VISCOUS}"/>
  <inertial pos="{A} 0 0" mass="{MASSES[0]}" diaginertia="1e-5 {INERTIAS[0]} {INERTIAS[0]}"/>
  <body pos="{LENGTHS[0]} 0 0">
    <joint name="knee" axis="0 0 1"/>
    <inertial pos="{B} 0 0" mass="{MASSES[1]}" diaginertia="1e-5 {INERTIAS[1]} {INERTIAS[1]}"/>
    <body pos="{LENGTHS[1]} 0 0">
      <joint name="wrist" axis="0 0 1"/>
      <inertial pos="{-C} 0 0" mass="{MASSES[2]}" diaginertia="1e-5 {INERTIAS[2]} {INERTIAS[2]}"/>
      <site name="end" pos="{-LENGTHS[2]} 0 0"/>
    </body></body></body>
  <site name="pin" pos="{BASE} 0 0"/>
</worldbody>
<equality><connect site1="end" site2="pin"/></equality></mujoco>
"""


class Theirs:
    """The linkage in MuJoCo."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(CHAIN)
        self.data = mujoco.MjData(self.model)

    def at(self, angles: Array, rates: Array, torque: float) -> tuple[Array, Array, Array, Array]:
        """M, c − τ, J and J̇ s at the angles and rates of drive, knee and wrist."""
        model, data = self.model, self.data
        data.qpos[:], data.qvel[:] = angles, rates
        data.qfrc_applied[:] = (torque, 0, 0)
        mujoco.mj_forward(model, data)
        mass = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, mass)
        end, pin = (mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name) for name in ("end", "pin"))
        assert np.abs(data.site_xpos[end] - data.site_xpos[pin]).max() < 1e-12
        J, turned, acceleration = np.zeros((3, model.nv)), np.zeros((3, model.nv)), np.zeros(6)
        mujoco.mj_jacSite(model, data, J, turned, end)
        data.qacc[:] = 0
        mujoco.mj_rnePostConstraint(model, data)
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_SITE, end, acceleration, 0)
        return mass, data.qfrc_bias - data.qfrc_passive - data.qfrc_applied, J, acceleration[3:] + model.opt.gravity


class Ours:
    """The step's residual, for a step of 1 s, and the closure at any positions, rates and accelerations."""

    def __init__(self) -> None:
        model = linkage(LENGTHS, BASE, MASSES, INERTIAS, g=G, viscous=VISCOUS, gain=GAIN)
        joints, settings = JointCoordinates(model), Settings.of(model)
        assert [joint.name for joint in joints.tree] == ["drive", "knee", "wrist"]
        impulse, closing = JointSpace().factors(model, settings)
        assert impulse.through is not None
        self.n, self.rows = joints.manifold.tangent, len(closing.rows)
        self.private = impulse.through.symbols.numel() - 3 * self.n
        x, private, s, a = (ca.SX.sym(name, size) for name, size in self._sizes)
        w = ca.substitute(impulse.through.residual[: self.n], impulse.through.symbols, ca.vertcat(x, private, s, a))
        (here,) = closing.variables.values()
        gap = ca.substitute(closing.residual, here, ca.vertcat(x, private))
        opening = ca.jtimes(gap, x, s)
        change = ca.jtimes(opening, x, s)
        self.known = ca.vertcat(settings.step, settings.disturbance, settings.slip_width, settings.impulse_width)
        expressions = [w, ca.jacobian(w, a), ca.jacobian(w, private), gap, opening, ca.jacobian(gap, x), change]
        self.evaluate = function(expressions, [x, private, s, a, impulse.data, self.known])

    @property
    def _sizes(self) -> list[tuple[str, int]]:
        return [("x", self.n), ("private", self.private), ("s", self.n), ("a", self.n)]

    def at(self, angles: Array, rates: Array, u: float) -> list[Array]:
        """Where nothing accelerates and what closes transmits nothing: w, ∂w/∂a, ∂w/∂λ, g, G s, G, Ġ s."""
        still, ones = np.zeros(self.n), np.ones(self.known.numel())
        w, M, forces, gap, opening, closure, change = self.evaluate(
            angles, np.zeros(self.private), rates, still, np.array([u]), ones
        )
        shapes = M.reshape(self.n, -1), forces.reshape(self.n, -1)[:, : self.rows], closure.reshape(self.rows, -1)
        return [w, *shapes[:2], gap, opening, shapes[2], change]


def states(seed: int) -> tuple[Array, float]:
    """Angles of drive, knee and wrist in a loop that is closed, and how fast the crank turns."""
    rng = np.random.default_rng(seed)
    angles = closed(LENGTHS, BASE, rng.uniform(-np.pi, np.pi))
    # In MuJoCo and here alike the wrist's angle is that of the rocker against the coupler.
    return np.array([angles[name] for name in ("drive", "knee", "wrist")]), rng.normal(0, 8)


@pytest.mark.parametrize("seed", range(4))
def test_a_four_bar_accelerates_as_in_mujoco(seed: int) -> None:
    (angles, speed), u = states(seed), 3.0
    theirs, ours = Theirs(), Ours()
    rates = speed * np.linalg.svd(theirs.at(angles, np.zeros(3), 0.0)[2])[2][-1]  # that keep the loop closed
    mass, bias, J, dragged = theirs.at(angles, rates, GAIN * u)
    w, M, forces, gap, opening, closure, change = ours.at(angles, rates, u)
    np.testing.assert_allclose(gap, 0, atol=1e-12)
    np.testing.assert_allclose(opening, 0, atol=1e-10)
    np.testing.assert_allclose(M, mass, atol=1e-12)
    np.testing.assert_allclose(w, bias, atol=1e-10)
    found = accelerations(M, w, closure, change)
    np.testing.assert_allclose(found, accelerations(mass, bias, J, dragged), rtol=1e-8, atol=1e-8)
    needed = M @ found + w  # which what closes the loop transmits
    np.testing.assert_allclose(forces @ np.linalg.lstsq(forces, needed, rcond=1e-10)[0], needed, atol=1e-8)
    assert np.abs(needed).max() > 0.1


def accelerations(mass: Array, bias: Array, J: Array, dragged: Array) -> Array:
    """a of M a + c = Jᵀf, J a + J̇ s = 0, rows of J that others imply or not."""
    n, m = len(mass), len(J)
    whole = np.block([[mass, -J.T], [J, np.zeros((m, m))]])
    return np.linalg.lstsq(whole, np.concatenate([-bias, -dragged]), rcond=1e-12)[0][:n]
