"""A problem as a notebook shows it: its tables below a drawing of its mechanism where the motion starts."""

from __future__ import annotations

import base64
import io

from spookid.assembly.assembly import gather
from spookid.assembly.outlining import mechanism
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.report import skeleton
from spookid.studies.simulation_start import starting_state
from spookid.tables.table import as_html


def with_drawing(problem: Problem) -> str:
    """Report page as HTML with a drawing; only tables if no pose is found, as for a loop that does not close."""
    try:
        image = base64.b64encode(drawing(problem)).decode("ascii")
    except ProblemError:
        return as_html(problem.blocks())
    return f'<img src="data:image/svg+xml;base64,{image}" alt="bodies and joints">\n{as_html(problem.blocks())}'


def drawing(problem: Problem) -> bytes:
    """Drawing of bodies and joints as SVG, at the start of the first recording; without recordings, of a simulation."""
    if problem.recordings:
        state = gather(problem, problem.recordings[0]).guess.states[0]
    else:
        state = starting_state(problem, None, 0)
    bodies = len(problem.model.bodies)
    figure = skeleton.mechanism(mechanism(problem, problem.guess), state[: 7 * bodies].reshape(1, bodies, 7))
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    return file.getvalue()
