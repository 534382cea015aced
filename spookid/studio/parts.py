"""Parts of the page that its steps share: work in the background, plots, a player, places to drop files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui import events, ui

from spookid.errors import ProblemError
from spookid.studio.session import Session

SMALL = "text-xs text-gray-600"


def tagged(element: Any, key: str, name: str) -> Any:
    """Element that programs find by name, whatever characters the name has."""
    element.props[f"data-{key}"] = name
    return element


def on_change(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """Element whose new values start a task."""
    element.on_value_change(lambda event: then(event.value))
    return element


def on_enter(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """Field whose new value starts a task when the field is left."""
    element.on("change", lambda: then(element.value))
    return element


def button(text: str, key: str, work: Callable[..., Awaitable[None]], props: str = "outline") -> ui.button:
    """Button that starts a task."""
    made: ui.button = tagged(ui.button(text, on_click=work).props(props), "act", key)
    return made


def fold(session: Session, title: str, key: str, unfolded: bool = False) -> ui.expansion:
    """Expandable part of a page that stays as the user left it."""
    if unfolded and f"seen {key}" not in session.unfolded:
        session.unfolded |= {key, f"seen {key}"}
    made: ui.expansion = tagged(
        ui.expansion(title, value=key in session.unfolded).classes("w-full border rounded"), "act", key
    )
    made.on_value_change(lambda e: session.unfolded.add(key) if e.value else session.unfolded.discard(key))
    return made


def findings(found: Sequence[dict[str, Any]]) -> None:
    """List of warnings and notes with their codes."""
    colours = {"error": "bg-red-100", "warning": "bg-amber-100", "note": "bg-gray-100"}
    for one in found:
        with ui.column().classes(f"{colours[one['severity']]} rounded p-2 gap-0 w-full"):
            ui.label(one["code"]).classes("text-xs font-bold")
            ui.label(one["text"]).classes("text-xs")


def figure(block: dict[str, Any]) -> None:
    """A figure of the report."""
    ui.plotly(block["figure"]).classes("w-full").style(f"height: {block['height']}px")


def player(first: float, last: float, go: Callable[[float], None]) -> None:
    """Time slider that can also run by itself."""
    with ui.row().classes("w-full items-center no-wrap"):
        slider = ui.slider(min=first, max=max(last, first + 1e-3), step=0.01, value=first)
        slider.on_value_change(lambda e: go(e.value))

        def tick() -> None:
            slider.value = first if slider.value >= last else min(slider.value + 0.1, last)

        timer = ui.timer(0.1, tick, active=False)
        play = ui.button(icon="play_arrow", on_click=lambda: setattr(timer, "active", not timer.active))
        play.props('round dense aria-label="play"')
    go(first)


class Step:
    """Base class of the panels of the page: ``content`` builds the panel, again after each change."""

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
        """Area for dropping files; each file is stored in the folder."""
        session = self.session

        async def dropped(event: events.UploadEventArguments) -> None:
            try:
                name = await session.folder.keep(event.file.name, event.file.iterate(), endings)
            except ProblemError as error:
                session.error = str(error)
            else:
                await then(name)

        box = ui.upload(label=label, multiple=endings is None, auto_upload=True, on_upload=dropped)
        box.classes("w-full").props("flat bordered")
