"""Options and arguments that several commands take, and how their texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from typer import Argument, Option

from twinloop.errors import UnknownName, WrongUse

TRACKING = "TWINLOOP_TRACKING"
"""Environment variable with the address of MLflow."""

Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]

DatasetFolder = Annotated[Path, Argument(metavar="DATASET", help="A dataset's folder.")]
EngineName = Annotated[
    str, Option("--engine", metavar="NAME", help="The physics engine: mujoco, bullet or physx.")
]
EpisodeName = Annotated[str, Argument(metavar="DATASET#NUMBER", help="The episode, for example sim-v1#12.")]
NewDataset = Annotated[Path, Option("--out", help="The new dataset.")]
RealData = Annotated[
    Path, Option("--real", metavar="DATASET", help="Real episodes, as ingested or recorded.")
]
SkipUnusable = Annotated[
    bool, Option("--skip-unusable", help="Skip and report unusable episodes instead of refusing the whole.")
]

EnvironmentUrl = Annotated[
    str | None,
    Option(
        "--env",
        metavar="gym:ENV_ID",
        help="A Gymnasium environment in the place of a robot; gym:MODULE:ENV_ID imports MODULE first.",
    ),
]
PolicyName = Annotated[
    str,
    Argument(
        metavar="POLICY",
        help="A policy's folder, name, alias or version in the registry, its address, or its interface map.",
    ),
]
PolicyNames = Annotated[
    list[str],
    Argument(metavar="POLICY...", help="Folders or names of policies, addresses, or interface maps."),
]
PolicyMap = Annotated[
    Path | None, Option("--map", metavar="FILE", help="The interface map of a policy given by its address.")
]
CompensateMs = Annotated[
    float | None,
    Option(
        help="Latency of the hardware that the execution of action chunks compensates; default: each policy's own."
    ),
]

TwinName = Annotated[str, Option("--twin", metavar="NAME|FOLDER", help="The robot's twin.")]
WorkspaceTwin = Annotated[
    str | None, Option(metavar="NAME|FOLDER", help="The robot's twin; default: the workspace's.")
]
PolicyTwin = Annotated[
    str | None, Option(metavar="NAME|FOLDER", help="Evaluate in this twin; default: the policy's own.")
]
SceneConfig = Annotated[
    Path | None, Option(help="A generation config: what varies in the twin; default: the training scenes.")
]
ParameterNames = Annotated[
    str, Option(metavar="NAME,...", help="Parameters of the twin; `twinloop twin show` lists them.")
]

RobotUrl = Annotated[
    str,
    Option(
        help="standin:NAME|FILE.yaml, python:FILE.py, ros2:CONFIG.yaml, lerobot:CONFIG.yaml, unix:PATH, tcp:HOST:PORT, or a plug-in's scheme."
    ),
]
WorkspaceFolder = Annotated[Path, Option("--workspace", help="The workspace, or any folder inside it.")]
Plot = Annotated[Path | None, Option(metavar="FILE.png", help="Also write a plot.")]
Threads = Annotated[int, Option(help="Simulation threads; 0: all cores.")]

Config = TypeVar("Config")


def split_names(text: str | None) -> list[str]:
    """Split NAME,NAME,... into names; an empty text has none."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def split_pairs(entries: Sequence[str] | None, option: str) -> dict[str, str]:
    """Split NAME=VALUE entries of a repeatable option."""
    pairs = {}
    for entry in entries or ():
        name, sign, value = entry.partition("=")
        if not (name and sign and value):
            raise WrongUse(f"cannot read {option}", got=entry, expected="NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def split_episode(text: str) -> tuple[str, int]:
    """Split DATASET#NUMBER into the dataset and the episode number."""
    folder, _, number = text.rpartition("#")
    if not folder or not number.lstrip("-").isdigit():
        raise WrongUse("cannot read the episode", got=text, expected="DATASET#NUMBER, for example sim-v1#12")
    return folder, int(number)


def make_config(kind: type[Config], values: dict[str, Any], settings: Sequence[str] | None) -> Config:
    """Make a config from options and the NAME=VALUE settings of `--set`, which are YAML of the field's type."""
    import yaml

    from twinloop.yaml_files import parse_yaml

    known: dict[str, Any] = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    for name, text in split_pairs(settings, "--set").items():
        if name not in known:
            raise UnknownName(f"field of {kind.__name__}", name, known)
        default = known[name]
        try:
            value = parse_yaml(text)
        except yaml.YAMLError as error:
            raise WrongUse("cannot read --set", got=f"{name}={text}", expected="NAME=VALUE") from error
        if isinstance(default, tuple) and isinstance(value, list):
            value = tuple(value)
        if isinstance(default, float) and isinstance(value, int | str):
            with suppress(ValueError):  # YAML reads 1e-3 as text
                value = float(value)
        if default is not None and type(value) is not type(default):
            raise WrongUse(f"{name} cannot be this", got=text, expected=f"such as {default}")
        values[name] = value
    return kind(**values)
