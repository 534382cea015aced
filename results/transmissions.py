"""Friction of joints and motors behind linkages: `python results/transmissions.py` writes transmissions.md, figures.

A few minutes. Beside figures 7, 13, 14 and 15 of Martinez, Tonneau and Mastalli, "System identification under
constraints and disturbance", as twins: the data are made here.
"""

import sys
import time
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from matplotlib.figure import Figure

from spookid import (
    GROUND,
    Body,
    ContinuousFriction,
    Hinge,
    HingeAngle,
    JointTorque,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    gravity,
)

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import legs  # noqa: E402

from spookid.assembly.assembly import assemble  # noqa: E402
from spookid.tables.table import uncertain  # noqa: E402

DPI = 130
BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.5"

# --- the family of friction ---

LAW = {"stiction": 0.5, "stribeck_velocity": 0.6, "breakaway_velocity": 0.08, "coulomb": 0.6, "viscous": 0.25}


def opposing(law: ContinuousFriction, rate: np.ndarray) -> np.ndarray:
    """Friction against the motion [N m]."""
    s = ca.SX.sym("s")
    return -np.ravel(ca.Function("law", [s], [law.effort(ca.SX(0), s, ca.SX(0, 1))])(rate[None]).full())


def family() -> Figure:
    """Each part of the law at several widths, and their sum."""
    figure, rate = Figure(figsize=(10, 6.4), layout="constrained", dpi=DPI), np.linspace(-3, 3, 2001)
    panels = figure.subplots(2, 2)
    parts: list[tuple[str, str, dict[str, float], list[float]]] = [
        ("Coulomb", "coulomb_velocity", {"coulomb": 0.6}, [0.02, 0.1, 0.4]),
        ("stiction and Stribeck's fall", "stribeck_velocity", LAW | {"coulomb": 0, "viscous": 0}, [0.2, 0.6, 1.5]),
        ("viscous", "viscous", {}, [0.1, 0.25, 0.5]),
        ("all together", "breakaway_velocity", LAW, [0.02, 0.08, 0.3]),
    ]
    for panel, (title, name, values, choices) in zip(panels.flat, parts, strict=True):
        for value, style in zip(choices, ("-", "--", ":"), strict=True):
            unit = "N m s" if name == "viscous" else "rad/s"
            law = ContinuousFriction(**{**values, name: value})
            panel.plot(rate, opposing(law, rate), style, lw=1.3, label=f"{name.replace('_', ' ')} {value:g} {unit}")
        panel.set_title(title, fontsize=10, loc="left")
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
    for panel in panels[-1]:
        panel.set_xlabel("rate [rad/s]")
    for panel in panels[:, 0]:
        panel.set_ylabel("friction against the motion [N m]")
    return figure


# --- a leg with a linkage at its knee ---

TRUTH = {
    "J_motor": 2e-3, "sigma_motor": 0.25, "v_motor": 0.5, "c_motor": 0.3, "b_motor": 0.04,
    "c_knee": 0.15, "b_knee": 0.03, "c_rod": 0.04, "I_shank": 0.02, "c_hip": 0.3, "b_hip": 0.1, "J_hip": 5e-3,
}  # fmt: skip
"""Rotors and shank [kg m²], stiction and Coulomb friction [N m], Stribeck rate [rad/s], damping [N m s]."""
HORN, AT, CRANK = (-0.045, 0.0), (-0.02, 0.25), 0.055
"""Rod's end on the shank and the motor's axle on the thigh, (x, z) from the knee; the crank [m]."""
THIGH, SHANK, MASSES = 0.35, 0.35, (2.5, 1.0)
BREAKAWAY = 0.06
QUIET = {"disturbance": 1e-5}
"""Of joints without a motor [N m/√Hz]: what a model lacks is to show in the measured torques."""
ENCODER, TORQUE, STEP = 2e-5, 0.03, 0.005
"""Noise of angles [rad] and of measured torques [N m]; of the fit [s]."""


