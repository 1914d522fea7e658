"""Robots: one protocol for real ones and for the stand-in, with limits, a watchdog and a recorder.

robot = open_robot("standin:mild")             # or tcp:127.0.0.1:4750, unix:/run/robot.sock, or a plug-in's scheme
with connected(robot):
    observation = robot.observe()
    robot.act(observation.signals["observation.state"])
"""

from twinloop.robot.lerobot import LeRobotArm
from twinloop.robot.limits import Limited
from twinloop.robot.protocol import (
    ROBOTS,
    Attendant,
    Description,
    Limits,
    Observation,
    Robot,
    connected,
    open_robot,
)
from twinloop.robot.remote import RemoteRobot
from twinloop.robot.watchdog import Watchdog

__all__ = [
    "ROBOTS",
    "Attendant",
    "Description",
    "LeRobotArm",
    "Limited",
    "Limits",
    "Observation",
    "RemoteRobot",
    "Robot",
    "Watchdog",
    "connected",
    "open_robot",
]
