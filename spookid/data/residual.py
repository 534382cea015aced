"""Residuals of one's own: what is known of a motion beside its mechanics and its sensors.

Constraints that users write as functions of a ``State``.
"""

from __future__ import annotations

from abc import abstractmethod
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
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics.constraints import Constraint, Positions
from spookid.mechanics.model import Model
from spookid.parameter import expression, parameters_in, rows_of, symbolic
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Residual(metaclass=Checked):
    """User-defined residuals that are small, zero, or not negative at every step:
    ``Residual("energy", lambda s, n: ..., sigma=1e-3)``.

    Raises:
        ProblemError: if ``expression`` takes neither one state nor two, or two at the start, or if a
            soft residual has not exactly one of ``sigma`` and ``covariance``, positive.
    """

    name: str
    expression: Callable[..., Any]
    """Function of a ``State``, or of two neighbouring ones in the order of time, to residuals (n,); it may contain
    Parameters."""
    kind: Literal["soft", "hard", "inequality"] = "soft"
    """``"soft"``: normally distributed around zero; ``"hard"``: an equality constraint, in units in which 1e-6 is
    nothing (best with a given weight, for it removes a degree of freedom of the process noise); ``"inequality"``: not
    negative, in such units (for backend "ipopt")."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of ``"soft"`` residuals, one for all or one each."""
    covariance: Any = None
    """Covariance of ``"soft"`` residuals, (n, n), instead of ``sigma``."""
    at: Literal["start"] | None = None
    """``"start"``: the rows hold at the first state of each recording only: an angle of release, rest. The
    velocity there is that of the result: with ``Variational()`` the slope at t_0 of the parabola through the first
    three poses (of second order in h), with ``Spook()`` and ``OneStep`` the first state's own."""
    place: str = field(default_factory=declared_at, repr=False)

    is_repeated = False
    """True if its rows are made of data that other rows have too; errors are then no smaller than the jackknife's."""

    def __post_init__(self) -> None:
        if self.states not in (1, 2):
            need = "a function of one state, or of two neighbouring ones"
            raise ProblemError(f"{self._what} needs {need}; write lambda s: ..., or lambda s, n: ...")
        if self.at == "start" and self.states != 1:
            raise ProblemError(f"{self._what} holds at the start only; make it a function of one state")
        if (self.sigma is None) + (self.covariance is None) != (1 if self.kind == "soft" else 2):
            need = "one of sigma and covariance" if self.kind == "soft" else "neither sigma nor covariance"
            raise ProblemError(f"{self._what} is {self.kind}; give it {need}")

    @property
    def _what(self) -> str:
        return f"{self.place}: Residual {self.name!r}"

    @property
    def is_hard(self) -> bool:
        """True for an equality constraint."""
        return self.kind == "hard"

    @property
    def is_inequality(self) -> bool:
        """True for an inequality constraint, whose value must not be positive."""
        return self.kind == "inequality"

    @cached_property
    def states(self) -> int:
        """Number of consecutive states on which the residual depends."""
        try:
            return len(signature(self.expression).parameters)
        except ValueError:  # of C code
            return 0

    def data(self, model: Model) -> int:
        """Number of measured values that the residual uses at each step; see ``EnergyBalance``."""
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
        """Measured values of the residual along a recording, (N − 1, n)."""
        raise NotImplementedError

    def rows(self, *states: State, data: ca.SX | None = None) -> ca.SX:
        """Its rows, (n,).

        Args:
            data: data of a recording, as many as ``data``.

        Raises:
            ProblemError: if the expression cannot be evaluated.
        """
        with evaluating(self._what):
            return rows_of(self.expression(*states))

    def order(self, model: Model) -> int:
        """Highest time derivative of the configuration in the residual: 0, 1 for velocities, 2 for accelerations."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        return max(state.order(rows) for state in states)

    def whitening(self, rows: int) -> Array:
        """Whitening matrix W such that W r has unit covariance, (rows, rows); the unit matrix for constraints.

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
        """Raise ProblemError if the residual does not fit the model."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        if not rows.numel():
            raise ProblemError(f"{self._what} has no rows; return one or more")
        moving = ca.which_depends(rows, ca.vertcat(*(x for state in states for x in (state.q, state.v))), 1, True)
        if self.is_hard and not all(moving):
            raise ProblemError(
                f"{self._what} has a constraint that no state moves; write one parameter as an expression of the others"
            )
        self.whitening(rows.numel())


@dataclass(frozen=True, eq=False)
class _Written(Constraint):
    """Rows that a user's function gives."""

    function: Callable[[State], Any]
    """Of a ``State``."""

    def labels(self, model: Model) -> tuple[str, ...]:
        """Their numbers, from 0 on."""
        return tuple(str(i) for i in range(self._rows(State.symbols(model)).numel()))

    def check(self, model: Model) -> None:
        """Raise ProblemError if the user's function does not return equations that can be satisfied."""
        state = State.symbols(model)
        with evaluating(self.what):
            rows = self._rows(state)
        if not rows.numel():
            raise ProblemError(f"{self.what} has no rows; return one or more")
        if ca.jacobian_sparsity(rows, ca.vertcat(state.a, *state.inputs.values(), state.step)).nnz():
            raise ProblemError(f"{self.what} depends on accelerations or inputs; it may be a function of q and v alone")
        self._check_rows(state, rows)

    @abstractmethod
    def _check_rows(self, state: State, rows: ca.SX) -> None: ...

    def _rows(self, state: State) -> ca.SX:
        return rows_of(self.function(state))

    def expressions(self, model: Model) -> list[ca.SX]:
        """All expressions that may contain a Parameter, including the equations in an example state."""
        n, m = model.configuration.ambient, model.configuration.tangent
        q, v = (ca.SX(ca.DM(np.linspace(0.1, 0.9, size))) for size in (n, m))
        return [self.compliance, self.damping, self._rows(State(model, q, v))]


