"""Base parameters: the combinations of parameters on which joint forces depend, computed before any fit.

Forces are linear in masses, first moments m c, inertias about the bodies' origins and coefficients of loads
(``spookid.mechanics.regressor``). Linearly dependent parameters are regrouped into combinations. If the forces and
torques of all joints are known, no motion identifies more than these *base parameters*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import gather
from spookid.assembly.constants import slip_widths
from spookid.assembly.priors import priors
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError, collected, declared_at
from spookid.estimation.motions import anywhere, forces, measured
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EQUAL
from spookid.mechanics.kinematics import Values
from spookid.mechanics.regressor import Quantity, Regressor
from spookid.parameter import Parameter, number, stacked, substitute
from spookid.records import dataclass
from spookid.results.wording import some_of
from spookid.statistics.weak_directions import Grouping, regrouped
from spookid.tables.table import Block, Table, Tabular, counted, superscripts
from spookid.tables.table import number as written


@dataclass(frozen=True, eq=False)
class BaseParameter:
    """Combination of inertial and friction quantities that forces determine."""

    parts: Mapping[str, float]
    """Coefficients by the names of the quantities; the first is 1."""
    unit: str
    formula: ca.SX
    """Of Parameters: ``solution(one.formula)`` is its estimate with an error."""
    guess: float
    """Value at the initial values of the problem."""

    @property
    def name(self) -> str:
        """Name of the combination as a sum, with terms of equal coefficients grouped."""
        together: dict[str, list[str]] = {}
        for name, factor in self.parts.items():
            together.setdefault(written(factor), []).append(name)
        return "".join(_term(*term) for term in together.items()).removeprefix(" + ")

    def __repr__(self) -> str:
        return f"<BaseParameter {self.name}>"


@dataclass(frozen=True, eq=False, repr=False)
class BaseParameters(Tabular):
    """Base parameters of a problem, for any motion or for given recordings."""

    problem: str
    """Its name."""
    motion: tuple[str, ...]
    """Names of the recordings; none for any motion."""
    quantities: tuple[Quantity, ...]
    """Unknown ones in which forces are linear, the columns of the regressor."""
    grouping: Grouping
    """Which of the columns depend on which."""
    guess: Values
    """Of all parameters."""
    held: tuple[str, ...]
    """Free parameters fixed at initial values, because forces are nonlinear in them, or an input multiplies them."""
    scaled: bool
    """False if no force is known in size, so that a common factor of all is not identifiable."""

    @property
    def rank(self) -> int:
        """How many combinations are seen."""
        return len(self.grouping.kept)

    @property
    def condition(self) -> float:
        """Condition number of the independent columns, normalized to unit length, so that units have no effect."""
        return self.grouping.condition

    @property
    def null_space(self) -> Array:
        """Changes of the quantities that leave all forces unchanged, rows (n − rank, n)."""
        return self.grouping.null_space

    @property
    def names(self) -> tuple[str, ...]:
        """Of the quantities."""
        return tuple(quantity.name for quantity in self.quantities)

    @cached_property
    def combinations(self) -> tuple[BaseParameter, ...]:
        """The base parameters."""
        return tuple(self._combination(row, column) for row, column in enumerate(self.grouping.kept))

    @property
    def unseen(self) -> tuple[str, ...]:
        """Names of quantities that affect no force."""
        return tuple(self.names[i] for i in self.grouping.still)

    @property
    def alone(self) -> tuple[str, ...]:
        """Names of quantities that are base parameters on their own."""
        shares = self.grouping.shares
        return tuple(self.names[i] for row, i in enumerate(self.grouping.kept) if not shares[row].any())

    @property
    def combined(self) -> tuple[str, ...]:
        """Names of quantities that are identifiable only in combinations."""
        return tuple(name for name in self.names if name not in {*self.alone, *self.unseen})

    def by_body(self) -> Table:
        """For each body, quantities identifiable alone, in combinations, and not at all; otherwise only the last."""
        homes = dict.fromkeys(quantity.of for quantity in self.quantities)
        kinds = self.alone, self.combined, self.unseen
        rows = []
        for home in sorted(homes, key=lambda home: not home):
            names = [quantity.name for quantity in self.quantities if quantity.of == home]
            own = {name: name.removeprefix(f"{home} ") for name in names}
            told = [some_of([own[name] for name in names if name in kind], list(own.values())) for kind in kinds]
            rows += [(home, *told)] if home else [("others", "", *told[1:])] if any(told[1:]) else []
        return Table(("of", "seen alone", "in combinations", "not at all"), rows, left=(0, 1, 2, 3))

    def headline(self) -> str:
        """Sentence with the number of identifiable combinations and the condition number."""
        motion = f"the motion of {', '.join(self.motion)}" if self.motion else "any motion"
        condition = f", condition number {written(self.condition, 3)}" if self.rank else ""
        return (
            f"{motion} shows {counted(self.rank, 'combination')} of {counted(len(self.names), 'unknown')}{condition}."
        )

    def remarks(self) -> list[str]:
        """What the numbers presume."""
        told = []
        if any(" " in name for name in self.names):
            told.append("h is mass times centre of mass, and I is the inertia about the body's origin.")
        if self.held:
            told.append(f"Held at their initial values: {', '.join(self.held)}.")
        if not self.scaled and self.rank:
            told.append("No force has a known magnitude: a common factor of all combinations is not identifiable.")
        return told

    def blocks(self) -> Sequence[Block]:
        """Headline, combinations with initial values, identifiable quantities of each body, and remarks."""
        rows = [(written(one.guess), superscripts(one.unit), one.name) for one in self.combinations]
        tables = Table(("initial value", "unit", "base parameter"), rows, left=(1, 2)), self.by_body()
        title = f"Base parameters of {self.problem}: {self.headline()}"
        return [title, *(table for table in tables if table.rows), *self.remarks()]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each base parameter: its name, initial value, unit, and the coefficient of each quantity."""
        nothing = dict.fromkeys(self.names, 0.0)
        return [
            {"base_parameter": one.name, "guess": one.guess, "unit": one.unit, **nothing, **one.parts}
            for one in self.combinations
        ]

    def __repr__(self) -> str:
        return f"<BaseParameters of {self.problem!r}: {self.rank} of {len(self.quantities)} quantities>"

    def _combination(self, row: int, column: int) -> BaseParameter:
        own, shares = self.quantities[column], self.grouping.shares[row]
        others = {
            self.quantities[i]: float(share) for i, share in zip(self.grouping.joined, shares, strict=True) if share
        }
        parts = {own: 1.0, **others}
        formula = sum((factor * quantity.formula for quantity, factor in parts.items()), ca.SX(0))
        named = {quantity.name: factor for quantity, factor in parts.items()}
        return BaseParameter(named, own.unit, formula, number(formula, self.guess))


