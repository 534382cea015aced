"""The marginal likelihood of parameters and noise, states integrated out (Laplace), and its score.

With whitened residuals r of all states x, their Jacobian J, H = JᵀJ at the best x, and D_k the Jacobian of the random
rows of a step in the newest state,

    −2 log L = |r|² + log det H − 2 Σ_k log |det D_k| + 2 Σ log σ + const.,

where the last sum is over observations, and D_k contains the standard deviations of the process noise. Equality
constraints that link steps are appended to D_k, and H is then a saddle-point matrix (``System``). The prior of the
first state is flat on its constraints. Without the third term, scaling down all inertias and forces would always
increase the likelihood.

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
from spookid.solvers.linearization import Linearization, system_of
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.slopes import Determinants, slopes
from spookid.solvers.systems import System
from spookid.statistics.marginal import Marginal, Swept
from spookid.statistics.probes import coloured, fisher, whole
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point

_SLOW = 100
"""Steps of a period of a motion that is slow."""
_EPSILON = float(np.finfo(float).eps)


class States(Linearization):
    """All states linearized at a point, with their Jacobians.

    Args:
        reduced: of the transcription with its noise.
        ahead: what the point is the projection of; None if it was given.
    """

    def __init__(self, reduced: ReducedProblem, point: Point, ahead: Point | None = None) -> None:
        super().__init__(reduced, point, kept=True)
        self.ahead = ahead
        self.recordings = [Recording(self, c) for c in range(len(self.chains))]

    @cached_property
    def cost(self) -> float:
        """|r|²."""
        return sum(self.costs.values())

    @property
    def least(self) -> float:
        """Cost |r|² after a linear step of the states."""
        return float(self.schur[-1, -1])

    @property
    def gap(self) -> float:
        """What that takes from it."""
        return self.cost - self.least

    @cached_property
    def costs(self) -> dict[Group, float]:
        """Sum of squared residuals of each group of factors."""
        totals = dict.fromkeys(Group, 0.0)
        for term in (term for terms in self.chains for term in terms if not term.factor.hard):
            totals[term.factor.group] += float(np.sum(term.residual**2))
        return totals

    @property
    def redundant(self) -> int:
        """Number of redundant local equality constraints of a step."""
        return self.reduced.redundant

    @property
    def excess(self) -> int:
        """Number of terms log 2π in the likelihood: equations with data, except those of the first states with flat
        priors, minus the degrees of freedom of states and private unknowns."""
        problem, rows = self.reduced.problem, 0
        for chain in problem.chains:
            for factor in problem.factors:
                if factor.noise:
                    own = len(factor.rows) - self.reduced.hidden(factor)
                    rows += factor.count(chain.steps) * own - int(np.sum(chain.missing.get(factor.name, 0)))
                rows += factor.count(chain.steps) * len(factor.rows) if factor in self.reduced.coupled else 0
        return rows - sum(chain.steps for chain in problem.chains) * self.reduced.tangent

    @property
    def plain(self) -> bool:
        """True if the unknowns of a step are its variables themselves, without constraints."""
        flat = self.reduced.tangent == self.reduced.problem.manifold.ambient
        return flat and not any(factor.hard for factor in self.reduced.kept)

    @classmethod
    def projected(cls, reduced: ReducedProblem, ahead: Point) -> States:
        """States linearized after projection of the point onto the constraints."""
        return cls(reduced, reduced.project(ahead), ahead)

    def projected_point(self, point: Point) -> Point:
        """A point near this one on the local equality constraints, with its private unknowns fitted."""
        return self.reduced.project(point)

    def stepped(
        self, parameters: Array | None = None, logs: Mapping[str, float] | None = None, part: float = 1.0
    ) -> Point:
        """The point after part of a linear step of the states, and a step of the parameters (n_p,) that they follow,
        and one of the logarithms of noises by their names; it is not projected."""
        step, moves = np.zeros(self.parameters) if parameters is None else parameters, []
        for recording in self.recordings:
            move = recording.system.response @ np.append(-step, -part)
            moves.append(move + recording.following(logs) if logs else move)
        return self.retracted(moves, step)


def marginal(states: States, logs: Mapping[str, float]) -> Marginal:
    """Marginal likelihood at the linearized states, after a linear step to the best states. ``logs``: log σ by the name
    of the noise."""
    chains = states.recordings
    value = sum(chain.volume() + chain.measured(logs) for chain in chains)
    left = states.schur
    return Marginal(
        value + float(left[-1, -1]),
        left[:-1, -1],
        states.problem.has_density,
        left[:-1, :-1],
        cache(partial(_swept, states)),
        cache(partial(_added, chains, Recording.freedom)),
        cache(partial(_added, chains, coloured)),
        partial(_added, chains, Recording.strength),
        partial(size_information, states),
        partial(_added, chains, Recording.rounding),
        lambda steps: _added(chains, partial(Recording.ahead, steps=steps)),
    )


def size_information(
    states: States, names: Sequence[str] | None = None, probes: int = 1
) -> Mapping[tuple[str, str], float]:
    """``Marginal.fisher``. ``names``: of the first of two noises; None: all; ``probes``: least number of random vectors
    in each recording."""
    return _added(states.recordings, lambda chain: fisher(chain, names, probes))


def _swept(states: States) -> Swept:
    volume = np.zeros(states.parameters)
    for chain in states.recordings:
        volume += chain.sweep[0]
        chain.release()
    return Swept(volume, cache(partial(_noise, states)))


def _noise(states: States) -> tuple[_Totals, _Totals]:
    residual, following = _Totals(), _Totals()
    for name, more, follow in (one for chain in states.recordings for one in chain.noise()):
        residual.add(name, more)
        following.add(name, follow)
    return residual, following


def _added(chains: Sequence[Recording], told: Callable[[Recording], Sequence[tuple[Any, Any]]]) -> _Totals:
    """Sums over all chains of what they tell by name."""
    sums = _Totals()
    for chain in chains:
        for name, more in told(chain):
            sums.add(name, more)
    return sums


class _Totals(dict[Any, Any]):
    def add(self, name: Any, value: Any) -> None:
        """Add a value to the entry of a name."""
        self[name] = self[name] + value if name in self else value


class Recording:
    """One recording at a point."""

    def __init__(self, states: States, chain: int) -> None:
        # Not the states: a cycle would keep all Jacobians until garbage is collected.
        self.reduced, self.point, self.chain, self.terms = states.reduced, states.point, chain, states.chains[chain]
        self._systems = states.systems
        self.steps, self.t = states.problem.chains[chain].steps, states.reduced.tangent
        self.noisy: Sequence[LinearizedFactor] = [term for term in self.terms if term.factor.noise]
        self._free: dict[int, Array] = {}
        """Rows less their leverage by the number of a factor, (rows,), where they have been found out."""

    @property
    def system(self) -> System:
        """Linear system of the states; raises NotPositiveDefiniteError if they are not determined."""
        return system_of(self._systems, self.chain, self.terms)

    @cached_property
    def determinants(self) -> Determinants:
        """Log-determinants of the equations that are densities, and of the constraints."""
        return Determinants(self.terms)

    def following(self, logs: Mapping[str, float]) -> Array:
        """Derivatives of the states with respect to log-sigmas, (N t,): 2 H⁻¹ Σ J_gᵀ r_g times the step of g."""
        right = np.zeros((self.steps, self.t, 1))
        for term in self.noisy:
            steps, rows = np.array([logs.get(name, 0.0) for name in term.factor.noise]), term.rows
            rows.pull(rows.reduce(whole(rows, term.residual) * steps)[:, None], right)
        return 2 * self.system.solve(right.reshape(-1, 1))[:, 0]

    def volume(self) -> float:
        """Log-determinant term of the likelihood, log det H − 2 Σ log |det D_k|."""
        return self.system.logarithm() - self.determinants.logarithm()

    @property
    def weights(self) -> Iterator[tuple[Factor, Array]]:
        """Weights A with which log-determinants change by Σ ⟨A, dJ⟩, by factor, (count, columns, rows)."""
        for number, term in enumerate(self.terms):
            factor = term.factor
            if factor.group is Group.PRIOR and not factor.noise:
                continue
            weights = self.system.cross_covariances(number)
            if factor.noise:
                self._free[number] = self._rest(term, weights)
            if factor.group is Group.PRIOR:
                continue
            if (normal := self.determinants.slopes.get(number)) is not None:
                weights[:, -self.t :] -= normal
            if term.scale != 1:
                weights *= term.scale
            yield factor, weights

    @cached_property
    def sweep(self) -> tuple[Array, Array, Array]:
        """Half the gradient of the log-determinants in θ, including changes of the states, (n_p,); H⁻¹ times half the
        gradient in the states, (N t,); and the part of changes of the states in the first, (n_p,)."""
        gradient, parameters = slopes(self.reduced, self.point, self.chain, self.weights)
        pulled = self.system.solve(gradient[:, None].copy())[:, 0]
        following = -self.system.response[:, :-1].T @ gradient
        return parameters + following, pulled, following

    def freedom(self) -> list[tuple[str, float]]:
        """Degrees of freedom of each noise: number of equations minus leverage."""
        missing = [i for i, term in enumerate(self.terms) if term.factor.noise and i not in self._free]
        for i in missing:
            self._free[i] = self._rest(self.terms[i], self.system.cross_covariances(i))
        if missing:
            self.release()
        return [(name, self._free[i][j]) for i, t in enumerate(self.terms) for j, name in enumerate(t.factor.noise)]

    def spared(self, name: str) -> Array:
        """1 less the leverage of each row of a factor, (count, rows)."""
        number = next(i for i, term in enumerate(self.terms) if term.factor.name == name)
        return self._left(self.terms[number], self.system.cross_covariances(number))

    def noise(self) -> list[tuple[str, float, float]]:
        """Per name of a noise: Σ r², and what the states' following adds to the slope."""
        moves, found = np.stack([-self.system.response[:, -1], self.sweep[1]], axis=1), []
        others = np.zeros((self.system.response.shape[1], 2))
        others[-1, 0] = 1.0
        for term in self.noisy:
            squares = self._products(term, moves, others)
            found += [(name, squares[i, 0, 0], 2 * squares[i, 0, 1]) for i, name in enumerate(term.factor.noise)]
        return found

    def _left(self, term: LinearizedFactor, across: Array) -> Array:
        """1 less the leverage of each row, states and private unknowns fitted, (count, rows)."""
        states, C = self._slopes(term), term.complement
        if C is None:
            return np.asarray(self.alive(term.factor) - np.einsum("kcr,kcr->kr", states, across))
        kept = np.matmul(C, np.eye(C.shape[2]) - np.matmul(states.transpose(0, 2, 1), across))
        return np.asarray(np.einsum("krl,krl->kr", kept, C))

    def _rest(self, term: LinearizedFactor, across: Array) -> Array:
        """Its sum over the steps, (rows,)."""
        if term.complement is not None:
            return np.asarray(self._left(term, across).sum(axis=0))
        flat = (some.reshape(len(across), -1) for some in (self._slopes(term), across))
        leverage = np.einsum("ki,ki->i", *flat).reshape(across.shape[1:])
        return np.asarray(self._counted(term.factor) - leverage.sum(axis=0))

    def ahead(self, steps: Array) -> list[tuple[str, Array]]:
        """See ``Marginal.ahead``."""
        found, moves = list[tuple[str, Array]](), -self.system.response @ steps
        for term in self.noisy:
            found += zip(term.factor.noise, self._products(term, moves, steps), strict=False)
        return found

    def strength(self) -> list[tuple[str, float]]:
        """Squared norm of the Jacobian in the states for each noise; for observations over several steps only along
        slow motions, because the equations of motion determine fast ones."""
        found = []
        for term in self.noisy:
            slopes = whole(term.rows, self._slopes(term))
            if term.factor.group is Group.OBSERVATION:
                phases = np.exp(2j * np.pi / _SLOW * np.array(term.rows.offsets))
                of_steps = slopes.reshape(len(slopes), len(phases), self.t, -1)
                slopes = np.abs(np.tensordot(phases, of_steps, (0, 1)))
            squares = np.sum(slopes**2, axis=(0, 1))
            found += [(name, squares[i]) for i, name in enumerate(term.factor.noise)]
        return found

    def rounding(self) -> list[tuple[str, float]]:
        """Bound ε Σ (|J| √P)² of rounding errors, by name of the noise in the equations of motion, with standard
        deviations √P of the states."""
        found: list[tuple[str, float]] = []
        if (variances := self.system.variances) is None:
            return found
        deviations = np.sqrt(np.maximum(variances, 0.0))
        for term in (t for t in self.noisy if t.factor.group is Group.STATE and not t.factor.hard):
            size = np.abs(whole(term.rows, self._slopes(term)))
            along = np.concatenate([deviations[o : o + len(size)] for o in term.rows.offsets], axis=1)
            bound = _EPSILON * np.sum(np.einsum("kcr,kc->kr", size, along) ** 2, axis=0)
            found += [(name, bound[i]) for i, name in enumerate(term.factor.noise)]
        return found

    def _slopes(self, term: LinearizedFactor) -> Array:
        """Jᵀ of the states, (count, columns, rows)."""
        return term.rows.matrix[:, : term.unknowns]

    def _products(self, term: LinearizedFactor, moves: Array, others: Array) -> Array:
        """Products of any two images of moves of the states (N t, m) and others (n_p + 1, m), by row, (rows, m, m)."""
        r = whole(term.rows, term.rows.image(moves.reshape(self.steps, self.t, -1), others))
        if r.shape[1] == 1:
            return np.asarray(np.einsum("kir,kir->r", r, r)[:, None, None])
        by_rows = np.ascontiguousarray(r.transpose(2, 0, 1))
        return np.asarray(np.matmul(by_rows.transpose(0, 2, 1), by_rows))

    def alive(self, factor: Factor) -> Array:
        """1 for equations with data, otherwise 0, (count, rows)."""
        chain = self.reduced.problem.chains[self.chain]
        missing = chain.missing.get(factor.name)
        shape = factor.count(chain.steps), len(factor.rows)
        return np.ones(shape) if missing is None else 1.0 - missing.astype(np.float64)

    def _counted(self, factor: Factor) -> Array:
        """Equations with data, (rows,)."""
        missing = self.reduced.problem.chains[self.chain].missing.get(factor.name, np.zeros((1, len(factor.rows))))
        return np.asarray(factor.count(self.steps) - missing.sum(axis=0))

    def release(self) -> None:
        """Release data that can be computed again and use the most memory."""
        self.system.release()
        self.__dict__.pop("determinants", None)

    def measured(self, logs: Mapping[str, float]) -> float:
        """Sum 2 Σ log σ over measurements, which are not densities of the states; with fitted private unknowns, the
        log-determinant of their information."""
        total = 0.0
        for factor, complement in ((term.factor, term.complement) for term in self.noisy):
            dense = range(len(factor.noise)) if factor.density and complement is not None else factor.density
            alive = self._counted(factor)
            total += sum(2 * alive[i] * logs[name] for i, name in enumerate(factor.noise) if i not in dense)
            if factor.private and not factor.density:
                A = self.reduced.problem.private_rows(factor, self.point, self.chain)(slice(None))[:, :-1]
                total += float(np.sum(np.linalg.slogdet(np.matmul(A, A.transpose(0, 2, 1)))[1]))
        return total
