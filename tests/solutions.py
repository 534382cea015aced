"""A small solution for tests of what becomes of solutions, and comparison of solutions field by field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spookid import (
    GROUND,
    Body,
    Cost,
    Finding,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    Solution,
    Spook,
    Status,
    Variational,
    gravity,
)
from spookid.statistics.weak_directions import WeakDirection

STEPS = 100


@lru_cache
def pendulum_problem() -> Problem:
    """A pendulum with a parameter that is seen well, one to end at its bound, one that is not seen, and a fixed one.

    With the weight and the stepper of the paper: its solutions have all that a solution can have.
    """
    J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 0.002, lower=0, unit="N m s")
    J_x = Parameter("J_x", 1e-4, lower=1e-6, upper=1.0, unit="kg m^2")
    m = Parameter("m", 0.5, unit="kg")
    rod = Body("rod", mass=m, inertia=(J_x, 0.004, J))
    axle, pivot = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    hinge = Hinge("hinge", axle, pivot, viscous=b, compliance=1e-4, damping=0.02)
    model = Model(bodies=[rod], joints=[hinge], gravity=gravity(9.81))
    sensors = [HingeAngle(hinge, signal="theta")]
    paper = {"state_weight": 100.0, "stepper": Spook()}
    return Problem("pendulum", model=model, observations=sensors, fixed=["m"], **paper)


@lru_cache
def recording(name: str = "release", seed: int = 0, noise: float = 1e-3) -> Recording:
    """A simulated release with noise and a gap; friction is negative, so that an estimate ends at its bound of zero."""
    problem = pendulum_problem()
    clean = problem.simulate({"J": 0.006, "b": -0.002}, (STEPS - 1) * problem.step, {"hinge": 1.2}, substeps=1)
    theta = clean.signal("theta") + noise * np.random.default_rng(seed).normal(size=STEPS)
    theta[40:45] = np.nan
    return Recording(clean.t, {"theta": theta}, name)


@lru_cache
def solution(recordings: int = 1) -> Solution:
    """Solved in earnest."""
    runs = [recording(f"release {i}", i) for i in range(recordings)]
    return pendulum_problem().with_(recordings=runs).solve()


@lru_cache
def estimated(recordings: int = 1) -> Solution:
    """Solved with the defaults: the noise is estimated, too."""
    runs = [recording(f"release {i}", i) for i in range(recordings)]
    return pendulum_problem().with_(recordings=runs, state_weight=None, stepper=Variational()).solve()


def awkward() -> Solution:
    """A solution with what files and figures find hard: numbers that are not finite, an empty array, odd names."""
    s = solution()
    estimate = replace(s["J"], std_err=math.inf, estimate=-0.0, upper=math.inf, lower=-math.inf, unit="m²/°")
    return replace(
        s,
        problem="Pendel „ü“",
        status=Status.DIVERGED,
        state_weight=math.inf,
        dynamics="hard",
        cost=Cost(math.nan, math.inf, 2.5),
        history=(replace(s.history[0], cost=Cost(math.inf, math.nan), parameters={"J": -math.inf, "b": math.nan}),),
        parameters={**s.parameters, "J": estimate},
        sensitivities=replace(
            s.sensitivities,
            singular_values=np.array([math.inf, 1e-300, math.nan]),
            weak=(WeakDirection(math.nan, {"J": 1.0, "b": -math.inf}),),
        ),
        complementarity_residual=1e-9,
        trajectories=(
            replace(s.trajectories[0], units=("",), periods=(None,), multipliers=np.zeros((STEPS, 0)), name="a/b $x$"),
        ),
        findings=(
            Finding("weight.paper", effect="One."),
            Finding(
                "start.inferred", ("a/b", "c"), {"a/b": -math.inf, "c": {"d": math.nan}}, "Two\nlines.", "Why?", "So."
            ),
        ),
    )


def difference(a: Any, b: Any, path: str = "solution") -> str:
    """Where two solutions or parts differ, empty if nowhere: NaN equals NaN, and types and signs of zero count."""
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} is not {type(b).__name__}"
    if is_dataclass(a):
        names = ["timing" if f.name == "times" else f.name for f in fields(a) if f.name != "clocks"]
        parts = [(f".{name}", getattr(a, name), getattr(b, name)) for name in names]
    elif isinstance(a, Mapping):
        if list(a) != list(b):
            return f"{path}: keys {list(a)} are not {list(b)}"
        parts = [(f"[{key!r}]", a[key], b[key]) for key in a]
    elif isinstance(a, tuple):
        if len(a) != len(b):
            return f"{path}: {len(a)} are not {len(b)}"
        parts = [(f"[{i}]", *pair) for i, pair in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return "" if same or np.array_equal(a, b, equal_nan=True) else f"{path}: arrays differ"
    else:
        return "" if repr(a) == repr(b) else f"{path}: {a!r} is not {b!r}"
    return next(filter(None, (difference(x, y, path + step) for step, x, y in parts)), "")
