"""The system's C compiler, if there is one."""

from __future__ import annotations

import math
import os
import platform
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from spookid.errors import ProblemError

CANDIDATES = ("cc", "gcc", "clang")
"""Looked for in this order, after what the environment variable CC names."""
FEW_STEPS = 5_000
"""Along fewer steps -O1 is enough: it takes half as long, a second or two of a first fit, and costs a fit some
hundredths of one."""
_AS_TEXT: Any = {"text": True, "errors": "replace"}
TIMEOUT = 600.0
"""A compiler that takes longer [s] is given up: ten times what the largest model takes on an idle machine."""
_ANSWER = 60.0
"""Likewise to say which one it is [s]."""
_POSIX = os.name == "posix"
_running: set[subprocess.Popen[str]] = set()
"""Compilers at work."""


class CompilationError(RuntimeError):
    """There is no compiler, or it does not compile; the message says why."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler with the command line of gcc."""

    command: tuple[str, ...]
    version: str
    """First line of what it says of itself."""

    def flags(self, steps: float = math.inf) -> tuple[str, ...]:
        """For a source to be run along so many steps. Nothing lets the compiler reorder sums.

        Functions are hidden unless they say otherwise: one called like another of the process would be taken for it.
        """
        level = "-O1" if steps < FEW_STEPS else "-O3"
        # Without the second one, -O1 leaves the registers for vectors to hold nothing for long.
        careful = "-fno-math-errno", "-fexpensive-optimizations", "-Wno-psabi"
        return (level, *careful, "-march=native", "-fPIC", "-shared", "-fvisibility=hidden")

    def build(self, source: str, folder: Path, steps: float = math.inf) -> Path:
        """Compile a source, to be run along so many steps, to a shared library in ``folder``.

        Raises:
            CompilationError: if that fails.
        """
        code, library = folder / "kernels.c", folder / "kernels.so"
        code.write_text(source, encoding="ascii")
        flags = self.flags(steps)
        for usual in (flags, [f for f in flags if f != "-march=native"]):  # not all know the processor they run on
            done = self._run(folder, *usual, str(code), "-o", str(library), "-lm")
            if done.returncode == 0:
                return library
            if "-march" not in done.stderr:  # what fails for want of room would find other digits without
                break
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CompilationError(f"{self.command[0]} failed: {lines[0]}")

    def _run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it with its own temporary files in a folder that is removed even if it is killed; if this is interrupted,
        what it has begun itself ends with it."""
        command = [*self.command, *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        own: dict[str, Any] = {"env": {**os.environ, "TMPDIR": str(folder)}, "process_group": 0 if _POSIX else None}
        try:
            with _begun(command, {**pipes, **own, **_AS_TEXT}) as running:
                try:
                    out, err = running.communicate(timeout=TIMEOUT)
                except BaseException:
                    _end(running)
                    raise
                finally:
                    _running.discard(running)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompilationError(f"{self.command[0]} failed: {error}") from None
        return subprocess.CompletedProcess(command, running.returncode, out, err)


def _begun(command: Sequence[str], how: Mapping[str, Any]) -> subprocess.Popen[str]:
    """A process among those at work. A signal waits until it is: what it tears, it leaves running."""
    if threading.current_thread() is not threading.main_thread():  # where no signal is heard
        running = subprocess.Popen(command, **how)
        _running.add(running)
        return running
    heard: list[int] = []
    before = {n: signal.signal(n, lambda number, _: heard.append(number)) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        running = subprocess.Popen(command, **how)
        _running.add(running)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
    try:
        for late in heard:
            signal.raise_signal(late)
    except BaseException:
        _end(running)
        raise
    return running


def end_all() -> None:
    """End the compilers that threads of this process wait for: it ends, and they would not."""
    for running in tuple(_running):
        _end(running)


def _end(running: subprocess.Popen[str]) -> None:
    with suppress(OSError):  # it has ended by itself
        os.killpg(running.pid, signal.SIGKILL) if _POSIX else running.kill()


def find() -> Compiler:
    """The compiler that the environment variable CC names, else the first that is there.

    Raises:
        CompilationError: if there is none.
        ProblemError: if the variable is no command.
    """
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find(wanted: str, path: str) -> Compiler:
    try:
        own = shlex.split(wanted)
    except ValueError as error:
        told = f"the environment variable CC is {wanted!r}, which is no command ({error}); set it to one, or unset it"
        raise ProblemError(told) from None
    for command in (own, *([name] for name in CANDIDATES)):
        where = shutil.which(command[0], path=path) if command else None
        if where is None:
            continue
        try:
            said = subprocess.run([where, "--version"], capture_output=True, timeout=_ANSWER, **_AS_TEXT, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        return Compiler((where, *command[1:]), (said.stdout.splitlines() or [Path(where).name])[0].strip())
    raise CompilationError("no C compiler (CC, cc, gcc, clang) was found")


@lru_cache(maxsize=1)
def processor() -> str:
    """What code for this very processor depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = {line for line in lines if line.partition(":")[0].strip() in {"model name", "flags", "Features", "CPU part"}}
    return "\n".join([platform.system(), platform.machine(), platform.processor(), *sorted(told)])
