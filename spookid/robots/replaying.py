"""A robot's file in MuJoCo, started again and again where the robot was and driven as it was.

Nothing is corrected on the way: what a window ends up off by is what the file's bodies and friction do wrong in it.
MuJoCo (Todorov, Erez, Tassa, IROS 2012) reads the file itself, with an integrator of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, Integers
from spookid.robots import mjcf
from spookid.robots.mjcf import joint_names
from spookid.robots.parts import Parts

WINDOW = 1.0
"""Of a window [s]."""
_MOST = 60
"""Windows, evenly along a longer recording."""
_STEP = 1e-3
"""The longest that MuJoCo takes [s]."""
_IMMOVABLE = 1e9
"""Of a held joint the armature [kg m² or kg]."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Of n joints at N steps, and what drives them."""

    joints: tuple[str, ...]
    step: float
    """[s]."""
    positions: Array
    """(N, n) [rad or m]."""
    rates: Array
    """(N, n)."""
    drive: Array
    """In mean over the step that begins there, (N, n) [N m or N]."""

    @property
    def starts(self) -> Integers:
        """Where windows begin, each behind the one before; those left out where not all of one is known."""
        size, known = self.size, np.all(np.isfinite(self.drive), axis=1).tolist()
        whole = np.array([k for k in range(0, len(known) - size, size) if all(known[k : k + size])], dtype=np.int64)
        kept = np.unique(np.linspace(0, len(whole) - 1, min(_MOST, len(whole))).astype(int))
        return np.asarray(whole[kept], dtype=np.int64)

    @property
    def size(self) -> int:
        """Steps of a window."""
        return max(round(WINDOW / self.step), 1)


def replayed(robot: Parts, motion: Motion, springs: Mapping[str, Mapping[str, float]]) -> Array:
    """Positions of all joints along the windows, (windows, steps, n) [rad or m]; not finite from where on MuJoCo finds
    no motion.

    Args:
        springs: armature, stiffness and rest that the file lacks, by joint.

    Raises:
        ProblemError: if MuJoCo is not there or refuses the file, or for joints that are not of one coordinate each.
    """
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        raise ProblemError("replays need MuJoCo: pip install 'spookid[robots]'") from None
    several = [joint.name for joint in robot.joints.values() if len(joint.coordinates) != 1]
    if several or robot.constraints or any(body.free for body in robot.bodies.values()):
        what = f"joint {several[0]!r} is no hinge or slider" if several else "it moves freely, or joints follow others"
        raise ProblemError(f"replays are of hinges and sliders that stand on the ground; {what}")
    parts = max(math.ceil(motion.step / _STEP - 1e-9), 1)
    model, names = _prepared(robot, mujoco, motion.step / parts)
    places, speeds = _arranged(model, names, motion.joints, springs)
    start, begins = np.zeros((len(motion.starts), 1 + model.nq + model.nv)), motion.starts
    start[:, 1 : 1 + model.nq] = model.qpos0
    for name, at in robot.still.items():
        j = names.index(name)
        start[:, 1 + model.jnt_qposadr[j]] = at
        model.dof_armature[model.jnt_dofadr[j]] = _IMMOVABLE
    start[:, 1 + places], start[:, 1 + model.nq + speeds] = motion.positions[begins], motion.rates[begins]
    drive = np.zeros((len(begins), motion.size * parts, model.nv))
    along = begins[:, None] + np.arange(motion.size)[None]
    drive[:, :, speeds] = np.repeat(motion.drive[along], parts, axis=1)
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)  # else it writes a log where the user is
    try:
        kind = int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
        states, _ = rollout.rollout(model, mujoco.MjData(model), start, drive, control_spec=kind)
    finally:
        mujoco.set_mju_user_warning(before)
    return np.asarray(states[:, parts - 1 :: parts, 1 + places])


def _prepared(robot: Parts, mujoco: Any, step: float) -> tuple[Any, list[str]]:
    """MuJoCo's model of the file, without contacts and limits, and the names of its joints; raises as ``replayed``."""
    try:
        model, names = _model(robot, mujoco)
    except (ValueError, RuntimeError, FileNotFoundError, UnicodeDecodeError) as error:
        raise ProblemError(
            f"MuJoCo refuses {robot.source.document.path} ({' '.join(str(error).split())}); correct the file as it says"
        ) from None
    model.opt.timestep = step
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for flag in ("CONTACT", "LIMIT", "AUTORESET"):
        model.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")
    return model, names


def _model(robot: Parts, mujoco: Any) -> tuple[Any, list[str]]:
    """Compiled, and the names of its joints."""
    document = robot.source.document
    if robot.source.format == "URDF":
        others = [one for one in document.root.children if one.tag not in ("link", "joint")]
        for link in document.root.all("link"):  # nothing touches, and no mesh is opened
            others += [one for one in link.children if one.tag in ("visual", "collision")]
        bare = document.edited([edit for one in others for edit in document.without(one)])
        model = mujoco.MjSpec.from_string(bare.decode()).compile()
        return model, [str(model.joint(j).name) for j in range(model.njnt)]
    spec, *_ = mjcf.specification(document, mujoco)
    model = spec.compile()
    bodies = ["world", *(str(model.body(i).name) or f"body_{i}" for i in range(1, model.nbody))]
    return model, joint_names(model, bodies)


def _arranged(
    model: Any, names: Sequence[str], joints: Sequence[str], springs: Mapping[str, Mapping[str, float]]
) -> tuple[Integers, Integers]:
    """Where positions and rates of joints are; on the way their springs and armatures are set."""
    missing = next((name for name in joints if name not in names), None)
    if missing is not None:
        raise ProblemError(f"MuJoCo has no joint {missing!r}; give the file that the problem was made from")
    own = [names.index(name) for name in joints]
    for name, values in springs.items():
        j = names.index(name)
        model.dof_armature[model.jnt_dofadr[j]] = values.get("armature", model.dof_armature[model.jnt_dofadr[j]])
        model.jnt_stiffness[j] = values.get("stiffness", model.jnt_stiffness[j])
        place = model.jnt_qposadr[j]
        model.qpos_spring[place] = values.get("rest", model.qpos_spring[place])
    return np.asarray(model.jnt_qposadr[own]), np.asarray(model.jnt_dofadr[own])
