"""A robot whose driver is a Python file: `python:driver/arm_robot.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from twinloop.errors import RobotError, WrongUse
from twinloop.robots.protocol import ROBOTS, Robot

FACTORY = "make_robot"
"""The function of a driver that makes its robot."""


@ROBOTS.register("python")
def open_driver(rest: str) -> Robot:
    """`python:FILE`: the robot that `make_robot()` in a Python file returns; `twinloop init --driver` writes such a file."""
    file = Path(rest)
    if not file.is_file():
        raise WrongUse(
            f"{file} is not a file", expected="a driver: python:FILE", remedy="twinloop init DIR --driver"
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise WrongUse(f"{file} is not a Python file", expected="a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise RobotError(f"the driver {file} cannot be imported", got=str(error)) from error
    make_robot = getattr(module, FACTORY, None)
    if make_robot is None:
        raise RobotError(
            f"the driver {file} has no function {FACTORY}", expected=f"{FACTORY}() that returns a Robot"
        )
    robot: Robot = make_robot()
    return robot