def leg(p: dict[str, Any], loop: bool = True, ratio: float = 1.0) -> Model:
    """Thigh and shank; the knee's motor drives a crank and a rod, or without the loop the knee by a constant ratio."""
    across, (x, z) = legs.ACROSS, (HORN[0] - AT[0], HORN[1] - AT[1])
    reach = float(np.hypot(x + CRANK, z))
    own = MASSES[0] * THIGH**2 / 12
    thigh = Body("thigh", mass=MASSES[0], inertia=(own, own, own / 10))
    shank = Body("shank", mass=MASSES[1], inertia=(p["I_shank"], p["I_shank"], 1e-3))
    hip_law = ContinuousFriction(coulomb=p["c_hip"], breakaway_velocity=BREAKAWAY, viscous=p["b_hip"])
    hip = Hinge("hip", GROUND.frame(**across), thigh.frame(at=(0, 0, THIGH / 2), **across), loads=[hip_law],
                armature=p["J_hip"])  # fmt: skip
    low, top = thigh.frame(at=(0, 0, -THIGH / 2), **across), shank.frame(at=(0, 0, SHANK / 2), **across)
    motor_law = ContinuousFriction(
        stiction=p["sigma_motor"], stribeck_velocity=p["v_motor"], breakaway_velocity=BREAKAWAY,
        coulomb=p["c_motor"], viscous=p["b_motor"],
    )  # fmt: skip
    knee_law = ContinuousFriction(coulomb=p["c_knee"], breakaway_velocity=BREAKAWAY, viscous=p["b_knee"])
    if not loop:
        knee = Hinge("knee", low, top, loads=[motor_law], armature=p["J_motor"])
        motors = [Motor(hip, "tau_hip", hold="linear"), Motor(knee, "tau_knee", ratio=ratio, hold="linear")]
        return Model([thigh, shank], [hip, knee], motors, gravity=gravity(9.81))
    rod_law = ContinuousFriction(coulomb=p["c_rod"], breakaway_velocity=BREAKAWAY)
    crank = Body("crank", mass=0.1, inertia=(1e-5, 2e-5, 2e-5))
    rod = Body("rod", mass=0.1, inertia=(1e-5, 0.1 * reach**2 / 12, 0.1 * reach**2 / 12))
    axle = thigh.frame(at=(AT[0], 0, AT[1] - THIGH / 2), **across)
    knee = Hinge("knee", low, top, loads=[knee_law], **QUIET)
    motor = Hinge("motor", axle, crank.frame(**across), loads=[motor_law], armature=p["J_motor"])
    upper = Hinge("upper", crank.frame(at=(-CRANK, 0, 0), **across), rod.frame(at=(-reach / 2, 0, 0), **across),
                  loads=[rod_law], **QUIET)  # fmt: skip
    end = shank.frame(at=(HORN[0], 0, SHANK / 2 + HORN[1]), **across)
    lower = Hinge("lower", rod.frame(at=(reach / 2, 0, 0), **across), end, loads=[rod_law], **QUIET)
    motors = [Motor(hip, "tau_hip", hold="linear"), Motor(motor, "tau_knee", hold="linear")]
    return Model([thigh, shank, crank, rod], [hip, knee, motor, upper, lower], motors, gravity=gravity(9.81))


def unknowns() -> dict[str, Parameter]:
    """With guesses 60 % too high."""
    return {name: Parameter(name, 1.6 * v, lower=1e-6 if name[0] != "v" else 0.01) for name, v in TRUTH.items()}


