"""Coordinates in which motions are planned: as many as a mechanism can move in, the others follow.

Loops, constraints and contacts that hold leave rows g(δ) = 0 of the coordinates δ of joints and free bodies about a
home pose. δ is split into planned ones z and others y that the rows determine: g(z, y) = 0, ẏ = −J_y⁺ J_z ż, and ÿ
likewise. Free bodies are planned rather than joints, and joints with a motor rather than those without, as far as rows
allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.assembly import gather
from spookid.assembly.outlining import DETERMINED
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.grouping import unknown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import DEPENDENT, EQUAL, NEWTON
from spookid.mechanics.contacts import Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion, displacements
from spookid.mechanics.manifold import solved
from spookid.mechanics.regressor import Regressor
from spookid.parameter import parameters_in, stacked, substitute
from spookid.studies.regression_rows import check_shown
from spookid.studies.simulation_start import Initial, starting_state

_AHEAD, _LEAST = 0.3, 5e-3
"""How far coordinates go at a time [m or rad], and the least such share of the way from home."""


class Moving(NamedTuple):
    """A planned motion in symbols."""

    motion: ca.SX
    """z, ż and z̈ one below the other, (3 m,)."""
    y: ca.SX
    """(r,)."""
    bodies: Recursion
    """All bodies."""
    rows: ca.SX
    """J of what holds, in the rates of ``bodies``, (rows, n)."""
    spread: ca.SX
    """How these rates follow ż, (n, m)."""
    follow: ca.SX
    """How y follows z, (r, m)."""


@dataclass(frozen=True, eq=False)
class PlannedCoordinates:
    """Planned coordinates z and dependent coordinates y of a problem, at its initial values.

    Args:
        problem: whose contacts, loops and constraints hold as they do in its home pose.
        middle: of positions of joints, (n_s,), where trees on the ground have their home.
        initial: a home pose, as of ``simulate``; None: as of it, but of trees on the ground.

    Raises:
        ProblemError: for what cannot be planned, also where nothing bears the force along some coordinate, and as
            ``simulate`` for a home pose.
    """

    problem: Problem
    middle: Array
    initial: Initial = None

    def __post_init__(self) -> None:
        _check(self.problem)
        self._check_borne()

    @cached_property
    def regressor(self) -> Regressor:
        """Regressor matrix of the forces along all coordinates."""
        return Regressor(self.problem.model, unknown(self.problem))

    @property
    def joints(self) -> JointCoordinates:
        """All coordinates."""
        return self.regressor.joints

    @property
    def held(self) -> tuple[Touch, ...]:
        """Contacts, all of which hold."""
        return self.problem.model.holding.contacts

    @cached_property
    def start(self) -> Array:
        """x at home, (ambient,)."""
        problem, joints, model = self.problem, self.joints, self.problem.model
        moved, roots = self.middle, np.zeros(0)
        if self.initial is not None or stands(problem):
            q = starting_state(problem, self.initial, 0)[None, : model.configuration.ambient]
            moved = displacements(model, q, problem.guess_on())[0]
            for i, freedom in enumerate(model.freedoms):
                period = freedom.coordinate.period
                moved[i] += 0.0 if period is None else period * np.round((self.middle[i] - moved[i]) / period)
            roots = np.concatenate(
                [np.zeros(0), *(q[0, 7 * i : 7 * i + 7] for i in map(model.bodies.index, joints.roots))]
            )
        return np.asarray(ca.DM(ca.evalf(joints.coordinates(ca.SX(ca.DM(moved)), ca.SX(ca.DM(roots))))))[:, 0]

    @cached_property
    def home(self) -> tuple[Array, Array]:
        """Planned coordinates z (m,) and dependent coordinates y (r,) in the home pose."""
        delta = self._of_parts(self.start, None)
        return delta[self.planned], delta[self.dependent]

    @property
    def planned(self) -> list[int]:
        """Indices of the planned coordinates z among all coordinates: of joints, then of free bodies."""
        return self._split[0]

    @property
    def dependent(self) -> list[int]:
        """Coordinates y."""
        return self._split[1]

    @property
    def places(self) -> list[int]:
        """Index of each planned coordinate among the coordinates of all joints and free bodies."""
        return [self.joints.places[i] for i in self.planned]

    def closed(self, z: Array, near: tuple[Array, Array] | None = None) -> Array:
        """Dependent coordinates y at N instants of a motion, (N, r), on the branch continuous with home or a nearby
        motion; NaN if the constraints cannot be satisfied, or the next instant is on another branch.

        Args:
            z: (N, m).
            near: z and y of N instants.
        """
        start, y = near or (np.tile(part, (len(z), 1)) for part in self.home)
        if not y.size:
            return y
        share, step, slopes = 0.0, 1.0, self._rows(start, y)[1:]
        while share < 1:
            ahead = -_solved(slopes[0], np.einsum("kjm,km->kj", slopes[1], z - start))
            most = float(np.max(np.abs(ahead)))
            step = min(step, 1 - share, _AHEAD / max(most, 1e-12))
            found = self._corrected(start + (share + step) * (z - start), y + step * ahead)
            if found is not None:
                y, slopes = found
                share, step = share + step, 2 * step
            elif (step := step / 2) < _LEAST:
                return np.full(y.shape, np.nan)
        return y if self._is_steady(z, y, slopes) else np.full(y.shape, np.nan)

    def _is_steady(self, z: Array, y: Array, slopes: tuple[Array, Array]) -> bool:
        """True if y goes from each instant to the next as its slopes say."""
        own, others = slopes
        moved = np.diff(z, axis=0)
        ends = (-_solved(own[k], np.einsum("kjm,km->kj", others[k], moved)) for k in (slice(0, -1), slice(1, None)))
        return bool(np.max(np.abs(np.diff(y, axis=0) - sum(ends) / 2), initial=0.0) < _AHEAD)

    @cached_property
    def moving(self) -> Moving:
        """The motion in symbols."""
        m, space = len(self.planned), self.joints.manifold
        motion, y = ca.SX.sym("motion", 3 * m), ca.SX.sym("y", len(self.dependent))
        z, rate, change = (motion[i * m : (i + 1) * m, 0] for i in range(3))
        delta = self._whole(z, y)
        x, T = ca.densify(space.chart(self._origin, delta)), space.chart_tangent(delta)
        J = self._held(x, ca.SX(space.tangent, 1))[0]
        own, others = ((J @ T)[:, some] for some in (self.dependent, self.planned))
        follow = -_least(own, others)
        moved = self._whole(rate, follow @ rate)
        s, turned = T @ moved, self._turned(delta, moved)
        bend = self._held(x, ca.densify(s))[1] + J @ turned
        a = T @ self._whole(change, follow @ change - _least(own, bend)) + turned
        spread = T[:, self.planned] + T[:, self.dependent] @ follow
        return Moving(motion, y, Recursion(self.joints, x, s, a), J, spread, follow)

    @cached_property
    def along(self) -> ca.SX:
        """Matrix that maps the velocities of ``moving.bodies`` to those of all joint coordinates, (n_s, n)."""
        bodies = self.moving.bodies
        if not bodies.joints.cut:
            order = np.argsort(bodies.joints.places)[: len(self.problem.model.freedoms)]
            return ca.SX(ca.DM(np.eye(bodies.s.numel())[order]))
        s = ca.SX.sym("s", bodies.s.numel())
        rates = Recursion(bodies.joints, bodies.x, s, bodies.a).rates
        return ca.sparsify(ca.jacobian(rates, s))

    @cached_property
    def motors(self) -> tuple[list[int], list[float]]:
        """Driven coordinate of each motor, and effort per unit of the motor's signal."""
        model, values = self.problem.model, self.problem.guess_on()
        places = [model.freedoms_of(motor.joint).start + motor.coordinate for motor in model.motors]
        return places, [substitute(motor.unit_effort, values).item() for motor in model.motors]

    @cached_property
    def bearing(self) -> tuple[ca.SX, ca.SX]:
        """Matrices S and J that map motor efforts and constraint forces to the coordinates."""
        return self.along[self.motors[0], :], self.moving.rows

    # --- the chart ---

    def _whole(self, z: ca.SX, y: ca.SX) -> ca.SX:
        """δ, or its derivatives, (n,)."""
        back = np.argsort([*self.planned, *self.dependent]).tolist()
        return ca.vertcat(z, y)[back, 0]

    def _of_parts(self, flat: Array, turned: Array | None) -> Array:
        """Of points (ambient,): flat coordinates of the one and rotations of the other, as steps of zero if none."""
        found, at = [], 0
        for kind, size in self.joints.manifold.parts:
            own = slice(at, at + size)
            found.append(flat[own] if kind == "flat" else np.zeros(3) if turned is None else turned[own])
            at += size
        return np.concatenate([np.zeros(0), *found])

    @property
    def _origin(self) -> ca.SX:
        """x where δ is zero: joints at zero, free bodies turned as at home."""
        return ca.SX(ca.DM(self._of_parts(0 * self.start, self.start)))

    def _turned(self, delta: ca.SX, moved: ca.SX) -> ca.SX:
        """What of the derivative of the rates T δ̇ depends on δ̇ alone."""
        d, rate, space = ca.SX.sym("d", delta.numel()), ca.SX.sym("rate", delta.numel()), self.joints.manifold
        found = ca.densify(ca.jtimes(space.chart_tangent(d) @ rate, d, rate))
        return ca.substitute(found, ca.vertcat(d, rate), ca.vertcat(delta, moved))

    # --- what holds ---

    def _check_borne(self) -> None:
        """Refuse a mechanism with a coordinate along which nothing acts."""
        S, J = self.bearing
        (z, y), given = self.home, [self.moving.motion, self.moving.y]
        (matrix,) = at_guesses(self.problem, [ca.densify(S.T @ S + J.T @ J)], given)
        numbers = np.concatenate([z, 0 * z, 0 * z]), y
        matrix = ca.Function("borne", given, [matrix])(*numbers).full()
        sizes, directions = np.linalg.eigh(matrix)
        if len(sizes) and not sizes[0] > DEPENDENT * sizes[-1]:
            name = self.joints.names[int(np.argmax(np.abs(directions[:, 0])))]
            if name in {one.name for one in self.problem.model.filters}:
                raise ProblemError(f"{self.problem.what}: a sensor has a lag ({name!r}); design motions with lag=0")
            raise ProblemError(
                f"{self.problem.what}: {name!r} is driven by no motor, and no loop or "
                "contact bears what it takes; plan motions that motors can make, or simulate commands that you have in "
                "mind, and judge it with `spookid check --trajectory`"
            )

    def _held(self, x: ca.SX, s: ca.SX) -> tuple[ca.SX, ca.SX]:
        """J of loops, constraints and contacts, (rows, n), and J̇ s."""
        none, values = ca.SX(len(self.problem.model.freedoms), 1), self.problem.guess_on()
        _, _, flat, drift = self.regressor.ties()(x, s, 0 * s, none, self.regressor.numbers(values))
        return ca.sparsify(ca.reshape(flat, s.numel(), drift.numel()).T), drift

    @cached_property
    def _split(self) -> tuple[list[int], list[int]]:
        """Coordinates that are planned, and that depend."""
        model, joints, x = self.problem.model, self.joints, ca.SX(ca.DM(self.start))
        J = np.asarray(ca.DM(ca.evalf(self._held(x, ca.SX(joints.manifold.tangent, 1))[0])))
        driven = {model.freedoms_of(motor.joint).start + motor.coordinate for motor in model.motors}
        count, places = len(model.freedoms), joints.places
        tiers = [
            [i for i, p in enumerate(places) if p < count and (p in driven) == motored] for motored in (False, True)
        ]
        chosen = _pivots(J, [*tiers, [i for i, p in enumerate(places) if p >= count]])
        planned = [i for i in range(len(places)) if i not in chosen]
        return sorted(planned, key=lambda i: places[i]), sorted(chosen)

    @cached_property
    def _gap(self) -> ca.Function:
        """(z, y) to g and its slopes with y and with z, column by column."""
        z, y = ca.SX.sym("z", len(self.planned)), ca.SX.sym("y", len(self.dependent))
        model, space = self.problem.model, self.joints.manifold
        values = self.regressor.numbers(self.problem.guess_on())
        still = ca.SX(space.tangent, 1), ca.SX(space.tangent, 1), ca.SX(len(model.freedoms), 1)

        def held(x: ca.SX) -> tuple[ca.SX, list[ca.SX]]:
            q = self.joints.configuration(x)
            return self.regressor.ties()(x, *still, values)[0], [one.place_of(model, q) for one in self.held]

        (_, before), (closed, after) = (
            held(ca.SX(ca.DM(self.start))),
            held(space.chart(self._origin, self._whole(z, y))),
        )
        moved = (one.moved(*places) for one, *places in zip(self.held, after, before, strict=True))
        g = ca.vertcat(closed, *moved)
        found = at_guesses(self.problem, [g, *(ca.vec(ca.jacobian(g, part)) for part in (y, z))], [z, y])
        return ca.Function("gap", [z, y], ca.cse([ca.densify(part) for part in found]))

    def _rows(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """g (N, rows), and its slopes with y (N, rows, r) and with z (N, rows, m)."""
        g, *slopes = (np.asarray(part.full()).T for part in self._gap(z.T, y.T))
        own, others = (one.reshape(len(g), -1, g.shape[1]).transpose(0, 2, 1) for one in slopes)
        return g, own, others

    def _corrected(self, z: Array, y: Array) -> tuple[Array, tuple[Array, Array]] | None:
        """y where rows hold, by Newton's method from near, and their slopes; None if that fails."""
        for _ in range(NEWTON):
            g, *slopes = self._rows(z, y)
            if np.max(np.abs(g)) < EQUAL:
                return y, (slopes[0], slopes[1])
            step = _solved(slopes[0], g)
            if not np.max(np.abs(step)) < _AHEAD:
                return None
            y = y - step
        return None


def _solved(J: Array, right: Array) -> Array:
    """J⁺ right at N instants, (N, r), of J (N, rows, r) and (N, rows); NaN where J has no rank r."""
    turned = J.transpose(0, 2, 1)
    try:
        return np.asarray(np.linalg.solve(turned @ J, turned @ right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        return np.full(J.shape[::2], np.nan)


def stands(problem: Problem) -> bool:
    """True if the home pose is not arbitrary: with loops, constraints, contacts or free bodies."""
    joints = JointCoordinates(problem.model)
    return bool(joints.closing or joints.roots)


def home_pose(problem: Problem, initial: Initial) -> Initial:
    """Home pose: given by ``initial``, or the first pose of the first recording if home is not arbitrary."""
    if initial is not None or not problem.recordings or not stands(problem):
        return initial
    start, count = gather(problem, problem.recordings[0]).guess.states[0], len(problem.model.bodies)
    return start[: 7 * count].reshape(count, 7), start[7 * count :].reshape(count, 6)


def at_guesses(problem: Problem, found: Sequence[ca.SX], given: Sequence[ca.SX]) -> list[ca.SX]:
    """Evaluate expressions in ``given`` at the initial values of their Parameters."""
    others, values = parameters_in(found, "the model", ignore=given), problem.guess_on()
    numbers = ca.DM([values[p.name] for p in others])
    return list(ca.substitute(list(found), [stacked(others)], [ca.SX(numbers)]))


def _least(J: ca.SX, right: ca.SX) -> ca.SX:
    """J⁺ right."""
    J = ca.sparsify(J)
    return solved(J, right) if J.is_square() else solved(J.T @ J, J.T @ right)


def _pivots(J: Array, tiers: Sequence[Sequence[int]]) -> list[int]:
    """Columns that span those of J, of the first tiers as far as they do: Gram–Schmidt with pivots."""
    left, chosen = J.copy(), list[int]()
    largest = float(np.max(np.linalg.norm(J, axis=0), initial=0.0))
    for tier in tiers:
        rest = list(tier)
        while rest:
            sizes = np.linalg.norm(left[:, rest], axis=0)
            i = int(np.argmax(sizes))
            if not sizes[i] > DETERMINED * largest:
                break
            column = left[:, rest[i]] / sizes[i]
            left -= np.outer(column, column @ left)
            chosen.append(rest.pop(i))
    return chosen


def _check(problem: Problem) -> None:
    """Refuse a mechanism of which no motion can be planned.

    Raises:
        ProblemError: for contacts that push alone, constraints on velocities, impacts, two motors of one signal, and as
            ``check_shown``.
    """
    model, what = problem.model, problem.what
    if model.is_unilateral:
        raise ProblemError(
            f"{what} has limits or contacts that only push; a planned motion takes a PointContact or a Weld where it "
            "stands, and limits of positions"
        )
    for tie in model.ties:
        if isinstance(tie, Impact) or tie in model.holding.rolling:
            raise ProblemError(
                f"{tie.what} rolls or hits, and motions are planned where all rows hold positions"
                "; leave it out of the model that is planned with"
            )
    signals = [motor.signal for motor in model.motors]
    if twice := next((signal for signal in signals if signals.count(signal) > 1), None):
        raise ProblemError(f"{problem.place}: the signal {twice!r} drives two coordinates; give each motor its own")
    check_shown(problem, "a planned motion")
