"""A fit as a nonlinear program: the CasADi expressions of what ``backend="ipopt"`` evaluates by compiled code.

Unknowns, rows, bounds, and which equality constraints are left out because others imply them, are those of
``solvers.program.Program``. Each factor is one CasADi function, mapped over the steps, so that the size of the
expressions does not grow with the recording.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from spookid.assembly.trajectories import trajectories
from spookid.errors import ProblemError
from spookid.estimation.continuation import smoothed, touches
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import posed
from spookid.estimation.plan import STAGES, through
from spookid.estimation.solving import begun
from spookid.kernels.arrays import Array, Integers
from spookid.kernels.precision import EQUAL
from spookid.mechanics.holding import row_labels
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.solvers.callbacks import settings
from spookid.solvers.ipopt import program
from spookid.solvers.places import Place
from spookid.solvers.program import Program

if TYPE_CHECKING:
    from spookid.assembly.assembly import Assembly
    from spookid.assembly.problem import Problem
    from spookid.results.result import Solution
    from spookid.results.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class NonlinearProgram:
    """Nonlinear program: minimise f(x, p) subject to lbx ≤ x ≤ ubx, lbg ≤ g(x, p) ≤ ubg, and g_i g_j = 0 for each pair
    (i, j).

    x holds, step by step and recording by recording, the tangent coordinates of the state around the initial values,
    and last the parameters over their magnitudes. p holds the settings (step, noise), then the data. Made by
    ``Problem.nlp``; see ``docs/howto/programs.md``.

    Example:
        ``solver = ca.nlpsol("solver", "ipopt", nlp.problem, nlp.options)``,
        ``found = solver(**nlp.arguments)``, ``nlp.parameters(found["x"])``.
    """

    function: ca.Function
    """(x, p) to (f, g, r): cost, constraints, and the residuals r of which f = |r|²."""
    states: ca.Function
    """x to the unknowns of all steps, one below the other, (Σ N n,), and the parameters, (n_p,)."""
    x0: Array
    """Initial values of x, (n,)."""
    lbx: Array
    ubx: Array
    p0: Array
    """Numbers of p, (n_r,)."""
    lbg: Array
    ubg: Array
    """Bounds of g, (m,)."""
    pairs: Integers
    """Rows (i, j) of g with 0 ≤ g_i ⟂ g_j ≥ 0, (n_c, 2); empty without exact friction or contacts."""
    names: dict[str, tuple[str, ...]]
    """Names of all entries of ``"x"``, ``"g"`` and ``"p"``, and of the ``"parameters"``."""
    _motion: Callable[[Array], tuple[Trajectory, ...]] | None = field(default=None, repr=False)
    """Trajectories of x; None of a program that was loaded."""

    @cached_property
    def x(self) -> ca.MX:
        """Symbol of the unknowns, (n,)."""
        return ca.MX.sym("x", len(self.x0))

    @cached_property
    def p(self) -> ca.MX:
        """Symbol of the settings and data of the program, (n_r,)."""
        return ca.MX.sym("p", len(self.p0))

    @cached_property
    def _expressions(self) -> Sequence[ca.MX]:
        expressions: Sequence[ca.MX] = self.function.call([self.x, self.p], True, False)
        return expressions

    @property
    def f(self) -> ca.MX:
        """Cost."""
        return self._expressions[0]

    @property
    def g(self) -> ca.MX:
        """Constraints, (m,)."""
        return self._expressions[1]

    @property
    def r(self) -> ca.MX:
        """Residuals, f = |r|²."""
        return self._expressions[2]

    @property
    def problem(self) -> dict[str, ca.MX]:
        """Dictionary with x, p, f and g for ``ca.nlpsol``."""
        return {"x": self.x, "p": self.p, "f": self.f, "g": self.g}

    @property
    def arguments(self) -> dict[str, Array]:
        """Arguments for a call of the solver that ``ca.nlpsol`` returns."""
        return {name: getattr(self, name) for name in ("x0", "lbx", "ubx", "p", "lbg", "ubg")} | {"p": self.p0}

    @cached_property
    def gauss_newton(self) -> dict[str, ca.Function]:
        """Option of ``ca.nlpsol`` for the Gauss–Newton Hessian 2JᵀJ: positive semidefinite, without second derivatives
        of residuals or constraints."""
        weight, multipliers = ca.MX.sym("lam_f"), ca.MX.sym("lam_g", len(self.lbg))
        J = ca.jacobian(self.r, self.x)
        hessian = ca.triu(2 * weight * (J.T @ J))
        names = ["x", "p", "lam_f", "lam_g"], ["triu_hess_gamma_x_x"]
        return {"hess_lag": ca.Function("hess_lag", [self.x, self.p, weight, multipliers], [hessian], *names)}

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of ``ca.nlpsol`` with IPOPT, as ``backend="ipopt"`` uses them: a Gauss–Newton Hessian and a cost
        scaled to 1 at the start. It stops when the cost is stationary, because IPOPT's own gradient test depends on
        units."""
        cost = float(self.function(self.x0, self.p0)[0])
        still = {"ipopt.acceptable_tol": np.inf, "ipopt.acceptable_obj_change_tol": 1e-10, "ipopt.acceptable_iter": 3}
        return {**self.gauss_newton, **settings(cost), **still, "ipopt.acceptable_constr_viol_tol": EQUAL}

    def parameters(self, x: Any) -> dict[str, float]:
        """Parameters by name, in SI units."""
        values = np.asarray(self.states(ca.DM(x))[1]).ravel().tolist()
        return dict(zip(self.names["parameters"], values, strict=True))

    def trajectories(self, x: Any) -> tuple[Trajectory, ...]:
        """The motion on each recording.

        Raises:
            ProblemError: for a program that was loaded from a file: the mechanism is not in it.
        """
        if self._motion is None:
            raise ProblemError("a loaded program has no mechanism; use states(x), or a new program of Problem.nlp")
        return self._motion(np.asarray(ca.DM(x)).ravel())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the program in CasADi's serialization format; ``load`` reads the file without the problem."""
        path = Path(path)
        file = ca.FileSerializer(str(path))
        file.pack([self.function, self.states])
        for name in _NUMBERS:
            file.pack(ca.DM(getattr(self, name)))
        for name in _NAMED:
            file.pack("\n".join(self.names[name]))
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NonlinearProgram:
        """Read what ``save`` has written."""
        if not Path(path).is_file():
            raise ProblemError(f"{path} is no file; give one that NonlinearProgram.save has written")
        file = ca.FileDeserializer(str(path))
        function, states = file.unpack()
        *numbers, pairs = (np.asarray(file.unpack()) for _ in _NUMBERS)
        names = {name: tuple(filter(None, file.unpack().split("\n"))) for name in _NAMED}
        x0, lbx, ubx, p0, lbg, ubg = (one.ravel() for one in numbers)
        return cls(function, states, x0, lbx, ubx, p0, lbg, ubg, pairs.astype(np.int64).reshape(-1, 2), names)


