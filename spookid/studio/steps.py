"""The steps before a fit: robot, data, parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from nicegui import background_tasks, events, ui

from spookid.errors import ProblemError
from spookid.studio.choices import ROLES, Choice, Choices
from spookid.studio.drawing import robot_stage
from spookid.studio.folder import PROBLEMS, ROBOTS, Folder
from spookid.studio.session import DIMENSIONS, Session

FRICTION = ("viscous and Coulomb", "viscous", "Coulomb", "viscous, Coulomb and Stribeck")


def start(work: Awaitable[None]) -> None:
    """Do something beside, whatever becomes of the page that asked for it."""
    background_tasks.create(work)


class Step:
    """A panel of the page: ``content`` builds it, again and again."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.content()

    @ui.refreshable_method
    def content(self) -> None:
        """All that it shows."""
        raise NotImplementedError

    def live(self) -> None:
        """Show what has changed while a fit runs."""

    def dropping(self, label: str, endings: Sequence[str] | None, then: Callable[[str], Awaitable[None]]) -> None:
        """A place to drop files on; each is kept in the folder."""
        session = self.session

        async def dropped(event: events.UploadEventArguments) -> None:
            try:
                name = await session.folder.keep(event.file.name, event.file.iterate(), endings)
            except ProblemError as error:
                session.error = str(error)
                session.touch("head")
                return
            start(then(name))

        box = ui.upload(label=label, multiple=endings is None, auto_upload=True, on_upload=dropped)
        box.classes("w-full").props("flat bordered")


def tagged(element: Any, key: str, name: str) -> Any:
    """An element that programs find by a name, whatever stands in it."""
    element.props[f"data-{key}"] = name
    return element


def echart(series: dict[str, Any], unit: str = "", height: int = 180, kinds: dict[str, str] | None = None) -> ui.echart:
    """Series over time, zoomable."""
    options = {
        "animation": False,
        "grid": {"left": 64, "right": 16, "top": 28, "bottom": 48},
        "legend": {"top": 0, "itemHeight": 8, "textStyle": {"fontSize": 11}},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "value", "name": "s", "min": "dataMin", "max": "dataMax"},
        "yAxis": {"type": "value", "name": unit, "scale": True},
        "dataZoom": [{"type": "inside"}, {"type": "slider", "height": 14, "bottom": 6}],
        "series": [
            {"name": name, "type": "line", "data": data, "showSymbol": False, "lineStyle": {"width": 1.4}}
            for name, data in series.items()
        ],
    }
    return ui.echart(options).classes("w-full").style(f"height: {height}px")


