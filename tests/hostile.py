"""Broken files, random declarations and struck commands: what becomes of them.

``python -m tests.hostile 50`` tries so many of each kind (files are ten times as many, environments half as many), and
a kill for every five.
``--only files`` leaves out the others, ``--seed 2`` draws other ones, and ``--markdown FILE`` writes the table.
The exit status is 1 if one ended otherwise than by an answer or a refusal in a sentence.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parent))  # helpers of tests import each other by name

import broken_files
import nonsense
from test_fuzz import CALLBACKS

from spookid import ProblemError
from tests import declarations, kills

OUTCOMES = ("read", "refused", "foreign", "hang", "over memory")
LONGEST, MOST = 10.0, 1e9
"""Seconds of a processor, and bytes, that one case may take."""
FIT = 60.0
"""Seconds that a fit may take, which shows where it is and can be interrupted."""
Case = tuple[str, Callable[[], object]]
"""What kind it is, and what is tried."""


def file(chance: Random, folder: Path) -> Case:
    """Reading a file that something has happened to."""
    kind, content = broken_files.broken(chance)
    return kind, lambda: broken_files.READERS[kind].read(folder, content)


def arguments(chance: Random, folder: Path) -> Case:
    """A declaration with a wrong argument."""
    make, right, use = nonsense.cases()[chance.choice(sorted(nonsense.cases()))]
    names = sorted(set(right) - CALLBACKS)  # what users' own functions raise is theirs
    wrong = {chance.choice(names): chance.choice(nonsense.NONSENSE)} if names else {}
    return "arguments", lambda: use(make(**{**right, **wrong}))


def mechanism(chance: Random, folder: Path) -> Case:
    """A few iterations of a random problem."""
    return "mechanisms", lambda: declarations.solved(chance)


ENVIRONMENTS = {
    "no home": ("env -u HOME -u XDG_CACHE_HOME", ""),
    "a home that is not there": ("env HOME=/nowhere XDG_CACHE_HOME=/nowhere MPLCONFIGDIR=", ""),
    "no folder for temporary files": ("env TMPDIR=/nowhere", ""),
    "no display": ("env -u DISPLAY MPLBACKEND=TkAgg", ""),
    "the C locale": ("env LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 PYTHONIOENCODING=ascii", ""),
    "64 threads": ("env OMP_NUM_THREADS=64 OPENBLAS_NUM_THREADS=64", ""),
    "closed output": ("", ">&-"),
    "closed error": ("", "2>&-"),
    "closed streams": ("", "<&- >&- 2>&-"),
    "a full device": ("", ">/dev/full"),
    "a full disk": ("ulimit -f 8;", ""),
    "few files": ("ulimit -n 32;", ""),
    "little memory": ("ulimit -v 700000;", ""),
}


def environment(chance: Random, folder: Path) -> Case:
    """A command where something that mostly is there is missing."""
    name = chance.choice(sorted(ENVIRONMENTS))
    before, behind = ENVIRONMENTS[name]
    (folder / "problem_of_a_test.py").write_text(broken_files.PROBLEM)
    command = f"{before} {sys.executable} -m spookid solve problem_of_a_test.py --state-weight 100 --out out {behind}"

    def run() -> None:
        kills.removed(folder / "out")
        shell = ["bash", "-c", command]
        try:
            ended = subprocess.run(shell, cwd=folder, capture_output=True, text=True, timeout=kills.LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise TimeoutError(name) from None
        if ended.returncode == 2 and ended.stderr.startswith("spookid: error: "):
            raise ProblemError(ended.stderr.strip())
        if ended.returncode not in (0, 3) or not (folder / "out" / "solution.json").exists():
            raise RuntimeError(f"{name}: {ended.returncode}: {ended.stderr[-200:]}")

    return "environments", run


TRIALS = {"files": file, "arguments": arguments, "mechanisms": mechanism, "environments": environment}
SHARES = {"files": 10.0, "environments": 0.5}
"""Of the count, where it is another one than all."""


def late(*_: object) -> NoReturn:
    """What a signal does at a case that takes too long."""
    raise TimeoutError("hang")


def outcome(run: Callable[[], object], longest: float = LONGEST) -> tuple[str, str]:
    """How a case ended, and what there is to say of it."""
    signal.setitimer(signal.ITIMER_PROF, longest)
    try:
        run()
        how, told = "read", ""
    except ProblemError as error:
        lines = str(error).splitlines()
        how, told = ("refused", "") if len(lines) == 1 else ("foreign", repr(str(error)))
    except TimeoutError as error:
        how, told = "hang", str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        how, told = "foreign", f"{type(error).__name__}: {str(error)[:200]!r} {last.filename}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST:
        how = "over memory"
    return how, told


def work(pipe: int, trial: str, numbers: range, seed: int) -> None:
    """Try cases until one takes too much memory; two lines for each."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, late)
    with open(pipe, "w") as told, tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        for i in numbers:
            row, run = TRIALS[trial](Random(f"{seed} {i}"), Path(folder))
            told.write(f"{row}\tbegan\n")
            told.flush()
            how, words = outcome(run, FIT if trial == "mechanisms" else LONGEST)
            told.write(f"{row}\t{how}\t{i}: {words.encode('unicode_escape').decode()}\n")
            told.flush()
            if how == "over memory":
                return


