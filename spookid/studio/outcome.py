"""The steps of the fit and of what it has found."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from spookid.studio.drawing import Figure, Stage, poses_of, upright
from spookid.studio.steps import Step, echart, listed, player, start

_COLOURS = {"error": "bg-red-100", "warning": "bg-amber-100", "note": "bg-gray-100"}
_HEAD = [
    {"name": "name", "label": "parameter", "field": "name", "align": "left"},
    {"name": "value", "label": "estimate ± standard error", "field": "value", "align": "left"},
    {"name": "relative", "label": "relative", "field": "relative", "align": "right"},
    {"name": "from", "label": "known from", "field": "from", "align": "left"},
]


def findings(found: list[dict[str, Any]]) -> None:
    """Warnings and notes with their codes."""
    for one in found:
        with ui.column().classes(f"{_COLOURS[one['severity']]} rounded p-2 gap-0 w-full"):
            ui.label(one["code"]).classes("text-xs font-bold")
            ui.label(one["text"]).classes("text-xs")


class RunStep(Step):
    """The fit while it runs."""

    @ui.refreshable_method
    def content(self) -> None:
        session = self.session
        self._chart: ui.echart | None = None
        checked = session.checked
        with ui.row().classes("items-center gap-3"):
            run = ui.button("Run", icon="play_arrow", on_click=lambda: start(session.solve())).props('data-act="run"')
            run.set_enabled(checked is not None and not session.fitting and not session.working)
            stop = ui.button("Cancel, keep the best", icon="stop", on_click=session.cancel).props(
                'outline data-act="cancel"'
            )
            stop.set_enabled(bool(session.fitting))
            self._said = ui.label().classes("text-sm")
        if checked is None:
            ui.label("Run is enabled when the check has passed.").classes("text-sm text-gray-600")
        if session.problem is not None:
            ui.label(f"Problem file: {session.problem.name}").classes("text-sm")
        if checked is not None:
            findings([*session.questions, *checked["findings"]])
        for notice in session.notices:
            ui.label(notice).classes("text-xs text-gray-600")
        self._chart = echart({"cost": []}, height=220)
        self._chart.options["xAxis"] |= {"name": "iteration"}
        self._chart.options["yAxis"] |= {"type": "log", "name": "cost"}
        self._table = ui.table(columns=_HEAD[:2], rows=[], row_key="name").props("dense flat").classes("w-full")
        self.live()

    def live(self) -> None:
        """The newest iterate."""
        session = self.session
        self._said.text = f"{session.fitting}, {len(session.iterations)} iterates" if session.fitting else ""
        if self._chart is None or not session.iterations:
            return
        costs = [[i, one["cost"]] for i, one in enumerate(session.iterations) if one["cost"] > 0]
        self._chart.options["series"][0]["data"] = costs
        self._chart.update()
        values = session.iterations[-1]["values"]
        self._table.rows = [{"name": name, "value": f"{value:.5g}"} for name, value in values.items()]


class ResultsStep(Step):
    """The answer, what it predicts, and what can be made of it."""

    @ui.refreshable_method
    def content(self) -> None:
        found = self.session.result
        if found is None:
            ui.label("The results appear when a fit has ended.")
            return
        ui.label(found["verdict"]).classes("text-lg font-bold").mark("verdict").props('data-verdict="1"')
        findings([one for one in found["findings"] if one["severity"] != "note"])
        with ui.row().classes("w-full items-start"):
            with ui.column().style("flex: 1 1 420px; min-width: 300px"):
                self._estimates(found)
            with ui.column().style("flex: 1 1 420px; min-width: 300px"):
                self._motion(found)
        with ui.expansion("Residuals", value=True).classes("w-full border rounded"):
            for one in found["signals"]:
                where = f"{one['recording']}: {one['signal']}"
                echart({f"{where} measured": one["measured"], "estimated": one["estimated"]}, one["unit"], 170)
                echart({f"{where} residual": one["residual"]}, one["unit"], 130)
        self._predictions()
        self._ladder()
        self._exports()
        with ui.expansion("Summary as text").classes("w-full border rounded"):
            ui.html(f"<pre class='said'>{_escaped(found['summary'])}</pre>", sanitize=False)

    def _estimates(self, found: dict[str, Any]) -> None:
        ui.table(columns=_HEAD, rows=found["rows"], row_key="name").props("dense flat").classes("w-full max-h-96")
        if found["derived"]:
            with ui.expansion("Masses, centres, inertias, friction and drives").classes("w-full border rounded"):
                ui.table(columns=_HEAD, rows=found["derived"], row_key="name").props("dense flat").classes("w-full")

    def _motion(self, found: dict[str, Any]) -> None:
        """Estimated motion over measured."""
        parts = found["drawing"]
        if not parts or not found["motions"]:
            return
        motion = found["motions"][0]
        names = [body["name"] for body in parts["bodies"]]
        points = [np.array(row[:3]) for frame in motion["estimated"] for row in frame if np.isfinite(row).all()]
        first = poses_of(names, motion["estimated"][0])
        points += [first[b["name"]][0] + first[b["name"]][1] @ np.array(e) for b in parts["bodies"] for e in b["ends"]]
        stage = Stage(points, upright(parts["gravity"]))
        measured = None
        if any(row is not None for row in motion["measured"]):
            measured = Figure(stage.scene, parts["bodies"], [], stage.scale, stage.turn, "#ff9f40", 0.45)
        figure = Figure(stage.scene, parts["bodies"], parts["axes"], stage.scale, stage.turn)
        times = np.array(motion["t"])

        def go(at: float) -> None:
            k = int(np.clip(np.searchsorted(times, at), 0, len(times) - 1))
            figure.pose(poses_of(names, motion["estimated"][k]))
            if measured is not None:
                row = motion["measured"][k]
                measured.pose(poses_of(names, row) if row is not None else {})

        player(float(times[-1]), go, float(times[0]))
        ui.label("Estimated motion; measured poses are orange.").classes("text-xs text-gray-500")

    def _predictions(self) -> None:
        session = self.session
        with ui.expansion("Prediction of a recording that was left out", value=True).classes("w-full border rounded"):
            logs = list(
                dict.fromkeys([*(name for name, used in session.logs.items() if not used), *session.folder.logs()])
            )
            if not logs:
                ui.label("No other log is in the folder.").classes("text-sm")
                return
            with ui.row().classes("items-end"):
                box = ui.select(logs, value=logs[0], label="Log").classes("w-64")
                ui.button("Predict", on_click=lambda: start(session.predict(box.value))).props('data-act="predict"')
            if session.predicted is not None:
                ui.html(f"<pre class='said'>{_escaped(session.predicted['text'])}</pre>", sanitize=False)
                for one in session.predicted["signals"]:
                    echart(
                        {f"{one['signal']} measured": one["measured"], "predicted": one["estimated"]}, one["unit"], 170
                    )

    def _ladder(self) -> None:
        session = self.session
        if session.source is not None:
            return
        with ui.expansion("Comparison of friction laws").classes("w-full border rounded"):
            ui.button("Compare", on_click=lambda: start(session.compare())).props('data-act="compare"')
            if session.compared is not None:
                ui.html(f"<pre class='said'>{_escaped(session.compared['text'])}</pre>", sanitize=False)

    def _exports(self) -> None:
        session = self.session
        with ui.row().classes("items-center gap-2"):
            ui.label("Write").classes("text-sm")
            kinds = {"robot": "robot file", "card": "card", "draws": "randomization", "report": "report"}
            if session.source is not None:
                kinds.pop("robot")
            for kind, text in kinds.items():
                ui.button(text, on_click=lambda kind=kind: start(session.export(kind))).props(
                    f'outline data-act="{kind}"'
                )
        if session.problem is not None:
            where = session.results.relative_to(session.folder.root)
            listed([session.problem.name, *dict.fromkeys(session.written)], session.folder)
            ui.label(f"spookid solve {session.problem.name} repeats this answer; its folder is {where}.").classes(
                "text-sm"
            )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
