"""The answers of all problems beside those of a commit before: ``python -m tests.golden``.

Prints which estimates, standard errors and likelihoods moved, and ends with status 1 if any moved that is not at a
higher likelihood.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy loads its BLAS

import argparse
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cases import FOLDERS, ROOT, Case, everything, floor, measured_data
from .comparison import moved

FILE = Path(__file__).with_name("golden.json")
LIMIT = 3000.0
"""Of the time of a fit, in floors, beyond which it is left out unless it is asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or write; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", help="files, or problems as FILE::KEY; all by default")
    parser.add_argument("--update", action="store_true", help="write the answers of this tree")
    parser.add_argument("--all", action="store_true", help=f"also fits that take more than {LIMIT:g} floors")
    given = parser.parse_args(arguments)
    kept: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    chosen = [Case.named(name).name for name in given.names]

    def wanted(name: str) -> bool:
        return not chosen or name in chosen or name.partition("::")[0] in chosen

    if given.update:
        return updated(kept, wanted)
    failed, left_out = [], []
    for name, before in kept.items():
        if not wanted(name):
            continue
        if before["measured"] and not measured_data():
            left_out.append(f"{name} (its data are not here)")
        elif before["floors"] > LIMIT and not (given.all or chosen):
            left_out.append(f"{name} ({before['floors']:g} floors; --all)")
        elif not compared(name, before):
            failed.append(name)
    if not chosen:
        failed += unknown(kept)
    for name in left_out:
        print(f"left out: {name}")
    print(f"{len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


def compared(name: str, before: dict[str, Any]) -> bool:
    """Print what moved of one; True if it may."""
    try:
        now, _ = Case.named(name).solved()
    except Exception:
        print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        return False
    said, passes = moved(before, now)
    word = ("same" if not said else "higher") if passes else "MOVED"
    print(f"{word:7} {name}", *said, sep="\n          ", flush=True)
    return passes


def unknown(kept: dict[str, Any]) -> list[str]:
    """Problem files without an answer."""
    files = {name.partition("::")[0] for name in kept}
    names = [Case(file, "").name for folder in FOLDERS for file in sorted(folder.glob("*.py"))]
    for name in (new := [name for name in names if name not in files]):
        print(f"FAILED  {name} has no answer to compare with: --update {name}")
    return new


def updated(kept: dict[str, Any], wanted: Any) -> int:
    """Write the answers of this tree, those of other cases as they are."""
    seconds, now = floor(), {}
    for case, measured in everything():
        if not wanted(case.name):
            if case.name in kept:
                now[case.name] = kept[case.name]
            continue
        found, spent = case.solved()
        floors = round(spent / seconds)
        print(f"{case.name}: {found['status']}, {floors} floors", flush=True)
        now[case.name] = {"measured": measured, "floors": floors, **found}
    lines = (f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in now.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(now)} answers in {FILE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
