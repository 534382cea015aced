"""Motions at which forces are evaluated: those of recordings, and random states."""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.initialization import Guess
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.kernels.precision import HALF_DIGITS, NEWTON
from spookid.mechanics.kinematics import Values
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.regressor import Balance, Regressor


class Motion(NamedTuple):
    """Coordinates of the tree, with rates and accelerations, at some states."""

    x: Array
    """(N, ambient)."""
    s: Array
    """(N, n)."""
    a: Array
    """(N, n)."""


class Given(NamedTuple):
    """Quantities for which forces are evaluated."""

    motion: Motion
    holding: Array
    """1 for each contact that may push, else 0, (N, n_c)."""


def measured(regressor: Regressor, guess: Guess, step: float, held: Array, most: int = 2000) -> Given:
    """Smoothed motion of a recording at about so many states, by differences over three steps of h each, with the
    scheduled contacts, (N − 1, n_c)."""
    joints = regressor.joints
    x = joints.along(guess.states, guess.displacements)
    two = [ca.SX.sym(name, joints.manifold.ambient) for name in ("before", "after")]
    apart = ca.Function("apart", two, [ca.densify(joints.manifold.difference(two[1], two[0]))])
    rates = np.asarray(apart(x[:-1].T, x[1:].T).full()).T / step
    every = max((len(x) - 2) // most, 1)
    parts = x[1:-1], (rates[1:] + rates[:-1]) / 2, (rates[1:] - rates[:-1]) / step
    return Given(Motion(*(part[::every] for part in parts)), np.maximum(held[:-1], held[1:])[::every])


def anywhere(regressor: Regressor, values: Values, widths: Array, spare: int = 4, trials: int = 20) -> Given:
    """Random states, reproducible, so many for each unknown: any angles, other quantities of order one, all contacts
    fixed; raises ProblemError if loops do not close."""
    space = regressor.joints.manifold
    rng = np.random.default_rng(0)
    count = spare * len(regressor.quantities) // max(space.tangent, 1) + spare
    at = _Ties(regressor, values, widths)
    holding = np.array([float(not contact.switches) for contact in regressor.model.holding.contacts])
    found: list[tuple[Array, Array, Array]] = []
    for _ in range(trials * count):
        x, (s, a) = _point(space, rng), rng.normal(size=(2, space.tangent))
        state = at.closed(x, s, a, holding)
        found += [state] if state is not None else []
        if len(found) == count:
            motion = Motion(*(np.array(part) for part in zip(*found, strict=True)))
            return Given(motion, np.tile(holding, (count, 1)))
    raise ProblemError(
        f"{regressor.model.place}: Model: its loops do not close from joints at random; ask for the base parameters "
        "of a recording"
    )


def forces(regressor: Regressor, given: Given, widths: Array, values: Values) -> tuple[Array, Array]:
    """Regressor Y at all states along the directions that loops, rolling and contacts leave free, stacked, and the
    known part of the forces, (rows, n_c) and (rows,), for widths of smooth friction (n_s,)."""
    motion = given.motion
    n, count = motion.s.shape[1], len(motion.x)
    slopes, known = linear_rows(regressor, motion, widths, values)
    columns = slopes.shape[2]
    bases = directions(regressor, given, widths, values)
    if bases is None:
        return slopes.reshape(count * n, columns), known.T
    rows = [basis.T @ one for basis, one in zip(bases, slopes, strict=True)]
    left = [basis.T @ one for basis, one in zip(bases, known, strict=True)]
    return np.vstack(rows), np.concatenate(left)


def directions(regressor: Regressor, given: Given, widths: Array, values: Values) -> list[Array] | None:
    """Directions that loops, rolling and contacts leave free, per state (n, free); None without constraints."""
    return _Ties(regressor, values, widths).free(given)


def linear_rows(
    regressor: Regressor,
    motion: Motion,
    widths: Array,
    values: Values,
    inputs: Array | None = None,
    balance: Balance = "forces",
) -> tuple[Array, Array]:
    """Derivatives of the balance with respect to the quantities, (N, n, n_c), and the rest, (N, n); inputs (N, n_u) are
    zero if None."""
    u = np.zeros((len(motion.x), len(regressor.model.inputs))) if inputs is None else inputs
    given = (*(part.T for part in motion), widths, regressor.numbers(values), u.T)
    flat, known = (np.asarray(part.full()).T for part in regressor.function(balance)(*given))
    shape = (len(u), len(regressor.quantities), known.shape[1])
    return flat.reshape(shape).transpose(0, 2, 1), known


class _Ties:
    """What closes loops, rolls and holds, in numbers."""

    def __init__(self, regressor: Regressor, values: Values, widths: Array) -> None:
        self._function = regressor.ties()
        self._given = widths, regressor.numbers(values)
        self._space = regressor.joints.manifold
        x, step = ca.SX.sym("x", self._space.ambient), ca.SX.sym("step", self._space.tangent)
        self._moved = ca.Function("moved", [x, step], [ca.densify(self._space.retract(x, step))])
        self._rows = self._function.numel_out(1)
        self._of_contacts = regressor.of_contacts

    def free(self, given: Given) -> list[Array] | None:
        """Directions that constraint equations leave free at each state, (n, free) each; None without equations."""
        if not self._rows:
            return None
        function, (x, s, _) = self._function, given.motion
        symbols = [ca.SX.sym(function.name_in(i), function.size1_in(i)) for i in (0, 1, 3, 4)]
        slopes = Kernel(ca.Function("slopes", symbols, [function(*symbols[:2], 0 * symbols[1], *symbols[2:])[2]]), 2)
        shared = [np.array(part, dtype=np.float64).ravel() for part in self._given]
        J = slopes([contiguous(x), contiguous(s)], shared, np.empty((len(x), self._rows, s.shape[1])))
        acts = np.ones((len(x), self._rows))
        for own, holds in zip(self._of_contacts, given.holding.T, strict=True):
            acts[:, own] = holds[:, None]
        _, sizes, directions = np.linalg.svd(acts[:, :, None] * J)
        ranks = np.sum(sizes > HALF_DIGITS * sizes[:, :1], axis=1)
        return [one[rank:].T for one, rank in zip(directions, ranks, strict=True)]

    def closed(self, x: Array, s: Array, a: Array, holding: Array) -> tuple[Array, Array, Array] | None:
        """State near a given one that satisfies the constraints; None if none is found."""
        if not self._rows:
            return x, s, a
        for _ in range(NEWTON):
            gap, J, _ = self._at(x, s, holding)
            x = self._moved(x, -_least(J[: len(gap)], gap)).full()[:, 0]
            if np.max(np.abs(gap), initial=0.0) < HALF_DIGITS:  # and less by its square after this step
                _, J, _ = self._at(x, s, holding)
                s = s - _least(J, J @ s)
                drift = self._at(x, s, holding)[2]
                return x, s, a - _least(J, J @ a + drift)
        return None

    def _at(self, x: Array, s: Array, holding: Array) -> tuple[Array, Array, Array]:
        """g, J and J̇ s, with zeros for contacts that do not hold."""
        gap, _, J, drift = (np.asarray(part.full())[:, 0] for part in self._function(x, s, 0 * s, *self._given))
        acts = np.ones(self._rows)
        for own, holds in zip(self._of_contacts, holding, strict=True):
            acts[own] = holds
        return gap, acts[:, None] * J.reshape(self._rows, len(s)), acts * drift


def _least(J: Array, rows: Array) -> Array:
    return np.asarray(np.linalg.lstsq(J, rows, rcond=HALF_DIGITS)[0])


def _point(space: Manifold, rng: np.random.Generator) -> Array:
    parts = [rng.uniform(-np.pi, np.pi, n) if kind == "flat" else rng.normal(size=n) for kind, n in space.parts]
    return space.normed(np.concatenate(parts)) if parts else np.zeros(0)
