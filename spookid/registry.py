"""The commands of ``spookid``, the studies among them: each is declared once, here or, from outside, by ``register``.

The command line with its help, the folders that studies write, and the page about them are made from what is declared.
Nothing is loaded until a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from importlib import import_module
from typing import Any

from spookid.errors import ProblemError
from spookid.records import dataclass

SOLUTION = "solution.json"
"""The file that marks the folder of a fit."""


@dataclass(frozen=True)
class Command:
    """What ``spookid NAME`` does."""

    name: str
    purpose: str
    """In a line of the help."""
    run: str | Callable[..., Any]
    """A function, or where it is, ``"package.module:function"``: of the arguments and of what interrupts it, to the
    exit status. That of a study takes a ``Job``, checks what can be checked, and returns the work that is left, a
    function without arguments that returns an ``Answer``."""
    more: str = ""
    """What its help says of folders and axes."""
    flags: str = ""
    """Words in the order of the help, of ``spookid.cli.flags.FLAGS`` or of its ``own``; those of settings all have."""
    own: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    """By flag what is other, or all of one that no other command has: as ``ArgumentParser.add_argument`` takes it, or
    its help alone."""

    @property
    def function(self) -> Callable[..., Any]:
        """``run``, loaded."""
        if not isinstance(self.run, str):
            return self.run
        module, _, name = self.run.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"spookid.{module}"), name)
        return found


@dataclass(frozen=True)
class Study(Command):
    """Command that analyses each problem of a file and writes its results into a folder.

    Args:
        kind: name of its files, by default that of the command: ``simulation.json`` marks the folder of ``simulate``.
        title: its name on the page.
        whole: True if it takes all problems of a file together.
        continued: True if its folder keeps what is found as it is found, and the same command continues in it.
    """

    kind: str = ""
    title: str = ""
    whole: bool = False
    continued: bool = False

    @property
    def marker(self) -> str:
        """Name of the file that marks result folders of this study."""
        return f"{self.kind or self.name}.json"


def register(command: Command) -> Callable[[], None]:
    """Add a command or study to the command line of this process.

    Returns:
        a function that removes it.

    Raises:
        ProblemError: if there is one already that has its name, or files of its kind.
    """
    if command.name in COMMANDS:
        raise ProblemError(f"a command named {command.name!r} already exists; choose another name")
    if isinstance(command, Study) and command.marker in markers():
        raise ProblemError(f"another study already writes the file {command.marker}; choose another kind of study")
    COMMANDS[command.name] = command

    def forget() -> None:
        COMMANDS.pop(command.name, None)

    return forget


def studies() -> tuple[Study, ...]:
    """All that are declared."""
    return tuple(one for one in COMMANDS.values() if isinstance(one, Study))


def markers() -> tuple[str, ...]:
    """Names of the files that mark result folders, for all kinds of results."""
    return SOLUTION, *(study.marker for study in studies())


_VALIDATION = """With a dict `problems`, those that differ in nothing but their recordings are
one model, and models on the same recordings are set side by side. All of it
goes into DIR itself, which is written whole or not at all.
"""
_NESTED = """The problems of the dict `problems` are the models, from the smallest to the
largest, on the same recordings; each contains the parameters of an earlier one,
from whose estimates it is fitted. Then each recording is left out in turn, and
simulated.
"""
_GRID = """An axis NAME=RANGE is a setting (step, state_weight, friction_width, cutoff,
stepper, friction, backend, max_iterations ...) or a parameter, which is then
held at each value. Of a RANGE, a:b:n means n values from a to b, a:b:nlog the
same with evenly spaced logarithms, a,b,c these. Several axes make a grid.
Every point is kept in DIR/points once it is solved; the same command continues
where it was interrupted. A point is solved anew if the problem, the settings
or the versions have changed. With a dict `problems`, each has its DIR/key.
"""
_PAGE = "The page needs no other file. For a folder with several results it shows all.\n"
_MATCHED = """Joints and columns are matched by name: the joint's name in the column's, or
q1, q2 ... in the order of the joints. The rest is listed. Initial values are
from the robot's file, and from a regression along the log.
"""
_KEPT = """Masses, inertias, damping and friction are replaced, of an MJCF armatures and
springs too; every other byte is as it was. A Servo of the problem becomes the
actuator of its joint in an MJCF, with gains, limit, delay and back-EMF:

  spookid export RESULT --to robot.xml --signal kp=400 --out identified.xml
  spookid export RESULT --timestep 0.005 --signal kp=400 --out actuators.yaml
