"""Commands that are struck by signals at random moments, and what has to hold afterwards.

As a study: ``python -m tests.kills 300`` strikes that many times, or ``python -m tests.kills 50 sweep payload`` some
commands alone. What did not hold is printed, and the exit status counts it. With ``FOLDER=DIR`` in the environment the
same command goes on where it was ended.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spookid.cli.terminal import PATIENCE

ROOT = Path(__file__).parents[1]
LIMIT = 600.0
"""A command that runs longer hangs, on any machine [s]."""
PENDULUM = """
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, gravity

J = Parameter("J", 0.02, lower=1e-4, unit="kg m^2")
b = Parameter("b", 1e-3, lower=0, unit="N m s")
c = Parameter("c", 1e-2, lower=0, unit="N m")


def pendulum(name, recordings, gain=None, **changes):
    rod = Body("rod", mass=0.5, inertia=(0.01, J, J))
    up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("pivot", up, out, viscous=b, coulomb=c)
    model = Model([rod], [hinge], [] if gain is None else [Motor(hinge, "u", gain)], gravity=gravity(9.81))
    return Problem(name, model, recordings, [HingeAngle(hinge, signal="theta")], **{"step": 0.01, **changes})


def runs(count):
    return [Recording.from_csv(Path(__file__).parent / f"run{i}.csv", name=f"run{i}") for i in range(count)]


"""
FILES = {
    "blind.py": 'problem = pendulum("blind", [])\n',
    "swing.py": 'problem = pendulum("swing", runs(1))\n',
    "two.py": 'problem = pendulum("two", runs(2))\n',
    "five.py": 'problem = pendulum("five", runs(5))\n',
    "driven.py": 'problem = pendulum("driven", [], gain=1.0)\n',
    "arm.py": 'problem = pendulum("arm", runs(1), gain=1.0, friction_width=0.05)\n',
}
TRUTH = {"J": 0.01, "b": 2e-3, "c": 0.02}
OUR_TEMPORARIES = (".part", ".old", ".tmp")


@dataclass(frozen=True)
class Command:
    """A command that is struck."""

    words: tuple[str, ...]
    out: str = ""
    """What it writes, in its folder."""
    ends: tuple[int, ...] = (0,)
    """Exit statuses where nothing strikes."""
    seconds: float = 0.0
    """How long it takes."""

    @property
    def name(self) -> str:
        """Its first word, and what tells it from others of the same."""
        jobs = self.words[self.words.index("--jobs") + 1] if "--jobs" in self.words else ""
        others = [word.lstrip("-") for word in ("ipopt", "--starts") if word in self.words and self.words[0] == "solve"]
        return "-".join(filter(None, [self.words[0], jobs and f"jobs{jobs}", *others]))


GRID = ("--over", "J=0.008:0.014:6")
COMMANDS = {
    command.name: command
    for command in (
        Command(("solve", "swing.py", "--out", "solved"), "solved"),
        Command(("solve", "swing.py", "--backend", "ipopt", "--state-weight", "1e4", "--out", "ipopt"), "ipopt"),
        Command(("solve", "five.py", "--jobs", "2", "--out", "joint"), "joint"),
        Command(("solve", "swing.py", "--starts", "3", "--jobs", "2", "--out", "begun"), "begun"),
        Command(("sweep", "swing.py", *GRID, "--jobs", "1", "--out", "swept1"), "swept1"),
        Command(("sweep", "swing.py", *GRID, "--jobs", "2", "--out", "swept2"), "swept2"),
        Command(("audit", "swing.py", "--out", "audited"), "audited", (0, 3)),
        Command(("profile", "swing.py", "--parameter", "J", "--out", "profiled"), "profiled", (0, 3)),
        Command(("crossvalidate", "two.py", "--out", "judged"), "judged", (0, 3)),
        Command(("regress", "swing.py", "--cutoff", "20", "--out", "regressed"), "regressed"),
        Command(("simulate", "swing.py", "--set", "J=0.01", "--out", "simulated"), "simulated"),
        Command(("check", "swing.py")),
        Command(
            (
                *("excite", "driven.py", "--duration", "2", "--noise", "theta=1e-3", "pivot=1e-2"),
                *("--rate-limit", "*=5", "--effort-limit", "*=3", "--starts", "3", "--out", "planned.csv"),
            ),
            "planned.csv",
        ),
        Command(
            ("watch", "swing.py", "run0.csv", "--warm-up", "4", "--save", "kept.npz", "--state-weight", "1e4"),
            "kept.npz",
        ),
        Command(
            ("payload", "known", "run1.csv", "--body", "rod", "--force", "--out", "load.json"), "load.json", (0, 3)
        ),
        Command(("new", "arm.urdf", "--out", "fresh.py"), "fresh.py"),
        Command(("export", "robotic", "--to", "arm.urdf", "--force", "--out", "told.urdf"), "told.urdf"),
        Command(("report", "whole"), "whole/report.html"),
    )
}
URDF = """<robot name="arm">
  <link name="base"/>
  <link name="rod"><inertial><origin xyz="0 0 -0.2"/><mass value="0.5"/>
    <inertia ixx="0.001" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="pivot" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="5" velocity="10"/></joint>
