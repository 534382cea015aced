"""Make `fourbar.csv`: a driven four-bar linkage of rigid hinges, 6 s at 1 kHz, as two noisy encoders would see it.

    python problems/data/make_fourbar.py

Simulated with the project's own variational stepper at h = 0.5 ms. The motor's voltage changes every 4 ms only, as that
of a digital controller does. Each angle gets Gaussian noise of 0.001 rad. Takes about a quarter of a minute.
"""

from pathlib import Path

import numpy as np

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Problem, Recording, Variational
from spookid.mechanics.body import Frame

CRANK, COUPLER, ROCKER, BASE = 0.10, 0.25, 0.30, 0.30
STEP, HOLD = 5e-4, 8
AXLE = dict(x=(0, 0, 1), y=(1, 0, 0))
NOISE = 1e-3


def bar(name: str, mass: float, inertia: float) -> Body:
    """A slender link along its x axis."""
    return Body(name, mass=mass, inertia=(1e-5, inertia, inertia))


def end(link: Body, at: float) -> Frame:
    """Frame of a link at ``at`` [m] along it."""
    return link.frame(at=(at, 0, 0), **AXLE)


crank, coupler, rocker = bar("crank", 0.2, 2e-4), bar("coupler", 0.4, 2.5e-3), bar("rocker", 0.5, 4e-3)
drive = Hinge("drive", GROUND.frame(**AXLE), end(crank, -CRANK / 2), viscous=0.01, compliance=0)
knee = Hinge("knee", end(crank, CRANK / 2), end(coupler, -COUPLER / 2), compliance=0)
wrist = Hinge("wrist", end(coupler, COUPLER / 2), end(rocker, ROCKER / 2), compliance=0)
pivot = Hinge("pivot", GROUND.frame(at=(BASE, 0, 0), **AXLE), end(rocker, -ROCKER / 2), compliance=0)
twin = Problem(
    "fourbar_twin",
    model=Model(
        bodies=[crank, coupler, rocker],
        joints=[drive, knee, wrist, pivot],
        motors=[Motor(drive, signal="u", gain=0.05)],
        gravity=(0, -9.81, 0),
    ),
    observations=[HingeAngle(drive, signal="crank"), HingeAngle(pivot, signal="rocker")],
    step=STEP,
    stepper=Variational(),
)


def closed(angle: float) -> dict[str, float]:
    """Angles of all hinges [rad] with the crank at ``angle`` and the wrist above the line from knee to pivot."""
    x, y = BASE - CRANK * np.cos(angle), -CRANK * np.sin(angle)
    reach = np.hypot(x, y)
    at_knee = np.arccos((COUPLER**2 + reach**2 - ROCKER**2) / (2 * COUPLER * reach))
    at_pivot = np.arccos((ROCKER**2 + reach**2 - COUPLER**2) / (2 * ROCKER * reach))
    coupler, rocker = np.arctan2(y, x) + at_knee, np.arctan2(-y, -x) - at_pivot
    return {"drive": angle, "knee": coupler - angle, "wrist": rocker - coupler, "pivot": rocker}


def voltage(t: np.ndarray) -> np.ndarray:
    """Three sines, held over ``HOLD`` samples [V]."""
    smooth = sum(a * np.sin(2 * np.pi * f * t + p) for a, f, p in [(1.5, 0.7, 0.0), (3.0, 2.3, 1.0), (4.0, 4.1, 0.0)])
    return smooth[np.arange(len(t)) // HOLD * HOLD]


if __name__ == "__main__":
    t = STEP * np.arange(12001)
    drive = Recording(t=t, signals={"u": voltage(t)})
    motion = twin.simulate(initial=closed(0.5), duration=6.0, inputs=drive, substeps=1)
    every = slice(None, None, 2)
    noise = np.random.default_rng(20232)
    angles = {name: motion.signals[name][every] + noise.normal(0.0, NOISE, 6001) for name in ("crank", "rocker")}
    sampled = Recording(t=motion.t[every], signals={**angles, "u": motion.signals["u"][every]})
    sampled.to_csv(Path(__file__).parent / "fourbar.csv", decimals=6)
