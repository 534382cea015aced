"""The last steps: what is unknown, and what the data will determine of it; the fit while it runs; what it has found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nicegui import ui

from spookid.studio.choices import FRICTION, Choice, Choices
from spookid.studio.parts import SMALL, Step, button, figure, findings, fold, on_change, on_enter, tagged

_STATES = {"identified": "identified by the data", "weak": "weakly, or mostly by its prior", "not": "not identifiable"}
_MOST = 5
"""Sentences about unidentifiable combinations that are shown at once."""


class ParametersStep(Step):
    """Page with an editable table of parameters, coloured by what the data will determine."""

    @ui.refreshable_method
    def content(self) -> None:
        session, found = self.session, self.session.checked
        if found is None:
            ui.label("The parameters appear once the problem has been checked: a robot and a log are needed.")
            return
        if session.keys:
            box = ui.select(session.keys, value=session.choices.key or session.keys[0], label="Problem")
            on_change(box, lambda key: session.choose(Choices(key=key)))
        ui.label(f"{found['name']}: {found['sizes']}").classes("text-sm")
        if session.robot:
            with fold(session, "Bodies, friction, drives and step", "drives"):
                self._drives()
        with ui.row().classes("text-xs gap-2"):
            for state, text in _STATES.items():
                ui.label(text).classes(f"state-{state} px-2 rounded")
        self._table(found["rows"])
        ui.label("Double-click initial values and priors to change them; errors are expected ones.").classes(SMALL)
        for sentence in found["weak"][:_MOST]:
            ui.label(sentence).classes("text-xs")
        if more := len(found["weak"]) - _MOST:
            ui.label(f"and {more} more combinations" if more > 0 else "").classes("text-xs")

    def _choose(self, **changes: Any) -> Any:
        return self.session.choose(replace(self.session.choices, **changes))

    def _drives(self) -> None:
        session, choices = self.session, self.session.choices
        names = [body["name"] for body in session.facts["bodies"]]
        known = ui.select(names, value=list(choices.known), multiple=True).classes("w-full")
        known.props('label="bodies whose mass and inertia are known" use-chips')
        on_change(tagged(known, "act", "known"), lambda own: self._choose(known=tuple(own)))
        kinds = {c.joint: c.role for c in choices.columns.values() if c.role in ("current", "voltage")}
        with ui.grid(columns="auto 260px 160px").classes("items-center gap-x-3 gap-y-0"):
            for name in session.facts["labels"]:
                ui.label(name)
                law = ui.select(list(FRICTION), value=choices.friction.get(name, FRICTION[0]))
                tagged(law.props("dense options-dense"), "friction", name)
                on_change(law, lambda own, n=name: self._choose(friction={**choices.friction, n: own}))
                if name in kinds:
                    unit = "N m/A" if kinds[name] == "current" else "N m/V"
                    gain = ui.number(f"gain [{unit}], if known", value=choices.gains.get(name)).props("dense")
                    on_enter(gain, lambda own, n=name: self._choose(gains={**choices.gains, n: own or 0.0}))
                else:
                    ui.label()
        with ui.row():
            within = ui.number("share within which other inertias are known", value=choices.within or 0.3, min=0.01)
            on_enter(within.classes("w-72"), lambda own: self._choose(within=own))
            step = ui.number("time step [s], empty: chosen", value=choices.step, format="%.6g").classes("w-64")
            on_enter(step, lambda own: self._choose(step=own))

    def _table(self, rows: list[dict[str, Any]]) -> None:
        def text(value: Any) -> str:
            return "" if value is None else f"{value:.4g}"

        shown = [
            {
                **{"name": row["name"], "guess": text(row["guess"]), "unit": row["unit"], "fixed": row["fixed"]},
                **{"sigma": text(row["prior"] and row["prior"][1]), "error": text(row["error"])},
                "relative": f"{100 * row['error'] / abs(row['guess']):.2g} %" if row["known"] else "",
                **{"state": row["state"], "why": row["reason"] or row["note"]},
            }
            for row in rows
        ]
        rules = {f"state-{state}": f"x === '{state}'" for state in (*_STATES, "fixed")}
        columns = [
            {"field": "name", "headerName": "parameter", "minWidth": 150, "flex": 2},
            {"field": "guess", "headerName": "initial", "editable": True, "width": 95},
            {"field": "unit", "headerName": "unit", "width": 90},
            {"field": "sigma", "headerName": "prior ±", "editable": True, "width": 95},
            {"field": "fixed", "headerName": "fixed", "editable": True, "cellDataType": "boolean", "width": 75},
            {"field": "state", "headerName": "the data", "cellClassRules": rules, "width": 105},
            {"field": "error", "headerName": "error", "width": 95},
            {"field": "relative", "headerName": "relative", "width": 95},
            {"field": "why", "headerName": "note", "minWidth": 120, "flex": 2},
        ]
        grid = ui.aggrid({"columnDefs": columns, "rowData": shown, "stopEditingWhenCellsLoseFocus": True})
        grid.classes("w-full").style(f"height: {min(60 + 42 * len(shown), 560)}px")
        grid.on("cellValueChanged", lambda event: self._changed(event.args))

    async def _changed(self, event: dict[str, Any]) -> None:
        session, name, text = self.session, event["data"]["name"], str(event["newValue"] or "").strip()
        own = session.choices.parameters.get(name, Choice())
        try:
            if event["colId"] == "fixed":
                own = replace(own, fixed=bool(event["newValue"]))
            elif event["colId"] == "guess":
                own = replace(own, guess=float(text), prior=own.prior and (float(text), own.prior[1]))
            elif text:
                mean = next(row["guess"] for row in session.checked["rows"] if row["name"] == name)  # type: ignore[index]
                own = replace(own, prior=(mean, float(text)), free_of_prior=False)
            else:
                own = replace(own, prior=None, free_of_prior=True)
        except ValueError:
            session.error = f"{text!r} is no number; give one for {name}"
        else:
            await self._choose(parameters={**session.choices.parameters, name: own})


_LABELS = {"name": "parameter", "value": "estimate ± standard error", "relative": "relative", "from": "known from"}
_HEAD = [{"name": key, "label": label, "field": key, "align": "left"} for key, label in _LABELS.items()]


def _rows(rows: list[dict[str, Any]], head: list[dict[str, str]] = _HEAD) -> ui.table:
    return ui.table(columns=head, rows=rows, row_key="name").props("dense flat").classes("w-full max-h-96")


class RunStep(Step):
    """The fit while it runs."""

    @ui.refreshable_method
    def content(self) -> None:
        session, checked = self.session, self.session.checked
        with ui.row().classes("items-center gap-3"):
            run = button("Run", "run", session.solve, "icon=play_arrow")
            run.set_enabled(checked is not None and not session.fitting and not session.working)
            stop = ui.button("Cancel, keep the best", on_click=session.cancel).props("outline icon=stop")
            tagged(stop, "act", "cancel").set_enabled(bool(session.fitting))
            self._said = ui.label().classes("text-sm")
        if checked is None:
            ui.label("Run is enabled when the check has passed.").classes("text-sm text-gray-600")
        if session.problem is not None:
            ui.label(f"Problem file: {session.problem.name}").classes("text-sm")
        findings([*session.questions, *(checked or {"findings": []})["findings"]])
        for notice in session.notices:
            ui.label(notice).classes("text-xs text-gray-600")
        axes = {"xaxis": {"title": {"text": "iteration"}}, "yaxis": {"title": {"text": "cost"}, "type": "log"}}
        self._costs: dict[str, Any] = {"data": [], "layout": {**axes, "margin": {"t": 20, "b": 40}}}
        self._chart = ui.plotly(self._costs).classes("w-full").style("height: 220px")
        self._table = _rows([], [_HEAD[0], {**_HEAD[1], "label": "newest iterate"}])
        self.live()

    def live(self) -> None:
        """The newest iterate."""
        fitting, iterations = self.session.fitting, self.session.iterations
        self._said.text = f"{fitting}, {len(iterations)} iterates" if fitting else ""
        if iterations:
            self._costs["data"] = [{"y": [one["cost"] for one in iterations], "name": "cost"}]
            self._chart.update()
            names = [row["name"] for row in (self.session.checked or {"rows": []})["rows"]]
            values = iterations[-1]["values"]
            self._table.rows = [{"name": name, "value": f"{values[name]:.5g}"} for name in names if name in values]


class ResultsStep(Step):
    """Page with the result, its predictions, and its exports."""

    @ui.refreshable_method
    def content(self) -> None:
        found = self.session.result
        if found is None:
            ui.label("The results appear when a fit has ended.")
            return
        tagged(ui.label(found["verdict"]).classes("text-lg font-bold"), "verdict", found["status"])
        self._exports()
        findings([one for one in found["findings"] if one["severity"] != "note"])
        with ui.row().classes("w-full items-start"):
            with ui.column().style("flex: 1 1 420px; min-width: 300px"):
                _rows(found["rows"])
                if found["derived"]:
                    with fold(self.session, "Masses, centres, inertias, friction and drives", "derived"):
                        _rows(found["derived"])
            if found["scene"] is not None:
                with ui.column().style("flex: 1 1 420px; min-width: 300px"):
                    figure(found["scene"])
                    ui.label(found["scene"]["caption"]).classes("text-xs text-gray-500")
        with fold(self.session, "Residuals", "residuals", unfolded=True):
            for one in found["fits"]:
                figure(one)
        self._predictions()
        if self.session.robot:
            with fold(self.session, "Comparison of friction laws", "ladder"):
                button("Compare", "compare", self.session.compare)
                ui.label(self.session.compared).classes("said")
        with fold(self.session, "Summary as text", "summary"):
            ui.label(found["summary"]).classes("said")

    def _predictions(self) -> None:
        session = self.session
        left_out = [name for name, used in session.logs.items() if not used]
        logs = list(dict.fromkeys([*left_out, *session.folder.listed()]))
        with fold(session, "Prediction of a recording that was left out", "prediction", unfolded=True):
            if not logs:
                ui.label("No log is in the folder.").classes("text-sm")
                return
            with ui.row().classes("items-end"):
                box = ui.select(logs, value=session.predicted_log or logs[0], label="Log").classes("w-64")
                button("Predict", "predict", lambda: session.predict(box.value))
            if session.predicted is not None:
                ui.label(session.predicted["text"]).classes("said")
                figure(session.predicted["figure"])

    def _exports(self) -> None:
        session = self.session
        kinds = {"robot": "robot file", "card": "card", "draws": "randomization", "report": "report"}
        with ui.row().classes("items-center gap-2"):
            ui.label("Write").classes("text-sm")
            for kind, text in kinds.items():
                if session.robot or kind != "robot":
                    button(text, kind, lambda kind=kind: session.export(kind), "outline dense no-caps")
            if session.problem is not None:
                for name in [session.problem.name, *dict.fromkeys(session.written)]:
                    path = session.folder.path(name)
                    link = ui.link(name, "#").classes("text-sm")
                    link.on("click", lambda path=path: ui.download.content(path.read_bytes(), path.name))
                where = session.results.relative_to(session.folder.root)
                ui.label(f"The command spookid solve {session.problem.name} gives the same result. Folder: {where}.")
