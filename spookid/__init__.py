"""Identify the parameters of a mechanism from measured motion.

Declare bodies, hinges and motors with ``Parameter``s where numbers are not known, add recordings and observations, and
``problem.solve()``. See docs/guide.md for a tour.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spookid.version import __version__ as __version__

_NAMES = {
    "assembly.loading": "load_problem",
    "assembly.problem": "Problem",
    "data.channels": "Sensor",
    "data.energy": "EnergyBalance",
    "data.losses": "RobustLoss StudentT",
    "data.inertial_sensors": "Accelerometer Gyroscope Orientation",
    "data.recording": "Recording RecordingFiles",
    "data.residual": "Holonomic Nonholonomic Residual",
    "data.sensors": "HingeAngle JointForce JointPosition JointRate JointTorque Observation PointDistance PointPosition",
    "data.state": "State",
    "errors": "ProblemError",
    "mechanics.body": "Body GROUND PointMasses gravity tilted_gravity",
    "mechanics.coefficients": "Asymmetric Coordinate Fourier",
    "mechanics.constraints": "Constraint Coupling Distance Gear",
    "mechanics.contacts": "Contact Impact PointContact Weld",
    "mechanics.elastic": "Elastic",
    "mechanics.friction_loads": "ContinuousFriction Drag Friction Viscous",
    "mechanics.gear_friction": "GearFriction",
    "mechanics.hidden": "RandomWalk Signal",
    "mechanics.inertia": "FullInertia",
    "mechanics.inertia_coordinates": "Ellipsoid ExponentialEigenvalue LogCholesky",
    "mechanics.joint_kinds": "Cylindrical Fixed PinInSlot Planar Prismatic Screw Spherical Universal",
    "mechanics.joints": "Hinge Joint",
    "mechanics.loads": "Backlash Bound Effort Load Spring",
    "mechanics.manifold": "Manifold",
    "mechanics.model": "Model",
    "mechanics.motor": "Motor",
    "mechanics.servo": "DCDrive Servo",
    "mechanics.point_loads": "PointDrag PointForce PointLoad PointTorque Propeller SpringDamper",
    "mechanics.relations": "Relation mirrored total_mass",
    "parameter": "Parameter",
    "report.export": "load",
    "results.findings": "Finding",
    "results.result": "Cost Estimate Noise Solution",
    "results.trajectory": "Trajectory",
    "smoothing.monitor": "Monitor",
    "smoothing.smoother": "FixedLagSmoother",
    "solvers.levenberg_marquardt": "LevenbergMarquardt",
    "solvers.status": "Status",
    "stepping.base": "Stepper",
    "stepping.one_step": "Equations OneStep",
    "stepping.simulation": "StepFailedError",
    "stepping.spook": "Spook",
    "stepping.variational": "Variational",
    "studies.joint_fit": "solve_jointly",
    "studies.motion_limits": "MotionLimits",
    "studies.sweep_points": "Sweep",
    "studies.sweeping": "sweep",
}
"""Public names by the modules they live in. They are imported on first use: CasADi takes a while to load."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from spookid import robots as robots
    from spookid.assembly.loading import load_problem as load_problem
    from spookid.assembly.problem import Problem as Problem
    from spookid.data.channels import Sensor as Sensor
    from spookid.data.energy import EnergyBalance as EnergyBalance
    from spookid.data.inertial_sensors import Accelerometer as Accelerometer
    from spookid.data.inertial_sensors import Gyroscope as Gyroscope
    from spookid.data.inertial_sensors import Orientation as Orientation
    from spookid.data.losses import RobustLoss as RobustLoss
    from spookid.data.losses import StudentT as StudentT
    from spookid.data.recording import Recording as Recording
    from spookid.data.recording import RecordingFiles as RecordingFiles
    from spookid.data.residual import Holonomic as Holonomic
    from spookid.data.residual import Nonholonomic as Nonholonomic
    from spookid.data.residual import Residual as Residual
    from spookid.data.sensors import HingeAngle as HingeAngle
    from spookid.data.sensors import JointForce as JointForce
    from spookid.data.sensors import JointPosition as JointPosition
    from spookid.data.sensors import JointRate as JointRate
    from spookid.data.sensors import JointTorque as JointTorque
    from spookid.data.sensors import Observation as Observation
    from spookid.data.sensors import PointDistance as PointDistance
    from spookid.data.sensors import PointPosition as PointPosition
    from spookid.data.state import State as State
    from spookid.errors import ProblemError as ProblemError
    from spookid.mechanics.body import GROUND as GROUND
    from spookid.mechanics.body import Body as Body
    from spookid.mechanics.body import PointMasses as PointMasses
    from spookid.mechanics.body import gravity as gravity
    from spookid.mechanics.body import tilted_gravity as tilted_gravity
    from spookid.mechanics.coefficients import Asymmetric as Asymmetric
    from spookid.mechanics.coefficients import Coordinate as Coordinate
    from spookid.mechanics.coefficients import Fourier as Fourier
    from spookid.mechanics.constraints import Constraint as Constraint
    from spookid.mechanics.constraints import Coupling as Coupling
    from spookid.mechanics.constraints import Distance as Distance
    from spookid.mechanics.constraints import Gear as Gear
    from spookid.mechanics.contacts import Contact as Contact
    from spookid.mechanics.contacts import Impact as Impact
    from spookid.mechanics.contacts import PointContact as PointContact
    from spookid.mechanics.contacts import Weld as Weld
    from spookid.mechanics.elastic import Elastic as Elastic
    from spookid.mechanics.friction_loads import ContinuousFriction as ContinuousFriction
    from spookid.mechanics.friction_loads import Drag as Drag
    from spookid.mechanics.friction_loads import Friction as Friction
    from spookid.mechanics.friction_loads import Viscous as Viscous
    from spookid.mechanics.gear_friction import GearFriction as GearFriction
    from spookid.mechanics.hidden import RandomWalk as RandomWalk
    from spookid.mechanics.hidden import Signal as Signal
    from spookid.mechanics.inertia import FullInertia as FullInertia
    from spookid.mechanics.inertia_coordinates import Ellipsoid as Ellipsoid
    from spookid.mechanics.inertia_coordinates import ExponentialEigenvalue as ExponentialEigenvalue
    from spookid.mechanics.inertia_coordinates import LogCholesky as LogCholesky
    from spookid.mechanics.joint_kinds import Cylindrical as Cylindrical
    from spookid.mechanics.joint_kinds import Fixed as Fixed
    from spookid.mechanics.joint_kinds import PinInSlot as PinInSlot
    from spookid.mechanics.joint_kinds import Planar as Planar
    from spookid.mechanics.joint_kinds import Prismatic as Prismatic
    from spookid.mechanics.joint_kinds import Screw as Screw
    from spookid.mechanics.joint_kinds import Spherical as Spherical
    from spookid.mechanics.joint_kinds import Universal as Universal
    from spookid.mechanics.joints import Hinge as Hinge
    from spookid.mechanics.joints import Joint as Joint
    from spookid.mechanics.loads import Backlash as Backlash
    from spookid.mechanics.loads import Bound as Bound
    from spookid.mechanics.loads import Effort as Effort
    from spookid.mechanics.loads import Load as Load
    from spookid.mechanics.loads import Spring as Spring
    from spookid.mechanics.manifold import Manifold as Manifold
    from spookid.mechanics.model import Model as Model
    from spookid.mechanics.motor import Motor as Motor
    from spookid.mechanics.point_loads import PointDrag as PointDrag
    from spookid.mechanics.point_loads import PointForce as PointForce
    from spookid.mechanics.point_loads import PointLoad as PointLoad
    from spookid.mechanics.point_loads import PointTorque as PointTorque
    from spookid.mechanics.point_loads import Propeller as Propeller
    from spookid.mechanics.point_loads import SpringDamper as SpringDamper
    from spookid.mechanics.relations import Relation as Relation
    from spookid.mechanics.relations import mirrored as mirrored
    from spookid.mechanics.relations import total_mass as total_mass
    from spookid.mechanics.servo import DCDrive as DCDrive
    from spookid.mechanics.servo import Servo as Servo
    from spookid.parameter import Parameter as Parameter
    from spookid.report.export import load as load
    from spookid.results.findings import Finding as Finding
    from spookid.results.result import Cost as Cost
    from spookid.results.result import Estimate as Estimate
    from spookid.results.result import Noise as Noise
    from spookid.results.result import Solution as Solution
    from spookid.results.trajectory import Trajectory as Trajectory
    from spookid.smoothing.monitor import Monitor as Monitor
    from spookid.smoothing.smoother import FixedLagSmoother as FixedLagSmoother
    from spookid.solvers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
    from spookid.solvers.status import Status as Status
    from spookid.stepping.base import Stepper as Stepper
    from spookid.stepping.one_step import Equations as Equations
    from spookid.stepping.one_step import OneStep as OneStep
    from spookid.stepping.simulation import StepFailedError as StepFailedError
    from spookid.stepping.spook import Spook as Spook
    from spookid.stepping.variational import Variational as Variational
    from spookid.studies.joint_fit import solve_jointly as solve_jointly
    from spookid.studies.motion_limits import MotionLimits as MotionLimits
    from spookid.studies.sweep_points import Sweep as Sweep
    from spookid.studies.sweeping import sweep as sweep


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
