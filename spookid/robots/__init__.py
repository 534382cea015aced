"""Robots from their files, and identified values back into them: ``robots.read("arm.urdf")``."""

from spookid.robots.robot import Robot as Robot
from spookid.robots.robot import read as read

__all__ = ["Robot", "read"]
