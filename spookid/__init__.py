"""Identify the parameters of a mechanism from measured motion.

Declare bodies, hinges and motors with ``Parameter``s where numbers are not known, add recordings and observations, and
``problem.solve()``. See the README for a tour.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Body": "mechanics.body",
    "Contact": "mechanics.contact",
    "GROUND": "mechanics.body",
    "Hinge": "mechanics.joints",
    "HingeAngle": "data.sensors",
    "Model": "mechanics.model",
    "Motor": "mechanics.joints",
    "Observation": "data.sensors",
    "Parameter": "parameter",
    "Problem": "problem",
    "PointPosition": "data.sensors",
    "ProblemError": "errors",
    "Recording": "data.recording",
    "Solution": "results.solution",
    "Spook": "stepping.spook",
    "Status": "solvers.status",
    "Sweep": "studies.sweep_points",
    "Variational": "stepping.variational",
    "gravity": "mechanics.model",
    "load": "report.export",
    "load_problem": "assembly.loading",
    "sweep": "report.sweep",
    "tilted_gravity": "mechanics.model",
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
    from spookid.assembly.loading import load_problem
    from spookid.data.recording import Recording
    from spookid.data.sensors import HingeAngle, Observation, PointPosition
    from spookid.errors import ProblemError
    from spookid.mechanics.body import GROUND, Body
    from spookid.mechanics.contact import Contact
    from spookid.mechanics.joints import Hinge, Motor
    from spookid.mechanics.model import Model, gravity, tilted_gravity
    from spookid.parameter import Parameter
    from spookid.problem import Problem
    from spookid.report.export import load
    from spookid.report.sweep import sweep
    from spookid.results.solution import Solution
    from spookid.solvers.status import Status
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
