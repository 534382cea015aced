"""What a study of a command works with: a problem of a file, and fits that the command keeps.

What is done by the time a command is interrupted is kept beside its folder until this is written: the same command
continues there, to the same digits.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly.loading import load_problem, whole_path
from spookid.assembly.problem import Problem
from spookid.data.recording import RecordingFiles
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.files import remove
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Efforts
from spookid.parameter import placeholders_in, stacked
from spookid.report.export import keep, load
from spookid.results.folders import versions
from spookid.results.result import Solution
from spookid.solvers import resuming
from spookid.solvers.resuming import Journal, kept_in
from spookid.solvers.status import Status
from spookid.stepping.simulation import Progress
from spookid.studies.variants import STEPPERS, Variant

_SETTINGS = ("step", "state_weight", "estimator", "friction", "friction_width", "cutoff")
_SWEPT = (*_SETTINGS, "stepper", "backend", "max_iterations")


alone = threading.Lock()
"""Held by what works on a source, in a thread of a worker perhaps: CasADi's symbols do not bear several."""


@dataclass(frozen=True, eq=False)
class Source:
    """Problem and its changes; worker processes receive the path of the problem file and load the problem from it.

    Args:
        given: the problem; None in a worker.
        path: where workers find it, ``PROBLEM.py::key`` with an absolute path; None if only this process has it.
        expected: its digest where the work began; None here.
    """

    given: Problem | None
    path: str | None
    variant: Variant = field(default_factory=Variant)
    expected: str | None = None

    @classmethod
    def of(
        cls, problem: Problem | str | os.PathLike[str], initial: Mapping[str, float] | None, fixed: Iterable[str]
    ) -> Source:
        """Make a source from a problem or a problem file, with initial values and fixed parameters."""
        variant = Variant(initial=dict(initial or {}), fixed=tuple(fixed))
        if isinstance(problem, Problem):
            return cls(problem, None, variant)
        return cls(load_problem(problem), whole_path(problem), variant)

    @cached_property
    def problem(self) -> Problem:
        """As it was declared.

        Raises:
            ProblemError: in a worker, if its file is not what it was.
        """
        return self.given or _loaded(str(self.path), str(self.expected))

    @cached_property
    def digest(self) -> str:
        """See ``digest``."""
        return self.expected or digest(self.problem)

    @property
    def posed(self) -> tuple[Problem, str, dict[str, Any]]:
        """Changed problem, solver backend and solver options."""
        return self.variant.posed(self.problem)

    def identity(self, *more: object) -> str:
        """Hash of all inputs that determine a fit."""
        facts = (self.digest, repr(self.variant), sorted(versions().items()), *more)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def __reduce__(self) -> tuple[type[Source], tuple[None, str | None, Variant, str]]:
        return Source, (None, self.path, self.variant, self.digest)


@lru_cache(maxsize=1)
def _loaded(path: str, expected: str) -> Problem:
    problem = load_problem(path)
    if digest(problem) != expected:
        raise ProblemError(f"{path} is not what it was when the work began; start it again")
    return problem


