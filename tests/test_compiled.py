"""Compiled kernels: the same numbers as CasADi's virtual machine, a cache that survives abuse, and life without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import furuta, paper_twin

from spookid.assembly.assembly import assemble
from spookid.errors import ProblemError
from spookid.files import beside
from spookid.kernels import compiler, libraries
from spookid.kernels import kernel as kernels
from spookid.kernels.compiled import FEWEST_STEPS, Kernels, Signature, prepare_kernels
from spookid.kernels.kernel import Array
from spookid.parameter import Parameter
from spookid.problem import Problem
from spookid.solvers import products
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows, Stream
from spookid.solvers.structured import normal_equations, pull_back
from spookid.stepping.spook import Spook
from spookid.stepping.variational import Variational

try:
    compiler.find()
except compiler.CompilationError:
    pytest.skip("there is no C compiler", allow_module_level=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: None) -> Path:
    """An empty cache, and compilation whatever the length, as users have it."""
    monkeypatch.setenv("SPOOKID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPOOKID_COMPILE", "on")
    return tmp_path / "cache"


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that tests share whose point it is not."""
    monkeypatch.setenv("SPOOKID_CACHE", str(tmp_path_factory.getbasetemp() / "kept"))


ANSWER = '__attribute__((visibility("default"))) int answer(void) { return 42; }'
SIGNATURE = Signature("line", (2, 2, 1), 2)


def line() -> list[ca.Function]:
    x, y, p = ca.SX.sym("x", 2), ca.SX.sym("y", 2), ca.SX.sym("p")
    return [ca.Function("line", [x, y, p], [ca.densify(p * ca.horzcat(x, y, ca.sin(x - y)))])]


def never() -> list[ca.Function]:
    raise AssertionError("made anew although it was kept")


def made(seed: bytes = b"line") -> Kernels:
    return prepare_kernels([SIGNATURE], seed, line, steps=1)


def check(kernels: Kernels, steps: int = 300) -> None:
    values = np.random.default_rng(0).normal(size=(steps + 1, 2))
    out = np.empty((steps, 3, 2))
    assert kernels.functions["line"]([values[:-1], values[1:]], [np.array([2.0])], out) is out
    expected = np.stack([values[:-1], values[1:], np.sin(values[:-1] - values[1:])], axis=1)
    np.testing.assert_allclose(out, 2 * expected, rtol=1e-15, atol=1e-15)


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*"))


# --- the same answers ---


def motion(stepper: Spook | Variational) -> Problem:
    J, b, c = Parameter("J", 0.003, lower=0), Parameter("b", 1e-3, lower=0), Parameter("c", 2e-3, lower=0)
    soft = {"compliance": 1e-3, "damping": 0.02}
    model = furuta(inertias=(J, 0.004, 0.004), shoulder={"viscous": b, **soft}, elbow={"coulomb": c, **soft})
    start = {"shoulder": (0.3, 2.0), "elbow": (2.0, -3.0)}
    truth = {"J": 0.003, "b": 1e-3, "c": 2e-3}
    problem = paper_twin(model, truth, initial=start, duration=0.6, noise=1e-3, friction_width=0.5)
    return problem.with_(stepper=stepper, state_weight=1e4, initial={"J": 0.004, "b": 2e-3, "c": 1e-3})


@pytest.mark.parametrize(
    "stepper", [pytest.param(Spook(), marks=pytest.mark.study), Variational()], ids=["spook", "rigid"]
)
def test_answers_are_those_of_the_virtual_machine(stepper, kept, monkeypatch):
    problem = motion(stepper)
    compiled = problem.solve()
    monkeypatch.setenv("SPOOKID_COMPILE", "off")
    interpreted = problem.solve()
    assert compiled.versions["kernels"].startswith("C by ")
    assert interpreted.versions["kernels"] == "CasADi's virtual machine"
    assert compiled.times.compile > 0
    assert interpreted.times.compile == 0
    assert compiled.iterations == interpreted.iterations > 2
    for name, estimate in interpreted.values.items():
        assert compiled.values[name] == pytest.approx(estimate, rel=1e-9, abs=1e-12)
        # Their random signs meet other roundings; with stiff rows every order of sums gives others.
        assert compiled[name].std_err == pytest.approx(interpreted[name].std_err, rel=2e-2)
    assert compiled.notices == interpreted.notices


