"""Robots, real ones and the stand-in, behind one protocol; safety limits, a watchdog and a recorder.

robot = open_robot("standin:mild")             # or tcp:127.0.0.1:4750, unix:/run/robot.sock, or a plug-in's scheme
with connected(robot):
    observation = robot.observe()
    robot.act(observation.signals["observation.state"])
"""

from twinloop.robots import python_file
from twinloop.robots.gymnasium import GymnasiumRobot
from twinloop.robots.lerobot import LeRobotArm
from twinloop.robots.limits import LimitedRobot
from twinloop.robots.protocol import (
    ROBOTS,
    Description,
    Limits,
    Observation,
    Robot,
    TrialSupervisor,
    connected,
    open_robot,
)
from twinloop.robots.remote import RemoteRobot
from twinloop.robots.watchdog import Watchdog

__all__ = [
    "ROBOTS",
    "Description",
    "GymnasiumRobot",
    "LeRobotArm",
    "LimitedRobot",
    "Limits",
    "Observation",
    "RemoteRobot",
    "Robot",
    "TrialSupervisor",
    "Watchdog",
    "connected",
    "open_robot",
    "python_file",
]
