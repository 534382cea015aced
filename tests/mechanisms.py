"""Mechanisms that the tests share, and their equations as plain functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Manifold,
    Model,
    Motor,
    Problem,
    Recording,
    Spook,
    Variational,
    gravity,
)
from spookid.assembly.initialization import place
from spookid.stepping.simulation import NewtonStepper
from spookid.stepping.spook import Settings
from spookid.transcription.factor import Constant, Factor, Group
from spookid.transcription.transcription import Point, Transcription

Array = NDArray[np.float64]

G = 9.82
"""Acceleration of gravity [m/s²]."""

DOWN: dict[str, Any] = {"x": (0, 1, 0), "y": (0, 0, -1)}
"""A horizontal axle along the world's y whose angle is zero where the child's y axis points down."""


# --- mechanisms ---


def maximal(model: Model) -> Model:
    """The same, fitted in the poses of all bodies: by the very steps that a simulation takes with ``substeps=1``."""
    return replace(model, coordinates="maximal")


def pendulum(*, inertia: Any = 0.005, mass: Any = 0.5, length: float = 0.2, **hinge: Any) -> Model:
    """A rod that hangs down at angle 0 from a horizontal hinge ``length`` [m] off its centre of mass."""
    rod = Body("rod", mass=mass, inertia=(1e-4, inertia, inertia))
    joint = Hinge("hinge", GROUND.frame(**DOWN), rod.frame(at=(-length, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), **hinge)
    return Model(bodies=[rod], joints=[joint], gravity=gravity(G))


def hub(*, inertia: Any = 0.002, mass: Any = 1.0, g: float = 0.0, motor: Mapping[str, Any] | None = None, **hinge: Any):
    """A balanced wheel on a horizontal axle through its centre of mass: its slip rate obeys a scalar equation."""
    wheel = Body("wheel", mass=mass, inertia=(0.003, inertia, 0.004))
    joint = Hinge("hinge", GROUND.frame(**DOWN), wheel.frame(**DOWN), **hinge)
    motors = [] if motor is None else [Motor(joint, signal="u", **motor)]
    return Model(bodies=[wheel], joints=[joint], motors=motors, gravity=gravity(g))


def furuta(
    *,
    inertias: tuple[Any, Any, Any] = (0.003, 0.004, 0.004),
    shoulder: Mapping[str, Any] | None = None,
    elbow: Mapping[str, Any] | None = None,
    motor: Mapping[str, Any] | None = None,
    acceleration: Any = None,
) -> Model:
    """Furuta pendulum with the constants of the paper's Table G.5; its rod hangs down at angle 0.

    Args:
        inertias: J_Azz, J_Byy and J_Bzz [kg m²].
    """
    arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, inertias[0]))
    rod = Body("B", mass=0.428, inertia=(1e-4, *inertias[1:]))
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    first = Hinge("shoulder", GROUND.frame(**axle), arm.frame(at=(-0.128, 0, 0), **axle), **(shoulder or {}))
    second = Hinge(
        "elbow",
        arm.frame(at=(0.120, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        **(elbow or {}),
    )
    motors = [] if motor is None else [Motor(first, signal="u", **motor)]
    field = gravity(G) if acceleration is None else acceleration
    return Model(bodies=[arm, rod], joints=[first, second], motors=motors, gravity=field)


def full_inertia(scale: float = 1.0) -> Array:
    """Inertia with products, of four point masses of 0.3 kg: (3, 3) [kg m²]."""
    points = np.array([[0.1, 0.02, -0.05], [-0.03, 0.12, 0.04], [0.06, -0.07, 0.09], [-0.05, -0.02, -0.11]])
    return scale * sum(0.3 * (r @ r * np.eye(3) - np.outer(r, r)) for r in points)


def chain(**hinge: Any) -> Model:
    """Five bodies in a row with hinges about varied axes; at three of them the new body is the hinge's parent.

    Bodies and hinges are listed in another order than they hang together in; two bodies have products of inertia.
    """
    one = Body("one", mass=1.2, inertia=(0.01, 0.012, 0.015))
    two = Body("two", mass=0.7, inertia=full_inertia())
    three = Body("three", mass=0.9, inertia=(0.02, 0.015, 0.01))
    four = Body("four", mass=0.4, inertia=(0.004, 0.005, 0.006))
    five = Body("five", mass=0.3, inertia=full_inertia(0.2))
    links = {
        "a": (
            one.frame(at=(0, 0.1, 0.2), x=(0, 0, 2), y=(1, 1, 0)),
            GROUND.frame(at=(0.3, 0, 1), x=(1, 2, 0), y=(-2, 1, 0)),
        ),
        "b": (one.frame(at=(0, 0, -0.3), x=(1, 0, 1)), two.frame(at=(0.2, 0, 0), x=(0, 1, 0), y=(0, 0, 1))),
        "c": (three.frame(at=(0.1, -0.2, 0), x=(1, 1, 1), y=(1, -1, 0)), two.frame(at=(-0.2, 0.1, 0))),
        "d": (
            three.frame(at=(-0.1, 0.2, 0.1), x=(0, 3, 4), y=(1, 0, 0)),
            four.frame(at=(0, 0, 0.15), x=(0, 0, 1), y=(1, 0, 0)),
        ),
        "e": (five.frame(at=(0.1, 0.1, 0)), four.frame(at=(0, 0, -0.15), x=(-1, 0, 2), y=(2, 0, 1))),
    }
    hinges = {name: Hinge(name, parent, child, **hinge) for name, (parent, child) in links.items()}
    return Model(bodies=[three, one, five, two, four], joints=[hinges[name] for name in "eadbc"], gravity=gravity(G))


def skew_body(**hinge: Any) -> Model:
    """A pendulum whose body has a full 3x3 inertia, about an axis that is none of its own."""
    body = Body("skew", mass=1.1, inertia=full_inertia())
    joint = Hinge("hinge", GROUND.frame(**DOWN), body.frame(at=(-0.1, 0.05, 0.2), x=(1, 2, 2), y=(0, 1, -1)), **hinge)
    return Model(bodies=[body], joints=[joint], gravity=gravity(G))


def free_body(*, mass: Any = 1.3, inertia: Any = (0.01, 0.02, 0.025)) -> Model:
    """A body in free fall."""
    return Model(bodies=[Body("free", mass=mass, inertia=inertia, free=True)], gravity=gravity(G))


# --- mechanics as numbers ---


def function(expressions: Sequence[ca.SX], symbols: Sequence[ca.SX]) -> Callable[..., list[Array]]:
    """Expressions as a function of numbers in the place of their symbols; columns come as (n,), matrices as (n, m)."""
    compiled = ca.Function("numbers", list(symbols), list(expressions))

    def evaluate(*values: ArrayLike) -> list[Array]:
        results = compiled.call([ca.DM(np.asarray(value, dtype=float)) for value in values])
        return [r.full()[:, 0] if r.shape[1] == 1 else r.full() for r in results]

    return evaluate


def mechanics(model: Model, q: Array, v: Array) -> SimpleNamespace:
    """g, G, the slip rows, angles, M and the forces f + f_g at a state, of a model without parameters."""
    names = ("g", "G", "slip", "angle", "M", "f")
    result = SimpleNamespace(**dict(zip(names, _mechanics(model)(q, v), strict=True)))
    result.G, result.slip = result.G.reshape(-1, len(v)), result.slip.reshape(-1, len(v))
    return result


@cache
def _mechanics(model: Model) -> Callable[..., list[Array]]:
    q, v = ca.SX.sym("q", 7 * len(model.bodies)), ca.SX.sym("v", 6 * len(model.bodies))
    at = model.mechanics(q)
    return function(
        [at.violation, at.constraint, at.slip, at.displacement, at.mass, at.force + at.gyroscopic(v)],
        [q, v],
    )


def retract(space: Manifold, x: Array, delta: Array) -> Array:
    """x ⊞ δ."""
    return _retract(space)(x, delta)[0]


@cache
def _retract(space: Manifold) -> Callable[..., list[Array]]:
    x, delta = ca.SX.sym("x", space.ambient), ca.SX.sym("delta", space.tangent)
    return function([space.retract(x, delta)], [x, delta])


def unit_quaternions(rng: np.random.Generator, count: int) -> Array:
    """(count, 4), uniform on the sphere."""
    e = rng.normal(size=(count, 4))
    return e / np.linalg.norm(e, axis=1, keepdims=True)


def random_state(model: Model, rng: np.random.Generator) -> tuple[Array, Array]:
    """q and v that no constraint holds together."""
    n = len(model.bodies)
    return np.hstack([rng.normal(size=(n, 3)), unit_quaternions(rng, n)]).ravel(), rng.normal(size=6 * n)


def joint_state(model: Model, angles: ArrayLike, rates: ArrayLike) -> tuple[Array, Array]:
    """q and v on the constraint surface, from the hinges' angles [rad] and rates [rad/s]."""
    q = place(model, np.atleast_2d(np.asarray(angles, dtype=float)), {})[0]
    at = mechanics(model, q, np.zeros(6 * len(model.bodies)))
    wanted = np.concatenate([np.zeros(len(at.G)), np.asarray(rates, dtype=float)])
    return q, np.linalg.lstsq(np.vstack([at.G, at.slip]), wanted, rcond=None)[0]


