"""A mechanism's motion as a factor graph: variables at each step, and factors that relate them.

    graph = Graph(system, [Prior("q", q0), Trapezoid("q", "v", sigma=0.1), ...], step=1e-3)
    found = graph.solve(1000, start={"q": q0})

Variables are those that the factors name; Parameters in the mechanism or in an observation are unknowns of all steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.errors import ProblemError, collected, declared_at
from spookid.graphs.factor import MEANING, GraphFactor, Prior, Variables
from spookid.graphs.solution import GraphSolution, Picture
from spookid.graphs.start import rounding, started
from spookid.graphs.writing import Stage, Written, check_hard_rows, rank, written
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import ROUNDING
from spookid.mechanics.system import MOST_STEPS, System, counted_steps, floats, parameter_values, seconds
from spookid.parameter import Parameter, parameters_in, stacked
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.linearization import information, unseen_directions
from spookid.solvers.stages import solve_in_stages
from spookid.solvers.status import Outcome
from spookid.statistics.sensitivities import AT_BOUND, NO_FACTOR, UNOBSERVED
from spookid.statistics.weak_directions import RESOLVED
from spookid.tables.table import Block, Tabular, counted, number
from spookid.transcription.factor import Constant, Factor, Group
from spookid.transcription.transcription import Chain, Point, Transcription

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Graph(Tabular, metaclass=Checked):
    """Factor graph of a mechanism over time; the data or the call of ``solve`` determine the number of steps.

    Args:
        system: the mechanism, such as a ``planar.Mechanism`` or a ``JointSystem``.
        factors: in any order.
        step: h [s].

    Raises:
        ProblemError: for a step that is not positive, two factors of one name, no residual, constraints that are
            more than the degrees of freedom allow, or a symbol that is no Parameter.
    """

    def __init__(self, system: System, factors: Iterable[GraphFactor], *, step: float) -> None:
        self.place = declared_at()
        what = self.what
        self.system, self.step = system, seconds(step, what)
        self.sources = collected(factors, GraphFactor, f"{what}: factors")  # type: ignore[type-abstract]
        used = {name for factor in self.sources for name in factor.variables}
        self.variables = Variables(system, tuple(name for name in MEANING if name in used))
        self._check(what)
        h = ca.SX.sym("h")
        self._step = Constant(h, self.step)
        parts = (written(factor, self.variables, h) for factor in self.sources)
        self.written: tuple[Written, ...] = tuple(part for own in parts for part in own)
        if all(part.factor.hard for part in self.written):
            raise ProblemError(f"{what} has constraints only; give one of its factors a sigma")
        self.parameters: tuple[Parameter, ...] = self._found(what)
        """Unknowns of all steps, in the order of their declaration."""

    def _check(self, what: str) -> None:
        if not self.sources:
            raise ProblemError(f"{what} has no factors; give some")
        titles = [factor.title for factor in self.sources]
        twice = next((factor for factor in self.sources if titles.count(factor.title) > 1), None)
        if twice is not None:
            raise ProblemError(f"{twice.what} is the second one called {twice.title!r}; give each a name of its own")
        system = self.system
        rates, rows = system.manifold.tangent, system.constraint(ca.SX.sym("q", system.manifold.ambient)).numel()
        if rates - rows != len(system.independent):
            raise ProblemError(
                f"{what}: {rates} rates with {rows} constraints are not {len(system.independent)} degrees of freedom; "
                "leave out constraints that follow from others"
            )
        if "Q" in self.variables.names and not system.actuated:
            raise ProblemError(f"{what} asks for efforts Q, and its system is actuated nowhere; give it a torque")

    def _found(self, what: str) -> tuple[Parameter, ...]:
        known: list[ca.SX] = [self._step.symbol]
        for part in self.written:
            known += [*part.factor.variables.values(), part.factor.data, *(c.symbol for c in part.constants)]
        return parameters_in([part.factor.residual for part in self.written], what, known)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of all signals that the factors use."""
        return tuple(dict.fromkeys(name for part in self.written for name in part.signals))

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """One-step functions of the factors, in the order of ``written``, and the priors of the parameters."""
        found, known = [part.factor for part in self.written], [p for p in self.parameters if p.prior is not None]
        if known:
            rows = stacked((p - p.prior[0]) / p.prior[1] for p in known if p.prior)
            x, names = {0: ca.SX.sym("x", self.variables.manifold.ambient)}, tuple(f"prior of {p.name}" for p in known)
            given = "prior of parameters", Group.PRIOR, rows, x, ca.SX(0, 1), names
            found.append(Factor(*given, first_only=True))
        return tuple(found)

    @checked
    def transcription(self, steps: int, data: Mapping[str, Any] | None = None) -> Transcription:
        """The graph over a finite horizon as a sparse least-squares problem.

        Args:
            steps: how many.
            data: values of each signal at the steps, (N,); NaN for missing ones.

        Raises:
            ProblemError: if data are missing, too short, or of no factor.
        """
        count, given = counted_steps(steps, self._least, self.what), {}
        for name, values in (data or {}).items():
            if name not in self.signals:
                names = ", ".join(self.signals) or "none"
                raise ProblemError(f"{self.what} takes no signal {name!r}; its factors take {names}")
            given[name] = floats(values, f"{self.what}: data of {name!r}", "numbers")
            if given[name].shape != (count,):
                what = f"{self.what}: data of {name!r} have the shape {given[name].shape}"
                raise ProblemError(f"{what}; give one number for each of {count} steps")
        return self._transcription(Chain("graph", count, *self._rows(given, count)))

    @property
    def _least(self) -> int:
        """Steps over which each factor stands once."""
        return 1 + max(factor.reach for factor in self.factors)

    @cached_property
    def endless(self) -> Transcription:
        """The graph over an unlimited horizon, without data."""
        return self._transcription(Chain("graph", MOST_STEPS, {}, {}))

    def row(self, name: str, values: Mapping[str, float]) -> tuple[Array, Mask]:
        """Data (n_d,) of a factor at one step and flags of its missing equations (rows,), as ``Chain`` stores them.

        Args:
            name: name of the factor, one of ``transcription(...).factors``.
            values: values of its signals at that step, without missing ones.
        """
        part = next((part for part in self.written if part.factor.name == name), None)
        if part is None:
            return np.zeros(0), np.zeros(len(next(f for f in self.factors if f.name == name).rows), dtype=bool)
        data, missing = part.data({key: np.array([value]) for key, value in values.items()}, 1)
        return data[0], missing[0]

    def _rows(self, given: Mapping[str, Array], steps: int) -> tuple[dict[str, Array], dict[str, Mask]]:
        found = {part.factor.name: part.data(given, part.factor.count(steps)) for part in self.written if part.signals}
        return ({name: parts[0] for name, parts in found.items()}, {name: parts[1] for name, parts in found.items()})

    def _transcription(self, chain: Chain) -> Transcription:
        unknown, guesses = self.parameters, np.array([p.guess for p in self.parameters])
        return Transcription(
            self.variables.manifold,
            self.factors,
            stacked(unknown),
            [self._step, *(constant for part in self.written for constant in part.constants)],
            [p.name for p in unknown],
            np.array([p.lower for p in unknown]),
            np.array([p.upper for p in unknown]),
            np.where(guesses == 0, 1.0, np.abs(guesses)),
            [chain],
        )

    @checked
    def solve(
        self,
        steps: int,
        data: Mapping[str, Any] | None = None,
        *,
        start: Mapping[str, Any],
        stages: Sequence[Stage] = (),
        solver: LevenbergMarquardt | None = None,
    ) -> GraphSolution:
        """Estimate the variables of all steps at once by the Levenberg–Marquardt method.

        Args:
            steps: how many.
            data: values of each signal at the steps, (N,); NaN for missing ones.
            start: initial values of the variables, at one point or at each step, such as ``{"q":
                mechanism.assembled(...)}``, the result of ``simulated``, or the ``values`` of another solution; those
                of Parameters by name. Rates that are not given are differences. The branch of a loop is that of the
                start.
            stages: active factors and free variables of the solves before the last one.
            solver: with other settings; by default it ends at a cost that is rounding, too.

        Raises:
            ProblemError: for wrong data or a wrong start, constraints that imply each other there, or a step with more
                constraints than unknowns.
        """
        problem = self.transcription(steps, data)
        parts = [stage.of(self.variables, self.written) for stage in stages]
        point = self._point(start, problem.chains[0].steps)
        self._check_start(problem, point)
        method = solver or LevenbergMarquardt(negligible_cost=rounding(problem, point))
        before = solve_in_stages(problem, parts, point, lambda part, at: method.solve(part, at))
        last = method.solve(problem, before[-1].point if before else point)
        return self._solution(problem, last, before)

    @checked
    def beginning(self, start: Mapping[str, Any]) -> Point:
        """Initial variables of the first step, and initial Parameters, for a stream of steps.

        Args:
            start: initial values of one step, as in ``solve``.

        Raises:
            ProblemError: as ``solve``.
        """
        point, count = self._point(start, 1), self._least
        data = {p.factor.name: np.zeros((p.factor.count(count), p.factor.data.numel())) for p in self.written}
        states = np.repeat(point.states[0], count, axis=0)
        self._check_start(self._transcription(Chain("graph", count, data, {})), Point((states,), point.parameters))
        return point

    def _point(self, start: Mapping[str, Any], steps: int) -> Point:
        parameters = parameter_values(self.parameters, start, f"{self.what}: start")
        names = {p.name for p in self.parameters}
        own = {name: values for name, values in start.items() if name not in names}
        return Point((started(self.variables, own, steps, self.what, self.step),), parameters)

    def _solution(self, problem: Transcription, last: Outcome, before: Sequence[Outcome]) -> GraphSolution:
        steps, values = problem.chains[0].steps, self.variables.read(last.point.states[0])
        errors, reasons = standard_errors(problem, last.point)
        squares = zip(problem.factors, problem.residuals(last.point)[0], strict=True)
        return GraphSolution(
            np.arange(steps, dtype=np.float64) * self.step,
            values,
            dict(zip(problem.names, last.point.parameters.tolist(), strict=True)),
            dict(zip(problem.names, errors.tolist(), strict=True)),
            reasons,
            last.status,
            last.detail,
            sum(len(outcome.history) - 1 for outcome in (*before, last)),
            {factor.name: np.sum(rows**2, axis=1) for factor, rows in squares if factor.soft},
            self.sides(values["q"], last.point.parameters) if "q" in values else np.zeros(0),
            problem.rows - problem.unknowns,
            sum(outcome.timing.solve for outcome in (*before, last)),
        )

    def sides(self, q: Array, parameters: Array) -> Array:
        """Side (1 or −1) of a singular position on which each of the given positions is, (N,).

        It is the sign of det [Φ_q; B], B the rows of the independent rates; empty if these do not determine the other
        coordinates.
        """
        given = (one for one in self.sources if isinstance(one, Prior) and not one.first_only)
        if "z" not in self.variables.names and not any(one.variable == "q" for one in given):
            return np.zeros(0)
        return np.asarray(np.sign(np.linalg.det(self._slopes(q, parameters))))

    def _slopes(self, q: Array, parameters: Array) -> Array:
        """[Φ_q; B] at each position, (N, n, n)."""
        n = self.system.manifold.tangent
        found = np.asarray(self._slope_function.map(len(q), "serial")(q.T, parameters).full())
        return found.reshape(n, len(q), n).transpose(1, 0, 2)

    @cached_property
    def _slope_function(self) -> ca.Function:
        x, n = ca.SX.sym("q", self.system.manifold.ambient), self.system.manifold.tangent
        whole = ca.vertcat(self.system.constraint_jacobian(x), ca.SX.eye(n)[list(self.system.independent), :])
        return ca.Function("slopes", [x, stacked(self.parameters)], [ca.densify(whole)])

    def _check_start(self, problem: Transcription, point: Point) -> None:
        """Refuse constraints of which some follow from others, and equality constraints that cannot all hold."""
        if "q" in self.variables.names:
            (slopes,) = self._slopes(self.variables.read(point.states[0])["q"][:1], point.parameters)
            slopes = slopes[: len(slopes) - len(self.system.independent)]
            if len(slopes) and rank([slopes]) < len(slopes):
                raise ProblemError(
                    f"{self.what}: of {len(slopes)} constraints {rank([slopes])} are independent where the solve "
                    "starts; leave out those that follow from others, or start elsewhere"
                )
        check_hard_rows(problem, self.written, point, self.what)

    @cached_property
    def picture(self) -> Picture:
        """Variables and factors of one step, which are the same for every step."""
        columns = np.arange(self.variables.manifold.tangent)
        nodes = {name: columns[self.variables.columns(name)].tolist() for name in self.variables.names}
        return Picture("factor graph", self._transcription(Chain("graph", 0, {}, {})), nodes)

    def draw(self, axes: Axes, steps: int = 3) -> None:
        """Draw the graph of some steps: variables as circles, factors as squares, parameters as one node."""
        self.picture.draw(axes, steps)

    def blocks(self) -> Sequence[Block]:
        return self.picture.blocks()

    def records(self) -> Sequence[Mapping[str, Any]]:
        return self.picture.records()

    def __repr__(self) -> str:
        sizes = counted(len(self.variables.names), "variable"), counted(len(self.sources), "factor")
        return f"<Graph of {' and '.join(sizes)} at each step of {number(self.step)} s>"

    @property
    def what(self) -> str:
        """File and line of the declaration and the kind of object, for messages."""
        return f"{self.place}: Graph"


def standard_errors(problem: Transcription, point: Point) -> tuple[Array, dict[str, str]]:
    """Standard error of each parameter within its bounds, (n_p,), and reasons for missing standard errors."""
    names, n = problem.names, len(problem.names)
    errors = np.full(n, np.nan)
    if not n:
        return errors, {}
    held = (point.parameters <= problem.lower) | (point.parameters >= problem.upper)
    reasons = {name: AT_BOUND for name, at in zip(names, held, strict=True) if at}
    matrix = information(problem, point).matrix
    if not np.all(np.isfinite(matrix)):
        return errors, {name: NO_FACTOR for name in names} | reasons
    hidden = np.sum(unseen_directions(problem, point, problem.magnitudes) ** 2, axis=0)
    seen = ~held & (hidden <= RESOLVED)
    reasons |= {name: UNOBSERVED for name, is_seen, at in zip(names, seen, held, strict=True) if not (is_seen or at)}
    free = np.flatnonzero(~held)
    scales = problem.magnitudes[free]
    inverse = np.linalg.pinv(matrix[np.ix_(free, free)] * np.outer(scales, scales), rcond=ROUNDING, hermitian=True)
    found = np.full(n, np.nan)
    found[free] = scales * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return np.where(seen, found, np.nan), reasons
