"""Coverage of a servo's parameters from commands and positions: `python results/servo_twins.py` writes servo_twins.md.
20 minutes; `--parts FILE` keeps what was computed, so that an interrupted run continues.

MuJoCo makes the logs of servos: an arm with its own `position`, `pid` and `dcmotor` actuators. Logs with backlash and
with friction that drifts are integrated by Runge and Kutta, from equations of motion written here.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import casadi as ca
import mujoco
import numpy as np
from bayesian_parts import Outcome, Parts, table

import spookid
from spookid import (
    GROUND,
    Backlash,
    Body,
    DCDrive,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    RandomWalk,
    Recording,
    Servo,
    gravity,
    studies,
)

HERE = Path(__file__).parent
NOISE, RATE, SPAN, STEP = 1e-3, 200, 6.0, 1e-5
AXES = dict(x=(0, 1, 0), y=(0, 0, -1))
UNITS = {"kp": "N m/rad", "ki": "N m/(rad s)", "armature": "kg m^2", "b": "N m s", "c": "N m", "delay": "s", "lag": "s"}
UNITS |= {"G": "1/rad", "k": "N m/A", "w": "rad", "J": "kg m^2", "J1": "kg m^2", "J2": "kg m^2", "m2": "kg"}
UNITS |= dict.fromkeys(("b1", "b2"), "N m s") | dict.fromkeys(("c1", "c2"), "N m")
ARM = {"armature": 0.003, "b": 0.02, "c": 0.03, "delay": 0.008}
KD, INTEGRAL, RESISTANCE, SUPPLY, CURRENT = 0.05, 0.06, 3.0, 7.4, 1.5
"""Known to the fits: derivative gain [N m s/rad], limit of the integral [rad s], and what `dcmotor` has [Ω, V, A]."""


@dataclass(frozen=True)
class Twin:
    """Logs of a device with known parameters, and the fit of one."""

    title: str
    text: str
    truth: Mapping[str, float]
    log: Callable[[int, Mapping[str, float]], Recording]
    problem: Callable[[Recording, Mapping[str, Parameter]], Problem]
    start: float = 1.4
    """Initial values, as multiples of the true ones."""
    others: Mapping[str, float] = field(default_factory=dict)
    """Other initial values."""

    def declared(self, recording: Recording) -> Problem:
        """The problem of a log."""
        guess = {name: self.start * value for name, value in self.truth.items()} | dict(self.others)
        return self.problem(recording, {n: Parameter(n, v, lower=0, unit=UNITS[n]) for n, v in guess.items()})

    def outcome(self, seed: int, truth: Mapping[str, float] | None = None) -> Outcome:
        """Estimates less true values, and standard errors."""
        truth = self.truth if truth is None else truth
        solution, found = self.declared(self.log(seed, truth)).solve(), dict[str, float]()
        for name, value in truth.items():
            found |= {f"{name} off": solution[name].estimate - value, f"{name} error": solution[name].std_err or 0.0}
        return found


Actuator = Callable[[Mapping[str, float]], str]


def document(truth: Mapping[str, float], actuator: str) -> str:
    """The arm, its joint and its drive."""
    samples = f'delay="{truth["delay"]}" nsample="{round(truth["delay"] / STEP) + 1}"'
    return f"""<mujoco>
  <option timestep="{STEP}" integrator="implicitfast"/>
  <worldbody><body name="arm">
    <joint name="joint" axis="0 1 0" armature="{truth["armature"]}" damping="{truth["b"]}" frictionloss="{truth["c"]}"
           solreffriction="0.00005 1"/>
    <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-6 1e-6 1e-6"/>
  </body></worldbody>
  <actuator><{actuator} joint="joint" {samples}/></actuator>