def slope(function: Callable[[Array], Array], size: int, step: float = 1e-4) -> Array:
    """∂function(δ)/∂δ at δ = 0 by central differences of fourth order, (rows, size)."""
    columns = []
    for unit in np.eye(size) * step:
        near, far = function(unit) - function(-unit), function(2 * unit) - function(-2 * unit)
        columns.append((8 * near - far) / (12 * step))
    return np.array(columns).T


# --- one step as numbers ---


class OneStep:
    """A SPOOK step of a model, and its residuals, as functions of numbers."""

    def __init__(
        self,
        model: Model,
        *,
        h: float = 0.01,
        weight: float = 1.0,
        slip_width: float = 1e-3,
        impulse_width: float = 1e-6,
        values: Mapping[ca.SX, float] | None = None,
    ) -> None:
        self.model, self.h, self.settings = model, h, Settings.of(model)
        self.constants = [
            Constant(self.settings.step, h),
            Constant(self.settings.weight, weight),
            *(Constant(self.settings.slip_width[j], slip_width) for j in range(len(model.joints))),
            Constant(self.settings.impulse_width, impulse_width),
            *(Constant(symbol, value) for symbol, value in (values or {}).items()),
        ]
        self.initial_factor, self.factor = Spook().factors(model, self.settings)
        symbols = ca.vertcat(*(c.symbol for c in self.constants))
        self._given = ca.DM([c.value for c in self.constants])
        x, x_next = self.factor.variables.values()
        self._residual = ca.Function("residual", [x, x_next, self.factor.data, symbols], [self.factor.residual])
        first = self.initial_factor
        self._initial = ca.Function("initial", [first.variables[0], symbols], [first.residual])
        multipliers = Spook().multipliers_along(model, self.settings)
        arguments = [*multipliers.variables.values(), multipliers.data, symbols]
        self._multipliers = ca.Function("multipliers", arguments, [multipliers.value])
        self.stepper = NewtonStepper(Spook().forward(model, self.settings), self.constants)

    def forward(self, x: Array, u: ArrayLike = ()) -> Array:
        """x₊."""
        guess = np.concatenate([x[7 * len(self.model.bodies) :], np.zeros(5 * len(self.model.joints))])
        return self.stepper.step(x, np.asarray(u, dtype=float), guess)[0]

    def residual(self, x: Array, x_next: Array, u: ArrayLike = ()) -> Array:
        """√κ (Δp_q, Δp_u)."""
        return self._residual(x, x_next, np.asarray(u, dtype=float), self._given).full()[:, 0]

    def initial(self, x: Array) -> Array:
        """√κ (Δp_q0, Δp_u0)."""
        return self._initial(x, self._given).full()[:, 0]

    def multipliers(self, x: Array, x_next: Array, u: ArrayLike = ()) -> Array:
        """λ."""
        return self._multipliers(x, x_next, np.asarray(u, dtype=float), self._given).full()[:, 0]