class RobotStep(Step):
    """A file is dropped, chosen or written; it is drawn and moved."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        with ui.dialog() as self._dialog, ui.card():
            self._question = ui.label()
            with ui.row():
                ui.button("Execute and open", on_click=lambda: self._dialog.submit(True)).props('data-act="execute"')
                ui.button("Cancel", on_click=lambda: self._dialog.submit(False)).props("flat")
        with ui.row().classes("w-full items-start"):
            with ui.column().classes("gap-2").style("flex: 1 1 300px; min-width: 280px"):
                if not session.robot and session.source is None:
                    ui.markdown("Drop the file of a robot, choose one of the folder, or pick a mechanism.")
                self.dropping("Drop a URDF, xacro or MJCF file", ROBOTS, session.choose_robot)
                robots, problems = session.folder.robots(), session.folder.problems()
                if robots:
                    known = session.robot if session.robot in robots else None
                    box = tagged(ui.select(robots, value=known, label="Robot files in the folder"), "act", "robots")
                    box.classes("w-full").on_value_change(lambda e: start(session.choose_robot(e.value)))
                self._shipped()
                with tagged(ui.expansion("Open a problem file").classes("w-full border rounded"), "act", "open"):
                    self.dropping("Drop a problem file (.py)", PROBLEMS, self._ask)
                    if problems:
                        ui.select(problems, label="Problem files in the folder").classes("w-full").on_value_change(
                            lambda e: start(self._ask(e.value))
                        )
            with ui.column().classes("gap-2").style("flex: 2 1 420px; min-width: 300px"):
                if session.robot:
                    self._drawn()
                elif session.source is not None:
                    ui.label(f"The mechanism is declared in {session.problem and session.problem.name}.")

    def _shipped(self) -> None:
        session = self.session
        with tagged(ui.expansion("Pick a mechanism").classes("w-full border rounded"), "act", "pick"):
            kind = ui.select(list(DIMENSIONS), value="pendulum", label="Mechanism").classes("w-full")

            @ui.refreshable
            def numbers() -> None:
                values = dict(DIMENSIONS[kind.value][1])
                with ui.row().classes("gap-2"):
                    for name, value in values.items():
                        box = ui.number(f"{name} [{_unit(name)}]", value=value, format="%.6g").classes("w-28")
                        box.on_value_change(lambda e, name=name: values.update({name: e.value or 0.0}))
                ui.button("Take it", on_click=lambda: start(session.choose_shipped(kind.value, values))).props(
                    'data-act="take"'
                )

            numbers()
            kind.on_value_change(numbers.refresh)

    async def _ask(self, name: str) -> None:
        """Opening executes: ask first."""
        self._question.text = f"Opening {name} executes it, with all your rights. Do you trust it?"
        if await self._dialog:
            await self.session.open_problem(name)
            if not self.session.error:
                self.session.step = "Parameters"

    def _drawn(self) -> None:
        session, facts = self.session, self.session.facts
        ui.label(f"{facts['name']}: {len(facts['bodies'])} bodies, {len(facts['joints'])} joints").classes("font-bold")
        _, figure, moving = robot_stage(facts)
        sliders: dict[str, ui.slider] = {}
        followed: list[bool] = []

        def move(name: str, value: float) -> None:
            if followed:
                return
            moving.values[name] = value
            figure.pose(moving.poses(name))
            followed.append(True)
            for other, slider in sliders.items():
                if other != name:
                    slider.value = moving.values[other]
            followed.clear()

        with ui.grid(columns="auto 1fr auto").classes("w-full items-center gap-x-3 gap-y-0"):
            for joint in moving.movable:
                name = joint["name"]
                ui.label(name).classes("text-sm")
                slider = ui.slider(
                    min=joint["lower"], max=joint["upper"], step=(joint["upper"] - joint["lower"]) / 400,
                    value=moving.values[name], on_change=lambda e, name=name: move(name, e.value),
                ).props(f'data-joint="{name}"')  # fmt: skip
                unit = "rad" if joint["kind"] == "hinge" else "m"
                ui.label().classes("text-xs w-20").bind_text_from(slider, "value", lambda v, u=unit: f"{v:.3f} {u}")
                if name in moving.followers:
                    slider.disable()
                sliders[name] = slider
        with ui.row().classes("gap-4"):
            for key, text in (("free", "its root moves freely"), ("mend", "mend impossible inertias")):
                box = ui.checkbox(text, value=getattr(session.choices, key))
                box.on_value_change(lambda e, key=key: start(self._again(key, e.value)))
        for notice in facts["notices"]:
            ui.label(notice).classes("text-xs text-gray-600")

    async def _again(self, key: str, value: bool) -> None:
        own = {"free": self.session.choices.free, "mend": self.session.choices.mend, key: value}
        await self.session.choose_robot(self.session.robot, **own)


def _unit(name: str) -> str:
    return "kg" if "mass" in name else "N m/rad" if name == "kp" else "m"


class DataStep(Step):
    """Logs are dropped; their columns are matched to joints, and questions stand beside them."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        if session.source is not None:
            ui.label("The recordings are those of the problem file; questions about them:")
            self._others(set())
            return
        if not session.robot:
            ui.label("Choose a robot first.")
            return
        with ui.row().classes("w-full items-end"):
            with ui.element("div").style("flex: 1 1 300px"):
                self.dropping("Drop logs: CSV, MCAP, rosbag, ULog, Parquet, HDF5, MATLAB, NPZ", None, session.add_log)
            there = [name for name in session.folder.logs() if name not in session.logs]
            if there:
                box = ui.select(there, label="Logs in the folder").style("flex: 1 1 240px")
                box.on_value_change(lambda e: start(session.add_log(e.value)))
        for name, fitted in session.logs.items():
            with ui.row().classes("w-full items-center gap-3"):
                ui.label(name).classes("font-bold")
                ui.label(session.read[name]["said"]).classes("text-sm text-gray-600")
                box = ui.checkbox("fit it", value=fitted)
                box.on_value_change(lambda e, name=name: start(session.use_log(name, e.value)))
            for note in [*session.read[name]["notes"], *session.read[name]["log_notes"]]:
                ui.label(note).classes("text-xs text-gray-600")
        if session.logs:
            self._columns()
            self._replay()

    def _columns(self) -> None:
        session = self.session
        shown: set[str] = set()
        labels = ["", *session.facts["labels"]]
        times = {read["time"] for read in session.read.values() if read["has_times"]}
        widths = "minmax(90px,auto) 130px 150px 110px minmax(160px,1fr)"
        with (
            ui.element("div").classes("w-full overflow-x-auto"),
            ui.grid(columns=widths).classes("items-center gap-x-2 gap-y-0"),
        ):
            for head in ("column", "is", "of joint", "unit", "questions"):
                ui.label(head).classes("text-xs text-gray-500")
            for name, column in session.choices.columns.items():
                ui.label(name).classes("text-sm break-all")
                if name in times:
                    ui.label("times")
                    ui.label("")
                else:
                    self._pick(name, "role", {role: role or "not used" for role in ROLES}, column.role)
                    self._pick(name, "joint", {label: label or "–" for label in labels}, column.joint)
                known = next((r["units"][name] for r in session.read.values() if name in r["units"]), "SI")
                box = tagged(ui.input(value=column.unit, placeholder=known).props("dense"), "unit", name)
                box.on("change", lambda e, name=name, box=box: start(session.set_column(name, unit=box.value.strip())))
                with ui.column().classes("gap-0"):
                    if not column.role and column.reason and name not in times:
                        ui.label(column.reason).classes("text-xs text-gray-500")
                    for read in session.read.values():
                        if name in read["left_out"]:
                            ui.label(read["left_out"][name]).classes("text-xs text-red-700")
                    for question in session.questions:
                        if name in session.about(question):
                            shown.add(question["text"])
                            self._question(question, name)
        ui.label("A minus before a unit turns the sign round: -deg, or -1 for SI.").classes("text-xs text-gray-500")
        self._others(shown)
        with ui.expansion("Plots of all signals", value=True).classes("w-full border rounded"):
            for name, read in session.read.items():
                for signal, data in read["series"].items():
                    own = session.choices.columns.get(signal)
                    what = f" ({own.role} of {own.joint})" if own and own.role else ""
                    echart({f"{name}: {signal}{what}": data}, height=150)

    def _pick(self, name: str, key: str, options: dict[str, str], value: str) -> None:
        box = tagged(
            ui.select(options, value=value if value in options else "").props("dense options-dense"), key, name
        )
        box.on_value_change(lambda e: start(self.session.set_column(name, **{key: e.value})))

    def _question(self, question: dict[str, Any], name: str = "") -> None:
        session = self.session
        if question["text"] in session.answered:
            return
        with tagged(ui.column().classes("bg-amber-100 rounded p-2 gap-1 w-full"), "question", name):
            ui.label(question["text"]).classes("text-xs")
            unit = question["evidence"].get("unit")
            with ui.row().classes("gap-1"):
                if unit and session.source is None:
                    said = "turn the sign round" if unit == "-1" else f"it is in {unit}"
                    ui.button(f"Yes, {said}", on_click=lambda: start(session.answer(question, True))).props(
                        "dense size=sm"
                    )
                ui.button("No", on_click=lambda: start(session.answer(question, False))).props("dense flat size=sm")

    def _others(self, shown: set[str]) -> None:
        """Questions that are about no column."""
        for question in self.session.questions:
            if question["text"] not in shown:
                self._question(question)

    def _replay(self) -> None:
        """The mechanism along a log."""
        session = self.session
        joints = {j["labels"][0]: j["name"] for j in session.facts["joints"] if len(j["labels"]) == 1}
        with ui.expansion("Replay", value=False).classes("w-full border rounded") as box:

            def build() -> None:
                if len(box.default_slot.children) > 0:
                    return
                with box:
                    name = next(iter(session.logs))
                    columns = {c.joint: n for n, c in session.choices.columns.items() if c.role == "position"}
                    series = session.read[name]["series"]
                    tracks = {joints[j]: series[n] for j, n in columns.items() if j in joints and n in series}
                    _, figure, moving = robot_stage(session.facts)
                    last = max((track[-1][0] for track in tracks.values()), default=0.0)

                    def go(at: float) -> None:
                        for joint, track in tracks.items():
                            moving.values[joint] = _value(track, at)
                        figure.pose(moving.poses())

                    player(last, go)

            box.on_value_change(build)


