"""Makes the pages and figures of ``results/`` anew, each stamped with commit, date, machine and floor.

    python results/run.py                  pages that take a minute or two each, ten minutes together
    python results/run.py all              all of them, over a night
    python results/run.py emps.md ur10e.md
    python results/run.py all --list       what would be made

A page is current if nothing has changed since its commit in the code, the problems and the scripts; it is then left
out. So an interrupted run goes on where it was. A page whose command fails stays as it was, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "results")]
from robot_folder import found  # noqa: E402

from tests.benchmarks.machine import floor, machine  # noqa: E402

SOURCES = ("spookid", "problems", "results/*.py", "tests/benchmarks")
STAMP = re.compile(
    r"^\*Made at commit (?P<commit>[0-9a-f]{7,}\+?) on (?P<date>\d{4}-\d\d-\d\d); (?P<machine>.+)\.\*$", re.MULTILINE
)


@dataclass(frozen=True)
class Page:
    """A page or pages, the arguments of Python that make them, and what that needs."""

    names: tuple[str, ...]
    command: str
    minutes: float
    """On an idle machine."""
    packages: tuple[str, ...] = ()
    robots: bool = False
    """True if it needs the robots of the package example-robot-data."""
    data: bool = False
    """True if it needs the measured data in the folder ``SPOOKID_DATA``."""

    def lacks(self) -> str:
        """In words what is not here; empty if it can be made."""
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if absent:
            return f"needs the packages {', '.join(absent)}"
        if self.robots and found() is None:
            return "needs the package example-robot-data, or its robots in the folder SPOOKID_ROBOTS"
        return "needs SPOOKID_DATA" if self.data and not os.environ.get("SPOOKID_DATA") else ""

    def current(self, commit: str) -> bool:
        """True if all its pages are stamped with ``commit``."""
        return all((stamp := stamped(ROOT / "results" / name)) and stamp["commit"] == commit for name in self.names)


PAGES = (
    Page(("emps.md",), "results/emps.py", 0.5, data=True),
    Page(("furuta_full.md",), "results/furuta_full.py", 0.5, data=True),
    Page(("bayesian_measured.md",), "results/bayesian_measured.py", 1, data=True),
    Page(("ur10e.md",), "results/ur10e.py", 2, data=True),
    Page(("clocks.md",), "results/clocks.py", 2, data=True),
    Page(("franka.md",), "results/franka.py", 3, data=True),
    Page(("mechanisms.md",), "results/mechanisms.py", 3),
    Page(("steppers.md",), "results/steppers.py", 4),
    Page(("creep.md",), "results/creep.py", 4),
    Page(("releases.md",), "results/releases.py", 5, data=True),
    Page(("servo.md",), "results/servo.py", 5, data=True),
    Page(("go2.md",), "results/go2.py", 5, data=True),
    Page(("servo_twins.md",), "results/servo_twins.py", 15, ("mujoco",)),
    Page(("hostile.md",), "-m tests.hostile 20 --markdown results/hostile.md", 5),
    Page(("transmissions.md",), "results/transmissions.py", 5),
    Page(("excitation_standing.md",), "results/excitation_standing.py", 8, ("pinocchio",), robots=True),
    Page(("contacts.md",), "results/contacts.py", 10, data=True),
    Page(("excitation.md",), "results/excitation.py", 10, data=True),
    Page(("factor_graphs.md",), "results/factor_graphs.py", 10, ("gtsam",)),
    Page(("impacts.md",), "results/impacts.py", 10),
    Page(("robots.md",), "results/robots.py", 10, ("pinocchio", "mujoco"), robots=True, data=True),
    Page(("peers.md",), "tests/benchmarks/peers --markdown results/peers.md", 10, ("jax", "mujoco")),
    Page(("peers_arm.md",), "tests/benchmarks/peers/arm.py --markdown results/peers_arm.md", 2, ("gtsam",), data=True),
    Page(("tosses.md",), "results/tosses.py", 5, data=True),
    Page(("scaling.md",), "results/scaling.py", 11),
    Page(("benchmarks.md",), "tests/benchmarks --largest 1000000 --markdown results/benchmarks.md", 15),
    Page(("figure_4.md", "figure_6.md", "figure_7.md", "time.md"), "results/sensitivity.py", 30, data=True),
    Page(("truth.md",), "results/truth.py", 30, data=True),
    Page(("riccati.md",), "results/riccati.py", 30, robots=True),
    Page(("friction.md",), "results/friction.py --kept results/friction.jsonl", 60, data=True),
    Page(("bayesian.md",), "results/bayesian.py --parts parts.jsonl", 90, ("pinocchio",), robots=True),
    Page(("robustness.md",), "results/robustness.py", 240, data=True),
)
QUICK = 2.0
"""Pages of at most so many minutes are made by default."""


def stamped(path: Path) -> re.Match[str] | None:
    """The stamp of a page."""
    return STAMP.search(path.read_text(encoding="utf-8")) if path.exists() else None


def sources_commit() -> str:
    """The last commit that changed what pages are made from, with a + if that has changed since."""
    asked = [["git", "log", "-1", "--format=%h", "--", *SOURCES], ["git", "status", "--porcelain", "--", *SOURCES]]
    commit, changes = (
        subprocess.run(one, cwd=ROOT, check=True, capture_output=True, text=True).stdout for one in asked
    )
    return commit.strip() + "+" * bool(changes.strip())


def wrapped(text: str) -> str:
    """The same with paragraphs and list entries in lines of 120 characters; tables, code and headings stay.

    No line begins with %, which would make it a comment.
    """
    blocks, code = text.split("\n\n"), False
    for i, block in enumerate(blocks):
        fences = block.count("```")
        if not (code or fences or re.search(r"^(\||#|!|<|>|    |\$)", block, re.MULTILINE)):
            entries = re.split(r"\n(?=- )", block.strip("\n"))
            blocks[i] = "\n".join(
                textwrap.fill(
                    " ".join(one.split()).replace(" %", "\0%"),
                    120,
                    subsequent_indent="  " * one.startswith("- "),
                    break_long_words=False,
                    break_on_hyphens=False,
                ).replace("\0", " ")
                for one in entries
            )
        code ^= bool(fences % 2)
    return "\n\n".join(blocks)


def stamp(path: Path, commit: str, where: str) -> None:
    """Write at the end of a page what it was made from, when and where."""
    text = wrapped(STAMP.sub("", path.read_text(encoding="utf-8"))).rstrip()
    path.write_text(f"{text}\n\n*Made at commit {commit} on {datetime.date.today()}; {where}.*\n", encoding="utf-8")


def make(page: Page, commit: str) -> bool:
    """Make and stamp a page; False if its command fails, and then it is as it was."""
    paths = [ROOT / "results" / name for name in page.names]
    before = [path.read_bytes() for path in paths]
    where, start = f"{machine()}, floor {1e3 * floor():.2f} ms", time.perf_counter()
    paths_of = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run([sys.executable, *shlex.split(page.command)], cwd=ROOT, env={**os.environ, **paths_of})
    took = f"{(time.perf_counter() - start) / 60:.1f} min"
    if ended.returncode:
        for path, content in zip(paths, before, strict=True):
            path.write_bytes(content)
        print(f"{', '.join(page.names)}: python {page.command} ended with {ended.returncode} after {took}", flush=True)
        return False
    for path in paths:
        stamp(path, commit, where)
    print(f"{', '.join(page.names)}: made in {took}", flush=True)
    return True


def main() -> int:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["quick"], help="quick, all, or names of pages")
    parser.add_argument("--list", action="store_true", help="print what would be made, and make nothing")
    arguments = parser.parse_args()
    known = {name: page for page in PAGES for name in page.names}
    if unknown := set(arguments.what) - {"quick", "all", *known}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    asked = {known[name] for name in arguments.what if name in known}
    commit, done = sources_commit(), True
    for page in PAGES:
        due = page in asked or "all" in arguments.what or ("quick" in arguments.what and page.minutes <= QUICK)
        if not due or page.current(commit):
            continue
        if missing := page.lacks():
            print(f"{', '.join(page.names)}: left out, it {missing}", flush=True)
        elif arguments.list:
            print(f"{', '.join(page.names)}: python {page.command}, {page.minutes:g} min")
        else:
            done = make(page, commit) and done
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
