"""What is asked of a declared problem beyond one fit: simulation, profiles, cross-validation, time-step audits,
regressions, sweeps, and the motion to make next. ``Study`` declares another one to the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Answer": "report.study_page",
    "Job": "studies.job",
    "NonlinearProgram": "studies.nonlinear_program",
    "Study": "registry",
    "Table": "tables.table",
    "Card": "studies.verification",
    "audit": "studies.auditing",
    "card": "studies.verification",
    "crossvalidate": "studies.crossvalidation",
    "excite": "studies.excitation",
    "expected_errors": "studies.expected",
    "inverse_dynamics": "studies.motor_efforts",
    "ladder": "studies.nested_models",
    "payload": "studies.payloads",
    "profile": "studies.profiling",
    "randomize": "studies.posterior_draws",
    "register": "registry",
    "regress": "studies.regression",
    "simulate": "studies.simulating",
    "verify": "studies.verification",
}
"""Modules of public names, imported on first use as those of ``spookid`` are."""
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from spookid.registry import Study as Study
    from spookid.registry import register as register
    from spookid.report.study_page import Answer as Answer
    from spookid.studies.auditing import audit as audit
    from spookid.studies.crossvalidation import crossvalidate as crossvalidate
    from spookid.studies.excitation import excite as excite
    from spookid.studies.expected import expected_errors as expected_errors
    from spookid.studies.job import Job as Job
    from spookid.studies.motor_efforts import inverse_dynamics as inverse_dynamics
    from spookid.studies.nested_models import ladder as ladder
    from spookid.studies.nonlinear_program import NonlinearProgram as NonlinearProgram
    from spookid.studies.payloads import payload as payload
    from spookid.studies.posterior_draws import randomize as randomize
    from spookid.studies.profiling import profile as profile
    from spookid.studies.regression import regress as regress
    from spookid.studies.simulating import simulate as simulate
    from spookid.studies.verification import Card as Card
    from spookid.studies.verification import card as card
    from spookid.studies.verification import verify as verify
    from spookid.tables.table import Table as Table


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spookid.studies' has no attribute {name!r}")
    value = getattr(import_module(f"spookid.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
