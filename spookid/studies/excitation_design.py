"""Motions as sums of functions of time that begin and end at rest, Fourier series or B-splines: how good one is and how
far it is within its limits, with gradients in its coefficients; and the search for the best one by IPOPT.

Of the information M = P + Σ Jᵀ J Δt (``excitation_rows``) a criterion is −log det M, the largest relative standard
error (as a norm of high order, which is smooth), or the logarithms of the errors of some parameters. Directions that no
motion shows are left out of M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import NO_INFORMATION
from spookid.solvers.callbacks import Functions, Watch, observer
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.motion_limits import Bounds

Criterion: TypeAlias = str | Sequence[str]
"""``"determinant"``, ``"largest"``, or names of parameters."""
BasisName: TypeAlias = Literal["fourier", "bspline"]
_ORDER = 8
"""Exponent of the norm that approximates the largest of some squares."""
_DRAWS, _FEW = 200, 10
"""Of a random motion at the most, until one is within the limits, and at least, if it had to be lessened."""
_ANGLES = np.pi
"""Half the range of the middle of a coordinate without limits [rad or m]."""
_INNER = 0.5
"""Share of the range of a position in which the middle of a random motion lies."""
_STEEP = 2.0
"""Slope that the criterion has at the start at least, as IPOPT sees it."""
_SETTINGS = {
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",
    "ipopt.hessian_approximation": "limited-memory",
    "ipopt.tol": 1e-3,
    "ipopt.acceptable_tol": 1.0,
    "ipopt.acceptable_iter": 5,
    "ipopt.acceptable_obj_change_tol": 1e-4,
    "ipopt.mu_strategy": "adaptive",
}
"""A search converges at a stationary point, or within the limits once five iterations in a row each change the
criterion by less than 1e-4 of it. A design that is a thousandth from its optimum determines the parameters as well, and
an approximate Hessian takes long to show the gradient to be zero."""
LIMITED = "Maximum_Iterations_Exceeded"
"""How IPOPT says that a search has not converged within its iterations."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Set of m functions on [0, T] with zero first and second derivatives at both ends; the first is constant.

    A Fourier series has the frequencies 1/T ... L/T (Swevers et al., Mechanical Systems and Signal Processing 10,
    1996); splines have evenly spaced knots and as many coefficients.
    """

    name: BasisName
    duration: float
    """T [s]."""
    harmonics: int
    """L."""

    @property
    def size(self) -> int:
        """m."""
        return int(self._resting.shape[1])

    def at(self, t: Array) -> Array:
        """Values, first and second derivatives of the basis functions at N times, (3, N, m)."""
        return np.asarray(self._whole(t) @ self._resting)

    @property
    def _resting(self) -> Array:
        """Combinations of all functions that rest at both ends, the constant first, (M, m)."""
        ends = self._whole(np.array([0.0, self.duration]))[1:].reshape(4, -1)
        lengths = np.linalg.norm(ends, axis=1, keepdims=True)
        _, sizes, directions = np.linalg.svd(ends / np.where(lengths > 0, lengths, 1.0))
        found = directions[int(np.sum(sizes > NO_INFORMATION)) :]
        constant = np.zeros(found.shape[1])
        constant[: 1 if self.name == "fourier" else None] = 1.0
        others = found - np.outer(found @ constant, constant) / (constant @ constant)
        _, _, moving = np.linalg.svd(others)
        return np.column_stack([constant, moving[: len(found) - 1].T])

    def _whole(self, t: Array) -> Array:
        """All functions without regard to the ends, (3, N, M)."""
        return self._series(t) if self.name == "fourier" else self._splines(t)

    def _series(self, t: Array) -> Array:
        omega = 2 * np.pi / self.duration * np.arange(1, self.harmonics + 1)
        phase = np.outer(t, omega)
        sines, cosines, size = np.sin(phase), np.cos(phase), omega / omega[0]  # rates of one size
        values = np.hstack([np.ones((len(t), 1)), sines / size, cosines / size])
        rates = np.hstack([np.zeros((len(t), 1)), cosines * omega / size, -sines * omega / size])
        accelerations = np.hstack([np.zeros((len(t), 1)), -sines * omega**2 / size, -cosines * omega**2 / size])
        return np.stack([values, rates, accelerations])

    def _splines(self, t: Array) -> Array:
        from scipy.interpolate import BSpline  # half a second to load

        count = 2 * self.harmonics + 1 + 2  # as many as a series once four ends are at rest
        degree = 5  # accelerations have continuous slopes
        inner = np.linspace(0.0, self.duration, count - degree + 1)
        knots = np.concatenate([np.zeros(degree), inner, np.full(degree, self.duration)])
        spline = BSpline(knots, np.eye(count), degree)
        return np.stack([np.asarray(spline(t, nu)) for nu in range(3)])


@dataclass(frozen=True, eq=False)
class Design:
    """Motion with basis coefficients z (n m,), coordinate by coordinate."""

    efforts: PlannedEfforts
    basis: Basis
    bounds: Bounds
    t: Array
    """Instants that it is judged at, evenly spaced, (N,) [s]."""
    known: Array
    """Information beforehand, (n_p, n_p)."""
    sizes: Array
    """Of the parameters, whose shares errors are, (n_p,)."""
    judged: Mask
    """Parameters whose errors count, (n_p,); of −log det all do."""
    determinant: bool
    largest: bool
    """True for the largest of these errors, False for all together."""
    shown: Array
    """Directions of scaled parameters that count, orthonormal columns (n_p, r)."""

    @cached_property
    def functions(self) -> Array:
        """Basis functions and derivatives, (3, N, m)."""
        return self.basis.at(self.t)

    def motion(self, z: Array, functions: Array | None = None) -> Array:
        """(3, N, n)."""
        at = self.functions if functions is None else functions
        return np.asarray(at @ z.reshape(-1, self.basis.size).T)

    # --- its information ---

    def information(self, motion: Array) -> Array:
        """Fisher information of the data on scaled parameters, (n_p, n_p)."""
        rows = self.efforts.slopes(motion) * self.sizes
        flat = rows.reshape(-1, len(self.sizes))
        return np.asarray(flat.T @ flat * (self.t[1] - self.t[0]))

    def judge(self, data: Array) -> tuple[float, Array]:
        """Criterion of the design, and its negative gradient with respect to the information matrix, (n_p, n_p)."""
        whole = data + self.known * np.outer(self.sizes, self.sizes)
        inner = self.shown.T @ whole @ self.shown
        if not np.all(np.isfinite(inner)):
            return np.inf, np.zeros_like(whole)
        try:
            factor = np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(whole)
        half = np.linalg.solve(factor, self.shown.T)
        covariance = half.T @ half
        if self.determinant:
            return -2 * float(np.sum(np.log(np.diag(factor)))), covariance
        squares = np.diag(covariance)[self.judged]
        if self.largest:
            top = float(np.max(squares))
            total = float(np.sum((squares / top) ** _ORDER))
            value = np.log(top) + np.log(total) / _ORDER
            weights = (squares / top) ** (_ORDER - 1) / (total * top)
        else:
            value, weights = float(np.sum(np.log(squares))), 1 / squares
        columns = covariance[:, self.judged]
        return float(value), (columns * weights) @ columns.T

    def value(self, z: Array) -> float:
        """The criterion at coefficients."""
        return self.judge(self.information(self.motion(z)))[0]

    def gradient(self, z: Array) -> Array:
        """Gradient of the criterion with respect to the coefficients."""
        motion, step = self.motion(z), self.t[1] - self.t[0]
        rows = self.efforts.slopes(motion) * self.sizes
        flat = rows.reshape(-1, len(self.sizes))
        slope = self.judge(flat.T @ flat * step)[1]
        pulled = self.efforts.pulled(motion, -2 * step * (rows @ slope) * self.sizes)
        return np.asarray(np.einsum("dkm,dkn->nm", self.functions, pulled)).ravel()

    # --- what it takes ---

    def fitted(self, z: Array, t: Array, least: float = 0.0) -> tuple[Array, float]:
        """A motion lessened to lie within the limits at times (N,), and the share of it that this is: 1 at the most,
        and 0 if it would be no more than ``least``. It is lessened about its middle, or about home where coordinates
        follow others, as poses far from there need not exist."""
        functions, middle = self.basis.at(t), self._middle(z)

        def inside(share: float) -> bool:
            return self.bounds.beyond(self.efforts.asked(self.motion(middle + share * (z - middle), functions))) <= 0

        if inside(1.0):
            return z, 1.0
        low, high = least, 1.0
        if not inside(least):
            return middle, 0.0
        while high - low > 1e-3:
            share = (low + high) / 2
            low, high = (share, high) if inside(share) else (low, share)
        return np.asarray(middle + low * (z - middle)), low

    def _middle(self, z: Array) -> Array:
        """What a motion is lessened about, which is constant."""
        parts, coordinates = z.reshape(-1, self.basis.size).copy(), self.efforts.coordinates
        parts[:, 1:] = 0.0
        if coordinates.dependent:
            parts[:, 0] = coordinates.home[0]
        return parts.ravel()


@dataclass(eq=False)
class DesignProgram:
    """Design of a motion as a nonlinear program (``solvers.callbacks.Evaluated``)."""

    design: Design
    origin: Array
    """Where it starts."""

    @property
    def size(self) -> int:
        """Unknowns."""
        return len(self.origin)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the constraints, each divided by its scale."""
        limits = self.design.bounds
        pair = [(side / limits.scales)[limits.present] for side in limits.inner]
        return np.tile(pair[0], len(self.design.t)), np.tile(pair[1], len(self.design.t))

    def objective(self, z: Array) -> float:
        """The criterion."""
        return self.design.value(z)

    def gradient(self, z: Array) -> Array:
        """Of the criterion."""
        return self.design.gradient(z)

    def constraints(self, z: Array) -> Array:
        """Values of the limited quantities, ordered by time."""
        limits = self.design.bounds
        rows = self.design.efforts.asked(self.design.motion(z))
        return (rows / limits.scales)[:, limits.present].ravel()

    def jacobian(self, z: Array) -> Array:
        """Its nonzeros, column by column."""
        design, limits = self.design, self.design.bounds
        slopes = design.efforts.asked_slopes(design.motion(z))[:, :, limits.present]
        whole = np.einsum("dkrn,dkm->krnm", slopes / limits.scales[limits.present][:, None], design.functions)
        dense = whole.reshape(len(design.t), -1, self.size)
        return np.asarray(dense.transpose(2, 0, 1).reshape(self.size, -1)[self._pattern.T])

    @cached_property
    def jacobian_sparsity(self) -> ca.Sparsity:
        """Sparsity pattern of the constraint Jacobian."""
        columns, rows = np.nonzero(self._pattern.T)
        return ca.Sparsity.triplet(self._pattern.shape[0], self.size, rows.tolist(), columns.tolist())

    @cached_property
    def _pattern(self) -> Mask:
        """(rows, unknowns)."""
        design = self.design
        kept = design.efforts.asked_pattern[design.bounds.present]
        return np.tile(np.repeat(kept, design.basis.size, axis=1), (len(design.t), 1))


