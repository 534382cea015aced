"""Libraries of a wheel: the numbers of NumPy, without a compiler, at every level that the processor knows."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.problems import furuta
from test_blocks import close, equations

from spookid import Spook
from spookid.kernels import native, prebuilt
from spookid.kernels.compiler import Compiler
from spookid.kernels.prebuilt import FAST, SOURCES, file_name, prebuilt_library, source
from spookid.solvers.elimination import BandElimination, BlockElimination, eliminate

WIDE = "-wide"
"""Code as it is for vectors of eight numbers (AVX-512), which compilers take apart for any other processor."""
LEVELS = {"": [], FAST: ["-mavx2", "-mfma"], WIDE: ["-D__AVX512F__"]}


@pytest.fixture(scope="module")
def wheel(c_compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel has of two libraries, at each level that is known."""
    folder = tmp_path_factory.mktemp("wheel")
    for name, level in [("processor", ""), *product(("native", "blocks"), LEVELS)]:
        code, library = folder / f"{name}.c", folder / file_name(name, level)
        code.write_text(source(name), encoding="ascii")
        flags = ["-O0", "-shared", "-fPIC", "-fvisibility=hidden", *LEVELS[level]]
        done = subprocess.run([*c_compiler.command, *flags, str(code), "-o", str(library), "-lm"], capture_output=True)
        if done.returncode and level == FAST:
            continue  # a compiler for another processor
        assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's libraries in their place, and no compiler."""
    for file in wheel.glob("*.so"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    monkeypatch.setenv("SPOOKID_COMPILE", "on")
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def flags() -> set[str]:
    """Of the processor, as Linux tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        pytest.skip("no /proc/cpuinfo")
    return {word for line in lines if line.startswith("flags") for word in line.split()}


def test_every_source_is_in_a_library() -> None:
    folder = Path(prebuilt.__file__).parent
    assert {name for parts in SOURCES.values() for name in parts} == {p.name for p in folder.glob("*.[ch]")}


def test_the_processor_is_asked_for_what_linux_tells(installed: Path) -> None:
    taken = prebuilt_library("blocks")
    assert taken is not None
    assert taken._name == str(installed / file_name("blocks", FAST if {"avx2", "fma"} <= flags() else ""))


def test_a_library_that_does_not_load_gives_way_to_the_plain_one_and_to_none(installed: Path) -> None:
    (installed / file_name("blocks", FAST)).write_bytes(b"not a library")
    taken = prebuilt_library("blocks")
    assert taken is not None
    assert taken._name == str(installed / file_name("blocks"))
    (installed / file_name("native")).write_bytes(b"not a library")
    (installed / file_name("native", FAST)).write_bytes(b"not a library")
    assert native.routines(1) is None
    (installed / file_name("native")).unlink()
    (installed / file_name("native", FAST)).unlink()
    assert prebuilt_library("native") is None


def test_off_is_off_with_libraries_too(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.routines(1) is not None
    monkeypatch.setenv("SPOOKID_COMPILE", "off")
    assert native.routines(10**6) is None


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level of the processor, and nothing but wheels to get compiled code from."""
    if request.param == FAST and not {"avx2", "fma"} <= flags():
        pytest.skip("a processor without AVX2")
    monkeypatch.setattr(prebuilt, "_fast", lambda folder: request.param == FAST)
    (installed / file_name("blocks", FAST if request.param != FAST else "")).unlink()
    if request.param == WIDE:
        for name in ("native", "blocks"):
            (installed / file_name(name, WIDE)).replace(installed / file_name(name))


@pytest.mark.parametrize("parameters", [0, 7])
def test_blocks_of_a_wheel_give_what_bands_do(level: None, parameters: int) -> None:
    whole = equations(9, 11, parameters)
    found, expected = eliminate(whole, 1e-3), BandElimination(whole, whole.diagonal, 1e-3)
    assert isinstance(found, BlockElimination)
    close(found.corner, expected.corner)
    move = np.ones(parameters)
    close(found.states(found.own, move), expected.states(expected.own, move))


@pytest.mark.study
def test_a_fit_with_a_wheel_and_no_compiler_is_that_by_numpy(level: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = furuta(Spook(), 60, 4)
    by_wheel = problem.solve()
    monkeypatch.setenv("SPOOKID_COMPILE", "off")
    by_numpy = problem.solve()
    assert by_wheel.versions["kernels"] == "CasADi's virtual machine"
    assert any("no C compiler" in notice for notice in by_wheel.notices)
    assert by_wheel.iterations == by_numpy.iterations > 2
    for name, estimate in by_numpy.values.items():
        assert by_wheel.values[name] == pytest.approx(estimate, rel=1e-7)
