"""Second derivatives of a factor in the coordinates of a nonlinear program."""

from __future__ import annotations

import casadi as ca

from spookid.kernels.kernel import Array, Kernel
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Transcription


def weighted_curvature(problem: Transcription, factor: Factor, scales: Array) -> Kernel:
    """Hessian of Σ weights_i r_i in the coordinates of each step and the scaled parameters, dense."""
    parameters, constants = problem.shared
    residual = ca.Function("r", [*factor.variables.values(), factor.data, parameters, constants], [factor.residual])
    bases = [ca.SX.sym("base", problem.manifold.ambient) for _ in factor.variables]
    deltas = [ca.SX.sym("delta", problem.manifold.tangent) for _ in factor.variables]
    data, weights = ca.SX.sym("data", factor.data.numel()), ca.SX.sym("weights", len(factor.rows))
    scaled, numbers = ca.SX.sym("theta", parameters.numel()), ca.SX.sym("constants", constants.numel())
    moved = [problem.manifold.chart(x, d) for x, d in zip(bases, deltas, strict=True)]
    value = ca.dot(weights, residual(*moved, data, ca.DM(scales) * scaled, numbers))
    hessian, _ = ca.hessian(value, ca.vertcat(*deltas, scaled))
    inputs = [*bases, *deltas, data, weights, scaled, numbers]
    return Kernel(ca.Function("curvature", inputs, [ca.cse(ca.densify(hessian))]), len(inputs) - 2)