</mujoco>"""


def moved(seed: int, truth: Mapping[str, float], actuator: Actuator) -> Recording:
    """Angles of MuJoCo with white noise, under steps and sines of the command."""
    rng, model = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(document(truth, actuator(truth)))
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


def driven(recording: Recording, free: Mapping[str, Parameter], settings: Mapping[str, Any], **options: Any) -> Problem:
    """The arm with a servo, whose unknown arguments have the names of their parameters."""
    arm = Body("arm", mass=0.5, inertia=(1e-6, 1e-6, 1e-6))
    frames = GROUND.frame(**AXES), arm.frame(at=(0, 0, 0.1), **AXES)
    joint = Hinge("joint", *frames, armature=free["armature"], viscous=free["b"], coulomb=free["c"])
    own = {name: one for name, one in free.items() if name in ("ki", "delay", "lag")}
    if "k" in free:
        supply = dict(resistance=RESISTANCE, supply=SUPPLY, current_limit=CURRENT)
        own["drive"] = DCDrive(torque_constant=free["k"], **supply)
    drive = Servo(joint, "goal", kp=free["G" if "k" in free else "kp"], **own, **settings)
    model = Model([arm], [joint], [drive], gravity=gravity(9.81))
    return Problem("twin", model, [recording], [HingeAngle(joint, "q")], step=1 / RATE, **options)


def integrated(rates: ca.SX, x: ca.SX, u: ca.SX, start: Any, inputs: np.ndarray, parts: int) -> np.ndarray:
    """States at the samples, by so many steps of Runge and Kutta within each of the sampling intervals."""
    f, h, y = ca.Function("f", [x, u], [rates]), 1 / RATE / parts, x
    for _ in range(parts):
        a = f(y, u)
        b = f(y + h / 2 * a, u)
        c = f(y + h / 2 * b, u)
        y = y + h / 6 * (a + 2 * b + 2 * c + f(y + h * c, u))
    step = ca.Function("step", [x, u], [y]).mapaccum(len(inputs))
    return np.vstack([start, step(start, inputs.T).full().T])


M, L, PLAY_STIFFNESS, PLAY_DAMPING, COUNT = 0.5, 0.1, 100.0, 0.2, 2 * np.pi / 4096
"""Mass and length of the link, the gear's stiffness and damping, and a count of the encoder."""


def geared(seed: int, truth: Mapping[str, float]) -> Recording:
    """Angles of a motor's encoder of 12 bits, behind a gear with play."""
    rng, t = np.random.default_rng(seed), np.arange(0, SPAN, 1 / RATE)
    torque = sum(a * np.sin(w * t + f) for a, w, f in rng.uniform([0.05, 2, 0], [0.15, 12, 6], (4, 3)))
    x, u, half = ca.SX.sym("x", 4), ca.SX.sym("u"), truth["w"] / 2
    twist, turning = x[0] - x[1], x[2] - x[3]
    beyond = twist - ca.fmax(ca.fmin(twist, half), -half)
    passed = PLAY_STIFFNESS * beyond + PLAY_DAMPING * turning * (ca.fabs(twist) >= half)
    pulled = passed - M * 9.81 * L * ca.sin(x[1])
    rates = ca.vertcat(x[2:], (u - truth["b"] * x[2] - passed) / truth["J"], pulled / (M * L**2))
    angles = integrated(rates, x, u, np.zeros(4), torque[:-1, None], 25)[:, 0]
    shown = (np.floor((angles + 0.3) / COUNT) + 0.5) * COUNT - 0.3
    return Recording(t, {"u": torque, "q": shown}, name=str(seed))


def with_play(recording: Recording, free: Mapping[str, Parameter]) -> Problem:
    """Motor and link, and a gear with backlash between them."""
    rotor, link = Body("rotor", mass=0.1, inertia=(free["J"],) * 3), Body("link", mass=M, inertia=(1e-9,) * 3)
    motor = Hinge("motor", GROUND.frame(**AXES), rotor.frame(**AXES), viscous=free["b"])
    backlash = Backlash(free["w"], PLAY_STIFFNESS, PLAY_DAMPING)
    gear = Hinge("gear", rotor.frame(**AXES), link.frame(at=(0, 0, L), **AXES), loads=[backlash])
    model = Model([rotor, link], [motor, gear], [Motor(motor, "u")], gravity=gravity(9.81))
    return Problem("play", model, [recording], [HingeAngle(motor, "q")], step=0.0025)


