"""A mechanism of the plane in natural coordinates: equations of motion, and the same as a model of rigid bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spookid.argument_checks import Checked
from spookid.kernels.arrays import Array
from spookid.mechanics.model import Model
from spookid.planar.closing import Branch, Values
from spookid.planar.linkage import Linkage
from spookid.planar.rigid import Rigid


@dataclass(frozen=True, eq=False)
class Mechanism(Linkage, metaclass=Checked):
    """Links of a plane whose ends meet in points; constraints and loads beside.

    Its coordinates are those of the points that move, x and y of one after the other in the order in which links and
    constraints name them, then the angles that are declared as coordinates. Each link holds its length.

    Args:
        links: bars between points.
        constraints: sliders, rods, and angles that are coordinates: ``FixedSlider``, ``MovingSlider``,
            ``ConstantDistance``, ``AbsoluteAngle``, ``RelativeAngle``.
        loads: ``Torque``, ``PinFriction``, ``Spring``.
        gravity: g along −y, or (g_x, g_y) [m/s²].
        independent_names: of the coordinates to be the independent ones; None: angles as far as they are independent,
            then those that move the most against the others where the mechanism is assembled first.
        disturbance: size of the random torque in each pin [N m/√Hz], in the rigid-body model, and of the random force
            of each slider [N/√Hz] that has no ``disturbance`` of its own; None: it is estimated.

    Raises:
        ProblemError: for two things of one name, an angle of one link twice, links that do not meet where they are
            declared, constraints that imply each other there, no degree of freedom, or independent coordinates that
            are not.
    """

    # --- assemblies ---

    def assembled(
        self,
        guess: Array | Mapping[str, float] | None = None,
        *,
        branch: Branch | None = None,
        parameters: Values = None,
    ) -> Array:
        """Coordinates at which all constraints hold, (n,).

        Args:
            guess: all coordinates (n,), the nearest assembly to which is found; or values by name, of as many
                coordinates as there are degrees of freedom, to which the mechanism is moved from where it is declared,
                on the same branch; None: as it is declared.
            branch: of ``branches``, another than that; values by name only.
            parameters: values by name; guesses where there are none.

        Raises:
            ProblemError: if there is none there.
        """
        return self.closing.assembled(guess, branch, parameters)

    def branch(self, q: Array, parameters: Values = None) -> Branch:
        """In which of its assemblies a mechanism is for the same independent coordinates: the variable C.

        The dependent coordinates follow from the independent ones in groups, loop by loop. Two solutions of one group
        meet where the determinant of its constraints' derivatives vanishes, and it has one sign on this side and the
        other on that: a mechanism cannot change a sign without passing through such a place.

        Returns:
            a sign, 1 or −1, of each group, 0 at such a place.
        """
        return self.closing.branch(q, parameters)

    def branches(self, values: Mapping[str, float], parameters: Values = None) -> dict[Branch, Array]:
        """All assemblies with given values of the independent coordinates, by branch.

        Groups of two coordinates, which two circles or a circle and a line determine (dyads: a four-bar, a
        slider-crank, a five-bar), have all of theirs; of larger ones those are found to which Newton's method leads
        from 16 starts, and of several with the same signs the nearest to where the mechanism is declared.

        Raises:
            ProblemError: for other coordinates than the independent ones.
        """
        return self.closing.branches(values, parameters)

    # --- the same of rigid bodies ---

    @cached_property
    def rigid(self) -> Rigid:
        """The same mechanism of rigid bodies, and what became of each thing."""
        return Rigid(self)

    @property
    def model(self) -> Model:
        """The same mechanism as a ``Model``: the plane is the world's y-z plane, x of the plane is the world's y and y
        its z, and hinges turn about the world's x, with angles of the same sign."""
        return self.rigid.model
