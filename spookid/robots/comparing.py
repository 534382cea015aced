"""A robot's file before and after a fit, beside what was measured: torques along the log, and replays in MuJoCo.

A replay starts at each second of the motion and is driven as the robot was, without corrections. MuJoCo (Todorov,
Erez, Tassa, IROS 2012) reads the file itself and has its own integrator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from scipy.interpolate import make_interp_spline

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.data.sampling import wrap
from spookid.data.state import State
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array, Integers
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, misfit, rms
from spookid.robots import mjcf
from spookid.robots.identified import efforts_along, efforts_as_fitted, from_result
from spookid.robots.markup import parse
from spookid.robots.parts import Parts
from spookid.robots.urdf import described
from spookid.robots.writing import rewritten
from spookid.studies.motor_efforts import MotorEfforts
from spookid.tables.table import Block, Table, Tabular, number

WINDOW = 1.0
"""Of a window [s]."""
_MOST, _STEP = 60, 1e-3
"""Windows, evenly along a longer recording, and the longest step that MuJoCo takes [s]."""


def replayed(robot: Parts, motion: Along, springs: Mapping[str, Mapping[str, float]]) -> Array:
    """Positions of all joints in replays, (windows, steps, n) [rad or m]; NaN or infinite after MuJoCo has failed."""
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        raise ProblemError("replays need MuJoCo: pip install 'spookid[robots]'") from None
    several = [joint.name for joint in robot.joints.values() if len(joint.coordinates) != 1]
    if several or robot.constraints or any(body.free for body in robot.bodies.values()):
        what = f"joint {several[0]!r} is of another kind" if several else "the base is free, or joints are coupled"
        raise ProblemError(f"a replay needs a robot with a fixed base whose joints are hinges and sliders; {what}")
    parts = max(math.ceil(motion.step / _STEP - 1e-9), 1)
    model, names = _prepared(robot, mujoco, motion.step / parts)
    places, speeds = _arranged(model, names, motion.joints, springs)
    start, begins = np.zeros((len(motion.starts), 1 + model.nq + model.nv)), motion.starts
    start[:, 1 : 1 + model.nq] = model.qpos0
    for name, at in robot.still.items():
        j = names.index(name)
        start[:, 1 + model.jnt_qposadr[j]] = at
        model.dof_armature[model.jnt_dofadr[j]] = 1e9  # so heavy that nothing moves it
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
    document = robot.source.document
    try:
        if robot.source.format == "MJCF":
            model = mjcf.specification(document, mujoco)[0].compile()
            bodies = ["world", *(str(model.body(i).name) or f"body_{i}" for i in range(1, model.nbody))]
            names = mjcf.joint_names(model, bodies)
        else:
            others = [one for one in document.root.children if one.tag not in ("link", "joint")]
            for link in document.root.all("link"):  # nothing touches, and no mesh is opened
                others += [one for one in link.children if one.tag in ("visual", "collision")]
            bare = document.edited([edit for one in others for edit in document.without(one)])
            model = mujoco.MjSpec.from_string(bare.decode()).compile()
            names = [str(model.joint(j).name) for j in range(model.njnt)]
    except (ValueError, RuntimeError, FileNotFoundError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ProblemError(f"MuJoCo cannot load file {document.path} ({reason}); correct the file") from None
    model.opt.timestep = step
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for flag in ("CONTACT", "LIMIT", "AUTORESET"):
        model.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")
    return model, names


def _arranged(
    model: Any, names: Sequence[str], joints: Sequence[str], springs: Mapping[str, Mapping[str, float]]
) -> tuple[Integers, Integers]:
    """Where positions and rates of joints are; on the way their springs and armatures are set."""
    missing = next((name for name in joints if name not in names), None)
    if missing is not None:
        raise ProblemError(f"MuJoCo's model has no joint {missing!r}; give the problem's own robot file")
    own = [names.index(name) for name in joints]
    for name, values in springs.items():
        j = names.index(name)
        model.dof_armature[model.jnt_dofadr[j]] = values.get("armature", model.dof_armature[model.jnt_dofadr[j]])
        model.jnt_stiffness[j] = values.get("stiffness", model.jnt_stiffness[j])
        place = model.jnt_qposadr[j]
        model.qpos_spring[place] = values.get("rest", model.qpos_spring[place])
    return np.asarray(model.jnt_qposadr[own]), np.asarray(model.jnt_dofadr[own])


BEFORE, AFTER = "the file as it was", "the new file"
_LACKING = {"armature": "armatures", "stiffness": "springs", "rest": "springs"}
"""What URDFs cannot hold of a joint."""


@dataclass(frozen=True, eq=False)
class Version:
    """Predicted torques and positions with one version of a robot's file."""

    name: str
    torques: Array
    """Efforts by inverse dynamics, (N, m) [N m or N], low-passed; none, (0, m), if unknown."""
    replays: Array
    """Windows in MuJoCo, (windows, steps, n) [rad or m]; none, (0, 0, n), if there are none."""
    reasons: tuple[str, ...] = ()
    """Reasons for missing results."""