def warming(seed: int, truth: Mapping[str, float]) -> Recording:
    """Angles of a driven double pendulum; the friction of its first joint grows by 60 % of its mean over 10 s."""
    rng, span, n = np.random.default_rng(seed + 1000), 10.0, 2000
    t = np.arange(n + 1) / RATE
    held = np.floor(t[:-1] * 100 + 1e-9) / 100

    def waves(frequencies: tuple[float, ...], size: float) -> np.ndarray:
        phases = rng.uniform(0, 2 * np.pi, len(frequencies))
        found = sum(np.sin(2 * np.pi * f * held + phase) for f, phase in zip(frequencies, phases, strict=True))
        return size * np.asarray(found) / np.sqrt(len(frequencies))

    torques = np.column_stack([waves((0.3, 0.7, 1.1, 1.9, 2.7), 1.1), waves((0.4, 0.9, 1.7, 2.3, 3.1), 0.3)])
    pushed = torques + rng.normal(size=(n, 2)) * (0.004, 0.002) * np.sqrt(RATE)
    states = integrated(*double_pendulum(truth, span), (0.3, -0.2, 0, 0), np.column_stack([pushed, t[:-1]]), 8)
    angles = states[:, :2] + 0.005 * rng.normal(size=(n + 1, 2))
    columns = np.column_stack([angles, np.vstack([torques, torques[-1]])]).T
    return Recording(t, dict(zip(("q1", "q2", "u1", "u2"), columns, strict=True)), name=str(seed))


def double_pendulum(truth: Mapping[str, float], span: float) -> tuple[ca.SX, ca.SX, ca.SX]:
    """Rates of its state, by the equations of Lagrange, with symbols of the state, and of torques and time."""
    x, u, q, v = ca.SX.sym("x", 4), ca.SX.sym("u", 3), ca.SX.sym("q", 2), ca.SX.sym("v", 2)
    ends = [(0.15, 0.0), (0.3, 0.12)]
    places = [ca.vertcat(a * ca.sin(q[0]) + b * ca.sin(q[0] + q[1]), -a * ca.cos(q[0]) - b * ca.cos(q[0] + q[1]))
              for a, b in ends]  # fmt: skip
    masses = (1.0, truth["m2"])
    energy = (truth["J1"] * v[0] ** 2 + truth["J2"] * (v[0] + v[1]) ** 2) / 2
    for mass, place in zip(masses, places, strict=True):
        energy += mass * ca.sumsqr(ca.jacobian(place, q) @ v) / 2 - mass * 9.81 * place[1]
    warmth = 1 + 0.6 * (u[2] / span - 0.5)
    rubs = [truth[f"b{i + 1}"] * v[i] + truth[f"c{i + 1}"] * ca.tanh(v[i] / 2e-3) for i in range(2)]
    effort = ca.vertcat(u[0] - warmth * rubs[0], u[1] - rubs[1])
    momentum = ca.gradient(energy, v)
    rest = ca.gradient(energy, q) - ca.jacobian(momentum, q) @ v + effort
    rates = ca.vertcat(v, ca.solve(ca.jacobian(momentum, v), rest))
    return ca.substitute(rates, ca.vertcat(q, v), x), x, u


def drifting(recording: Recording, free: Mapping[str, Parameter]) -> Problem:
    """The double pendulum, with friction of the first joint that is a random walk about its mean."""
    heat, axis = 1 + RandomWalk("heat"), dict(x=(0, 1, 0), y=(1, 0, 0))
    upper = Body("upper", mass=1.0, inertia=(1e-3, free["J1"], free["J1"]))
    lower = Body("lower", mass=free["m2"], inertia=(1e-3, free["J2"], free["J2"]))
    rubs = dict(viscous=heat * free["b1"], coulomb=heat * free["c1"])
    first = Hinge("first", GROUND.frame(**AXES), upper.frame(at=(-0.15, 0, 0), **axis), **rubs)
    frames = upper.frame(at=(0.15, 0, 0), **axis), lower.frame(at=(-0.12, 0, 0), **axis)
    second = Hinge("second", *frames, viscous=free["b2"], coulomb=free["c2"])
    model = Model([upper, lower], [first, second], [Motor(first, "u1"), Motor(second, "u2")], gravity=gravity(9.81))
    return Problem("warm", model, [recording], [HingeAngle(first, "q1"), HingeAngle(second, "q2")], step=0.01)


def position(limit: float, lag: str = "") -> Actuator:
    """MuJoCo's `position` actuator, with a limit of the torque."""
    return lambda p: f'position kp="{p["kp"]}" kv="{KD}" forcerange="-{limit} {limit}"' + lag.format(**p)


