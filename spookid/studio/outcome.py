"""The last steps: the fit while it runs, and what it has found."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from spookid.studio.drawing import results_stage
from spookid.studio.parts import Step, button, findings, fold, player, plot, plots, said, saved, tagged

_HEAD = [
    {"name": "name", "label": "parameter", "field": "name", "align": "left"},
    {"name": "value", "label": "estimate ± standard error", "field": "value", "align": "left"},
    {"name": "relative", "label": "relative", "field": "relative", "align": "right"},
    {"name": "from", "label": "known from", "field": "from", "align": "left"},
]


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
        self._chart = plot({"cost": []}, "cost", 220, log=True)
        self._table = _rows([], [_HEAD[0], {**_HEAD[1], "label": "newest iterate"}])
        self.live()

    def live(self) -> None:
        """The newest iterate."""
        fitting, iterations = self.session.fitting, self.session.iterations
        self._said.text = f"{fitting}, {len(iterations)} iterates" if fitting else ""
        if iterations:
            costs = [[i, one["cost"]] for i, one in enumerate(iterations) if one["cost"] > 0]
            self._chart.options["series"][0]["data"] = costs
            self._chart.update()
            values, names = (
                iterations[-1]["values"],
                [row["name"] for row in (self.session.checked or {"rows": []})["rows"]],
            )
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
            if found["motions"]:
                with ui.column().style("flex: 1 1 420px; min-width: 300px"):
                    self._motion(found["drawing"], found["motions"][0])
        with fold(self.session, "Residuals", "residuals", unfolded=True), plots():
            for one in found["signals"]:
                where = one["signal"]
                plot({f"{where} measured": one["measured"], "estimated": one["estimated"]}, one["unit"])
                plot({f"{where} residual": one["residual"]}, one["unit"])
        self._predictions()
        if self.session.robot:
            with fold(self.session, "Comparison of friction laws", "ladder"):
                button("Compare", "compare", self.session.compare)
                said(self.session.compared)
        with fold(self.session, "Summary as text", "summary"):
            said(found["summary"])

    def _motion(self, parts: dict[str, Any], motion: dict[str, Any]) -> None:
        """Estimated motion over measured."""
        times, pose = np.array(motion["t"]), results_stage(parts, motion)
        player(float(times[0]), float(times[-1]), lambda at: pose(int(np.searchsorted(times[:-1], at))))
        ui.label("Estimated motion; measured poses are orange.").classes("text-xs text-gray-500")

    def _predictions(self) -> None:
        session = self.session
        left_out = [name for name, used in session.logs.items() if not used]
        logs = list(dict.fromkeys([*left_out, *session.folder.logs()]))
        with fold(session, "Prediction of a recording that was left out", "prediction", unfolded=True):
            if not logs:
                ui.label("No log is in the folder.").classes("text-sm")
                return
            with ui.row().classes("items-end"):
                box = ui.select(logs, value=session.predicted_log or logs[0], label="Log").classes("w-64")
                button("Predict", "predict", lambda: session.predict(box.value))
            if session.predicted is not None:
                said(session.predicted["text"])
                with plots():
                    for one in session.predicted["signals"]:
                        plot({f"{one['signal']} measured": one["measured"], "predicted": one["estimated"]}, one["unit"])

    def _exports(self) -> None:
        session = self.session
        kinds = {"robot": "robot file", "card": "card", "draws": "randomization", "report": "report"}
        with ui.row().classes("items-center gap-2"):
            ui.label("Write").classes("text-sm")
            for kind, text in kinds.items():
                if session.robot or kind != "robot":
                    button(text, kind, lambda kind=kind: session.export(kind), "outline dense no-caps")
            if session.problem is not None:
                saved([session.problem.name, *dict.fromkeys(session.written)], session.folder)
                where = session.results.relative_to(session.folder.root)
                ui.label(f"spookid solve {session.problem.name} repeats this answer, here in {where}.").classes(
                    "text-sm"
                )
