"""A twin as a benchmark of vla-eval; what `twinloop twin export --to vla-eval` names in its config.

An observation has `images` by camera, `state` (the actuators' positions), `task_description`, and the other observed signals
under their own names without `observation.`. `actions` are the actuators' position targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from vla_eval.benchmarks.base import StepBenchmark, StepResult
from vla_eval.render import configure_mujoco_render
from vla_eval.specs import DimSpec

from twinloop.environments.episodes import OBSERVED
from twinloop.environments.single import TwinEnv

STATE = "observation.state"


class TwinBenchmark(StepBenchmark):  # type: ignore[misc]  # vla-eval is installed where it is used only
    """Episode n has the scene n of `evaluate(..., seed=seed)`.

    Args:
        twin: Name or folder of the twin.
        cameras: Cameras whose images are sent.
        seed: Random seed for the scenes.
        settings: Other keyword arguments of the environment, such as `randomization`.
    """

    render_backends: ClassVar[frozenset[str]] = frozenset({"cpu", "gpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        """Choose how cameras are rendered, before MuJoCo is imported."""
        chosen: dict[str, str] = configure_mujoco_render(mode)
        return chosen

    def __init__(
        self,
        twin: str,
        cameras: Sequence[str] = (),
        seed: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._environment = TwinEnv(twin, cameras=tuple(cameras), **(settings or {}))
        self._seed, self._next = seed, 0
        schema = self._environment.schema
        self._cameras = {camera.name: camera.key for camera in schema.cameras}
        self._others = [
            signal.name
            for signal in schema.signals
            if signal.name.startswith(OBSERVED) and signal.name != STATE
        ]

    def get_tasks(self) -> list[dict[str, Any]]:
        """The twin's one task."""
        name = self._environment.settings.cell.twin.name
        return [{"name": name, "suite": "twinloop", "instruction": self._environment.task}]

    def reset(self, task: dict[str, Any]) -> Any:
        """Begin the episode whose number vla-eval gives."""
        number = int(task.get("episode_idx", self._next))
        if number != self._next or number == 0:
            observation = self._begin(number)
        else:
            observation = self._environment.reset()[0]
        self._next = number + 1
        return observation

    def _begin(self, number: int) -> Any:
        """The episode `number` of the seed, whichever came before."""
        return self._environment.reset(seed=self._seed, options={"episode": number})[0]

    def step(self, action: dict[str, Any]) -> StepResult:
        """Simulate one control step."""
        targets = np.asarray(action["actions"], dtype=np.float32).reshape(-1)
        observation, reward, terminated, truncated, info = self._environment.step(targets)
        return StepResult(observation, reward, terminated or truncated, info)

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> dict[str, Any]:
        """What a model server gets."""
        return {
            "images": {name: raw_obs[key] for name, key in self._cameras.items()},
            "state": raw_obs[STATE],
            "task_description": self._environment.task,
            **{name.removeprefix(OBSERVED): raw_obs[name] for name in self._others},
        }

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        """Whether the task was solved."""
        return {"success": bool(step_result.info.get("is_success", False))}

    def get_metadata(self) -> dict[str, Any]:
        """The length of an episode."""
        return {"max_steps": self._environment.settings.steps - 1}

    def get_action_spec(self) -> dict[str, DimSpec]:
        """Position targets of all actuators."""
        cell = self._environment.settings.cell
        return {"joints": DimSpec("joints", len(cell.actuators), "absolute_joint_position")}

    def get_observation_spec(self) -> dict[str, DimSpec]:
        """Positions of all actuators, images and words."""
        cell = self._environment.settings.cell
        images = {name: DimSpec(name, 0, "rgb_hwc_uint8") for name in self._cameras}
        state = DimSpec("state", len(cell.actuators), "absolute_joint_position")
        return {"state": state, "language": DimSpec("language", 0, "language"), **images}

    def get_hold_action(self, last_action: dict[str, Any] | None) -> dict[str, Any]:
        """Targets are absolute: stay at the last ones, or where the arm is."""
        if last_action is None:
            return {"actions": self._last_result.obs[STATE]}
        return last_action

    def render(self) -> Any:
        """Nothing: images are in the observations."""
        return None

    def cleanup(self) -> None:
        """Free what the renderer holds."""
        self._environment.close()
