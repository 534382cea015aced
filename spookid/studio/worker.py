"""The process that does the work of one request: ``python -m spookid.studio.worker``.

It reads a task as a line of JSON, writes lines of JSON, and ends with ``done`` or with ``refused`` and a sentence.
Hostile files and heavy ones are its business alone. Another line ends a fit with its best iterate; the end of its
input, as when the studio has ended, ends it at once.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from threading import Event, Thread
from typing import Any

from spookid.errors import ProblemError
from spookid.kernels.single_thread import ONE_THREAD


def main() -> None:
    """Execute the task that is given on standard input."""
    os.environ.update(ONE_THREAD)  # before NumPy is loaded, as the command does: digits are the same
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # problem files may print
    cancelled = Event()

    def say(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    def listen() -> None:
        if not sys.stdin.readline():
            os._exit(1)
        cancelled.set()

    task = json.loads(sys.stdin.readline())
    Thread(target=listen, daemon=True).start()
    try:
        tasks = import_module("spookid.studio.tasks")
        say({"event": "done", "result": tasks.TASKS[task["task"]](task, say, cancelled)})
    except ProblemError as error:
        say({"event": "refused", "text": str(error)})
    except MemoryError:
        say({"event": "refused", "text": "memory ran out; take a larger step or a shorter log"})
    except Exception as error:  # an error of ours, which the page has to survive
        say({"event": "refused", "text": f"{task['task']} failed with {type(error).__name__}: {error}"})
    os._exit(0)  # the thread still reads


if __name__ == "__main__":
    main()
