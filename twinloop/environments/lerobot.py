"""One twin with the names that LeRobot's evaluation expects; what `twinloop twin export --to lerobot-env` registers.

Observations are `agent_pos` (`observation.state` of our datasets), `environment_state` and `pixels` by camera: all that LeRobot
0.4 hands to a policy. LeRobot itself is not imported.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from twinloop.environments.single import TwinEnv
from twinloop.episode import Array

STATE, ENVIRONMENT = "observation.state", "observation.environment_state"


class LerobotEnv(gymnasium.Env[dict[str, Any], Array]):
    """A `TwinEnv`; keyword arguments are the same."""

    def __init__(self, twin: Any, **arguments: Any) -> None:
        self._inside = TwinEnv(twin, **arguments)
        self.metadata, self.render_mode = self._inside.metadata, self._inside.render_mode
        self._cameras = {camera.name: camera.key for camera in self._inside.schema.cameras}
        self._max_episode_steps = self._inside.settings.steps - 1
        self.task_description = self.task = self._inside.task
        self.action_space = self._inside.action_space
        spaces: Any = self._inside.observation_space
        self.observation_space = gymnasium.spaces.Dict(self._named(spaces))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the next episode, or with a seed the first one of that seed."""
        super().reset(seed=seed)
        observation, info = self._inside.reset(seed=seed, options=options)
        return self._named(observation), info

    def step(self, action: Array) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Simulate one control step."""
        observation, reward, terminated, truncated, info = self._inside.step(action)
        return self._named(observation), reward, terminated, truncated, info

    def render(self) -> Any:
        """What the first camera shows."""
        return self._inside.render()

    def close(self) -> None:
        """Free what the renderer holds."""
        self._inside.close()

    def _named(self, parts: Any) -> dict[str, Any]:
        """Observations, or their spaces, under LeRobot's names."""
        named: dict[str, Any] = {"agent_pos": parts[STATE]}
        if ENVIRONMENT in parts.keys():  # noqa: SIM118  # a space has keys, but no `in` for them
            named["environment_state"] = parts[ENVIRONMENT]
        pixels = {name: parts[key] for name, key in self._cameras.items()}
        if pixels and isinstance(parts, gymnasium.spaces.Dict):
            return named | {"pixels": gymnasium.spaces.Dict(pixels)}
        return named | ({"pixels": pixels} if pixels else {})
