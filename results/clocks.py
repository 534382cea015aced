"""What samples at their own times and delays as parameters give, as the page `clocks.md`.

    python results/clocks.py [--seeds 10] [--out results/clocks.md]

Twins are integrated without any part of spookid (`continuous_twins.py`, DOP853 at 1e-12); the Qube is measured, and its
data are found by SPOOKID_DATA.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import continuous_twins as exact
import numpy as np
import truth_twins
from continuous_twins import Array

from spookid import (
    HingeAngle,
    Model,
    Motor,
    Observation,
    Parameter,
    Problem,
    Recording,
    Solution,
    Variational,
    load_problem,
)

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "problems"))
SIGMA = 1e-3
"""Noise of every angle [rad]."""
COMMANDS = 0.002
"""Between samples of a command [s]."""
GAIN, LATE, OFF = 0.1, 0.006, 0.02
"""Of the twin: motor gain [N m/V], delay of its signal [s], offset of the rod's angle [rad]."""


def command(t: Array) -> Array:
    """Three tones [V]."""
    return np.asarray(
        2 * np.sin(2 * np.pi * 0.6 * t) + 1.5 * np.sin(2 * np.pi * 1.7 * t + 1) + np.sin(2 * np.pi * 3.1 * t)
    )


def late_furuta() -> tuple[Problem, dict[str, float], Array]:
    """A driven Furuta pendulum whose motor is late and whose rod is measured with an offset."""
    twin = truth_twins.furuta(0.01, Variational())
    t, law = np.arange(0.0, 10.0, COMMANDS), exact.furuta(**twin.truth)
    torque = lambda s: np.array([GAIN * (command(s - LATE) if s >= LATE else command(np.array(0.0))), 0.0])  # noqa: E731
    q = exact.forced(law, np.array([0.0, twin.initial["elbow"]]), t, torque, COMMANDS)
    truth = {**twin.truth, "K": GAIN, "late": LATE, "off": OFF}
    K, late = Parameter("K", 0.05, unit="N m/V"), Parameter("late", 0.0, lower=-0.05, upper=0.05, unit="s")
    off = Parameter("off", 0.0, lower=-0.2, upper=0.2, unit="rad")
    model, (shoulder, elbow) = twin.problem.model, twin.problem.model.joints
    model = Model(model.bodies, model.joints, [Motor(shoulder, "u", gain=K, delay=late)], gravity=model.gravity)
    sensors = [
        HingeAngle(shoulder, "theta1"),
        Observation(lambda s: s.angle(elbow) + off, "theta2", period=2 * math.pi, unit="rad"),
    ]
    return twin.problem.with_(name="late", model=model, observations=sensors), truth, q


def noisy(q: Array, seed: int) -> Recording:
    t = COMMANDS * np.arange(len(q))
    theta = q + np.array([0.0, OFF]) + np.random.default_rng(seed).normal(0.0, SIGMA, q.shape)
    return Recording(t, {"u": command(t), "theta1": theta[:, 0], "theta2": theta[:, 1]}, f"seed {seed}")


def delays(seeds: int) -> Iterator[str]:
    problem, truth, q = late_furuta()
    guess = {
        name: value * (2.0, 0.5)[i % 2] for i, (name, value) in enumerate(truth.items()) if name not in ("late", "off")
    }
    found = [problem.with_(recordings=[noisy(q, seed)], initial=guess).solve() for seed in range(seeds)]
    yield "| parameter | truth | mean error | largest error | mean standard error | intervals with the true value |"
    yield "|---|---|---|---|---|---|"
    covered = 0
    for name, value in truth.items():
        off = np.array([s[name].estimate - value for s in found])
        errors = np.array([s[name].std_err for s in found])
        inside = int(np.sum(np.abs(off) <= 1.96 * errors))
        covered += inside
        yield (
            f"| {name} | {value:g} | {off.mean():+.2g} | {np.abs(off).max():.2g} | {errors.mean():.2g} "
            f"| {inside} of {seeds} |"
        )
    iterations, seconds = np.mean([s.iterations for s in found]), np.mean([s.timing.total for s in found])
    yield ""
    whole = seeds * len(truth)
    yield (
        f"Of {whole} intervals of 95 %, {covered} contain the true value; a fit takes {iterations:.0f} "
        f"iterations and {seconds:.1f} s."
    )


