"""Coordinates of joints that nothing tells, as the angle of a flywheel of which a tachometer tells the rate.

No sensor shows such a coordinate and no force depends on it: it is cyclic, and may be moved all along a recording with
no change of anything that is measured. A row of the first state keeps it where its initial guess is, which is no
information.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.dead_reckoning import lacking, seen_by
from spookid.assembly.declaration import Declaration
from spookid.assembly.kinematic_fit import state_at
from spookid.data.channels import all_predicted, order
from spookid.mechanics.kinematics import Values
from spookid.parameter import parameters_in

_ROUNDING = 1e-9
"""Share of what is shown or acts that is rounding."""
_TRIALS = 2
"""Motions that are looked at."""


def cyclic(problem: Declaration) -> list[int]:
    """Numbers of the coordinates of a tree of joints that no sensor tells and no force depends on.

    Not looked for where loops close, bodies are free, or what acts is not that of joints alone, but for constraints on
    velocities.
    """
    model = problem.model
    others = model.has_loops or model.contacts or model.holding.contacts or model.loads
    if others or problem.residuals or any(body.free for body in model.bodies):
        return []
    seen = seen_by(model, [c for c in problem.channels if order(c, model) == 0])
    candidates = [i for i in range(len(model.freedoms)) if i not in seen]
    if not candidates:
        return []
    rng, guess = np.random.default_rng(0), problem.guess_on()
    values = {name: value * rng.uniform(0.9, 1.1) for name, value in guess.items()}
    function, n = _felt(problem, values), len(model.freedoms)
    found = set(candidates)
    for _ in range(_TRIALS):
        motion = rng.uniform(-1, 1, (3, n))
        felt = function(*motion).full()
        for i in candidates:
            shifted = motion.copy()
            shifted[0, i] += rng.uniform(0.3, 1.0)
            if not np.allclose(function(*shifted).full(), felt, rtol=_ROUNDING, atol=_ROUNDING * np.max(np.abs(felt))):
                found.discard(i)
    return sorted(found)


def _felt(problem: Declaration, values: Values) -> ca.Function:
    """Of coordinates and their derivatives, (n_s,) each: what they take of the forces, what sensors show, and what
    constraints hold."""
    symbols = [ca.SX.sym(name, len(problem.model.freedoms)) for name in ("d", "rate", "acceleration")]
    state = state_at(problem.model, *symbols)
    held = [tie.rates(problem.model, state.q, state.v) for tie in problem.model.ties]
    shown = ca.vertcat(all_predicted(problem.channels, state), *held)
    parameters = parameters_in([shown], "sensors and constraints", ignore=symbols)
    (shown,) = ca.substitute([shown], list(parameters), [ca.SX(values[p.name]) for p in parameters])
    return ca.Function("felt", symbols, [ca.vertcat(lacking(problem.model, values)(*symbols), shown)])
