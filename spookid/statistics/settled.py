"""Weak directions that priors settle: the data hardly see them, and nobody has to do anything about that."""

from __future__ import annotations

from spookid.statistics.combinations import LEADS, prior_share
from spookid.statistics.covariance import Sensitivities
from spookid.statistics.weak_directions import WeakDirection


def prior_led(known: Sensitivities) -> frozenset[str]:
    """Names of the parameters whose variance is mostly that of priors."""
    errors = zip(known.names, known.standard_errors.tolist(), strict=True)
    shares = {name: prior_share({name: 1.0}, error, known.names, known.seen) for name, error in errors}
    return frozenset(name for name, share in shares.items() if share > LEADS)


def is_settled(weak: WeakDirection, of_priors: frozenset[str]) -> bool:
    """True if priors tell every parameter of a direction.

    Args:
        of_priors: those that ``prior_led`` names.
    """
    return of_priors.issuperset(weak.direction)


def left_open(known: Sensitivities) -> tuple[WeakDirection, ...]:
    """The weak directions that priors do not settle, the worst first."""
    of_priors = prior_led(known)
    return tuple(one for one in known.weak if not is_settled(one, of_priors))


def settled_parameters(known: Sensitivities) -> tuple[str, ...]:
    """Names of the parameters that change along weak directions that priors settle."""
    of_priors = prior_led(known)
    settled = (name for one in known.weak if is_settled(one, of_priors) for name in one.direction)
    return tuple(dict.fromkeys(settled))
