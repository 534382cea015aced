"""Every public constructor with arguments that are right, and what may be given in their place."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

import spookid as s
from spookid import graphs, planar, robots


class Case(NamedTuple):
    """A constructor or function, right arguments of it, and what is done with what it makes."""

    make: Callable[..., Any]
    given: Mapping[str, Any]
    use: Callable[[Any], object] = repr


class Other:
    """What no constructor knows."""


NONSENSE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 10**400, -(10**30), 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf),
    *(0.5, 1j,),
    *("", "x", "two words", "a\nb", "nul\0", "\ud800", "..", b"bytes", bytearray(b"x"), datetime.datetime(2026, 1, 1)),
    *([], (), {}, set(), [1], (1, 2), [1, 2, 3], [[1, 2], [3, 4]], [[1], [2, 3]], [None], ["a", 1], {"x": 1}),
    *({1: None},),
    *([[[[]]]], [1e300] * 3, [math.nan] * 3, (0, 0, 0), {"pin": None}, {"theta": "x"}, range(3)),
    *(iter(()), object(), Other,),
    *(np.array(1.0), np.zeros(3), np.zeros((3, 3)), np.zeros((0, 3)), np.array(["a"]), np.array([None])),
    *(np.array([1j]),),
    *(np.ma.masked, np.ma.masked_array([1.0, 2.0, 3.0], [True, False, True]), np.datetime64("2026-01-01")),
    *(np.bool_(True),),
    *(np.float32(2), np.int8(-3), np.zeros(3, dtype=[("a", float)]), Path("nowhere"), ca.SX.sym("loose")),
    *(ca.SX.sym("w", 3),),
    *(ca.MX.sym("m"), ca.SX(), ca.DM([1, 2]), ca.SX(3, 1), s.Parameter("stray", 1.0, per="recording")),
    *(ca.Function, int,),
    *(lambda: 1, lambda x: None, lambda x: "text", lambda x: math.nan, lambda x: x, lambda x: 1 / 0, lambda *a: [a]),
    *(print,),
    *(lambda x: np.zeros((2, 2)), lambda x: ca.MX.sym("m"), lambda x: ca.SX.sym("loose"), s.GROUND, s.Spook, Ellipsis),
)  # fmt: skip
"""Wrong types, shapes and sizes."""


REFUSED = {
    *(
        "load",
        "load_problem",
        "robots.read",
        "sweep",
        "solve_jointly",
        "Problem.profile",
        "Problem.excite",
        "Problem.payload",
    ),
    *("Problem.inverse_dynamics", "FixedLagSmoother.save", "graphs.inverse_dynamics"),
}
"""Those whose right arguments end in a refusal, behind all checks of arguments, for want of files and time."""


class World:
    """A driven pendulum, and what is declared of it."""

    def __init__(self) -> None:
        self.J = s.Parameter("J", 0.005, lower=1e-6)
        self.rod = s.Body("rod", mass=0.5, inertia=(1e-4, self.J, self.J))
        self.other = s.Body("other", mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
        down = {"x": (0, 1, 0), "y": (0, 0, -1)}
        self.ground, self.top = s.GROUND.frame(**down), self.rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
        self.tip = self.rod.frame(at=(0.2, 0, 0))
        self.free = self.other.frame(at=(0.1, 0, 0))
        self.pin = s.Hinge("pin", self.ground, self.top, viscous=1e-3)
        self.pin2 = s.Hinge("pin2", self.tip, self.free)
        self.motor = s.Motor(self.pin, signal="u")
        t = np.arange(12) / 100
        names = ("theta", "u", "a", "b", "c", "d")
        self.recording = s.Recording(t, {name: 0.1 * np.sin(9 * t + i) for i, name in enumerate(names)}, name="run")
        self.model = s.Model([self.rod], [self.pin], [self.motor], gravity=s.gravity(9.81))
        self.sensor = s.HingeAngle(self.pin, "theta")
        self.problem = self.problem_of()
        self.full = s.FullInertia(1.0, (0, 0, 0.1), inertia=(0.2, 0.2, 0.2))
        self.p, self.o = planar.Point("p", (1, 0)), planar.Ground("o", (0, 0))
        self.q = planar.Point("q", (2, 1))
        self.link, self.link2 = planar.Link("link", self.o, self.p, 1.0), planar.Link("link2", self.p, self.q, 1.0)
        self.plane = planar.Mechanism([self.link], gravity=(0, -9.81))
        self.factor = graphs.Dynamics()

    def problem_of(self, **given: Any) -> s.Problem:
        """A problem of the pendulum with something else in it."""
        whole = {"model": self.model, "recordings": [self.recording], "observations": [self.sensor], "step": 0.01}
        return s.Problem("p", **{**whole, **given})

    def model_of(self, **given: Any) -> s.Model:
        """Likewise a model."""
        whole = {"bodies": [self.rod], "joints": [self.pin], "motors": [self.motor], "gravity": s.gravity(9.81)}
        return s.Model(**{**whole, **given})

    # What users do with each kind of thing.
    def told(self, problem: s.Problem) -> None:
        """A problem is looked at."""
        str(problem), problem.records(), problem.guess_on(None)

    def held(self, joint: Any) -> None:
        self.told(self.problem_of(model=self.model_of(joints=[joint], motors=[]), observations=[]))

    def seen(self, sensor: Any) -> None:
        self.told(self.problem_of(observations=[sensor]))

    def efforts(self, sensor: Any) -> None:
        model = self.model_of(motors=[])
        self.told(self.problem_of(model=model, observations=[self.sensor, sensor]))

    def tied(self, tie: Any) -> None:
        self.told(self.problem_of(model=self.double(constraints=[tie])))

    def touching(self, contact: Any) -> None:
        self.told(self.problem_of(model=self.model_of(contacts=[contact])))

    def pushed(self, load: Any) -> None:
        self.told(self.problem_of(model=self.model_of(loads=[load])))

    def rubbed(self, load: Any) -> None:
        self.held(s.Hinge("pin", self.ground, self.top, loads=[load]))

    def made_of(self, value: Any) -> None:
        self.held(s.Hinge("pin", self.ground, self.top, viscous=value))

    def heavy(self, inertia: Any) -> None:
        self.body(s.Body("rod", inertia=inertia))

    def body(self, body: Any) -> None:
        pin = s.Hinge("pin", self.ground, body.frame())
        self.modelled(self.model_of(bodies=[body], joints=[pin], motors=[]))

    def double(self, **given: Any) -> s.Model:
        """A double pendulum."""
        return self.model_of(bodies=[self.rod, self.other], joints=[self.pin, self.pin2], **given)

    def modelled(self, model: Any) -> None:
        self.told(self.problem_of(model=model, observations=[], recordings=[]))

    def driven(self, motor: Any) -> None:
        self.told(self.problem_of(model=self.model_of(motors=[motor])))

    def drawn(self, link: Any) -> None:
        graphs.forward_dynamics(planar.Mechanism([link], gravity=(0, -9.81)), 0.01, [1, 0])

    def closed(self, constraint: Any) -> None:
        plane = planar.Mechanism([self.link, self.link2], [constraint], gravity=(0, -9.81))
        str(graphs.Graph(plane, [graphs.Dynamics(sigma=1), graphs.PositionConstraint()], step=0.01))

    def loaded(self, load: Any) -> None:
        planar.Mechanism([self.link, self.link2], loads=[load], gravity=(0, -9.81))

    def actuated(self, factor: Any) -> None:
        driven = planar.Mechanism([self.link], loads=[planar.Torque(self.link, "u")], gravity=(0, -9.81))
        str(graphs.Graph(driven, [factor], step=0.01))

    def factored(self, factor: Any) -> None:
        str(graphs.Graph(self.plane, [self.factor, factor], step=0.01))


@cache
def world() -> World:
    """The one of all cases."""
    return World()


@cache
def cases() -> dict[str, Case]:
    """By name, as users call them."""
    w = world()
    soft = {"compliance": 1e-4, "damping": 0.02}
    loads = {"viscous": 0.1, "load_friction": 0, "coulomb": 0.1, "stribeck": (0.1, 2.0), "drag": 0.0, "stiffness": 0.1}
    joint = {"parent": w.ground, "child": w.top, **soft, **loads, "rest": 0.1, "disturbance": 0.1, "limits": None}
    joint |= {"loads": (), "armature": 0.1}
    sensor = {"sigma": 0.1, "offset": 0, "scale": 1, "loss": "linear", "delay": 0}
    three = {"signals": ("a", "b", "c"), **sensor}
    on_joint = {"joint": w.pin, "signal": "theta", **sensor}
    touch = {"name": "t", "frame": w.tip, "on": s.GROUND.frame(), **soft, "axes": "xyz", "threshold": 0.5}
    holds = {"holds": True, "slip": 0.0, "level": "position", "baumgarte": (0.0, 0.0)}
    vector = {"frame": w.tip, "vector": (1, 0, 0), "signals": "u", "axes": "world"}
    inertia = {"name": "I", "guess": w.full, "within": 0.5}
    coordinates = (
        "Cylindrical",
        "Fixed",
        "Hinge",
        "PinInSlot",
        "Planar",
        "Prismatic",
        "Screw",
        "Spherical",
        "Universal",
    )
    plain = {"viscous": 0.1, "stiffness": 0, "coulomb": 0, "limits": None, "loads": (), "disturbance": 0.1, **soft}
    joints = {
        kind: Case(getattr(s, kind), {"name": "pin", "parent": w.ground, "child": w.top, **plain}, w.held)
        for kind in coordinates
        if kind not in ("Hinge", "Screw", "Fixed")
    }
    fixed = {"name": "pin", "parent": w.ground, "child": w.top, **soft}
    residual = {"name": "r", "expression": lambda state: state.angle(w.pin), "kind": "soft", "sigma": 1.0}
    residual |= {"covariance": None, "at": None}
    rub = {"viscous": 0.1, "coulomb": 0.1, "width": 0.1, "disturbance": None}
    more = {"sigma": 0.1, "name": "f"}
    along = {"q": [1, 0], "v": 0.0}
    return joints | {
        "Fixed": Case(s.Fixed, fixed, w.held),
        "Screw": Case(s.Screw, {**fixed, "pitch": 0.01}, w.held),
        "Hinge": Case(s.Hinge, {"name": "pin", **joint}, w.held),
        "Accelerometer": Case(
            s.Accelerometer, {"frame": w.tip, **three, "bias": (0, 0, 0), "mounting": (0, 0, 0)}, w.seen
        ),
        "Gyroscope": Case(s.Gyroscope, {"frame": w.tip, **three, "bias": (0, 0, 0), "mounting": (0, 0, 0)}, w.seen),
        "Orientation": Case(s.Orientation, {"frame": w.tip, "signals": ("a", "b", "c", "d"), "sigma": 0.1}, w.seen),
        "HingeAngle": Case(s.HingeAngle, {**on_joint, "coordinate": 0}, w.seen),
        "JointPosition": Case(s.JointPosition, {**on_joint, "coordinate": 0}, w.seen),
        "JointRate": Case(s.JointRate, {**on_joint, "coordinate": 0}, w.seen),
        "JointTorque": Case(s.JointTorque, {**on_joint, "coordinate": 0}, w.efforts),
        "JointForce": Case(s.JointForce, {"joint": w.pin, **three}, w.efforts),
        "PointPosition": Case(s.PointPosition, {"point": w.tip, "axis": "z", "signal": "a", **sensor}, w.seen),
        "PointDistance": Case(s.PointDistance, {"first": w.tip, "second": w.ground, "signal": "a", **sensor}, w.seen),
        "Observation": Case(
            s.Observation,
            {"expression": lambda x: x.angle(w.pin), "signal": "a", "period": None, "unit": "rad", **sensor},
            w.seen,
        ),
        "Residual": Case(s.Residual, residual, lambda one: w.told(w.problem_of(residuals=[one]))),
        "EnergyBalance": Case(
            s.EnergyBalance, {"name": "e", "sigma": 1.0}, lambda one: w.told(w.problem_of(residuals=[one]))
        ),
        "Asymmetric": Case(s.Asymmetric, {"forward": 0.1, "backward": 0.2}, w.made_of),
        "Fourier": Case(s.Fourier, {"harmonics": {1: (0.1, 0.1)}, "mean": 1.0, "period": 1.0}, w.made_of),
        "Body": Case(s.Body, {"name": "rod", "mass": 1.0, "inertia": (0.1, 0.1, 0.1), "free": False}, w.body),
        "Body.frame": Case(
            w.rod.frame, {"at": (0, 0, 1), "x": (1, 0, 0), "y": (0, 1, 0)}, lambda f: w.held(s.Hinge("h", w.ground, f))
        ),
        "FullInertia": Case(
            s.FullInertia,
            {
                "mass": 1.0,
                "center_of_mass": (0, 0, 0.1),
                "inertia": (0.1, 0.1, 0.1),
                "about": "center_of_mass",
                "within": None,
                "around": None,
            },
            w.heavy,
        ),
        "LogCholesky": Case(s.LogCholesky, {**inertia, "around": None, "sigma": None, "inside": None}, w.heavy),
        "ExponentialEigenvalue": Case(
            s.ExponentialEigenvalue, {**inertia, "around": None, "sigma": None, "inside": None}, w.heavy
        ),
        "PointMasses": Case(
            s.PointMasses,
            {
                "name": "I",
                "points": np.vstack([np.eye(3), -np.eye(3)]),
                "guess": s.FullInertia(1.0, inertia=(0.3, 0.3, 0.3)),
                "within": None,
                "around": None,
            },
            w.heavy,
        ),
        "Ellipsoid": Case(
            s.Ellipsoid,
            {"center": (0, 0, 0), "semi_axes": (1, 1, 1), "turn": (0, 0, 0)},
            lambda e: s.LogCholesky("I", w.full, inside=e),
        ),
        "ContinuousFriction": Case(
            s.ContinuousFriction,
            {
                "stiction": 0.2,
                "stribeck_velocity": 0.1,
                "breakaway_velocity": 0.1,
                "coulomb": 0.1,
                "coulomb_velocity": 0.1,
                "viscous": 0.1,
            },
            w.rubbed,
        ),
        "Drag": Case(s.Drag, {"d": 0.1}, w.rubbed),
        "Viscous": Case(s.Viscous, {"b": 0.1}, w.rubbed),
        "GearFriction": Case(s.GearFriction, {"coulomb": 0.1, "motor": 0.2, "external": 0.2}, w.rubbed),
        "Backlash": Case(s.Backlash, {"width": 0.01, "stiffness": 50, "damping": 0.1, "rounding": 0.1}, w.rubbed),
        "Elastic": Case(
            s.Elastic,
            {"stiffness": 50, "damping": 0.1, "motor_inertia": 0.01},
            lambda gear: w.held(s.Hinge("pin", w.ground, w.top, elastic=gear)),
        ),
        "Signal": Case(s.Signal, {"signal": "u", "delay": 0.01}, lambda level: w.rubbed(s.Viscous(0.1 + 0 * level))),
        "RandomWalk": Case(
            s.RandomWalk, {"name": "heat", "intensity": 0.1}, lambda k: w.rubbed(s.Viscous(0.1 * (1 + k)))
        ),
        "Friction": Case(s.Friction, {"coulomb": 0.1, "load_friction": 0, "stribeck": (0.1, 1)}, w.rubbed),
        "Spring": Case(s.Spring, {"stiffness": 0.1, "rest": 0.1}, w.rubbed),
        "Effort": Case(s.Effort, {"value": 0.1, "signal": "u"}, w.rubbed),
        "SpringDamper": Case(
            s.SpringDamper, {"a": w.ground, "b": w.tip, "stiffness": 1, "rest": 0.1, "damping": 0.1}, w.pushed
        ),
        "PointDrag": Case(s.PointDrag, {"frame": w.tip, "linear": 0.1, "quadratic": 0.1}, w.pushed),
        "PointForce": Case(s.PointForce, vector, w.pushed),
        "PointTorque": Case(s.PointTorque, vector, w.pushed),
        "Propeller": Case(s.Propeller, {"frame": w.tip, "signal": "u", "thrust": 1.0, "moment": 0.1}, w.pushed),
        "Contact": Case(
            s.Contact,
            {
                "name": "c",
                "point": w.tip,
                "plane": s.GROUND.frame(at=(0, 0, -9)),
                "friction": 0,
                "restitution": 0,
                "cone": "box",
                "threshold": 0.1,
                **soft,
            },
            w.touching,
        ),
        "Impact": Case(s.Impact, {**touch, "times": {"run": [0.05]}, "restitution": 0.1, "friction": 0.1}, w.tied),
        "PointContact": Case(s.PointContact, {**touch, **holds}, w.tied),
        "Weld": Case(s.Weld, {**touch, **holds}, w.tied),
        "Distance": Case(
            s.Distance, {"name": "d", "frame_a": w.ground, "frame_b": w.free, "length": 0.4, **soft}, w.tied
        ),
        "Coupling": Case(s.Coupling, {"name": "g", "ratios": {w.pin: 1, w.pin2: 2}, "offset": 0, **soft}, w.tied),
        "Gear": Case(
            s.Gear,
            {
                "name": "g",
                "joint_a": w.pin,
                "joint_b": w.pin2,
                "ratio": 2.0,
                "offset": 0,
                **soft,
                "coordinate_a": 0,
                "coordinate_b": 0,
            },
            w.tied,
        ),
        "Holonomic": Case(s.Holonomic, {"name": "h", "function": lambda x: x.angle(w.pin2), **soft}, w.tied),
        "Nonholonomic": Case(
            s.Nonholonomic, {"name": "n", "function": lambda x: x.rate(w.pin2), "speed": 0, **soft}, w.tied
        ),
        "mirrored": Case(
            s.mirrored,
            {"left": w.rod, "right": w.other, "plane": "xz", "name": "m"},
            lambda r: w.problem_of(model=w.double(), constraints=[r]),
        ),
        "total_mass": Case(
            s.total_mass, {"bodies": [s.Body("b", s.Parameter("m_t", 1.0), (1, 1, 1))], "mass": 2.0, "name": "t"}
        ),
        "gravity": Case(s.gravity, {"g": 9.81}, lambda g: w.modelled(w.model_of(gravity=g))),
        "tilted_gravity": Case(
            s.tilted_gravity, {"g": 9.81, "a": 0.1, "b": 0.1}, lambda g: w.modelled(w.model_of(gravity=g))
        ),
        "Model": Case(
            s.Model,
            {
                "bodies": [w.rod],
                "joints": [w.pin],
                "motors": [w.motor],
                "contacts": (),
                "loads": (),
                "constraints": (),
                "gravity": (0, 0, -9),
                "frames": {"tip": w.tip},
                "coordinates": None,
            },
            w.modelled,
        ),
        "Manifold": Case(
            s.Manifold, {"parts": (("flat", 2), ("rotation", 4))}, lambda m: (m.ambient, m.tangent, m.zero)
        ),
        "Coordinate": Case(s.Coordinate, {"name": "x", "unit": "m", "period": None, "counts_turns": False}),
        "Motor": Case(
            s.Motor,
            {
                "joint": w.pin,
                "signal": "u",
                "gain": 1.0,
                "shaft_inertia": 0.1,
                "measured": False,
                "coordinate": 0,
                "ratio": 2,
                "torque_constant": None,
                "resistance": None,
                "rotor_inertia": 0.1,
                "offset": 0,
                "delay": 0,
                "lag": 0.01,
                "hold": None,
            },
            w.driven,
        ),
        "StudentT": Case(s.StudentT, {"freedom": 4.0}, lambda loss: s.HingeAngle(w.pin, "theta", loss=loss)),
        "Servo": Case(
            s.Servo,
            {
                "joint": w.pin,
                "command": "u",
                "kp": 1.0,
                "kd": 0.1,
                "mode": "position",
                "gain": None,
                "command_rate": None,
                "feedforward": None,
                "limit": 2.0,
                "drive": None,
                "enabled": None,
                "offset": 0,
                "bias": 0,
                "delay": 0,
                "lag": 0,
                "ki": 0.3,
                "integral_limit": 0.5,
                "hold": "previous",
                "rounding": 0.01,
                "coordinate": 0,
            },
            w.driven,
        ),
        "DCDrive": Case(
            s.DCDrive,
            {
                "torque_constant": 1.0,
                "resistance": 2.0,
                "supply": 12,
                "back_emf": None,
                "duty_limit": 1.0,
                "current_limit": 3.0,
                "source_resistance": 0.1,
                "capacitor": True,
            },
            lambda d: w.driven(s.Servo(w.pin, "u", drive=d)),
        ),
        "MotionLimits": Case(
            s.MotionLimits,
            {"position": {"pin": (-1, 1)}, "rate": {"pin": 1}, "effort": {"pin": 1}, "place": {}},
            lambda m: m.bounds(w.problem),
        ),
        "Parameter": Case(
            s.Parameter,
            {
                "name": "P",
                "guess": 0.5,
                "lower": 0,
                "upper": 1,
                "unit": "m",
                "note": "n",
                "prior": (0.5, 0.1),
                "per": None,
            },
            lambda p: w.told(w.problem_of(model=w.model_of(gravity=s.gravity(p)))),
        ),
        "Recording": Case(
            s.Recording,
            {
                "t": [0, 1, 2],
                "signals": {"a": [1, 2, 3]},
                "name": "r",
                "q": None,
                "v": None,
                "closed_loop": None,
                "several_clocks": False,
                "before": {"a": (0.0, 1.0)},
                "times": {"a": [0, 1, 2]},
                "notes": (),
            },
            lambda r: (str(r), r.records()),
        ),
        "RecordingFiles": Case(
            s.RecordingFiles, {"paths": [__file__], "read": lambda path: w.recording}, lambda r: (str(r), list(r))
        ),
        "Recording.with_signals": Case(w.recording.with_signals, {"x": w.recording.t}, str),
        "Recording.between": Case(w.recording.between, {"start": 0.0, "stop": 0.05}, str),
        "Recording.signal": Case(w.recording.signal, {"name": "u"}),
        "Problem": Case(
            s.Problem,
            {
                "name": "p",
                "model": w.model,
                "recordings": [w.recording],
                "observations": [w.sensor],
                "residuals": (),
                "constraints": (),
                "step": 0.01,
                "state_weight": 1.0,
                "stepper": s.Spook(),
                "friction": "smooth",
                "friction_width": None,
                "cutoff": 10.0,
                "initial": {"J": 0.01},
                "step_correction": False,
                "estimator": "noise",
                "every": None,
                "fixed": (),
            },
            w.told,
        ),
        "solve_jointly": Case(
            s.solve_jointly,
            {
                "problem": w.problem,
                "folder": None,
                "jobs": 1,
                "executor": None,
                "callback": None,
                "initial": None,
                "fixed": ["J"],
                "state_weight": math.inf,
            },
        ),
        "Problem.with_": Case(w.problem.with_, {"step": 0.02, "fixed": ["J"], "initial": {"J": 0.01}}, w.told),
        "Problem.solve": Case(
            w.problem.solve,
            {
                "backend": "lm",
                "warm_start": None,
                "callback": None,
                "max_iterations": 0,
                "state_weight": 1.0,
                "fixed": ["J"],
            },
        ),
        "Problem.simulate": Case(
            w.problem.with_(recordings=[w.recording], stepper=s.Spook()).simulate,
            {
                "parameters": {"J": 0.01},
                "duration": 0.02,
                "initial": {"pin": 0.5},
                "recording": 0,
                "inputs": None,
                "noise": None,
                "seed": 0,
                "substeps": 1,
            },
        ),
        "Problem.profile": Case(w.problem.profile, {"name": "nothing", "backend": "lm"}),
        "Problem.inverse_dynamics": Case(
            w.problem.inverse_dynamics, {"parameters": None, "recording": 0, "motion": None, "cutoff": 30.0}
        ),
        "Problem.payload": Case(
            w.problem.payload, {"solution": None, "recording": w.recording, "body": "rod", "known_mass": 1.0}
        ),
        "Problem.excite": Case(w.problem.excite, {"duration": -1, "limits": None}),
        "Problem.guess_on": Case(w.problem.guess_on, {"recording": "run"}),
        "sweep": Case(s.sweep, {"problem": w.problem, "over": {"step": []}, "jobs": 1, "initial": None, "fixed": ()}),
        "FixedLagSmoother": Case(
            s.FixedLagSmoother,
            {"problem": w.problem_of(state_weight=1.0), "window": 3, "seconds": None, "start": None, "iterations": 2},
            lambda one: one.update(0.0, {"theta": 0.1, "u": 0}),
        ),
        "FixedLagSmoother.update": Case(
            s.FixedLagSmoother(w.problem_of(state_weight=1.0), 3).update, {"t": 0.0, "values": {"theta": 0.1, "u": 0}}
        ),
        "FixedLagSmoother.save": Case(
            s.FixedLagSmoother(w.problem_of(state_weight=1.0), 3).save, {"path": "/proc/none/x.npz", "also": None}
        ),
        "Monitor": Case(
            s.Monitor, {"smoother": s.FixedLagSmoother(w.problem_of(state_weight=1.0), 3), "false_alarms": 1.0}
        ),
        "Spook": Case(
            s.Spook, {"multipliers": "eliminated"}, lambda x: w.told(w.problem_of(stepper=x, state_weight=1.0))
        ),
        "Variational": Case(s.Variational, {}, lambda x: w.told(w.problem_of(stepper=x))),
        "load": Case(s.load, {"directory": "nowhere"}),
        "load_problem": Case(s.load_problem, {"path": "nowhere.py"}),
        "robots.read": Case(
            robots.read, {"path": "nowhere.urdf", "free": False, "held": None, "merge": True, "mend": False}
        ),
        "planar.Point": Case(
            planar.Point, {"name": "p", "at": (1, 0), "mass": 0.1}, lambda p: w.drawn(planar.Link("l", w.o, p, 1.0))
        ),
        "planar.Ground": Case(
            planar.Ground, {"name": "o", "at": (0, 0), "mass": 0}, lambda o: w.drawn(planar.Link("l", o, w.p, 1.0))
        ),
        "planar.Link": Case(
            planar.Link,
            {"name": "l", "start": w.o, "end": w.p, "mass": 1.0, "length": 1.0, "center": (0.5, 0), "inertia": 0.1},
            w.drawn,
        ),
        "planar.Mechanism": Case(
            planar.Mechanism,
            {
                "links": [w.link],
                "constraints": (),
                "loads": (),
                "gravity": (0, -9.81),
                "independent_names": None,
                "disturbance": None,
            },
        ),
        "planar.AbsoluteAngle": Case(planar.AbsoluteAngle, {"name": "a", "link": w.link}, w.closed),
        "planar.RelativeAngle": Case(planar.RelativeAngle, {"name": "a", "link": w.link, "against": w.link2}, w.closed),
        "planar.ConstantDistance": Case(
            planar.ConstantDistance, {"name": "a", "a": w.o, "b": w.q, "length": math.sqrt(5)}, w.closed
        ),
        "planar.FixedSlider": Case(
            planar.FixedSlider, {"name": "a", "point": w.q, "a": w.o, "b": planar.Ground("g", (2, 1)), **rub}, w.closed
        ),
        "planar.MovingSlider": Case(planar.MovingSlider, {"name": "a", "point": w.q, "link": w.link, **rub}, w.closed),
        "planar.PinFriction": Case(
            planar.PinFriction,
            {"point": w.p, "link": w.link, "against": w.link2, "viscous": 0.1, "coulomb": 0.1, "width": 0.1},
            w.loaded,
        ),
        "planar.Spring": Case(
            planar.Spring, {"a": w.o, "b": w.q, "stiffness": 1, "rest": 0.1, "damping": 0.1}, w.loaded
        ),
        "planar.Torque": Case(planar.Torque, {"link": w.link, "signal": "u", "gain": 1, "against": None}, w.loaded),
        "graphs.Dynamics": Case(graphs.Dynamics, {"coordinates": "dependent", **more}, w.factored),
        "graphs.InverseDynamics": Case(
            graphs.InverseDynamics, {"coordinates": "dependent", "inputs": False, **more}, w.actuated
        ),
        "graphs.PositionConstraint": Case(graphs.PositionConstraint, {"coordinates": "dependent", **more}, w.factored),
        "graphs.VelocityConstraint": Case(graphs.VelocityConstraint, {"coordinates": "dependent", **more}, w.factored),
        "graphs.AccelerationConstraint": Case(
            graphs.AccelerationConstraint, {"coordinates": "dependent", **more}, w.factored
        ),
        "graphs.Euler": Case(graphs.Euler, {"variable": "q", "rate": "v", **more}, w.factored),
        "graphs.Trapezoid": Case(graphs.Trapezoid, {"variable": "q", "rate": "v", **more}, w.factored),
        "graphs.Observation": Case(graphs.Observation, {"signal": "s", "shown": lambda q: q[0], **more}, w.factored),
        "graphs.Prior": Case(
            graphs.Prior, {"variable": "q", "value": [1, 0], "at": "first", "rows": None, **more}, w.factored
        ),
        "graphs.SoftEquality": Case(graphs.SoftEquality, {"variable": "q", "order": 1, **more}, w.factored),
        "graphs.Sigmas": Case(
            graphs.Sigmas,
            {"trapezoid": 0.1, "dynamics": 0.1, "constraints": 0, "start": 0, "equality": 1, "reference": 0},
            lambda n: graphs.forward_dynamics(w.plane, 0.01, [1, 0], noise=n),
        ),
        "graphs.Stage": Case(graphs.Stage, {"factors": ["reference"], "variables": ["q"], "parameters": False}),
        "graphs.Graph": Case(
            graphs.Graph, {"system": w.plane, "factors": [graphs.Dynamics(sigma=1)], "step": 0.01}, str
        ),
        "graphs.JointSystem": Case(
            graphs.JointSystem,
            {"model": w.model, "friction_width": 0.01},
            lambda j: str(graphs.forward_dynamics(j, 0.01, [0.1])),
        ),
        "graphs.forward_dynamics": Case(
            graphs.forward_dynamics,
            {"system": w.plane, "step": 0.01, **along, "coordinates": "dependent", "noise": None, "more": ()},
            str,
        ),
        "graphs.inverse_dynamics": Case(
            graphs.inverse_dynamics,
            {"system": w.plane, "step": 0.01, "reference": ("y",), "coordinates": "dependent", "more": ()},
            str,
        ),
        "graphs.simulated": Case(
            graphs.simulated, {"system": w.plane, "step": 0.01, "steps": 2, **along, "data": None, "parameters": None}
        ),
    }
