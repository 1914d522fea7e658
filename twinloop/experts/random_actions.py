"""Random commands near the table: for benchmarks and for data that covers contact no expert would make."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts.motion import ToolMotion
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading
from twinloop.imperfect.noise import draw_uniform

SPREAD_M = 0.06
HOLD_S = 0.5


@EXPERTS.register("random")
class RandomExpert:
    """Moves the tool to random places around the object, opening and closing the gripper at random."""

    actor: Actor = "expert"

    def __init__(self, setup: Setup) -> None:
        cell, count = setup.cell, setup.count
        self._gripper, self._cell = cell.gripper, cell
        self._motion = ToolMotion(cell, count)
        self._hold = max(1, round(HOLD_S / cell.dt_s))
        holds = -(-setup.steps // self._hold)
        self._uniform = np.zeros((count, holds, 5))
        self._rows = np.arange(count)

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Draw the places of the whole episode."""
        self._motion.restart(ids, reading.position[ids][:, self._motion.arm.actuators])
        block = draw_uniform(seeds, "random", self._uniform.shape[1], (5,))
        self._uniform[ids] = block.swapaxes(0, 1)

    def act(self, reading: Reading, step: Array) -> Array:
        """Towards the present random place, at most 1 cm per step."""
        hold = np.minimum(step // self._hold, self._uniform.shape[1] - 1)
        uniform = self._uniform[self._rows, hold]
        goal = reading.object_position + SPREAD_M * (2.0 * uniform[:, :3] - 1.0)
        goal[:, 2] = np.maximum(goal[:, 2], reading.target_position[:, 2] + 0.01)
        now = self._motion.pose.place
        place = now + np.clip(goal - now, -0.01, 0.01)
        yaw = self._motion.yaw + np.clip(3.0 * (uniform[:, 3] - 0.5) - self._motion.yaw, -0.03, 0.03)
        commands = np.empty((len(step), len(self._cell.actuators)))
        commands[:, self._motion.arm.actuators] = self._motion.track(place, yaw)
        if self._gripper is not None:
            low, high = self._cell.control_low[self._gripper], self._cell.control_high[self._gripper]
            commands[:, self._gripper] = np.where(uniform[:, 4] < 0.5, low, high)
        return commands
