"""A residual of one's own, with public names only: the energy of a pendulum falls by what its friction takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Residual,
    Spook,
    State,
    Status,
    gravity,
    load,
)

MASS, LENGTH, G, STEP = 0.5, 0.2, 9.82, 0.01
TRUTH = {"J": 0.005, "b": 0.004}

J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2")
b = Parameter("b", 1e-3, lower=0, unit="N m s")
rod = Body("rod", mass=MASS, inertia=(1e-4, J, J))
tip = rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), tip, viscous=b, disturbance=1e-4)
model = Model(bodies=[rod], joints=[hinge], gravity=gravity(G))


def energy(state: State) -> Any:
    """Kinetic and potential [J]."""
    height = state.position(rod.frame())[2]
    return (J + MASS * LENGTH**2) * state.rate(hinge) ** 2 / 2 + MASS * G * height


def power(now: State, after: State) -> Any:
    """What the energy gains beyond what friction takes [W]."""
    taken = b * (now.rate(hinge) ** 2 + after.rate(hinge) ** 2) / 2
    return (energy(after) - energy(now)) / now.step + taken


def problem(seed: int = 0, **settings: Any) -> Problem:
    """A release, from the differential equation."""
    t = np.arange(0, 6, STEP)
    inertia = TRUTH["J"] + MASS * LENGTH**2

    def slope(_: float, x: Any) -> list[float]:
        return [x[1], (-MASS * G * LENGTH * math.sin(x[0]) - TRUTH["b"] * x[1]) / inertia]

    angle = solve_ivp(slope, (0, 6), [2.0, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y[0]
    noise = 1e-3 * np.random.default_rng(seed).standard_normal(len(t))
    observations = [HingeAngle(hinge, "theta")]
    return Problem("swing", model, [Recording(t, {"theta": angle + noise})], observations, step=STEP, **settings)


def test_derivatives_are_those_of_differences() -> None:
    now, after = (State.symbols(model) for _ in range(2))
    row = Residual("energy", power, sigma=1e-3).rows(now, after)
    x = ca.vertcat(now.q, now.v, after.q, after.v, J, b)
    function = ca.Function("row", [x, now.step], [row, ca.jacobian(row, x)])
    rng = np.random.default_rng(0)
    still = np.array([0, 0, 0, 1.0, 0, 0, 0, *np.zeros(6)])  # at zero rotation and at rest
    for state in (still, rng.standard_normal(13)):
        at = np.concatenate([state, state, [0.005, 0.004]])
        exact = function(at, STEP)[1].full()[0]
        for i, slope in enumerate(exact):
            ahead, behind = (float(function(at + s * 1e-6 * np.eye(len(at))[i], STEP)[0]) for s in (1, -1))
            assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-5)


def test_it_sharpens_what_the_angle_alone_says(tmp_path: Path) -> None:
    alone = problem().solve()
    both = problem(residuals=[Residual("energy", power, sigma=1e-2)]).solve()
    assert both.status is Status.CONVERGED
    assert both.cost.residual > 0
    assert both.cost.total == both.cost.state + both.cost.observation + both.cost.residual
    off = [abs(solution["b"].estimate - TRUTH["b"]) for solution in (alone, both)]
    assert off[1] < off[0]
    assert both["b"].std_err < 0.9 * alone["b"].std_err
    for name, value in TRUTH.items():
        assert abs(both[name].estimate - value) < 3 * both[name].std_err
    both.save(tmp_path / "out")
    assert "user's residuals over their sigma" in " ".join(load(tmp_path / "out").summary(verbose=True).split())


def test_a_covariance_weighs_as_its_sigma() -> None:
    pairs = [
        Residual("energy", lambda now, after: [power(now, after), 2 * power(now, after)], sigma=(1e-2, 3e-2)),
        Residual(
            "energy", lambda now, after: [power(now, after), 2 * power(now, after)], covariance=np.diag([1e-4, 9e-4])
        ),
    ]
    one, other = (problem(residuals=[residual]).solve() for residual in pairs)
    assert one.values == pytest.approx(other.values, rel=1e-9)


def test_hard_rows_hold() -> None:
    """A joint that gives way, but not along its axle."""
    along = Residual("along the axle", lambda s: s.position(rod.frame())[1], kind="hard")
    settings: dict[str, Any] = {"stepper": Spook(), "state_weight": 1e4}
    for residuals, most in (([], math.inf), ([along], 1e-12)):
        solution = problem(residuals=residuals, **settings).solve()
        assert solution.status is Status.CONVERGED
        assert np.abs(solution.trajectories[0].q[:, 0, 1]).max() < most


def test_hard_rows_that_cannot_hold_are_no_solution() -> None:
    fixed = rod.frame(at=(-LENGTH, 0, 0))
    off = Residual("elsewhere", lambda s: s.position(fixed)[0] - 0.1, kind="hard")
    solution = problem(residuals=[off], state_weight=1e4).solve()
    assert solution.status is Status.STALLED
    assert "the equality constraint 'residual elsewhere' is violated by" in solution.message


def test_inequalities_hold_and_leave_alone_what_they_do_not_touch() -> None:
    above = Residual("above", lambda s: 1e3 * (b - 0.005) + 0 * s.q[0], kind="inequality")
    solved = problem(residuals=[above], state_weight=1e4).solve(backend="ipopt")
    assert solved.status is Status.CONVERGED
    assert solved["b"].estimate == pytest.approx(0.005, rel=1e-4)
    below = Residual("below", lambda s: 1e3 * (0.005 - b) + 0 * s.q[0], kind="inequality")
    free = problem(state_weight=1e4).solve()
    idle = problem(residuals=[below], state_weight=1e4).solve(backend="ipopt")
    assert idle["b"].estimate == pytest.approx(free["b"].estimate, rel=1e-5)
    assert idle["b"].std_err == pytest.approx(free["b"].std_err, rel=1e-2)


@pytest.mark.parametrize(
    ("residual", "complaint"),
    [
        (lambda: Residual("r", power), "is soft; give it one of sigma and covariance"),
        (lambda: Residual("r", power, kind="hard", sigma=1), "is hard; give it neither sigma nor covariance"),
        (lambda: Residual("r", lambda: 0, sigma=1), "needs a function of one state, or of two neighbouring ones"),
        (lambda: Residual("r", power, sigma=(1, 2)), r"has sigma \(1, 2\); give one positive number, or 1"),
        (lambda: Residual("r", power, covariance=-1), "covariance must be a symmetric, positive definite 1 x 1 matrix"),
        (lambda: Residual("r", lambda s: s.nothing, sigma=1), "cannot be evaluated .*nothing"),
        (lambda: Residual("r", lambda s: [], sigma=1), "has no rows"),
        (lambda: Residual("r", lambda s: b - 1, kind="hard"), "has a constraint that no state moves"),
    ],
)
def test_what_is_refused(residual: Any, complaint: str) -> None:
    with pytest.raises(ProblemError, match=rf"test_energy_residual\.py:\d+: Residual 'r'(: | ){complaint}"):
        problem(residuals=[residual()])


def test_two_of_one_name_are_refused() -> None:
    pair = [Residual("energy", power, sigma=sigma) for sigma in (1e-2, 1e-3)]
    with pytest.raises(ProblemError, match="Residual 'energy' has the name of another one"):
        problem(residuals=pair)


def test_inequalities_are_not_for_every_backend() -> None:
    positive = Residual("positive", lambda s: b + 0 * s.q[0], kind="inequality")
    with pytest.raises(ProblemError, match="'positive' is an inequality, which backend 'lm' cannot hold; use backend"):
        problem(residuals=[positive]).solve()
