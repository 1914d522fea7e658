"""Ground truth of the simulation at one control step, one row per environment."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.episode import Array


@dataclass(frozen=True)
class Touch:
    """Contact between two parts: whether (N,) bool, the force of the deepest point (N,) in N, its depth (N,) in m."""

    touching: Array
    force_n: Array
    depth_m: Array


@dataclass(frozen=True)
class Truth:
    """The state of N environments. Parts that the twin does not have are zeros.

    `position`, `velocity` and `effort` are per actuator, (N, actuators). The object's velocity is linear and angular,
    (N, 6). The tool's pose, the contacts and the sensors are those at the start of the last physics step, as MuJoCo
    computes them. `sensors` (N, channels) holds the axes of `Cell.sensors` one after the other; None where an engine
    does not compute them.
    """

    time_s: Array
    position: Array
    velocity: Array
    effort: Array
    tool_position: Array
    tool_matrix: Array
    object_position: Array
    object_quat: Array
    object_velocity: Array
    target_position: Array
    table_height_m: Array
    robot_object: Touch
    object_table: Touch
    robot_table: Touch
    sensors: Array | None = None
