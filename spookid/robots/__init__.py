"""Robots from their files, and identified values back into them: ``robots.read("arm.urdf")``."""

from spookid.robots.actuators import ServoActuator as ServoActuator
from spookid.robots.actuators import servos as servos
from spookid.robots.actuators import write_isaac_lab as write_isaac_lab
from spookid.robots.robot import Robot as Robot
from spookid.robots.robot import read as read

__all__ = ["Robot", "ServoActuator", "read", "servos", "write_isaac_lab"]
