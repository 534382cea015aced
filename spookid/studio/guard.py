"""Who may talk to the studio: browsers of this machine that know the token, and no other page that they have open."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HOST = "127.0.0.1"
_REFUSED = b"Open the address that spookid studio printed: it has the token that this page asks for.\n"


class Guard:
    """An ASGI application in front of another one, which sees allowed requests and websockets only.

    A request is allowed if its Host is this server (a rebound name of another site is not), its Origin, if it has one,
    is this server, too, and it brings the token: in the address at the first visit, from then on in a cookie.
    """

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.token = secrets.token_urlsafe(32)
        self.address = f"http://{HOST}:{port}/?token={self.token}"
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        # Browsers share cookies between the ports of a machine.
        self._cookie, self._session = f"spookid_studio_{port}", f"spookid_studio_{port}_session"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        cookies = _cookies(headers.get("cookie", ""))
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[-1]
        from_here = headers.get("host", "") in self._hosts
        if "origin" in headers:
            from_here = from_here and headers["origin"].removeprefix("http://") in self._hosts
        if not from_here or not (self._is_token(asked) or self._is_token(cookies.get(self._cookie, ""))):
            await _refuse(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == "/" and asked:
            await self._welcome(cookies.get(self._session, ""), send)
        else:
            await self.app(scope, receive, send)

    def session(self, cookies: MutableMapping[str, str]) -> str:
        """What tells one browser from another; empty before the first visit."""
        return cookies.get(self._session, "")

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    async def _welcome(self, session: str, send: Send) -> None:
        """Give the browser its cookies, and take the token out of its address and history."""
        values = {self._cookie: self.token, self._session: session or secrets.token_urlsafe(16)}
        cookies = [
            (b"set-cookie", f"{name}={value}; Path=/; HttpOnly; SameSite=Strict".encode())
            for name, value in values.items()
        ]
        # Within the page, not by a redirect: a strict cookie does not come with a redirect from another site.
        body = (
            b'<!doctype html><meta charset="utf-8"><title>spookid studio</title><script>location.replace("/")</script>'
        )
        head = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": [*head, *cookies]})
        await send({"type": "http.response.body", "body": body})


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_REFUSED)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": head})
    await send({"type": "http.response.body", "body": _REFUSED})
