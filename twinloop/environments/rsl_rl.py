"""Twins as rsl_rl's `VecEnv`: observation groups in a TensorDict, on any device.

    environment = RslRlVecEnv("twinloop/franka_reach-v0", num_envs=64, control="delta", reward="dense")
    runner = OnPolicyRunner(environment, {..., "obs_groups": {"actor": ["policy"], "critic": ["policy"]}})

The group `policy` holds the observed signals one after the other; each camera is a group of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from twinloop.environments.vector import TwinVectorEnv, open_same_step
from twinloop.episode import Array


class RslRlVecEnv(VecEnv):  # type: ignore[misc]  # rsl_rl is installed where it is used only
    """Many environments of one twin.

    Args:
        environment: Id of the environment, or a `TwinVectorEnv` whose autoreset mode is `SAME_STEP`.
        num_envs: Environments, for an id.
        device: Where the tensors are.
        seed: Seed of the first environment.
        arguments: Keyword arguments of the environment, for an id.
    """

    def __init__(
        self,
        environment: str | TwinVectorEnv,
        num_envs: int = 64,
        *,
        device: str = "cpu",
        seed: int = 0,
        **arguments: Any,
    ) -> None:
        self._inside = open_same_step(environment, num_envs, arguments)
        self.num_envs, self.device = self._inside.num_envs, device
        self.num_actions = self._inside.schema.signal("action").size
        self.max_episode_length = self._inside.max_episode_steps
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self.cfg = {"environment": str(self._inside.spec.id if self._inside.spec else self._inside)}
        self._signals = self._inside.observed
        self._cameras = {camera.name: camera.key for camera in self._inside.schema.cameras}
        self._observation, _ = self._inside.reset(seed=seed)

    def get_observations(self) -> TensorDict:
        """The present observations."""
        state = np.concatenate([self._observation[name] for name in self._signals], axis=1)
        groups = {"policy": self._tensor(state)}
        groups |= {name: self._tensor(self._observation[key]) for name, key in self._cameras.items()}
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Simulate one control step; where an episode ended the observation is the first one of the next."""
        done_by = self._inside.step(actions.detach().cpu().numpy())
        self._observation, reward, terminated, truncated, info = done_by
        done = terminated | truncated
        self.episode_length_buf += 1
        self.episode_length_buf[self._tensor(done)] = 0
        extras: dict[str, Any] = {"time_outs": self._tensor(truncated)}
        if done.any():
            won = info["final_info"]["is_success"][done]
            extras["log"] = {"/success": float(np.mean(won))}
        return self.get_observations(), self._tensor(reward.astype(np.float32)), self._tensor(done), extras

    def _tensor(self, values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
