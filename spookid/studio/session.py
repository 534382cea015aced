"""The state of one browser's work: files, choices, what was found, and the processes that work for it."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from string import Template
from typing import Any

from spookid.errors import ProblemError
from spookid.studio.choices import FRICTION, Choices, Column
from spookid.studio.folder import Folder

Event = dict[str, Any]


class Job:
    """One task of ``spookid.studio.worker``."""

    def __init__(self, task: str, arguments: Event, heard: Callable[[Event], None] = lambda _: None) -> None:
        self._task = {"task": task, **arguments}
        self._heard = heard
        self._process: Process | None = None

    async def run(self) -> Any:
        """What it found; raises ProblemError with the sentence of a refusal."""
        command = sys.executable, "-m", "spookid.studio.worker"
        process = self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=2**28
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(self._task).encode() + b"\n")
        try:
            while line := await process.stdout.readline():
                event: Event = json.loads(line)
                if event.get("event") == "done":
                    return event["result"]
                if event.get("event") == "refused":
                    why = event["text"]
                    raise ProblemError(f"{why}")
                self._heard(event)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        raise ProblemError(f"the process of task {self._task['task']!r} ended without an answer; was memory short?")

    def cancel(self) -> None:
        """Ask the job to end with the best result so far."""
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(b"cancel\n")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


async def command(words: Sequence[str], folder: Path) -> str:
    """Run ``spookid`` with these words in a folder, and return what it printed; raises ProblemError if it refuses."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spookid", *words, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )
    said = (await process.communicate())[0].decode(errors="replace").strip()
    if process.returncode:
        why = said.rpartition("error: ")[2] or f"spookid {words[0]} ended with status {process.returncode}"
        raise ProblemError(f"{why}")
    return said


STEPS = ("Robot", "Data", "Parameters", "Run", "Results")
SHIPPED = Path(__file__).parent / "mechanisms"
DIMENSIONS: dict[str, tuple[str, dict[str, float]]] = {
    "pendulum": ("pendulum.urdf", {"mass": 0.1, "length": 0.2}),
    "Furuta pendulum": ("furuta.urdf", {"arm": 0.15, "arm_mass": 0.1, "mass": 0.05, "length": 0.2}),
    "cart and pendulum": ("cart.urdf", {"cart_mass": 0.5, "mass": 0.2, "length": 0.3}),
    "four-bar linkage": ("fourbar.xml", {"crank": 0.1, "coupler": 0.3, "rocker": 0.25, "base": 0.3}),
    "servo on a pendulum": ("servo.xml", {"mass": 0.2, "length": 0.2, "kp": 5.0}),
}
"""Mechanisms that come along: their files, and their dimensions [kg, m, N m/rad]."""


