"""Make `furuta_release.csv`: the twin of Table G.5, released near upright, 10 s at 1 kHz as two encoders would see it.

    python problems/data/make_furuta_release.py

Simulated with the project's variational step at h = 1e-4 s, whose error is far below the noise. Each angle gets
Gaussian noise of 0.001 rad and is rounded to the 4096 counts per turn of the paper's encoders. Takes half a minute.
"""

from pathlib import Path

import numpy as np

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Problem, Recording, Variational, gravity

L_1, L_A, L_2 = 0.128, 0.248, 0.092
COUNT = 2 * np.pi / 4096

arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, 0.003))
rod = Body("B", mass=0.428, inertia=(1e-4, 0.004, 0.004))
shoulder = Hinge(
    "shoulder",
    GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
    arm.frame(at=(-L_1, 0, 0), x=(0, 0, 1), y=(1, 0, 0)),
    viscous=1e-3,
)
elbow = Hinge(
    "elbow",
    arm.frame(at=(L_A - L_1, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
    rod.frame(at=(-L_2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
    viscous=1e-4,
)
twin = Problem(
    "furuta_twin",
    model=Model(
        bodies=[arm, rod],
        joints=[shoulder, elbow],
        motors=[Motor(shoulder, signal="u", gain=0.1, shaft_inertia=1e-4)],
        gravity=gravity(9.82),
    ),
    observations=[HingeAngle(shoulder, signal="theta1"), HingeAngle(elbow, signal="theta2")],
    step=1e-4,
    stepper=Variational(),
)


def encoder(angle: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """What a noisy encoder of 4096 counts reads, (N,) [rad]."""
    return np.round((angle + noise.normal(0.0, 0.001, angle.size)) / COUNT) * COUNT


if __name__ == "__main__":
    motion = twin.simulate(duration=10.0, initial={"shoulder": 0.0, "elbow": np.pi - 0.03}, substeps=1)
    every = slice(None, None, 10)
    noise = np.random.default_rng(20231)
    angles = {name: encoder(motion.signals[name][every], noise) for name in ("theta1", "theta2")}
    sampled = Recording(t=motion.t[every], signals={**angles, "u": motion.signals["u"][every]})
    sampled.to_csv(Path(__file__).parent / "furuta_release.csv", decimals=6)
