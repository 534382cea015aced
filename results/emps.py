"""The positioning system EMPS beside its published values: `python results/emps.py` writes emps.md.

Needs `SPOOKID_DATA`. Beside the fits stand two regressions that share nothing with the package: least squares on
filtered derivatives, as the published values were found, and the likelihood of the same steps written out for this one
mass, which is the same least squares with one term more. Half a minute.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.signal import butter, filtfilt

from spookid import Problem, Solution, load_problem

HERE = Path(__file__).parent
FILE = HERE.parent / "problems" / "emps.py"
NAMES = {
    "symmetric": ("M", "F_v", "F_c", "offset"),
    "by_direction": ("M", "F_v_forward", "F_v_backward", "F_c_forward", "F_c_backward"),
}
PUBLISHED = {"symmetric": (95.109, 203.50, 20.394, -3.165), "by_direction": (95.154, 166.71, 240.42, 20.144, 20.628)}
GAIN, TICK = 35.1507, 1e-3  # N/V; s between samples
WIDTH = 9e-4  # m/s, of smooth friction: the default of the fits, 1 % of the rms rate

Array = np.ndarray


def record() -> tuple[Array, Array]:
    """Position [m] and force of the drive [N]."""
    with np.load(Path(os.environ["SPOOKID_DATA"]) / "emps" / "DATA_EMPS.npz") as archive:
        return archive["qm"].ravel(), GAIN * archive["vir"].ravel()


def regressors(law: str, acceleration: Array, rate: Array, sign: Array) -> Array:
    """What the force is linear in, (n, parameters)."""
    if law == "symmetric":
        return np.column_stack([acceleration, rate, sign, np.ones_like(rate)])
    ahead, behind = (1 + sign) / 2, (1 - sign) / 2
    return np.column_stack([acceleration, rate * ahead, rate * behind, ahead, -behind])


def filtered(law: str, decimation: int = 10, cutoff: float = 100.0) -> Array:
    """Least squares on derivatives of the filtered position, everything filtered once more and thinned out."""
    q, force = record()
    q = filtfilt(*butter(4, 2 * cutoff * TICK), q)
    rate = np.gradient(q, TICK)
    A = regressors(law, np.gradient(rate, TICK), rate, np.sign(rate))[50:-50]
    force = force[50:-50]
    if decimation > 1:
        low = butter(4, 0.8 / decimation)
        A, force = filtfilt(*low, A, axis=0)[::decimation], filtfilt(*low, force)[::decimation]
    return np.asarray(np.linalg.lstsq(A, force, rcond=None)[0])


def mean_sign(before: Array, after: Array, width: float) -> Array:
    """Mean of tanh(s/w) over rates from one to the other."""
    rise = width * (np.logaddexp(after / width, -after / width) - np.logaddexp(before / width, -before / width))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = rise / (after - before)
    return np.where(np.abs(after - before) < 1e-9, np.tanh((before + after) / 2 / width), mean)


def stepped(
    law: str, ticks: int, *, normalized: bool = True, averaged: bool = True, width: float = WIDTH
) -> tuple[Array, float]:
    """Regression of the force on differences of the position over steps of so many samples, and its rms residual [N].

    Args:
        normalized: True with the determinant that makes it a likelihood of the next position, errors of the encoder
            being nothing.
        averaged: True if the force, held from sample to sample, is averaged over a step; False if it is taken where a
            step begins.
    """
    q, force = record()
    step, q = ticks * TICK, q[::ticks]
    v = np.diff(q) / step
    rate, acceleration = (v[1:] + v[:-1]) / 2, np.diff(v) / step
    A = regressors(law, acceleration, rate, mean_sign(v[:-1], v[1:], width))
    if law == "by_direction":
        A[:, 1:3] = np.column_stack([rate * (1 + side * np.tanh(rate / width)) / 2 for side in (1, -1)])
    middle = np.arange(1, len(q) - 1) * ticks
    hat = 1 - np.abs(np.arange(-ticks, ticks) + 0.5) / ticks
    force = sum(w * force[middle + i - ticks] for i, w in enumerate(hat / hat.sum())) if averaged else force[middle]
    found = np.linalg.lstsq(A, force, rcond=None)[0]
    if normalized:
        scale = np.abs(found)

        def cost(relative: Array) -> float:
            x = relative * scale
            friction = x[1] if law == "symmetric" else np.where(rate > 0, x[1], x[2])
            determinant = np.sum(np.log(x[0] / step + friction / 2 + 0 * rate))
            return float(len(force) * np.log(np.sum((force - A @ x) ** 2)) - 2 * determinant)

        found = minimize(cost, found / scale, method="BFGS", options={"gtol": 1e-3}).x * scale
    return found, float(np.std(force - A @ found))


def fit(law: str, **settings: object) -> Solution:
    """By its problem file."""
    problem = load_problem(f"{FILE}::{law}")
    assert isinstance(problem, Problem)
    return problem.solve(**settings)


def table(law: str) -> Iterator[str]:
    """One friction law."""
    names = NAMES[law]
    units = {parameter.name: parameter.unit for parameter in load_problem(f"{FILE}::{law}").parameters}
    yield f"| | {' | '.join(f'{name} [{units[name]}]' for name in names)} | disturbance [N] |"
    yield "|---" * (len(names) + 2) + "|"
    yield row("published, least squares", PUBLISHED[law])
    fits: dict[str, dict[str, object]] = {
        "**spookid, h = 1 ms**": {"step": 0.001},
        "**spookid, h = 5 ms**": {},
        "the same from M = 10 kg": {"initial": {"M": 10.0}},
        "the same from M = 1000 kg": {"initial": {"M": 1000.0}},
        "h = 1 ms, not extrapolated to h = 0": {"step": 0.001, "step_correction": False},
    }
    for title, settings in fits.items():
        found = fit(law, **settings)
        cells = " | ".join(
            f"{found[name].estimate:.5g}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{found[name].std_err:.2g}"
            for name in names
        )
        yield f"| {title} | {cells} | {found.noise[0].std:.2f} |"
    by_hand = "likelihood of the steps by hand"
    regressions: dict[str, Callable[[], tuple[Array, float]]] = {
        f"{by_hand}, h = 1 ms": lambda: stepped(law, 1),
        f"{by_hand}, h = 5 ms": lambda: stepped(law, 5),
        "the same, width of friction 0.1 mm/s": lambda: stepped(law, 5, width=1e-4),
        "the same, width of friction 3 mm/s": lambda: stepped(law, 5, width=3e-3),
        "without its determinant, h = 1 ms": lambda: stepped(law, 1, normalized=False),
        "without its determinant, h = 5 ms": lambda: stepped(law, 5, normalized=False),
        "nor the mean of the force, h = 5 ms": lambda: stepped(law, 5, normalized=False, averaged=False),
    }
    for title, regression in regressions.items():
        yield row(title, *regression())
    for decimation in (10, 1, 20, 50):
        thinned = f"every {decimation}th sample" if decimation > 1 else "all samples"
        yield row(f"least squares on filtered derivatives, {thinned}", filtered(law, decimation))
    yield ""


def row(title: str, values: object, residual: float = np.nan) -> str:
    """Of numbers."""
    cells = " | ".join(f"{value:.5g}" for value in values)  # type: ignore[attr-defined]
    return f"| {title} | {cells} | {'' if np.isnan(residual) else f'{residual:.2f}'} |"


TEXT = """\
# A positioning system in closed loop: EMPS

