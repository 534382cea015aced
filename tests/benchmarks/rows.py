"""The measurements."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
from benchmarks.problems import FOUR, ROOT, chain, furuta, joint_pendulum, pendulum
from benchmarks.shooting import estimates, single_shooting
from benchmarks.table import Row, seconds
from scipy.linalg import get_lapack_funcs

from spookid import LevenbergMarquardt, Problem, Spook, Variational, load_problem
from spookid.assembly.assembly import Assembly, assemble
from spookid.estimation.fitting import fit_at_known_noise

STEPPERS: dict[str, Spook | Variational] = {
    "SPOOK": Spook(),
    "lifted SPOOK": Spook(multipliers="lifted"),
    "rigid Variational": Variational(),
}

MEMORY = {"rigid Variational": "≤ 8 kB", "SPOOK": "≤ 24 kB"}
"""What a step may take."""


@dataclass(frozen=True)
class Bench:
    """How long and how often."""

    steps: int
    repeats: int
    clock: Callable[[], float]
    """Wall time, or processor time of this process and those it started [s]."""

    def floor(self) -> float:
        """LAPACK's dpbtrf of 24 unknowns a step and 47 subdiagonals, once [s]."""
        n, width = 24 * self.steps, 48
        band = np.random.default_rng(0).normal(size=(n, width)) / width
        band[:, 0] = 2.0
        (factorize,) = get_lapack_funcs(("pbtrf",), dtype=np.float64)
        return seconds(lambda: factorize(band.T, lower=1, overwrite_ab=1), 1, self.clock)

    def beside_floor(self, work: Callable[[], object], repeats: int) -> tuple[float, float]:
        """Median time of some work [s], and of its ratio to the mean of the floor before and after it."""
        times, ratios, before = list[float](), list[float](), self.floor()
        for _ in range(repeats):
            times.append(seconds(work, 1, self.clock))
            after = self.floor()
            ratios.append(2 * times[-1] / (before + after))
            before = after
        return median(times), median(ratios)


def set_up(problem: Problem) -> Assembly:
    """All that comes before the first iteration."""
    assembly = assemble(problem)
    assembly.transcription.kernels.prepare()
    return assembly


def fits(bench: Bench) -> Iterator[Row]:
    """Set-up, solve and iteration of the Furuta pendulum with each stepper."""
    goals = {
        ("SPOOK", 13): ("≤ 0.93 floors", "≤ 150 ms"),
        ("lifted SPOOK", 13): ("≤ 5 floors", ""),
        ("lifted SPOOK", 4): ("≤ 5 floors", ""),
        ("rigid Variational", 13): ("≤ 1 floor", ""),
        ("rigid Variational", 4): ("≤ 0.7 floors", "≤ 25 ms"),
    }
    for (name, parameters), (each, whole) in goals.items():
        problem = furuta(STEPPERS[name], bench.steps, parameters)
        label = f"{name}, {parameters} parameters"
        first = seconds(lambda p=problem: set_up(p), 1, bench.clock)
        yield Row(f"{label}: set-up, the first", first, "s", target="≤ 4 s")
        again = seconds(lambda p=problem: set_up(p), bench.repeats, bench.clock)
        yield Row(f"{label}: set-up, again", again, "s", target="≤ 0.5 s")
        assembly = set_up(problem)
        yield from _solve(bench, assembly, label, each, whole)
        kilobytes = memory(assembly) / bench.steps / 1e3
        yield Row(f"{label}: memory of a step", kilobytes, "kB", target=MEMORY.get(name, ""))


def _solve(bench: Bench, assembly: Assembly, label: str, each: str, whole: str) -> Iterator[Row]:
    transcription, start = assembly.transcription, assembly.start
    outcomes = []
    solver = LevenbergMarquardt(max_iterations=30)
    spent, ratio = bench.beside_floor(lambda: outcomes.append(solver.solve(transcription, start)), bench.repeats)
    iterations = max(len(outcomes[-1].history) - 1, 1)
    timing = outcomes[-1].timing
    share = 100 * timing.evaluate / timing.solve
    yield Row(f"{label}: solve", 1e3 * spent, "ms", ratio, whole, f"{outcomes[-1].status.value}")
    note = f"{iterations} iterations, {share:.0f} % evaluating and reducing what is kept"
    yield Row(f"{label}: an iteration", 1e3 * spent / iterations, "ms", ratio / iterations, each, note)
    kernels, ratio = bench.beside_floor(lambda: transcription.linearize(start, 0), 3 * bench.repeats)
    yield Row(f"{label}: residuals and Jacobians alone", 1e3 * kernels, "ms", ratio)


