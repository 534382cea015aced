"""Joint fits of 1 to 10,000 recordings on two workers: `python results/scaling.py [MOST]`.

Writes scaling.md. The recordings are twins of 10 s (`tests/benchmarks/many_twins.py`), in files of a temporary folder
that takes 100 kB each. MOST is how many there are at the most, 10,000 if it is not given; these take ten minutes of
two cores that do nothing else. Needs Linux, whose /proc tells the memory of each process.
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from spookid.results.documents import versions  # noqa: E402
from spookid.tables.numbers import number  # noqa: E402
from tests.benchmarks.many_twins import TRUTH, write  # noqa: E402

COUNTS, SECONDS = (1, 10, 100, 1000, 10_000), 10.0
WORKERS = 100
MANY = 1_000_000
INTRO = """# Joint fits beyond one process

A driven pendulum with three parameters, its disturbance and its encoder's noise unknown, fitted to twins of
{seconds:g} s (1001 steps) each, by `spookid solve twins.py --jobs 2`: recordings are files, each worker holds one at a
time, and sums of n_p × n_p travel. CPU is of all processes together; the fourth column is without the {fixed:.1f} s
that a command takes for one recording. Memory is the largest resident set that any worker, or the command itself, ever had.
Made by `python results/scaling.py` with {versions}."""
PAPER = """
## A million recordings on a hundred workers, on paper

A recording of {seconds:g} s costs {each:.0f} ms of one core, in {iterations} iterations and with its part of the errors
(last row): a million cost {core:.1f} core hours, {hours:.2f} h of {workers} workers, each of which holds one recording,
in {memory:.0f} MB. On disk a recording takes {disk:.0f} kB meanwhile, its chain and two versions of its states:
{all:.0f} GB, which all workers must see and read once a pass. What travels are {sums:,} sums a pass of a few kB each,
whatever the length of the recordings; the command adds them, in their order. A worker that is lost costs one pass over
the 32 recordings that it was at, and a command that is lost the pass that it was at. Not measured: a network, and a
file system under a hundred workers.
"""


@dataclass(frozen=True)
class Ended:
    """A command that ran."""

    wall: float
    cpu: float
    """[s], of the command and its workers."""
    workers: float
    command: float
    """Largest resident sets [MB]."""


def ran(folder: Path, *words: str, meanwhile: object = None) -> Ended:
    """Run a command of spookid in a folder, and watch its memory; ``meanwhile`` is called with its process."""
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
    return Ended(time.perf_counter() - began, cpu, max(peaks.values(), default=0.0), own)


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


def page(rows: list[tuple[int, Ended, dict[str, object]]], said: list[str]) -> str:
    """Markdown."""
    fixed = rows[0][1].cpu
    lines = [INTRO.format(seconds=SECONDS, fixed=fixed, versions=f"spookid {versions()['spookid']}"), ""]
    head = (
        "recordings",
        "wall [s]",
        "CPU [s]",
        "CPU a recording [ms]",
        "a worker [MB]",
        "the command [MB]",
        "J [kg m²]",
    )
    lines += ["| " + " | ".join(head) + " |", "|" + " ---: |" * len(head)]
    for count, ended, document in rows:
        each = "" if count == 1 else f"{1e3 * (ended.cpu - fixed) / (count - 1):.0f}"
        J = document["parameters"]["J"]  # type: ignore[index]
        cells = (f"{count:,}", f"{ended.wall:.0f}", f"{ended.cpu:.1f}", each, f"{ended.workers:.0f}")
        error = f"± {number(J['std_err'], 2)}" if J["std_err"] is not None else ""
        lines.append("| " + " | ".join((*cells, f"{ended.command:.0f}", f"{J['estimate']:.7f} {error}")) + " |")
    lines += ["", f"The truth is J = {TRUTH['J']} kg m².", *said]
    return "\n".join(lines) + "\n"


def paper(rows: list[tuple[int, Ended, dict[str, object]]], disk: float) -> str:
    """What a million recordings cost on a hundred workers, from what was measured."""
    count, ended, document = rows[-1]
    each = (ended.cpu - rows[0][1].cpu) / (count - 1)
    return PAPER.format(
        seconds=SECONDS,
        each=1e3 * each,
        iterations=document["iterations"],
        core=each * MANY / 3600,
        hours=each * MANY / WORKERS / 3600,
        workers=WORKERS,
        memory=ended.workers,
        disk=disk,
        all=disk * MANY / 1e6,
        sums=-(-MANY // 32),
    )


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else COUNTS[-1]
    rows, said, disk = [], [], float("nan")
    with tempfile.TemporaryDirectory() as scratch:
        for count in (c for c in COUNTS if c <= most):
            folder = Path(scratch) / str(count)
            write(folder, count, SECONDS)
            ended = ran(folder, "solve", "twins.py", "--jobs", "2", "--out", "two")
            rows.append((count, ended, told(folder / "two")))
            print(count, ended, flush=True)
            if count == 100:
                ran(folder, "solve", "twins.py", "--jobs", "1", "--out", "one")
                same, dask = told(folder / "one") == told(folder / "two"), clustered(folder)
                said += ["", f"One process and two give the same digits: {'yes' if same else 'NO'}."]
                words = "not tried, Dask is not installed" if dask is None else "yes" if dask else "NO"
                said += [f"A Dask cluster of two workers does, too: {words}."]
                undisturbed, disk = struck(folder)
                said += ["So does a fit of 100 recordings one of whose workers is killed in its second pass, and later"]
                said += [f"the command itself, and which the same command ends: {'yes' if undisturbed else 'NO'}."]
                print(*said, flush=True)
    (HERE / "scaling.md").write_text(page(rows, said) + paper(rows, disk))


if __name__ == "__main__":
    main()
