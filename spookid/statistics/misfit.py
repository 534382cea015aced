"""What a model lacks, told by what its residuals correlate with: score tests of what is usual.

Each usual cause (a sensor that lags or is off, friction, an inertia or a spring that is missing, a motor that lags)
would change the whitened residuals r along a column e, were it there with size a: r + a e. With states and parameters
projected out of both, what the data say of it is

    a = −eᵀr/eᵀe,    z = −eᵀr/|e|,

z standard normal if the model is right (Rao's score test; r is white then). The strongest is taken up and projected out
before the next is asked, so that each says something of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from spookid.factor import Group, measured_noise
from spookid.kernels import Array
from spookid.solvers.contraction import Columns, Contraction, Strip

FALSE_ALARMS = 0.01
"""Probability of one or more on data that the model fits."""
_MOST = 3
"""Symptoms that are told."""
_INDEPENDENT = 1e-2
"""Share of what states leave of a column's square that parameters must leave, too, or it is no cause of its own: what
motion, parameters and the equations of motion make up together is left with the disturbance itself."""
_FAR = 5.0
"""Times the noise, by the median of the residuals, from which on a sample is an outlier."""
_SLOW = 0.3
"""Rate below which friction at rest would be felt, as a share of the root mean square."""


@dataclass(frozen=True)
class Cause:
    """One usual cause."""

    words: str
    """With the size in the place of {}, and where it is felt."""
    unit: str
    columns: tuple[Columns, ...]
    """e per chain and factor, (count, 1, rows that are left)."""


@dataclass(frozen=True)
class Symptom:
    """A cause that the residuals speak for."""

    words: str
    z: float
    """Standard errors."""


@dataclass(frozen=True, eq=False)
class Motion:
    """One recording's estimated motion, N steps."""

    observed: Array
    """What the sensors would show, continuous in time, (N, n_o)."""
    angles: Array
    """Of the hinges that have random rows, (N, n)."""
    inputs: Array
    """(N, n_u)."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What the tests take."""

    step: float
    """h [s]."""
    motions: tuple[Motion, ...]
    sensors: tuple[tuple[str, str], ...]
    """Signal and unit of each."""
    hinges: tuple[str, ...]
    """Names of those that have random rows, in the order of ``Motion.angles``."""
    sigmas: dict[str, float]
    """Of sensors by their signal."""
    impulses: dict[str, float]
    """Random impulse of a step of hinges by their name [N m s]."""
    motors: tuple[tuple[str, str, int, float], ...]
    """Hinge, signal, the signal's place and gain of each motor."""


def symptoms(contraction: Contraction, scene: Scene) -> tuple[Symptom, ...]:
    """What the residuals say, strongest first; none on all but 1 % of the data that a model fits."""
    limit = float(-ndtri(FALSE_ALARMS / 4))
    far = [s for i in range(len(scene.sensors)) if abs((s := _tails(contraction, scene, i)).z) > limit]
    return (*far, *_of_causes(contraction, scene))[:_MOST]


def _of_causes(contraction: Contraction, scene: Scene) -> tuple[Symptom, ...]:
    causes = [c for c in _causes(contraction, scene) if any(np.any(part) for chain in c.columns for part in chain)]
    if not causes:
        return ()
    limit = float(-ndtri(FALSE_ALARMS / 4 / len(causes)))
    columns = [_stacked([c.columns[i] for c in causes]) for i in range(len(contraction.linear.chains))]
    states = [contraction.without_states(chain, part) for chain, part in enumerate(columns)]
    before, left = np.diag(contraction.inner(states, states)), contraction.left(columns)
    # At the maximum of the likelihood the slopes of |r|² in the parameters are not zero by themselves, and stay in r.
    residuals = [
        contraction.without_states(chain, [s.rows.matrix[:, -1:] for s in strips])
        for chain, strips in enumerate(contraction.linear.chains)
    ]
    gram, pulls = contraction.inner(left, left), contraction.inner(states, residuals)[:, 0]
    return _strongest(causes, before, gram, -pulls, limit)


def _strongest(causes: Sequence[Cause], before: Array, gram: Array, pulls: Array, limit: float) -> tuple[Symptom, ...]:
    found: list[Symptom] = []
    gram, pulls = gram.copy(), pulls.copy()
    for _ in range(_MOST):
        squares = np.diag(gram)
        own = squares > _INDEPENDENT * before
        z = np.where(own, pulls / np.sqrt(np.where(own, squares, 1.0)), 0.0)
        best = int(np.argmax(np.abs(z)))
        if abs(z[best]) <= limit:
            break
        size = pulls[best] / squares[best]
        cause = causes[best]
        found.append(Symptom(cause.words.format(_amount(size, cause.unit)), float(z[best])))
        share = gram[:, best] / squares[best]
        pulls = pulls - share * pulls[best]
        gram = gram - np.outer(share, gram[best])
    return tuple(found)


