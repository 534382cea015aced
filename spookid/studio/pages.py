"""The server of the studio, and the frame of its page: steps, what is being done, and refusals."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from nicegui import core, ui

from spookid.studio.folder import Folder
from spookid.studio.guard import HOST, Guard
from spookid.studio.outcome import ParametersStep, ResultsStep, RunStep
from spookid.studio.parts import tagged
from spookid.studio.session import STEPS, Session
from spookid.studio.steps import DataStep, RobotStep


def serve(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve the page until the process is interrupted; ``say`` takes its address."""
    place = Folder(folder)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening,
        tempfile.TemporaryDirectory(prefix=".spookid-studio-", dir=place.root) as aside,
    ):
        listening.bind((HOST, port))
        tempfile.tempdir = aside  # of files on their way: none is written elsewhere
        inner = FastAPI(openapi_url=None)
        guard = Guard(inner, listening.getsockname()[1])
        sessions: dict[str, Session] = {}

        @ui.page("/")
        def page(request: Request) -> None:
            name = guard.session(dict(request.cookies))
            show(sessions.setdefault(name, Session(place, name)))

        core.app.storage.path = Path(aside)
        ui.run_with(inner, title="spookid studio", show_welcome_message=False, reconnect_timeout=30.0)
        server = uvicorn.Server(uvicorn.Config(guard, log_level="warning", timeout_graceful_shutdown=1))
        say(guard.address)
        try:
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            for session in sessions.values():
                session.end()


def show(session: Session) -> None:
    """The page of a session; it follows what is done in other windows of the same browser, too."""
    ui.add_css(
        """
        .nicegui-content { max-width: 1240px; margin: 0 auto; padding: 12px; gap: 8px; width: 100%; }
        .state-identified { background: #d9f2dd; } .state-weak { background: #fdf0c8; }
        .state-not { background: #f9d6d5; } .state-fixed { color: #888; }
        .said { white-space: pre; font: 12px monospace; overflow-x: auto; width: 100%; }
        .q-uploader__list { min-height: 12px; padding: 4px; } .q-uploader { max-height: 140px; }
        """
    )
    with ui.row().classes("w-full items-center no-wrap"):
        ui.label("spookid studio").classes("text-xl font-bold")
        ui.space()
        spinner = ui.spinner(size="1.2em")
        working = ui.label().classes("text-sm text-gray-600")
    refusal = ui.label().classes("w-full bg-red-100 text-red-900 rounded p-2 text-sm")
    refusal.props('role="alert" id="refusal"')
    with ui.tabs(value=session.step).classes("w-full").props("dense no-caps inline-label align=left") as tabs:
        for i, step in enumerate(STEPS, 1):
            tagged(ui.tab(step, f"{i} {step}"), "step", step)
    kinds = RobotStep, DataStep, ParametersStep, RunStep, ResultsStep
    with ui.tab_panels(tabs, value=session.step, animated=False, keep_alive=False).classes("w-full") as panels:
        steps = {}
        for step, kind in zip(STEPS, kinds, strict=True):
            with ui.tab_panel(step).classes("p-1 w-full"):
                steps[step] = kind(session)
    seen = dict(session.versions)
    panels.on_value_change(lambda: setattr(session, "step", str(panels.value)))

    def follow() -> None:
        working.text, refusal.text = session.working or session.fitting, session.error
        spinner.visible = bool(session.working or session.fitting)
        refusal.visible = bool(session.error)
        if session.step != panels.value:
            panels.value = tabs.value = session.step
        for step, one in steps.items():
            if session.versions[step] != seen.get(step, 0):
                seen[step] = session.versions[step]
                one.content.refresh()
        if session.versions["live"] != seen.get("live", 0):
            seen["live"] = session.versions["live"]
            for one in steps.values():
                one.live()

    follow()
    ui.timer(0.2, follow)  # [s]
