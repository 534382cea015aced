"""A position-controlled servo (Dynamixel XL330) that lifts and drops a pendulum: `servo-xl330` of the shared data.

The servo turns the error of its position into a duty of its supply voltage; its torque is that of a DC motor. Commands
act late, friction grows with the torque of the gears, and the voltage at the motor falls with the duty as by a source
resistance without a capacitor: the measured voltage alternates within a period of the PWM. `all` fits every recording
at once. `kp100` and `kp400` fit those with one gain, with Coulomb friction and the supply as measured.
"""

import math

from data.convert import SERVO, measured

from spookid import (
    GROUND,
    Body,
    DCDrive,
    GearFriction,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Servo,
    gravity,
)

GAIN = 4096 / (2 * math.pi) / (256 * 885)  # duty per radian and unit of the firmware's gain
STEP = 0.005
SUPPLY = 7.3  # V, measured while the torque is off
WIDTH = 0.01  # rad/s of the joint, below which friction is viscous; with wider ones the arm creeps at rest

k = Parameter("k", 0.4, lower=0.05, upper=3, unit="N m/A", note="torque constant, at the output")
R = Parameter("R", 4.0, lower=0.5, upper=30, unit="ohm", note="resistance")
armature = Parameter("armature", 0.002, lower=1e-5, upper=0.02, unit="kg m^2", note="rotor and gears, at the output")
b = Parameter("b", 0.01, lower=0, upper=1, unit="N m s", note="viscous friction")
c = Parameter("c", 0.03, lower=0, upper=1, unit="N m", note="Coulomb friction")
K_m = Parameter("K_m", 0.2, lower=0, upper=1, note="friction per effort of the motor and of the weight")
R_s = Parameter("R_s", 0.5, lower=0, upper=20, unit="ohm", note="source resistance of the supply")
delay = Parameter("delay", 0.005, lower=0, upper=0.03, unit="s", note="of commands")
zero = Parameter("zero", 0.0, lower=-0.2, upper=0.2, unit="rad", note="angle shown where the load hangs")


def lifting(name: str, gains: tuple[int, ...], sags: bool = False) -> Problem:
    """The recordings with some gains of the firmware; with gear friction and a supply that sags, if asked."""
    arm = Body("arm", mass=0.49, inertia=(1e-6, 1e-6, 1e-6))
    y = dict(x=(0, 1, 0), y=(0, 0, -1))
    frames = GROUND.frame(**y), arm.frame(at=(0, 0, 0.1), **y)
    rubs = dict(loads=[GearFriction(c, motor=K_m, external=K_m)]) if sags else dict(coulomb=c)
    joint = Hinge("joint", *frames, armature=armature, viscous=b, **rubs)
    supply = dict(supply=SUPPLY, source_resistance=R_s, capacitor=False) if sags else dict(supply="vin")
    drive = DCDrive(torque_constant=k, resistance=R, **supply)
    servo = Servo(joint, "goal", kp=GAIN, gain="kp", offset=-zero, drive=drive, enabled="on", delay=delay)
    return Problem(
        name,
        model=Model([arm], [joint], [servo], gravity=gravity(9.81)),
        recordings=[measured(f"xl330_kp{gain}_{motion}") for gain in gains for motion in SERVO],
        observations=[HingeAngle(joint, "q", offset=zero)],
        step=STEP,
        friction_width=WIDTH if sags else None,
        estimator="hard",  # replays need the motion that follows from commands alone
    )


problems = {
    "all": lifting("servo_all", (100, 400), sags=True),
    "kp100": lifting("servo_kp100", (100,)),
    "kp400": lifting("servo_kp400", (400,)),
}
