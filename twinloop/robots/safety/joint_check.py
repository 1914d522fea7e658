"""The guided joint check: move each joint a little, and compare what answers with the twin.

Signs, order and zeros of joints are conventions that nothing in a log reveals until a policy fails. Each joint is moved by a few
degrees; which reading answers tells its place, in which direction its sign, how far its scale, and where a person brings the arm
into the twin's home pose, the readings tell the zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.experts.kinematics import Arm
from twinloop.robots.protocol import Description, read_position
from twinloop.robots.safety.envelope import SafetyEnvelope
from twinloop.robots.safety.file import list_joints
from twinloop.tasks import Cell

MOVE_RAD, MOVE_M = 0.08, 0.008
"""How far a joint is moved: nearly 5 degrees, or 8 mm."""
SECONDS = 1.0
"""For the way there; the way back takes as long."""
SETTLE_S = 0.5
"""Until a reading is taken: longer than any delay that lets a robot be controlled."""
ANSWERS, SCALE = 0.3, (0.6, 1.6)
"""Fraction of the move from which a joint answers, and of which it answers rightly: gravity and backlash take some."""
VISIBLE_M = 0.005
"""A move of the tool that a person sees."""
OFFSET_RAD, OFFSET_M = 0.05, 0.005
"""Zeros that differ by less are equal: about what a person sees."""


@dataclass(frozen=True)
class JointFinding:
    """What the check found of one joint.

    Args:
        joint: Its name.
        moved: What it was asked to move, in the action's unit.
        answers: How every joint's reading changed, by name.
        swapped_with: The joint that answered in its place.
        wrong_sign: It answered in the other direction.
        scale: How far it went, of what was asked.
        offset: Its reading minus where the twin says it is, in the action's unit; None where that is not known.
        problem: What is wrong, in words; None where nothing is.
    """

    joint: str
    moved: float
    answers: dict[str, float]
    swapped_with: str | None = None
    wrong_sign: bool = False
    scale: float | None = None
    offset: float | None = None
    problem: str | None = None


def check_joints(
    robot: SafetyEnvelope,
    cell: Cell | None = None,
    *,
    known_pose: Array | None = None,
    ask: Callable[[str], bool] | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> tuple[JointFinding, ...]:
    """Move each joint of a connected robot a little, one after the other, and compare what answers.

    Args:
        robot: The robot in its safety envelope.
        cell: Its twin, which says the order of the joints and what a tool should do.
        known_pose: Where the joints are now by the twin, for example its home pose into which a person brought the arm, in the action's
            unit, (A,).
        ask: Asks a person beside the robot whether the tool moved as the twin says, given in words. A robot whose commands and readings
            are turned or swapped alike agrees with itself; only somebody who looks can tell.
        log: Called with a line about each joint.

    Returns:
        A finding for each joint.

    Raises:
        RobotError: The robot does not report where it is.
    """
    description = robot.description
    names, moves = list_joints(description), _list_moves(description)
    robot.restart()
    start = read_position(description, robot.observe())
    offsets = None if known_pose is None else start - np.asarray(known_pose, np.float64)
    findings = []
    _go(robot, start, start)  # under its load the arm settles a little beside its command
    for k, name in enumerate(names):
        before = read_position(description, robot.observe())
        target = _aim(robot, start, k, moves[k])
        _go(robot, start, target)
        answers = read_position(description, robot.observe()) - before
        _go(robot, target, start)
        found = _judge(names, k, float(target[k] - start[k]), answers, moves)
        if ask is not None and cell is not None and found.problem is None:
            expected = describe_tool_move(description, cell, start, target)
            if expected and not ask(f"{name} has moved there and back: did {expected}?"):
                found = replace(found, problem=f"moves otherwise than the twin: {expected}")
        if offsets is not None:
            found = _judge_offset(found, float(offsets[k]), _list_tolerances(description)[k], description, k)
        log(f"{name}: {found.problem or 'as the twin says'}")
        findings.append(found)
    robot.hold()
    return _name_order(tuple(findings), names, cell)


def describe_tool_move(description: Description, cell: Cell, start: Array, end: Array) -> str:
    """Where the twin's tool goes between two commands, in words; empty where it hardly moves or the twin has no tool."""
    if "tool" not in cell.twin.roles:
        return ""
    names, units = list_joints(description), _list_units(description)
    rows = np.zeros((2, len(cell.actuators)))
    for row, command in zip(rows, (start, end), strict=True):
        for name, unit, value in zip(names, units, command, strict=True):
            if name in cell.actuators:
                row[cell.actuators.index(name)] = np.radians(value) if unit == "deg" else value
    arm = Arm(cell)
    first, last = arm.tool_pose(rows[:, arm.actuators]).place
    moved = last - first
    axis = int(np.argmax(np.abs(moved)))
    if abs(moved[axis]) < VISIBLE_M:
        return ""
    word = (("ahead", "back"), ("to its left", "to its right"), ("up", "down"))[axis][int(moved[axis] < 0.0)]
    return f"the tool go about {100 * abs(moved[axis]):.0f} cm {word}, as the robot sees it"