def in_joint_coordinates(bench: Bench) -> Iterator[Row]:
    """The loop of the 4-parameter problem with known noise and its normaliser, as peers are given it."""
    problem = joint_pendulum(bench.steps)
    assembly, noise = set_up(problem), problem.solve(step_correction=False).noise
    outcomes = []

    def solve() -> None:
        outcomes.append(fit_at_known_noise(assembly, assembly.start, noise, LevenbergMarquardt(), None).outcome)

    spent, ratio = bench.beside_floor(solve, 3 * bench.repeats)
    note = f"{len(outcomes[-1].history) - 1} iterations, {outcomes[-1].status.value}"
    label = "rigid, joint coordinates, 4 parameters, known noise: loop"
    yield Row(label, 1e3 * spent, "ms", ratio, "≤ 0.47 floors", note)


def shooting(bench: Bench) -> Iterator[Row]:
    """The 4-parameter problem by simulation and by spookid, with their estimates."""
    solve = single_shooting(bench.steps)
    problem = furuta(Variational(), bench.steps, 4)
    guesses = {
        "the same guesses": np.array([problem.guess[name] for name in FOUR]),
        "guesses 3 % off": 1.03 * np.array([0.003, 0.004, 1e-3, 1e-4]),
    }
    for words, guess in guesses.items():
        results = []
        spent = seconds(lambda g=guess, r=results: r.append(solve(g)), bench.repeats, bench.clock)
        fitted = f"{results[-1].nfev} simulations, rms {1e-3 * np.sqrt(np.mean(results[-1].fun ** 2)):.2g} rad"
        note = f"{fitted}; {_listed(estimates(results[-1]))}"
        yield Row(f"SciPy single shooting from {words}, 4 parameters: solve", 1e3 * spent, "ms", note=note)
    solution = problem.solve()
    note = f"{solution.iterations} iterations; {_listed({name: solution[name].estimate for name in FOUR})}"
    assembly = set_up(problem)
    spent = seconds(
        lambda: LevenbergMarquardt().solve(assembly.transcription, assembly.start), bench.repeats, bench.clock
    )
    yield Row("spookid, rigid Variational, the same: solve", 1e3 * spent, "ms", note=note)


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())


def default_solve(bench: Bench) -> Iterator[Row]:
    """A whole solve that estimates the noise, errors included, over the loop at a given state weight."""
    problem = load_problem(ROOT / "problems" / "furuta_release.py")
    if not isinstance(problem, Problem):
        raise TypeError("furuta_release.py declares several problems")
    weighted = problem.with_(state_weight=1e6)
    for each in (problem, weighted):  # makes the kernels
        each.solve()
    spent = seconds(problem.solve, bench.repeats, bench.clock)
    loop = median(weighted.solve().times.solve for _ in range(bench.repeats))
    note = f"{spent / loop:.1f} loops at a given weight, of {1e3 * loop:.3g} ms each"
    yield Row("furuta_release, noise estimated: whole solve", 1e3 * spent, "ms", note=note)


def recordings(bench: Bench) -> Iterator[Row]:
    """Four recordings at once, by one thread and by two."""
    for name in ("SPOOK", "rigid Variational"):
        alone = furuta(STEPPERS[name], bench.steps, 13)
        assembly = set_up(alone.with_(recordings=[replace(alone.recordings[0], name=f"{k}") for k in range(4)]))
        first = None
        for threads in (1, 2):
            solver = LevenbergMarquardt(threads=threads)
            spent = seconds(lambda a=assembly, s=solver: s.solve(a.transcription, a.start), bench.repeats, bench.clock)
            first = first or spent
            note = f"{spent / first:.2f} times that of one thread"
            yield Row(f"{name}, 13 parameters, 4 recordings, {threads} threads: solve", 1e3 * spent, "ms", note=note)


