"""A robot by its address with who stands beside it, and the connection to both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from twinloop.errors import NeedsPerson
from twinloop.robots.protocol import Robot, TrialSupervisor, connected, open_robot
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.trial import describe_need, estimate_s

Attend = Callable[[Robot], AbstractContextManager[tuple[Robot, PersonSupervisor]]]
"""Brings somebody to a connected robot for the length of a `with` block; gives the robot as it is used beside them, and them."""


@dataclass(frozen=True)
class RobotHandle:
    """A robot's address and identity, and who stands beside it: nobody unless `attend` brings somebody."""

    address: str
    serial: str
    twin: str | None = None
    attend: Attend | None = field(default=None, compare=False)

    @property
    def content_hash(self) -> str:
        """The robot's serial number, which depends neither on its address nor on who stands beside it."""
        return self.serial


@dataclass(frozen=True)
class Need:
    """Trials that wait for a person."""

    trials: int
    seconds: float

    def __str__(self) -> str:
        return f"needs a person: {describe_need(self.trials, self.seconds)}"


class PersonNeeded(NeedsPerson):
    """A stage of a loop that waits for a person; `need` says for how many trials."""

    def __init__(self, serial: str, need: Need) -> None:
        super().__init__(
            f"robot {serial} {need}",
            remedy="somebody beside it runs the same command with --attend; everything else runs before and after on its own",
        )
        self.need = need


def find_robot(address: str, attend: Attend | None = None) -> RobotHandle:
    """Ask which robot answers at an address.

    Args:
        address: Such as `standin:remote` or `tcp:127.0.0.1:4750`.
        attend: Brings somebody who stands beside it.

    Returns:
        The address with the robot's serial number and the name of its twin.
    """
    with connected(open_robot(address)) as robot:
        return RobotHandle(address, robot.description.serial, robot.description.twin, attend)


@contextmanager
def supervised(
    handle: RobotHandle, trials: int, time_limit_s: float
) -> Iterator[tuple[Robot, TrialSupervisor]]:
    """A connected robot and who supervises it: somebody beside it, or itself where it can.

    Args:
        handle: The robot.
        trials: How many trials are to be made, at most.
        time_limit_s: Longest duration of one.

    Yields:
        The robot and its supervisor.

    Raises:
        PersonNeeded: If nobody stands beside a robot that cannot judge its own trials.
    """
    robot = open_robot(handle.address)
    with connected(robot):
        if handle.attend is not None:
            with handle.attend(robot) as place:
                yield place
        elif isinstance(robot, TrialSupervisor) and robot.description.judges:
            yield robot, robot
        else:
            raise PersonNeeded(handle.serial, Need(trials, estimate_s(trials, time_limit_s)))
