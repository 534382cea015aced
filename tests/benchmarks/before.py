"""Whole commands beside those of another checkout: ``python tests/benchmarks/before.py CHECKOUT "problems/..." ...``.

Prints, as a table in Markdown, the processor time of ``spookid solve`` there and here, least of several in turn, which
other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[2]


def spent(checkout: Path, words: str) -> float:
    """Processor time of a solve [s]."""
    one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "spookid", "solve", *shlex.split(words), "--no-figures", "--quiet"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, "--out", folder],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=checkout,
            env={**os.environ, **one, "PYTHONPATH": str(checkout)},
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="with its C code compiled")
    parser.add_argument("problems", nargs="+", help='files, in quotes with options, as "problems/x.py::key --fix a"')
    parser.add_argument("--repeats", type=int, default=3, help="of which the least is shown")
    given = parser.parse_args()
    print("| spookid solve | before [s] | now [s] | ratio |\n| --- | --- | --- | --- |")
    for words in given.problems:
        turns = [(spent(given.checkout.resolve(), words), spent(HERE, words)) for _ in range(given.repeats)]
        before, now = map(min, zip(*turns, strict=True))
        print(f"| {words} | {before:.2f} | {now:.2f} | {now / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
