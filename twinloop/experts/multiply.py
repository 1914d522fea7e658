"""Demonstration augmentation: a few demonstrations retargeted to new scenes (after MimicGen).

A demonstration of pick-and-place is cut into the part that is about the object (near it, until it is lifted) and the
part that is about the target (near it, until the hand has left). In a new scene the first part moves and turns with the
object, the second with the target, and smooth paths join them. The tool is taken to point down, as in every part of
such a demonstration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Actor, Array, Episode
from twinloop.errors import WrongUse
from twinloop.experts.kinematics import Arm
from twinloop.experts.motion import (
    ToolMotion,
    minimum_jerk,
    nearest_quarter_turn,
    tool_yaw,
    vertical_angle,
)
from twinloop.experts.protocol import Setup
from twinloop.experts.reading import Reading
from twinloop.imperfect.noise import draw_uniform
from twinloop.tasks import Cell

MOVED_FRACTION = 0.1
"""A gripper that moves less than this fraction of its range was neither opened nor closed."""

NEAR_M = 0.12
"""Where a demonstration begins to be about what it approaches."""

LIFTED_M = 0.05
JOIN_M_S = 0.4
NEAREST = 3
"""A child is made from one of this many demonstrations, those whose scene is most like its own."""


@dataclass(frozen=True)
class Demonstration:
    """One demonstration, cut: rows of (x, y, z, yaw, gripper) for the object's part and the target's part."""

    episode: str
    object_place: Array
    object_yaw: float
    target_place: Array
    about_object: Array
    about_target: Array


def segment_demonstration(cell: Cell, episode: Episode) -> Demonstration:
    """Cut a successful demonstration, real or simulated, into its two parts."""
    if cell.gripper is None or cell.target_mocap is None:
        raise WrongUse(f"twin {cell.twin.name!r} has no gripper or no target", expected="pick-and-place")
    action = episode["action"].astype(np.float64)
    scene = episode["observation.environment_state"].astype(np.float64)
    arm = Arm(cell)
    pose = arm.tool_pose(action[:, arm.actuators])
    gripper = action[:, cell.gripper]
    rows = np.column_stack([pose.place, np.unwrap(tool_yaw(pose)), gripper])
    # Half way between what this demonstration did with it: some hands are never opened as far as they could be.
    closed = gripper < 0.5 * (gripper.min() + gripper.max())
    released = np.flatnonzero(closed[:-1] & ~closed[1:]) + 1
    reach = cell.control_high[cell.gripper] - cell.control_low[cell.gripper]
    if not len(released) or np.ptp(gripper) < MOVED_FRACTION * reach:
        raise WrongUse(f"demonstration {episode.id} never releases an object", expected="a pick and a place")
    release = int(released[-1])
    grasp = int(np.flatnonzero(~closed[:release])[-1]) + 1
    high = np.flatnonzero(pose.place[grasp:release, 2] > pose.place[grasp, 2] + LIFTED_M)
    lifted = grasp + int(high[0]) if len(high) else release - 1
    object_place, target = scene[: max(1, min(5, grasp)), :3].mean(axis=0), scene[0, 9:12]
    begins = _last_far(pose.place[:grasp] - object_place)
    arrives = lifted + _last_far(pose.place[lifted:release] - target)
    return Demonstration(
        episode.id,
        object_place,
        float(vertical_angle(scene[:1, 3:5])[0]),
        target,
        rows[begins : lifted + 1],
        rows[max(arrives, lifted + 1) :],
    )


def make_multiplier(demonstrations: Sequence[Episode]) -> Callable[[Setup], Multiplier]:
    """An expert's factory: acts as these demonstrations would have, in scenes they have not seen."""
    chosen = [episode for episode in demonstrations if episode.success is not False]
    if not chosen:
        raise WrongUse(
            "there is no successful demonstration to multiply", got=f"{len(demonstrations)} episodes"
        )
    return lambda setup: Multiplier(setup, [segment_demonstration(setup.cell, episode) for episode in chosen])