def home_pose(description: Description, cell: Cell) -> Array:
    """The twin's home pose as a command of the robot, (A,).

    Raises:
        RobotError: The robot's joints are not those of the twin, or in other units.
    """
    qpos = np.array(cell.model.qpos0)
    for joint, position in cell.twin.home.items():
        qpos[cell.model.joint(joint).qposadr[0]] = position
    home = dict(zip(cell.actuators, cell.positions(qpos[None])[0].tolist(), strict=True))
    names, units = list_joints(description), _list_units(description)
    if missing := [name for name in names if name not in home]:
        raise RobotError(
            "the robot has joints that its twin does not", got=", ".join(missing), available=list(home)
        )
    return np.array(
        [np.degrees(home[n]) if u == "deg" else home[n] for n, u in zip(names, units, strict=True)]
    )


def _aim(robot: SafetyEnvelope, before: Array, joint: int, move: float) -> Array:
    """A target with one joint moved, away from the nearer end of its range."""
    limits = robot.limits.declared
    room = limits.high[joint] - before[joint], before[joint] - limits.low[joint]
    target = before.copy()
    target[joint] += move if room[0] >= room[1] else -move
    return target


def _go(robot: SafetyEnvelope, start: Array, end: Array) -> None:
    """Move smoothly from one command to another, and wait until the robot has followed."""
    rate_hz = robot.description.rate_hz
    steps = max(2, round(SECONDS * rate_hz))
    for step in range(1, steps + round(SETTLE_S * rate_hz) + 1):
        part = 0.5 - 0.5 * np.cos(np.pi * min(step / steps, 1.0))
        robot.act(start + part * (end - start))
        robot.wait_step()
        robot.observe()


def _judge(names: list[str], joint: int, moved: float, answers: Array, moves: Array) -> JointFinding:
    """What one move says: who answered, in which direction, and how far."""
    fractions = answers / moves
    strongest = int(np.argmax(np.abs(fractions)))
    found = JointFinding(names[joint], moved, dict(zip(names, answers.tolist(), strict=True)))
    if abs(fractions[strongest]) < ANSWERS:
        return replace(found, problem="nothing answers: is it powered, and is its reading connected?")
    if strongest != joint and abs(fractions[joint]) < ANSWERS:
        other = names[strongest]
        return replace(found, swapped_with=other, problem=f"swapped: {other} answers in its place")
    scale = float(answers[joint] / moved)
    found = replace(found, scale=scale)
    if scale < 0.0:
        return replace(found, wrong_sign=True, problem="wrong sign: it answers in the other direction")
    if not SCALE[0] <= scale <= SCALE[1]:
        words = f"wrong scale: it goes {scale:.2f} times as far as asked; are these its units?"
        return replace(found, problem=words)
    return found


def _judge_offset(
    found: JointFinding, offset: float, tolerance: float, description: Description, joint: int
) -> JointFinding:
    """The finding with the offset of the joint's zero."""
    found = replace(found, offset=offset)
    if abs(offset) <= tolerance or found.problem is not None:
        return found
    unit = _list_units(description)[joint]
    shown = f"{np.degrees(offset):+.1f}°" if unit == "rad" else f"{offset:+.3g} {unit}"
    return replace(found, problem=f"offset: its zero is {shown} away from the twin's")


def _name_order(
    findings: tuple[JointFinding, ...], names: list[str], cell: Cell | None
) -> tuple[JointFinding, ...]:
    """The findings; joints that the twin does not know are named."""
    known = set(names) if cell is None else set(cell.actuators)
    return tuple(
        replace(found, problem=found.problem or "the twin has no joint of this name")
        if found.joint not in known
        else found
        for found in findings
    )


def _list_units(description: Description) -> tuple[str, ...]:
    action = description.action
    return action.units * (action.size // len(action.units))


def _list_moves(description: Description) -> Array:
    sizes = {"rad": MOVE_RAD, "deg": np.degrees(MOVE_RAD), "m": MOVE_M, "mm": 1e3 * MOVE_M}
    ranges = np.array(description.limits.high) - np.array(description.limits.low)
    usual = np.where(np.isfinite(ranges), 0.03 * ranges, MOVE_RAD)
    return np.array([sizes.get(unit, own) for unit, own in zip(_list_units(description), usual, strict=True)])


def _list_tolerances(description: Description) -> Array:
    sizes = {"rad": OFFSET_RAD, "deg": np.degrees(OFFSET_RAD), "m": OFFSET_M, "mm": 1e3 * OFFSET_M}
    moves = _list_moves(description)
    return np.array(
        [sizes.get(unit, 0.5 * own) for unit, own in zip(_list_units(description), moves, strict=True)]
    )
