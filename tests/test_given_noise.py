"""A sigma that was given and is not what the data show."""

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
    (told,) = [finding for finding in solution.findings if finding.doubts]
    assert told.code == "noise.given-refuted"
    assert told.evidence == {"theta": {"sigma": pytest.approx(given), "estimate": pytest.approx(1e-3, rel=0.1)}}
    assert f"explains with theta {told.evidence['theta']['estimate']:.2g}"[:-1] in told.text
    assert f" rad, sigma={given:g} was given" in told.text
    (sensor,) = [one for one in solution.noise if one.kind == "sensor"]
    assert np.sign(sensor.score) == np.sign(1e-3 - given)


def test_nothing_is_told_of_sizes_that_are_right() -> None:
    solution = solved(HingeAngle(PIN, "theta", sigma=1e-3), theta=1e-3)
    assert not [finding for finding in solution.findings if finding.doubts]
    assert all(abs(one.score) < 3 for one in solution.noise)


def test_components_of_a_quaternion_are_no_misfit_and_tell_no_size() -> None:
    gyroscope = Gyroscope(ROD.frame(), ("gx", "gy", "gz"))
    noise = dict.fromkeys(QUATERNION.signals, 2e-3) | dict.fromkeys(gyroscope.signals, 5e-3)
    solution = solved(QUATERNION, gyroscope, **noise)
    assert not [finding for finding in solution.findings if finding.doubts]
    assert solution["J"].estimate == pytest.approx(TRUTH["J"], abs=4 * solution["J"].std_err)
