"""Friction and inertia of measured joints: `python results/bayesian_measured.py` writes bayesian_measured.md.

Needs `SPOOKID_DATA`. Four legs of one robot, which ought to be alike, and a double pendulum of two designs beside what
its authors found. Some minutes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from spookid import Problem, Solution, load_problem

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
LEGS = ("FL", "FR", "RL", "RR")
# The authors' values of models 2.0 (A.0) and 1.0 (C.1): D = m1 r1 + m2 l1, E = m2 r2, A = I1 + m2 l1^2 + rotor, B = I2
# + rotor; Coulomb friction is pi/2 times their cf.
AUTHORS = {"A0": (0.349, 0.111, 0.111, 0.0267, 0.146, 0.123), "C1": (0.230, 0.160, 0.0592, 0.0531, 0.251, 0.188)}
# Least squares on derivatives after a filter of 10 Hz, one record with tracking each, as the data's README has it.
REGRESSION = {"A0": (0.345, 0.118, 0.1094, 0.0247), "C1": (0.183, 0.151, 0.0469, 0.0422)}


def solved(problem: Problem, **settings: bool) -> Solution:
    """One fit."""
    return problem.solve(**settings)


def legs() -> Iterator[str]:
    """Estimates of the four legs side by side, and how likely legs that are alike would differ as much."""
    # Steps are left in: legs compare with one another.
    fits = {
        leg: solved(faster(load_problem(f"{PROBLEMS / 'go2_legs.py'}::{leg}")), step_correction=False) for leg in LEGS
    }
    yield from _beside(fits, list(fits["FL"].parameters))
    yield ""
    for leg, fit in fits.items():
        yield f"- {leg}: {fit.status.name.lower()} in {fit.iterations} iterations. {' '.join(fit.notices)}"


def faster(problem: Problem) -> Problem:
    """With the second half of its record."""
    whole = problem.recordings[0]
    middle = float(whole.t[0] + whole.t[-1]) / 2
    return problem.with_(recordings=[whole.between(middle, float("inf"))])


def _beside(fits: dict[str, Solution], names: list[str]) -> Iterator[str]:
    """Estimates of fits side by side; of what has errors in all the chance of such a spread."""
    yield "| parameter | unit | " + " | ".join(fits) + " | probability of such a difference |"
    yield "|---|---|" + "---|" * (len(fits) + 1)
    first = next(iter(fits.values()))
    for name in names:
        values, errors = np.array([[fit[name].estimate, fit[name].std_err] for fit in fits.values()]).T
        weights = 1 / errors**2
        spread = float(np.sum(weights * (values - np.sum(weights * values) / np.sum(weights)) ** 2))
        cells = [f"{value:.4g} ± {error:.1g}" for value, error in zip(values, errors, strict=True)]
        chance = f"{chi2.sf(spread, len(fits) - 1):.2g}" if np.all(np.isfinite(errors)) else ""
        yield f"| {name} | {first[name].unit} | " + " | ".join(cells) + f" | {chance} |"


def base(problem: Problem) -> list[str]:
    """D, E, A, B and Coulomb friction of both joints, with errors."""
    fit = solved(problem)
    return [f"{fit[name].estimate:.4g} ± {fit[name].std_err:.1g}" for name in ("D", "E", "A", "B", "c_1", "c_2")]


def pendulum() -> Iterator[str]:
    """Two designs, by tracking and open loop, beside the authors' and a regression."""
    yield "| design, records | D [kg m] | E [kg m] | A [kg m²] | B [kg m²] | Coulomb 1 [N m] | Coulomb 2 [N m] |"
    yield "|---|---|---|---|---|---|---|"
    for design, authors in AUTHORS.items():
        for kind in ("tracking", "open"):
            problem = load_problem(f"{PROBLEMS / 'dfki_double_pendulum.py'}::{design}_{kind}")
            yield f"| {design}, {kind} | " + " | ".join(base(problem)) + " |"
        yield f"| {design}, the authors' | " + " | ".join(f"{value:g}" for value in authors) + " |"
        yield (
            f"| {design}, a regression, tracking | "
            + " | ".join(f"{value:g}" for value in REGRESSION[design])
            + " | | |"
        )


PAGE = """# Friction and inertia of measured joints

The command `python results/bayesian_measured.py` (with `SPOOKID_DATA` set) writes this page.

## Four legs of one robot (Go2)

The robot was suspended in the air and tracked reference motions by position control with known gains; only the angles
are measured. The fits of the four legs are independent. All use the same model and the faster half of the recording;
right legs are mirrored. The timestamps of the published log are counted samples. The sampling times are estimated from
the residual motion below 40 Hz that all twelve joints have in common, in proportion to their rates (`stamps` in
`problems/data/convert.py`). They differ from the timestamps by half a millisecond rms, against 0.04 ms for synthetic
data with true timestamps and the same references (both manual tests). The sampling times are estimated from the same
angles as the parameters, and the standard errors do not include their uncertainty. The last column is the probability
that identical legs differ as much as these estimates (chi-squared test, 3 degrees of freedom, standard errors of the
fits). The centres of mass share a prior of ± 0.01 m, which makes the legs more alike.

{legs}

{remark_legs}

## Double pendulum (DFKI)

The torques reported by the drives are inputs; their errors are part of the process noise. The parameters are D = m₁r₁ +
m₂l₁, E = m₂r₂, and the inertias A and B about the joints, including the rotors. The authors' values come from least
squares and are not true values.

{pendulum}

{remark_pendulum}
"""
REMARK_LEGS = """**Legs agree** (probability above 0.01): centres of mass of the thighs (mostly from the prior),
viscous friction, Coulomb friction of the hips, rotor inertias of hips and calves, constant torques of the hips. **Legs
differ**: Coulomb friction of thighs and calves, by factors of 1.5 and 2.2, centres of mass of the calves, rotor
inertias of the thighs, and constant torques of thighs and calves. The rotor inertias of the thighs are within 12 % of
their mean, with standard errors of 3 to 11 %.

**Possible causes.** In the fit of every leg the residuals are not white: an unmodelled effect lasts for several
samples, so that standard errors are too small. Gears of one type may differ in Coulomb friction. The calves have
further model errors: their process noise is the largest, and constant torques compensate for a part of the friction
error. Stiction and the linkage of the knee are not in the model. The gains of the drives are taken from a program and
were not recorded with the data. None of these causes was verified."""
REMARK_PENDULUM = """The fit estimates D, E, A and B directly, without priors. With tracking control, the estimates from
the recording A.0 are within 1.2 standard errors of the authors' values; these errors are half of D and A and more of
Coulomb friction. From C.1, the estimates of D, A and the Coulomb friction of joint 1 are within one standard error of
the authors' values. E, B and the Coulomb friction of joint 2 are 8 %, 11 % and 20 % below them, by 3.9, 5.6 and 2.9
standard errors. A regression on the same recording gives values 6 to 21 % below those of the authors. In open loop the
pendulum moves little compared with its friction: standard errors are several times larger, and the estimates are within
about two of them of the authors' values. In A.0 in open loop, the estimate of the Coulomb friction of joint 1 is zero:
this recording does not identify it beside a constant torque."""


def main() -> None:
    """Writes the page."""
    parts = {part.__name__: "\n".join(part()) for part in (legs, pendulum)}
    page = PAGE.format(**parts, remark_legs=REMARK_LEGS, remark_pendulum=REMARK_PENDULUM)
    (HERE / "bayesian_measured.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