def _tails(contraction: Contraction, scene: Scene, i: int) -> Symptom:
    """Heavy tails of a sensor's residuals, by their fourth moment: samples that are farther off than its noise."""
    signal = scene.sensors[i][0]
    key, parts = measured_noise(signal), []
    for strips, residuals in zip(contraction.linear.chains, contraction.residuals, strict=True):
        for strip, r in zip(strips, residuals, strict=True):
            if strip.factor.group is Group.OBSERVATION and key in strip.factor.noise:
                row = strip.factor.noise.index(key)
                parts.append(r[:, 0, row][strip.alive[:, row] > 0])
    e = np.concatenate(parts)
    variance = float(np.mean(e**2)) or 1.0
    z = (float(np.mean(e**4)) / variance**2 - 3) / np.sqrt(24 / len(e))
    width = float(np.median(np.abs(e))) / 0.6745 or 1.0
    count = int(np.sum(np.abs(e) > _FAR * width))
    return Symptom(
        f"{count} samples of {signal} are more than {_FAR:g} times its noise off: outliers?", z if count else 0.0
    )


def _amount(size: float, unit: str) -> str:
    """A size in words, times in milliseconds."""
    return f"{1000 * size:.2g} ms" if unit == "s" else f"{size:.2g} {unit}".rstrip()


def _stacked(columns: Sequence[Columns]) -> Columns:
    return [np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)]


def _causes(contraction: Contraction, scene: Scene) -> list[Cause]:
    found = [cause for i in range(len(scene.sensors)) for cause in _of_sensor(contraction, scene, i)]
    for j in range(len(scene.hinges)):
        found += _of_hinge(contraction, scene, j)
    return found + [_of_motor(contraction, scene, m) for m in range(len(scene.motors))]


def _of_sensor(contraction: Contraction, scene: Scene, i: int) -> list[Cause]:
    signal, unit = scene.sensors[i]
    sigma, h, key = scene.sigmas[signal], scene.step, measured_noise(signal)
    rates = [-np.gradient(m.observed[:, i], h) / sigma for m in scene.motions]
    ones = [np.full(len(m.observed), 1 / sigma) for m in scene.motions]
    return [
        Cause(f"{signal} lags by about {{}}: a delay?", "s", _rows(contraction, Group.OBSERVATION, key, rates)),
        Cause(f"{signal} is off by about {{}}: an offset?", unit, _rows(contraction, Group.OBSERVATION, key, ones)),
    ]


def _of_hinge(contraction: Contraction, scene: Scene, j: int) -> list[Cause]:
    """A torque a f(t) about a hinge lacks where the residual is −a f h over the random impulse."""
    name, h = scene.hinges[j], scene.step
    if name not in scene.impulses:
        return []
    scale = h / scene.impulses[name]
    angles = [m.angles[:, j] for m in scene.motions]
    rates = [np.gradient(a, h) for a in angles]
    speed = float(np.sqrt(np.mean(np.concatenate(rates) ** 2))) or 1.0
    slow = _SLOW * speed
    torques = {
        "{} of dry friction in " + name + " are missing or too much: Coulomb friction?": (
            "N m",
            [-np.tanh(v / (0.03 * speed)) for v in rates],
        ),
        "{} of friction in " + name + " at low rates are missing or too much: a Stribeck law?": (
            "N m",
            [-np.tanh(v / (0.03 * speed)) * np.exp(-((v / slow) ** 2)) for v in rates],
        ),
        "{} of viscous friction in " + name + " are missing or too much?": ("N m s", [-v for v in rates]),
        "{} of drag in " + name + " are missing or too much?": ("N m s^2", [-v * np.abs(v) for v in rates]),
        "{} of constant torque in " + name + ": an offset of the motor, or a tilt?": (
            "N m",
            [np.ones(len(v)) for v in rates],
        ),
    }
    return [
        Cause(words, unit, _rows(contraction, Group.STATE, name, [-scale * t for t in parts]))
        for words, (unit, parts) in torques.items()
    ]


def _of_motor(contraction: Contraction, scene: Scene, m: int) -> Cause:
    hinge, signal, place, gain = scene.motors[m]
    scale = scene.step * gain / scene.impulses.get(hinge, np.inf)
    slopes = [scale * np.gradient(motion.inputs[:, place], scene.step) for motion in scene.motions]
    words = f"{signal} acts on {hinge} late by about {{}}: a delay?"
    return Cause(words, "s", _rows(contraction, Group.STATE, hinge, slopes))


def _rows(contraction: Contraction, group: Group, noise: str, values: Sequence[Array]) -> tuple[Columns, ...]:
    """A column in the rows of a group that have this noise, from values at every step of each recording."""
    return tuple(
        [_column(strip, group, noise, v) for strip in strips]
        for strips, v in zip(contraction.linear.chains, values, strict=True)
    )


def _column(strip: Strip, group: Group, noise: str, values: Array) -> Array:
    factor, rows = strip.factor, strip.rows
    count = len(rows.matrix)
    if factor.group is not group or noise not in factor.noise:
        return np.zeros((count, 1, rows.matrix.shape[2]))
    first = factor.reach // 2  # a factor over several steps belongs to the middle one
    mask = np.array([name == noise for name in factor.noise], dtype=np.float64)
    column = values[first : first + count, None] * mask
    if rows.complement is not None:
        column = np.matmul(column[:, None], rows.complement)[:, 0]
    return np.asarray((column * strip.alive)[:, None])
