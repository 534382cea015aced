"""Constraints that users write as functions of a ``State``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import casadi as ca
import numpy as np

from spookid.data.state import State
from spookid.errors import ProblemError, evaluating
from spookid.mechanics.constraints import Constraint, Mechanism, Positions
from spookid.mechanics.model import Model
from spookid.parameter import expression, parameters_in, rows_of, symbolic
from spookid.records import dataclass

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Written(Constraint):
    """Rows that a user's function gives."""

    function: Callable[[State], Any]
    """Of a ``State``."""

    def __post_init__(self) -> None:
        super().__post_init__()

    def labels(self, model: Mechanism) -> tuple[str, ...]:
        """Their numbers, from 0 on."""
        return tuple(str(i) for i in range(self._rows(State.symbols(cast(Model, model))).numel()))

    def check(self, model: Mechanism) -> None:
        """The function must give rows that can hold."""
        state = State.symbols(cast(Model, model))
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

    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter: the rows in a state of numbers, too."""
        known = cast(Model, model)
        n, m = known.configuration.ambient, known.configuration.tangent
        q, v = (ca.SX(ca.DM(np.linspace(0.1, 0.9, size))) for size in (n, m))
        return [self.compliance, self.damping, self._rows(State(known, q, v))]


@dataclass(frozen=True, eq=False)
class Holonomic(_Written):
    """Rows g(q) = 0 of one's own: ``Holonomic("slot", lambda s: s.position(pin)[1] - y_0)``.

    Its function is one of a ``State``, of Parameters too, but not of velocities; rows in m or rad.

    Raises:
        ProblemError: for a row that depends on velocities, or on no position.
    """

    def _check_rows(self, state: State, rows: ca.SX) -> None:
        if state.order(rows):
            raise ProblemError(f"{self.what} depends on velocities; write it as Nonholonomic")
        if not all(ca.which_depends(rows, state.q, 1, True)):
            raise ProblemError(f"{self.what} has a row that no motion changes; take it away")

    def violation(self, model: Mechanism, q: ca.SX, positions: Positions) -> ca.SX:
        """Its rows."""
        return self._rows(State(cast(Model, model), q, ca.SX(cast(Model, model).configuration.tangent, 1)))


@dataclass(frozen=True, eq=False)
class Nonholonomic(_Written):
    """Rows A(q) v = γ of one's own, as of a wheel that rolls: ``Nonholonomic("tread", lambda s: s.velocity(...)[:2])``.

    Its function is one of a ``State``, of Parameters too, linear in the velocities; rows in m/s or rad/s.

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
    def signals(self) -> tuple[str, ...]:
        """That of γ, if it is one."""
        return (self.speed,) if isinstance(self.speed, str) else ()

    def _check_rows(self, state: State, rows: ca.SX) -> None:
        if not all(ca.which_depends(rows, state.v, 1, True)):
            raise ProblemError(f"{self.what} has a row that no velocity changes; write it as Holonomic")
        if any(ca.which_depends(rows, state.v, 2, True)):
            raise ProblemError(f"{self.what} has a row that is not linear in the velocities, which it must be")
        if np.any(np.abs(_at_rest(state, rows)) > _ROUNDING):
            raise ProblemError(f"{self.what} has a row that is not zero at rest; give what it is there as speed=")
        if not isinstance(self.speed, str) and self.speed.numel() != 1:
            symbolic(self.speed, f"{self.what}: speed", (rows.numel(),))

    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [*super().expressions(model), *([] if isinstance(self.speed, str) else [self.speed])]

    def rates(self, model: Mechanism, q: ca.SX, v: ca.SX) -> ca.SX:
        """Its rows."""
        return self._rows(State(cast(Model, model), q, v))

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """γ, one or one a row."""
        return inputs[self.speed] if isinstance(self.speed, str) else self.speed


def _at_rest(state: State, rows: ca.SX) -> np.ndarray:
    """Rows without velocities, (rows,), somewhere and at the guesses of Parameters."""
    still = ca.substitute(rows, state.v, ca.SX.zeros(state.v.shape))
    parameters = parameters_in([still], "the rows", ignore=[state.q])
    function = ca.Function("rest", [state.q, ca.vertcat(*parameters)], [still])
    somewhere = np.linspace(0.1, 0.9, state.q.numel())
    return np.asarray(function(somewhere, ca.DM([p.guess for p in parameters])).full()[:, 0], dtype=np.float64)
