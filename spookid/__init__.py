"""Identify the parameters of a mechanism from measured motion.

Declare bodies, hinges and motors with ``Parameter``s where numbers are not known, add recordings and observations, and
``problem.solve()``. See the README for a tour.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Body": "body",
    "Contact": "contacts",
    "GROUND": "body",
    "Hinge": "joints",
    "HingeAngle": "observations",
    "Model": "model",
    "Motor": "joints",
    "Observation": "observations",
    "Parameter": "parameter",
    "Problem": "problem",
    "PointPosition": "observations",
    "ProblemError": "errors",
    "Recording": "recording",
    "Solution": "solution",
    "Spook": "steppers.spook",
    "Status": "solvers.status",
    "Sweep": "sweep_points",
    "Variational": "steppers.variational",
    "gravity": "model",
    "load": "export",
    "load_problem": "loading",
    "sweep": "sweeping",
    "tilted_gravity": "model",
}
"""Public names and the modules they live in. They are imported on first use: CasADi takes a while to load."""

__all__ = [
    "GROUND",
    "Body",
    "Contact",
    "Hinge",
    "HingeAngle",
    "Model",
    "Motor",
    "Observation",
    "Parameter",
    "PointPosition",
    "Problem",
    "ProblemError",
    "Recording",
    "Solution",
    "Spook",
    "Status",
    "Sweep",
    "Variational",
    "gravity",
    "load",
    "load_problem",
    "sweep",
    "tilted_gravity",
]

if TYPE_CHECKING:
    from spookid.body import GROUND, Body
    from spookid.contacts import Contact
    from spookid.errors import ProblemError
    from spookid.export import load
    from spookid.joints import Hinge, Motor
    from spookid.loading import load_problem
    from spookid.model import Model, gravity, tilted_gravity
    from spookid.observations import HingeAngle, Observation, PointPosition
    from spookid.parameter import Parameter
    from spookid.problem import Problem
    from spookid.recording import Recording
    from spookid.solution import Solution
    from spookid.solvers.status import Status
    from spookid.steppers.spook import Spook
    from spookid.steppers.variational import Variational
    from spookid.sweep_points import Sweep
    from spookid.sweeping import sweep


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spookid' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
