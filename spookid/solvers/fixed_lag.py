"""A fixed-lag smoother on a transcription: the last steps are estimated anew with all data, the others are remembered.

Steps that leave the window are eliminated by orthogonal transformations (``fronts``), and what remains of their rows is
carried: rows of the states that they were linked to and of the parameters, and rows of the parameters alone. Memory and
time of an update do not grow.

A row is linearized for good when it leaves, and then the states that it shares with rows that leave later, and the
parameters, must stand in all of these where they stood in the first: rows that say nothing about a direction at one
point say something about it at a mixture of points, and what they seem to know would add up (Huang, Mourikis and
Roumeliotis, first-estimates Jacobian). So the Jacobians of such variables are taken at the first estimates with which a
row that held them left. Residuals are always taken at the best values: Σ Jᵀr = 0 with any J that does not depend on the
noise is solved by the true values on average, so a frozen J costs precision, not truth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.kernels.kernel import Array, Mask, contiguous
from spookid.solvers.bounded_rows import bounded_solution
from spookid.solvers.fronts import Front, Pivots, eliminate
from spookid.solvers.lag_window import Extrapolation, LagWindow
from spookid.transcription.transcription import Transcription

_SMALL = 1e-4
"""Steps shorter than this, in standard errors of all unknowns together, are the last."""
_MET = 1e-9
"""Hard rows of largest entry 1 that were violated by no more are met after one more step."""
_HALVINGS, _RISE = 6, 1e-2
"""How often a step is halved, and by how much the cost may rise with one: far less than one squared standard error."""


class FixedLag:
    """See the module.

    Args:
        transcription: its factors, its manifold and the constants of its first chain count; the chain's data count only
            for what is known of the parameters beforehand.
        window: steps that are kept.
        parameters: where they start, (n_p,).
        iterations: Gauss–Newton steps of an update at the most.

    Raises:
        ProblemError: if factors switch, or reach over more steps than the window has.
    """

    def __init__(
        self,
        transcription: Transcription,
        window: int,
        *,
        parameters: Array | None = None,
        iterations: int = 5,
        volumes: bool = False,
    ) -> None:
        self.transcription, self.window, self.iterations = transcription, window, iterations
        self._window = LagWindow(transcription, window)
        self._next = Extrapolation(transcription.manifold)
        n = len(transcription.names)
        if n and parameters is None:
            raise ValueError("a transcription with parameters needs values to start from: parameters=")
        self.parameters = contiguous(np.zeros(0) if parameters is None else parameters).copy()
        """Best values, (n_p,)."""
        self._point: Array | None = None
        """Where the parameters are linearized; None: at the best values."""
        self._carried = _empty(self._window.reach * transcription.manifold.tangent + n)
        """What is remembered of the oldest states that are kept and the parameters."""
        self._border = _empty(n)
        """What is remembered of the parameters alone."""
        self._score, self._information = np.zeros(n), np.zeros((n, n))
        self.converged = False
        """True if the last step was small."""
        self._found: tuple[list[Pivots], Pivots] | None = None
        """Of each step, and of the parameters, when they were solved for last."""

    @property
    def states(self) -> Array:
        """Best values of the steps that are kept, (steps, ambient)."""
        return np.asarray(self._window.states.values.copy())

    @property
    def first(self) -> int:
        """Number of the oldest step that is kept."""
        return self._window.first

    @property
    def steps(self) -> int:
        """How many are kept."""
        return self._window.steps

    def append(self, state: Array | None = None) -> int:
        """Add the newest step, and let the oldest leave if there are too many.

        Args:
            state: (ambient,); by default the last two are continued.

        Returns:
            Number of the new step.
        """
        window = self._window
        if window.steps == self.window:
            self._marginalize()
        if state is None:
            if not window.steps:
                raise ValueError("the first step needs a state")
            state = self._next(window.states.values)
        window.append(contiguous(state))
        self._found = None
        return window.first + window.steps - 1

    def set_data(self, name: str, step: int, data: Array, missing: Mask | None = None) -> bool:
        """The numbers of a factor's rows that stand at steps ``step`` to ``step`` + reach.

        Args:
            data: (n_d,).
            missing: True for rows that have none, (rows,).

        Returns:
            False if these rows have left, and the numbers come too late.
        """
        window = self._window
        for beliefs in window.beliefs:
            if beliefs.placed.factor.name == name:
                beliefs.set_data(data, missing)
                return True
        placed, place = window.by_name[name], step - window.first
        if place < 0:
            return False
        if place >= window.steps:
            raise ValueError(f"step {step} is not there yet; the newest is {window.first + window.steps - 1}")
        placed.data.values[place] = data
        placed.absent.values[place] = False if missing is None else missing
        return True

    def solve(self) -> int:
        """Estimate all that is kept; how many steps it took, at most ``iterations``."""
        for count in range(1, self.iterations + 1):
            self._linearize()
            pivots, border = self._factorized()
            steps, parameters, length, violation = self._step(pivots, border)
            moved = self._move(steps, parameters)
            self.converged = length <= _SMALL and violation <= _MET
            if not moved or self.converged:
                break
        return count

    def state_covariance(self) -> Array:
        """Of the newest state in its tangent, (t, t); NaN where it is not determined."""
        t = self.transcription.manifold.tangent
        return self.covariance()[:t, :t]

    def parameter_covariance(self) -> Array:
        """(n_p, n_p); NaN where they are not determined."""
        return self.covariance(0)

    def released(self) -> tuple[Array, Array]:
        """Score (n_p,) and information (n_p, n_p) of what has left since this was asked last, at the present parameters.

        With rows [E | e] of the parameters that are left of rows that have left, states eliminated: Eᵀe and EᵀE. At the
        true parameters, and with noise as large as it is said to be, e is white and of unit variance.
        """
        found = self._score, self._information
        self._score, self._information = np.zeros_like(self._score), np.zeros_like(self._information)
        return found

    def _linearize(self) -> None:
        self._window.linearize(self.parameters, self.parameters if self._point is None else self._point)

    def _front(self, carried: Front, step: int) -> Front:
        """Carried rows, and those whose oldest step is the ``step``-th."""
        t, n = self.transcription.manifold.tangent, len(self.parameters)
        wide, rows = _widened(carried, t, n), [self._window.rows(step, hard) for hard in (False, True)]
        soft, hard = np.concatenate([wide.soft, rows[0]]), np.concatenate([wide.hard, rows[1]])
        return Front(soft, hard, wide.linear)

    def _eliminated(self, carried: Front, step: int) -> tuple[Pivots, Front, Array]:
        t = self.transcription.manifold.tangent
        return eliminate(self._front(carried, step), t, (self._window.reach + 1) * t)

    def _factorized(self) -> tuple[list[Pivots], Pivots]:
        """All steps eliminated, then the parameters."""
        carried, pivots = self._carried, []
        rest = [self._border.soft, self._window.believed()]
        for step in range(self._window.steps):
            found, carried, more = self._eliminated(carried, step)
            pivots.append(found)
            rest.append(more)
        n = len(self.parameters)
        border = Front(
            np.concatenate(rest),
            np.concatenate([self._border.hard, carried.hard[:, -n - 1 :]]),
            self._border.linear + carried.linear[len(carried.linear) - n :],
        )
        self._found = pivots, eliminate(border, n, n)[0]
        return self._found

    def _step(self, pivots: list[Pivots], border: Pivots) -> tuple[Array, Array, float, float]:
        """Of the states (steps, t) and of the parameters; its length in standard errors, and how far hard rows are from
        met."""
        t, window, limits = self.transcription.manifold.tangent, self._window, self.transcription
        parameters = bounded_solution(border, limits.lower - self.parameters, limits.upper - self.parameters)
        steps = np.zeros((window.steps + window.reach, t))
        for k in reversed(range(window.steps)):
            whole = np.concatenate([steps[k : k + window.reach + 1].ravel(), parameters])
            pivots[k].solve(whole)
            steps[k] = whole[:t]
        along = border.rows[border.hard :, :-1] @ parameters
        square = sum(found.square for found in pivots) + float(along @ along)
        violation = max(found.violation for found in [*pivots, border])
        return steps[: window.steps], parameters, float(np.sqrt(square)), violation

    def _move(self, steps: Array, parameters: Array) -> bool:
        """Take a step, or a part of it; False if none is any good."""
        window, problem = self._window, self.transcription
        states, before = window.states.values.copy(), self.parameters
        cost, violation = self._merit(np.zeros_like(steps), np.zeros_like(parameters))
        for halving in range(_HALVINGS):
            part = 0.5**halving
            window.states.values[:] = problem.moved(states, part * steps)
            self.parameters = problem.stepped(before, part * parameters)
            moved = self.parameters - before
            new, left = self._merit(part * steps, moved)
            if new <= cost + _RISE + 1e-9 * cost or left < 0.5 * violation:
                self._follow(part * steps, moved)
                return True
        window.states.values[:], self.parameters = states, before
        return False

    def _merit(self, steps: Array, parameters: Array) -> tuple[float, float]:
        """Cost after a step, and the largest value of a hard row."""
        cost, violation = self._window.evaluate(self.parameters)
        linked = self._linked(steps, parameters)
        for front, step in ((self._carried, linked), (self._border, parameters)):
            values = front.soft[:, :-1] @ step + front.soft[:, -1]
            cost += float(values @ values) + 2 * float(front.linear @ step)
            violation = max(violation, float(np.max(np.abs(front.hard[:, :-1] @ step + front.hard[:, -1]), initial=0)))
        return cost, violation

    def _follow(self, steps: Array, parameters: Array) -> None:
        """Bring the values of carried rows to where a step has led."""
        linked = self._linked(steps, parameters)
        for front, step in ((self._carried, linked), (self._border, parameters)):
            front.soft[:, -1] += front.soft[:, :-1] @ step
            front.hard[:, -1] += front.hard[:, :-1] @ step
        self._score = self._score + self._information @ parameters

    def _linked(self, steps: Array, parameters: Array) -> Array:
        """The unknowns of carried rows."""
        whole = np.zeros((self._window.reach, self.transcription.manifold.tangent))
        whole[: len(steps)] = steps[: self._window.reach]
        return np.concatenate([whole.ravel(), parameters])

    def _marginalize(self) -> None:
        """Let the oldest step leave."""
        n = len(self.parameters)
        if self._point is None:
            self._point = self.parameters.copy()
        self._linearize()
        before = self._carried.linear[len(self._carried.linear) - n :]
        _, self._carried, rest = self._eliminated(self._carried, 0)
        self._score = self._score + rest[:, :-1].T @ rest[:, -1]
        self._score += self._carried.linear[len(self._carried.linear) - n :] - before
        self._information = self._information + rest[:, :-1].T @ rest[:, :-1]
        merged = eliminate(Front(np.concatenate([self._border.soft, rest]), _empty(n).hard, np.zeros(n)), n, n)[0]
        self._border = Front(merged.rows, self._border.hard, self._border.linear)
        self._window.drop()

    def covariance(self, steps: int = 1) -> Array:
        """Of so many of the newest states, the oldest first, and the parameters, (steps t + n_p, steps t + n_p); NaN
        where they are not determined."""
        if self._found is None:
            self._linearize()
            self._factorized()
        assert self._found is not None
        pivots, border = self._found
        t, n = self.transcription.manifold.tangent, len(self.parameters)
        own = border.responses(np.zeros((n, 0)), np.zeros((n, 0)))
        ahead = self._window.reach * t
        known, loose = (np.concatenate([np.zeros((ahead, part.shape[1])), part]) for part in own)
        for found in pivots[: -steps - 1 : -1]:
            # What lies farther ahead than a row reaches stays as it is, behind the unknowns of the row.
            near = np.r_[0:ahead, len(known) - n : len(known)]
            far = np.arange(ahead, len(known) - n)
            wide = [np.concatenate([np.zeros((t, part.shape[1])), part[near]]) for part in (known, loose)]
            parts = found.responses(*wide)
            known, loose = (
                np.concatenate(
                    [
                        new[: -n or None],
                        np.pad(part[far], ((0, 0), (0, new.shape[1] - part.shape[1]))),
                        new[len(new) - n :],
                    ]
                )
                for new, part in zip(parts, (known, loose), strict=True)
            )
        kept = np.r_[0 : steps * t, len(known) - n : len(known)]
        responses, follows = known[kept], loose[kept]
        covariance = responses @ responses.T
        undetermined = np.any(follows != 0.0, axis=1)
        covariance[undetermined] = covariance[:, undetermined] = np.nan
        return np.asarray(covariance)

    def arrays(self) -> dict[str, Array]:
        """All that is remembered, by names."""
        point = np.zeros(0) if self._point is None else self._point
        found = {"settings": np.array([self.window, self.iterations]), "parameters": self.parameters, "point": point}
        for name, front in (("carried", self._carried), ("border", self._border)):
            found |= {f"{name} soft": front.soft, f"{name} hard": front.hard, f"{name} linear": front.linear}
        found |= {"score": self._score, "information": self._information}
        return found | self._window.arrays()

    @classmethod
    def resumed(cls, transcription: Transcription, arrays: Mapping[str, Array]) -> FixedLag:
        """One that goes on from ``arrays`` of another, with the same digits."""
        window, iterations = (int(value) for value in arrays["settings"])
        new = cls(transcription, window, parameters=arrays["parameters"], iterations=iterations)
        new._point = arrays["point"].copy() if arrays["point"].size or not arrays["parameters"].size else None
        new._carried, new._border = (
            Front(*(contiguous(arrays[f"{name} {part}"]).copy() for part in ("soft", "hard", "linear")))
            for name in ("carried", "border")
        )
        new._score, new._information = arrays["score"].copy(), arrays["information"].copy()
        new._window.restore(arrays)
        return new


def _empty(count: int) -> Front:
    """Nothing known of some unknowns."""
    return Front(np.zeros((0, count + 1)), np.zeros((0, count + 1)), np.zeros(count))


def _widened(front: Front, tangent: int, parameters: int) -> Front:
    """The same with one more step before the parameters."""
    place = len(front.linear) - parameters
    soft, hard = (np.insert(rows, [place] * tangent, 0.0, axis=1) for rows in (front.soft, front.hard))
    return Front(soft, hard, np.insert(front.linear, [place] * tangent, 0.0))