"""
_CARRIED = """Mass, centre of mass and inertia about it are printed in the frame of NAME.
Their errors come from the run and from the arm. The scale of an arm's gains is
often known to some per cent only; a run with a known mass determines it for
later runs:

  spookid payload RESULT KNOWN.csv --body tool0 --known-mass 2.8 --out known.json
  spookid payload RESULT LOG --body tool0 --calibration known.json
"""
_LIKE = """Efforts are torques or forces along the joints, by inverse dynamics with the estimates of
RESULT. Predicted and measured ones pass the same low-pass filter. LOG has the names of the
log that was fitted; efforts that it does not have are predicted and not compared.
"""
_DRAWN = """Parameters are drawn together, with the correlations of RESULT, within their bounds; a draw
with inertias that no body has is made again. With --to and --files each draw is a
robot's file of its own, which MuJoCo or another simulator loads.
"""
_BROWSED = """It prints an address of this machine with a token, and opens it. FOLDER has the robots, logs
and results; no other file is read or written. Choices are written as a problem file, which
`spookid solve` repeats. It needs the extra: pip install 'spookid[studio]'
"""
_DOCTOR = "It ends with status 3 if a required package is missing or too old, or if the test fit fails.\n"
_VERIFIED = """A card has estimates, covariance, noise, hashes of model and logs, versions, and the
command that repeats the fit. The test holds the parameters, and estimates motion and
noise of the log. Exit status 0 if it agrees, 3 if a parameter has changed: it is named,
with the amount. Of logs of an unchanged device --false-alarms give an alarm.

  spookid card results/arm --out arm.card.json
  spookid verify arm.card.json today.csv
"""
_PLANNED = """Joint angles are Fourier series or splines from rest to rest, of mechanisms that
their motors move in every way in which they can: arms, loops, robots that stand
on contacts. Of these the motion of the trunk is planned, and legs follow. The
motion is the one whose efforts identify most; the errors that are printed are those that
`spookid solve` would report, with all sensors, noise and priors. Limits are the
robot's file's, if the problem was made from one, and those of the flags. The
CSV has the problem's signals and JOINT_rate.

  spookid excite arm.py --duration 20 --noise 'q*=1e-4' 'tau*=0.5' --until m=1% --out plan.csv
  spookid check arm.py --trajectory plan.csv --noise 'q*=1e-4' 'tau*=0.5'
  spookid excite quadruped.py --duration 20 --cone '*foot=0.5:20' --home '*thigh=0.8' --out plan.csv
"""
_WATCHED = """LOG is text with a header row: a column of timestamps and those of all signals
of the problem; or another file that Recording.from_file reads, such as MCAP.
The first seconds (--warm-up) are fitted, also to estimate the noise; then each
row counts when it arrives. On a terminal a table is updated in place, elsewhere
a line is written every second of the log (--every). A change of a parameter is
reported, such as

  14:02:09  CHANGED  b (friction of elbow) +12.1 ± 2.9 % since 14:02:07

