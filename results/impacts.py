"""Restitution and friction from impacts by schedule: `python results/impacts.py` writes impacts.md and impacts.png.

The data are two simulated mechanisms: a pendulum that swings against a stop, and a thrown bar that hits the ground with
one end and slides on it. SciPy integrates both mechanisms between the impacts (`tests/impact_twins.py`), with white
random forces. The motion is sampled every 10 ms with noise of 0.5 mm and 0.5 mrad; the given impact times are rounded
to the nearest sample.
"""

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from impact_twins import BAR, HALF, SWING, Twin, bar, bar_twin, swing, swing_twin

HERE = Path(__file__).parent
SMALL = {"fontsize": 8, "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}}
SEEDS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
COUNTS = (1, 3, 10)


def throws() -> Iterator[Twin]:
    """Of the bar, with one impact each on which it slides."""
    seed = 0
    while True:
        if twin := bar_twin(1, seed):
            yield twin
        seed += 1


def swings(count: int) -> Iterator[Twin]:
    """Of the pendulum, with so many impacts."""
    seed = 0
    while True:
        if twin := swing_twin(count, seed):
            yield twin
        seed += 1


def row(what: str, problems: Iterator, truth: dict[str, float]) -> tuple[str, np.ndarray]:
    """A line of the table, and errors over their standard errors, (seeds, parameters)."""
    errors, sizes, seconds, failed = [], [], [], 0
    for problem in islice(problems, SEEDS):
        began = time.process_time()
        solution = problem.solve(estimator="noise")
        seconds.append(time.process_time() - began)
        found = [solution[name] for name in truth]
        failed += solution.status.value != "converged" or any(
            finding.code == "contacts.schedule" for finding in solution.findings
        )
        errors.append([(e.estimate - t) / e.std_err for e, t in zip(found, truth.values(), strict=True)])
        sizes.append([e.std_err for e in found])
    z, typical = np.array(errors), np.median(sizes, axis=0)
    parameters = ", ".join(f"{n} ± {s:.1g}" for n, s in zip(truth, typical, strict=True))
    covered, far = 100 * np.mean(np.abs(z) < 1.96), np.max(np.abs(z))
    cells = what, len(z), parameters, f"{covered:.0f} %", f"{np.mean(np.abs(z) < 3) * 100:.0f} %", f"{far:.1f}", failed
    line = "| " + " | ".join(map(str, (*cells, f"{np.median(seconds):.1f}"))) + " |"
    print(line, flush=True)
    return line, z


def left_out() -> list[str]:
    """What fits say whose schedule lacks an impact."""
    lines = []
    for what, twin, problem in (
        ("swing, second of 3", (one := next(swings(3))), swing(one, left_out=1)),
        ("throw, first of 2", (two := bar_twin(2, 4)), bar([two], left_out=0)),
        ("throw, second of 2", two, bar([two], left_out=1)),
    ):
        findings = problem.solve(estimator="noise").findings
        told = next((finding.text for finding in findings if finding.code == "contacts.schedule"), "nothing")
        truth = ", ".join(f"{t:.4f}" for t in sorted(t for own in twin.times for t in own))
        lines.append(f"- {what} (impacts at {truth} s): {told}")
        print(lines[-1], flush=True)
    return lines


def drawn(twin: Twin) -> None:
    """Heights and vertical velocities of a thrown bar's ends, and the reset maps that the fit has found."""
    problem = bar([twin])
    solution = problem.solve(estimator="noise")
    motion, figure = solution.trajectories[0], Figure(figsize=(9, 6.5), layout="constrained", dpi=130)
    places, rates = figure.subplots(2, 1, sharex=True)
    for end, color in enumerate(("tab:blue", "tab:orange")):
        z, angle = motion.predicted[:, 1], motion.predicted[:, 2]
        sign = 2 * end - 1
        own = [one for one in problem.impacts(solution) if one.impact == f"end {end}"]
        height = z + sign * HALF * np.sin(angle)
        shown = motion.observed[:, 1] + sign * HALF * np.sin(motion.observed[:, 2])
        places.plot(motion.t, 1e3 * height, color=color, lw=1, label=f"end {end}, estimated")
        places.plot(motion.t, 1e3 * shown, ".", color=color, ms=4, label=f"end {end}, from samples")
        middle = (motion.t[1:] + motion.t[:-1]) / 2
        rates.plot(middle, np.diff(height) / np.diff(motion.t), ".-", color=color, lw=0.6, ms=4, label=f"end {end}")
        for one in own:
            places.axvline(one.time, color=color, lw=0.8, ls=":")
            rates.plot([one.time] * 2, [one.before[2], one.after[2]], "k_-", ms=10, lw=1.5)
            words = f"{one.before[2]:.2f} to {one.after[2]:.2f} m/s\n{one.impulse[0]:.2f} N s"
            rates.annotate(words, (one.time, one.after[2]), xytext=(8, -34), textcoords="offset points", **SMALL)
    places.axhline(0, color="0.6", lw=0.8)
    places.set(ylabel="height [mm]")
    places.set_title(_title(solution), fontsize=10)
    rates.set(ylabel="vertical velocity [m/s]", xlabel="time [s]")
    for axes in (places, rates):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(HERE / "impacts.png")


def _title(solution) -> str:
    told = (f"{n} = {solution[n].estimate:.4f} ± {solution[n].std_err:.4f} (true {t:g})" for n, t in BAR.items())
    return "A thrown bar that hits twice with one end: " + ", ".join(told)


def page(rows: list[str], total: str, missed: list[str]) -> str:
    """The text of impacts.md."""
    head = "| motion, impacts | fits | median standard errors | inside 95 % | within 3 errors | largest [errors] "
    text = [
        "# Impacts by schedule",
        "",
        *(__doc__ or "").split("\n\n", 1)[1].strip().split("\n"),
        ("The true values are e = 0.8 and b = 0.004 N m s for the pendulum, and e = 0.6 and μ = 0.12 for the bar."),
        "",
        f"{head}| failed, or warned wrongly | CPU [s] |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"{total}.",
        "",
        "If the schedule lacks an impact, the fit prints these warnings:",
        "",
        *missed,
        "",
        "![A fit](impacts.png)",
    ]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    drawn(bar_twin(2, 4))
    missed = left_out()
    lines, scores = zip(*(row(f"swing, {n}", map(swing, swings(n)), SWING) for n in COUNTS), strict=True)
    source = throws()
    for n in COUNTS:
        line, z = row(f"throws, {n}", (bar(list(islice(source, n))) for _ in iter(int, 1)), BAR)
        lines, scores = (*lines, line), (*scores, z)
    pooled = np.abs(np.concatenate([z.ravel() for z in scores]))
    total = f"Of all {len(pooled)} intervals of 95 %, {100 * np.mean(pooled < 1.96):.0f} % contain the true value"
    print(total)
    (HERE / "impacts.md").write_text(page(list(lines), total, missed), encoding="utf-8")
