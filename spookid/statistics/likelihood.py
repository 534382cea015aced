"""The marginal likelihood of parameters and noise, states integrated out (Laplace), and its score.

With whitened residuals r of all states x, their Jacobian J, H = JᵀJ at the best x, and D_k the Jacobian of the random
rows of a step in the newest state,

    −2 log L = |r|² + log det H − 2 Σ_k log |det D_k| + 2 Σ log σ + const.,

the last sum over observations; the noise of the random rows stands in D_k. Hard rows that link steps stand in D_k below
the random ones, and H is then their saddle point (``systems``); hard rows of the first state leave it a flat prior on
their surface. Without the third term a mechanism with all inertias and forces scaled down would always be more likely.

Score, in one backward sweep: with P the blocks of H⁻¹ along the band (``selected_inversion``),

    d log det H = 2 Σ ⟨P Jᵀ, dJᵀ⟩,    d log |det D| = ⟨D⁻ᵀ, dD⟩,

so that both terms change as ψ = Σ ⟨A, J(x, θ)⟩ does with A held, whose gradient a compiled kernel gives. The best x
follows θ as −H⁻¹ J_xᵀ J_θ, to the order at which H is the Hessian. Residuals are those that a last linear step of the
states leaves, r − J H⁻¹ Jᵀr, so that states need not be found to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows
from spookid.statistics.marginal import Marginal, Swept
from spookid.statistics.probes import coloured, fisher, whole
from spookid.statistics.slopes import Determinants, slopes
from spookid.statistics.systems import System
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point

_SLOW = 100
"""Steps of a period of a motion that is slow."""
_EPSILON = float(np.finfo(float).eps)


class States:
    """All states linearized at a point.

    Args:
        reduced: of the transcription with its noise.
        ahead: what the point is the projection of; None if it was given.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(self, reduced: ReducedProblem, point: Point, ahead: Point | None = None) -> None:
        self.reduced, self.point, self.ahead = reduced, point, ahead
        self.chains = [_Chain(reduced, point, c) for c in range(len(reduced.problem.chains))]

    @property
    def cost(self) -> float:
        """|r|²."""
        return float(sum(chain.cost for chain in self.chains))

    @property
    def corner(self) -> Array:
        """What eliminating the states leaves of the parameters' corner, (n_p + 1, n_p + 1)."""
        return np.asarray(np.sum([chain.system.corner for chain in self.chains], axis=0))

    @property
    def least(self) -> float:
        """|r|² after a linear step of the states."""
        return float(sum(chain.system.corner[-1, -1] for chain in self.chains))

    @property
    def gap(self) -> float:
        """What that takes from it."""
        return self.cost - self.least

    @property
    def costs(self) -> dict[Group, float]:
        """Σ r² of each group of factors."""
        totals = dict.fromkeys(Group, 0.0)
        for chain in self.chains:
            for factor, rows in chain.soft:
                totals[factor.group] += float(np.sum(rows.matrix[:, -1] ** 2))
        return totals

    @property
    def redundant(self) -> int:
        """Local hard rows of a step that say what others say already."""
        return self.reduced.redundant

    @property
    def excess(self) -> int:
        """Rows of data, those of the first states, whose prior is flat, taken off, less the states that hard rows leave
        free, and private unknowns: the likelihood has log 2π for each."""
        problem, rows = self.reduced.problem, 0
        for chain in problem.chains:
            for factor in problem.factors:
                if factor.noise:
                    own = len(factor.rows) - self.reduced.hidden(factor)
                    rows += factor.count(chain.steps) * own - int(np.sum(chain.missing.get(factor.name, 0)))
                rows += factor.count(chain.steps) * len(factor.rows) if factor in self.reduced.coupled else 0
        return rows - sum(chain.steps for chain in problem.chains) * self.reduced.tangent

    @property
    def density(self) -> bool:
        """True if some row is a density of the states: not all efforts are measured."""
        return self.reduced.problem.has_density

    @property
    def plain(self) -> bool:
        """True if unknowns of a step are its variables themselves, and no row is hard."""
        flat = self.reduced.tangent == self.reduced.problem.manifold.ambient
        return flat and not any(factor.hard for factor in self.reduced.kept)

    @classmethod
    def projected(cls, reduced: ReducedProblem, ahead: Point) -> States:
        """At the projection of a point."""
        return cls(reduced, reduced.project(ahead), ahead)

    def moved(self, parameters: Array | None = None, logs: Mapping[str, float] | None = None) -> Point:
        """The point after a linear step of the states, and a step of the parameters (n_p,) that they follow, and one of
        the logarithms of noises by their names."""
        return self.reduced.project(self.stepped(parameters, logs))

    def stepped(self, parameters: Array | None = None, logs: Mapping[str, float] | None = None) -> Point:
        """The same before it is projected."""
        problem, moves = self.reduced.problem, []
        step = np.zeros(len(problem.names)) if parameters is None else parameters
        for chain in self.chains:
            move = chain.response @ np.append(-step, -1.0)
            if logs:
                move += chain.following(logs)
            steps = move.reshape(-1, self.reduced.tangent)
            moves.append(self.reduced.expand(steps, chain.basis))
        return problem.retract(self.point, moves, step)


