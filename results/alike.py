"""Estimates of parts that should be alike, beside one another: the legs of a robot."""

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.stats import chi2

from spookid import Solution

LEAST = 0.01
"""Probability above which parts agree."""


def spread(values: np.ndarray, errors: np.ndarray) -> float:
    """Sum of the squared differences from the weighted mean, in standard errors."""
    weights = 1 / errors**2
    return float(np.sum(weights * (values - np.sum(weights * values) / np.sum(weights)) ** 2))


def beside(fits: Mapping[str, Solution]) -> list[str]:
    """Lines of a table of estimates with the probability of such a difference, and which parameters agree."""
    agree, differ = list[str](), list[str]()
    lines = [f"| parameter | unit | {' | '.join(fits)} | spread / std. error | probability |"]
    lines += ["|---|---|" + "---:|" * (len(fits) + 2)]
    freedom = len(fits) - 1
    for name, first in next(iter(fits.values())).parameters.items():
        values, errors = np.array([[fit[name].estimate, fit[name].std_err] for fit in fits.values()]).T
        cells = [cell(value, error) for value, error in zip(values, errors, strict=True)]
        tested = ["", ""]
        if np.all(np.isfinite(errors)):
            square = spread(values, errors)
            chance = float(chi2.sf(square, freedom))
            (agree if chance > LEAST else differ).append(name)
            tested = [f"{np.sqrt(square / freedom):.1f}", f"{chance:.2g}"]
        lines.append(f"| {name} | {first.unit} | {' | '.join(cells)} | {' | '.join(tested)} |")
    for verb, names in (("agree", agree), ("differ", differ)):
        lines += ["", f"The legs {verb} (probability {'above' if verb == 'agree' else 'at most'} {LEAST:g}) in: "
                  f"{', '.join(names) or 'no parameter'}."]  # fmt: skip
    return lines


def cell(value: float, error: float) -> str:
    """An estimate with its standard error; a parameter at a bound has none."""
    return f"{value:.3g} ± {error:.1g}" if np.isfinite(error) else f"{value:.3g} (bound)"


def ratio(fits: Iterable[Solution], name: str) -> float:
    """Of the largest estimate to the least."""
    values = [fit[name].estimate for fit in fits]
    return max(values) / min(values)


def warned(fits: Mapping[str, Solution]) -> list[str]:
    """An item for each fit: how it ended, and its warnings without their advice; notes are counted."""
    return [
        f"- {name}: {fit.status.value} in {fit.iterations} iterations. {_warnings(fit)}" for name, fit in fits.items()
    ]


def _warnings(fit: Solution) -> str:
    by_code: dict[str, list[str]] = {}
    for one in fit.findings:
        if one.severity == "warning":
            by_code.setdefault(one.code, []).append(one.effect)
    notes = sum(one.severity == "note" for one in fit.findings)
    words = [f"`{code}`: {' '.join(effects)}" for code, effects in by_code.items()]
    return " ".join([*(words or ["No warnings."]), f"Notes: {notes}."])