def pid(limit: str = "") -> Actuator:
    """MuJoCo's `pid` actuator."""
    return lambda p: f'pid kp="{p["kp"]}" ki="{p["ki"]}" kv="{KD}" forcerange="-1.5 1.5"' + limit


def dcmotor(truth: Mapping[str, float]) -> str:
    """MuJoCo's `dcmotor`, which subtracts its back-EMF from the output of its controller."""
    k = truth["k"]
    stiffness, damping = truth["G"] * SUPPLY * k / RESISTANCE, k**2 / RESISTANCE
    gains = f'input="pos" controller="{stiffness} 0 {damping} 0 0 {SUPPLY}"'
    return f'dcmotor motorconst="{k}" resistance="{RESISTANCE}" {gains} saturation="0 {CURRENT} 0"'


def arm(
    title: str, text: str, actuator: Actuator, own: Mapping[str, float], settings: Mapping[str, Any], **options: Any
) -> Twin:
    """Twin of an arm that an actuator of MuJoCo drives."""
    log, problem = partial(moved, actuator=actuator), partial(driven, settings=settings, **options)
    return Twin(title, text, {**own, **ARM}, log, problem)


PD, HARD = {"kp": 3.0}, dict(estimator="hard")
SHARP, ROUND = dict(kd=KD, rounding=1e-3), dict(kd=KD, rounding=3e-3, limit=1.5)
GEAR = {"w": 2e-3, "J": 0.002, "b": 0.02}
TWINS = {
    "position": arm(
        "`position`, without saturation", "The drive does not reach its torque limit of 5 N m.",
        position(5.0), PD, SHARP | dict(limit=5.0), **HARD,
    ),
    "saturated": arm(
        "`position`, with saturation", "The torque limit is 1.5 N m.",
        position(1.5), PD, SHARP | dict(limit=1.5), **HARD,
    ),
    "lag": arm(
        "`position` with a lag", "Commands pass a first-order lag; the torque limit is 1.5 N m.",
        position(1.5, ' timeconst="{lag}"'), PD | {"lag": 0.02}, SHARP | dict(limit=1.5),
    ),
    "pid": arm(
        "`pid`", "The drive has an integral without a limit; the torque limit is 1.5 N m.",
        pid(), PD | {"ki": 6.0}, ROUND,
    ),
    "windup": arm(
        "`pid` with a limit of the integral", f"The integral stays within {INTEGRAL:g} rad s, which is known.",
        pid(f' imax="{INTEGRAL}"'), PD | {"ki": 6.0}, ROUND | dict(integral_limit=INTEGRAL),
    ),
    "dcmotor": arm(
        "`dcmotor`", f"A voltage drive saturates at {SUPPLY:g} V and at {CURRENT:g} A; its resistance is known.",
        dcmotor, {"G": 2.0, "k": 0.5}, dict(rounding=1e-3),
    ),
    "backlash": Twin(
        "Backlash", "The motor has a 12-bit encoder. The gear's play is 2 mrad, and its stiffness is known.",
        GEAR, geared, with_play, 1.3, {"w": 1e-3},
    ),
    "no backlash": Twin("No backlash", "", GEAR | {"w": 0.0}, geared, with_play, 1.3, {"w": 1e-3}),
    "drift": Twin(
        "Friction that drifts",
        "The friction of a double pendulum's first joint grows by 60 %. Estimates are compared with its means.",
        {"J1": 0.01, "J2": 0.006, "m2": 0.7, "b1": 0.05, "b2": 0.03, "c1": 0.1, "c2": 0.05},
        warming, drifting, 1.0, {"J1": 0.02, "J2": 0.003, "m2": 0.5, **dict.fromkeys(("b1", "b2", "c1", "c2"), 0.02)},
    ),
}  # fmt: skip
"""The last two are also in tables of their own."""
SEEDS = {"no backlash": 100}
"""Logs of a twin; 20 of others."""
REFITS, ONE_PERCENT = 50, 2.326
"""Refits of draws, and the quantile of the normal distribution that a test at 1 % has."""


@cache
def draws() -> list[dict[str, float]]:
    """Draws from the posterior of one log with saturation."""
    twin = TWINS["saturated"]
    problem = twin.declared(twin.log(1000, twin.truth))
    return list(studies.randomize(problem, problem.solve(), REFITS))