@dataclass(frozen=True, eq=False)
class RobotComparison(Tabular):
    """Comparison of versions of a robot's file with a recording: n joints, of which m are driven."""

    robot: str
    recording: str
    joints: tuple[str, ...]
    """All, (n,)."""
    units: tuple[str, ...]
    """Units of their positions."""
    driven: tuple[str, ...]
    efforts: tuple[str, ...]
    """Units of their efforts, (m,)."""
    t: Array
    """(N,) [s], of the torques."""
    measured: Array
    """Measured efforts: gain times signal, (N, m) [N m or N], low-passed."""
    cutoff: float
    """Cutoff of that filter [Hz]."""
    windows: Array
    """Times of the replays, (windows, steps) [s]."""
    positions: Array
    """As they were measured there, (windows, steps, n) [rad or m]; NaN where nothing was."""
    versions: tuple[Version, ...]
    """The original file, the new one, and the new one with quantities that the file cannot hold, if there are any."""
    of_samples: bool = False
    """True if torques are those at the samples of the log, as by ``problem.inverse_dynamics``; False if they are of
    splines through the fit's steps, because the log was not at hand."""

    def torque_errors(self, version: Version) -> Array:
        """Root mean square errors of predicted efforts, (m,) [N m or N]."""
        return np.array([rms(self.measured[:, i] - version.torques[:, i]) for i in range(len(self.driven))])

    def replay_errors(self, version: Version) -> Array:
        """Root mean square errors of positions in replays, (n,) [rad or m]; infinite if MuJoCo failed in a window."""
        errors = self.positions - version.replays
        lost = ~np.isfinite(version.replays).all(axis=(0, 1))
        return np.where(lost, np.inf, [rms(errors[..., i]) for i in range(len(self.joints))])

    def blocks(self) -> Sequence[Block]:
        """Tables of torque errors and replay errors, or the reason why a table is missing."""
        reasons = dict.fromkeys(f"{v.name[0].upper()}{v.name[1:]}: {r}." for v in self.versions for r in v.reasons)
        return [f"Robot {self.robot!r} along {self.recording}", *self._torques(), *self._replays(), *reasons]

    def _torques(self) -> Iterator[Block]:
        known = [version for version in self.versions if len(version.torques)]
        if known:
            how = "" if self.of_samples else ", by splines through the fit's steps"
            yield (
                f"torque errors in recording {self.recording}{how}: rms difference of measured (gain times signal) and "
                f"predicted efforts, low-passed at {number(self.cutoff, 3)} Hz; in brackets relative to measured std"
            )
            spread, errors = np.std(self.measured, axis=0), {v.name: self.torque_errors(v) for v in known}

            def share(error: float, size: float) -> str:
                return f" ({100 * error / size:.3g} %)" if size > 0 else ""

            rows = [
                (label, f"{number(size, 3)} {unit}", *(number(e[i], 3) + share(e[i], size) for e in errors.values()))
                for i, (label, unit, size) in enumerate(zip(self.driven, self.efforts, spread, strict=True))
            ]
            yield Table(("joint", "measured, std", *errors), rows, left=(0,))

    def _replays(self) -> Iterator[Block]:
        known = [version for version in self.versions if len(version.replays)]
        if known:
            count = len(self.windows)
            yield (
                f"Replays in MuJoCo: {count} windows of {WINDOW:g} s, each simulated from the estimated state with "
                "the recorded inputs; rms errors of positions"
            )
            errors = {v.name: self.replay_errors(v) for v in known}
            seen = self.positions.reshape(-1, len(self.joints))
            ranges = [np.ptp(own[np.isfinite(own)]) if np.isfinite(own).any() else np.nan for own in seen.T]
            rows = [
                (label, *(_off(error[i], ranges[i], unit) for error in errors.values()))
                for i, (label, unit) in enumerate(zip(self.joints, self.units, strict=True))
            ]
            yield Table(("joint", *errors), rows, left=(0,))

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each joint and version."""
        found = []
        for version in self.versions:
            torques = dict(zip(self.driven, self.torque_errors(version), strict=True)) if len(version.torques) else {}
            replays = dict(zip(self.joints, self.replay_errors(version), strict=True)) if len(version.replays) else {}
            for label in self.joints:
                own = {"torque error": torques.get(label, np.nan), "replay error": replays.get(label, np.nan)}
                found.append({"joint": label, "file": version.name, **own})
        return found


def _off(error: float, span: float, unit: str) -> str:
    """Of a replay; one that is off by more than all that was measured is nowhere."""
    if not np.isfinite(span):
        return "not measured"
    return f"{number(error, 3)} {unit}" if error <= span else f"over {number(span, 3)} {unit}"


def compare(
    robot: Parts, result: Solution, recording: int = 0, problem: Problem | None = None, replays: bool = True
) -> RobotComparison:
    """Compare versions of a robot's file as ``Robot.compare``; without ``replays``, only torques."""
    if not 0 <= recording < len(result.trajectories):
        raise ProblemError(f"result {result.problem!r} has no recording number {shown(recording)}; numbers start at 0")
    trajectory, robot = result.trajectories[recording], replace(robot, inertias={}, settings={})
    log = Along.of(robot, result, trajectory)
    content, *_ = rewritten(robot, from_result(robot, result))
    found = described(parse(robot.source.document.path, content), robot.trust)
    new = Parts(*found, robot.free, robot.held, robot.merge, robot.mend, place=robot.place)
    files: dict[str, tuple[Parts, Mapping[str, Mapping[str, float]]]] = {BEFORE: (robot, {}), AFTER: (new, {})}
    if lacking := _lacking(new, result):
        words = dict.fromkeys(_LACKING[what] for own in lacking.values() for what in own)
        files[f"the new file with {' and '.join(words)}"] = new.with_(joints=lacking), lacking
    none, nowhere = np.zeros((0, len(log.driven))), np.zeros((0, 0, len(log.joints)))
    versions: list[Version] = []
    efforts: MotorEfforts | None = None
    for name, (own, springs) in files.items():
        reasons, predicted, positions = list[str](), none, nowhere
        try:
            if problem is None:
                efforts = log.torques(own, efforts.cutoff if efforts else None)
            else:
                efforts = efforts_as_fitted(own, problem, result, trajectory.name)
            predicted = efforts.efforts
        except ProblemError as error:
            reasons.append(f"no inverse dynamics, for {error}")
        try:
            positions = replayed(own, log, springs) if replays else nowhere
        except ProblemError as error:
            reasons.append(f"no replays, for {error}")
        versions.append(Version(name, predicted, positions, tuple(reasons)))
    along = log.starts[:, None] + 1 + np.arange(log.size)[None]
    return RobotComparison(
        robot.name,
        trajectory.name,
        log.joints,
        tuple(robot.coordinates[label].unit for label in log.joints),
        log.driven,
        tuple(robot.coordinates[label].effort for label in log.driven),
        np.zeros(0) if efforts is None else efforts.t,
        none if efforts is None else efforts.measured_efforts,
        np.nan if efforts is None else efforts.cutoff,
        trajectory.t[along],
        log.seen[along],
        tuple(versions),
        problem is not None,
    )


