"""Friction and inertia of measured joints: `python results/bayesian_measured.py` writes bayesian_measured.md.

Needs `SPOOKID_DATA`. Four legs of one robot, which ought to be alike, and a double pendulum of two designs beside what
its authors found. Some minutes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from alike import beside, cell, ratio, warned

from spookid import Problem, Solution, load_problem

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
LEGS = ("FL", "FR", "RL", "RR")
# The authors' values of models 2.0 (A.0) and 1.0 (C.1): D = m1 r1 + m2 l1, E = m2 r2, A = I1 + m2 l1^2 + rotor, B = I2
# + rotor; Coulomb friction is pi/2 times their cf.
AUTHORS = {"A0": (0.349, 0.111, 0.111, 0.0267, 0.146, 0.123), "C1": (0.230, 0.160, 0.0592, 0.0531, 0.251, 0.188)}
# Least squares on derivatives after a filter of 10 Hz, one record with tracking each, as the data's README has it.
REGRESSION = {"A0": (0.345, 0.118, 0.1094, 0.0247), "C1": (0.183, 0.151, 0.0469, 0.0422)}


def legs() -> Iterator[str]:
    """Estimates of the four legs side by side, and how likely legs that are alike would differ as much."""
    # Steps are left in: legs compare with one another.
    fits = {
        leg: faster(load_problem(f"{PROBLEMS / 'go2_legs.py'}::{leg}")).solve(step_correction=False) for leg in LEGS
    }
    yield from beside(fits)
    yield ""
    rotors = [fit["I_thigh"] for fit in fits.values()]
    errors = sorted(100 * one.std_err / one.estimate for one in rotors)
    yield (
        f"The largest estimate divided by the smallest is {ratio(fits.values(), 'c_hip'):.2g} for the Coulomb friction "
        f"of the hips, {ratio(fits.values(), 'c_thigh'):.2g} for the thighs and "
        f"{ratio(fits.values(), 'c_calf'):.2g} for the calves. It is {ratio(fits.values(), 'I_thigh'):.2g} for the "
        f"rotor inertias of the thighs, with standard errors of {errors[0]:.0f} to {errors[-1]:.0f} %."
    )
    yield "\nThe fits warn:\n"
    yield from warned(fits)


def faster(problem: Problem) -> Problem:
    """With the second half of its record."""
    whole = problem.recordings[0]
    middle = float(whole.t[0] + whole.t[-1]) / 2
    return problem.with_(recordings=[whole.between(middle, float("inf"))])


NAMES = ("D", "E", "A", "B", "c_1", "c_2")


def found(fit: Solution) -> Iterator[tuple[float, float]]:
    """D, E, A, B and Coulomb friction of both joints, each with its standard error."""
    yield from ((fit[name].estimate, fit[name].std_err) for name in NAMES)


def pendulum() -> Iterator[str]:
    """Two designs, by tracking and open loop, beside the authors' and a regression."""
    yield "| design, records | D [kg m] | E [kg m] | A [kg m²] | B [kg m²] | Coulomb 1 [N m] | Coulomb 2 [N m] |"
    yield "|---|---|---|---|---|---|---|"
    summary, fits, larger = [], {}, []
    for design, authors in AUTHORS.items():
        errors = []
        for kind in ("tracking", "open"):
            fit = load_problem(f"{PROBLEMS / 'dfki_double_pendulum.py'}::{design}_{kind}").solve()
            fits[f"{design}, {kind}"] = fit
            pairs = list(found(fit))
            errors.append(np.array(pairs)[:4, 1])
            away = [(value - other) / error for (value, error), other in zip(pairs, authors, strict=True)]
            yield f"| {design}, {kind} | " + " | ".join(cell(*pair) for pair in pairs) + " |"
            told = (f"{one:+.1f}" if abs(one) < float("inf") else "" for one in away)
            yield f"| less the authors', in standard errors | {' | '.join(told)} |"
            summary.append(_judged(design, kind, away))
        larger.append(f"{np.median(errors[1] / errors[0]):.2g} times for {design}")
        yield f"| {design}, the authors' | " + " | ".join(f"{value:g}" for value in authors) + " |"
        yield (
            f"| {design}, a regression, tracking | "
            + " | ".join(f"{value:g}" for value in REGRESSION[design])
            + " | | |"
        )
    yield "\n" + "\n".join(summary)
    yield (
        "\nStandard errors of D, E, A and B in open loop, over those with tracking control, are in the median "
        f"{' and '.join(larger)}. The fits warn:\n"
    )
    yield from warned(fits)


def _judged(design: str, kind: str, away: list[float]) -> str:
    """A sentence of what is more than two standard errors from the authors' values."""
    apart = [f"{name} ({one:+.1f})" for name, one in zip(NAMES, away, strict=True) if 2 < abs(one) < float("inf")]
    held = [name for name, one in zip(NAMES, away, strict=True) if not abs(one) < float("inf")]
    words = f"- {design}, {kind}: more than two standard errors from the authors' values are {', '.join(apart)}."
    if not apart:
        words = f"- {design}, {kind}: all estimates with a standard error are within two of the authors' values."
    return words + f" {', '.join(held)}: at a bound." * bool(held)


PAGE = """# Friction and inertia of measured joints

The command `python results/bayesian_measured.py` (with `SPOOKID_DATA` set) writes this page.

## Four legs of one robot (Go2)

The robot was suspended in the air and tracked reference motions by position control with known gains; only the angles
are measured. The fits of the four legs are independent. All use the same model and the faster half of the recording;
right legs are mirrored. The timestamps of the published log are counted samples. The sampling times are estimated from
the residual motion below 40 Hz that all twelve joints have in common, in proportion to their rates (`stamps` in
`problems/data/convert.py`). They differ from the timestamps by half a millisecond rms, against 0.04 ms for synthetic
data with true timestamps and the same references (both manual tests). The sampling times are estimated from the same
angles as the parameters, and the standard errors do not include their uncertainty. The last columns are the root of
χ²/3 and the probability that identical legs differ as much as these estimates (chi-squared test, standard errors of
the fits). The centres of mass share a prior of ± 0.01 m, which makes the legs more alike.

{legs}

{remark_legs}

## Double pendulum (DFKI)

The torques reported by the drives are inputs; their errors are part of the process noise. The parameters are D = m₁r₁ +
m₂l₁, E = m₂r₂, and the inertias A and B about the joints, including the rotors. The authors' values come from least
squares and are not true values.

{pendulum}

{remark_pendulum}
"""
REMARK_LEGS = """**Possible causes.** An unmodelled effect makes the standard errors too small. Gears of one type may
differ in Coulomb friction. Constant torques compensate for a part of the friction error. Stiction and the linkage of
the knee are not in the model. The gains of the drives are taken from a program and were not recorded with the data.
None of these causes was verified."""
REMARK_PENDULUM = """The fit estimates D, E, A and B directly, without priors. The regression is least squares on
derivatives after a filter of 10 Hz, on the same recording with tracking control. A parameter at its bound is not
identified beside the others, such as Coulomb friction beside a constant torque."""


def main() -> None:
    """Writes the page."""
    parts = {part.__name__: "\n".join(part()) for part in (legs, pendulum)}
    page = PAGE.format(**parts, remark_legs=REMARK_LEGS, remark_pendulum=REMARK_PENDULUM)
    (HERE / "bayesian_measured.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
