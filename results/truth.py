"""Where estimates are and whether their errors are true: `python results/truth.py` writes truth.md.

With SPOOKID_DATA set, measured devices are fitted without any weight; then twins with known parameters are drawn and
fitted again and again, and intervals of 95 % counted, of twins in the steps of the fit and of twins of an independent
integrator (`truth_continuous.py`), and what is said of models that lack something (`truth_misfit.py`). `--seeds N`
draws so many of each (200 by default, hours); `--only PART` writes one part to the terminal.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import truth_continuous
import truth_misfit
from truth_twins import Twin, fourbar, free_scale, furuta, pendulum

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    Spook,
    Variational,
    gravity,
    load_problem,
)
from spookid.assembly.assembly import assemble
from spookid.estimation.identifiability import a_priori
from spookid.statistics.sensitivities import Sensitivities
from spookid.statistics.weak_directions import UNSEEN

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
DISTURBANCES = {"none": 0.0, "weakly identifiable": 1e-5, "identifiable": 1e-4, "dominant": 3e-3}
"""Of every hinge [N m/√Hz]."""
PARTS = ("measured", "weight", "coverage", "continuous", "misfit", "prior", "time")
SEEDED = ("coverage", "continuous", "misfit")
"""Parts that are drawn again and again."""
EMPS = {"M": 95.11, "F_v": 203.5, "F_c": 20.39, "offset": -3.165}
"""Published by least squares [kg, N s/m, N, N]."""
_ODRIVE = r"""\ These recordings disagree by more than their standard errors. The converged fits report that their
residuals are not white noise: outliers of both encoders, an offset of alpha, a constant torque in the axle, and another
kind of dry friction in the pin. The model does not contain these effects. A recording with voltage steps has one
voltage, which separates the gain K from dry friction only while the axle turns back. The fit of sine_1V ends at the
iteration limit, with sensor noise estimated as zero."""


def emps(step: float, start: float) -> Problem:
    """The positioning system as a hinge: an inertia for its mass, a torque for its force."""
    file = np.load(Path(os.environ["SPOOKID_DATA"]) / "emps" / "DATA_EMPS.npz")
    t = file["t"].ravel()
    M, F_v = Parameter("M", start, lower=1e-3), Parameter("F_v", 2 * start, lower=0)
    F_c, offset = Parameter("F_c", start / 5, lower=0), Parameter("offset", 0.0)
    cart = Body("cart", mass=1.0, inertia=(1, M, 1))
    axis = {"x": (0, 1, 0), "y": (0, 0, -1)}
    slide = Hinge("slide", GROUND.frame(**axis), cart.frame(**axis), viscous=F_v, coulomb=F_c)
    signals = {"qm": file["qm"].ravel(), "vir": file["vir"].ravel(), "one": np.ones(len(t))}
    motors = [Motor(slide, "vir", gain=float(file["gtau"])), Motor(slide, "one", gain=-offset)]
    model = Model(bodies=[cart], joints=[slide], motors=motors, gravity=gravity(9.81))
    recording = Recording(t=t, signals=signals, name="EMPS")
    return Problem("emps", model, [recording], [HingeAngle(slide, "qm")], step=step)


def measured() -> Iterator[str]:
    """Lines on measured devices."""
    yield from _emps()
    yield from _releases()
    yield from _devices()


def _emps() -> Iterator[str]:
    yield "## EMPS, a positioning system (published: " + ", ".join(f"{k} {v:g}" for k, v in EMPS.items()) + ")"
    yield ""
    rows = []
    for step in (0.001, 0.005):
        for start in (10.0, 50.0, 1000.0):
            found, seconds = _timed(emps(step, start))
            numbers = [f"{_value(found, name)} ({_off(found, name, EMPS[name])})" for name in EMPS]
            rows.append([f"{1000 * step:g} ms", f"{start:g}", *numbers, found.status.value, f"{seconds:.1f} s"])
    yield from _table(["step", "M at start", *EMPS, "status", "time"], rows)


def _releases() -> Iterator[str]:
    yield "## Three releases of a pendulum: a = m g l/(J + m l²), reference 119.55 to 120.27 1/s²"
    yield ""
    rows = []
    for name in (f"{release}_{law}" for law in ("viscous", "dry") for release in ("01", "02", "03")):
        problem = load_problem(f"{PROBLEMS / 'pendulum_free_swing.py'}::{name}")
        for estimator in ("noise", "auto"):
            found, seconds = _timed(problem.with_(estimator=estimator))
            a = "{:.2f} ± {:.2f}".format(*_frequency(found))
            ending = [_noise(found), found.status.value, f"{seconds:.1f} s"]
            rows.append([name, found.choice.estimator, a, _value(found, "b"), *ending])
    header = ["release, friction", "estimator", "a [1/s²]", "b [N m s]", "noise", "status", "time"]
    yield from _table(header, rows)
    yield from (
        (
            'In each pair of columns, the first has estimator="noise", and the second has the estimator '
            "of a default solve."
        ),
        "",
    )


def _devices() -> Iterator[str]:
    swingups = [f"swingup_{rate}hz_{i}" for rate, count in ((500, 3), (250, 2)) for i in range(1, count + 1)]
    drives = ["pulses_torque_units", "sine_1V", "sine_4V", "step_2V", "step_5V"]
    for title, file, recordings, names, remark in (
        ("Qube, swing-ups", "furuta_swingup.py", swingups, ("J_arm", "J_rod", "K", "b_1"), ""),
        ("ODrive pendulum", "furuta_odrive.py", drives, ("J_arm", "J_rod", "K", "b_1"), _ODRIVE),
    ):
        yield f"## {title}"
        yield ""
        rows, found = [], []
        for name in recordings:
            solution, seconds = _timed(load_problem(f"{PROBLEMS / file}::{name}"))
            found.append(solution)
            values = [_value(solution, parameter) for parameter in names]
            rows.append([name, *values, _noise(solution), solution.status.value, f"{seconds:.1f} s"])
        rows.append(["spread over mean error", *(_agreement(found, parameter) for parameter in names), "", "", ""])
        yield from _table(["recording", *names, "noise", "status", "time"], rows)
        if remark:
            yield from (remark, "")


def weights() -> Iterator[str]:
    """Lines on what a given state weight makes of measured devices."""
    yield "## The same with a given state weight κ"
    yield ""
    yield "The table shows M of EMPS at 1 ms, and a of the first release with viscous friction."
    yield ""
    positioning = emps(0.001, 50.0)
    release = load_problem(f"{PROBLEMS / 'pendulum_free_swing.py'}::01_viscous")
    assert isinstance(release, Problem)
    yield from _table(
        ["κ for EMPS", "M [kg]"], [[_weight(k), _M(positioning, k)] for k in (1e-4, 1e-2, 1.0, 100.0, None)]
    )
    yield from _table(
        ["κ for the release", "a [1/s²]"], [[_weight(k), _a(release, k)] for k in (100.0, 1e4, 1e6, 1e8, None)]
    )


def _weight(weight: float | None) -> str:
    return "noise estimated" if weight is None else f"{weight:g}"


def _M(problem: Problem, weight: float | None) -> str:
    return _value(problem.solve(state_weight=weight, estimator="noise"), "M")


def _a(problem: Problem, weight: float | None) -> str:
    return "{:.2f} ± {:.2f}".format(*_frequency(problem.solve(state_weight=weight, estimator="noise")))


def _frequency(found: Solution) -> tuple[float, float]:
    """a = m g l/(J + m l²) of a release and its standard error [1/s²]."""
    torque, arm = 0.01225 * 9.81 * 0.062, 0.01225 * 0.062**2
    a = torque / (found["J"].estimate + arm)
    return a, a * found["J"].std_err / (found["J"].estimate + arm)


def coverage(seeds: int) -> Iterator[str]:
    """Lines on intervals of 95 % that contain the true value."""
    yield f"## 95 % intervals that contain the true value, {seeds} draws each, in %"
    yield ""
    yield (
        "The process noise of every hinge is: " + ", ".join(f"{k} {v:g}" for k, v in DISTURBANCES.items()) + " N m/√Hz."
    )
    yield "The sensor noise is 1 mrad. All parameters with a standard error are pooled; the next column"
    yield "shows the root mean"
    yield "square of error divided by standard error."
    yield ""
    settings: list[tuple[str, Callable[[], Twin]]] = []
    for step in (0.01, 0.005):
        rigid = {"step": step, "stepper": Variational()}
        for make in (pendulum, furuta, partial(furuta, full=True), fourbar):
            settings.append((f"Variational, {1000 * step:g} ms", partial(make, **rigid)))
    settings.append(("Spook, 10 ms", partial(pendulum, step=0.01, stepper=Spook())))
    rows = []
    for title, make in settings:
        cells = []
        for disturbance in DISTURBANCES.values():
            hits, errors = _covered(make, disturbance, seeds)
            cells.append(f"{100 * hits:.1f} ({errors:.2f})")
        rows.append([make().name, title, *cells])
        print(rows[-1], flush=True)
    yield from _table(["twin", "stepper, step", *DISTURBANCES], rows)


def _covered(make: Callable[[], Twin], disturbance: float, seeds: int) -> tuple[float, float]:
    with ProcessPoolExecutor(max_workers=int(os.environ.get("JOBS", "2"))) as pool:
        draws = list(pool.map(partial(_draw, make, disturbance), range(seeds), chunksize=5))
    z = np.concatenate(draws)
    return float(np.mean(np.abs(z) < 1.96)), float(np.sqrt(np.mean(z**2)))


def _draw(make: Callable[[], Twin], disturbance: float, seed: int) -> np.ndarray:
    """Errors over standard errors of the parameters that carry one."""
    twin = make()
    found = twin.fit([twin.recording(disturbance, seed)]).solve()
    pairs = [(found[name].estimate - value, found[name].std_err) for name, value in twin.truth.items()]
    return np.array([off / error for off, error in pairs if np.isfinite(error)])


def prior() -> Iterator[str]:
    """Lines on a prior that sets the scale."""
    yield "## A prior sets the scale: mass, inertia, friction and gain unknown, m = 0.2 ± 0.02"
    yield ""
    rows = []
    for known in (True, False):
        twin = free_scale(known)
        for disturbance in (0.0, 1e-4, 1e-3):
            problem = twin.fit([twin.recording(disturbance, 0)])
            found = problem.solve()
            values = [f"{_value(found, name)} ({_errors(found, name, truth)})" for name, truth in twin.truth.items()]
            weak = [_weak(s) for s in (a_priori(assemble(problem)).sensitivities, found.sensitivities)]
            rows.append(["0.2 ± 0.02" if known else "none", f"{disturbance:g}", *values, *weak])
    truth = [f"{name} = {value:g}" for name, value in free_scale(True).truth.items()]
    yield from _table(
        ["prior of m", "process noise", *truth, "unidentifiable before the solve", "after the solve"], rows
    )


def _weak(known: Sensitivities) -> str:
    """Directions of which the data say nothing."""
    return "; ".join(" ".join(w.direction) for w in known.weak if w.singular_value < UNSEEN)


def times() -> Iterator[str]:
    """Lines on the time of a default solve."""
    problem = load_problem(PROBLEMS / "furuta_release.py")
    yield "## Time of a default solve, one thread"
    yield ""
    assert isinstance(problem, Problem)
    weighted = problem.with_(state_weight=1e6, step_correction=False)
    weighted.solve()
    loop = min(weighted.solve().times.solve for _ in range(5))
    for title, corrects in (("as it ships, with the discretization bias removed", True), ("with one step", False)):
        default = problem.with_(step_correction=corrects)
        default.solve()
        whole = min(_timed(default)[1] for _ in range(5))
        yield f"- A fit of `furuta_release` {title} takes {1000 * whole:.0f} ms, {whole / loop:.1f} times a"
        yield "fit at a given weight."
    yield f"- A fit at a given weight takes {1000 * loop:.0f} ms."
    yield ""


def _timed(problem: Problem) -> tuple[Solution, float]:
    began = time.perf_counter()
    found = problem.solve()
    return found, time.perf_counter() - began


def _value(found: Solution, name: str) -> str:
    estimate = found[name]
    return (
        f"{estimate.estimate:.5g} ± {estimate.std_err:.2g}"
        if np.isfinite(estimate.std_err)
        else f"{estimate.estimate:.5g}"
    )


def _off(found: Solution, name: str, reference: float) -> str:
    return f"{100 * (found[name].estimate / reference - 1):+.2f} %"


def _errors(found: Solution, name: str, truth: float) -> str:
    z = (found[name].estimate - truth) / found[name].std_err
    return f"{z:+.1f}" if np.isfinite(z) else "no error"


def _noise(found: Solution) -> str:
    return ", ".join(f"{' and '.join(n.names)} {n.std:.2g} {n.unit}" for n in found.noise)


def _agreement(found: Sequence[Solution], name: str) -> str:
    """Root mean square of the differences from the weighted mean, over the standard errors."""
    pairs = np.array([(s[name].estimate, s[name].std_err) for s in found])
    pairs = pairs[np.isfinite(pairs[:, 1])]
    weights = 1 / pairs[:, 1] ** 2
    mean = weights @ pairs[:, 0] / weights.sum()
    return f"{np.sqrt(np.sum(((pairs[:, 0] - mean) / pairs[:, 1]) ** 2) / max(len(pairs) - 1, 1)):.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def main() -> None:
    """Write the page, or print one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    if given.only in (None, "measured", "weight") and "SPOOKID_DATA" not in os.environ:
        parser.error("measured devices are fitted: set SPOOKID_DATA to the folder that holds their data")
    makers = measured, weights, coverage, truth_continuous.parts, truth_misfit.part, prior, times
    parts = {
        name: partial(maker, given.seeds) if name in SEEDED else maker
        for name, maker in zip(PARTS, makers, strict=True)
    }
    if given.only:
        print("\n".join(parts[given.only]()))
        return
    lines = [
        "# Accuracy of estimates and standard errors",
        "",
        "Made by `python results/truth.py`.",
        "",
    ]
    lines += [line for part in parts.values() for line in part()]
    (HERE / "truth.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