class Multiplier:
    """Plays re-targeted demonstrations; `parents` says which one each environment plays."""

    actor: Actor = "expert"

    def __init__(self, setup: Setup, demonstrations: Sequence[Demonstration]) -> None:
        cell = setup.cell
        assert cell.gripper is not None
        self._cell, self._gripper = cell, cell.gripper
        self._demonstrations = list(demonstrations)
        self._motion = ToolMotion(cell, setup.count)
        self._plan = np.zeros((setup.count, setup.steps, 5))
        self._rows = np.arange(setup.count)
        self._parents = [""] * setup.count

    def parents(self, environment: int) -> tuple[str, ...]:
        """The demonstration that this environment's episode is made from."""
        return (self._parents[environment],)

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Choose a demonstration and lay its plan out in the new scene."""
        self._motion.restart(ids, reading.position[ids][:, self._motion.arm.actuators])
        pose = self._motion.pose
        chance = draw_uniform(seeds, "demonstration", 1)[0]
        angles = vertical_angle(reading.object_columns)
        for row, environment in enumerate(ids.tolist()):
            place, target = reading.object_position[environment], reading.target_position[environment]
            demonstration = self._choose(place, target, float(chance[row]))
            start = np.array([*pose.place[environment], self._motion.yaw[environment], 0.0])
            plan = self._laid_out(demonstration, place, float(angles[environment]), target, start)
            steps = self._plan.shape[1]
            self._plan[environment] = plan[np.minimum(np.arange(steps), len(plan) - 1)]
            self._parents[environment] = demonstration.episode

    def act(self, reading: Reading, step: Array) -> Array:
        """The next row of each plan."""
        row = self._plan[self._rows, np.minimum(step, self._plan.shape[1] - 1)]
        commands = np.empty((len(row), len(self._cell.actuators)))
        commands[:, self._motion.arm.actuators] = self._motion.track(row[:, :3], row[:, 3])
        commands[:, self._gripper] = row[:, 4]
        return commands

    def _choose(self, place: Array, target: Array, chance: float) -> Demonstration:
        unlike = [
            float(np.linalg.norm(d.object_place - place) + np.linalg.norm(d.target_place - target))
            for d in self._demonstrations
        ]
        nearest = np.argsort(unlike, kind="stable")[:NEAREST]
        return self._demonstrations[int(nearest[int(chance * len(nearest))])]

    def _laid_out(
        self, demonstration: Demonstration, place: Array, yaw: float, target: Array, start: Array
    ) -> Array:
        # A cube looks the same after a quarter turn: of the four ways to hold it, the one that turns the hand least.
        turn = float(nearest_quarter_turn(np.array([yaw - demonstration.object_yaw]), np.zeros(1))[0])
        first = _moved(demonstration.about_object, demonstration.object_place, place, turn)
        second = demonstration.about_target.copy()
        second[:, :3] += target - demonstration.target_place
        # The hand still holds the object turned: it lets go turned, and the object lies as it was held.
        second[:, 3] += turn
        start[4] = first[0, 4]
        dt_s = self._cell.dt_s
        return np.concatenate(
            [_join(start, first[0], dt_s), first, _join(first[-1], second[0], dt_s), second]
        )


def _moved(rows: Array, was: Array, now: Array, turn: float) -> Array:
    """Rows carried along by an object that moved and turned about the vertical."""
    cosine, sine = np.cos(turn), np.sin(turn)
    x, y = rows[:, 0] - was[0], rows[:, 1] - was[1]
    moved = rows.copy()
    moved[:, 0] = now[0] + cosine * x - sine * y
    moved[:, 1] = now[1] + sine * x + cosine * y
    moved[:, 2] += now[2] - was[2]
    moved[:, 3] += turn
    return moved


def _join(a: Array, b: Array, dt_s: float) -> Array:
    """A smooth path between two rows, both left out; the gripper stays as in the first."""
    length_s = max(
        1.875 * float(np.linalg.norm(b[:3] - a[:3])) / JOIN_M_S, abs(b[3] - a[3]) / 1.5, 4.0 * dt_s
    )
    share = minimum_jerk(np.arange(1, round(length_s / dt_s)) * dt_s / length_s)
    path = a + (b - a) * share[:, None]
    path[:, 4] = a[4]
    return np.asarray(path)


def _last_far(away: Array) -> int:
    """The row after the last one that is further than `NEAR_M`."""
    far = np.flatnonzero(np.sqrt((away * away).sum(axis=1)) > NEAR_M)
    return int(far[-1]) + 1 if len(far) else 0
