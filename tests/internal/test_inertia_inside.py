"""The inside of what ``test_inertia`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_inertia import MASSES, POINTS, of_points, six, some

from spookid import Body, ExponentialEigenvalue, FullInertia, LogCholesky, Parameter, PointMasses
from spookid.mechanics.inertia import at_guess
from spookid.parameter import substitute

KINDS = (LogCholesky, ExponentialEigenvalue)


# --- what it is made of ---


def test_pi_and_the_pseudo_inertia_are_sums_over_masses():
    m, c, inertia, about = of_points()
    for made in (some(), FullInertia(m, c, inertia=six(about), about="origin")):
        np.testing.assert_allclose(at_guess(made.pi), [m, *m * c, *six(about)], atol=1e-15)
        homogeneous = np.column_stack([POINTS, np.ones(5)])
        np.testing.assert_allclose(at_guess(made.pseudo), homogeneous.T * MASSES @ homogeneous, atol=1e-15)
        np.testing.assert_allclose(
            [at_guess(e).item() for _, e, _ in made.quantities], [m, *c, *six(inertia)], atol=1e-15
        )


def test_it_may_hold_pi_as_parameters():
    pi = at_guess(some().pi)
    made = FullInertia.from_pi([Parameter(f"p_{i}", value) for i, value in enumerate(pi)])
    np.testing.assert_allclose(at_guess(made.inertia), of_points()[2], atol=1e-15)
    slopes = at_guess(ca.densify(ca.jacobian(made.pi, ca.vertcat(*ca.symvar(made.pi)))))
    np.testing.assert_allclose(slopes, np.eye(10), atol=1e-14)


def test_frames_are_given_in_the_body_and_kept_from_its_centre_of_mass():
    body = Body("link", inertia=some())
    np.testing.assert_allclose(at_guess(body.frame(at=(1, 2, 3)).at), [1, 2, 3] - of_points()[1])
    plain = Body("link", mass=2, inertia=(1, 1, 1, 0.1, 0.2, 0.3))
    np.testing.assert_allclose(ca.DM(plain.inertia).full(), [[1, 0.1, 0.2], [0.1, 1, 0.3], [0.2, 0.3, 1]])
    np.testing.assert_allclose(at_guess(plain.frame(at=(1, 2, 3)).at), [1, 2, 3])


# --- coordinates ---


def test_log_cholesky_is_a_factor_of_the_pseudo_inertia():
    made = LogCholesky("link", some())
    alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = (p.guess for p in made.coordinates)
    e = np.exp
    U = e(alpha) * np.array([[e(d1), s12, s13, t1], [0, e(d2), s23, t2], [0, 0, e(d3), t3], [0, 0, 0, 1]])
    np.testing.assert_allclose(U @ U.T, at_guess(some().pseudo), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_come_back_and_mean_what_can_exist_wherever_they_are(kind):
    made, rng = kind("link", some()), np.random.default_rng(0)
    x = ca.SX.sym("x", 10)
    y = ca.vertcat(*(ca.vec(part) for part in made.physical(x)))
    function = ca.Function("physical", [x], [y, ca.jacobian(y, x)])
    np.testing.assert_allclose(at_guess(made.pi), at_guess(some().pi), atol=1e-15)
    for _ in range(50):
        where = rng.normal(size=10)
        values, slopes = (part.full() for part in function(where))
        mass, c, inertia = values[0, 0], values[1:4, 0], values[4:, 0].reshape(3, 3)
        moments = np.linalg.eigvalsh(inertia)
        assert mass > 0
        assert 0 < moments[0] <= moments[2] < moments[0] + moments[1]
        back = made.nearest(kind.from_physical(mass, c, inertia), where)
        np.testing.assert_allclose(back, where, atol=1e-7 * np.exp(np.abs(where).max()))
        ends = [function(where + s * 1e-5 * np.eye(10)[i])[0].full()[:, 0] for i in range(10) for s in (1, -1)]
        differences = np.array([(a - b) / 2e-5 for a, b in zip(ends[::2], ends[1::2], strict=True)]).T
        np.testing.assert_allclose(slopes, differences, atol=1e-7 * np.abs(slopes).max())


def test_a_turn_of_no_size_has_a_slope():
    made = ExponentialEigenvalue("link", FullInertia(1.0, inertia=(0.01, 0.02, 0.025)))
    assert [p.guess for p in made.coordinates][7:] == pytest.approx([0, 0, 0], abs=1e-12)
    slope = at_guess(ca.jacobian(made.inertia[0, 1], made.coordinates[9]))
    assert slope.item() == pytest.approx(0.01 - 0.02)  # I_xy = (I_x - I_y) ω_z


def test_point_masses_are_found_again():
    made = PointMasses("link", POINTS, some())
    assert [p.guess for p in made.coordinates] == pytest.approx(MASSES, rel=1e-2)
    assert all(p.lower == 0 for p in made.coordinates)
    values = dict(zip((p.name for p in made.coordinates), MASSES, strict=True))
    np.testing.assert_allclose(substitute(made.inertia, values), of_points()[2], atol=1e-15)


# --- what is refused ---


@pytest.mark.parametrize("kind", KINDS)
def test_inertias_of_files_are_brought_to_the_nearest_that_some_body_has(kind):
    R, c = Rotation.from_rotvec((0.3, -0.5, 0.8)).as_matrix(), np.array([0.1, 0.2, -0.1])
    about = R @ np.diag([0.12, 0.34, 0.6]) @ R.T  # second moments 0.41, 0.19 and -0.07
    nearest = R @ np.diag([0.19 + 4.1e-5, 0.41 + 4.1e-5, 0.6]) @ R.T
    shifted = about + 2.0 * (c @ c * np.eye(3) - np.outer(c, c))
    for made in (
        FullInertia.possible(2.0, c, inertia=about),
        FullInertia.possible(2.0, c, inertia=six(shifted), about="origin"),
    ):
        np.testing.assert_allclose(at_guess(made.inertia), nearest, atol=1e-12)
        np.testing.assert_allclose(at_guess(made.center_of_mass), c)
        np.testing.assert_allclose(at_guess(kind("link", made).inertia), nearest, atol=1e-12)
    kept = FullInertia.possible(1.5, of_points()[1], inertia=of_points()[2])
    np.testing.assert_array_equal(at_guess(kept.pi), at_guess(some().pi))
