"""Inertias that can exist: what they are made of, their coordinates, what is refused, what is known beforehand."""

from __future__ import annotations

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


# --- coordinates ---


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
    (lambda: FullInertia(1, inertia=(1, 1, 2.1)), "the largest is above the sum of the others, which no body has"),
    (
        lambda: FullInertia(1, inertia=(1, 1, 1, 2, 0, 0)),
        "principal moments -1, 1, 3 kg m² .* not all positive",
    ),
    (lambda: FullInertia(1, (1, 0, 0), inertia=(0.5, 0.5, 0.5), about="origin"), "not all positive"),
    (lambda: FullInertia(1, inertia=(1, 1)), "three principal moments, six entries or 3 x 3, not 2 x 1"),
    (lambda: FullInertia(1, inertia=(1, 1, 1), within=-1), "has within=-1; give a positive share"),
    (lambda: FullInertia(1, inertia=(1, 1, 1), within=30), "has within=30; give a positive share below 10, as 0.3"),
    (lambda: LogCholesky("link", some(), around=some()), "has around= without within=; give within="),
    (
        lambda: LogCholesky("link", FullInertia(1, inertia=(1, 1, 1), within=0.3)),
        "LogCholesky 'link' uses numbers of its `guess=`, not its within=; give within= to the LogCholesky",
    ),
    (lambda: FullInertia(unknown(-1.0), inertia=(1, 1, 1), within=0.3), "within=0.3 is not physical: the mass is -1"),
    (lambda: FullInertia(unknown(0.0), inertia=(1, 1, 1), within=0.3), "within=0.3 is not physical: the mass is 0 kg"),
    (
        lambda: FullInertia(1, inertia=(1, 1, unknown(2.1)), within=1),
        "within=1 is not physical: principal moments 1, 1, 2.1",
    ),
    (lambda: FullInertia.possible(1, inertia=(1, 1, unknown(1))), "possible is given a Parameter; give numbers"),
    (lambda: FullInertia.possible(1, inertia=(-1, -1, -1)), "possible is given principal moments -1, -1, -1 kg m²"),
    (lambda: FullInertia.possible(1, inertia=(1, 1, 3), extent=2), "has extent=2; give a share above 0, at most 1"),
    (lambda: FullInertia.possible(0, inertia=(1, 1, 1)), "FullInertia has mass 0 kg; a mass must be positive"),
    (
        lambda: LogCholesky("link", FullInertia(1, inertia=(1, 1, 2))),
        "the largest must be below the sum of the others; raise",
    ),
    (lambda: LogCholesky("a link", some()), "Parameter name 'a link_alpha' is not an identifier"),
    (lambda: LogCholesky("link", some(), sigma=(1, 2)), r"sigma \(1, 2\); give one positive number, or 10"),
    (lambda: LogCholesky("link", some(), inside=Ellipsoid((1, 0, 0), (0.1, 0.1, 0.1))), "no body inside its ellipsoid"),
    (lambda: Ellipsoid((0, 0, 0), (1, 1, 0)), "all must be positive"),
    (lambda: PointMasses("link", [(1, 0, 0), (0, 1, 0), (0, 0, 0), (1, 1, 0)], some()), "points in a plane"),
    (lambda: PointMasses("link", [*POINTS[:4], (np.nan, 0, 0)], some()), "points a list; give finite numbers"),
    (lambda: PointMasses("link", 5 * np.vstack([np.eye(3), -np.eye(3)]), some()), "nearest has the mass .* not 1.5 kg"),
    (lambda: PointMasses("link", "corners", some()), r"points 'corners'; give finite numbers \(n, 3\)"),
    (lambda: PointMasses("link", POINTS.T, some()), r"points of shape \(3, 5\); give a row a point, \(n, 3\)"),
    (lambda: Body("link", mass=1, inertia=some()), "has a mass, and its FullInertia has one, too; leave the mass out"),
    (lambda: Body("link", inertia=(1, 1, 1)), "needs a mass and an inertia"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_no_body_has_is_refused_by_name(make, words):
    with pytest.raises(ProblemError, match=rf"test_inertia\.py:\d+: .*{words}"):
        make()


def test_a_lamina_may_be_given_rounded():
    FullInertia(1, inertia=(0.1234567, 0.1, 0.2234568))
    FullInertia(1, inertia=(0.00012, 0.00034, 0.000461))  # as in URDF files


def test_its_name_is_short():
    assert repr(some()) == "<FullInertia of 1.5 kg>"
    assert repr(LogCholesky("link", some())) == "<LogCholesky of about 1.5 kg>"


def test_expressions_of_a_model_without_it_are_as_they_were():
    body = Body("link", mass=1.1, inertia=full_inertia())
    model = Model([body], [Hinge("hinge", GROUND.frame(), body.frame(at=(0.1, 0, 0)))], gravity=gravity(9.81))
    assert model.beliefs == ()
    assert len(body.expressions()) == 2