def data(seed: int) -> Recording:
    """What the true leg does under sines of torque, its angles and torques measured."""
    model, t, rng = leg(TRUTH), np.arange(601) * STEP, np.random.default_rng(seed)
    waves = {
        "tau_hip": 3.5 * np.sin(3.1 * t + seed) + 2 * np.sin(7.7 * t),
        "tau_knee": 0.9 * np.sin(2.3 * t + 2 * seed),
    }
    waves["tau_knee"] += 0.5 * np.sin(6.1 * t + seed)
    seen = [HingeAngle(joint, joint.name) for joint in model.joints[:3]]
    problem = Problem("leg", model, observations=seen, step=STEP)
    run = problem.simulate({}, t[-1], {"hip": 0.0, "knee": 0.0}, inputs=Recording(t, waves), substeps=4)
    noise = {o.signal: run.signals[o.signal] + ENCODER * rng.normal(size=t.size) for o in seen}
    noise |= {name: values + TORQUE * rng.normal(size=t.size) for name, values in waves.items()}
    return run.with_signals(**noise)


def measured(model: Model, recordings: list[Recording]) -> Problem:
    """Torques and angles are measured, with the noise that they have."""
    torques = [JointTorque(m.joint, m.signal, sigma=TORQUE, scale=1 / float(m.ratio)) for m in model.motors]
    joints = [joint for joint in model.joints if joint.name in ("hip", "knee", "motor")]
    angles = [HingeAngle(joint, joint.name, sigma=ENCODER) for joint in joints]
    bare = Model(model.bodies, model.joints, gravity=model.gravity)
    return Problem("leg", bare, recordings, [*angles, *torques], step=STEP)


def gearing(motion: Recording | Any) -> np.ndarray:
    """dθ_motor/dθ_knee at each pose, from the rows that close."""
    model = leg(TRUTH)
    q = ca.SX.sym("q", 7 * len(model.bodies))
    at = model.mechanics(q)
    rows = ca.Function("rows", [q], [at.constraint, at.slip])
    found = []
    for pose in motion.q.reshape(len(motion.q), -1):
        G, slip = (np.asarray(part.full()) for part in rows(pose))
        free = np.linalg.svd(G)[2][-2:].T  # the hip's freedom and the knee's
        rates = slip @ free
        still = np.array([rates[0, 1], -rates[0, 0]])  # the hip does not move
        found.append((rates[2] @ still) / (rates[1] @ still))
    return np.array(found)


def reflected(run: Recording) -> Figure:
    """The linkage's Jacobian along the knee, and a motor's friction as the knee feels it."""
    figure = Figure(figsize=(10, 4), layout="constrained", dpi=DPI)
    left, right = figure.subplots(1, 2)
    knee, ratio = np.unwrap(run.signals["knee"]), gearing(run)
    order = np.argsort(knee)
    left.plot(knee[order], ratio[order], color=BLUE, lw=1.3)
    left.set(xlabel="knee [rad]", ylabel="dθ(motor)/dθ(knee)", title="Jacobian of the four-bar")
    law = ContinuousFriction(
        stiction=TRUTH["sigma_motor"],
        stribeck_velocity=TRUTH["v_motor"],
        breakaway_velocity=BREAKAWAY,
        coulomb=TRUTH["c_motor"],
        viscous=TRUTH["b_motor"],
    )
    rate = np.linspace(-6, 6, 1001)
    right.plot(rate, opposing(law, rate), color=GREY, lw=1.2, label="at the motor")
    for share, colour in ((0.02, RED), (0.5, GREEN), (0.98, BLUE)):
        place = order[int(share * (len(order) - 1))]
        J = ratio[place]
        right.plot(rate, J * opposing(law, J * rate), color=colour, lw=1.2, label=f"at the knee, {knee[place]:.2f} rad")
    right.set(xlabel="rate [rad/s]", ylabel="friction [N m]", title="The motor's friction, as the knee feels it")
    right.legend(fontsize=8)
    for panel in (left, right):
        panel.grid(alpha=0.3)
    return figure


# --- torques that three models predict ---


SIGNALS = ("tau_hip", "tau_knee")