and its earlier estimate is discarded. Timestamps from 1e9 on are seconds
since 1970 and are shown as local time of day.
"""
_FOLDERS = """With a dict `problems`, PROBLEM.py means all of them, each with its own folder
DIR/key. A folder is written whole or not at all; an empty one or an earlier
one of the same command is replaced, any other is refused.
"""
_GUESSED = "--set --fix --state-weight"
_FIT = f"--backend {_GUESSED} --max-iterations --out --quiet"


def _optional(help: str) -> dict[str, Any]:
    return {"help": help, "required": False}


_DECLARED: tuple[Command, ...] = (
    Command(
        "check",
        "describe a problem: parts, recordings, parameters, what is identifiable",
        "cli.checking:check",
        "",
        f"{_GUESSED} --trajectory --from --noise --until --verbose",
        {
            "--from": "prior of a --trajectory: folder of results with estimates and their errors",
            "--verbose": "settings, sizes, coordinates of inertias and base parameters, too",
        },
    ),
    Command(
        "solve",
        "estimate states and parameters, and write a folder of results",
        "cli.solving:solve",
        _FOLDERS,
        f"{_FIT} --threads --starts --seed --jobs --scheduler --animate --plan --no-figures --verbose --strict",
        {
            "--starts": {"help": "random initial values (default: 1, the given ones)", "default": 1},
            "--seed": "seed of these initial values (default: 0)",
            "--jobs": "worker processes, each with one recording at a time; of --starts (default there: one for each "
            "processor)",
            "--out": _optional("folder of results (default: results/<name of the problem>)"),
        },
    ),
    Study(
        "simulate",
        "step a mechanism forward, and compare with its recordings if it has any",
        "studies.simulation_study:begin",
        _FOLDERS,
        "--from --force --set --duration --out --quiet",
        {"--set": "values", "--out": "folder of the simulation"},
        kind="simulation",
        title="simulation",
    ),
    Study(
        "audit",
        "fit with the time steps h, h/2 and h/4, and show the discretization bias",
        "studies.auditing:begin",
        _FOLDERS,
        _FIT,
        {"--step": "largest time step h [s]", "--out": _optional("folder of the audit (default: none is written)")},
        title="time-step audit",
    ),
    Study(
        "profile",
        "refit with a parameter held at several values: its likelihood interval",
        "studies.profile_study:begin",
        _FOLDERS,
        f"--parameter {_FIT} --jobs --scheduler",
        {
            "--jobs": "worker processes that share out the sides of the profiles (default: 1)",
            "--out": "folder of the profiles",
        },
        title="profiles",
    ),
    Study(
        "regress",
        "least squares on filtered derivatives, compared with a fit",
        "studies.regression:begin",
        _FOLDERS,
        f"--method --filter --unknowns --from --alone {_FIT}",
        {
            "--from": "folder of results to compare with, instead of a fit",
            "--cutoff": "low-pass filter of the regression, and of the fit's initial values [Hz]",
            "--out": _optional("folder of the regression (default: none is written)"),
        },
        kind="regression",
        title="regression",
    ),
    Study(
        "crossvalidate",
        "fit models to each recording, test them on the others, and rank them",
        "studies.crossvalidation_study:begin",
        _VALIDATION,
        _FIT,
        {"--out": "folder of the cross-validation"},
        kind="crossvalidation",
        title="cross-validation",
        whole=True,
    ),
    Study(
        "ladder",
        "fit nested models in turn, and say which step pays by likelihood and prediction",
        "studies.nested_models:begin",
        _NESTED,
        _FIT,
        {"--out": _optional("folder of the ladder (default: none is written)")},
        title="ladder of models",
        whole=True,
    ),
    Study(
        "sweep",
        "fit over a grid of settings or parameters, in parallel",
        "studies.sweeping:begin",
        _GRID,
        f"--over {_FIT} --jobs --scheduler",
        {"--backend": {"default": None}, "--out": "folder of the sweep"},
        title="sweep",
        continued=True,
    ),
    Command(
        "excite",
        "design a motion that identifies the parameters best, within limits",
        "cli.checking:excite",
        _PLANNED,
        "--duration --criterion --from --rate --basis --harmonics --starts --seed --noise --position-limit "
        "--rate-limit --effort-limit --inside --cone --home --until --set --fix --out --verbose --quiet",
        {
            "--verbose": "coordinates of inertias and the estimator, too",
            "--duration": {"help": "seconds", "required": True},
            "--from": "prior: folder of results with estimates and their errors",
            "--quiet": "no progress and no table",
            "--out": {"help": "the trajectory, a CSV; a picture FILE.png is written beside it", "metavar": "FILE.csv"},
        },
    ),
    Command("new", "write a problem file for a robot and a log of it", "cli.robots:new", _MATCHED),
    Command("export", "write a robot's file with its identified values", "cli.robots:export", _KEPT),
    Command(
        "payload",
        "estimate the payload of a fitted arm from one run, without a new fit",
        "cli.robots:payload",
        _CARRIED,
    ),
    Command("predict", "predict motor efforts along another log, without a new fit", "cli.robots:predict", _LIKE),
    Command("card", "write what a fit found into one file, to verify logs with", "cli.cards:card", _VERIFIED),
    Command("verify", "test whether a log agrees with a card, without a fit", "cli.cards:verify", _VERIFIED),
    Command("randomize", "draw parameters from their posterior, for simulators", "cli.robots:randomize", _DRAWN),
    Command(
        "watch",
        "estimate while a log grows, and report changes of parameters",
        "cli.watching:watch",
        _WATCHED,
        f"LOG --follow --time --units --warm-up --window --every --false-alarms --save --resume {_GUESSED} --quiet",
        {"--quiet": "only changes, no estimates and no progress"},
    ),
    Command("studio", "identify a robot in a browser: files, plots, fit and results", "cli.studio:studio", _BROWSED),
    Command("doctor", "print versions, extras and memory, and test a fit", "cli.doctor:doctor", _DOCTOR),
    Command("report", "write DIR/report.html, one page about the results in DIR", "cli.robots:report", _PAGE),
)
COMMANDS = {command.name: command for command in _DECLARED}
