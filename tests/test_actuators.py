"""Servos as actuators of simulators: the motion that MuJoCo makes of them, Isaac Lab's fields, and refusals."""

import numpy as np
import pytest

from spookid import DCDrive, HingeAngle, Parameter, Problem, ProblemError, Recording, Servo, robots
from spookid.__main__ import main

mujoco = pytest.importorskip("mujoco")

STEP = 0.002
T = np.arange(0, 2, STEP)
GOAL = 0.9 * np.sin(4 * T) + 0.4 * np.sign(np.sin(5.1 * T))
ARM = """<mujoco model="arm">
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="arm">
      <joint name="elbow" type="hinge" axis="0 1 0" armature="0.002" damping="0.01" frictionloss="0.01"/>
      <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-4 1e-4 1e-4"/>
    </body>
  </worldbody>{actuator}
</mujoco>
"""
OLD = """
  <actuator>
    <motor name="old" joint="elbow" gear="3" ctrlrange="-1 1"/>
  </actuator>"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM.format(actuator=""), encoding="utf-8")
    return path


def declared(path, servo, recordings=()):
    """A problem of the file's arm with a servo."""
    robot = robots.read(path)
    armature = Parameter("armature", 0.002, lower=0)
    robot = robot.with_(joints={"elbow": {"armature": armature}})
    joint = robot.joints["elbow"]
    model = robot.model(motors=[servo(joint)])
    return robot, Problem("arm", model, list(recordings), [HingeAngle(joint, "q")], step=STEP)


