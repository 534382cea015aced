"""Measured recordings: what problems/data/convert.py writes, once, whole or not at all."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from spookid import ProblemError, Recording

SCRIPT = Path(__file__).parents[1] / "problems" / "data" / "convert.py"
DATA = os.environ.get("SPOOKID_DATA", "")
QUBE = "furuta-qube-swingup"

needs_data = pytest.mark.skipif(not DATA, reason="needs the measured data: set SPOOKID_DATA")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("convert", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- where files come from and go to ---


def logged(folder: Path, samples: int = 5000) -> Path:
    """A made release 01 in a folder of data sets: 30 degrees, all the time."""
    place = folder / "pendulum-free-swing" / "pendulum_free_swing_data_01.txt"
    place.parent.mkdir(parents=True)
    place.write_text("\n".join(["header", "1,2,3", *["30.0"] * samples]), encoding="utf-8")
    return place


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one made data set, in ``source``, to be converted into ``to``."""
    monkeypatch.setenv("SPOOKID_DATA", str(tmp_path / "source"))
    monkeypatch.setenv("SPOOKID_CONVERTED", str(tmp_path / "to"))
    return tmp_path


def test_a_recording_is_converted_once(script: ModuleType, made: Path) -> None:
    source = logged(made / "source")
    first = script.measured("pendulum_free_swing_01")
    assert first.name == "pendulum_free_swing_01"
    assert first.signal("theta") == pytest.approx(np.radians(0.99 * 30.0) * np.ones(4281))
    assert [place.name for place in (made / "to").iterdir()] == ["pendulum_free_swing_01.npz"]
    source.unlink()
    assert np.array_equal(script.measured("pendulum_free_swing_01").t, first.t)


def test_what_an_older_script_wrote_is_converted_anew(script: ModuleType, made: Path) -> None:
    logged(made / "source")
    place = script.convert("pendulum_free_swing_01")
    np.savez(place, t=[0.0, 1.0], theta=[0.0, 0.0])
    os.utime(place, (0, 0))
    assert len(script.measured("pendulum_free_swing_01").t) == 4281


def test_a_missing_or_damaged_source_is_one_sentence(script: ModuleType, made: Path) -> None:
    missing = r"source/multiarm-pendulum/single\.npz does not exist; set SPOOKID_DATA to the folder that holds"
    with pytest.raises(ProblemError, match=missing):
        script.measured("multiarm_single")
    damaged = made / "source" / QUBE / "swingup_500hz_1.npz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"hello")
    with pytest.raises(ProblemError, match=r"swingup_500hz_1\.npz is not the measured data set"):
        script.measured("swingup_500hz_1")
    np.savez(damaged, t=np.arange(3.0))
    with pytest.raises(ProblemError, match=r"is not the measured data set.*theta"):
        script.measured("swingup_500hz_1")
    assert not (made / "to").exists()


