"""Measured data: the registry, where files come from, what is refused, and the corrected recordings."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spookid.data import _conversion, datasets
from spookid.data.datasets import before_balancing, furuta_odrive, furuta_qube, multiarm_single, pendulum_free_swing
from spookid.data.recording import Recording
from spookid.errors import ProblemError

PENDULUM, QUBE = "pendulum-free-swing", "furuta-qube-swingup"
MULTIARM, ODRIVE = "multiarm-pendulum", "furuta-odrive"
SWING_01 = "pendulum_free_swing_data_01.txt"
SWINGUPS = ["swingup_500hz_1", "swingup_500hz_2", "swingup_500hz_3", "swingup_250hz_1", "swingup_250hz_2"]
CHIRPS = ["chirp_neg_1", "chirp_neg_2", "chirp_pos_1", "chirp_pos_2"]
DRIVEN = ["pulses_torque_units", "sine_1V", "sine_4V", "step_2V", "step_5V"]
SOURCES = {"pickle": ".pkl", "matlab": ".mat", "topics": ".csv"}

FILES = [(dataset, file) for dataset in map(datasets.info, datasets.names()) for file in dataset.files]


def _has_measured(dataset: str) -> bool:
    root = os.environ.get("SPOOKID_DATA")
    return bool(root) and (Path(root) / dataset).is_dir()


needs_pendulum = pytest.mark.skipif(not _has_measured(PENDULUM), reason=f"SPOOKID_DATA has no {PENDULUM}")
needs_multiarm = pytest.mark.skipif(not _has_measured(MULTIARM), reason=f"SPOOKID_DATA has no {MULTIARM}")
needs_odrive = pytest.mark.skipif(not _has_measured(ODRIVE), reason=f"SPOOKID_DATA has no {ODRIVE}")
needs_qube = pytest.mark.skipif(not _has_measured(QUBE), reason=f"SPOOKID_DATA has no {QUBE}")


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOOKID_DATA", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty SPOOKID_DATA."""
    monkeypatch.setenv("SPOOKID_DATA", str(tmp_path))
    return tmp_path


# --- the registry ---


def test_registry_names() -> None:
    assert datasets.names() == (ODRIVE, QUBE, MULTIARM, PENDULUM)
    assert len(datasets.info(PENDULUM).files) == 3
    assert [file.name for file in datasets.info(MULTIARM).files] == ["double.npz", "single.npz"]
    assert [file.name for file in datasets.info(ODRIVE).files] == sorted(f"{n}.npz" for n in [*DRIVEN, "release_2024"])
    assert [file.name for file in datasets.info(QUBE).files] == sorted(f"{name}.npz" for name in SWINGUPS + CHIRPS)


@pytest.mark.parametrize("name", datasets.names())
def test_registry_entry_is_complete(name: str) -> None:
    dataset = datasets.info(name)
    assert dataset.name == name
    assert re.fullmatch(r"[0-9a-f]{40}", dataset.commit)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", dataset.repository)
    assert dataset.licence in {"MIT", "BSD-3-Clause", "GPL-3.0-only"}
    assert dataset.title
    assert "https://" in dataset.citation


@pytest.mark.parametrize(("dataset", "file"), FILES, ids=[file.name for _, file in FILES])
def test_registered_file_is_complete(dataset: datasets.Dataset, file: datasets.File) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert not file.source.startswith("/")
    if file.source_format in SOURCES:
        assert file.name.endswith(".npz")
        assert file.source.endswith(SOURCES[file.source_format])
        assert dataset.contents(file)
    else:
        assert file.source.endswith(file.name)
    assert dataset.url(file).startswith(f"https://raw.githubusercontent.com/{dataset.repository}/{dataset.commit}/")


