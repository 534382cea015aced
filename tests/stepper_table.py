"""Which stepper takes what: the package is asked for every combination, and the documentation has the answers.

``python -m tests.stepper_table`` writes it into ``docs/reference/steppers.md``.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from mechanisms import furuta
from test_loops import BASE, LENGTHS, MASSES, linkage

from spookid import (
    GROUND,
    Body,
    Contact,
    Coupling,
    Equations,
    Hinge,
    Impact,
    JointPosition,
    Model,
    Nonholonomic,
    OneStep,
    Parameter,
    PointContact,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Stepper,
    Variational,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.stepping.base import DETERMINISTIC, EXTRAPOLATED
from spookid.stepping.impulses import DryFriction

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "steppers.md"
BEGIN, END = "<!-- table: python -m tests.stepper_table -->", "<!-- end of the table -->"


class Midpoint(OneStep):
    """That of ``tests/extending``."""

    name, order = "midpoint", 2

    def equations(self, step: Any) -> Equations:
        """Of a step."""
        v = (step.v + step.v_next) / 2
        moved = step.minus(step.q_next, step.q) / step.h - v
        middle = step.plus(step.q, step.h / 2 * v)
        return Equations(step.impulse(middle, v), ca.vertcat(moved, step.violation(step.q_next) / step.h))


STEPPERS: dict[str, Stepper] = {
    "`Variational()`": Variational(),
    "`Spook()`": Spook(),
    "a rigid `OneStep`": Midpoint(),
}
T = np.arange(41) * 0.01
RUBBING = {"shoulder": {"viscous": 1e-3, "coulomb": 1e-3}, "elbow": {"viscous": 1e-3}}


def _fit(backend: str = "lm", **settings: Any) -> Callable[[Model, Stepper], None]:
    """Everything of a fit but its iterations."""

    def ask(model: Model, stepper: Stepper) -> None:
        signals = {joint.labels[0]: 0.1 * np.cos(3 * T) + 0.05 for joint in model.joints}
        sensors = [JointPosition(joint, joint.labels[0], sigma=1e-3) for joint in model.joints]
        recording = Recording(T, {**signals, **{name: np.sin(T) for name in model.signals}})
        problem = Problem("asked", model, [recording], sensors, stepper=stepper, step=0.01, **settings)
        problem.plan(backend)
        assemble(problem)

    return ask


def _offers(what: str) -> Callable[[Model, Stepper], None]:
    """What a fit does of its own accord."""

    def ask(model: Model, stepper: Stepper) -> None:
        why = {**stepper.refuses, **stepper.fitting(model, DryFriction(), "estimated").refuses}.get(what)
        if why is not None:
            raise ProblemError(f"Stepper {stepper.name!r} has no {what}: {why}")

    return ask


def _simulation(**settings: Any) -> Callable[[Model, Stepper], None]:
    def ask(model: Model, stepper: Stepper) -> None:
        still = Recording(T, {name: np.zeros_like(T) for name in model.signals}) if model.signals else None
        sensors = [JointPosition(joint, joint.labels[0]) for joint in model.joints]
        problem = Problem("asked", model, observations=sensors, stepper=stepper, step=0.01, **settings)
        problem.simulate({p.name: p.guess for p in problem.parameters}, duration=0.02, inputs=still)

    return ask


def _pendulum() -> Model:
    return furuta(inertias=(Parameter("J", 0.003, lower=1e-4), 0.004, 0.004), **RUBBING)


def _loop(**constraints: Any) -> Model:
    return linkage(LENGTHS, BASE, MASSES, (2e-4, 2.5e-3, Parameter("I", 4e-3, lower=1e-4)), viscous=0.01, gain=0.0)


def _cart(**more: Any) -> Model:
    """On a rail along z, over the ground and with a wheel that turns about x."""
    body, wheel = (Body(name, mass=Parameter(f"m_{name}", 1.0, lower=0.1), inertia=(0.01,) * 3) for name in CART)
    up, across = {"x": (0, 0, 1), "y": (0, 1, 0)}, {"x": (1, 0, 0), "y": (0, 1, 0)}
    own = {"limits": more.pop("limits", None), "coulomb": more.pop("coulomb", 0)}
    rail = Prismatic("rail", GROUND.frame(**up), body.frame(**up), viscous=1.0, **own)
    axle = Hinge("axle", body.frame(**across), wheel.frame(**across), viscous=0.01)
    given = {name: make(body, rail, axle) for name, make in more.items()}
    return Model([body, wheel], [rail, axle], gravity=gravity(9.81), **given)


CART = ("cart", "wheel")
DRY, PUSH = ({"friction": "exact"}, lambda body, rail, axle: [Contact("floor", body.frame(), GROUND.frame())])
HOLD: dict[str, Any] = {"constraints": lambda body, rail, axle: [PointContact("foot", body.frame(), axes="z")]}
TIMES: dict[str, Any] = {
    "constraints": lambda body, rail, axle: [PointContact("foot", body.frame(), axes="z", holds=[(0.1, 0.2)])]
}
HIT: dict[str, Any] = {"constraints": lambda body, rail, axle: [Impact("floor", body.frame(), times=[0.2])]}
ROLL: dict[str, Any] = {
    "constraints": lambda body, rail, axle: [Nonholonomic("tread", lambda s: s.rate(rail) - 0.1 * s.rate(axle))]
}
GEAR: dict[str, Any] = {"constraints": lambda body, rail, axle: [Coupling("rack", {rail: 1, axle: -0.1})]}


def _within(coordinates: Any) -> Model:
    return replace(_pendulum(), coordinates=coordinates)


FEATURES: list[tuple[str, Callable[[], Model], Callable[[Model, Stepper], None]]] = [
    ("noise estimated", _pendulum, _fit()),
    ("a given weight", _pendulum, _fit(state_weight=1e3)),
    ("deterministic dynamics, `state_weight=math.inf`", _pendulum, _fit(state_weight=math.inf)),
    ("deterministic dynamics as a second estimator", _pendulum, _offers(DETERMINISTIC)),
    ("estimates extrapolated to continuous time", _pendulum, _offers(EXTRAPOLATED)),
    ('backend `"riccati"`', _pendulum, _fit("riccati")),
    ('backend `"ipopt"`', _pendulum, _fit("ipopt")),
    ('dry friction, `"smooth"`', _pendulum, _fit()),
    ('dry friction that sticks, `"exact"`', _pendulum, _fit(friction="exact")),
    ('dry friction that sticks, `"mpcc"`', _pendulum, _fit("ipopt", friction="mpcc")),
    ("closed loops, noise estimated", _loop, _fit()),
    ("closed loops, a given weight", _loop, _fit(state_weight=1e3)),
    ("constraints on velocities", lambda: _cart(**ROLL), _fit()),
    ("couplings and gears", lambda: _cart(**GEAR), _fit()),
    ("contacts that push, `Contact`", lambda: _cart(contacts=PUSH), _fit(friction="exact")),
    ("contacts that push, beside dry friction", lambda: _cart(contacts=PUSH, coulomb=0.3), _fit(friction="exact")),
    ("contacts that hold, `PointContact`", lambda: _cart(**HOLD), _fit()),
    ("contacts that hold at times", lambda: _cart(**TIMES), _fit()),
    ("impacts by schedule, `Impact`", lambda: _cart(**HIT), _fit()),
    ("limits of joints", lambda: _cart(limits=(-1.0, 1.0)), _fit()),
    ('`coordinates="joint"`', lambda: _within("joint"), _fit()),
    ('`coordinates="maximal"`', lambda: _within("maximal"), _fit()),
    ("simulation, friction that sticks", _pendulum, _simulation(friction="exact")),
    ("simulation, contacts that push", lambda: _cart(contacts=PUSH), _simulation(friction="exact")),
    ("simulation, limits", lambda: _cart(limits=(-1.0, 1.0)), _simulation(friction="exact")),
    ("simulation, contacts that hold at times", lambda: _cart(**TIMES), _simulation()),
]


def answers() -> tuple[list[list[str]], list[str]]:
    """Yes or the number of a reason for each feature and stepper, and the reasons."""
    rows, reasons = [], list[str]()
    for name, model, ask in FEATURES:
        row = [name]
        for stepper in STEPPERS.values():
            try:
                ask(model(), stepper)
            except ProblemError as error:
                reason = _reason(str(error))
                reasons += [reason] * (reason not in reasons)
                row.append(f"no ({reasons.index(reason) + 1})")
            else:
                row.append("yes")
        rows.append(row)
    return rows, reasons


def _reason(message: str) -> str:
    """Without the place and the object's own name."""
    return re.sub(r"^[\w./]+\.py:\d+: (\w+ '\w+':? (has )?)?", "", message)


def table() -> str:
    """As the page has it."""
    rows, reasons = answers()
    lines = [["in a fit, if not said otherwise", *STEPPERS], ["---"] * (len(STEPPERS) + 1), *rows]
    listed = [f"{i}. {reason}" for i, reason in enumerate(reasons, 1)]
    return "\n".join(
        [
            *("| " + " | ".join(line) + " |" for line in lines),
            "",
            "If a stepper does not support a feature, spookid gives one of these reasons:",
            "",
            *listed,
        ]
    )


def on_page() -> str:
    """What the page has now."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