_NUMBERS = ("x0", "lbx", "ubx", "p0", "lbg", "ubg", "pairs")
_NAMED = ("x", "g", "p", "parameters")


def nonlinear_program(problem: Problem, solution: Solution | None) -> NonlinearProgram:
    """Build the fit of a problem as a nonlinear program; see ``Problem.nlp``."""
    noise = None
    if problem.estimates_noise:
        made = _with_noise(problem, solution)
        friction = {"friction": problem.friction, "friction_width": problem.friction_width}
        noise, problem = made.result, made.assembly.problem.with_(**friction)
        solution = noise if solution is None or problem.rubs_smoothly else solution
    assembly, start = posed(problem, solution, noise)
    if any(factor.box is not None for factor in assembly.transcription.factors):
        what = f"{problem.place}: Problem {problem.name!r} has friction 'exact'"
        raise ProblemError(f"{what}, whose rows switch; give it friction='mpcc', whose pairs a program has")
    return _Writer(assembly, program(assembly.transcription, start)).written()


def _with_noise(problem: Problem, solution: Solution | None) -> Fit:
    """A fit by Levenberg–Marquardt, which finds noise and the slope of the log-determinant; it has no pairs."""
    leading = problem.with_(step_correction=False)
    if touches(problem):
        leading = leading.with_(friction="exact")
    elif not problem.rubs_smoothly:
        leading = smoothed(leading.with_(estimator="noise"))
    made = through(begun(leading, "lm", {}, None, solution), STAGES).fit
    if made is None or made.result.normaliser is None:
        why = "" if made is None else f": {made.result.detail}"
        raise ProblemError(f"{problem.place}: the noise of Problem {problem.name!r} was not found{why}")
    return made


