"""How much two processes gain: ``python tests/benchmarks/sweeps.py`` times a sweep with one and with two, in turns.

Run by hand, on a machine that has nothing else to do: "others" is how many processors other work kept busy meanwhile,
and a pair of runs in which that is more than a twentieth says little. What two processes would take is then told by
processor times: that of the command's own process, and half of that of its workers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_QUIET = 0.05
"""Processors kept busy by others that do not spoil a run."""
_COMMAND = """
import resource, sys
from spookid.cli.main import main
status = main(sys.argv[1:])
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(*(u.ru_utime + u.ru_stime for u in used))
sys.exit(status)
"""


@dataclass(frozen=True)
class Run:
    """One sweep into a fresh folder."""

    jobs: int
    wall: float
    """[s]"""
    own: float
    """Processor time of the command's own process [s]."""
    workers: float
    """Processor time of all its workers [s]."""
    others: float
    """Processors that were busy with other work, on average; NaN where the system does not tell."""

    @property
    def path(self) -> float:
        """Processor time of the longest path, if all workers end at once [s]."""
        return self.own + self.workers / self.jobs

    def __str__(self) -> str:
        return (
            f"jobs {self.jobs}: {self.wall:6.2f} s wall; processor {self.own:.2f} s own, {self.workers:.2f} s workers; "
            f"others {self.others:.2f}"
        )


def sweep(words: list[str], jobs: int) -> Run:
    """The command as a user gives it."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-c", _COMMAND, "sweep", *words, "--jobs", str(jobs), "--quiet"]
        environment = {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONPATH": str(ROOT)}
        busy, began = _busy(), time.perf_counter()
        done = subprocess.run(
            [*line, "--out", str(Path(folder) / "out")],
            cwd=ROOT,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        wall = time.perf_counter() - began
        own, workers = map(float, done.stdout.split())
        return Run(jobs, wall, own, workers, max(_busy() - busy - own - workers, 0.0) / wall)


def _busy() -> float:
    """Processor time of everything on this machine [s]."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    except OSError:
        return float("nan")
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs")
    parser.add_argument("--points", type=int, default=12, help="of the sweep")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait at most for idle processors")
    given = parser.parse_args()
    words = ["problems/furuta_release.py", "--stepper", "spook", "--step", "0.01"]
    words += ["--over", f"state_weight=1:1e4:{given.points}log"]
    pairs = []
    for _ in range(given.repeats):
        pair = []
        for jobs in (1, 2):
            _settle(given.wait)
            pair.append(sweep(words, jobs))
            print(f"load {os.getloadavg()[0]:.2f}  {pair[-1]}", flush=True)
        one, two = pair
        print(f"two take {two.wall / one.wall:.3f} of one; by processor times {two.path / one.path:.3f}", flush=True)
        pairs.append(pair)
    fair = [two.wall / one.wall for one, two in pairs if max(one.others, two.others) <= _QUIET]
    print(f"median of {len(fair)} fair pairs: {median(fair):.3f}" if fair else "no pair was fair")


def _settle(longest: float) -> None:
    """Wait until others use next to nothing for two seconds, but not forever."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        before = _busy()
        time.sleep(2.0)
        if not _busy() - before > 2.0 * _QUIET:
            return


if __name__ == "__main__":
    main()
