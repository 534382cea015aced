"""Motions of a mechanism as factor graphs: public factor classes, the graph they make, and batch solves."""

from __future__ import annotations

from spookid.graphs.building import STAGES as STAGES
from spookid.graphs.building import Noise as Noise
from spookid.graphs.building import forward_dynamics as forward_dynamics
from spookid.graphs.building import inverse_dynamics as inverse_dynamics
from spookid.graphs.constraint_factors import AccelerationConstraint as AccelerationConstraint
from spookid.graphs.constraint_factors import PositionConstraint as PositionConstraint
from spookid.graphs.constraint_factors import VelocityConstraint as VelocityConstraint
from spookid.graphs.dynamics import Dynamics as Dynamics
from spookid.graphs.dynamics import InverseDynamics as InverseDynamics
from spookid.graphs.factor import GraphFactor as GraphFactor
from spookid.graphs.factor import Window as Window
from spookid.graphs.graph import Graph as Graph
from spookid.graphs.integration import Euler as Euler
from spookid.graphs.integration import SoftEquality as SoftEquality
from spookid.graphs.integration import Trapezoid as Trapezoid
from spookid.graphs.knowledge import Observation as Observation
from spookid.graphs.knowledge import Prior as Prior
from spookid.graphs.solution import GraphSolution as GraphSolution
from spookid.graphs.stage import Stage as Stage
from spookid.graphs.start import simulated as simulated
