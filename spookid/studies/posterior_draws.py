"""Draws of the parameters from their posterior, for simulators whose models are randomized.

Parameters are drawn together, with the correlations of the fit, from the normal distribution around the estimates. A
draw beyond a bound, or with inertias that no body has, is made again.
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
    chance, found, tried = np.random.default_rng(seed), np.empty((0, len(names))), 0
    while len(found) < count:
        values = center + chance.standard_normal((count, len(names))) @ root.T
        within = np.all((values >= lower) & (values <= upper), axis=1)
        within[within] = possible(values[within])
        found, tried = np.vstack([found, values[within]]), tried + count
        if len(found) < 1e-3 * tried:
            raise ProblemError(
                f"only {len(found)} of {tried} draws for {solution.problem!r} are physical and within bounds; errors "
                "are too large for a normal distribution: give priors, or record more data"
            )
    units = tuple(one.unit for one in estimates)
    accepted = found[:count]
    return PosteriorDraws(solution.problem, names, units, accepted, held, 1 - len(found) / tried, seed)


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
