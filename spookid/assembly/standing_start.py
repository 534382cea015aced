"""Where a mechanism that stands on contacts is: what no sensor tells of its place, and a motion to begin a fit with.

Encoders, an inertial unit and feet that stand tell how a robot moves but not where it is: all of it may be moved and
turned about the direction of gravity, and nothing that is measured changes. Rows of the first state keep it where its
initial guess is, which is no information.

The motion is that of least squares of the sensors and the contacts alone, which needs no masses: free bodies have only
weak rows that they do not speed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.checks import cyclic
from spookid.assembly.initialization import Guess, SampledRecording
from spookid.assembly.problem import Problem
from spookid.data.channels import all_predicted
from spookid.data.state import State
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.precision import EQUAL
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND
from spookid.mechanics.contacts import HeldContact
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in, substitute
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.statistics.marginal import roughness
from spookid.stepping.contact_rows import slip_name
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant, Factor, Group
from spookid.transcription.transcription import Point, Transcription

PLACE = "place"
"""Name of the factor that keeps a mechanism, or coordinates of its joints, where they begin; its data are the initial
first configuration."""
_MOTION = "motion of contacts"
_NEAR = 1e-3
"""How near it is kept [m, rad]: a number that nothing depends on, small against what contacts know of one another."""
_STILL, _SLIDING = 100.0, 1e-3
"""Sizes of a free body's accelerations [m/s², rad/s²] and of how far a contact moves in a step [m, rad]."""
_SHARE = 1e-3
"""Of a sensor's largest value, its noise if it has no other."""


def stands_free(model: Model) -> bool:
    """True for a model of free bodies supported by contacts, without joints to the ground or forces from it."""
    grounded = any(GROUND in joint.bodies() for joint in model.joints)
    loaded = any(frame.body is GROUND for load in model.loads for frame in load.frames)
    holding = [contact for contact in model.holding.contacts if isinstance(contact, HeldContact)]
    pulled = any(contact.baumgarte[0] for contact in holding)
    others = set(model.constraints) - set(model.holding.contacts)
    free = any(body.free for body in model.bodies)
    return bool(holding) and free and not (grounded or loaded or pulled or others or model.contacts)


def place_factors(problem: Problem, settings: Settings) -> list[Factor]:
    """Residuals that fix the initial place of the first free body, or such joint coordinates, along directions that
    nothing else determines: none or one."""
    model = problem.model
    if not stands_free(model):
        return _kept(problem, settings, cyclic(problem))
    told = _told(problem)
    if all(told):
        return []
    window = problem.scheme.first_window(model, settings, 0)
    assert window is not None
    pose, start = ca.SX.sym("pose", 7), ca.SX.sym("start", 7)
    body = next(body for body in model.bodies if body.free)
    turn = rotations.logarithm(rotations.multiply(pose[3:], rotations.conjugate(start[3:])))
    rows = ca.vertcat(pose[:3] - start[:3], ca.dot(_upwards(model), turn))
    free = [i for i, known in enumerate(told) if not known]
    i = 7 * model.bodies.index(body)
    rows = ca.substitute(rows[free] / _NEAR, pose, window.motion.q[i : i + 7])
    names = tuple(f"{body.name} {('x', 'y', 'z', 'heading')[i]}" for i in free)
    variables = dict(window.variables)
    return [Factor(PLACE, Group.STATE, rows, variables, start, names, first_only=True)]


def _kept(problem: Problem, settings: Settings, numbers: Sequence[int]) -> list[Factor]:
    """Rows that keep coordinates of joints where they begin, angles the short way round."""
    window = problem.scheme.first_window(problem.model, settings, 0)
    if not numbers or window is None:
        return []
    state, start = State.of(problem.model, window.motion), ca.SX.sym("start", len(problem.model.freedoms))
    freedoms = [problem.model.freedoms[i] for i in numbers]
    rows = [
        f.coordinate.in_range(state.angle(f.joint)[f.index] - start[i]) / _NEAR
        for i, f in zip(numbers, freedoms, strict=True)
    ]
    names = tuple(f.label for f in freedoms)
    return [Factor(PLACE, Group.STATE, ca.vertcat(*rows), dict(window.variables), start, names, first_only=True)]


def place_data(model: Model, guess: Guess) -> Array:
    """Data of the place factor from an initial motion, (1, 7) or (1, n_s)."""
    if not stands_free(model):
        return contiguous(guess.displacements[:1])
    states = guess.states
    i = 7 * next(i for i, body in enumerate(model.bodies) if body.free)
    return contiguous(states[:1, i : i + 7])


