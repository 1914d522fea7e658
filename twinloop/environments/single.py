"""One twin as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from twinloop.environments.episodes import Episodes
from twinloop.environments.settings import make_settings
from twinloop.environments.spaces import make_action_space, make_observation_space
from twinloop.episode import Array, Schema
from twinloop.errors import WrongUse

Observation = dict[str, Array]


class TwinEnv(gymnasium.Env[Observation, Array]):
    """One environment; keyword arguments are those of `make_settings`, and `render_mode`.

    Episode n after `reset(seed=s)` has the scene n of `evaluate(..., seed=s)`; a reset without seed goes on counting.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, twin: str | Any, *, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = make_settings(twin, **settings)
        self.render_mode = render_mode
        cell = self.settings.cell
        self.metadata = {**self.metadata, "render_fps": round(cell.twin.control_hz)}
        self._filmed = find_filmed(cell.twin, render_mode)
        self._episodes = Episodes(self.settings, 1, filmed=self._filmed)
        self.observation_space = make_observation_space(self.settings)
        self.action_space = make_action_space(self.settings)
        self._nobody, self._everyone = np.zeros(1, dtype=bool), np.arange(1)
        self._over = True
        self._max_episode_steps = self.settings.steps - 1  # where LeRobot, and `gym:` addresses, look for it

    @property
    def schema(self) -> Schema:
        """Names, units and rate of observations and actions."""
        return self.settings.schema

    @property
    def twin_name(self) -> str:
        """The name of the twin."""
        return self.settings.cell.twin.name

    @property
    def task(self) -> str:
        """The task as an instruction."""
        return self.settings.task.text

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the next episode, or with a seed the first one of that seed; `options["episode"]` chooses another number."""
        super().reset(seed=seed)
        scenes = self._episodes.scenes
        number = (options or {}).get("episode")
        if number is not None and (not isinstance(number, int | np.integer) or number < 0):
            raise WrongUse('bad options["episode"]', got=repr(number), expected="a number from 0")
        if seed is None and scenes.number[0] < 0:
            seed = int(self.np_random.integers(2**31))
        if seed is not None:
            scenes.restart(self._everyone, np.array([seed]))
        if number is not None:
            scenes.number[0] = number - 1
        self._episodes.begin(self._everyone)
        self._over = False
        return self._observation(), self._info(False)

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulate one control step."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset first")
        done = self._episodes.step(np.asarray(action)[None], self._nobody)
        self._over = bool(done.over[0])
        info = self._info(bool(done.success[0]))
        if done.failure[0] is not None:
            info["failure"] = done.failure[0]
        reward = float(done.reward[0])
        return self._observation(), reward, bool(done.terminated[0]), bool(done.truncated[0]), info

    def render(self) -> Array | None:
        """What the first camera shows, with `render_mode="rgb_array"`."""
        return self._episodes.frames(self._filmed[0])[0] if self._filmed else None

    def close(self) -> None:
        """Free what the renderer holds."""
        self._episodes.close()

    def _observation(self) -> Observation:
        return {name: values[0].copy() for name, values in self._episodes.observation.items()}

    def _info(self, success: bool) -> dict[str, Any]:
        episodes, scenes = self._episodes, self._episodes.scenes
        return {
            "is_success": success,
            "phase": str(episodes.phases[episodes.phase[0]]),
            "draw": dict(episodes.draws[0]),
            "scene": {"seed": int(scenes.seed[0]), "number": int(scenes.number[0])},
        }


def find_filmed(twin: Any, render_mode: str | None) -> tuple[str, ...]:
    """The camera that `render` looks through: the twin's first; none without a render mode."""
    if render_mode is None:
        return ()
    if render_mode != "rgb_array":
        raise WrongUse("unknown render mode", got=render_mode, expected="rgb_array")
    if not twin.cameras:
        raise WrongUse(f"twin {twin.name!r} has no camera to render", remedy="leave out render_mode")
    return (twin.cameras[0].name,)