def prediction(model: Model, values: dict[str, float], run: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Times, and what the motion of a recording takes of each motor with these values, (N, 2) [N m at the motor]."""
    problem = measured(model, [run])
    known = {p.name: values[p.name] for p in problem.parameters}
    solution = problem.solve(initial=known, fixed=list(known), step_correction=False, estimator="noise")
    labels = assemble(problem).transcription.motion.noise
    columns = [labels.index(f"measurement of {signal}") for signal in SIGNALS]
    lacking = solution.trajectories[0].impulse_residual[:, columns] / STEP  # at the joint that the motor drives
    torques = np.column_stack([run.signals[signal] for signal in SIGNALS])
    return solution.trajectories[0].t, torques + lacking / [float(m.ratio) for m in model.motors]


def friction_of(solution: Solution, names: tuple[str, ...], rates: np.ndarray) -> np.ndarray:
    """Friction at rates with its standard error, over the largest, (2, n); of (σ, v_s, c, b), those that there are."""
    found = []
    for v in rates:
        p = {name[0]: unknown(solution, name) for name in names}
        law = ContinuousFriction(
            stiction=p.get("s", 0), stribeck_velocity=p.get("v", 1.0), breakaway_velocity=BREAKAWAY,
            coulomb=p["c"], viscous=p.get("b", 0),
        )  # fmt: skip
        value = solution(-law.effort(ca.SX(0), ca.SX(v), ca.SX(0, 1)))
        found.append((value.estimate, value.std_err))
    return np.array(found).T


def unknown(solution: Solution, name: str) -> Parameter:
    """A Parameter of that name, by which a solution is asked."""
    return Parameter(name, solution[name].estimate, lower=1e-9)


JOINTS = {
    "motor (actuated)": ("sigma_motor", "v_motor", "c_motor", "b_motor"),
    "knee (passive)": ("c_knee", "b_knee"),
    "rod's ends (passive)": ("c_rod",),
}


def frictions(solution: Solution) -> Figure:
    """What each joint of the linkage rubs with, as it was estimated and as it is."""
    figure, rates = Figure(figsize=(10, 3.6), layout="constrained", dpi=DPI), np.linspace(-2.5, 2.5, 101)
    for panel, (title, names) in zip(figure.subplots(1, 3), JOINTS.items(), strict=True):
        value, error = friction_of(solution, names, rates)
        true = {name[0]: TRUTH[name] for name in names}
        law = ContinuousFriction(
            stiction=true.get("s", 0), stribeck_velocity=true.get("v", 1.0), breakaway_velocity=BREAKAWAY,
            coulomb=true["c"], viscous=true.get("b", 0),
        )  # fmt: skip
        size = opposing(law, rates).max()
        panel.set_ylim(-2.6, 2.6)
        panel.fill_between(rates, (value - 1.96 * error) / size, (value + 1.96 * error) / size, color=BLUE, alpha=0.25)
        panel.plot(rates, value / size, color=BLUE, lw=1.3, label="estimated, 95 %")
        panel.plot(rates, opposing(law, rates) / size, "--", color="k", lw=1, label="true")
        panel.set_title(title, fontsize=10, loc="left")
        panel.set_xlabel("rate [rad/s]")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.axes[0].set_ylabel("friction over its true largest")
    return figure


def compared(run: Recording, found: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Measured and predicted torques of a recording that no model has seen."""
    figure = Figure(figsize=(10, 6.5), layout="constrained", dpi=DPI)
    panels = figure.subplots(len(found), 2, sharex=True, squeeze=False)
    for row, (name, (t, torques)) in zip(panels, found.items(), strict=True):
        for j, (panel, signal) in enumerate(zip(row, SIGNALS, strict=True)):
            panel.plot(run.t, run.signals[signal], color=BLUE, lw=1.0, label="measured")
            panel.plot(t, torques[:, j], color=RED, lw=0.9, label="predicted")
            panel.set_title(f"{name}: {signal.removeprefix('tau_')}", fontsize=10, loc="left")
            panel.grid(alpha=0.3)
        row[0].set_ylabel("torque [N m]")
    panels[0, 0].legend(fontsize=8)
    for panel in panels[-1]:
        panel.set_xlabel("time [s]")
    return figure


def fitted(model: Model, run: Recording, **initial: float) -> Solution:
    """A fit with known noise; its steps are those of the recording, whose error stays in the estimates."""
    return measured(model, [run]).solve(initial=initial, step_correction=False, estimator="noise")


def models(run: Recording, ratio: float) -> dict[str, tuple[Model, dict[str, float], Solution | None]]:
    """Each with its values: what a drawing says, and two that were fitted to a recording."""
    drawing = TRUTH | {name: 1e-9 for name in TRUTH if name[0] in "scbJ"}
    made = {"nominal, without the linkage": (leg(unknowns(), False, ratio), drawing, None)}
    for name, loop in (("fitted without the linkage", False), ("fitted with the linkage", True)):
        model = leg(unknowns(), loop, ratio)
        solution = fitted(model, run)
        print(name, solution.status, solution.message, solution.log_likelihood, flush=True)
        made[name] = (model, solution.values, solution)
    return made


def page(fit: Solution, again: Solution, errors: dict[str, np.ndarray], swing: str, legged: Solution) -> str:
    """Tables."""
    lines = ["| model | hip | knee's motor |", "|---|---|---|"]
    lines += [f"| {name} | {e[0]:.3f} | {e[1]:.3f} |" for name, e in errors.items()]
    rows = [(n, v, fit[n]) for n, v in TRUTH.items()]
    others = [(n, v, legged[n]) for n, v in legs.TRUTH.items()]
    both = [[n, f"{v:g}", *(_found(one[n], v) for one in (fit, again))] for n, v in TRUTH.items()]
    told = {
        "torques": "\n".join(lines),
        "swing": swing,
        "fit": "\n".join(f"| {' | '.join(row)} |" for row in (HEADS, ["---"] * len(HEADS), *both)),
        "leg": _table(others),
        "one": fit.status.value,
        "other": again.status.value,
        "gain": again.log_likelihood - fit.log_likelihood,
        "first": _farthest(rows),
        "second": _farthest([(n, v, again[n]) for n, v in TRUTH.items()]),
        "legged": _farthest(others),
    }
    return PAGE.format(**told)


HEADS = ["parameter", "true", "from initial values 60 % too high", "from the true values"]
"""Of the table of both fits; brackets have the difference from the true value in standard errors."""


def _found(found: Any, true: float) -> str:
    away = f" ({(found.estimate - true) / found.std_err:+.1f})" if np.isfinite(found.std_err) else " (bound)"
    return uncertain(found.estimate, found.std_err) + away


def _farthest(rows: list[tuple[str, float, Any]]) -> str:
    """Of estimates with a standard error."""
    away = {n: (found.estimate - v) / found.std_err for n, v, found in rows if np.isfinite(found.std_err)}
    name = max(away, key=lambda one: abs(away[one]))
    return f"{abs(away[name]):.1f} standard errors ({name})"


def _table(rows: list[tuple[str, float, Any]]) -> str:
    lines = [
        "| parameter | true | estimate | standard error | difference, in standard errors |",
        "|---|---|---|---|---|",
    ]
    for name, true, found in rows:
        apart = (found.estimate - true) / found.std_err
        lines.append(f"| {name} | {true:g} | {found.estimate:.5g} | {found.std_err:.2g} | {apart:+.1f} |")
    return "\n".join(lines)


PAGE = """# Friction and rotors behind linkages

This page repeats figures 7, 8, 13, 14 and 15 of Martinez, Tonneau and Mastalli, *System identification under
constraints and disturbance*, with synthetic data. The command `python results/transmissions.py` writes the page and its
figures. All data on this page are simulated.

## The law of friction (Fig. 7)

The figure shows `ContinuousFriction`, equation (56) of the paper with γ₂ ≥ γ₁, each part for several widths.

![law](transmissions_friction.png)

## A four-bar at the knee (Fig. 13)

The motor of the knee drives a crank on the thigh, and a rod connects the crank with the shank. {swing} Friction of the
motor acts at the knee as J τ(J s), with the transmission ratio J and the knee rate s.

![four-bar](transmissions_fourbar.png)

## Torques that models predict (Fig. 14 and 15)

Motor torques and all angles are measured for 3 s, with noise of 0.03 N m and 0.02 mrad. The table shows the rms of
measured minus predicted torque on another recording [N m at the motor]. The model *nominal* has no friction and no
rotors, and drives the knee by the linkage's mean ratio. The model *without the linkage* also has this mean ratio, with
fitted friction and inertias.

{torques}

![torques](transmissions_torques.png)

A predicted torque is the measured torque minus its estimated error. If the model is right, this error is smaller than
the noise of the torque sensor, as with the true values. Without the linkage, the model has one transmission ratio for
all angles of the knee.

The next table shows two fits with the linkage, which differ only in their initial values. Brackets show the difference
from the true value in standard errors. Friction of the passive joints and of the motor act as one sum, except for the
variation of the transmission ratio. One recording barely separates them, and the likelihood is flat along this
direction.

{fit}

The first fit ended with status {one}, the second with {other}. The log-likelihood of the second minus that of the first
is {gain:.1f}. The largest difference from the true values is {first} in the first fit and {second} in the second. Where
the fits differ by more than their standard errors, these standard errors are too small; the cause is not known. The
time step of 5 ms is not extrapolated here, so that its bias is in the estimates. The figure shows the first fit.

![friction](transmissions_joints.png)

## Three linkages in series (Fig. 4 and 8)

The last example is a leg whose hip, knee and ankle are each driven through a four-bar linkage from the link above
(`tests/legs.py`): nine bodies, twelve hinges, three loops. The torques are known, and joints and motors have encoders
with 0.01 mrad of noise; the recording has 1 s in steps of 5 ms. The fit estimates rotor inertia, damping and Coulomb
friction of each motor, from initial values that are 50 % too high. The largest difference from the true values is
{legged}.

{leg}
"""


def main() -> None:
    """Everything."""
    family().savefig(HERE / "transmissions_friction.png")
    runs = [data(seed) for seed in (1, 2)]
    reflected(runs[0]).savefig(HERE / "transmissions_fourbar.png")
    ratios = gearing(runs[0])
    made = models(runs[0], float(ratios.mean()))
    made["true values, with the linkage"] = (leg(unknowns()), TRUTH, None)
    found = {name: prediction(model, values, runs[1]) for name, (model, values, _) in made.items()}
    errors = {}
    for name, (_, torques) in found.items():
        apart = torques - np.column_stack([runs[1].signals[signal] for signal in SIGNALS])
        errors[name] = np.sqrt(np.nanmean(apart**2, axis=0))
        print(name, errors[name], flush=True)
    found.pop("true values, with the linkage")
    compared(runs[1], found).savefig(HERE / "transmissions_torques.png")
    fit = made["fitted with the linkage"][2]
    again = fitted(leg(unknowns()), runs[0], **TRUTH)
    print("from the true values", again.status, again.log_likelihood, flush=True)
    frictions(fit).savefig(HERE / "transmissions_joints.png")
    values = {name: Parameter(name, 1.5 * value, lower=0) for name, value in legs.TRUTH.items()}
    model = legs.leg(values)
    problem = Problem("leg", model, observations=legs.sensors(model), step=0.005, step_correction=False)
    legged = problem.solve(recordings=[legs.recording(problem, legs.TRUTH, 1.0, 1e-5)], estimator="noise")
    swing = (
        f"Along the motion, the transmission ratio dθ(motor)/dθ(knee) is between {ratios.min():.2f} and "
        f"{ratios.max():.2f}."
    )
    (HERE / "transmissions.md").write_text(page(fit, again, errors, swing, legged), encoding="utf-8")


if __name__ == "__main__":
    began = time.process_time()
    main()
    print(f"{time.process_time() - began:.0f} s of processor time")
