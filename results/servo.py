"""A servo from commands and positions: `python results/servo.py` writes servo.md. Needs `SPOOKID_DATA`; 15 minutes.

Each recording is simulated whole from its first sample, with the commands and the supply as the only inputs, once with
all recordings fitted and once with itself left out. Laws of friction are those of `docs/howto/servos.md`. The fit of
the first law is exported to MuJoCo and replayed there. `python results/servo.py M1 M3 M6` takes an hour.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import mujoco
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

K_m = Parameter("K_m", 0.2, lower=0, upper=1, note="friction per effort of the motor")
K_e = Parameter("K_e", 0.1, lower=0, upper=1, note="friction per effort of the weight")
c_s = Parameter("c_s", 0.01, lower=0, upper=1, unit="N m", note="stiction")
v_s = Parameter("v_s", 2.0, lower=0.05, upper=10, unit="rad/s", note="Stribeck velocity")
Q_m = Parameter("Q_m", 1.5, lower=0, upper=20, unit="1/(N m)", note="friction per squared effort of the motor")
Q_e = Parameter("Q_e", 1.5, lower=0, upper=20, unit="1/(N m)", note="friction per squared effort of the weight")
R_s = Parameter("R_s", 0.5, lower=0, upper=20, unit="ohm", note="source resistance of the supply")
AT_REST = 7.3  # V, the supply without load
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


def lifting(law: str, recordings: list[Recording], sags: bool = False) -> Problem:
    """The problem of `problems/servo_xl330.py` with a law of friction, or with a supply that sags under load."""
    arm, y, d = Body("arm", mass=MASS, inertia=(1e-6, 1e-6, 1e-6)), dict(x=(0, 1, 0), y=(0, 0, -1)), declared
    rubs = dict(viscous=d.b, coulomb=d.c if law == "M1" else 0, loads=friction(law))
    frames = GROUND.frame(**y), arm.frame(at=(0, 0, LENGTH), **y)
    joint = Hinge("joint", *frames, armature=d.armature, **rubs)
    supply = dict(supply=AT_REST, source_resistance=R_s) if sags else dict(supply="vin")
    drive = DCDrive(torque_constant=d.k, resistance=d.R, **supply)
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


def replayed(solution: Solution, recording: Recording) -> tuple[float, float]:
    """Errors in this package and in MuJoCo with the exported servo; its supply is constant there [mrad]."""
    problem, zero = lifting("M1", [recording]), solution["zero"].estimate
    start = float(recording.signal("q")[0]) - zero
    simulated = problem.simulate(solution.values, initial={"joint": start})
    names = {"armature": declared.armature, "viscous": declared.b, "coulomb": declared.c}
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder) / "servo.xml", Path(folder) / "identified.xml"
        source.write_text(XML, encoding="utf-8")
        robot = robots.read(source).with_(joints={"joint": names})
        (drive,) = robots.servos(problem, solution)
        values = {parameter.name: solution[parameter.name].estimate for parameter in names.values()}
        robot.write(path, values, servos=[drive])
        model = mujoco.MjModel.from_xml_path(str(path))
    data, t = mujoco.MjData(model), recording.t - recording.t[0]
    data.qpos[0] = start
    times = np.arange(0, t[-1], model.opt.timestep)
    gains, damping, angles = (model.actuator_gainprm.copy(), model.actuator_biasprm.copy()), model.dof_damping[0], []
    for i in np.searchsorted(t, times, side="right") - 1:
        on = recording.signal("on")[i]  # a drive that lets go has no back-EMF
        model.actuator_gainprm[:], model.actuator_biasprm[:] = (on * one for one in gains)
        model.dof_damping[0] = damping - (1 - on) * drive.back_emf
        data.ctrl[0] = recording.signal("goal")[i]
        angles.append(data.qpos[0] + zero)
        mujoco.mj_step(model, data)
    own = error(simulated.t, simulated.signal("q"), recording)
    return own, error(times + recording.t[0], np.array(angles), recording)


def shown(one: Estimate) -> str:
    """An estimate with its standard error."""
    return f"{one.estimate:.4g}" + (" (at its bound)" if one.at_bound else f" ± {one.std_err:.2g}")


def table(columns: dict[str, list[float]], names: list[str]) -> list[str]:
    """Errors by recording, and their means."""
    lines = [f"| recording | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for i, name in enumerate(names):
        lines.append(f"| {name} | {' | '.join(f'{c[i]:.1f}' for c in columns.values())} |")
    return [*lines, f"| mean | {' | '.join(f'{np.mean(c):.1f}' for c in columns.values())} |"]


def sagging(recordings: list[Recording], names: list[str]) -> list[str]:
    """What limits the error: M3 with a source resistance in place of the measured supply."""
    problem = lifting("M3", recordings, sags=True)
    solution = problem.solve()
    fitted, left_out = list[float](), list[float]()
    for i, one in enumerate(recordings):
        others = problem.with_(recordings=[other for other in recordings if other is not one], initial=solution.values)
        for found, fit in ((fitted, solution), (left_out, others.solve())):
            run = problem.simulate(fit.values, recording=i)
            found.append(error(run.t, run.signal("q"), one))
    return [
        "## What limits the error",
        "",
        f"The voltage under load changes the errors. A variant of M3 has a constant supply of {AT_REST} V behind a",
        "source resistance. It has one parameter more, and uses no measured voltage. The data do not separate the",
        "resistance of the supply from that of the driver. The errors of this variant in mrad are:",
        "",
        *table({"M3, source resistance": fitted, "M3, source resistance, not fitted": left_out}, names),
        "",
        "The column of M3 in the first table has the errors with the measured supply. This variant was the best of",
        "about twenty variants tested on all recordings. This choice itself was not cross-validated.",
        "",
        *(f"- {one.name}: {shown(one)} {one.unit}".rstrip() for one in solution.parameters.values()),
        "",
    ]


def main(laws: list[str]) -> None:
    every = [measured(f"xl330_kp{gain}_{name}") for gain in (100, 400) for name in SERVO]
    names = [one.name.removeprefix("xl330_") for one in every]
    found = ladder({law: lifting(law, every) for law in laws})
    columns = {}
    for rung in found.rungs:
        columns[rung.name] = [1e3 * rung.fitted[one.name] for one in every]
        columns[f"{rung.name}, not fitted"] = [1e3 * rung.left_out[one.name] for one in every]
    first = found.rungs[0].solution
    replays = np.array([replayed(first, one) for one in every]).T.tolist()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout
    lines = [
        "# A servo from commands and positions",
        "",
        (
            "A servo Dynamixel XL330 lifts a known load; its torque is not measured. The fit uses commands, "
            "positions and the"
        ),
        "supply voltage of eight recordings, with deterministic dynamics. The table shows the mean absolute error of",
        "simulations of whole recordings, in mrad. The model M1 has Coulomb and viscous friction; in M3 the friction",
        "also grows with the torque of the gears: [friction laws](../docs/howto/servos.md).",
        "",
        *table(columns, names),
        "",
        *(f"- {step.verdict}" for step in found.steps),
        "",
        "Results of others on the same recordings, from `shared/data/servo-xl330`:",
        "",
        *(f"- {name}: {value} mrad" for name, value in ANCHORS.items()),
        "",
        "## Replay in MuJoCo",
        "",
        (
            "`robot.write` exports M1 as an MJCF actuator, with the mean supply voltage of each recording. The "
            "errors of this variant in mrad are:"
        ),
        "",
        *table({"spookid": replays[0], "MuJoCo": replays[1]}, names),
        "",
        *sagging(every, names),
        "## Estimates",
        "",
        f"| parameter | {' | '.join(laws)} | unit |",
        "|---|" + "---|" * (len(laws) + 1),
    ]
    for name, one in found.rungs[-1].solution.parameters.items():
        fits = (rung.solution.parameters for rung in found.rungs)
        lines.append(f"| {name} | {' | '.join(shown(e[name]) if name in e else '' for e in fits)} | {one.unit} |")
    lines += [
        "",
        ("The resistance and the torque constant are proportional to the mass of the load, which is assumed known."),
    ]
    lines += [
        "",
        f"The command `python results/servo.py` wrote this page at commit {commit.strip()}, spookid",
        f"{spookid.__version__}.",
    ]
    (HERE / "servo.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ["M1", "M3"])
