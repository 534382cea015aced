"""Identify the parameters of a mechanism from measured motion.

Declare bodies, hinges and motors with ``Parameter``s where numbers are not known, add recordings and observations, and
``problem.solve()``. See the README for a tour.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spookid.version import __version__ as __version__

_HOME = {
    "Accelerometer": "data.inertial_sensors",
    "Body": "mechanics.body",
    "Bound": "mechanics.loads",
    "Contact": "mechanics.contact",
    "Coordinate": "mechanics.joints",
    "Equations": "stepping.one_step",
    "GROUND": "mechanics.body",
    "Gyroscope": "data.inertial_sensors",
    "Hinge": "mechanics.joints",
    "HingeAngle": "data.sensors",
    "Joint": "mechanics.joints",
    "JointForce": "data.effort_sensors",
    "JointPosition": "data.sensors",
    "JointRate": "data.sensors",
    "JointTorque": "data.effort_sensors",
    "Load": "mechanics.loads",
    "Manifold": "mechanics.manifold",
    "Model": "mechanics.model",
    "Motor": "mechanics.motor",
    "Observation": "data.sensors",
    "OneStep": "stepping.one_step",
    "Orientation": "data.inertial_sensors",
    "Parameter": "parameter",
    "PointDistance": "data.sensors",
    "PointLoad": "mechanics.point_loads",
    "PointPosition": "data.sensors",
    "Problem": "problem",
    "ProblemError": "errors",
    "Recording": "data.recording",
    "Residual": "data.residual",
    "Sensor": "data.channels",
    "Solution": "solution",
    "Spook": "stepping.spook",
    "State": "data.state",
    "Status": "solvers.status",
    "Stepper": "stepping.base",
    "Sweep": "studies.sweep_points",
    "Variational": "stepping.variational",
    "gravity": "mechanics.model",
    "load": "solution",
    "load_problem": "problem",
    "sweep": "report.sweep",
    "tilted_gravity": "mechanics.model",
}
"""Public names and the modules they live in. They are imported on first use: CasADi takes a while to load."""

__all__ = [
    "GROUND",
    "Accelerometer",
    "Body",
    "Bound",
    "Contact",
    "Coordinate",
    "Equations",
    "Gyroscope",
    "Hinge",
    "HingeAngle",
    "Joint",
    "JointForce",
    "JointPosition",
    "JointRate",
    "JointTorque",
    "Load",
    "Manifold",
    "Model",
    "Motor",
    "Observation",
    "OneStep",
    "Orientation",
    "Parameter",
    "PointDistance",
    "PointLoad",
    "PointPosition",
    "Problem",
    "ProblemError",
    "Recording",
    "Residual",
    "Sensor",
    "Solution",
    "Spook",
    "State",
    "Status",
    "Stepper",
    "Sweep",
    "Variational",
    "gravity",
    "load",
    "load_problem",
    "sweep",
    "tilted_gravity",
]

if TYPE_CHECKING:
    from spookid.data.channels import Sensor
    from spookid.data.effort_sensors import JointForce, JointTorque
    from spookid.data.inertial_sensors import Accelerometer, Gyroscope, Orientation
    from spookid.data.recording import Recording
    from spookid.data.residual import Residual
    from spookid.data.sensors import HingeAngle, JointPosition, JointRate, Observation, PointDistance, PointPosition
    from spookid.data.state import State
    from spookid.errors import ProblemError
    from spookid.mechanics.body import GROUND, Body
    from spookid.mechanics.contact import Contact
    from spookid.mechanics.joints import Coordinate, Hinge, Joint
    from spookid.mechanics.loads import Bound, Load
    from spookid.mechanics.manifold import Manifold
    from spookid.mechanics.model import Model, gravity, tilted_gravity
    from spookid.mechanics.motor import Motor
    from spookid.mechanics.point_loads import PointLoad
    from spookid.parameter import Parameter
    from spookid.problem import Problem, load_problem
    from spookid.report.sweep import sweep
    from spookid.solution import Solution, load
    from spookid.solvers.status import Status
    from spookid.stepping.base import Stepper
    from spookid.stepping.one_step import Equations, OneStep
    from spookid.stepping.spook import Spook
    from spookid.stepping.variational import Variational
    from spookid.studies.sweep_points import Sweep


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spookid' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
