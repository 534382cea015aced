"""What is known after an update: parameters and the newest state, with their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.tables.table import Table, uncertain
from spookid.tables.tabular import Block, Tabular


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineEstimate(Tabular):
    """What a fixed-lag smoother knows after an update: n_p parameters, n_b bodies, n_s coordinates of joints."""

    t: float
    """Time of the newest step [s]; NaN before there is one."""
    step: int
    """Its number, from 0 on; −1 before there is one."""
    values: Mapping[str, float]
    """Of the parameters that are estimated, by name; of continuous time where ``step_errors`` are known."""
    std_errs: Mapping[str, float]
    """Their standard errors for the noise that is given; NaN where there is a reason."""
    reasons: Mapping[str, str]
    """Why a parameter has no standard error, by its name."""
    units: Mapping[str, str]
    """Of the parameters, by name."""
    covariance: Array
    """Of the parameters, (n_p, n_p); NaN in the rows of those without a standard error."""
    step_errors: Mapping[str, float] = field(default_factory=dict)
    """What steps of h add to the parameters, by name, which is taken from ``values``: as the solution tells it that the
    smoother began with; the standard errors know that they may change with the motion."""
    positions: Mapping[str, float] = field(default_factory=dict)
    """Coordinates of the joints at the newest step, by their labels [rad or m]."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """How they change [rad/s or m/s]."""
    position_errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of the coordinates; NaN where the data do not tell them."""
    rate_errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of the rates, likewise."""
    variables: Mapping[str, Array] = field(default_factory=dict)
    """Of a graph its variables at the newest step, by name."""
    variable_errors: Mapping[str, Array] = field(default_factory=dict)
    """Standard errors in their tangent directions; NaN where the data do not tell them."""
    state_covariance: Array
    """Of the coordinates of joints, then their rates, (2 n_s, 2 n_s); of all variables of a graph in their tangent."""
    q: Array = field(default_factory=lambda: np.zeros((0, 7)))
    """Positions and quaternions of the bodies, (n_b, 7) [m]; none of a graph."""
    v: Array = field(default_factory=lambda: np.zeros((0, 6)))
    """Linear and angular velocities of the bodies, (n_b, 6) [m/s, rad/s]; likewise."""
    iterations: int
    """Gauss–Newton steps of this update; 0 if there was nothing to estimate anew."""
    converged: bool
    """True if the last of them was small against the standard errors."""
    reason: str
    """Why it has not converged; empty if it has."""
    findings: tuple[Finding, ...] = ()
    """What else is to be known: that residuals are larger than the noise says, or steps still are in the estimates."""
    stopped: Mapping[str, float] = field(default_factory=dict)
    """Times of the last samples [s] of inputs that have had none for long, and are held: by names of signals."""

    @property
    def notices(self) -> tuple[str, ...]:
        """``findings`` in sentences."""
        return tuple(finding.text for finding in self.findings)

    def __getitem__(self, name: str) -> float:
        """The value of a parameter.

        Raises:
            KeyError: for a name that is none.
        """
        try:
            return self.values[name]
        except KeyError:
            raise KeyError(f"no parameter {name!r} is estimated; there are {', '.join(self.values)}") from None

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {uncertain(value, self.std_errs[name])}" for name, value in self.values.items())
        return f"<OnlineEstimate at {self.t:.6g} s: {values}>"

    def blocks(self) -> Sequence[Block]:
        """Title, parameters and joints."""
        parameters = [
            (name, uncertain(value, self.std_errs[name]), self.units[name], self.reasons.get(name, ""))
            for name, value in self.values.items()
        ]
        joints = [
            (name, uncertain(value, self.position_errors[name]), uncertain(self.rates[name], self.rate_errors[name]))
            for name, value in self.positions.items()
        ]
        variables = [
            (name, str(i), uncertain(float(value), float(error)))
            for name, values in self.variables.items()
            if len(values) == len(self.variable_errors[name])
            for i, (value, error) in enumerate(zip(values, self.variable_errors[name], strict=True))
        ]
        told = [*filter(None, [self.reason]), *self.notices]
        tables = [
            Table(("parameter", "value", "unit", "reason"), parameters, left=(0, 2, 3)),
            Table(("coordinate", "position", "rate"), joints),
            Table(("variable", "", "value"), variables),
        ]
        return [f"At {self.t:.6g} s", *(table for table in tables if table.rows), *told]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        return [
            {"t": self.t, "parameter": name, "value": value, "std_err": self.std_errs[name], "unit": self.units[name]}
            for name, value in self.values.items()
        ]
