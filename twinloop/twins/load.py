"""Find twins by name, by folder, or by robot and task."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from twinloop.errors import UnknownName, WrongUse
from twinloop.twins.folder import is_folder, load_twin_folder
from twinloop.twins.library import TWINS
from twinloop.twins.twin import Twin


def load_twin(name_or_path: str | Path) -> Twin:
    """Load a twin from a folder, or a built-in one by its name.

    Args:
        name_or_path: A folder with `twin.yaml` and `model.xml`, or a registered name such as "franka_pick_place".

    Returns:
        The twin.

    Raises:
        UnknownName: There is neither such a folder nor such a name; the message lists the names.
        InvalidTwin: The folder holds no twin that can be read.
    """
    folder = Path(name_or_path)
    named = isinstance(name_or_path, Path) or "/" in name_or_path
    if named or (is_folder(folder) and (folder / "twin.yaml").is_file()):
        return load_twin_folder(name_or_path)
    return _registered(name_or_path)


def find_twin(robot: str, task: str) -> Twin:
    """Find the registered twin of a robot and task."""
    twins = list_twins()
    robots = sorted({twin.robot for twin in twins})
    if robot not in robots:
        raise UnknownName("robot", robot, robots)
    tasks = {twin.task: twin for twin in twins if twin.robot == robot}
    if task not in tasks:
        raise UnknownName(f"task for robot {robot}", task, tasks)
    return tasks[task]


def list_twins() -> list[Twin]:
    """Every registered twin, in alphabetical order."""
    return [_registered(name) for name in TWINS.names()]


@cache
def _registered(name: str) -> Twin:
    twin = TWINS.get(name)()
    if twin.name != name:
        raise WrongUse(f"the twin registered as {name!r} calls itself {twin.name!r}")
    return twin
