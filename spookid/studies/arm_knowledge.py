"""What a fit, and runs with known payloads after it, know of a mechanism: its parameters' changes, jointly normal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.results import folders
from spookid.results.folders import Tree
from spookid.results.result import Result
from spookid.statistics.combinations import root_of
from spookid.statistics.prior_regression import Normal

_AGAIN = "give a file that spookid payload --out has written"
_WIDE = 10.0
"""Magnitudes of a parameter within which it is known, in directions that the fit does not see."""
_SAME = 1e-9
"""Share by which estimates may differ that are the same."""


@dataclass(frozen=True, eq=False)
class ArmKnowledge:
    """Changes of the n_p parameters of a fit, from its estimates."""

    names: tuple[str, ...]
    estimates: Array
    """Those of the fit, (n_p,)."""
    belief: Normal
    """Their changes."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """What a fit knows.

        Raises:
            ProblemError: if it has no errors.
        """
        known = result.sensitivities
        if known.seen is None or not np.all(np.isfinite(known.seen.covariance)):
            raise ProblemError(
                f"the results of {result.problem!r} have no errors of all parameters together, on which those of a "
                "payload hang; solve the problem again"
            )
        magnitudes = np.where(known.seen.magnitudes > 0, known.seen.magnitudes, 1.0)
        root = np.hstack([root_of(known.seen.joint, magnitudes), _WIDE * known.seen.hidden.T])
        estimates = np.array([result[name].estimate for name in known.names])
        return cls(known.names, estimates, Normal(np.zeros(len(estimates)), root))

    def tree(self) -> Tree:
        """For a file."""
        return {
            "parameters": list(self.names),
            "fitted": self.estimates,
            "change": self.belief.mean,
            "covariance": self.belief.covariance,
        }

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """What ``Payload.save`` has written.

        Raises:
            ProblemError: if it is no such file.
        """
        with folders.reading(Path(path), _AGAIN) as file:
            return cls._of_tree(json.loads(file.read_bytes())["arm"])

    @classmethod
    def _of_tree(cls, arm: Mapping[str, Any]) -> Self:
        names = tuple(str(name) for name in arm["parameters"])
        n = len(names)
        fitted, mean = (np.array(arm[key], dtype=np.float64).reshape(n) for key in ("fitted", "change"))
        covariance = np.array(arm["covariance"], dtype=np.float64).reshape(n, n)
        if not all(np.all(np.isfinite(part)) for part in (fitted, mean, covariance)):
            raise ValueError("numbers are missing")
        widths = np.sqrt(np.diag(covariance))
        return cls(names, fitted, Normal(mean, root_of(covariance, np.where(widths > 0, widths, 1.0))))

    def check(self, result: Result) -> None:
        """Refuse a result other than that from which this is.

        Raises:
            ProblemError: if it is another.
        """
        own = [result.parameters[name].estimate if name in result.parameters else np.nan for name in self.names]
        if self.names != result.sensitivities.names or not np.allclose(own, self.estimates, rtol=_SAME, atol=0):
            raise ProblemError(
                f"the calibration is not of these results of {result.problem!r}: its parameters are others; calibrate "
                "with these results"
            )
