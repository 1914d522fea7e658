"""The template of a driver: a robot of your own, written for the joints of its twin, that runs on a loopback at once."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from twinloop.errors import WrongUse
from twinloop.robots.signals import TURNING_RAD_S, list_signals
from twinloop.tasks import Cell, make_cell
from twinloop.twins import Twin
from twinloop.twins.declare import to_identifier

SLIDING_M_S = 0.1
"""Speed limit that the template proposes for joints that slide: slow, until its owner sets another."""
DECLARED = ("observation.state", "observation.velocity")
"""Signals that the template declares."""
UNLIMITED_RAD = 3.14
"""Range that it proposes for joints without limits."""


def write_driver(folder: str | Path, twin: Twin, place: str | None = None) -> list[Path]:
    """Write a driver for the robot of a twin, with its test.

    Args:
        folder: The new folder.
        twin: Whose joints the robot has.
        place: The twin as the driver names it; default: its name.

    Returns:
        The driver and its test.

    Raises:
        WrongUse: The folder exists, or the twin has no actuators.
    """
    root, cell = Path(folder), make_cell(twin)
    if root.exists():
        raise WrongUse(f"{root} exists already", remedy="choose another folder")
    if not cell.actuators:
        raise WrongUse(f"twin {twin.name!r} has no actuators, so there is nothing to drive")
    robot = to_identifier(twin.robot or twin.name)
    low = np.where(np.isfinite(cell.control_low), cell.control_low, -UNLIMITED_RAD)
    high = np.where(np.isfinite(cell.control_high), cell.control_high, UNLIMITED_RAD)
    qpos = np.array(cell.model.qpos0)
    for joint, position in twin.home.items():
        qpos[cell.model.joint(joint).qposadr[0]] = position
    home = np.clip(cell.positions(qpos[None])[0], low, high)
    words = {
        "robot": robot,
        "module": f"{robot}_robot",
        "class_name": "".join(part.capitalize() for part in robot.split("_")) + "Robot",
        "twin": place or twin.name,
        "joints": _tuple(f'"{name}"' for name in cell.actuators),
        "units": _tuple('"rad"' if turns else '"m"' for turns in cell.turning.tolist()),
        "low": _tuple(repr(round(float(number), 6)) for number in low),
        "high": _tuple(repr(round(float(number), 6)) for number in high),
        "home": _tuple(repr(round(float(number), 6)) for number in home),
        "speed": _tuple(repr(TURNING_RAD_S if turns else SLIDING_M_S) for turns in cell.turning.tolist()),
        "others": f"\n{' ' * 16}#   ".join(_list_others(cell)),
        "rate_hz": repr(float(twin.control_hz)),
    }
    root.mkdir(parents=True)
    written = []
    for source, name in (("driver", words["module"]), ("test_driver", f"test_{words['module']}")):
        text = files("twinloop.robots").joinpath(f"templates/{source}.py.txt").read_text()
        written.append(root / f"{name}.py")
        written[-1].write_text(Template(text).substitute(words))
    return written


def _list_others(cell: Cell) -> list[str]:
    """Signals of the twin that the template does not declare, with their elements where joints do not tell them."""
    signals = [*list_signals(cell), *(group.signal for group in cell.sensors)]
    others = [signal for signal in signals if signal.name not in DECLARED]
    return [
        signal.name if signal.name == "observation.effort" else f"{signal.name} ({' '.join(signal.elements)})"
        for signal in others
    ]


def _tuple(parts: Iterable[str]) -> str:
    """Source of a tuple, also of one element."""
    items = list(parts)
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
