"""Programs of the block interpreter: CasADi's own digits where they have to be, and roundings alone where not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from numpy.typing import NDArray
from rounding import EPSILON, watched

from spookid import Problem, ProblemError, load_problem
from spookid.assembly.assembly import assemble
from spookid.kernels import program as programs
from spookid.kernels.kernel import Kernel
from spookid.kernels.library import LEVELS, SETTING, library
from spookid.kernels.program import program_of
from spookid.transcription.factor import Group

ROOT = Path(__file__).parents[2]
LENGTHS = (1, 7, 8, 9, 63, 64, 65, 130)
"""Steps: blocks that are full, and ones that are not."""
ROUNDINGS = 2.0
"""Errors that a program's result may be off, in those that each operation alone makes."""

pytestmark = [pytest.mark.usefixtures("by_c"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each that the processor has."""
    monkeypatch.setenv(SETTING, request.param)
    try:
        library()
    except ProblemError:
        pytest.skip("not on this processor")
    return str(request.param)


def by_program(function: ca.Function, stepwise: Sequence[Array], shared: Sequence[Array], exact: bool) -> Array:
    """Results (n, count)."""
    found = program_of(function, len(stepwise), exact)
    assert found is not None
    out = np.full((len(stepwise[0]), function.numel_out(0)), 7.0)
    found.run(stepwise, shared, out, None)
    return out


def by_casadi(function: ca.Function, stepwise: Sequence[Array], shared: Sequence[Array]) -> Array:
    """The same by CasADi's virtual machine."""
    out = np.empty((len(stepwise[0]), function.numel_out(0)))
    return Kernel(function, len(stepwise), once=True)(stepwise, shared, out)


def check_bits(found: Array, expected: Array) -> None:
    """Numbers are the same with their signs; one that is not a number is as good as another."""
    same = found.view(np.int64) == expected.view(np.int64)
    assert np.all(same | (np.isnan(found) & np.isnan(expected))), (found[~same], expected[~same])


def check_roundings(function: ca.Function, stepwise: Sequence[Array], shared: Sequence[Array]) -> float:
    """Results of the improved program differ by roundings from what they are; the share of them that are numbers."""
    found = by_program(function, stepwise, shared, exact=False)
    expected, errors = watched(function, [*stepwise, *(s[None] for s in shared)])
    by_machine = by_casadi(function, stepwise, shared)
    whole = np.isfinite(expected) & np.isfinite(errors) & (np.abs(expected) < 1e300) & np.isfinite(by_machine)
    apart = np.maximum(np.abs(found - expected), np.abs(found - by_machine))
    most = ROUNDINGS * EPSILON * errors + np.finfo(float).tiny
    assert np.all(apart[whole] <= most[whole]), np.max((apart / most)[whole])
    return float(np.mean(whole))


# --- each operation ---

HARD = [0.0, 1.0, 0.5, np.pi / 2, 2.0, 3.0, 1e-8, 5e-324, 2.3e-308, 1e-300, 1e8, 1e16, 1e300, 1.7e308, np.inf]
HARD = [*HARD, *(-x for x in HARD), np.nan]
UNARY = [name for name in programs._OPERATIONS[:-3] if name not in ("ASSIGN", "CONST", "INPUT", "OUTPUT")]
BINARY = {"ADD", "SUB", "MUL", "DIV", "POW", "LT", "LE", "EQ", "NE", "AND", "OR", "FMOD", "COPYSIGN", "IF_ELSE_ZERO"}
BINARY |= {"FMIN", "FMAX", "ATAN2", "HYPOT", "REMAINDER"}


def operation(name: str, x: ca.SX, y: ca.SX) -> ca.SX:
    code = getattr(ca, f"OP_{name}")
    return ca.SX.binary(code, x, y) if name in BINARY else ca.SX.unary(code, x)


def inputs(n: int, seed: int) -> Array:
    """Hard numbers, and random ones of all sizes, (n, 1)."""
    rng = np.random.default_rng(seed)
    sizes = rng.normal(size=n) * 10.0 ** rng.choice([0, 0, 1, -3, 7, 100, -200], size=n)
    return np.where(rng.uniform(size=n) < 0.5, rng.choice(HARD, size=n), sizes)[:, None]


@pytest.mark.parametrize("name", UNARY)
def test_an_operation_gives_the_digits_of_casadi(name: str) -> None:
    """Of vectors, of scalars, and of both."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    function = ca.Function("f", [x, y], [operation(name, x, y)])
    assert programs.instructions(function) is not None
    grid = [np.ascontiguousarray(part.reshape(-1, 1)) for part in np.meshgrid(HARD, HARD)]
    check_bits(by_program(function, grid, [], exact=True), by_casadi(function, grid, []))
    for n in LENGTHS:
        both = inputs(n, 1), inputs(n, 2)
        check_bits(by_program(function, both, [], exact=True), by_casadi(function, both, []))
    turned = ca.Function("f", [y, x], [operation(name, x, y)])
    for number in (1.5, -0.0, 0.0, -3.0, np.nan, np.inf):
        for one in (function, turned):
            given = [inputs(9, 3)], [np.array([number])]
            check_bits(by_program(one, *given, exact=True), by_casadi(one, *given))
        alone = ca.Function("f", [y, x], [ca.vertcat(operation(name, x, x), y)])
        check_bits(by_program(alone, *given, exact=True), by_casadi(alone, *given))


def test_an_operation_that_does_more_than_calculate_is_left_to_casadi() -> None:
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    assert program_of(ca.Function("f", [x, y], [ca.SX.binary(ca.OP_PRINTME, x, y)]), 2) is None


# --- whole functions ---

PLAIN = ("ADD", "SUB", "MUL", "NEG", "SQ", "TWICE", "ADD", "MUL", "SUB", "MUL")
SMOOTH = (*PLAIN, "DIV", "DIV", "INV", "SIN", "COS", "SQRT", "TANH", "ATAN", "ATAN2", "FABS", "FMAX", "IF_ELSE_ZERO")
SIZES, SHARED = (3, 2), (4,)


def tangle(seed: int, names: Sequence[str], count: int = 80) -> ca.Function:
    """A random function of stepwise arguments and a shared one that uses its values again, some of which are results:
    also inputs, constants, and what is the same at all steps; some more than once."""
    rng = np.random.default_rng(seed)
    symbols = [ca.SX.sym(f"x{i}", size) for i, size in enumerate((*SIZES, *SHARED))]
    pool = [*ca.vertsplit(ca.vertcat(*symbols)), *map(ca.SX, rng.normal(size=3))]
    angle, divisor = pool[0] + pool[-3], pool[3] * pool[3] + 1.0
    for _ in range(count):
        a, b = (pool[i] for i in rng.integers(len(pool), size=2))
        kind = rng.integers(8)
        if kind == 0:  # the sine and the cosine of one angle, at different places
            pool.append(ca.sin(angle) if rng.uniform() < 0.5 else ca.cos(angle))
        elif kind == 1:
            pool.append(a / divisor)
        elif kind == 2:
            angle, divisor = (a, divisor) if rng.uniform() < 0.5 else (angle, b * b + 0.5)
        else:
            pool.append(operation(str(rng.choice(names)), a, b))
    results = [pool[i] for i in rng.integers(len(pool), size=15)]
    results += [results[3], symbols[0][1], symbols[-1][2], ca.SX(0.25), ca.SX(0.0), pool[-1], pool[-1]]
    return ca.Function("f", symbols, [ca.densify(ca.vertcat(*results))])


def numbers(n: int, seed: int) -> tuple[list[Array], list[Array]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, size)) for size in SIZES], [rng.normal(size=size) for size in SHARED]


@pytest.mark.parametrize("seed", range(25))
def test_a_function_gives_the_digits_of_casadi(seed: int) -> None:
    function = tangle(seed, UNARY)
    for n in LENGTHS:
        given = numbers(n, seed)
        given[0][0][::3, 1] = np.resize(HARD, len(given[0][0][::3]))
        check_bits(by_program(function, *given, exact=True), by_casadi(function, *given))


@pytest.mark.parametrize("names", [PLAIN, SMOOTH], ids=["plain", "smooth"])
@pytest.mark.parametrize("seed", range(25))
def test_an_improved_function_differs_by_roundings(seed: int, names: Sequence[str]) -> None:
    function = tangle(seed, names)
    for n in LENGTHS:
        assert check_roundings(function, *numbers(n, seed)) > 0.5


def test_each_level_has_the_same_digits_where_they_are_casadis_and_roundings_elsewhere(level: str) -> None:
    for seed in range(8):
        given = numbers(67, seed)
        function = tangle(seed, UNARY)
        check_bits(by_program(function, *given, exact=True), by_casadi(function, *given))
        check_roundings(tangle(seed, SMOOTH), *given)


def test_arguments_that_are_empty_or_unused() -> None:
    none, x, p = ca.SX.sym("none", 0), ca.SX.sym("x", 2), ca.SX.sym("p", 3)
    function = ca.Function("f", [x, none, p], [p[1] * x[0]])
    given = [np.arange(22.0).reshape(11, 2), np.empty((11, 0))], [np.array([1.0, 2.0, 3.0])]
    check_bits(by_program(function, *given, exact=False), by_casadi(function, *given))
    constant = ca.Function("f", [none, p], [ca.densify(ca.vertcat(p[0] + p[2], 3.0, 0.0))])
    given = [np.empty((11, 0))], given[1]
    check_bits(by_program(constant, *given, exact=False), np.tile([4.0, 3.0, 0.0], (11, 1)))


# --- angles ---


def angles() -> dict[str, Array]:
    rng, quarter = np.random.default_rng(0), np.arctan(np.longdouble(1)) * 2
    near = rng.integers(-636_000, 636_000, size=40_000) * quarter
    return {
        "of a turn": rng.uniform(-7, 7, size=40_000),
        "large": rng.uniform(-1e6, 1e6, size=40_000),
        "largest": np.append(rng.uniform(-1e8, 1e8, size=4_000), [1e6, -1e6, 1e22, 1e300]),
        "near quarter turns": near.astype(float),
        "beside them": (near + 10.0 ** rng.uniform(-16, -1, size=near.size)).astype(float),
        "tiny": rng.choice([-1, 1], size=4_000) * 10.0 ** rng.uniform(-320, -1, size=4_000),
        "eighths": np.nextafter(np.arange(-999, 1000) * np.pi / 4, rng.choice([-9e9, 9e9], size=1999)),
    }


@pytest.mark.parametrize("name", angles())
def test_sines_and_cosines_are_right_to_two_units_of_the_last_digit(name: str, level: str) -> None:
    x = ca.SX.sym("x")
    both, given = ca.Function("f", [x], [ca.vertcat(ca.sin(x), ca.cos(x))]), angles()[name][:, None]
    found = by_program(both, [given], [], exact=False)
    long = given.astype(np.longdouble)
    expected = np.hstack([np.sin(long), np.cos(long)])
    units = np.abs(found - expected) / np.spacing(np.abs(expected).astype(float))
    assert np.max(units) < 2
    for i, function in enumerate((ca.sin, ca.cos)):
        alone = by_program(ca.Function("f", [x], [function(x)]), [given], [], exact=False)
        np.testing.assert_array_equal(alone[:, 0], found[:, i])


def test_sines_of_what_is_no_angle() -> None:
    x = ca.SX.sym("x")
    both = ca.Function("f", [x], [ca.vertcat(ca.sin(x), ca.cos(x))])
    given = np.array([[np.nan], [np.inf], [-np.inf], [-0.0], [0.0]])
    found = by_program(both, [given], [], exact=False)
    assert np.isnan(found[:3]).all()
    check_bits(found[3:], np.array([[-0.0, 1.0], [0.0, 1.0]]))


# --- kernels of problems ---


@cache
def kernels(name: str) -> dict[str, tuple[ca.Function, list[Array], list[Array]]]:
    """Of each factor of a shipped problem: its function and the arguments along some steps."""
    problem = load_problem(ROOT / "problems" / f"{name}.py")
    assert isinstance(problem, Problem)
    assembly, rng = assemble(problem), np.random.default_rng(0)
    transcription, point, found = assembly.transcription, assembly.start, {}
    for factor in transcription.factors:
        stepwise, shared = transcription.arguments(factor, 0, point)
        stepwise = [np.ascontiguousarray(a[:70]) for a in stepwise]
        of = {"residual": transcription.kernels.residual(factor), "jacobian": transcription.kernels.jacobian(factor)}
        if factor.group is not Group.PRIOR and not factor.pairs:
            of["contraction"] = transcription.kernels.contraction(factor)
        for kind, kernel in of.items():
            weights = kernel._function.numel_in(len(stepwise)) if kind == "contraction" else 0
            beside = [rng.normal(size=(len(stepwise[0]), weights))] if weights else []
            found[f"{factor.name} {kind}"] = kernel._function, [*stepwise, *beside], shared
    return found


@pytest.mark.parametrize("name", ["pendulum", "fourbar", "furuta_release"])
def test_kernels_of_problems(name: str) -> None:
    for function, stepwise, shared in kernels(name).values():
        expected = by_casadi(function, stepwise, shared)
        check_bits(by_program(function, stepwise, shared, exact=True), expected)
        assert check_roundings(function, stepwise, shared) == 1.0


# --- life as a kernel ---


def line() -> ca.Function:
    x, y, p = ca.SX.sym("x", 2), ca.SX.sym("y", 2), ca.SX.sym("p")
    return ca.Function("line", [x, y, p], [ca.densify(p * ca.horzcat(x, y, ca.sin(x - y)))])


def check_line(kernel: Kernel, steps: int) -> None:
    values = np.random.default_rng(0).normal(size=(steps + 1, 2))
    out = np.empty((steps, 3, 2))
    assert kernel([values[:-1], values[1:]], [np.array([2.0])], out) is out
    expected = np.stack([values[:-1], values[1:], np.sin(values[:-1] - values[1:])], axis=1)
    np.testing.assert_allclose(out, 2 * expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("steps", [0, 1, 65536 + 7])
def test_horizons_that_are_empty_or_longer_than_a_call(steps: int) -> None:
    check_line(Kernel(line(), 2), steps)


def test_threads_share_a_kernel() -> None:
    kernel, failures = Kernel(line(), 2), []

    def work() -> None:
        try:
            for _ in range(20):
                check_line(kernel, 2000)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    ("stepwise", "shared"),
    [
        ([np.zeros((3, 2)), np.zeros((4, 2))], [np.zeros(1)]),
        ([np.zeros((4, 2)), np.zeros((4, 2))], [np.zeros(2)]),
        ([np.zeros((4, 2)), np.zeros((4, 2))], []),
        ([np.zeros((4, 2)), np.zeros((4, 4))[:, ::2]], [np.zeros(1)]),
        ([np.zeros((4, 2)), np.zeros((4, 2), dtype=np.float32)], [np.zeros(1)]),
    ],
)
def test_arrays_of_another_shape_or_kind_are_refused(stepwise: list[NDArray], shared: list[Array]) -> None:
    with pytest.raises(ValueError, match="arguments must be"):
        Kernel(line(), 2)(stepwise, shared, np.empty((4, 3, 2)))


def test_what_is_more_than_a_list_of_operations_is_left_to_casadi() -> None:
    x = ca.MX.sym("x", 2)
    inner = ca.Function("inner", [y := ca.SX.sym("y", 2)], [y * y])
    called = Kernel(ca.Function("called", [x], [inner(x) + 1]), 1)
    assert called.program is None
    given = np.arange(18.0).reshape(9, 2)
    np.testing.assert_array_equal(called([given], [], np.empty((9, 2))), given**2 + 1)


def test_each_number_goes_to_its_place() -> None:
    x = ca.SX.sym("x", 2)
    kernel, given = Kernel(ca.Function("f", [x], [2 * x]), 1, np.array([1, 4])), np.arange(26.0).reshape(13, 2)
    out = kernel([given], [], np.zeros((13, 3, 2)))
    expected = np.zeros((13, 6))
    expected[:, [1, 4]] = 2 * given
    np.testing.assert_array_equal(out.reshape(13, 6), expected)
