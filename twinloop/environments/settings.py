"""What an environment is made of, from the keyword arguments of `gymnasium.make`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twinloop.engines import DEFAULT_ENGINE
from twinloop.episode import Array, Schema, Signal
from twinloop.errors import UnknownName, WrongUse
from twinloop.generation.signals import make_schema
from twinloop.policies.mapping.arm_pose import ArmPose
from twinloop.policies.mapping.rotations import rotation_to_numbers
from twinloop.randomization import Randomization, load_randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.tasks import Cell, RewardedTask, Task, make_cell, make_task
from twinloop.twins import Twin, load_twin

Reward = Literal["sparse", "dense"]
Control = Literal["target", "delta"]

FULL_RANGE_S = 3.0
"""With `control="delta"`, the time in which an action of 1 moves an actuator through its whole range: a Panda's joints then
turn at most at 1.9 rad/s, a little below the 2.175 rad/s that its maker allows."""


@dataclass(frozen=True)
class Settings:
    """One environment: where, what to do, what varies, what is seen, what is rewarded, what an action means.

    An episode has `steps` observations, the first before anything moved, and one action fewer.
    """

    cell: Cell
    task: Task
    randomization: Randomization
    cameras: tuple[str, ...]
    reward: Reward
    control: Control
    steps: int
    engine: str = DEFAULT_ENGINE
    poses: Mapping[str, ArmPose] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """The schema of the episodes, as generation records them, and the poses that are observed besides."""
        recorded = make_schema(self.cell, self.cameras)
        return replace(recorded, signals=(*recorded.signals, *map(pose_signal, self.poses)))

    def observe_poses(self, position: Array) -> dict[str, Array]:
        """The observed poses (N, 9) by signal, where the actuators read `position` (N, actuators)."""
        found = {}
        for frame, arm in self.poses.items():
            place, turn = arm.forward(position[:, arm.actuators])
            numbers = rotation_to_numbers(turn, "matrix_6d")
            found[pose_signal(frame).name] = np.concatenate([place, numbers], axis=1)
        return found

    @property
    def action_step(self) -> Array:
        """How far an action of 1 moves each actuator's target in a control step, with `control="delta"`."""
        cell = self.cell
        return np.asarray((cell.control_high - cell.control_low) * cell.dt_s / FULL_RANGE_S)


def pose_signal(frame: str) -> Signal:
    """Where a frame is in the robot's base, as a map's `{pose: FRAME, rotation: matrix_6d}` gives it to a policy."""
    columns = [f"{column}{axis}" for column in "uv" for axis in "xyz"]
    elements = tuple(f"{frame}.{name}" for name in (*"xyz", *columns))
    return Signal(f"observation.pose.{frame}", (9,), (*["m"] * 3, *["1"] * 6), elements=elements)


def make_settings(
    twin: Twin | str | Path,
    *,
    task: str | None = None,
    randomization: Randomization | Mapping[str, Any] | str | Path | None = None,
    cameras: Sequence[str] = (),
    poses: Sequence[str] = (),
    reward: Reward = "sparse",
    control: Control = "target",
    max_episode_steps: int | None = None,
    engine: str = DEFAULT_ENGINE,
) -> Settings:
    """Check the keyword arguments of `gymnasium.make` and resolve them.

    Args:
        twin: A twin, its name or its folder.
        task: Name of the task; default: the twin's own.
        randomization: What varies between episodes, or a YAML file; default: where things lie, as in `evaluate`.
        cameras: Cameras whose frames are part of the observation.
        poses: Frames of the robot, `tool` or a site or body, whose pose in its base is observed, as its joints read it.
        reward: `sparse`: 1 on success; `dense`: the task's own, for tasks that have one.
        control: `target`: an action is the actuators' position targets, as in datasets; `delta`: in -1 to 1, how far to
            move the last targets, 1 being a whole range in `FULL_RANGE_S`.
        max_episode_steps: Control steps of an episode; default: the task's time limit.
        engine: Name of the physics engine.

    Returns:
        The settings.

    Raises:
        WrongUse: The twin has nothing to control, or the task no dense reward.
        UnknownName: There is no such twin, task, camera, frame or parameter.
    """
    found = twin if isinstance(twin, Twin) else load_twin(twin)
    if reward not in ("sparse", "dense"):
        raise UnknownName("reward", reward, ("sparse", "dense"))
    if control not in ("target", "delta"):
        raise UnknownName("control", control, ("target", "delta"))
    for name in cameras:
        if name not in (known := [camera.name for camera in found.cameras]):
            raise UnknownName(f"camera of twin {found.name}", name, known)
    cell, made = make_cell(found), make_task(task or found.task, found)
    if not cell.actuators:
        raise WrongUse(f"twin {found.name!r} has nothing to control", expected="an actuator")
    limited = np.isfinite(cell.control_low) & np.isfinite(cell.control_high)
    if control == "delta" and not limited.all():
        raise WrongUse(f"twin {found.name!r} has actuators without limits", remedy='use control="target"')
    if reward == "dense" and not isinstance(made, RewardedTask):
        raise WrongUse(f"task {task or found.task!r} has no dense reward", remedy='use reward="sparse"')
    longest = round(made.time_limit_s * found.control_hz)
    steps = longest if max_episode_steps is None else min(longest, max_episode_steps + 1)
    if steps < 2:
        raise WrongUse("an episode needs at least one step", got=max_episode_steps)
    varied = _load_randomization(randomization, found)
    arms = {frame: ArmPose(found, frame) for frame in poses}
    return Settings(cell, made, varied, tuple(cameras), reward, control, steps, engine, arms)


def _load_randomization(
    described: Randomization | Mapping[str, Any] | str | Path | None, twin: Twin
) -> Randomization:
    if described is None:
        return training_scenes(twin)
    if isinstance(described, Randomization):
        return described
    return load_randomization(described, twin)
