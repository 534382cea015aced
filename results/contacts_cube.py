"""Measured tosses of a cube: `python results/contacts_cube.py` writes their section of contacts.md (ten minutes).

Needs `SPOOKID_DATA`. Tosses with numbers below 40 are fitted, those from 40 on are predicted.
"""

from __future__ import annotations

import itertools
import os
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    Contact,
    Impact,
    Model,
    Orientation,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    Solution,
    gravity,
)
from spookid.stepping.simulation import StepFailedError

Array = np.ndarray
HERE, TITLE = Path(__file__).parent, "## Tosses of a cube"
HALF, MASS, INERTIA, G = 0.0524, 0.37, 8.1e-4, 9.81
"""Half the width [m], mass [kg], moment of inertia [kg m²] as the data's README has them."""
NAMES = ("x", "y", "z", "qw", "qx", "qy", "qz")
FITTED, UNSEEN = range(40), range(40, 60)
IMPACTS, SLIDES = 6, 6
"""Tosses in the fit of first impacts, and slides on a face, each of which is fitted in both forms."""
SIGNS = np.array(list(itertools.product((-1, 1), repeat=3)))
TRIES = """
### Failed attempts

The following list reports fits of tosses with eight `Contact`s, estimating e and μ together; the script does not repeat
these runs:

- If the corners are modelled as sharp, the estimated corners are up to 5.4 mm above the measured ones. With sensor
  standard deviations of 3 mm, the fit of the first 22 samples of a toss converges to mu = 0.15 ± 0.02 and e = 0.04 ±
  0.04; this e is too low. With 60 samples, 65 contact states alternate between iterations. Relaxed complementarity
  pairs from a cold start reach 500 iterations with a cost of 3e9, and soft contacts stall. A fit that alternates
  between u = 0 and r = 0 does not converge.
- Another fit determines the contact states first. A least-squares fit finds impulses of the corners near the table that
  explain the velocity changes between samples; no impulse pulls, and friction is at most 0.3 times the normal impulse.
  This method gives the contact states to one time step. With these contact states fixed and a random force of 0.16 N, a
  fit of 60 samples with rounded corners needs 7 iterations and 1.7 s. Its residuals are 1.1 mm rms, with mu = 0.18 and
  e = 0.27 (sharp corners: 15 iterations, 4.3 mm, mu = 0.22 and e = 0.21). If the contact states are then free, 34 of
  them alternate. Most of these are after step 40, where the cube rocks by a few millimetres from an edge to a face. If
  the impacts are moved to the steps in which the contact law has them, with a random force of 0.67 N, 32 states still
  alternate, with mu = 0.184 and e = 0.181.
- With the same method, a random force of 0.0005 N (the value at which fits begin) and sharp corners, the residuals are
  25 mm rms, with mu = 0.48 and e = 0.84. A search for the process noise, started from the fit with 0.16 N and its
  contact states, replaces the impacts by a torque (e = 0).
- With rounded corners and no given contact states, the exact form with `state_weight=100` converges over 40 samples and
  three impacts in 6.6 s. It gives mu = 0.08 and e = 0, because the process noise explains the impacts.

- Fits of whole tosses converge with a smoothed contact law, in which only rebounds are switched: [tosses](tosses.md).

Two manual regressions give similar values. Velocities and impulses at the first impacts of 60 and 58 tosses give e =
0.25 and mu = 0.20, with a scatter of 0.07 and 0.06 (sharp corners). Straight lines through the speeds of all 80 slides
on a face give mu = 0.214 ± 0.0015.
"""


def wrapped(text: str) -> str:
    """A paragraph in lines of a page."""
    return "\n".join(textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False))


def tosses() -> tuple[list[Array], float]:
    """Poses of each toss, (N, 7), and the interval between them [s]."""
    data = np.load(Path(os.environ["SPOOKID_DATA"]) / "contactnets-cube" / "tosses_000_079.npz")
    found = [np.hstack([HALF * x[:, :3], x[:, 3:7]]) for x in np.split(data["x"], data["start"][1:-1])]
    return found, float(data["dt"])


