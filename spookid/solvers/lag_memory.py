"""What a fixed-lag smoother remembers of steps that have left, the elimination of those that it keeps, and what both
say of errors.

``Memory`` is NumPy; ``native_memory`` does the same in compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.scipy_parts import lapack
from spookid.solvers.fronts import Front, Pivots, eliminate, settled
from spookid.solvers.lag_window import LagWindow
from spookid.solvers.quadratic_program import free_solution

_PARTS = ("soft", "hard", "linear")


class Memory:
    """Rows that are carried, and the rows of the window eliminated with them."""

    def __init__(self, window: LagWindow) -> None:
        self._window = window
        self._t, self._n = window.manifold.tangent, len(window.names)
        self._carried = _empty(window.reach * self._t + self._n)
        """Of the oldest states that are kept and the parameters."""
        self._border = _empty(self._n)
        """Of the parameters alone."""
        self.score, self.information = np.zeros(self._n), np.zeros((self._n, self._n))
        """Of rows that have left; see ``FixedLag.released``."""
        self.bend = np.zeros((self._n, self._n))
        """Curvature of linear terms that have left, (n_p, n_p); it may be of any sign."""
        self._found: list[Pivots] = []

    def linearize(self, parameters: Array, point: Array | None, count: int) -> None:
        """The window's rows of the first ``count`` steps, at the first estimates of states and parameters, the latter
        being ``point``; without it all is linearized at the best values."""
        window = self._window
        window.choose_points(point is None)
        window.linearize(parameters if point is None else point, count)
        for beliefs in window.beliefs:
            beliefs.linearize(window.states.values[:1], [parameters, window.numbers])
        self.evaluate(parameters, count)

    def evaluate(self, parameters: Array, count: int) -> tuple[float, float]:
        """Cost of the window's soft rows at the best values, and the largest value of a hard one."""
        cost = self._window.evaluate(parameters, count)
        found = [(p, p.residual[: p.standing(count)]) for p in self._window.placed]
        cost += sum(float(np.vdot(values, values)) for placed, values in found if not placed.factor.hard)
        hard = [np.max(np.abs(values), initial=0.0) for placed, values in found if placed.factor.hard]
        return cost, float(max(hard, default=0.0))

    def border_step(self, border: Pivots) -> Array:
        """Of the parameters, as far as nothing bounds them."""
        return free_solution(border)

    def factorize(self, slopes: Array, beside: Array) -> Pivots:
        """Eliminate all steps, then the parameters, whose rows are given back.

        Args:
            slopes: linear terms of the rows whose oldest step is each, (steps, (reach + 1) t + n_p).
            beside: more rows of the parameters alone, (m, n_p + 1).
        """
        carried, firm, rest = self._carried, self._border.hard, [self._border.soft, beside]
        self._found = []
        for step in range(self._window.steps):
            found, carried, more = self._eliminated(carried, step, slopes[step])
            carried, firm = settled(carried, firm)
            self._found.append(found)
            rest.append(more)
        start = len(carried.linear) - self._n
        linear = self._border.linear + carried.linear[start:]
        return eliminate(Front(np.concatenate(rest), firm, linear), self._n, self._n)[0]

    @property
    def square(self) -> float:
        """Of the states' step for given parameters, in standard errors."""
        return sum(found.square for found in self._found)

    def pivots(self, step: int) -> Pivots:
        """Rows that give a step's state by the next ones and the parameters."""
        return self._found[step]

    def step(self, parameters: Array) -> Array:
        """Of all states, (steps, t), that belongs to one of the parameters."""
        t, reach, count = self._t, self._window.reach, self._window.steps
        steps = np.zeros((count + reach, t))
        for k in reversed(range(count)):
            whole = np.concatenate([steps[k : k + reach + 1].ravel(), parameters])
            self._found[k].solve(whole)
            steps[k] = whole[:t]
        return steps[:count]

    @property
    def carried_states(self) -> Array:
        """Carried soft rows in the states that they see, (rows, reach t)."""
        return self._carried.soft[:, : self._window.reach * self._t]

    def covariances(self) -> Array:
        """Of each step's state and the next ones for given parameters, (steps, (reach + 1) t, (reach + 1) t)."""
        t, size = self._t, self._window.reach * self._t
        found = np.zeros((len(self._found) + 1, size + t, size + t))
        known = np.eye(size + t + self._n)[:, t : t + size]
        for k in reversed(range(len(self._found))):
            whole = self._found[k].responses(known, known[:, :0])[0][:t]
            along, noise, later = whole[:, :size], whole[:, size:], found[k + 1, :size, :size]
            across = along @ later
            own = across @ along.T + noise @ noise.T
            found[k, :t, :t] = (own + own.T) / 2  # what is not symmetric would grow from step to step
            found[k, :t, t:], found[k, t:, :t], found[k, t:, t:] = across, across.T, later
        return found[:-1]

    def merit(self, steps: Array, parameters: Array) -> tuple[float, float]:
        """Cost of the carried rows after a step, and the largest value of a hard one."""
        cost = violation = 0.0
        for front, step in self._moved(steps, parameters):
            values = front.soft[:, :-1] @ step + front.soft[:, -1]
            cost += float(values @ values) + 2 * float(front.linear @ step)
            violation = max(violation, float(np.max(np.abs(front.hard[:, :-1] @ step + front.hard[:, -1]), initial=0)))
        return cost, violation

    @property
    def border_linear(self) -> Array:
        """Linear term of the parameters alone, (n_p,)."""
        return self._border.linear

    def follow(self, steps: Array, parameters: Array) -> None:
        """Bring the values of carried rows to where a step has led."""
        for front, step in self._moved(steps, parameters):
            front.soft[:, -1] += front.soft[:, :-1] @ step
            front.hard[:, -1] += front.hard[:, :-1] @ step
        self.score += self.information @ parameters

    def leave(self, slopes: Array) -> None:
        """Take over the rows of the oldest step, with their linear term."""
        start = len(self._carried.linear) - self._n
        before = self._carried.linear[start:]
        _, self._carried, rest = self._eliminated(self._carried, 0, slopes)
        self.score += rest[:, :-1].T @ rest[:, -1] + self._carried.linear[start:] - before
        self.information += rest[:, :-1].T @ rest[:, :-1]
        self._carried, firm = settled(self._carried, self._border.hard)
        whole = Front(np.concatenate([self._border.soft, rest]), firm[:0], np.zeros(self._n))
        self._border = Front(eliminate(whole, self._n, self._n)[0].rows, firm, self._border.linear)

    def arrays(self) -> dict[str, Array]:
        """All that is remembered, by names."""
        fronts = (("carried", self._carried), ("border", self._border))
        found = {f"{name} {part}": np.array(getattr(front, part)) for name, front in fronts for part in _PARTS}
        return found | {"score": self.score, "information": self.information}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take what ``arrays`` gave."""
        self._carried, self._border = (
            Front(*(contiguous(arrays[f"{name} {part}"]).copy() for part in _PARTS)) for name in ("carried", "border")
        )
        self.score, self.information = arrays["score"].copy(), arrays["information"].copy()

    def _eliminated(self, carried: Front, step: int, slopes: Array) -> tuple[Pivots, Front, Array]:
        """The carried rows, and those whose oldest step is the ``step``-th, without its state."""
        wide = _widened(carried, self._t, self._n)
        rows = [self._window.rows(step, hard) for hard in (False, True)]
        soft, hard = np.concatenate([wide.soft, rows[0]]), np.concatenate([wide.hard, rows[1]])
        return eliminate(
            Front(soft, hard, wide.linear + slopes), self._t, (self._window.reach + 1) * self._t, self._window.hidden
        )

    def _moved(self, steps: Array, parameters: Array) -> tuple[tuple[Front, Array], tuple[Front, Array]]:
        """Carried rows with steps of their unknowns."""
        whole = np.zeros((self._window.reach, self._t))
        whole[: len(steps)] = steps[: self._window.reach]
        linked = np.concatenate([whole.ravel(), parameters])
        return (self._carried, linked), (self._border, parameters)


def _empty(count: int) -> Front:
    """Nothing known of some unknowns."""
    return Front(np.zeros((0, count + 1)), np.zeros((0, count + 1)), np.zeros(count))


def _widened(front: Front, tangent: int, parameters: int) -> Front:
    """The same with one more step before the parameters."""
    place, parts = len(front.linear) - parameters, (front.soft, front.hard, front.linear)
    cut = ((part[..., :place], np.zeros((*part.shape[:-1], tangent)), part[..., place:]) for part in parts)
    return Front(*(np.concatenate(pieces, axis=-1) for pieces in cut))  # a sixth of the time of np.insert


_LOST = 1e-13
"""Share of the largest below which a direction is not known."""


def restarted(arrays: Mapping[str, Array], parameters: Array, gradient: Array, information: Array) -> dict[str, Array]:
    """``FixedLag.arrays()`` with other parameters from the oldest step of the window on.

    What has left the window tells nothing of the parameters from here on but what is given, and nothing of the states,
    hard rows excepted: if the parameters were others a little earlier already, what it told would be wrong.

    Args:
        arrays: of the smoother.
        parameters: where the new ones begin, (n_p,).
        gradient: Eᵀe of rows [E | e] that are known of the new ones beforehand, there, (n_p,).
        information: EᵀE, (n_p, n_p).
    """
    n = len(parameters)
    hard = _without_parameters(arrays, n)
    return {
        **arrays,
        "parameters": parameters.copy(),
        "first estimates": parameters[None].copy() if n else arrays["first estimates"],
        "waits": np.zeros_like(arrays["waits"]),
        "slopes": np.zeros((0, 0)),
        "carried soft": arrays["carried soft"][:0],
        "carried hard": hard,
        "carried linear": np.zeros_like(arrays["carried linear"]),
        "border soft": _rows(gradient, information),
        "border hard": arrays["border hard"][:0],
        "border linear": np.zeros(n),
        "score": np.zeros(n),
        "information": np.zeros((n, n)),
    }


def _without_parameters(arrays: Mapping[str, Array], n: int) -> Array:
    """Hard rows that are carried, of the states alone."""
    hard, states = arrays["carried hard"], len(arrays["carried linear"]) - n
    order = np.r_[states : states + n, :states, states + n]
    front = Front(np.zeros((0, states + n + 1)), hard[:, order], np.zeros(states + n))
    left = eliminate(front, n, n + states)[1].hard
    return np.insert(left, [states] * n, 0.0, axis=1)


def _rows(gradient: Array, information: Array) -> Array:
    """[E | e] with these products, (r, n_p + 1)."""
    scale = np.sqrt(np.maximum(information.diagonal(), np.finfo(float).tiny))
    sizes, along = np.linalg.eigh(information / np.outer(scale, scale))
    kept = sizes > _LOST * np.max(sizes, initial=0.0)
    roots = np.sqrt(sizes[kept])
    return np.column_stack([roots[:, None] * along[:, kept].T * scale, along[:, kept].T @ (gradient / scale) / roots])


_CANCELLED = 1e-9
"""What follows an unknown that no row gives by less than this share of its terms does not follow it."""
_ROUNDED = 1e-12
"""An entry that is smaller beside the largest of its row is rounding. Multipliers of what other joints hold already
have such entries, and would make unknown all that stands beside them."""


def joint_covariance(pivots: Sequence[Pivots], border: Pivots, tangent: int) -> Array:
    """Of the newest states, the oldest first, and the parameters; NaN where they are not determined.

    Args:
        pivots: of the elimination of each of these states, rows of its unknowns and of those that follow.
        border: of the elimination of the parameters.
        tangent: unknowns of a state.
    """
    n, states = border.count, len(pivots) * tangent
    rows, places, soft = [np.zeros((0, states + n))], list[int](), list[int]()
    for first, found in zip(range(0, states, tangent), pivots, strict=True):
        block = np.zeros((len(found.rows), states + n))
        inside = min(found.rows.shape[1] - 1 - n, states - first)  # what is behind the newest state is not there
        block[:, first : first + inside] = found.rows[:, :inside]
        block[:, states:] = found.rows[:, found.rows.shape[1] - 1 - n : -1]
        soft += range(len(places) + found.hard, len(places) + len(block))
        rows.append(block)
        places += (first + found.places).tolist()
    soft += range(len(places) + border.hard, len(places) + len(border.rows))
    rows.append(np.hstack([np.zeros((len(border.rows), states)), border.rows[:, :-1]]))
    places += (states + border.places).tolist()
    return _of_rows(np.concatenate(rows), places, soft)


@lru_cache(maxsize=8)
def _upper(count: int) -> Mask:
    return np.triu(np.ones((count, count), dtype=np.bool_))


def _of_rows(rows: Array, places: list[int], soft: list[int]) -> Array:
    """Of unknowns that rows give, each by those that stand later among ``places``, with unit noise in the soft ones."""
    size = rows.shape[1]
    covariance = np.full((size, size), np.nan)
    if not places:
        return covariance
    inverse = np.where(_upper(len(places)), lapack.dtrtri(rows[:, places])[0], 0.0)
    if places == list(range(size)):
        responses = inverse[:, soft]
        return np.asarray(responses @ responses.T)
    loose = [i for i in range(size) if i not in set(places)]
    known = np.ones(len(places), dtype=np.bool_)
    if loose:
        largest = np.max(np.abs(rows), axis=1, keepdims=True)
        beside = np.where(np.abs(rows[:, loose]) > _ROUNDED * largest, rows[:, loose], 0.0)
        follows, terms = inverse @ beside, np.abs(inverse) @ np.abs(beside)
        known = ~np.any(np.abs(follows) > _CANCELLED * terms, axis=1)
    responses, at = inverse[known][:, soft], np.array(places)[known]
    covariance[np.ix_(at, at)] = responses @ responses.T
    return covariance