def test_registered_files_differ() -> None:
    assert len({file.sha256 for _, file in FILES}) == len({file.source for _, file in FILES}) == len(FILES) == 20


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(ProblemError, match=r"no data set 'emps'.*'furuta-qube-swingup', 'multiarm-pendulum'"):
        datasets.info("emps")
    with pytest.raises(ProblemError, match="no data set 'emps'"):
        datasets.path("emps", "DATA_EMPS.npz")
    with pytest.raises(ProblemError, match=r"has no file '\.\./README\.md'.*'pendulum_free_swing_data_03\.txt'"):
        datasets.path(PENDULUM, "../README.md")
    with pytest.raises(ProblemError, match="no recording '4'; choose one of '01', '02', '03'"):
        pendulum_free_swing("4")
    with pytest.raises(ProblemError, match=r"no recording 'swingup'; .*'swingup_500hz_3'"):
        furuta_qube("swingup")
    with pytest.raises(ProblemError, match=r"no recording 'release'; .*'release_2024'"):
        furuta_odrive("release")


def test_bad_until_is_refused_before_any_file_is_sought(folder: Path) -> None:
    with pytest.raises(ProblemError, match="until is 'upright'"):
        furuta_qube("swingup_500hz_1", until="upright")  # type: ignore[arg-type]


# --- files in SPOOKID_DATA ---


def _assert_one_sentence(message: str) -> None:
    assert "\n" not in message
    assert not re.search(r"\.\s+[A-Z]", message)