@dataclass(frozen=True, eq=False)
class Search:
    """Motions within limits.

    Args:
        design: how they are judged.
        t: the times at which limits are kept, those of the controller [s].
    """

    design: Design
    t: Array

    @cached_property
    def _home(self) -> tuple[Array, Array, Array]:
        """z at home, and of each planned coordinate how far from there and how fast limits let it move, to first order,
        (m,) each; infinite without any.

        Raises:
            ProblemError: for a home outside of the limits, or a coordinate whose rate nothing limits.
        """
        efforts, limits = self.design.efforts, self.design.bounds
        home, n, problem = efforts.coordinates.home[0], len(limits.rate), efforts.problem
        still = np.stack([home, 0 * home, 0 * home])[:, None]
        asked = efforts.asked(still)
        at, slopes = asked[0, :n], np.abs(efforts.asked_slopes(still)[0, 0, :n])
        room = np.minimum(limits.position[1] - at, at - limits.position[0])
        if np.any(room < 0):
            name = problem.model.freedoms[int(np.argmin(room))].label
            raise ProblemError(
                f"{problem.place}: {name!r} is at {at[int(np.argmin(room))]:.4g} in the home pose, outside of its "
                "limits; give initial, a pose within them"
            )
        if efforts.coordinates.dependent and (over := limits.beyond(asked)) > 0:
            raise ProblemError(
                f"{problem.place}: holding the home pose takes {100 * over:.3g} % more than the limits of efforts, "
                "places or contacts allow; give initial, a pose within them"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(slopes > 1e-9, 1 / slopes, np.inf)  # a smaller one is rounding
            reach, rates = (np.min(one[:, None] * shares, axis=0, initial=np.inf) for one in (room, limits.rate))
        if endless := [i for i, rate in zip(efforts.coordinates.planned, rates, strict=True) if np.isinf(rate)]:
            name = efforts.coordinates.joints.names[endless[0]]
            raise ProblemError(f"{problem.place}: nothing limits how fast {name!r} moves; limit rates of joints")
        return home, reach, rates

    def drawn(self, rng: np.random.Generator) -> Array:
        """Draw coefficients of a random motion, and scale them up to the limits of positions and velocities."""
        design, (home, reach, fastest) = self.design, self._home
        m, n = design.basis.size, len(home)
        functions, z = design.functions, rng.standard_normal((n, m))
        endless = _ANGLES if not design.efforts.coordinates.dependent else 0.0
        away = _INNER * np.where(np.isfinite(reach), reach, endless) * rng.uniform(-1, 1, n)
        moved, rates = (np.max(np.abs(functions[i, :, 1:] @ z[:, 1:].T), axis=0) for i in (0, 1))
        z[:, 1:] *= np.minimum((reach - np.abs(away)) / moved, fastest / rates)[:, None]
        z[:, 0] = home + away
        return z.ravel()

    def random(self, rng: np.random.Generator, few: int = _FEW) -> Array:
        """Return a random motion within all limits: of several draws, the one that had to be reduced least.

        Args:
            few: draws.

        Raises:
            ProblemError: if none is found.
        """
        best, share = np.zeros(0), 0.0
        for draw in range(_DRAWS):
            fitted, of_it = self.design.fitted(self.drawn(rng), self.design.t, share)
            best, share = (fitted, of_it) if of_it > share else (best, share)
            if share == 1 or (share > 0 and draw + 1 >= few):
                found, of_it = self.design.fitted(best, self.t)
                if of_it > 0:
                    return found
                share = 0.0
        raise ProblemError(
            f"{self.design.efforts.problem.place}: in {_DRAWS} poses at random the mechanism could not even stand "
            "within its limits; narrow those of positions around a pose that it can hold, or widen the others"
        )

    def improved(self, start: Array, watch: Watch, seen: Callable[[int, float], None], most: int) -> tuple[Array, str]:
        """Optimize the coefficients by IPOPT, starting within the limits, and return the solver's status.

        Args:
            watch: knows of an interrupt.
            seen: called with iterations and the criterion.
            most: iterations; the search converges long before, or says that it has not.
        """
        program = DesignProgram(self.design, start)
        functions = Functions(program, watch)
        last, count = start, 0

        def see(z: Array, _: Array, __: Array) -> bool:
            nonlocal last, count
            last, count = z, count + 1
            seen(count - 1, program.objective(z))
            return False

        given: dict[str, Any] = {
            **functions.options,
            "iteration_callback": observer(program, see, watch),
            "iteration_callback_ignore_errors": False,
            "no_nlp_grad": True,
            "calc_lam_p": False,
            "print_time": False,
            "show_eval_warnings": False,
            "ipopt.max_iter": most,
            # Where much is known already, a motion gains little, and IPOPT's tolerance is no share of that.
            "ipopt.obj_scaling_factor": max(1.0, _STEEP / float(np.max(np.abs(program.gradient(start))))),
            **_SETTINGS,
        }
        solver = ca.nlpsol("excitation", "ipopt", functions.nlp, given)
        below, above = program.bounds
        found = solver(x0=start, lbg=below, ubg=above)
        if watch.error is not None:
            raise watch.error
        end = str(solver.stats().get("return_status"))
        best = last if watch.interrupted else np.asarray(found["x"].full())[:, 0]
        fitted, share = self.design.fitted(best, self.t)
        return (fitted if share > 0 else start), end
