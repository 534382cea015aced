"""Riccati recursion: `python results/riccati.py` writes `riccati.md`.

Needs the package example-robot-data, beside Pinocchio or in the folder `SPOOKID_ROBOTS`; CasADi's plugins FATROP and
HPIPM are measured where CasADi has them. Half an hour. Times are of the processor, one thread, and vary by a fifth.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import casadi as ca
import numpy as np
from riccati_robots import MOTIONS, Estimation, Robot, prepared, robot
from scipy import sparse
from scipy.sparse.linalg import splu

from spookid.kernels.stages import HardRows
from spookid.kernels.thread_pool import Workspace
from spookid.solvers.elimination import Elimination, assembled
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt, RecursiveLevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NormalEquations, normal_equations
from spookid.transcription.transcription import Transcription

HERE = Path(__file__).parent
Array = Any
ALPHA = 1e-6
"""Damping of the linearized problems that are compared."""
SMALL = 6
"""Rates of robots that IPOPT is tried on."""
HORIZONS = (100, 1000, 10_000, 100_000)


def main() -> None:
    """Compare, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(MOTIONS), nargs="*", default=list(MOTIONS))
    names = parser.parse_args().only
    robots = {name: robot(name) for name in names}
    parts = [equality(robots), horizons(robots[names[0]]), iterations(robots[names[-1]])]
    text = "\n".join([INTRO, *parts])
    if names == list(MOTIONS):
        (HERE / "riccati.md").write_text(text, encoding="utf-8")
    print(text, file=sys.stdout)


INTRO = """# Riccati recursion

This page compares the Riccati recursion for the steps of an estimation (backend `"riccati"`) with other solvers. The
recursion is that of section VIII of Martinez, Tonneau and Mastalli, *System Identification under Constraints and
Disturbance*. The command `python results/riccati.py` writes this page. The motions are simulated with process noise and
measurement noise. The unknowns are all states and the ten inertial parameters of one or two bodies; the feet are fixed
points on the ground. The page [bayesian.md](bayesian.md) lists the iterations of forward and inverse dynamics for these
problems.
"""


# --- against a sparse optimality system ---


@dataclass(frozen=True, eq=False)
class Linear:
    """A linearized problem, in the unknowns that are left of each step."""

    soft: list[Rows]
    hard: list[Rows]
    steps: int
    tangent: int
    parameters: int

    @property
    def equations(self) -> NormalEquations:
        """Of the soft rows."""
        return normal_equations(self.soft, self.steps, self.tangent, self.parameters)

    def matrix(self, blocks: list[Rows]) -> sparse.csc_array:
        """Rows of states, parameters and value."""
        parts, width = [], self.steps * self.tangent
        for rows in blocks:
            count, _, m = rows.matrix.shape
            starts = [
                np.arange(count)[:, None] * self.tangent + (o * self.tangent + np.arange(self.tangent))
                for o in rows.offsets
            ]
            last = np.broadcast_to(width + np.arange(self.parameters + 1), (count, self.parameters + 1))
            places = np.hstack([*starts, last])[:, :, None]
            numbers = np.arange(count * m).reshape(count, 1, m)
            places, numbers = (np.broadcast_to(a, rows.matrix.shape).ravel() for a in (places, numbers))
            shape = (count * m, width + self.parameters + 1)
            parts.append(sparse.coo_array((rows.matrix.ravel(), (numbers, places)), shape=shape))
        return sparse.csc_array(sparse.vstack([sparse.coo_array((0, width + self.parameters + 1)), *parts]))


def linearized(problem: Estimation) -> Linear:
    """At the start."""
    transcription: Transcription = problem.transcription
    reduced = ReducedProblem(transcription, problem.start)
    point = reduced.project(problem.start)
    rows = reduced.linearize(point, 0, kept=True)[0]
    soft, hard = (
        [r for r, f in zip(rows, reduced.kept, strict=True) if (f in reduced.coupled) == wanted]
        for wanted in (False, True)
    )
    return Linear(soft, hard, transcription.chains[0].steps, reduced.tangent, len(transcription.names))


