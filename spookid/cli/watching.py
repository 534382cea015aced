"""The command ``watch``: estimates with their errors while a log is read, and changes of parameters."""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from spookid.cli import terminal
from spookid.cli.runner import CommandJob, Run, each, start
from spookid.cli.screen import LogRows, View
from spookid.cli.terminal import Exit, Interruption
from spookid.data.growing import STANDARD_INPUT, GrowingLog, Row
from spookid.data.logs.tables import read_npz
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.estimation.solving import solve as estimate
from spookid.results.folders import check_file, reading
from spookid.results.result import Noise
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.intake import signals
from spookid.smoothing.monitor import Monitor
from spookid.smoothing.smoother import FixedLagSmoother
from spookid.solvers.status import Status
from spookid.tables.table import counted, quantity

_STEPS = 20
"""Of a window, unless the user says otherwise."""
_ROUGHLY = 1.5
"""Factor within which a noise standard deviation is known if two standard errors are less."""
_LASTING = 5.0
"""Duration of a finding until it is reported [s]: a change that is found explains residuals that are too large."""
_LOST = 10.0
"""How much of its work a killed process may take along if what is known is saved [s]."""
_FIRST, _NAME, _TIMES, _READ = "first ", " name", " t", " read"
"""In a saved file, prefix of the names of the arrays about the rows that were fitted first, and names of other arrays:
name and timestamps of the recording, number and latest timestamp of all rows."""


def watch(arguments: Namespace, interruption: Interruption) -> Exit:
    """Estimate parameters while a log is read, and report when a parameter has changed."""
    run = start(arguments, interruption)
    run.only()  # several logs would not stand below each other
    return each(run, lambda job: _Watch(run, job).run)


