"""The wording of numbers and units that tables, pages and figures share."""

from __future__ import annotations

import math
import re

HALF_WIDTH = 1.96
"""Of a 95 % interval of the normal distribution, in standard errors."""
_MOST_DECIMALS = 7
_MOST_DIGITS = 9


def number(value: float, digits: int = 4) -> str:
    """``value`` with the given significant digits; a zero has no sign."""
    return f"{value + 0.0:.{digits}g}"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """``value`` with its unit, which may be empty."""
    return f"{number(value, digits)} {unit}".rstrip()


def superscripts(unit: str) -> str:
    """``kg m^2`` as kg m²."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"(?:\^|\*\*)(-?\d+)", lambda match: match[1].translate(raised), unit)


def labelled(name: str, unit: str) -> str:
    """A name with its unit in brackets, for an axis; without brackets if the unit is empty."""
    return f"{name} [{superscripts(unit)}]" if unit else name


def uncertain(value: float, error: float) -> str:
    """``value ± error``, both rounded to two significant digits of the error; ``value`` alone if it has none."""
    if not (math.isfinite(value) and math.isfinite(error)):
        return number(value)
    if error == 0:
        return f"{number(value, 6)} ± 0"
    last = _exponent(error, 1) - 1
    first = max(_exponent(value, 15), last + 1) if value else last + 1
    if first - last >= _MOST_DIGITS:
        return f"{number(value, _MOST_DIGITS)} ± {error:.1e}"
    if last >= -_MOST_DECIMALS and first < _MOST_DECIMALS:
        return f"{_rounded(value, -last)} ± {_rounded(error, -last)}"
    scale = 10.0**first
    return f"({_rounded(value / scale, first - last)} ± {_rounded(error / scale, first - last)})e{first}"


def _exponent(value: float, digits: int) -> int:
    """Power of ten of the first digit, once rounded."""
    return int(f"{abs(value):.{digits}e}".partition("e")[2])


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"


def bounds(lower: float, upper: float) -> str:
    """The interval in words; empty if it is infinite."""
    if math.isinf(lower) and math.isinf(upper):
        return ""
    if math.isinf(upper):
        return f"≥ {number(lower, 6)}"
    if math.isinf(lower):
        return f"≤ {number(upper, 6)}"
    return f"[{number(lower, 6)}, {number(upper, 6)}]"


def seconds(time: float) -> str:
    """A duration [s] with two significant digits, or whole seconds if it is long."""
    if 0 < time < 0.0995:
        return f"{number(1000 * time, 2)} ms"
    return f"{number(time, 2)} s" if time < 9.95 else f"{time:.0f} s"


def minutes(time: float) -> str:
    """A duration [s] that is foreseen, with one significant digit."""
    return f"{float(f'{time:.0e}'):g} s" if time < 100 else f"{float(f'{time / 60:.0e}'):,g} min"


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def deviation(value: float, unit: str) -> str:
    """A standard deviation with its unit, of small angles in mrad."""
    return quantity(1000 * value, "mrad") if unit == "rad" and value < 0.1 else quantity(value, unit)