def tried(trial: str, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Kinds and outcomes of so many cases; the others go on where one ends its process."""
    found, at = Counter[tuple[str, str]](), 0
    while at < count:
        here, there = os.pipe()
        if not (child := os.fork()):
            os.close(here)
            work(there, trial, range(at, count), seed)
            os._exit(0)
        os.close(there)
        row, how = trial, ""
        with open(here) as told:
            for line in told:
                row, how, *words = line.rstrip("\n").split("\t")
                at += how == "began"
                found[row, how] += how != "began"
                if how in OUTCOMES[2:]:
                    kills.say(f"{trial} {seed} {row} {how} {' '.join(words)}")
        _, status = os.waitpid(child, 0)
        if how == "began":
            found[row, "foreign"] += 1
            kills.say(f"{trial} {seed} {row} foreign {at - 1}: its process ended with {status}")
    return found


def table(found: Counter[tuple[str, str]]) -> str:
    """A row for each kind."""
    rows = [("kind", "tried", *OUTCOMES)]
    for row in dict.fromkeys(row for row, how in found if how in OUTCOMES):
        counts = [found[row, how] for how in OUTCOMES]
        rows.append((row, *map(str, [sum(counts), *counts])))
    rows.insert(1, ("---",) * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


PAGE = """# How hard is spookid to break?

This test damages files of every format at random, gives wrong arguments to declarations, and solves random mechanisms.
It also runs commands without a home folder, a display, memory or disk space, and interrupts them by signals. Each case
must end with a result, or with an error message of one sentence, within {longest:g} s of CPU time ({fit:g} s for a
fit) and 1 GB of memory. The columns count how the cases ended; the column *foreign* counts any other exception, and
crashes of the process.

{table}

{kills}
"""


def main() -> int:
    """Of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=[*TRIALS, "kills"], default=[*TRIALS, "kills"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    found, struck = Counter[tuple[str, str]](), "No command was struck."
    for trial in TRIALS:
        if trial in asked.only:
            found += tried(trial, round(asked.count * SHARES.get(trial, 1.0)), asked.seed)
    defects = 0
    if "kills" in asked.only:
        with tempfile.TemporaryDirectory() as folder:
            count = max(asked.count // 5, 1)
            defects = kills.study(count, list(kills.COMMANDS), asked.seed, Path(folder)).total()
        struck = f"Commands were interrupted {count} times at random moments; {defects} interruptions left a defect."
    page = PAGE.format(longest=LONGEST, fit=FIT, table=table(found), kills=struck)
    kills.say(page)
    if asked.markdown:
        asked.markdown.write_text(page)
    return int(bool(defects or any(found[key] for key in found if key[1] in OUTCOMES[2:])))


if __name__ == "__main__":
    sys.exit(main())
