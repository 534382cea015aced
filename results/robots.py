"""Robots from their files and back: `python results/robots.py` writes `robots.md`.

Needs the packages example-robot-data, pin and mujoco, and `SPOOKID_DATA`. About ten minutes;
`python results/robots.py ur10e` makes the parts of the UR10e alone anew, in three, and keeps the others.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import casadi as ca
import mujoco
import numpy as np
import pinocchio as pin
from robot_folder import folder

from spookid import JointPosition, LogCholesky, Parameter, Problem, Recording, load, load_problem, robots
from spookid.cli.main import main as spookid
from spookid.errors import ProblemError
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.parameter import substitute
from spookid.studies.payload_notices import ArmKnowledge
from spookid.tables.table import uncertain

HERE = Path(__file__).parent
TWINS = {
    "panda_description/urdf/panda.urdf": ["panda_finger_joint1"],
    "ur_description/urdf/ur5_robot.urdf": [],
    "double_pendulum_description/urdf/double_pendulum.urdf": [],
    "kinova_description/robots/kinova.urdf": [],
    "finger_edu_description/robots/finger_edu.urdf": [],
}
"""Robots that are fitted, and joints that are held."""
LOOPS = {
    "four bars, connect": """<mujoco><default><joint axis="0 1 0" damping="0.01"/></default><worldbody>
  <body name="crank"><joint name="a"/><inertial mass="0.2" pos="0.05 0 0" diaginertia="1e-4 2e-4 2.5e-4"/>
    <body name="coupler" pos="0.1 0 0" euler="0 -60 0"><joint name="b"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.01" mass="0.3"/></body></body>
  <body name="rocker" pos="0.25 0 0"><joint name="c"/>
    <inertial pos="0 0 0.13" mass="0.25" diaginertia="1e-3 1.1e-3 2e-4"/></body></worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor="0.3 0 0"/></equality></mujoco>""",
    "slider and crank, connect": """<mujoco><default><joint axis="0 1 0" damping="0.01"/></default><worldbody>
  <body name="crank"><joint name="a" armature="0.001"/><geom type="capsule" fromto="0 0 0 0.08 0 -0.06" size="0.01"/>
    <body name="rod" pos="0.08 0 -0.06"><joint name="b"/>
      <inertial mass="0.3" pos="0.1 0 0.02" diaginertia="1e-4 2e-3 2e-3"/></body></body>
  <body name="slider" pos="0.35 0 0"><joint name="c" type="slide" axis="1 0 0" damping="0.5"/>
    <inertial pos="0 0 0" mass="0.25" diaginertia="1e-4 1e-4 1e-4"/></body></worldbody>
  <equality><connect body1="slider" body2="rod" anchor="0 0 0"/></equality></mujoco>""",
    "four bars, weld": """<mujoco><default><joint axis="0 1 0" damping="0.01"/></default><worldbody>
  <body name="left"><joint name="a"/><inertial mass="0.2" pos="0.02 0 -0.06" diaginertia="1e-4 2e-4 2.5e-4"/>
    <body name="half" pos="0.06 0 -0.15"><joint name="b"/>
      <inertial mass="0.2" pos="0.05 0 0" diaginertia="1e-5 2e-4 2e-4"/></body></body>
  <body name="right" pos="0.25 0 0"><joint name="c"/>
    <inertial pos="0.02 0 -0.06" mass="0.25" diaginertia="4e-4 4e-4 5e-5"/>
    <body name="other" pos="0.06 0 -0.15"><joint name="d"/>
      <inertial mass="0.2" pos="-0.05 0 0" diaginertia="1e-5 2e-4 2e-4"/></body></body></worldbody>
  <equality><weld body1="half" body2="other"/></equality></mujoco>""",
}
FITTED, UNSEEN, LOADED = "excitation_12harm_40s", "excitation_14harm_50s", "excitation_14harm_50s_load"
SAMPLES = {FITTED: (500, 4460), UNSEEN: (195, 4966), LOADED: (308, 5071)}
MASS = 2.805  # kg, published, of the loaded run
PERIOD = 6.0  # s
Array = Any


def main() -> None:
    """Compare, fit, write."""
    page = HERE / "robots.md"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if sys.argv[1:] == ["ur10e"]:
            parts = [page.read_text(encoding="utf-8").partition("## UR10e by commands")[0].rstrip("\n") + "\n"]
        else:
            parts = [INTRO, same_mechanics(), twins(place), loops(place)]
        parts += [arm(place), carried(place)]
    page.write_text("\n".join(parts), encoding="utf-8")
    print("\n".join(parts), file=sys.stdout)


INTRO = """# From a robot's file to an identified robot

