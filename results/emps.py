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
    yield f"| | {' | '.join(f'{name} [{units[name]}]' for name in names)} | process noise [N] |"
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

`problems/emps.py` estimates mass, friction and force offset of the Electro-Mechanical Positioning System (Janot,
Gautier, Brunot 2019). The data are the position of the load and the drive signal, without weights and filters; the
feedback control is detected and not declared. The command `python results/emps.py` writes this page.

"""
WHY = """\
## Causes of the differences

All differences from the published values are within the standard errors. The differences have three causes, and the
table shows each in a separate row.

**Errors of the accelerations (M).** The encoder has an error of 20 nm. This error corresponds to 4.7 N in second
differences over 1 ms, but to almost nothing over 5 ms; the other residuals are a random force on the carriage. Least
squares fit the force to accelerations that were differentiated from positions, and these accelerations contain both
errors. The estimate is too small by the fraction (residual/inertial force)². This is 2.5 % for unfiltered differences
over 1 ms and 0.3 % over 5 ms ("without its determinant"). The likelihood takes into account that the next position is
random. Its determinant, M/h + F_v/2 at each step, compensates for this bias, and the estimates with 1 and 5 ms agree to
0.04 %. Filters reduce this bias, too. With every 10th sample, least squares give the published value; with every 50th
sample the estimate is 0.5 % lower, because the filter suppresses a part of the motion. As a check, the likelihood over
1 ms was written out for this mass, without encoder error. It gives the same values as spookid without extrapolation to
step zero: M to 0.001 %, friction to 0.1 %.

**Time at which the force acts (M).** The drive keeps its signal constant between samples. A force that is not averaged
over a step acts half a step too early or too late, which changes M by 0.6 % at 5 ms. spookid averages the force over
the step; the published least-squares fit uses the samples directly.

**Friction near rest (F_v, F_c).** F_v and F_c are strongly correlated, because the carriage moves at 0.04 to 0.12 m/s
for most of the time. The sum F_c + 0.1 F_v is 40.85 N with every likelihood of this page, and 40.74 N as published.
Only the motion near rest separates F_v and F_c. There the friction law fits worst (the summary reports a friction error
of 5 N at low rates). The filter of the least-squares fit smooths the motion near rest. With all samples F_v and F_c are
204.7 and 20.28, with every 10th sample 203.1 and 20.43, and with every 50th sample 201.9 and 20.56. With a friction
width of 0.1 or 3 mm/s, the likelihood estimates of F_v and F_c change by more than these differences. The standard
error of F_v, 7.8 N s/m, shows this uncertainty. With friction by direction, which fits better, the standard error is
2.3 N s/m in the forward direction, and the process noise is a sixth to a quarter smaller.

An offset of the force and Coulomb friction by direction are equivalent: (F_c_forward − F_c_backward)/2 is −0.3 N. The
symmetric friction law has an offset of −3.2 N, because viscous friction differs by 7 N between the directions at 0.1
m/s.
"""


def main() -> None:
    """Write the page."""
    lines = [TEXT, "## One friction law for both directions", "", *table("symmetric")]
    lines += ["## Friction by direction", "", *table("by_direction"), WHY]
    (HERE / "emps.md").write_text("\n".join(lines).replace("\n\n\n", "\n\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