class _Watch:
    """One log that is watched."""

    def __init__(self, run: Run, job: CommandJob) -> None:
        self._arguments, self._run, self._problem, self._label = run.arguments, run, job.problem, job.label
        log = run.arguments.LOG
        self._signals = sorted(signals(job.problem))
        self._view = View(job.label, [p.name for p in job.problem.free], {p.name: p.note for p in job.problem.free})
        told = self._view.complain
        units, follow = dict(run.arguments.units), run.arguments.follow
        self._log = GrowingLog(log, self._signals, time=run.arguments.time, units=units, follow=follow, told=told)
        self._checks = LogRows(self._log.path, told)
        self._name = "log" if log == STANDARD_INPUT else Path(log).stem
        self._first: Recording | None = None
        """What was fitted in the beginning."""
        self._since: dict[tuple[str, tuple[str, ...]], float] = {}
        """Start times of findings [s], by code and subject; infinite once they are reported."""
        self._rows, self._until, self._due = 0, -math.inf, -math.inf
        """Rows so far, their latest timestamp, and when estimates are shown next [s]."""
        self._saved = time.monotonic()
        """When what is known was saved last [s]."""
        self._unsaved = ""
        """Reported reason why it could not be saved."""
        if run.arguments.save is not None:
            check_file(Path(run.arguments.save))

    def run(self) -> Exit:
        """Read the log until its end, or until the user interrupts."""
        rows, monitor = iter(self._log), None
        try:
            monitor = self._begun(rows) if self._arguments.resume is None else self._resumed()
            seen = self._until
            for row in rows:
                if row.t > seen:  # of a log that is read again
                    seen = -math.inf
                    self._run.interruption.checkpoint()  # nothing is torn while it is being estimated
                    self._take(monitor, row)
                    self._run.interruption.kept()
                    if time.monotonic() > self._saved + _LOST:
                        self._keep_meanwhile(monitor)
        except KeyboardInterrupt:
            return self._interrupted(monitor)
        except ProblemError:
            self._keep(monitor)
            raise
        finally:
            self._run.interruption.kept()
            self._view.close(self._page(monitor))
            self._checks.close()
        self._keep(monitor)
        return Exit.DONE

    def _take(self, monitor: Monitor, row: Row) -> None:
        """One row, and what it tells."""
        known, newest = len(monitor.changes), self._until
        self._rows, self._until = self._rows + 1, max(newest, row.t)
        usable = self._checks.usable(row, (monitor.smoother.released_until, newest))
        if usable is None:
            return
        with _at(self._log.path, row.line):
            found = monitor.update(usable.t, usable.values)
        for change in monitor.changes[known:]:
            self._view.change(change, found)
        self._tell(found)
        self._show(monitor, found)

    def _tell(self, found: OnlineEstimate) -> None:
        """Findings that have lasted, each once; numbers in them may change."""
        known = {(finding.code, finding.subject): finding for finding in found.findings}
        self._since = {one: self._since.get(one, self._until) for one in known}
        for one, finding in known.items():
            if self._since[one] <= self._until - _LASTING:
                self._view.complain(finding.text)
                self._since[one] = math.inf

    def _show(self, monitor: Monitor, found: OnlineEstimate) -> None:
        """Estimates, as often as the user wants them."""
        if self._until >= self._due and not self._arguments.quiet:
            every = self._arguments.every
            self._due = every * (math.floor(self._until / every + 1e-6) + 1)
            self._view.estimate(self._until, found, self._rows, self._left_out(monitor))

    def _page(self, monitor: Monitor | None) -> str:
        """What is known in the end; nothing if the user wants quiet."""
        if monitor is None or self._arguments.quiet:
            return ""
        return self._view.page(
            self._until, monitor.smoother.estimate, self._rows, self._left_out(monitor), monitor.changes
        )

    def _left_out(self, monitor: Monitor) -> int:
        taken = monitor.smoother.intake
        return taken.late + taken.early + taken.crowded + self._checks.left_out

    def _begun(self, rows: Iterator[Row]) -> Monitor:
        """With the first seconds, fitted as one recording."""
        first = self._checks.merged(_leading(rows, self._arguments.warm_up, self._log.path))
        columns = {name: np.array([row.values.get(name, math.nan) for row in first]) for name in self._signals}
        times = np.array([row.t for row in first])
        with _at(self._log.path, first[-1].line):
            self._first = Recording(times, columns, self._name)
        problem, length = self._problem.with_(recordings=[self._first]), quantity(self._arguments.warm_up, "s")
        with self._run.fitting(f"{self._label}, first {length}", problem) as callback:
            solution = estimate(problem, "lm", self._run.options, callback)
        self._run.interruption.kept()
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if solution.status is not Status.CONVERGED:
            raise ProblemError(
                f"the fit to the first {length} of log {self._log.path} failed ({solution.message}); give a "
                "longer --warm-up, or better initial values with --set"
            )
        window = {"window": _STEPS} if self._arguments.window is None else {"seconds": self._arguments.window}
        monitor = Monitor(
            FixedLagSmoother(problem, start=solution, **window), false_alarms=self._arguments.false_alarms
        )
        self._rows, self._until = len(first), first[-1].t
        self._checks.learn(self._first, problem.model.signals, self._until)
        # It may as well be half as large again, or was not identifiable.
        if hardly := [one for one in solution.noise if not (one.given or 2 * one.error < math.log(_ROUGHLY))]:
            self._view.complain(_hardly(length, hardly))
        self._show(monitor, monitor.smoother.estimate)
        return monitor

    def _resumed(self) -> Monitor:
        """Where another left off."""
        path = Path(self._arguments.resume)
        with reading(path, "begin without --resume") as file:
            archive = read_npz(file)
            known = {n.removeprefix(_FIRST): archive[n] for n in archive if n.startswith(_FIRST)}
            name, t = str(known.pop(_NAME)), known.pop(_TIMES)
            rows, self._until = known.pop(_READ).tolist()
        self._rows, self._first = int(rows), Recording(t, known, name)
        problem = self._problem.with_(recordings=[self._first])
        monitor = Monitor.resume(problem, path)
        self._checks.learn(self._first, problem.model.signals, self._until)
        self._show(monitor, monitor.smoother.estimate)
        return monitor

    def _keep(self, monitor: Monitor | None) -> None:
        """Save what is known, if the user asks for it and there is something."""
        path, first = self._arguments.save, self._first
        if path is not None and monitor is not None and first is not None:
            known = {_NAME: np.array(first.name), _TIMES: first.t, _READ: np.array([self._rows, self._until])}
            known |= first.signals
            self._saved = time.monotonic()
            monitor.save(path, {f"{_FIRST}{name}": array for name, array in known.items()})

    def _keep_meanwhile(self, monitor: Monitor) -> None:
        """Save what is known; a disk that refuses may have room later."""
        try:
            self._keep(monitor)
        except ProblemError as error:
            if str(error) != self._unsaved:
                self._unsaved = str(error)
                self._view.complain(f"{error}, or make room: it is tried again")

    def _interrupted(self, monitor: Monitor | None) -> Exit:
        self._run.interruption.kept()
        self._keep(monitor)
        if monitor is None:
            terminal.complain(f"interrupted before the first seconds of log {self._log.path} were fitted")
        elif self._arguments.save is None:
            terminal.complain(f"interrupted after {counted(self._rows, 'row')}")
        else:
            terminal.complain(
                f"interrupted after {counted(self._rows, 'row')}; to continue, give --resume {self._arguments.save}"
            )
        return Exit.INTERRUPTED


def _leading(rows: Iterator[Row], seconds: float, path: Path) -> list[Row]:
    """The rows of the first seconds."""
    first: list[Row] = []
    for row in rows:
        first.append(row)
        if row.t - first[0].t >= seconds * (1 - 1e-9):
            break
    else:
        there = quantity(first[-1].t - first[0].t, "s") if first else "no row"
        raise ProblemError(
            f"{path} ends after {there}, and the first {quantity(seconds, 's')} are fitted before it is watched; give "
            "a longer log, or a shorter --warm-up"
        )
    return first


def _hardly(length: str, sizes: Sequence[Noise]) -> str:
    """What the first seconds do not determine."""
    names = [f"the {'process noise' if n.kind == 'disturbance' else 'noise'} of {', '.join(n.names)}" for n in sizes]
    return (
        f"{length} identify {' and '.join(names)} weakly: errors may be too small, and changes are "
        "reported once the scatter of the estimates is known; a longer --warm-up helps"
    )


@contextmanager
def _at(path: Path, line: int) -> Iterator[None]:
    """Say where in the log it is what a sentence is about."""
    try:
        yield
    except ProblemError as error:
        raise ProblemError(f"{path} line {line}: {error}") from None