class _Writer:
    """Writes a program as expressions."""

    def __init__(self, assembly: Assembly, program: Program) -> None:
        self._assembly, self._program, self._problem = assembly, program, program.problem
        self._x = ca.MX.sym("x", program.size)
        self._numbers, self._named = [self._problem.constants], [one.symbol.name() for one in self._problem.given]
        self._data: dict[tuple[int, str], slice] = {}
        self._choices: list[slice] = []
        for chain in self._problem.chains:
            self._choices.append(self._added(chain.choice, f"{chain.name}: choice"))
        for place in program.places:
            chain, data = self._problem.chains[place.chain], self._problem.chains[place.chain].data
            if place.factor.name in data:
                where = f"{chain.name}: {place.factor.name}"
                self._data[place.chain, place.factor.name] = self._added(data[place.factor.name], where)
        self._p = ca.MX.sym("p", self._count)

    @property
    def _count(self) -> int:
        return sum(part.size for part in self._numbers)

    def _added(self, values: Array, name: str) -> slice:
        first = self._count
        self._numbers.append(values.ravel())
        self._named += [f"{name} {i}" for i in range(values.size)]
        return slice(first, first + values.size)

    def written(self) -> NonlinearProgram:
        program, theta = self._program, self._x[self._program.size - len(self._problem.names) :]
        self._theta, unknowns = (
            ca.DM(program.scales) * theta,
            [self._states(c) for c in range(len(self._problem.chains))],
        )
        soft, rows, lower, upper = list[ca.MX](), list[ca.MX](), [np.zeros(0)], [np.zeros(0)]
        pairs, named = [np.zeros((0, 2), dtype=np.int64)], list[str]()
        for place in program.places:
            r = self._residual(place, unknowns[place.chain])
            if place.role.soft:
                soft.append(ca.vec(r))
                continue
            kept = np.flatnonzero(place.rows.ravel() >= 0)
            own = ca.vec(r / ca.repmat(ca.DM(place.role.scales), 1, r.shape[1]))
            rows.append(own if len(kept) == own.numel() else own[kept.tolist()])
            lower.append(place.role.lower.ravel()[kept])
            upper.append(np.where(place.factor.pairs, np.inf, place.role.upper).ravel()[kept])
            named += [self._problem.provenance(place.chain, place.factor, int(i)) for i in kept]
            if place.factor.pairs:
                pairs.append(np.stack(np.hsplit(place.rows, 2), axis=2).reshape(-1, 2))
        if len(program.pins):
            soft.append(ca.DM(program.pins) @ (theta - ca.DM(program.start.parameters / program.scales)))
        r, g = ca.vertcat(*soft), ca.vertcat(ca.MX(0, 1), *rows)
        io = ["x", "p"], ["f", "g", "r"]
        stacked = ca.vertcat(*map(ca.vec, unknowns))
        lbx, ubx = program.box
        names = {"x": tuple(self._unknown_names()), "g": tuple(named), "p": tuple(self._named)}
        return NonlinearProgram(
            ca.Function("nlp", [self._x, self._p], [ca.sumsqr(r), g, r], *io),
            ca.Function("states", [self._x], [stacked, self._theta], ["x"], ["states", "parameters"]),
            *(program.origin, lbx, ubx),
            np.concatenate(self._numbers),
            *(np.concatenate(lower), np.concatenate(upper), np.concatenate(pairs)),
            {**names, "parameters": self._problem.names},
            lambda x: trajectories(self._assembly, program.point(x)),
        )

    def _states(self, chain: int) -> ca.MX:
        """Unknowns of all steps, (n, N)."""
        manifold, base = self._problem.manifold, self._program.start.states[chain]
        x, d = ca.SX.sym("x", manifold.ambient), ca.SX.sym("d", manifold.tangent)
        chart = ca.Function("chart", [x, d], [manifold.chart(x, d)])
        first = sum(len(states) for states in self._program.start.states[:chain]) * manifold.tangent
        deltas = ca.reshape(self._x[first : first + len(base) * manifold.tangent], manifold.tangent, len(base))
        return chart.map(len(base))(ca.DM(base.T), deltas)

    def _residual(self, place: Place, unknowns: ca.MX) -> ca.MX:
        """(rows, count)."""
        problem, factor, count = self._problem, place.factor, len(place.rows)
        one = ca.Function("factor", problem.symbols(factor), [factor.residual])
        states = [unknowns[:, offset : offset + count] for offset in factor.variables]
        where = self._data.get((place.chain, factor.name))
        data = ca.MX(0, count) if where is None else ca.reshape(self._p[where], factor.data.numel(), count)
        numbers = ca.vertcat(self._p[: len(problem.constants)], self._p[self._choices[place.chain]])
        return one.map(count)(*states, data, *(ca.repmat(part, 1, count) for part in (self._theta, numbers)))

    def _unknown_names(self) -> Iterator[str]:
        each = unknowns_of_a_step(self._assembly.problem, self._problem.manifold.tangent)
        for chain in self._problem.chains:
            for k in range(chain.steps):
                yield from (f"{chain.at(k)}: {name}" for name in each)
        yield from self._problem.names


def unknowns_of_a_step(problem: Problem, count: int) -> list[str]:
    """Names of the unknowns in a step: joint coordinates or poses, then velocities, then efforts."""
    scheme, model = problem.scheme, problem.model
    moving = scheme.motion(model).tangent
    names = list(JointCoordinates(model).names)
    if scheme.coordinates != "joint" or len(names) != moving:
        names = [*row_labels(model.bodies, "pose"), *row_labels(model.bodies, "velocity")][:moving]
    sizes = scheme.reactions(model), scheme.touching(model), scheme.law.unknowns(model)
    for kind, size in zip(("reaction", "contact", "friction"), sizes, strict=True):
        names += [f"{kind} {i}" for i in range(size)]
    return names if len(names) == count else [f"unknown {i}" for i in range(count)]