def qube() -> Iterator[str]:
    from furuta_swingup import K, swingup

    folder = Path(os.environ.get("SPOOKID_DATA", ROOT.parent / "shared/data")) / "furuta-qube-swingup"
    late = Parameter("late", 0.0, lower=-0.02, upper=0.03, unit="s")
    base = swingup("swingup_250hz_1")
    axle = base.model.joints[0]
    model = Model(
        base.model.bodies, base.model.joints, [Motor(axle, "u", gain=K, delay=late)], gravity=base.model.gravity
    )
    names = [f"chirp_{way}_{i}" for way in ("pos", "neg") for i in (1, 2)]
    runs = {}
    for name in names:
        with np.load(folder / f"{name}.npz") as a:
            signals = {"theta": a["theta"][:-1], "alpha": a["alpha"][:-1], "u": a["u_applied"]}
            runs[name] = Recording(a["t"][:-1], signals, name)
    yield "| recordings | h [ms] | delay [ms] | K [N m/V] | arm's inertia [kg m²] | status |"
    yield "|---|---|---|---|---|---|"
    for chosen in (*([name] for name in names), names):
        for step in (0.004, 0.008):
            s = base.with_(name="chirp", model=model, recordings=[runs[n] for n in chosen], step=step).solve()
            d, k, j = (s[name] for name in ("late", "K", "J_arm"))
            title = chosen[0] if len(chosen) == 1 else "all four"
            yield (
                f"| {title} | {1e3 * step:g} | {1e3 * d.estimate:.2f} ± {1e3 * d.std_err:.2f} | {k.estimate:.5f} ± "
                f"{k.std_err:.5f} | {j.estimate:.3e} ± {j.std_err:.1e} | {s.status.value} |"
            )


def every_sample() -> Iterator[str]:
    problem = load_problem(ROOT / "problems/furuta_release.py")
    step = problem.step
    found: list[Solution] = [problem.with_(every=every).solve() for every in (1, None)]
    yield "| parameter | at the steps alone | every sample | ratio of standard errors |"
    yield "|---|---|---|---|"
    for name, one in found[0].parameters.items():
        other = found[1][name]
        if one.std_err > 0 and other.std_err > 0:
            yield (
                f"| {name} | {one.estimate:.5g} ± {one.std_err:.2g} | {other.estimate:.5g} ± {other.std_err:.2g} "
                f"| {one.std_err / other.std_err:.2f} |"
            )
    share = step / float(np.median(np.diff(problem.recordings[0].t)))
    yield ""
    yield (
        f"There are {share:.0f} samples per time step, so that the expected reduction of the standard "
        f"errors is √{share:.0f} = {math.sqrt(share):.2f}."
    )


SECTIONS: dict[str, tuple[str, Callable[[int], Iterable[str]]]] = {
    "samples": ("Every sample counts: furuta_release", lambda _: every_sample()),
    "delays": ("A motor delay of 6 ms and a sensor offset of 0.02 rad", delays),
    "qube": ("The delay of the Qube's motor (measured)", lambda _: qube()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=SECTIONS, nargs="*")
    parser.add_argument("--out", type=Path, default=ROOT / "results/clocks.md")
    given = parser.parse_args()
    lines = [
        "# Samples at their own times, and delays",
        "",
        f"The command `python results/clocks.py --seeds {given.seeds}` writes this page.",
    ]
    for key, (title, rows) in SECTIONS.items():
        if given.only is None or key in given.only:
            lines += ["", f"## {title}", "", *rows(given.seeds)]
    given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