This page tests reading, fitting and writing of URDF and MJCF files (`spookid.robots`, `spookid new`, `spookid export`).
The command `python results/robots.py` writes this page.
"""


# --- the same mechanics as Pinocchio's ---


def efforts(robot: robots.Robot) -> tuple[ca.Function, list[str]]:
    """What the bodies take along the joints, of positions, rates and accelerations; the joints' names."""
    joints = JointCoordinates(robot.model())
    symbols = [ca.SX.sym(name, joints.manifold.tangent) for name in "xsa"]
    motion = Recursion(joints, *symbols)
    return ca.Function("efforts", symbols, [motion.along(motion.needed)]), [joint.name for joint in joints.tree]


def difference(path: Path) -> tuple[float, int]:
    """Largest difference from Pinocchio's inverse dynamics at random states over the largest effort; coordinates."""
    robot, theirs = robots.read(path), pin.buildModelFromUrdf(str(path))
    ours, names = efforts(robot)
    at = [theirs.joints[theirs.getJointId(name)].idx_v for name in names]
    worst = 0.0
    for q, v, a in np.random.default_rng(0).uniform(-1, 1, (3, 3, theirs.nv)):
        moved = np.zeros(theirs.nq)
        for joint in list(theirs.joints)[1:]:
            angle = q[joint.idx_v]
            moved[joint.idx_q : joint.idx_q + joint.nq] = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
        expected = pin.rnea(theirs, theirs.createData(), moved, v, a)[at]
        found = np.asarray(ours(q[at], v[at], a[at])).ravel()
        worst = max(worst, float(np.max(np.abs(found - expected)) / max(np.max(np.abs(expected)), 1e-9)))
    return worst, len(at)


def same_mechanics() -> str:
    """All robots of the package."""
    found, refused = {}, {}
    for path in sorted(folder().rglob("*.urdf")):
        try:
            found[path] = difference(path)
        except ProblemError as error:
            refused[path] = str(error).replace(f"{path.parent}{os.sep}", "")
    rows = [[f"`{path.name}`", f"{reason}"] for path, reason in refused.items()]
    largest = max(found, key=lambda path: found[path][0])
    return f"""## Comparison with Pinocchio

spookid reads {len(found)} of the {len(found) + len(refused)} URDF files of the package example-robot-data without
changes, with up to {max(n for _, n in found.values())} coordinates. Inverse dynamics at random states differ from
Pinocchio's by at most {found[largest][0]:.1e} of the largest torque (`{largest.name}`). spookid refuses the other
{len(refused)} files:

{table(["file", "reason"], rows)}
"""


# --- twins ---


def twins(place: Path) -> str:
    """In, twin, fit, out, in again."""
    rows = []
    for name, held in TWINS.items():
        path = folder() / name
        still = dict.fromkeys(held, 0.0)
        truth = changed(robots.read(path, held=still))
        log, seen = place / f"{path.stem}.csv", trajectory(truth, 1)
        write_log(truth, seen, log)
        file, results, out = (place / f"{path.stem}{end}" for end in (".py", "", "_new.urdf"))
        run("new", path, log, "--out", file)
        run("solve", file, "--out", results, "--quiet")
        holding = [f"{joint}=0" for joint in held]
        run("export", results, "--to", path, "--out", out, *(["--hold", *holding] if holding else []))
        back, problem, solution = robots.read(out, held=still), load_problem(file), load(results)
        unseen = trajectory(truth, 2)
        wanted = torques(truth, unseen)
        before, after = torques(robots.read(path, held=still), unseen), torques(armed(back, out), unseen)
        spread = np.std(wanted, axis=0)
        rows.append(
            [
                f"`{path.name}`",
                f"{len(back.joints)}",
                solution.status.value,
                f"{apart(problem, solution.values, back):.0e}",
                *(_shares(rms(wanted - found) / spread) for found in (before, after)),
            ]
        )
    heads = [
        "robot",
        "joints",
        "",
        "difference between new file and solution",
        "torque errors of the original file",
    ]
    return f"""## Synthetic data

The true robot has the file's inertias, friction and armatures, changed at random. The log contains its positions (noise
1e-5 rad) and torques (noise 1 % of their rms) along Fourier trajectories of 6 s. `spookid new`, `spookid solve` and
`spookid export` run on this log. If the new file is read again, masses, first moments and inertias about the origins of
the links equal those of the solution up to rounding. The table shows torque errors on a trajectory that was not fitted,
as a fraction of the torque's standard deviation: the median over the joints and the largest value. The armatures, which
a URDF file cannot contain, are taken from the JSON file.

{table([*heads, "of the new file"], rows)}
"""


