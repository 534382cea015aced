"""Measured tosses of a cube onto a table, from the throw to rest (ContactNets; Pfrommer, Halm and Posa, CoRL 2020).

`problems/data/convert.py` converts the data ("contactnets-cube"): poses at 148 Hz. Mass, inertia and width are the
authors'. The corners are rounded: as contacts they are the centres of balls with a radius of 3.5 mm, and the table is
at -1.7 mm; `results/contacts_cube.py` finds both from samples in which a corner slides. Each fit estimates friction
and restitution from one toss. The process noise is a random impulse of 1 mN s in each step.
"""

import itertools
from collections.abc import Sequence

from data.convert import measured

from spookid import (
    GROUND,
    Body,
    Contact,
    Model,
    Orientation,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    gravity,
)

HALF, RADIUS, TABLE = 0.0524, 3.5e-3, -1.7e-3
"""Half the width of the cube, radius of its corners, and height of the table [m]."""
STEP = 1 / 148


def cube(name: str, recordings: Sequence[Recording] = (), mu: float = 0.2, e: float = 0.2) -> Problem:
    """Tosses with one friction and one restitution."""
    friction = Parameter("mu", mu, lower=0, upper=1, note="friction between cube and table")
    restitution = Parameter("e", e, lower=0, upper=1, note="restitution of its corners")
    body, table = Body("cube", mass=0.37, inertia=(8.1e-4,) * 3, free=True), GROUND.frame(at=(0, 0, TABLE + RADIUS))
    corners = [
        Contact(
            f"corner {i}",
            body.frame(at=tuple((HALF - RADIUS) * sign for sign in signs)),
            table,
            friction=friction,
            restitution=restitution,
            cone="disc",
            threshold=0.2,
        )
        for i, signs in enumerate(itertools.product((-1, 1), repeat=3))
    ]
    return Problem(
        name,
        model=Model([body], contacts=corners, gravity=gravity(9.81)),
        recordings=recordings,
        observations=[
            PointPosition(body.frame(), "xyz", ("x", "y", "z"), sigma=1e-3),
            Orientation(body.frame(), ("qw", "qx", "qy", "qz"), sigma=0.02),
        ],
        step=STEP,
        step_correction=False,
        friction="exact",
        state_weight=1e6,
    )


def toss(number: int) -> Problem:
    """One toss, 0 to 79."""
    return cube(f"toss_{number}", [measured(f"cube_toss_{number}")])


problems = {f"toss_{number}": toss(number) for number in range(3)}
