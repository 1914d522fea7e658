"""Robots, real ones and the stand-in, behind one protocol; the safety envelope and a recorder.

robot = open_robot("standin:mild")             # or tcp:127.0.0.1:4750, unix:/run/robot.sock, or a plug-in's scheme
with connected(robot):
    observation = robot.observe()
    robot.act(observation.signals["observation.state"])
"""

from twinloop.robots import python_file
from twinloop.robots.gymnasium import GymnasiumRobot
from twinloop.robots.lerobot import LeRobotArm
from twinloop.robots.lerobot_robot import LeRobotRobot
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
from twinloop.robots.ros2.robot import Ros2Robot
from twinloop.robots.safety.envelope import SafetyEnvelope
from twinloop.robots.safety.limits import SafetyLimits, declared_limits, load_limits

__all__ = [
    "ROBOTS",
    "Description",
    "GymnasiumRobot",
    "LeRobotArm",
    "LeRobotRobot",
    "Limits",
    "Observation",
    "RemoteRobot",
    "Robot",
    "Ros2Robot",
    "SafetyEnvelope",
    "SafetyLimits",
    "TrialSupervisor",
    "connected",
    "declared_limits",
    "load_limits",
    "open_robot",
    "python_file",
]
