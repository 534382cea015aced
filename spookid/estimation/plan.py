"""The plan of a fit: its stages, in order, each with the condition on which it belongs there.

A fit prepares its samples, passes through these stages, and is diagnosed on request. Stages change the start, the
noise, the friction or the step. The assembly of a problem is built once for each length of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from spookid.assembly.problem import Problem
from spookid.estimation import continuation
from spookid.estimation.disturbances import unexplained_findings
from spookid.estimation.estimator_choice import choose_estimator
from spookid.estimation.extrapolation import FINER, corrected
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.friction_width import with_estimated_widths
from spookid.estimation.gaps import across, has_gaps, parts_of
from spookid.estimation.noise_components import with_components
from spookid.estimation.outliers import judge_samples, revision, with_outliers
from spookid.estimation.starts import (
    asking_on_the_way,
    continuous_laws,
    free_delays,
    with_better_friction,
    with_delays_at_rest,
    with_explained_motion,
    with_impacts_at_rest,
    with_noise_first,
)
from spookid.estimation.suspects import Wrong, is_robust, without_outliers
from spookid.estimation.work import Work, as_begun, asked_from, holds_pairs, starting_from
from spookid.mechanics.contacts import Impact
from spookid.records import dataclass
from spookid.results.result import Solution
from spookid.results.values import StageRecord
from spookid.stepping.base import DETERMINISTIC
from spookid.tables.table import Block, Table, Tabular, counted, number, seconds


@dataclass(frozen=True)
class Stage:
    """A part of a plan."""

    name: str
    """As in ``StageRecord.stage``."""
    words: str
    """What is done."""
    belongs: Callable[[Work], bool]
    """Whether a problem asks for it, before anything is fitted."""
    run: Callable[[Work], object]
    due: str = ""
    """On which condition it fits something, in words; empty: always."""


def _parts(work: Work) -> None:
    parts = lead(work.beside(parts_of(work.problem)))
    work.fit = parts.fit
    if parts.fit is not None and not parts.stopped:
        across(work, parts.fit)


def _plain(work: Work) -> None:
    """A scale first, then estimates by it, as MM-estimators do (Yohai, Annals of Statistics 15, 1987), for together
    they have several maxima."""
    plain = lead(work.beside(without_outliers(work.problem)))
    assert plain.fit is not None
    work.fit, work.near, work.hold = plain.fit, plain.fit.result, True
    work.problem, noise = as_begun(work.problem), plain.fit.result.noise
    work.remarks.append(lambda answer: answer.changed(noise=noise))


def _noise(work: Work) -> None:
    if _is_staged(work):
        continuation.begin(work)
        return
    work.problem, work.near = starting_from(work.problem, work.near)
    rough = not holds_pairs(work.solver) and work.problem.corrects and not free_delays(work.problem)
    start = Start(work.near, work.problem.given, hold=work.hold, roughly=rough, revised=revision(work))
    told, work.callback = work.callback, asking_on_the_way(work)
    work.fit = work.run(work.problem, start, work.fit)
    work.callback = told


def _settle(work: Work, found: Fit) -> Fit:
    found = with_impacts_at_rest(work, with_delays_at_rest(work, found))
    if free_delays(work.problem):
        work.problem = work.problem.with_(initial=found.assembly.problem.initial)
        work.found = found.told()
        work.noise = work.noise and work.found  # sticking friction keeps that of the last smooth fit
    return found


def _samples(work: Work) -> None:
    if not work.misread and judge_samples(work):
        if _is_staged(work):
            work.noise = None
            continuation.go(work, continuation.smoothed(work.problem), work.leader)
        else:
            work.fit = work.run(work.problem, Start(work.found, hold=work.hold), work.fit)


def _contradicted(work: Work, found: Fit) -> bool:
    """True if a unit is wrong or process noise exceeds all that acts: no other estimator or step makes an answer."""
    return work.misread or (work.doubted and bool(unexplained_findings(found.assembly, found.point, found.motion)))


def _widths(work: Work, found: Fit) -> Fit:
    return found if _contradicted(work, found) else with_estimated_widths(work, found)


def _choose(work: Work, found: Fit) -> Fit:
    return work.finished(found) if _contradicted(work, found) else choose_estimator(work, found)


def _correct(work: Work, found: Fit) -> Fit:
    if _contradicted(work, found):
        return work.finished(found)
    work.answer = corrected(work, found)
    return found


def _on_fit(other: Callable[[Work, Fit], Fit]) -> Callable[[Work], None]:
    """What a stage does that may take another fit in the place of the one that was found."""

    def run(work: Work) -> None:
        if work.fit is not None:
            work.fit = other(work, work.fit)

    return run


def _is_likelihood(work: Work) -> bool:
    return work.problem.estimates_noise and not _is_staged(work)


def _is_staged(work: Work) -> bool:
    return continuation.is_staged(work.problem, work.solver)


LEADING = (
    Stage("noise", "motion, parameters and noise", lambda w: not continuation.touches(w.problem), _noise),
    Stage(
        "process noise",
        "with process noise, then again without it,",
        lambda w: w.begins and _is_likelihood(w) and w.problem.is_hard,
        _on_fit(with_noise_first),
        "if deterministic dynamics did not converge",
    ),
    Stage(
        "delays and impacts",
        "around the delays and impacts that were found,",
        lambda w: bool(free_delays(w.problem)) or any(isinstance(c, Impact) for c in w.problem.model.holding.contacts),
        _on_fit(_settle),
        "until they stand still",
    ),
    Stage(
        "small noise",
        "again at small noise, then with its own,",
        lambda w: w.begins and _is_likelihood(w),
        _on_fit(with_explained_motion),
        "if noise took the place of the motion",
    ),
    Stage(
        "friction law",
        "from other velocities of the friction law,",
        lambda w: _is_likelihood(w) and bool(continuous_laws(w.problem)),
        _on_fit(with_better_friction),
        "if they explain the motion better",
    ),
)
"""Stages that find the motion and the noise."""

STAGES = (
    Stage(
        "parts",
        "the parts beside long gaps, then the whole across them",
        lambda w: w.begins and has_gaps(w.problem),
        _parts,
    ),
    Stage(
        "plain losses",
        "without robust losses and the samples that stand out",
        lambda w: w.begins and any(map(is_robust, w.problem.channels)),
        _plain,
    ),
    *LEADING,
    Stage(
        "samples",
        "again with other samples left out,",
        lambda w: w.whole is not None,
        _samples,
        "if others are outliers",
    ),
    Stage(
        "sensor noise",
        "with samples weighted by the rate of the signal, or adjusted for heavy tails,",
        lambda w: any(channel.is_adjusted for channel in w.problem.channels),
        _on_fit(with_components),
        "until the likelihood converges",
    ),
    Stage(
        "friction width",
        "with the widths of smooth friction as unknowns, then at what they are",
        lambda w: w.widths,
        _on_fit(_widths),
    ),
    Stage(
        "sticking",
        "sharper and sharper friction, then friction that sticks",
        lambda w: continuation.sticks(w.problem),
        continuation.stick,
    ),
    Stage(
        "contacts",
        "contact times from the data, then from the contact law",
        lambda w: continuation.touches(w.problem),
        continuation.touch,
    ),
    Stage(
        "constraints",
        "with inequalities, or the stepper that was asked for",
        lambda w: _is_staged(w) and not (continuation.touches(w.problem) or continuation.sticks(w.problem)),
        continuation.held_by_pairs,
    ),
    Stage(
        "deterministic dynamics",
        "with correlated noise of sensors, then without process noise,",
        lambda w: _is_likelihood(w) and DETERMINISTIC not in w.problem.scheme.refuses,
        _on_fit(_choose),
        "if that found is not white",
    ),
    Stage(
        FINER,
        "with half the step, then with the step at its noise",
        lambda w: w.problem.corrects,
        _on_fit(_correct),
    ),
)
"""Of a solve, in order."""


def lead(work: Work) -> Work:
    """Work with preliminary estimates of its motion and noise."""
    return through(work, LEADING)


def through(work: Work, stages: Sequence[Stage]) -> Work:
    """Work after given stages, unless it is interrupted."""
    for stage in stages:
        if work.stopped:
            break
        if stage.belongs(work):
            with work.stage(stage.name):
                stage.run(work)
    return work


def answered(work: Work, asked: Problem) -> Solution:
    """Result of all stages, in the form that the user asked for."""
    assert work.fit is not None
    answer = work.answer or work.polished(work.fit).told()
    for remark in () if work.stopped else reversed(work.remarks):
        answer = remark(answer)
    if work.stopped:  # maybe in a fit with smooth friction, or another solver
        answer = answer.changed(backend=work.solver.name, stepper=asked.stepper.name, friction=asked.friction)
    wrong: Wrong = work.suspects if work.whole else ()
    fit = None if _is_staged(work) or work.stopped else work.fit
    answer = with_outliers(asked, wrong, asked_from(asked, answer), fit)
    return answer.changed(stages=tuple(work.records))


@dataclass(frozen=True)
class Plan(Tabular):
    """Plan of a solve: its stages, and the fits that were made."""

    problem: str
    """Its name."""
    stages: tuple[Stage, ...]
    """Those that belong to it."""
    fits: tuple[StageRecord, ...] = ()
    """What was fitted; none before."""

    @classmethod
    def of(cls, work: Work) -> Plan:
        """Before anything is fitted."""
        return cls(work.problem.name, tuple(stage for stage in STAGES if stage.belongs(work)))

    def done(self, found: Solution) -> Plan:
        """Plan with the fits of a result."""
        return replace(self, fits=found.stages)

    def blocks(self) -> Sequence[Block]:
        """Table of the stages and of the fits made in them."""
        rows = [(one.name, " ".join(filter(None, [one.words, one.due]))) for one in self.stages]
        planned: list[Block] = [f"Plan of {self.problem}", Table(("stage", "what is fitted"), rows, left=(0, 1))]
        if not self.fits:
            return planned
        made = [
            (one.stage, number(one.step), one.solver, str(one.iterations), seconds(one.seconds), one.status.value)
            for one in self.fits
        ]
        anew = sum(one.assembled for one in self.fits)
        told = f"{counted(len(self.fits), 'fit')} on {anew} {'assembly' if anew == 1 else 'assemblies'}"
        head = ("fit of stage", "h [s]", "solver", "iterations", "time", "status")
        return [*planned, Table(head, made, left=(0, 2, 5)), told]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each fit, or before any for each stage."""
        if self.fits:
            return [asdict(one) for one in self.fits]
        return [{"stage": one.name, "what": one.words, "when": one.due or "always"} for one in self.stages]