def marginal(states: States, logs: Mapping[str, float]) -> Marginal:
    """The likelihood where states are linearized, at the best states but for a linear step. ``logs``: log σ by the name
    of the noise."""
    chains = states.chains
    value = sum(chain.volume() + chain.measured(logs) for chain in chains)
    left = states.corner
    return Marginal(
        value + float(left[-1, -1]),
        left[:-1, -1],
        states.density,
        left[:-1, :-1],
        cache(partial(_swept, states)),
        cache(partial(_added, chains, _Chain.freedom)),
        cache(partial(_added, chains, coloured)),
        partial(_added, chains, _Chain.strength),
        partial(size_information, states),
        partial(_added, chains, _Chain.rounding),
        lambda steps: _added(chains, partial(_Chain.ahead, steps=steps)),
    )


def size_information(
    states: States, names: Sequence[str] | None = None, probes: int = 1
) -> Mapping[tuple[str, str], float]:
    """``Marginal.fisher``. ``names``: of the first of two noises; None: all; ``probes``: random vectors in each
    recording at least. What little is known of a size needs some."""
    return _added(states.chains, lambda chain: fisher(chain, names, probes))


def _swept(states: States) -> Swept:
    volume = np.zeros(len(states.reduced.problem.names))
    for chain in states.chains:
        volume += chain.sweep[0]
        chain.release()
    return Swept(volume, cache(partial(_noise, states)))


def _noise(states: States) -> tuple[_Totals, _Totals]:
    residual, following = _Totals(), _Totals()
    for name, more, follow in (one for chain in states.chains for one in chain.noise()):
        residual.add(name, more)
        following.add(name, follow)
    return residual, following


def _added(chains: Sequence[_Chain], told: Callable[[_Chain], Sequence[tuple[Any, Any]]]) -> _Totals:
    """Sums over all chains of what they tell by name."""
    sums = _Totals()
    for chain in chains:
        for name, more in told(chain):
            sums.add(name, more)
    return sums


class _Totals(dict[Any, Any]):
    def add(self, name: Any, value: Any) -> None:
        """Add to what there is under a name."""
        self[name] = self[name] + value if name in self else value