def test_every_kernel_gives_what_the_virtual_machine_gives(kept, monkeypatch):
    assembly = assemble(motion(Spook()))
    transcription, start = assembly.transcription, assembly.start
    assert transcription.kernels.points.how.startswith("C by ")
    monkeypatch.setenv("SPOOKID_COMPILE", "off")
    other = assemble(motion(Spook())).transcription
    assert other.kernels.points.how == "CasADi's virtual machine"
    for one, two in zip(transcription.linearize(start, 0), other.linearize(start, 0), strict=True):
        np.testing.assert_allclose(one.matrix, two.matrix, rtol=1e-12, atol=1e-12 * np.abs(two.matrix).max())
    delta = 0.1 * np.random.default_rng(0).normal(size=(len(start.states[0]), transcription.manifold.tangent))
    moved = [t.retract(start, [delta], np.zeros(3)).states[0] for t in (transcription, other)]
    np.testing.assert_allclose(*moved, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("setting", ["on", "auto", pytest.param("off", marks=pytest.mark.study)])
def test_jacobians_that_are_not_kept_give_the_normal_equations_of_those_that_are(setting, kept, monkeypatch):
    monkeypatch.setenv("SPOOKID_COMPILE", setting)
    monkeypatch.setattr(kernels, "CHUNK", 8)
    monkeypatch.setattr(products, "CHUNK", 8)
    assembly = assemble(motion(Spook()))
    transcription, start = assembly.transcription, assembly.start
    rng, steps, n_p = np.random.default_rng(0), len(start.states[0]), len(transcription.names)
    reduced = ReducedProblem(transcription, start)
    streams, kept = reduced.linearize(start, 0)[0], reduced.reduce(start, 0)[0]
    assert all(isinstance(rows, Stream) for rows in streams)
    assert all(isinstance(rows, Rows) for rows in kept)
    found, expected = (normal_equations(rows, steps, reduced.tangent, n_p) for rows in (streams, kept))
    for name in ("band", "border", "corner"):
        one, two = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13 * np.abs(two).max())
    others = [rng.normal(size=(len(rows.matrix), rows.matrix.shape[2])) for rows in kept]
    for one, two in zip(*(pull_back(rows, others, steps, reduced.tangent) for rows in (streams, kept)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12 * np.abs(two).max())
    longest = max(range(len(kept)), key=lambda i: kept[i].matrix.size)
    for begin in (0, 5, steps - 2):
        parts = [(first, part.copy()) for first, part in streams[longest].parts(begin)]
        assert parts[0][0] == begin
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), kept[longest].matrix[begin:])


def test_threads_share_a_kernel():
    kernels, failures = made(), []

    def work() -> None:
        try:
            for _ in range(20):
                check(kernels, 2000)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_horizons_longer_than_a_call_and_empty_ones():
    kernels = made()
    check(kernels, 65536 + 7)
    empty = np.empty((0, 2))
    assert kernels.functions["line"]([empty, empty], [np.array([2.0])], np.empty((0, 3, 2))).size == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ([np.zeros((3, 2)), np.zeros((4, 2))], [np.zeros(1)]),
        ([np.zeros((4, 2)), np.zeros((4, 2))], [np.zeros(2)]),
        ([np.zeros((4, 2)), np.zeros((4, 4))[:, ::2]], [np.zeros(1)]),
        ([np.zeros((4, 2)), np.zeros((4, 2), dtype=np.float32)], [np.zeros(1)]),
    ],
)
def test_arrays_of_another_shape_or_kind_are_refused(arguments: tuple[list[Array], list[Array]]):
    with pytest.raises(ValueError, match="line takes"):
        made().functions["line"](*arguments, np.empty((4, 3, 2)))


def test_a_function_called_like_one_of_the_c_library_is_not_taken_for_it():
    x = ca.SX.sym("x")
    kernels = prepare_kernels(
        [Signature("step", (1,), 1)], b"step", lambda: [ca.Function("step", [x], [x + 1])], steps=1
    )
    np.testing.assert_array_equal(kernels.functions["step"]([np.ones((2, 1))], [], np.zeros((2, 1))), [[2], [2]])


# --- the cache ---


