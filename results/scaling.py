"""Joint fits of 1 to 10,000 recordings on two workers: `python results/scaling.py [PARTS]`.

Writes scaling.md. The recordings are twins of 10 s and of 1 s (`tests/benchmarks/many_twins.py`) in files of a
temporary folder, up to a gigabyte of them. What is measured is kept in the file PARTS, line by line, and is not
measured again. Ten minutes of two cores that do nothing else. Needs Linux, whose /proc tells each process's memory.
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
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from spookid.tables.numbers import number  # noqa: E402
from tests.benchmarks.many_twins import TRUTH, write  # noqa: E402

SERIES = {10.0: (1, 10, 100, 1000), 1.0: (10, 100, 1000, 10_000)}
"""Counts of recordings by their length [s]."""
STRUCK = (10.0, 100)
"""Those with which workers and commands are killed."""
WORKERS = 100
MANY = 1_000_000
INTRO = """# Joint fits beyond one process

A driven pendulum with three parameters, its disturbance and its encoder's noise unknown, fitted to twins in steps of
10 ms by `spookid solve twins.py --jobs 2`: recordings are files, each worker holds one at a time, and sums of n_p × n_p
travel. CPU is of all processes together; that of a recording is without what the command takes for {least} recordings
of that length, mostly to start. Memory is the largest resident set that any worker, or the command itself, ever had.
Made by `python results/scaling.py`, part by part, while other work had most of the machine: wall times say little."""
PAPER = """
## A million recordings on a hundred workers, on paper

A recording of 10 s costs {each:.0f} ms of one core, in {iterations} iterations and with its part of the errors (row of
1,000): a million cost {core:.1f} core hours, {hours:.2f} h of {workers} workers, each of which holds one recording, in
{memory:.0f} MB. On disk a recording takes {disk:.0f} kB meanwhile, its chain and two versions of its states:
{all:.0f} GB, which all workers must see and read once a pass. What travels are {sums:,} sums a pass of a few kB each,
whatever the length of the recordings; the command adds them, in their order. A worker that is lost costs one pass over
the 32 recordings that it was at, and a command that is lost the pass that it was at. Not measured: a network, and a
file system under a hundred workers.
"""


@dataclass(frozen=True)
class Ended:
    """A command that ran."""

    seconds: float
    """Of each recording."""
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
    lies, sizes = folder / ".struck.joint", list[int]()

    def kill(running: "subprocess.Popen[bytes]") -> None:
        kept = lies / "fit.npz"
        while not kept.exists():
            time.sleep(0.02)
        workers = [c for c in children(running.pid) if b"loky" in Path(f"/proc/{c}/cmdline").read_bytes()]
        os.kill(workers[-1], signal.SIGKILL)
        before = kept.stat().st_mtime_ns
        while kept.stat().st_mtime_ns == before:
            time.sleep(0.02)
        running.kill()
        sizes.extend(file.stat().st_size for file in lies.glob("0*/*.np?"))

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


def measured(folder: Path, seconds: float, count: int) -> Ended:
    """The fit of so many recordings."""
    write(folder, count, seconds)
    costs = ran(folder, "solve", "twins.py", "--jobs", "2", "--out", "two")
    document: Any = told(folder / "two")
    J = document["parameters"]["J"]
    return Ended(seconds, count, *costs, document["iterations"], J["estimate"], J["std_err"])


def checked(folder: Path) -> dict[str, Any]:
    """What else has to hold of a fit that is there."""
    ran(folder, "solve", "twins.py", "--jobs", "1", "--out", "one")
    same, dask = told(folder / "one") == told(folder / "two"), clustered(folder)
    undisturbed, disk = struck(folder)
    return {"same": same, "dask": dask, "undisturbed": undisturbed, "disk": disk}


def each(one: Ended, least: Ended) -> float:
    """CPU time of a recording [ms]."""
    return 1e3 * (one.cpu - least.cpu) / (one.count - least.count)


def page(rows: list[Ended], found: dict[str, Any]) -> str:
    """Markdown."""
    head = ("length [s]", "recordings", "wall [s]", "CPU [s]", "CPU of a recording [ms]", "a worker [MB]")
    head = (*head, "the command [MB]", "J [kg m²]")
    lines = [INTRO.format(least=10), "", "| " + " | ".join(head) + " |", "|" + " ---: |" * len(head)]
    starts = {one.seconds: one for one in rows if one.count == 10}
    for one in rows:
        own = f"{each(one, starts[one.seconds]):.0f}" if one.count > 10 else ""
        cells = (f"{one.seconds:g}", f"{one.count:,}", f"{one.wall:.0f}", f"{one.cpu:.1f}", own, f"{one.workers:.0f}")
        error = "" if one.std_err is None else f" ± {number(one.std_err, 2)}"
        lines.append("| " + " | ".join((*cells, f"{one.command:.0f}", f"{one.J:.7f}{error}")) + " |")
    yes = {True: "yes", False: "NO", None: "not tried, Dask is not installed"}
    lines += ["", f"The truth is J = {TRUTH['J']} kg m²; steps of 10 ms add 0.1 %. Of 100 recordings of 10 s:", ""]
    lines += [f"- One process and two give the same digits: {yes[found['same']]}."]
    lines += [f"- A Dask cluster of two workers does, too: {yes[found['dask']]}."]
    lines += [
        "- So does a fit one of whose workers is killed in its second pass, and later the command itself, and which"
    ]
    lines += [f"  the same command ends: {yes[found['undisturbed']]}."]
    most = next(one for one in rows if (one.seconds, one.count) == (10.0, 1000))
    cost = each(most, starts[10.0])
    hours = cost * MANY / 3.6e6
    facts = {"each": cost, "iterations": most.iterations, "core": hours, "hours": hours / WORKERS, "workers": WORKERS}
    disk = found["disk"]
    more = {"memory": most.workers, "disk": disk, "all": disk * MANY / 1e6, "sums": -(-MANY // 32)}
    return "\n".join(lines) + "\n" + PAPER.format(**facts, **more)


def main() -> None:
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    known = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as scratch:
        for seconds, count in ((s, c) for s, counts in SERIES.items() for c in counts):
            folder = Path(scratch) / f"{seconds:g}-{count}"
            parts = [one for one in known if one.get("seconds") == seconds and one.get("count") == count]
            if not parts:
                known.append(asdict(measured(folder, seconds, count)))
            if (seconds, count) == STRUCK and not any("same" in one for one in known):
                if parts:
                    measured(folder, seconds, count)
                known.append(checked(folder))
            if kept is not None:
                kept.write_text("".join(json.dumps(one) + "\n" for one in known))
            print(known[-1], flush=True)
    rows = [Ended(**one) for one in known if "seconds" in one]
    (HERE / "scaling.md").write_text(page(rows, next(one for one in known if "same" in one)))


if __name__ == "__main__":
    main()
