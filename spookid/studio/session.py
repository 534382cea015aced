"""The state of one browser's work: files, choices, what was found; pages of that browser show it and act on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from spookid.errors import ProblemError
from spookid.studio.choices import Choice, Choices, Column
from spookid.studio.folder import Folder
from spookid.studio.jobs import Event, Job, command

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
    """What one browser works on. Steps whose contents have changed are counted in ``versions``."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder, self.name = folder, name
        self.versions: Counter[str] = Counter()
        self.step = STEPS[0]
        self.error = ""
        self.working = ""
        """What is being done, in words; empty if nothing is."""
        self._clear()

    def _clear(self) -> None:
        self.robot: str = ""
        self.facts: dict[str, Any] = {}
        """Of the robot."""
        self.logs: dict[str, bool] = {}
        """By name, and whether each is fitted or left out."""
        self.read: dict[str, dict[str, Any]] = {}
        """What is known of each log."""
        self.choices = Choices()
        self.source: str | None = None
        """Text of a problem file that was opened."""
        self.opened: Path | None = None
        self.problem: Path | None = None
        self.questions: list[dict[str, Any]] = []
        self.answered: set[str] = set()
        """Questions that the user has said no to."""
        self.checked: dict[str, Any] | None = None
        self.notices: list[str] = []
        self.iterations: list[dict[str, Any]] = []
        self.fit: Job | None = None
        self.fitting = ""
        """What the fit is doing; empty if there is none."""
        self.result: dict[str, Any] | None = None
        self.predicted: dict[str, Any] | None = None
        self.compared: dict[str, Any] | None = None
        self.written: list[str] = []
        """Names of exported files."""

    def touch(self, *steps: str) -> None:
        """Have pages show these steps again."""
        self.versions.update(steps or STEPS)
        self.versions["all"] += 1

    async def doing(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Work that takes a while and may be refused in a sentence."""
        self.working, self.error = what, ""
        self.touch("head")
        try:
            await work()
        except ProblemError as error:
            self.error = str(error)
        finally:
            self.working = ""
            self.touch()

    # --- robot ---

    async def choose_robot(self, name: str, free: bool = False, mend: bool = False) -> None:
        """Take a robot's file of the folder."""

        async def work() -> None:
            self.folder.path(name)
            choices = Choices(free=free, mend=mend)
            facts = await Job("look", {"folder": str(self.folder.root), "robot": name, "choices": choices.tree}).run()
            self._clear()
            self.robot, self.facts, self.choices = name, facts, choices

        await self.doing(f"reading {name}", work)

    async def choose_shipped(self, name: str, values: dict[str, float]) -> None:
        """Write the file of a mechanism that comes along, with these dimensions, and take it."""
        file, defaults = DIMENSIONS[name]
        numbers = {**defaults, **values}
        if bad := [key for key, value in numbers.items() if not (math.isfinite(value) and value > 0)]:
            self.error = f"{bad[0]} is {numbers[bad[0]]:g}; give a number above 0"
            self.touch("head")
            return
        mass, length = numbers.get("mass", 0.0), numbers.get("length", 0.0)
        derived = {"half": length / 2, "inertia": mass * length**2 / 12, "friction": 0.01 * 9.81 * mass * length / 2}
        text = Template((SHIPPED / file).read_text(encoding="utf-8")).substitute(
            {key: repr(float(value)) for key, value in {**numbers, **derived}.items()}
        )
        path = self.folder.own(Path(file).stem, Path(file).suffix, self.name)
        path.write_text(text, encoding="utf-8")
        await self.choose_robot(path.name)

    # --- data ---

    async def add_log(self, name: str) -> None:
        """Read a log of the folder, and propose what its columns are."""
        await self.doing(f"reading {name}", lambda: self._read(name))
        if name in self.logs and not self.error:
            await self.refresh()

    async def _read(self, name: str) -> None:
        self.folder.path(name)
        task = {"folder": str(self.folder.root), "robot": self.robot, "log": name, "choices": self.choices.tree}
        found = await Job("read_log", task).run()
        columns = {key: Column(**one) for key, one in found["columns"].items()}
        self.read[name] = found
        self.logs.setdefault(name, True)
        self.choices = replace(self.choices, columns={**columns, **self.choices.columns})

    async def set_column(self, name: str, **changes: str) -> None:
        """Correct what a column is."""
        own = self.choices.columns.get(name, Column())
        columns = {**self.choices.columns, name: replace(own, **changes)}
        await self.set_columns(columns)

    async def set_columns(self, columns: dict[str, Column]) -> None:
        """Correct what columns are; where units have changed, the logs are read again."""
        units = self.choices.units
        self.choices = replace(self.choices, columns=columns)
        if self.choices.units != units:
            for name in list(self.logs):
                await self.doing(f"reading {name}", partial(self._read, name))
        await self.refresh()

    async def answer(self, question: dict[str, Any], yes: bool) -> None:
        """Do what a question about a unit, a clock or a sign proposes, or do not ask again."""
        if not yes:
            self.answered.add(question["text"])
            self.touch("Data")
            return
        columns, unit = dict(self.choices.columns), question["evidence"]["unit"]
        for name in self.about(question):
            own = columns.get(name, Column())
            turned = unit == "-1"
            columns[name] = replace(own, unit=_turned(own.unit) if turned else unit)
        await self.set_columns(columns)

    def about(self, question: dict[str, Any]) -> list[str]:
        """Columns that a question is about."""
        evidence = question["evidence"]
        if "unit" in evidence and not evidence.get("signals"):
            return list({read["time"] for read in self.read.values()})
        return list(evidence.get("signals", []))

    async def use_log(self, name: str, fitted: bool) -> None:
        """Fit a log, or leave it out."""
        self.logs[name] = fitted
        await self.refresh()

    # --- problem file ---

    @property
    def results(self) -> Path:
        """Folder of results."""
        assert self.problem is not None
        return self.folder.path("results") / self.problem.stem

    async def open_problem(self, name: str, key: str = "") -> None:
        """Open a problem file, which executes it."""
        path = self.folder.path(name)
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.error = f"{name} cannot be read ({error}); give a Python file"
            self.touch("head")
            return
        self._clear()
        self.source, self.problem, self.opened = source, path, path
        self.choices = Choices(key=key)
        await self.refresh()

    async def choose(self, choices: Choices) -> None:
        """Take other choices."""
        self.choices = choices
        await self.refresh()

    async def set_parameter(self, name: str, **changes: Any) -> None:
        """Another initial value or prior of a parameter, or whether it is fixed."""
        own = replace(self.choices.parameters.get(name, Choice()), **changes)
        await self.choose(replace(self.choices, parameters={**self.choices.parameters, name: own}))

    async def refresh(self) -> None:
        """Write the problem file anew and check it."""
        self.checked, self.questions = None, []
        await self.doing("checking", self._check)

    async def _check(self) -> None:
        if self.source is None and not any(self.logs.values()):
            return
        if self.source is None or self.choices != Choices():
            stem = Path(self.robot).stem if self.opened is None else f"{self.opened.stem}_studio"
            self.problem = self.folder.own(_identifier(stem), ".py", self.name)
            self.notices = await self._write(self.problem, self.choices)

        def heard(event: Event) -> None:
            if event["event"] == "questions":
                self.questions = event["questions"]
                self.touch("Data")

        self.checked = await Job("check", {"problem": str(self.problem)}, heard).run()

    async def _write(self, out: Path, choices: Choices) -> list[str]:
        """A problem file, and what to say of it."""
        logs = [name for name, used in self.logs.items() if used]
        task = {"folder": str(self.folder.root), "robot": self.robot, "source": self.source, "logs": logs}
        made = await Job("write", {**task, "out": str(out), "choices": choices.tree}).run()
        return list(made["notices"])

    # --- fit ---

    async def solve(self) -> None:
        """Fit, in a process; its iterations are heard as they come."""
        if self.fitting or self.checked is None or self.problem is None:
            return
        self.iterations, self.result, self.predicted, self.compared = [], None, None, None
        self.error, self.fitting = "", "building"

        def heard(event: Event) -> None:
            if event["event"] == "iteration":
                self.iterations.append(event)
                self.fitting = self.fitting if self.fitting == "cancelling" else "fitting"
            else:
                self.fitting = event["text"]
            self.versions["live"] += 1

        self.touch()
        self.fit = Job("solve", {"problem": str(self.problem), "out": str(self.results)}, heard)
        try:
            self.result = await self.fit.run()
            self.step = "Results"
        except ProblemError as error:
            self.error = str(error)
        finally:
            self.fit, self.fitting = None, ""
            self.touch()

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

    # --- results ---

    async def predict(self, log: str) -> None:
        """Predict a recording with the estimates."""

        async def work() -> None:
            task = {"folder": str(self.folder.root), "problem": str(self.problem), "out": str(self.results)}
            self.predicted = await Job("predict", {**task, "log": log, "choices": self.choices.tree}).run()

        await self.doing(f"predicting {log}", work)

    async def compare(self) -> None:
        """Compare friction laws."""

        async def work() -> None:
            from spookid.studio import writing  # with CasADi

            assert self.problem is not None
            out = self.folder.own(f"{self.problem.stem}_friction", ".py", self.name)
            logs = [name for name, used in self.logs.items() if used]
            laws = {joint["name"]: writing.FRICTION[-1] for joint in self.facts["joints"]}
            await self._write(out, replace(self.choices, friction=laws))
            text = out.read_text(encoding="utf-8")
            out.write_text(writing.ladder(text, self.problem.stem, len(logs) < 2), encoding="utf-8")
            self.compared = await Job("ladder", {"problem": str(out)}).run()
            self.written.append(out.name)

        await self.doing("comparing friction laws", work)

    async def export(self, kind: str) -> None:
        """Write the robot's file, a card, draws for simulators or the report, by the commands that do so."""

        async def work() -> None:
            assert self.problem is not None
            stem, results = self.problem.stem, str(self.results.relative_to(self.folder.root))
            suffix = Path(self.robot).suffix or ".urdf"
            name = {"robot": f"{stem}_identified{suffix}", "card": f"{stem}.card.json", "draws": f"{stem}_draws.npz"}
            if kind == "report":
                await command(["report", results], self.folder.root)
                self.written.append(f"{results}/report.html")
                return
            out = self.folder.own(Path(name[kind]).stem, Path(name[kind]).suffix, self.name).name
            words = {"robot": ["export", results, "--to", self.robot], "card": ["card", results]}
            await command([*words.get(kind, ["randomize", results]), "--out", out], self.folder.root)
            self.written.append(out)

        await self.doing(f"writing the {kind}", work)


def _turned(unit: str) -> str:
    """A unit with the other sign."""
    return unit[1:] if unit.startswith("-") and unit != "-1" else "" if unit == "-1" else f"-{unit or 1}"


def _identifier(stem: str) -> str:
    """A stem that Python can import."""
    word = "".join(c if c.isalnum() or c == "_" else "_" for c in stem)
    return word if word.isidentifier() else f"_{word}"
