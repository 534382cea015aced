"""Motions of a mechanism as factor graphs: public factor classes, the graph they make, and batch solves. ::

from spookid.graphs import forward_dynamics, simulated

graph = forward_dynamics(system, 1e-3, q)
found = graph.solve(2001, start=simulated(system, 1e-3, 2001, q))
found["q"]
"""

from spookid.graphs.building import STAGES, Sigmas, forward_dynamics, inverse_dynamics
from spookid.graphs.factor import GraphFactor, Observation, Prior, Window
from spookid.graphs.graph import Graph
from spookid.graphs.integration import (
    AccelerationConstraint,
    Dynamics,
    Euler,
    InverseDynamics,
    PositionConstraint,
    SoftEquality,
    Trapezoid,
    VelocityConstraint,
)
from spookid.graphs.solution import GraphSolution, Picture
from spookid.graphs.start import simulated
from spookid.graphs.writing import Stage
from spookid.mechanics.system import System
from spookid.stepping.joint_space import JointSystem

__all__ = [
    "STAGES",
    "AccelerationConstraint",
    "Dynamics",
    "Euler",
    "Graph",
    "GraphFactor",
    "GraphSolution",
    "InverseDynamics",
    "JointSystem",
    "Observation",
    "Picture",
    "PositionConstraint",
    "Prior",
    "Sigmas",
    "SoftEquality",
    "Stage",
    "System",
    "Trapezoid",
    "VelocityConstraint",
    "Window",
    "forward_dynamics",
    "inverse_dynamics",
    "simulated",
]
