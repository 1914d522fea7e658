"""The limits of one robot, ready to be applied: from its safety file, checked against its description and its twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from twinloop.datasets.artefacts import WORKSPACE
from twinloop.episode import Array
from twinloop.errors import RobotError, UnknownName
from twinloop.robots.protocol import Description, Limits, Observation
from twinloop.robots.safety.contact import ForceGuard, TorqueGuard
from twinloop.robots.safety.file import (
    FILE,
    SILENCE_S,
    PeopleLimits,
    SafetyFile,
    list_joints,
    load_safety_file,
    payload_kg,
)
from twinloop.robots.safety.latch import Latch
from twinloop.robots.safety.motion import NO_LIMIT, Bounds, LimitedMotion, SafeMotion
from twinloop.robots.safety.workspace import Workspace
from twinloop.tasks import Cell, make_cell
from twinloop.twins import load_twin


class ContactGuard(Protocol):
    """Looks for too much contact in observations."""

    def restart(self) -> None:
        """Forget what was seen: something else may have moved the robot."""

    def find(self, observation: Observation) -> str | None:
        """What was too much, or None."""


@dataclass(frozen=True, eq=False)
class SafetyLimits:
    """What every command to one robot must keep.

    Args:
        declared: Range and speed.
        bounds: Acceleration and jerk as well; None where they are not limited.
        silence_s: Longest time without a command or an observation before the robot is told to hold.
        approach: Speed limits (A,) until the first target has been reached.
        workspace: Limits of tool and elbow.
        contact: Stops the robot where it feels too much.
        overrides: Limits that do not hold, with who decided that and why.
        latch: Where a stop outlives this process.
    """

    declared: Limits
    bounds: Bounds | None = None
    silence_s: float = SILENCE_S
    approach: Array | None = None
    workspace: Workspace | None = None
    contact: ContactGuard | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    latch: Latch | None = None

    def make_motion(self, position: Array, rate_hz: float) -> LimitedMotion | SafeMotion:
        """The trajectory of commands that begins at rest in `position` (A,)."""
        if self.bounds is None:
            return LimitedMotion(self.declared, position, rate_hz)
        return SafeMotion(self.bounds, position, self.workspace.margins if self.workspace else None)


def declared_limits(description: Description) -> SafetyLimits:
    """The limits of a robot without a safety file: range and speed as it declares them, and a hold when commands stop.

    Args:
        description: The robot's description.

    Returns:
        The limits.
    """
    # Two control steps, for robots with a slow one.
    return SafetyLimits(description.limits, silence_s=max(SILENCE_S, 2.0 / description.rate_hz))


def find_safety_file(description: Description, start: str | Path = ".") -> Path | None:
    """The safety file beside a robot's twin, in its folder or in the workspace; without such a twin, that of the workspace itself.

    Args:
        description: The robot's description, which names its twin.
        start: A folder in the workspace.

    Returns:
        The file, or None.
    """
    here = Path(start).resolve()
    workspaces = [folder for folder in (here, *here.parents) if (folder / WORKSPACE).is_file()][:1]
    places = [here, *workspaces]
    if description.twin is not None:
        named = Path(description.twin)
        places = [named, *(folder / "twins" / named.name for folder in workspaces), *places]
    return next((place / FILE for place in places if (place / FILE).is_file()), None)


def load_limits(description: Description, start: str | Path = ".") -> SafetyLimits:
    """The limits of a connected robot.

    Args:
        description: The robot's description.
        start: A folder in the workspace.

    Returns:
        Those of its safety file; of a stand-in without one, which can hurt nobody, the declared ones.

    Raises:
        RobotError: A robot has no safety file, or its file does not fit it.
        MapError: The file cannot be read.
    """
    path = find_safety_file(description, start)
    if path is None:
        if description.standin:
            return declared_limits(description)
        raise RobotError(
            f"robot {description.serial} has no safety limits",
            expected=f"{FILE} beside its twin",
            remedy="twinloop robot limits ADDRESS --by NAME proposes them; look at every number before the robot moves",
        )
    file, people = load_safety_file(path)
    return make_limits(file, description, _load_cell(description, path), people=people, path=path)


def _load_cell(description: Description, path: Path) -> Cell | None:
    """The twin beside the file, or the one that the robot names."""
    if (path.parent / "twin.yaml").is_file():
        return make_cell(load_twin(path.parent))
    if description.twin is None:
        return None
    try:
        return make_cell(load_twin(description.twin))
    except UnknownName:
        return None


def make_limits(
    file: SafetyFile,
    description: Description,
    cell: Cell | None = None,
    *,
    people: PeopleLimits | None = None,
    path: Path | None = None,
) -> SafetyLimits:
    """Check a safety file against a robot and its twin, and make it ready to be applied.

    Args:
        file: The content of the file.
        description: The robot's description.
        cell: Its twin, which workspace and contact need.
        people: Limits with people nearby.
        path: The file; a stop is remembered beside it.

    Returns:
        The limits.

    Raises:
        RobotError: The file is about another robot, names other joints, or needs what robot or twin do not have.
    """
    off = set(file.overrides)
    _require_fits(file, description, cell, off)
    names = list_joints(description)
    declared = _narrow(file, description.limits, names, off)
    joints = [file.joints[name] for name in names]
    needs_twin = people is not None or not {"workspace", "keep_out", "contact"} <= off
    order, scale = _match(cell, description) if cell is not None and needs_twin else ([], np.ones(len(names)))
    step_s = 1.0 / description.rate_hz
    workspace = None
    if cell is not None and (people is not None or not {"workspace", "keep_out"} <= off):
        inside = file.workspace if "workspace" not in off else None
        planes = file.keep_out if file.keep_out is not None and "keep_out" not in off else ()
        workspace = Workspace(
            cell,
            order,
            scale,
            box=np.array([inside.low, inside.high]) if inside else None,
            planes=np.array([[plane.point, plane.normal] for plane in planes]).reshape(-1, 2, 3),
            elbow=file.workspace.elbow if file.workspace else None,
            tool_speed_m_s=people.tool_speed_m_s if people else np.inf,
            step_s=step_s,
        )
    speed = np.minimum(declared.speed_per_s, NO_LIMIT)
    return SafetyLimits(
        declared,
        Bounds(
            np.maximum(declared.low, -NO_LIMIT),
            np.minimum(declared.high, NO_LIMIT),
            speed,
            np.array(
                [NO_LIMIT if "acceleration" in off else joint.acceleration or NO_LIMIT for joint in joints]
            ),
            np.array([NO_LIMIT if "jerk" in off else joint.jerk or NO_LIMIT for joint in joints]),
            step_s,
        ),
        silence_s=np.inf if "silence" in off else max(file.silence_s or np.inf, 2.0 * step_s),
        approach=None if "approach" in off else speed * (file.approach_fraction or 1.0),
        workspace=workspace,
        contact=None if "contact" in off else _make_guard(file, description, cell, order, scale, people),
        overrides={name: f"{one.reason} ({one.by})" for name, one in file.overrides.items()},
        latch=Latch(path.parent, description.serial) if path is not None else None,
    )


def _require_fits(file: SafetyFile, description: Description, cell: Cell | None, off: set[str]) -> None:
    if file.robot != description.robot_type:
        raise RobotError(
            "the safety file is about another robot", got=file.robot, expected=description.robot_type
        )
    names = list_joints(description)
    if set(file.joints) != set(names):
        raise RobotError(
            "the safety file does not name the joints of the robot",
            got=", ".join(file.joints),
            expected=", ".join(names),
        )
    if cell is None and not {"workspace", "keep_out", "contact", "payload"} <= off:
        raise RobotError(
            "the limits of workspace, contact and payload need the robot's twin",
            got=f"no twin called {description.twin!r}" if description.twin else "a robot that names no twin",
            remedy="keep the file in the folder of the twin, or override these limits",
        )
    if cell is not None and "payload" not in off and payload_kg(cell) > (file.payload_kg or 0.0) + 1e-9:
        raise RobotError(
            f"the task of twin {cell.twin.name!r} handles more than the robot may carry",
            got=f"{payload_kg(cell):g} kg",
            expected=f"at most payload_kg: {file.payload_kg:g}",
        )


def _narrow(file: SafetyFile, declared: Limits, names: list[str], off: set[str]) -> Limits:
    """Range and speed: the narrower of what the robot declares and what the file says."""
    joints = [file.joints[name] for name in names]
    low = [-np.inf if "range" in off or one.low is None else one.low for one in joints]
    high = [np.inf if "range" in off or one.high is None else one.high for one in joints]
    speed = [np.inf if "speed" in off or one.speed is None else one.speed for one in joints]
    return Limits(
        tuple(np.maximum(low, declared.low).tolist()),
        tuple(np.minimum(high, declared.high).tolist()),
        tuple(np.minimum(speed, declared.speed_per_s).tolist()),
    )


def _match(cell: Cell, description: Description) -> tuple[list[int], Array]:
    """By actuator of the twin, the element of the action that moves it (-1: none); and what a unit of each element is in rad or m."""
    names = list_joints(description)
    units = description.action.units * (description.action.size // len(description.action.units))
    scales = {"rad": 1.0, "m": 1.0, "deg": np.pi / 180.0, "mm": 1e-3, "cm": 1e-2}
    if unknown := sorted(set(units) - set(scales)):
        raise RobotError(
            "workspace and contact need commands in units of angle or length",
            got=", ".join(unknown),
            available=scales,
            remedy="let the driver speak in these units, or override workspace, keep_out and contact",
        )
    order = [names.index(name) if name in names else -1 for name in cell.actuators]
    return order, np.array([scales[unit] for unit in units])


def _make_guard(
    file: SafetyFile,
    description: Description,
    cell: Cell | None,
    order: list[int],
    scale: Array,
    people: PeopleLimits | None,
) -> ContactGuard:
    assert file.contact is not None and cell is not None
    force_n = min(file.contact.force_n or np.inf, people.contact_force_n if people is not None else np.inf)
    declared = {signal.name: signal for signal in description.signals}.get(file.contact.signal)
    if declared is not None and set(declared.units) == {"N"} and not file.contact.torque_nm:
        if not np.isfinite(force_n):
            raise RobotError(
                "the contact limit has no number", expected="contact: {signal: ..., force_n: ...}"
            )
        return ForceGuard(description, file.contact.signal, force_n)
    if not file.contact.torque_nm and not np.isfinite(force_n):
        raise RobotError("the contact limit has no number", expected="force_n or torque_nm")
    return TorqueGuard(description, file.contact.signal, cell, order, scale, file.contact.torque_nm, force_n)