@checked
def base_parameters(problem: Problem, recordings: Recording | Iterable[Recording] | None = None) -> BaseParameters:
    """Combinations of the free parameters, and of inertias that depend on them, that joint forces determine.

    A passive joint counts as one with the known force zero. Forces of loops and of holding contacts are not known, so
    that quantities that they balance are not identifiable. Parameters in which forces are not linear, such as lengths,
    and those that an input multiplies, such as gains of motors, are held at their initial values.

    Args:
        recordings: whose motion is taken, as their sensors of positions show it, with contacts as they hold there.
            None: any motion, joints anywhere with any rates and accelerations and contacts open that are not always
            closed, which is what an experiment can show at the most.

    Raises:
        ProblemError: if loops do not close, or a recording is too short, has not all signals, or is none of the
            problem's although Parameters are another in each.
    """
    given = () if recordings is None else [recordings] if isinstance(recordings, Recording) else recordings
    chosen = collected(given, Recording, f"{declared_at()}: base_parameters: recordings")
    _check_known(problem, chosen)
    regressor = Regressor(problem.model, unknown(problem))
    if chosen:
        sampled = tuple(gather(problem, recording) for recording in chosen)
        widths = slip_widths(problem, sampled)
        moved = [
            (measured(regressor, e.guess, problem.step, e.held), problem.guess_on(e.recording.name)) for e in sampled
        ]
    else:
        widths, values = slip_widths(problem, ()), problem.guess_on()
        moved = [(anywhere(regressor, values, widths), values)]
    found = [forces(regressor, motion, widths, values) for motion, values in moved]
    known = regressor.is_driven or bool(priors(problem)) or any(np.any(known) for _, known in found)
    values = moved[0][1]
    return BaseParameters(
        problem=problem.name,
        motion=tuple(recording.name for recording in chosen),
        quantities=regressor.quantities,
        grouping=regrouped(np.vstack([rows for rows, _ in found])),
        guess=values,
        held=regressor.held,
        scaled=known or not _may_grow(regressor, values),
    )


def _check_known(problem: Problem, recordings: Iterable[Recording]) -> None:
    """Refuse recordings of which parameters of their own are not known."""
    known = problem.parameter_set
    stray = next((recording.name for recording in recordings if recording.name not in known.recordings), None)
    if known.own and stray is not None:
        raise ProblemError(
            f"{problem.what} has no recording {stray!r}, and so no {known.own[0].name!r} "
            "of it; give it to the problem with with_(recordings=...) first"
        )


def _may_grow(regressor: Regressor, values: Values) -> bool:
    """True if some change of the free Parameters makes all quantities larger by the same share."""
    symbols = stacked(regressor.free)
    every = stacked(quantity.formula for quantity in regressor.quantities)
    sizes, slopes = (np.atleast_1d(substitute(part, values)) for part in (every, ca.jacobian(every, symbols)))
    slopes = slopes.reshape(len(sizes), -1)
    left = sizes - slopes @ np.linalg.lstsq(slopes, sizes, rcond=None)[0]
    return bool(np.linalg.norm(left) <= EQUAL * np.linalg.norm(sizes))


def unknown(problem: Problem) -> list[Parameter]:
    """Free Parameters of the problem, as declared."""
    free, known = {p.name for p in problem.free}, problem.parameter_set
    return [p for p in known.declared if any(one.name in free for one in known.of(p))]


def _term(factor: str, names: Sequence[str]) -> str:
    """Of a sum, with its sign."""
    size, sum_of = factor.removeprefix("-"), " + ".join(names)
    sign = "-" if factor.startswith("-") else "+"
    if size == "1":
        return "".join(f" {sign} {name}" for name in names)
    return f" {sign} {size} ({sum_of})" if len(names) > 1 else f" {sign} {size} {sum_of}"
