"""What recording costs, and what fraction of lost points it recovers: a small YAML file with defaults for everything."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twinloop.errors import UnknownName, WrongUse
from twinloop.yaml_files import read_yaml


class Costs(BaseModel):
    """Minutes of an operator's time, unless another unit is named.

    `recovers` is the fraction of lost points that data of the right kind recovers, pessimistic and optimistic; `plan review` compares
    it with evaluations. `spacing` is how far apart two conditions may be and still teach the same, by unit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_setup: float = Field(default=15.0, ge=0.0)
    demonstration: float = Field(default=1.5, gt=0.0)
    trial: float = Field(default=1.0, gt=0.0)
    excitation_run: float = Field(default=1.0, gt=0.0)
    contact_run: float = Field(default=1.0, gt=0.0)
    sensor_log: float = Field(default=2.0, gt=0.0)
    participant: float = Field(default=20.0, gt=0.0)
    light_change: float = Field(default=5.0, ge=0.0)
    object_change: float = Field(default=2.0, ge=0.0)
    simulation_setup: float = Field(default=20.0, ge=0.0)
    simulated_episodes_per_minute: float = Field(default=300.0, gt=0.0)
    longest_session_hours: float = Field(default=4.0, gt=0.0)
    recovers: tuple[float, float] = (0.4, 0.9)
    spacing: dict[str, float] = {"m": 0.03, "rad": 0.25, "deg": 15.0}
    levels: int = Field(default=4, ge=1)
    most_demonstrations: int = Field(default=60, ge=1)


def load_costs(path: str | Path | None = None) -> Costs:
    """Read a cost file; a cost that it does not set keeps its default."""
    if path is None:
        return Costs()
    file = Path(path)
    try:
        values = read_yaml(file) or {}
    except OSError as error:
        raise WrongUse(f"cannot read {file}", got=error.strerror) from error
    except yaml.YAMLError as error:
        raise WrongUse(f"{file} is not YAML", got=str(error).splitlines()[0]) from error
    if not isinstance(values, dict):
        raise WrongUse(f"{file} is no cost file", got=type(values).__name__, expected="a mapping")
    try:
        costs = Costs.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UnknownName(f"cost in {file}", name, Costs.model_fields) from error
        raise WrongUse(f"{file}: {name}: {first['msg']}", got=repr(first["input"])) from error
    low, high = costs.recovers
    if not 0.0 <= low <= high <= 1.0:
        raise WrongUse(
            f"{file}: recovers", got=list(costs.recovers), expected="two fractions, 0 <= low <= high <= 1"
        )
    return costs


def costs_text() -> str:
    """The defaults as YAML, to start a file of one's own from."""
    return yaml.safe_dump(Costs().model_dump(mode="json"), sort_keys=False, default_flow_style=None)
