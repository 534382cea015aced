"""Single shooting in MuJoCo: its least squares over rollouts, derivatives by differences, as its own toolbox does."""

from __future__ import annotations

import mujoco
import numpy as np
from benchmarks.peers.task import LOWER, SIGMA, Array, Fit, Peer, measured, start
from benchmarks.problems import STEP
from benchmarks.shooting import SCALE, SUBSTEPS
from mujoco import minimize, rollout

NAME = "single shooting, MuJoCo's minimize"

XML = f"""
<mujoco>
  <option timestep="{STEP / SUBSTEPS}" integrator="RK4" gravity="0 0 -9.82"><flag contact="disable"/></option>
  <worldbody>
    <body name="arm">
      <joint name="shoulder" axis="0 0 1" damping="1e-3" armature="1e-4"/>
      <inertial pos="0.128 0 0" mass="0.238" diaginertia="1e-4 0.003 0.003"/>
      <body name="rod" pos="0.248 0 0">
        <joint name="elbow" axis="1 0 0" damping="1e-4"/>
        <inertial pos="0 0 -0.092" mass="0.428" diaginertia="0.004 0.004 1e-4"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def changed(model: mujoco.MjModel, p: Array) -> mujoco.MjModel:
    """With other parameters (4,)."""
    model.body_inertia[model.body("arm").id] = 1e-4, 0.003, p[0]
    model.body_inertia[model.body("rod").id] = p[1], 0.004, 1e-4
    model.dof_damping[:] = p[2:]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def peer(steps: int) -> Peer:
    """Solver; nothing is compiled."""
    spec, angles = mujoco.MjSpec.from_string(XML), measured(steps)
    spec.compiler.balanceinertia = True
    models, data = [spec.compile() for _ in range(9)], mujoco.MjData(spec.compile())
    size = mujoco.mj_stateSize(models[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)

    def residual(unknowns: Array) -> Array:
        # One column a candidate; the time comes first in MuJoCo's state.
        first = np.zeros((unknowns.shape[1], size))
        first[:, 1:5] = unknowns[:4].T
        used = [changed(m, SCALE * u[4:]) for m, u in zip(models, unknowns.T, strict=False)]
        state = rollout.rollout(used, data, first, nstep=SUBSTEPS * (len(angles) - 1))[0]
        after = state[:, SUBSTEPS - 1 :: SUBSTEPS, 1:3]
        whole = np.concatenate([first[:, None, 1:3], after], axis=1)
        return np.asarray(((whole - angles) / SIGMA).reshape(len(first), -1).T)

    def solve(guess: Array) -> Fit:
        bounds = [LOWER.clip(-1e3), np.full(8, 1e3)]
        x, log = minimize.least_squares(
            start(angles, guess), residual, bounds=bounds, verbose=minimize.Verbosity.SILENT, max_iter=200
        )
        rms = SIGMA * float(np.sqrt(np.mean(residual(x.reshape(8, 1)) ** 2)))
        return Fit(x.ravel()[4:] * SCALE, rms, f"{len(log)} iterations")

    return solve
