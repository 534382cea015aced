"""Measured devices for `truth.py`: recordings of the same device against each other, with all defaults."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spookid import Problem, Solution, load_problem

PROBLEMS = Path(__file__).resolve().parents[1] / "problems"
RELEASES = tuple(
    (f"pendulum_free_swing.py::{name}_dry", estimator) for name in ("01", "02", "03") for estimator in ("noise", "auto")
)
"""Recordings and estimators."""
SWINGUPS = tuple(
    f"furuta_swingup.py::swingup_{rate}hz_{i}" for rate, n in ((500, 3), (250, 2)) for i in range(1, n + 1)
)
DRIVES = tuple(
    f"furuta_odrive.py::{name}" for name in ("pulses_torque_units", "sine_1V", "sine_4V", "step_2V", "step_5V")
)
PARAMETERS = {"J_arm": "kg m²", "J_rod": "kg m²", "K": "N m/V", "b_1": "N m s"}
Draw = Mapping[str, Any]


def measured(name: str, estimator: str) -> dict[str, object]:
    """Estimates and standard errors of a recording."""
    problem = load_problem(f"{PROBLEMS / name}")
    assert isinstance(problem, Problem)
    solution = problem.solve(estimator=estimator)
    known = {n: (e.estimate, e.std_err) for n, e in solution.parameters.items()}
    known |= {"a": _frequency(solution)} if "free_swing" in name else {}
    return {"status": solution.status.value, "chosen": solution.choice.estimator, "values": known}


def _frequency(found: Solution) -> tuple[float, float]:
    """a = m g l/(J + m l²) of a release and its standard error [1/s²]."""
    torque, arm = 0.01225 * 9.81 * 0.062, 0.01225 * 0.062**2
    a = torque / (found["J"].estimate + arm)
    return a, a * found["J"].std_err / (found["J"].estimate + arm)


INTRODUCTION = (
    "The first table has three releases of a pendulum. It shows the squared frequency a = m g l/(J + m l²) with",
    "estimated process noise and with the estimator of a default fit. By simulation, a is 119.55 to 120.27 1/s². The",
    "second table has two driven Furuta pendulums. The spread is the root mean square difference of the recordings",
    "from their weighted mean, over the standard errors. It is about 1 if recordings agree.",
)


def tables(draws: Mapping[tuple[str, str], Draw]) -> Iterator[str]:
    """Lines on what has been fitted so far."""
    yield "| release | estimated noise: a [1/s²] | default: a [1/s²] | default: b [N m s] | default: estimator |"
    yield "|---|---|---|---|---|"
    for (name, _), (_, auto) in zip(RELEASES[::2], RELEASES[1::2], strict=True):
        if (name, auto) in draws:
            noise, default = draws[name, "noise"]["values"], draws[name, auto]
            cells = [_number(noise["a"]), *(_number(default["values"][n]) for n in "ab"), default["chosen"]]
            yield f"| {name.partition('::')[2]} | {' | '.join(cells)} |"
    yield ""
    yield f"| recording | {' | '.join(f'{name} [{unit}]' for name, unit in PARAMETERS.items())} |"
    yield f"|---|{'---|' * len(PARAMETERS)}"
    for names in (SWINGUPS, DRIVES):
        known = {name: draws[name, "auto"] for name in names if (name, "auto") in draws}
        for name, draw in known.items():
            cells = [_number(draw["values"][p]) for p in PARAMETERS]
            yield f"| {name.partition('::')[2]} | {' | '.join(cells)} |"
        spread = (_spread([draw["values"][p] for draw in known.values()]) for p in PARAMETERS)
        yield f"| spread | {' | '.join(spread)} |"
    yield ""


def _number(value: Sequence[float]) -> str:
    return f"{value[0]:.5g} ± {value[1]:.2g}" if np.isfinite(value[1]) else f"{value[0]:.5g}"


def _spread(values: Sequence[Sequence[float]]) -> str:
    pairs = np.array([pair for pair in values if np.isfinite(pair[1]) and pair[1] > 0])
    if len(pairs) < 2:
        return ""
    weights = 1 / pairs[:, 1] ** 2
    mean = weights @ pairs[:, 0] / weights.sum()
    return f"{np.sqrt(np.sum(weights * (pairs[:, 0] - mean) ** 2) / (len(pairs) - 1)):.1f}"
