"""Coverage of a servo's parameters from commands and positions alone: `python results/servo_twins.py` writes
servo_twins.md. 5 minutes.

MuJoCo makes the logs: an arm with its own `position` actuator, with delay, force limit, armature, damping and
frictionloss. The fit knows the mass, the length, the derivative gain and the limit.
"""

import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np

import spookid
from spookid import (
    GROUND,
    Body,
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

HERE = Path(__file__).parent
TRUTH = {"kp": 3.0, "armature": 0.003, "b": 0.02, "c": 0.03, "delay": 0.008}
KD, NOISE, RATE, SPAN, STEP = 0.05, 1e-3, 200, 6.0, 1e-5
LIMITS = {"Without saturation": 5.0, "With saturation": 1.5}  # N m
UNITS = {"kp": "N m/rad", "armature": "kg m^2", "b": "N m s", "c": "N m", "delay": "s"}


def document(limit: float) -> str:
    """The arm, its joint and its drive."""
    return f"""<mujoco>
  <option timestep="{STEP}" integrator="implicitfast"/>
  <worldbody><body name="arm">
    <joint name="joint" axis="0 1 0" armature="{TRUTH["armature"]}" damping="{TRUTH["b"]}" frictionloss="{TRUTH["c"]}"
           solreffriction="0.00005 1"/>
    <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-6 1e-6 1e-6"/>
  </body></worldbody>
  <actuator>
    <position joint="joint" kp="{TRUTH["kp"]}" kv="{KD}" forcerange="-{limit} {limit}"
              delay="{TRUTH["delay"]}" nsample="{round(TRUTH["delay"] / STEP) + 1}"/>
  </actuator>
</mujoco>"""


def log(seed: int, limit: float) -> Recording:
    """Angles of MuJoCo with white noise, under steps and sines of the command."""
    rng, model = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(document(limit))
    data, t = mujoco.MjData(model), np.arange(0, SPAN, 1 / RATE)
    waves = rng.uniform([0.1, 1, 0], [0.3, 8, 6], (3, 3))
    goal = sum(a * np.sin(w * t + f) for a, w, f in waves) + 0.7 * np.sign(np.sin(rng.uniform(2, 4) * t))
    goal[t < 0.05] = 0.0  # MuJoCo's buffer of late commands begins with 0
    angles = []
    for command in goal:
        angles.append(data.qpos[0])
        data.ctrl[0] = command
        mujoco.mj_step(model, data, round(1 / RATE / STEP))
    return Recording(t, {"goal": goal, "q": np.array(angles) + NOISE * rng.standard_normal(len(t))}, name=str(seed))


def solved(recording: Recording, limit: float) -> Solution:
    """The fit, from initial values that are off by 40 %."""
    guess = {name: 1.4 * value for name, value in TRUTH.items()}
    free = {name: Parameter(name, value, lower=0, unit=UNITS[name]) for name, value in guess.items()}
    arm, y = Body("arm", mass=0.5, inertia=(1e-6, 1e-6, 1e-6)), dict(x=(0, 1, 0), y=(0, 0, -1))
    frames = GROUND.frame(**y), arm.frame(at=(0, 0, 0.1), **y)
    joint = Hinge("joint", *frames, armature=free["armature"], viscous=free["b"], coulomb=free["c"])
    servo = Servo(joint, "goal", kp=free["kp"], kd=KD, limit=limit, delay=free["delay"], rounding=1e-3)
    model = Model([arm], [joint], [servo], gravity=gravity(9.81))
    settings = dict(step=1 / RATE, estimator="hard")
    return Problem("twin", model, [recording], [HingeAngle(joint, "q")], **settings).solve()


def covered(limit: float, seeds: int) -> list[str]:
    """Lines of a table over so many logs of a drive with a limit."""
    distances = {name: list[float]() for name in TRUTH}
    errors = {name: list[float]() for name in TRUTH}
    for seed in range(seeds):
        solution = solved(log(seed, limit), limit)
        for name, value in TRUTH.items():
            one = solution[name]
            distances[name].append((one.estimate - value) / one.std_err)
            errors[name].append(one.std_err)
        print(seed, solution.status.value, {n: round(d[-1], 2) for n, d in distances.items()}, flush=True)
    lines = [
        "| parameter | truth | unit | mean std. error | 95 % intervals with the true value | RMS of z | largest z |"
    ]
    lines += ["|---|---:|---|---:|---:|---:|---:|"]
    every = np.array(list(distances.values()))
    for name, z in zip(TRUTH, every, strict=True):
        share, rms, most = 100 * np.mean(np.abs(z) < 1.96), np.sqrt(np.mean(z**2)), np.abs(z).max()
        numbers = f"{np.mean(errors[name]):.2g} | {share:.0f} % | {rms:.2f} | {most:.1f}"
        lines.append(f"| {name} | {TRUTH[name]:g} | {UNITS[name]} | {numbers} |")
    return [
        *lines,
        "",
        (f"Of all {every.size} intervals of 95 %, {100 * np.mean(np.abs(every) < 1.96):.1f} % contain the true value."),
    ]


def main(seeds: int) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout
    lines = [
        "# Coverage of a servo's parameters",
        "",
        f"MuJoCo {mujoco.__version__} simulates {seeds} logs of an arm with a `position` actuator, each with different",
        "commands and noise. The fit uses commands and positions, and starts from initial values that are wrong by",
        "40 %. The statistic z is the estimate minus the true value, divided by the standard error.",
        "",
        f"MuJoCo uses steps of {STEP:g} s. MuJoCo's implicit integration effectively adds half a step",
        "times the damping to",
        "the inertia. With steps of 0.1 ms, this error would exceed one standard error of the armature.",
    ]
    for title, limit in LIMITS.items():
        lines += [
            "",
            f"## {title}",
            "",
            f"In the first test, the torque limit of the drive is {limit:g} N m.",
            "",
            *covered(limit, seeds),
        ]
    lines += [
        "",
        (
            f"The command `python results/servo_twins.py` wrote this page at commit {commit.strip()}, "
            f"spookid {spookid.__version__}."
        ),
    ]
    (HERE / "servo_twins.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
