"""The same four parameters by other libraries: ``python tests/benchmarks/peers``.

Every peer whose library is installed is asked in turn, and again: what the machine does besides meets all alike.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]

import numpy as np
from benchmarks.machine import machine
from benchmarks.peers.task import GUESSES, TRUTH, Fit, Peer

PEERS = ("ours", "collocation", "scipy_shooting", "jax_trajectory", "mujoco_rollouts")
COLUMNS = ("method", "started from", "solve", "relative to spookid", "ready after", "largest error", "residual", "")


PAGE = """# The same fit by other libraries

All programs estimate four parameters of a Furuta pendulum and its motion from two angles, 10 s at 100 Hz. The pendulum
is released near the upright position, and its motion is nearly chaotic. Single shooting assumes exact dynamics and
needs a good initial value; spookid and the fit in JAX allow a small random torque. The times are those of a fit whose
code is already compiled; the column "ready after" shows the time of the first fit, including compilation. The errors of
spookid and JAX are due to the time step of 10 ms. `problem.solve()` also removes this discretization bias and estimates
the noise, which is given (or zero) in these fits. "Elsewhere" marks a fit that ended at another minimum, with an
estimate wrong by more than a factor of ten.
"""


def ready(steps: int) -> dict[str, tuple[Peer, float]]:
    """Every peer that can be imported, with what its first answer took from nothing [s]."""
    peers = dict[str, tuple[Peer, float]]()
    for name in PEERS:
        began = time.perf_counter()
        try:
            module = import_module(f"benchmarks.peers.{name}")
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
            continue
        peer = module.peer(steps)
        peer(next(reversed(GUESSES.values())))
        peers[module.NAME] = peer, time.perf_counter() - began
        print(f"{module.NAME}: ready after {peers[module.NAME][1]:.1f} s", file=sys.stderr, flush=True)
    return peers


def interleaved(
    peers: dict[str, tuple[Peer, float]], repeats: int, clock: Callable[[], float]
) -> list[tuple[str, ...]]:
    """A row for each peer and guess."""
    spent, fits = dict[tuple[str, str], list[float]](), dict[tuple[str, str], Fit]()
    for _ in range(repeats):
        for words, guess in GUESSES.items():
            for name, (peer, _first) in peers.items():
                began = clock()
                fits[name, words] = peer(guess)
                spent.setdefault((name, words), []).append(clock() - began)
    rows, first = [], next(iter(peers))
    for (name, words), fit in fits.items():
        taken, error = median(spent[name, words]), np.abs(fit.estimates / TRUTH - 1).max()
        ratio = taken / median(spent[first, words])
        time_taken = f"{taken:.3g} s" if taken >= 1 else f"{1e3 * taken:.3g} ms"
        lost = f"{100 * error:.2g} %" if error < 10 else "elsewhere"
        cells = time_taken, f"{ratio:.3g}", f"{peers[name][1]:.0f} s", lost
        rows.append((name, words, *cells, f"{1e3 * fit.rms:.2g} mrad", fit.note))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1001, help="samples at 100 Hz, at most 1001")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median is shown")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine with other work")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    given = parser.parse_args()
    rows = interleaved(ready(given.steps), given.repeats, time.process_time if given.cpu else time.perf_counter)
    kind = "processor" if given.cpu else "wall"
    where = f"{machine()}, Python {platform.python_version()}"
    page = [
        PAGE,
        (f"Conditions: {where}, one thread, {given.steps} samples, medians of {given.repeats} {kind} times."),
        "",
    ]
    page += ["| " + " | ".join(row) + " |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
    print("\n".join(page))
    if given.markdown:
        given.markdown.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
