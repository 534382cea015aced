"""One thread for BLAS, set before NumPy loads it, caches of our own, and property tests that repeat themselves."""

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# Commands that tests start would compile all modules anew, which takes longer than most of them do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What tests convert is kept between runs, but not among the user's own.
os.environ.setdefault("SPOOKID_CONVERTED", str(Path(__file__).parents[1] / ".pytest_cache" / "data"))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from spookid.kernels.library import SETTING, library, warning  # noqa: E402
from spookid.report import export, pictures  # noqa: E402
from spookid.results import lazy  # noqa: E402

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def _raised(name: str, error: Exception) -> str:
    raise error


# Results are kept where one of their analyses fails, and tell it; tests fail.
_TOLD, lazy.untold = lazy.untold, _raised


@pytest.fixture
def by_c() -> None:
    """Tests of the C code are skipped where it is not installed."""
    if library() is None:
        pytest.skip(warning() or f"{SETTING} is off")


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """CasADi's virtual machine and NumPy do the work."""
    monkeypatch.setenv(SETTING, "off")


@pytest.fixture(params=["by_c", "by_numpy"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both of these, one after the other."""
    request.getfixturevalue(request.param)
    return str(request.param)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are kept in tests, too."""
    monkeypatch.setattr(lazy, "untold", _TOLD)


# Figures are made but not drawn, which takes longer than small fits, nor is the process copied for it: their files are
# empty.
_DRAWING = ((pictures, "png", pictures.png),)
_DRAWING += ((export, "processors", export.processors),)
pictures.png = lambda *_: b""
export.processors = lambda: 1


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
