"""Parts of the page that its steps share: work in the background, plots, a player, places to drop files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui import background_tasks, events, ui

from spookid.errors import ProblemError
from spookid.studio.folder import Folder
from spookid.studio.session import Session

SMALL = "text-xs text-gray-600"


def start(work: Awaitable[None]) -> None:
    """Do something beside, whatever becomes of the page that asked for it."""
    background_tasks.create(work)


def tagged(element: Any, key: str, name: str) -> Any:
    """An element that programs find by a name, whatever characters that has."""
    element.props[f"data-{key}"] = name
    return element


def on_change(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """An element whose new values start some work."""
    element.on_value_change(lambda event: start(then(event.value)))
    return element


def on_enter(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """A field whose new value starts some work once it is left."""
    element.on("change", lambda: start(then(element.value)))
    return element


def button(text: str, key: str, work: Callable[..., Awaitable[None]], props: str = "outline") -> ui.button:
    """A button that starts some work."""
    made: ui.button = tagged(ui.button(text, on_click=lambda: start(work())).props(props), "act", key)
    return made


def fold(session: Session, title: str, key: str, unfolded: bool = False) -> ui.expansion:
    """A part of a step that stays as the user has left it."""
    if unfolded and f"seen {key}" not in session.unfolded:
        session.unfolded |= {key, f"seen {key}"}
    made: ui.expansion = tagged(
        ui.expansion(title, value=key in session.unfolded).classes("w-full border rounded"), "act", key
    )
    made.on_value_change(lambda e: session.unfolded.add(key) if e.value else session.unfolded.discard(key))
    return made


def said(text: str) -> None:
    """Text of a command, as a terminal shows it."""
    ui.label(text).classes("said")


def findings(found: Sequence[dict[str, Any]]) -> None:
    """Warnings and notes with their codes."""
    colours = {"error": "bg-red-100", "warning": "bg-amber-100", "note": "bg-gray-100"}
    for one in found:
        with ui.column().classes(f"{colours[one['severity']]} rounded p-2 gap-0 w-full"):
            ui.label(one["code"]).classes("text-xs font-bold")
            ui.label(one["text"]).classes("text-xs")


def plots() -> Any:
    """A place for plots, as many side by side as there is room for."""
    return ui.element("div").classes("w-full plots")


def plot(series: dict[str, Any], unit: str = "", height: int = 160, log: bool = False) -> ui.echart:
    """Series over time, zoomable; of several the first is what was measured, a broad pale line."""
    widths = [4 if len(series) > 1 and i == 0 else 1.4 for i in range(len(series))]
    lines = [
        {"name": name, "type": "line", "data": data, "showSymbol": False, "lineStyle": {"width": width}}
        for (name, data), width in zip(series.items(), widths, strict=True)
    ]
    options = {
        "animation": False,
        "color": ["#f5b971", "#1f4e9c"] if len(series) > 1 else ["#1f4e9c"],
        "grid": {"left": 64, "right": 36, "top": 28, "bottom": 44},
        "legend": {"top": 0, "itemHeight": 8, "textStyle": {"fontSize": 11}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "value", "name": "iteration" if log else "s", "min": "dataMin", "max": "dataMax"},
        "yAxis": {"type": "log" if log else "value", "name": unit, "scale": True},
        "dataZoom": [{"type": "inside"}, {"type": "slider", "height": 12, "bottom": 4}],
        "series": lines,
    }
    return ui.echart(options).classes("w-full").style(f"height: {height}px")


def player(first: float, last: float, go: Callable[[float], None]) -> None:
    """A slider over time that also runs by itself."""
    with ui.row().classes("w-full items-center no-wrap"):
        slider = ui.slider(min=first, max=max(last, first + 1e-3), step=0.01, value=first)
        slider.on_value_change(lambda e: go(e.value))

        def tick() -> None:
            slider.value = first if slider.value >= last else min(slider.value + 0.1, last)

        timer = ui.timer(0.1, tick, active=False)
        play = ui.button(icon="play_arrow", on_click=lambda: setattr(timer, "active", not timer.active))
        play.props('round dense aria-label="play"')
    go(first)


def saved(names: Sequence[str], folder: Folder) -> None:
    """Files that can be saved from the page."""
    for name in names:
        path = folder.path(name)
        link = ui.link(name, "#").classes("text-sm")
        link.on("click", lambda path=path: ui.download.content(path.read_bytes(), path.name))


class Step:
    """A panel of the page: ``content`` builds it, again and again."""

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
        """A place to drop files on; each is kept in the folder."""
        session = self.session

        async def dropped(event: events.UploadEventArguments) -> None:
            try:
                name = await session.folder.keep(event.file.name, event.file.iterate(), endings)
            except ProblemError as error:
                session.refuse(str(error))
            else:
                start(then(name))

        box = ui.upload(label=label, multiple=endings is None, auto_upload=True, on_upload=dropped)
        box.classes("w-full").props("flat bordered")