</robot>
"""


def prepared(folder: Path) -> Path:
    """A folder with problem files and recordings of 6 s."""
    import spookid

    for name, end in FILES.items():
        (folder / name).write_text(PENDULUM + end)
    (folder / "arm.urdf").write_text(URDF)
    random_numbers = np.random.default_rng(1)
    for i, angle in enumerate((1.0, 1.3, 0.8, 1.1, 0.9)):
        motion = spookid.load_problem(folder / "blind.py").simulate(TRUTH, duration=6.0, initial={"pivot": angle})
        theta = motion.signal("theta") + 1e-3 * random_numbers.normal(size=len(motion.t))
        spookid.Recording(motion.t, {"theta": theta, "u": np.zeros_like(theta)}, f"run{i}").to_csv(
            folder / f"run{i}.csv"
        )
    spookid.Recording(motion.t, {"pivot": theta, "tau": 0 * theta}, "logged").to_csv(folder / "logged.csv")
    return folder


def digest() -> str:
    """Of the package's sources."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "spookid").rglob("*.[pch]*")):
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def environment(folder: Path) -> dict[str, str]:
    """Of commands: temporary files are kept in the folder."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}


def begun(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """The command in a session of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "spookid", *words],
        **pipes,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
    )


def session(leader: int) -> list[int]:
    """Processes of a session that live, but for its leader."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == leader and int(stat.parent.name) != leader:
            found.append(int(stat.parent.name))
    return found


@dataclass(frozen=True)
class Strike:
    """When and how a command is struck."""

    number: signal.Signals
    after: float
    """[s]."""
    again: float | None
    """Once more, so much later [s]."""
    group: bool
    """All processes of the command, as Ctrl-C on a terminal."""

    @classmethod
    def drawn(cls, draw: random.Random, seconds: float) -> Strike:
        """Within the time that the command takes."""
        number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        again = draw.uniform(0.0, 0.3) if draw.random() < 0.3 and number != signal.SIGKILL else None
        return cls(number, draw.uniform(0.0, 1.05 * seconds), again, draw.random() < 0.5)

    def __str__(self) -> str:
        twice = "" if self.again is None else f" and {self.again:.3f} s later"
        return f"{self.number.name}{' of the group' if self.group else ''} at {self.after:.3f} s{twice}"


@dataclass
class Outcome:
    """How a command ended that was struck."""

    status: int
    out: str
    err: str
    after: float
    """From the last strike to the end [s]; negative if it had ended before the first."""
    ran: float
    """From its beginning [s]."""
    heard: bool
    """False if its Python was still starting, or ending, when it was struck first."""
    allowed: float
    """How long it may take to end just then [s]."""
    left: list[int] = field(default_factory=list)
    """Processes that lived on."""


def hears(process: int) -> bool:
    """True of one that has set its own handler of SIGTERM, the first that the package does."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def allowed(folder: Path) -> float:
    """How long a command may take to end now [s]: as long as one that loads the package and ends, after the patience
    with its work, which is as many times longer as that one waits for a processor."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", "import spookid.assembly.problem"], check=True, cwd=folder, env=environment(folder)
    )
    lasted, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return lasted + PATIENCE * lasted / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def struck(words: Sequence[str], folder: Path, strike: Strike) -> Outcome:
    """Run a command and strike it."""
    running, began = begun(words, folder), time.monotonic()
    last, heard = -1.0, True
    for wait in (strike.after, strike.again):
        if wait is None:
            continue
        time.sleep(max(0.0, wait - (time.monotonic() - began) if last < 0 else wait))
        if running.poll() is not None:
            break
        heard = hears(running.pid) if last < 0 else heard
        last = time.monotonic()
        send = os.killpg if strike.group else os.kill
        try:
            send(running.pid, strike.number)
        except ProcessLookupError:
            break
    try:
        out, err = running.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        out, err = running.communicate()
        err += "\nHANGS"
    ended = time.monotonic()
    prompt = allowed(folder)
    left = session(running.pid)
    while left and time.monotonic() < ended + prompt:
        time.sleep(0.02)
        left = session(running.pid)
    for one in left:
        os.kill(one, signal.SIGKILL)
    after = ended - last if last > 0 else -1.0
    return Outcome(running.returncode, out, err, after, ended - began, heard, prompt, left)


def complaints(
    command: Command, strike: Strike, found: Outcome, folder: Path, before: Collection[str] = (), expected: Any = None
) -> Iterator[str]:
    """What does not hold of a command that was struck, in a few words each.

    Args:
        before: leftovers that were there.
        expected: what ``told`` of an answer that is whole; None if there is none.
    """
    early = not found.heard and found.status in (-strike.number, 1)
    if "HANGS" in found.err:
        yield "hangs"
    if not early and any(word in found.err for word in ("Traceback", "Exception ignored", "Error:")):
        yield "traceback"
    if found.left:
        yield f"{len(found.left)} processes live on"
    if strike.number != signal.SIGKILL:
        if found.after > found.allowed and found.heard:  # Python loses signals while it starts
            yield f"ends only {found.after:.1f} s later, where {found.allowed:.1f} s are enough"
        if found.status in command.ends and found.after >= 0 and expected is not None:
            if apart := difference(expected, told(folder / command.out)):
                yield f"exit status {found.status}, and the answer is not whole: {apart}"
        elif found.status not in (130, *command.ends) and not early:
            yield f"exit status {found.status}"
        lines = [line for line in found.err.splitlines() if "interrupted" in line]
        if found.status == 130 and len(lines) not in (1, 1 + (strike.again is not None)):
            yield f"{len(lines)} lines say so"
        if names := set(leftovers(folder)) - set(before):
            yield f"leaves {', '.join(names)}"
    yield from broken(folder / command.out) if command.out else ()


def leftovers(folder: Path) -> list[str]:
    """Hidden parts, and temporary files."""
    parts = [p.name for p in folder.rglob(".*") if p.suffix in OUR_TEMPORARIES]
    return parts + [p.name for p in (folder / "tmp").iterdir()]


def broken(out: Path) -> Iterator[str]:
    """What is not whole of a result; parts of files that are being written are ``leftovers``."""
    if not out.exists():
        return
    files = [p for p in out.rglob("[!.]*") if p.is_file()] if out.is_dir() else [out]
    if out.is_dir() and not files:
        yield f"{out.name} is empty"
    for path in files:
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".npz":
                with np.load(path, allow_pickle=False) as arrays:
                    [arrays[name] for name in arrays.files]
            elif path.stat().st_size == 0:
                yield f"{path.name} is empty"
        except Exception as error:
            yield f"{path.name} is broken: {error}"
    if (out / "solution.json").exists():
        import spookid

        spookid.load(out)


def told(out: Path) -> Any:
    """The numbers that a command found, without times."""
    if out.suffix == ".npz":
        with np.load(out, allow_pickle=False) as arrays:
            return {name: arrays[name].tolist() for name in sorted(arrays.files)}
    if out.suffix == ".csv" or not out.is_dir():
        return out.read_bytes() if out.suffix in (".csv", ".py", ".urdf") else out.exists()
    marker = next(p for p in sorted(out.glob("*.json")))
    arrays = {p.name: told(p) for p in sorted(out.glob("*.npz"))}
    return _timeless(json.loads(marker.read_bytes())), arrays


def difference(one: Any, other: Any, path: str = "") -> str:
    """Where two trees differ first."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return next(filter(None, (difference(one[k], other[k], f"{path}/{k}") for k in one)), "")
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next(filter(None, (difference(a, b, f"{path}/{i}") for i, (a, b) in pairs)), "")
    same = one == other or (one != one and other != other)
    return "" if same else f"{path}: {str(one)[:60]} is {str(other)[:60]}"


