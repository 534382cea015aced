"""Guesses drawn at random: from a parameter's prior, its two bounds, or else a decade to either side of the guess."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.parameter import Parameter

START = "start"
"""The axis of a sweep over starts."""
_DECADES = 1.0
"""To either side of a guess."""
_WIDE = 100.0
"""Ratio of two bounds above zero from which on all their decades are as likely."""


def drawn(problem: Declaration, start: float | str, seed: int, guesses: Mapping[str, float]) -> dict[str, float]:
    """Guesses of a start, the same for the same seed; none for start 0, which has the problem's own.

    Args:
        guesses: that go before the problem's own.

    Raises:
        ProblemError: for a start that is no whole number from 0 on.
    """
    if isinstance(start, str) or start < 0 or start != int(start):
        raise ProblemError(f"start is {start!r}; it takes 0, 1, 2 ...")
    if start == 0:
        return {}
    rng = np.random.default_rng([seed, int(start)])
    return {p.name: _drawn(p, guesses.get(p.name, problem.guess[p.name]), rng) for p in problem.free}


def _drawn(parameter: Parameter, guess: float, rng: np.random.Generator) -> float:
    lower, upper = parameter.lower, parameter.upper
    if parameter.prior is not None:
        return float(np.clip(rng.normal(*parameter.prior), lower, upper))
    if math.isfinite(lower) and math.isfinite(upper):
        if lower > 0 and upper / lower > _WIDE:
            return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
        return float(rng.uniform(lower, upper))
    return float(np.clip(guess * 10 ** rng.uniform(-_DECADES, _DECADES), lower, upper))
