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


_VALIDATION = """In a dict `problems`, problems that differ only in their recordings are one
model, and models of the same recordings are compared. All results are written
to DIR itself, either completely or not at all.
"""
_NESTED = """The problems of the dict `problems` are the models, from the smallest to the
largest, for the same recordings. Each model contains the parameters of an
earlier one, whose estimates are its initial values. Each recording is then
predicted by models that were fitted to the others.
"""
_GRID = """An axis NAME=RANGE is a setting (step, state_weight, friction_width, cutoff,
stepper, friction, backend, max_iterations ...) or a parameter, which is fixed
at each value. The RANGE a:b:n means n values from a to b, a:b:nlog the same
with evenly spaced logarithms, and a,b,c these values. Several axes form a grid.
Each solved point is stored in DIR/points; after an interruption, the same
command continues. A point is solved again if the problem, the settings or the
versions have changed. With a dict `problems`, each problem has its DIR/key.
"""
_PAGE = "The page is a single file. For a folder with several results, it shows all.\n"
_MATCHED = """Columns are assigned to joints by name: the column's name contains that of the
joint, or is q1, q2 ... in the order of the joints. Unused columns are listed.
Initial values come from the robot's file and from a regression on the log.
"""
_KEPT = """Masses, inertias, damping and friction are replaced, in an MJCF also armatures
and springs; all other bytes stay unchanged. A Servo of the problem becomes the
actuator of its joint in an MJCF, with gains, limit, delay and back-EMF:

  spookid export RESULT --to robot.xml --signal kp=400 --out identified.xml
  spookid export RESULT --timestep 0.005 --signal kp=400 --out actuators.yaml
"""
_CARRIED = """Prints mass, centre of mass, and inertia about it, in the frame of NAME.
Standard errors include the uncertainty of the run and of the arm. The scale of
an arm's gains is often known to a few per cent only; a run with a known mass
determines this scale for later runs:

  spookid payload RESULT KNOWN.csv --body tool0 --known-mass 2.8 --out known.json
  spookid payload RESULT LOG --body tool0 --calibration known.json
"""
_LIKE = """Efforts are torques or forces along the joints, by inverse dynamics with the estimates of
RESULT. Predicted and measured efforts pass the same low-pass filter. LOG has the column names
of the fitted log; efforts without a column are predicted, but not compared.
"""
_DRAWN = """All parameters are drawn jointly, with the correlations of RESULT, within their bounds;
draws with impossible inertias are repeated. With --to and --files, each draw is written
as a robot's file, which MuJoCo or another simulator can load.
"""
_BROWSED = """Prints an address on this machine with a token, and opens the browser there. FOLDER contains
robots, logs and results; no other file is read or written. The choices are written to a problem
file for `spookid solve`. The studio needs an extra: pip install 'spookid[studio]'
"""
_DOCTOR = "The exit status is 3 if a required package is missing or too old, or if the test fit fails.\n"
_VERIFIED = """A card contains estimates, covariance, noise, hashes of model and logs, versions, and the
command that repeats the fit. The test fixes the parameters, and estimates motion and noise
of the log. The exit status is 0 if the log agrees, and 3 if a parameter has changed, which is
printed with its change. --false-alarms is the share of alarms for an unchanged device.

  spookid card results/arm --out arm.card.json
  spookid verify arm.card.json today.csv
"""
_PLANNED = """Joint angles are Fourier series or splines from rest to rest. Motors must drive
all degrees of freedom: arms, closed loops, or robots that stand on contacts,
for which the motion of the trunk is planned, and legs follow. The efforts of
the best motion identify the parameters best. The printed standard errors are
those that `spookid solve` would report, with all sensors, noise and priors.
Limits come from the robot's file, if the problem was made from one, and from
options. The CSV contains the problem's signals and JOINT_rate.

  spookid excite arm.py --duration 20 --noise 'q*=1e-4' 'tau*=0.5' --until m=1% --out plan.csv
  spookid check arm.py --trajectory plan.csv --noise 'q*=1e-4' 'tau*=0.5'
  spookid excite quadruped.py --duration 20 --cone '*foot=0.5:20' --home '*thigh=0.8' --out plan.csv
"""
_WATCHED = """LOG is a text with a header row, a column of timestamps and columns of all
signals of the problem, or another file that Recording.from_file reads, such as
MCAP. The first seconds (--warm-up) are fitted, also to estimate the noise; then
each row updates the estimates. On a terminal, a table is updated in place;
elsewhere, a line is written every second of the log (--every). Changes of
parameters are reported, such as

  14:02:09  CHANGED  b (friction of elbow) +12.1 ± 2.9 % since 14:02:07

and its earlier estimate is discarded. Timestamps above 1e9 are seconds since
1970, and are shown as local time of day.
"""
_FOLDERS = """With a dict `problems`, PROBLEM.py means all problems, each with its own folder
DIR/key. A folder is written completely or not at all; an empty folder, or an
earlier one of the same command, is replaced; any other folder is refused.
"""
_GUESSED = "--set --fix --state-weight"
_FIT = f"--backend {_GUESSED} --max-iterations --out --quiet"


