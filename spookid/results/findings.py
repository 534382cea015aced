"""What a user should know of a fit, as data: which code it has, what it is about, and what to do.

``KINDS`` lists all codes, what changes the answer first and remarks on the set-up last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

from spookid.records import dataclass
from spookid.tables.table import Listed

Severity = Literal["error", "warning", "note"]
"""No answer; estimates or their errors are doubtful; nothing has to be done."""


class _Kind(NamedTuple):
    severity: Severity
    doubts: bool = False
    explains: tuple[str, ...] = ()
    """Codes of its effects, which need not be reported beside it."""


_DOUBT = _Kind("warning", doubts=True)
_WARNING, _NOTE = _Kind("warning"), _Kind("note")

KINDS: Mapping[str, _Kind] = {
    "question.duplicate": _WARNING,
    "question.unit": _WARNING,
    "question.clock": _WARNING,
    "question.model": _WARNING,
    "fit.stopped": _Kind("error"),
    "sensors.late-or-off": _DOUBT,
    # With noise of another size nothing can be said of model errors.
    "noise.given-refuted": _DOUBT._replace(
        explains=("motion.unexplained", "residuals.autocorrelated", "residuals.excess")
    ),
    "motion.unexplained": _Kind("error", doubts=True),
    "contacts.schedule": _DOUBT,
    "contacts.plane": _WARNING,
    "mechanism.immobile": _WARNING,
    "residuals.autocorrelated": _DOUBT._replace(explains=("errors.white-noise",)),
    "recording.gap": _DOUBT,
    "residuals.excess": _DOUBT,
    "mass.vanished": _WARNING,
    "parameters.negative": _WARNING,
    "samples.outliers": _WARNING,
    "samples.saturated": _WARNING,
    "sensors.overfitted": _WARNING,
    "parameters.undetermined": _WARNING,
    "estimators.differ": _WARNING,
    "recordings.differ": _WARNING,
    "noise.not-converged": _WARNING,
    "friction.smooth-better": _WARNING,
    "friction.direction-unknown": _WARNING,
    "input.between-samples": _WARNING,
    "constraints.contradicted": _WARNING,
    "prior.contradicted": _WARNING,
    "prior.misweighted": _WARNING,
    "inertia.unphysical": _WARNING,
    "errors.white-noise": _WARNING,
    "step.error": _WARNING,
    "step.extrapolated": _NOTE,
    "contacts.unsettled": _WARNING,
    "delay.correlated": _WARNING,
    "fit.recordings": _NOTE,
    "weight.paper": _WARNING,
    "stepper.rigid": _NOTE,
    "step.uncorrected": _WARNING,
    "step.chosen": _NOTE,
    "contacts.idle": _WARNING,
    "recording.changed": _NOTE,
    "start.unobserved": _NOTE,
    "start.inferred": _NOTE,
    "input.zero": _WARNING,
    "constraints.redundant": _NOTE,
    "kernels.slow": _NOTE,
    "base-parameters.limited": _NOTE,
    "residuals.no-effect": _NOTE,
    "noise.correlated": _NOTE,
    "noise.distribution": _NOTE,
    "result.incomplete": _WARNING,
    "result.earlier": _NOTE,
    # Of payloads:
    "payload.misfit": _Kind("error", doubts=True),
    "payload.negative-mass": _DOUBT,
    "payload.arm": _WARNING,
    "payload.short": _WARNING,
    "payload.scale": _WARNING,
    "payload.remark": _NOTE,
    # Of estimates while samples come:
    "start.not-converged": _WARNING,
    "noise.step-unknown": _WARNING,
    "residuals.grown": _WARNING,
    "input.stopped": _WARNING,
    "samples.late": _WARNING,
    "samples.crowded": _WARNING,
    "constraints.left-branch": _WARNING,
}
"""By code, in the order of rank."""
_RANKS = {code: rank for rank, code in enumerate(KINDS)}


@dataclass(frozen=True)
class Finding(Listed):
    """Warning or note about a fit or about the set-up of a problem.

    >>> codes = [finding.code for finding in solution.findings if finding.severity == "warning"]
    """

    code: str
    """Code of the kind, such as ``"residuals.autocorrelated"``: the name that programs and the documentation use."""
    subject: tuple[str, ...] = ()
    """Names of the parameters, signals, joints or recordings concerned."""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The numbers behind it by name, as JSON can hold them."""
    effect: str = ""
    """Observation, and its effect on the result."""
    cause: str = ""
    """Possible causes."""
    advice: str = ""
    """Remedy."""

    also = ("severity",)

    @property
    def title(self) -> str:
        """Its code."""
        return self.code

    @property
    def severity(self) -> Severity:
        """ "error" if there is no answer, "warning" if estimates or errors are doubtful, else "note"."""
        return KINDS.get(self.code, _NOTE).severity

    @property
    def doubts(self) -> bool:
        """True if this finding makes estimates and standard errors meaningless."""
        return KINDS.get(self.code, _NOTE).doubts

    @property
    def text(self) -> str:
        """All of it in sentences."""
        return " ".join(filter(None, (self.effect, self.cause, self.advice)))


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by rank, without duplicates, and without findings that another one explains."""
    found = dict.fromkeys(findings)
    explained = {code for one in found if one.code in KINDS for code in KINDS[one.code].explains}
    kept = [one for one in found if one.code not in explained]
    return tuple(sorted(kept, key=lambda one: _RANKS.get(one.code, len(_RANKS))))
