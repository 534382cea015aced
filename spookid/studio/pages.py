"""The server of the studio, who may talk to it, and the frame of its page: steps, what is being done, and refusals."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from nicegui import core, ui
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from spookid.studio.folder import Folder
from spookid.studio.outcome import ParametersStep, ResultsStep, RunStep
from spookid.studio.parts import tagged
from spookid.studio.session import STEPS, Session
from spookid.studio.steps import DataStep, RobotStep

HOST = "127.0.0.1"
_REFUSED = "Open the address that spookid studio printed: it has the token that this page asks for.\n"


class Guard:
    """ASGI application in front of another one, which passes only allowed requests and websockets.

    A request is allowed if its Host is this server (a rebound name of another site is not), its Origin, if it has one,
    is this server, too, and it brings the token: in the address at the first visit, from then on in a cookie.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app, self._port = app, port
        self.token = secrets.token_urlsafe(32)
        self.address = f"http://{HOST}:{port}/?token={self.token}"
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        # Browsers share cookies between the ports of a machine.
        self._cookie, self._session = f"spookid_studio_{port}", f"spookid_studio_{port}_session"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        token, cookies = asked.query_params.get("token", ""), asked.cookies
        places = asked.headers.get("host", ""), asked.headers.get("origin", f"http://{HOST}:{self._port}")
        from_here = all(place.removeprefix("http://") in self._hosts for place in places)
        answer: ASGIApp = self.app
        if not from_here or not (self._is_token(token) or self._is_token(cookies.get(self._cookie, ""))):
            answer = WebSocketClose(1008) if scope["type"] == "websocket" else PlainTextResponse(_REFUSED, 403)
        elif scope["type"] == "http" and scope["path"] == "/" and token:
            answer = self._welcome(self.session(cookies))
        await answer(scope, receive, send)

    def session(self, cookies: Mapping[str, str]) -> str:
        """Identity of a browser; empty before its first visit."""
        return cookies.get(self._session, "")

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def _welcome(self, session: str) -> HTMLResponse:
        """Gives the browser its cookies, and takes the token out of its address and history."""
        # Within the page, not by a redirect: a strict cookie does not come with a redirect from another site.
        head = '<!doctype html><meta charset="utf-8"><title>spookid studio</title>'
        answer = HTMLResponse(f'{head}<script>location.replace("/")</script>', headers={"cache-control": "no-store"})
        for name, value in ((self._cookie, self.token), (self._session, session or secrets.token_urlsafe(16))):
            answer.set_cookie(name, value, httponly=True, samesite="strict")
        return answer


def serve(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve the page until the process is interrupted; ``say`` receives its address."""
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
    """Page of a session, which also follows changes in other windows of the same browser."""
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
