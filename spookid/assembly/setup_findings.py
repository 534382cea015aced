"""What a user should know about how a problem was set up, before any fit."""

from __future__ import annotations

from collections.abc import Sequence

from spookid.assembly.checks import given_inertias, welded_findings
from spookid.assembly.declaration import Declaration
from spookid.assembly.sampled_recording import SampledRecording
from spookid.assembly.schedules import idle_findings
from spookid.data.interpolation import SHARE
from spookid.results.findings import Finding, ranked


def setup_findings(problem: Declaration, sampled: Sequence[SampledRecording]) -> tuple[Finding, ...]:
    """Of a problem and the samples of its recordings, by rank."""
    found = [*_rigid(problem), *_uncorrected(problem), *step_chosen(problem), *given_inertias(problem.model)]
    found += welded_findings(problem, sampled[0].guess.states)
    found += idle_findings(problem.model, [(one.recording, one.held) for one in sampled])
    for recording in problem.recordings:
        found += (Finding("recording.changed", (recording.name,), effect=note) for note in recording.notes)
    return ranked([*found, *(finding for one in sampled for finding in one.guess.findings)])


def _rigid(problem: Declaration) -> list[Finding]:
    """That joints are not as compliant as declared, in a stepper whose joints are rigid."""
    soft = tuple(problem.stepper.stiffened(problem.model))
    effect = f"Joints are rigid in this stepper: compliance and damping of {', '.join(soft)} are ignored."
    return [Finding("stepper.rigid", soft, effect=effect)] if soft else []


def step_chosen(problem: Declaration) -> list[Finding]:
    """That the step is the motion's, if it is."""
    if problem.step != problem.bandwidth_step:
        return []
    taken = ", taken from the estimates by a fit with half of it, whose samples and residuals are shown"
    effect = (
        f"The step of {problem.step:g} s is that of the motion's bandwidth: with it second-order errors are "
        f"{100 * SHARE:g} % of the efforts{taken if problem.corrects else ''}; step= sets another."
    )
    return [Finding("step.chosen", evidence={"step": problem.step}, effect=effect)]


def _uncorrected(problem: Declaration) -> list[Finding]:
    """That estimates are not those of continuous time although they were asked for."""
    asked = problem.estimates_noise and problem.stepper.corrects and problem.step_correction
    effect = (
        f"With {problem.uncorrected} estimates are those of steps of h = {problem.step:g} s; a smaller step tells what "
        "they add."
    )
    return [Finding("step.uncorrected", (), {"step": problem.step}, effect)] if asked and problem.uncorrected else []