def of_all_bodies(model: Model, settings: Settings) -> Factor:
    """√κ times the impulses (6 n_b,) that the variational step is missing, from poses and λ at three steps: the
    equations of its forward step."""
    step, space = Variational().forward(model, settings), model.configuration
    x = [ca.SX.sym(name, space.ambient + model.rows) for name in ("before", "here", "after")]
    q, u = [one[: space.ambient] for one in x], ca.SX.sym("u", len(model.signals))
    v, v_next = (space.difference(b, a) / settings.step for a, b in pairwise(q))
    given = ca.vertcat(q[1], v, u, 1, ca.SX.zeros(step.u.numel() - u.numel() - 1), v_next, x[1][space.ambient :])
    rows = ca.substitute(step.equations[: space.tangent], ca.vertcat(step.x, step.u, step.unknowns), ca.densify(given))
    labels = tuple(map(str, range(space.tangent)))
    return Factor("impulse", Group.STATE, ca.sqrt(settings.weight) * rows, dict(enumerate(x)), u, labels)


# --- problems ---


def twin(
    model: Model,
    truth: Mapping[str, float],
    *,
    initial: Mapping[str, Any],
    duration: float = 2.0,
    noise: float = 0.0,
    seed: int = 0,
    inputs: Recording | None = None,
    **settings: Any,
) -> Problem:
    """A problem whose recording its own stepper simulated with ``truth``; a hinge's angle is the signal of its name."""
    observations = [HingeAngle(joint, signal=joint.name) for joint in model.joints]
    problem = Problem("twin", model=model, observations=observations, **{"step_correction": False, **settings})
    clean = problem.simulate(truth, duration, initial, inputs=inputs, substeps=1)
    rng = np.random.default_rng(seed)
    noisy = {o.signal: clean.signals[o.signal] + noise * rng.normal(size=len(clean.t)) for o in observations}
    return problem.with_(recordings=[clean.with_signals(**noisy)])


