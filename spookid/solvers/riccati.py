"""A chain's states and the multipliers of its hard rows by a Riccati recursion backward in time, parameters last.

With δ the states' step, θ the parameters' and 1 for the gradient in the border, the value of all that follows a step x,

    V(x, θ) = min over later steps of δᵀHδ + 2 δᵀB (θ, 1)   subject to A δ + b = 0,

is a quadratic: V_xx, V_xθ, V_θθ of Martinez, Tonneau and Mastalli, "System Identification under Constraints and
Disturbance", section VIII, whose stages (x, u) are here two steps that follow one another, u being the later one. Rows
that link them are eliminated by what they give of u (their null space, eq. 77 to 79); rows that u cannot meet are
passed on to x, which the paper rules out. At the first step V_θθ is the Schur complement of the states: the inverse of
the parameters' covariance. The parameters' own quadratic program (eq. 81) takes it from there (``steps``). The paper's
Q_θθ, V_xx, V_θθ and V_xθ (eq. 75 and 80) are misprinted; ``riccati.c`` has what follows from the elimination.

Where rows reach over several steps, as many steps are one stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.riccati import RiccatiRoutines
from spookid.kernels.thread_pool import Workspace
from spookid.solvers.elimination import ForwardSubstitution
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError


class Riccati:
    """One chain's saddle point; see ``saddle.Saddle``.

    Raises:
        NotPositiveDefiniteError: if an unknown is determined by nothing.
    """

    def __init__(
        self,
        equations: NormalEquations,
        hard: Sequence[Rows],
        damping: Array,
        workspace: Workspace,
        by: RiccatiRoutines,
    ) -> None:
        self._by, self._steps = by, equations.steps
        self._tangent = t = len(equations.band) // self._steps
        reach = max([equations.band.shape[1] // t - 1, *(max(rows.offsets) for rows in hard), 1])
        self._stage, self._stages = reach, -(-self._steps // reach)
        self._hard = [(rows.offsets, *rows.matrix.shape[::2]) for rows in hard]
        parameters = equations.border.shape[1]
        matrix = self._merged(hard, parameters)
        band, border = self._grouped(equations)
        places = by.stages(band, matrix)
        scales = np.ones(self._stages * reach * t)
        scales[: len(damping)] = damping
        self._made, self.corner, failed = by.backward(places, band, scales, border, matrix, workspace)
        if failed:
            first = (failed - 1) * reach
            raise NotPositiveDefiniteError(f"nothing determines an unknown of step {first}")

    @property
    def own(self) -> ForwardSubstitution:
        return ForwardSubstitution(None, self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array, violations: Sequence[Array]) -> ForwardSubstitution:
        states = np.zeros((self._stages, self._stage * self._tangent))
        states.ravel()[: len(gradient)] = gradient
        values = np.zeros(self._made.stages.later.shape)
        for some, start, columns, k in self._places():
            values[: len(range(start, self._hard[k][1], self._stage)), columns] = violations[k][some]
        solved, taken, square = self._by.forward(self._made, states, values)
        return ForwardSubstitution(solved, taken[:-1], square)

    def step(self, forward: ForwardSubstitution, parameters: Array) -> tuple[Array, list[Array]]:
        states, found = self._by.steps(self._made, forward.values, np.ascontiguousarray(parameters))
        multipliers = [np.zeros((count, m)) for _, count, m in self._hard]
        for some, _, columns, k in self._places():
            multipliers[k][some] = found[: len(multipliers[k][some]), columns]
        return states.ravel()[: self._steps * self._tangent], multipliers

    def _places(self) -> list[tuple[slice, int, slice, int]]:
        """Rows of each hard factor that begin at the same place of a stage: which, that place, their columns among the
        rows of a stage, and the factor's number."""
        found, column = list[tuple[slice, int, slice, int]](), 0
        for k, (_, count, m) in enumerate(self._hard):
            for start in range(min(self._stage, count)):
                found.append((slice(start, count, self._stage), start, slice(column, column + m), k))
                column += m
        return found

    def _merged(self, hard: Sequence[Rows], parameters: int) -> Array:
        """Transposed Jacobians of all hard factors by stages, (count, 2 t + n_p + 1, rows)."""
        if self._stage == 1 and len(hard) == 1 and hard[0].offsets == (0, 1):
            return np.ascontiguousarray(hard[0].matrix)
        t, places = self._tangent, self._places()
        states = 2 * self._stage * t
        count = max((len(hard[k].matrix[some]) for some, _, _, k in places), default=0)
        width = max((columns.stop for _, _, columns, _ in places), default=0)
        whole = np.zeros((count, states + parameters, width))
        for some, start, columns, k in places:
            rows = hard[k]
            matrix = rows.matrix[some]
            part = whole[: len(matrix), :, columns]
            for i, offset in enumerate(rows.offsets):
                part[:, (start + offset) * t :][:, :t] = matrix[:, i * t : (i + 1) * t]
            part[:, states:] = matrix[:, len(rows.offsets) * t :]
        return whole

    def _grouped(self, equations: NormalEquations) -> tuple[Array, Array]:
        """The lower band by stages, (stages, t, 2 t), and the border."""
        size = self._stage * self._tangent
        if equations.band.shape == (self._stages * size, 2 * size):
            return np.ascontiguousarray(equations.band).reshape(self._stages, size, -1), equations.border
        band = np.zeros((self._stages * size, 2 * size))
        band[: len(equations.band), : equations.band.shape[1]] = equations.band
        border = np.zeros((equations.border.shape[1], len(band))).T
        border[: len(equations.border)] = equations.border
        return band.reshape(self._stages, size, -1), border
