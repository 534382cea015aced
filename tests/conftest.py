"""One thread for BLAS, set before NumPy loads it, caches of our own, and property tests that repeat themselves."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# Commands that tests start would compile all modules anew, which takes longer than most of them do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What tests compile and convert is kept between runs, but not among the user's own.
_KEPT = Path(__file__).parents[1] / ".pytest_cache"
os.environ.setdefault("SPOOKID_CACHE", str(_KEPT / "kernels"))
os.environ.setdefault("SPOOKID_CONVERTED", str(_KEPT / "data"))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from spookid.kernels import compiled, native  # noqa: E402
from spookid.kernels.compiler import CompilationError, Compiler, find  # noqa: E402
from spookid.report import forked, pictures  # noqa: E402
from spookid.results import lazy  # noqa: E402

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A compiler that optimizes takes longer than most fits of tests do; their numbers are the same. The package's own
# routines are compiled once for all tests, as users have them, so that short fits may use them, too.
_SHIPPED, _CODE_LIBRARY = Compiler.flags, native.code_library


def _unoptimized(compiler: Compiler, *source: float) -> tuple[str, ...]:
    return ("-O0", *_SHIPPED(compiler, *source)[1:])


def _optimized_library(code: str) -> ctypes.CDLL:
    usual = Compiler.flags
    Compiler.flags = _SHIPPED  # type: ignore[method-assign]
    try:
        return _CODE_LIBRARY(code)
    finally:
        Compiler.flags = usual  # type: ignore[method-assign]


_USERS = (
    (Compiler, "flags", _SHIPPED),
    (native, "code_library", _CODE_LIBRARY),
    (native, "compiles", native.compiles),
)
Compiler.flags = _unoptimized  # type: ignore[method-assign]
native.code_library = _optimized_library
native.compiles = lambda steps: compiled.compiles(steps + compiled.FEWEST_STEPS)


def _raised(name: str, error: Exception) -> str:
    raise error


# Results are kept where one of their analyses fails, and tell it; tests fail.
_TOLD, lazy.untold = lazy.untold, _raised


@pytest.fixture(scope="session")
def c_compiler() -> Compiler:
    """The system's compiler; tests that need one are skipped where there is none."""
    try:
        return find()
    except CompilationError:
        pytest.skip("there is no C compiler")


@pytest.fixture
def compiling(c_compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is compiled, however short."""
    monkeypatch.setenv("SPOOKID_COMPILE", "on")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are kept in tests, too."""
    monkeypatch.setattr(lazy, "untold", _TOLD)


@pytest.fixture(scope="module")
def shipped() -> Iterator[None]:
    """Code is compiled as and when users have it; commands in processes of their own do so anyway."""
    with pytest.MonkeyPatch.context() as patch:
        for what in _USERS:
            patch.setattr(*what)
        yield


# Figures are made but not drawn, which takes longer than small fits, nor is the process copied for it: their files are
# empty.
_DRAWING = ((pictures, "png", pictures.png), (pictures, "encoded", pictures.encoded))
_DRAWING += ((forked, "processors", forked.processors),)
pictures.png = lambda _: b""
pictures.encoded = lambda *_: b""
forked.processors = lambda: 1


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn; commands in processes of their own do so anyway."""
    for what in _DRAWING:
        monkeypatch.setattr(*what)


_LONGEST = ("test_cli", "test_docs", "test_online", "test_ipopt", "test_profiling", "test_levenberg_marquardt")
"""Files that take longest: those that come last would leave one worker alone at the end."""


def pytest_collection_modifyitems(items):
    """The longest files first, all others in their order."""
    places = {name: i for i, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(_LONGEST)))