def test_what_was_compiled_is_loaded_without_being_made_again(cache):
    check(made())
    (entry,) = entries(cache)
    written = entry.stat().st_ino
    check(prepare_kernels([SIGNATURE], b"line", never, steps=1))
    assert [e.stat().st_ino for e in entries(cache)] == [written]
    check(made(b"another"))
    assert len(entries(cache)) == 2


def test_the_same_problem_has_the_same_key_in_another_process(cache):
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_compiled import *\n"
        "print(assemble(motion(Variational())).transcription.kernels.points.seconds)"
    )
    assert assemble(motion(Variational())).transcription.kernels.points.seconds > 0
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True, env=os.environ)
    assert len(entries(cache)) == 4  # of the motion, of what is observed, of steps in the states, and of simulations


@pytest.mark.parametrize("damage", [b"", b"not a library", None], ids=["empty", "text", "cut"])
def test_a_broken_entry_is_rebuilt(cache, damage):
    check(made())
    (entry,) = entries(cache)
    content = entry.read_bytes()
    entry.unlink()  # it is loaded: its own pages must not change
    entry.write_bytes(content[: len(content) // 2] if damage is None else damage)
    check(made())
    check(prepare_kernels([SIGNATURE], b"line", never, steps=1))
    assert len(entries(cache)) == 1


def test_an_entry_that_is_whole_but_no_library_is_rebuilt(cache, tmp_path):
    cache.mkdir()
    key = "0" * 32
    name = libraries._name(key, b"no library")
    (cache / name).write_bytes(b"no library")
    source = compiler.find().build(ANSWER, tmp_path)
    loaded, kept = libraries.library(key, lambda folder: source)
    assert not kept
    assert loaded.answer() == 42
    assert name not in [entry.name for entry in entries(cache)]


@pytest.mark.study
def test_two_processes_compile_at_once(cache):
    code = "import sys; sys.path.insert(0, 'tests')\nfrom test_compiled import *\ncheck(made(b'raced'))"
    root = Path(__file__).parents[1]
    racers = [subprocess.Popen([sys.executable, "-c", code], cwd=root, env=os.environ) for _ in range(2)]
    assert [racer.wait() for racer in racers] == [0, 0]
    check(prepare_kernels([SIGNATURE], b"raced", never, steps=1))
    assert not [entry for entry in entries(cache) if entry.suffix != ".so"]


def test_the_cache_does_not_grow_beyond_its_bound(cache, monkeypatch):
    check(made(b"0"))
    size = entries(cache)[0].stat().st_size
    monkeypatch.setattr(libraries, "LARGEST", int(2.5 * size))
    check(made(b"1"))
    for i, entry in enumerate(sorted(entries(cache), key=lambda entry: entry.stat().st_mtime)):
        os.utime(entry, (1e9 + i, 1e9 + i))
    check(prepare_kernels([SIGNATURE], b"0", never, steps=1))  # used last, so the other goes
    check(made(b"2"))
    assert len(entries(cache)) == 2
    check(prepare_kernels([SIGNATURE], b"0", never, steps=1))
    with pytest.raises(AssertionError, match="made anew"):
        prepare_kernels([SIGNATURE], b"1", never, steps=1)


@pytest.mark.parametrize("setting", ["off", "file", "open to all", "open to a group"])
def test_without_a_folder_to_keep_it_in_a_library_serves_once(tmp_path, monkeypatch, setting):
    place = tmp_path / "place"
    if setting == "file":
        place.write_text("in the way")
    elif setting.startswith("open"):
        place.mkdir()
        place.chmod(0o777 if setting == "open to all" else 0o770)
    monkeypatch.setenv("SPOOKID_CACHE", "off" if setting == "off" else str(place))
    kernels = made()
    assert kernels.how.startswith("C by ")
    check(kernels)
    with pytest.raises(AssertionError, match="made anew"):
        prepare_kernels([SIGNATURE], b"line", never, steps=1)
    if setting.startswith("open"):
        assert not entries(place)
        assert f"Compiled anew, because others than you may write to {place}" in kernels.notice
        assert f"chmod go-w {place}" in kernels.notice


def test_a_library_that_others_may_write_to_is_rebuilt(cache):
    made()
    (entry,) = entries(cache)
    entry.chmod(0o620)
    check(made())
    (entry,) = entries(cache)
    assert entry.stat().st_mode & 0o777 == 0o700


def test_what_a_killed_compilation_left_is_cleared(cache):
    cache.mkdir(mode=0o700)
    dead = subprocess.Popen(["true"])
    dead.wait()
    kinds = {"dead": dead.pid, "alive": os.getppid()}
    left = {}
    for kind, number in kinds.items():
        mine = beside(cache / "spookid", "build")
        left[kind] = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{number}-"))
        left[kind].mkdir()
    made()
    assert [kind for kind, folder in left.items() if folder.exists()] == ["alive"]


# --- without a compiler ---


def test_without_a_compiler_the_virtual_machine_does_the_work_and_the_summary_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    kernels = made()
    check(kernels)
    assert kernels.how == "CasADi's virtual machine"
    assert "no C compiler (CC, cc, gcc, clang) was found" in kernels.notice
    page = motion(Variational()).solve(max_iterations=1).summary()
    assert "Not compiled, so several times slower: no C compiler" in " ".join(page.split())
    assert "kernels CasADi's virtual machine" in " ".join(page.split())


def test_a_compiler_that_fails_is_named(tmp_path, monkeypatch):
    script = tmp_path / "mycc"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo mycc 1.0 && exit\necho no licence >&2\nexit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    kernels = made()
    check(kernels)
    assert f"{script} failed: no licence" in kernels.notice
    assert kernels.seconds > 0


def test_a_compiler_that_does_not_know_its_processor_is_asked_again(tmp_path, monkeypatch):
    script = tmp_path / "oldcc"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *-march=native*) echo "-march: no native" >&2; exit 1;; esac\nexec cc "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    kernels = made()
    assert kernels.how.startswith("C by ")
    check(kernels)


def test_what_fails_for_another_reason_is_not_compiled_for_another_processor(tmp_path, monkeypatch):
    """Code for the oldest of processors rounds in other places, and would be kept."""
    script = tmp_path / "fullcc"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *-march=native*) echo no space left on device >&2; exit 1;; esac\nexec cc "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    assert f"{script} failed: no space left on device" in made().notice


