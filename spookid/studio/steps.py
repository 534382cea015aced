"""The first steps: a robot, and what was recorded of it."""

from __future__ import annotations

import numpy as np
from nicegui import ui

from spookid.studio.choices import ROLES
from spookid.studio.folder import PROBLEMS, ROBOTS
from spookid.studio.parts import SMALL, Drawing, Step, button, figure, fold, on_change, on_enter, player, tagged
from spookid.studio.session import DIMENSIONS


class RobotStep(Step):
    """Page on which a robot's file is dropped, chosen or written, drawn and moved."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        with ui.dialog() as self._dialog, ui.card():
            self._question = ui.label()
            with ui.row():
                execute = ui.button("Execute and open", on_click=lambda: self._dialog.submit(True))
                tagged(execute, "act", "execute")
                ui.button("Cancel", on_click=lambda: self._dialog.submit(False)).props("flat")
        with ui.row().classes("w-full items-start"):
            with ui.column().classes("gap-2").style("flex: 1 1 300px; min-width: 280px"):
                self.dropping("Drop a URDF, xacro or MJCF file", ROBOTS, session.choose_robot)
                if robots := session.folder.listed(ROBOTS):
                    known = session.robot if session.robot in robots else None
                    box = ui.select(robots, value=known, label="Robot files in the folder").classes("w-full")
                    on_change(tagged(box, "act", "robots"), session.choose_robot)
                with fold(session, "Pick a mechanism", "pick"):
                    self._shipped()
                with fold(session, "Open a problem file", "open"):
                    self.dropping("Drop a problem file (.py)", PROBLEMS, self._ask)
                    if problems := session.folder.listed(PROBLEMS):
                        box = ui.select(problems, label="Problem files in the folder").classes("w-full")
                        on_change(box, self._ask)
            with ui.column().classes("gap-2").style("flex: 2 1 420px; min-width: 300px"):
                if session.robot:
                    self._drawn()
                elif session.opened is not None:
                    ui.label(f"The mechanism is declared in {session.opened.name}.")

    def _shipped(self) -> None:
        kind = ui.select(list(DIMENSIONS), value="pendulum", label="Mechanism").classes("w-full")

        @ui.refreshable
        def numbers() -> None:
            values = dict(DIMENSIONS[kind.value][1])
            with ui.row().classes("gap-2"):
                for name, value in values.items():
                    unit = "kg" if "mass" in name else "N m/rad" if name == "kp" else "m"
                    box = ui.number(f"{name} [{unit}]", value=value, format="%.6g").classes("w-28")
                    box.on_value_change(lambda e, name=name: values.update({name: e.value or 0.0}))
            button("Take it", "take", lambda: self.session.choose_shipped(kind.value, values), "")

        numbers()
        kind.on_value_change(numbers.refresh)

    async def _ask(self, name: str) -> None:
        """Opening executes: ask first."""
        self._question.text = f"Opening {name} executes this file, with all your rights. Do you trust the file?"
        if await self._dialog:
            await self.session.open_problem(name)

    def _drawn(self) -> None:
        session, facts = self.session, self.session.facts
        ui.label(f"{facts['name']}: {len(facts['bodies'])} bodies, {len(facts['joints'])} joints").classes("font-bold")
        drawing = Drawing(facts)
        sliders: dict[str, ui.slider] = {}
        following: list[bool] = []

        def move(name: str, value: float) -> None:
            if following:
                return
            drawing.values[name] = value
            drawing.show(name)
            following.append(True)
            for other in sliders.keys() - {name}:
                sliders[other].value = drawing.values[other]
            following.clear()

        with ui.grid(columns="auto 1fr auto").classes("w-full items-center gap-x-3 gap-y-0"):
            for joint in drawing.movable:
                name, lower, upper = joint["name"], joint["lower"], joint["upper"]
                ui.label(name).classes("text-sm")
                slider = ui.slider(min=lower, max=upper, step=(upper - lower) / 400, value=drawing.values[name])
                slider.on_value_change(lambda e, name=name: move(name, e.value))
                slider.set_enabled(name not in drawing.followers)
                unit = "rad" if joint["kind"] == "hinge" else "m"
                ui.label().classes("text-xs w-20").bind_text_from(slider, "value", lambda v, u=unit: f"{v:.3f} {u}")
                sliders[name] = tagged(slider, "joint", name)
        with ui.row().classes("gap-4"):
            for key, text in (("free", "its root moves freely"), ("mend", "mend impossible inertias")):
                own = {"free": session.choices.free, "mend": session.choices.mend}
                box = ui.checkbox(text, value=own[key])
                on_change(box, lambda on, key=key, own=own: session.choose_robot(session.robot, **{**own, key: on}))
        for notice in facts["notices"]:
            ui.label(notice).classes(SMALL)


class DataStep(Step):
    """Page on which logs are dropped, their columns are assigned to joints, and questions are answered."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        if not session.robot:
            ui.label("Choose a robot first." if session.opened is None else "The problem file has its own recordings.")
            self._questions("")
            return
        with ui.row().classes("w-full items-end"):
            with ui.element("div").style("flex: 1 1 300px"):
                self.dropping("Drop logs: CSV, MCAP, rosbag, ULog, Parquet, HDF5, MATLAB, NPZ", None, session.add_log)
            if there := [name for name in session.folder.listed() if name not in session.logs]:
                on_change(ui.select(there, label="Logs in the folder").style("flex: 1 1 240px"), session.add_log)
        for name, fitted in session.logs.items():
            with ui.row().classes("w-full items-center gap-3"):
                ui.label(name).classes("font-bold")
                ui.label(session.read[name]["said"]).classes("text-sm text-gray-600")
                box = tagged(ui.checkbox("fit it", value=fitted), "fitted", name)
                on_change(box, lambda on, name=name: session.use_log(name, on))
            for note in session.read[name]["notes"]:
                ui.label(note).classes(SMALL)
        if session.logs:
            widths = "minmax(90px,auto) 130px 150px 110px minmax(160px,1fr)"
            with ui.element("div").classes("w-full overflow-x-auto"), ui.grid(columns=widths) as table:
                table.classes("items-center gap-x-2 gap-y-0")
                self._columns()
            ui.label("A minus before a unit turns the sign round: -deg, or -1 for SI.").classes(SMALL)
            self._questions("")
            with fold(session, "Plots of all signals", "plots", unfolded=True):
                for name, read in session.read.items():
                    ui.label(name).classes("text-sm")
                    figure(read["figure"])
            self._replay()

    def _columns(self) -> None:
        session = self.session
        roles = {role: role or "not used" for role in ROLES}
        joints = {label: label or "–" for label in ["", *session.facts["labels"]]}
        for head in ("column", "is", "of joint", "unit", "questions"):
            ui.label(head).classes("text-xs text-gray-500")
        for name, column in session.choices.columns.items():
            ui.label(name).classes("text-sm break-all")
            is_time = name in session.times
            for key, options, value in (("role", roles, column.role), ("joint", joints, column.joint)):
                if is_time:
                    ui.label("times" if key == "role" else "")
                    continue
                box = ui.select(options, value=value if value in options else "").props("dense options-dense")
                on_change(tagged(box, key, name), lambda new, n=name, k=key: session.set_column(n, **{k: new}))
            known = next((read["units"][name] for read in session.read.values() if name in read["units"]), "SI")
            field = tagged(ui.input(value=column.unit, placeholder=known).props("dense"), "unit", name)
            on_enter(field, lambda unit, n=name: session.set_column(n, unit=unit.strip()))
            with ui.column().classes("gap-0"):
                if column.reason and not (column.role or is_time):
                    ui.label(column.reason).classes(SMALL)
                for read in session.read.values():
                    if name in read["left_out"]:
                        ui.label(read["left_out"][name]).classes("text-xs text-red-700")
                self._questions(name)

    def live(self) -> None:
        """Update the questions, which may arrive while a user types."""
        self._questions.refresh()

    @ui.refreshable_method
    def _questions(self, name: str) -> None:
        """About a column, or if none is named about all else."""
        session = self.session
        for one in session.questions:
            about = session.about(one) if session.robot else []
            if one["text"] in session.answered or (name not in about if name else about):
                continue
            with tagged(ui.column().classes("bg-amber-100 rounded p-2 gap-1 w-full"), "question", name):
                ui.label(one["text"]).classes("text-xs")
                unit = one["evidence"].get("unit")
                with ui.row().classes("gap-1"):
                    if unit and session.robot:
                        text = "Yes, turn the sign round" if unit == "-1" else f"Yes, it is in {unit}"
                        button(text, "yes", lambda one=one: session.answer(one, True), "dense size=sm no-caps")
                    button("No", "no", lambda one=one: session.answer(one, False), "dense flat size=sm no-caps")

    def _replay(self) -> None:
        """The mechanism along a log, once somebody wants to see it."""
        session = self.session
        joints = {one["labels"][0]: one["name"] for one in session.facts["joints"] if len(one["labels"]) == 1}
        series = session.read[next(iter(session.logs))]["series"]
        matched = {
            name: c.joint for name, c in session.choices.columns.items() if c.role == "position" and c.joint in joints
        }
        tracks = {joints[joint]: np.array(series[name]).T for name, joint in matched.items() if name in series}
        if not tracks:
            return
        with fold(session, "Replay", "replay") as box, ui.column().classes("w-full") as inside:
            pass

        def build() -> None:
            if inside.default_slot.children or not box.value:
                return
            with inside:
                drawing = Drawing(session.facts)

                def go(at: float) -> None:
                    drawing.values |= {joint: float(np.interp(at, *track)) for joint, track in tracks.items()}
                    drawing.show()

                player(0.0, max(float(track[0][-1]) for track in tracks.values()), go)

        build()
        box.on_value_change(build)
