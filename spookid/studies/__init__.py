"""What is asked of a declared problem beyond one fit: simulation, profiles, cross-validation, time-step audits,
regressions, and the motion to make next.

``sweep`` writes folders, and so stands with the reports: ``spookid.sweep``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "audit": "auditing",
    "crossvalidate": "crossvalidation",
    "excite": "excitation",
    "expected_errors": "expected",
    "inverse_dynamics": "motor_efforts",
    "payload": "payloads",
    "profile": "profiling",
    "regress": "regression",
    "simulate": "simulating",
}
"""Public names and the modules they live in, imported on first use as those of ``spookid`` are."""

__all__ = [
    "audit",
    "crossvalidate",
    "excite",
    "expected_errors",
    "inverse_dynamics",
    "payload",
    "profile",
    "regress",
    "simulate",
]

if TYPE_CHECKING:
    from spookid.studies.auditing import audit
    from spookid.studies.crossvalidation import crossvalidate
    from spookid.studies.excitation import excite
    from spookid.studies.expected import expected_errors
    from spookid.studies.motor_efforts import inverse_dynamics
    from spookid.studies.payloads import payload
    from spookid.studies.profiling import profile
    from spookid.studies.regression import regress
    from spookid.studies.simulating import simulate


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spookid.studies' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.studies.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
