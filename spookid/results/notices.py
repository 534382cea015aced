"""The order of notices, what changes the answer first and remarks on the set-up last; and what they ask of fits that
stopped."""

from __future__ import annotations

from collections.abc import Iterable

from spookid.statistics.weak_directions import UNSEEN, WeakDirection

CONTRADICTED = "The data contradict the prior of"
TENSE = "The data contradict constraints between parameters:"
UNDETERMINED = "The data do not determine"
WEIGHED = "Priors are weighed against the data by the sensors' sigma"
NOT_WHITE = "Standard errors presume white noise, which the residuals are not"
STEP = "The time step of"
EXTRAPOLATED = "Estimates are those of continuous time"
DIFFER = "Fits with noise estimated and with hard dynamics differ on"
ROUGH = "The noise is that of a smooth fit that did not converge"
SCHEDULE = "The motion contradicts a schedule:"
MISFIT = "The residuals are not noise"
"""How the notice begins that says what a model lacks; it stands before the estimates."""
UNEXPLAINED = "What disturbs the motion exceeds all that acts in the model"
LATE_OR_OFF = "With a delay and an offset of each sensor the model explains the motion:"
GIVEN = "Noise that was given is not what the data show, which the model explains with"
EXCESS = "The fit misses what sensors show by far more than their sigma"
SMOOTHER = "Smooth friction fits better"
OUTLIERS = "Samples"
GAP = "Parts of a recording do not fit together"
FOLLOWED = "The estimated motion follows"
UNDIRECTED = "The direction of sliding is not known of"
UNPHYSICAL = "No mass distribution has"
VANISHED = "A mass has vanished:"
NEGATIVE = "Less than nothing is estimated of"
WELDED = "The joints leave no freedom:"
QUESTION = "Is this meant?"
"""How notices begin that ask about units, clocks and signs before a fit."""
HELD = "What holds the cost where the fit stopped:"
PLANE = "Contacts and their plane do not meet:"

_ORDER = (
    QUESTION,
    HELD,
    LATE_OR_OFF,
    GIVEN,
    UNEXPLAINED,
    SCHEDULE,
    PLANE,
    WELDED,
    MISFIT,
    GAP,
    EXCESS,
    VANISHED,
    NEGATIVE,
    OUTLIERS,
    FOLLOWED,
    UNDETERMINED,
    DIFFER,
    ROUGH,
    SMOOTHER,
    UNDIRECTED,
    TENSE,
    CONTRADICTED,
    WEIGHED,
    UNPHYSICAL,
    NOT_WHITE,
    STEP,
    EXTRAPOLATED,
)
"""How notices begin; those that begin otherwise are remarks."""

_SAID = {GIVEN: (UNEXPLAINED, MISFIT, EXCESS), MISFIT: (NOT_WHITE,)}
"""What need not be said where another notice tells the cause."""
DOUBTS = (LATE_OR_OFF, GIVEN, UNEXPLAINED, SCHEDULE, MISFIT, GAP, EXCESS)
"""Beginnings of those that make estimates and errors meaningless."""


def ranked(notices: Iterable[str]) -> tuple[str, ...]:
    """Each once and by rank, otherwise as they come.

    Residuals that are not noise are not white either, so that one notice says it; by noise of another size nothing can
    be said of what a model lacks that explains the data with the right one.
    """
    found = sorted(dict.fromkeys(notices), key=_rank)
    for cause, effects in _SAID.items():
        if any(notice.startswith(cause) for notice in found):
            found = [notice for notice in found if not notice.startswith(effects)]
    return tuple(found)


def _rank(notice: str) -> int:
    return next((i for i, opening in enumerate(_ORDER) if notice.startswith(opening)), len(_ORDER))


def causes(dynamics: str, weak: Iterable[WeakDirection], sticks: bool) -> list[str]:
    """Of a fit that stopped before its minimum, in words, the likeliest first."""
    found = []
    for one in weak:
        if one.singular_value < UNSEEN and len(one.direction) > 1:
            names = ", ".join(one.direction)
            found.append(f"the data do not see that {names} change together, and a fit may run away along that")
    if dynamics == "weight":
        found.append("joints may be too stiff for the state weight: raise the compliance, or take a smaller weight")
    if sticks:
        found.append("the friction width may be too small")
    return found