def _upwards(model: Model) -> ca.SX:
    """Against gravity, (3,); z where there is none."""
    size = ca.norm_2(model.gravity)
    return ca.if_else(size > 0, -model.gravity / ca.fmax(size, 1e-12), ca.SX([0, 0, 1]))


def _told(problem: Problem) -> list[bool]:
    """Of the translations along x, y, z and the heading whether some sensor tells them."""
    model, rng = problem.model, np.random.default_rng(0)
    n = len(model.bodies)
    d = ca.SX.sym("d", 4)
    q: list[ca.SX] = []
    v: list[ca.SX] = []
    a: list[ca.SX] = []
    turn = rotations.exponential(d[3] * _upwards(model))
    R = rotations.matrix(turn)
    for _ in range(n):
        e = rng.standard_normal(4)
        q += [d[:3] + R @ ca.SX(rng.standard_normal(3)), rotations.multiply(turn, ca.SX(e / np.linalg.norm(e)))]
        for part in (v, a):
            part += [R @ ca.SX(rng.standard_normal(3)), ca.SX(rng.standard_normal(3))]
    inputs = dict.fromkeys(model.signals, ca.SX(1))
    state = State(model, ca.vertcat(*q), ca.vertcat(*v), ca.vertcat(*a), inputs, ca.SX(1))
    shown = all_predicted(problem.channels, state)
    slopes = ca.substitute(ca.jacobian(shown, d), d, ca.SX.zeros(4))
    known = parameters_in([slopes], "the sensors", ignore=[])
    numbers = substitute(ca.densify(slopes), {p.name: problem.guess_on()[p.name] for p in known})
    return [bool(np.any(np.abs(column) > EQUAL)) for column in np.reshape(numbers, (-1, 4)).T]


def standing(
    problem: Problem,
    settings: Settings,
    constants: Sequence[Constant],
    whole: Transcription,
    start: Point,
    sampled: Sequence[SampledRecording],
) -> Point:
    """Motion of a model that stands freely, from an initial motion of the whole problem.

    Args:
        constants: numbers of all symbols.
    """
    kept = [f for f in whole.factors if f.group is Group.OBSERVATION or f.name == PLACE]
    names, chains = {factor.name for factor in kept}, []
    for chain, one in zip(whole.chains, sampled, strict=True):
        data = {name: values for name, values in chain.data.items() if name in names} | {_MOTION: one.held[1:]}
        missing = {name: mask for name, mask in chain.missing.items() if name in names}
        chains.append(replace(chain, data=data, missing=missing))
    numbers = _with_noise(problem, settings, constants, sampled)
    bounds = whole.lower, whole.upper, whole.magnitudes
    given = whole.shared[0], numbers, whole.names, *bounds, chains, whole.choice
    motion = Transcription(whole.manifold, [*kept, _motion(problem, settings)], *given).held_at(start.parameters)
    return LevenbergMarquardt().solve(motion, start).point


def _motion(problem: Problem, settings: Settings) -> Factor:
    """Contacts that hold do not move, and free bodies barely speed up."""
    model, window = problem.model, problem.scheme.window(problem.model, settings, 2)
    variables, held = dict(window.variables), ca.SX.sym("held", len(model.holding.contacts))
    here, after = (problem.scheme.configuration(model, variables[i]) for i in (1, 2))
    rows, labels = [], []
    for i, contact in enumerate(model.holding.contacts):
        apart = contact.moved(contact.place_of(model, after), contact.place_of(model, here))
        rows.append(held[i] * apart / _SLIDING)
        labels += [slip_name(contact)] * apart.numel()
    for i, body in enumerate(model.bodies):
        if body.free:
            rows.append(window.motion.a[6 * i : 6 * i + 6] / _STILL)
            labels += [body.name] * 6
    return Factor(_MOTION, Group.OBSERVATION, ca.vertcat(*rows), variables, held, tuple(labels))


def _with_noise(
    problem: Problem, settings: Settings, constants: Sequence[Constant], sampled: Sequence[SampledRecording]
) -> list[Constant]:
    """Constants, with noise of sensors as far as samples alone show it."""
    symbols, found = {s.element_hash(): i for i, s in enumerate(ca.vertsplit(settings.sensors))}, []
    for constant in constants:
        i = symbols.get(constant.symbol.element_hash()) if constant.symbol.numel() == 1 else None
        if i is not None and not problem.channels[i].sigma:
            signals = [one.samples[i].values for one in sampled]
            most = max((float(np.nanmax(np.abs(values), initial=0.0)) for values in signals), default=0.0)
            constant = replace(constant, value=max(roughness(signals), _SHARE * most) or 1.0)
        found.append(constant)
    return found
