"""Joint fits of 1 to 10,000 recordings on two workers: `python results/scaling.py [LARGEST]`.

Writes scaling.md. The recordings are twins of 10 s (`tests/benchmarks/many_twins.py`) in files of a temporary folder,
up to 3 GB with what lies beside them. Needs Linux, whose /proc tells each process's memory.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from spookid.tables.table import number  # noqa: E402
from tests.benchmarks.machine import machine  # noqa: E402
from tests.benchmarks.many_twins import TRUTH, write  # noqa: E402

COUNTS = (1, 10, 100, 1000, 10_000)
"""Of recordings."""
SECONDS = 10.0
STRUCK = 100
"""Recordings of the fit whose workers and whose command are killed."""
WORKERS = 100
MANY = 1_000_000
INTRO = """
This page fits a driven pendulum with three parameters, unknown process noise and unknown encoder noise to
synthetic recordings of 10 s with steps of 10 ms. The command is `spookid solve twins.py --jobs 2`. The recordings are
files, each worker has one recording in memory at a time, and workers return only sums of n_p × n_p numbers. The CPU
time is that of all processes together. The column "a further recording" shows the additional cost per recording
compared with the row before; the first rows mostly show the start of the command and its workers. The memory is the
largest resident set of any worker or of the command itself. The command `python results/scaling.py{largest}` writes
this page; the load of other
programs was {load:.1f} at its start ({machine}).
"""
PAPER = """
A recording of 10 s needs {each:.0f} ms on one core, in {iterations} iterations and including its part of the standard
errors (last row). A million recordings therefore need {core:.1f} core hours, or {hours:.2f} h with {workers} workers,
each with one recording in {memory:.0f} MB of memory. During the fit, a recording needs {disk:.0f} kB of disk space for
its chain and two versions of its states. A million recordings need {all:.0f} GB, which all workers must be able to read
once per pass. Workers return {sums:,} sums of a few kB per pass, independent of the length of the recordings; the
command adds them in their order. If a worker is lost, one pass over
its 32 current recordings is repeated. If the command is lost, its current pass is repeated. A network and a file system
with a hundred workers were not tested.
"""


@dataclass(frozen=True)
class Ended:
    """A command that ran."""

    count: int
    wall: float
    cpu: float
    """[s], of the command and its workers."""
    workers: float
    command: float
    """Largest resident sets [MB]."""
    iterations: int
    J: float
    std_err: float | None


def ran(folder: Path, *words: str, meanwhile: object = None) -> tuple[float, float, float, float]:
    """Run a command of spookid in a folder: wall time, CPU, memory of a worker and of the command, as in ``Ended``;
    ``meanwhile`` is called with its process."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = subprocess.Popen([sys.executable, "-m", "spookid", *words, "--quiet"], cwd=folder)
    peaks: dict[int, float] = {}
    if callable(meanwhile):
        threading.Thread(target=meanwhile, args=(running,), daemon=True).start()
    while running.poll() is None:
        for process in (running.pid, *children(running.pid)):
            peaks[process] = max(peaks.get(process, 0.0), peak(process))
        time.sleep(0.2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    own = peaks.pop(running.pid, 0.0)
    return time.perf_counter() - began, cpu, max(peaks.values(), default=0.0), own


def children(process: int) -> list[int]:
    """Of a process."""
    try:
        return [int(c) for c in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def peak(process: int) -> float:
    """Largest resident set so far [MB]."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)


def told(folder: Path) -> dict[str, object]:
    """The document of a result, but for what its times are."""
    document = json.loads((folder / "solution.json").read_text())
    return {name: value for name, value in document.items() if name not in ("timing_s", "notices")}


def struck(folder: Path) -> tuple[bool, float]:
    """A worker is killed in the middle of a fit, then the command itself, and it is begun again: whether no digit
    differs from that of a fit that nobody disturbed; and what a recording takes on disk meanwhile [kB]."""
    lies, sizes = folder / ".struck.unfinished" / "joint", list[int]()

    def kill(running: "subprocess.Popen[bytes]") -> None:
        def kept() -> int:
            return max((place.stat().st_mtime_ns for place in lies.glob("*.place.npz")), default=0)

        while not any(lies.glob("*/*.1.npy")):  # states of the first pass
            time.sleep(0.02)
        workers = [c for c in children(running.pid) if b"loky" in Path(f"/proc/{c}/cmdline").read_bytes()]
        os.kill(workers[-1], signal.SIGKILL)
        before = kept()
        while kept() == before:
            time.sleep(0.02)
        running.kill()
        sizes.extend(file.stat().st_size for file in lies.glob("0*/*.*"))

    ran(folder, "solve", "twins.py", "--jobs", "2", "--out", "struck", meanwhile=kill)
    assert not (folder / "struck").exists()
    ran(folder, "solve", "twins.py", "--jobs", "2", "--out", "struck")
    recordings = len(list((folder / "logs").iterdir()))
    return told(folder / "struck") == told(folder / "two"), sum(sizes) / recordings / 1000


def clustered(folder: Path) -> bool | None:
    """Whether a Dask cluster of two workers gives the same digits; None without Dask."""
    if find_spec("distributed") is None:
        return None
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        ran(folder, "solve", "twins.py", "--scheduler", cluster.scheduler_address, "--out", "dask")
    return told(folder / "dask") == told(folder / "two")


def measured(folder: Path, count: int) -> Ended:
    """The fit of so many recordings."""
    write(folder, count, SECONDS)
    costs = ran(folder, "solve", "twins.py", "--jobs", "2", "--out", "two")
    document: Any = told(folder / "two")
    J = document["parameters"]["J"]
    return Ended(count, *costs, document["iterations"], J["estimate"], J["std_err"])


def checked(folder: Path) -> dict[str, Any]:
    """What else has to hold of a fit that is there."""
    ran(folder, "solve", "twins.py", "--jobs", "1", "--out", "one")
    same, dask = told(folder / "one") == told(folder / "two"), clustered(folder)
    undisturbed, disk = struck(folder)
    return {"same": same, "dask": dask, "undisturbed": undisturbed, "disk": disk}


def each(one: Ended, before: Ended) -> float:
    """CPU time of a further recording [ms]."""
    return 1e3 * (one.cpu - before.cpu) / (one.count - before.count)


def page(rows: list[Ended], found: dict[str, Any], load: float) -> str:
    """Markdown."""
    head = ("recordings", "wall [s]", "CPU [s]", "a further recording [ms]", "a worker [MB]", "the command [MB]")
    largest = "" if rows[-1].count == COUNTS[-1] else f" {rows[-1].count}"
    lines = [
        "# Joint fits with several processes",
        "",
        filled(INTRO, largest=largest, machine=machine(), load=load),
        "",
    ]
    lines += ["| " + " | ".join((*head, "J [kg m²]")) + " |", "|" + " ---: |" * (len(head) + 1)]
    for one, before in zip(rows, [None, *rows], strict=False):
        own = "" if before is None else f"{each(one, before):.0f}"
        error = "" if one.std_err is None else f" ± {number(one.std_err, 2)}"
        cells = (f"{one.count:,}", f"{one.wall:.0f}", f"{one.cpu:.1f}", own, f"{one.workers:.0f}", f"{one.command:.0f}")
        lines.append("| " + " | ".join((*cells, f"{one.J:.7f}{error}")) + " |")
    yes = {True: "yes", False: "NO", None: "not tried, Dask is not installed"}
    lines += [
        "",
        (
            f"The true value is J = {TRUTH['J']} kg m²; the discretization bias of the 10 ms steps is "
            f"0.1 %. Tests with {STRUCK} recordings:"
        ),
        "",
    ]
    lines += [f"- Do one process and two processes give identical digits? {yes[found['same']]}."]
    lines += [f"- Does a Dask cluster of two workers give identical digits? {yes[found['dask']]}."]
    lines += [
        "- Does a fit give identical digits if a worker is killed in its first pass, then the command itself, and the"
    ]
    lines += [f"  command is repeated? {yes[found['undisturbed']]}."]
    cost, disk = each(rows[-1], rows[-2]), found["disk"]
    hours = cost * MANY / 3.6e6
    facts = {"each": cost, "iterations": rows[-1].iterations, "core": hours, "hours": hours / WORKERS}
    more = {"memory": rows[-1].workers, "disk": disk, "all": disk * MANY / 1e6, "sums": -(-MANY // 32)}
    lines += ["", "## A million recordings on a hundred workers (estimate)", ""]
    return "\n".join([*lines, filled(PAPER, **facts, **more, workers=WORKERS), ""])


def filled(words: str, **facts: Any) -> str:
    """A paragraph with its facts."""
    return fill(words.format(**facts).strip(), 120)


def main() -> None:
    largest, load = max(int(sys.argv[1]) if len(sys.argv) > 1 else COUNTS[-1], STRUCK), os.getloadavg()[0]
    rows, found = list[Ended](), dict[str, Any]()
    for count in (*(count for count in COUNTS if count < largest), largest):
        with tempfile.TemporaryDirectory() as scratch:
            rows.append(measured(Path(scratch), count))
            print(rows[-1], flush=True)
            if count == STRUCK:
                found = checked(Path(scratch))
                print(found, flush=True)
    (HERE / "scaling.md").write_text(page(rows, found, load))


if __name__ == "__main__":
    main()