@dataclass(frozen=True, eq=False)
class Holonomic(_Written):
    """User-defined holonomic constraint g(q) = 0: ``Holonomic("slot", lambda s: s.position(pin)[1] - y_0)``.

    Its function takes a ``State``, and may contain Parameters but not velocities; equations in m or rad.

    Raises:
        ProblemError: for a row that depends on velocities, or on no position.
    """

    def _check_rows(self, state: State, rows: ca.SX) -> None:
        if state.order(rows):
            raise ProblemError(f"{self.what} depends on velocities; write it as Nonholonomic")
        if not all(ca.which_depends(rows, state.q, 1, True)):
            raise ProblemError(f"{self.what} has a row that no motion changes; take it away")

    def violation(self, model: Model, q: ca.SX, positions: Positions) -> ca.SX:
        """Its rows."""
        return self._rows(State(model, q, ca.SX(model.configuration.tangent, 1)))


@dataclass(frozen=True, eq=False)
class Nonholonomic(_Written):
    """User-defined nonholonomic constraint A(q) v = γ, such as a rolling wheel:
    ``Nonholonomic("tread", lambda s: s.velocity(...)[:2])``.

    Its function takes a ``State``, may contain Parameters, and is linear in the velocities; equations in m/s or rad/s.

    Raises:
        ProblemError: for a row that is not linear in the velocities, not zero at rest, or does not depend on them.
    """

    on_velocities = True

    speed: Any = 0
    """γ: a number or an expression of Parameters, one or one a row [m/s or rad/s]; or the name of an input signal, for
    all rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.speed, str):
            object.__setattr__(self, "speed", ca.vec(expression(self.speed, f"{self.what}: speed")))

    @property
    def signals(self) -> tuple[str, ...]:  # type: ignore[override]
        """Name of the input signal γ, if γ is an input."""
        return (self.speed,) if isinstance(self.speed, str) else ()

    def _check_rows(self, state: State, rows: ca.SX) -> None:
        if not all(ca.which_depends(rows, state.v, 1, True)):
            raise ProblemError(f"{self.what} has a row that no velocity changes; write it as Holonomic")
        if any(ca.which_depends(rows, state.v, 2, True)):
            raise ProblemError(f"{self.what} has a row that is not linear in the velocities, which it must be")
        still = ca.substitute(rows, state.v, ca.SX.zeros(state.v.shape))
        parameters = parameters_in([still], "the rows", ignore=[state.q])
        at_rest = ca.Function("rest", [state.q, ca.vertcat(*parameters)], [still])
        found = at_rest(np.linspace(0.1, 0.9, state.q.numel()), ca.DM([p.guess for p in parameters]))
        if np.any(np.abs(found.full()) > HALF_DIGITS):
            raise ProblemError(f"{self.what} has a row that is not zero at rest; give what it is there as speed=")
        if not isinstance(self.speed, str) and self.speed.numel() != 1:
            symbolic(self.speed, f"{self.what}: speed", (rows.numel(),))

    def expressions(self, model: Model) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        return [*super().expressions(model), *([] if isinstance(self.speed, str) else [self.speed])]

    def rates(self, model: Model, q: ca.SX, v: ca.SX) -> ca.SX:
        """Its rows."""
        return self._rows(State(model, q, v))

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Prescribed velocity γ: one value for all equations, or one value per equation."""
        return inputs[self.speed] if isinstance(self.speed, str) else self.speed
