"""Notices of inertias that were given as numbers and that no body has."""

from __future__ import annotations

from collections.abc import Iterator

import casadi as ca

from spookid.mechanics.inertia import impossible
from spookid.mechanics.model import Model
from spookid.parameter import is_constant
from spookid.results.notices import UNPHYSICAL


def given_inertias(model: Model) -> Iterator[str]:
    """One for each body.

    They are no error: of a body that turns about one axis the other moments are nobody's business, and are often made
    up.
    """
    for body in model.bodies:
        if is_constant(body.inertia) and (wrong := impossible(ca.DM(body.inertia).full())):
            yield (
                f"{UNPHYSICAL} the inertia given for body {body.name!r} ({body.place}), which {wrong}; correct it if "
                "the body turns about that axis."
            )