def test_missing_text_names_file_and_source(folder: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        pendulum_free_swing("01")
    message = str(caught.value)
    assert str(folder / PENDULUM / SWING_01) in message
    assert "https://raw.githubusercontent.com/" in message
    assert "unset SPOOKID_DATA" in message
    _assert_one_sentence(message)


def test_missing_npz_tells_how_to_convert(folder: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        furuta_qube("swingup_500hz_1")
    message = str(caught.value)
    assert str(folder / QUBE / "swingup_500hz_1.npz") in message
    assert "theta_dot, alpha_dot, u_cmd, u_applied" in message
    assert "rollout_real_2021-06-11_12-09-08.pkl" in message
    _assert_one_sentence(message)


@pytest.mark.parametrize(("dataset", "name"), [(PENDULUM, SWING_01), (QUBE, "chirp_pos_1.npz")])
def test_altered_file_is_refused(folder: Path, dataset: str, name: str) -> None:
    place = folder / dataset / name
    place.parent.mkdir()
    place.write_text("90, 1000, 5\n1.0\n")
    with pytest.raises(ProblemError, match="is not the registered file") as caught:
        datasets.path(dataset, name)
    assert str(place) in str(caught.value)
    _assert_one_sentence(str(caught.value))


def test_registered_content_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"as published"
    file = datasets.File("a.txt", "data/a.txt", hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(
        datasets.DATASETS, "mine", datasets.Dataset("mine", "mine", "o/n", "0" * 40, "MIT", "me", (file,))
    )
    (folder / "mine").mkdir()
    (folder / "mine/a.txt").write_bytes(content)
    assert datasets.path("mine", "a.txt") == folder / "mine/a.txt"


# --- downloads ---


class StepSequence:
    """A rollout as its pickle shows it: a class that only the pickler knows."""

    __module__ = "pyrado.sampling.step_sequence"


@pytest.fixture
def rollout(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Pickles a rollout of given arrays."""
    module = ModuleType(StepSequence.__module__)
    monkeypatch.setattr(module, "StepSequence", StepSequence, raising=False)
    for name in ("pyrado", "pyrado.sampling", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)

    def pickled(protocol: int = 4, **arrays: np.ndarray) -> bytes:
        made = StepSequence()
        made.__dict__.update(rollout_info={"env_name": "qq-su", "set": {1, 2}}, _data_names=["states"], continuous=True)
        made.states = np.stack([arrays[k] for k in ("theta", "alpha", "theta_dot", "alpha_dot")], axis=1)
        made.actions, made.actions_applied = (arrays[k][:, None].astype("f4") for k in ("u_cmd", "u_applied"))
        made.time, made.rewards = arrays["t"], np.ones(len(arrays["u_cmd"]), dtype=np.float32)
        return pickle.dumps(made, protocol)

    return pickled


def _made() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = dict.fromkeys(("t", "theta", "alpha", "theta_dot", "alpha_dot"), 6) | {"u_cmd": 5, "u_applied": 5}
    return {name: rng.normal(size=size).astype("f4").astype("f8") for name, size in sizes.items()}


def _publish(monkeypatch: pytest.MonkeyPatch, cache: Path, content: bytes, digest: str, name: str = "made.npz") -> None:
    """The Qube's data set with one file whose source has this content, through the real pooch."""
    qube = datasets.info(QUBE)
    file = datasets.File(name, "evaluation/+1.5V/made.pkl", "0" * 64, "pickle", arrays_sha256=digest)
    monkeypatch.setitem(datasets.DATASETS, QUBE, replace(qube, files=(file,)))
    monkeypatch.setattr("pooch.os_cache", lambda project: cache / project)
    monkeypatch.setattr("requests.get", lambda *args, **kwargs: _Response(content))


class _Response:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.headers = {"content-length": str(len(content))}

    def raise_for_status(self) -> None:
        pass

    def iter_content(self, chunk_size: int) -> list[bytes]:
        return [self.content]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_source_is_converted_once(
    protocol: int, online: None, rollout: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = _made()
    _publish(monkeypatch, tmp_path, rollout(protocol, **made), _conversion.digest(made))
    place = datasets.path(QUBE, "made.npz")
    assert place == tmp_path / "spookid" / QUBE / "made.npz"
    with np.load(place, allow_pickle=False) as archive:
        assert tuple(archive.files) == datasets.info(QUBE).arrays
        assert all(np.array_equal(archive[name], made[name]) for name in made)
    assert [p.name for p in place.parent.iterdir()] == ["made.npz"]
    monkeypatch.setattr("pooch.retrieve", lambda *args, **kwargs: pytest.fail("downloaded again"))
    assert datasets.path(QUBE, "made.npz") == place


def test_other_arrays_than_the_registered_are_refused(
    online: None, rollout: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = _made()
    _publish(monkeypatch, tmp_path, rollout(**made), _conversion.digest({**made, "alpha": made["alpha"] + 1e-9}))
    with pytest.raises(ProblemError, match=r"does not hold the registered arrays.*set SPOOKID_DATA") as caught:
        datasets.path(QUBE, "made.npz")
    _assert_one_sentence(str(caught.value).replace(datasets.info(QUBE).repository, ""))
    assert not list(tmp_path.rglob("*.npz"))


def test_an_altered_conversion_is_made_again(
    online: None, rollout: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = _made()
    _publish(monkeypatch, tmp_path, rollout(**made), _conversion.digest(made))
    place = datasets.path(QUBE, "made.npz")
    for content in (b"no archive", place.read_bytes()[:-30]):
        place.write_bytes(content)
        assert datasets.path(QUBE, "made.npz") == place
        assert np.array_equal(np.load(place)["alpha"], made["alpha"])


@pytest.mark.parametrize("content", [b"", b"<html>", pickle.dumps([1, 2]), pickle.dumps({"states": np.ones((3, 4))})])
def test_a_source_that_is_no_rollout_is_refused(
    content: bytes, online: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _publish(monkeypatch, tmp_path, content, "")
    with pytest.raises(ProblemError, match=f"the source of {QUBE}/made.npz"):
        datasets.path(QUBE, "made.npz")


@pytest.mark.measured
@needs_qube
@pytest.mark.parametrize("name", SWINGUPS + CHIRPS)
def test_measured_arrays_survive_the_conversion(name: str, rollout: Any) -> None:
    file = next(file for file in datasets.info(QUBE).files if file.name == f"{name}.npz")
    with np.load(datasets.path(QUBE, file.name), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    assert _conversion.digest(arrays) == file.arrays_sha256
    assert _conversion.digest(_conversion.rollout(rollout(**arrays), name)) == file.arrays_sha256


@pytest.mark.parametrize(
    ("read", "what"), [(multiarm_single, "a MATLAB file"), (lambda: furuta_odrive("sine_1V"), "interleaved ROS topics")]
)
def test_other_sources_that_are_not_read(online: None, read: Callable[[], Recording], what: str) -> None:
    with pytest.raises(ProblemError, match=f"cannot be downloaded.*{what}.*set SPOOKID_DATA") as caught:
        read()
    _assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("value", [None, ""])
def test_download_asks_for_commit_and_hash(
    value: str | None, online: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = {}

    def retrieve(url: str, **options: object) -> str:
        asked.update(options, url=url)
        return str(tmp_path / "here.txt")

    if value is not None:
        monkeypatch.setenv("SPOOKID_DATA", value)
    monkeypatch.setattr("pooch.retrieve", retrieve)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / project)
    assert datasets.path(PENDULUM, SWING_01) == tmp_path / "here.txt"
    assert asked == {
        "url": "https://raw.githubusercontent.com/jensen-benard/rotary-inverted-pendulum/"
        "1f3bb8046d5af4cc32c2965cad34336f1e13e43a/software/modelling/experiment/damping_coefficient/" + SWING_01,
        "known_hash": "sha256:f84a210cfcd3d867508327d22425b202669eae392c2ada9806619459ac443eab",
        "fname": SWING_01,
        "path": tmp_path / "spookid" / PENDULUM,
    }


def _fetch(monkeypatch: pytest.MonkeyPatch, cache: Path, get: object) -> str:
    """Message of a download through the real pooch, with another transport."""
    monkeypatch.setattr("pooch.os_cache", lambda project: cache / project)
    monkeypatch.setattr("requests.get", get)
    with pytest.raises(ProblemError) as caught:
        datasets.path(PENDULUM, SWING_01)
    _assert_one_sentence(str(caught.value))
    assert not [place for place in cache.rglob("*") if place.is_file()]
    return str(caught.value)


def test_network_failure_has_a_remedy(online: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import requests

    def fail(*args: object, **kwargs: object) -> None:
        raise requests.exceptions.ConnectionError("no route")

    message = _fetch(monkeypatch, tmp_path, fail)
    assert f"{PENDULUM}/{SWING_01} could not be downloaded" in message
    assert "ConnectionError" in message
    assert f"set SPOOKID_DATA to a folder that holds {PENDULUM}/{SWING_01}" in message


def test_download_with_another_hash_is_refused(online: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "does not have the registered SHA-256" in _fetch(
        monkeypatch, tmp_path, lambda *args, **kwargs: _Response(b"hello")
    )


def test_without_pooch(online: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ProblemError, match=r"install spookid\[data\]"):
        pendulum_free_swing("01")


# --- cutting before balancing ---


def _swingup(alpha: np.ndarray, rate: float = 100.0) -> Recording:
    return Recording(t=np.arange(len(alpha)) / rate, signals={"alpha": alpha}, name="made")


def _angles(sign: float = 1.0) -> np.ndarray:
    """Passes upright at once in 0.3 to 0.5 s, hangs, and is held upright from 1 s on, at 100 Hz."""
    alpha = np.zeros(200)
    alpha[30:50] = math.pi
    alpha[100:] = sign * (math.pi + 0.1 * np.sin(np.arange(100)))
    return alpha


@pytest.mark.parametrize("turns", [-1, 0, 2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cut_is_where_alpha_stays_upright(sign: float, turns: int) -> None:
    alpha = _angles(sign)
    alpha[100:] += 2 * math.pi * turns
    alpha[150] = np.nan
    assert before_balancing(_swingup(alpha)).t[-1] == pytest.approx(0.94)
    assert before_balancing(_swingup(alpha), margin=0.2).t[-1] == pytest.approx(0.79)


def test_cut_looks_at_the_named_signal_and_angle() -> None:
    alpha = _angles()
    alpha[90:100] = math.pi - 0.3
    recording = Recording(t=np.arange(200) / 100, signals={"alpha2": alpha})
    assert before_balancing(recording, signal="alpha2").t[-1] == pytest.approx(0.84)
    assert before_balancing(recording, signal="alpha2", angle=0.2).t[-1] == pytest.approx(0.94)
    with pytest.raises(ProblemError, match="no signal 'alpha'"):
        before_balancing(recording)


def test_nothing_to_cut_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"does not end within 0\.349 rad of upright"):
        before_balancing(_swingup(np.zeros(100)))
    falls = np.full(100, math.pi)
    falls[-1] = 0.0
    with pytest.raises(ProblemError, match="does not end within"):
        before_balancing(_swingup(falls))
    with pytest.raises(ProblemError, match="upright from t = 0 s on"):
        before_balancing(_swingup(np.full(100, -math.pi)))


# --- the measured recordings ---


@pytest.mark.measured
@pytest.mark.parametrize(("dataset", "file"), FILES, ids=[file.name for _, file in FILES])
def test_measured_files_match_the_registry(dataset: datasets.Dataset, file: datasets.File) -> None:
    if not _has_measured(dataset.name):
        pytest.skip(f"SPOOKID_DATA has no {dataset.name}")
    place = datasets.path(dataset.name, file.name)
    assert place.name == file.name
    if place.suffix == ".npz":
        with np.load(place, allow_pickle=False) as archive:
            assert tuple(archive.files) == dataset.contents(file)


@pytest.mark.measured
@needs_pendulum
@pytest.mark.parametrize(
    ("number", "logged", "count"), [("01", 98.45, 4281), ("02", 125.82, 4384), ("03", 58.27, 4568)]
)
def test_pendulum_starts_at_its_highest_point(number: str, logged: float, count: int) -> None:
    recording = pendulum_free_swing(number)
    theta = recording.signal("theta")
    assert list(recording.signals) == ["theta"]
    assert theta.shape == recording.t.shape == (count,)
    assert recording.t[0] == 0
    assert recording.t[-1] == pytest.approx((count - 1) * 1e-3)
    assert theta[0] == theta.max() == pytest.approx(math.radians(0.99 * logged))
    assert abs(theta).max() == theta[0]  # released, it only loses energy


@pytest.mark.measured
@needs_pendulum
def test_pendulum_swings_at_the_readme_frequency() -> None:
    theta = pendulum_free_swing("03").signal("theta")
    late = theta[2000:]  # small swings there
    crossings = np.flatnonzero((late[:-1] < 0) & (late[1:] >= 0))
    period = np.diff(crossings).mean() * 1e-3
    assert 2 * math.pi / period == pytest.approx(math.sqrt(120.27), rel=0.03)


@pytest.mark.measured
@needs_qube
@pytest.mark.parametrize("name", SWINGUPS + CHIRPS)
def test_qube_voltage_is_shifted_by_whole_samples(name: str) -> None:
    sent = np.load(datasets.path(QUBE, f"{name}.npz"))["u_applied"]
    recording = furuta_qube(name, delay=3)
    assert set(recording.signals) == {"theta", "alpha", "u"}
    assert np.array_equal(recording.signal("u"), [0, 0, 0, *sent[:-2]])
    assert np.array_equal(furuta_qube(name, delay=0).signal("u"), [*sent, sent[-1]])
    default = 2 if "500hz" in name or "chirp" in name else 1
    assert np.array_equal(furuta_qube(name).signal("u"), furuta_qube(name, delay=default).signal("u"))


@pytest.mark.measured
@needs_qube
def test_qube_refuses_other_delays() -> None:
    for delay in (-1, 1.5, True, 2500):
        with pytest.raises(ProblemError, match="whole number of samples from 0 to 2499"):
            furuta_qube("chirp_pos_1", delay=delay)  # type: ignore[arg-type]


@pytest.mark.measured
@needs_qube
@pytest.mark.parametrize(("name", "switch"), list(zip(SWINGUPS, [3.408, 3.404, 3.406, 2.948, 2.944], strict=True)))
def test_qube_is_cut_where_its_controller_switches(name: str, switch: float) -> None:
    whole, cut = furuta_qube(name, delay=0), before_balancing(furuta_qube(name), margin=0)
    after = len(cut.t)
    assert whole.t[after] == pytest.approx(switch)
    jumps = np.abs(np.diff(whole.signal("u")))
    assert jumps[after - 1] > 1.5  # volts, between the last sample kept and the first one dropped
    assert jumps[after - 30 : after - 1].max() < 1.0
    early = furuta_qube(name, until="balancing")
    assert early.t[-1] == pytest.approx(switch - 0.05, abs=1.01 * (whole.t[1] - whole.t[0]))
    assert abs(np.mod(early.signal("alpha"), 2 * math.pi) - math.pi)[-1] > math.radians(20)


@pytest.mark.measured
@needs_qube
def test_qube_until_a_time() -> None:
    assert furuta_qube("swingup_250hz_1", until=2.0).t[-1] == pytest.approx(1.996)


@pytest.mark.measured
@needs_qube
@pytest.mark.parametrize("name", CHIRPS)
def test_qube_chirps_never_balance(name: str) -> None:
    with pytest.raises(ProblemError, match="use the recording as it is"):
        furuta_qube(name, until="balancing")


@pytest.mark.measured
@needs_multiarm
def test_multiarm_hangs_at_zero_and_decays() -> None:
    recording = multiarm_single()
    theta = recording.signal("theta")
    assert list(recording.signals) == ["theta"]
    assert theta.shape == (55001,)
    assert theta[0] == pytest.approx(-1.618, abs=1e-3)
    swings = [abs(theta[start : start + 1000]).max() for start in range(0, 55000, 1000)]
    assert swings == sorted(swings, reverse=True)
    assert swings[-1] == pytest.approx(0.25, abs=0.02)
    late = theta[40000:]
    crossings = np.flatnonzero((late[:-1] < 0) & (late[1:] >= 0))
    assert 2 * math.pi / (np.diff(crossings).mean() * 1e-3) == pytest.approx(math.sqrt(64.03), rel=0.01)


@pytest.mark.measured
@needs_odrive
def test_odrive_release_falls_from_upright_and_comes_to_rest() -> None:
    recording = furuta_odrive("release_2024")
    assert list(recording.signals) == ["theta", "alpha"]
    alpha = recording.signal("alpha")
    assert alpha[0] == pytest.approx(math.pi, abs=0.01)
    assert alpha[-1] == pytest.approx(-0.0046, abs=1e-4)
    assert np.ptp(recording.signal("theta")) == pytest.approx(0.014, abs=1e-3)


@pytest.mark.measured
@needs_odrive
@pytest.mark.parametrize("name", DRIVEN)
def test_odrive_moves_only_when_driven(name: str) -> None:
    recording = furuta_odrive(name)
    theta, alpha, u = (recording.signal(key) for key in ("theta", "alpha", "u"))
    assert theta[0] == 0
    assert abs(alpha[0]) < 0.1
    onset = int(np.flatnonzero(u)[0])
    assert abs(theta[:onset]).max() < 0.04  # it creeps after earlier motion
    assert abs(theta[onset:][recording.t[onset:] < recording.t[onset] + 0.3]).max() > 0.04


@pytest.mark.measured
@needs_odrive
def test_odrive_pulses_are_volts_with_the_missed_one() -> None:
    recording = furuta_odrive("pulses_torque_units")
    levels = [float(recording.signal("u")[np.searchsorted(recording.t, t)]) for t in (4.8, 5, 7, 9, 11, 13, 15, 17)]
    assert np.multiply(levels, 0.103375) == pytest.approx([0, 0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0])
