"""Commands that are struck by signals end as they should; `tests.kills` does it often, and at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kills import COMMANDS, Command, Strike, complaints, prepared, struck, study

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
LONG = Command(("sweep", "swing.py", "--over", "J=0.008:0.014:500", "--jobs", "2", "--out", "swept"), "swept")


def test_a_sweep_that_is_struck_with_its_workers_ends_with_a_sentence(tmp_path: Path) -> None:
    """As by Ctrl-C on a terminal, while it loads, while workers start, or while they solve."""
    strike = Strike(signal.SIGINT, random.uniform(0.5, 1.5), None, group=True)
    found = struck(LONG.words, prepared(tmp_path), strike)
    assert list(complaints(LONG, strike, found, tmp_path)) == []
    assert found.status == 130 or not found.heard


def test_what_dead_workers_leave_is_cleared_without_a_word() -> None:
    leaving = """
import os
from spookid.studies.worker_pool import processes
from loky.backend import resource_tracker
processes(1)
resource_tracker.register("/spookid-no-semaphore", "semlock")
os._exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", leaving], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_ends_here_and_now_takes_along_what_it_has_not_finished(tmp_path: Path, times: int) -> None:
    """And a copy of it that ends leaves alone what the other one writes."""
    ending = f"""
import os
from pathlib import Path
from spookid.cli.terminal import end
from spookid.files import replacing
with replacing(Path("kept")) as part:
    part.write_text("whole")
with replacing(Path("torn")) as part:
    part.write_text("half")
    if {times} == 2:
        if not os.fork():
            end()
        os.wait()
        assert part.exists()
    end()
"""
    ended = subprocess.run([sys.executable, "-c", ending], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, [path.name for path in tmp_path.iterdir()]) == (130, ["kept"]), ended.stderr


@pytest.mark.study
def test_commands_that_are_struck_at_random_lose_nothing(tmp_path: Path) -> None:
    assert not study(5 * len(COMMANDS), list(COMMANDS), 1, tmp_path).total()


def test_idle_workers_end_with_the_command_and_it_hears_signals_to_the_last(tmp_path: Path) -> None:
    """Until then a signal gives 130, even while functions run that end the process."""
    script = """
import atexit, inspect, os, time
idle, at = [], []
atexit.register(lambda: os._exit(time.monotonic() - at[0] > idle[0] / 2))
from loky import get_reusable_executor
from spookid.studies.worker_pool import processes
idle.append(inspect.signature(get_reusable_executor).parameters["timeout"].default)
processes(2).submit(int).result()
at.append(time.monotonic())
atexit._run_exitfuncs()
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    late = "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
    problem = prepared(tmp_path) / "blind.py"
    problem.write_text(late + problem.read_text())
    ended = subprocess.run(
        [sys.executable, "-m", "spookid", "check", "blind.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "spookid: interrupted\n")
