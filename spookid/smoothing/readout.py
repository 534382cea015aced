"""The motion of bodies and joints at the newest step, from the unknowns of the last steps, with its slopes.

What steps of h add to the estimates, of the time with which a smoother began, and what is not known of it later on.

A fit of the first seconds tells it from steps of h and h/2. It changes with the motion: with the score Tᵀd of what the
steps miss (``estimation.step_errors``) it is e = P Tᵀd, P the covariance of the parameters. So what it was in the
beginning, e₀, fades to P P₀⁻¹e₀ if the steps of later motion add nothing, and stays if they add the same. And they may
add another thing, which is taken to be as large for what they tell: a score of covariance s²/n (P⁻¹ − P₀⁻¹) with
s² = e₀ᵀP₀⁻¹e₀.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.manifold import Manifold, jacobian
from spookid.stepping.impulses import Settings
from spookid.transcription.transcription import Transcription


@dataclass(frozen=True, eq=False)
class Motion:
    """At the newest step."""

    q: Array
    """(n_b, 7)."""
    v: Array
    """(n_b, 6)."""
    coordinates: Array
    """Of all joints, then their rates, (2 n_s,)."""
    slopes: Array
    """Their slopes in the unknowns of the last steps, the oldest first, and the parameters, (2 n_s, steps t + n_p)."""


class Readout:
    """What unknowns mean.

    Velocities that are no unknowns are those of the parabola through the last three poses, as at the end of a batch
    fit's trajectory.

    Args:
        transcription: of the problem.
    """

    def __init__(self, problem: Problem, settings: Settings, transcription: Transcription) -> None:
        model, manifold = problem.model, transcription.manifold
        self.labels = tuple(freedom.label for freedom in model.freedoms)
        self._numbers = contiguous(transcription.numbers(0))
        window = problem.scheme.window(model, settings, 1)
        self.steps = 1 if max(window.variables) == 0 else 3
        """States that it takes."""
        self._tangent = manifold.tangent
        unknowns = [ca.SX.sym(f"x_{i}", manifold.ambient) for i in range(self.steps)]
        q, v, positions, rates = _moving(problem, settings, manifold, unknowns)
        of = problem.parameter_set.in_recordings
        q, v, coordinates = of(q), of(v), of(ca.vertcat(ca.SX(0, 1), positions, rates))
        slopes = ca.horzcat(
            *(jacobian(coordinates, x, manifold) for x in unknowns), ca.jacobian(coordinates, transcription.shared[0])
        )
        dense = [ca.cse(ca.densify(e)) for e in (ca.vertcat(q, v, coordinates), slopes)]
        function = ca.Function("readout", [*unknowns, *transcription.shared], dense)
        self._values, self._slopes = np.empty(dense[0].numel()), np.empty(dense[1].shape[::-1])
        self._cuts = np.cumsum([q.numel(), v.numel()])
        self._buffer, self._evaluate = function.buffer()
        self._buffer.set_res(0, self._values.data)
        if self._slopes.size:
            self._buffer.set_res(1, self._slopes.data)

    def __call__(self, states: Array, parameters: Array) -> Motion:
        """Of the last states (steps, ambient), the oldest first."""
        arguments = [*map(contiguous, states[-self.steps :]), contiguous(parameters), self._numbers]
        for i, argument in enumerate(arguments):
            if argument.size:
                self._buffer.set_arg(i, argument.data)
        self._evaluate()
        q, v, coordinates = np.split(self._values.copy(), self._cuts)
        return Motion(q.reshape(-1, 7), v.reshape(-1, 6), coordinates, self._slopes.T.copy())


def _moving(
    problem: Problem, settings: Settings, manifold: Manifold, unknowns: list[ca.SX]
) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    """q, v, coordinates of the joints and their rates at the last of some steps."""
    model, newest = problem.model, unknowns[-1]
    if len(unknowns) == 1:
        window = problem.scheme.window(model, settings, 1)
        motion = window.motion.inserted(window.variables[0], newest)
        return motion.q, motion.v, *_of_poses(problem, motion.q, motion.v)
    q, before, first = (problem.scheme.configuration(model, x) for x in reversed(unknowns))
    v = _slope(model.configuration, [first, before, q], settings.step)
    window = problem.scheme.window(model, settings, 0)
    at = window.motion.inserted(window.variables[0], newest)
    if at.joints is None:
        return q, v, *_of_poses(problem, q, v)
    flow = ca.densify(manifold.basis(newest) @ _slope(manifold, unknowns, settings.step))
    return q, v, at.joints[0], ca.jtimes(at.joints[0], newest, flow)


def _of_poses(problem: Problem, q: ca.SX, v: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Coordinates of all joints, angles in (−π, π], and their velocities."""
    model, symbol = problem.model, ca.SX.sym("q", problem.model.configuration.ambient)
    positions = model.displacements(symbol)
    flow = ca.SX.sym("flow", symbol.numel())
    rates = ca.jtimes(positions, symbol, flow)
    found = ca.substitute([positions, rates], [symbol, flow], [q, ca.densify(model.configuration.basis(q) @ v)])
    return found[0], found[1]


def _slope(manifold: Manifold, points: list[ca.SX], step: ca.SX) -> ca.SX:
    """The slope at the last of three points of the parabola through them, (tangent,)."""
    first, before, last = points
    return (3 * manifold.difference(last, before) - manifold.difference(before, first)) / (2 * step)


@dataclass(frozen=True, eq=False)
class StepCorrection:
    """Correction of the estimates for the discretization error of the step."""

    amounts: Array
    """e₀, (n_p,)."""
    information: Array
    """P₀⁻¹, (n_p, n_p)."""

    def covariance(self, parameters: Array) -> Array:
        """Covariance of the corrections, (n_p, n_p), if the parameters have covariance P; zero at the beginning."""
        if not np.any(self.amounts):
            return np.zeros_like(parameters)
        known = np.isfinite(np.diag(parameters))
        present = np.where(known[:, None] & known, parameters, 0.0)
        share = present @ self.information
        apart = self.amounts - share @ self.amounts
        square = float(self.amounts @ self.information @ self.amounts)
        later = present - share @ present
        return np.asarray(np.outer(apart, apart) + square / len(apart) * (later + later.T) / 2)
