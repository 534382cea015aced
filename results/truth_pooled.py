"""Right models, pooled: do errors cover, and does a warning mean something? `python results/truth_pooled.py`.

Twins whose model is right are drawn and fitted with all defaults. Each row has the share of intervals of 95 % that hold
the truth, the root mean square of error over standard error, the share of fits with a warning, the shares that chose
deterministic dynamics and recognized correlated noise, and the processor time. `--forced` draws those alone on which a
random force acts: there deterministic dynamics are the wrong choice. Draws are kept in FILE (`--kept`) as
they are made, and the rows are written to the page after each round, so that a run may be stopped and continued.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import casadi as ca
import numpy as np
from continuous_cases import CASES, Case
from scipy.linalg import expm
from scipy.spatial.transform import Rotation
from truth_twins import furuta, pendulum

from spookid import (
    GROUND,
    Body,
    JointPosition,
    JointRate,
    Model,
    Motor,
    Orientation,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Spherical,
    Variational,
)

PAGE = Path(__file__).parent / "truth.md"
TITLE, FORCED = "## Correct models, pooled", "## Correct models with a random force, pooled"
STEP, STIFFNESS = 0.01, 40.0
CAR = {"m": 2.0, "b": 1.0}
INERTIA, DAMPING = np.array([[0.02, 0.002, -0.003], [0.002, 0.03, 0.001], [-0.003, 0.001, 0.04]]), 0.01
UNFORCED = ("no force", "in continuous time")
"""Ends of the names of twins on which no random force acts."""
FAULTS = {"samples.saturated", "samples.outliers"}
"""Warnings of faults that the data of some twins have."""
Posed = tuple[Problem, Mapping[str, float]]


def car(
    seed: int,
    force: float = 0.02,
    noise: float = 1e-4,
    lasting: float = 0.0,
    count: int = 2000,
    counts: float = 0.0,
    range_: float = np.inf,
    wild: float = 0.0,
    speed: bool = False,
) -> Posed:
    """A driven mass on a spring, integrated exactly: a white force [N/√Hz]; noise of its sensor [m or m/s] that lasts
    so long [s], steps of an encoder [m], the end of its range [m], a share of outliers."""
    rng, t = np.random.default_rng(seed), STEP * np.arange(count)
    f = np.repeat(rng.uniform(-3, 3, max(count // 50, 4)), 50)[:count] if count > 200 else rng.uniform(-3, 3, count)
    rates = np.array([[0, 1, 0], [-STIFFNESS / CAR["m"], -CAR["b"] / CAR["m"], 1 / CAR["m"]], [0, 0, 0]])
    fine, x, motion = expm(rates * STEP / 8), np.zeros(2), np.zeros((count, 2))
    kicks = rng.normal(0.0, force * np.sqrt(STEP / 8) / CAR["m"], (count, 8))
    for k in range(count):
        motion[k] = x
        for kick in kicks[k]:
            x = fine[:2, :2] @ x + fine[:2, 2] * f[k] + np.array([0.0, kick])
    kept, error = np.exp(-STEP / lasting) if lasting else 0.0, noise * rng.normal(size=count)
    for k in range(1, count):
        error[k] = kept * error[k - 1] + np.sqrt(1 - kept**2) * error[k]
    error += np.where(rng.random(count) < wild, 0.02 * rng.standard_t(2, count), 0.0)
    shown = np.clip(motion[:, int(speed)] + error, -range_, range_)
    shown = counts * np.round(shown / counts) if counts else shown
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    body = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), body.frame(), viscous=b, stiffness=STIFFNESS)
    model = Model([body], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    sensor = (JointRate if speed else JointPosition)(slide, "x")
    return Problem("car", model, [Recording(t, {"f": f, "x": shown}, name="car")], [sensor], step=STEP), CAR


def attitude(seed: int, torque: float, sigma: float = 2e-3) -> Posed:
    """A driven body in a ball joint with white random torques [N m/√Hz], and its orientation with noise [rad]."""
    rng, dt, fine = np.random.default_rng(seed), 0.01, 20
    t, phases = dt * np.arange(1001), rng.uniform(0, 2 * np.pi, (3, 4, 1))
    u = 0.075 * np.sin(2 * np.pi * np.array([[0.2], [0.5], [0.9], [1.7]]) * t + phases).sum(axis=1)
    at, rate, shown = Rotation.identity(), rng.normal(size=3), []
    for k in range(len(t)):
        shown.append((at * Rotation.from_rotvec(sigma * rng.normal(size=3))).as_quat(scalar_first=True))
        given = u[:, k] + torque / np.sqrt(dt) * rng.normal(size=3)
        for _ in range(fine):
            half = rate + dt / fine / 2 * _acceleration(rate, given)
            at, rate = at * Rotation.from_rotvec(dt / fine * half), rate + dt / fine * _acceleration(half, given)
    signals = {f"q{i}": column for i, column in enumerate(np.array(shown).T)} | {f"u{i}": u[i] for i in range(3)}
    names = ("J_xx", "J_yy", "J_zz", "J_xy", "J_xz", "J_yz")
    truth = {n: float(INERTIA["xyz".index(n[2]), "xyz".index(n[3])]) for n in names} | {"b": DAMPING}
    J = [Parameter(n, 0.03, lower=1e-5) if n[2] == n[3] else Parameter(n, 0.0) for n in names]
    matrix = ca.vertcat(ca.horzcat(J[0], J[3], J[4]), ca.horzcat(J[3], J[1], J[5]), ca.horzcat(J[4], J[5], J[2]))
    body = Body("body", mass=1.0, inertia=matrix)
    ball = Spherical("ball", GROUND.frame(), body.frame(), viscous=Parameter("b", 0.005, lower=0))
    model = Model([body], [ball], [Motor(ball, f"u{i}", coordinate=i) for i in range(3)], gravity=(0, 0, 0))
    sensor = Orientation(body.frame(), ("q0", "q1", "q2", "q3"), sigma=sigma)
    return Problem("body", model, [Recording(t, signals, name="body")], [sensor], step=dt), truth


def _acceleration(rate: np.ndarray, torque: np.ndarray) -> np.ndarray:
    return np.linalg.solve(INERTIA, torque - DAMPING * rate - np.cross(rate, INERTIA @ rate))


def _stepped(make: Callable[..., object], disturbance: float, seed: int) -> Posed:
    twin = make(step=0.01, stepper=Variational())
    return twin.fit([twin.recording(disturbance, seed)]), twin.truth


def _continuous(make: Callable[[], Case], seed: int) -> Posed:
    case = make()
    return case.posed(seed), case.truth


KINDS: Mapping[str, Callable[[int], Posed]] = {
    "mass on a spring, white force": car,
    "the same, no force": partial(car, force=0.0),
    "the same, force hardly seen": partial(car, force=2e-3),
    "sensor noise over 20 ms, white force": partial(car, noise=1e-3, lasting=0.02),
    "sensor noise over 50 ms, no force": partial(car, force=0.0, noise=1e-3, lasting=0.05),
    "encoder of 2 mm": partial(car, noise=1e-6, counts=2e-3),
    "speed alone": partial(car, noise=1e-3, speed=True),
    "40 samples": partial(car, count=40),
    "sensor that saturates": partial(car, range_=0.1),
    "3 % outliers": partial(car, wild=0.03),
    "orientation of a body, torque hardly seen": partial(attitude, torque=3e-5),
    "orientation of a body, white torque": partial(attitude, torque=1e-3),
    "pendulum, white torque": partial(_stepped, pendulum, 1e-4),
    "Furuta pendulum, white torques": partial(_stepped, furuta, 1e-4),
    "Furuta pendulum, 13 parameters": partial(_stepped, partial(furuta, full=True), 1e-4),
    **{f"{make.__name__.replace('_', ' ')} in continuous time": partial(_continuous, make) for make in CASES},
}


def drawn(kind: str, seed: int) -> dict[str, object]:
    """What the fit of one draw says."""
    problem, truth = KINDS[kind](seed)
    began = time.process_time()
    solution = problem.solve()
    seconds = time.process_time() - began
    known = {n: ((solution[n].estimate - value) / solution[n].std_err) for n, value in truth.items()}
    choice = solution.choice
    return {
        "kind": kind,
        "seed": seed,
        "status": solution.status.value,
        "z": {name: float(z) for name, z in known.items() if np.isfinite(z)},
        "warned": sorted({f.code for f in solution.findings if f.severity != "note"}),
        "chosen": bool(choice and choice.is_hard),
        "correlated": bool(choice and choice.correlation_times),
        "seconds": seconds,
    }


def rows(draws: list[dict], title: str) -> Iterator[str]:
    """The section of the page."""
    count = len({draw["seed"] for draw in draws})
    flag = " --forced" if title == FORCED else ""
    yield title
    yield ""
    command = f"`python results/truth_pooled.py{flag}`"
    yield f"This section has {count} seeds and {len(draws)} fits with all defaults, by {command}. The"
    yield "models are correct,"
    yield "so that a warning is a false alarm. Exceptions are outliers and saturated samples, which are"
    yield "errors of the data."
    yield "The rows of the mass on a spring are not independent: for each seed they share the random forces."
    if title == FORCED:
        chosen = [draw for draw in draws if draw["chosen"]]
        missed = sum(any(abs(z) > 1.96 for z in draw["z"].values()) for draw in chosen)
        alarms = sum(bool(set(draw["warned"]) - FAULTS) for draw in draws)
        yield (
            f"Deterministic dynamics were chosen in {len(chosen)} fits, and in {missed} of these a 95 % "
            "interval misses the true value."
        )
        yield f"A model error was named in {alarms} fits, apart from saturated samples and outliers."
    yield ""
    yield (
        "| synthetic data | fits | contain the true value | rms of z | warned | "
        "deterministic | correlated | CPU [s] | warnings |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind in KINDS:
        own = [draw for draw in draws if draw["kind"] == kind]
        if own:
            yield _row(kind, own)
    yield _row("all", draws)
    yield ""


def _row(name: str, own: list[dict]) -> str:
    z = np.array([value for draw in own for value in draw["z"].values()])
    codes = Counter(code for draw in own for code in draw["warned"])
    shares = (100 * np.mean([bool(draw[key]) for draw in own]) for key in ("warned", "chosen", "correlated"))
    cells = [f"{len(own)}", f"{100 * np.mean(np.abs(z) < 1.96):.1f} %" if z.size else "", ""]
    cells[-1] = f"{np.sqrt(np.mean(z**2)):.2f}" if z.size else ""
    cells += [f"{share:.0f} %" for share in shares]
    cells += [
        f"{np.median([draw['seconds'] for draw in own]):.1f}",
        ", ".join(f"`{c}` {n}" for c, n in codes.most_common()),
    ]
    return "| " + " | ".join([name, *cells]) + " |"


def written(page: Path, draws: list[dict], title: str = TITLE) -> None:
    """Put the section in the place of the one before, or at the end, before the stamp."""
    text, mark, stamp = page.read_text(encoding="utf-8").partition("\n*Made at commit")
    before, found, after = text.partition(f"{title}\n")
    rest = after[after.index("\n## ") + 1 :] if found and "\n## " in after else ""
    section = "\n".join(rows(draws, title)) + "\n" * bool(rest)
    page.write_text((before if found else f"{text.rstrip()}\n\n") + section + rest + mark + stamp, encoding="utf-8")


def main() -> None:
    """Draw, fit, keep and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--kept", type=Path, default=Path("truth_pooled.jsonl"))
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--only", nargs="*", default=list(KINDS))
    parser.add_argument("--forced", action="store_true")
    given = parser.parse_args()
    title = FORCED if given.forced else TITLE
    kinds = [kind for kind in given.only if not given.forced or not kind.endswith(UNFORCED)]
    lines = given.kept.read_text(encoding="utf-8").splitlines() if given.kept.exists() else []
    draws = [json.loads(line) for line in lines]
    known = {(draw["kind"], draw["seed"]) for draw in draws}
    for seed in range(given.seeds):
        for kind in (kind for kind in kinds if (kind, seed) not in known):
            draws.append(drawn(kind, seed))
            with given.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(draws[-1]) + "\n")
            print(draws[-1], flush=True)
        written(given.page, draws, title)


if __name__ == "__main__":
    main()