def turned(poses: Array) -> Rotation:
    """Orientations."""
    return Rotation.from_quat(poses[:, [4, 5, 6, 3]])


def places(poses: Array, radius: float) -> Array:
    """Lowest points of the balls at all corners, (N, 8, 3) [m]."""
    arms = np.stack([turned(poses).apply((HALF - radius) * s) for s in SIGNS], axis=1)
    return np.asarray(poses[:, None, :3] + arms - [0, 0, radius])


def geometry(runs: list[Array], dt: float) -> tuple[float, float, str]:
    """Radius of the corners and height of the table [m], and what tells them.

    A ball of radius r in a corner is r (|a| + |b| + |c| − 1) above the sharp corner, (a, b, c) the vertical in axes of
    the cube: nothing on a face, 0.41 r on an edge, 0.73 r on a corner.
    """
    slants, heights = list[float](), list[float]()
    for poses in runs:
        z = places(poses, 0.0)[:, :, 2]
        low, steps = np.argmin(z, axis=1), np.arange(1, len(z) - 1)
        rates = np.abs([z[steps, low[1:-1]] - z[steps - 1, low[1:-1]], z[steps + 1, low[1:-1]] - z[steps, low[1:-1]]])
        pushed = MASS * (np.diff(poses[:, 2], 2) / dt + G * dt) > 0.01
        rests = steps[(rates.max(axis=0) < 0.15 * dt) & (z.min(axis=1)[1:-1] < 0.1 * HALF) & pushed]
        down = turned(poses[rests]).inv().apply([0, 0, 1.0])
        slants += (np.abs(down).sum(axis=1) - 1).tolist()
        heights += z.min(axis=1)[rests].tolist()
    rows = np.column_stack([-np.array(slants), np.ones(len(slants))])
    (radius, level), *_ = np.linalg.lstsq(rows, np.array(heights), rcond=None)
    left = np.std(np.array(heights) - rows @ [radius, level])
    said = (
        "The height of a sliding corner is lower if the cube stands on an edge or a corner. The data "
        f"contain {len(slants)} samples in which the table pushes by more than 0.01 N s and the vertical "
        "speed of the lowest corner is below 0.15 m/s. In these samples its height is that of a ball of "
        f"radius {1000.0 * radius:.1f} mm inside the corner, on a table at {1000.0 * level:.1f} mm, to "
        f"{1000.0 * left:.2f} mm. Therefore the corners, which seemed to penetrate the table by 5 mm, are "
        "in fact rounded. The contact points of the model are the centres of these balls, and the contact "
        "planes are higher by their radius."
    )
    return float(radius), float(level), wrapped(said)


def recording(poses: Array, dt: float, name: str) -> Recording:
    """With its time from zero on."""
    return Recording(t=dt * np.arange(len(poses)), signals=dict(zip(NAMES, poses.T, strict=True)), name=name)


def sensors(body: Body, sigma: float, turn: float) -> list[Any]:
    """Of the pose, off by so much [m, rad]."""
    return [PointPosition(body.frame(), "xyz", NAMES[:3], sigma), Orientation(body.frame(), NAMES[3:], turn)]


def cube() -> Body:
    """A free body."""
    return Body("cube", mass=MASS, inertia=(INERTIA,) * 3, free=True)


