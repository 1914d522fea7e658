"""Twinloop beside LeRobot, in LeRobot's environment; nothing of Twinloop is needed there.

`bridge` serves robots of LeRobot to Twinloop. The rest is a plug-in of LeRobot: `--robot.type=twinloop` is a stand-in or a twin in the
place of a robot, and `--teleop.type=twinloop` whoever demonstrates on it.
"""

from lerobot_robot_twinloop.robot import (
    TwinloopLeader,
    TwinloopLeaderConfig,
    TwinloopRobot,
    TwinloopRobotConfig,
)

__all__ = ["TwinloopLeader", "TwinloopLeaderConfig", "TwinloopRobot", "TwinloopRobotConfig"]
