"""Who stands beside the robot of a command: the robot itself, a person at this terminal, or one at the operator page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeGuard

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.places import find_twin
from twinloop.errors import UnknownName

if TYPE_CHECKING:
    from twinloop.robots.protocol import Robot, TrialSupervisor
    from twinloop.supervision.desk import Desk
    from twinloop.supervision.person import PersonSupervisor

RATER = "operator"

Attend = Annotated[
    bool,
    Option("--attend", help="A person beside the robot starts and judges every trial, also where the robot could."),
]  # fmt: skip
Rater = Annotated[
    str,
    Option(envvar="TWINLOOP_RATER", help="Pseudonym of the person beside the robot; goes into every episode."),
]  # fmt: skip


def page_is_open() -> bool:
    """Whether an operator page is open in this process."""
    return bool(_PAGES)


def is_person(supervisor: object) -> TypeGuard[PersonSupervisor]:
    """Whether a supervisor is a person."""
    from twinloop.supervision.person import PersonSupervisor

    return isinstance(supervisor, PersonSupervisor)


_PAGES: list[tuple[Desk, str]] = []
"""The operator page that is open in this process, with the pseudonym of whoever looks at it."""


@contextmanager
def at_page(desk: Desk, rater: str) -> Iterator[None]:
    """Commands within the `with` block ask the person at this operator page."""
    _PAGES.append((desk, rater))
    try:
        yield
    finally:
        _PAGES.pop()


@contextmanager
def supervise(url: str, attend: bool = False, rater: str = RATER) -> Iterator[tuple[Robot, TrialSupervisor]]:
    """A connected robot and who supervises it: itself where it can, else a person at the terminal, or at the page that is open."""
    from twinloop.robots import TrialSupervisor

    robot = twinloop.open_robot(url)
    with twinloop.connected(robot):
        alone = isinstance(robot, TrialSupervisor) and robot.description.judges
        if isinstance(robot, TrialSupervisor) and alone and not attend and not _PAGES:
            yield robot, robot
            return
        with person_beside(robot, rater) as place:
            yield place


@contextmanager
def alone(url: str) -> Iterator[tuple[Robot, TrialSupervisor | None]]:
    """A connected robot that moves without trials: nobody is asked, and it sets its own scenes where it can."""
    from twinloop.robots import TrialSupervisor

    robot = twinloop.open_robot(url)
    with twinloop.connected(robot):
        yield robot, robot if isinstance(robot, TrialSupervisor) else None


@contextmanager
def person_beside(robot: Robot, rater: str = RATER) -> Iterator[tuple[Robot, PersonSupervisor]]:
    """A person at the operator page that is open, else by keys of this terminal; with the robot as it is used beside them."""
    from twinloop.supervision.person import make_person
    from twinloop.supervision.terminal import at_terminal

    named = robot.description.twin
    try:
        twin = find_twin(named) if named is not None else None
    except UnknownName:
        twin = None
    if _PAGES:
        desk, name = _PAGES[-1]
        with desk.seat(robot, name, twin) as place:
            yield place
        return
    with at_terminal(make_person(robot, rater, twin), console.log, typing=console.without_bars) as person:
        yield robot, person