def first_impact(poses: Array, dt: float, radius: float, level: float) -> tuple[int, int, int] | None:
    """Sample and corner of the first impact, and the last sample before the next one; None if another corner is near,
    or it does not slide on."""
    points = places(poses, radius)
    z, rates = points[:, :, 2] - level, np.diff(points, axis=0) / dt
    near = int(np.argmax(z.min(axis=1) < 2e-3))
    corner = int(np.argmin(z[near]))
    m = near - 1 + int(np.argmax(np.diff(rates[near - 2 : near + 4, corner, 2])))
    jumps = np.diff(rates[:, :, 2], axis=0)
    later = np.flatnonzero(((jumps > 0.12) & (z[1:-1] < 4e-3))[m + 2 :].any(axis=1))
    end = min(m + 3 + int(later[0]) if len(later) else m + 12, m + 12) - 1
    before, after, others = rates[m - 2, corner], rates[m + 2, corner], np.delete(z[m], corner)
    along = before[:2] @ after[:2] / (np.linalg.norm(before[:2]) * np.linalg.norm(after[:2]))
    slides = np.linalg.norm(after[:2]) > 0.3 and along > 0.8
    return (m, corner, end) if slides and end - m >= 6 and others.min() > 8e-3 and before[2] < -0.4 else None


def first_impacts(runs: list[Array], dt: float, radius: float, level: float) -> Solution:
    """The fit of the first impacts of some tosses."""
    chosen = [(k, hit) for k in FITTED if (hit := first_impact(runs[k], dt, radius, level))][:IMPACTS]
    body, e, mu = cube(), Parameter("e", 0.2, lower=0, upper=1), Parameter("mu", 0.2, lower=0, upper=1)
    given = [recording(runs[k][:end], dt, f"toss {k}") for k, (_, _, end) in chosen]
    hits = [
        Impact(
            f"corner {i}",
            body.frame(at=tuple((HALF - radius) * SIGNS[i])),
            GROUND.frame(),
            times={f"toss {k}": [m * dt] if own == i else [] for k, (m, own, _) in chosen},
            restitution=e,
            friction=mu,
        )
        for i in sorted({own for _, (_, own, _) in chosen})
    ]
    model = Model([body], constraints=hits, gravity=gravity(G))
    return Problem("cube", model, given, sensors(body, 5e-4, 5e-3), step=dt).solve(estimator="noise")


def impacts(runs: list[Array], dt: float, radius: float, level: float) -> tuple[dict[str, tuple[float, float]], str]:
    """Restitution and friction of the first impacts of some tosses, and what the fit says."""
    began = time.process_time()
    found = first_impacts(runs, dt, radius, level)
    spent = time.process_time() - began
    values = {name: (found[name].estimate, found[name].std_err) for name in ("e", "mu")}
    print(found.status, values, spent, flush=True)
    told = ", ".join(f"{name} = {value:.3f} ± {error:.3f}" for name, (value, error) in values.items())
    names = ", ".join(motion.name.removeprefix("toss ") for motion in found.trajectories)
    said = (
        f"The fit uses `Impact`s at the first impacts of tosses {names}, in which one corner hits the table and "
        f"slides on. The fit of all these tosses: {found.status.value}, {told} (one standard error; {spent:.0f} s). "
        "The given "
        "standard deviations of the sensors are 0.5 mm and 5 mrad. The fit estimates the process noise. "
        "This noise also explains errors of the angles next to impacts, which arise because the published "
        "angles were median-filtered."
    )
    return values, wrapped(said)


def slide(poses: Array, dt: float, radius: float, level: float) -> tuple[int, int] | None:
    """Samples in which it slides on a face at the end of a toss, at the most 32."""
    flat = np.sort(places(poses, radius)[:, :, 2] - level, axis=1)[:, 3] < 2e-3
    first = len(poses) - int(np.argmin(flat[::-1])) + 2
    speeds = np.linalg.norm(np.diff(poses[first:, :2], axis=0), axis=1) / dt
    count = int(np.argmax(speeds < 0.15)) if np.any(speeds < 0.15) else len(speeds)
    return (first, first + min(count, 32)) if count >= 24 else None


