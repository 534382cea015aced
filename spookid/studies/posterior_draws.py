"""Draws of the parameters from their posterior, for simulators whose models are randomized.

Parameters are drawn together, with the correlations of the fit, from the normal distribution around the estimates. A
draw beyond a bound, or with inertias that no body has, is made again. Of inertias with coordinates such as
``LogCholesky`` the inertial parameters π are drawn, in which the equations of motion are linear, and the nearest that a
body can have are taken: logarithms of what is hardly known are not normally distributed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import casadi as ca
import msgspec
import numpy as np

from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics.inertia import DIGITS, symmetric
from spookid.mechanics.inertia_coordinates import InertiaCoordinates
from spookid.parameter import is_constant, parameters_in
from spookid.records import dataclass
from spookid.results import folders
from spookid.results.result import Solution
from spookid.tables.table import COLUMNS, Block, Table, Tabular, counted, number, superscripts

_COVERS = (
    "The draws cover the uncertainty of the estimates for this device, these recordings and this model. They do not "
    "cover differences between devices, or errors of the model. Ranges of single parameters do not show correlations."
)


@dataclass(frozen=True, eq=False)
class PosteriorDraws(Tabular):
    """Draws from the posterior distribution of a problem's parameters, (n, n_p)."""

    problem: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array
    """A row for each draw, a column for each parameter that has a standard error, (n, n_p)."""
    held: Mapping[str, float]
    """Parameters without a standard error, at their estimates in every draw."""
    redrawn: float
    """Share of the draws that were beyond a bound, or of impossible inertias, and were made again."""
    seed: int
    covers: str = _COVERS

    def __getitem__(self, i: int) -> dict[str, float]:
        """All parameters of a draw, by name."""
        return {**self.held, **dict(zip(self.names, self.values[i].tolist(), strict=True))}

    def __len__(self) -> int:
        return len(self.values)

    def blocks(self, width: int = COLUMNS) -> list[Block]:
        """Table of the ranges of the draws, and lists of fixed and included parameters."""
        shares = (5, 50, 95)
        ranges = np.percentile(self.values, shares, axis=0).T
        rows = [
            (name, *(number(value, 4) for value in own), superscripts(unit))
            for name, unit, own in zip(self.names, self.units, ranges.tolist(), strict=True)
        ]
        held = f"Parameters without a standard error keep their estimates: {', '.join(self.held)}." if self.held else ""
        again = f"{100 * self.redrawn:.2g} % were beyond a bound or of impossible inertias, and were drawn again."
        found: list[Block] = [
            f"{self.problem}: {counted(len(self), 'draw')} from the posterior, seed {self.seed}",
            Table(("parameter", *(f"{q} %" for q in shares), "unit"), rows),
        ]
        return found + [text for text in (held, again if self.redrawn else "", self.covers) if text]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each draw."""
        return [self[i] for i in range(len(self))]

    def save(self, path: Path) -> None:
        """Write the draws to an NPZ or JSON file, with names, units and the parameters that they include.

        Raises:
            ProblemError: for another ending, or if the file cannot be written.
        """
        facts = {"problem": self.problem, "units": dict(zip(self.names, self.units, strict=True)), "seed": self.seed}
        facts |= {"held": dict(self.held), "redrawn": self.redrawn, "covers": self.covers}
        if path.suffix == ".json":
            tree = {**facts, "parameters": list(self.names), "draws": self.values.tolist()}
            folders.write(path, msgspec.json.format(msgspec.json.encode(tree), indent=1).decode())
        elif path.suffix == ".npz":
            arrays: dict[str, Any] = {"parameters": np.array(self.names), "draws": self.values}
            arrays["facts"] = np.array(msgspec.json.encode(facts).decode())
            folders.write(path, lambda part: _write_npz(part, arrays))
        else:
            raise ProblemError(f"{path}: draws are written as .npz or .json; give a name that ends so")


def _write_npz(part: Path, arrays: Mapping[str, Any]) -> None:
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)


def randomize(problem: Problem, solution: Solution, count: int = 1000, seed: int = 0) -> PosteriorDraws:
    """Draw parameters from the posterior distribution of a fit. ::

        draws = spookid.studies.randomize(problem, solution, 4096)
        simulated = problem.simulate(draws[0], duration=5)

    Args:
        problem: the problem that was solved; its bodies determine which inertias are possible.
        solution: its fit.
        count: number of draws, n.
        seed: seed of the random numbers.

    Returns:
        the draws, each within the bounds of the parameters and with inertias that a body can have.

    Raises:
        ProblemError: if no parameter has a standard error, or nearly no draw is within bounds and possible.
    """
    if count < 1:
        raise ProblemError(f"the number of draws is {count}; give at least 1")
    known = solution.sensitivities
    variances = np.diag(known.covariance)
    moving = np.array([not solution.parameters[name].at_bound for name in known.names], dtype=bool)
    drawn = np.flatnonzero(np.isfinite(variances) & (variances > 0) & moving).tolist()
    if not drawn:
        raise ProblemError(f"no parameter of {solution.problem!r} has a standard error; draws need one at least")
    estimates = [solution.parameters[known.names[i]] for i in drawn]
    names = tuple(one.name for one in estimates)
    center, lower, upper = (
        np.array([getattr(one, key) for one in estimates]) for key in ("estimate", "lower", "upper")
    )
    held = {name: one.estimate for name, one in solution.parameters.items() if name not in names}
    sizes, axes = np.linalg.eigh(known.covariance[np.ix_(drawn, drawn)])
    root = axes * np.sqrt(np.maximum(sizes, 0.0))
    possible = _possible(problem, names, held, center)
    bodies = [_Drawn.of(inertia, names, held, center) for inertia in _with_coordinates(problem, names)]
    bounded = np.array([not any(name in body.names for body in bodies) for name in names])
    chance, found, tried = np.random.default_rng(seed), np.empty((0, len(names))), 0
    while len(found) < count:
        values = center + chance.standard_normal((count, len(names))) @ root.T
        within = np.all(~bounded | ((values >= lower) & (values <= upper)), axis=1)
        within[within] = possible(values[within])
        found, tried = np.vstack([found, values[within]]), tried + count
        if len(found) < 1e-3 * tried:
            raise ProblemError(
                f"only {len(found)} of {tried} draws for {solution.problem!r} are physical and within bounds; errors "
                "are too large for a normal distribution: give priors, or record more data"
            )
    units = tuple(one.unit for one in estimates)
    accepted, changes = found[:count], found[:count] - center
    for body in bodies:
        own = body.values(changes)
        new = tuple(name for name in body.names if name not in names)
        units += tuple(solution.parameters[name].unit for name in new)
        accepted, names = np.hstack([accepted, np.empty((count, len(new)))]), names + new
        accepted[:, [names.index(name) for name in body.names]] = own
    held = {name: value for name, value in held.items() if name not in names}
    return PosteriorDraws(solution.problem, names, units, accepted, held, 1 - len(found) / tried, seed)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Inertia whose parameters π are drawn."""

    inertia: InertiaCoordinates
    names: tuple[str, ...]
    """Of its coordinates, n."""
    estimate: Array
    """Those that the fit found, (n,)."""
    slope: Array
    """Derivatives of π by the drawn parameters, (10, m)."""
    pi: Array
    """Estimate of π, (10,)."""

    @classmethod
    def of(cls, inertia: InertiaCoordinates, names: Sequence[str], held: Mapping[str, float], center: Array) -> _Drawn:
        known = {**held, **dict(zip(names, center.tolist(), strict=True))}
        symbols = ca.vertcat(*inertia.coordinates)
        outputs = [ca.densify(inertia.pi), ca.densify(ca.jacobian(inertia.pi, symbols))]
        own = tuple(p.name for p in inertia.coordinates)
        estimate = np.array([known[name] for name in own])
        pi, slopes = (part.full() for part in ca.Function("pi", [symbols], outputs)(estimate))
        slope = np.zeros((len(pi), len(names)))
        for column, name in enumerate(own):
            if name in names:
                slope[:, names.index(name)] = slopes[:, column]
        return cls(inertia, own, estimate, slope, pi[:, 0])

    def values(self, changes: Array) -> Array:
        """Coordinates (n_d, n) of the nearest possible inertias to those of changed parameters, (n_d, m)."""
        lower = np.array([p.lower for p in self.inertia.coordinates])
        guess = np.array([p.guess for p in self.inertia.coordinates])
        symbols = ca.vertcat(*self.inertia.coordinates)
        root = np.linalg.cholesky(pseudo_of(ca.Function("pi", [symbols], [self.inertia.pi])(guess).full()[:, 0]))
        scale = np.linalg.inv(root)  # sizes as shares of those of the initial values
        found = []
        for pi in self.pi + changes @ self.slope.T:
            sizes, axes = np.linalg.eigh(scale @ pseudo_of(pi) @ scale.T)
            whole = root @ (axes * np.maximum(sizes, DIGITS * max(sizes[-1], 1.0))) @ axes.T @ root.T
            near = pi_of(whole)
            found.append(np.maximum(self.inertia.from_pi_values(near, self.estimate), lower))
        return np.array(found)


