"""Forward dynamics of a mechanism in dependent coordinates by GTSAM, a library of factor graphs, with custom factors.

They share the expressions of accelerations and constraints with the package, and nothing of its solvers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import gtsam
import numpy as np
from numpy.typing import NDArray

from spookid.graphs import System
from spookid.graphs.integration import accelerations

Array = NDArray[np.float64]
Error = Callable[..., Array]


INSIDE = [0.0]
"""CPU seconds that custom factors have taken; the rest is GTSAM's own."""


def custom(x: Sequence[ca.SX], rows: ca.SX) -> Error:
    """Rows, and their derivatives in each variable, as a custom factor has them."""
    slopes = [ca.densify(ca.jacobian(rows, one)) for one in x]
    function = ca.Function("error", list(x), [ca.densify(rows), *slopes], {"cse": True})

    def error(this: Any, values: gtsam.Values, jacobians: list[Array] | None) -> Array:
        began = time.process_time()
        found = function(*map(values.atVector, this.keys()))
        if jacobians is not None:
            for i, slope in enumerate(found[1:]):
                jacobians[i] = slope.full()
        rows = np.ravel(found[0].full())
        INSIDE[0] += time.process_time() - began
        return rows

    return error


class Peer:
    """From rest at q0 on: variables q, v and a of each step.

    Args:
        sigmas: of the trapezoidal rows, and of the dynamics.
        exact: standard deviation of what is exact in the package; 0 for constrained noise.
    """

    def __init__(
        self, system: System, step: float, q0: Array, sigmas: tuple[float, float] = (0.1, 0.01), exact: float = 0.0
    ) -> None:
        n, own = len(system.names), list(system.independent)
        q, v, a, after, rate = (ca.SX.sym(name, n) for name in ("q", "v", "a", "after", "rate"))
        found = accelerations(system, q, v, system.force(q, v, ca.SX.zeros(len(system.signals))))

        def hard(rows: int) -> Any:
            noise = gtsam.noiseModel
            return noise.Isotropic.Sigma(rows, exact) if exact else noise.Constrained.All(rows)

        soft, rows = gtsam.noiseModel.Isotropic.Sigma, n - len(own)
        self._rule = custom([q, after, v, rate], after - q - step / 2 * (v + rate)), soft(n, sigmas[0])
        self._dynamics = custom([q, v, a], found - a), soft(n, sigmas[1])
        self._closed = custom([q], system.constraint(q)), hard(rows)
        self._tangent = custom([q, v], system.constraint_rate(q, v)), hard(rows)
        self._first = custom([q], q[own] - ca.DM(q0[own])), hard(len(own))
        self._still = custom([v], v[own]), hard(len(own))
        a0 = np.ravel(ca.Function("a", [q, v], [found])(q0, np.zeros(n)).full())
        self._start = np.asarray(q0), np.zeros(n), a0

    @staticmethod
    def keys(k: int) -> list[int]:
        """Of q, v and a at a step."""
        return [gtsam.symbol(letter, k) for letter in "qva"]

    def factors(self, k: int) -> gtsam.NonlinearFactorGraph:
        """Those that a step brings."""
        q, v, a = self.keys(k)
        parts = [(self._dynamics, [q, v, a]), (self._closed, [q]), (self._tangent, [q, v])]
        if k:
            q_, v_, a_ = self.keys(k - 1)
            parts += [(self._rule, [q_, q, v_, v]), (self._rule, [v_, v, a_, a])]
        else:
            parts += [(self._first, [q]), (self._still, [v])]
        graph = gtsam.NonlinearFactorGraph()
        for (error, noise), names in parts:
            graph.add(gtsam.CustomFactor(noise, names, error))
        return graph

    def batch(self, states: Array) -> tuple[Array, float]:
        """The motion of all steps at once from a start (N, 3 n), likewise, and seconds of CPU time."""
        graph, values, n = gtsam.NonlinearFactorGraph(), gtsam.Values(), len(self._start[0])
        for k, state in enumerate(states):
            graph.push_back(self.factors(k))
            for i, key in enumerate(self.keys(k)):
                values.insert(key, state[i * n : (i + 1) * n])
        began = time.process_time()
        found = gtsam.LevenbergMarquardtOptimizer(graph, values, self._settings(100)).optimize()
        return self._read(found, range(len(states))), time.process_time() - began

    def online(self, window: int, steps: int) -> tuple[Array, float]:
        """The newest step of each update of a fixed-lag smoother (N, 3 n), and seconds of CPU time of all updates."""
        smoother = gtsam.BatchFixedLagSmoother(window - 0.5, self._settings(15))
        newest, spent = np.zeros((steps, 3 * len(self._start[0]))), 0.0
        for k in range(steps):
            values, state = gtsam.Values(), np.concatenate(self._start)
            if k:
                state = newest[k - 1] if k < 2 else 2 * newest[k - 1] - newest[k - 2]
            for key, one in zip(self.keys(k), np.split(state, 3), strict=True):
                values.insert(key, one)
            factors = self.factors(k)
            began = time.process_time()
            smoother.update(factors, values, dict.fromkeys(self.keys(k), float(k)))
            newest[k] = self._read(smoother.calculateEstimate(), [k])[0]
            spent += time.process_time() - began
        return newest, spent

    def _settings(self, iterations: int) -> gtsam.LevenbergMarquardtParams:
        settings = gtsam.LevenbergMarquardtParams()
        settings.setMaxIterations(iterations)
        settings.setRelativeErrorTol(1e-12)
        settings.setAbsoluteErrorTol(1e-14)
        settings.setLinearSolverType("MULTIFRONTAL_QR")
        return settings

    def _read(self, values: gtsam.Values, steps: Sequence[int]) -> Array:
        return np.array([np.concatenate([values.atVector(key) for key in self.keys(k)]) for k in steps])