class Session:
    """Work of one browser. Steps whose content has changed are counted in ``versions``."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder, self.name = folder, name
        self.versions: Counter[str] = Counter()
        self.step, self.error, self.working = STEPS[0], "", ""
        """The step that is shown, a refusal, and what is being done; empty if nothing is."""
        self.unfolded: set[str] = set()
        """Parts of steps that are open."""
        self.fit: Job | None = None
        self._turn, self._asked = asyncio.Lock(), 0
        self._clear()

    def _clear(self) -> None:
        self.end()
        self.robot = ""
        self.facts: dict[str, Any] = {}
        """Of the robot."""
        self.logs: dict[str, bool] = {}
        """By name, and whether each is fitted or left out."""
        self.read: dict[str, dict[str, Any]] = {}
        """What is known of each log."""
        self.choices = Choices()
        self.opened: Path | None = None
        """A problem file that was opened, and its text."""
        self.source: str | None = None
        self.keys: list[str] = []
        """Of its problems, if it holds several."""
        self.problem: Path | None = None
        self.notices: list[str] = []
        self.questions: list[dict[str, Any]] = []
        self.answered: set[str] = set()
        """Questions that the user has said no to."""
        self.checked: dict[str, Any] | None = None
        self.fitting = ""
        """What the fit is doing; empty if there is none."""
        self.iterations: list[dict[str, Any]] = []
        self.result: dict[str, Any] | None = None
        self.predicted: dict[str, Any] | None = None
        self.predicted_log = ""
        self.compared = ""
        self.written: list[str] = []
        """Names of exported files."""

    @asynccontextmanager
    async def _doing(self, what: str, *steps: str) -> AsyncIterator[None]:
        """Around work that takes a while and may be refused in a sentence; then steps show what is new."""
        self.working, self.error = what, ""
        try:
            yield
        except ProblemError as error:
            self.error = str(error)
        finally:
            self.working = ""
            self.versions.update([*steps, "Run"])

    def _task(self, **more: Any) -> dict[str, Any]:
        return {"folder": str(self.folder.root), "robot": self.robot, "choices": asdict(self.choices), **more}

    # --- robot ---

    async def choose_robot(self, name: str, free: bool = False, mend: bool = False) -> None:
        """Take a robot's file of the folder."""

        async with self._doing(f"reading {name}", *STEPS):
            self.folder.path(name)
            choices = Choices(free=free, mend=mend)
            facts = await Job("look_at_robot", self._task(robot=name, choices=asdict(choices))).run()
            self._clear()
            self.robot, self.facts, self.choices = name, facts, choices

    async def choose_shipped(self, name: str, values: dict[str, float]) -> None:
        """Write the file of a mechanism that comes along, with these dimensions, and take it."""
        file, numbers = DIMENSIONS[name][0], {**DIMENSIONS[name][1], **values}
        if bad := [key for key, value in numbers.items() if not (math.isfinite(value) and value > 0)]:
            self.error = f"{bad[0]} is {numbers[bad[0]]:g}; give a number above 0"
            return
        mass, length = numbers.get("mass", 0.0), numbers.get("length", 0.0)
        derived = {"half": length / 2, "inertia": mass * length**2 / 12, "friction": 0.01 * 9.81 * mass * length / 2}
        words = {key: repr(float(value)) for key, value in {**numbers, **derived}.items()}
        path = self.folder.own(Path(file).stem, Path(file).suffix, self.name)
        path.write_text(Template((SHIPPED / file).read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
        await self.choose_robot(path.name)

    # --- data ---

    async def add_log(self, name: str) -> None:
        """Read a log of the folder, and propose what its columns are."""
        async with self._doing(f"reading {name}", "Data", "Results"):
            await self._read(name)
        if name in self.logs and not self.error:
            await self.refresh()

    async def _read(self, name: str) -> None:
        self.folder.path(name)
        found = await Job("read_log", self._task(log=name)).run()
        self.read[name] = found
        self.logs.setdefault(name, True)
        columns = {key: Column(**one) for key, one in found["columns"].items()}
        self.choices = replace(self.choices, columns={**columns, **self.choices.columns})

    @property
    def times(self) -> set[str]:
        """Time columns of the logs."""
        return {read["time"] for read in self.read.values() if read["has_times"]}

    async def set_column(self, name: str, **changes: str) -> None:
        """Correct what a column is."""
        own = replace(self.choices.columns.get(name, Column()), **changes)
        await self._set_columns({**self.choices.columns, name: own})

    async def _set_columns(self, columns: dict[str, Column]) -> None:
        """Correct what columns are; where units have changed, the logs are read again."""
        units, self.choices = self.choices.units, replace(self.choices, columns=columns)
        if self.choices.units != units:
            async with self._doing("reading the logs again", "Data"):
                for name in list(self.logs):
                    await self._read(name)
        if not self.error:
            await self.refresh()

    async def answer(self, question: dict[str, Any], yes: bool) -> None:
        """Do what a question about a unit, a clock or a sign proposes, or do not ask again."""
        if not yes:
            self.answered.add(question["text"])
            self.versions["live"] += 1
            return
        columns, unit = dict(self.choices.columns), question["evidence"]["unit"]
        for name in self.about(question):
            own = columns.get(name, Column())
            other = own.unit.removeprefix("-").removeprefix("1") if own.unit.startswith("-") else f"-{own.unit or 1}"
            columns[name] = replace(own, unit=other if unit == "-1" else unit)
        await self._set_columns(columns)

    def about(self, question: dict[str, Any]) -> list[str]:
        """Columns to which a question refers: for a unit without signals, the time columns."""
        evidence = question["evidence"]
        return list(evidence.get("signals", sorted(self.times) if "unit" in evidence else []))

    async def use_log(self, name: str, fitted: bool) -> None:
        """Fit a log, or leave it out."""
        self.logs[name] = fitted
        self.versions["Results"] += 1
        await self.refresh()

    # --- problem file ---

    @property
    def results(self) -> Path:
        """Folder of results."""
        assert self.problem is not None
        return self.folder.path("results") / self.problem.stem

    async def open_problem(self, name: str) -> None:
        """Open a problem file, which executes it."""
        async with self._doing(f"reading {name}", *STEPS):
            path = self.folder.path(name)
            try:
                source = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ProblemError(f"{name} cannot be read ({error}); give a Python file") from None
            self._clear()
            self.source, self.problem, self.opened, self.step = source, path, path, "Parameters"
        if self.source is not None:
            await self.refresh()

    async def choose(self, choices: Choices) -> None:
        """Take other choices."""
        self.choices = choices
        await self.refresh()

    async def refresh(self) -> None:
        """Write the problem file anew and check it; of several requests the last one counts."""
        self._asked += 1
        mine, self.checked, self.questions = self._asked, None, []
        async with self._turn:
            if mine == self._asked:
                async with self._doing("checking", "Parameters", "live"):
                    await self._check()

    async def _check(self) -> None:
        if self.source is None and not any(self.logs.values()):
            return
        if self.source is None or self.choices != Choices():
            stem = Path(self.robot).stem if self.opened is None else f"{self.opened.stem}_studio"
            self.problem = self.folder.own(re.sub(r"\W|^(?=\d)", "_", stem), ".py", self.name)
            self.notices = await self._write(self.problem, self.choices)

        def heard(event: Event) -> None:
            self.questions = event["questions"]
            self.versions["live"] += 1

        self.checked = await Job("check", {"problem": str(self.problem)}, heard).run()
        self.keys = self.checked["keys"] or self.keys

    async def _write(self, out: Path, choices: Choices, ladder: str = "") -> list[str]:
        """A problem file, and what to say of it."""
        logs = [name for name, used in self.logs.items() if used]
        task = self._task(choices=asdict(choices), source=self.source, logs=logs, out=str(out), ladder=ladder)
        return list(await Job("write", task).run())

    # --- fit ---

    async def solve(self) -> None:
        """Fit, in a process; its iterations are heard as they come."""
        if self.fitting or self.checked is None or self.problem is None:
            return
        self.iterations, self.result, self.predicted, self.compared = [], None, None, ""
        self.error, self.fitting = "", "building"
        self.versions.update(["Run", "Results"])

        def heard(event: Event) -> None:
            if event["event"] == "iteration":
                self.iterations.append(event)
            self.fitting = event.get("text") or ("fitting" if self.fitting == "building" else self.fitting)
            self.versions["live"] += 1

        self.fit = job = Job("solve", {"problem": str(self.problem), "out": str(self.results)}, heard)
        try:
            result = await job.run()
            if self.fit is job:
                self.result, self.step = result, "Results"
        except ProblemError as error:
            if self.fit is job:
                self.error = str(error)
        finally:
            if self.fit is job:
                self.fit, self.fitting = None, ""
            self.versions.update(["Run", "Results"])

    def cancel(self) -> None:
        """End the fit with its best iterate."""
        if self.fit is not None:
            self.fitting = "cancelling"
            self.fit.cancel()
            self.versions["live"] += 1

    def end(self) -> None:
        """End the fit with nothing."""
        if self.fit is not None:
            self.fit.kill()
            self.fit = None

    # --- results ---

    async def predict(self, log: str) -> None:
        """Predict a recording with the estimates."""
        async with self._doing(f"predicting {log}", "Results"):
            self.predicted, self.predicted_log = None, log
            task = self._task(problem=str(self.problem), out=str(self.results), log=log)
            self.predicted = await Job("predict", task).run()

    async def compare(self) -> None:
        """Compare friction laws, by a file that the command ``ladder`` repeats."""
        assert self.problem is not None
        async with self._doing("comparing friction laws", "Results"):
            out = self.folder.own(f"{self.problem.stem}_friction", ".py", self.name)
            laws = dict.fromkeys(self.facts["labels"], FRICTION[-1])
            await self._write(out, replace(self.choices, friction=laws), self.problem.stem)
            self.written.append(out.name)
            self.compared = await Job("compare", {"problem": str(out)}).run()

    async def export(self, kind: str) -> None:
        """Write the robot's file, a card, draws for simulators or the report, by the commands that do so."""
        assert self.problem is not None
        async with self._doing(f"writing the {kind}", "Results"):
            stem, results = self.problem.stem, str(self.results.relative_to(self.folder.root))
            names = {
                "robot": (f"{stem}_identified", Path(self.robot).suffix, ["export", results, "--to", self.robot]),
                "card": (f"{stem}_card", ".json", ["card", results]),
                "draws": (f"{stem}_draws", ".npz", ["randomize", results]),
                "report": (f"{results}/report", ".html", ["report", results]),
            }
            name, ending, words = names[kind]
            if kind != "report":
                name = self.folder.own(name, ending, self.name).stem
                words = [*words, "--out", f"{name}{ending}"]
            await command(words, self.folder.root)
            self.written.append(f"{name}{ending}")
