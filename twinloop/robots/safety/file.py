"""`safety.yaml`, the file beside a twin with everything that commands to its robot must keep, and how a first one is proposed.

Nothing in it is optional. A limit that does not hold is named under `overrides`, with who decided that and why; every episode
records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from twinloop.datasets.commit import write_atomically
from twinloop.errors import RobotError, WrongUse
from twinloop.robots.protocol import Description
from twinloop.robots.safety.workspace import find_elbow, reachable_box, table_height_m
from twinloop.tasks import Cell
from twinloop.yaml_models import load_model

FILE = "safety.yaml"
KINDS = (
    "range",
    "speed",
    "acceleration",
    "jerk",
    "workspace",
    "keep_out",
    "contact",
    "silence",
    "approach",
    "payload",
)
"""The limits, as `overrides` names them."""

STOP_S = 0.15
"""Proposed time from full speed to rest, without the jerk limit."""
RAMP_S = 0.05
"""Proposed time from no to full acceleration."""
SILENCE_S = 0.15
"""Proposed longest time without a command or an observation: a hold then begins within 200 ms."""
CONTACT_FRACTION = 0.6
"""Proposed torque above the expected one at which the robot stops, of what a joint can do."""
SLOW_FRACTION = 0.25
"""Proposed fraction of the speed limits until the first target has been reached."""
SPEED_RAD_S, SPEED_M_S = 4.0, 0.25
"""Proposed where the robot declares no speed limit, and at most."""

_Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Point = tuple[_Finite, _Finite, _Finite]


def _require_direction(vector: tuple[float, float, float]) -> tuple[float, float, float]:
    if not 1e-6 < sum(part * part for part in vector) < 1e12:
        raise ValueError("a direction needs a length")
    return vector


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JointLimits(_Part):
    """Limits of one joint's command, in the unit of the action and seconds."""

    low: _Finite | None = None
    high: _Finite | None = None
    speed: _Positive | None = None
    acceleration: _Positive | None = None
    jerk: _Positive | None = None


class Plane(_Part):
    """A plane that tool and elbow stay in front of: `normal` points to the side where they may be."""

    point: _Point
    normal: Annotated[_Point, AfterValidator(_require_direction)]


class WorkspaceLimits(_Part):
    """A box in the coordinates of the twin, m, for the tool and the elbow (a body or site of the twin)."""

    low: _Point
    high: _Point
    elbow: str


class ContactLimits(_Part):
    """The robot stops where a signal shows more contact than this.

    Of a force sensor, `force_n` limits the force; of joint torques, `torque_nm` limits what each of the named joints shows above what
    the twin expects of it.
    """

    signal: str
    force_n: _Positive | None = None
    torque_nm: Mapping[str, _Positive] = Field(default_factory=dict)


class PeopleLimits(_Part):
    """Limits with people nearby. The values are the user's own, from their risk assessment; `source` says where they come from."""

    by: str = Field(min_length=1)
    source: str = Field(min_length=1)
    tool_speed_m_s: _Positive
    contact_force_n: _Positive


class Override(_Part):
    """Who decided that a limit does not hold, and why."""

    by: str = Field(min_length=1)
    reason: str = Field(min_length=1)


class SafetyFile(_Part):
    """The content of `safety.yaml`; `by` is who answers for its values, `people` names a file with limits for people nearby."""

    robot: str
    by: str = Field(min_length=1)
    joints: Mapping[str, JointLimits]
    workspace: WorkspaceLimits | None = None
    keep_out: tuple[Plane, ...] | None = None
    contact: ContactLimits | None = None
    silence_s: _Positive | None = None
    approach_fraction: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    payload_kg: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    people: str | None = None
    overrides: Mapping[str, Override] = Field(default_factory=dict)


def load_safety_file(path: Path) -> tuple[SafetyFile, PeopleLimits | None]:
    """Read a file, and the limits for people that it names.

    Raises:
        MapError: A key or value is wrong.
        RobotError: A limit is missing and not overridden, or an override names no limit.
    """
    kind = "safety file"
    hints = {
        "by": "who answers for these values: by: NAME",
        "joints": "twinloop robot limits ADDRESS --by NAME",
    }
    found = load_model(
        SafetyFile,
        path,
        remedy="twinloop robot limits ADDRESS --by NAME proposes one",
        hints=hints,
        kind=kind,
    )
    for name in found.overrides:
        if name not in KINDS:
            raise RobotError(f"{path}: an override names no limit", got=name, available=KINDS)
    if missing := [name for name in KINDS if name not in found.overrides and not _has(found, name)]:
        raise RobotError(
            f"{path} lacks a limit",
            got=f"no {', '.join(missing)}",
            expected="every limit, or an override of it with who decided that and why",
            remedy=f"overrides: {{{missing[0]}: {{by: NAME, reason: ...}}}}",
        )
    if found.people is None:
        return found, None
    people = path.parent / found.people
    remedy = "write by, source, tool_speed_m_s and contact_force_n from your risk assessment"
    return found, load_model(PeopleLimits, people, remedy=remedy, hints={}, kind="file of limits for people")


