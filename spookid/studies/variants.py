"""What a study changes about a problem: settings, parameters and guesses, by name, at the points of a grid.

An axis of a grid is a name and the values that it takes, also as a text of the command line. Guesses may be drawn at
random: from a parameter's prior, its two bounds, or else a decade to either side of the guess. A guess of zero is no
size. A parameter without another is drawn by the size with which it would make up a tenth of what the recorded motion
takes, of what its sensor shows, or, of a delay, of a period of the cutoff.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from spookid.assembly.problem import AUTO, BACKENDS, FRICTIONS, Problem
from spookid.data.channels import all_predicted
from spookid.data.sampling import finite_samples
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.parameter import Parameter, substitute
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.stepping.spook import Spook
from spookid.stepping.variational import Variational

START = "start"
"""The axis of a sweep over starts."""
_DECADES = 1.0
"""To either side of a guess."""
_PART = 0.1
"""What a parameter with a guess of zero is supposed to make up, as a share of the whole."""
_ROUNDING = 1e-12
"""Share of the whole for each unit of a parameter that is none."""
_WIDE = 100.0
"""Ratio of two bounds above zero from which on all their decades are as likely."""


def drawn(
    problem: Problem, start: float | str, seed: int, guesses: Mapping[str, float], held: Collection[str] = ()
) -> dict[str, float]:
    """Guesses of a start, the same for the same seed; none for start 0, which has the problem's own.

    Args:
        guesses: that go before the problem's own.
        held: parameters whose guesses are not wanted.

    Raises:
        ProblemError: for a start that is no whole number from 0 on, or a guess of zero of which nothing tells a size.
    """
    if isinstance(start, str) or start < 0 or start != int(start):
        raise ProblemError(f"start is {start!r}; it takes 0, 1, 2 ...")
    if start == 0:
        return {}
    rng = np.random.default_rng([seed, int(start)])
    found = {}
    for p in problem.free:
        guess = guesses.get(p.name, problem.guess[p.name])
        if guess == 0 and not _ranged(p) and p.name not in held:
            guess = _size(problem, p) * rng.choice([-1.0] * (p.lower < 0) + [1.0] * (p.upper > 0))
        found[p.name] = _drawn(p, guess, rng)
    return found


def _ranged(parameter: Parameter) -> bool:
    """True of one that its prior or both bounds tell where to draw."""
    return parameter.prior is not None or (math.isfinite(parameter.lower) and math.isfinite(parameter.upper))


def _size(problem: Problem, parameter: Parameter) -> float:
    """Of a parameter with a guess of zero.

    Raises:
        ProblemError: if nothing tells it.
    """
    sizes = _sizes(problem)
    size = next((sizes[one] for one, copies in _copies(problem).items() if parameter.name in copies), math.inf)
    if not math.isfinite(size):
        raise ProblemError(
            f"{problem.place}: {parameter.name!r} has a guess of 0, from which starts cannot be drawn by decades, and "
            "neither the motion nor a sensor's offset tells its size; give it a prior or both bounds, or hold it"
        )
    return size


def _copies(problem: Problem) -> dict[str, set[str]]:
    """Names of the parameters that stand for each that was declared."""
    known = problem.parameter_set
    return {p.name: {p.name, *(one.name for one in known.of(p))} for p in known.declared}


@lru_cache(maxsize=1)
def _sizes(problem: Problem) -> dict[str, float]:
    """With which a parameter makes up a tenth of the whole at the guesses, by its declared name; 0 if the motion does
    not depend on it, infinite if nothing tells."""
    from spookid.estimation.explained import Balance  # which few starts need

    shown = all_predicted(problem.channels, State.symbols(problem.model))
    seen, values = {symbol.name() for symbol in ca.symvar(shown)}, problem.guess
    found = {
        p.name: _PART / problem.cutoff if p.name in problem.delays else math.inf for p in problem.parameter_set.declared
    }
    for channel in problem.channels:
        samples = [finite_samples(recording, channel.signal)[1] for recording in problem.sample]
        spread = max((float(np.std(one)) for one in samples if len(one)), default=0.0)
        for p in problem.parameter_set.declared:
            slope = abs(float(substitute(ca.jacobian(channel.offset, p), values).item()))
            found[p.name] = min(found[p.name], _PART * spread / slope) if slope * spread > 0 else found[p.name]
    try:
        balance = Balance(problem)
        efforts = balance.along(problem.sample[0])
    except (ProblemError, IndexError, np.linalg.LinAlgError):  # of too short a recording, say
        return found
    at = np.array([efforts.values[p.name] for p in balance.free])
    slopes = balance.rows(efforts, at)[1] / efforts.parts(at)[:, None]
    for p, share in zip(balance.free, np.sqrt(np.mean(slopes**2, axis=(0, 1))), strict=True):
        if share > _ROUNDING:
            found[p.name] = min(found[p.name], _PART / float(share))
        elif p.name not in seen and math.isinf(found[p.name]):
            found[p.name] = 0.0
    return found


def _drawn(parameter: Parameter, guess: float, rng: np.random.Generator) -> float:
    lower, upper = parameter.lower, parameter.upper
    if parameter.prior is not None:
        return float(np.clip(rng.normal(*parameter.prior), lower, upper))
    if _ranged(parameter):
        if lower > 0 and upper / lower > _WIDE:
            return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
        return float(rng.uniform(lower, upper))
    return float(np.clip(guess * 10 ** rng.uniform(-_DECADES, _DECADES), lower, upper))


AxisValue: TypeAlias = float | str
"""A value on an axis: a number, or the name of a stepper, of a backend ..."""

_NAME = re.compile(r"[^\W\d]\w*(\[.+\])?")
"""Of a setting or a parameter, perhaps that of one recording."""
_RANGE = re.compile(r"(?P<first>[^:]*):(?P<last>[^:]*):(?P<count>\d+)(?P<log>log)?")
_MOST_POINTS = 100_000
_HOW = "give NAME=a:b:n for n values from a to b, NAME=a:b:nlog for evenly spaced logarithms, or NAME=a,b,c"


@dataclass(frozen=True)
class Axis:
    """One direction of the grid of a study."""

    name: str
    """Of a setting or of a parameter."""
    values: tuple[AxisValue, ...]
    """In the order given, all different."""

    @property
    def is_numeric(self) -> bool:
        """True if all values are finite numbers."""
        return all(isinstance(value, float) and math.isfinite(value) for value in self.values)

    @property
    def is_logarithmic(self) -> bool:
        """True if the values are rather multiples of each other than evenly spaced."""
        if not self.is_numeric or len(self.values) < 3:
            return False
        values = np.sort(np.array(self.values, dtype=np.float64))
        if values[0] <= 0:
            return False
        return bool(
            np.ptp(np.diff(np.log(values))) / np.log(values[-1] / values[0]) < np.ptp(np.diff(values)) / np.ptp(values)
        )


def axis(text: str) -> Axis:
    """The axis that ``NAME=a:b:n``, ``NAME=a:b:nlog`` or ``NAME=a,b,c`` describes.

    Raises:
        ProblemError: if the text is none of these.
    """
    name, _, values = text.partition("=")
    if not (_NAME.fullmatch(name) and values):
        raise ProblemError(f"{text!r} is no axis; {_HOW}")
    match = _RANGE.fullmatch(values)
    if match is None:
        return Axis(name, _distinct(text, [_choice(part, text) for part in values.split(",")]))
    ends, count = [_number(match[end], text) for end in ("first", "last")], int(match["count"])
    if not 2 <= count <= _MOST_POINTS:
        raise ProblemError(f"{text!r} has {count} values; give 2 to {_MOST_POINTS:,}")
    if match["log"] and not min(ends) > 0:
        raise ProblemError(f"{text!r}: values with evenly spaced logarithms must be positive")
    grid_points = (np.geomspace if match["log"] else np.linspace)(ends[0], ends[1], count)
    rounded = [float(f"{value:.12g}") for value in grid_points.tolist()]  # without the round-off of the spacing
    return Axis(name, _distinct(text, rounded))


def axes_of(over: Mapping[str, Iterable[AxisValue]] | Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes from a mapping of names to values, or as they are.

    Raises:
        ProblemError: for no axis, an axis without values, one value twice on an axis, or two axes of one name.
    """
    if isinstance(over, Mapping):
        axes = tuple(
            Axis(name, _distinct(name, [value if isinstance(value, str) else _float(value, name) for value in values]))
            for name, values in over.items()
        )
    else:
        axes = tuple(over)
    if not axes:
        raise ProblemError(f"a sweep needs an axis; {_HOW}")
    names = [one.name for one in axes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ProblemError(f"{twice!r} is swept twice; put all its values into one axis")
    if math.prod(len(one.values) for one in axes) > _MOST_POINTS:
        raise ProblemError(f"the axes have more than {_MOST_POINTS:,} points; take fewer values")
    return axes


def grid_points(axes: Sequence[Axis]) -> list[dict[str, AxisValue]]:
    """All combinations of the values; the last axis changes fastest."""
    return [
        dict(zip([one.name for one in axes], values, strict=True)) for values in product(*(one.values for one in axes))
    ]


def from_neighbours(axes: Sequence[Axis]) -> list[dict[int, int | None]]:
    """Numbers of all points of a grid, in groups one after another, each with that of the neighbour, of an earlier
    group, that it begins from; None: from none.

    Along an axis of numbers the middle comes first, then the middles of both halves, and so on, so that groups grow.
    Points that differ in a text, or in the number of a random start, are no neighbours.
    """
    trees = [_halved(len(one.values)) if one.is_numeric and one.name != START else None for one in axes]
    sizes, groups = [len(one.values) for one in axes], dict[int, dict[int, int | None]]()
    for number, place in enumerate(product(*map(range, sizes))):
        depths = [0 if tree is None else tree[at][0] for tree, at in zip(trees, place, strict=True)]
        deepest, near = int(np.argmax(depths)), list(place)
        if (tree := trees[deepest]) is not None:
            near[deepest] = tree[place[deepest]][1]
        own = int(np.ravel_multi_index(near, sizes)) if any(depths) else None
        groups.setdefault(sum(depths), {})[number] = own
    return [groups[depth] for depth in sorted(groups)]


def _halved(count: int) -> list[tuple[int, int]]:
    """Depth of each place in a tree of halves, and the place above it."""
    found, parts = [(0, 0)] * count, [(0, count, 0, 0)]
    while parts:
        first, last, above, depth = parts.pop()
        if first < last:
            middle = (first + last) // 2
            found[middle] = depth, above
            parts += [(first, middle, middle, depth + 1), (middle + 1, last, middle, depth + 1)]
    return found


def _distinct(what: str, values: Sequence[AxisValue]) -> tuple[AxisValue, ...]:
    if not values:
        raise ProblemError(f"{what!r} has no values; {_HOW}")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ProblemError(f"{what!r} has the value {twice!r} twice; give each once")
    return tuple(values)


def _choice(part: str, text: str) -> AxisValue:
    """A number if it reads as one, else a name."""
    part = part.strip()
    value = _read(part)
    if value is None and (not part or ":" in part):
        raise ProblemError(f"{text!r} is no axis; {_HOW}")
    if value is not None and math.isnan(value):
        raise ProblemError(f"{text!r} has a value that is no number; {_HOW}")
    return part if value is None else value


def _number(part: str, text: str) -> float:
    value = _read(part)
    if value is None or not math.isfinite(value):
        raise ProblemError(f"{text!r}: {part!r} is no finite number; {_HOW}")
    return value


def _float(value: object, name: str) -> float:
    number = _read(value)
    if number is None:
        raise ProblemError(f"{name!r} has the value {value!r}; an axis takes numbers and texts")
    return number


def _read(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


STEPPERS = {"spook": Spook(), "spook-lifted": Spook(multipliers="lifted"), "variational": Variational()}
"""Time steppers by name."""

UNITS = {"step": "s", "friction_width": "rad/s", "cutoff": "Hz"}
"""Of settings that have one."""

_NUMBERS = ("step", "state_weight", "friction_width", "cutoff")
_CHOICES = {"stepper": tuple(STEPPERS), "friction": FRICTIONS, "backend": BACKENDS}
_WHOLE = (bool, int)
_OPTIONS = {f.name: type(f.default) if isinstance(f.default, _WHOLE) else float for f in fields(LevenbergMarquardt)}
"""Options of the solver, and of what kind each is."""


@dataclass(frozen=True)
class Variant:
    """What is to be changed about a problem before it is solved; texts and numbers only, so that it can travel."""

    settings: Mapping[str, AxisValue] = field(default_factory=dict)
    """The problem's own settings by name, ``backend``, and options of the solver."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Parameters that are held at a value."""
    initial: Mapping[str, float] = field(default_factory=dict)
    """Guesses of parameters."""
    fixed: tuple[str, ...] = ()
    """Parameters that keep their guess."""
    seed: int = 0
    """Of guesses that are drawn; see ``random_starts``."""

    def at(self, point: Mapping[str, AxisValue], problem: Problem) -> Variant:
        """This variant at a point of a grid whose axes are settings and parameters of ``problem``.

        A parameter's name goes before that of an option of the solver.

        Raises:
            ProblemError: for a name that is neither or both, or a value that does not fit it.
        """
        settings, held, initial = dict(self.settings), dict(self.held), dict(self.initial)
        known = set(problem.parameter_set.known)
        for name, value in point.items():
            if name in self.settings:
                raise ProblemError(f"{name} is given and swept; leave one of them out")
            if name == START and name not in known:
                guesses = drawn(problem, value, self.seed, problem.parameter_set.expanded(initial), self.fixed)
                initial |= {one: guess for one, guess in guesses.items() if one not in self.fixed}
            elif name in known and name not in _NUMBERS and name not in _CHOICES:
                held[name] = _held(name, value)
            else:
                settings[name] = _checked(name, value, known)
        return Variant(settings, held, initial, self.fixed, self.seed)

    def posed(self, problem: Problem) -> tuple[Problem, str, dict[str, Any]]:
        """The changed problem, the backend and the solver's options.

        Raises:
            ProblemError: for what the problem refuses.
        """
        known = problem.parameter_set.known
        initial = {name: value for name, value in {**self.initial, **self.held}.items() if name in known}
        fixed = {name for name in (*self.fixed, *self.held) if name in known}
        options: dict[str, Any] = dict(self.settings)
        backend = str(options.pop("backend", BACKENDS[0]))
        if "stepper" in options:
            options["stepper"] = STEPPERS[options["stepper"]]
        own = {name: options.pop(name) for name in list(options) if name not in _OPTIONS}
        options = {
            name: _OPTIONS[name](value) if _OPTIONS[name] in _WHOLE else value for name, value in options.items()
        }
        guesses = problem.parameter_set.updated(problem.initial, initial)
        changed = problem.with_(initial=guesses, fixed={*problem.fixed, *fixed}, **own)
        return changed, backend, options


def _held(name: str, value: AxisValue) -> float:
    if isinstance(value, str) or not math.isfinite(value):
        raise ProblemError(f"the parameter {name!r} is given {value!r}; it takes finite numbers")
    return value


def _checked(name: str, value: AxisValue, parameters: set[str]) -> AxisValue:
    """A setting's value, if it fits."""
    if name not in (*_NUMBERS, *_CHOICES, *_OPTIONS):
        raise ProblemError(
            f"{name!r} is neither a setting ({', '.join((*_NUMBERS, *_CHOICES, *_OPTIONS))}) nor a parameter "
            f"({', '.join(sorted(parameters)) or 'there are none'})"
        )
    if name in parameters:
        raise ProblemError(f"{name!r} is a setting and a parameter of this problem; rename the parameter")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ProblemError(f"{name} is {value!r}; choose from {', '.join(_CHOICES[name])}")
    elif isinstance(value, str):
        if (name, value) != ("state_weight", AUTO):
            other = " or auto" if name == "state_weight" else ""
            raise ProblemError(f"{name} is {value!r}; it takes numbers{other}")
    elif _OPTIONS.get(name) and not (value >= 0 and value == int(value)):
        raise ProblemError(f"{name} is {value!r}; it takes 0, 1, 2 ...")
    return value
