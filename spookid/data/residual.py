"""Residuals of one's own: what is known of a motion beside its mechanics and its sensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from inspect import signature
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.data.arrays import floats
from spookid.data.channels import Channel
from spookid.data.recording import Recording
from spookid.data.sampling import Grid
from spookid.data.state import State
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.model import Model
from spookid.parameter import rows_of
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Residual(metaclass=Checked):
    """Rows that are small, zero, or not negative at every step: ``Residual("energy", lambda s, n: ..., sigma=1e-3)``.

    Raises:
        ProblemError: if ``expression`` takes neither one state nor two, or two at the start, or if a
            soft residual has not exactly one of ``sigma`` and ``covariance``, positive.
    """

    name: str
    expression: Callable[..., Any]
    """Of a ``State``, or of two neighbouring ones in the order of time; rows (n,), of Parameters too."""
    kind: Literal["soft", "hard", "inequality"] = "soft"
    """``"soft"``: normally distributed around zero; ``"hard"``: zero, in units in which 1e-6 is nothing (best with a
    given state weight, for it takes a freedom from what disturbs the motion); ``"inequality"``: not negative, in such
    units (for backend "ipopt")."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of soft rows, one for all or one each."""
    covariance: Any = None
    """Of soft rows, (n, n), in the place of ``sigma``."""
    at: Literal["start"] | None = None
    """``"start"``: the rows stand at the first state of each recording only: an angle of release, rest. The
    velocity there is that of the result: with ``Variational()`` the slope at t_0 of the parabola through the first
    three poses (of second order in h), with ``Spook()`` and ``OneStep`` the first state's own."""
    place: str = field(default_factory=declared_at, repr=False)

    is_repeated = False
    """True if its rows are made of data that other rows have too; errors are then no smaller than the jackknife's."""

    def __post_init__(self) -> None:
        if self.states not in (1, 2):
            raise ProblemError(
                f"{self._what} needs a function of one state, or of two neighbouring ones"
                "; write lambda s: ..., or lambda s, n: ..."
            )
        if self.at == "start" and self.states != 1:
            raise ProblemError(f"{self._what} stands at the start only; make it a function of one state")
        if (self.sigma is None) + (self.covariance is None) != (1 if self.kind == "soft" else 2):
            need = "one of sigma and covariance" if self.kind == "soft" else "neither sigma nor covariance"
            raise ProblemError(f"{self._what} is {self.kind}; give it {need}")

    @property
    def _what(self) -> str:
        return f"{self.place}: Residual {self.name!r}"

    @cached_property
    def states(self) -> int:
        """How many states it is a function of."""
        try:
            return len(signature(self.expression).parameters)
        except ValueError:  # of C code
            return 0

    def data(self, model: Model) -> int:
        """How many numbers of a recording its rows take at each step; see ``EnergyBalance``."""
        return 0

    def measured(
        self,
        recording: Recording,
        model: Model,
        channels: tuple[Channel, ...],
        steps: Grid,
        values: Mapping[str, float],
        states: Array,
    ) -> Array:
        """These numbers along a recording, (N − 1, n)."""
        raise NotImplementedError

    def rows(self, *states: State, data: ca.SX | None = None) -> ca.SX:
        """Its rows, (n,).

        Args:
            data: of a recording, as many as ``data`` says.

        Raises:
            ProblemError: if the expression cannot be evaluated.
        """
        with evaluating(self._what):
            return rows_of(self.expression(*states))

    def order(self, model: Model) -> int:
        """How many time derivatives of the configuration it sees: 0, 1 for velocities, 2 for accelerations."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        return max(state.order(rows) for state in states)

    def whitening(self, rows: int) -> Array:
        """W with which W r has unit covariance, (rows, rows); the unit matrix for other kinds.

        Raises:
            ProblemError: for sigma or a covariance of another size, or not positive.
        """
        if self.kind != "soft":
            return np.eye(rows)
        if self.covariance is None:
            sigma = np.ravel(floats(self.sigma, f"{self._what}: sigma"))
            sigma = np.full(rows, sigma[0]) if sigma.size == 1 else sigma
            if sigma.shape != (rows,) or not np.all((sigma > 0) & np.isfinite(sigma)):
                raise ProblemError(f"{self._what} has sigma {shown(self.sigma)}; give one positive number, or {rows}")
            return np.diag(1 / sigma)
        try:
            covariance = np.asarray(self.covariance, dtype=float).reshape(rows, rows)
            if not np.allclose(covariance, covariance.T, rtol=1e-9, atol=0):  # NaN is not like itself either
                raise ValueError
            return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))
        except (ValueError, np.linalg.LinAlgError):
            wanted = f"a symmetric, positive definite {rows} x {rows} matrix"
            raise ProblemError(f"{self._what}: covariance must be {wanted}") from None

    def check(self, model: Model) -> None:
        """Raise ProblemError if it does not fit the model."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        if not rows.numel():
            raise ProblemError(f"{self._what} has no rows; return one or more")
        moving = ca.which_depends(rows, ca.vertcat(*(x for state in states for x in (state.q, state.v))), 1, True)
        if self.kind == "hard" and not all(moving):
            raise ProblemError(
                f"{self._what} has a hard row that no state moves; write one parameter as an expression of the others"
            )
        self.whitening(rows.numel())
