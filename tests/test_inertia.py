"""Inertias that can exist: what they are made of, their coordinates, what is refused, what is known beforehand."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import full_inertia
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    Ellipsoid,
    ExponentialEigenvalue,
    FullInertia,
    Hinge,
    LogCholesky,
    Model,
    Parameter,
    PointMasses,
    ProblemError,
    gravity,
)
from spookid.mechanics.inertia import at_guess
from spookid.parameter import substitute

KINDS = (LogCholesky, ExponentialEigenvalue)
POINTS = np.array([[0.1, 0.02, -0.05], [-0.03, 0.12, 0.04], [0.06, -0.07, 0.09], [-0.05, -0.02, -0.11], [0.2, 0, 0.1]])
MASSES = np.array([0.3, 0.5, 0.2, 0.4, 0.1])


def of_points(points=POINTS, masses=MASSES):
    """Mass, centre of mass, inertia about it and about the origin, summed over point masses."""
    m = masses.sum()
    c = masses @ points / m
    about = [
        sum(w * (r @ r * np.eye(3) - np.outer(r, r)) for w, r in zip(masses, points - o, strict=True)) for o in (c, 0)
    ]
    return m, c, *about


def six(I):
    return I[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


def some() -> FullInertia:
    m, c, inertia, _ = of_points()
    return FullInertia(m, c, inertia=inertia)


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


def test_exponential_eigenvalue_is_as_in_the_paper():
    made = ExponentialEigenvalue("link", some())
    sigma, *rest = (p.guess for p in made.coordinates)
    h, L, omega = np.array(rest[:3]), np.exp(rest[3:6]), np.array(rest[6:])
    from scipy.linalg import expm

    R = expm(np.array([[0, -omega[2], omega[1]], [omega[2], 0, -omega[0]], [-omega[1], omega[0], 0]]))
    D = np.diag([L[1] + L[2], L[0] + L[2], L[0] + L[1]])
    about = R @ D @ R.T + (h @ h * np.eye(3) - np.outer(h, h)) / np.exp(sigma)
    np.testing.assert_allclose(about, of_points()[3], atol=1e-15)
    np.testing.assert_allclose(h, of_points()[0] * of_points()[1])


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


# --- what is known beforehand ---


def test_within_is_a_share_of_each_entry_and_of_the_extent_where_entries_may_vanish():
    m, c, inertia, about = of_points()
    made = LogCholesky("link", some(), within=0.3)
    rows = {belief.title: belief for belief in made.beliefs}
    extent = np.trace(inertia) / 6
    assert [b.mean for b in made.beliefs] == pytest.approx([m, *m * c, *six(about)])
    assert rows["mass"].sigma == pytest.approx(0.3 * m)
    assert rows["I_yy"].sigma == pytest.approx(0.3 * about[1, 1])
    assert rows["h_x"].sigma == pytest.approx(0.3 * max(m * c[0], np.sqrt(m * extent)))
    assert rows["I_xy"].sigma == pytest.approx(0.3 * max(abs(about[0, 1]), extent))
    other = FullInertia(2 * m, c, inertia=inertia)
    assert LogCholesky("link", some(), within=0.1, around=other).beliefs[0].mean == pytest.approx(2 * m)


def test_sigma_is_that_of_coordinates():
    made = ExponentialEigenvalue("link", some(), sigma=[0.1 * i for i in range(1, 11)])
    assert made.coordinates[3].prior == (made.coordinates[3].guess, pytest.approx(0.4))


def test_room_is_what_an_ellipsoid_leaves():
    inside = Ellipsoid((0.05, 0.02, 0), (0.3, 0.2, 0.25), turn=(0.1, 0.2, 0.3))
    made = LogCholesky("link", some(), inside=inside)
    away = (POINTS - [0.05, 0.02, 0]) @ Rotation.from_rotvec([0.1, 0.2, 0.3]).as_matrix() / [0.3, 0.2, 0.25]
    assert made.room.guess == pytest.approx(1 - MASSES @ np.sum(away**2, axis=1) / MASSES.sum())
    assert made.room.lower == 0


# --- what is refused ---


def unknown(value: float) -> Parameter:
    return Parameter("unknown", value)


REFUSED = [
    (lambda: FullInertia(0, inertia=(1, 1, 1)), "has mass 0 kg; a mass must be positive"),
    (lambda: FullInertia(1, inertia=(1, 1, 2.1)), "the largest above the sum of the others, which no body has"),
    (
        lambda: FullInertia(1, inertia=(1, 1, 1, 2, 0, 0)),
        "has principal moments -1, 1, 3 kg m² .* not all positive",
    ),
    (lambda: FullInertia(1, (1, 0, 0), inertia=(0.5, 0.5, 0.5), about="origin"), "not all positive"),
    (lambda: FullInertia(1, inertia=(1, 1)), "three principal moments, six entries or 3 x 3, not 2 x 1"),
    (lambda: FullInertia(1, inertia=(1, 1, 1), within=-1), "has within=-1; give a positive share"),
    (lambda: FullInertia(1, inertia=(1, 1, 1), within=30), "has within=30; give a positive share below 10, as 0.3"),
    (lambda: LogCholesky("link", some(), around=some()), "has around= without within=; give within="),
    (
        lambda: LogCholesky("link", FullInertia(1, inertia=(1, 1, 1), within=0.3)),
        "LogCholesky 'link' takes numbers of its guess, not its within=; give within= to the LogCholesky",
    ),
    (lambda: FullInertia(unknown(-1.0), inertia=(1, 1, 1), within=0.3), "within 0.3 of what has mass -1 kg, which no"),
    (lambda: FullInertia(unknown(0.0), inertia=(1, 1, 1), within=0.3), "within 0.3 of what has mass 0 kg, which no"),
    (
        lambda: FullInertia(1, inertia=(1, 1, unknown(2.1)), within=1),
        "within 1 of what has principal moments 1, 1, 2.1",
    ),
    (lambda: FullInertia.possible(1, inertia=(1, 1, unknown(1))), "possible is given a Parameter; give numbers"),
    (lambda: FullInertia.possible(1, inertia=(-1, -1, -1)), "possible is given principal moments -1, -1, -1 kg m²"),
    (lambda: FullInertia.possible(1, inertia=(1, 1, 3), extent=2), "has extent=2; give a share above 0, at most 1"),
    (lambda: FullInertia.possible(0, inertia=(1, 1, 1)), "FullInertia has mass 0 kg; a mass must be positive"),
    (lambda: LogCholesky("link", FullInertia(1, inertia=(1, 1, 2))), "largest not below the sum of the others; raise"),
    (lambda: LogCholesky("a link", some()), "Parameter name 'a link_alpha' is not an identifier"),
    (lambda: LogCholesky("link", some(), sigma=(1, 2)), r"sigma \(1, 2\); give one positive number, or 10"),
    (lambda: LogCholesky("link", some(), inside=Ellipsoid((1, 0, 0), (0.1, 0.1, 0.1))), "no body inside its ellipsoid"),
    (lambda: Ellipsoid((0, 0, 0), (1, 1, 0)), "all must be positive"),
    (lambda: PointMasses("link", [(1, 0, 0), (0, 1, 0), (0, 0, 0), (1, 1, 0)], some()), "points in a plane"),
    (lambda: PointMasses("link", [*POINTS[:4], (np.nan, 0, 0)], some()), "points a list; give finite numbers"),
    (lambda: PointMasses("link", 5 * np.vstack([np.eye(3), -np.eye(3)]), some()), "nearest has the mass .* not 1.5 kg"),
    (lambda: PointMasses("link", "corners", some()), r"points 'corners'; give finite numbers \(n, 3\)"),
    (lambda: PointMasses("link", POINTS.T, some()), r"points of shape \(3, 5\); give a row a point, \(n, 3\)"),
    (lambda: Body("link", mass=1, inertia=some()), "has a mass beside that of its FullInertia; leave it out"),
    (lambda: Body("link", inertia=(1, 1, 1)), "needs a mass and an inertia"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_no_body_has_is_refused_by_name(make, words):
    with pytest.raises(ProblemError, match=rf"test_inertia\.py:\d+: .*{words}"):
        make()


def test_a_lamina_may_be_given_rounded():
    FullInertia(1, inertia=(0.1234567, 0.1, 0.2234568))
    FullInertia(1, inertia=(0.00012, 0.00034, 0.000461))  # as in URDF files


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


def test_its_name_is_short():
    assert repr(some()) == "<FullInertia of 1.5 kg>"
    assert repr(LogCholesky("link", some())) == "<LogCholesky of about 1.5 kg>"


def test_expressions_of_a_model_without_it_are_as_they_were():
    body = Body("link", mass=1.1, inertia=full_inertia())
    model = Model([body], [Hinge("hinge", GROUND.frame(), body.frame(at=(0.1, 0, 0)))], gravity=gravity(9.81))
    assert model.beliefs == ()
    assert len(body.expressions()) == 2