def on_a_face(poses: Array, name: str, dt: float, radius: float, level: float, form: str) -> tuple[Solution, float]:
    """A slide on four corners, and the processor time of its fit."""
    body, mu = cube(), Parameter("mu", 0.3, lower=0, upper=1)
    plane, low = GROUND.frame(at=(0, 0, level + radius)), np.argsort(places(poses, radius)[:, :, 2].mean(axis=0))[:4]
    law: dict[str, Any] = {"friction": mu, "cone": "disc"}
    touching = [Contact(f"corner {i}", body.frame(at=tuple((HALF - radius) * SIGNS[i])), plane, **law) for i in low]
    settings: dict[str, Any] = {"friction": form, "step": dt, "step_correction": False, "state_weight": 1e4}
    model, given = Model([body], contacts=touching, gravity=gravity(G)), [recording(poses, dt, name)]
    problem, began = Problem("cube", model, given, sensors(body, 1e-3, 0.02), **settings), time.process_time()
    found = problem.solve(backend="lm" if form == "exact" else "ipopt")
    spent = time.process_time() - began
    print(name, form, found.status, found["mu"].estimate, found.cost.total, spent, flush=True)
    return found, spent


def faces(runs: list[Array], dt: float, radius: float, level: float) -> tuple[float, str]:
    """Friction of slides on a face in both forms: its mean, and a table."""
    chosen = [(k, span) for k in FITTED if (span := slide(runs[k], dt, radius, level))][:SLIDES]
    rows, values = list[str](), list[float]()
    for k, (first, end) in chosen:
        both = [on_a_face(runs[k][first:end], f"toss {k}", dt, radius, level, form) for form in ("exact", "mpcc")]
        cells = [
            f"{one.status.value} | {one['mu'].estimate:.6f} | {one.cost.total:.8f} | {spent:.1f} s"
            for one, spent in both
        ]
        rows.append(f"| {k} | {end - first} | {' | '.join(cells)} |")
        values += [both[0][0]["mu"].estimate] if all(one.status.value == "converged" for one, _ in both) else []
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    head = (
        '| toss | samples | `"exact"` | mu | cost | processor time | `"mpcc"` | mu | cost | processor time |\n'
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    ends = (
        f"Over the tosses where both forms converge, the mean is mu = {mean:.3f} ± {error:.3f}; this error "
        "comes from the scatter between tosses."
    )
    begins = (
        "At the end of tosses the cube slides on a face. Four `Contact`s with a friction disc model this "
        "slide, in both forms of friction (`state_weight=1e4`):"
    )
    return mean, "\n\n".join([begins, "\n".join([head, *rows]), ends])


def launched(poses: Array, dt: float) -> tuple[Array, Array]:
    """Pose and velocity at the first of some samples in flight."""
    n = len(poses)
    t = dt * np.arange(n)
    line = np.polyfit(t, poses[:, :3] + 0.5 * np.array([0, 0, G]) * t[:, None] ** 2, 1)
    r, m = turned(poses), n // 2
    spin = np.polyfit(t - t[m], (r[m].inv() * r).as_rotvec(), 1)
    q = (r[m] * Rotation.from_rotvec(spin[1]) * Rotation.from_rotvec(-spin[0] * t[m])).as_quat()
    return np.array([[*line[1], q[3], *q[:3]]]), np.array([[*line[0], *spin[0]]])


def missed(
    runs: list[Array], dt: float, radius: float, level: float, known: tuple[float, float], flight: float
) -> list[float]:
    """Of simulated tosses: rms error of positions and angles from the first impact on, medians over tosses, the median
    error of the place of rest, and how many come to rest on the face and within 0.1 rad.

    Args:
        known: mu and e.
        flight: radius with which the end of the flight is found [m].
    """
    body, plane = cube(), GROUND.frame(at=(0, 0, level + radius))
    law = {"friction": known[0], "restitution": known[1], "threshold": 0.2, "cone": "disc"}
    corners = [
        Contact(f"corner {i}", body.frame(at=tuple((HALF - radius) * s)), plane, **law) for i, s in enumerate(SIGNS)
    ]  # type: ignore[arg-type]
    model, rows = Model([body], contacts=corners, gravity=gravity(G)), list[list[float]]()
    problem = Problem("cube", model, [], sensors(body, 1e-3, 0.02), step=dt, friction="exact", step_correction=False)
    for k in UNSEEN:
        poses = runs[k]
        n = int(np.argmax(places(poses, flight)[:, :, 2].min(axis=1) - level < 2e-3)) - 1
        duration = (len(poses) - 1) * dt
        try:
            run = problem.simulate(duration=duration, initial=launched(poses[:n], dt), substeps=1)
        except StepFailedError as error:
            print(k, error, flush=True)
            continue
        apart = np.linalg.norm(run.q[: len(poses), 0, :3] - poses[:, :3], axis=1)
        angles = (turned(run.q[: len(poses), 0]).inv() * turned(poses)).magnitude()
        rms = [float(np.sqrt(np.mean(one[n:] ** 2))) for one in (apart, angles)]
        rows.append([*rms, float(apart[-1]), float(angles[-1] < 0.1)])
    found = np.array(rows)
    return [*np.median(found[:, :3], axis=0).tolist(), float(found[:, 3].sum()), float(len(found))]


def predictions(
    runs: list[Array], dt: float, radius: float, level: float, found: tuple[float, float], face: float
) -> str:
    """A table of unseen tosses."""
    published = (0.18, 0.125)
    rows = [
        "| corners | mu | e | position, rms | angle, rms | place of rest | end on the face within 0.1 rad |\n"
        "|---|---|---|---|---|---|---|"
    ]
    for what, own, known in (
        ("sharp", 0.0, published),
        ("rounded", radius, published),
        ("rounded", radius, found),
        ("rounded", radius, (face, found[1])),
        ("rounded", radius, (face, published[1])),
    ):
        position, angle, rest, count, done = missed(runs, dt, own, level, known, radius)
        cells = f"{1e3 * position:.0f} mm | {angle:.2f} rad | {1e3 * rest:.0f} mm | {count:.0f} of {done:.0f}"
        rows.append(f"| {what} | {known[0]:.3f} | {known[1]:.3f} | {cells} |")
        print(rows[-1], flush=True)
    said = (
        f"`problem.simulate` predicts the tosses {UNSEEN[0]} to {UNSEEN[-1]}, which were not fitted, from the "
        "samples before the first impact to the end. The table shows medians over these tosses; the errors "
        "are computed from the first impact on:"
    )
    ends = (
        "The values mu = 0.18 and e = 0.125 are those of the authors of the data. Tosses with a "
        "simulation step without a solution are omitted; the last column shows how many tosses were "
        "simulated. The estimate of e predicts the rotation of the cube slightly better than the authors' "
        "value, but neither value of mu predicts how far the cube slides. Impacts of one corner and slow "
        "slides on a face give a larger mu than whole tosses. One friction coefficient and one "
        "restitution coefficient therefore do not describe this cube on this table within the standard "
        "errors above."
    )
    return "\n\n".join([wrapped(said), "\n".join(rows), wrapped(ends)])


def section() -> str:
    """All parts."""
    runs, dt = tosses()
    radius, level, said = geometry([runs[k] for k in FITTED], dt)
    print(radius, level, flush=True)
    at = runs, dt, radius, level
    values, hit = impacts(*at)
    mean, table = faces(*at)
    seen = predictions(*at, (values["mu"][0], values["e"][0]), mean)
    head = (
        "The data are poses of the cube of `contactnets-cube` at 148 Hz; `python results/contacts_cube.py` writes "
        "this section."
    )
    parts = [TITLE, head, said, hit, table, seen]
    return "\n\n".join(parts) + f"\n{TRIES}"


def main() -> None:
    """The section in the place of the one that is there."""
    page = HERE / "contacts.md"
    before = page.read_text(encoding="utf-8").split(TITLE)[0].rstrip()
    page.write_text(before + "\n\n" + section(), encoding="utf-8")


if __name__ == "__main__":
    main()
