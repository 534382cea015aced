"""Contacts that push and rub in fits: the law and its derivatives, and what is found of twins."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Contact,
    Hinge,
    JointPosition,
    Model,
    Orientation,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Spook,
    Status,
    Variational,
    gravity,
    load,
)

G, SLOPE = 9.81, 0.35
QUATERNION = ("qw", "qx", "qy", "qz")
DOWN = np.array([np.cos(SLOPE), 0, -np.sin(SLOPE)])


def ball(restitution: Any, recordings: list[Recording] | None = None, **settings: Any) -> Problem:
    """A ball that falls along a rail on the floor."""
    body, up = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3)), {"x": (0, 0, 1), "y": (0, 1, 0)}
    rail = Prismatic("rail", GROUND.frame(**up), body.frame(**up))
    floor = Contact("floor", body.frame(), GROUND.frame(), restitution=restitution)
    model = Model([body], [rail], contacts=[floor], gravity=gravity(G))
    given = {"step": 0.005, "friction": "exact", "step_correction": False, **settings}
    return Problem("ball", model, recordings or [], [JointPosition(rail, "z")], **given)


def bounced(seed: int, noise: float = 1e-3) -> Recording:
    """Three bounces of a ball with e = 0.7."""
    rng = np.random.default_rng(seed)
    height = 0.3 + 0.02 * rng.random()
    run = ball(0.7).simulate(duration=1.0, initial={"rail": (height, 0.0)}, substeps=1)
    z = np.array(run.signals["z"]) + noise * rng.standard_normal(len(run.t))
    return Recording(t=run.t, signals={"z": z}, name=f"drop {seed}")


def block(mu: Any, cone: str, recordings: list[Recording] | None = None, points: int = 1, **settings: Any) -> Problem:
    """A block on one point, or on the corners of its base, on an incline that falls towards +x."""
    body = Body("block", mass=2.0, inertia=(0.01, 0.02, 0.02), free=True)
    plane = GROUND.frame(x=tuple(DOWN), y=(0, 1, 0))
    places = [(0.0, 0.0, 0.0)] if points == 1 else [(x, y, -0.02) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    contacts = [Contact(f"point {i}", body.frame(at=at), plane, friction=mu, cone=cone) for i, at in enumerate(places)]
    sensors: list[Any] = [PointPosition(body.frame(), "xyz", ("x", "y", "z"))]
    if points > 1:
        sensors.append(Orientation(body.frame(), ("qw", "qx", "qy", "qz"), 2e-3))
    model = Model([body], contacts=contacts, gravity=gravity(G))
    given = {"step": 0.005, "friction": "exact", "step_correction": False, **settings}
    return Problem("block", model, recordings or [], sensors, **given)


def on_the_slope(height: float = 0.0) -> tuple[Array, Array]:
    """A pose on the incline, and a velocity down and across it."""
    normal, half = np.array([np.sin(SLOPE), 0, np.cos(SLOPE)]), SLOPE / 2
    pose = np.array([[*(height * normal), np.cos(half), 0, np.sin(half), 0]])
    return pose, np.array([[*(1.5 * DOWN + [0, 0.6, 0]), 0, 0, 0]])


def slid(cone: str, points: int = 1, duration: float = 0.6) -> Recording:
    """A block that slides, and sticks at last, with 1 mm of noise."""
    twin = block(0.6, cone, points=points)
    run = twin.simulate(duration=duration, initial=on_the_slope(0.0 if points == 1 else 0.02), substeps=1)
    rng = np.random.default_rng(0)
    noisy = {name: np.array(values) + 1e-3 * rng.standard_normal(len(run.t)) for name, values in run.signals.items()}
    return Recording(t=run.t, signals=noisy, name="slide")


def cart(c: Any, e: Any, recordings: list[Recording] | None = None, **settings: Any) -> Problem:
    """A cart on a rail with dry friction, and a stop at one end."""
    body = Body("cart", mass=1.0, inertia=(1e-3, 1e-3, 1e-3))
    rail = Prismatic("rail", GROUND.frame(), body.frame(), coulomb=c)
    end = GROUND.frame(at=(-0.3, 0, 0), x=(0, 1, 0), y=(0, 0, 1))
    model = Model([body], [rail], contacts=[Contact("stop", body.frame(), end, restitution=e)], gravity=gravity(G))
    given = {"step": 0.005, "step_correction": False, **settings}
    return Problem("cart", model, recordings or [], [JointPosition(rail, "x")], **given)


def stopped(noise: float = 1e-4, **settings: Any) -> Recording:
    """A cart that rubs with 1.2 N, rebounds at 0.6 of its speed, and comes to rest."""
    twin = cart(1.2, 0.6, friction="exact", **settings)
    run = twin.simulate(duration=1.2, initial={"rail": (0.1, -1.7)}, substeps=1)
    x = np.array(run.signals["x"])
    return Recording(t=run.t, signals={"x": x + noise * np.random.default_rng(0).standard_normal(len(x))})


# --- simulation ---


@pytest.mark.parametrize("stepper", [Variational(), Spook()], ids=lambda s: s.name)
def test_a_ball_rebounds_at_e_times_its_speed(stepper: Any) -> None:
    apexes = []
    for step in (0.004, 0.001):
        run = ball(0.6, stepper=stepper, step=step).simulate(duration=0.75, initial={"rail": (0.5, 0.0)}, substeps=1)
        z = np.array(run.signals["z"])
        assert z.min() > (-1e-12 if isinstance(stepper, Variational) else -0.015)
        apexes.append(z[run.t > 0.4].max())
    # A rebound at e v rises to e² of the height; the time of the impact is known to a step.
    errors = np.abs(np.array(apexes) - 0.36 * 0.5)
    assert errors[1] < 0.004
    assert errors[0] < 0.015


def test_a_ball_below_the_threshold_comes_to_rest() -> None:
    run = ball(0.9).simulate(duration=1.0, initial={"rail": (4e-4, 0.0)}, substeps=1)
    assert np.ptp(np.array(run.signals["z"])[20:]) < 1e-12


def test_coulombs_cone_slides_as_its_equation_does() -> None:
    errors = []
    for step in (0.002, 0.001):
        problem = block(0.3, "disc", step=step)
        run = problem.simulate(duration=0.3, initial=on_the_slope(), substeps=1)
        moved = run.q[-1, 0, :3] - run.q[0, 0, :3]

        def motion(_: float, x: Array) -> Array:
            way = x[2:] / np.hypot(*x[2:])
            pull = np.array([np.sin(SLOPE), 0.0]) - 0.3 * np.cos(SLOPE) * way
            return np.concatenate([x[2:], G * pull])

        known = solve_ivp(motion, (0, run.t[-1]), [0, 0, 1.5, 0.6], rtol=1e-10, atol=1e-12).y[:2, -1]
        errors.append(np.abs([moved @ DOWN - known[0], moved[1] - known[1]]).max())
    assert errors[0] < 1e-3
    assert errors[1] < 0.6 * errors[0]  # of first order


def test_a_box_may_rub_more_across_than_a_disc() -> None:
    runs = [block(0.3, cone).simulate(duration=0.2, initial=on_the_slope(), substeps=1) for cone in ("box", "disc")]
    slower, faster = (np.linalg.norm(run.v[-1, 0, :3]) for run in runs)
    assert slower < faster - 0.05


# --- fits ---


@pytest.fixture(scope="module")
def bounces() -> Solution:
    """The restitution of a ball."""
    return ball(Parameter("e", 0.5, lower=0, upper=1), [bounced(0)]).solve()


def test_restitution_of_a_ball_has_honest_errors(bounces: Solution) -> None:
    assert bounces.status is Status.CONVERGED
    assert 1e-4 < bounces["e"].std_err < 2e-3
    assert abs(bounces["e"].estimate - 0.7) < 3 * bounces["e"].std_err


def test_touches_are_told(bounces: Solution) -> None:
    problem = ball(Parameter("e", 0.5, lower=0, upper=1), [bounced(0)])
    spans = problem.touches(bounces)
    assert len(spans) == 3
    assert bounces.complementarity_residual < 1e-9
    velocities = bounces.trajectories[0].v[:, 0, 2]
    for span in spans:  # what is lifted and borne, with mean velocities at the steps
        k = int(np.argmin(np.abs(bounces.trajectories[0].t - span.begin)))
        steps = round((span.end - span.begin) / 0.005)
        lifted = 0.7 * (velocities[k + steps + 1] - velocities[k - 1])
        assert span.impulse[0] == pytest.approx(lifted + 0.7 * G * 0.005 * (steps + 2 - 0.5), rel=0.05)
        assert span.impulse[1:] == (0, 0)
    with pytest.raises(ProblemError, match="solution of this problem"):
        block(0.6, "box", points=4).touches(bounces)


@pytest.mark.study
def test_restitution_is_covered() -> None:
    runs = [ball(Parameter("e", 0.5, lower=0, upper=1), [bounced(seed)]).solve() for seed in range(20)]
    known = [run["e"] for run in runs if run.status is Status.CONVERGED]
    assert len(known) >= 18
    scores = np.abs([(e.estimate - 0.7) / e.std_err for e in known])
    assert np.mean(scores < 1.96) > 0.85
    assert scores.max() < 4


@pytest.mark.parametrize("cone", [pytest.param("box", marks=pytest.mark.study), "disc"])
def test_both_forms_find_the_same_friction(cone: str) -> None:
    mu, recording = Parameter("mu", 0.4, lower=0, upper=2), slid(cone, duration=0.4)
    exact = block(mu, cone, [recording], state_weight=1e4).solve()
    pairs = block(mu, cone, [recording], state_weight=1e4, friction="mpcc").solve(backend="ipopt")
    assert exact.status is pairs.status is Status.CONVERGED
    assert "stationary" in pairs.detail
    assert pairs["mu"].estimate == pytest.approx(exact["mu"].estimate, abs=1e-6)
    assert exact["mu"].estimate == pytest.approx(0.6, abs=2e-3)


@pytest.mark.study
def test_corners_that_share_the_load_find_it_too() -> None:
    mu = Parameter("mu", 0.4, lower=0, upper=2)
    found = block(mu, "box", [slid("box", points=4)], points=4).solve()
    assert found.status is Status.CONVERGED
    assert abs(found["mu"].estimate - 0.6) < 3 * found["mu"].std_err


CARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("lm", {}),
    "exact": ("lm", {"friction": "exact"}),
    "given weight": ("lm", {"friction": "exact", "state_weight": 1e4}),
    "mpcc": ("ipopt", {"friction": "mpcc", "state_weight": 1e4}),
    "spook, given weight": (
        "lm",
        {"friction": "exact", "state_weight": 1e6, "stepper": Spook(multipliers="lifted")},
    ),
    "spook": ("lm", {"stepper": Spook()}),
    "spook, exact": ("lm", {"stepper": Spook(), "friction": "exact"}),
}


@pytest.mark.parametrize("how", CARTS)
def test_joint_friction_beside_a_contact(how: str) -> None:
    backend, settings = CARTS[how]
    c, e = Parameter("c", 0.8, lower=0), Parameter("e", 0.5, lower=0, upper=1)
    stepper = {"stepper": settings.get("stepper", Variational())}
    found = cart(c, e, [stopped(**stepper)], **settings).solve(backend=backend)
    assert found.status is Status.CONVERGED, found.detail
    for name, true in (("c", 1.2), ("e", 0.6)):
        assert abs(found[name].estimate - true) < 3 * found[name].std_err
    assert found["c"].std_err < 0.05
    assert found["e"].std_err < 0.02
    if settings.get("friction"):  # it stands still at last; smooth friction creeps
        assert np.ptp(found.trajectories[0].q[-20:, 0, 0]) < 1e-12


@pytest.mark.parametrize("cone", ["box", "disc"])
def test_a_block_that_slides_by_spook(cone: str) -> None:
    twin = block(0.6, cone, stepper=Spook())
    run = twin.simulate(duration=0.4, initial=on_the_slope(), substeps=1)
    noise = np.random.default_rng(0).standard_normal((len(run.t), 3))
    seen = {name: np.array(run.signals[name]) + 1e-3 * noise[:, i] for i, name in enumerate("xyz")}
    mu = Parameter("mu", 0.4, lower=0, upper=2)
    found = block(mu, cone, [Recording(t=run.t, signals=seen)], stepper=Spook(), state_weight=1e4).solve()
    assert found.status is Status.CONVERGED, found.detail
    assert found["mu"].estimate == pytest.approx(0.6, abs=3e-3)


@pytest.mark.parametrize("friction", ["exact", "smooth"])
def test_a_fit_that_did_not_converge_is_printed_and_saved(friction: str, tmp_path: Path) -> None:
    found = ball(Parameter("e", 0.1, lower=0, upper=1), [bounced(0)], friction=friction).solve(max_iterations=1)
    assert found.status is Status.MAX_ITERATIONS
    assert "max_iterations" in found.summary()
    assert isinstance(found.notices, tuple)
    assert str(found)
    found.save(tmp_path / "ball")
    assert load(tmp_path / "ball").notices == found.notices


def test_what_is_refused() -> None:
    recording = bounced(0)
    e = Parameter("e", 0.5, lower=0, upper=1)
    with pytest.raises(ProblemError, match="'mpcc' or backend 'lm'"):
        ball(e, [recording], friction="smooth").solve(backend="ipopt")
    with pytest.raises(ProblemError, match='friction="exact"'):
        ball(0.7, friction="smooth").simulate(duration=0.1, initial={"rail": (0.3, 0.0)})
    body = Body("arm", mass=1, inertia=(1, 1, 1))
    joint = Hinge("joint", GROUND.frame(), body.frame(), limits=(0, 1))
    limited = Problem("limited", Model([body], [joint], gravity=gravity(G)), [recording], [JointPosition(joint, "z")])
    with pytest.raises(ProblemError, match="limits of joints"):
        limited.solve()


def test_samples_that_are_not_at_the_steps_are_refused():
    e = Parameter("e", 0.5, lower=0, upper=1)
    for step in (0.01, 0.0025, None):
        with pytest.raises(ProblemError, match="a sample at each step"):
            ball(e, [bounced(0)], step=step).solve()


def die(mu: Any, e: Any, recordings: list[Recording] | None = None) -> Problem:
    """A cube whose eight corners touch the floor."""
    body = Body("die", mass=0.4, inertia=(8e-4,) * 3, free=True)
    law = {"friction": mu, "restitution": e, "cone": "disc", "threshold": 0.2}
    corners = [
        Contact(f"corner {i}", body.frame(at=tuple(0.05 * np.array(signs))), GROUND.frame(), **law)
        for i, signs in enumerate(product((-1, 1), repeat=3))
    ]
    sensors = [PointPosition(body.frame(), "xyz", ("x", "y", "z"), 1e-3), Orientation(body.frame(), QUATERNION, 0.01)]
    given = {"step": 0.005, "friction": "exact", "step_correction": False, "state_weight": 1e6}
    return Problem("die", Model([body], contacts=corners, gravity=gravity(G)), recordings or [], sensors, **given)


def test_a_tossed_cube_shows_friction_and_restitution() -> None:
    turn = np.array([0.9, 0.3, 0.2, 0.25]) / np.linalg.norm([0.9, 0.3, 0.2, 0.25])
    start = np.array([[0, 0, 0.12, *turn]]), np.array([[0.8, 0.2, -0.5, 2.0, -4.0, 1.0]])
    run = die(0.2, 0.3).simulate(duration=0.2, initial=start, substeps=1)
    noise = np.random.default_rng(0).standard_normal((len(run.t), 7)) * [*[5e-4] * 3, *[2e-3] * 4]
    seen = {name: np.array(run.signals[name]) + noise[:, i] for i, name in enumerate(("x", "y", "z", *QUATERNION))}
    mu, e = Parameter("mu", 0.4, lower=0, upper=1), Parameter("e", 0.1, lower=0, upper=1)
    found = die(mu, e, [Recording(t=run.t, signals=seen)]).solve()
    assert found.status is Status.CONVERGED, found.detail
    for name, true in (("mu", 0.2), ("e", 0.3)):
        assert abs(found[name].estimate - true) < 3.5 * found[name].std_err, name