def _shares(found: Array) -> str:
    """Median and largest."""
    return f"{100 * np.median(found):.2g} %, {100 * np.max(found):.2g} %"


def run(*words: object) -> None:
    """A command, which must succeed."""
    if status := spookid([str(word) for word in words]):
        raise SystemExit(f"spookid {' '.join(map(str, words))}: exit status {status}")


def changed(robot: robots.Robot) -> robots.Robot:
    """Other inertias, friction and armatures."""
    rng = np.random.default_rng(3)
    inertias = {}
    for name, body in robot.bodies.items():
        coordinates = LogCholesky("body", body.distribution)
        values = {
            p.name: p.guess + 0.05 * rng.uniform(-1, 1) * (1 if p.unit == "" else 0.1) for p in coordinates.coordinates
        }
        pi = substitute(coordinates.pi, values)
        inertias[name] = type(body.distribution).from_pi(pi)
    names = [name for name, joint in robot.joints.items() if joint.coordinates]
    sizes = np.sqrt(np.mean(torques(robot, trajectory(robot, 0)) ** 2, axis=0))
    shares = ("viscous", 0.1), ("coulomb", 0.1), ("armature", 0.01)
    joints = {name: {what: share * size for what, share in shares} for name, size in zip(names, sizes, strict=True)}
    return robot.with_(inertias=inertias, joints=joints)


def trajectory(robot: robots.Robot, seed: int) -> tuple[Array, Array, Array, Array]:
    """Times, and positions, rates and accelerations of all joints: five harmonics."""
    rng, t = np.random.default_rng(seed), np.arange(0, PERIOD, 0.01)
    q, v, a = np.zeros((3, len(t), len(robot.joints)))
    for k in range(1, 6):
        w = 2 * np.pi * k / PERIOD
        A, B = rng.uniform(-1, 1, (2, len(robot.joints))) * 0.8 / k
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, v, a = q + A * s + B * c, v + w * (A * c - B * s), a - w * w * (A * s + B * c)
    return t, q, v, a


def torques(robot: robots.Robot, motion: tuple[Array, Array, Array, Array]) -> Array:
    """What drives the robot along a motion, with its friction and armatures."""
    ours, names = efforts(robot)
    order = [list(robot.joints).index(name) for name in names]
    _, q, v, a = motion
    found = np.zeros_like(q)
    found[:, order] = np.asarray(ours.map(len(q))(q[:, order].T, v[:, order].T, a[:, order].T)).T
    for i, joint in enumerate(robot.joints.values()):
        viscous, coulomb, armature = (float(getattr(joint, what)) for what in ("viscous", "coulomb", "armature"))
        found[:, i] += viscous * v[:, i] + coulomb * np.tanh(v[:, i] / 0.01) + armature * a[:, i]
    return found


def write_log(robot: robots.Robot, motion: tuple[Array, Array, Array, Array], path: Path) -> None:
    """Positions and torques by the joints' names."""
    rng = np.random.default_rng(9)
    tau, (t, q) = torques(robot, motion), motion[:2]
    signals = {f"{name}_q": q[:, i] + 1e-5 * rng.normal(size=len(t)) for i, name in enumerate(robot.joints)}
    for i, name in enumerate(robot.joints):
        signals[f"{name}_tau"] = tau[:, i] + 0.01 * rms(tau[:, i]) * rng.normal(size=len(t))
    Recording(t, signals).to_csv(path)


def armed(robot: robots.Robot, path: Path) -> robots.Robot:
    """With the armatures that stand beside its file."""
    beside = json.loads(path.with_name(f"{path.name}.json").read_text())["quantities"]
    own = {name: beside.get(f"{name} armature", {"estimate": 0.0})["estimate"] for name in robot.joints}
    return robot.with_(joints={name: {"armature": value} for name, value in own.items()})


def apart(problem: Problem, values: dict[str, float], back: robots.Robot) -> float:
    """Largest relative difference of the bodies of a problem at its solution from those of a file."""
    worst = 0.0
    for body in problem.model.bodies:
        wanted = substitute(ca.densify(body.distribution.pi), values)
        found = ca.DM(back.bodies[body.name].distribution.pi).full().ravel()
        worst = max(worst, float(np.max(np.abs(wanted - found)) / np.max(np.abs(wanted))))
    return worst


def rms(values: Array) -> Array:
    """Along the first axis."""
    return np.sqrt(np.mean(values**2, axis=0))


# --- loops ---