def _with_coordinates(problem: Problem, names: Sequence[str]) -> list[InertiaCoordinates]:
    """Inertias of bodies of whose own coordinates some are drawn."""
    given = (body.distribution for body in problem.model.bodies)
    own = (one for one in given if isinstance(one, InertiaCoordinates) and one.room is None)
    return [one for one in dict.fromkeys(own) if any(p.name in names for p in one.coordinates)]


def pseudo_of(pi: Array) -> Array:
    """Pseudo-inertia (4, 4) of inertial parameters π, (10,)."""
    about = symmetric(pi[4:])
    second = np.trace(about) / 2 * np.eye(3) - about
    return np.block([[second, pi[1:4, None]], [pi[None, 1:4], pi[:1, None]]])


def pi_of(pseudo: Array) -> Array:
    """Inertial parameters π (10,) of a pseudo-inertia, (4, 4)."""
    second = pseudo[:3, :3]
    about = np.trace(second) * np.eye(3) - second
    return np.concatenate(
        [pseudo[3, 3:], pseudo[3, :3], about[np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])]]
    )


def _possible(problem: Problem, names: tuple[str, ...], held: Mapping[str, float], center: Array) -> Any:
    """Which rows of values give every body a positive mass, and moments that satisfy the triangle inequality.

    Bodies that violate it at the estimates, such as those of which a plane motion shows one moment, are not judged.
    """
    margins = []
    for body in problem.model.bodies:
        mass, inertia = ca.SX(body.mass), ca.SX(body.inertia)
        if is_constant(ca.vertcat(mass, ca.vec(inertia))):
            continue
        # Σ = tr(J)/2 1 − J is the second moment of the mass: its leading minors are positive of every body.
        second = ca.trace(inertia) / 2 * ca.SX.eye(3) - inertia
        second /= ca.fmax(ca.trace(second), 1e-300)
        margins += [mass, *(ca.det(second[:n, :n]) + HALF_DIGITS for n in (1, 2, 3))]
    if not margins:
        return lambda values: np.ones(len(values), dtype=bool)
    symbols = parameters_in(margins, problem.what)
    function = ca.Function("margins", [ca.vertcat(*symbols)], [ca.vertcat(*margins)])

    def evaluated(values: Array) -> Array:
        columns = {name: values[:, i] for i, name in enumerate(names)}
        rows = [columns[p.name] if p.name in columns else np.full(len(values), held[p.name]) for p in symbols]
        return np.asarray(function(np.array(rows)).full())

    judged = evaluated(center[None])[:, 0] > 0
    return lambda values: np.all(evaluated(values)[judged] > 0, axis=0)
