"""The last steps: the fit while it runs, and what it has found."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from spookid.studio.parts import Step, button, figure, findings, fold, tagged

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
    """The answer, what it predicts, and what can be made of it."""

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