def loops(place: Path) -> str:
    """Mechanisms of an MJCF that swing freely: damping and one link are unknown."""
    rows = []
    for name, text in LOOPS.items():
        path, out = place / "loop.xml", place / "loop_new.xml"
        path.write_text(text)
        robot = robots.read(path)
        model = robot.model()
        start = Problem("twin", model=model, observations=[], step=0.005)
        sensor = JointPosition(robot.joints["a"], "a")
        twin = start.with_(observations=[sensor])
        moved = twin.simulate(duration=2.0)
        signal = moved.signals["a"] + 1e-4 * np.random.default_rng(0).normal(size=len(moved.t))
        body = list(robot.bodies)[-1]
        own = robot.bodies[body].distribution
        mass, damping = Parameter("m", 1.2 * float(own.mass), lower=1e-3), Parameter("b", 0.02, lower=0)
        guess = type(own)(mass, own.center_of_mass, inertia=own.inertia)
        free = robot.with_(inertias={body: guess}, joints={"a": {"viscous": damping}})
        problem = Problem(
            "loop",
            model=free.model(),
            recordings=[Recording(moved.t, {"a": signal})],
            observations=[JointPosition(free.joints["a"], "a")],
            step=0.005,
        )
        solution = problem.solve()
        free.write(out, solution)
        back = robots.read(out)
        cells = [f"{solution[p].estimate:.5g} ± {solution[p].std_err:.2g}" for p in ("m", "b")]
        off = abs(float(back.bodies[body].mass) / solution["m"].estimate - 1)
        rows.append([name, solution.status.value, f"{float(own.mass):g}", cells[0], "0.01", cells[1], f"{off:.0e}"])
    return f"""## Loops

The mechanisms of MJCF files with a loop (`connect` or `weld`) swing freely for 2 s; the angle of one joint is measured
(noise 0.1 mrad). The unknown parameters are the mass of the last body and the damping of the first joint, with initial
values wrong by 20 % and 100 %.

{table(["mechanism", "", "mass", "estimate [kg]", "damping", "estimate [N m s]", "file read again"], rows)}
"""


# --- an arm by commands ---


def arm(place: Path) -> str:
    """UR10e from its URDF and its log as CSV, by commands alone."""
    urdf = Path(os.environ["SPOOKID_DATA"]) / "ur10e" / "ur10e.urdf"
    log, file, results, out = (place / name for name in ("log.csv", "ur10e.py", "ur10e", "ur10e_new.urdf"))
    logged(FITTED).to_csv(log)
    load_before = os.getloadavg()[0]
    solve = ["solve", file, "--out", results, "--quiet"]
    times = [timed(*words) for words in (["new", urdf, log, "--out", file], solve)]
    run("export", results, "--to", urdf, "--out", out)
    solution, problem = load(results), load_problem(file)
    # States alone are fitted to the other log: they tell where replays begin.
    fixed = [p.name for p in problem.parameters]
    unseen = problem.solve(recordings=[logged(UNSEEN)], initial=dict(solution.values), fixed=fixed)
    compared = robots.read(urdf).compare(unseen)
    spread, torque_rows, replay_rows = np.std(compared.measured, axis=0), [], []
    for version in compared.versions:
        shares = 100 * compared.torque_errors(version) / spread
        torque_rows.append([version.name, *(f"{share:.1f}" for share in shares)])
        replay_rows.append([version.name, *map(_angle, np.degrees(compared.replay_errors(version)))])
    joints = [f"joint {i}" for i in range(1, 7)]
    return f"""## UR10e by commands

The commands are `spookid new ur10e.urdf log.csv --out ur10e.py`, `spookid solve ur10e.py` ({solution.status.value} in
{solution.iterations} iterations) and `spookid export`. The table shows times of whole commands,
figures included. The machine had {os.cpu_count()} processors and a load of {load_before:.1f} from other programs:

{
        table(
            ["command", "seconds", "seconds of processors"],
            [
                [name, *(f"{t:.1f}" for t in both)]
                for name, both in zip(["`spookid new`", "`spookid solve`"], times, strict=True)
            ],
        )
    }

The log is `{FITTED}`, with positions and currents; the motor gains are unknown. The robot files before and after the
fit are compared with `{UNSEEN}`, which was not fitted, by `robot.compare`, as in `spookid report`. The table shows the
rms of measured torques (current times gain plus offset) minus predicted torques, low-pass filtered at
{compared.cutoff:g} Hz, in per cent of the standard deviation:

{table(["inverse dynamics of", *joints], torque_rows)}

A URDF file contains only bodies, damping and friction; the JSON file contains the armatures (up to
{armature(solution):.1f} kg m²). MuJoCo starts at the measured state of each second of the same log, driven by the
measured torques. The table shows the angle error over this second (root mean square over {len(compared.windows)}
windows, degrees):

{table(["replay of", *joints], replay_rows)}

Pinocchio and MuJoCo load the new file, and every inertia is physically possible:
{consistent(out)}.
"""


