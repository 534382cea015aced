"""One thread for BLAS, set before NumPy loads it, caches of our own, and property tests that repeat themselves."""

import os
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# What tests compile and convert is kept between runs, but not among the user's own.
_KEPT = Path(__file__).parents[1] / ".pytest_cache"
os.environ.setdefault("SPOOKID_CACHE", str(_KEPT / "kernels"))
os.environ.setdefault("SPOOKID_CONVERTED", str(_KEPT / "data"))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from spookid.kernels.compiler import Compiler  # noqa: E402

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

_SHIPPED = Compiler.flags


def _hardly_optimized(compiler: Compiler, length: int) -> tuple[str, ...]:
    """A compiler that optimizes takes longer than most fits of tests do; their numbers are the same."""
    return ("-O1", *_SHIPPED(compiler, length)[1:])


Compiler.flags = _hardly_optimized  # type: ignore[method-assign]


@pytest.fixture
def shipped_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled as users have them; commands in processes of their own do so anyway."""
    monkeypatch.setattr(Compiler, "flags", _SHIPPED)


_LONGEST = ("test_cli", "test_sweep", "test_midpoint", "test_point_load", "test_uncertainty", "test_score_tests")
"""Files that take longest: those that come last would leave one worker alone at the end."""


def pytest_collection_modifyitems(items):
    """The longest files first, all others in their order."""
    places = {name: i for i, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(_LONGEST)))
