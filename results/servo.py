"""A servo from commands and positions: `python results/servo.py` writes servo.md. Needs `SPOOKID_DATA`; 5 minutes.

Each recording is simulated whole from its first sample, with the commands and the supply as the only inputs, once with
all recordings fitted and once with itself left out. The second law is a drive of this script's own: friction of the
gears grows with the effort that they transmit.
"""

import subprocess
import sys
from pathlib import Path

import casadi as ca
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "problems"))

import servo_xl330 as declared  # noqa: E402
from data.convert import SERVO, measured  # noqa: E402

import spookid  # noqa: E402
from spookid import (  # noqa: E402
    GROUND,
    Body,
    DCDrive,
    Estimate,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    Servo,
    Solution,
    gravity,
)

K_l = Parameter("K_l", 0.1, lower=0, upper=1, note="friction per effort that the gears transmit")
MASS, LENGTH, WIDTH = 0.49, 0.1, 0.02  # kg, m; rad/s over which friction of the gears turns
ANCHORS = {"published M1": 58, "published M6": 38, "own least squares, M1 with delay": 45, "M6 with delay": 24.5}


class Geared(Servo):
    """A servo whose gears rub by K_l |τ_m − τ_e|, with τ_e the effort of gravity (M3 of Duclusaud et al. 2024)."""

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        motor = super().effort(position, rate, inputs)
        weight = -MASS * 9.81 * LENGTH * ca.sin(position)
        return motor - K_l * ca.sqrt((motor - weight) ** 2 + 1e-4) * ca.tanh(rate / WIDTH)

    def expressions(self, coordinates: int = 0) -> list[ca.SX]:
        return [*super().expressions(coordinates), K_l]


def lifting(kind: type[Servo], recordings: list[Recording]) -> Problem:
    """The problem of `problems/servo_xl330.py` with a kind of drive."""
    arm, y = Body("arm", mass=MASS, inertia=(1e-6, 1e-6, 1e-6)), dict(x=(0, 1, 0), y=(0, 0, -1))
    d = declared
    joint = Hinge(
        "joint",
        GROUND.frame(**y),
        arm.frame(at=(0, 0, LENGTH), **y),
        armature=d.armature,
        viscous=d.b,
        coulomb=d.c,
    )
    drive = DCDrive(torque_constant=d.k, resistance=d.R, supply="vin")
    servo = kind(joint, "goal", kp=d.GAIN, gain="kp", offset=-d.zero, drive=drive, enabled="on", delay=d.delay)
    model = Model([arm], [joint], [servo], gravity=gravity(9.81))
    return Problem("servo", model, recordings, [HingeAngle(joint, "q", offset=d.zero)], step=d.STEP, estimator="hard")


def replayed(kind: type[Servo], solution: Solution, recording: Recording) -> float:
    """Mean absolute error of a free simulation [mrad]."""
    shown = recording.signal("q")
    problem = lifting(kind, [recording])
    start = {"joint": float(shown[0]) - solution["zero"].estimate}
    simulated = problem.simulate(solution.values, initial=start)
    return 1e3 * float(np.mean(np.abs(np.interp(recording.t, simulated.t, simulated.signal("q")) - shown)))


def shown(one: Estimate) -> str:
    """An estimate with its standard error."""
    return f"{one.estimate:.4g}" + (" (at its bound)" if one.at_bound else f" ± {one.std_err:.2g}")


def main() -> None:
    every = [measured(f"xl330_kp{gain}_{name}") for gain in (100, 400) for name in SERVO]
    columns, estimates = {}, {}
    for law, kind in (("Coulomb, viscous", Servo), ("with gear friction", Geared)):
        whole = lifting(kind, every).solve()
        estimates[law] = {name: one for name, one in whole.parameters.items()}
        columns[law] = [replayed(kind, whole, one) for one in every]
        left = [lifting(kind, [one for one in every if one is not out]).solve() for out in every]
        columns[f"{law}, left out"] = [replayed(kind, fit, one) for fit, one in zip(left, every, strict=True)]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout
    lines = [
        "# A servo from commands and positions",
        "",
        "A Dynamixel XL330 lifts a known load; its torque is not measured. The fit uses commands, positions and the",
        "supply voltage of eight recordings, with deterministic dynamics. The table has the mean absolute error of",
        "free simulations of whole recordings, in mrad.",
        "",
        f"| recording | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for i, one in enumerate(every):
        lines.append(f"| {one.name.removeprefix('xl330_')} | {' | '.join(f'{c[i]:.1f}' for c in columns.values())} |")
    lines.append(f"| mean | {' | '.join(f'{np.mean(c):.1f}' for c in columns.values())} |")
    lines += ["", "Others on the same recordings, as `shared/data/servo-xl330` has them:", ""]
    lines += [f"- {name}: {value} mrad" for name, value in ANCHORS.items()]
    lines += ["", "| parameter | " + " | ".join(estimates) + " | unit |", "|---|" + "---|" * (len(estimates) + 1)]
    for name, one in estimates["with gear friction"].items():
        cells = [shown(e[name]) if name in e else "" for e in estimates.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {one.unit} |")
    lines += ["", "The resistance and the torque constant scale with the load's mass, which is taken as known."]
    lines += ["", f"Made by `python results/servo.py` at commit {commit.strip()}, spookid {spookid.__version__}."]
    (HERE / "servo.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
