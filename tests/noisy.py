"""Recordings simulated with noise in the equations of motion and in the sensors, as a problem's weights assume it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
from mechanisms import Array, OneStep, of_all_bodies

from spookid import HingeAngle, Model, Parameter, Problem, Recording, Spook, Variational
from spookid.mechanics.kinematics import place
from spookid.mechanics.manifold import Manifold, jacobian

_SPOOK = Spook()


class NoisyTwin:
    """Draws recordings of a model stepped with white impulses of variance 1/κ, and angles of noise sigma.

    Args:
        truth: parameter values.
        initial: hinge name to its angle at the start, at rest.
        stepper: of the problem, whose impulses are noisy; rigid joints bear what acts against them.
    """

    def __init__(
        self,
        model: Model,
        truth: Mapping[Parameter, float],
        initial: Mapping[str, float],
        stepper: Spook | Variational = _SPOOK,
        **settings: Any,
    ):
        self.step, self.weight, self.sigma = (settings[name] for name in ("step", "state_weight", "sigma"))
        self.steps = round(settings["duration"] / self.step) + 1
        sensors = [HingeAngle(joint, signal=joint.name, sigma=self.sigma) for joint in model.joints]
        given = {"step": self.step, "state_weight": self.weight, "stepper": stepper}
        self.problem = Problem("twin", model=model, observations=sensors, **given)
        one = OneStep(model, h=self.step, weight=self.weight, values=truth)
        q = place(model, np.array([[initial[joint.name] for joint in model.joints]]), {})[0]
        kind = _RigidMotion if isinstance(stepper, Variational) else _Motion
        self._motion = kind(one, q)
        position = ca.SX.sym("q", model.configuration.ambient)
        self._angle = ca.Function("angle", [position], [model.mechanics(position).displacement])

    def draw(self, seed: int) -> Problem:
        """The problem with a recording of that seed."""
        rng = np.random.default_rng(seed)
        angles = self._angles(self._motion.drawn(self.steps, rng))
        t = np.arange(self.steps) * self.step
        joints = self.problem.model.joints
        signals = {j.name: angles[:, i] + self.sigma * rng.normal(size=len(t)) for i, j in enumerate(joints)}
        return self.problem.with_(recordings=[Recording(t, signals)])

    def _angles(self, states: Array) -> Array:
        n = self.problem.model.configuration.ambient
        return np.unwrap(np.array([self._angle(state[:n]).full()[:, 0] for state in states]), axis=0)


class _Motion:
    """SPOOK's step with noise."""

    def __init__(self, one: OneStep, q: Array) -> None:
        self._one, model, factor = one, one.model, one.factor
        self._start = np.concatenate([q, np.zeros(model.configuration.tangent)])
        x, x_next = factor.variables.values()
        delta = ca.SX.sym("delta", model.state.tangent)
        self._retract = ca.Function("retract", [x, delta], [model.state.retract(x, delta)])
        symbols = ca.vertcat(*(c.symbol for c in one.constants))
        slope = jacobian(factor.residual, x_next, model.state)
        self._newton = ca.Function("newton", [x, x_next, symbols, factor.data], [factor.residual, slope])
        self._given = ca.DM([c.value for c in one.constants])

    def drawn(self, steps: int, rng: np.random.Generator) -> Array:
        """States (N, ambient)."""
        states = [self._start]
        for _ in range(steps - 1):
            states.append(self._next(states[-1], rng.normal(size=self._one.factor.residual.numel())))
        return np.array(states)

    def _next(self, x: Array, noise: Array) -> Array:
        """x₊ with √κ Δp = noise, by Newton's method."""
        x_next = self._one.forward(x)
        for _ in range(20):
            residual, slope = (m.full() for m in self._newton(x, x_next, self._given, []))
            move = np.linalg.solve(slope, noise - residual[:, 0])
            x_next = self._retract(x_next, move).full()[:, 0]
            if np.abs(move).max() < 1e-11:
                return x_next
        raise AssertionError("Newton's method does not converge")


class _RigidMotion:
    """The variational step with noise: positions alone, on the surface of the rigid joints."""

    def __init__(self, one: OneStep, q: Array) -> None:
        model = one.model
        self._start, self._multipliers = q, model.rows
        impulse = of_all_bodies(model, one.settings)
        before, here, after = impulse.variables.values()
        n, m = model.configuration.ambient, model.configuration.tangent
        rows = ca.vertcat(impulse.residual, model.violation(after[:n]))
        unknowns = Manifold((*model.configuration.parts, ("flat", model.rows)))
        slope = ca.horzcat(
            jacobian(rows, after, unknowns)[:, :m],
            ca.jacobian(rows, here)[:, n : n + self._multipliers],
        )
        symbols = ca.vertcat(*(c.symbol for c in one.constants))
        newton = ca.Function("newton", [before, here, after, symbols, impulse.data], [rows, slope])
        self._newton = partial(_numbers, newton, ca.DM([c.value for c in one.constants]))
        delta, position = ca.SX.sym("delta", m), ca.SX.sym("q", n)
        self._retract = ca.Function("retract", [position, delta], [model.configuration.retract(position, delta)])
        self._m = m

    def drawn(self, steps: int, rng: np.random.Generator) -> Array:
        """Positions (N, ambient), the first two the same."""
        states = [self._start, self._start]
        force = np.zeros(self._multipliers)
        for _ in range(steps - 2):
            q, force = self._next(states[-2], states[-1], force, rng.normal(size=self._m))
            states.append(q)
        return np.array(states)

    def _next(self, before: Array, here: Array, force: Array, noise: Array) -> tuple[Array, Array]:
        """q₊ and λ with √κ Δp = noise, by Newton's method."""
        after, wanted = here, np.concatenate([noise, np.zeros(self._multipliers)])
        for _ in range(20):
            unknown = (np.concatenate([q, values]) for q, values in ((before, force), (here, force), (after, force)))
            residual, slope = self._newton(*unknown)
            move = np.linalg.solve(slope, wanted - residual[:, 0])
            after, force = self._retract(after, move[: self._m]).full()[:, 0], force + move[self._m :]
            if np.abs(move[: self._m]).max() < 1e-11:
                return after, force
        raise AssertionError("Newton's method does not converge")


def _numbers(function: ca.Function, given: ca.DM, *states: Array) -> list[Array]:
    return [m.full() for m in function(*states, given, [])]