def row(found: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    """Intervals that contain the true value, with their share, the root mean square and the largest of z."""
    z = np.array([[one[f"{name} off"] / one[f"{name} error"] for name in names] for one in found])
    inside = np.abs(z) < 1.96
    numbers = f"{inside.sum()} of {z.size}", f"{100 * inside.mean():.1f} %", f"{np.sqrt(np.mean(z**2)):.2f}"
    return [*numbers, f"{np.abs(z).max():.1f}"]


INTERVALS = "95 % intervals with the true value", "share", "RMS of z", "largest z"


def details(twin: Twin, found: Sequence[Outcome]) -> str:
    """Table of the parameters of a twin."""
    rows = [["parameter", "truth", "unit", "mean std. error", *INTERVALS[1:]]]
    for name, value in twin.truth.items():
        error = np.mean([one[f"{name} error"] for one in found])
        rows.append([name, f"{value:g}", UNITS[name], f"{error:.2g}", *row(found, [name])[1:]])
    return table(rows)


def alarms(found: Sequence[Outcome]) -> str:
    """How often a width is taken for backlash."""
    widths = np.array([[one["w off"], one["w error"]] for one in found])
    beyond = [int(np.sum(widths[:, 0] > level * widths[:, 1])) for level in (ONE_PERCENT, 1.96)]
    at_zero = int(np.sum(widths[:, 0] < 1e-9))
    return (
        f"In {len(found)} fits of logs without backlash, {beyond[0]} widths are above {ONE_PERCENT} standard errors, "
        f"where 1 %\nare expected, and {beyond[1]} are above 1.96. {at_zero} widths are at their bound, zero.\n"
    )


def page(parts: Parts) -> str:
    """Fit what is not known, and write about it."""

    def fitted(key: str, count: int, outcome: Callable[[int], Outcome]) -> list[Outcome]:
        return [parts.of(f"{key}/{i}", partial(outcome, i)) for i in range(parts.count(count, key))]

    found = {key: fitted(key, SEEDS.get(key, 20), twin.outcome) for key, twin in TWINS.items()}
    drawn = fitted("refit", REFITS, lambda i: TWINS["saturated"].outcome(i, draws()[i]))
    covered = [key for key in TWINS if key != "no backlash" and found[key]]
    rows = [["device", "logs", *INTERVALS]]
    rows += [[TWINS[key].title, str(len(found[key])), *row(found[key], [*TWINS[key].truth])] for key in covered]
    if drawn:
        rows.append(["draws of `randomize`, refitted", str(len(drawn)), *row(drawn, [*TWINS["saturated"].truth])])
    sections = [f"## {TWINS[key].title}\n\n{TWINS[key].text}\n\n{details(TWINS[key], found[key])}" for key in covered]
    if found["no backlash"]:
        sections.insert(covered.index("backlash") + 1, alarms(found["no backlash"]))
    return "\n".join([INTRO.format(version=mujoco.__version__, table=table(rows)), *sections, END])


INTRO = f"""# Coverage of a servo's parameters

MuJoCo {{version}} simulates logs of an arm with its actuators `position`, `pid` and `dcmotor`, each log with different
commands and noise. Other logs are integrated by Runge–Kutta. Fits of servos use commands and positions, and start from
initial values that are wrong by 40 %. The statistic z is the estimate minus the true value, divided by the standard
error.

{{table}}
MuJoCo uses steps of {STEP:g} s. MuJoCo's implicit integration effectively adds half a step times the damping to the
inertia. With steps of 0.1 ms, this error would exceed one standard error of the armature.
"""
END = f"""## Draws for simulators

One log with saturation is fitted, and `spookid.studies.randomize` draws {REFITS} sets of parameters from the posterior
distribution. MuJoCo simulates a log with each set, and each log is fitted again. The table at the top counts the
intervals that contain the drawn values.

The command `python results/servo_twins.py` wrote this page with spookid {spookid.__version__}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=Path, help="file of what is known, which grows")
    parser.add_argument("--known", action="store_true", help="make the page of what that file has")
    given = parser.parse_args()
    text = page(Parts(given.parts, only_known=given.known))
    (HERE / "servo_twins.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