def test_a_file_is_written_whole_or_not_at_all(script: ModuleType, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    logged(made / "source")
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(ProblemError, match=r"01\.npz cannot be written \(No space left on device\); set SPOOKID_CONV"):
        script.measured("pendulum_free_swing_01")
    assert not list((made / "to").iterdir())


def test_the_command_tells_what_is_missing(script: ModuleType, made: Path) -> None:
    with pytest.raises(SystemExit, match="does not exist; set SPOOKID_DATA"):
        script.main()


# --- the measured recordings ---


@pytest.mark.measured
@needs_data
@pytest.mark.parametrize(("number", "top", "count"), [("01", 98.45, 4281), ("02", 125.82, 4384), ("03", 58.27, 4568)])
def test_pendulum_starts_at_its_highest_point(script: ModuleType, number: str, top: float, count: int) -> None:
    recording = script.measured(f"pendulum_free_swing_{number}")
    theta = recording.signal("theta")
    assert list(recording.signals) == ["theta"]
    assert theta.shape == (count,)
    assert recording.t[[0, -1]] == pytest.approx([0.0, (count - 1) * 1e-3])
    assert theta[0] == theta.max() == pytest.approx(math.radians(0.99 * top))
    assert abs(theta).max() == theta[0]  # released, it only loses energy


@pytest.mark.measured
@needs_data
@pytest.mark.parametrize(
    ("name", "start", "rate", "frequency"),
    [("pendulum_free_swing_03", 2000, 1e3, math.sqrt(120.27)), ("multiarm_single", 40000, 1e3, math.sqrt(64.03))],
)
def test_pendulums_swing_at_the_readme_frequency(
    script: ModuleType, name: str, start: int, rate: float, frequency: float
) -> None:
    late = script.measured(name).signal("theta")[start:]  # small swings there
    crossings = np.flatnonzero((late[:-1] < 0) & (late[1:] >= 0))
    assert 2 * math.pi * rate / np.diff(crossings).mean() == pytest.approx(frequency, rel=0.03)


@pytest.mark.measured
@needs_data
def test_multiarm_hangs_at_zero_and_decays(script: ModuleType) -> None:
    theta = script.measured("multiarm_single").signal("theta")
    assert theta.shape == (55001,)
    assert theta[0] == pytest.approx(-1.618, abs=1e-3)
    swings = [abs(theta[start : start + 1000]).max() for start in range(0, 55000, 1000)]
    assert swings == sorted(swings, reverse=True)
    assert swings[-1] == pytest.approx(0.25, abs=0.02)


@pytest.mark.measured
@needs_data
@pytest.mark.parametrize(
    ("name", "delay", "switch"),
    [
        ("swingup_500hz_1", 2, 3.408),
        ("swingup_500hz_2", 2, 3.404),
        ("swingup_500hz_3", 2, 3.406),
        ("swingup_250hz_1", 1, 2.948),
        ("swingup_250hz_2", 1, 2.944),
    ],
)
def test_swing_ups_are_delayed_and_end_before_balancing(
    script: ModuleType, name: str, delay: int, switch: float
) -> None:
    with np.load(Path(DATA) / QUBE / f"{name}.npz") as archive:
        t, sent = archive["t"], archive["u_applied"]
    recording = script.measured(name)
    assert set(recording.signals) == {"theta", "alpha", "u"}
    kept = len(recording.t)
    assert np.array_equal(recording.signal("u"), [*np.zeros(delay), *sent[: kept - delay]])
    assert recording.t[-1] == pytest.approx(switch - 0.05, abs=1.01 * (t[1] - t[0]))
    at = int(np.searchsorted(t, switch - 1e-6))  # the controller switches, which its voltage shows
    jumps = np.abs(np.diff(sent))
    assert jumps[at - 1] > 1.5
    assert jumps[at - 30 : at - 1].max() < 1.0


@pytest.mark.measured
@needs_data
def test_odrive_release_falls_from_upright_and_comes_to_rest(script: ModuleType) -> None:
    recording = script.measured("release_2024")
    assert set(recording.signals) == {"theta", "alpha"}
    alpha = recording.signal("alpha")
    assert alpha[0] == pytest.approx(math.pi, abs=0.01)
    assert alpha[-1] == pytest.approx(-0.0046, abs=1e-4)
    assert np.ptp(recording.signal("theta")) == pytest.approx(0.014, abs=1e-3)


@pytest.mark.measured
@needs_data
@pytest.mark.parametrize("name", ["pulses_torque_units", "sine_1V", "sine_4V", "step_2V", "step_5V"])
def test_odrive_moves_only_when_driven(script: ModuleType, name: str) -> None:
    recording: Recording = script.measured(name)
    theta, alpha, u = (recording.signal(key) for key in ("theta", "alpha", "u"))
    assert theta[0] == 0
    assert abs(alpha[0]) < 0.1
    onset = int(np.flatnonzero(u)[0])
    assert abs(theta[:onset]).max() < 0.04  # it creeps after earlier motion
    assert abs(theta[onset:][recording.t[onset:] < recording.t[onset] + 0.3]).max() > 0.04


@pytest.mark.measured
@needs_data
def test_odrive_pulses_are_volts_with_the_missed_one(script: ModuleType) -> None:
    recording = script.measured("pulses_torque_units")
    levels = [float(recording.signal("u")[np.searchsorted(recording.t, t)]) for t in (4.8, 5, 7, 9, 11, 13, 15, 17)]
    assert np.multiply(levels, 0.103375) == pytest.approx([0, 0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0])


def test_stamps_follow_from_what_all_joints_share(script: ModuleType) -> None:
    rng, t = np.random.default_rng(0), np.arange(1000) * 0.005
    late = 1e-3 * rng.normal(size=len(t)).clip(-2, 2)
    speeds = np.array([3.0, 5.0, 7.0, 9.0])
    q = np.sin(speeds * (t + late)[:, None] + np.arange(4)) + 2e-4 * rng.normal(size=(len(t), 4))
    found = script.stamps(t, q) - t
    # What is slower than the filter is taken for motion: √0.4 of jitter that is white up to 100 Hz.
    assert np.std(found - late) < 0.67 * np.std(late)
    assert np.all(np.diff(t + found) > 0)