def _lacking(new: Parts, result: Solution) -> dict[str, dict[str, float]]:
    """What the new file does not hold of joints: armatures, those of motors too, and springs."""
    found: dict[str, dict[str, float]] = {}
    for one in result.joints.values():
        what = one.name.removeprefix(f"{one.body} ")
        if one.body in new.joints and what in _LACKING and new.source.format == "URDF":
            found.setdefault(one.body, {})[what] = one.estimate
    for motor in result.mechanism.motors if result.mechanism else ():
        values = {quantity.name: quantity.value for quantity in motor.quantities}
        inertia = values.get("shaft inertia", 0.0) + values.get("ratio", 1.0) ** 2 * values.get("rotor inertia", 0.0)
        # An armature that depends on parameters has those of its motors in it.
        if inertia and motor.hinge in new.joints and f"{motor.hinge} armature" not in result.joints:
            own = float(ca.DM(new.joints[motor.hinge].armature))
            found.setdefault(motor.hinge, {})["armature"] = inertia + own
    return found


@dataclass(frozen=True, eq=False)
class Along:
    """Motion and inputs of a recording, read from a result: n joints of a robot at N steps."""

    joints: tuple[str, ...]
    driven: tuple[str, ...]
    step: float
    """[s]."""
    t: Array
    positions: Array
    """Estimated, (N, n) [rad or m]."""
    rates: Array
    """(N, n)."""
    drive: Array
    """In mean over the step that begins there, (N, n) [N m or N]."""
    seen: Array
    """Measured positions, (N, n), NaN where there are none."""

    @property
    def starts(self) -> Integers:
        """First step of each of consecutive windows; windows with incomplete data are skipped."""
        size, known = self.size, np.all(np.isfinite(self.drive), axis=1).tolist()
        whole = np.array([k for k in range(0, len(known) - size, size) if all(known[k : k + size])], dtype=np.int64)
        kept = np.unique(np.linspace(0, len(whole) - 1, min(_MOST, len(whole))).astype(int))
        return np.asarray(whole[kept], dtype=np.int64)

    @property
    def size(self) -> int:
        """Steps of a window."""
        return max(round(WINDOW / self.step), 1)

    @staticmethod
    def of(robot: Parts, result: Solution, trajectory: Trajectory) -> Along:
        """Of one recording."""
        mechanism, drive = result.mechanism, trajectory.drive
        if mechanism is None or drive is None:
            raise ProblemError(
                f"an earlier version wrote the results of {result.problem!r} without torques; solve the problem again"
            )
        if drive.shape[1] != len(mechanism.motors):
            raise ProblemError(
                f"{result.problem!r} has a servo without measured torque; compare positions, by spookid simulate --from"
            )
        labels, positions, rates = _moved(robot, [body.name for body in mechanism.bodies], trajectory)
        seen = np.full(positions.shape, np.nan)
        sensors = {sensor.joint: sensor.signal for sensor in mechanism.sensors if sensor.joint}
        for i, label in enumerate(labels):
            if label in sensors:
                column = trajectory.signals.index(sensors[label])
                error, period = misfit(trajectory, column), trajectory.periods[column]
                seen[:, i] = positions[:, i] + (error if period is None else wrap(error, period))
        does = np.zeros(positions.shape)
        for m, motor in enumerate(mechanism.motors):
            if motor.hinge in labels:
                does[:, labels.index(motor.hinge)] += drive[:, m]
        driven = tuple(label for label in labels if label in {motor.hinge for motor in mechanism.motors})
        return Along(tuple(labels), driven, result.step, trajectory.t, positions, rates, does, seen)

    def torques(self, robot: Parts, cutoff: float | None) -> MotorEfforts:
        """Inverse dynamics with one version of the robot's file; unmeasured positions are replaced by estimated ones.

        Splines through positions and impulses of the steps are as fine as the log: differences over steps, and means of
        efforts over them, would be off by their own.
        """
        labels, count = self.joints, 4 * (len(self.t) - 1) + 1
        at = np.where(np.isfinite(self.seen), self.seen, self.positions)
        impulses = np.vstack([np.zeros(len(labels)), np.cumsum(self.drive[:-1] * self.step, axis=0)])
        fine = np.linspace(self.t[0], self.t[-1], count)
        places = make_interp_spline(self.t, at, k=5)(fine)
        did = make_interp_spline(self.t, impulses, k=5).derivative()(fine)
        signals = {f"position {i}": places[:, i] for i in range(len(labels))}
        signals |= {f"effort {i}": did[:, i] for i in range(len(labels))}
        positions = {label: f"position {i}" for i, label in enumerate(labels)}
        efforts = {label: f"effort {i}" for i, label in enumerate(labels) if label in self.driven}
        return efforts_along(robot, Recording(fine, signals), positions, efforts, cutoff=cutoff)


def _moved(robot: Parts, bodies: list[str], trajectory: Trajectory) -> tuple[list[str], Array, Array]:
    """Labels, positions and rates of a robot's joints along an estimated motion, angles continuous, (N, n)."""
    model = robot.model()
    places = [bodies.index(body.name) for body in model.bodies]
    state = State.symbols(model)
    joints = [joint for joint in model.joints if joint.coordinates]
    rows = [ca.vertcat(*(part(joint) for joint in joints)) for part in (state.angle, state.rate)]
    function = ca.Function("joints", [state.q, state.v], [ca.densify(row) for row in rows]).map(len(trajectory.t))
    states = (part[:, places].reshape(len(part), -1).T for part in (trajectory.q, trajectory.v))
    positions, rates = (np.asarray(part.full()).T for part in function(*states))
    coordinates = [c for joint in joints for c in joint.coordinates]
    for i, coordinate in enumerate(coordinates):
        if coordinate.period is not None:
            positions[:, i] = np.unwrap(positions[:, i], period=coordinate.period)
    return [label for joint in joints for label in joint.labels], positions, rates
