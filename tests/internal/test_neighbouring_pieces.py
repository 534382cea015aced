"""Stationarity of complementarity pairs by linear programs, where pieces can be looked through by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
import pytest

from spookid.solvers.neighbouring_pieces import Pieces, judged


def corner(gradient: tuple[float, float], tie: tuple[float, float] | None = None) -> Pieces:
    """The point a = b = 0 of one pair of unknowns, of which a is held, with a row ``tie`` that is zero beside it."""
    rows = np.vstack([np.eye(2), *([tie] if tie else [])])
    fixed = np.zeros(len(rows) - 2)
    role = SimpleNamespace(upper=np.array([[0.0, np.inf]]))
    place = SimpleNamespace(factor=SimpleNamespace(pairs=True), rows=np.array([[0, 1]]), role=role)
    full = ca.DM(rows).sparsity()
    program: Any = SimpleNamespace(
        places=(place,),
        jacobian_sparsity=ca.Sparsity.dense(*rows.shape) if full.nnz() < rows.size else full,
        jacobian=lambda z: rows.T.ravel(),
        gradient=lambda z: np.array(gradient),
        lengths=lambda z, hard=False: np.ones(2),
        box=(np.full(2, -np.inf), np.full(2, np.inf)),
        bounds=(np.zeros(len(rows)), np.concatenate([[0.0, np.inf], fixed])),
        constraints=lambda z: np.zeros(len(rows)),
    )
    return Pieces(program, np.zeros(2), 1.0, [np.array([[True]])])


@pytest.mark.parametrize(
    ("gradient", "tie", "first"),
    [
        ((1.0, 1.0), None, None),
        ((-1.0, 1.0), None, False),
        ((1.0, -1.0), None, None),  # the piece where it stands is not at its own minimum: no other is better
        ((-1.0, 0.5), (1.0, -1.0), None),  # the pair would grow together, which neither piece allows
        ((-1.0, 0.5), (1.0, 1.0), None),
    ],
)
def test_a_better_piece_is_found_if_there_is_one(gradient: Any, tie: Any, first: bool | None) -> None:
    here = corner(gradient, tie)
    better, said = judged(here, 1e-5, True)
    assert (None if better is None else bool(better[0][0, 0])) is first
    assert said.startswith("B-stationary" if first is None else "")


def test_what_is_not_checked_is_not_called_b_stationary() -> None:
    assert judged(corner((1.0, 1.0)), 1e-5, False)[1].startswith("strongly stationary for the active set found; 1 of 1")