def _optional(help: str) -> dict[str, Any]:
    return {"help": help, "required": False}


_DECLARED: tuple[Command, ...] = (
    Command(
        "check",
        "describe a problem: parts, recordings, parameters, identifiability",
        "cli.checking:check",
        "",
        f"{_GUESSED} --trajectory --from --noise --until --verbose",
        {
            "--from": "prior of a --trajectory: folder of results with estimates and their errors",
            "--verbose": "also print settings, sizes, inertia coordinates (log-Cholesky) and base parameters",
        },
    ),
    Command(
        "solve",
        "estimate states and parameters, and write a folder of results",
        "cli.solving:solve",
        _FOLDERS,
        f"{_FIT} --threads --starts --seed --jobs --scheduler --animate --plan --no-figures --verbose --strict",
        {
            "--starts": {"help": "number of random starts (default: 1, the given values)", "default": 1},
            "--seed": "seed of these initial values (default: 0)",
            "--jobs": "worker processes, each with one recording or, with --starts, one start at a time (default for "
            "starts: one per processor)",
            "--out": _optional("folder of results (default: results/<name of the problem>)"),
        },
    ),
    Study(
        "simulate",
        "simulate a mechanism forward in time, and compare with its recordings, if any",
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
        "fit with a parameter fixed at several values: its likelihood interval",
        "studies.profile_study:begin",
        _FOLDERS,
        f"--parameter {_FIT} --jobs --scheduler",
        {
            "--jobs": "worker processes, each with one side of a profile at a time (default: 1)",
            "--out": "folder of the profiles",
        },
        title="profiles",
    ),
    Study(
        "regress",
        "estimate by least squares on filtered derivatives, compared with a fit",
        "studies.regression:begin",
        _FOLDERS,
        f"--method --filter --unknowns --from --alone {_FIT}",
        {
            "--from": "folder of results to compare with, instead of a fit",
            "--cutoff": "low-pass cutoff of the regression, and of the fit's initial states [Hz]",
            "--out": _optional("folder of the regression (default: none is written)"),
        },
        kind="regression",
        title="regression",
    ),
    Study(
        "crossvalidate",
        "fit models to each recording, evaluate them on the others, and rank them",
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
        "fit nested models in turn, and test which one predicts better",
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
            "--verbose": "also print inertia coordinates (log-Cholesky) and the estimator",
            "--duration": {"help": "seconds", "required": True},
            "--from": "prior: folder of results with estimates and their errors",
            "--quiet": "no progress and no table",
            "--out": {"help": "CSV file of the trajectory; a picture is written to FILE.png", "metavar": "FILE.csv"},
        },
    ),
    Command("new", "write a problem file for a robot and its log", "cli.robots:new", _MATCHED),
    Command("export", "write a robot's file with its identified values", "cli.robots:export", _KEPT),
    Command("payload", "estimate the payload of a fitted arm, without a new fit", "cli.robots:payload", _CARRIED),
    Command("predict", "predict motor efforts along another log, without a new fit", "cli.robots:predict", _LIKE),
    Command("card", "write a card of a fit, to verify later logs", "cli.robots:card", _VERIFIED),
    Command("verify", "test whether a log agrees with a card, without a new fit", "cli.robots:verify", _VERIFIED),
    Command("randomize", "draw parameters from their posterior, for simulators", "cli.robots:randomize", _DRAWN),
    Command(
        "watch",
        "estimate parameters while a log grows, and report changes",
        "cli.watching:watch",
        _WATCHED,
        f"LOG --follow --time --units --warm-up --window --every --false-alarms --save --resume {_GUESSED} --quiet",
        {"--quiet": "print only changes, no estimates and no progress"},
    ),
    Command("studio", "identify a robot in a browser: files, plots, fit and results", "cli.robots:studio", _BROWSED),
    Command("doctor", "print versions, extras and memory, and test a fit", "cli.doctor:doctor", _DOCTOR),
    Command("report", "write DIR/report.html, one page about the results in DIR", "cli.robots:report", _PAGE),
)
COMMANDS = {command.name: command for command in _DECLARED}
