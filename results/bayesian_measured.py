"""Friction and inertia of measured joints: `python results/bayesian_measured.py` writes bayesian_measured.md.

Needs `SPOOKID_DATA`. Four legs of one robot, which ought to be alike, and a double pendulum of two designs beside what
its authors found. Some minutes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from spookid import Problem, load_problem

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
LEGS = ("FL", "FR", "RL", "RR")
# The authors' values of models 2.0 (A.0) and 1.0 (C.1): D = m1 r1 + m2 l1, E = m2 r2, A = I1 + m2 l1^2 + rotor, B = I2
# + rotor; Coulomb friction is pi/2 times their cf.
AUTHORS = {"A0": (0.349, 0.111, 0.111, 0.0267, 0.146, 0.123), "C1": (0.230, 0.160, 0.0592, 0.0531, 0.251, 0.188)}
# Least squares on derivatives after a filter of 10 Hz, one record with tracking each, as the data's README has it.
REGRESSION = {"A0": (0.345, 0.118, 0.1094, 0.0247), "C1": (0.183, 0.151, 0.0469, 0.0422)}
LENGTHS, ROTOR = {"A0": 0.3, "C1": 0.2}, 36 * 6.07e-5
UNITS = ("kg m", "kg m", "kg m²", "kg m²", "N m", "N m")


def legs() -> Iterator[str]:
    """Estimates of the four legs side by side, and how likely legs that are alike would differ as much."""
    fits = {leg: load_problem(f"{PROBLEMS / 'go2_legs.py'}::{leg}").solve() for leg in LEGS}
    yield "| parameter | unit | " + " | ".join(LEGS) + " | chance of such a spread |"
    yield "|---|---|" + "---|" * (len(LEGS) + 1)
    for name in fits["FL"].parameters:
        values, errors = np.array([[fit[name].estimate, fit[name].std_err] for fit in fits.values()]).T
        weights = 1 / errors**2
        spread = float(np.sum(weights * (values - np.sum(weights * values) / np.sum(weights)) ** 2))
        cells = [f"{value:.4g} ± {error:.1g}" for value, error in zip(values, errors, strict=True)]
        unit = fits["FL"][name].unit
        yield f"| {name} | {unit} | " + " | ".join(cells) + f" | {chi2.sf(spread, len(LEGS) - 1):.2g} |"
    yield ""
    for leg, fit in fits.items():
        yield f"- {leg}: {fit.status.name.lower()} in {fit.iterations} iterations. {' '.join(fit.notices)}"


def base(problem: Problem, length: float) -> list[str]:
    """D, E, A, B and Coulomb friction of both joints, with errors."""
    fit, known = problem.solve(), {parameter.name: parameter for parameter in problem.free}
    m_1, m_2, r_1, r_2, J_1, J_2 = (known[name] for name in ("m_1", "m_2", "r_1", "r_2", "J_1", "J_2"))
    expressions = (
        m_1 * r_1 + m_2 * length,
        m_2 * r_2,
        J_1 + m_1 * r_1**2 + m_2 * length**2 + ROTOR,
        J_2 + m_2 * r_2**2 + ROTOR,
        known["c_1"],
        known["c_2"],
    )
    found = [fit(expression) for expression in expressions]
    return [f"{value.estimate:.4g} ± {value.std_err:.1g}" for value in found]


def pendulum() -> Iterator[str]:
    """Two designs, by tracking and open loop, beside the authors' and a regression."""
    yield "| design, records | D [kg m] | E [kg m] | A [kg m²] | B [kg m²] | Coulomb 1 [N m] | Coulomb 2 [N m] |"
    yield "|---|---|---|---|---|---|---|"
    for design, length in LENGTHS.items():
        for kind in ("tracking", "open"):
            problem = load_problem(f"{PROBLEMS / 'dfki_double_pendulum.py'}::{design}_{kind}")
            yield f"| {design}, {kind} | " + " | ".join(base(problem, length)) + " |"
        yield f"| {design}, the authors' | " + " | ".join(f"{value:g}" for value in AUTHORS[design]) + " |"
        yield (
            f"| {design}, a regression, tracking | "
            + " | ".join(f"{value:g}" for value in REGRESSION[design])
            + " | | |"
        )


PAGE = """# Friction and inertia of measured joints

`python results/bayesian_measured.py` (with `SPOOKID_DATA` set) makes this page.

## Four legs of one robot (Go2)

Held in the air, tracking references by position control with known gains; angles alone are measured. The legs are
independent fits of one model, right legs mirrored. The last column is the chance that legs that are alike differ by as
much as these estimates (chi-squared, 3 degrees of freedom, the errors of the fits).

{legs}

{remark_legs}

## Double pendulum (DFKI)

Torques that the drives report are inputs, whose errors are part of the disturbance. D = m₁r₁ + m₂l₁, E = m₂r₂, A and B
the inertia about the joints, with the rotors. The authors' values come from least squares and are not the truth.

{pendulum}

{remark_pendulum}
"""
REMARK_LEGS = """\
The legs are not alike within these errors, but for rotors of hips and calves. Places of centres of mass differ by
centimetres, so that it is not gravity alone that legs are held against: the zeros of the angles are not known, and
the model has no constant torque. Friction differs by a factor of two, and samples that are far off say that it is not
of this law at reversals. What a leg is, and what the missing constant torque makes of it, these fits do not tell."""
REMARK_PENDULUM = """\
Where the link's own inertia ends at zero, A has no error (nan). With tracking, E, A and B of design C.1 are within 9 %
of the authors', D within 1 %; a regression on the same record is up to 21 % below. A.0 is 7 to 15 % above. Open-loop
records move little beside friction: those of A.0 disagree with one another (r_1 by 25 errors) and with the prior of
the masses (by 11 deviations), as the fit's notices say, and their rows are not to be trusted."""


def main() -> None:
    """Writes the page."""
    parts = {"legs": "\n".join(legs()), "pendulum": "\n".join(pendulum())}
    page = PAGE.format(**parts, remark_legs=REMARK_LEGS, remark_pendulum=REMARK_PENDULUM)
    (HERE / "bayesian_measured.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