# --- when ---


def test_short_horizons_are_not_worth_a_compiler(monkeypatch, cache):
    monkeypatch.delenv("SPOOKID_COMPILE")
    kernels = prepare_kernels([SIGNATURE], b"line", line, FEWEST_STEPS - 1)
    assert (kernels.how, kernels.notice, kernels.seconds) == ("CasADi's virtual machine", "", 0.0)
    assert not cache.exists()
    assert prepare_kernels([SIGNATURE], b"line", line, FEWEST_STEPS).how.startswith("C by ")


def test_a_setting_that_is_not_known_is_refused(monkeypatch):
    monkeypatch.setenv("SPOOKID_COMPILE", "perhaps")
    with pytest.raises(ProblemError, match="SPOOKID_COMPILE is 'perhaps'; it must be auto, on or off"):
        made()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_what_a_compiler_has_begun_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As gcc begins a process for each of its passes."""
    monkeypatch.setattr(compiler, "TIMEOUT", 0.5)
    begun = tmp_path / "begun"
    script = tmp_path / "cc"
    script.write_text(f"sleep 60 &\necho $! > {begun}\nwait\n")
    with pytest.raises(compiler.CompilationError, match="timed out"):
        compiler.Compiler(("sh", str(script)), "none").build("", tmp_path)
    pass_of_it = Path("/proc", begun.read_text().strip(), "stat")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and pass_of_it.exists() and pass_of_it.read_text().split()[2] != "Z":
        time.sleep(0.02)
    assert time.monotonic() < deadline


@pytest.mark.skipif(os.name != "posix", reason="of signals")
def test_a_signal_that_comes_while_a_compiler_begins_does_not_leave_it_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[str]] = []
    real = subprocess.Popen

    def struck(*arguments: Any, **how: Any) -> subprocess.Popen[str]:
        begun.append(real(*arguments, **how))
        signal.raise_signal(signal.SIGINT)
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", struck)
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have what runs behind them ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            compiler.Compiler(("sh", "-c", "sleep 600"), "none").build("", tmp_path)
    finally:
        signal.signal(signal.SIGINT, heard)
    assert begun[0].wait(60) == -signal.SIGKILL
