"""A reality: the hidden parameters of one stand-in, read from YAML by the server only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twinloop.errors import UnknownName, WrongUse
from twinloop.robots.standin.effects import (
    BLOCKS,
    Actuation,
    Contact,
    Environment,
    Human,
    Latency,
    Object,
    Sensing,
    Visual,
    bounds,
)
from twinloop.yaml_files import parse_yaml

FOLDER = "realities"


class Reality(BaseModel):
    """Everything that differs from the twin; `drift` maps BLOCK.KEY to its change per episode.

    `engine` simulates it. Without `tracks_objects`, a client gets no pose of object or target, as from most real cells. With `needs_person`, the robot does not
    know which trials succeed either.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = "unnamed"
    description: str = ""
    twin: str = "franka_pick_place"
    engine: Literal["bullet", "physx"] = "bullet"
    seed: int = Field(0, ge=0, lt=2**63)
    needs_person: bool = False
    tracks_objects: bool = True
    contact: Contact = Contact()
    object: Object = Object()
    actuation: Actuation = Actuation()
    latency: Latency = Latency()
    sensing: Sensing = Sensing()
    visual: Visual = Visual()
    environment: Environment = Environment()
    human: Human = Human()
    drift: Mapping[str, float] = Field(default_factory=dict)

    @property
    def warms_up(self) -> bool:
        """Whether an episode depends on how long the robot has worked before."""
        return self.actuation.cold_friction_scale != 1.0 or "actuation.cold_friction_scale" in self.drift

    def at_episode(self, number: int) -> Reality:
        """The reality as it is at one episode, drift included."""
        changes: dict[str, dict[str, float]] = {}
        for path, rate in self.drift.items():
            block, key = path.split(".")
            part = BLOCKS[block].model_fields[key]
            low, high = bounds(part)
            start = getattr(getattr(self, block), key)
            moved = min(max(float(start) + rate * number, low), high)
            changes.setdefault(block, {})[key] = round(moved) if part.annotation is int else moved
        return self.model_copy(
            update={block: getattr(self, block).model_copy(update=keys) for block, keys in changes.items()}
        )


def list_realities() -> list[str]:
    """Names of the built-in realities, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml")
    )


def load_reality(name_or_file: str | Path) -> Reality:
    """Load a built-in reality by name, or one from a YAML file."""
    text = str(name_or_file)
    if text in list_realities():
        return parse_reality((_shipped() / f"{text}.yaml").read_text(), text)
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        raise UnknownName("reality", text, list_realities(), "or give a file: standin:my_cell.yaml")
    try:
        return parse_reality(path.read_bytes(), path.stem)
    except OSError as error:
        raise WrongUse(f"{path} cannot be read ({error.strerror})", expected="a reality as YAML") from error


def parse_reality(text: str | bytes, name: str = "unnamed") -> Reality:
    """Parse a reality from YAML text; an error names the key, its value and the most similar known key."""
    try:
        content: Any = parse_yaml(text)
    except yaml.YAMLError as error:
        raise WrongUse(f"reality {name!r} is not YAML ({error})") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise WrongUse(
            f"reality {name!r} is not a table", got=type(content).__name__, expected="blocks of effects"
        )
    _check_names(content, name)
    try:
        reality = Reality.model_validate({"name": name} | content)
    except ValidationError as error:
        raise _explained(error, name) from error
    _check_drift(reality)
    return reality


def _check_names(content: Mapping[Any, Any], name: str) -> None:
    for key, block in content.items():
        if str(key) not in Reality.model_fields:
            raise UnknownName(f"block of reality {name!r}", str(key), Reality.model_fields)
        if key in BLOCKS:
            if not isinstance(block, dict):
                raise WrongUse(f"block {key!r} of reality {name!r} is empty or not a table", got=repr(block))
            for effect in block:
                if str(effect) not in BLOCKS[key].model_fields:
                    raise UnknownName(f"effect in block {key!r}", str(effect), BLOCKS[key].model_fields)


def _check_drift(reality: Reality) -> None:
    known = [f"{block}.{key}" for block, kind in BLOCKS.items() for key in kind.model_fields]
    for path in reality.drift:
        if path not in known:
            raise UnknownName("effect that could drift", path, known)
        block, key = path.split(".")
        if getattr(getattr(reality, block), key) is None:
            raise WrongUse(
                f"{path} drifts but has no initial value", remedy=f"set it: {block}: {{{key}: ...}}"
            )


def _explained(error: ValidationError, name: str) -> WrongUse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    block, _, key = where.partition(".")
    expected = first["msg"]
    part = BLOCKS[block].model_fields.get(key) if block in BLOCKS else None
    if part is not None:
        low, high = bounds(part)
        extra: Any = part.json_schema_extra
        whole = part.annotation is int
        expected = f"{'a whole number' if whole else 'a number'} in {low:g} .. {high:g} {extra['unit']}"
    return WrongUse(f"{where} of reality {name!r} is invalid", got=repr(first["input"]), expected=expected)


def _shipped() -> Any:
    return files("twinloop.robots") / FOLDER
