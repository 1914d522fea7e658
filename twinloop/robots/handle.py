"""A robot by its address: which one answers there, and a connection with its supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinloop.errors import WrongUse
from twinloop.robots.protocol import Robot, TrialSupervisor, connected, open_robot


@dataclass(frozen=True)
class RobotHandle:
    """Where a robot is reached, and which robot it is: results recorded on it hold for as long as it answers there."""

    address: str
    serial: str
    twin: str | None = None

    @property
    def content_hash(self) -> str:
        """Which robot, however it is reached."""
        return self.serial


def find_robot(address: str) -> RobotHandle:
    """Ask which robot answers at an address.

    Args:
        address: Such as `standin:remote` or `tcp:127.0.0.1:4750`.

    Returns:
        The address with the robot's serial number and the name of its twin.

    Raises:
        WrongUse: If the robot has no supervisor of its own.
    """
    with supervised(address) as (robot, _):
        return RobotHandle(address, robot.description.serial, robot.description.twin)


@contextmanager
def supervised(address: str) -> Iterator[tuple[Robot, TrialSupervisor]]:
    """A connected robot and its own supervisor, which sets scenes and judges."""
    robot = open_robot(address)
    if not isinstance(robot, TrialSupervisor):
        raise WrongUse(
            f"no supervisor sets scenes and judges at {address}",
            remedy="record, evaluate and gate by hand; the loop runs alone only where the robot judges its own trials",
        )
    with connected(robot):
        yield robot, robot
