"""Actuators of simulators: those that an MJCF has, and servos of a fit as elements of MJCF and in Isaac Lab's terms.

A servo with position commands has the effort sat(k_p (u − q + offset) + bias − k_d s). Of a voltage drive with the
supply V all gains are efforts at standstill, V k/R per duty, and the back-EMF adds k k_e/R to the damping of the joint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.mechanics.inertia import DIGITS
from spookid.mechanics.servo import Curve, Servo
from spookid.parameter import is_zero, substitute
from spookid.results import folders
from spookid.results.result import Solution
from spookid.robots.description import Actuator, FileServo
from spookid.robots.markup import Document, Edit


@dataclass(frozen=True)
class ServoActuator:
    """Numerical parameters of a servo for simulators, in rad and N m, or m and N."""

    joint: str
    """Label of the driven coordinate."""
    command: str
    """Name of the signal."""
    mode: str
    """What the command is: "position", "velocity" or "effort"."""
    kp: float
    """Effort per unit of the error [N m/rad, N m s/rad or 1]."""
    kd: float
    """Effort per rate [N m s/rad]."""
    offset: float
    """Position of the joint where the command is zero [rad]."""
    bias: float
    """Constant effort [N m]."""
    limit: float
    """Largest effort of either sign at standstill [N m]; infinite without a limit."""
    back_emf: float
    """Damping by the back-EMF, outside of the limit [N m s/rad]."""
    free_speed: float
    """Rate at which the back-EMF takes all of the supply [rad/s]; infinite without a voltage drive."""
    delay: float
    """Of commands [s]."""
    lag: float
    """Time constant of the first-order lag of commands [s]."""
    integral: float
    """Effort per integral of the error over time [N m/(rad s)]."""
    integral_limit: float
    """Largest integral of either sign [rad s]; infinite without a limit."""
    armature: float
    """Of the joint [kg m²]."""
    viscous: float
    """Of the joint [N m s/rad]."""
    coulomb: float
    """Dry friction of the joint that no effort changes [N m]."""
    left_out: tuple[str, ...] = ()
    """What simulators have no place for."""
    in_mjcf: tuple[str, ...] = ()
    """What of this the installed version of MuJoCo has a place for."""
    inputs: str = ""
    """Inputs of a ``<pid>`` of MuJoCo, in the order of its controls; empty: the command alone."""
    motor: tuple[float, ...] = ()
    """Torque constant [N m/A], resistance [Ω], largest voltage [V], effort [N m] and current [A] of a ``<dcmotor>`` of
    MuJoCo, 0 without a limit; empty of other actuators."""

    def bias_terms(self) -> tuple[float, float, float]:
        """Bias terms b of the servo effort k_p u + b_0 + b_1 q + b_2 s."""
        own = {"position": (self.kp * self.offset, -self.kp, 0.0), "velocity": (0.0, 0.0, -self.kp)}
        constant, of_position, of_rate = own.get(self.mode, (0.0, 0.0, 0.0))
        return constant + self.bias, of_position, of_rate - self.kd

    def element(self, timestep: float, name: str = "", more: Mapping[str, str] | None = None) -> str:
        """An element of MJCF.

        Args:
            timestep: of the simulator [s]; its buffer of commands holds the delay.
            name: of the actuator; empty: that of the joint.
            more: other attributes.
        """
        constant, of_position, of_rate = self.bias_terms()
        values = {"name": name or self.joint, "joint": self.joint}
        if self.motor:
            constant, resistance, voltage, *limits = self.motor
            tag, values["motorconst"], values["resistance"] = "dcmotor", _text(constant), _text(resistance)
            gains = (self.kp, 0, self.back_emf - of_rate, 0, 0, voltage)
            values |= {"input": "pos", "controller": " ".join(map(_text, gains))}
            values["saturation"] = " ".join(map(_text, (*limits, 0)))
        elif self.mode == "position" and constant == 0:
            tag, own = ("pid" if self.inputs or self.integral > 0 else "position"), {"kp": self.kp, "kv": -of_rate}
            own |= {"ki": self.integral} if self.integral > 0 else {}
            own |= {"imax": self.integral_limit} if self.integral > 0 and math.isfinite(self.integral_limit) else {}
            values |= {key: _text(value) for key, value in own.items()}
            values |= {"input": self.inputs} if self.inputs else {}
        else:
            tag = "general"
            values |= {"gaintype": "fixed", "gainprm": _text(self.kp), "biastype": "affine"}
            values["biasprm"] = " ".join(map(_text, (constant, of_position, of_rate)))
        if self.lag > 0 and tag != "pid":
            lag = _text(self.lag)
            values |= {"timeconst": lag} if tag == "position" else {"dyntype": "filterexact", "dynprm": lag}
        if math.isfinite(self.limit) and not self.motor:
            values["forcerange"] = f"{_text(-self.limit)} {_text(self.limit)}"
        if self.delay > 0:
            values |= {"delay": _text(self.delay), "nsample": str(math.ceil(self.delay / timestep) + 1)}
        values |= more or {}
        return f"<{tag} " + " ".join(f'{key}="{value}"' for key, value in values.items()) + "/>"

    def isaac_lab(self, timestep: float) -> dict[str, Any]:
        """Fields of an Isaac Lab actuator configuration: delayed PD actuator, DC motor or ideal PD actuator."""
        stiffness = self.kp if self.mode == "position" else 0.0
        damping = self.kd + (self.kp if self.mode == "velocity" else 0.0) + self.back_emf
        steps = self.delay / timestep
        fields: dict[str, Any] = {"class_type": "IdealPDActuatorCfg", "joint_names_expr": [self.joint]}
        fields |= {"stiffness": stiffness, "damping": damping}
        if math.isfinite(self.limit):
            fields["effort_limit"] = self.limit
        if round(steps) > 0:
            fields["class_type"] = "DelayedPDActuatorCfg"
            fields |= {"min_delay": math.floor(steps), "max_delay": math.ceil(steps)}
        elif math.isfinite(self.free_speed):
            fields["class_type"] = "DCMotorCfg"
            fields["saturation_effort"] = self.limit
        if math.isfinite(self.free_speed):
            fields["velocity_limit"] = self.free_speed
        fields |= {"armature": self.armature, "friction": self.coulomb, "dynamic_friction": self.coulomb}
        return fields | {"viscous_friction": self.viscous}


def _text(value: float) -> str:
    return repr(float(value) + 0.0)


@checked
def servos(
    problem: Problem, found: Solution | Mapping[str, float], signals: Mapping[str, float] | None = None
) -> tuple[ServoActuator, ...]:
    """Convert the servos of a problem to actuators for simulators. ::

        drives = robots.servos(problem, solution, {"kp": 400, "vin": 7.4})
        robot.write("identified.xml", solution, servos=drives)
        robots.write_isaac_lab(drives, "actuators.yaml", timestep=0.005)

    Args:
        problem: the one that was solved.
        found: its fit, or values of its parameters.
        signals: values of gains and supplies that are signals of the recordings. None: the mean of a supply over all
            recordings, and a gain that is the same in all of them.

    Raises:
        ProblemError: without a servo, for a missing value or a gain that differs between recordings.
    """
    drives = declared_servos(problem)
    if not drives:
        raise ProblemError(f"{problem.what} has no Servo; declare the drive of a joint as one")
    values = problem.parameter_set.on(found.values if isinstance(found, Solution) else dict(found))
    return tuple(_actuator(problem, servo, values, dict(signals or {})) for servo in drives)


def declared_servos(problem: Problem) -> list[Servo]:
    """Drives of a problem that were declared as a ``Servo``."""
    return [servo for servo in problem.model.servos if not isinstance(servo, Curve)]


def _actuator(
    problem: Problem, servo: Servo, values: Mapping[str, float], signals: Mapping[str, float]
) -> ServoActuator:
    joint, i = servo.joint, servo.coordinate

    def at(expression: Any) -> float:
        return float(substitute(ca.densify(ca.SX(expression)), values)[0])

    own, roles = {name: at(value) for name, value in servo.values.items()}, servo.roles
    gain = _signal(problem, roles["gain"], signals, True) if "gain" in roles else 1.0
    left_out = [f"signal {roles[role]!r}, the {role}" for role in _MORE if role in roles]
    inputs = _inputs(servo, own)
    in_mjcf, motor = left_out[:] if inputs else [], tuple[float, ...]()
    limits, unit, back_emf, free_speed = [math.inf], 1.0, 0.0, math.inf
    if servo.limit is not None:
        limits.append(at(servo.limit))
    if (drive := servo.drive) is not None:
        supply = _signal(problem, roles["supply"], signals, False) if "supply" in roles else at(drive.supply)
        k, resistance = at(drive.torque_constant), at(drive.resistance)
        constant = k if drive.back_emf is None else at(drive.back_emf)
        unit, back_emf = supply * k / resistance, k * constant / resistance
        free_speed = supply / constant if constant > 0 else math.inf
        if drive.duty_limit is not None:
            duty, source = at(drive.duty_limit), at(drive.source_resistance)
            limits.append(unit * duty / (1 + source / resistance * duty ** (2 if drive.capacitor else 1)))
            free_speed *= duty
            if source > 0:
                left_out.append("the source resistance in stiffness and back-EMF; the limit has it")
        if drive.current_limit is not None:
            limits.append(k * at(drive.current_limit))
        if drive.current_limit is not None or servo.limit is not None:
            left_out.append("the back-EMF in the limit of current or effort, which acts at standstill only")
            if constant == k and _is_dc_motor(servo, own):
                ends = (0.0 if one is None else at(one) for one in (servo.limit, drive.current_limit))
                motor = (k, resistance, supply * duty if drive.duty_limit is not None else 0.0, *ends)
                in_mjcf.append(left_out[-1])
    left_out += _unplaced(servo, own, inputs)
    entries = {name: ca.vertsplit(getattr(joint, name)) for name in ("armature", "viscous", "coulomb")}
    plain = {name: at(parts[min(i, len(parts) - 1)]) for name, parts in entries.items()}
    return ServoActuator(
        servo.label,
        servo.command,
        servo.mode,
        kp=unit * gain * own["kp"],
        kd=unit * gain * own["kd"],
        offset=own["offset"],
        bias=unit * own["bias"],
        limit=min(limits),
        back_emf=back_emf,
        free_speed=free_speed,
        delay=own["delay"],
        lag=own["lag"],
        integral=unit * gain * own["ki"],
        integral_limit=math.inf if servo.integral_limit is None else at(servo.integral_limit),
        **plain,
        left_out=tuple(left_out),
        in_mjcf=tuple(in_mjcf),
        inputs=inputs,
        motor=motor,
    )


def _unplaced(servo: Servo, own: Mapping[str, float], inputs: str) -> list[str]:
    """Properties of a servo and its joint without an equivalent in simulators."""
    found = []
    if own["ki"] > 0 and (servo.mode != "position" or own["kp"] * own["offset"] + own["bias"] != 0):
        found.append("the integral, which MuJoCo has for position commands without offset and bias")
    elif (own["ki"] > 0 or inputs) and own["lag"] > 0:
        found.append("the lag of commands, which a pid actuator of MuJoCo does not have")
    if loads := [type(load).__name__ for load in servo.joint.loads]:
        found.append(f"{', '.join(loads)} of the joint, which change with motion or effort")
    return found


_MORE = {"command_rate": "vel", "feedforward": "ff"}
"""Inputs beside the command, and what MuJoCo calls them."""


def _inputs(servo: Servo, values: Mapping[str, float]) -> str:
    """Inputs of a ``<pid>``; empty where it cannot stand for the servo, or has the command alone."""
    more = [name for role, name in _MORE.items() if role in servo.roles]
    constant = servo.mode != "position" or values["offset"] or values["bias"]
    duty = servo.drive is not None and "ff" in more  # and not an effort
    return " ".join(["pos", *more]) if more and not constant and not duty and "pid" in _elements() else ""


def _is_dc_motor(servo: Servo, values: Mapping[str, float]) -> bool:
    """True if a ``<dcmotor>`` can stand for the servo; its back-EMF constant is its torque constant."""
    more = {*_MORE} & {*servo.roles} or any(values[name] for name in ("offset", "bias", "ki", "lag"))
    plain = servo.drive is not None and is_zero(servo.drive.source_resistance) and not more
    return plain and servo.mode == "position" and "dcmotor" in _elements()


@cache
def _elements() -> frozenset[str]:
    """Actuators of MJCF in the installed version of MuJoCo, of those that not all versions have."""
    try:
        schema = str(import_module("mujoco").mj_printSchema(False, False))
    except ImportError:
        return frozenset()
    return frozenset(name for name in ("pid", "dcmotor") if f" {name} " in schema)


def _signal(problem: Problem, name: str, given: Mapping[str, float], constant: bool) -> float:
    """Value of a gain or a supply."""
    if name in given:
        return float(given[name])
    samples = [recording.signal(name) for recording in problem.recordings if name in recording.signals]
    seen = np.concatenate([own[np.isfinite(own)] for own in samples]) if samples else np.zeros(0)
    if not seen.size or (constant and np.ptp(seen) > DIGITS * np.abs(seen).max()):
        why = f"signal varies from {seen.min():g} to {seen.max():g} in the recordings" if seen.size else "no recording"
        raise ProblemError(f"{problem.what}: {name!r} has no constant value ({why}); give the simulator's value")
    return float(np.mean(seen))


def write_isaac_lab(drives: Sequence[ServoActuator], path: str | PathLike[str], timestep: float) -> None:
    """Write a YAML file with the fields of Isaac Lab's actuator configurations, one per joint.

    Args:
        drives: those of ``servos``.
        path: of the file; an earlier one is replaced.
        timestep: of the physics, in which delays are counted [s].

    Raises:
        ProblemError: for a time step that is not positive, or a file that cannot be written.
    """
    if not timestep > 0:
        raise ProblemError(f"argument timestep is {timestep:g}; give a positive number of seconds")
    lines = [f"# Delays in physics steps of {timestep:g} s; SI units, angles in rad."]
    for one in drives:
        late = [f"the lag of commands, {one.lag:g} s"] if one.lag > 0 else []
        late += [f"the integral, {one.integral:g} N m/(rad s)"] if one.integral > 0 else []
        lines += [f"# {one.joint}: without {what}." for what in (*one.left_out, *late)]
        constant, _, _ = one.bias_terms()
        if constant:
            lines.append(f"# {one.joint}: without the constant effort {constant:g}; add it as a feedforward.")
    lines.append("actuators:")
    for one in drives:
        lines += [f"  {one.joint}:", *(f"    {key}: {_yaml(value)}" for key, value in one.isaac_lab(timestep).items())]
    folders.write(Path(path), "\n".join(lines) + "\n")


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    return value if isinstance(value, str) else repr(value)


_KEPT = ("name", "group", "ctrllimited", "ctrlrange")
"""Attributes of an actuator that is replaced."""


def actuator_edits(document: Document, drives: Sequence[ServoActuator]) -> list[Edit]:
    """Edits of an MJCF file that replace the actuator of each joint by the fitted servo."""
    options = [e for e in document.root.inside() if e.tag == "option" and "timestep" in e.attributes]
    timestep = float(options[-1].attributes["timestep"]) if options else 0.002  # MuJoCo's own
    sections = [element for element in document.root.children if element.tag == "actuator"]
    edits, lines = list[Edit](), list[str]()
    for one in drives:
        inside = [child for section in sections for child in section.children]
        old = [child for child in inside if child.attributes.get("joint") == one.joint]
        kept = {key: old[0].attributes[key] for key in _KEPT if key in old[0].attributes} if old else {}
        edits += [edit for element in old for edit in document.without(element)]
        lines.append(one.element(timestep, kept.pop("name", ""), kept))
    if sections:
        return edits + document.with_child(sections[0], lines)
    return edits + document.with_child(document.root, ["<actuator>", *(f"  {line}" for line in lines), "</actuator>"])


def _single(mujoco: Any) -> tuple[Any, ...]:
    """Joints of one coordinate."""
    return mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE


def servos_of(spec: Any, mujoco: Any) -> tuple[FileServo, ...]:
    """Servos of one coordinate without a gear, with the effort k_p (u − q) − k_d s or k_p (u − s); u may have a lag."""
    plain = (
        mujoco.mjtTrn.mjTRN_JOINT,
        mujoco.mjtGain.mjGAIN_FIXED,
        mujoco.mjtBias.mjBIAS_AFFINE,
    )
    lags = mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT
    single = {joint.name for joint in spec.joints if joint.type in _single(mujoco)}
    found = []
    for one in spec.actuators:
        kp, (constant, of_position, of_rate) = float(one.gainprm[0]), map(float, one.biasprm[:3])
        own = (one.trntype, one.gaintype, one.biastype) == plain and one.target in single
        lag = float(one.dynprm[0]) if one.dyntype in lags else 0.0
        own = own and one.dyntype in (mujoco.mjtDyn.mjDYN_NONE, *lags)
        if not own or one.gear[0] != 1 or constant != 0 or kp <= 0 or of_position not in (0, -kp):
            continue
        if of_position == 0 and of_rate != -kp:
            continue
        mode, kd = ("position", -of_rate) if of_position else ("velocity", 0.0)
        largest = max(map(abs, map(float, one.forcerange)))
        limit = largest if one.forcelimited and largest > 0 else np.inf
        name = one.name or f"{one.target}_servo"
        found.append(FileServo(name, one.target, mode, kp, kd, limit, float(one.delay), lag))  # type: ignore[arg-type]
    return tuple(found)


def motors_of(spec: Any, mujoco: Any, path: str) -> tuple[Actuator, ...]:
    """Motors whose effort is gear times gain times control, along one coordinate."""
    plain = mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtDyn.mjDYN_NONE
    single = {joint.name for joint in spec.joints if joint.type in _single(mujoco)}
    return tuple(
        Actuator(one.name or f"{one.target}_motor", one.target, float(one.gear[0] * one.gainprm[0]), path)
        for one in spec.actuators
        if (one.trntype, one.gaintype, one.biastype, one.dyntype) == plain and one.target in single
    )