def _value(track: list[list[float]], at: float) -> float:
    """Of a series at a time."""
    import numpy as np

    pairs = [pair for pair in track if pair[1] is not None]
    return float(np.interp(at, [pair[0] for pair in pairs], [pair[1] for pair in pairs]))


def player(last: float, go: Callable[[float], None], first: float = 0.0) -> None:
    """A slider over time that also runs by itself."""
    with ui.row().classes("w-full items-center no-wrap"):
        slider = ui.slider(min=first, max=max(last, first + 1e-3), step=0.01, value=first)
        slider.on_value_change(lambda e: go(e.value))

        def tick() -> None:
            slider.value = first if slider.value >= last else min(slider.value + 0.1, last)

        timer = ui.timer(0.1, tick, active=False)
        ui.button(
            icon="play_arrow", on_click=lambda: timer.activate() if not timer.active else timer.deactivate()
        ).props('round dense aria-label="play"')
    go(first)


class ParametersStep(Step):
    """What is unknown, what is known of it, and what the data will determine."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        found = session.checked
        if found is None:
            ui.label("The parameters appear once the problem has been checked: a robot and a log are needed.")
            return
        if found["keys"]:
            ui.select(found["keys"], value=session.choices.key or found["keys"][0], label="Problem").on_value_change(
                lambda e: start(session.choose(Choices(key=e.value)))
            )
        ui.label(f"{found['name']}: {found['sizes']}").classes("text-sm")
        if session.source is None:
            self._drives()
        with ui.row().classes("text-xs gap-2"):
            for state, text in (
                ("identified", "identified by the data"),
                ("weak", "weakly, or mostly by its prior"),
                ("not", "not identifiable"),
            ):
                ui.label(text).classes(f"state-{state} px-2 rounded")
        self._table(found["rows"])
        ui.label(
            "Double-click initial values and priors to change them; expected errors are linearized there."
        ).classes("text-xs text-gray-500")
        for sentence in found["weak"]:
            ui.label(sentence).classes("text-xs")

    def _drives(self) -> None:
        session, choices = self.session, self.session.choices
        with ui.expansion("Friction, drives and step").classes("w-full border rounded"):
            kinds = {c.joint: c.role for c in choices.columns.values() if c.role in ("current", "voltage")}
            with ui.grid(columns="auto 260px 160px").classes("items-center gap-x-3 gap-y-0"):
                for joint in session.facts["joints"]:
                    if len(joint["labels"]) != 1:
                        continue
                    name = joint["labels"][0]
                    ui.label(name)
                    ui.select(list(FRICTION), value=choices.friction.get(name, FRICTION[0])).props(
                        f'dense options-dense data-friction="{name}"'
                    ).on_value_change(
                        lambda e, name=name: start(
                            session.choose(
                                replace(session.choices, friction={**session.choices.friction, name: e.value})
                            )
                        )
                    )
                    if name in kinds:
                        box = ui.number(f"gain [N m/{kinds[name][0].upper()}]", value=choices.gains.get(name)).props(
                            "dense"
                        )
                        box.on("change", lambda e, name=name, box=box: start(self._gain(name, box.value)))
                    else:
                        ui.label("")
            known = ui.select([b["name"] for b in session.facts["bodies"]], value=list(choices.known), multiple=True)
            tagged(known, "act", "known").props('label="bodies whose mass and inertia are known" use-chips')
            known.classes("w-full").on_value_change(
                lambda e: start(session.choose(replace(session.choices, known=tuple(e.value))))
            )
            with ui.row():
                within = ui.number("masses and inertias known within", value=choices.within or 0.3, min=0.01, step=0.05)
                within.classes("w-64").on(
                    "change", lambda e: start(session.choose(replace(session.choices, within=within.value)))
                )
                step = ui.number("time step [s], empty: chosen", value=choices.step, format="%.6g")
                step.classes("w-64").on(
                    "change", lambda e: start(session.choose(replace(session.choices, step=step.value)))
                )

    async def _gain(self, name: str, value: float | None) -> None:
        gains = {**self.session.choices.gains}
        gains.pop(name, None)
        await self.session.choose(replace(self.session.choices, gains=gains | ({name: value} if value else {})))

    def _table(self, rows: list[dict[str, Any]]) -> None:
        def text(value: Any) -> str:
            return "" if value is None else f"{value:.4g}"

        shown = [
            {
                **{"name": row["name"], "guess": text(row["guess"]), "unit": row["unit"], "fixed": row["fixed"]},
                "sigma": text(row["prior"][1]) if row["prior"] else "",
                "error": text(row["error"]),
                "relative": f"{100 * row['error'] / abs(row['guess']):.2g} %" if row["error"] and row["guess"] else "",
                **{"state": row["state"], "why": row["reason"] or row["note"]},
            }
            for row in rows
        ]
        rules = {f"state-{state}": f"x === '{state}'" for state in ("identified", "weak", "not", "fixed")}
        columns = [
            {"field": "name", "headerName": "parameter", "minWidth": 130, "flex": 2},
            {"field": "guess", "headerName": "initial", "editable": True, "minWidth": 80, "flex": 1},
            {"field": "unit", "minWidth": 70, "flex": 1},
            {"field": "sigma", "headerName": "prior ±", "editable": True, "minWidth": 80, "flex": 1},
            {"field": "fixed", "editable": True, "cellDataType": "boolean", "width": 70},
            {"field": "state", "headerName": "the data", "cellClassRules": rules, "minWidth": 90, "flex": 1},
            {"field": "error", "headerName": "expected error", "minWidth": 90, "flex": 1},
            {"field": "relative", "headerName": "relative", "minWidth": 80, "flex": 1},
            {"field": "why", "headerName": "note", "minWidth": 120, "flex": 2},
        ]
        grid = ui.aggrid({"columnDefs": columns, "rowData": shown, "stopEditingWhenCellsLoseFocus": True})
        grid.classes("w-full").style(f"height: {min(80 + 29 * len(shown), 620)}px")
        grid.on("cellValueChanged", lambda e: start(self._changed(e.args)))

    async def _changed(self, event: dict[str, Any]) -> None:
        session, name, value = self.session, event["data"]["name"], event["newValue"]
        own = session.choices.parameters.get(name, Choice())
        row = next(row for row in session.checked["rows"] if row["name"] == name) if session.checked else {}
        try:
            if event["colId"] == "fixed":
                await session.set_parameter(name, fixed=bool(value))
            elif event["colId"] == "guess":
                prior = (float(value), own.prior[1]) if own.prior else None
                await session.set_parameter(name, guess=float(value), prior=prior)
            elif not str(value or "").strip():
                await session.set_parameter(name, prior=None, free_of_prior=True)
            else:
                await session.set_parameter(name, prior=(float(row["guess"]), float(value)), free_of_prior=False)
        except ValueError:
            session.error = f"{value!r} is no number; give one for {name}"
            session.touch()


def listed(names: Sequence[str], folder: Folder) -> None:
    """Files that can be saved from the page."""
    for name in names:
        path = folder.path(name)
        ui.link(name, "#").on("click", lambda path=path: ui.download.content(path.read_bytes(), path.name)).classes(
            "text-sm"
        )
