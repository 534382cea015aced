"""The way to near a maximum of the likelihood: states, parameters and noise at once, one linearization a step.

Far from the maximum neither the best states of each trial nor the whole score are worth their price. A step is

    min gᵀδ + ½ δᵀBδ in θ,    η = ½ log(squares after δ / freedom),

with B of the Schur complement of the states, the slope g of the squares and of the logarithms, and noise by MacKay's
rule (Neural Computation 4, 1992): its squares over its rows less their leverage. States follow both by the linear step
of their linearization. Slopes of the logarithms, which take a sweep, change slowly, and are found out again where
parameters have changed by much; without them the scale of a mechanism would collapse. What has to fall are squares over
the new sizes, and these logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.trial import INDEPENDENT, Trial
from spookid.transcription.parameter_constraints import LinearConstraints

_NEAR, _THERE = 30.0, 1.0
"""Promise of −log L of a step after which the whole score is worth its price; and before which it is, if the states are
the best ones."""
_FAR = 0.5
"""Change of a parameter, as a share of its magnitude, from which on slopes of the logarithms are found out again."""
_SHORT = 0.9
"""Share of the way to a bound that a parameter takes at the most: on one it may take from others all that shows them,
as friction of none does from the rate at which it fades."""
_CLEARLY = 10.0
"""What the likelihood gains by a size of its own, of −log L, that makes Akaike's one of no account."""
_ACCEPT, _ROUNDING = 1e-3, 1e-2
"""Share of its promise that a step must keep, but for this much of −log L."""


@dataclass(frozen=True, eq=False)
class Room:
    """What bounds a step."""

    magnitudes: Array
    """Of the parameters, (n_p,)."""
    lower: Array
    upper: Array
    """In θ and η, (n_p + n_s,)."""
    linear: LinearConstraints | None


@dataclass(eq=False)
class Approach:
    """What is kept from step to step."""

    slopes: Array = field(default_factory=lambda: np.zeros(0))
    """Half the gradient of the logarithms in θ, (n_p,), where it was found out last."""
    at: Array = field(default_factory=lambda: np.zeros(0))
    """θ there, (n_p,)."""
    promised: float = np.inf
    """What the last step has promised of −log L."""

    @property
    def arrays(self) -> dict[str, Array]:
        """What ``of`` reads."""
        return {"far": np.array(self.promised), "far slopes": self.slopes, "far at": self.at}

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Approach | None:
        """From ``arrays``; None if there are none."""
        return cls(arrays["far slopes"], arrays["far at"], float(arrays["far"])) if "far" in arrays else None

    @property
    def is_near(self) -> bool:
        """True if the last step promised little."""
        return self.promised < _NEAR

    def step(
        self, here: Trial, room: Room, gap: float, tried: Callable[[Array], Trial | None]
    ) -> tuple[Trial, float] | None:
        """The next trial and the length of the step; None if the maximum is near, a step does not keep its promise, or
        it promises no less than the one before.

        Args:
            gap: what a linear step of the states takes from |r|² where they are the best.
            tried: gives the trial a step in θ and η (n_p + n_s,) leads to, None if there is none.
        """
        if self.is_near:
            return None
        n, score = len(room.magnitudes), here.marginal.gradient + self._counted(here, room)
        information, freedom = here.marginal.information, np.maximum(here.freedom, 1e-9)
        still, others = here.squares, here.states.least - float(here.squares.sum())  # those over what is given
        metric = np.maximum(np.diag(information), 1 / room.magnitudes**2)
        try:
            damped = information + np.diag(INDEPENDENT * metric)
            step = bounded_step(damped, score, _SHORT * room.lower[:n], _SHORT * room.upper[:n], room.linear)
        except NotPositiveDefiniteError:
            return None
        ahead = np.maximum(here.squares_after(step), np.finfo(float).tiny)
        noise = np.clip(np.log(ahead / freedom) / 2, room.lower[n:], room.upper[n:])
        volume = float((score - here.marginal.gradient) @ step)
        change = 2 * float(here.marginal.gradient @ step) + float(step @ information @ step)
        rest = others + change + float(still.sum() - ahead.sum())
        scale = np.exp(-2 * noise)
        before, after = float(scale @ still) + others, float(scale @ ahead) + rest
        promised = (before - after) / 2 - volume
        whole = promised + float((1 - scale) @ still) / 2 - float(freedom @ noise)
        if whole <= _THERE and abs(here.states.cost - here.states.least) <= gap:
            self.promised = whole
            return None
        if not whole < self.promised:  # such steps lead round in circles
            return None
        self.promised = whole
        if (trial := tried(np.concatenate([step, noise]))) is None:
            return None
        if (before - trial.states.least) / 2 - volume < _ACCEPT * promised - _ROUNDING:
            return None
        return trial, float(np.sqrt(step @ (metric * step)))

    def _counted(self, here: Trial, room: Room) -> Array:
        """What the logarithms add to the score, (n_p,)."""
        if not here.marginal.density:
            return np.zeros(len(room.magnitudes))
        now = here.point.parameters
        if not len(self.at) or np.any(np.abs(now - self.at) > _FAR * room.magnitudes):
            self.slopes, self.at = here.marginal.volume, now
        return self.slopes


def clearly_apart(here: Trial) -> list[bool]:
    """Which sizes the likelihood clearly prefers one for each of their names.

    By sizes of their own it gains at least what its expectation over these states does (EM).
    """
    squares = here.marginal.ahead(np.append(np.zeros(len(here.marginal.gradient)), 1.0)[:, None])
    found = []
    for size in here.sizes:
        gain = 0.0
        if size.kind == "disturbance" and size.given is None and len(size.names) > 1:
            expected = here.marginal.expected
            r = np.array([float(squares[name].item()) for name in size.keys if name in squares])
            f = np.array([expected[name] for name in size.keys if name in squares])
            if np.all(r > 0) and np.all(f > 0):
                gain = float(f @ (np.log(r.sum() / f.sum()) - np.log(r / f))) / 2
        found.append(gain > _CLEARLY * (len(size.names) - 1))
    return found
