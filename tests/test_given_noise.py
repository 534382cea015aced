"""A sigma that was given and is not what the data show."""

import re

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Gyroscope,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Orientation,
    Parameter,
    Problem,
    Recording,
    Sensor,
    Solution,
)
from spookid.results.notices import DOUBTS, GIVEN, MISFIT, UNEXPLAINED, ranked

J = Parameter("J", 1e-3, lower=1e-7)
ROD = Body("rod", mass=0.2, inertia=(1e-5, J, J))
SIDEWAYS = {"x": (0, 1, 0), "y": (1, 0, 0)}
PIN = Hinge(
    "pin",
    GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
    ROD.frame(at=(-0.15, 0, 0), **SIDEWAYS),
    viscous=Parameter("b", 1e-4, lower=0),
)
MODEL = Model([ROD], [PIN], motors=[Motor(PIN, signal="u", gain=0.05)], gravity=(0, 0, -9.81))
TRUTH = {"J": 2e-3, "b": 2e-3}
QUATERNION = Orientation(ROD.frame(), ("w", "x", "y", "z"), sigma=2e-3)
T = np.arange(0, 8, 0.01)


def solved(*sensors: Sensor, **noise: float) -> Solution:
    """A fit to a twin whose disturbance is small and whose sensors have that noise."""
    problem = Problem("rod", MODEL, observations=sensors, step=0.01)
    drive = Recording(T, {"u": np.sin(2 * T) + np.sin(5.3 * T)})
    run = problem.simulate(TRUTH, 7.9, {"pin": 1.5}, inputs=drive, noise={"pin": 1e-4, **noise}, substeps=4)
    return problem.with_(recordings=[run]).solve()


@pytest.mark.parametrize("given", [3e-4, pytest.param(3e-3, marks=pytest.mark.study)])
def test_the_size_that_the_data_show_is_told(given: float) -> None:
    solution = solved(HingeAngle(PIN, "theta", sigma=given), theta=1e-3)
    (told,) = [notice for notice in solution.notices if notice.startswith(DOUBTS)]
    found = re.match(rf"{GIVEN} theta (\S+) rad, sigma={given:g} was given", told)
    assert found
    assert float(found[1]) == pytest.approx(1e-3, rel=0.1)
    (sensor,) = [one for one in solution.noise if one.kind == "sensor"]
    assert np.sign(sensor.score) == np.sign(1e-3 - given)


def test_nothing_is_told_of_sizes_that_are_right() -> None:
    solution = solved(HingeAngle(PIN, "theta", sigma=1e-3), theta=1e-3)
    assert not [notice for notice in solution.notices if notice.startswith(DOUBTS)]
    assert all(abs(one.score) < 3 for one in solution.noise)


def test_components_of_a_quaternion_are_no_misfit_and_tell_no_size() -> None:
    gyroscope = Gyroscope(ROD.frame(), ("gx", "gy", "gz"))
    noise = dict.fromkeys(QUATERNION.signals, 2e-3) | dict.fromkeys(gyroscope.signals, 5e-3)
    solution = solved(QUATERNION, gyroscope, **noise)
    assert not [notice for notice in solution.notices if notice.startswith(DOUBTS)]
    assert solution["J"].estimate == pytest.approx(TRUTH["J"], abs=4 * solution["J"].std_err)


def test_what_a_wrong_size_makes_up_is_not_said() -> None:
    said = [f"{GIVEN} theta", f"{MISFIT}: late", f"{UNEXPLAINED} (rms)", "a remark"]
    assert ranked(said) == (said[0], said[3])
    assert ranked(said[1:]) == (said[2], said[1], said[3])
