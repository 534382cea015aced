"""The unknown: a named symbol with a guess and bounds that stands wherever a number could stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import LARGEST, is_number
from spookid.errors import ProblemError, declared_at, is_text, shown
from spookid.tables import table

if hasattr(ca.GlobalOptions, "setNumpyMode"):
    # np.sin(parameter) is to give a casadi expression without a notice about CasADi's coming NumPy mode.
    ca.GlobalOptions.setNumpyMode(-1)

_declared: dict[int, Parameter] = {}
"""Every Parameter of this process by the hash of its symbol, so that expressions lead back to it."""


_placeholders: dict[int, Placeholder] = {}


class Placeholder(ca.SX):  # type: ignore[misc]
    """Symbol of the motion in expressions of coefficients and drives; it is zero at rest."""

    def __init__(self, name: str) -> None:
        super().__init__(ca.SX.sym(name))
        _placeholders[self.element_hash()] = self

    def __hash__(self) -> int:
        return hash(self.element_hash())


def placeholders_in(expressions: Iterable[ca.SX]) -> list[Placeholder]:
    """Placeholders in expressions, each listed once."""
    hashes = (symbol.element_hash() for symbol in _symbols(expressions)) if _placeholders else ()
    return [_placeholders[one] for one in hashes if one in _placeholders]


def at_rest(expression: ca.SX) -> ca.SX:
    """Expression in which all placeholders are zero."""
    for one in placeholders_in([expression]):
        expression = ca.substitute(expression, one, ca.SX(0))
    return expression


class Parameter(ca.SX):  # type: ignore[misc]
    """Unknown constant of the mechanism, usable in arithmetic, in NumPy expressions and in ``casadi`` functions.

    It *is* a CasADi ``SX`` symbol. A problem finds its parameters in its expressions; they are never listed again.

    Args:
        name: an identifier; it names the parameter in results and on the command line.
        guess: initial value of the search, inside the bounds, in ``unit``.
        lower, upper: bounds in ``unit``; infinite by default.
        unit: SI unit, for people.
        note: description, shown in tables.
        prior: (mean, sigma) in ``unit`` of a normal prior distribution. It adds ((value − mean)/sigma)² to the cost.
            If ``state_weight`` is given, give sigmas of the sensors, too: against a sigma of 1 rad for an encoder the
            prior outweighs the data.
        per: "recording" if each recording has its own value, such as a payload or an angle of release; results
            name it ``name[recording]``. Initial value, bounds and prior are those of each.

    Raises:
        ProblemError: for a name that is no identifier, bounds in the wrong order, an initial value outside them, a
            prior without finite mean and positive sigma, or another ``per``.
    """

    def __init__(
        self,
        name: str,
        guess: float,
        *,
        lower: float = -math.inf,
        upper: float = math.inf,
        unit: str = "",
        note: str = "",
        prior: tuple[float, float] | None = None,
        per: Literal["recording"] | None = None,
    ) -> None:
        place = declared_at()
        if not (isinstance(name, str) and name.isidentifier()):
            raise ProblemError(f"{place}: Parameter name {shown(name)} is not an identifier; use letters, digits and _")
        guess, lower, upper = (_number(value, f"{place}: Parameter {name!r}") for value in (guess, lower, upper))
        if not lower < upper:
            raise ProblemError(
                f"{place}: Parameter {name!r} has lower bound {lower:g} not below upper bound {upper:g}; exchange them"
            )
        if not (lower <= guess <= upper and math.isfinite(guess)):
            raise ProblemError(
                f"{place}: Parameter {name!r} has its initial value {guess:g} outside [{lower:g}, {upper:g}]; "
                "move the initial value or the bounds"
            )
        for what, text in (("unit", unit), ("note", note)):
            if not is_text(text):
                raise ProblemError(f"{place}: Parameter {name!r} has {what}={shown(text)}; give a text in one line")
        if not (per is None or (isinstance(per, str) and per == "recording")):
            raise ProblemError(f'{place}: Parameter {name!r} has per={shown(per)}; give "recording" or leave it out')
        belief = None if prior is None else _prior(prior, f"{place}: Parameter {name!r}")
        super().__init__(ca.SX.sym(name))
        self._facts = (name, guess, lower, upper, unit, note, place, len(_declared), belief)
        self._per = per
        self._instances: dict[str, Parameter] = {}
        _declared[self.element_hash()] = self

    def of(self, recording: str) -> Parameter:
        """Return the Parameter of a named recording, if each has its own value; repeated calls return one object.

        Raises:
            ProblemError: if all recordings share it.
        """
        if self._per is None:
            raise ProblemError(
                f'{self.place}: Parameter {self.name!r} is shared by all recordings; declare it with per="recording"'
            )
        if recording not in self._instances:
            self._instances[recording] = self._made_for(recording)
        return self._instances[recording]

    def _made_for(self, recording: str) -> Parameter:
        one = Parameter.__new__(Parameter)
        ca.SX.__init__(one, ca.SX.sym(self.name))  # called like this one: compiled code of any recordings is the same
        one._facts = (own_name(self.name, recording), *self._facts[1:])
        one._per, one._instances = None, {}
        _declared[one.element_hash()] = one
        return one

    @property
    def name(self) -> str:
        """Name of the Parameter in results and on the command line."""
        return self._facts[0]

    @property
    def guess(self) -> float:
        """Initial value of the search."""
        return self._facts[1]

    @property
    def lower(self) -> float:
        """Lower bound, -inf if there is none."""
        return self._facts[2]

    @property
    def upper(self) -> float:
        """Upper bound, inf if there is none."""
        return self._facts[3]

    @property
    def unit(self) -> str:
        """SI unit, for people."""
        return self._facts[4]

    @property
    def note(self) -> str:
        """Description, shown in tables."""
        return self._facts[5]

    @property
    def place(self) -> str:
        """``file.py:line`` of its declaration."""
        return self._facts[6]

    @property
    def order(self) -> int:
        """Position in the order of declaration; Parameters of recordings have the position of the declared one."""
        return self._facts[7]

    @property
    def prior(self) -> tuple[float, float] | None:
        """Mean and sigma of the prior; None if the Parameter has no prior."""
        return self._facts[8]

    @property
    def per(self) -> Literal["recording"] | None:
        """``"recording"`` if each recording has its own value; None if all recordings share one value."""
        return self._per

    def __repr__(self) -> str:
        facts = {"lower": self.lower, "upper": self.upper, "unit": self.unit}
        shown = [f"{name}={value!r}" for name, value in facts.items() if value not in (-math.inf, math.inf, "")]
        return f"Parameter({', '.join([repr(self.name), repr(self.guess), *shown])})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        head, limits = ("parameter", "initial value", "unit", "bounds", "note"), table.bounds(self.lower, self.upper)
        row = (self.name, table.number(self.guess), table.superscripts(self.unit), limits, self.note)
        return table.Table(head, [row], left=(2, 3, 4))._repr_html_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter is its symbol: copies are the same unknown."""
        return self

    def __copy__(self) -> Parameter:
        return self

    def __hash__(self) -> int:
        return hash(self.element_hash())


