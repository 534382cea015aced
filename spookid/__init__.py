"""Identify the parameters of a mechanism from measured motion.

Declare bodies, hinges and motors with ``Parameter``s where numbers are not known, add recordings and observations, and
``problem.solve()``. See docs/guide.md for a tour.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spookid.version import __version__ as __version__

_HOME = {
    "Accelerometer": "data.inertial_sensors",
    "Asymmetric": "mechanics.varying",
    "Body": "mechanics.body",
    "Bound": "mechanics.loads",
    "Constraint": "mechanics.constraints",
    "Contact": "mechanics.contact",
    "ContinuousFriction": "mechanics.continuous_friction",
    "Coordinate": "mechanics.coordinate",
    "Coupling": "mechanics.couplings",
    "Cylindrical": "mechanics.joint_kinds",
    "Distance": "mechanics.constraints",
    "Drag": "mechanics.friction_loads",
    "Effort": "mechanics.loads",
    "EnergyBalance": "data.energy",
    "Ellipsoid": "mechanics.inertia_coordinates",
    "Equations": "stepping.one_step",
    "ExponentialEigenvalue": "mechanics.inertia_coordinates",
    "Fixed": "mechanics.joint_kinds",
    "FixedLagSmoother": "smoothing.smoother",
    "Fourier": "mechanics.varying",
    "Friction": "mechanics.friction_loads",
    "FullInertia": "mechanics.inertia",
    "Gear": "mechanics.couplings",
    "gravity": "mechanics.gravity",
    "GROUND": "mechanics.body",
    "Gyroscope": "data.inertial_sensors",
    "Hinge": "mechanics.joints",
    "HingeAngle": "data.sensors",
    "Holonomic": "data.constraints",
    "Impact": "mechanics.impacts",
    "Joint": "mechanics.joints",
    "JointForce": "data.effort_sensors",
    "JointPosition": "data.sensors",
    "JointRate": "data.sensors",
    "JointTorque": "data.effort_sensors",
    "load": "solution",
    "Load": "mechanics.loads",
    "load_problem": "problem",
    "LogCholesky": "mechanics.inertia_coordinates",
    "Manifold": "mechanics.manifold",
    "mirrored": "mechanics.relations",
    "Model": "mechanics.model",
    "Monitor": "smoothing.monitor",
    "MotionLimits": "studies.motion_limits",
    "Motor": "mechanics.motor",
    "Nonholonomic": "data.constraints",
    "Observation": "data.sensors",
    "OneStep": "stepping.one_step",
    "Orientation": "data.inertial_sensors",
    "Parameter": "parameter",
    "PinInSlot": "mechanics.joint_kinds",
    "Planar": "mechanics.joint_kinds",
    "PointContact": "mechanics.standing",
    "PointDistance": "data.sensors",
    "PointDrag": "mechanics.point_forces",
    "PointForce": "mechanics.point_forces",
    "PointLoad": "mechanics.point_loads",
    "PointMasses": "mechanics.point_masses",
    "PointPosition": "data.sensors",
    "PointTorque": "mechanics.point_forces",
    "Prismatic": "mechanics.joint_kinds",
    "Problem": "problem",
    "ProblemError": "errors",
    "Propeller": "mechanics.point_forces",
    "Recording": "data.recording",
    "RecordingFiles": "data.recording_files",
    "Relation": "mechanics.relations",
    "Residual": "data.residual",
    "Screw": "mechanics.joint_kinds",
    "Sensor": "data.channels",
    "Solution": "solution",
    "Spherical": "mechanics.joint_kinds",
    "Spook": "stepping.spook",
    "Spring": "mechanics.loads",
    "SpringDamper": "mechanics.point_forces",
    "State": "data.state",
    "Status": "solvers.status",
    "Stepper": "stepping.base",
    "solve_jointly": "solution",
    "sweep": "report.sweep",
    "Sweep": "studies.sweep_points",
    "tilted_gravity": "mechanics.gravity",
    "total_mass": "mechanics.relations",
    "Universal": "mechanics.joint_kinds",
    "Variational": "stepping.variational",
    "Viscous": "mechanics.friction_loads",
    "Weld": "mechanics.standing",
}
"""Public names and the modules they live in. They are imported on first use: CasADi takes a while to load."""

__all__ = [
    "GROUND",
    "Accelerometer",
    "Asymmetric",
    "Body",
    "Bound",
    "Constraint",
    "Contact",
    "ContinuousFriction",
    "Coordinate",
    "Coupling",
    "Cylindrical",
    "Distance",
    "Drag",
    "Effort",
    "Ellipsoid",
    "EnergyBalance",
    "Equations",
    "ExponentialEigenvalue",
    "Fixed",
    "FixedLagSmoother",
    "Fourier",
    "Friction",
    "FullInertia",
    "Gear",
    "Gyroscope",
    "Hinge",
    "HingeAngle",
    "Holonomic",
    "Impact",
    "Joint",
    "JointForce",
    "JointPosition",
    "JointRate",
    "JointTorque",
    "Load",
    "LogCholesky",
    "Manifold",
    "Model",
    "Monitor",
    "MotionLimits",
    "Motor",
    "Nonholonomic",
    "Observation",
    "OneStep",
    "Orientation",
    "Parameter",
    "PinInSlot",
    "Planar",
    "PointContact",
    "PointDistance",
    "PointDrag",
    "PointForce",
    "PointLoad",
    "PointMasses",
    "PointPosition",
    "PointTorque",
    "Prismatic",
    "Problem",
    "ProblemError",
    "Propeller",
    "Recording",
    "RecordingFiles",
    "Relation",
    "Residual",
    "Screw",
    "Sensor",
    "Solution",
    "Spherical",
    "Spook",
    "Spring",
    "SpringDamper",
    "State",
    "Status",
    "Stepper",
    "Sweep",
    "Universal",
    "Variational",
    "Viscous",
    "Weld",
    "gravity",
    "load",
    "load_problem",
    "mirrored",
    "solve_jointly",
    "sweep",
    "tilted_gravity",
    "total_mass",
]

if TYPE_CHECKING:
    from spookid import robots as robots
    from spookid.data.channels import Sensor
    from spookid.data.constraints import Holonomic, Nonholonomic
    from spookid.data.effort_sensors import JointForce, JointTorque
    from spookid.data.energy import EnergyBalance
    from spookid.data.inertial_sensors import Accelerometer, Gyroscope, Orientation
    from spookid.data.recording import Recording
    from spookid.data.recording_files import RecordingFiles
    from spookid.data.residual import Residual
    from spookid.data.sensors import HingeAngle, JointPosition, JointRate, Observation, PointDistance, PointPosition
    from spookid.data.state import State
    from spookid.errors import ProblemError
    from spookid.mechanics.body import GROUND, Body
    from spookid.mechanics.constraints import Constraint, Distance
    from spookid.mechanics.contact import Contact
    from spookid.mechanics.continuous_friction import ContinuousFriction
    from spookid.mechanics.coordinate import Coordinate
    from spookid.mechanics.couplings import Coupling, Gear
    from spookid.mechanics.friction_loads import Drag, Friction, Viscous
    from spookid.mechanics.gravity import gravity, tilted_gravity
    from spookid.mechanics.impacts import Impact
    from spookid.mechanics.inertia import FullInertia
    from spookid.mechanics.inertia_coordinates import Ellipsoid, ExponentialEigenvalue, LogCholesky
    from spookid.mechanics.joint_kinds import (
        Cylindrical,
        Fixed,
        PinInSlot,
        Planar,
        Prismatic,
        Screw,
        Spherical,
        Universal,
    )
    from spookid.mechanics.joints import Hinge, Joint
    from spookid.mechanics.loads import Bound, Effort, Load, Spring
    from spookid.mechanics.manifold import Manifold
    from spookid.mechanics.model import Model
    from spookid.mechanics.motor import Motor
    from spookid.mechanics.point_forces import PointDrag, PointForce, PointTorque, Propeller, SpringDamper
    from spookid.mechanics.point_loads import PointLoad
    from spookid.mechanics.point_masses import PointMasses
    from spookid.mechanics.relations import Relation, mirrored, total_mass
    from spookid.mechanics.standing import PointContact, Weld
    from spookid.mechanics.varying import Asymmetric, Fourier
    from spookid.parameter import Parameter
    from spookid.problem import Problem, load_problem
    from spookid.report.sweep import sweep
    from spookid.smoothing.monitor import Monitor
    from spookid.smoothing.smoother import FixedLagSmoother
    from spookid.solution import Solution, load, solve_jointly
    from spookid.solvers.status import Status
    from spookid.stepping.base import Stepper
    from spookid.stepping.one_step import Equations, OneStep
    from spookid.stepping.spook import Spook
    from spookid.stepping.variational import Variational
    from spookid.studies.motion_limits import MotionLimits
    from spookid.studies.sweep_points import Sweep


def __getattr__(name: str) -> Any:
    if name == "robots":
        return import_module("spookid.robots")
    if name not in _HOME:
        raise AttributeError(f"module 'spookid' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
