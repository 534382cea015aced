"""What is asked of a declared problem beyond one fit: simulation, profiles, cross-validation, time-step audits,
regressions, and the motion to make next.

``sweep`` writes folders, and so stands with the reports: ``spookid.sweep``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_NAMES = {
    "auditing": "audit",
    "crossvalidation": "crossvalidate",
    "excitation": "excite",
    "expected": "expected_errors",
    "motor_efforts": "inverse_dynamics",
    "payloads": "payload",
    "profiling": "profile",
    "regression": "regress",
    "simulating": "simulate",
}
"""Public names by the modules they live in, imported on first use as those of ``spookid`` are."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from spookid.studies.auditing import audit as audit
    from spookid.studies.crossvalidation import crossvalidate as crossvalidate
    from spookid.studies.excitation import excite as excite
    from spookid.studies.expected import expected_errors as expected_errors
    from spookid.studies.motor_efforts import inverse_dynamics as inverse_dynamics
    from spookid.studies.payloads import payload as payload
    from spookid.studies.profiling import profile as profile
    from spookid.studies.regression import regress as regress
    from spookid.studies.simulating import simulate as simulate


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spookid.studies' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.studies.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
