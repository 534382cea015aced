"""Numbers of the symbols in the factors: settings, widths of friction, fixed parameters, and sizes of the free ones."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.sampled_recording import SampledRecording
from spookid.kernels.arrays import Array
from spookid.parameter import Parameter, substitute
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant

WIDTH_SHARE = 0.01
"""Default friction width of a coordinate as a share of the root mean square of its slip rate."""


_NEVER = 1e8
"""Widths that no slip rate comes near."""


WIDTH_AT_REST = 0.01
"""Default friction width where no motion is known [rad/s or m/s]."""


_ROUNDING = 1e-15
"""Share of a parameter's span, or of 1, below which a guess of either sign is what rounding left of zero."""


IMPULSE_SHARE = 1e-3
"""Width of |λ| in the load-dependent law as a share of the impulse of the mechanism's weight in one step."""


def slip_widths(problem: Declaration, sampled: tuple[SampledRecording, ...]) -> Array:
    """Friction width of each coordinate, (n_s,) [rad/s or m/s]; see ``Problem.friction_width``."""
    n = len(problem.model.freedoms)
    if problem.friction_width is not None and not problem.sticks_exactly:
        return np.full(n, problem.friction_width)
    if not sampled:
        return np.full(n, WIDTH_AT_REST)
    return width_along(np.vstack([np.diff(e.guess.displacements, axis=0) / e.grid.step for e in sampled]))


def width_along(rates: Array) -> Array:
    """Friction width of each coordinate by default, (n_s,), where they slip with rates (N, n_s)."""
    share = WIDTH_SHARE * np.sqrt(np.mean(rates**2, axis=0))
    return np.where(share > 0, share, WIDTH_AT_REST)


def numbers(
    problem: Declaration, settings: Settings, widths: Array, turning: Array | None = None, touch: float = WIDTH_AT_REST
) -> tuple[Constant, ...]:
    """Every symbol of the factors but the free parameters, with its number."""
    values = problem.guess_on()
    masses = sum(substitute(body.mass, values).item() for body in problem.model.bodies)
    weight = float(masses * np.linalg.norm(substitute(problem.model.gravity, values)))
    free = {p.name for p in problem.free}
    return (
        Constant(settings.step, problem.step),
        Constant(settings.weight, problem.weight),
        *(Constant(settings.slip_width[j], float(width)) for j, width in enumerate(widths)),
        *(
            Constant(settings.turn_width[j], float(width))
            for j, width in enumerate(widths if turning is None else turning)
        ),
        Constant(settings.impulse_width, IMPULSE_SHARE * problem.step * max(weight, 1e-6)),
        Constant(settings.touch_speed, touch),
        Constant(settings.touch_impulse, masses * touch),
        *(Constant(p, values[p.name]) for p in problem.parameters if p.name not in free),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.disturbance)),
        *(Constant(s, 1.0) for s in settings.torques.values()),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.slips)),
        *(
            Constant(settings.sensors[i], o.sigma or 1.0)
            for i, o in enumerate(problem.channels[: settings.sensors.numel()])
        ),
    )


def chosen_numbers(problem: Declaration, values: Mapping[str, float], recording: int) -> tuple[Constant, ...]:
    """Which recording it is, and its own parameters by the symbols that were declared."""
    known = problem.parameter_set
    choice = zip(ca.vertsplit(known.choice), known.chosen(recording).tolist(), strict=True)
    own = [Constant(p, values[known.name_on(p, known.recordings[recording])]) for p in known.own]
    return (*(Constant(symbol, value) for symbol, value in choice), *own)


def magnitude(parameter: Parameter, guess: float) -> float:
    """Typical size of a parameter: that of its guess, else the span of its bounds, else 1.

    A guess of either sign that is below the rounding of its bounds' span, or of 1, is a zero: it is no scale.
    """
    span = parameter.upper - parameter.lower
    otherwise = span if np.isfinite(span) else 1.0
    signed = parameter.lower < 0 < parameter.upper
    return otherwise if guess == 0 or (signed and abs(guess) < _ROUNDING * otherwise) else abs(guess)
