"""A servo from commands and positions: `python results/servo.py` writes servo.md. Needs `SPOOKID_DATA`; 30 minutes.

Each recording is simulated whole from its first sample, with the commands and the supply as the only inputs, once with
all recordings fitted and once with itself left out. Laws of friction are those of `docs/howto/servos.md`. The fit of
the first law is exported to MuJoCo and replayed there. `python results/servo.py M1 M3 M6` takes an hour. What is done
is kept in a file (`--kept`), from which the command continues.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "problems"))

import servo_xl330 as declared  # noqa: E402
from data.convert import SERVO, measured  # noqa: E402
from run import sources_commit  # noqa: E402

from spookid import (  # noqa: E402
    GROUND,
    Body,
    DCDrive,
    Estimate,
    GearFriction,
    Hinge,
    HingeAngle,
    Load,
    Model,
    Parameter,
    Problem,
    Recording,
    Servo,
    Solution,
    gravity,
    robots,
)
from spookid.studies import ladder  # noqa: E402

K_m = declared.K_m
K_e = Parameter("K_e", 0.1, lower=0, upper=1, note="friction per effort of the weight")
c_s = Parameter("c_s", 0.01, lower=0, upper=1, unit="N m", note="stiction")
v_s = Parameter("v_s", 2.0, lower=0.05, upper=10, unit="rad/s", note="Stribeck velocity")
Q_m = Parameter("Q_m", 1.5, lower=0, upper=20, unit="1/(N m)", note="friction per squared effort of the motor")
Q_e = Parameter("Q_e", 1.5, lower=0, upper=20, unit="1/(N m)", note="friction per squared effort of the weight")
MASS, LENGTH = 0.49, 0.1  # kg, m
ANCHORS = {"published M1": 58, "published M6": 38, "least squares, M1 with delay": 45, "M6 with delay": 24.5}


def friction(law: str) -> list[Load]:
    """Gear friction of a law; M1 is that of the joint."""
    if law == "M1":
        return []
    if law == "M3":
        return [GearFriction(declared.c, motor=K_m, external=K_m)]
    rest = dict(stiction=c_s, stribeck_velocity=v_s, motor_square=Q_m, external_square=Q_e)
    return [GearFriction(declared.c, motor=K_m, external=K_e, **rest, rounding=0.3)]


def lifting(law: str, recordings: list[Recording]) -> Problem:
    """The problem of `problems/servo_xl330.py` with a law of friction and the measured voltage of the supply."""
    arm, y, d = Body("arm", mass=MASS, inertia=(1e-6, 1e-6, 1e-6)), dict(x=(0, 1, 0), y=(0, 0, -1)), declared
    rubs = dict(viscous=d.b, coulomb=d.c if law == "M1" else 0, loads=friction(law))
    frames = GROUND.frame(**y), arm.frame(at=(0, 0, LENGTH), **y)
    joint = Hinge("joint", *frames, armature=d.armature, **rubs)
    drive = DCDrive(torque_constant=d.k, resistance=d.R, supply="vin")
    servo = Servo(joint, "goal", kp=d.GAIN, gain="kp", offset=-d.zero, drive=drive, enabled="on", delay=d.delay)
    model = Model([arm], [joint], [servo], gravity=gravity(9.81))
    return Problem("servo", model, recordings, [HingeAngle(joint, "q", offset=d.zero)], step=d.STEP, estimator="hard")


XML = f"""<mujoco model="servo">
  <option timestep="0.001" integrator="implicitfast"/>
  <worldbody><body name="arm">
    <joint name="joint" axis="0 1 0"/><inertial pos="0 0 {-LENGTH}" mass="{MASS}" diaginertia="1e-6 1e-6 1e-6"/>
  </body></worldbody>
</mujoco>
"""


def error(t: np.ndarray, angles: np.ndarray, recording: Recording) -> float:
    """Mean absolute error of a simulation [mrad]."""
    return 1e3 * float(np.mean(np.abs(np.interp(recording.t, t, angles) - recording.signal("q"))))


def replayed(found: dict[str, float], recording: Recording) -> tuple[float, float, float]:
    """Errors in this package, and in MuJoCo with the exported servo at the mean and at the measured supply [mrad]."""
    problem, zero = lifting("M1", [recording]), found["zero"]
    start = float(recording.signal("q")[0]) - zero
    simulated = problem.simulate(found, initial={"joint": start})
    names = {"armature": declared.armature, "viscous": declared.b, "coulomb": declared.c}
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder) / "servo.xml", Path(folder) / "identified.xml"
        source.write_text(XML, encoding="utf-8")
        robot = robots.read(source).with_(joints={"joint": names})
        (drive,) = robots.servos(problem, found)
        values = {parameter.name: found[parameter.name] for parameter in names.values()}
        robot.write(path, values, servos=[drive])
        model = mujoco.MjModel.from_xml_path(str(path))
    supply = recording.signal("vin") / np.mean(recording.signal("vin"))
    runs = (in_mujoco(model, recording, start, drive.back_emf, one) for one in (np.ones_like(supply), supply))
    errors = [error(t, angles + zero, recording) for t, angles in runs]
    return error(simulated.t, simulated.signal("q"), recording), errors[0], errors[1]


def in_mujoco(
    model: mujoco.MjModel, recording: Recording, start: float, back_emf: float, supply: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times and angles, with the supply voltage at each sample as a share of its mean."""
    data, t = mujoco.MjData(model), recording.t - recording.t[0]
    data.qpos[0] = start
    times = np.arange(0, t[-1], model.opt.timestep)
    gains, damping, angles = (model.actuator_gainprm.copy(), model.actuator_biasprm.copy()), model.dof_damping[0], []
    for i in np.searchsorted(t, times, side="right") - 1:
        on = recording.signal("on")[i]  # a drive that lets go has no back-EMF
        model.actuator_gainprm[:], model.actuator_biasprm[:] = (on * supply[i] * one for one in gains)
        model.dof_damping[0] = damping - (1 - on) * back_emf
        data.ctrl[0] = recording.signal("goal")[i]
        angles.append(data.qpos[0])
        mujoco.mj_step(model, data)
    model.actuator_gainprm[:], model.actuator_biasprm[:] = gains
    model.dof_damping[0] = damping
    return times + recording.t[0], np.array(angles)