def parts_of(linear: Linear) -> tuple[Any, Any, Array]:
    """Soft rows' H of the states with damping, hard rows A, and H's diagonal share."""
    J, A = linear.matrix(linear.soft), linear.matrix(linear.hard)
    n = linear.steps * linear.tangent
    H = sparse.csc_array(J[:, :n].T @ J[:, :n])
    diagonal = H.diagonal()
    damping = np.where(diagonal > 0, ALPHA * diagonal, 1.0)
    return J, A, damping


def general(linear: Linear) -> tuple[Array, Array, float]:
    """Schur complement and step by sparse LU of the whole optimality system; its time [s]."""
    J, A, damping = parts_of(linear)
    n = linear.steps * linear.tangent
    began = time.process_time()
    system = sparse.block_array([[J[:, :n].T @ J[:, :n] + sparse.diags_array(damping), A[:, :n].T], [A[:, :n], None]])
    border = np.concatenate([(J[:, :n].T @ J[:, n:]).toarray(), A[:, n:].toarray()])
    factor = splu(sparse.csc_matrix(system))
    solution = factor.solve(border)
    for _ in range(2):
        solution += factor.solve(border - system @ solution)
    corner = (J[:, n:].T @ J[:, n:]).toarray() - border.T @ solution
    spent = time.process_time() - began
    S, g = corner[:-1, :-1], corner[:-1, -1]
    move = -np.linalg.solve(S, g)
    return S, -(solution[:, :-1] @ move + solution[:, -1])[:n], spent


def eliminated(linear: Linear, workspace: Workspace) -> tuple[Array, Array, float]:
    """The same by the one elimination of a chain."""
    diagonal = linear.equations.diagonal
    damping, hard = np.where(diagonal > 0, ALPHA * diagonal, 1.0), [HardRows(r.offsets, r.matrix) for r in linear.hard]
    equations = assembled(
        [*linear.soft, *linear.hard], hard, linear.steps, linear.tangent, linear.parameters, workspace
    )
    began = time.process_time()
    made = Elimination(equations, damping, hard, workspace)
    corner = equations.corner - made.corner
    S, g = corner[:-1, :-1], corner[:-1, -1]
    move = -np.linalg.solve(S, g)
    states = made.step(made.own, move)[0]
    return S, states, time.process_time() - began


def equality(robots: dict[str, Robot]) -> str:
    """Steps and Schur complements."""
    rows = []
    for name, one in robots.items():
        for kind in ("inverse", "forward") if one.n <= 2 * SMALL else ("inverse",):
            linear = linearized(prepared(one, kind))
            S, step, _ = eliminated(linear, Workspace())
            expected, wanted, _ = general(linear)
            sizes = np.sqrt(np.diag(expected))
            scaled = np.abs(S - expected) / np.outer(sizes, sizes)
            rows.append(
                [name, kind, f"{np.max(scaled):.0e}", f"{np.max(np.abs(step - wanted)) / np.max(np.abs(wanted)):.0e}"]
            )
            print(*rows[-1], flush=True, file=sys.stderr)
    return f"""## Against a sparse optimality system

The problems are linearized at the start. The first table compares V_θθ of the first step (scaled by the roots of its
diagonal) and the step of the states with SuperLU, which solves the whole optimality system with two refinements. The
largest differences are:

{table(["robot", "dynamics", "V_θθ", "step"], rows)}
"""


# --- time ---


