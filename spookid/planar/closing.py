"""The position problem: where all constraints hold, which coordinates are independent, and on which branch it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import DEPENDENT, HALVINGS, NEWTON, ROUNDING, TINY
from spookid.mechanics.system import System, parameter_values, vector
from spookid.parameter import Parameter, parameters_in, stacked

Branch = tuple[int, ...]  # a sign of each group of dependent coordinates, see ``Mechanism.branch``
Values = Mapping[str, float] | None  # of Parameters by name; initial values where there are none
Indices = NDArray[np.intp]
Group = tuple[Indices, Indices]
"""Rows and columns of constraints and coordinates that determine each other, as many of each."""

_STRIDE = 0.05
"""Of a coordinate that is moved to where it is asked to be, at once: an angle [rad], a length over the size."""
_SHORTEST = 1e-3  # of the longest stride, that after which a place counts as out of reach
_PREFERRED = 0.05  # of how much a coordinate moves that an angle must move by itself to be an independent one
_STARTS = 16


@dataclass(frozen=True, eq=False)
class Closing:
    """Solver of the position constraints of a system in real coordinates, without rotations."""

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    function: ca.Function  # φ and Φ_q of the coordinates and the parameters
    sparsity: ca.Sparsity  # of Φ_q
    declared: Array  # coordinates to begin with, (n,)
    angles: Sequence[int]  # which coordinates are angles
    wanted: Sequence[str] | None  # names of the independent coordinates, if they are given
    what: str

    @classmethod
    def of(
        cls, system: System, declared: Array, angles: Sequence[int], wanted: Sequence[str] | None, what: str
    ) -> Closing:
        """Make the solver for a system from coordinates that approximately satisfy the constraints."""
        parameters = parameters_in(system.expressions(), what)
        q, p = ca.SX.sym("q", len(system.names)), stacked(parameters)
        slope = system.constraint_jacobian(q)
        function = ca.Function("closing", [q, p], [system.constraint(q), ca.densify(slope)])
        return cls(system.names, parameters, function, slope.sparsity(), declared, tuple(angles), wanted, what)

    # --- what a mechanism is asked ---

    @cached_property
    def start(self) -> Array:
        """Coordinates that satisfy the constraints, nearest to the declared coordinates, (n,)."""
        return self._nearest(self.declared, self.numbers(None), "as it is declared")

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """Indices of the independent coordinates, in ascending order."""
        slope = self._slope(self.start, self.numbers(None))
        _, sizes, right = np.linalg.svd(slope)
        rank = int(np.sum(sizes >= DEPENDENT * sizes[0]))
        if rank < len(slope):
            raise ProblemError(
                f"{self.what} has {len(slope)} constraints of rank {rank} where it is declared; leave out those that "
                "others imply, or declare the points somewhere else, not all in one line"
            )
        if rank == len(self.names):
            raise ProblemError(f"{self.what} has {rank} constraints on {rank} coordinates: nothing moves; drop one")
        moves = right[len(slope) :].T / self._units[:, None]
        chosen = self._chosen(moves) if self.wanted is None else self._given(moves)
        return tuple(sorted(chosen))

    def assembled(self, guess: Array | Mapping[str, float] | None, branch: Branch | None, parameters: Values) -> Array:
        """See ``Mechanism.assembled``."""
        p = self.numbers(parameters)
        if branch is not None:
            if not isinstance(guess, Mapping):
                raise ProblemError(f"{self.what}: a branch is asked for without values of coordinates; give these")
            found = self.branches(guess, parameters)
            wanted = tuple(branch) if isinstance(branch, Sequence) else branch
            chosen = next((q for signs, q in found.items() if signs == wanted), None)
            if chosen is None:
                known = ", ".join(map(str, found)) or "none"
                raise ProblemError(f"{self.what} has no branch {shown(branch)} at {_told(guess)}; there is {known}")
            return chosen
        if guess is not None and not isinstance(guess, Mapping):
            return self._nearest(self._coordinates(guess, "an initial value"), p, "near the initial value")
        there = self._nearest(self.start, p, "with these parameters")
        return there if guess is None else self._moved(there, guess, p)

    def branch(self, q: Array, parameters: Values) -> Branch:
        """See ``Mechanism.branch``."""
        return self._signs(self._coordinates(q, "a position"), self.independent, self.numbers(parameters))

    def branches(self, values: Mapping[str, float], parameters: Values) -> dict[Branch, Array]:
        """See ``Mechanism.branches``."""
        held, p = self._held(values), self.numbers(parameters)
        if sorted(held) != list(self.independent):
            known = ", ".join(self.names[i] for i in self.independent)
            raise ProblemError(f"{self.what}: branches are those of the independent coordinates; give {known}")
        first = self.declared.copy()
        first[list(held)] = list(held.values())
        found = [first]
        for rows, columns in self._groups(self.independent):
            found = [other for q in found for other in self._solutions(q, rows, columns, p)]
        found.sort(key=lambda q: float(np.linalg.norm((q - self.start) / self._units)), reverse=True)
        return {self._signs(q, self.independent, p): q for q in found}

    # --- Newton's method ---

    def _nearest(self, near: Array, p: Array, where: str) -> Array:
        found = self._newton(near, p, np.arange(len(self.names)))
        if found is None:
            worst = float(np.max(np.abs(self._rows(near, p))))
            raise ProblemError(
                f"{self.what} does not close {where}: constraints are off by {worst:.3g} m or rad there, and no "
                "assembly is near; check lengths and points"
            )
        return found

    def _moved(self, q: Array, values: Mapping[str, float], p: Array) -> Array:
        """From an assembly to given values of coordinates, in strides in which no branch is left."""
        held = self._held(values)
        columns, targets = list(held), np.array(list(held.values()))
        freedoms = len(self.names) - self.sparsity.size1()
        if len(columns) != freedoms:
            raise ProblemError(f"{self.what} has {freedoms} degrees of freedom; give as many, not {len(columns)}")
        before, others = self._signs(q, columns, p), np.setdiff1d(np.arange(len(self.names)), columns)
        start, there, done = q[columns], q, 0.0
        longest = _STRIDE / max(float(np.max(np.abs(targets - start) / self._units[columns])), _STRIDE)
        stride = longest
        while done < 1:
            share = min(done + stride, 1.0)
            near = there.copy()
            near[columns] = start + share * (targets - start) if share < 1 else targets
            found = self._newton(near, p, others)
            if found is not None and self._signs(found, columns, p) == before:
                there, done, stride = found, share, min(2 * stride, longest)
            elif stride > _SHORTEST * longest:
                stride /= 2
            else:
                raise ProblemError(
                    f"{self.what} does not reach {_told(values)} on its branch, from where it is declared; give values "
                    "within reach, a branch, or all coordinates"
                )
        return there

    def _newton(self, near: Array, p: Array, columns: Indices, rows: Indices | None = None) -> Array | None:
        """Coordinates at which rows hold, by the least change of some columns; None if it does not converge."""
        q, chosen = near.copy(), np.arange(self.sparsity.size1()) if rows is None else rows
        left = self._rows(q, p)[chosen]
        for _ in range(NEWTON):
            closed = np.max(np.abs(left), initial=0.0) <= ROUNDING * max(self._size, 1.0)
            slope = self._slope(q, p)[np.ix_(chosen, columns)]
            if not (np.all(np.isfinite(slope)) and np.all(np.isfinite(left))):
                return None
            change = np.linalg.lstsq(slope, left)[0]
            for share in 0.5 ** np.arange(1 if closed else HALVINGS):
                there = q.copy()
                there[columns] -= share * change
                after = self._rows(there, p)[chosen]
                if np.linalg.norm(after) < np.linalg.norm(left):
                    q, left = there, after
                    break
            else:
                return q if closed else None
            if closed:  # and one step nearer, which is all that rounding allows
                return q
        return None

    def _solutions(self, q: Array, rows: Indices, columns: Indices, p: Array) -> Iterator[Array]:
        """All values of a group's coordinates that Newton's method finds, each once."""
        random = np.random.default_rng(len(columns))
        points, middle = np.delete(np.arange(len(q)), list(self.angles)), self.declared.copy()
        middle[points] = np.tile(middle[points].reshape(-1, 2).mean(axis=0), len(points) // 2)
        reach = 2 * self._units[columns]
        known: list[Array] = []
        for _ in range(_STARTS):
            near = q.copy()
            near[columns] = middle[columns] + reach * random.uniform(-1, 1, len(columns))
            found = self._newton(near, p, columns, rows)
            if found is None:
                continue
            turns = [i for i in self.angles if i in columns]
            found[turns] = q[turns] + np.remainder(found[turns] - q[turns] + np.pi, 2 * np.pi) - np.pi
            if all(np.max(np.abs(found - other) / self._units) > 1e-6 for other in known):
                known.append(found)
                yield found

    # --- groups and signs ---

    def _groups(self, held: Sequence[int]) -> list[Group]:
        """Rows and columns that follow from the held ones and the groups before, in that order."""
        others = np.setdiff1d(np.arange(len(self.names)), held)
        pattern = self.sparsity.sub(list(range(self.sparsity.size1())), others.tolist())[0]
        if not pattern.is_square() or ca.sprank(ca.DM(pattern)) < pattern.size1():
            given = ", ".join(self.names[i] for i in held)
            raise ProblemError(f"{self.what}: {given} do not determine the other coordinates; give others")
        count, rows, columns, ends, starts = pattern.btf()[:5]
        rows, columns = np.array(rows), others[np.array(columns)]
        return [(rows[ends[i] : ends[i + 1]], columns[starts[i] : starts[i + 1]]) for i in range(count)]

    def _signs(self, q: Array, held: Sequence[int], p: Array) -> Branch:
        slope, signs = self._slope(q, p), []
        for rows, columns in self._groups(held):
            if not set(columns) <= set(self.angles):
                block = slope[np.ix_(rows, columns)] * self._units[columns]
                block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), TINY)
                determinant = np.linalg.det(block)
                signs.append(0 if abs(determinant) < DEPENDENT else int(np.sign(determinant)))
        return tuple(signs)

    # --- independent coordinates ---

    def _chosen(self, moves: Array) -> list[int]:
        """Of what each coordinate moves by in the free motions (n, f): angles first, then the largest."""
        chosen: list[int] = []
        for i in self.angles:
            if len(chosen) < moves.shape[1] and _remaining(moves, chosen)[i] > _PREFERRED * np.linalg.norm(moves[i]):
                chosen.append(i)
        while len(chosen) < moves.shape[1]:
            chosen.append(int(np.argmax(_remaining(moves, chosen))))
        return chosen

    def _given(self, moves: Array) -> list[int]:
        names = list(self.wanted or ())
        freedoms = moves.shape[1]
        unknown = [name for name in names if name not in self.names]
        if unknown or len(set(names)) != freedoms:
            what = f"{self.what}: independent_names are {', '.join(map(str, names)) or 'none'}"
            raise ProblemError(f"{what}; give {freedoms} of {', '.join(self.names)}")
        chosen = [self.names.index(name) for name in names]
        if np.linalg.svd(moves[chosen], compute_uv=False)[-1] < DEPENDENT:
            what = f"{self.what}: {', '.join(names)} do not move independently where it is declared"
            raise ProblemError(f"{what}; give others")
        return chosen

    # --- numbers ---

    @cached_property
    def _size(self) -> float:
        """Of the mechanism: the largest extent of its points [m]."""
        lengths = np.delete(self.declared, list(self.angles))
        extent = np.max(np.ptp(lengths.reshape(-1, 2), axis=0), initial=0.0)
        return float(max(extent, np.max(np.abs(lengths))))

    @cached_property
    def _units(self) -> Array:
        """By which coordinates are compared: a radian, and the size of the mechanism, (n,)."""
        units = np.full(len(self.names), self._size)
        units[list(self.angles)] = 1.0
        return units

    def numbers(self, parameters: Values) -> Array:
        """Values of the Parameters: from a dict of given values; the other Parameters have their initial values."""
        given = parameters or {}
        if unknown := next((name for name in given if name not in [p.name for p in self.parameters]), None):
            raise ProblemError(f"{self.what} has no Parameter {unknown!r}; leave it out")
        return parameter_values(self.parameters, given, f"{self.what}: value")

    def _coordinates(self, values: Any, kind: str) -> Array:
        try:
            return vector(values, len(self.names), kind)
        except ProblemError:
            names = ", ".join(self.names)
            what = f"{self.what}: {kind} has {len(self.names)} finite numbers"
            raise ProblemError(f"{what}: {names}; give so many") from None

    def _held(self, values: Mapping[str, float]) -> dict[int, float]:
        for name, value in values.items():
            if name not in self.names or not (isinstance(value, Real) and math.isfinite(value)):
                what = f"{self.what} is asked for {name!r} at {shown(value)}"
                raise ProblemError(f"{what}; give numbers for some of {', '.join(self.names)}")
        return {self.names.index(name): float(value) for name, value in values.items()}

    def _rows(self, q: Array, p: Array) -> Array:
        return np.asarray(self.function(q, p)[0].full()[:, 0])

    def _slope(self, q: Array, p: Array) -> Array:
        return np.asarray(self.function(q, p)[1].full())


def _remaining(moves: Array, chosen: Sequence[int]) -> Array:
    """How much each coordinate moves while the chosen ones are still, (n,)."""
    basis, _ = np.linalg.qr(moves[list(chosen)].T)
    return np.asarray(np.linalg.norm(moves - moves @ basis @ basis.T, axis=1))


def _told(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in values.items())