@dataclass(frozen=True, eq=False)
class Job(ABC):
    """Work of a study on one problem, or on all problems, of a problem file."""

    problems: Mapping[str, Problem]
    """Those of the file, by their keys, that it is about: one, or all of them."""
    place: str
    """``PROBLEM.py::key``, or the file alone if it holds one."""
    path: str
    """``PROBLEM.py::key`` with an absolute path, where workers find it."""
    label: str
    """What messages call it."""
    out: Path | None
    """Its folder; None if nothing is to be written."""
    source: Path | None
    """The folder of results that it is to begin from, or to be set beside."""
    arguments: Namespace
    """Of the command."""
    executor: Executor | None
    """Works instead of worker processes."""

    @property
    def declared(self) -> Problem:
        """Problem as declared in its file."""
        return next(iter(self.problems.values()))

    @cached_property
    def problem(self) -> Problem:
        """Problem with the settings of the command line."""
        return changed(self.declared, self.arguments)

    @property
    def variant(self) -> Variant:
        """Changes by the command line, in a form that workers can receive."""
        known, arguments = self.declared.parameter_set.known, self.arguments
        given = {name: getattr(arguments, name, None) for name in _SWEPT}
        return Variant(
            settings={name: value for name, value in given.items() if value is not None},
            initial={name: value for name, value in arguments.set if name in known},
            fixed=tuple(name for name in getattr(arguments, "fix", ()) if name in known),
        )

    @property
    def sent(self) -> Source:
        """Problem in the form that workers can receive."""
        return Source(self.declared, self.path, self.variant)

    @property
    def folder(self) -> Path:
        """Path of the result folder of a study that always writes one."""
        assert self.out is not None
        return self.out

    @abstractmethod
    def fit(self, problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
        """Make one of several fits, or load this fit if an earlier run of the same command finished it.

        Args:
            near: a solution to begin from.
            doing: words for the progress line, after the label of the job.
            hold: True to keep the noise of that solution.

        Raises:
            KeyboardInterrupt: once the user has interrupted.
        """

    @abstractmethod
    def expect(self, fits: int) -> None:
        """Announce the expected number of fits, to predict the total time."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number of text columns of the terminal or file to which stdout writes."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Print a line on stdout, unless the option ``--quiet`` is set."""

    @abstractmethod
    def complain(self, text: str) -> None:
        """A line on stderr."""

    @abstractmethod
    def along(self, label: str) -> Progress:
        """Wrapper of an iteration over steps that shows progress."""

    @abstractmethod
    def counting(self, total: int, kept: str, doing: str = "") -> AbstractContextManager[Callable[[bool, bool], None]]:
        """Return a progress function, called for each of ``total`` points with flags "done before" and "done now".

        Args:
            kept: words after the number of done points if the user interrupts.
            doing: as of ``fit``.
        """


def changed(problem: Problem, arguments: Namespace) -> Problem:
    """Apply settings of the command line to a problem; initial values too, except for simulations."""
    given = {name: getattr(arguments, name, None) for name in _SETTINGS}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if arguments.stepper is not None:
        changes["stepper"] = STEPPERS[arguments.stepper]
    if "fix" in arguments:
        known = problem.parameter_set.known
        guesses: dict[str, float] = {name: value for name, value in arguments.set if name in known}
        changes["initial"] = problem.parameter_set.updated(problem.initial, guesses)
        changes["fixed"] = {*problem.fixed, *(name for name in arguments.fix if name in known)}
    return problem.with_(**changes)


def unfinished(target: str | os.PathLike[str]) -> Path:
    """Hidden folder beside a result folder, for unfinished work."""
    place = Path(target).resolve()
    return place.with_name(f".{place.name}.unfinished")


class KeptFits:
    """Store of a command's finished fits and of its current search, in a folder.

    Args:
        folder: None keeps nothing.
        how: all that the fits follow from beside their problems.
    """

    def __init__(self, folder: Path | None = None, how: object = None) -> None:
        self.count = 0
        """Fits that are finished."""
        self._folder = folder
        identity = repr((how, sorted(versions().items())))
        self._journal = None if folder is None else Journal(folder, hashlib.sha256(identity.encode()).hexdigest())

    @contextmanager
    def searching(self, problem: Problem) -> Iterator[None]:
        """Store the searches made within a ``with`` block for a problem."""
        journal = self._journal
        with kept_in(None if journal is None else Journal(journal.folder, journal.name(digest(problem)))):
            yield

    def fit(self, problem: Problem, solve: Callable[[], Solution]) -> Solution:
        """Return the next fit: read from the folder if the fit is stored there, or else made by ``solve``.

        Raises:
            KeyboardInterrupt: if it was interrupted.
        """

        def finished() -> Solution:
            solution = solve()
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            return solution

        if self._journal is None:
            return finished()
        name = self._journal.name(digest(problem))
        place = self._journal.folder / name
        try:
            found = load(place)
        except ProblemError:  # there is none, or a damaged one
            with kept_in(Journal(self._journal.folder, name)):
                found = finished()
            keep(found, place)
            resuming.forget(self._journal.folder)  # searches that have served
        self.count += 1
        return found

    def end(self) -> None:
        """All has served."""
        if self._folder is not None:
            remove(self._folder)


def digest(problem: Problem) -> str:
    """Hash of the model, data and settings that determine the solution of a problem."""
    model = problem.model
    q, v = ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("v", model.configuration.tangent)
    state = State(model, q, v, v, {signal: ca.SX(i + 1) for i, signal in enumerate(model.signals)}, ca.SX(1))
    values = [*model.expressions(), model.violation(q), *(s.predicted(state) for s in problem.channels)]
    values += [_loads(joint, state) for joint in model.joints if joint.loads or model.signals_of(joint)]
    values += [model.holding.rates(q, v), model.holding.speeds(ca.SX(ca.DM(range(1, len(model.inputs) + 1))))]
    values += [channel.delay for channel in problem.channels]
    for residual in problem.residuals:
        rows = residual.rows(*[state] * residual.states)
        values.append(residual.whitening(rows.numel()) @ rows)
    values += [relation.expression for relation in problem.constraints]
    values.append(model.pushed(q, v, ca.SX(ca.DM(range(1, len(model.inputs) + 1)))))
    symbols = [q, v, ca.vertcat(*problem.parameter_set.declared), stacked(placeholders_in(values))]
    formulas = ca.Function("problem", symbols, [ca.densify(ca.vec(ca.SX(value))) for value in values])
    result = hashlib.sha256(formulas.serialize().encode())
    for part in _facts(problem):
        result.update(repr(part).encode())
    if isinstance(problem.recordings, RecordingFiles):
        result.update(repr(problem.recordings.facts).encode())
        return result.hexdigest()
    for recording in problem.recordings:
        for name, samples in {"t": recording.t, **recording.signals}.items():
            result.update(name.encode() + np.ascontiguousarray(samples).tobytes())
    return result.hexdigest()


def _loads(joint: Joint, state: State) -> ca.SX:
    """What the loads of a joint do in a state, with inputs that differ."""
    inputs, width = (
        {name: ca.SX(i + 1) for i, name in enumerate(state.model.signals_of(joint))},
        ca.SX.ones(len(joint.coordinates)),
    )
    bound = joint.bound(state.angle(joint), state.rate(joint), Efforts.sample(len(joint.coordinates)))
    parts = (bound.load, bound.constant, bound.load_lean, bound.constant_lean)
    effort = state.model.effort(joint, state.angle(joint), state.rate(joint), inputs, width)
    return ca.vertcat(effort, *(part for part in parts if part is not None))


def _facts(problem: Problem) -> list[object]:
    """All but formulas and data, in types whose text is complete."""
    model = problem.model
    return [
        problem.name,
        [(body.name, body.free) for body in model.bodies],
        [(joint.kind, joint.name, joint.parent.body.name, joint.child.body.name) for joint in model.joints],
        [(tie.kind, tie.name, tie.signals) for tie in model.ties],
        [(motor.label, motor.signal, motor.measured) for motor in model.motors],
        [(one.signal, one.hold) for one in model.inputs],
        [(residual.name, residual.kind, residual.at, residual.states) for residual in problem.residuals],
        [(type(sensor).__name__, tuple(sensor.signals), sensor.sigma) for sensor in problem.observations],
        [(s.signal, s.sigma, s.unit, s.period, s.title, s.loss) for s in problem.channels],
        [(sensor.resolution, sensor.jitter) for sensor in problem.observations],
        [(p.name, p.lower, p.upper, p.prior) for p in problem.parameters],
        sorted(problem.guess.items()),
        sorted(problem.fixed),
        [problem.step, problem.dynamics, problem.weight, problem.friction_width, problem.cutoff, problem.friction],
        [problem.step_correction, problem.every],
        [problem.estimator, *(recording.closed_loop for recording in problem.sample)],
        [model.signals, *(joint.disturbance for joint in model.joints)],
        problem.stepper,
    ]
