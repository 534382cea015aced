"""Combinations of parameters that the data hardly see, as relative changes of the estimates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import lapack
from spookid.records import dataclass
from spookid.tables.table import Table, counted, number
from spookid.tables.tabular import Block, Listed, Tabular

WEAK = 1.0
"""A direction is weak if changing the parameters by all of their magnitude along it moves the residuals by less than
this many standard deviations: a relative standard error of more than 100 %."""
UNSEEN = 0.01
"""Below this many the data do not see it at all: a relative standard error of more than 10 000 %."""
SMALL_SHARE = 0.1
"""Components of a direction below this share of the largest are left out of its description."""


@dataclass(frozen=True)
class WeakDirection(Listed):
    """A combination of parameters that the data hardly see."""

    singular_value: float
    """Standard deviations by which relative changes of that direction and of length one would be seen."""
    direction: Mapping[str, float]
    """Changes of the parameters in units of their estimates, the largest 1; of estimates that are zero within what
    their own errors were if all others were known, in units of the guess, or of 1 if that is zero, too."""
    advice: str = ""
    """What would help."""


def references(estimates: Array, magnitudes: Array, information: Array, scatter: Array) -> Array:
    """What relative changes are relative to, with its sign, (n_p,).

    Args:
        magnitudes: of the parameters, positive, (n_p,).
        information: TᵀT, (n_p, n_p).
        scatter: Tᵀ Cov(r) T, (n_p, n_p).
    """
    strengths, scattered = np.diag(information), np.diag(scatter)
    alone = np.full(len(estimates), np.inf)  # errors if all others were known
    np.divide(np.sqrt(np.maximum(scattered, 0.0)), strengths, out=alone, where=strengths > 0)
    return np.asarray(np.where(np.abs(estimates) > alone, estimates, np.copysign(magnitudes, estimates)))


def describe(singular: float, vector: Array, ratios: Array, names: Sequence[str]) -> WeakDirection:
    """A direction in words' reach.

    Args:
        singular: standard deviations by which it is seen.
        vector: it, of length one, in parameters over their magnitudes, (n,).
        ratios: magnitudes over references, (n,).
    """
    changes = vector * ratios
    shares = changes / changes[np.argmax(np.abs(changes))]
    # What is large in either measure belongs to it: references may be far from the magnitudes.
    large = np.maximum(np.abs(shares), np.abs(vector) / np.abs(vector).max()) >= SMALL_SHARE
    order = [i for i in np.argsort(-np.abs(shares).round(6), kind="stable").tolist() if large[i]]
    return WeakDirection(singular / float(np.linalg.norm(changes)), {names[i]: float(shares[i]) for i in order})


def in_units(weak: WeakDirection, before: Mapping[str, float], after: Mapping[str, float]) -> WeakDirection:
    """The same direction in other references.

    Args:
        before, after: references of the parameters by name.
    """
    shares = {name: share * before[name] / after[name] for name, share in weak.direction.items()}
    lengths = [float(np.linalg.norm(list(one.values()))) for one in (weak.direction, shares)]
    largest = max(shares.values(), key=abs)
    told = {name: share / largest for name, share in sorted(shares.items(), key=lambda pair: -abs(pair[1]))}
    return WeakDirection(weak.singular_value * lengths[0] / lengths[1], told, weak.advice)


def pivots(directions: Array) -> list[int]:
    """Of k directions (k, n) the k components that, once known, leave none of them open, the largest first."""
    order = lapack.dgeqp3(directions)[1] - 1  # counted from 1
    found: list[int] = order[: len(directions)].tolist()
    return found


def weak_by_errors(
    names: Sequence[str], covariance: Array, magnitudes: Array, references: Array
) -> tuple[WeakDirection, ...]:
    """Directions that are weak by the errors of the parameters that have any, the worst first.

    Args:
        covariance: NaN in the rows of parameters without an error, (n_p, n_p).
    """
    known = np.flatnonzero(np.isfinite(np.diag(covariance)))
    scaled = covariance[np.ix_(known, known)] / np.outer(magnitudes[known], magnitudes[known])
    variances, vectors = np.linalg.eigh(scaled)
    seen, ratios = [names[i] for i in known.tolist()], (magnitudes / references)[known]
    return tuple(
        describe(float(1 / np.sqrt(variances[i])), vectors[:, i], ratios, seen)
        for i in np.argsort(-variances).tolist()
        if variances[i] > WEAK**-2
    )


class Knowledge(Tabular):
    """Parameters with their standard errors and correlations, and how well the data see directions."""

    names: tuple[str, ...]
    reasons: Mapping[str, str]
    """Why a parameter has no standard error, by its name."""
    singular_values: Array
    """Of each direction, descending."""

    @property
    @abstractmethod
    def standard_errors(self) -> Array:
        """(n_p,), NaN where there is a reason."""

    @property
    @abstractmethod
    def correlation(self) -> Array:
        """(n_p, n_p)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.names) or 'no parameters'}>"

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each parameter, and how well the data see directions."""
        errors = zip(self.names, self.standard_errors.tolist(), strict=True)
        rows = [(name, number(error), self.reasons.get(name, "")) for name, error in errors]
        seen = ", ".join(number(value, 2) for value in self.singular_values)
        return [
            f"What the data tell of {counted(len(self.names), 'parameter')}",
            Table(("parameter", "std err", "reason"), rows, left=(0, 2)),
            f"Directions are seen at {seen or 'no'} sigma for a change of 100 %.",
        ]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter: standard error, the reason why it has none, correlations with all."""
        parts = zip(self.names, self.standard_errors.tolist(), self.correlation.tolist(), strict=True)
        return [
            {"parameter": n, "std_err": e, "reason": self.reasons.get(n, ""), **dict(zip(self.names, row, strict=True))}
            for n, e, row in parts
        ]
