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
    fits = {leg: solved(load_problem(f"{PROBLEMS / 'go2_legs.py'}::{leg}")) for leg in LEGS}
    yield from _beside(fits, list(fits["FL"].parameters))
    yield ""
    for leg, fit in fits.items():
        yield f"- {leg}: {fit.status.name.lower()} in {fit.iterations} iterations. {' '.join(fit.notices)}"


def halves() -> Iterator[str]:
    """The same of one leg from the slow half of its record and from the fast one."""
    problem = load_problem(f"{PROBLEMS / 'go2_legs.py'}::FR")
    whole = problem.recordings[0]
    middle = float(whole.t[0] + whole.t[-1]) / 2
    parts = {"slow half": whole.between(float(whole.t[0]), middle), "fast half": whole.between(middle, float("inf"))}
    # Steps are left in: parts compare with one another.
    fits = {name: solved(problem.with_(recordings=[part]), step_correction=False) for name, part in parts.items()}
    yield from _beside(fits, [name for name in fits["fast half"].parameters if name[:2] in ("b_", "c_", "I_")])


def _beside(fits: dict[str, Solution], names: list[str]) -> Iterator[str]:
    """Estimates of fits side by side; of what has errors in all the chance of such a spread."""
    yield "| parameter | unit | " + " | ".join(fits) + " | chance of such a spread |"
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

`python results/bayesian_measured.py` (with `SPOOKID_DATA` set) makes this page.

## Four legs of one robot (Go2)

Held in the air, tracking references by position control with known gains; angles alone are measured. The legs are
independent fits of one model, right legs mirrored. The last column is the chance that legs that are alike differ by as
much as these estimates (chi-squared, 3 degrees of freedom, the errors of the fits).

{legs}

The leg FR once more, from both halves of its record: periods of 3 to 1 s, and down to 0.4 s.

{halves}

{remark_legs}

## Double pendulum (DFKI)

Torques that the drives report are inputs, whose errors are part of the disturbance. D = m₁r₁ + m₂l₁, E = m₂r₂, A and B
the inertia about the joints, with the rotors. The authors' values come from least squares and are not the truth.

{pendulum}

{remark_pendulum}
"""
REMARK_LEGS = """\
**Alike**, within the errors of the fits: inertia of the rotors of hips and calves, viscous friction of the calves. The
rotors of the thighs are within 10 % of one another, but their errors are 3 %. **Not alike**: Coulomb friction, by a
factor of 1.6 (thighs) to 2 (calves).

**Why.** Of the thigh FR both halves of the record tell the same friction, so that the thighs do differ, as gears do: the
legs' values lie ten errors apart. Of the hip and the calf they do not: slow motion says 1.9 times the Coulomb friction
that is told, or half of it, than fast motion does, and another inertia. That is no friction of this law; friction of
the knee's linkage, and stiction, are missing. Constant torques beside gravity, which were missing before, bring centres
of mass of the thighs from 2 cm to 1 cm apart; but a calf of the vendor's mass would have to end where its foot is to
hold the leg as far from its target as it stands (priors of 1 cm are off by 4 to 10 deviations), or the drives' stiffness,
which the data do not record, is lower there. Samples that are far off, all at reversals, say the same of the law."""
REMARK_PENDULUM = """\
The parameters are D, E, A and B themselves, without priors. With tracking, estimates are within 3 errors of the authors',
but for B of C.1 (9 % below, 4.6 errors; theirs is no truth either); a regression on the same record is 20 % below. Open
loop the pendulum moves little beside friction: errors are 5 to 10 times larger, and say so; all estimates are within 2 of
them of the authors'. (With masses by priors, and several records in one fit, these errors were too small by a factor of
ten: a link's own inertia ended at zero there.)"""


def main() -> None:
    """Writes the page."""
    parts = {part.__name__: "\n".join(part()) for part in (legs, halves, pendulum)}
    page = PAGE.format(**parts, remark_legs=REMARK_LEGS, remark_pendulum=REMARK_PENDULUM)
    (HERE / "bayesian_measured.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
