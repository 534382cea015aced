"""The one idea: a problem is a set of small one-step functions, repeated along time.

A factor is such a function, of the variables at a few neighbouring steps, of the parameters, of constants and of that
step's data. Steppers and observations write factors; the transcription repeats them over the horizon; solvers see
neither mechanics nor data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass

ACTIVE = 1e-6  # an inequality whose row is smaller, in the row's own unit, is met with equality


class Group(Enum):
    """Part of the cost to which a factor's equations belong."""

    STATE = "state"  # impulse residuals, weighted by κ
    OBSERVATION = "observation"  # observation residuals, weighted by 1/σ²
    RESIDUAL = "residual"  # residuals of the user's own, weighted by 1/σ²
    PRIOR = "prior"  # what is believed of parameters beforehand; it stands once per problem


class Kind(Enum):
    """Type of a factor's equations, which determines how a solver uses them."""

    SOFT = "soft"  # their squares are the cost
    HARD = "hard"  # they vanish at the solution
    INEQUALITY = "inequality"  # they are not negative at the solution
    PAIRS = "pairs"  # the residual is (a, b), one below the other, with 0 ≤ a ⟂ b ≥ 0


_OF_VARIABLES = ("inside", "ends", "wanted", "lower", "upper")  # fields of a box


@dataclass(frozen=True, eq=False)
class Box:
    """Piecewise law: some equations hold inside the bounds, others at a bound, depending on the wanted value.

    A value in [−1, 1] with a slack in its normal cone is one: inside the slack is zero, at an end value − end is.
    Which rows hold is a code that solvers choose and keep while they take a step.
    """

    codes: ca.SX  # symbol, (m,): 0: inside; −1 or 1: at that end; −2 or 2: both, at the corner between them
    inside: ca.SX  # rows that hold inside, (n,)
    ends: ca.SX  # rows that hold at an end, in terms of the codes, (n,)
    of: tuple[int, ...]  # to which code each of these rows belongs, (n,)
    wanted: ca.SX
    """(m,): below ``lower`` the law is at its lower end, else above ``upper`` at its upper one, else inside."""
    lower: ca.SX  # (m,)
    upper: ca.SX  # (m,)
    corners: bool = False  # True if there may be corners: then there is a row for each code

    @classmethod
    def unit(cls, codes: ca.SX, slack: ca.SX, value: ca.SX) -> Box:
        """Values limited to [−1, 1] and the excess, (m,) each."""
        one = ca.SX.ones(codes.numel())
        of = tuple(range(codes.numel()))
        return cls(codes, slack, value - ca.sign(codes), of, value + slack, -one, one, True)

    @classmethod
    def joined(cls, boxes: Sequence[Box]) -> Box:
        """Several without corners as one."""
        starts = np.cumsum([0, *(box.codes.numel() for box in boxes)]).tolist()
        of = tuple(start + i for start, box in zip(starts, boxes, strict=False) for i in box.of)
        parts = {name: ca.vertcat(*(getattr(box, name) for box in boxes)) for name in ("codes", *_OF_VARIABLES)}
        return cls(**parts, of=of)

    @property
    def expressions(self) -> list[ca.SX]:
        """All expressions of the law in the variables."""
        return [getattr(self, name) for name in _OF_VARIABLES]

    def rows(self) -> ca.SX:
        """Residual of the active equations, (n,); with corners, those inside, then those at bounds, (2 n,)."""
        codes = self.codes[list(self.of)]
        end, corner = ca.sign(codes), ca.fabs(codes) > 1
        if not self.corners:
            return ca.if_else(end == 0, self.inside, self.ends)
        return ca.vertcat(ca.if_else(end == 0, 1, corner) * self.inside, end**2 * self.ends)


@dataclass(frozen=True, eq=False)
class Through:
    """Residual in a few quantities of the variables, through which derivatives are chained: positions, rates and
    accelerations at one time, from unknowns at three times."""

    residual: ca.SX  # (rows,), in symbols of these quantities instead of the variables
    symbols: ca.SX  # (n,)
    values: ca.SX  # what they are in the variables, (n,)

    def settled(self, expression: ca.SX) -> ca.SX:
        """Expression of the symbols as a function of the variables."""
        settled: ca.SX = ca.substitute(expression, self.symbols, self.values)
        return settled