def own_name(name: str, recording: str) -> str:
    """Name of a recording's own value of the parameter ``name``."""
    return f"{name}[{recording}]"


def _number(value: Any, what: str) -> float:
    if not is_number(value):
        raise ProblemError(f"{what}: initial value and bounds must be numbers, not {shown(value)}")
    return float(value)


def _prior(value: Any, what: str) -> tuple[float, float]:
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_number, value))):
        raise ProblemError(f"{what}: prior must be a pair (mean, sigma) of numbers, not {shown(value)}")
    mean, sigma = map(float, value)
    if not (math.isfinite(mean) and math.isfinite(sigma) and sigma > 0):
        raise ProblemError(f"{what}: prior ({mean:g}, {sigma:g}) must have a finite mean and a positive, finite sigma")
    return mean, sigma


def symbolic(value: Any, what: str, shape: tuple[int, ...] = ()) -> ca.SX:
    """Convert ``value`` to a CasADi expression with a given shape.

    Args:
        value: a number, a Parameter, an expression, or nested sequences or arrays of them.
        what: names the thing in an error message.
        shape: (), (n,) or (n, m).

    Raises:
        ProblemError: if it is none of these, has another shape, or holds a NaN or an infinite number.
    """
    result = expression(value, what)
    wanted = (*shape, 1, 1)[:2]
    if result.shape != wanted:
        size = "one number" if not shape else "shape " + " x ".join(map(str, shape))
        raise ProblemError(f"{what} must have {size}, not {' x '.join(map(str, result.shape))}")
    if any(e.is_constant() and not abs(float(e)) <= LARGEST for e in result.nonzeros()):
        raise ProblemError(f"{what} holds a value that is not finite, or beyond {LARGEST:g}; correct it, or its unit")
    return result