Mass, friction and offset of the Electro-Mechanical Positioning System (Janot, Gautier, Brunot 2019) by
`problems/emps.py`: position of the load and signal of the drive, nothing weighted, nothing filtered, the closed loop
found and not declared. This page is made by `python results/emps.py`.

"""
WHY = """\
## Where the two differ, and why

All differences are within the standard errors. They have three causes, each of which stands in a row of its own.

**Which side the errors are on (M).** The encoder errs by 20 nm, which is as much as 4.7 N in second differences over 1
ms and next to nothing over 5 ms; the rest of what is left over disturbs the carriage. Least squares fit the force to
accelerations that were differentiated from positions, and both are in these accelerations too: the estimate is too
small by the share (residual/inertial force)², 2.5 % for unfiltered differences over 1 ms and 0.3 % over 5 ms ("without
its determinant"). The likelihood knows that the next position is what is random; its determinant, M/h + F_v/2 at each
step, makes up for that, and 1 and 5 ms agree to 0.04 %. Filters take the share away instead: with every 10th sample
least squares are as published, with every 50th 0.5 % lower, for that filter cuts into the motion. Written out for this
one mass, without an error of the encoder, the likelihood over 1 ms gives what spookid gives without its extrapolation
to the step 0: M to 0.001 %, friction to 0.1 %.

**When the force acts (M).** The drive holds its signal from sample to sample. A force that is not averaged over a step
is half a step too early or late against the motion: 0.6 % of M at 5 ms. Fits average it; the published least squares
take the samples as they are.

**What friction does as it turns (F_v, F_c).** F_v and F_c can hardly be told apart by a carriage that moves at 0.04 to
0.12 m/s for most of the time: F_c + 0.1 F_v is 40.85 N by every likelihood here, and 40.74 N as published. What tells
them apart is the way through rest, where the law fits worst (5 N at low rates is what the summary misses most). The
filter of least squares smears that way: with all samples they give 204.7 and 20.28, with every 10th 203.1 and 20.43,
with every 50th 201.9 and 20.56. A width of friction of 0.1 or 3 mm/s does more than that to the likelihood. The
standard error of F_v, 7.8 N s/m, says so; by direction, where the law fits better, it is 2.3 forwards, and the
disturbance is a sixth to a quarter smaller.

An offset and Coulomb friction by direction are one thing: (F_c_forward − F_c_backward)/2 is −0.3 N. That the symmetric
law has an offset of −3.2 N is its answer to viscous friction, which at 0.1 m/s differs by 7 N between the directions.
"""


def main() -> None:
    """Write the page."""
    lines = [TEXT, "## One friction law for both directions", "", *table("symmetric")]
    lines += ["## Friction by direction", "", *table("by_direction"), WHY]
    (HERE / "emps.md").write_text("\n".join(lines).replace("\n\n\n", "\n\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
