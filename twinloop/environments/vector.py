"""Many environments of one twin, stepped together, as a Gymnasium vector environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from twinloop.environments.episodes import OBSERVED, Episodes, Transition
from twinloop.environments.settings import make_settings
from twinloop.environments.single import find_filmed
from twinloop.environments.spaces import make_action_space, make_observation_space
from twinloop.episode import Array, Schema
from twinloop.errors import WrongUse

Observation = dict[str, Array]


class TwinVectorEnv(VectorEnv[Observation, Array, Array]):
    """`num_envs` environments; other keyword arguments are those of `make_settings`, and:

    - `autoreset_mode`: when an episode that ended gives way to the next one, see Gymnasium's `AutoresetMode`.
    - `threads`: simulation threads, 0 for as many as there are cores; results do not depend on it.
    - `render_mode`: `rgb_array`, or none.

    With `reset(seed=s)` environment i has the seed s + i, and its episode n is the scene n of `evaluate(..., seed=s + i)`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        twin: str | Any,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 0,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.settings = make_settings(twin, **settings)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        cell = self.settings.cell
        fps = round(cell.twin.control_hz)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode, "render_fps": fps}
        self._filmed = find_filmed(cell.twin, render_mode)
        self._episodes = Episodes(self.settings, num_envs, threads, self._filmed)
        self.single_observation_space = make_observation_space(self.settings)
        self.single_action_space = make_action_space(self.settings)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._over = np.ones(num_envs, dtype=bool)
        self._nobody = np.zeros(num_envs, dtype=bool)
        self._draw: dict[str, Array] = {}

    @property
    def schema(self) -> Schema:
        """Names, units and rate of observations and actions."""
        return self.settings.schema

    @property
    def observed(self) -> list[str]:
        """The observed signals, in the schema's order."""
        return [signal.name for signal in self.schema.signals if signal.name.startswith(OBSERVED)]

    @property
    def max_episode_steps(self) -> int:
        """Actions until an episode is truncated."""
        return self.settings.steps - 1

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the next episode everywhere, or where `options["reset_mask"]` (num_envs,) bool says so."""
        ids = np.flatnonzero(self._reset_mask(options))
        self._seed(ids, seed)
        self._episodes.begin(ids)
        self._over[ids] = False
        self._note_draws(ids)
        return self._observation(), self._info(self._nobody)

    def step(self, actions: Array) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """Simulate one control step everywhere."""
        resets = self._nobody
        if self._over.any():
            if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                raise gymnasium.error.ResetNeeded(
                    f"the episodes of environments {np.flatnonzero(self._over).tolist()} are over: "
                    'reset them with options={"reset_mask": MASK} first'
                )
            resets = self._over
        done = self._episodes.step(actions, resets)
        if resets is not self._nobody:
            self._note_draws(np.flatnonzero(resets))
        self._over = done.over
        info = self._info(done.success)
        if self._over.any():
            info |= {"failure": done.failure, "_failure": done.failure != None}  # noqa: E711
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                info = self._begin_next(done, info)
        return self._observation(), done.reward, done.terminated, done.truncated, info

    def render(self) -> tuple[Array, ...] | None:
        """What the first camera shows in each environment, with `render_mode="rgb_array"`."""
        return tuple(self._episodes.frames(self._filmed[0])) if self._filmed else None

    def close_extras(self, **kwargs: Any) -> None:
        """Free what the renderer holds."""
        self._episodes.close()

    def _begin_next(self, done: Transition, last: dict[str, Any]) -> dict[str, Any]:
        """Begin the next episodes where they are over; the info with the last observations and infos."""
        over, ids = done.over, np.flatnonzero(done.over)
        final = np.full(self.num_envs, None, dtype=object)
        for row in ids.tolist():
            final[row] = {name: values[row].copy() for name, values in self._episodes.observation.items()}
        self._episodes.begin(ids)
        self._over = self._nobody
        self._note_draws(ids)
        final_info = _masked(last, over)
        return self._info(self._nobody) | {
            "final_obs": final,
            "_final_obs": over,
            "final_info": final_info,
            "_final_info": over,
        }

    def _seed(self, ids: Array, seed: int | list[int | None] | None) -> None:
        super().reset(seed=seed if isinstance(seed, int) else None)
        scenes = self._episodes.scenes
        if isinstance(seed, int | np.integer):
            scenes.restart(ids, int(seed) + ids)
            return
        given = [None] * self.num_envs if seed is None else list(seed)
        if len(given) != self.num_envs:
            raise WrongUse("one seed is needed for each environment", got=len(given), expected=self.num_envs)
        for row in ids.tolist():
            chosen = given[row]
            if chosen is None and scenes.number[row] < 0:
                chosen = int(self.np_random.integers(2**31))
            if chosen is not None:
                scenes.restart(np.array([row]), np.array([chosen]))

    def _reset_mask(self, options: dict[str, Any] | None) -> Array:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, dtype=bool)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise WrongUse(
                "bad reset_mask",
                got=f"{type(mask).__name__} of shape {np.shape(mask)}",
                expected=f"an array of {self.num_envs} bool",
            )
        if not mask.any():
            raise WrongUse("reset_mask resets no environment", expected="at least one True")
        if (self._episodes.scenes.number[~mask] < 0).any():
            raise WrongUse(
                "reset_mask leaves out environments that were never reset", remedy="reset all first"
            )
        return mask

    def _note_draws(self, ids: Array) -> None:
        """Keep the draws of all environments as arrays; a fresh one each time, for infos that were handed out."""
        draws = self._episodes.draws
        names = self.settings.randomization.names
        self._draw = {name: np.array([draw[name] for draw in draws]) for name in names if all(draws)}

    def _observation(self) -> Observation:
        return {name: values.copy() for name, values in self._episodes.observation.items()}

    def _info(self, success: Array) -> dict[str, Any]:
        scenes, episodes = self._episodes.scenes, self._episodes
        scene = {"seed": scenes.seed.copy(), "number": scenes.number.copy()}
        everyone = np.ones(self.num_envs, dtype=bool)
        info: dict[str, Any] = {
            "is_success": success.copy(),
            "phase": episodes.phases[episodes.phase],
            "draw": _with_masks(self._draw, everyone),
            "scene": _with_masks(scene, everyone),
        }
        return _with_masks(info, everyone)


def open_same_step(
    environment: str | TwinVectorEnv, num_envs: int, arguments: dict[str, Any]
) -> TwinVectorEnv:
    """The vector environment of an id, in which an episode gives way to the next within a step; or the one given."""
    made: Any = environment
    if isinstance(environment, str):
        mode = AutoresetMode.SAME_STEP
        made = gymnasium.make_vec(environment, num_envs=num_envs, autoreset_mode=mode, **arguments)
    if not isinstance(made, TwinVectorEnv):
        raise WrongUse("not an environment of a twin", got=type(made).__name__, expected="twinloop/...")
    if made.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise WrongUse("this trainer resets within a step", remedy="autoreset_mode=AutoresetMode.SAME_STEP")
    return made


def _with_masks(values: dict[str, Any], mask: Array) -> dict[str, Any]:
    """Gymnasium's convention: beside each key, `_key` (N,) bool says which environments have it."""
    return {**values, **{f"_{name}": mask for name in values}}


def _masked(info: dict[str, Any], mask: Array) -> dict[str, Any]:
    """An info of all environments as one of those in `mask` only."""
    return {
        name: (value & mask)
        if name.startswith("_")
        else _masked(value, mask)
        if isinstance(value, dict)
        else value
        for name, value in info.items()
    }
