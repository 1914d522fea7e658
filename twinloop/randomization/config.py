"""The generation config as a frozen value: what scene, what varies, how many episodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from twinloop.errors import InvalidRandomization, UnknownName, WrongUse
from twinloop.twins import Twin, find_twin, load_twin
from twinloop.twins.folder import is_folder
from twinloop.yaml_files import read_yaml


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SceneConfig(_Config):
    """Which robot does which task."""

    robot: str
    task: str


class RolloutConfig(_Config):
    """How many episodes: environments side by side, times episodes in each."""

    parallel_envs: int = Field(default=64, gt=0)
    episodes_per_env: int = Field(default=1, gt=0)


class GenerateConfig(_Config):
    """What `twinloop generate CONFIG` reads.

    The cell is given by `scene` (robot and task) or by `twin`: a name, or a folder relative to the config's own.
    `randomization` is read by `load_randomization`, which knows the twin's parameters; `default` is what usually varies
    in the twin, and `{from: default, ...}` that with changes.
    """

    name: str = "unnamed"
    scene: SceneConfig | None = None
    twin: str | None = None
    randomization: dict[str, Any] | Literal["default"] = Field(default_factory=dict)
    rollout: RolloutConfig = RolloutConfig()
    cameras: tuple[str, ...] = Field(default=(), strict=False)
    seed: int = 0

    @model_validator(mode="after")
    def _one_cell(self) -> GenerateConfig:
        if self.scene is not None and self.twin is not None:
            raise ValueError("a config has a scene or a twin, not both")
        return self

    @property
    def episodes(self) -> int:
        """Episodes in all."""
        return self.rollout.parallel_envs * self.rollout.episodes_per_env


def load_generate_config(source: str | Path | Mapping[str, Any]) -> GenerateConfig:
    """Read a config from a YAML file or from values already read."""
    where, values = _read(source)
    try:
        return GenerateConfig.model_validate({"name": where, **values} if where else dict(values))
    except ValidationError as error:
        raise _explained(where or "config", error) from error


def load_config_twin(config: GenerateConfig) -> Twin:
    """The twin a config is about."""
    if config.scene is not None:
        return find_twin(config.scene.robot, config.scene.task)
    if config.twin is not None:
        return load_twin(config.twin)
    raise InvalidRandomization(
        f"{config.name} does not say which cell it is for",
        expected="scene: {robot: ..., task: ...} or twin: NAME",
        remedy="add one of the two, or pass the twin",
    )


def _read(source: str | Path | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if isinstance(source, Mapping):
        return "", source
    path = Path(source)
    try:
        values = read_yaml(path)
    except OSError as error:
        raise WrongUse(f"cannot read {path}", got=error.strerror) from error
    except yaml.YAMLError as error:
        raise InvalidRandomization(f"{path} is not YAML", got=str(error)) from error
    if not isinstance(values, dict):
        raise InvalidRandomization(f"{path} is not a config", got=type(values).__name__, expected="a mapping")
    twin = values.get("twin")
    if isinstance(twin, str) and is_folder(path.parent / twin):
        values["twin"] = str(path.parent / twin)
    return path.stem, values


_PARTS: dict[str, type[BaseModel]] = {"scene": SceneConfig, "rollout": RolloutConfig}


def _explained(where: str, error: ValidationError) -> InvalidRandomization | UnknownName:
    """The first complaint, in our words."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        owner = _PARTS.get(path[0], GenerateConfig) if len(path) > 1 else GenerateConfig
        return UnknownName(f"key in {'.'.join([where, *path[:-1]])}", path[-1], owner.model_fields)
    if path[:1] == ["randomization"]:
        return InvalidRandomization(
            f"{where}: cannot read 'randomization'",
            got=repr(first["input"]),
            expected="parameters and how they vary, or the word default",
        )
    return InvalidRandomization(
        f"{where}: {'.'.join(path) or 'config'}: {first['msg']}", got=repr(first["input"])
    )
