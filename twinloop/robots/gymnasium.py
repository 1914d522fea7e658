"""A Gymnasium environment in the place of a robot: `gym:ENV_ID`, or `gym:MODULE:ENV_ID` where a module registers it.

Its observation must be boxes: a dictionary of vectors and images under any names, or one vector. LeRobot's `agent_pos`,
`environment_state` and `pixels` get the names that they have in datasets, other keys `observation.KEY`. An environment says
whether it succeeded by `info["is_success"]`, and at which rate it is controlled by `metadata["render_fps"]`. Twins, whose
`schema` has names and units, keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array, Camera, Outcome, Schema, Signal
from twinloop.errors import MissingExtra, RobotError, RobotGone, WrongUse
from twinloop.robots.protocol import ROBOTS, Description, Limits, Observation, validate_action

_NAMES = {"agent_pos": "observation.state", "environment_state": "observation.environment_state"}
_IMAGES = ("observation.images.", "pixels.")


@ROBOTS.register("gym")
class GymnasiumRobot:
    """The environment with the id `environment`, with keyword `arguments`; in lockstep, in this process."""

    def __init__(self, environment: str, **arguments: Any) -> None:
        own = environment.startswith("twinloop/")
        self._id = f"twinloop.environments:{environment}" if own else environment
        self._name, self._arguments = environment, arguments
        self._environment: Any = None
        self._description: Description | None = None
        self._keys: dict[str, str] = {}
        self._seen: Mapping[str, Any] = {}
        self._outcome, self._over, self._says, self._steps = Outcome(), True, False, 0

    @property
    def description(self) -> Description:
        """What the environment's spaces say."""
        if self._description is None:
            raise RobotGone("not connected")
        return self._description

    def connect(self) -> None:
        """Make the environment."""
        try:
            import gymnasium
        except ModuleNotFoundError as error:
            raise MissingExtra("an environment", "gymnasium", "gym") from error
        try:
            self._environment = gymnasium.make(self._id, **self._arguments)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise WrongUse(
                f"Gymnasium cannot make {self._name!r}",
                got=error,
                remedy="gym:MODULE:ENV_ID imports MODULE first",
            ) from error
        self._description = self._describe(gymnasium.__version__)
        self.prepare(0)

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest observation."""
        description = self.description
        signals = {
            signal.name: np.asarray(self._seen[self._keys[signal.name]], np.float32)
            for signal in description.signals
        }
        frames = {name: np.asarray(self._seen[self._keys[name]]) for name in cameras}
        return Observation(self._steps / description.rate_hz, signals, frames)

    def act(self, action: Array) -> Array:
        """One step of the environment; nothing happens in an episode that is over."""
        limits = self.description.limits
        sent = np.clip(validate_action(self.description, action), limits.low, limits.high)
        self._steps += 1
        if self._over:
            return sent
        space = self._environment.action_space
        seen, _, terminated, truncated, info = self._environment.step(sent.astype(space.dtype))
        self._seen, self._over = _flatten(seen), bool(terminated or truncated)
        success = info.get("is_success", info.get("success"))
        self._says = success is not None
        if success is not None and (success or self._over):
            failure = (
                None
                if success
                else str(info.get("failure") or ("not_solved" if terminated else "time_limit"))
            )
            self._outcome = Outcome(bool(success), failure)
        return sent

    def prepare(self, number: int) -> None:
        """Begin the episode of the seed `number`."""
        seen, _ = self._environment.reset(seed=number)
        self._seen, self._outcome, self._over = _flatten(seen), Outcome(), False

    def steer(self) -> Array:
        """Nobody steers an environment."""
        raise RobotError(
            "an environment has no operator", got="steer", remedy="record with an expert or a policy"
        )

    def judge(self, over: bool = False) -> Outcome:
        """Whether the environment says that its task was solved; unknown where it never says."""
        if over and self._says and self._outcome.success is None:
            return Outcome(False, "time_limit")
        return self._outcome

    def close(self) -> None:
        """Close the environment."""
        if self._environment is not None:
            self._environment.close()
        self._environment = self._description = None

    def _describe(self, version: str) -> Description:
        environment = self._environment
        schema: Schema | None = getattr(environment.unwrapped, "schema", None)
        spaces = _flatten(environment.observation_space)
        self._keys = {_name(key): key for key in spaces}
        signals, cameras = [], []
        for name, key in self._keys.items():
            shape = spaces[key].shape
            if shape is None or len(shape) not in (1, 3):
                raise _unfit(self._name, key, spaces[key], "a box: a vector, or an image")
            if len(shape) == 3:
                cameras.append(Camera(name, shape[0], shape[1]))
            else:
                signals.append(_declared(schema, name) or Signal(name, shape, ("1",)))
        space = environment.action_space
        if space.shape is None or len(space.shape) != 1:
            raise _unfit(self._name, "action", space, "a box with one axis")
        rate = schema.rate_hz if schema else environment.metadata.get("render_fps")
        if not rate:
            raise RobotError(
                f"{self._name} does not say its control rate", expected='metadata["render_fps"], in Hz'
            )
        limit = environment.spec.max_episode_steps
        steps = limit or getattr(environment.unwrapped, "_max_episode_steps", None)
        low, high = (tuple(map(float, ends)) for ends in (space.low, space.high))
        return Description(
            robot_type=schema.robot_type if schema else self._name,
            serial=f"gym-{self._name}",
            signals=tuple(signals),
            action=_declared(schema, "action") or Signal("action", space.shape, ("1",)),
            limits=Limits(low, high, (np.inf,) * space.shape[0]),
            rate_hz=float(rate),
            cameras=tuple(cameras),
            twin=getattr(environment.unwrapped, "twin_name", None),
            time_limit_s=None if steps is None else (steps + 1) / float(rate),
            standin=True,
            lockstep=True,
            independent_episodes=True,
            engine="gymnasium",
            software={"gymnasium": version},
        )


def _flatten(parts: Any, before: str = "") -> dict[str, Any]:
    """A dictionary in dictionaries, of spaces or of arrays, with keys joined by dots; one vector is `agent_pos`."""
    if not hasattr(parts, "keys"):
        return {before or "agent_pos": parts}
    found: dict[str, Any] = {}
    for key in parts.keys():  # noqa: SIM118  # spaces have keys, and are not mappings
        found |= _flatten(parts[key], f"{before}.{key}" if before else str(key))
    return found


def _name(key: str) -> str:
    """The name in datasets: of a signal, or a camera's own."""
    for start in _IMAGES:
        if key.startswith(start):
            return key.removeprefix(start)
    if key.startswith("observation.") or key == "pixels":
        return key
    return _NAMES.get(key, f"observation.{key}")


def _declared(schema: Schema | None, name: str) -> Signal | None:
    if schema is None or all(signal.name != name for signal in schema.signals):
        return None
    return schema.signal(name)


def _unfit(environment: str, key: str, space: object, expected: str) -> RobotError:
    return RobotError(f"{environment}: {key} cannot be used", got=space, expected=expected)
