"""Questions about units, clocks and signs, asked before a fit begins.

Each supposition, such as an angle in degrees, is tested separately: if the model explains far more of the
inverse-dynamics efforts with it than without (``explained``), a question is printed. The data are not changed, and no
question is asked if the model explains the motion as it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.channels import order
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.estimation.explained import Balance, Efforts, input_lag, longest_interval
from spookid.estimation.trials import NOT_WHITE, given_noise_findings, instrument_findings, is_known, refuted
from spookid.kernels.arrays import Array
from spookid.parameter import is_constant, is_zero
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.solvers.status import Status
from spookid.tables.table import number

_LITTLE = 0.25
"""Share of what a motion takes, rms, that a model at its initial values may leave without being asked about, and factor
by which a supposition has to lessen the mean square of what is left."""
_MOST = 0.6
"""Share that no model leaves of its own motion, whatever its initial values."""
CLOCK = "question.clock"
"""Code of the question that is put before anything is built: with a wrong clock there are far too many steps."""
_CLOCKS = ((1e-3, "milliseconds", "ms"), (1e-6, "microseconds", "us"), (1e-9, "nanoseconds", "ns"))


@dataclass(frozen=True)
class _Supposition:
    """What may have been meant."""

    words: str
    """As in "would leave 5 % if ..."."""
    advice: str
    """What to do if it is so."""
    efforts: Callable[[], Efforts]
    """What is asked of the model along the recording if it is so."""
    signals: tuple[str, ...] = ()
    """Which signals it is about."""
    unit: str = ""
    """Their unit if it is so; a minus turns the sign round."""


def questions(problem: Problem) -> tuple[Finding, ...]:
    """Questions about units, clocks and signs of a problem, recording by recording; with contacts, whose forces are
    unknown, efforts are not tested."""
    found, model = list(_given_twice(problem)), problem.model
    if not (problem.sample and problem.channels):
        return tuple(found)
    balance = None if model.contacts or model.holding.contacts else Balance(problem)
    for recording in problem.sample:
        asked = [*_counts(problem, recording), *_jumps(problem, recording)] or [*_clock(problem, recording, balance)]
        if not asked and balance is not None:
            asked = [*_efforts(problem, recording, balance)]
        found += asked
    return tuple(dict.fromkeys(found))


def _question(kind: str, subject: Sequence[str], evidence: Mapping[str, Any], effect: str, advice: str) -> Finding:
    return Finding(f"question.{kind}", tuple(subject), evidence, f"Is this meant? {effect}", advice=advice)


def asking(
    problem: Problem,
    result: Solution,
    solve: Callable[[Problem], Solution] | None,
    asked: Sequence[Finding] | None = None,
) -> Solution:
    """Result with questions: those ``asked`` before the fit, or asked now if the result is doubtful, and the results of
    fits of similar problems by ``solve``."""

    def put() -> Sequence[Finding]:
        sure = result.status is Status.CONVERGED and not any(finding.doubts for finding in result.findings)
        sure = sure and (is_known(result) or NOT_WHITE.isdisjoint(finding.code for finding in result.findings))
        if sure and not refuted(problem, result):
            return asked or ()
        before = questions(problem) if asked is None and not sure else asked or ()
        tried = list[Finding]()
        named = any(one.evidence.get("unit") for one in before)  # a cause that takes no fit to be found
        if solve is not None and (sure or not named):
            with suppress(ProblemError):  # of a similar problem that fits refuse: it shows nothing
                tried += given_noise_findings(problem, result, solve)
                tried += [] if sure or tried else instrument_findings(problem, result, solve)
        return [*before, *tried]

    def more() -> Sequence[Finding]:
        found = put()
        return [*found, *_contradictions(result, found)]

    return result.with_findings(more)


def _contradictions(result: Solution, asked: Sequence[Finding]) -> Iterator[Finding]:
    """Masses that vanish while another sign or unit would explain the motion."""
    signals = [name for one in asked if one.code == "question.model" for name in one.evidence.get("signals", ())]
    gone = [name for one in result.findings if one.code == "mass.vanished" for name in one.subject]
    if signals and gone:
        effect = f"The mass of {', '.join(gone)} vanishes in the fit. The data contradict the model."
        named = ", ".join(dict.fromkeys(signals))
        yield Finding("motion.unexplained", tuple(gone), {}, effect, f"Is the sign or unit of {named} wrong?")


# --- what needs no model ---


def _given_twice(problem: Problem) -> Iterator[Finding]:
    """Recordings with the same samples, and sensors of one recording with the same."""
    names = [c.signal for c in problem.channels]
    for name in dict.fromkeys(names):
        if (count := names.count(name)) > 1:
            effect = (
                f"{count} sensors use signal {name!r}: its samples count {count} times, and standard errors are too "
                "small."
            )
            yield _question("duplicate", [name], {"sensors": count}, effect, "Remove all but one.")
    seen = dict[bytes, str]()
    for recording in problem.sample:
        signals = [recording.signal(channel.signal) for channel in problem.channels]
        key = b"".join(one.tobytes() for one in signals)
        if key in seen:
            effect = (
                f"Recordings {seen[key]!r} and {recording.name!r} contain the same samples. A fit of both would have "
                "standard errors that are too small by a factor of √2."
            )
            yield _question("duplicate", [seen[key], recording.name], {}, effect, "Leave one out.")
        seen.setdefault(key, recording.name)
        for i, one in enumerate(signals):
            for j in range(i):
                same = names[i] != names[j] and np.array_equal(one, signals[j], equal_nan=True)
                if same and np.nanmax(one) > np.nanmin(one):
                    said = (
                        f"Signals {names[j]!r} and {names[i]!r} of recording {recording.name!r} have the same samples."
                    )
                    effect = f"{said} Does each have its own column?"
                    advice = "Remove one sensor if both are the same."
                    yield _question("duplicate", [names[j], names[i]], {}, effect, advice)


def _counts(problem: Problem, recording: Recording, least_values: int = 10) -> Iterator[Finding]:
    """Positions in so many different whole numbers, which no sensor shows in radians or metres."""
    for channel in problem.channels:
        values = finite_samples(recording, channel.signal)[1]
        plain = is_constant(channel.scale) and abs(float(channel.scale)) == 1 and channel.sensor.unit in ("rad", "m")
        if plain and np.array_equal(values, np.rint(values)) and len(np.unique(values)) >= least_values:
            unit, other = ("rad", "degrees") if channel.sensor.unit == "rad" else ("m", "millimetres")
            least, most, meant = float(values.min()), float(values.max()), {"rad": "deg", "m": "mm"}[unit]
            effect = (
                f"{channel.signal!r} of recording {recording.name!r} comes in whole numbers, "
                f"{number(least)} to {number(most)} {unit}. Does it count ticks of an encoder, or is it in {other}?"
            )
            advice = f"Convert the signal to {unit}, or set scale= of the sensor to the reading per {unit}."
            evidence = {"least": least, "most": most, "signals": [channel.signal], "unit": meant}
            yield _question("unit", [channel.signal, recording.name], evidence, effect, advice)


def _jumps(problem: Problem, recording: Recording, times: float = 5.0, least: int = 20) -> Iterator[Finding]:
    """Positions that jump once, by so many times any other change to a next sample: those of a mechanism do not."""
    for channel in (one for one in problem.channels if order(one, problem.model) == 0):
        t, values = finite_samples(recording, channel.signal)
        if len(t) < least:
            continue
        shown = values if channel.period is None else np.unwrap(values, period=channel.period)
        changes, apart = np.diff(shown), np.diff(t)
        changes[apart > 2 * np.median(apart)] = 0.0  # a gap
        k = int(np.argmax(np.abs(changes)))
        if abs(changes[k]) > times * np.max(np.abs(np.delete(changes, k))) > 0:
            jump, when = float(changes[k]), float(t[k + 1])
            effect = (
                f"{channel.signal!r} of recording {recording.name!r} jumps by {number(jump)} {channel.unit} at "
                f"{number(when)} s. Was its counter reset?"
            )
            evidence = {"jump": jump, "time": when, "signals": [channel.signal], "unit": channel.unit}
            advice = "Subtract the jump, or give the parts before and after it as separate recordings."
            yield _question("unit", [channel.signal, recording.name], evidence, effect, advice)


def _clock(problem: Problem, recording: Recording, balance: Balance | None) -> Iterator[Finding]:
    """Samples less often than once in a period of the cutoff, and more often if they were in seconds."""
    interval = longest_interval(problem, recording)
    for factor, unit, short in _CLOCKS:
        if not interval * problem.cutoff > 1 > interval * problem.cutoff * factor:
            continue
        if balance is not None:
            pair = (recording, _faster(recording, factor))
            given, supposed = (_left(partial(balance.along, one)) for one in pair)
            # Where the supposition cannot be tried, in less than a second, it is what is left as given that counts.
            known = bool(np.all(np.isfinite(supposed)))
            if not _better(given, supposed) if known else float(np.max(given, initial=0.0)) < _MOST:
                return
        duration = float(recording.t[-1] - recording.t[0])
        steps = f"{math.floor(duration / problem.step) + 1:,} steps of {number(problem.step)} s"
        effect = (
            f"Recording {recording.name!r} has a sample every {number(interval)} s and lasts {number(duration)} s, "
            f"that is, {steps}. Are its times t in {unit}?"
        )
        evidence = {"interval": interval, "duration": duration, "unit": short}
        advice = f"Multiply times t by {factor:g}: times must be in seconds."
        yield _question("clock", [recording.name], evidence, effect, advice)
        return


def _faster(recording: Recording, factor: float) -> Recording:
    before = {name: (factor * t, value) for name, (t, value) in recording.before.items()}
    return replace(recording, t=factor * recording.t, before=before)


# --- suppositions ---


def _efforts(problem: Problem, recording: Recording, balance: Balance, clearly: float = 0.8) -> Iterator[Finding]:
    """The supposition that explains most, clearly more than others and far more than nothing does; what leaves most is
    asked about in any case."""
    try:
        efforts = balance.along(recording)
    except (ProblemError, np.linalg.LinAlgError):  # the fit reports what is wrong
        return
    shares = efforts.unexplained
    if np.max(shares, initial=0.0) > _LITTLE:
        problem, balance, efforts, shares = _beyond_noise(problem, recording, balance, efforts)
    worst, whole = (float(np.max(one, initial=0.0)) for one in (shares, efforts.unexplained))
    late = [] if worst <= _LITTLE < whole else [*_lag(problem, recording, efforts)]  # noise may leave that much
    yield from late
    if late or whole <= _LITTLE:
        return
    said = f"In recording {recording.name!r}, with parameters within a factor of ten of their initial values, "
    required = "of the squared effort that the motion requires"
    best, least = None, _mean_square(efforts.unexplained)
    for kind in _suppositions(problem, recording, balance, efforts):
        for one in kind:
            share = _left(one.efforts)
            if _better(efforts.unexplained, share) and _mean_square(share) < clearly * least:
                best, least = one, _mean_square(share)
        if best is not None and least < _LITTLE**2:
            break
    given = _mean_square(efforts.unexplained)
    if best is not None:
        effect = (
            f"{said}the model does not explain {_percent(given)} {required}. This share would be {_percent(least)} "
            f"if {best.words}. Is this the case?"
        )
        evidence: dict[str, Any] = {"unexplained": math.sqrt(given), "unexplained_if_so": math.sqrt(least)}
        evidence |= {"signals": [*best.signals], "unit": best.unit} if best.unit else {}
        yield _question("model", [recording.name], evidence, effect, best.advice)
    if best is not None or worst < _MOST:
        return
    labels = [name for name, share in zip(balance.regressor.joints.names, shares, strict=False) if share > _MOST]
    where = "" if efforts.bases is not None else f" along {', '.join(labels)}"
    effect = (
        f"{said}the model does not explain {_percent(worst**2)} {required}{where}. Is a unit or a sign wrong, an "
        "initial value wrong by more than a factor of ten, or a force missing?"
    )
    advice = "Simulate from the initial values with `spookid simulate`, and compare."
    yield _question("model", [recording.name], {"unexplained": worst}, effect, advice)


def _beyond_noise(
    problem: Problem, recording: Recording, balance: Balance, efforts: Efforts, factor: float = 4.0
) -> tuple[Problem, Balance, Efforts, Array]:
    """The same with what is left beyond noise: with a motion of a lower cutoff, if far less is left then, or more of it
    beyond noise. That of positions falls with the power 5/2 of the cutoff, as what comes from a wrong unit or sign does
    not."""

    def beyond(one: Balance, motion: Efforts) -> Array:
        left = motion.unexplained
        unclear = np.max(left, initial=0.0) > _LITTLE and bool(np.all(np.isfinite(left)))
        return one.beyond_noise(motion, recording) if unclear else left

    calm = problem.with_(recordings=[recording], step=problem.step, cutoff=problem.cutoff / factor)
    other = Balance(calm)
    try:
        calmer = other.along(recording)
    except (ProblemError, np.linalg.LinAlgError):
        return problem, balance, efforts, beyond(balance, efforts)
    if _better(efforts.unexplained, calmer.unexplained):
        return calm, other, calmer, beyond(other, calmer)
    shares = beyond(balance, efforts)
    if np.max(shares, initial=0.0) <= _LITTLE < np.max(found := beyond(other, calmer), initial=0.0):
        return calm, other, calmer, found
    return problem, balance, efforts, shares


def _left(efforts: Callable[[], Efforts]) -> Array:
    """Shares that are left; infinite if there are none."""
    try:
        return efforts().unexplained
    except (ProblemError, np.linalg.LinAlgError):
        return np.array([math.inf])


def _mean_square(shares: Array) -> float:
    return float(np.mean(shares**2))


def _better(given: Array, supposed: Array) -> bool:
    return _mean_square(supposed) < _LITTLE * _mean_square(given)


def _percent(mean_square: float) -> str:
    return f"{100 * min(math.sqrt(mean_square), 1.0):.{1 if mean_square < 0.01 else 0}f} %"


def _suppositions(
    problem: Problem, recording: Recording, balance: Balance, efforts: Efforts
) -> Iterator[list[_Supposition]]:
    """By kind, the likeliest first; of each signal by itself, then of all."""
    angles = [c.signal for c in problem.channels if c.sensor.unit == "rad" or c.true_period == 2 * math.pi]
    lengths = [c.signal for c in problem.channels if c.sensor.unit == "m"]
    inputs = [s for s in problem.model.signals if _acts(recording, s)]

    def each(
        signals: Sequence[str], words: str, advice: str, change: Callable[[Array], Array], unit: str = ""
    ) -> list[_Supposition]:
        signals = list(dict.fromkeys(signals))
        groups = [[name] for name in signals] + ([signals] if len(signals) > 1 else [])
        # Inputs move nothing: the motion stays what it is.
        along = balance.along if set(signals) & {*angles, *lengths} else partial(balance.with_inputs, efforts)

        def so(group: list[str]) -> Callable[[], Efforts]:
            return lambda: along(recording.with_signals(**{name: change(recording.signal(name)) for name in group}))

        return [_Supposition(f"{', '.join(own)} {words}", advice, so(own), tuple(own), unit) for own in groups]

    radians, turned = "Give radians, or its sensor", "Turn the axis of its joint round, or give its"
    yield each(angles, "was in degrees", f"{radians} scale=180 / math.pi.", lambda v: v * math.pi / 180, "deg")
    metres = "Give metres, or its sensor scale"
    millimetres = each(lengths, "was in millimetres", f"{metres}=1000.", lambda v: 1e-3 * v, "mm")
    yield millimetres + each(lengths, "was in centimetres", f"{metres}=100.", lambda v: 1e-2 * v, "cm")
    yield each(angles, "was in turns", f"{radians} scale=1 / (2 * math.pi).", lambda v: 2 * math.pi * v, "turn")
    yield each(inputs, "had the other sign", f"{turned} motor a negative gain.", np.negative, "-1")
    yield each([*angles, *lengths], "had the other sign", f"{turned} sensor scale=-1.", np.negative, "-1")
    advice = "Is the zero position opposite to that of the joint's frames? Reverse the y axis of one frame."
    yield each(angles, "was half a turn on", advice, lambda v: v + math.pi)
    yield each(inputs, "was in thousandths of its unit", "Convert it, or the gain: 1 A is 1000 mA.", lambda v: 1e-3 * v)
    faster = partial(balance.along, _faster(recording, 1e-3))
    yield [_Supposition("t was in milliseconds", "Give seconds.", faster, unit="ms")]
    yield list(_gravities(problem, efforts))


def _gravities(problem: Problem, efforts: Efforts) -> Iterator[_Supposition]:
    """Gravity along the other axes, of the same motion."""
    if not is_constant(problem.model.gravity):
        return
    given = np.array([float(one) for one in ca.vertsplit(ca.densify(ca.SX(problem.model.gravity)))])
    size = float(np.linalg.norm(given))
    for i, axis in product(range(3), (1, -1)):
        name, other = f"{'+' if axis > 0 else '-'}{'xyz'[i]}", axis * size * np.eye(3)[i]
        if size > 0 and not np.allclose(other, given):

            def turned(other: Array = other) -> Efforts:
                return replace(efforts, balance=Balance(problem.with_(model=replace(problem.model, gravity=other))))

            yield _Supposition(f"gravity acted along axis {name} of the world", "Give Model(..., gravity=) so.", turned)


def _acts(recording: Recording, signal: str) -> bool:
    """True of an input that is not constant."""
    return bool(np.ptp(finite_samples(recording, signal)[1]) > 0)


# --- clocks of inputs ---


def _lag(problem: Problem, recording: Recording, efforts: Efforts) -> Iterator[Finding]:
    """Inputs that act clearly sooner or later than their timestamps say, by a step of the balance or more."""
    inputs = [one for one in problem.model.inputs if _acts(recording, one.signal)]
    if not inputs or not all(is_constant(one.delay) and is_zero(one.lag) for one in problem.model.inputs):
        return
    lag = input_lag(efforts) if np.all(np.isfinite(efforts.unexplained)) else None
    if lag is None or not lag.is_clear() or abs(lag.late) < efforts.step:
        return
    if _mean_square(efforts.delayed(lag.late).unexplained) >= _mean_square(efforts.unexplained):
        return
    names = dict.fromkeys(one.signal for one in inputs)
    way = "later" if lag.late > 0 else "earlier"
    effect = (
        f"In recording {recording.name!r} the motion responds to {', '.join(names)} about "
        f"{number(1e3 * abs(lag.late), 2)} ± {number(1e3 * lag.error, 1)} ms {way} than the timestamps imply. Do "
        "inputs and sensors share a clock?"
    )
    advice = "Shift the timestamps, or give the motor delay=Parameter(...)."
    yield _question("clock", [*names], {"late": lag.late, "std_err": lag.error}, effect, advice)
