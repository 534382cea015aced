"""Small transcriptions for the fixed-lag smoother, with the answer of dense algebra over all data at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from mechanisms import Array

from spookid import Manifold
from spookid.solvers.fixed_lag import FixedLag
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Chain, Transcription


def factor(
    name: str, residual: ca.SX, states: Sequence[ca.SX], data: ca.SX | None = None, kind: Kind = Kind.SOFT, **other
) -> Factor:
    """Of the states at steps k, k + 1, …"""
    rows = tuple(f"{name} {i}" for i in range(residual.numel()))
    data = ca.SX(0, 1) if data is None else data
    return Factor(name, Group.STATE, residual, dict(enumerate(states)), data, rows, kind=kind, **other)


def transcription(
    factors: Sequence[Factor], parameters: ca.SX, steps: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Transcription:
    """Of flat states."""
    n, size = parameters.numel(), next(iter(factors[0].variables.values())).numel()
    lower, upper = (np.full(n, bound) for bound in bounds)
    names = [f"p{i}" for i in range(n)]
    prior = {f.name: np.ones((1, 1)) for f in factors if f.group is Group.PRIOR}
    chain = Chain("twin", steps, prior, {})
    return Transcription(Manifold((("flat", size),)), factors, parameters, [], names, lower, upper, np.ones(n), [chain])


@dataclass
class Linear:
    """A linear problem with data, some of which are missing."""

    problem: Transcription
    data: Mapping[str, Array]
    missing: Mapping[str, Array]
    steps: int

    def stream(self, window: int, **options) -> Iterator[FixedLag]:
        """A smoother after each step."""
        lag = FixedLag(self.problem, window, parameters=np.zeros(len(self.problem.names)), **options)
        for k in range(self.steps):
            self.feed(lag, k)
            lag.solve()
            yield lag

    def feed(self, lag: FixedLag, step: int) -> None:
        """A step, and the rows that it completes."""
        lag.append(np.zeros(self.problem.manifold.ambient) if step == 0 else None)
        for f in self.problem.factors:
            if f.name in self.data and step >= f.reach:
                at = step - f.reach
                assert lag.set_data(f.name, at, self.data[f.name][at], self.missing.get(f.name, {at: None})[at])

    def rows(self) -> tuple[Array, Array]:
        """All rows [J | r] at zero, soft and hard ones."""
        t, n = self.problem.manifold.tangent, len(self.problem.names)
        states, theta = ca.SX.sym("X", t, self.steps), self.problem.shared[0]
        found: dict[bool, list[ca.SX]] = {True: [], False: []}
        for f in self.problem.factors:
            function = ca.Function("f", [*f.variables.values(), f.data, theta], [f.residual])
            for k in range(1 if f.group is Group.PRIOR else f.count(self.steps)):
                data = self.data[f.name][k] if f.name in self.data else np.ones(f.data.numel())
                values = function(*(states[:, k + o] for o in f.variables), data, theta)
                here = self.missing.get(f.name)
                found[f.hard].append(values * (1.0 if here is None else 1.0 - here[k].astype(float)))
        unknowns, wholes = ca.vertcat(ca.vec(states), theta), []
        for rows in (found[False], found[True]):
            values = ca.vertcat(ca.SX(0, 1), *rows)
            both = ca.Function("J", [unknowns], [ca.horzcat(ca.jacobian(values, unknowns), values)])
            wholes.append(both(np.zeros(t * self.steps + n)).full())
        return wholes[0], wholes[1]

    def answer(self) -> tuple[Array, Array, Array]:
        """States (N, t), parameters and the covariance of all, by one dense solve with all data."""
        soft, hard = self.rows()
        J, r, A, b = soft[:, :-1], soft[:, -1], hard[:, :-1], hard[:, -1]
        whole = np.block([[J.T @ J, A.T], [A, np.zeros((len(A), len(A)))]])
        inverse = np.linalg.pinv(whole, rcond=1e-13, hermitian=True)
        count, n = J.shape[1], len(self.problem.names)
        x = -(inverse @ np.concatenate([J.T @ r, b]))[:count]
        return x[: count - n].reshape(self.steps, -1), x[count - n :], inverse[:count, :count]


def linear(reach: int, hard: bool = False, steps: int = 40, seed: int = 0, prior: bool = True) -> Linear:
    """Two unknowns a step and three parameters, rows over ``reach`` + 1 steps, some data missing."""
    rng, t, n = np.random.default_rng(seed), 2, 3
    x, theta = [ca.SX.sym(f"x{i}", t) for i in range(reach + 1)], ca.SX.sym("theta", n)
    d, y, present, h, g = ca.SX.sym("d", n * t + t), ca.SX.sym("y", t), ca.SX.sym("on"), ca.SX.sym("h"), ca.SX.sym("g")
    slopes = [rng.normal(size=(t, t)) + 2 * np.eye(t) for _ in x]
    motion = sum((A @ state for A, state in zip(slopes, x, strict=True)), ca.reshape(d[: n * t], t, n) @ theta)
    factors = [factor("motion", motion + d[n * t :], x, d), factor("observation", 3 * (x[0] - y), x[:1], y)]
    if prior:
        own = Factor("prior", Group.PRIOR, present * 0.1 * (theta - 1), {0: x[0]}, present, ("a", "b", "c"))
        factors.append(own)
    if hard:  # the second row of the surface says what the first does
        surface = ca.vertcat(x[0][0] + 2 * x[0][1] - h, 0.5 * x[0][0] + x[0][1] - h / 2)
        factors.append(factor("surface", surface, x[:1], h, Kind.HARD))
        factors.append(factor("link", x[1][0] - x[0][0] - 0.1 * x[0][1] - g * theta[0], x[:2], g, Kind.HARD))
    sizes = {"motion": n * t + t, "observation": t, "surface": 1, "link": 1}
    data = {f.name: rng.normal(size=(f.count(steps), sizes[f.name])) for f in factors if f.name in sizes}
    missing = {"observation": rng.random((steps, t)) < 0.4}
    if hard:
        data["link"][:] = 1.0
    return Linear(transcription(factors, theta, steps), data, missing, steps)


def bilinear(rng: np.random.Generator) -> tuple[Transcription, Iterator[tuple[Array, Array]]]:
    """Steps of a b² u, seen with noise, with a product that changes: a and b are never known apart.

    Returns:
        The transcription, and without end the input of a step and what is observed after it.
    """
    x, theta, u, y = [ca.SX.sym("x"), ca.SX.sym("z")], ca.SX.sym("theta", 2), ca.SX.sym("u"), ca.SX.sym("y")
    motion = factor("motion", (x[1] - x[0] - theta[0] * theta[1] ** 2 * u) / 0.01, x, u)
    problem = transcription([motion, factor("observation", (x[0] - y) / 0.01, x[:1], y)], theta, 100)

    def data() -> Iterator[tuple[Array, Array]]:
        position, k, u = 0.0, 0, 0.0
        while True:
            yield np.array([u]), np.array([position + 0.01 * rng.normal()])
            u = np.sin(0.3 * k)
            position += (2 + np.sin(0.002 * k)) * u + 0.01 * rng.normal()
            k += 1

    return problem, data()


def scaled(rng: np.random.Generator) -> tuple[Transcription, Iterator[tuple[Array, Array]]]:
    """Growth x₊/x = 1 + a u, seen as s x: neither s nor x is known but for their product, along a direction that turns
    with x; data as of ``bilinear``."""
    x, theta, u, y = [ca.SX.sym("x"), ca.SX.sym("z")], ca.SX.sym("theta", 2), ca.SX.sym("u"), ca.SX.sym("y")
    motion = factor("motion", (x[1] / x[0] - 1 - theta[1] * u) / 0.01, x, u)
    problem = transcription([motion, factor("observation", (theta[0] * x[0] - y) / 0.02, x[:1], y)], theta, 100)

    def data() -> Iterator[tuple[Array, Array]]:
        size, k, u = 1.0, 0, 0.0
        while True:
            yield np.array([u]), np.array([2 * size + 0.02 * rng.normal()])
            u = np.cos(0.1 * k)
            size *= 1 + (0.05 + 0.01 * np.sin(0.002 * k)) * u + 0.01 * rng.normal()
            size = 0.2 + abs(size - 0.2)
            k += 1

    return problem, data()


def exponential(rng: np.random.Generator, short: float = 0.02) -> tuple[Transcription, Iterator[tuple[Array, Array]]]:
    """Steps of u e^θ, θ = 1.2, that are short at first and then long; data as of ``bilinear``."""
    x, theta, u, y = [ca.SX.sym("x"), ca.SX.sym("z")], ca.SX.sym("theta"), ca.SX.sym("u"), ca.SX.sym("y")
    motion = factor("motion", (x[1] - x[0] - ca.exp(theta) * u) / 0.01, x, u)
    problem = transcription([motion, factor("observation", (x[0] - y) / 0.01, x[:1], y)], theta, 100)

    def data() -> Iterator[tuple[Array, Array]]:
        position, k, u = 0.0, 0, 0.0
        while True:
            yield np.array([u]), np.array([position + 0.01 * rng.normal()])
            u = (short if k < 20 else 1.0) * np.sin(0.3 * k)
            position += np.exp(1.2) * u + 0.01 * rng.normal()
            k += 1

    return problem, data()