def replayed(path, goal=GOAL):
    """Angles in MuJoCo with commands as the only inputs."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data, angles = mujoco.MjData(model), [0.0]
    for command in goal[:-1]:
        data.ctrl[:] = command
        mujoco.mj_step(model, data)
        angles.append(float(data.qpos[0]))
    return np.array(angles)


DRIVE = DCDrive(torque_constant=0.35, resistance=3.0, supply="vin", duty_limit=0.9)
SERVOS = {
    "PD": lambda joint: Servo(joint, "goal", kp=2.5, kd=0.05, limit=1.1, delay=0.009),
    "lag": lambda joint: Servo(joint, "goal", kp=2.5, kd=0.05, limit=1.1, delay=0.009, lag=0.02),
    "lag with an offset": lambda joint: Servo(joint, "goal", kp=2.5, kd=0.05, offset=0.1, lag=0.02),
    "PID": lambda joint: Servo(joint, "goal", kp=2.0, kd=0.05, ki=4.0, integral_limit=0.05, limit=1.1, delay=0.009),
    "offset and bias": lambda joint: Servo(joint, "goal", kp=2.5, kd=0.05, offset=0.1, bias=0.05),
    "voltage": lambda joint: Servo(joint, "goal", kp=0.01, gain="kp", kd=0.01, drive=DRIVE, delay=0.006),
    "velocity": lambda joint: Servo(joint, "goal", kp=0.2, mode="velocity"),
}
WEAK = DCDrive(torque_constant=0.35, resistance=3.0, supply=7.4, duty_limit=0.9, current_limit=1.2)
NEWER = {
    "limited current": ("dcmotor", lambda joint: Servo(joint, "goal", kp=2.0, kd=0.02, drive=WEAK, delay=0.006)),
    "limited effort": ("dcmotor", lambda joint: Servo(joint, "goal", kp=2.0, drive=WEAK, limit=0.3)),
    "commanded rate": ("pid", lambda joint: Servo(joint, "goal", kp=2.5, kd=0.1, command_rate="rate", limit=0.8)),
    "feedforward": ("pid", lambda joint: Servo(joint, "goal", kp=2.5, kd=0.1, feedforward="ff", delay=0.004)),
}
"""With elements that not all versions of MuJoCo have."""


@pytest.mark.parametrize("kind", SERVOS)
def test_mujoco_moves_as_the_simulation_does(kind, file):
    commands = Recording(T, {"goal": GOAL, "kp": np.full(len(T), 200.0), "vin": np.full(len(T), 7.4)})
    robot, problem = declared(file, SERVOS[kind])
    values = {"armature": 0.003}
    simulated = problem.simulate(values, duration=T[-1], initial={"elbow": 0.0}, inputs=commands)
    known = {"kp": 200, "vin": 7.4} if kind == "voltage" else {}
    out = file.with_name("identified.xml")
    robot.write(out, values, servos=robots.servos(problem, values, known))
    away = replayed(out) - np.interp(T, simulated.t, simulated.signals["q"])
    assert np.ptp(simulated.signals["q"]) > 0.5
    assert np.sqrt(np.mean(away**2)) < 0.01 * np.ptp(simulated.signals["q"])


@pytest.mark.parametrize("kind", NEWER)
def test_what_newer_versions_have_moves_alike(kind, file):
    element, servo = NEWER[kind]
    if f" {element} " not in mujoco.mj_printSchema(False, False):
        pytest.skip(f"this version of MuJoCo has no {element}")
    signals = {"goal": GOAL, "rate": 3.6 * np.cos(4 * T), "ff": 0.3 * np.sin(9 * T)}
    robot, problem = declared(file, servo)
    values = {"armature": 0.003}
    simulated = problem.simulate(values, duration=T[-1], initial={"elbow": 0.0}, inputs=Recording(T, signals))
    out = file.with_name("identified.xml")
    (exported,) = robots.servos(problem, values)
    assert set(exported.left_out) == set(exported.in_mjcf) != set()
    robot.write(out, values, servos=[exported])
    assert f"<{element} " in out.read_text(encoding="utf-8")
    controls = [signals[role] for role in ("goal", "rate", "ff") if role in problem.model.servos[0].signals]
    away = replayed(out, np.column_stack(controls)) - np.interp(T, simulated.t, simulated.signals["q"])
    assert np.ptp(simulated.signals["q"]) > 0.5
    assert np.sqrt(np.mean(away**2)) < 0.01 * np.ptp(simulated.signals["q"])


def test_an_actuator_of_the_joint_is_replaced_and_keeps_its_name(file):
    file.write_text(ARM.format(actuator=OLD), encoding="utf-8")
    robot, problem = declared(file, SERVOS["PD"])
    out = file.with_name("identified.xml")
    robot.write(out, {"armature": 0.003}, servos=robots.servos(problem, {"armature": 0.003}))
    model = mujoco.MjModel.from_xml_path(str(out))
    assert [model.actuator(i).name for i in range(model.nu)] == ["old"]
    assert model.actuator_gainprm[0, 0] == 2.5
    assert model.actuator_forcerange[0].tolist() == [-1.1, 1.1]
    assert model.actuator_ctrlrange[0].tolist() == [-1, 1]
    assert model.dof_armature[0] == 0.003


def test_fields_of_isaac_lab(file, tmp_path):
    def fields(kind, timestep=0.005, **signals):
        _, problem = declared(file, SERVOS[kind])
        drives = robots.servos(problem, {"armature": 0.003}, signals)
        robots.write_isaac_lab(drives, tmp_path / "actuators.yaml", timestep)
        lines = (tmp_path / "actuators.yaml").read_text(encoding="utf-8").splitlines()
        return dict(line.strip().split(": ") for line in lines if line.startswith("    "))

    late = fields("PD")
    assert (late["class_type"], late["min_delay"], late["max_delay"]) == ("DelayedPDActuatorCfg", "1", "2")
    assert (late["stiffness"], late["damping"], late["effort_limit"]) == ("2.5", "0.05", "1.1")
    assert (late["armature"], late["friction"], late["viscous_friction"]) == ("0.003", "0.01", "0.01")
    motor = fields("voltage", timestep=0.02, kp=200, vin=7.4)
    stall = 7.4 * 0.35 / 3.0
    assert motor["class_type"] == "DCMotorCfg"
    assert float(motor["stiffness"]) == pytest.approx(200 * 0.01 * stall)
    assert float(motor["damping"]) == pytest.approx(200 * 0.01 * stall + 0.35**2 / 3.0)
    assert float(motor["saturation_effort"]) == pytest.approx(0.9 * stall)
    assert float(motor["velocity_limit"]) == pytest.approx(0.9 * 7.4 / 0.35)
    fields("lag")
    assert "# elbow: without the lag of commands, 0.02 s" in (tmp_path / "actuators.yaml").read_text()
    fields("PID")
    assert "# elbow: without the integral, 4 N m/(rad s)" in (tmp_path / "actuators.yaml").read_text()
    assert "constant effort 0.3" in (fields("offset and bias"), (tmp_path / "actuators.yaml").read_text())[1]


def test_what_is_refused(file, tmp_path):
    _, problem = declared(file, SERVOS["voltage"])
    with pytest.raises(ProblemError, match=r"'kp' has no constant value \(no recording\)"):
        robots.servos(problem, {"armature": 0.003}, {"vin": 7.4})
    recordings = [
        Recording(T, {"goal": GOAL, "kp": np.full(len(T), kp), "vin": np.full(len(T), 7.4), "q": 0 * T}, name=str(kp))
        for kp in (100.0, 200.0)
    ]
    _, problem = declared(file, SERVOS["voltage"], recordings)
    with pytest.raises(ProblemError, match="signal varies from 100 to 200 in the recordings"):
        robots.servos(problem, {"armature": 0.003})
    (drive,) = robots.servos(problem, {"armature": 0.003}, {"kp": 100})
    assert drive.free_speed == pytest.approx(0.9 * 7.4 / 0.35)  # the supply as it was recorded
    with pytest.raises(ProblemError, match="timestep is 0"):
        robots.write_isaac_lab([drive], tmp_path / "actuators.yaml", 0)


def test_the_command_exports_a_fit(file, tmp_path, capsys):
    source = tmp_path / "arm.py"
    source.write_text(
        "import numpy as np\n"
        "from spookid import HingeAngle, Parameter, Problem, Recording, Servo, robots\n"
        "armature = Parameter('armature', 0.002, lower=0)\n"
        f"robot = robots.read({str(file)!r}).with_(joints={{'elbow': {{'armature': armature}}}})\n"
        "joint, kp = robot.joints['elbow'], Parameter('kp', 2.0, lower=0)\n"
        "model = robot.model(motors=[Servo(joint, 'goal', kp=kp, kd=0.05, delay=0.01)])\n"
        "t = np.arange(0, 2, 0.005)\n"
        "empty = Problem('arm', model, [], [HingeAngle(joint, 'q', sigma=1e-3)], step=0.005)\n"
        "inputs = Recording(t, {'goal': np.sin(5 * t)})\n"
        "truth, noise = {'kp': 2.6, 'armature': 0.003}, {'elbow': 0, 'q': 1e-3}\n"
        "log = empty.simulate(truth, duration=1.9, inputs=inputs, noise=noise)\n"
        "problem = empty.with_(recordings=[log], estimator='hard')\n",
        encoding="utf-8",
    )
    result, out = str(tmp_path / "result"), tmp_path / "identified.xml"
    assert main(["solve", str(source), "--out", result, "--quiet", "--no-figures"]) == 0
    assert main(["export", result, "--to", str(file), "--out", str(out)]) == 0
    model = mujoco.MjModel.from_xml_path(str(out))
    assert model.actuator_gainprm[0, 0] == pytest.approx(2.6, rel=0.05)
    assert model.actuator_delay[0] == 0.01
    assert model.dof_armature[0] == pytest.approx(0.003, rel=0.1)
    assert main(["export", result, "--timestep", "0.005", "--out", str(tmp_path / "drives.yaml")]) == 0
    assert "DelayedPDActuatorCfg" in (tmp_path / "drives.yaml").read_text(encoding="utf-8")
    assert main(["export", result, "--out", str(tmp_path / "drives.yaml")]) == 2
    assert "--timestep belongs to --out FILE.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(("capacitor", "share"), [(True, 0.9**2), (False, 0.9)])
def test_a_source_resistance_lowers_the_limit_of_effort(file, capacitor, share):
    drive = DCDrive(
        torque_constant=0.35, resistance=3.0, supply=7.4, duty_limit=0.9, source_resistance=1.2, capacitor=capacitor
    )
    _, problem = declared(file, lambda joint: Servo(joint, "goal", kp=1.0, drive=drive))
    (exported,) = robots.servos(problem, {"armature": 0.003})
    assert exported.limit == pytest.approx(0.35 * 0.9 * 7.4 / (3.0 + 1.2 * share))  # at standstill
    assert any("source resistance" in what for what in exported.left_out)
