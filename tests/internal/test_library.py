"""The C extension: which of its libraries is loaded, what is said where none is, and the same answers either way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.problems import furuta
from test_chain import CASES, blocks, close, eliminated

from spookid import ProblemError, Solution, Spook, Status, Variational
from spookid.kernels import library as libraries
from spookid.kernels.library import (
    ABSENT,
    FOLDER,
    LEVELS,
    SETTING,
    STALE,
    digest,
    evaluator,
    file_name,
    level,
    library,
    warning,
)
from spookid.kernels.native import routines

pytestmark = pytest.mark.usefixtures("by_c")


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What has been loaded is looked for again, also after the test; there is no setting."""
    monkeypatch.delenv(SETTING, raising=False)
    libraries._found.cache_clear()
    yield
    libraries._found.cache_clear()


@pytest.fixture(params=LEVELS)
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each level that the processor has."""
    monkeypatch.setenv(SETTING, request.param)
    try:
        library()
    except ProblemError:
        pytest.skip("not on this processor")
    return str(request.param)


@pytest.fixture
def elsewhere(unloaded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder of libraries, with nothing in it."""
    monkeypatch.setattr(libraries, "FOLDER", tmp_path)
    return tmp_path


def flags() -> set[str]:
    """Of the processor, as Linux says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        pytest.skip("no /proc/cpuinfo")
    return {word for line in lines if line.startswith("flags") for word in line.split()}


# --- which one ---


def test_the_best_level_for_the_processor_is_loaded(unloaded: None) -> None:
    known = flags()
    fast = {"avx2", "fma"} <= known
    wide = fast and {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= known
    assert level() == ("avx512" if wide else "avx2" if fast else "baseline")
    assert evaluator() == f"block interpreter ({level()})"


def test_a_level_may_be_chosen(each: str) -> None:
    assert level() == each
    assert routines() is not None


def test_off_is_off(by_numpy: None) -> None:
    assert library() is None
    assert routines() is None
    assert (level(), warning()) == ("", "")
    assert evaluator() == "CasADi's virtual machine"


def test_another_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "perhaps")
    with pytest.raises(ProblemError, match="SPOOKID_NATIVE is 'perhaps'; set it to off, baseline, avx2, avx512"):
        library()


def test_a_level_that_the_processor_lacks_is_refused(unloaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(source_digest=lambda: int(digest(), 16), processor_level=lambda: 0)
    monkeypatch.setattr(libraries, "_load", lambda level: old)
    monkeypatch.setenv(SETTING, "avx2")
    with pytest.raises(ProblemError, match="SPOOKID_NATIVE is 'avx2', an instruction set that this processor"):
        library()


def test_a_library_that_does_not_load_gives_way_to_a_plainer_one(elsewhere: Path) -> None:
    shutil.copy(FOLDER / file_name("baseline"), elsewhere)
    for name in ("avx2", "avx512"):
        (elsewhere / file_name(name)).write_bytes(b"not a library")
    assert level() == "baseline"
    assert warning() == ""


# --- none ---


def test_without_a_library_all_is_slow_and_says_so(elsewhere: Path) -> None:
    assert library() is None
    assert warning() == ABSENT
    (elsewhere / file_name("baseline")).write_bytes(b"not a library")
    libraries._found.cache_clear()
    assert warning() == ABSENT


def test_a_library_of_another_source_is_not_loaded(unloaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "digest", lambda: "0123456789abcdef")
    assert library() is None
    assert warning() == STALE


def test_a_wheel_has_no_source_to_compare_with(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FOLDER / file_name("baseline"), elsewhere)
    monkeypatch.setattr(libraries, "SOURCE", elsewhere)
    assert level() == "baseline"


def test_a_fit_without_a_library_has_one_warning(elsewhere: Path) -> None:
    solution = furuta(Variational(), 40, 4).solve(max_iterations=1)
    assert solution.versions["kernels"] == "CasADi's virtual machine"
    assert [finding.text for finding in solution.findings if finding.code == "kernels.slow"] == [ABSENT]
    assert " ".join(solution.summary(verbose=True).split()).count("The C extension is not installed") == 1


# --- the same answers ---


def check_same(one: Solution, other: Solution) -> None:
    assert one.status is other.status is Status.CONVERGED
    assert one.iterations == other.iterations > 2
    for name, estimate in other.values.items():
        assert one.values[name] == pytest.approx(estimate, rel=1e-6, abs=1e-9)
        assert one[name].std_err == pytest.approx(other[name].std_err, rel=1e-4, nan_ok=True)
    assert one.notices == other.notices


@pytest.mark.parametrize("stepper", [Spook(), Variational()], ids=["spook", "rigid"])
def test_a_fit_without_the_extension_has_the_same_answer(
    stepper: Spook | Variational, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = furuta(stepper, 80, 4)
    by_c = problem.solve()
    monkeypatch.setenv(SETTING, "off")
    by_numpy = problem.solve()
    assert by_c.versions["kernels"].startswith("block interpreter (")
    assert by_numpy.versions["kernels"] == "CasADi's virtual machine"
    check_same(by_c, by_numpy)


def test_a_fit_at_each_level_has_the_same_answer(each: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = furuta(Variational(), 80, 4)
    at_this = problem.solve()
    assert at_this.versions["kernels"] == f"block interpreter ({each})"
    monkeypatch.setenv(SETTING, "baseline")
    check_same(at_this, problem.solve())


@pytest.mark.parametrize("case", CASES)
def test_eliminations_at_each_level_are_alike(each: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = eliminated(*blocks(case))[0]
    monkeypatch.setenv(SETTING, "off")
    expected = eliminated(*blocks(case))[0]
    close(found.corner, expected.corner)
    close(found.responses()[0], expected.responses()[0])
    close(found.covariances(), expected.covariances())
