"""Twins as Stable-Baselines3's `VecEnv`, which is not Gymnasium's: `Sb3VecEnv("twinloop/franka_reach-v0", num_envs=64)`.

Without cameras an observation is one vector, the signals one after the other; with cameras it is a dictionary of that vector,
`state`, and one image per camera, for `MultiInputPolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from twinloop.environments.spaces import make_image_space
from twinloop.environments.vector import TwinVectorEnv, open_same_step
from twinloop.episode import Array
from twinloop.errors import WrongUse

Indices = int | Sequence[int] | None


class Sb3VecEnv(VecEnv):  # type: ignore[misc]  # Stable-Baselines3 is installed where it is used only
    """Many environments of one twin.

    Args:
        environment: Id of the environment, or a `TwinVectorEnv` whose autoreset mode is `SAME_STEP`.
        num_envs: Environments, for an id.
        arguments: Keyword arguments of the environment, for an id.
    """

    def __init__(self, environment: str | TwinVectorEnv, num_envs: int = 64, **arguments: Any) -> None:
        self._inside = open_same_step(environment, num_envs, arguments)
        schema = self._inside.schema
        self._signals = self._inside.observed
        self._cameras = {camera.name: camera.key for camera in schema.cameras}
        size = sum(schema.signal(name).size for name in self._signals)
        space: gymnasium.Space[Any] = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        if self._cameras:
            images = {camera.name: make_image_space(camera) for camera in schema.cameras}
            space = gymnasium.spaces.Dict({"state": space, **images})
        self.render_mode = self._inside.render_mode
        super().__init__(self._inside.num_envs, space, self._inside.single_action_space)
        self._actions: Array = np.zeros((self.num_envs, schema.signal("action").size), np.float32)

    def reset(self) -> Any:
        """Begin an episode everywhere, with the seeds given to `seed`, if any."""
        seeds = None if self._seeds[0] is None else list(self._seeds)
        observation, info = self._inside.reset(seed=seeds)
        self.reset_infos = [_row(info, row) for row in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return self._convert(observation)

    def step_async(self, actions: Array) -> None:
        """Take the actions (num_envs, actuators) of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Array, Array, list[dict[str, Any]]]:
        """Simulate the step; where an episode ended the observation is the first one of the next."""
        observation, reward, terminated, truncated, info = self._inside.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(done).tolist():
            last = {name: values[None] for name, values in info["final_obs"][row].items()}
            infos[row] = _row(info["final_info"], row) | {
                "terminal_observation": _first(self._convert(last)),
                "TimeLimit.truncated": bool(truncated[row]),
            }
            self.reset_infos[row] = _row({"draw": info["draw"], "scene": info["scene"]}, row)
        return self._convert(observation), reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Free what the renderer holds."""
        self._inside.close()

    def get_images(self) -> Sequence[Array | None]:
        """What the first camera shows in each environment."""
        return self._inside.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The attribute of the environments, which they share."""
        return [getattr(self._inside, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Refused: environments of one twin share everything."""
        raise WrongUse(f"environments of a twin cannot be changed: {attr_name}", remedy="make another one")

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """Refused: there are no environments inside that could be called one by one."""
        raise WrongUse("environments of a twin are stepped together", got=method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Indices = None) -> list[bool]:
        """None is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _convert(self, observation: dict[str, Array]) -> Any:
        state = np.concatenate([observation[name] for name in self._signals], axis=1)
        if not self._cameras:
            return state
        return {"state": state, **{name: observation[key] for name, key in self._cameras.items()}}


def _row(info: dict[str, Any], row: int) -> dict[str, Any]:
    """The info of one environment."""
    found: dict[str, Any] = {}
    for name, value in info.items():
        if name.startswith("_") or not info.get(f"_{name}", np.ones(row + 1, bool))[row]:
            continue
        found[name] = _row(value, row) if isinstance(value, dict) else _plain(value[row])
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _first(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: values[0] for name, values in observation.items()}
    return observation[0]
