"""Stochastic estimates of traces with H⁻¹, by random signs in the equations of each noise (Hutchinson, Communications
in Statistics 19, 1990)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.rows import LinearizedFactor, Rows
from spookid.solvers.systems import System
from spookid.transcription.factor import Factor

_MOST, _SAMPLES = 16, 4_000
"""Random vectors for one noise at the most, and steps that they cover together."""


class Probed(Protocol):
    """One recording, linearized, as far as it is asked for; see ``Recording``."""

    steps: int
    t: int
    noisy: Sequence[LinearizedFactor]

    @property
    def system(self) -> System: ...

    def alive(self, factor: Factor) -> Array: ...


def fisher(chain: Probed, names: Sequence[str] | None = None, least: int = 1) -> list[tuple[tuple[str, str], float]]:
    """Fisher information 2 |(I − J P Jᵀ)_gg'|² by the names of two noises, the first among ``names`` if given; from at
    least so many random vectors."""
    every = list(dict.fromkeys(n for t in chain.noisy for n in t.factor.noise)) if names is None else list(names)
    found, probes = [], max(least, _probes(chain))
    for factor, left in _left(chain, every, [term.factor for term in chain.noisy], probes):
        squares = np.einsum("kpr,kpr->pr", left, left).reshape(len(every), probes, -1).mean(axis=1)
        found += [
            ((name, other), 2 * square)
            for name, of_name in zip(every, squares.tolist(), strict=True)
            for other, square in zip(factor.noise, of_name, strict=True)
        ]
    return found


def coloured(chain: Probed) -> list[tuple[str, float]]:
    """By name, contribution of noise shared by neighbouring equations to the expected squares, over its density."""
    overlapping = [term.factor for term in chain.noisy if term.factor.overlap]
    shared = [(f, i) for f in overlapping for i in range(len(f.noise)) if i not in f.density]
    every, probes, found = list(dict.fromkeys(f.noise[i] for f, i in shared)), _probes(chain), []
    for factor, left in _left(chain, every, list(dict.fromkeys(f for f, _ in shared)), probes) if shared else ():
        of_name = left.reshape(len(left), len(every), probes, -1)
        for i in (i for f, i in shared if f is factor):
            own = of_name[:, every.index(factor.noise[i]), :, i]
            both = (np.sum(own[1:] * own[:-1]) - np.sum(own**2)) / probes
            found.append((factor.noise[i], 2 * factor.overlap * float(both)))
    return found


def _probes(chain: Probed) -> int:
    return int(np.clip(_SAMPLES // chain.steps, 1, _MOST))


def _left(chain: Probed, every: Sequence[str], seen: Sequence[Factor], probes: int) -> Iterator[tuple[Factor, Array]]:
    """(I − J P Jᵀ) z of random signs z in the rows of one noise after another, in all rows of some factors,
    (count, names · probes, rows)."""
    rng, count = np.random.default_rng(0), len(every) * probes
    drawn = [term for term in chain.noisy if set(term.factor.noise) & set(every)]
    signs = {term.factor: _signs(chain, term, every, probes, rng) for term in drawn}
    right = np.zeros((chain.steps, chain.t, count))
    for term in drawn:
        term.rows.pull(signs[term.factor], right)
    moved = -chain.system.solve(right.reshape(-1, count)).reshape(chain.steps, chain.t, count)
    for term in (term for term in chain.noisy if term.factor in seen):
        left = term.rows.image(moved)
        if term.factor in signs:
            left += signs[term.factor]
        yield term.factor, whole(term.rows, left)


def _signs(chain: Probed, term: LinearizedFactor, every: Sequence[str], probes: int, rng: np.random.Generator) -> Array:
    """Random signs in the rows of one noise after another, 0 elsewhere, (count, names · probes, rows that are left)."""
    alive, complement = chain.alive(term.factor), term.complement
    signs = np.zeros((len(alive), len(every) * probes, alive.shape[1]))
    for i, name in enumerate(term.factor.noise):
        if name in every:
            place = every.index(name) * probes
            drawn = rng.integers(0, 2, (len(alive), probes)) * 2.0 - 1.0
            signs[:, place : place + probes, i] = drawn * alive[:, i : i + 1]
    return np.asarray(signs if complement is None else np.matmul(signs, complement))


def whole(rows: Rows, values: Array) -> Array:
    """Values of the remaining equations, (count, ..., rows left), placed among all equations."""
    if (complement := rows.complement) is None:
        return values
    flat = np.matmul(values.reshape(len(values), -1, values.shape[-1]), complement.transpose(0, 2, 1))
    return np.asarray(flat.reshape(*values.shape[:-1], complement.shape[1]))
