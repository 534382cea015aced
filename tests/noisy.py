"""Recordings simulated with noise in the equations of motion and in the sensors, as a problem's weights assume it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np
from mechanisms import Array, OneStep

from spookid.kinematics import place
from spookid.manifold import jacobian
from spookid.model import Model
from spookid.observations import HingeAngle
from spookid.parameter import Parameter
from spookid.problem import Problem
from spookid.recording import Recording


class NoisyTwin:
    """Draws recordings of a model stepped by SPOOK with white impulses of variance 1/κ, and angles of noise sigma.

    Args:
        truth: parameter values.
        initial: hinge name to its angle at the start.
    """

    def __init__(self, model: Model, truth: Mapping[Parameter, float], initial: Mapping[str, float], **settings: Any):
        self.step, self.weight, self.sigma = (settings[name] for name in ("step", "state_weight", "sigma"))
        self.steps = round(settings["duration"] / self.step) + 1
        self.one = OneStep(model, h=self.step, weight=self.weight, values=truth)
        sensors = [HingeAngle(joint, signal=joint.name, sigma=self.sigma) for joint in model.joints]
        self.problem = Problem("twin", model=model, observations=sensors, step=self.step, state_weight=self.weight)
        angles = [initial[joint.name] for joint in model.joints]
        self.start = np.concatenate([place(model, np.array([angles]), {})[0], np.zeros(model.configuration.tangent)])
        x, x_next = self.one.factor.variables.values()
        delta = ca.SX.sym("delta", model.state.tangent)
        self._retract = ca.Function("retract", [x, delta], [model.state.retract(x, delta)])
        symbols = ca.vertcat(*(c.symbol for c in self.one.constants))
        residual = self.one.factor.residual
        slope = jacobian(residual, x_next, model.state)
        self._newton = ca.Function("newton", [x, x_next, symbols, self.one.factor.data], [residual, slope])
        self._given = ca.DM([c.value for c in self.one.constants])

    def draw(self, seed: int) -> Problem:
        """The problem with a recording of that seed."""
        rng = np.random.default_rng(seed)
        states = [self.start]
        for _ in range(self.steps - 1):
            states.append(self._next(states[-1], rng.normal(size=self.one.factor.residual.numel())))
        angles = self._angles(np.array(states))
        t = np.arange(self.steps) * self.step
        joints = self.problem.model.joints
        signals = {j.name: angles[:, i] + self.sigma * rng.normal(size=len(t)) for i, j in enumerate(joints)}
        return self.problem.with_(recordings=[Recording(t, signals)])

    def _next(self, x: Array, noise: Array) -> Array:
        """x₊ with √κ Δp = noise, by Newton's method."""
        x_next = self.one.forward(x)
        for _ in range(20):
            residual, slope = (m.full() for m in self._newton(x, x_next, self._given, []))
            move = np.linalg.solve(slope, noise - residual[:, 0])
            x_next = self._retract(x_next, move).full()[:, 0]
            if np.abs(move).max() < 1e-11:
                return x_next
        raise AssertionError("Newton's method does not converge")

    def _angles(self, states: Array) -> Array:
        model = self.problem.model
        q = ca.SX.sym("q", model.configuration.ambient)
        angle = ca.Function("angle", [q], [model.mechanics(q).angle])
        return np.unwrap(np.array([angle(state[: q.numel()]).full()[:, 0] for state in states]), axis=0)