def timed(*words: object) -> tuple[float, float]:
    """Seconds that a command takes, and those of all processors."""
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "spookid", *map(str, words)], check=True)
    spent, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, used


def _angle(error: float) -> str:
    """[deg]; what turned more than once is nowhere."""
    return f"{error:.1f}" if error < 360 else "over 360"


def carried(place: Path) -> str:
    """The payload of the UR10e, by the results of ``arm``; one half of the loaded run calibrates for the other."""
    whole, empty = (logged(name) for name in (LOADED, UNSEEN))
    middle = whole.t[-1] / 2
    runs = {
        "the loaded run": whole,
        "its first half": whole.between(0, middle),
        "its second half": whole.between(middle, np.inf),
        "the run without a payload": empty,
    }
    for i, one in enumerate(runs.values()):
        one.to_csv(place / f"run_{i}.csv")
    rows = [carried_along(place, runs, 0, None)]
    rows += [carried_along(place, runs, *pair) for pair in ((1, None), (2, None), (2, 1), (1, 2), (3, None), (3, 0))]
    heads = ["along", "calibrated by", "mass [kg]", "error", "the arm's share of the variance", "centre in tool0 [m]"]
    return f"""## Payload of the UR10e

The command `spookid payload ur10e RUN --body tool0` uses the results above; the published mass of the load is {MASS}
kg. The gains are those of the fit, without values from a data sheet: only the rough masses of the URDF file determine
their scale. A calibration is `--known-mass {MASS}` with another part of the run with the load.

{table([*heads, "s"], rows)}

The column "s" is the CPU time from the loaded problem, results and log to the estimate.
"""


def carried_along(place: Path, runs: dict[str, Recording], along: int, known: int | None) -> list[str]:
    """A row."""
    names, more = list(runs), []
    if known is not None:
        run("payload", *told(place, known), "--known-mass", f"{MASS}", "--out", place / "known.json")
        more = ["--calibration", place / "known.json"]
    run("payload", *told(place, along), *more, "--out", place / "found.json")
    found = {row["quantity"]: row for row in json.loads((place / "found.json").read_text())["quantities"]}
    solution, problem = load(place / "ur10e"), load_problem(place / "ur10e.py")
    log, file = Recording.from_csv(place / f"run_{along}.csv"), place / "known.json"
    began = time.process_time()
    again = problem.payload(solution, log, "tool0", calibration=ArmKnowledge.load(file) if known is not None else None)
    seconds = time.process_time() - began
    mass, center = found["mass"], [uncertain(again[f"c_{a}"].estimate, again[f"c_{a}"].std_err) for a in "xyz"]
    off = f"{100 * (mass['estimate'] / MASS - 1):+.1f} %" if along != 3 else ""
    who = "" if known is None else names[known]
    cells = [uncertain(mass["estimate"], mass["std_err"]), off, f"{100 * again['mass'].from_prior:.0f} %"]
    return [names[along], who, *cells, ", ".join(center) if along != 3 else "", f"{seconds:.2f}"]


def told(place: Path, number: int) -> list[Any]:
    """Arguments of the command."""
    return [place / "ur10e", place / f"run_{number}.csv", "--body", "tool0"]


def logged(name: str) -> Recording:
    """A log with the columns of the one that is fitted."""
    with np.load(Path(os.environ["SPOOKID_DATA"]) / "ur10e" / f"{name}.npz") as archive:
        kept = slice(*SAMPLES[name])
        columns = {f"{what}_{i + 1}": archive[what][kept, i] for what in ("q", "qd", "current") for i in range(6)}
        return Recording(archive["t"][kept] - archive["t"][kept][0], columns, name)


def armature(solution: Any) -> float:
    """The largest."""
    return max(one.estimate for name, one in solution.joints.items() if name.endswith("armature"))


def consistent(path: Path) -> str:
    """Least of what the triangle inequality leaves."""
    theirs = pin.buildModelFromUrdf(str(path))
    left = []
    for inertia in list(theirs.inertias)[1:]:
        moments = np.linalg.eigvalsh(inertia.inertia)
        left.append((moments[0] + moments[1] - moments[2]) / moments[2])
    mujoco.MjModel.from_xml_path(str(path))
    return f"the sum of the two smaller moments exceeds the largest by at least {min(left):.1e} of it"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
