"""Processes that work for a session: started, listened to and ended from the page's event loop."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spookid.errors import ProblemError

Event = dict[str, Any]


class Job:
    """One task of ``spookid.studio.worker``."""

    def __init__(self, task: str, arguments: Event, heard: Callable[[Event], None] = lambda _: None) -> None:
        self._task = {"task": task, **arguments}
        self._heard = heard
        self._process: Process | None = None

    async def run(self) -> Any:
        """What it found; raises ProblemError with the sentence of a refusal."""
        command = sys.executable, "-m", "spookid.studio.worker"
        process = self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=2**28
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(self._task).encode() + b"\n")
        try:
            while line := await process.stdout.readline():
                event: Event = json.loads(line)
                if event.get("event") == "done":
                    return event["result"]
                if event.get("event") == "refused":
                    why = event["text"]
                    raise ProblemError(f"{why}")
                self._heard(event)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        raise ProblemError(f"the process of task {self._task['task']!r} ended without an answer; was memory short?")

    def cancel(self) -> None:
        """Ask it to end with the best that it has."""
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(b"cancel\n")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


async def command(words: Sequence[str], folder: Path) -> str:
    """Run ``spookid`` with these words in a folder, and return what it printed; raises ProblemError if it refuses."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spookid", *words, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )
    said = (await process.communicate())[0].decode(errors="replace").strip()
    if process.returncode:
        why = said.rpartition("error: ")[2] or f"spookid {words[0]} ended with status {process.returncode}"
        raise ProblemError(f"{why}")
    return said
