"""The problem that users declare, and what they ask of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from spookid.assembly.problem import Problem
from spookid.records import dataclass
from spookid.tables.table import Block, Tabular

if TYPE_CHECKING:  # each is loaded when it is first asked for
    from spookid.assembly.impact_estimates import Strike
    from spookid.data.recording import Recording
    from spookid.estimation.grouping import BaseParameters
    from spookid.estimation.plan import Plan
    from spookid.graphs.solution import Picture
    from spookid.kernels.arrays import Array
    from spookid.results.result import Solution
    from spookid.solvers.status import Callback
    from spookid.stepping.simulation import Progress
    from spookid.studies.crossvalidation import CrossValidation
    from spookid.studies.excitation_result import Excitation
    from spookid.studies.expected import ExpectedErrors
    from spookid.studies.motion_limits import MotionLimits
    from spookid.studies.motor_efforts import MotorEfforts, TouchSpan
    from spookid.studies.payloads import Payload
    from spookid.studies.profiling import Profile
    from spookid.studies.regression import Regression
    from spookid.studies.simulation_start import Initial, Noises, Parameters


@dataclass(frozen=True, eq=False)
class Problem(Problem, Tabular):
    """A declared problem that can be solved, simulated and studied. Its arguments are those of ``Problem``.

    Raises:
        ProblemError: as ``Problem``.
    """

    @classmethod
    def of(cls, declared: Problem) -> Problem:
        """The same declaration as a problem."""
        if isinstance(declared, Problem):
            return declared
        given = {f.name: getattr(declared, f.name) for f in fields(declared)}
        return cls(**given | ({"step": None} if declared.follows_motion else {}))

    def solve(
        self,
        backend: str = "lm",
        *,
        callback: Callback | None = None,
        warm_start: Solution | None = None,
        starts: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> Solution:
        """Estimate states and parameters.

        Args:
            backend: "lm", the package's own Levenberg–Marquardt; "riccati", the same with steps by a Riccati recursion,
                which holds hard rows exactly; or "ipopt", a general solver of nonlinear programs.
            callback: called with every accepted iterate, of every start; what it raises ends the fit and is yours to
                catch.
            warm_start: a solution of the same recordings and step, of any stepper and backend: its states and
                estimates are the start, those of parameters in ``initial`` and ``fixed`` excepted.
            starts: how many, if not one: guesses are drawn from priors, both bounds, or else a decade to either side
                of the guess (of 0: of the size that makes up a tenth of the motion), and the best answer that converged
                is the solution; its ``basins`` tell where all ended. Ctrl-C ends them with the best that had ended.
            seed: of these guesses; the same seed draws the same.
            options: the problem's own settings (``step``, ``state_weight``, ``fixed`` ...) and the backend's
                (``max_iterations``, tolerances: see ``LevenbergMarquardt`` and ``Ipopt``).

        Raises:
            ProblemError: for an unknown backend or option, a problem without recordings or observations, or a warm
                start that does not fit.
        """
        began = time.perf_counter()
        from spookid.estimation.questions import asking
        from spookid.estimation.solving import solve, solve_whole

        problem, others = self._split(options)
        if starts == 1:
            result = solve(problem, backend, others, callback, warm_start)
        else:
            from spookid.studies.starting import from_starts

            result = from_starts(problem, starts, seed, backend, others, callback, warm_start)
        loading = time.perf_counter() - began - result.timing.total
        times = replace(result.times, other=result.times.other + max(loading, 0.0))
        again = partial(solve_whole, backend=backend, options=others)
        return asking(problem, result.changed(times=times), again)

    def plan(self, backend: str = "lm", **options: Any) -> Plan:
        """The stages of ``solve`` and their conditions; ``plan.done(solution)`` shows the fits that were made.

        Args:
            backend, options: as in ``solve``.

        Raises:
            ProblemError: as ``solve``.
        """
        from spookid.estimation.solving import planned

        problem, others = self._split(options)
        return planned(problem, backend, others)

    def questions(self) -> tuple[str, ...]:
        """What `spookid check` and `spookid solve` ask first: whether units, clocks and signs are meant; ``solve`` asks
        in its findings if the answer is in doubt. See ``spookid.estimation.questions``."""
        from spookid.estimation.questions import questions

        return tuple(question.text for question in questions(self))

    def profile(self, name: str, solution: Solution | None = None, backend: str = "lm", **options: Any) -> Profile:
        """Refit along a parameter; see ``spookid.studies.profiling``.

        Args:
            name: of a free parameter.
            solution: of this problem, if there is one already; else it is solved first.
            backend, options: as in ``solve``.

        Raises:
            ProblemError: for a parameter that is unknown or fixed, or as ``solve``.
        """
        from spookid.studies.profiling import profile

        problem, others = self._split(options)
        return profile(problem, name, _fitted_by(backend, others), solution)

    def base_parameters(self, recordings: Recording | Iterable[Recording] | None = None) -> BaseParameters:
        """Combinations of parameters that can be known, before a fit; see ``spookid.estimation.grouping``.

        Args:
            recordings: whose motion is asked what it tells, ``problem.recordings`` for example; None: any motion.

        Raises:
            ProblemError: for recordings that are too short or lack a signal, or loops that do not close.
        """
        from spookid.estimation.grouping import base_parameters

        return base_parameters(self, recordings)

    def crossvalidate(self, backend: str = "lm", **options: Any) -> CrossValidation:
        """Fit each recording by itself and judge the estimates on all others; see ``spookid.studies.crossvalidation``.

        Args:
            backend, options: as in ``solve``.

        Raises:
            ProblemError: if there are fewer than two recordings, or as ``solve``.
        """
        from spookid.studies.crossvalidation import crossvalidate

        problem, others = self._split(options)
        return crossvalidate(problem, _fitted_by(backend, others))

    def contact_forces(self, solution: Solution, recording: int = 0) -> dict[str, Array]:
        """What contacts that hold do to the bodies that they hold, by their names, (N, rows): forces [N] and of a
        ``Weld`` moments [N m], along the axes of what they hold on, as means around each step; 0 where a contact does
        not hold, NaN at the first and the last step. Impulses of impacts are those of ``impacts``.

        Args:
            solution: of this problem.
            recording: number of the recording.

        Raises:
            ProblemError: if the solution is of another problem.
        """
        from spookid.studies.motor_efforts import contact_forces

        return contact_forces(self, solution, recording)

    def impacts(self, solution: Solution, recording: int = 0) -> tuple[Strike, ...]:
        """The impacts of a recording in the order of time: when they are, how fast points are before and after, and
        with which impulse.

        Args:
            solution: of this problem.
            recording: number of the recording.

        Raises:
            ProblemError: if the solution is of another problem.
        """
        from spookid.studies.motor_efforts import strikes

        return strikes(self, solution, recording)

    def touches(self, solution: Solution, recording: int = 0) -> tuple[TouchSpan, ...]:
        """When each ``Contact`` touches on a recording, and with which impulse, in the order of time; those of each
        step are in ``Trajectory.touches``.

        Args:
            solution: of this problem.
            recording: number of the recording.

        Raises:
            ProblemError: if the solution is of another problem.
        """
        from spookid.studies.motor_efforts import touches

        return touches(self, solution, recording)

    def simulate(
        self,
        parameters: Parameters = None,
        duration: float | None = None,
        initial: Initial = None,
        *,
        recording: int = 0,
        inputs: Recording | None = None,
        noise: Noises = None,
        seed: int = 0,
        substeps: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Recording:
        """Step the mechanism forward.

        With ``Variational()`` and smooth friction the motion is that of continuous time, each step being divided as
        often as it takes; ``Spook()``, and friction that sticks, take the steps as they are declared. With friction
        ``"mpcc"`` it steps as with ``"exact"``: the law is one, and only fits state it in two forms.

        Args:
            parameters: values by name, in the place of the problem's guesses, or a solution for its estimates.
            duration: [s]; by default that of the recording.
            initial: position [rad or m], or (position, rate), of each joint's coordinate by its name: ``{"pin": 0.5}``,
                of a joint of several ``{"slot along": 0.4, "slot turn": (1.0, 25.0)}``; those not named are at rest,
                where their springs are. Or arrays (q, v) of shapes (n_b, 7), (n_b, 6), or a solution for its first
                state. None: the first state of the parameters if these are a solution, else the initial guess from the
                recording, else all joints at rest.
            recording: which of the problem's recordings gives the inputs and the default start and duration.
            inputs: a recording of the motors' signals to use instead; without any they are zero.
            noise: a solution, for the noise it found; or sizes by name, disturbances of joints [N m/√Hz or N/√Hz] and
                standard deviations of signals. None: nothing is random.
            seed: of the random numbers.
            substeps: equal parts that each step is taken in; by default as above.
            progress: wraps the iteration over the steps, as a progress bar does.
            options: the problem's own settings.

        Returns:
            a Recording at the steps, with the observed signals (angles continuous in time), the inputs, and q and v.

        Raises:
            ProblemError: for unknown names, a shape that does not fit, or no duration.
            StepFailedError: if a step has no solution.
        """
        from spookid.studies.simulating import simulate

        how: dict[str, Any] = {"noise": noise, "seed": seed, "substeps": substeps, "progress": progress}
        return simulate(self.with_(**options), parameters, duration, initial, recording=recording, inputs=inputs, **how)

    def inverse_dynamics(
        self, parameters: Parameters = None, recording: int | Recording = 0, **options: Any
    ) -> MotorEfforts:
        """What motors have to do along a recording or a given motion; see ``spookid.studies.inverse_dynamics``."""
        from spookid.studies.motor_efforts import inverse_dynamics

        return inverse_dynamics(self, parameters, recording, **options)

    def payload(self, solution: Solution, recording: Recording, body: str, **options: Any) -> Payload:
        """What hangs on a body along a recording; see ``spookid.studies.payload``."""
        from spookid.studies.payloads import payload

        return payload(self, solution, recording, body, **options)

    def excite(self, duration: float, limits: MotionLimits | None = None, **options: Any) -> Excitation:
        """Design a motion that tells most of the parameters; see ``spookid.studies.excite``.

        Args:
            duration: [s].
            limits: those of the robot's file, if the problem was made from one, hold where these say nothing.
            options: ``criterion``, ``noise``, ``known``, ``rate`` and others of ``spookid.studies.excite``.

        Raises:
            ProblemError: as ``spookid.studies.excite``.
        """
        from spookid.robots.robot import limits_within
        from spookid.studies.excitation import excite

        return excite(self, duration, limits=limits_within(self, limits), **options)

    def expected_errors(
        self, planned: Recording, *, noise: Noises = None, known: Solution | None = None
    ) -> ExpectedErrors:
        """What a fit of a planned motion is expected to report; see ``spookid.studies.expected_errors``.

        Args:
            planned: as of ``spookid excite``, or at least the positions of all joints, from which the rest follows.
        """
        from spookid.studies.expected import expected_errors
        from spookid.studies.planned_motion import completed

        return expected_errors(self, completed(self, planned), noise=noise, known=known)

    def regress(self, solution: Solution | None = None, **options: Any) -> Regression:
        """Least squares on filtered derivatives, beside a solution if there is one; see ``spookid.studies.regress``."""
        from spookid.studies.regression import regress

        return regress(self, solution, **options)

    def graph(self) -> Picture:
        """The problem as a factor graph, to be printed or drawn with ``draw(axes, steps=3)``: x are the unknowns of a
        step, λ those that stand in one factor alone.

        Raises:
            ProblemError: for a problem without recordings or observations.
        """
        from spookid.assembly.assembly import assemble
        from spookid.graphs.solution import Picture

        found = assemble(self).transcription
        private = [column for column in range(found.manifold.tangent) if column not in found.visible]
        nodes = {"x": found.visible, "λ": private} if private else {"x": found.visible}
        return Picture(f"factor graph of {self.name}", found, nodes)

    def __repr__(self) -> str:
        from spookid.report.conclusion import sizes

        return f"<Problem {self.name!r}: {sizes(self)}>"

    def blocks(self) -> Sequence[Block]:
        """Title, bodies, joints, sensors, parameters, recordings and settings; nothing is solved for them."""
        from spookid.report.conclusion import description

        return description(self)

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        free = {parameter.name for parameter in self.free}
        return [
            {"parameter": p.name, "guess": self.guess[p.name], "lower": p.lower, "upper": p.upper, "unit": p.unit}
            | {"fixed": p.name not in free, "note": p.note}
            for p in self.parameter_set.every
        ]

    def _split(self, options: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
        """The problem with its own settings among the options, and the others."""
        own = {name: value for name, value in options.items() if name in self.__dataclass_fields__}
        return self.with_(**own), {name: value for name, value in options.items() if name not in own}


def _fitted_by(backend: str, options: Mapping[str, Any]) -> Callable[..., Solution]:
    """What studies fit by: a problem, from a solution near by if there is one."""
    from spookid.estimation.solving import solve

    return lambda problem, near, *_: solve(problem, backend, options, None, near)


def load_problem(path: str | PathLike[str]) -> Problem:
    """The problem of a file, ``PROBLEM.py`` or ``PROBLEM.py::key``.

    Raises:
        ProblemError: if the file cannot be read or does not run to its end, or holds no problem, none of that key, or
            several and none is picked.
    """
    from spookid.assembly.loading import load_problem

    return Problem.of(load_problem(path))
