"""Dry friction in three forms of one law, for the inverse dynamics of any stepper.

A coordinate of a joint with bound L = μ Σ|λ_i| + h c feels the impulse Z L along it, |Z| ≤ 1. At the end of a step,
with slip rate s₊, its ratio is z:

    sticks, s₊ = 0, or slips, z = −sign s₊.

With a width w that only sets the scale of slip, the law is the equation z = clip(z − s₊/w, −1, 1), or the two pairs
0 ≤ σ ⟂ 1 + z ≥ 0 and 0 ≤ σ − s₊/w ⟂ 1 − z ≥ 0 with σ the slip's positive part over w (2.24, with D̄ = [Ḡ; −Ḡ] and no
regularization: what sticks does not creep).

In steps that know the slip s at their beginning, too, Z is that over the step: a joint that turns rubs the other way
until it does (``_over_step``), so that friction is of second order through every reversal. In others Z = z.

Where the bound differs by direction, L₊ forward and L₋ backward, L is the mean of both and K = (L₊ − L₋)/2 their lean:
the impulse is Z L − K, from −L₊ to L₋, and everything else stays as it is.

- ``smooth``: Z is the mean of −tanh(s/w) from s to s₊ where both are known, and |λ| = √(λ² + δ²). A joint that should
  stick creeps at a fraction of w.
- ``exact``: z is unknown at every step, and the law holds as a hard row that is s = 0 or z = ∓1, or both at the corner
  between them, whichever a solver finds to hold. (Eliminated instead, the clip stalls every descent method.)
- ``mpcc``: z and σ are unknown at every step, and the pairs are left to a solver for complementarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.mechanics.friction_loads import mean_sign, smooth_absolute, smooth_sign
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping.impulses import Settings, Slips
from spookid.transcription.factor import Box, Factor, Group, Kind

_SWITCHING = 10.0
"""Widths that weigh slips against ratios where a solver switches between sticking and slipping: too few take the noise
of a slip that sticks for a slip."""

Form = Literal["smooth", "exact", "mpcc"]


@dataclass(frozen=True)
class DryFriction:
    """One of the forms; n_r coordinates of the model's joints have dry friction."""

    form: Form = "smooth"

    def unknowns(self, model: Model) -> int:
        """Unknowns of each step: none, z, or (z, σ)."""
        return {"smooth": 0, "exact": 1, "mpcc": 2}[self.form] * len(rubbing(model))

    def start(self, model: Model, slips: Array, sharpness: float) -> Array:
        """Unknowns (N, n) from relative slips s/w of all coordinates, (N, n_s); below ``sharpness`` they stick."""
        relative = slips[:, rubbing(model)]
        parts = [-np.clip(relative / sharpness, -1.0, 1.0), np.maximum(relative, 0.0)]
        return np.hstack(parts)[:, : self.unknowns(model)]

    def bounds(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """L = μ Σ|λ_i| + h c of every coordinate, 0 where there is no dry friction, (n_s,) [N s or N m s]."""
        limits = ca.SX(len(model.freedoms), 1)
        for joint in (joint for joint in model.joints if joint.rubs):
            own, load = model.freedoms_of(joint), multipliers[model.rows_of(joint), 0]
            bound = joint.bound(slips.position[own, 0], slips.before[own, 0])
            borne = self._borne(settings, load)
            for i in (i for i, rubs in enumerate(joint.rubbing) if rubs):
                limits[own.start + i] = bound.load[i] * ca.sum1(borne) + settings.step * bound.constant[i]
        return ca.densify(limits)

    def leans(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """K of every coordinate, structurally zero where friction is the same in both directions, (n_s,)."""
        borne = self._borne(settings, multipliers)
        return stacked(lean(joint, model, settings, slips, borne) for joint in model.joints)

    def _borne(self, settings: Settings, multipliers: ca.SX) -> ca.SX:
        # |λ| itself only where a solver can do with its edge.
        return ca.fabs(multipliers) if self.form == "exact" else smooth_absolute(multipliers, settings.impulse_width)

    def ratios(self, model: Model, settings: Settings, slips: Slips, unknowns: ca.SX) -> ca.SX:
        """Z of every coordinate, 0 where there is no dry friction, (n_s,)."""
        ratios = ca.SX(len(model.freedoms), 1)
        for i, j in enumerate(rubbing(model)):
            sides = [slip[j] for slip in slips.rubbing]
            if self.form == "smooth":
                ratios[j] = -_sign(sides, settings.slip_width[j])
            else:
                ratios[j] = _over_step(unknowns[i], sides, settings.turn_width[j])
        return ca.densify(ratios)

    def impulses(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX, unknowns: ca.SX) -> ca.SX:
        """Z L − K of every coordinate, (n_s,) [N s or N m s].

        Args:
            slips: slip rates of all joints.
            multipliers: constraint impulses λ, (n_g,), which load the friction.
            unknowns: this step's unknowns of the law.
        """
        free = self.ratios(model, settings, slips, unknowns) * self.bounds(model, settings, slips, multipliers)
        leans = self.leans(model, settings, slips, multipliers)
        return free - leans if leans.nnz() else free

    def along(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX, unknowns: ca.SX) -> ca.SX:
        """The ratio over the step and that at its end, L, s₊/w and K of every coordinate, (5 n_s,)."""
        over = end = self.ratios(model, settings, slips, unknowns)
        if self.form != "smooth":
            end = ca.SX(len(model.freedoms), 1)
            for i, j in enumerate(rubbing(model)):
                end[j] = unknowns[i]
        bounds = self.bounds(model, settings, slips, multipliers)
        leans = ca.densify(self.leans(model, settings, slips, multipliers))
        return ca.vertcat(over, ca.densify(end), bounds, slips.end / settings.slip_width, leans)

    def factors(
        self, model: Model, settings: Settings, slips: Slips, unknowns: ca.SX, variables: dict[int, ca.SX]
    ) -> list[Factor]:
        """The law as hard rows or pairs between the slips and the unknowns of a step."""
        which = rubbing(model)
        if self.form == "smooth" or not which:
            return []
        names = tuple(model.freedoms[j].label for j in which)
        scale = _SWITCHING if self.form == "exact" else 1.0
        relative = ca.vertcat(*(slips.end[j] / (scale * settings.slip_width[j]) for j in which))
        z, sigma = ca.vertsplit(unknowns, [0, len(which), unknowns.numel()])
        data = ca.SX.sym("none", 0)
        if self.form == "exact":
            box = Box.unit(ca.SX.sym("codes", len(which)), slack=-relative, value=z)
            rows = tuple(f"{part} {name}" for part in ("stick", "slip") for name in names)
            return [Factor("dry friction", Group.STATE, box.rows(), variables, data, rows, kind=Kind.HARD, box=box)]
        pairs = ca.vertcat(sigma, sigma - relative, 1 + z, 1 - z)
        parts = ("slip forwards", "slip backwards", "room below", "room above")
        rows = tuple(f"{part} {name}" for part in parts for name in names)
        return [Factor("dry friction", Group.STATE, pairs, variables, data, rows, kind=Kind.PAIRS)]


def rubbing(model: Model) -> list[int]:
    """Which coordinates of the joints have dry friction."""
    return [j for j, freedom in enumerate(model.freedoms) if freedom.rubs]


def lean(joint: Joint, model: Model, settings: Settings, slips: Slips, borne: ca.SX) -> ca.SX:
    """K of a joint's coordinates, structurally zero where friction is the same in both directions, (n,).

    Args:
        borne: |λ| of all joints, (n_g,).
    """
    own, still = model.freedoms_of(joint), ca.SX.zeros(len(joint.coordinates))
    bound = joint.bound(slips.position[own, 0], slips.before[own, 0])
    if not bound.leans:
        return ca.SX(len(joint.coordinates), 1)
    of_load, of_time = (still if part is None else part for part in (bound.load_lean, bound.constant_lean))
    return of_load * ca.sum1(borne[model.rows_of(joint), 0]) + settings.step * of_time


def _over_step(end: ca.SX, slips: Sequence[ca.SX], width: ca.SX) -> ca.SX:
    """Z of a step that ends with the ratio z: Z = z − (z + sign s) τ.

    What turns from s to s₊ rubs the other way for the share τ = |s|/(|s| + |s₊|) of the step, which makes Z
    the mean sign. What is slower than the width w stops where it is, Z = z: τ = s²/(s² + |s s₊| + w²), which is smooth
    where s is zero. For any s the graph of Z over s₊ stays monotone, with its step at s₊ = 0.
    """
    if len(slips) == 1:
        return end
    (before, after), square = slips, width**2
    forth, back = ca.fmax(before, 0), ca.fmax(-before, 0)
    turned = forth**2 / (forth**2 + forth * ca.fmax(-after, 0) + square)
    returned = back**2 / (back**2 + back * ca.fmax(after, 0) + square)
    return end - (1 + end) * turned + (1 - end) * returned


def _sign(slips: Sequence[ca.SX], width: ca.SX) -> ca.SX:
    """Of one slip, or the mean between two."""
    return smooth_sign(slips[0], width) if len(slips) == 1 else mean_sign(slips[0], slips[1], width)
