"""A fit of a model that the data contradict comes to an end, and says so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from cranes import crane, record
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Observation,
    Parameter,
    Problem,
    Recording,
    Status,
)
from spookid.__main__ import main


def in_degrees(recording: Recording) -> Recording:
    signals = recording.signals
    return Recording(recording.t, {**signals, "x": 57.3 * signals["x"]}, name=recording.name)


def test_a_sensor_in_another_unit_ends_with_a_verdict_after_few_iterations() -> None:
    found = crane(in_degrees(record(0))).solve()
    assert found.status is not Status.CONVERGED or found.contradicted
    assert len(found.stages) <= 6


def test_the_command_ends_with_exit_status_three(tmp_path: Path) -> None:
    recording = in_degrees(record(0))
    recording.to_csv(tmp_path / "log.csv")
    (tmp_path / "p.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom cranes import crane\n"
        f"from spookid import Recording\nproblem = crane(Recording.from_csv({str(tmp_path / 'log.csv')!r}))\n"
    )
    assert main(["solve", str(tmp_path / "p.py"), "--no-figures", "--quiet", "--out", str(tmp_path / "out")]) == 3


def drive(recording: Recording, **initial: float) -> Problem:
    """A motor that turns a load by a shaft; the load's sensor is an expression of both angles."""
    J_m, J_l = Parameter("J_m", 0.02, lower=1e-5), Parameter("J_l", 0.01, lower=1e-5)
    k, d, b = (Parameter(name, guess, lower=0) for name, guess in (("k", 10.0), ("d", 0.01), ("b", 0.05)))
    motor, load = Body("motor", mass=1.0, inertia=(J_m, 1, 1)), Body("load", mass=1.0, inertia=(J_l, 1, 1))
    bearing = Hinge("bearing", GROUND.frame(), motor.frame(), viscous=b)
    shaft = Hinge("shaft", motor.frame(), load.frame(), stiffness=k, viscous=d)
    sensors = [HingeAngle(bearing, "qm"), Observation(lambda s: s.angle(bearing) + s.angle(shaft), "ql")]
    model = Model([motor, load], [bearing, shaft], [Motor(bearing, "u")], gravity=(0, 0, 0))
    return Problem("drive", model, step=0.01, recordings=[recording], observations=sensors, initial=initial)


def driven(true: Mapping[str, float]) -> Recording:
    t, rng = np.arange(500) * 0.01, np.random.default_rng(0)
    u = sum(a * np.sin(2 * math.pi * f * t + f) for a, f in ((0.5, 0.3), (0.4, 1.1), (0.3, 2.3), (0.3, 4.1)))

    def slopes(at: float, x: Sequence[float]) -> list[float]:
        twist = true["k"] * (x[0] - x[1]) + true["d"] * (x[2] - x[3])
        torque = float(np.interp(at, t, u)) - true["b"] * x[2] - twist
        return [x[2], x[3], torque / true["J_m"], twist / true["J_l"]]

    q = solve_ivp(slopes, (0, t[-1]), np.zeros(4), t_eval=t, rtol=1e-8, atol=1e-10).y[:2]
    q += 0.002 * rng.normal(size=q.shape)
    return Recording(t, {"qm": q[0], "ql": q[1], "u": u}, name="drive")


TRUE = {"J_m": 0.01, "J_l": 0.02, "k": 20.0, "d": 0.02, "b": 0.1}


@pytest.mark.parametrize(
    ("factor", "signals"), [(180 / math.pi, ("qm",)), (180 / math.pi, ("ql",)), (180 / math.pi, ("qm", "ql"))]
)
def test_angles_in_degrees_are_named_and_the_fit_is_no_answer(factor: float, signals: tuple[str, ...]) -> None:
    right = driven(TRUE)
    found = drive(right.with_signals(**{name: factor * right.signal(name) for name in signals})).solve()
    assert found.no_answer
    named = [one for one in found.findings if one.code == "question.model" and one.evidence.get("unit") == "deg"]
    assert named
    assert tuple(named[0].evidence["signals"]) == signals
    assert len(found.stages) <= 2


def test_a_right_drive_from_far_values_is_no_matter_of_units() -> None:
    found = drive(driven(TRUE), J_m=0.03, J_l=0.006, k=60.0, b=0.02).solve()
    assert found.status is Status.CONVERGED
    assert not found.no_answer
    for name, value in TRUE.items():
        assert abs(found[name].estimate - value) < 4 * found[name].std_err


def test_a_right_model_is_not_ended() -> None:
    found = crane(record(3)).solve()
    assert found.status is Status.CONVERGED
    assert np.isfinite(found.log_likelihood)