def _timeless(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {k: _timeless(v) for k, v in node.items() if k not in ("seconds", "timing_s")}
    return [_timeless(one) for one in node] if isinstance(node, list) else node


def removed(path: Path) -> None:
    """Whatever it is."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.json").unlink(missing_ok=True)


@dataclass(eq=False)
class Study:
    """Commands that are struck in turn, and finished now and then. The folder keeps what was found, and a study of the
    same goes on from there."""

    folder: Path
    seed: int
    known: dict[str, tuple[float, Any]] = field(default_factory=dict)
    """How long commands take from nothing [s], and what they find."""
    anew: set[str] = field(default_factory=set)
    """Commands that find nothing of a run before."""
    sources: str = ""
    """Digest of those that ``known`` was measured of."""

    @property
    def lines(self) -> list[str]:
        """One for each strike until now: the command, how it ended, and whether well."""
        journal = self.folder / "struck"
        return journal.read_text().splitlines() if journal.exists() else []

    def prepare(self) -> None:
        """Files that commands need."""
        folder = self.folder
        if (folder / "robotic").exists():
            return
        prepared(folder)
        fresh(("solve", "swing.py", "--out", "whole"), folder)
        fresh(("solve", "arm.py", "--fix", "c", "--state-weight", "1e4", "--out", "known"), folder)
        fresh(("new", "arm.urdf", "logged.csv", "--out", "robot.py"), folder)
        fresh(("solve", "robot.py", "--max-iterations", "2", "--out", "robotic"), folder, (0, 3))

    def forget(self, command: Command) -> None:
        """Let the next run begin anew; its last has ended."""
        if command.out and command.name != "report":
            removed(self.folder / command.out)
            self.anew.add(command.name)

    def undisturbed(self, command: Command) -> tuple[float, Any]:
        """How long a command takes, and what it finds."""
        if self.sources != (now := digest()):  # while a study runs somebody may work on the package
            self.sources, self.known = now, {}
            for one in COMMANDS.values():
                self.forget(one)
        if command.name not in self.known:
            seconds = fresh(command.words, self.folder, command.ends)
            self.known[command.name] = seconds, told(self.folder / command.out) if command.out else None
            say(f"{command.name}: {seconds:.2f} s")
            self.forget(command)
        return self.known[command.name]

    def strike(self, command: Command, draw: random.Random, finish: bool) -> None:
        """Strike a command at a random moment; if asked, let it go on to its end."""
        folder, (seconds, expected) = self.folder, self.undisturbed(command)
        strike = Strike.drawn(draw, seconds)
        if command.name == "new":
            removed(folder / command.out)
        before, lying = points(folder / command.out) if command.out else {}, leftovers(folder)
        found = struck(command.words, folder, strike)
        wrong = list(complaints(command, strike, found, folder, lying, expected))
        if any(points(folder / command.out).get(p, t) != t for p, t in before.items()):
            wrong.append("a point was solved again")
        if found.after < 0:
            if command.name in self.anew:  # the machine has become faster
                self.known[command.name] = found.ran, expected
            self.forget(command)
        else:
            self.anew.discard(command.name)
            wrong += self.finished(command, draw) if finish else []
        if wrong:
            say(f"{command.name}: {strike}: {'; '.join(wrong)} | status {found.status} | {found.err[-1500:]!r}")
        with (folder / "struck").open("a") as file:
            how = f"{strike}: status {found.status}, {found.after:.2f} s after, of {found.allowed:.2f} s"
            file.write(f"{command.name if found.after >= 0 else 'missed'} {how} {'defect' if wrong else 'well'}\n")

    def finished(self, command: Command, draw: random.Random) -> list[str]:
        """What does not hold once the same command has run to its end."""
        folder = self.folder
        if command.name == "new":
            removed(folder / command.out)
        try:
            fresh(command.words, folder, command.ends)
        except AssertionError as error:
            return [f"the same command does not end: {error}"]
        out = command.out.partition("/")[0]
        wrong = [f"does not clear {n}" for n in leftovers(folder) if (out and out in n) or not n.startswith(".")]
        if command.out and (apart := difference(self.known[command.name][1], told(folder / command.out))):
            wrong.append(f"the same command finds another answer: {apart}")
        if draw.random() < 0.5:
            self.forget(command)
        return wrong


def study(count: int, names: Sequence[str], seed: int, folder: Path) -> Counter[str]:
    """Strike commands so often; defects by command."""
    one = Study(folder, seed)
    one.prepare()
    kills, defects = Counter[str](), Counter[str]()
    for i in itertools.count():
        if i >= len(one.lines):
            name = names[i % len(names)]
            one.strike(COMMANDS[name], random.Random(f"{seed} {i}"), (kills[name] + 1) % 4 == 0)
        name, _, how = one.lines[i].partition(" ")
        defects[name] += how.endswith("defect")
        kills[name] += name != "missed"
        if kills.total() % 10 == 0 or kills.total() >= count:
            say(f"{kills.total()} kills, {defects.total()} with defects")
        if kills.total() >= count:
            break
    for name in names:
        say(f"  {name:16} {kills[name]:4} kills {defects[name]:4} with defects")
    return defects


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def points(out: Path) -> dict[Path, int]:
    """Files that a sweep keeps, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in (out / "points").glob("*.json")}


def fresh(words: Sequence[str], folder: Path, ends: tuple[int, ...] = (0,)) -> float:
    """Run a command to its end; how long it took [s]."""
    began, running = time.monotonic(), begun(words, folder)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode in ends, f"{' '.join(words)}: {running.returncode}: {err}"
    return time.monotonic() - began


if __name__ == "__main__":
    how_many = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    which = sys.argv[2:] or list(COMMANDS)
    with tempfile.TemporaryDirectory(prefix="kills-") as temporary:
        place = Path(os.environ.get("FOLDER", temporary))
        place.mkdir(exist_ok=True)
        sys.exit(min(study(how_many, which, int(os.environ.get("SEED", "1")), place).total(), 100))