PAPER: dict[str, Any] = {"state_weight": 100.0, "stepper": Spook()}
"""Settings of the paper, with compliant joints and weights that are given: its κ, and 1 for every sensor's σ."""


def paper_twin(model: Model, truth: Mapping[str, float], **settings: Any) -> Problem:
    """A twin with the settings of the paper where there are no others."""
    return twin(model, truth, **{**PAPER, **settings})


def dense(transcription: Transcription, point: Point) -> tuple[Array, Array]:
    """The whole Jacobian (rows, unknowns) and the residual (rows,), block by block into its place."""
    tangent, n_p = transcription.manifold.tangent, len(transcription.names)
    starts = np.cumsum([0, *(chain.steps * tangent for chain in transcription.chains)])
    rows, residuals = [], []
    for c in range(len(transcription.chains)):
        for block in transcription.linearize(point, c):
            for k, matrix in enumerate(block.matrix):
                row = np.zeros((matrix.shape[1], transcription.unknowns))
                for i, offset in enumerate(block.factor.variables):
                    first = starts[c] + (k + offset) * tangent
                    row[:, first : first + tangent] = matrix[i * tangent : (i + 1) * tangent].T
                row[:, transcription.unknowns - n_p :] = matrix[len(matrix) - 1 - n_p : -1].T
                rows.append(row)
                residuals.append(matrix[-1])
    return np.vstack(rows), np.concatenate(residuals)