def scaling(bench: Bench, largest: int) -> Iterator[Row]:
    """Time of a step and an iteration of the single pendulum, and the memory that a step takes."""
    for name, limit in MEMORY.items():
        first = None
        for steps in (10**k for k in range(3, 7) if 10**k <= largest):
            assembly = set_up(pendulum(STEPPERS[name], steps))
            solver = LevenbergMarquardt(max_iterations=3)
            counts: list[int] = []
            spent = seconds(
                lambda a=assembly, s=solver, c=counts: c.append(len(s.solve(a.transcription, a.start).history) - 1),
                1 if steps > 10**4 else bench.repeats,
                bench.clock,
            )
            each = spent / max(counts[-1], 1) / steps
            first = first or each
            grown = f"{each / first:.2f} times that at 1,000 steps"
            target = "≤ 1.3 times" if steps == 10**5 else ""
            label = f"pendulum, {name}, {steps:,} steps"
            yield Row(f"{label}: a step and iteration", 1e6 * each, "µs", target=target, note=grown)
            if steps == 10**4:
                yield Row(f"{label}: memory of a step", memory(assembly) / steps / 1e3, "kB", target=limit)


def chains(bench: Bench, longest: int = 16) -> Iterator[Row]:
    """Set-up and iteration of chains of hinges in the poses of all bodies, and how they grow with the chain."""
    for words, settings in {"known noise": {}, "given weight": {"state_weight": 1e4}}.items():
        before = 0.0, 0.0
        for hinges in (n for n in (4, 8, 16) if n <= longest):
            label, goals = f"chain of {hinges} hinges, maximal, {words}", ("≤ 20 s", "≤ 150 ms")
            assembly = assemble(chain(hinges, bench.steps, **settings))
            solver = LevenbergMarquardt(max_iterations=4)
            prepared = seconds(assembly.transcription.kernels.prepare, 1, bench.clock)
            counts: list[int] = []
            spent = seconds(
                lambda a=assembly, s=solver, c=counts: c.append(len(s.solve(a.transcription, a.start).history) - 1),
                bench.repeats,
                bench.clock,
            )
            each = spent / max(counts[-1], 1)
            grown = [
                f"{now / then:.2f} times" if then else "" for now, then in zip((prepared, each), before, strict=True)
            ]
            setup, iteration = goals if hinges == 16 else ("", "")
            yield Row(f"{label}: set-up", prepared, "s", target=setup, note=grown[0])
            yield Row(f"{label}: an iteration", 1e3 * each, "ms", target=iteration, note=grown[1])
            before = prepared, each


def memory(assembly: Assembly) -> float:
    """Most bytes in use beyond the data and the start while iterating."""
    return _peak(lambda: LevenbergMarquardt(max_iterations=2).solve(assembly.transcription, assembly.start))


def whole_solves(bench: Bench) -> Iterator[Row]:
    """What each further step of a recording takes of memory while a whole problem is solved, errors included."""
    goals = {
        "SPOOK, 13 parameters": (partial(furuta, STEPPERS["SPOOK"], parameters=13), "≤ 35 kB"),
        "rigid, joint coordinates, 4 parameters": (joint_pendulum, "≤ 5 kB"),
    }
    for label, (problem, target) in goals.items():
        problem(steps=bench.steps // 2).solve()  # what is loaded and made once is not of a step
        short, long = (_peak(problem(steps=steps).solve) for steps in (bench.steps // 2, bench.steps))
        kilobytes = (long - short) / (bench.steps - bench.steps // 2) / 1e3
        yield Row(f"{label}: memory of a step, all of a solve", kilobytes, "kB", target=target)


def _peak(work: Callable[[], object]) -> float:
    """Most bytes in use beyond those of before while something is done."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def everything(bench: Bench, largest: int) -> Iterator[Row]:
    """All rows but those of what users wait for."""
    floor = median(bench.floor() for _ in range(5 * bench.repeats))
    yield Row(f"floor: dpbtrf, n = 24 x {bench.steps}, 47 subdiagonals", 1e3 * floor, "ms", 1.0)
    yield from fits(bench)
    yield from in_joint_coordinates(bench)
    yield from shooting(bench)
    yield from default_solve(bench)
    yield from whole_solves(bench)
    yield from recordings(bench)
    yield from scaling(bench, largest)
    yield from chains(bench)