def _has(found: SafetyFile, name: str) -> bool:
    joints = list(found.joints.values())
    given = {
        "range": all(joint.low is not None and joint.high is not None for joint in joints),
        "speed": all(joint.speed is not None for joint in joints),
        "acceleration": all(joint.acceleration is not None for joint in joints),
        "jerk": all(joint.jerk is not None for joint in joints),
        "workspace": found.workspace is not None,
        "keep_out": found.keep_out is not None,
        "contact": found.contact is not None,
        "silence": found.silence_s is not None,
        "approach": found.approach_fraction is not None,
        "payload": found.payload_kg is not None,
    }
    return given[name]


def write_safety_file(path: Path, description: Description, cell: Cell | None, by: str) -> SafetyFile:
    """Propose limits for a robot: those it declares, and others that follow from its twin. Somebody must look at every number.

    Args:
        path: The new file.
        description: The robot's description.
        cell: Its twin; without one nothing is proposed for workspace and contact, and the file is refused until somebody adds them.
        by: Who will answer for the values.

    Returns:
        What was written.

    Raises:
        WrongUse: The file exists.
    """
    if path.exists():
        raise WrongUse(f"{path} exists already", remedy="edit it, or remove it first")
    content = _propose(description, cell, by)
    found = SafetyFile.model_validate(content)
    head = (
        "# What every command to this robot must keep. Proposed from its description and its twin: look at each number.\n"
        "# A limit that shall not hold: overrides: {jerk: {by: NAME, reason: the controller limits it itself}}\n"
        "# With people nearby, `people: FILE` names your own limits: by, source, tool_speed_m_s, contact_force_n.\n"
    )
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (head + text).encode())
    return found


def _propose(description: Description, cell: Cell | None, by: str) -> dict[str, Any]:
    limits = description.limits
    joints = {}
    units = description.action.units * (description.action.size // len(description.action.units))
    for k, (name, unit) in enumerate(zip(list_joints(description), units, strict=True)):
        most = SPEED_M_S if unit == "m" else SPEED_RAD_S * _per_rad(unit)
        speed = min(limits.speed_per_s[k], most)
        reach = 2.0 * np.pi * _per_rad(unit)
        joints[name] = {
            "low": _rounded(limits.low[k] if np.isfinite(limits.low[k]) else -reach),
            "high": _rounded(limits.high[k] if np.isfinite(limits.high[k]) else reach),
            "speed": _rounded(speed),
            "acceleration": _rounded(speed / STOP_S),
            "jerk": _rounded(speed / STOP_S / RAMP_S),
        }
    content: dict[str, Any] = {"robot": description.robot_type, "by": by, "joints": joints}
    if cell is not None and "tool" in cell.twin.roles:
        elbow = find_elbow(cell)
        low, high = reachable_box(cell, elbow)
        height = table_height_m(cell)
        content["workspace"] = {"low": low, "high": high, "elbow": elbow}
        content["keep_out"] = [{"point": [0.0, 0.0, _rounded(height)], "normal": [0.0, 0.0, 1.0]}]
    if cell is not None and (torques := _propose_torques(description, cell)):
        content["contact"] = {"signal": "observation.effort", "torque_nm": torques}
    content |= {"silence_s": SILENCE_S, "approach_fraction": SLOW_FRACTION}
    if cell is not None:
        content["payload_kg"] = _rounded(payload_kg(cell))
    return content


def _propose_torques(description: Description, cell: Cell) -> dict[str, float]:
    """Of the joints of the arm whose torques are limited, where the robot reports them."""
    if not any(signal.name == "observation.effort" for signal in description.signals):
        return {}
    most = np.asarray(cell.model.actuator_forcerange)[:, 1]
    return {
        cell.actuators[k]: _rounded(CONTACT_FRACTION * most[k])
        for k in cell.arm.tolist()
        if most[k] > 0.0 and cell.weights[k, 1] == 0.0
    }


def list_joints(description: Description) -> list[str]:
    """Names of the joints of a robot's action: its elements without what follows the last dot."""
    elements = description.action.elements or tuple(f"joint{k + 1}" for k in range(description.action.size))
    return [element.rpartition(".")[0] or element for element in elements]


def payload_kg(cell: Cell) -> float:
    """The mass that a twin's task handles; 0 without an object."""
    if "object" not in cell.twin.roles:
        return 0.0
    return float(cell.model.body(cell.twin.role("object")).mass[0])


def _per_rad(unit: str) -> float:
    """How much of an angular unit a radian is; 1 for units that are no angle."""
    return 180.0 / np.pi if unit == "deg" else 1.0


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
