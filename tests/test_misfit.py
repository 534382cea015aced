"""What a model lacks is named, with about its size, and nothing is on data that the model fits."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    gravity,
)
from spookid.uncertainty import MISFIT

STEP, DURATION = 0.01, 10.0
TRUTH = {"J": 2e-3, "b": 2e-3, "c": 5e-3, "K": 0.05}
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@cache
def rod(dry: bool = True) -> Problem:
    """A driven pendulum, with Coulomb friction or without."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    K, c = Parameter("K", 0.03), Parameter("c", 1e-3, lower=0)
    body = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=b, coulomb=c if dry else 0)
    model = Model(bodies=[body], joints=[pin], motors=[Motor(pin, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("rod", model, observations=[HingeAngle(pin, "theta")], step=STEP, friction_width=0.05)


def fitted(seed: int, change: Change | None = None, dry: bool = True, disturbance: float = 1e-5) -> Solution:
    """A fit to a twin whose angle has been changed."""
    t = np.arange(0.0, DURATION + 2 * STEP, STEP)
    drive = Recording(t=t, signals={"u": np.sin(2 * t) + np.sin(5.3 * t)})
    noise = {"pin": disturbance, "theta": 1e-3}
    run = rod().simulate(TRUTH, DURATION, {"pin": 1.5}, inputs=drive, noise=noise, seed=seed)
    theta, rng = run.signals["theta"], np.random.default_rng(seed)
    if change is not None:
        theta = change(theta, rng)
    return rod(dry).with_(recordings=[Recording(t=run.t, signals={"theta": theta, "u": run.signals["u"]})]).solve()


def told(solution: Solution) -> str:
    """The notice of what the model lacks, empty if there is none."""
    return next((notice for notice in solution.notices if notice.startswith(MISFIT)), "")


def late(theta: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Half a step late."""
    t = STEP * np.arange(len(theta))
    return np.interp(t - STEP / 2, t, theta)


@pytest.mark.parametrize("disturbance", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_told_of_data_that_the_model_fits(seed: int, disturbance: float) -> None:
    assert not told(fitted(seed, disturbance=disturbance))


@pytest.mark.parametrize("seed", range(2))
def test_an_offset_is_told_with_its_size(seed: int) -> None:
    assert "theta is off by about 0.02 rad: an offset?" in told(fitted(seed, lambda theta, _: theta + 0.02))


@pytest.mark.parametrize("seed", range(2))
def test_a_delay_is_told(seed: int) -> None:
    notice = told(fitted(seed, late))
    assert "a delay?" in notice
    assert any(f"about {x} ms" in notice for x in ("4.7", "4.8", "4.9", "5", "5.1", "5.2", "5.3", "5.4", "5.5"))


@pytest.mark.parametrize("seed", range(2))
def test_friction_that_is_left_out_is_told_with_its_size(seed: int) -> None:
    notice = told(fitted(seed, dry=False))
    assert "of dry friction in pin are missing or too much: Coulomb friction?" in notice
    assert any(notice.startswith(f"{MISFIT}: {size} N m") for size in ("0.0047", "0.0048", "0.0049", "0.005", "0.0051"))


@pytest.mark.parametrize("seed", range(2))
def test_outliers_are_told(seed: int) -> None:
    def far(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(rng.random(len(theta)) < 0.01, theta + 0.2 * rng.standard_normal(len(theta)), theta)

    assert "outliers?" in told(fitted(seed, far))


def test_what_is_lacking_stands_before_the_estimates() -> None:
    text = fitted(0, lambda theta, _: theta + 0.02).summary()
    assert text.index(MISFIT) < text.index("Parameters")
    assert text.count(MISFIT) == 1
