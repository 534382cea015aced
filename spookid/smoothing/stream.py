"""A problem's samples, its window and what its unknowns mean, together."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.data.sampling import slack_at
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.hidden import anchored
from spookid.mechanics.system import MOST_STEPS
from spookid.results.findings import Finding
from spookid.smoothing.estimate import ChiSquareTest, OnlineEstimate, carried, inverse, of_parameters, unsettled
from spookid.smoothing.initialization import Initialization
from spookid.smoothing.intake import Intake, Samples
from spookid.smoothing.readout import Readout, StepCorrection
from spookid.solvers.fixed_lag import FixedLag
from spookid.solvers.lag_memory import restarted
from spookid.statistics.whiteness import SURE
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Group

_GAP, _SHORT = 10, 100
"""Windows without a sample, and steps at the least, behind which the states begin anew."""


def longest_gap(window: int) -> int:
    """Number of steps without a sample after which states are initialized anew."""
    return max(_GAP * window, _SHORT)


@dataclass(frozen=True, eq=False)
class Mark:
    """Saved state of a stream at one time."""

    until: float
    """Time of the oldest step in the window [s]."""
    core: Mapping[str, Array]
    """Of the window."""
    samples: Mapping[str, Array]
    """Of the samples."""
    counts: Intake
    """What had become of them."""
    now: float
    """Time of the latest sample [s]."""
    stream: Stream
    """Whose it is: after a gap a smoother has another."""
    walks: Array
    """Equations that keep random walks where they are in the oldest steps, (walks, reach t + n_p + 1)."""


class Stream:
    """Window that moves along the samples of a problem.

    Args:
        problem: as it is smoothed.
        settings: symbols of its factors' settings.
        core: of its factors.
        observed: which samples make the rows of which factor.
        recording: name of the recording whose parameters are meant.
        start: time of step 0 [s].
        correction: what is taken from the parameters.
        findings: on all estimates.
    """

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        core: FixedLag,
        observed: tuple[Observed, ...],
        recording: str,
        start: float,
        correction: StepCorrection,
        findings: tuple[Finding, ...],
    ) -> None:
        self.problem, self.core, self.observed, self.recording, self.start = problem, core, observed, recording, start
        self.correction, self.findings, self.residual_test = correction, findings, ChiSquareTest()
        transcription = core.transcription
        self.samples = Samples(problem, transcription.factors, observed, recording, start)
        self._readout = Readout(problem, settings, transcription)
        names = transcription.names
        self._step_errors = (
            dict(zip(names, correction.amounts.tolist(), strict=True)) if np.any(correction.amounts) else {}
        )
        self._units = {p.name: p.unit for p in problem.free}
        self.now = -math.inf
        """The latest time of a sample [s]."""
        self.iterations = 0
        """Of the last update."""
        self._known: OnlineEstimate | None = None
        """What was known when something was estimated last."""

    @classmethod
    def begun(cls, initial: Initialization, window: int, iterations: int, counts: Intake) -> Stream:
        """Make a stream that begins at the first states, with the first recording's samples in or after the window.
        ``counts``: of earlier samples."""
        new = cls._empty(initial, window, iterations)
        new.samples.counts = counts
        new._take_all(initial)
        for state in initial.states:
            new._append(state)
            new._belief()
        new._anchor(new._walks, max(new.core.steps - 1, new._readout.steps))
        return new

    @classmethod
    def _empty(cls, initial: Initialization, window: int, iterations: int) -> Stream:
        """Before the first state."""
        problem, transcription = initial.problem, initial.transcription
        volumes = problem.estimates_noise and transcription.has_density
        try:
            core = FixedLag(
                transcription, window, parameters=initial.parameters, iterations=iterations, volumes=volumes
            )
        except ProblemError as error:
            raise ProblemError(f"{problem.what}: {error}") from None
        name, start = initial.recording.name, initial.start
        told = StepCorrection(initial.step_errors, np.zeros((len(initial.step_errors),) * 2)), initial.findings
        return cls(problem, initial.settings, core, initial.observed, name, start, *told)

    def resumed_behind(self, initial: Initialization, counts: Intake) -> Stream:
        """Return a stream with new states after a gap, which keeps the estimates of the parameters. ``counts``: of all
        samples before the first new states."""
        told = replace(initial, step_errors=self.correction.amounts, findings=self.findings)
        new = Stream._empty(told, self.core.window, self.core.iterations)
        new.correction = self.correction
        values, known = self.core.parameters, inverse(self.core.parameter_covariance())
        arrays = restarted(new.core.arrays(), values, np.zeros(len(values)), known, np.zeros((0, 0)))
        new.core = FixedLag.resumed(new.core.transcription, arrays)
        new.samples.counts = counts
        new._take_all(initial)
        for state in initial.states:
            new._append(state)
        return new

    def at(self, core: FixedLag, mark: Mark) -> Stream:
        """Make a stream of the same problem at a saved state, with the window there."""
        new = Stream.__new__(Stream)
        new.__dict__.update(
            self.__dict__, core=core, now=mark.now, iterations=0, _known=None, residual_test=ChiSquareTest()
        )
        new.samples = Samples(self.problem, core.transcription.factors, self.observed, self.recording, self.start)
        new.samples.restore(mark.samples, mark.counts, core.first, new.newest)
        new._anchor(anchored(self.problem.model.hidden), min(self._readout.steps, core.steps))
        return new

    def mark(self) -> Mark:
        """Return the present state."""
        kept = self.core.arrays(), self.samples.arrays(), self.counts
        return Mark(self.time(self.core.first), *kept, self.now, self, self._walks_kept())

    def _walks_kept(self) -> Array:
        """Equations that keep random walks where they are in the oldest steps, (walks, reach t + n_p + 1).

        A parameter that changes does not change a walk. Without them, b (1 + w) with unknown b and w would lead a
        restart anywhere. They are three standard errors wide: the errors of w and b have opposite signs, and those of b
        are then 5 % too small at the most.
        """
        t, labels, errors = self.core.transcription.manifold.tangent, self._readout.labels, self.estimate().rate_errors
        motion = self._readout(self.core.states[: self._readout.steps], self.core.parameters)
        known = [name for name in self._walks if math.isfinite(errors[name])]
        rows = np.zeros((len(known), self.core.reach * t + len(self.core.parameters) + 1))
        for row, name in zip(rows, known, strict=True):
            place = labels.index(name)
            if self._readout.steps == 1:
                row[:t] = motion.slopes[len(labels) + place, :t]
            else:
                row[: 2 * t] = np.kron([-1.0, 1.0], motion.slopes[place, 2 * t : 3 * t]) / self.problem.step
            row /= SURE * errors[name]
        return rows

    @property
    def _walks(self) -> list[str]:
        """Names of the random walks."""
        return [name for name, both in anchored(self.problem.model.hidden).items() if both]

    def _anchor(self, names: Collection[str], steps: int) -> None:
        """Keep the joints of additional states where they are at the last of the oldest ``steps``.

        After a restart only their rates are determined. At the end of the first recording, this is the mean of a random
        walk: the step before the newest, as its sample at the end would count with the next step only.
        """
        if not names:
            return
        core, counts = self.core, self.samples.counts
        places = self._readout(core.states[steps - self._readout.steps : steps], core.parameters).coordinates.tolist()
        here = {name: places[self._readout.labels.index(name)] for name in names}
        self.samples.add(self.time(core.first + steps - 1), here, core.first)
        self.samples.renew(self.newest, core.set_data)
        self.samples.counts = counts

    def _take_all(self, initial: Initialization) -> None:
        """The samples of the first recording."""
        recording, inputs = initial.recording, self.samples.inputs
        for name, (t, value) in recording.before.items():
            if name in inputs.signals:
                inputs.add(name, t, value)
        known = {name: values for name, values in recording.signals.items() if name in self.samples.known}
        self.samples.add(float(recording.t[0]), dict.fromkeys(anchored(self.problem.model.hidden), 0.0), 0)
        for i, t in enumerate(recording.t.tolist()):
            self.samples.add(t, {name: float(v[i]) for name, v in known.items() if math.isfinite(v[i])}, 0)
        self.now = float(recording.t[-1])

    def _belief(self) -> None:
        """Data of what is known from the prior, which stands once."""
        for factor in self.core.transcription.factors:
            if factor.group is Group.PRIOR and self.core.first + self.core.steps == 1:
                self.core.set_data(factor.name, 0, np.ones(1), np.zeros(len(factor.rows), dtype=np.bool_))

    @property
    def counts(self) -> Intake:
        """What became of the samples."""
        return self.samples.counts

    @property
    def newest(self) -> int:
        """Number of the newest step."""
        return self.core.first + self.core.steps - 1

    def take(self, t: object, values: object) -> None:
        """Add samples, and update the estimates; see ``FixedLagSmoother.update``."""
        time, finite = self.samples.checked(t, values)
        self.samples.add(time, finite, self.core.first)
        self.now, self.iterations = max(self.now, time), 0
        near = slack_at(max(abs(self.now), abs(self.start)), self.problem.step)
        due = self.time(self.newest + 1) <= self.now + near
        if self.samples.renew(self.newest, self.core.set_data) and not due:
            self._solve()
        while self.time(self.newest + 1) <= self.now + near:
            self._append()
            self._solve()

    def settle(self, most: int) -> None:
        """Iterate the estimates in the window until they converge, or up to a number of iterations."""
        for _ in range(most):
            self.iterations = 0
            self._solve()
            if self.core.converged:
                break
        if not np.any(self.correction.information):
            self.correction = replace(self.correction, information=inverse(self.core.parameter_covariance()))
            self._known = None

    def _solve(self) -> None:
        self.iterations += self.core.solve()
        self._known = None

    def time(self, step: int) -> float:
        """Of a step [s]."""
        return self.start + self.problem.step * step

    def is_behind_gap(self, t: object, values: object) -> bool:
        """Return True if samples arrive so late after all others that the window would not determine the motion. Raises
        ProblemError as ``take``, and for a time far ahead of all others."""
        time, _ = self.samples.checked(t, values)
        steps = (time - max(self.now, self.start)) / self.problem.step
        if steps > MOST_STEPS:  # a clock that was set, or timestamps in another unit
            raise ProblemError(
                f"{self.problem.what}: time leaps from {self.now:.12g} to {time:.12g} s, "
                f"over {steps:.3g} steps; give timestamps in seconds of one clock, or begin a new smoother there"
            )
        return steps > longest_gap(self.core.window)

    def _append(self, state: Array | None = None) -> None:
        if self.core.steps == self.core.window:
            self.residual_test.add(self.time(self.core.first), *self.core.oldest())
        newest = self.core.append(state)
        self.samples.forget(self.core.first)
        self.samples.begin(newest, self.core.set_data)

    # --- what is known ---

    def estimate(self) -> OnlineEstimate:
        """What is known now."""
        if self._known is None:
            self._known = self._estimate()
        elif self._known.iterations != self.iterations:
            self._known = replace(self._known, iterations=self.iterations)
        return self._known

    def _estimate(self) -> OnlineEstimate:
        core, names = self.core, self.core.transcription.names
        parameters = core.parameters
        steps = min(self._readout.steps, core.steps)
        covariance, n = core.covariance(steps), len(names)
        last = slice(len(covariance) - n, None)
        known = covariance[last, last]
        own, reasons = of_parameters(core.transcription, parameters, known + self.correction.covariance(known))
        motion = self._readout(core.states, parameters)
        of_states = carried(motion.slopes, covariance)
        errors = np.sqrt(np.diag(of_states))
        labels, m = self._readout.labels, len(self._readout.labels)
        deviations, problem = np.sqrt(np.diag(own)).tolist(), core.transcription
        values = np.clip(parameters - self.correction.amounts, problem.lower, problem.upper)
        return OnlineEstimate(
            t=self.time(self.newest),
            step=self.newest,
            values=dict(zip(names, values.tolist(), strict=True)),
            std_errs=dict(zip(names, deviations, strict=True)),
            reasons=reasons,
            units=self._units,
            covariance=own,
            step_errors=self._step_errors,
            positions=dict(zip(labels, motion.coordinates[:m].tolist(), strict=True)),
            rates=dict(zip(labels, motion.coordinates[m:].tolist(), strict=True)),
            position_errors=dict(zip(labels, errors[:m].tolist(), strict=True)),
            rate_errors=dict(zip(labels, errors[m:].tolist(), strict=True)),
            state_covariance=of_states,
            q=motion.q,
            v=motion.v,
            iterations=self.iterations,
            converged=core.converged,
            reason=unsettled(core, self.iterations, self.start, self.problem.step),
            findings=(*self.findings, *self.residual_test.findings, *self.samples.findings(self.now)),
            stopped=self.samples.inputs.stopped(self.now),
        )
