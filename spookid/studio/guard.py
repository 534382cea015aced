"""Who may talk to the studio: browsers of this machine that know the token, and no other page that they have open."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

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