@dataclass(frozen=True, eq=False)
class Factor:
    """Residual of the variables at steps k + offset, in CasADi symbols."""

    name: str
    group: Group
    residual: ca.SX  # whitened residual, (rows,): its squared norm is its share of the cost
    variables: Mapping[int, ca.SX]  # offset to the symbol of that step's variables, (ambient,); offsets from 0 up
    data: ca.SX  # symbol of the step's data, (n_d,); may be empty
    rows: tuple[str, ...]  # a name for each row
    first_only: bool = False  # True if it stands at the first step only
    kind: Kind = Kind.SOFT  # rows of other kinds are no part of the cost
    motion: bool = False  # True if its rows are impulses that the motion lacks, and its data the inputs
    box: Box | None = None  # the law if the rows are those of one; hard
    noise: tuple[str, ...] = ()  # name of the noise that each row is whitened with; empty if its size is not estimated
    density: tuple[int, ...] = ()
    """Rows whose noise is a density of the newest variables; of others it is one of measurements."""
    overlap: float = 0.0
    """Covariance of the measurements' noise in neighbouring rows, whose sum over all lags is 1: 1/6 of means weighted
    by hats of two steps, 0 of white noise."""
    spheres: tuple[tuple[int, ...], ...] = ()
    """Rows of signals whose squares sum to one, as of a quaternion: no noise is in their own direction."""
    private: tuple[int, range] | None = None
    """Offset and tangent columns of unknowns that occur in no other factor and nearly linearly in this one, such as the
    multipliers of rigid joints; solvers may fit them at every point and need not carry them."""
    through: Through | None = None  # the same residual in other quantities, if it is written in such

    def written_in(self, symbols: ca.SX, values: ca.SX) -> Factor:
        """Factor of the variables from a factor of other quantities, through which its derivatives are chained."""
        return replace(self.substituted(symbols, values), through=Through(self.residual, symbols, values))

    def substituted(self, old: ca.SX, new: ca.SX) -> Factor:
        """Factor with other expressions in place of symbols that are not variables."""
        box, through = self.box, self.through
        parts = [self.residual, *(box.expressions if box else ()), *((through.residual,) if through else ())]
        residual, *rest = ca.substitute(parts, [old], [new])
        return replace(
            self,
            residual=residual,
            box=box and replace(box, **dict(zip(_OF_VARIABLES, rest, strict=False))),
            through=through and replace(through, residual=rest[-1]),
        )

    @property
    def reach(self) -> int:
        """Largest offset."""
        return max(self.variables)

    def count(self, steps: int) -> int:
        """Number of times that the factor applies on a horizon of ``steps`` steps."""
        return 1 if self.first_only else steps - self.reach

    @property
    def soft(self) -> bool:
        """True if the factor's residuals are part of the cost."""
        return self.kind is Kind.SOFT

    @property
    def hard(self) -> bool:
        """True if its rows vanish."""
        return self.kind is Kind.HARD

    @property
    def pairs(self) -> bool:
        """True if the factor's equations are complementarity pairs."""
        return self.kind is Kind.PAIRS

    def at_solution(self) -> Factor:
        """Return the equality constraints at a solution: smaller members of pairs, and active inequalities."""
        if self.kind is Kind.INEQUALITY:
            active = ca.if_else(self.residual <= ACTIVE, self.residual, 0)
            return replace(self, residual=active, through=None, kind=Kind.HARD)
        if not self.pairs:
            return self
        m = len(self.rows) // 2
        smaller = ca.fmin(self.residual[:m], self.residual[m:])
        return replace(self, residual=smaller, through=None, rows=self.rows[:m], kind=Kind.HARD)


def measured_noise(signal: str) -> str:
    """Name of the noise of a measured signal, different from names of hinges and bodies."""
    return f"measurement of {signal}"


@dataclass(frozen=True, eq=False)
class Constant:
    """Setting that factors contain as a symbol, so that a new number requires no new kernels."""

    symbol: ca.SX
    value: float


@dataclass(frozen=True, eq=False)
class Block:
    """Linearization of one factor along one chain."""

    factor: Factor
    chain: int
    matrix: Array
    """(count, columns + 1, rows): per step the transposed Jacobian, steps in order of offset and parameters last, and
    below it the residual."""

    @property
    def residual(self) -> Array:
        """(count, rows)."""
        return self.matrix[:, -1, :]
