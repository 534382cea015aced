"""Measured data that problem files use: found or downloaded, checked against a registry, and corrected.

With the environment variable ``SPOOKID_DATA`` set, files are read from ``$SPOOKID_DATA/<dataset>/<file>``; without
it they are downloaded from their source repository into the user's cache. Either way only a file with the
registered SHA-256 is read. Pickled sources are never unpickled, which could execute code: their arrays are taken out by
``pickled``, and are kept only if they are the registered ones. Needs the extra ``spookid[data]``.
"""

from __future__ import annotations

import math
import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spookid.data import _conversion
from spookid.data._registry import DATASETS, Dataset, File
from spookid.data.recording import Recording
from spookid.errors import ProblemError

__all__ = [
    "Dataset",
    "File",
    "before_balancing",
    "furuta_odrive",
    "furuta_qube",
    "info",
    "multiarm_single",
    "names",
    "path",
    "pendulum_free_swing",
]

_PENDULUM = "pendulum-free-swing"
_QUBE = "furuta-qube-swingup"
_MULTIARM = "multiarm-pendulum"
_ODRIVE = "furuta-odrive"

_UNREAD = {
    "matlab": "a MATLAB file that holds the record in pieces, which spookid does not read",
    "topics": "a table of interleaved ROS topics, which spookid does not read",
}
"""Formats of sources that have to be converted, and why."""

# The recorder divides by 11 counts per degree, 4000 // 360; the encoder has 4000 / 360.
_DEGREES_PER_LOGGED_DEGREE = 11 * 360 / 4000
_PENDULUM_RATE = 1000.0  # nominal samples per second
_FIRST_PEAK = {"01": 719, "02": 616, "03": 432}  # before that sample the hand still holds the pendulum

# From the voltage to the arm's torque [s], by kind of record: see `furuta_qube`.
_QUBE_DELAY = {"swingup": 0.004, "chirp": 0.008}

_ODRIVE_TORQUE_CONSTANT = 0.103375  # N m per volt of the pulses, which were commanded as torques in voltage mode
# First commands [s, in the record's unit] that the recorder missed; it subscribed after they were sent.
_ODRIVE_MISSED = {"pulses_torque_units": (4.898, 0.1), "step_5V": (0.43, 5.0)}


# --- the registry ---


def names() -> tuple[str, ...]:
    """Names of the registered data sets, in alphabetical order."""
    return tuple(sorted(DATASETS))


def info(dataset: str) -> Dataset:
    """Origin, licence, citation and files of a data set; raises `ProblemError` listing all if it is unknown."""
    if dataset not in DATASETS:
        raise ProblemError(f"there is no data set {dataset!r}; choose one of {_listing(names())}")
    return DATASETS[dataset]


def path(dataset: str, filename: str) -> Path:
    """Local path of a file whose content has the registered SHA-256.

    A pickled source is converted to an npz, whose arrays have the registered digest (another version of the packing
    library may give the file another SHA-256). This was tried with pickles of the same shape, but not against the
    source itself.

    Raises `ProblemError` for an unknown name, a missing or altered file, a failed download, a source that cannot be
    read when SPOOKID_DATA is not set, and when pooch is not installed.
    """
    source = info(dataset)
    file = next((file for file in source.files if file.name == filename), None)
    if file is None:
        have = _listing(file.name for file in source.files)
        raise ProblemError(f"data set {dataset!r} has no file {filename!r}; choose one of {have}")
    folder = os.environ.get("SPOOKID_DATA")
    if folder:
        return _local(Path(folder).expanduser(), source, file)
    if file.source_format in _UNREAD:
        raise ProblemError(
            f"{dataset}/{filename} cannot be downloaded, for its source is {_UNREAD[file.source_format]}; "
            f"set SPOOKID_DATA to a folder that holds it, {_converted(source, file)}"
        )
    return _converted_download(source, file) if file.source_format == "pickle" else _download(source, file)