def repeated(linear: Linear, steps: int) -> Linear:
    """A longer horizon of the same steps, over and over."""

    def longer(rows: Rows) -> Rows:
        count = steps - max(rows.offsets) if len(rows.matrix) > 1 else 1
        times = -(-count // len(rows.matrix))
        return Rows(rows.offsets, np.tile(rows.matrix, (times, 1, 1))[:count], None)

    return Linear(
        [longer(r) for r in linear.soft], [longer(r) for r in linear.hard], steps, linear.tangent, linear.parameters
    )


def quickest(measure: Any, times: int = 3) -> float:
    """Of a few runs [s]."""
    return min(measure() for _ in range(times))


def horizons(one: Robot) -> str:
    """Time of a step along longer and longer horizons."""
    linear, rows = linearized(prepared(one, "inverse")), []
    for steps in HORIZONS:
        longer, workspace = repeated(linear, steps), Workspace()
        spent = quickest(lambda longer=longer, workspace=workspace: eliminated(longer, workspace)[2])
        rows.append([f"{steps}", f"{1e3 * spent:.3g}", f"{1e6 * spent / steps:.3g}"])
        print(*rows[-1], flush=True, file=sys.stderr)
    return f"""## Length of the horizon

The elimination and the step of states and multipliers, of the {one.name} with inverse dynamics
({linear.tangent} unknowns and {sum(r.matrix.shape[2] for r in linear.hard)} hard rows a stage, {linear.parameters}
parameters):

{table(["stages", "ms", "µs a stage"], rows)}
"""


def stagewise(problem: Estimation) -> tuple[sparse.csc_array, Array, sparse.csc_array, Array, dict[str, Any]]:
    """The same linearized problem as solvers of optimal control take it: H, g, A, b with A z + b = 0, and its stages.

    States of a stage are θ, q and v, for these solvers know no parameters beside them; inputs are w, a and forces of
    feet.
    """
    transcription, n, p = problem.transcription, problem.robot.n, len(problem.transcription.names)
    blocks = {b.factor.name: b.matrix for b in transcription.linearize(problem.start, 0)}
    width, N = transcription.manifold.tangent, transcription.chains[0].steps
    size, states = width + p, 2 * n
    rows: list[tuple[int, Array, Array]] = []
    for k in range(N - 1):
        motion = blocks["motion"][k].T
        own, later = motion[:, :width], np.linalg.inv(motion[:, width : width + states])
        step = np.zeros((states + p, size + states + p + 1))
        step[:p, :p], step[:p, size : size + p] = np.eye(p), -np.eye(p)
        step[p:, p:size], step[p:, -1] = -later @ own, -later @ motion[:, -1]
        step[p:, :p] = -later @ motion[:, 2 * width : 2 * width + p]
        step[p:, size + p : size + p + states] = -np.eye(states)
        rows.append((k, step[:, :-1], step[:, -1]))
        for name in ("inverse dynamics", "standing"):
            if name in blocks:
                part = blocks[name][k].T
                rows.append((k, np.hstack([part[:, 2 * width : 2 * width + p], part[:, :width]]), part[:, -1]))
    A = sparse.csc_array(
        sparse.vstack(
            [
                sparse.hstack(
                    [
                        sparse.coo_array((len(part), k * size)),
                        sparse.coo_array(part),
                        sparse.coo_array((len(part), N * size - k * size - part.shape[1])),
                    ]
                )
                for k, part, _ in rows
            ]
        )
    )
    own, slopes = [np.zeros((size, size)) for _ in range(N)], np.zeros((N, size))
    for name in ("positions", "rates", "disturbances", "prior"):
        for k, matrix in enumerate(blocks[name]):
            J = np.hstack([matrix.T[:, width : width + p], matrix.T[:, :width]])
            own[k] += J.T @ J
            slopes[k] += J.T @ matrix.T[:, -1]
    for H in own:
        diagonal = np.diag(H)
        H[np.arange(size), np.arange(size)] += np.where(diagonal > 0, ALPHA * diagonal, np.arange(size) >= p)
    H = sparse.csc_array(sparse.block_diag(own))
    kept = N * size - (width - states)  # inputs of the last stage do nothing
    H, A, slopes = H[:kept, :kept], A[:, :kept], slopes.ravel()[:kept]
    path = sum(len(part) for k, part, _ in rows if k == 0) - states - p
    structure = {
        "N": N - 1,
        "nx": [states + p] * N,
        "nu": [width - states] * (N - 1) + [0],
        "ng": [path] * (N - 1) + [0],
    }
    return H, slopes, A, np.concatenate([b for *_, b in rows]), structure


def plugin(problem: Estimation, name: str) -> tuple[float, int, bool]:
    """Time of an iteration of a plugin [s], how many it took, and whether it ended well."""
    H, g, A, b, structure = stagewise(problem)
    h, a = (ca.DM(ca.Sparsity(*m.shape, m.indptr.tolist(), m.indices.tolist()), m.data) for m in (H, A))
    options: dict[str, Any] = {**structure, "print_time": False, "error_on_fail": False}
    if name == "hpipm":
        solver = ca.conic("solver", name, {"h": h.sparsity(), "a": a.sparsity()}, options)
        given = {"h": h, "g": g, "a": a, "lba": -b, "uba": -b}
    else:
        z = ca.MX.sym("z", len(g))
        options |= {"structure_detection": "manual", "equality": [True] * len(b), name: {"print_level": 0}}
        linear = {"x": z, "f": ca.bilin(h, z, z) / 2 + ca.dot(g, z), "g": -(a @ z + b)}
        solver = ca.nlpsol("solver", name, linear, options)
        given = {"lbg": 0, "ubg": 0}
    solver(**given)  # which also makes memory ready
    began = time.process_time()
    solver(**given)
    spent, stats = time.process_time() - began, solver.stats()
    spent -= sum(value for key, value in stats.items() if key.startswith("t_proc_nlp_"))  # of evaluating the program
    count = max(int(stats.get("iter_count", 1)), 1)
    return spent / count, count, bool(stats["success"])


def iterations(one: Robot) -> str:
    """Time of an iteration by several solvers."""
    problem = prepared(one, "inverse")
    linear, workspace = linearized(problem), Workspace()
    ours = quickest(lambda: eliminated(linear, workspace)[2], 5)
    rows = [["one elimination", f"{1e3 * ours:.3g}", "1"]]

    def add(what: str, seconds: float) -> None:
        rows.append([what, f"{1e3 * seconds:.3g}", f"{seconds / ours:.3g}"])
        print(*rows[-1], flush=True, file=sys.stderr)

    add("sparse LU of the whole system (SuperLU)", quickest(lambda: general(linear)[2], 1))
    for name in ("fatrop", "hpipm"):
        if not (ca.has_conic if name == "hpipm" else ca.has_nlpsol)(name):
            rows.append([f"CasADi's {name}, which this CasADi does not have", "", ""])
            continue
        spent, count, well = plugin(problem, name)
        add(f"CasADi's {name}, one of {count} iterations{'' if well else ', which failed'}", spent)
    whole = []
    for solver in (
        RecursiveLevenbergMarquardt(max_iterations=3),
        LevenbergMarquardt(max_iterations=3),
        Ipopt(max_iterations=3),
    ):
        began = time.process_time()
        outcome = solver.solve(problem.transcription, problem.start)
        spent = time.process_time() - began
        whole.append([solver.name, f"{1e3 * spent / max(len(outcome.history) - 1, 1):.3g}"])
        print(*whole[-1], flush=True, file=sys.stderr)
    return f"""## Time of an iteration

The third table is for the {one.name} with {linear.steps} stages of {linear.tangent} unknowns and
{sum(r.matrix.shape[2] for r in linear.hard)} equality constraints, and {linear.parameters} parameters. The times are
those of factorization and step alone:

{table(["by", "ms", "ratio"], rows)}

Whole iterations, with all that is evaluated:

{table(["backend", "ms"], whole)}
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