def shown(one: Estimate) -> str:
    """An estimate with its standard error."""
    return f"{one.estimate:.4g}" + (" (at its bound)" if one.at_bound else f" ± {one.std_err:.2g}")


def table(columns: dict[str, list[float]], names: list[str]) -> list[str]:
    """Errors by recording, and their means."""
    lines = [f"| recording | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for i, name in enumerate(names):
        lines.append(f"| {name} | {' | '.join(f'{c[i]:.1f}' for c in columns.values())} |")
    return [*lines, f"| mean | {' | '.join(f'{np.mean(c):.1f}' for c in columns.values())} |"]


class Kept:
    """Results of fits in a file of JSON, by name, so that the command continues where it was stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def __call__(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.known:
            self.known[name] = make()
            self.path.write_text(json.dumps(self.known, indent=1), encoding="utf-8")
        return self.known[name]


def compared(laws: list[str], every: list[Recording]) -> dict[str, Any]:
    """Errors and estimates of laws of friction, with the measured supply."""
    found, columns = ladder({law: lifting(law, every) for law in laws}), {}
    for rung in found.rungs:
        columns[rung.name] = [1e3 * rung.fitted[one.name] for one in every]
        columns[f"{rung.name}, not fitted"] = [1e3 * rung.left_out[one.name] for one in every]
    values = {name: one.estimate for name, one in found.rungs[0].solution.parameters.items()}
    estimates = {rung.name: told(rung.solution) for rung in found.rungs}
    return {"columns": columns, "steps": [s.verdict for s in found.steps], "values": values, "estimates": estimates}


def told(solution: Solution) -> dict[str, str]:
    """Estimates with their standard errors."""
    return {name: shown(one) for name, one in solution.parameters.items()}


def sagging(kept: Kept) -> tuple[dict[str, str], dict[str, list[float]]]:
    """Estimates and errors of the model of the problem file; fits to some recordings begin at those of all."""
    problem = declared.problems["all"]
    names = [one.name for one in problem.recordings]

    def whole() -> dict[str, Any]:
        solution = problem.solve()
        return {"values": dict(solution.values), "estimates": told(solution)}

    def without(name: str) -> dict[str, float]:
        others = [one for one in problem.recordings if one.name != name]
        posed = problem.with_(recordings=others, initial=first["values"], step_correction=False)
        return dict(posed.solve().values)

    def off(values: dict[str, float], name: str) -> float:
        run = problem.simulate(values, recording=(i := names.index(name)))
        return error(run.t, run.signal("q"), problem.recordings[i])

    first = kept("sag", whole)
    columns = {"fitted": [off(first["values"], name) for name in names], "left out": []}
    for name in names:
        columns["left out"].append(off(kept(f"sag without {name}", lambda one=name: without(one)), name))
    return first["estimates"], columns


def levels(every: list[Recording]) -> list[str]:
    """Measured voltage of the supply by the duty of the drive, which a sample of a moment sees."""
    duty = np.concatenate([declared.GAIN * r.signal("kp") * (r.signal("goal") - r.signal("q")) for r in every])
    duty = np.where(np.concatenate([r.signal("on") for r in every]) > 0, np.minimum(np.abs(duty), 1), 0)
    vin, edges = np.concatenate([r.signal("vin") for r in every]), (0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.99, 1.01)
    lines = ["| duty | 10 % of samples below | median | 10 % of samples above |", "|---|---:|---:|---:|"]
    for low, high in pairwise(edges):
        low_v, mid_v, high_v = np.quantile(vin[(duty >= low) & (duty < high)], (0.1, 0.5, 0.9))
        name = f"{low:g} to {high:g}" if low < 0.99 else "1"
        lines.append(f"| {name} | {low_v:.1f} V | {mid_v:.1f} V | {high_v:.1f} V |")
    return lines


def main(laws: list[str], kept: Kept) -> None:
    every = [measured(f"xl330_kp{gain}_{name}") for gain in (100, 400) for name in SERVO]
    names = [one.name.removeprefix("xl330_") for one in every]
    found = kept(" ".join(laws), lambda: compared(laws, every))
    replays = np.array([replayed(found["values"], one) for one in every]).T.tolist()
    estimates, errors = sagging(kept)
    columns = {**found["columns"], SAG: errors["fitted"], f"{SAG}, not fitted": errors["left out"]}
    by_law = {**found["estimates"], SAG: estimates}
    units = {p.name: p.unit for p in (*declared.problems["all"].parameters, c_s, v_s, Q_m, Q_e, K_e)}
    named = [name for name in units if any(name in one for one in by_law.values())]
    texts = ((name, " | ".join(one.get(name, "") for one in by_law.values())) for name in named)
    rows = (f"| {name} | {values} | {units[name]} |" for name, values in texts)
    text = PAGE.format(
        errors="\n".join(table(columns, names)),
        steps="\n".join(f"- {verdict}" for verdict in found["steps"]),
        anchors="\n".join(f"- {name}: {value} mrad" for name, value in ANCHORS.items()),
        levels="\n".join(levels(every)),
        replays="\n".join(table(dict(zip(("spookid", "MuJoCo", "MuJoCo, measured"), replays, strict=True)), names)),
        estimates="\n".join(
            [f"| parameter | {' | '.join(by_law)} | unit |", "|---|" + "---|" * (len(by_law) + 1), *rows]
        ),
    )
    (HERE / "servo.md").write_text(text, encoding="utf-8")


SAG = "M3, source resistance"
PAGE = """# A servo from commands and positions

A servo Dynamixel XL330 lifts a known load; its torque is not measured. The fit uses commands and positions of eight
recordings, with deterministic dynamics. The table shows the mean absolute error of simulations of whole recordings,
in mrad. The model M1 has Coulomb and viscous friction; in M3 the friction also grows with the torque of the gears:
[friction laws](../docs/howto/servos.md). Both use the measured supply voltage. The last model is M3 with a constant
supply voltage behind a source resistance. It is the model of `problems/servo_xl330.py`.

{errors}

{steps}

Results of others on the same recordings, from `shared/data/servo-xl330`:

{anchors}

## What limits the servo at high gain

A loss of voltage that grows with the duty limits the servo. The resistance of the circuit is R + R_s |d| for a duty d:
2.4 Ω at a small duty and 3.9 Ω at a duty of 1, which lowers the torque at standstill by 38 %. At gain 400 the duty
reaches 1, at gain 100 only 0.37. This is the law of a supply with a source resistance that conducts the current of the
motor while the switch is on, because no capacitor averages it.

The measured voltage agrees with a part of this. At a small duty all samples agree. In between they alternate between
two levels, one for each phase of the PWM, so that their mean is not the voltage that drives the motor:

{levels}

But at a duty of 1 the supply has 7.0 V at about 2 A, which is a source resistance of 0.15 Ω. The rest of R_s is
therefore in the drive or the motor, or stands for another loss that grows with the current.

**Selection.** About forty variants were compared on all recordings, by a separate simulation with least squares.
Those with one parameter more than M3 had mean errors of 18.8 mrad (this one), 18.9 (a resistance that grows with the
current), 20.7 (friction that grows with the square of the torque), 21.4 (a supply with a capacitor), 21.5 (a torque
constant that falls with the current) and 24.2 (heat in the winding). The data do not separate the first two; the
levels of the voltage are the reason for the first one. In the same simulation, this model fitted to gain 400 alone
predicts the recordings of gain 100 with 15 mrad, and M3 does with 37. Fitted to gain 100 it predicts those of gain 400
with 45 mrad, and M3 does with 47: the duty is too small there to separate R_s from R. A recording that is left out does
not undo this choice, so that the errors of new recordings may be larger.

The width of friction in the problem file, 0.01 rad/s, was chosen after the errors were seen, too. With the default
width, which M1 and M3 have, the mean error was 20.0 mrad. Fits without a recording have no step correction.

## Replay in MuJoCo

`robot.write` exports M1 as an MJCF actuator, with the mean supply voltage of each recording. The errors of the exported
model in mrad are:

{replays}

The last column has the measured voltage as a factor of the actuator's gain. The mean voltage of the export is therefore
the cause of the difference in `kp100_up_and_down`. Shorter time steps and stiffer friction in MuJoCo change the errors
by at most 3 mrad. The export does not have the source resistance and the friction of gears, and it says so.

## Estimates

{estimates}

The resistances and the torque constant are proportional to the mass of the load, which is assumed known.

The command `python results/servo.py` writes this page.
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("laws", nargs="*", default=["M1", "M3"], help="laws of friction")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / f"servo-{sources_commit()}.json")
    given = parser.parse_args()
    main(given.laws or ["M1", "M3"], Kept(given.kept))
