"""What a study takes for granted, in words: estimator, stepper, friction and noise of its problem."""

from __future__ import annotations

from spookid.assembly.declaration import Declaration
from spookid.results.wording import DYNAMICS, FRICTION, HARD, NO_FRICTION, weight_words
from spookid.tables.table import deviation, number


def assumed(problem: Declaration) -> dict[str, str]:
    """Of fits of ``problem``."""
    return {
        "Estimator": _estimator(problem),
        **how_it_moves(problem),
        "Noise": f"{_motion(problem)}; {_sensors(problem)}",
    }


def how_it_moves(problem: Declaration) -> dict[str, str]:
    """Of simulations of ``problem``."""
    return {
        "Stepper": f"{problem.stepper.name}, step h = {number(problem.step, 6)} s",
        "Friction": FRICTION[problem.friction] if any(f.rubs for f in problem.model.freedoms) else NO_FRICTION,
    }


def _estimator(problem: Declaration) -> str:
    words = DYNAMICS[problem.dynamics]
    if problem.dynamics != "estimated" or problem.estimator == "noise":
        return words
    return HARD if problem.estimator == "hard" else f"{words}, or hard dynamics where the data say that they are better"


def _motion(problem: Declaration) -> str:
    if problem.dynamics == "estimated":
        return "random forces on the motion, white and normal, their sizes estimated"
    words = {"hard": "none in the motion", "weight": weight_words("weight", problem.weight)}
    return words[problem.dynamics]


def _sensors(problem: Declaration) -> str:
    sizes = [f"{c.signal} {deviation(c.sigma, c.unit)}" for c in problem.channels if c.sigma is not None]
    others = ", ".join(c.signal for c in problem.channels if c.sigma is None)
    if others:
        one = "one unit" if problem.dynamics == "weight" else "estimated"
        sizes.append(f"{others} {one}")
    return f"errors of sensors white and normal, their sizes: {', '.join(sizes)}" if sizes else "no sensors"