class _Chain:
    """One recording at a point."""

    def __init__(self, reduced: ReducedProblem, point: Point, chain: int) -> None:
        self.reduced, self.point, self.chain = reduced, point, chain
        problem = reduced.problem
        self.steps, self.t = problem.chains[chain].steps, reduced.tangent
        self.rows, self.basis = reduced.reduce(point, chain)
        self.system = System(reduced.kept, self.rows, self.steps, self.t, len(problem.names))
        self.kept = list(zip(reduced.kept, self.rows, strict=True))
        self.soft = [(factor, rows) for factor, rows in self.kept if not factor.hard]
        self._free: dict[int, Array] = {}
        """Rows less their leverage by the number of a factor, (rows,), where they have been found out."""
        self.cost = float(sum(np.sum(rows.matrix[:, -1] ** 2) for _, rows in self.soft))
        """Σ r²."""

    @property
    def response(self) -> Array:
        """H⁻¹ [J_xᵀJ_θ, J_xᵀr], (N t, n_p + 1)."""
        return self.system.response

    @cached_property
    def determinants(self) -> Determinants:
        """Of the rows that are a density, and of hard ones."""
        return Determinants(self.kept, self.t)

    def following(self, logs: Mapping[str, float]) -> Array:
        """How the states follow steps of the logarithms of noises, (N t,): 2 H⁻¹ Σ J_gᵀ r_g times the step of g."""
        right = np.zeros((self.steps, self.t, 1))
        for factor, rows in self.kept:
            if factor.noise:
                steps = np.array([logs.get(name, 0.0) for name in factor.noise])
                r = whole(rows, rows.matrix[:, -1]) * steps
                rows.pull(rows.reduce(r)[:, None], right)
        return 2 * self.system.solve(right.reshape(-1, 1))[:, 0]

    def volume(self) -> float:
        """log det H − 2 Σ log |det D_k|."""
        return self.system.logarithm() - self.determinants.logarithm()

    @property
    def weights(self) -> Iterator[tuple[Factor, Array]]:
        """A with which the logarithms change by Σ ⟨A, dJ⟩, by factor, (count, columns, rows)."""
        for number, (factor, rows) in enumerate(self.kept):
            if factor.group is Group.PRIOR and not factor.noise:
                continue
            weights = self.system.cross_covariances(number)
            if factor.noise:
                self._free[number] = self._left(factor, rows, weights).sum(axis=0)
            if factor.group is Group.PRIOR:
                continue
            if (normal := self.determinants.slopes.get(number)) is not None:
                weights[:, -self.t :] -= normal
            if factor in self.reduced.coupled:
                weights *= np.sqrt(self.reduced.penalty)
            yield factor, weights

    @cached_property
    def sweep(self) -> tuple[Array, Array]:
        """Half the gradient in θ of the logarithms, states following, (n_p,); and H⁻¹ times half their gradient in the
        states, (N t,)."""
        gradient, parameters = slopes(self.reduced, self.point, self.chain, self.weights)
        pulled = self.system.solve(gradient[:, None].copy())[:, 0]
        return parameters - self.response[:, :-1].T @ gradient, pulled

    def freedom(self) -> list[tuple[str, float]]:
        """Rows less their leverage by name of the noise."""
        missing = [i for i, (factor, _) in enumerate(self.kept) if factor.noise and i not in self._free]
        for i in missing:
            self._free[i] = self._left(*self.kept[i], self.system.cross_covariances(i)).sum(axis=0)
        if missing:
            self.release()
        return [(name, self._free[i][j]) for i, (f, _) in enumerate(self.kept) for j, name in enumerate(f.noise)]

    def noise(self) -> list[tuple[str, float, float]]:
        """Per name of a noise: Σ r², and what the states' following adds to the slope."""
        moves, found = np.stack([self.response[:, -1], self.sweep[1]], axis=1), []
        for factor, rows in self.kept:
            if not factor.noise:
                continue
            along = self._along(rows, moves)
            r = whole(rows, rows.matrix[:, -1] - along[:, 0])
            squares, follow = np.sum(r**2, axis=0), np.sum(whole(rows, along[:, 1]) * r, axis=0)
            for i, name in enumerate(factor.noise):
                found.append((name, squares[i], 2 * follow[i]))
        return found

    def _left(self, factor: Factor, rows: Rows, across: Array) -> Array:
        """1 less the leverage of each row, states and private unknowns fitted, (count, rows)."""
        states = rows.matrix[:, : len(rows.offsets) * self.t]
        if rows.complement is None:
            return np.asarray(self.alive(factor) - np.einsum("kcr,kcr->kr", states, across))
        C = rows.complement
        kept = np.matmul(C, np.eye(C.shape[2]) - np.matmul(states.transpose(0, 2, 1), across))
        return np.asarray(np.einsum("krl,krl->kr", kept, C))

    def ahead(self, steps: Array) -> list[tuple[str, Array]]:
        """See ``Marginal.ahead``."""
        found, moves = [], self.response @ steps
        for factor, rows in self.kept:
            if factor.noise:
                r = whole(rows, rows.border_image(steps) - self._along(rows, moves))
                found += [(name, r[:, :, i].T @ r[:, :, i]) for i, name in enumerate(factor.noise)]
        return found

    def strength(self) -> list[tuple[str, float]]:
        """Sum of squares of the Jacobian in the states by name of the noise; of an observation of several steps along
        slow motions, for what it sees of fast ones the equations of motion see a lot better."""
        found = []
        for factor, rows in self.kept:
            if factor.noise:
                slopes = whole(rows, rows.matrix[:, : len(rows.offsets) * self.t])
                if factor.group is Group.OBSERVATION:
                    phases = np.exp(2j * np.pi / _SLOW * np.array(rows.offsets))
                    of_steps = slopes.reshape(len(slopes), len(phases), self.t, -1)
                    slopes = np.abs(np.tensordot(phases, of_steps, (0, 1)))
                squares = np.sum(slopes**2, axis=(0, 1))
                found += [(name, squares[i]) for i, name in enumerate(factor.noise)]
        return found

    def rounding(self) -> list[tuple[str, float]]:
        """ε Σ (|J| √P)² by name of the noise in equations of motion, with √P the standard deviations of the states: a
        bound of the sum of magnitudes whose signed sum, ⟨J P, J⟩, is at most the number of rows."""
        found: list[tuple[str, float]] = []
        if (variances := self.system.variances) is None:
            return found
        deviations = np.sqrt(np.maximum(variances, 0.0))
        for factor, rows in self.soft:
            if factor.noise and factor.group is Group.STATE:
                size = np.abs(whole(rows, rows.matrix[:, : len(rows.offsets) * self.t]))
                count = len(size)
                along = np.concatenate([deviations[o : o + count] for o in rows.offsets], axis=1)
                bound = _EPSILON * np.sum(np.einsum("kcr,kc->kr", size, along) ** 2, axis=0)
                found += [(name, bound[i]) for i, name in enumerate(factor.noise)]
        return found

    def _along(self, rows: Rows, moves: Array) -> Array:
        """J times moves of the states (N t, m), (count, m, rows)."""
        return rows.image(moves.reshape(self.steps, self.t, -1))

    def alive(self, factor: Factor) -> Array:
        """1 where a row has data, (count, rows)."""
        chain = self.reduced.problem.chains[self.chain]
        missing = chain.missing.get(factor.name)
        shape = factor.count(chain.steps), len(factor.rows)
        return np.ones(shape) if missing is None else 1.0 - missing.astype(np.float64)

    def release(self) -> None:
        """Forget what is made again when asked for, and takes more room than what stays."""
        self.system.release()
        self.__dict__.pop("determinants", None)

    def measured(self, logs: Mapping[str, float]) -> float:
        """2 Σ log σ of the rows that are measurements, and no density of the states; where private unknowns are fitted
        to such rows, the logarithm of the determinant of their information."""
        total = 0.0
        for factor, rows in self.kept:
            dense = range(len(factor.noise)) if factor.density and rows.complement is not None else factor.density
            alive = self.alive(factor).sum(axis=0)
            total += sum(2 * alive[i] * logs[name] for i, name in enumerate(factor.noise) if i not in dense)
            if factor.private and factor.noise and not factor.density:
                A = self.reduced.problem.private_rows(factor, self.point, self.chain)(slice(None))[:, :-1]
                total += float(np.sum(np.linalg.slogdet(np.matmul(A, A.transpose(0, 2, 1)))[1]))
        return total
