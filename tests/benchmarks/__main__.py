"""How fast spookid is: ``python tests/benchmarks``. Prints a table and, if asked, writes it as Markdown."""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import platform
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from benchmarks.machine import machine
from benchmarks.rows import Bench, everything
from benchmarks.table import markdown, text
from benchmarks.waiting import waiting

import spookid


def processor_time() -> float:
    """Of this process and those it has waited for [s]."""
    return time.process_time() + sum(os.times()[2:4])


def commit() -> str:
    """Of the checkout that is measured."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of the Furuta pendulum, at most 1001")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median is shown")
    parser.add_argument("--largest", type=int, default=100_000, help="steps of the longest pendulum, up to 1000000")
    parser.add_argument("--waiting", action="store_true", help="only what users wait for")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine with other work")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    given = parser.parse_args()
    clock = processor_time if given.cpu else time.perf_counter
    rows = []
    others = [] if given.waiting else everything(Bench(given.steps, given.repeats, clock), given.largest)
    for row in chain(waiting(), others):
        print(*row.cells, sep="  ", file=sys.stderr, flush=True)  # a long run shows what it has
        rows.append(row)
    print(file=sys.stderr)
    print(text(rows))
    if given.markdown:
        kind = "processor" if given.cpu else "wall"
        caption = (
            f"These times are for spookid {spookid.__version__} (commit {commit()}) on {machine()}, Python "
            f"{platform.python_version()}, with one thread; they are medians of {given.repeats} {kind} times."
        )
        given.markdown.write_text(markdown(rows, caption), encoding="utf-8")


if __name__ == "__main__":
    main()
