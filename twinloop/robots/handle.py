"""Identify a robot by its address, and connect to it with its supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinloop.errors import WrongUse
from twinloop.robots.protocol import Robot, TrialSupervisor, connected, open_robot


@dataclass(frozen=True)
class RobotHandle:
    """A robot's address and identity."""

    address: str
    serial: str
    twin: str | None = None

    @property
    def content_hash(self) -> str:
        """The robot's serial number, which does not depend on its address."""
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
            f"the robot at {address} has no supervisor that sets scenes and judges trials",
            remedy="record, evaluate and gate with their own commands; the loop needs a robot that judges its own trials",
        )
    with connected(robot):
        yield robot, robot
