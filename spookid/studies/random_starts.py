"""Guesses drawn at random: from a parameter's prior, its two bounds, or else a decade to either side of the guess.

A guess of zero is no size. A parameter without another is drawn by the size with which it would make up a tenth of what
the recorded motion takes, of what its sensor shows, or, of a delay, of a period of the cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import lru_cache

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.channels import all_predicted
from spookid.data.sampling import finite_samples
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.parameter import Parameter, substitute

START = "start"
"""The axis of a sweep over starts."""
_DECADES = 1.0
"""To either side of a guess."""
_PART = 0.1
"""What a parameter with a guess of zero is supposed to make up, as a share of the whole."""
_ROUNDING = 1e-12
"""Share of the whole for each unit of a parameter that is none."""
_WIDE = 100.0
"""Ratio of two bounds above zero from which on all their decades are as likely."""


def drawn(
    problem: Declaration, start: float | str, seed: int, guesses: Mapping[str, float], held: Collection[str] = ()
) -> dict[str, float]:
    """Guesses of a start, the same for the same seed; none for start 0, which has the problem's own.

    Args:
        guesses: that go before the problem's own.
        held: parameters whose guesses are not wanted.

    Raises:
        ProblemError: for a start that is no whole number from 0 on, or a guess of zero of which nothing tells a size.
    """
    if isinstance(start, str) or start < 0 or start != int(start):
        raise ProblemError(f"start is {start!r}; it takes 0, 1, 2 ...")
    if start == 0:
        return {}
    rng = np.random.default_rng([seed, int(start)])
    found = {}
    for p in problem.free:
        guess = guesses.get(p.name, problem.guess[p.name])
        if guess == 0 and not _ranged(p) and p.name not in held:
            guess = _size(problem, p) * rng.choice([-1.0] * (p.lower < 0) + [1.0] * (p.upper > 0))
        found[p.name] = _drawn(p, guess, rng)
    return found


def _ranged(parameter: Parameter) -> bool:
    """True of one that its prior or both bounds tell where to draw."""
    return parameter.prior is not None or (math.isfinite(parameter.lower) and math.isfinite(parameter.upper))


def _size(problem: Declaration, parameter: Parameter) -> float:
    """Of a parameter with a guess of zero.

    Raises:
        ProblemError: if nothing tells it.
    """
    sizes = _sizes(problem)
    size = next((sizes[one] for one, copies in _copies(problem).items() if parameter.name in copies), math.inf)
    if not math.isfinite(size):
        raise ProblemError(
            f"{problem.place}: {parameter.name!r} has a guess of 0, from which starts cannot be drawn by decades, and "
            "neither the motion nor a sensor's offset tells its size; give it a prior or both bounds, or hold it"
        )
    return size


def _copies(problem: Declaration) -> dict[str, set[str]]:
    """Names of the parameters that stand for each that was declared."""
    known = problem.parameter_set
    return {p.name: {p.name, *(one.name for one in known.of(p))} for p in known.declared}


@lru_cache(maxsize=1)
def _sizes(problem: Declaration) -> dict[str, float]:
    """With which a parameter makes up a tenth of the whole at the guesses, by its declared name; 0 if the motion does
    not depend on it, infinite if nothing tells."""
    from spookid.estimation.explained import Balance  # which few starts need

    shown = all_predicted(problem.channels, State.symbols(problem.model))
    seen, values = {symbol.name() for symbol in ca.symvar(shown)}, problem.guess
    found = {
        p.name: _PART / problem.cutoff if p.name in problem.delays else math.inf for p in problem.parameter_set.declared
    }
    for channel in problem.channels:
        samples = [finite_samples(recording, channel.signal)[1] for recording in problem.sample]
        spread = max((float(np.std(one)) for one in samples if len(one)), default=0.0)
        for p in problem.parameter_set.declared:
            slope = abs(float(substitute(ca.jacobian(channel.offset, p), values).item()))
            found[p.name] = min(found[p.name], _PART * spread / slope) if slope * spread > 0 else found[p.name]
    try:
        balance = Balance(problem)
        efforts = balance.along(problem.sample[0])
    except (ProblemError, IndexError, np.linalg.LinAlgError):  # of too short a recording, say
        return found
    at = np.array([efforts.values[p.name] for p in balance.free])
    slopes = balance.rows(efforts, at)[1] / efforts.parts(at)[:, None]
    for p, share in zip(balance.free, np.sqrt(np.mean(slopes**2, axis=(0, 1))), strict=True):
        if share > _ROUNDING:
            found[p.name] = min(found[p.name], _PART / float(share))
        elif p.name not in seen and math.isinf(found[p.name]):
            found[p.name] = 0.0
    return found


def _drawn(parameter: Parameter, guess: float, rng: np.random.Generator) -> float:
    lower, upper = parameter.lower, parameter.upper
    if parameter.prior is not None:
        return float(np.clip(rng.normal(*parameter.prior), lower, upper))
    if _ranged(parameter):
        if lower > 0 and upper / lower > _WIDE:
            return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
        return float(rng.uniform(lower, upper))
    return float(np.clip(guess * 10 ** rng.uniform(-_DECADES, _DECADES), lower, upper))