def expression(value: Any, what: str) -> ca.SX:
    """Convert ``value`` to a CasADi expression with the shape of ``value``.

    Raises:
        ProblemError: if it is no number, Parameter, expression, nor sequences or arrays of them.
    """
    try:
        return _convert(value)
    except (TypeError, ValueError, NotImplementedError, RuntimeError, OverflowError, RecursionError):
        raise ProblemError(f"{what} must be a number or an expression of Parameters, not {shown(value)}") from None


def _convert(value: Any) -> ca.SX:
    if isinstance(value, ca.SX):
        return value[:, :]  # a copy, at a fifth of what the constructor takes
    if isinstance(value, (ca.DM, int, float, np.number)):
        return ca.SX(value)
    if isinstance(value, Real):  # a fraction
        return ca.SX(float(value))
    # Bytes and keys are numbers, too; a set has no order, and what is masked no value.
    if isinstance(value, (str, bytes, bytearray, Mapping, Set)) or np.ma.is_masked(value):
        raise TypeError
    if isinstance(value, np.ndarray) and value.dtype != object:
        if value.dtype.kind not in "biuf":
            raise TypeError
        return ca.SX(ca.DM(value.astype(float)))
    rows = [_convert(row) for row in value]
    if all(row.is_scalar() for row in rows):
        return ca.vertcat(*rows)
    return ca.vertcat(*(row.T for row in rows))


def parameters_in(expressions: Iterable[ca.SX], what: str, ignore: Iterable[ca.SX] = ()) -> tuple[Parameter, ...]:
    """Return the Parameters in ``expressions``, in the order of declaration; symbols in ``ignore`` are allowed.

    Raises:
        ProblemError: if a symbol is no Parameter, or if two Parameters have one name.
    """
    found: dict[int, Parameter] = {}
    known = {symbol.element_hash() for symbol in _symbols(ignore)}
    for symbol in _symbols(expressions):
        if symbol.element_hash() in known or symbol.element_hash() in _placeholders:
            continue
        parameter = _declared.get(symbol.element_hash())
        if parameter is None:
            raise ProblemError(f"{what} holds the symbol {symbol.name()!r}, which is no Parameter; declare it as one")
        found[symbol.element_hash()] = parameter
    ordered = tuple(sorted(found.values(), key=lambda parameter: (parameter.order, parameter.name)))
    names: dict[str, Parameter] = {}
    for parameter in ordered:
        if parameter.name in names:
            first = names[parameter.name]
            raise ProblemError(
                f"{what} has two Parameters named {parameter.name!r}, declared at {first.place} and at "
                f"{parameter.place}; rename one"
            )
        names[parameter.name] = parameter
    return ordered


def _symbols(expressions: Iterable[ca.SX]) -> Sequence[ca.SX]:
    symbols: Sequence[ca.SX] = ca.symvar(ca.veccat(ca.SX(0, 1), *expressions))
    return symbols


def is_constant(value: ca.SX) -> bool:
    """True if an expression contains no symbol."""
    return bool(value.is_constant()) or not ca.symvar(value)


def is_zero(value: ca.SX) -> bool:
    """True for the number zero."""
    return is_constant(value) and float(value) == 0


def stacked(parts: Iterable[ca.SX]) -> ca.SX:
    """Stack several columns into one column, (n,); without columns the result is empty."""
    return ca.vertcat(ca.SX(0, 1), *parts)


def rows_of(value: Any) -> ca.SX:
    """Stack the result of a user's function, one expression or several, into one column, (n,)."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    return ca.densify(stacked(ca.vec(ca.SX(part)) for part in parts))


def number(formula: ca.SX, values: Mapping[str, float]) -> float:
    """Evaluate a scalar expression with a dict from Parameter name to value."""
    return float(formula) if is_constant(formula) else float(substitute(formula, values).item())


def substitute(formula: ca.SX, values: Mapping[str, float]) -> np.ndarray:
    """Evaluate an expression with a dict from Parameter name to value.

    Returns:
        array of the expression's shape, squeezed to (n,) for a column.
    """
    if formula.is_constant():  # as most are, and functions take a while to make
        if formula.is_scalar():
            return np.array([float(formula)])
        fixed = np.asarray(ca.evalf(formula).full(), dtype=float)
        return fixed[:, 0] if fixed.shape[1] == 1 else fixed
    formula, parameters = at_rest(formula), parameters_in([formula], "the expression")
    function = ca.Function("value", [ca.vertcat(*parameters)], [formula])
    result = np.asarray(function(ca.DM([values[p.name] for p in parameters])).full(), dtype=float)
    return result[:, 0] if result.shape[1] == 1 else result
