"""The arguments of commands, each once, and their types."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
N = TypeVar("N", int, float)

Range: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[Range, Range, Range]

BACKENDS = ("lm", "riccati", "ipopt")
STEPPERS = ("spook", "spook-lifted", "variational")
FRICTIONS = ("smooth", "exact", "mpcc")
ESTIMATORS = ("auto", "noise", "hard")
METHODS = ("inverse-dynamics", "energy")
FILTERS = ("butterworth", "savgol")
UNKNOWNS = ("base", "declared")
BASES = ("fourier", "bspline")


def _kind(read: Callable[[str], T], what: str) -> Callable[[str], T]:
    """What reads a text, and complains of one that is not ``what``."""

    def kind(text: str) -> T:
        try:
            return read(text)
        except ValueError:
            order = "; give PROBLEM.py before the options" if text.partition("::")[0].endswith(".py") else ""
            raise argparse.ArgumentTypeError(f"{text!r} {what}{order}") from None

    return kind


def _within(value: N, least: float, most: float = math.inf) -> N:
    """A number if it is in a range, whose upper end is not part of it."""
    if not least <= value < most:
        raise ValueError
    return value


def _named(read: Callable[[str], T]) -> Callable[[str], tuple[str, T]]:
    """``NAME=VALUE``."""

    def pair(text: str) -> tuple[str, T]:
        name, _, value = text.partition("=")
        if not name:
            raise ValueError
        return name, read(value)

    return pair


def _read_range(text: str) -> Range:
    """``LOW:HIGH``; a side that is left out is infinite."""
    low, colon, high = text.partition(":")
    pair = float(low or "-inf"), float(high or "inf")
    if not (colon and pair[0] < pair[1]):
        raise ValueError
    return pair


def _read_box(text: str) -> Box:
    x, y, z = (_read_range(side or ":") for side in text.split(","))
    return x, y, z


def _read_cone(text: str) -> tuple[float, float]:
    """``0.5:20``: friction and least normal force, 0 if it is left out."""
    friction, _, least = text.partition(":")
    return float(friction), float(least or 0)


def _read_target(text: str) -> tuple[float, bool]:
    """``1%`` or ``2e-4``: the error, and True if it is a share."""
    relative = text.endswith("%")
    return _above(text.removesuffix("%")) / (100 if relative else 1), relative


def _read_unit(text: str) -> tuple[str, str]:
    name, _, unit = text.rpartition("=")
    if not (name and unit):
        raise ValueError
    return name, unit


def _above(text: str) -> float:
    return _within(float(text), math.nextafter(0, 1))


_pair = _kind(_named(lambda text: _within(float(text), -sys.float_info.max)), "is not NAME=VALUE with a finite number")
_range = _kind(_named(_read_range), "is not JOINT=LOW:HIGH, such as q1=-1.5:1.5, q1=0.1: or q1=:2")
_box = _kind(_named(_read_box), "is not FRAME=X,Y,Z with LOW:HIGH of each [m], such as tool0=,,0.1:")
_cone = _kind(_named(_read_cone), "is not CONTACT=MU or CONTACT=MU:NEWTON, such as foot=0.5:20")
_target = _kind(_named(_read_target), "is not NAME=ERROR, such as J=1% or J=2e-4")
_unit = _kind(_read_unit, "is not COLUMN=UNIT, such as t=ms or q1=deg")
_weight = _kind(lambda text: text if text == "auto" else float(text), "is neither a number, inf nor auto")
_count = _kind(lambda text: _within(int(text), 0), "is no number of iterations; give 0, 1, 2 ...")
_jobs = _kind(lambda text: _within(int(text), 1), "is no number of processes; give 1, 2, 3 ...")
_port = _kind(
    lambda text: _within(int(text), 0, 65535), "is no port; give a number from 1 to 65535, or 0 for a free one"
)
_amount = _kind(_above, "is no number above 0")


# --- the commands and their flags ---


def flag(help: str, metavar: str | None = None, **how: Any) -> dict[str, Any]:
    return {"help": help, **({"metavar": metavar} if metavar else {}), **how}


SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
_WEIGHT = (
    "weight of the equations of motion: auto (the default) estimates process and measurement noise with the "
    "parameters, a number is the paper's κ, inf makes the dynamics deterministic (stepper variational)"
)
_SOURCE = (
    "folder of results: its estimates, its step, and its first state of recordings of the same name (with several "
    "problems DIR/key, if there is one)"
)
_GUESSES = "initial values of parameters; with --fix the values held"
FLAGS = {
    "LOG": flag("the log: a CSV or other file, or - for standard input"),
    "--backend": flag("solver (default: lm)", choices=BACKENDS, default="lm"),
    "--set": flag(_GUESSES, "NAME=VALUE", type=_pair, default=[], **SEVERAL),
    "--fix": flag("parameters that keep their initial value", "NAME", default=[], **SEVERAL),
    "--state-weight": flag(_WEIGHT, "K", type=_weight),
    "--max-iterations": flag("limit of accepted steps of each fit", "N", type=_count),
    "--threads": flag("threads for the recordings (default: 1)", "N", type=_jobs),
    "--from": flag(_SOURCE, "DIR", dest="source"),
    "--force": flag("take results that have not converged, or that the data contradict", action="store_true"),
    "--method": flag("what is balanced", choices=METHODS, default=METHODS[0]),
    "--filter": flag("filter that differentiates, of the --cutoff", choices=FILTERS, default=FILTERS[0]),
    "--unknowns": flag(
        "base parameters, or the declared ones with their bounds and priors", choices=UNKNOWNS, default=UNKNOWNS[0]
    ),
    "--alone": flag("without a fit beside it", action="store_true"),
    "--duration": flag("seconds (default: as long as the recording)", "S", type=float),
    "--parameter": flag("parameter to hold, or several", "NAME", required=True, **SEVERAL),
    "--over": flag("axis of the grid", "NAME=RANGE", required=True, action="append"),
    "--jobs": flag("worker processes (default: one for each processor)", "N", type=_jobs),
    "--scheduler": flag("Dask scheduler whose workers do the work instead", "ADDRESS"),
    "--follow": flag("wait for rows after the last one, until Ctrl-C", action="store_true"),
    "--time": flag("column of the timestamps [s] (default: t)", "NAME", default="t"),
    "--units": flag(
        "units of columns that are not in SI with angles in rad, such as t=ms q1=deg, as pint writes them",
        "COLUMN=UNIT",
        type=_unit,
        default=[],
        **SEVERAL,
    ),
    "--warm-up": flag("seconds that are fitted first (default: 5)", "S", type=_amount, default=5.0),
    "--window": flag("window of the smoother [s] (default: 20 steps)", "S", type=_amount),
    "--every": flag("seconds of the log between two lines (default: 1)", "S", type=_amount, default=1.0),
    "--false-alarms": flag(
        "expected false alarms per day of data, if the noise is white (default: 1)",
        "N",
        type=_amount,
        default=1.0,
    ),
    "--save": flag("save the state in FILE every 10 s, when the log ends, and at Ctrl-C", "FILE"),
    "--resume": flag("continue from such a file, and skip rows up to its last timestamp", "FILE"),
    "--criterion": flag(
        "what to minimize: determinant (default), −log det of the information; largest, the largest relative "
        "error; or NAME,NAME, the errors of these parameters",
        "HOW",
        default="determinant",
    ),
    "--rate": flag("sampling rate of the controller (default: that of the recordings, or 100)", "HZ", type=_amount),
    "--basis": flag("functions of time (default: fourier)", choices=BASES, default=BASES[0]),
    "--harmonics": flag("periods of the fastest function in the duration (default: 10)", "N", type=_jobs, default=10),
    "--starts": flag("random motions to begin from (default: 3)", "N", type=_jobs, default=3),
    "--seed": flag("seed of the random motions (default: 0)", "N", type=_count, default=0),
    "--noise": flag(
        "noise that the problem does not declare: standard deviations of signals, process noise of joints per √Hz; "
        "NAME may be a pattern, such as 'q*'",
        "NAME=SIZE",
        type=_pair,
        default=[],
        **SEVERAL,
    ),
    "--position-limit": flag(
        "limits of joints [rad or m] (default: those of the robot's file); JOINT may be a pattern, such as '*'",
        "JOINT=LOW:HIGH",
        type=_range,
        default=[],
        **SEVERAL,
    ),
    "--rate-limit": flag("limits of rates, likewise [rad/s or m/s]", "JOINT=SIZE", type=_pair, default=[], **SEVERAL),
    "--effort-limit": flag(
        "limits of motor efforts, likewise [N m or N]", "JOINT=SIZE", type=_pair, default=[], **SEVERAL
    ),
    "--inside": flag(
        "walls of the world around a frame, LOW:HIGH along x, y and z [m]: tool0=,,0.1: keeps it above 0.1 m",
        "FRAME=X,Y,Z",
        type=_box,
        default=[],
        **SEVERAL,
    ),
    "--cone": flag(
        "friction coefficient of a contact, and least normal force [N]: foot=0.5:20; CONTACT may be a pattern",
        "CONTACT=MU:NEWTON",
        type=_cone,
        default=[],
        **SEVERAL,
    ),
    "--home": flag(
        "positions of joints in the pose around which motions are planned (default: where the problem's first "
        "recording begins, else the middle of limits)",
        "JOINT=VALUE",
        type=_pair,
        default=[],
        **SEVERAL,
    ),
    "--until": flag(
        "print how often to repeat the motion until an error is below this: J=1%% or J=2e-4",
        "NAME=ERROR",
        type=_target,
        default=[],
        **SEVERAL,
    ),
    "--trajectory": flag(
        "a planned motion, as spookid excite writes it: predict standard errors of this motion", "FILE"
    ),
    "--out": flag("folder of results", "DIR", required=True),
    "--animate": flag(
        "without effect, for scripts that have it: the page of spookid report shows the motion",
        action="store_true",
    ),
    "--link": flag("load Plotly from the network: a page of few kilobytes instead of 5 MB", action="store_true"),
    "--plan": flag("print the stages of the fit before it, and their durations after it", action="store_true"),
    "--no-figures": flag("write numbers and summary only, which is faster", action="store_true"),
    "--strict": flag("exit status 3 for every warning", action="store_true"),
    "--robot": flag("the robot's file of the problem, if it has moved", "FILE"),
    "--verbose": flag("all warnings and parameters, residuals, costs, times and versions", action="store_true"),
    "--quiet": flag("no progress, no summary and no table", action="store_true"),
}
SETTINGS = {
    "--stepper": flag("time stepping", choices=STEPPERS),
    "--estimator": flag(
        "noise: process noise is estimated; hard: deterministic dynamics; auto: chosen by the data", choices=ESTIMATORS
    ),
    "--friction": flag("representation of dry friction", choices=FRICTIONS),
    "--friction-width": flag("width of smooth dry friction [rad/s]", "W", type=float),
    "--step": flag("time step [s]", "H", type=float),
    "--cutoff": flag("low-pass filter of the initial values [Hz]", "F", type=float),
}
_ROBOT = {
    "--free": flag("the root of a URDF moves freely, as a trunk does", action="store_true"),
    "--hold": flag(
        "joints that do not move, and where [rad; m of sliders]", "JOINT=VALUE", type=_pair, default=[], **SEVERAL
    ),
    "--mend": flag("replace an impossible inertia of the file by the nearest possible one", action="store_true"),
    "--trust": flag("the robot's file may read other folders, and its macros the environment", action="store_true"),
}
_LOG = {
    "--topics": flag(
        "topics of a bag, MCAP, ULog or WPILib file, where several have the same joints", "TOPIC", default=[], **SEVERAL
    ),
    "--units": FLAGS["--units"],
}
_ALONG = {
    "--problem": flag("problem file (default: the one that was solved)", "PROBLEM.py"),
    "--time": flag("column of the timestamps [s] (default: t, or one with such a name)", "NAME"),
    **_LOG,
    "--cutoff": flag("low-pass filter [Hz] (default: the problem's own)", "F", type=_amount),
    "--set": flag(
        "values in this run of parameters with per='recording'", "NAME=VALUE", type=_pair, default=[], **SEVERAL
    ),
}
_GAIN = "gain of a drive from a data sheet: torque along the joint per ampere or volt, with a prior of 10 %%"
OF_COMMANDS: dict[str, dict[str, dict[str, Any]]] = {
    "new": {
        "robot": flag("its URDF, xacro or MJCF file", "ROBOT"),
        "log": flag("what was recorded: CSV, or any file that Recording.from_file reads", "LOG", nargs="?"),
        **_ROBOT,
        **_LOG,
        "--rate": flag("samples per second of a text without a column of times [Hz]", "HZ", type=_amount),
        "--gain": flag(_GAIN, "JOINT=VALUE", type=_pair, default=[], **SEVERAL),
        "--out": flag("the problem file", "FILE.py", required=True),
    },
    "export": {
        "result": flag("folder of results", "RESULT"),
        "--force": FLAGS["--force"],
        "--to": flag("the robot's own file, which is kept; none for a FILE.yaml", "ROBOT"),
        **_ROBOT,
        "--problem": _ALONG["--problem"],
        "--signal": flag(
            "gain or supply of a servo, where it is a signal: kp=400 vin=7.4",
            "NAME=VALUE",
            type=_pair,
            default=[],
            **SEVERAL,
        ),
        "--timestep": flag("of the physics, for delays in a FILE.yaml [s]", "S", type=_amount),
        "--out": flag(
            "the new file, FILE.json beside it has errors and covariance; or FILE.yaml, Isaac Lab's actuators",
            "FILE",
            required=True,
        ),
    },
    "payload": {
        "result": flag("folder of results of the arm", "RESULT"),
        "--force": FLAGS["--force"],
        "log": flag("a run with the payload: CSV, or any file that Recording.from_file reads", "LOG"),
        "--body": flag("body that carries it, or a link of the robot's file on one", "NAME", required=True),
        "--known-mass": flag("mass of the payload [kg], to calibrate gains; 0: there is none", "KG", type=float),
        "--calibration": flag("FILE of --out of a run with a known mass", "FILE"),
        **_ALONG,
        "--verbose": flag("all warnings and notes, and a table of residuals", action="store_true"),
        "--out": flag("JSON with estimates, errors and covariances", "FILE"),
    },
    "predict": {
        "result": flag("folder of results", "RESULT"),
        "--force": FLAGS["--force"],
        "log": flag("another log: CSV, or any file that Recording.from_file reads", "LOG"),
        **_ALONG,
        "--out": flag("CSV with predicted and measured efforts", "FILE.csv"),
    },
    "card": {
        "result": flag("folder of results", "RESULT"),
        "--force": FLAGS["--force"],
        "--problem": _ALONG["--problem"],
        "--out": flag("the card, JSON", "FILE.json", required=True),
    },
    "verify": {
        "card": flag("what spookid card has written", "CARD"),
        "log": flag("another log: CSV, or any file that Recording.from_file reads", "LOG"),
        **{name: _ALONG[name] for name in ("--problem", "--time", *_LOG)},
        "--false-alarms": flag("rate of alarms at an unchanged device (default: 0.01)", "RATE", type=_amount),
        "--out": flag("what was found, JSON", "FILE.json"),
    },
    "randomize": {
        "result": flag("folder of results", "RESULT"),
        "--force": FLAGS["--force"],
        "--problem": _ALONG["--problem"],
        "--count": flag("number of draws (default: 1000)", "N", type=_jobs, default=1000),
        "--seed": flag("of the random numbers (default: 0)", "SEED", type=int, default=0),
        "--to": flag("the robot's own file, which is kept; --files has one of each draw", "ROBOT"),
        **_ROBOT,
        "--files": flag("new folder of robot's files, one of each draw", "DIR"),
        "--out": flag("all draws in one file, NPZ or JSON", "FILE", required=True),
    },
    "studio": {
        "folder": flag("folder of robots, logs and results (default: this one)", "FOLDER", nargs="?", default="."),
        "--port": flag("port of the address (default: a free one)", "PORT", type=_port, default=0),
        "--no-browser": flag("print the address only", action="store_true"),
    },
    "doctor": {},
    "report": {
        "directory": flag("folder that a command of spookid wrote", "DIR"),
        **{name: FLAGS[name] for name in ("--link", "--animate", "--robot")},
    },
}
"""Arguments of commands that begin with something else than a problem file."""
