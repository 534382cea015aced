"""Factors of a graph as one-step functions of a transcription, with the data that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError
from spookid.graphs.factor import GraphFactor, Window
from spookid.graphs.variables import Variables
from spookid.kernels.kernel import Array, Mask, contiguous
from spookid.transcription.factor import Constant, Factor, Kind

EXACTLY = "{} exactly"
"""Name of the hard rows of a factor that has soft ones too."""


@dataclass(frozen=True, eq=False)
class Written:
    """Rows of one factor of a graph: all of them, or those that are soft, or hard."""

    source: GraphFactor
    factor: Factor
    constants: tuple[Constant, ...]
    """Its sigmas."""
    signals: tuple[str, ...]
    """What its data are, one below the other; presence of each row stands behind them if rows may lack data."""

    def data(self, given: Mapping[str, Array], count: int) -> tuple[Array, Mask]:
        """Data (count, n_d) at the first ``count`` steps, and which rows have none, (count, rows).

        Raises:
            ProblemError: if a signal that must be complete is not there or has gaps.
        """
        gaps = self.source.optional and not self.factor.hard
        columns = np.full((count, len(self.signals)), np.nan)
        for i, signal in enumerate(self.signals):
            if signal in given:
                columns[:, i] = given[signal][:count]
            elif not self.source.optional:
                raise ProblemError(
                    f"{self.source.what} takes the signal {signal!r}, which the data lack; give its values"
                )
        absent = np.isnan(columns)
        if gaps:
            return contiguous(np.hstack([np.where(absent, 0.0, columns), ~absent])), absent
        if np.any(absent):
            signal = self.signals[int(np.argmax(absent.any(axis=0)))]
            raise ProblemError(
                f"{self.source.what} takes the signal {signal!r}, which has gaps; give its values at all steps"
            )
        return columns, np.zeros((count, len(self.factor.rows)), dtype=bool)


def written(source: GraphFactor, variables: Variables, step: ca.SX) -> list[Written]:
    """One factor of a graph, its hard rows apart from soft ones.

    Raises:
        ProblemError: if it cannot be evaluated, or its sigmas do not fit its rows.
    """
    labels = source.labels(variables)
    sigmas = source.sigmas(len(labels))
    kinds = [(Kind.SOFT, np.flatnonzero(sigmas > 0)), (Kind.HARD, np.flatnonzero(sigmas == 0))]
    parts = [(kind, rows) for kind, rows in kinds if len(rows)]
    return [_part(source, variables, step, labels, kind, rows, len(parts) > 1) for kind, rows in parts]


def _part(
    source: GraphFactor,
    variables: Variables,
    step: ca.SX,
    labels: Sequence[str],
    kind: Kind,
    rows: NDArray[np.intp],
    mixed: bool,
) -> Written:
    x = {i: ca.SX.sym(f"x_{i}", variables.manifold.ambient) for i in range(source.reach + 1)}
    soft = kind is Kind.SOFT
    signals = source.signals(variables.system)
    whole = ca.SX.sym("given", len(signals))
    given = dict(zip(signals, ca.vertsplit(whole) if signals else (), strict=True))
    error = ca.densify(source.error(Window(variables, step, [variables.of(one) for one in x.values()], given)))
    if error.numel() != len(labels):
        raise ProblemError(
            f"{source.what} has an error of {error.numel()} rows and {len(labels)} labels; make them one"
        )
    chosen, data = error[rows.tolist()], whole
    constants: tuple[Constant, ...] = ()
    if soft:
        sizes = ca.SX.sym("sigma", len(rows))
        numbers = source.sigmas(len(labels))[rows].tolist()
        constants = tuple(Constant(s, n) for s, n in zip(ca.vertsplit(sizes), numbers, strict=True))
        chosen = chosen / sizes
    if source.optional:
        signals, data = tuple(signals[i] for i in rows), whole[rows.tolist()]
        if soft:
            present = ca.SX.sym("present", len(rows))
            chosen, data = present * chosen, ca.vertcat(data, present)
    name = EXACTLY.format(source.title) if mixed and not soft else source.title
    names = tuple(f"{source.title}: {labels[i]}" for i in rows)
    factor = Factor(name, source.group, chosen, x, data, names, first_only=source.first_only, kind=kind)
    return Written(source, factor, constants, signals)