def _local(folder: Path, dataset: Dataset, file: File) -> Path:
    place = folder / dataset.name / file.name
    if file.source_format != "text":
        remedy = f"point SPOOKID_DATA at a folder that holds {dataset.name}/{file.name}, {_converted(dataset, file)}"
    else:
        remedy = f"copy it from {dataset.url(file)}, or unset SPOOKID_DATA to download it"
    if not place.is_file():
        raise ProblemError(f"{place}, looked for because SPOOKID_DATA is set, does not exist; {remedy}")
    try:
        found = _pooch().file_hash(str(place), alg="sha256")
    except OSError as error:
        raise ProblemError(f"{place} cannot be read ({error.strerror or error}); check its permissions") from error
    if found != file.sha256:
        raise ProblemError(f"{place} is not the registered file, its SHA-256 begins with {found[:12]}; {remedy}")
    return place


def _download(dataset: Dataset, file: File) -> Path:
    return _retrieved(dataset, file, f"sha256:{file.sha256}", file.name, _cache(dataset))


def _converted_download(dataset: Dataset, file: File) -> Path:
    """The npz in the cache, made from its source if it is not there; what is there is checked again."""
    place, what = _cache(dataset) / file.name, f"{dataset.name}/{file.name}"
    if place.is_file() and _digest(place) == file.arrays_sha256:
        return place
    with tempfile.TemporaryDirectory() as folder:
        source = _retrieved(dataset, file, None, "source.pkl", Path(folder))
        content = source.read_bytes()
    arrays = _conversion.rollout(content, f"the source of {what}, {dataset.url(file)},")
    if tuple(arrays) != dataset.contents(file) or _conversion.digest(arrays) != file.arrays_sha256:
        raise ProblemError(
            f"{what} as converted from {dataset.url(file)} does not hold the registered arrays; set SPOOKID_DATA to a "
            f"folder that holds {what}"
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            whole = Path(folder) / file.name
            np.savez_compressed(whole, **arrays)  # type: ignore[arg-type]
            whole.replace(place)
    except OSError as error:
        raise ProblemError(
            f"{place} cannot be written ({error.strerror or error}); make room there, or set SPOOKID_DATA to a folder "
            f"that holds {what}"
        ) from error
    return place


def _digest(place: Path) -> str:
    """Of the arrays in an npz; empty if it is none."""
    try:
        with np.load(place, allow_pickle=False) as archive:
            return _conversion.digest({name: archive[name] for name in archive.files})
    except (OSError, ValueError, zipfile.BadZipFile):
        return ""


def _cache(dataset: Dataset) -> Path:
    return Path(_pooch().os_cache("spookid")) / dataset.name


def _retrieved(dataset: Dataset, file: File, known_hash: str | None, name: str, folder: Path) -> Path:
    """The source of a file, downloaded into a folder under a name."""
    pooch = _pooch()
    what, url = f"{dataset.name}/{file.name}", dataset.url(file)
    try:
        return Path(pooch.retrieve(url, known_hash=known_hash, fname=name, path=folder))
    except OSError as error:  # errors of requests and of the disk alike
        raise ProblemError(
            f"{what} could not be downloaded from {url} ({type(error).__name__}); "
            f"get online, or set SPOOKID_DATA to a folder that holds {what}"
        ) from error
    except ValueError as error:  # pooch's word for another hash
        raise ProblemError(
            f"{what} as downloaded from {url} does not have the registered SHA-256; "
            f"try again, or set SPOOKID_DATA to a folder that holds the registered {what}"
        ) from error


def _converted(dataset: Dataset, file: File) -> str:
    """How an npz was made from its source, to end a sentence with; another order gives another SHA-256."""
    return (
        f"converted from {file.source} of {dataset.repository} by numpy.savez_compressed "
        f"with the arrays {', '.join(dataset.contents(file))} in that order"
    )


def _pooch() -> ModuleType:
    """The pooch library, which only this module needs."""
    try:
        import pooch
    except ImportError as error:
        raise ProblemError("measured data need the library pooch; install spookid[data]") from error
    module: ModuleType = pooch
    return module


def _listing(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in words)


# --- the recordings ---


def pendulum_free_swing(number: str) -> Recording:
    """Free swing `number`, "01" to "03", of the small rod pendulum: signal ``theta`` [rad], 0 = hanging.

    Corrected as the measurement asks for: the logged degrees are times 0.99 (integer arithmetic in the recorder),
    and the recording starts, with t = 0, at the first positive peak, where the hand has let go. The sample interval
    is nominally 1 ms; truly it is 1.00 to 1.03 ms with jitter, which no fit can tell from another length.
    The encoder's step is 1.6e-3 rad. Raises `ProblemError` for another number and as `path` does.
    """
    if number not in _FIRST_PEAK:
        raise ProblemError(f"{_PENDULUM} has no recording {number!r}; choose one of {_listing(_FIRST_PEAK)}")
    file = path(_PENDULUM, f"pendulum_free_swing_data_{number}.txt")
    logged = np.loadtxt(file, skiprows=2)[_FIRST_PEAK[number] :]
    theta = np.radians(logged * _DEGREES_PER_LOGGED_DEGREE)
    return Recording(
        t=np.arange(len(theta)) / _PENDULUM_RATE, signals={"theta": theta}, name=f"pendulum_free_swing_{number}"
    )


def furuta_qube(name: str, *, delay: int | None = None, until: float | Literal["balancing"] | None = None) -> Recording:
    """Recording `name` of the Quanser Qube, such as "swingup_500hz_1" or "chirp_pos_2".

    Signals: ``theta`` [rad] of the arm, ``alpha`` [rad] of the pendulum (0 = hanging, ±π = up), and the voltage
    ``u`` [V] after clipping, which acts from its sample to the next. The device's own rates are left out, for they
    lag by 16 ms. The encoders' step is 3.07e-3 rad. Swing-ups are those of a controller of the energy: a closed loop.

    `delay` is the whole number of samples by which ``u`` acts later than it was sent; before the first arrives it
    is 0 V. The data's README finds 4 to 8 ms. The default is the whole number of samples that leaves the smallest
    residual when the arm's torque balance at each sample, below 15 Hz, is regressed on ``u``, the angle and the
    speed there: 4 ms for each swing-up (1 sample at 250 Hz, 2 at 500 Hz), 8 ms for each chirp (2 samples).

    `until` drops the samples from that time [s] on; "balancing" drops them as `before_balancing` does.

    Raises `ProblemError` for an unknown name, a delay that is no whole number of samples from 0 on or is longer than
    the recording, another `until`, and as `path` does.
    """
    known = [file.name.removesuffix(".npz") for file in info(_QUBE).files]
    if name not in known:
        raise ProblemError(f"{_QUBE} has no recording {name!r}; choose one of {_listing(known)}")
    if isinstance(until, str) and until != "balancing":
        raise ProblemError(f"{_QUBE} recording {name!r}: until is {until!r}; give a time in seconds or 'balancing'")
    with np.load(path(_QUBE, f"{name}.npz"), allow_pickle=False) as archive:
        t, theta, alpha, sent = (archive[key] for key in ("t", "theta", "alpha", "u_applied"))
    if delay is None:
        delay = round(_QUBE_DELAY[name.partition("_")[0]] / (t[1] - t[0]))
    u = _delayed(sent, delay, len(t), f"{_QUBE} recording {name!r}")
    driven = True if name.startswith("swingup") else None
    recording = Recording(t=t, signals={"theta": theta, "alpha": alpha, "u": u}, name=name, closed_loop=driven)
    if until is None:
        return recording
    if isinstance(until, str):
        return before_balancing(recording)
    return recording.between(recording.t[0], until)


def _delayed(sent: NDArray[np.float64], delay: int, count: int, what: str) -> NDArray[np.float64]:
    """`sent` [V], shape (count - 1,), shifted by `delay` samples to shape (count,); the last value is held."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or not 0 <= delay < count - 1:
        raise ProblemError(f"{what}: delay is {delay!r}; give a whole number of samples from 0 to {count - 2}")
    return np.concatenate([np.zeros(delay), sent, sent[-1:]])[:count]


def multiarm_single() -> Recording:
    """Free swing of the single pendulum of the multi-arm rig: signal ``theta`` [rad], 0 = hanging, at 1 kHz for 55 s.

    The file counts angles from upright; here π is taken off. Its velocity, filtered by the authors, is left out.
    Raises `ProblemError` as `path` does.
    """
    with np.load(path(_MULTIARM, "single.npz"), allow_pickle=False) as archive:
        t, theta = archive["t"], archive["theta"][:, 0] - math.pi
    return Recording(t=t, signals={"theta": theta}, name="multiarm_single")


def furuta_odrive(name: str) -> Recording:
    """Recording `name` of the Furuta pendulum with a gimbal motor: "release_2024", "pulses_torque_units", "sine_1V" ...

    Signals: ``theta`` [rad] of the arm, from where it is at first; ``alpha`` [rad] of the pendulum, 0 = hanging, whole
    turns taken off; and, but for the release, the voltage ``u`` [V] that was last sent, 0 V before the first. Commands
    that the recorder missed are put in as the data's README tells: +0.1 N m of the pulses at 4.898 s and 5 V of step_5V
    at 0.43 s. The pulses were commanded as torques and are divided by the torque constant. Stamps are the drive's; they
    jitter about 2 ms. The encoders' step is 7.7e-4 rad.

    Raises `ProblemError` for another name and as `path` does.
    """
    known = [file.name.removesuffix(".npz") for file in info(_ODRIVE).files]
    if name not in known:
        raise ProblemError(f"{_ODRIVE} has no recording {name!r}; choose one of {_listing(known)}")
    with np.load(path(_ODRIVE, f"{name}.npz"), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    t, alpha = arrays["t"], arrays["q1"]
    turns = 2 * math.pi * np.round((alpha[-1] if name == "release_2024" else alpha[0]) / (2 * math.pi))
    signals = {"theta": arrays["q0"] - arrays["q0"][0], "alpha": alpha - turns}
    if "u" in arrays:
        signals["u"] = _sent(name, t, arrays["t_u"], arrays["u"])
    return Recording(t=t, signals=signals, name=name)


def _sent(
    name: str, t: NDArray[np.float64], times: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Voltage [V] at each `t` [s]: the last of `values` sent at `times`, the missed first one put in front."""
    if name in _ODRIVE_MISSED:
        first, value = _ODRIVE_MISSED[name]
        times, values = np.concatenate([[first], times]), np.concatenate([[value], values])
    if name == "pulses_torque_units":
        values = values / _ODRIVE_TORQUE_CONSTANT
    return np.concatenate([[0.0], values])[np.searchsorted(times, t, side="right")]


def before_balancing(
    recording: Recording, *, signal: str = "alpha", angle: float = math.radians(20), margin: float = 0.05
) -> Recording:
    """The part of a swing-up before a controller balances the pendulum.

    It ends `margin` [s] before the first sample from which `signal` [rad] (0 = hanging, ±π = up, wrapped or not)
    stays within `angle` [rad] of upright to the end of the recording; a pass through upright does not count. 20
    degrees is where the controller of the Quanser Qube's swing-ups takes over: in all five its voltage jumps at that
    very sample. Balancing is better left out because an unstable motion that feedback holds still says little about
    the parameters. Raises `ProblemError` if there is no such signal, or if the pendulum does not end upright or is
    upright from the start.
    """
    what = f"recording {recording.name!r}"
    offset = np.mod(recording.signal(signal), 2 * math.pi) - math.pi  # zero is upright
    away = np.flatnonzero(np.abs(offset) >= angle)  # a missing sample is not away
    start = int(away[-1]) + 1 if away.size else 0
    if not np.isfinite(offset[start:]).any():
        raise ProblemError(
            f"{what}: {signal!r} does not end within {angle:.3g} rad of upright, so there is no balancing to cut off; "
            "use the recording as it is"
        )
    stop = recording.t[start] - margin
    if np.count_nonzero(recording.t < stop) < 2:
        raise ProblemError(
            f"{what}: {signal!r} is upright from t = {recording.t[start]:g} s on, which leaves nothing before "
            "balancing; use a recording of a swing-up"
        )
    return recording.between(recording.t[0], stop)
