"""Convert the measured data sets once into the recordings that the problem files read.

    python problems/data/convert.py

Reads the data sets in the folder SPOOKID_DATA, by default ``../shared/data`` beside the project, and writes one NPZ
file per recording, times ``t`` [s] and signals in SI units, into the folder SPOOKID_CONVERTED, by default
``~/.cache/spookid/data``. Problem files call `measured`, which converts what is not there yet. The README of each data
set tells where it comes from, its licence, and what has to be corrected.
"""

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spookid import ProblemError, Recording

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Where the data sets are if SPOOKID_DATA does not tell."""
Arrays = dict[str, NDArray[np.float64]]

# The recorder divides by 11 counts per degree, 4000 // 360; the encoder has 4000 / 360.
DEGREES_PER_LOGGED_DEGREE = 11 * 360 / 4000
LOGGED_RATE = 1000.0  # nominal samples per second; truly the interval is 1.00 to 1.03 ms, with jitter
FIRST_PEAK = {"01": 719, "02": 616, "03": 432}  # before that sample the hand still holds the pendulum

QUBE_DELAY = 0.004  # [s] from the voltage to the arm's torque: leaves the smallest residual of the arm's torque balance
BALANCING = math.radians(20)  # [rad] from upright, where the controller takes over: its voltage jumps at that sample
MARGIN = 0.05  # [s] that are left out before

TORQUE_CONSTANT = 0.103375  # N m per volt of the pulses, which were commanded as torques in voltage mode
# First commands [s, in the record's unit] that the recorder missed; it subscribed after they were sent.
MISSED = {"pulses_torque_units": (4.898, 0.1), "step_5V": (0.43, 5.0)}

LEGS = ("FL", "FR", "RL", "RR")
# Hz, of what counts as motion; share of the typical rates at which nothing tells the time; s, less than half a sample.
SMOOTH, STILL, LATEST = 40.0, 0.02, 0.0024

SERVO = ("lift_and_drop", "sin_sin", "sin_time_square", "up_and_down")

# First and last sample of the motion.
EXCITING = {"excitation_12harm_40s": (500, 4460), "excitation_14harm_50s": (195, 4966)}


def free_swing(source: Path) -> Arrays:
    """Release of a small rod pendulum: ``theta`` [rad], 0 = hanging, from the first peak on, where the hand lets go."""
    logged = np.loadtxt(source, skiprows=2)[FIRST_PEAK[source.stem[-2:]] :]
    return {"t": np.arange(len(logged)) / LOGGED_RATE, "theta": np.radians(logged * DEGREES_PER_LOGGED_DEGREE)}


def servo(source: Path) -> Arrays:
    """One run of a servo: commanded ``goal`` and shown ``q`` [rad], supply ``vin`` [V], torque ``on``, gain ``kp``."""
    with np.load(source) as archive:
        names = {"goal": "goal", "q": "q", "vin": "vin", "on": "enabled"}
        signals = {name: np.asarray(archive[key], float) for name, key in names.items()}
        return {"t": archive["t"], **signals, "kp": np.full(len(archive["t"]), float(archive["kp"]))}


def multiarm(source: Path) -> Arrays:
    """Free swing of the multi-arm rig's single pendulum: ``theta`` [rad], 0 = hanging; the source counts from upright.

    Its velocity, filtered by the authors, is left out.
    """
    with np.load(source) as archive:
        return {"t": archive["t"], "theta": archive["theta"][:, 0] - math.pi}


def positioning(source: Path) -> Arrays:
    """Electro-mechanical positioning system: ``qm`` of the load [m] and ``vir`` of the drive [V], as they were logged.

    The reference that its controller follows is left out: the drive's signal is all that acts.
    """
    with np.load(source) as archive:
        return {key: archive[key].ravel() for key in ("t", "qm", "vir")}


def swing_up(source: Path) -> Arrays:
    """The Quanser Qube, until it is balanced if ever: ``theta`` of the arm and ``alpha`` of the pendulum [rad].

    ``alpha`` is 0 hanging and ±π upright; ``u`` [V], after clipping, acts from its sample to the next, delayed by whole
    samples and 0 V before the first arrives. The device's own rates lag by 16 ms and are left out, and so is balancing:
    an unstable motion that feedback holds still says little about the parameters.
    """
    with np.load(source) as archive:
        t, theta, alpha, sent = (archive[key] for key in ("t", "theta", "alpha", "u_applied"))
    delay = round(QUBE_DELAY / (t[1] - t[0]))
    u = np.concatenate([np.zeros(delay), sent, sent[-1:]])[: len(t)]
    away = np.flatnonzero(np.abs(np.mod(alpha, 2 * math.pi) - math.pi) >= BALANCING)
    kept = t < (t[away[-1] + 1] - MARGIN if len(away) < len(t) else np.inf)
    return {"t": t[kept], "theta": theta[kept], "alpha": alpha[kept], "u": u[kept]}


def gimbal_motor(source: Path) -> Arrays:
    """Furuta pendulum with a gimbal motor: ``theta`` [rad] of the arm from where it is at first, ``alpha`` [rad].

    ``alpha`` is 0 hanging, whole turns taken off; ``u`` [V], which the release has not, is what was last sent, 0 V
    before. Commands that the recorder missed are put in. Stamps are the drive's and jitter by about 2 ms.
    """
    with np.load(source) as archive:
        arrays = dict(archive)
    t, alpha = arrays["t"], arrays["q1"]
    hanging = alpha[-1] if source.stem == "release_2024" else alpha[0]
    turns = 2 * math.pi * np.round(hanging / (2 * math.pi))
    signals = {"t": t, "theta": arrays["q0"] - arrays["q0"][0], "alpha": alpha - turns}
    if "u" not in arrays:
        return signals
    times, values = arrays["t_u"], arrays["u"]
    if source.stem in MISSED:
        first, value = MISSED[source.stem]
        times, values = np.concatenate([[first], times]), np.concatenate([[value], values])
    if source.stem == "pulses_torque_units":
        values = values / TORQUE_CONSTANT
    return {**signals, "u": np.concatenate([[0.0], values])[np.searchsorted(times, t, side="right")]}


def exciting(source: Path) -> Arrays:
    """Exciting trajectory of a six-axis arm: ``q1`` to ``q6`` [rad], currents of the motors ``i1`` to ``i6`` [A].

    Rest before and after the motion is left out, as the data set says. Stamps jitter by some milliseconds, as logged;
    rates, filtered by the controller, and what that had asked for are left out.
    """
    first, last = EXCITING[source.stem]
    with np.load(source) as archive:
        parts = {"q": archive["q"], "i": archive["current"]}
        t = archive["t"][first:last]
    columns = ((f"{name}{joint + 1}", part[first:last, joint]) for name, part in parts.items() for joint in range(6))
    return {"t": t - t[0], **dict(columns)}


def panda(source: Path) -> Arrays:
    """Exciting trajectory of a seven-axis arm: ``q1`` to ``q7`` [rad], torque sensors of its joints ``tau1`` ... [N m].

    Stamps jitter and some samples are missing, as logged. Positions are those of every fifth sample, for it moves by
    2 Hz at most; the controller's filtered rates are left out.
    """
    with np.load(source) as archive:
        t, q, tau = archive["t"], np.full_like(archive["q"], np.nan), archive["tau"]
        q[::5] = archive["q"][::5]
    return {"t": t, **{f"{name}{i + 1}": part[:, i] for name, part in (("q", q), ("tau", tau)) for i in range(7)}}


def legs(source: Path) -> Arrays:
    """Four legs in the air: of each, as ``FL``, angles ``FL_1`` to ``FL_3`` [rad] and what is asked for, ``FL_1_d``.

    Hips of the right legs are mirrored, so that all legs move alike and their parameters can be compared.
    """
    with np.load(source) as archive:
        t, q, wanted = archive["t"], archive["q"], archive["q_des"]
    columns: Arrays = {"t": stamps(t, q) - t[0]}
    for column in range(12):
        leg, joint = LEGS[column // 3], column % 3
        sign = -1.0 if leg.endswith("R") and joint == 0 else 1.0
        columns[f"{leg}_{joint + 1}"] = sign * q[:, column]
        columns[f"{leg}_{joint + 1}_d"] = sign * wanted[:, column]
    return columns


def stamps(t: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """When samples were taken of a record whose stamps are made up [s]: what all joints (N, n) miss of a smooth motion
    in proportion to their rates is time."""
    from scipy.signal import butter, filtfilt

    smooth = filtfilt(*butter(2, SMOOTH, fs=1 / float(np.median(np.diff(t)))), q, axis=0)
    rates, missed = np.gradient(smooth, t, axis=0), q - smooth
    weights = rates / np.var(missed, axis=0)
    squares = np.sum(weights * rates, axis=1)
    late = np.sum(weights * missed, axis=1) / (squares + STILL * np.median(squares))
    return np.asarray(t + np.clip(late, -LATEST, LATEST))


def double_pendulum(source: Path) -> Arrays:
    """Double pendulum with two drives: ``q1`` from hanging and ``q2`` [rad], torques ``tau1`` and ``tau2`` [N m].

    The torques are those that the drives report; the rates, which have spikes, are left out.
    """
    with np.load(source) as archive:
        t, q, tau = archive["t"], archive["pos"], archive["tau_meas"]
    return {
        "t": t - t[0],
        **{f"{name}{i + 1}": part[:, i] for name, part in (("q", q), ("tau", tau)) for i in range(2)},
    }


def toss(source: Path, number: int) -> Arrays:
    """One toss of a cube: its centre ``x``, ``y``, ``z`` [m] over the table, and its orientation ``qw`` to ``qz``."""
    half = 0.0524  # width, by which the data set divides lengths [m]
    with np.load(source) as archive:
        first, last = archive["start"][number : number + 2]
        poses, dt = archive["x"][first:last, :7], float(archive["dt"])
    columns = dict(zip(("x", "y", "z"), half * poses[:, :3].T, strict=True))
    turns = dict(zip(("qw", "qx", "qy", "qz"), poses[:, 3:].T, strict=True))
    return {"t": dt * np.arange(len(poses)), **columns, **turns}


CHIRPS = ("chirp_pos_1", "chirp_pos_2", "chirp_neg_1", "chirp_neg_2")
SWINGUPS = ("swingup_500hz_1", "swingup_500hz_2", "swingup_500hz_3", "swingup_250hz_1", "swingup_250hz_2")
DOUBLE_PENDULUM = ("A0_01", "A0_04", "A0_11", "A0_12", "C1_143524", "C1_143601", "C1_143704", "C1_144115", "C1_154220")
GIMBAL = ("release_2024", "pulses_torque_units", "sine_1V", "sine_4V", "step_2V", "step_5V")
SOURCES: dict[str, tuple[str, Callable[[Path], Arrays]]] = {
    "emps": ("emps/DATA_EMPS.npz", positioning),
    "multiarm_single": ("multiarm-pendulum/single.npz", multiarm),
    **{
        f"pendulum_free_swing_{number}": (f"pendulum-free-swing/pendulum_free_swing_data_{number}.txt", free_swing)
        for number in FIRST_PEAK
    },
    **{name: (f"furuta-qube-swingup/{name}.npz", swing_up) for name in (*SWINGUPS, *CHIRPS)},
    **{name: (f"furuta-odrive/{name}.npz", gimbal_motor) for name in GIMBAL},
    **{
        f"cube_toss_{number}": ("contactnets-cube/tosses_000_079.npz", partial(toss, number=number))
        for number in range(80)
    },
    "franka_panda": ("franka-panda/exciting_trajectory_1.npz", panda),
    "go2_legs": ("go2-legs-pd/chirp_legs_in_air.npz", legs),
    **{f"dfki_{name}": (f"dfki-double-pendulum/{name}.npz", double_pendulum) for name in DOUBLE_PENDULUM},
    **{f"xl330_kp{gain}_{name}": (f"servo-xl330/kp{gain}_{name}.npz", servo) for gain in (100, 400) for name in SERVO},
    **{f"ur10e_{name}": (f"ur10e/{name}.npz", exciting) for name in EXCITING},
}
"""Recording to its source below SPOOKID_DATA, and how that is converted."""


def measured(name: str) -> Recording:
    """A measured recording, converted first if that has not been done since this script was changed.

    Raises:
        ProblemError: as `convert`.
    """
    place = converted(name)
    if not place.is_file() or place.stat().st_mtime < Path(__file__).stat().st_mtime:
        convert(name)
    return Recording.from_npz(place)


def convert(name: str) -> Path:
    """Write the NPZ file of one of `SOURCES`, whole or not at all, and return its path.

    Raises:
        ProblemError: if the source is missing or is not what its data set says, or if the file cannot be written.
    """
    relative, read = SOURCES[name]
    source, place = folder("SPOOKID_DATA", SHARED) / relative, converted(name)
    if not source.is_file():
        raise ProblemError(f"{source} does not exist; set SPOOKID_DATA to the folder that holds {relative}")
    try:
        arrays = read(source)
    except (ValueError, KeyError, IndexError) as error:
        raise ProblemError(f"{source} is not the measured data set ({error}); restore it from its source") from error
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        part.replace(place)
    except OSError as error:
        reason = error.strerror or error
        raise ProblemError(f"{place} cannot be written ({reason}); set SPOOKID_CONVERTED to another folder") from error
    finally:
        part.unlink(missing_ok=True)
    return place


def converted(name: str) -> Path:
    """Where the NPZ file of a recording is, or will be."""
    return folder("SPOOKID_CONVERTED", Path("~/.cache/spookid/data")) / f"{name}.npz"


def folder(variable: str, default: Path) -> Path:
    """The folder that an environment variable names, or the default."""
    return Path(os.environ.get(variable) or default).expanduser()


def main() -> None:
    """Convert all recordings, and print where they are."""
    try:
        for name in SOURCES:
            print(convert(name))
    except ProblemError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
